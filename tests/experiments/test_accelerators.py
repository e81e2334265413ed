"""Small programs compiled for accelerators, where their compilers are installed.

The compilers live in an environment of their own (``make accelerators``), so a process
of that environment compiles, and this one reads what it prints.
"""

import json
import pathlib
import subprocess

import pytest

from experiments.accelerators import counting, tables

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = ROOT / ".venv-accelerators" / "bin" / "python"

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
    row["reason"] = "not done in 60 processor seconds"
    text = tables.table({"rows": [row]})
    assert "| a | 1 | not done in 60 processor seconds |" in text
    assert "3 us per launch" in text and "not done" in tables.line(row)


@pytest.mark.skipif(not PYTHON.exists(), reason="no compilers: make accelerators")
def test_small_programs_compile_without_copies_or_long_loops():
    command = [PYTHON, "-m", "experiments.accelerators.small"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    found = {
        (row["program"], row["target"]): row
        for row in map(json.loads, done.stdout.splitlines())
    }
    assert len(found) == 8
    for (name, target), row in found.items():
        assert row["large_copies"] == 0, (name, target)
        assert row["loops"] <= (1 if "padded" in name or "svd" in name else 0)
    assert found["padded.bol", "h100"]["launches"] <= 60
    assert found["predict_batch", "v5e"]["launches"] <= 400
    assert found["svd", "v5e"]["temp_bytes"] < 1 << 20
