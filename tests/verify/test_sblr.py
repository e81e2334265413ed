"""All statements of SBLR on their quick trials."""

import numpy as np
import pytest

from lowrank_jax.verify import sblr, sblr_runs
from lowrank_jax.verify.statement import Effort, run

QUICK = Effort(is_quick=True)
NAMES = [f"{each.id} {each.form}".strip() for each in sblr.STATEMENTS]


@pytest.mark.parametrize("statement", sblr.STATEMENTS, ids=NAMES)
def test_statement_is_as_expected_and_tight_where_it_says_so(statement):
    found = run(statement, QUICK)
    assert found.as_expected, found
    assert found.trials >= 3
    if statement.is_tight and statement.status != "printed-form-fails":
        assert found.worst_ratio > 1 / 1.05, found


def test_names_are_unique_and_functions_exist():
    import importlib

    assert len(set(NAMES)) == len(NAMES)
    for statement in sblr.STATEMENTS:
        module, _, name = statement.function.rpartition(".")
        assert name in importlib.import_module(module).__all__


def test_runs_are_those_of_the_kinds_they_are_named_for():
    kinds, problems, sweeps, stationarity = sblr_runs.runs(QUICK)
    with np.errstate(all="raise"):
        falls = -np.diff(sweeps.objectives, axis=1)
    assert (falls >= -1e-14 * sweeps.objectives[:, :-1]).all()
    is_regular = np.isin(kinds, ("elastic net", "ridge", "one column"))
    assert (stationarity[is_regular, -1] < 1e-6).all()
    assert (problems.labelled.x[kinds == "one column"][..., 1:] == 0).all()
    # Without penalty the loss falls towards 0, and the factors do not stop to grow.
    runaway = kinds == "separable, no penalty"
    left = np.linalg.norm(sweeps.params.left[runaway].reshape(3, 201, -1), axis=2)
    assert (left[:, 200] > left[:, 100]).all()
    assert (sweeps.objectives[runaway, -1] < 1e-3).all()
