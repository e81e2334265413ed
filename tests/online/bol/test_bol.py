"""BOL on sequences against plain NumPy loops, and what each variant must satisfy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import certify, loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.estimators import labelling
from lowrank_jax.linalg import max_tree
from lowrank_jax.models import bilinear
from lowrank_jax.online import bol
from lowrank_jax.online.bol import exact
from tests.online import twins
from tests.online.tasks import planted_task, random_task
from tests.online.test_perceptron import in_order

SPACES = {
    "first order": (("1", "1"), False, False),
    "both orders": (("01", "01"), False, False),
    "mixed, transitions": (("01", "0", "1"), True, False),
    "columns share features": (("01", "01"), True, True),
}


def task(name):
    orders, has_transitions, shared = SPACES[name]
    return random_task(orders, has_transitions=has_transitions, shared=shared)


def first_order(params, num_labels):
    """Return the blocks W_k (K, S, S+1) of a bilinear model."""
    rows = bilinear.split(params.table[:-1], num_labels)
    return np.asarray(params.scale * jnp.einsum("kru,krv->kuv", rows.left, rows.right))


@pytest.mark.parametrize(
    ("name", "rank"), [*((name, 2) for name in SPACES), ("columns share features", 1)]
)
def test_block_equals_plain_loops(name, rank):
    """DR-B6 and BOL-X3: same mistakes, same Theta, same W."""
    sequences = task(name)
    space = sequences.space
    learner = bol.learner(
        dual="dense", rank=rank, step_size=0.5, num_power_steps=3, dtype=jnp.float64
    )
    corpus = streams.sentences.stream(sequences)
    state = learner.init(jax.random.key(0), corpus.example(0))
    # From Theta = 0 all is small integers, and equal scores are a matter of rounding.
    rng = np.random.default_rng(5)
    shape = (space.num_features, space.num_labels, space.num_labels + 1)
    theta = 0.3 * rng.standard_normal(shape)
    right = np.linalg.svd(theta)[2][:, :rank]
    left = np.einsum("kuv,krv->kru", theta, right)
    columns = bilinear.join(jnp.asarray(left), jnp.asarray(right))
    table = state.params.table.at[:-1, space.num_labels :].set(columns)
    state = state._replace(
        params=state.params._replace(table=table),
        blocks=state.blocks.at[:-1].set(theta),
    )
    order = jnp.tile(jnp.arange(sequences.num_sentences, dtype=jnp.int32), 2)
    run = jax.jit(lambda *given: loops.run(learner, *given))
    state, trace = run(state, corpus, order)
    w, theta, mean_theta, mean_zero, rounds = twins.bol_block(
        sequences, 2, 0.5, theta, right, np.asarray(state.nudge), 3
    )
    is_mistake, margin = zip(*rounds, strict=True)
    assert sum(is_mistake) > 10
    labels = sequences.space.num_labels
    np.testing.assert_array_equal(trace.is_mistake, is_mistake)
    np.testing.assert_allclose(trace.margin, margin, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(state.blocks[:-1], theta, atol=1e-12)
    np.testing.assert_allclose(first_order(state.params, labels), w.first, atol=1e-8)
    np.testing.assert_allclose(state.params.table[:-1, :labels], w.zero, atol=1e-10)
    assert not np.asarray(state.params.table)[-1].any()
    # DR-B9: the averages of Theta and w, and the exact map of the former.
    num_rounds = len(rounds)
    ours = state.blocks - state.sums.blocks / num_rounds
    np.testing.assert_allclose(ours[:-1], mean_theta, atol=1e-10)
    final = bol.final_params(state, num_power_steps=2000)
    np.testing.assert_allclose(final.table[:-1, :labels], mean_zero, atol=1e-10)
    values = np.linalg.svd(mean_theta, compute_uv=False)[:, :rank]
    energy = (first_order(final, labels) ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose(energy, (values**2).sum(axis=1), rtol=1e-6, atol=1e-12)
    projected = (first_order(final, labels) * mean_theta).sum(axis=(1, 2))
    np.testing.assert_allclose(projected, energy, rtol=1e-6, atol=1e-12)


def test_dual_average_keeps_a_block_that_came_back_to_zero():
    """DR-B9: Theta_k = 0 at the end, but not on average."""
    ids, labels = np.zeros((2, 1), np.int32), np.array([1, 0], np.int32)
    space = Space(1, 2, ("1",))
    sequences = Sequences(ids, labels, np.arange(3, dtype=np.int32), space)
    learner = bol.learner(dual="dense", num_power_steps=30, dtype=jnp.float64)
    state, trace = in_order(learner, sequences, 1)
    assert trace.is_mistake.all()  # one way, then the other
    assert not np.asarray(state.blocks).any()
    mean = np.asarray(-state.sums.blocks[:-1] / 2)
    assert mean.any()
    ours = first_order(bol.final_params(state), 2)
    np.testing.assert_allclose(ours, mean, atol=1e-12)  # its rank is 1
    sums = state.sums._replace(
        blocks=state.sums.blocks.at[0].set(-1.0)
    )  # no zero in it
    ours = first_order(bol.final_params(state._replace(sums=sums)), 2)
    np.testing.assert_allclose(ours, np.full((1, 2, 3), 0.5), atol=1e-12)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_block_conjugate_tends_to_that_of_the_svd(rank):
    """DR-B5, DR-B6 (ii): F* is half the sum of the leading squares of each block."""
    sequences = task("mixed, transitions")
    learner = bol.learner(
        dual="dense", rank=rank, num_power_steps=60, dtype=jnp.float64
    )
    state, trace = in_order(learner, sequences, 2)
    values = np.linalg.svd(np.asarray(state.blocks), compute_uv=False)[:, :rank]
    labels = sequences.space.num_labels
    expected = (values**2).sum() + (state.params.table[:, :labels] ** 2).sum()
    expected = (expected + (state.params.transitions**2).sum()) / 2
    np.testing.assert_allclose(certify.conjugate(state).value, expected, rtol=1e-10)
    np.testing.assert_allclose(trace.conjugate[-1], expected, rtol=1e-3)
    assert trace.conjugate[-1] <= expected * (1 + 1e-12)  # a lower bound
    assert (trace.bregman >= -1e-9).all()  # DR-B4: F* is convex
    total = trace.conjugate[-1] - (trace.margin + trace.bregman).sum()
    np.testing.assert_allclose(total, 0, atol=1e-8)


@pytest.mark.parametrize("averaging", ["factors", "none"])
@pytest.mark.parametrize("name", list(SPACES)[:2])
def test_paper_equals_algorithm_2_with_full_vectors(name, averaging):
    """BOL-Alg2, Eq. (9)-(12) with the errata's sigma_1, scale and start column."""
    sequences = task(name)
    learner = bol.learner(
        dual="dense",
        variant="paper",
        divisor="global",
        step_size=0.5,
        num_inner_steps=3,
        num_power_steps=100,
        averaging=averaging,
        dtype=jnp.float64,
    )
    state, trace = in_order(learner, sequences, 2)
    alpha, beta, sigma, zero, theta, mean, rounds = twins.bol_paper(
        sequences, 2, 0.5, 3
    )
    is_mistake, margin, sigmas = zip(*rounds, strict=True)
    assert sum(is_mistake) > 10
    labels = sequences.space.num_labels
    np.testing.assert_array_equal(trace.is_mistake, is_mistake)
    np.testing.assert_allclose(trace.sigma_1, sigmas, rtol=1e-6)
    np.testing.assert_allclose(trace.margin, margin, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(state.blocks[:-1], theta, atol=1e-12)
    expected = sigma * np.einsum("ku,kv->kuv", alpha, beta)
    ours = first_order(state.params, labels)
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-8)
    if averaging == "factors":  # BOL-X2
        expected = mean[2] * np.einsum("ku,kv->kuv", mean[0], mean[1])
    ours = first_order(bol.final_params(state), labels)
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("divisor", ["block", "global"])
def test_paper_does_not_depend_on_the_step_size(divisor):
    """Errata of Alg2: only C dPhi / sigma_1 and Theta / sigma_1 enter."""
    sequences = task("first order")
    learners = [
        bol.learner(variant="paper", divisor=divisor, step_size=step)
        for step in (1.0, 7.0, 0.13)
    ]
    traces = [in_order(learner, sequences, 3)[1] for learner in learners]
    for other in traces[1:]:
        np.testing.assert_array_equal(traces[0].is_mistake, other.is_mistake)


@pytest.mark.parametrize("averaging", ["dual", "factors", "none"])
def test_exact_uses_one_block_only(averaging):
    """Errata of BOL-Alg2 (a): the true mirror map lives in the largest block."""
    sequences = task("both orders")
    learner = bol.learner(
        dual="dense",
        variant="exact",
        averaging=averaging,
        record=("ratio",),
        dtype=jnp.float64,
    )
    corpus = streams.sentences.stream(sequences)
    state = learner.init(jax.random.key(0), corpus.example(0))
    update = jax.jit(learner.update)
    labels = sequences.space.num_labels
    total = 0
    for i in range(sequences.num_sentences):
        state, info = update(state, corpus.example(i))
        total = total + np.asarray(state.blocks)[:-1]
        w = first_order(state.params, labels)
        values = np.linalg.svd(np.asarray(state.blocks), compute_uv=False)
        both = np.sort(values.ravel())[::-1][:2]
        assert (np.abs(w).max(axis=(1, 2)) > 0).sum() <= 1
        np.testing.assert_allclose(info.sigma_1, both[0], rtol=1e-10)
        np.testing.assert_allclose(info.ratio * both[0], both[1], rtol=1e-8)
        # BOL-P1, P2: <W, Theta> = sigma_1^2 = ||W||^2.
        inner = (w * np.asarray(state.blocks)[:-1]).sum()
        np.testing.assert_allclose(inner, both[0] ** 2, rtol=1e-10)
        np.testing.assert_allclose((w**2).sum(), both[0] ** 2, rtol=1e-10)
        assert info.bregman >= -1e-9
    np.testing.assert_allclose(
        certify.conjugate(state).value, info.conjugate, rtol=1e-10
    )
    final = first_order(bol.final_params(state), labels)
    assert np.isfinite(final).all()
    if averaging == "dual":
        # DR-B9: the map of the average of Theta.
        u, values, vt = np.linalg.svd(total / sequences.num_sentences)
        wanted, k = np.zeros_like(final), values[:, 0].argmax()
        wanted[k] = values[k, 0] * np.outer(u[k, :, 0], vt[k, 0])
        np.testing.assert_allclose(final, wanted, atol=1e-9)


def test_exact_averages_its_factors():
    """BOL-X2 by a plain sum over rounds."""
    sequences = task("both orders")
    learner = bol.learner(
        dual="dense", variant="exact", averaging="factors", dtype=jnp.float64
    )
    corpus = streams.sentences.stream(sequences)
    state = learner.init(jax.random.key(0), corpus.example(0))
    update, total = jax.jit(learner.update), 0
    for i in range(sequences.num_sentences):
        state, _ = update(state, corpus.example(i))
        total = total + np.asarray(state.params.table)
    mean = total / sequences.num_sentences
    np.testing.assert_allclose(bol.final_params(state).table, mean, atol=1e-10)


@pytest.mark.parametrize("sign", [1, -1])
def test_exact_keeps_the_sign_of_its_factors(sign):
    """Or factors of the same block would cancel in their average."""
    theta = np.random.default_rng(0).normal(size=(2, 3, 4))
    u, values, vt = np.linalg.svd(theta)
    left, right = sign * u[:, None, :, 0] * values[:, :1, None], sign * vt[:, :1]
    columns = np.asarray(bilinear.join(jnp.asarray(left), jnp.asarray(right)))
    top = values[:, 0].argmax()
    table = np.zeros((2, 3 + columns.shape[1]))
    table[top, 3:] = columns[top]
    tree, old = max_tree.build(jnp.asarray(values[:, 0])), jnp.array(top, jnp.int32)
    map_top = jax.jit(exact.map_top, static_argnums=4)
    found, index, change = map_top(jnp.asarray(table), jnp.asarray(theta), tree, old, 3)
    assert int(index) == top
    np.testing.assert_allclose(found, table, atol=1e-12)
    np.testing.assert_allclose(change, 0, atol=1e-12)


@pytest.mark.parametrize("rank", [1, 2])
def test_block_averages_its_factors(rank):
    """BOL-X2 by a plain sum over rounds."""
    sequences = task("columns share features")
    sequences.feature_ids[::2, 1] = sequences.feature_ids[::2, 0]  # twice at once
    learner = bol.learner(
        dual="dense", rank=rank, averaging="factors", dtype=jnp.float64
    )
    corpus = streams.sentences.stream(sequences)
    state = learner.init(jax.random.key(0), corpus.example(0))
    update, total = jax.jit(learner.update), 0
    for i in range(sequences.num_sentences):
        state, _ = update(state, corpus.example(i))
        total = total + np.asarray(state.params.table)
    mean = total / sequences.num_sentences
    np.testing.assert_allclose(bol.final_params(state).table, mean, atol=1e-10)


def test_block_learns_what_was_planted():
    train, test, _ = planted_task(num_train=150, margin=0.5)
    state, trace = loops.train(
        bol.learner(), train, key=jax.random.key(0), num_passes=30
    )
    mistakes = trace.is_mistake.reshape(30, -1).sum(axis=1)
    assert mistakes[-1] == 0 < mistakes[0]
    labels = jax.jit(lambda *given: labelling.predict(bilinear.scores, *given))(
        bol.final_params(state), streams.sentences.stream(test)
    )
    assert (np.asarray(labels) == test.labels).mean() > 0.8


def test_the_ratio_is_recorded_only_where_asked():
    sequences = task("first order")
    last, plain = in_order(bol.learner(averaging="none"), sequences, 1)
    assert plain.ratio is None and last.sums is None
    state, asked = in_order(bol.learner(record=("ratio",)), sequences, 1)
    np.testing.assert_array_equal(last.params.table, state.params.table)
    assert ((asked.ratio >= 0) & (asked.ratio <= 1 + 1e-6)).all()
    assert asked.ratio.max() > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"variant": "blok"}, "`variant` must be one of 'block', 'paper', 'exact'"),
        ({"rank": 0}, "`rank` must be a whole number of at least 1, got 0"),
        ({"rank": 2, "variant": "paper"}, "needs variant='block'"),
        ({"averaging": "dual", "variant": "paper"}, "say 'factors' or 'none'"),
        ({"step_size": -1.0}, "`step_size` must be positive and finite, got -1.0"),
        ({"record": ("gap",)}, "`record` must be one of 'ratio'"),
    ],
)
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        bol.learner(**arguments)


@pytest.mark.slow
def test_a_space_without_first_order_features_is_refused():
    sequences = random_task(("0", "0"))
    with pytest.raises(InputError, match="BOL needs first-order features"):
        in_order(bol.learner(), sequences, 1)
