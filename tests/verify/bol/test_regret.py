"""The runs behind the rows on regret: what the constants are needed for."""

import jax
import numpy as np

from lowrank_jax.theory.bol.margin import mistake_bound, tied_features
from lowrank_jax.verify.bol import runs, studies
from lowrank_jax.verify.statement import Effort

QUICK = Effort(is_quick=True)


def worst(observed, bound):
    known = np.isfinite(bound) & (bound > 0)
    return (observed[known] / bound[known]).max()


def test_ratio_is_needed_in_the_tight_bound():
    """Without 1 / (1 - s2/s1), DR-B3 fails on the run in the worst direction."""
    made, studied = studies.study(QUICK, (3, 4))
    here = made.cases == "worst direction"
    info, ratio = studied.exact.info, studied.exact.ratio[here][0]
    assert info.is_mistake[here].all()
    np.testing.assert_allclose(ratio[1:], 0.25, atol=1e-2)
    bregman = info.bregman[here].sum()
    norms = info.squared_norm[here][0] / 2
    assert 0.95 < bregman / (norms / (1 - ratio)).sum() <= 1
    assert bregman > 1.05 * norms.sum()


def test_runs_meet_what_they_are_made_for():
    """The margin assumption, ties, zero differences, several mistakes and many C."""
    made, pools = studies.pools(QUICK, (3, 4))
    with jax.enable_x64(True):
        bounds = jax.vmap(lambda p: mistake_bound(p.num_mistakes, p.separated))(pools)
        tied = jax.vmap(lambda p: tied_features(p.weights, p.deltas))(pools)
    met = np.asarray(bounds.assumptions_met)
    assert met[made.cases == "nearly rank one"].mean() > 0.5
    assert np.asarray(tied.assumptions_met)[made.cases == "equal blocks"].all()
    mistakes = np.asarray(bounds.observed)
    assert mistakes[met & (made.cases == "3 orthogonal rows")].tolist() == [3]
    made, studied = studies.study(QUICK, (3, 4))
    no_difference = (studied.exact.deltas == 0).all((2, 3))
    assert (no_difference & studied.exact.info.is_mistake).any()
    assert np.ptp(np.log10(made.steps)) > 3


def test_recorded_differences_are_those_of_the_learner():
    made, studied = studies.study(QUICK, (3, 4))
    found = studied.exact
    moved = made.steps[:, None, None, None] * found.deltas
    size = np.abs(found.after).max((1, 2, 3), keepdims=True)
    assert (np.abs(found.before + moved - found.after) <= 1e-12 * size).all()
    norms = (found.deltas**2).sum((2, 3))
    np.testing.assert_allclose(found.info.squared_norm, norms, rtol=1e-12)


def test_block_runs_are_mirror_descent_by_hand():
    """Two blocks 1x1: each is a perceptron of its own, the scores add up."""
    deltas = np.array([[3.0, 1.0], [-1.0, 1.0], [0.5, 0.5]]).reshape(1, 3, 2, 1, 1)
    found = runs.block_runs(deltas, np.ones(1)).rounds
    # W = 0: mistake; <(3, 1), (-1, 1)> = -2: mistake; (2, 2) is right on the third.
    assert found.is_mistake.tolist() == [[True, True, False]]
    np.testing.assert_allclose(found.margin, [[0.0, -2.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(found.conjugate, [[5.0, 4.0, 4.0]])
    np.testing.assert_allclose(found.dual_increment, [[1 - 5.0, 1 + 1.0, 0.0]])
    np.testing.assert_allclose(found.bregman, [[5.0, -1 + 2.0, 0.0]])
