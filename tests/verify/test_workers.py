"""Statements checked in processes: the same results, and a death is noticed."""

import os

import pytest

from lowrank_jax.verify import Effort, catalogue, run, workers


def test_processes_find_what_one_process_finds():
    effort = Effort(is_quick=True)
    only = frozenset({"TM-N1", "TM-N2"})
    found = list(workers.results_of(effort, num_workers=2, only=only))
    alone = [
        run(one, effort)
        for one in catalogue.part(("tm.construction",))
        if one.id in only
    ]
    assert len(found) == len(alone) == 5
    assert [r._replace(seconds=0) for r in found] == [
        r._replace(seconds=0) for r in alone
    ]


def _die(*_):
    os._exit(3)


def test_a_worker_that_dies_is_told_of(monkeypatch):
    monkeypatch.setattr(workers, "_work", _die)
    monkeypatch.setattr(workers, "_LOOK", 0.2)
    effort = Effort(is_quick=True)
    with pytest.raises(RuntimeError, match="ended with status 3"):
        list(workers.results_of(effort, num_workers=1, only=frozenset()))
