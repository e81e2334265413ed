"""The runs behind the rows of SBLR."""

import numpy as np

from lowrank_jax.verify.sblr import runs
from lowrank_jax.verify.statement import Effort

QUICK = Effort(is_quick=True)


def test_runs_are_those_of_the_kinds_they_are_named_for():
    kinds, problems, sweeps, stationarity = runs.runs(QUICK)
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
