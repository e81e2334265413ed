"""Mirror descent with any map: the fast learners are its cases, and runs are certified.

The library's own maps are compared with the kernels that were written for them.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, streams, testing
from lowrank_jax.certify import mirror as certify
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Space
from lowrank_jax.linalg import mirror
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import bol, mirror_descent, perceptron, touched
from lowrank_jax.online.bol import dense
from lowrank_jax.online.mirror_descent import MirrorMap
from lowrank_jax.theory.bol import blocks, regret
from tests.online.tasks import random_task

DOUBLE = {"step_size": 0.5, "dtype": jnp.float64}


def matrices(num_rounds=60, shape=(6, 5)):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rounds, *shape))
    y = np.where(rng.random(num_rounds) < 0.8, np.sign(x[:, 0, 0]), 1.0)
    return streams.Stacked(jax.vmap(dense.binary)(jnp.asarray(x), jnp.asarray(y)))


def sentences():
    sequences = random_task(("01", "0", "1"), has_transitions=True, shared=True)
    return streams.sentences.stream(sequences)


def run(learner, stream, num_passes=2, state=None):
    order = jnp.tile(jnp.arange(stream.num_examples, dtype=jnp.int32), num_passes)
    if state is None:
        state = learner.init(jax.random.key(0), stream.example(0))
    state, trace = jax.jit(lambda s: loops.run(learner, s, stream, order))(state)
    return state, trace, order


def p_norm(power, *, is_given=True):
    """Half the squared p-norm, of arrays of any shape."""

    def half(array, power):
        return (jnp.abs(array) ** power).sum() ** (2 / power) / 2

    def gradient(theta):
        size = (jnp.abs(theta) ** power).sum() ** (1 / power)
        unit = theta / jnp.where(size > 0, size, 1)
        return size * jnp.sign(unit) * jnp.abs(unit) ** (power - 1)

    return MirrorMap(
        lambda theta: half(theta, power),
        gradient if is_given else None,
        lambda u: half(u, power / (power - 1)),
        lambda delta: (power - 1) * 2 * half(delta, power),
    )


def agree(ours, theirs, names):
    for name in names:
        np.testing.assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-9
        )


NUMBERS = "loss is_mistake num_wrong margin dual_increment conjugate bregman".split()


@pytest.mark.parametrize(
    ("map", "settings"),
    [
        (mirror.spectral(), {}),
        (mirror.rank_k(2), {"rank": 2}),
        (mirror.frobenius(), {"variant": "frobenius"}),
    ],
)
def test_dense_learners_are_cases_of_the_general_path(map, settings):
    stream = matrices()
    state, trace, _ = run(mirror_descent.learner(map=map, **DOUBLE), stream)
    fast, theirs, _ = run(dense.learner(step_size=0.5, **settings), stream)
    agree(trace, theirs, NUMBERS)
    np.testing.assert_allclose(state.params, fast.params, atol=1e-9)


def test_perceptron_is_the_frobenius_map_of_blocks():
    learner = mirror_descent.learner(map=mirror.frobenius(), **DOUBLE)
    state, trace, _ = run(learner, sentences())
    fast, theirs, _ = run(perceptron.learner(averaging="none", **DOUBLE), sentences())
    agree(trace, theirs, NUMBERS)
    agree(state.params, touched.by_feature(fast.params), linear.Params._fields[:3])


@pytest.mark.slow
@pytest.mark.parametrize("start", [0.0, 0.37])
@pytest.mark.parametrize("rank", [1, 2])
def test_bol_maps_its_blocks_by_the_rank_k_map(rank, start):
    """Where no tie leaves a choice (DR-B5, DR-B6), from any start (DR-B11)."""
    stream = sentences()
    map = mirror.shifted(mirror.rank_k(rank), start)
    settings = {"rank": rank, "start": start, "num_power_steps": 40}
    fast = bol.learner(dual="dense", **settings, **DOUBLE)
    state, _, _ = run(fast, stream, 1)
    theta = state.blocks[:-1]
    rows = bilinear.split(state.params.table[:-1], theta.shape[1])
    ours = jnp.einsum("kjs,kjt->kst", rows.left, rows.right)
    sigma = mirror.singular_values(theta + start)
    has_choice = sigma[:, rank] > 0.75 * sigma[:, rank - 1]
    error = np.abs(ours - jax.vmap(map.weights)(theta)).max(axis=(1, 2))
    assert (error[~has_choice] < 1e-7).all() and (~has_choice).sum() >= 3
    parts = [rows.zero, state.params.transitions]
    total = sum(float((part * part).sum()) / 2 for part in parts)
    total += float(jax.vmap(map.conjugate)(theta).sum())
    # Nearly tied values are not yet apart; their sum is nearly right all the same.
    np.testing.assert_allclose(state.conjugate, total, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("start", [0.37, 1.3])
def test_block_bol_is_the_general_path_along_a_whole_run(start):
    """Both run freely: every prediction, number and weight (DR-B6, DR-B11).

    They begin after one pass of BOL: at the start all labels have the same score, and
    rounding would choose.
    """
    stream, map = sentences(), mirror.shifted(mirror.spectral(), start)
    given = {"record": ("predicted",), **DOUBLE}
    settings = {"start": start, "averaging": "none", "num_power_steps": 0}
    fast = bol.learner(dual="dense", **settings, **given)
    begun, _, _ = run(fast, stream, 1)
    general = mirror_descent.learner(map=map, **given)
    zero = begun.params.table[:, : begun.blocks.shape[1]]
    first = jax.vmap(map.weights)(begun.blocks).at[-1].set(0)
    same = general.init(jax.random.key(0), stream.example(0))._replace(
        params=linear.Params(zero, first, begun.params.transitions),
        theta=begun.blocks,
        values=jax.vmap(map.conjugate)(begun.blocks).at[-1].set(0),
        conjugate=begun.conjugate,
        num_rounds=begun.num_rounds,
    )
    ours, trace, _ = run(general, stream, state=same)
    ended, theirs, _ = run(fast, stream, state=begun)
    assert int(trace.is_mistake.sum()) > 10
    agree(trace, theirs, [*NUMBERS, "predicted", "fingerprint"])
    rows = bilinear.split(ended.params.table[:-1], ours.theta.shape[1])
    first = jnp.einsum("kjs,kjt->kst", rows.left, rows.right)
    np.testing.assert_allclose(first, ours.params.first[:-1], atol=1e-8)
    np.testing.assert_allclose(rows.zero, ours.params.zero[:-1], atol=1e-9)


def diagonal(blocks):
    return jax.scipy.linalg.block_diag(*blocks)


WHOLE_RUNS = {  # settings, map, and whether the map takes all blocks as one matrix
    "block": ({"num_power_steps": 0}, mirror.spectral(), False),
    "rank 2": ({"rank": 2, "num_power_steps": 0}, mirror.rank_k(2), False),
    "exact": ({"variant": "exact"}, mirror.spectral(), True),
    "paper": ({"variant": "paper", "num_power_steps": 60}, mirror.spectral(), False),
    "global": (
        {"variant": "paper", "divisor": "global", "num_power_steps": 60},
        mirror.spectral(),
        True,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WHOLE_RUNS)
def test_each_round_of_a_variant_is_a_round_of_the_general_path(kind):
    """F*, Delta_t, B_t and, away from ties, W of every round (BOL-Eq8, DR-B6).

    The weights of Eq. (9)-(12) are no function of Theta; their F* is.
    """
    settings, map, is_one = WHOLE_RUNS[kind]
    stream = sentences()
    learner = bol.learner(dual="dense", averaging="none", **settings, **DOUBLE)

    def update(state, index):
        state, info = learner.update(state, stream.example(index))
        return state, (info, state.blocks[:-1], state.params)

    order = jnp.tile(jnp.arange(stream.num_examples, dtype=jnp.int32), 2)
    state = learner.init(jax.random.key(0), stream.example(0))
    _, (info, theta, params) = jax.jit(lambda s: jax.lax.scan(update, s, order))(state)
    labels = theta.shape[2]
    whole = diagonal if is_one else lambda blocks: blocks
    every = map if is_one else mirror.blocks(map)
    general = jax.jit(
        jax.vmap(lambda one: (every.conjugate(whole(one)), every.weights(whole(one))))
    )
    conjugate, weights = general(theta)
    info, params = jax.device_get((info, params))
    conjugate = np.asarray(conjugate)
    rows = bilinear.split(params.table[:, :-1], labels)
    flat = (rows.zero**2).sum((1, 2)) + (params.transitions**2).sum((1, 2))
    room = 1e-5 if "paper" in settings.values() else 1e-9  # power steps near ties
    conjugate = conjugate + flat / 2
    np.testing.assert_allclose(info.conjugate, conjugate, rtol=room)
    growth, step = np.diff(conjugate, prepend=0.0), DOUBLE["step_size"]
    size = room * float(conjugate.max())
    expected = step * info.is_mistake - growth  # BOL-N5
    np.testing.assert_allclose(info.dual_increment, expected, atol=size)
    np.testing.assert_allclose(info.bregman, growth - step * info.margin, atol=size)
    if "paper" in settings.values():
        return
    factors = jnp.einsum("tkjs,tkju->tksu", rows.left, rows.right)
    found = jax.vmap(whole)(params.scale[:, None, None, None] * factors)
    rank = settings.get("rank", 1)
    sigma = np.linalg.svd(jax.vmap(whole)(theta), compute_uv=False)
    is_known = sigma[..., rank] < (1 - 1e-6) * sigma[..., rank - 1]
    error = np.abs(found - weights).max(axis=(-1, -2))
    assert (error[is_known] < 1e-8).all() and is_known.sum() >= 8


def test_block_maps_are_those_of_the_theory():
    """Each block by itself (q = 2); the theory's family is a map too (q = 1.5)."""
    theta = jnp.asarray(np.random.default_rng(1).normal(size=(4, 3, 5)))
    map = mirror.blocks(mirror.spectral())
    np.testing.assert_allclose(map.conjugate(theta), blocks.block_conjugate(theta))
    np.testing.assert_allclose(map.weights(theta), blocks.block_map(theta))
    top = MirrorMap(lambda theta: blocks.block_conjugate(theta, power=1.5))
    np.testing.assert_allclose(
        top.weights(theta), blocks.block_map(theta, power=1.5), atol=1e-12
    )


def test_gradient_by_default_is_that_of_the_conjugate():
    theta = jnp.asarray(np.random.default_rng(2).normal(size=(3, 4)))
    given, derived = p_norm(3.0), p_norm(3.0, is_given=False)
    np.testing.assert_allclose(given.weights(theta), derived.weights(theta))
    for map in (mirror.rank_k(2), mirror.shifted(mirror.spectral(), 0.5)):
        derived = dataclasses.replace(map, gradient=None)
        np.testing.assert_allclose(map.weights(theta), derived.weights(theta))


@pytest.mark.slow
@pytest.mark.parametrize("map", [p_norm(3.0), mirror.frobenius(), mirror.rank_k(2)])
def test_chain_of_a_dense_run_holds_and_is_not_idle(map):
    stream = matrices()
    state, trace, order = run(mirror_descent.learner(map=map, **DOUBLE), stream)
    u = jnp.zeros((6, 5)).at[0, 0].set(2.0)
    along = certify.chain(map, state, trace, stream, order, u)
    assert regret.within_certificate(along).holds.all()
    assert regret.certificate_within_tight(along).holds.all()
    assert bool(jnp.isfinite(along.tight).all()) == (map.smoothness is not None)
    # A step size other than the run's gives curves of nothing, which do not hold.
    other = regret.along_rounds(
        trace, step_size=0.6, comparator_losses=0 * trace.loss, comparator_penalty=1.0
    )
    assert not regret.within_certificate(other).holds.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("map", "wrong"),
    [
        (p_norm(3.0), p_norm(2.5)),
        (mirror.frobenius(), mirror.rank_k(6)),  # the same function: not an error
        (mirror.rank_k(1), mirror.rank_k(2)),
        (mirror.rank_k(2), mirror.frobenius()),
        (mirror.shifted(mirror.rank_k(1), 0.5), mirror.rank_k(1)),
    ],
)
def test_a_biconjugate_that_is_too_small_is_refused(map, wrong):
    """Fenchel and Young: F**(U) >= <U, Theta> - F*(Theta), met by ascent in Theta."""
    stream = matrices()
    state, trace, order = run(mirror_descent.learner(map=map, **DOUBLE), stream)
    u = jnp.asarray(np.random.default_rng(4).normal(size=(6, 5)))
    mixed = dataclasses.replace(map, biconjugate=wrong.biconjugate)
    if abs(mixed.biconjugate(u) - map.biconjugate(u)) < 1e-9:
        assert certify.chain(mixed, state, trace, stream, order, u).regret.size
        return
    assert mixed.biconjugate(u) < map.biconjugate(u)
    with pytest.raises(InputError, match="no biconjugate of `conjugate` is smaller"):
        certify.chain(mixed, state, trace, stream, order, u)
    share = 0.98  # ascent ends near the supremum, where it is not met exactly
    close = dataclasses.replace(map, biconjugate=lambda u: share * map.biconjugate(u))
    with pytest.raises(InputError, match="no biconjugate of `conjugate` is smaller"):
        certify.chain(close, state, trace, stream, order, u)


@pytest.mark.slow
@pytest.mark.parametrize(
    "map", [mirror.frobenius(), mirror.shifted(mirror.rank_k(1), 0.5)]
)
def test_chain_of_a_run_on_sentences_holds(map):
    stream = sentences()
    learner = mirror_descent.learner(map=map, record=("predicted",), **DOUBLE)
    state, trace, order = run(learner, stream)
    u = jax.tree.map(lambda part: 0.3 * part, state.params)
    along = certify.chain(map, state, trace, stream, order, u)
    assert regret.within_certificate(along).holds.all()
    assert regret.certificate_within_tight(along).holds.all()
    if map.smoothness is not None:
        norms = jnp.diff(along.tight, prepend=along.tight[:1])
        assert jnp.isfinite(along.tight).all() and (norms >= 0).all()


def test_chain_refuses_what_is_not_of_the_run():
    stream, map = matrices(), p_norm(3.0)
    state, trace, order = run(mirror_descent.learner(map=map, **DOUBLE), stream)
    u = jnp.zeros((6, 5))
    with pytest.raises(InputError, match="after the last round, and the trace has"):
        certify.chain(p_norm(4.0), state, trace, stream, order, u)
    with pytest.raises(InputError, match="wrong labels, and example"):
        certify.chain(map, state, trace, stream, order[::-1], u)
    with pytest.raises(InputError, match="one example for each of the 120 rounds"):
        certify.chain(map, state, trace, stream, order[:-1], u)
    other = streams.Stacked(
        dense.Choice(
            stream.examples.features.at[7, 0, 2, 2].add(1e-9), stream.examples.label
        )
    )
    with pytest.raises(InputError, match="Round 8 of the trace met another example"):
        certify.chain(map, state, trace, other, order, u)
    half = jax.tree.map(lambda part: part[:60], trace)
    with pytest.raises(InputError, match="do not add up to the dual"):
        certify.chain(map, state, half, stream, order[:60], u)
    bare = dataclasses.replace(map, biconjugate=None)
    with pytest.raises(InputError, match="has no biconjugate"):
        certify.chain(bare, state, trace, stream, order, u)


def test_mean_of_the_weights_is_over_what_the_rounds_predicted_with():
    stream = matrices(20)
    settings = {"map": mirror.frobenius(), "averaging": "weights", **DOUBLE}
    learner = mirror_descent.learner(**settings)
    state = learner.init(jax.random.key(0), stream.example(0))
    weights = []
    for i in range(20):
        weights.append(np.asarray(state.params))
        state, _ = learner.update(state, stream.example(i))
    np.testing.assert_allclose(
        mirror_descent.final_params(state), np.mean(weights, axis=0), atol=1e-12
    )


@pytest.mark.parametrize("map", [mirror.frobenius(), mirror.rank_k(1)])
def test_a_round_touches_the_blocks_of_its_mistakes_only(map):
    space = Space(40_000, 6, ("01", "01"), has_transitions=True)
    learner = mirror_descent.learner(map=map)
    testing.assert_no_copies(learner, testing.sentences(space), num_rows=40_001)


def test_settings_that_cannot_be_are_errors():
    with pytest.raises(InputError, match="`map` must be a MirrorMap"):
        mirror_descent.learner(map=jnp.sum)
    with pytest.raises(InputError, match="`conjugate` must be a function, got None"):
        MirrorMap(None)
    with pytest.raises(InputError, match="`smoothness` must be positive"):
        MirrorMap(jnp.sum, smoothness=-1.0)
    stream = sentences()
    learner = mirror_descent.learner(map=p_norm(3.0))
    with pytest.raises(InputError, match="must be a number for sentences"):
        learner.init(jax.random.key(0), stream.example(0))
