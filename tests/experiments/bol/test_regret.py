"""The replay of a run and the bounds of its blocks, and the chain of four curves."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.bol import regret
from lowrank_jax import loops, streams
from lowrank_jax.certify import conjugate
from lowrank_jax.online import bol
from tests.online.tasks import random_task


@functools.lru_cache
def trained():
    sequences = random_task(("01", "0", "1"), has_transitions=True)
    corpus, key = streams.sentences.stream(sequences), jax.random.key(1)
    learner = bol.learner(num_power_steps=32, record=("predicted",), dtype=jnp.float64)
    (done,) = loops.passes(learner, corpus, key=key, num_passes=1)
    order = np.asarray(loops.pass_order(key, 0, sequences.num_sentences))
    return sequences, order, done.trace, done.state


def test_replay_ends_where_the_run_ended():
    """DR-B4: the growth of F*, block by block, sums to F* of the last state."""
    sequences, order, trace, state = trained()
    total, rounds = 0.0, set()
    for chunk_size in (1, 10_000):  # in many pieces and in one
        total = 0.0
        for touched in regret.replay(
            sequences, order, trace.predicted, chunk_size=chunk_size
        ):
            found = regret.block_bounds(touched.before, touched.push)
            total += found.growth.sum() + touched.others.sum()
            rounds |= set(touched.others_at.tolist())
        ended = conjugate(state)
        np.testing.assert_allclose(total, ended.value, rtol=1e-6)
    assert rounds == set(np.flatnonzero(trace.is_mistake).tolist())


def test_bound_covers_the_remainder_of_every_block():
    """DR-B2, and the form at ties: growth - <G, E> for the leading pair G."""
    sequences, order, trace, _ = trained()
    (touched,) = regret.replay(sequences, order, trace.predicted)
    rng = np.random.default_rng(0)
    before = np.concatenate([touched.before, rng.normal(size=(40, 3, 4))])
    push = np.concatenate([touched.push, 0.5 * rng.normal(size=(40, 3, 4))])
    found = regret.block_bounds(before, push)
    u, sigma, v = np.linalg.svd(before)
    slope = np.einsum("nu,nuv,nv->n", u[:, :, 0], push, v[:, 0]) * sigma[:, 0]
    after = np.linalg.svd(before + push, compute_uv=False)[:, 0]
    growth = (after**2 - sigma[:, 0] ** 2) / 2
    np.testing.assert_allclose(found.growth, growth, atol=1e-9)
    assert (growth - slope <= found.bound + 1e-9).all()
    assert (found.ratio > 1 - 1e-9).any()  # ties are among them
    assert np.isfinite(found.bound).all()


def test_four_curves_of_the_dense_task_lie_in_order():
    found = regret._dense(0.6, 0.0)
    assert all(found["is_chain"].values())
    assert found["num_mistakes"] > 30
    final = found["final"]
    assert final["regret"] < final["certificate"] < final["tight"] < final["paper"]
