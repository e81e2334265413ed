"""Cross-validation side by side against fits one by one."""

import functools

import jax
import numpy as np
import pytest

from lowrank_jax import loops, streams
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.checks import InputError
from lowrank_jax.estimators.classifier import selection
from lowrank_jax.models import bilinear_logit


@functools.cache
def task():
    rng = np.random.default_rng(0)
    y = np.arange(31) % 2
    pattern = np.outer(rng.standard_normal(5), rng.standard_normal(4))
    x = rng.standard_normal((31, 5, 4)) + 0.4 * (2 * y - 1)[:, None, None] * pattern
    return streams.matrices.label_matrices(x, y)[0], y


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


@functools.cache
def alone(max_iterations, **fixed):
    """One fit by itself; what is a number stays open."""

    @jax.jit
    def program(point, weights, numbers):
        labelled, _ = task()
        fold = labelled._replace(weights=weights)
        settings = dict(zip(selection.NAMES, point, strict=True))
        learner = bcpd.learner(start="label", **settings, **numbers, **fixed)
        state = learner.init(jax.random.key(0), fold)
        state, _, count = loops.converge(
            learner, state, fold, max_iterations=max_iterations
        )
        return bilinear_logit.scores(state.params, labelled.x), count

    return program


def test_points_are_the_product_of_the_grid_from_strong_to_weak():
    points = selection.grid_points({"mu1": (0.1, 3.0), "nu2": (0.0, 1.0)})
    assert points.tolist() == [
        [3.0, 0.0, 0.0, 1.0],
        [3.0, 0.0, 0.0, 0.0],
        [0.1, 0.0, 0.0, 1.0],
        [0.1, 0.0, 0.0, 0.0],
    ]


def side_by_side(max_iterations, numbers, **fixed):
    """More fits than places, rounds shorter than fits; checked against `alone`."""
    labelled, y = task()
    points = selection.grid_points(GRID)
    weights = selection.fold_weights(y, num_folds=3, seed=0)
    options = {"max_iterations": max_iterations, "chunk_size": 5, "round_size": 7}
    scores, sweeps = selection.cross_validate(
        labelled, points, weights, **options, **numbers, **fixed
    )
    for i, point in enumerate(points):
        for k, row in enumerate(weights):
            expected, count = alone(max_iterations, **fixed)(point, row, numbers)
            held_out = row == 0
            np.testing.assert_allclose(
                scores[i, held_out], expected[held_out], rtol=1e-8, atol=1e-10
            )
            assert sweeps[i, k] == int(count)
    return sweeps


def test_fits_side_by_side_are_the_fits_one_by_one():
    """Each ends by its own rule: within a round, or after several."""
    sweeps = side_by_side(60, {"tolerance": 1e-4})
    assert sweeps.min() < 7 < sweeps.max() < 60


def test_no_fit_makes_more_sweeps_than_allowed():
    """The limit falls within a round or at its end; no limit compiles anew."""
    most = side_by_side(10, {"tolerance": 0.0})
    assert (most == 10).sum() == most.size - 1  # one is at zero, where all ends
    labelled, y = task()
    weights = selection.fold_weights(y, num_folds=3, seed=0)
    program = selection._program(bcpd.Settings(start="label"), 7)
    num_programs = program._cache_size()
    for limit in (1, 7, 9):
        _, sweeps = selection.cross_validate(
            labelled,
            selection.grid_points(GRID),
            weights,
            tolerance=0.0,
            max_iterations=limit,
            chunk_size=5,
            round_size=7,
        )
        np.testing.assert_array_equal(sweeps, np.minimum(most, limit))
    assert program._cache_size() == num_programs > 0


def test_every_option_reaches_the_fits():
    numbers = {"tolerance": 0.0, "growth": 3.0, "least_constant": 0.3}
    side_by_side(10, numbers)
    numbers = {"tolerance": 0.0, "block_tolerance": 0.05}
    fixed = {"solver": "minimise", "scale_start": False, "max_block_steps": 2}
    side_by_side(3, numbers, **fixed)


def test_the_choice_is_the_best_row_and_the_rank_that_won():
    labelled, y = task()
    lines = []
    found = selection.select(
        labelled,
        num_folds=3,
        ranks=(2, 1),
        grid=GRID,
        say=lines.append,
        chunk_size=3,
        step="lemma",  # the shortest program to compile
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


def validated(**options):
    labelled, y = task()
    weights = selection.fold_weights(y, num_folds=3)
    return selection.cross_validate(labelled, np.zeros((1, 4)), weights, **options)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda y: selection.fold_weights(y, num_folds=20), "at most 15, the size of"),
        (lambda y: selection.fold_weights(y, num_folds=40), "at most 31, the number"),
        (lambda y: selection.grid_points({"mu3": (1.0,)}), "may name mu1, mu2"),
        (lambda y: selection.grid_points({"mu1": (-1.0,)}), "`mu1` must be zero or"),
        (lambda y: validated(growth=1.0), "`growth` must be above 1"),
        (lambda y: validated(mu1=1.0), "`mu1` is set by `points`"),
        (lambda y: validated(tolerance=-1.0), "`tolerance` must be zero or more"),
        (lambda y: validated(max_block_steps=3), "`max_block_steps` has no part in"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call(task()[1])
