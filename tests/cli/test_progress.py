import sys

import pytest

from lowrank_jax.cli import output

ENTRY = {"sentences": 8936, "mistakes": 1798, "loss": 42728.6, "seconds": 4.0}
TEXT = "1,798 sentences with a mistake, loss 42728.6, 2,234 sentences/s"


def test_a_pass_is_described_in_few_words():
    assert output.describe_pass(ENTRY) == TEXT
    entry = {"sentences": 10, "objective": 5.0, "converged": True, "seconds": 1.0}
    text = "objective 5, converged, 10 sentences/s"
    assert output.describe_pass(entry) == text


def test_without_a_terminal_there_is_one_line_a_pass(capsys):
    with output.Progress() as shown:
        shown.begin(2, 10)
        shown.show(ENTRY)
        shown.show(ENTRY | {"seconds": 2.0})
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"pass 3/10: {TEXT}, 4.0 s, 28 s left"
    assert second.startswith("pass 4/10: ") and second.endswith("2.0 s, 18 s left")


@pytest.mark.parametrize("has_rich", [True, False])
def test_on_a_terminal_it_is_live_if_rich_is_there(capsys, monkeypatch, has_rich):
    monkeypatch.setattr(output, "_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    with output.Progress() as shown:
        shown.begin(0, 10)
        assert (shown._live is not None) == has_rich
        shown.show(ENTRY)
    shown = capsys.readouterr().err
    if has_rich:
        assert "pass  1/10" in shown
        assert "1,798 with a mistake, loss 42728.6, 2,234/s" in shown
    else:
        assert TEXT in shown and "compiling ..." in shown
