"""The count of what a compiled program does, read off XLA's optimised text.

A launch is an instruction of the scheduled program that becomes work of its own: a
fusion, a copy, a library call, a collective. Parameters, constants, tuples, bitcasts
and the ends of asynchronous pairs are free. An instruction in a loop counts as often
as the loop runs. A loop whose length the data decide runs `trips` times, by default
once. In a conditional, the branch with more launches counts.
"""

import collections
import dataclasses
import math
import pathlib
import re
from typing import Any

__all__ = ["LARGE", "Counts", "count"]

LARGE = 1 << 20  # bytes from which on a copy is listed

_FREE = frozenset(
    "parameter constant tuple get-tuple-element bitcast after-all add-dependency "
    "opt-barrier AllocateBuffer ConcatBitcast".split()
)
_NAME = r"%([\w.\-]+)"
_SENDS = re.compile("all-|reduce-scatter|collective-|ragged-")


@dataclasses.dataclass
class Counts:
    """What one call of a program does on one device.

    Attributes:
      launches: Number of launches.
      waits: Times that the host of a GPU reads a flag before it can go on.
      cycles: The TPU compiler's own estimates, added up. Some instructions have none.
      moved_bytes: Bytes that launches write, an update in place by its own size.
      loops: Loops whose length the data decide: line of code, launches per step.
      copies: Plain copies of `LARGE` bytes or more: bytes, times, line of code.
      collectives: Kind, bytes, times, line of code.
      scatter_loops: Loops of fixed length that the compiler made of one instruction.
      by_source: Launches of each line of code.
    """

    launches: float = 0.0
    waits: float = 0.0
    cycles: float = 0.0
    moved_bytes: float = 0.0
    loops: list[tuple[str, float]] = dataclasses.field(default_factory=list)
    copies: list[tuple[int, float, str]] = dataclasses.field(default_factory=list)
    collectives: list[tuple[str, int, float, str]] = dataclasses.field(
        default_factory=list
    )
    scatter_loops: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    by_source: dict[str, float] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(float)
    )


def count(text: str, *, is_gpu: bool, trips: dict[str, float] | None = None) -> Counts:
    """Count what a program does.

    Args:
      text: Optimised program, ``compiled.as_text()``.
      is_gpu: True for a GPU, where loops and conditionals make the host wait.
      trips: Mean number of steps of loops that the data decide, by a part of the line
        of code ("decode/viterbi.py:62").
    """
    return _Count(text, is_gpu, trips or {}).counts


class _Instruction:
    """One line of a computation: ``shape kind(operands), attributes``."""

    def __init__(self, text: str) -> None:
        depth, end = 0, 0  # shapes of tuples have brackets in brackets
        while depth or text[end] != " ":
            depth += (text[end] in "({[") - (text[end] in ")}]")
            end += 1
        self.shape = text[:end]
        self.opcode, _, self.rest = text[end + 1 :].partition("(")
        called = self.find(r'custom_call_target="([^"]*)"')
        self.kind = called or self.opcode.removesuffix("-start")
        self.operands = re.findall(_NAME, self.rest.partition(")")[0])
        sizes = [0.0]  # of the parts of the result
        for kind, bits, ends in re.findall(r"([a-z]+)(\d*)\w*\[([\d,]*)\]", self.shape):
            number = math.prod(int(end) for end in ends.split(",") if end)
            sizes.append(number * int(bits or 8 * (kind == "pred")) / 8)
        self.size = int(max(sizes) if "-start" in self.opcode else sum(sizes))

    def uses(self, *names: str) -> list[str]:
        """Return the computations given as one of these attributes."""
        given = re.findall(rf"\b(?:{'|'.join(names)})=(\{{.*?\}}|%[\w.\-]+)", self.rest)
        return re.findall(_NAME, " ".join(given))

    def find(self, pattern: str) -> str:
        """Return the group of a pattern in the attributes, or nothing."""
        found = re.search(pattern, self.rest)
        return found[1] if found else ""


class _Count:
    """Walks over a program from its entry and adds up."""

    def __init__(self, text: str, is_gpu: bool, trips: dict[str, float]) -> None:
        self.counts, self.is_gpu, self.trips = Counts(), is_gpu, trips
        self.parts: dict[str, dict[str, _Instruction]] = {}
        self.roots: dict[str, _Instruction] = {}
        home = entry = ""
        for line in text.splitlines():
            if head := re.match(rf"(?:ENTRY )?{_NAME} \(.*\{{$", line):
                home = head[1]
                self.parts[home] = {}
                entry = home if line.startswith("ENTRY") else entry
            elif home and (part := re.match(rf"\s+(ROOT )?{_NAME} = (.*)$", line)):
                found = self.parts[home][part[2]] = _Instruction(part[3])
                if part[1]:
                    self.roots[home] = found
        self.sources = _sources(text)
        self.counts.launches = self.walk(entry, 1.0)

    def walk(self, home: str, times: float) -> float:
        """Count a computation that runs `times` times; return launches of one run."""
        total = 0.0
        for found in self.parts[home].values():
            where = self.sources.get(found.find(r"stack_frame_id=(\d+)"), "?")
            if found.kind == "while":
                total += self.loop(found, home, where, times)
            elif found.kind == "conditional":
                names = found.uses("branch_computations", r"\w+_computation")
                self.counts.waits += times * self.is_gpu
                total += max(self.walk(branch, times) for branch in names)
            elif found.kind == "call":
                total += sum(self.walk(one, times) for one in found.uses("to_apply"))
            else:
                total += self.note(found, where, times)
        return total

    def loop(self, found: Any, home: str, where: str, times: float) -> float:
        """Count a loop and return its launches."""
        (body,), (test,) = found.uses("body"), found.uses("condition")
        steps = self.steps(found, home, test)
        expected = next((n for part, n in self.trips.items() if part in where), 1.0)
        rounds, asked = (expected, expected + 1) if steps is None else (steps, 0)
        each = self.walk(body, times * rounds)
        tests = self.walk(test, times * asked)
        self.counts.waits += times * asked * self.is_gpu
        if steps is None:
            self.counts.loops.append((where, each + tests))
        elif found.find(r'op_name="[^"]*/(gather|scatter[^"/]*)"'):
            self.counts.scatter_loops.append((where, steps))
        return rounds * each + asked * tests

    def steps(self, found: _Instruction, home: str, test: str) -> int | None:
        """Return how often a loop runs, if the program says so."""
        if said := found.find(r'"known_trip_count":\{"n":"(\d+)"'):
            return int(said)
        root = self.roots[test]
        if self.is_gpu or root.kind != "compare" or "direction=LT" not in root.rest:
            return None
        # A TPU: a counter below a constant, in steps of 1, from a constant or, where
        # the constant was moved out of sight, from 0, as `lax.scan` begins.
        counter, bound = (self.parts[test][name] for name in root.operands)
        if bound.kind != "constant" or not (index := counter.find(r"index=(\d+)")):
            return None
        outer = self.parts[home]
        start = outer[outer[found.operands[0]].operands[int(index)]]
        while start.kind in ("copy", "bitcast"):
            start = outer[start.operands[0]]
        first = start.find(r"^(\d+)") if start.kind == "constant" else 0
        return int(bound.find(r"^(\d+)")) - int(first)

    def note(self, found: _Instruction, where: str, times: float) -> int:
        """Add an instruction that runs `times` times; return launches of one run."""
        counts, kind = self.counts, found.kind
        # The scalar unit of a TPU, which also runs the loops, does single numbers.
        is_number = re.match(r"\w+\[\]", found.shape) and found.opcode != "fusion"
        is_free = kind in _FREE or found.opcode.endswith(("-done", "-update"))
        if is_free or is_number and not self.is_gpu:
            return 0
        called = found.uses("calls")
        inner = {part.kind for one in called for part in self.parts[one].values()}
        number = 2 if self.is_gpu and "sort" in {kind, *inner} else 1  # a copy, sorted
        counts.by_source[where] += times * number
        counts.cycles += times * int(found.find(r'"estimated_cycles":"(\d+)"') or 0)
        if _SENDS.match(kind) and times:
            counts.collectives.append((kind, found.size, times, where))
        is_copy = found.opcode == "copy" or bool(inner) and inner <= {"copy", *_FREE}
        if is_copy and found.size >= LARGE and times:
            counts.copies.append((found.size, times, where))
        counts.moved_bytes += times * self.written(found, called)
        return number

    def written(self, found: _Instruction, called: list[str]) -> int:
        """Return the bytes an instruction writes, updates in place by their size."""
        if found.opcode != "fusion" or not called or called[0] not in self.roots:
            return found.size
        home, root = self.parts[called[0]], self.roots[called[0]]
        ends = [home[name] for name in root.operands if name in home]
        total = 0
        for end in ends if root.kind == "tuple" else [root]:
            while end.kind in ("bitcast", "copy") and end.operands[0] in home:
                end = home[end.operands[0]]
            place = {"dynamic-update-slice": 1, "scatter": 2}.get(end.kind)
            update = home.get(end.operands[place]) if place else None
            total += end.size if update is None else update.size
        return total


def _sources(text: str) -> dict[str, str]:
    """Return the line of code of each stack frame, from the tables before a program."""
    files = dict(re.findall(r'^(\d+) "(.*)"$', text.split("Func")[0], re.M))
    pattern = r"^(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)"
    places = {
        number: "/".join(pathlib.Path(files.get(file, "?")).parts[-2:]) + f":{line}"
        for number, file, line in re.findall(pattern, text, re.M)
    }
    frames = re.findall(r"^(\d+) \{file_location_id=(\d+)", text, re.M)
    return {frame: places.get(place, "?") for frame, place in frames}
