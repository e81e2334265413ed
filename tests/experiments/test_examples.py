"""The example scripts run as they are and say what they promise."""

import pathlib
import runpy

import jax
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "experiments" / "examples"
WORDS = {
    "bol_in_your_scan": "frozen with",
    "sweep_by_vmap": "No prediction depends on C",
    "custom_prox": "least weight 0.000",
    "certificate_for_your_mirror_map": ": holds",
}


def test_each_script_has_its_words():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(WORDS)


@pytest.mark.parametrize("name", WORDS)
def test_example_runs(name, capsys):
    with (
        jax.enable_x64(False),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        module = runpy.run_path(str(FOLDER / f"{name}.py"))
        module["main"]()
    out = capsys.readouterr().out
    assert WORDS[name] in out
    assert "NOT HOLD" not in out
