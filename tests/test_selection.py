"""Cross-validation side by side against fits one by one."""

import functools

import jax
import numpy as np
import pytest

from lowrank_jax import loops, selection
from lowrank_jax.batch import bcpd
from lowrank_jax.checks import InputError
from lowrank_jax.models import bilinear_logit, logistic


@functools.cache
def task():
    rng = np.random.default_rng(0)
    y = np.arange(31) % 2
    pattern = np.outer(rng.standard_normal(5), rng.standard_normal(4))
    x = rng.standard_normal((31, 5, 4)) + 0.4 * (2 * y - 1)[:, None, None] * pattern
    return logistic.label_matrices(x, y)[0], y


GRID = {"mu1": (0.0, 0.02), "mu2": (0.1,), "nu1": (0.01, 0.3), "nu2": (0.1,)}


def test_folds_hold_out_each_matrix_once_and_keep_the_classes_in_proportion():
    _, y = task()
    weights = selection.fold_weights(y, num_folds=5, seed=3)
    np.testing.assert_allclose(weights.sum(1), 1)
    np.testing.assert_array_equal((weights == 0).sum(0), 1)
    held_out = [np.bincount(y[row == 0], minlength=2) for row in weights]
    assert np.ptp(held_out, axis=0).max() <= 1
    leave_one_out = selection.fold_weights(y, num_folds=31)
    np.testing.assert_array_equal((leave_one_out == 0).sum(1), 1)


def test_fits_side_by_side_are_the_fits_one_by_one():
    """More fits than places, rounds shorter than fits: each ends by its own rule."""
    labelled, y = task()
    points = selection.grid_points(GRID)
    weights = selection.fold_weights(y, num_folds=3, seed=0)
    options = {"rank": 1, "max_iterations": 60, "tolerance": 1e-4}
    scores, sweeps = selection.cross_validate(
        labelled, points, weights, chunk_size=5, round_size=7, **options
    )

    @jax.jit
    def alone(point, weights):
        fold = labelled._replace(weights=weights)
        settings = dict(zip(selection.NAMES, point, strict=True))
        learner = bcpd.learner(start="label", tolerance=1e-4, **settings)
        state = learner.init(jax.random.key(0), fold)
        state, _, count = loops.converge(learner, state, fold, max_iterations=60)
        return bilinear_logit.scores(state.params, labelled.x), count

    for i, point in enumerate(points):
        for k, row in enumerate(weights):
            expected, count = alone(point, row)
            held_out = row == 0
            np.testing.assert_allclose(
                scores[i, held_out], expected[held_out], rtol=1e-8, atol=1e-10
            )
            assert sweeps[i, k] == int(count)
    assert sweeps.min() < 7 < sweeps.max()  # within a round, and over several


def test_the_choice_is_the_best_row_and_the_rank_that_won():
    labelled, y = task()
    lines = []
    found = selection.select(
        labelled, num_folds=3, ranks=(2, 1), grid=GRID, say=lines.append, chunk_size=3
    )
    assert [row["rank"] for row in found.ranks] == [1, 2]
    assert len(found.rows) == 4
    best = max(row["accuracy"] for row in found.rows)
    assert found.accuracy == best > 0.5
    chosen = [row for row in found.rows if row["accuracy"] == best]
    assert any(
        all(row[name] == found.settings[name] for name in found.settings)
        for row in chosen
    )
    assert lines[-1] == "12 of 12 fits"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda y: selection.fold_weights(y, num_folds=20), "at most 15, the size of"),
        (lambda y: selection.fold_weights(y, num_folds=40), "at most 31, the number"),
        (lambda y: selection.grid_points({"mu3": (1.0,)}), "may name mu1, mu2"),
        (lambda y: selection.grid_points({"mu1": (-1.0,)}), "`mu1` must be zero or"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call(task()[1])
