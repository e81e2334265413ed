"""Small programs compiled for accelerators, where their compilers are installed.

The compilers live in an environment of their own (``make accelerators``), so a process
of that environment compiles, and this one reads what it prints.
"""

import json
import os
import pathlib
import pickle
import subprocess

import pytest

from experiments.accelerators import __main__ as command
from experiments.accelerators import counting, tables, targets

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = ROOT / ".venv-accelerators" / "bin" / "python"

#: Half as many again as the compilers made when the limits were set: 38, 7, 5 and 1 on
#: the H100, 297, 214, 81 and 30 on the TPU.
MOST_LAUNCHES = {
    ("padded.bol", "h100"): 57,
    ("predict_batch", "h100"): 11,
    ("svd", "h100"): 8,
    ("gather_sum", "h100"): 2,
    ("padded.bol", "v5e"): 446,
    ("predict_batch", "v5e"): 321,
    ("svd", "v5e"): 122,
    ("gather_sum", "v5e"): 45,
}
#: Loops whose number of steps the compiler does not know.
LOOPS = {("padded.bol", "h100"): 1, ("padded.bol", "v5e"): 1, ("svd", "v5e"): 1}

HLO = """HloModule m
%body (p: (s32[], f32[4])) -> (s32[], f32[4]) {
  %p = (s32[], f32[4]{0}) parameter(0)
  %x = f32[4]{0} get-tuple-element(%p), index=1
  %y = f32[4]{0} add(%x, %x)
  %i = s32[] get-tuple-element(%p), index=0
  ROOT %t = (s32[], f32[4]{0}) tuple(%i, %y)
}
%test (p: (s32[], f32[4])) -> pred[] {
  %p = (s32[], f32[4]{0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %n = s32[] constant(3)
  ROOT %c = pred[] compare(%i, %n), direction=LT
}
ENTRY %main (a: f32[4], b: f32[2097152]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  %b = f32[2097152]{0} parameter(1)
  %copy = f32[2097152]{0} copy(%b)
  %sum = f32[4]{0} all-reduce(%a), to_apply=%test
  %z = s32[] constant(0)
  %s = (s32[], f32[4]{0}) tuple(%z, %sum)
  %w = (s32[], f32[4]{0}) while(%s), condition=%test, body=%body{KNOWN}
  ROOT %r = f32[4]{0} get-tuple-element(%w), index=1
}
"""


def test_counts_of_a_program_written_by_hand():
    known = ', backend_config={"known_trip_count":{"n":"5"}}'
    fixed = counting.count(HLO.replace("{KNOWN}", known), is_gpu=True)
    assert fixed.launches == 2 + 5 and fixed.waits == 0 and not fixed.loops
    assert [copy[:2] for copy in fixed.copies] == [(8 << 20, 1.0)]
    assert [sent[:3] for sent in fixed.collectives] == [("all-reduce", 16, 1.0)]
    open_ended = counting.count(
        HLO.replace("{KNOWN}", ""), is_gpu=True, trips={"?": 3.0}
    )
    # Three steps of one launch, four tests of one launch and one wait each.
    assert open_ended.launches == 2 + 3 + 4 and open_ended.waits == 4
    assert [loop[1] for loop in open_ended.loops] == [2]
    on_tpu = counting.count(HLO.replace("{KNOWN}", ""), is_gpu=False)
    assert on_tpu.launches == 2 + 3 and not on_tpu.loops  # the bound is a constant


def test_tables_name_what_does_not_compile():
    row = {"program": "a", "target": "v5e", "devices": 1, "compiles": False}
    row |= {"reason": "not ended within 60 processor seconds", "is_checked": True}
    text = tables.table({"rows": [row]})
    assert "| a | 1 | not ended within 60 processor seconds |" in text
    assert "3 us per launch" in text and "not ended" in tables.line(row)


def test_a_later_run_compiles_only_programs_whose_text_has_changed(
    tmp_path, monkeypatch
):
    """The process of a program is played: it compiles unless its key is known."""
    texts = {"a": "one", "b": "two", "slow": "three"}
    compiled = []

    def play(name, target, count, folder, given):
        _, known = pickle.loads((pathlib.Path(folder) / "given").read_bytes())
        key = command.key_of(texts[name], target, [count])
        row = {"program": name, "target": target, "devices": count, "key": key}
        row |= {"is_checked": True, "compiles": name != "slow"}
        if key in known:
            return row | {"compiles": False}  # such a process has only the key to say
        compiled.append((name, target))
        if name == "slow":
            return row | {"reason": "not ended", "limit": given.limit}
        report = dict.fromkeys(("seconds", "processor_seconds", "temp_bytes"), 1.0)
        report |= dict.fromkeys(("launches", "waits", "cycles", "moved_bytes"), 2.0)
        report |= {"loops": [], "scatter_loops": [], "copies": [], "collectives": []}
        return row | report | {"launches_per_1000": None}

    monkeypatch.setattr(command, "_apart", play)
    monkeypatch.setattr(command, "PROGRAMS", dict.fromkeys(texts, object()))
    monkeypatch.setattr(command, "shapes_of", lambda folder: None)
    monkeypatch.setattr(targets, "is_installed", lambda target: True)
    path = tmp_path / "figures.json"

    def run(*words):
        compiled.clear()
        status = command.main([*words, "--json", str(path)])
        rows = json.loads(path.read_text())["rows"]
        return status, list(compiled), rows

    status, made, rows = run("--only", "b")  # as a run that was stopped
    assert status == 0 and made == [("b", "h100"), ("b", "v5e")]
    assert [row["program"] for row in rows] == ["a", "a", "b", "b", "slow", "slow"]
    assert {row["reason"] for row in rows if row["program"] != "b"} == {"not run"}
    status, made, rows = run()
    assert status == 1 and made == [
        (name, target) for name in ("a", "slow") for target in targets.TARGETS
    ]
    assert all(row["is_checked"] for row in rows) and rows[2]["launches"] == 2
    assert run()[1] == []
    texts["a"] = "changed"
    assert run("--target", "v5e")[1] == [("a", "v5e")]
    text = tables.table({"rows": json.loads(path.read_text())["rows"]})
    assert "2 rows are of an earlier version" in text
    assert run("--limit", "500")[1] == [
        ("a", "h100"),
        ("slow", "h100"),
        ("slow", "v5e"),
    ]
    path.write_text("{}")
    assert command.main(["--json", str(path)]) == 2


def test_key_tells_programs_targets_and_versions_apart(monkeypatch):
    key = command.key_of("text", "h100", [1])
    others = [("text 2", "h100", [1]), ("text", "v5e", [1]), ("text", "h100", [2])]
    assert len({key, *(command.key_of(*given) for given in others)}) == 4
    newer = {"h100": {"jax-cuda12-pjrt": "1"}, "v5e": targets.COMPILERS["v5e"]}
    other = command.key_of("text", "v5e", [1])
    monkeypatch.setattr(targets, "COMPILERS", newer)
    assert command.key_of("text", "h100", [1]) != key
    assert command.key_of("text", "v5e", [1]) == other


def test_small_programs_compile_without_copies_or_long_loops():
    # The file is written last, when all packages are installed.
    if not (PYTHON.exists() and (PYTHON.parents[1] / "installed").exists()):
        pytest.skip("no compilers: run `make .venv-accelerators/installed`.")
    # The flags of the tests spare the compiler's effort, which is what is looked at.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    command = [PYTHON, "-m", "experiments.accelerators.small"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=kept)
    if done.returncode == 2:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr[-2000:]
    found = {}
    for row in map(json.loads, done.stdout.splitlines()):
        found[row["program"], row["target"]] = row
    assert found.keys() == MOST_LAUNCHES.keys()
    for (name, target), row in found.items():
        assert row["large_copies"] == 0, (name, target)
        assert row["loops"] <= LOOPS.get((name, target), 0), (name, target)
        assert row["launches"] <= MOST_LAUNCHES[name, target], (name, target)
    assert found["svd", "v5e"]["temp_bytes"] < 1 << 19
