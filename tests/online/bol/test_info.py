"""Every field of `Info` of BOL against NumPy, round by round, for every variant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import streams
from lowrank_jax.models import bilinear
from lowrank_jax.online import bol
from tests.online import twins
from tests.online.tasks import random_task

STEP = 0.5
VARIANTS = {
    "block": {"variant": "block", "num_power_steps": 60},
    "paper": {"variant": "paper", "num_power_steps": 60},
    "global": {"variant": "paper", "divisor": "global", "num_power_steps": 60},
    "exact": {"variant": "exact"},
    "costs": {"variant": "exact", "label_cost": 2.5},  # of each wrong label
}


def weights_of(state, space):
    """Return the weights (K, S, S + 1), (K, S), (S, S + 1) that predict."""
    rows = bilinear.split(state.params.table[:-1], space.num_labels)
    first = state.params.scale * jnp.einsum("kru,krv->kuv", rows.left, rows.right)
    return twins.Weights(
        np.asarray(rows.zero), np.asarray(first), np.asarray(state.params.transitions)
    )


def conjugate_of(name, state):
    """Return F*(Theta): half the squares of sigma_1, of each block or of all."""
    values = np.linalg.svd(np.asarray(state.blocks), compute_uv=False)[:, 0]
    first = (values**2).sum() if name in ("block", "paper") else values.max() ** 2
    labels = state.params.transitions.shape[0]
    rest = (np.asarray(state.params.table)[:-1, :labels] ** 2).sum()
    return (first + rest + (np.asarray(state.params.transitions) ** 2).sum()) / 2


@pytest.mark.parametrize("name", VARIANTS)
def test_every_field_of_info_equals_plain_numpy(name):
    """BOL-N3, BOL-N5, DR-B4: loss, margin, growth of the dual, Bregman divergence."""
    task = {"has_transitions": True, "shared": name == "paper"}  # one feature twice
    sequences = random_task(("01", "0", "1"), **task)
    space, corpus = sequences.space, streams.sentences.stream(sequences)
    given = dict(VARIANTS[name])
    if "label_cost" in given:
        given["label_cost"] = np.full(space.num_labels, given["label_cost"])
    learner = bol.learner(
        step_size=STEP,
        record=("ratio", "predicted", "squared_norm"),
        dual="dense",  # tables by feature
        dtype=jnp.float64,
        **given,
    )
    update = jax.jit(learner.update)
    state = learner.init(jax.random.key(1), corpus.example(0))
    before, kinds = conjugate_of(name, state), set()
    every = list(twins.sentences(sequences)) * 2
    for number, (ids, labels) in enumerate(every):
        w = weights_of(state, space)
        example = corpus.example(jnp.int32(number % sequences.num_sentences))
        state, info = update(state, example)
        guess = np.asarray(info.predicted)[: len(labels)]
        delta = twins.combine(
            twins.features(space, ids, labels), twins.features(space, ids, guess), -1
        )
        margin, after = twins.dot(w, delta), conjugate_of(name, state)
        is_mistake = bool((guess != labels).any())
        kinds.add(is_mistake)
        close = {"rtol": 2e-3, "atol": 2e-4}  # of the power iteration, not of the sums
        np.testing.assert_allclose(info.margin, margin, rtol=1e-8, atol=1e-9)
        price = 2.5 * (guess != labels).sum() if name == "costs" else 1
        np.testing.assert_allclose(
            info.loss, max(0, price - margin) * is_mistake, rtol=1e-8
        )
        np.testing.assert_allclose(info.conjugate, after, **close)
        growth = after - before
        slack = STEP * price * is_mistake - growth  # BOL-N5
        np.testing.assert_allclose(info.dual_increment, slack, **close)
        np.testing.assert_allclose(
            info.bregman, growth - STEP * margin, **close
        )  # DR-B4
        norm = sum((part**2).sum() for part in delta)
        assert int(info.num_wrong) == (guess != labels).sum()
        assert bool(info.is_mistake) == is_mistake
        np.testing.assert_allclose(info.squared_norm, norm)
        if name == "exact":
            values = np.linalg.svd(np.asarray(state.blocks), compute_uv=False)
            top = np.sort(values[:, :2].ravel())[::-1]
            np.testing.assert_allclose(info.sigma_1, top[0], rtol=1e-9)
            ratio = top[1] / top[0] if top[0] else 0
            np.testing.assert_allclose(info.ratio, ratio, atol=1e-9)
        before = after
    assert kinds == {True, False} or number > 10
