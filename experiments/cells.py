"""Finished parts of a run, kept in a file so that a stopped run resumes.

A cell is one part of an experiment, such as one method on one seed. Its value is plain
JSON. A file of cells belongs to one experiment at one scale and to one state of the
sources. Cells of other sources are refused, so that no result is put together from two
states of the code.
"""

import hashlib
import json
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import lowrank_jax
from lowrank_jax.checks import InputError
from lowrank_jax.cli import files

__all__ = ["Cells", "sources"]


def sources() -> dict[str, str]:
    """Return a SHA-256 of the package's files and one of the experiments' files.

    The hashes are over the names and contents of all Python files and templates. A
    changed comment changes the hash too.
    """
    assert lowrank_jax.__file__ is not None
    roots = {
        "lowrank_jax": pathlib.Path(lowrank_jax.__file__).parent,
        "experiments": pathlib.Path(__file__).parent,
    }
    found = {}
    for name, root in roots.items():
        total = hashlib.sha256()
        for path in sorted(root.rglob("*")):
            if path.suffix in (".py", ".template") and path.is_file():
                total.update(str(path.relative_to(root)).encode() + b"\0")
                total.update(hashlib.sha256(path.read_bytes()).digest())
        found[name] = total.hexdigest()
    return found


class Cells:
    """Cells of one run in a file.

    Attributes:
      num_kept: Number of cells that an earlier start left.
      path: The file. It is written after each new cell.
    """

    def __init__(self, path: pathlib.Path, scale: str, *, is_fresh: bool) -> None:
        """Read the cells of an earlier start.

        Args:
          path: File of the cells. It need not be there.
          scale: Scale of the run.
          is_fresh: True leaves what is there aside.

        Raises:
          InputError: The file is damaged, or from other sources, or of another scale.
        """
        self.path, self._began = path, time.perf_counter()
        self._cells: dict[str, Any] = {}
        self._head: dict[str, Any] = {
            "scale": scale,
            "sources": sources(),
            "seconds": 0.0,
            "starts": 1,
            "load": _load(),
        }
        if path.exists() and not is_fresh:
            self._read(scale)
        self._before = self._head["seconds"]
        self.num_kept = len(self._cells)

    def _read(self, scale: str) -> None:
        way_out = "give `--fresh` to leave it aside"
        try:
            kept = json.loads(self.path.read_text())
            head, cells = dict(kept["head"]), dict(kept["cells"])
            old_scale, old_sources = str(head["scale"]), dict(head["sources"])
            head["seconds"] += 0.0
            head["starts"] += 1
            head["load"] = max(head["load"], _load())
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{self.path}: not the cells of a stopped run; {way_out}."
            ) from None
        if old_scale != scale:
            raise InputError(
                f"{self.path}: cells at `--scale {old_scale}`, not {scale}; give that "
                f"scale, or {way_out}."
            )
        new_sources = self._head["sources"]
        changed = [
            name for name in new_sources if old_sources.get(name) != new_sources[name]
        ]
        if changed:
            raise InputError(
                f"{self.path}: cells of other sources ({' and '.join(changed)} have "
                f"changed since), which are not mixed with new ones; {way_out}."
            )
        self._head, self._cells = head, cells

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the value of a cell, and compute it if it is not kept."""
        if name not in self._cells:
            # Read back at once: a kept cell and a new one have the same types.
            self._cells[name] = json.loads(json.dumps(compute()))
            self._head |= {
                "seconds": self.seconds,
                "load": max(self._head["load"], _load()),
            }
            text = json.dumps({"head": self._head, "cells": self._cells}) + "\n"
            files.write_text(self.path, text)
        return self._cells[name]

    @property
    def seconds(self) -> float:
        """Seconds of all starts."""
        return self._before + time.perf_counter() - self._began

    def facts(self) -> dict[str, Any]:
        """Return what a kept result says of its run."""
        return {
            "seconds": self.seconds,
            "starts": self._head["starts"],
            "load": self._head["load"],
            "sources": self._head["sources"],
        }


def _load() -> float:
    """Return the load of the last minute: processes that run or wait."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0
