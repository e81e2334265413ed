"""Algorithm 2 block by block, the uniform start and the mean of W."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import linalg, loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import bol, touched
from lowrank_jax.online.bol import paper
from lowrank_jax.types import Learner
from tests.online import twins
from tests.online.tasks import random_task
from tests.online.test_perceptron import in_order

SPACES = {
    "first order": (("1", "1"), False),
    "both orders, transitions": (("01", "1"), True),
}

SHARED = "columns share features"


def task(name):
    orders, has_transitions = SPACES.get(name, (("01", "01"), True))
    return random_task(orders, has_transitions=has_transitions, shared=name == SHARED)


def blocks_of(params, num_labels):
    if isinstance(params, linear.Params):
        return np.asarray(params.first)[:-1]
    rows = bilinear.split(np.asarray(params.table)[:-1], num_labels)
    return params.scale * np.einsum("kru,krv->kuv", rows.left, rows.right)


def algorithm_2(sequences, num_passes, step, prior, factor, num_inner):
    """Eq. (9)-(12) for each feature's own block, in plain loops with exact sigma_1.

    Yields W and w after each round.
    """
    space = sequences.space
    k, s = space.num_features, space.num_labels
    alpha, beta = np.ones((k, s)), np.ones((k, s + 1))
    theta, flat = np.full((k, s, s + 1), prior), twins.empty(space)
    for _ in range(num_passes):
        for ids, labels in twins.sentences(sequences):
            first = np.einsum("ku,kv->kuv", alpha, beta)
            guess = twins.viterbi(space, flat._replace(first=first), ids)
            right = twins.features(space, ids, labels)
            delta = twins.combine(right, twins.features(space, ids, guess), -1.0)
            before = theta.copy()
            theta = theta + step * delta.first
            flat = twins.combine(flat, delta, step)
            for b in np.flatnonzero(np.abs(delta.first).max(axis=(1, 2))):
                sigma = [np.linalg.norm(part[b], 2) for part in (before, theta)]
                divisor = factor * max(sigma)
                push = step * delta.first[b]
                d_beta = np.zeros(s + 1)
                for _ in range(num_inner):
                    d_alpha = (push @ beta[b] + theta[b] @ d_beta) / divisor
                    d_beta = (push.T @ alpha[b] + theta[b].T @ d_alpha) / divisor
                alpha[b], beta[b] = alpha[b] + d_alpha, beta[b] + d_beta
            yield np.einsum("ku,kv->kuv", alpha, beta), alpha.copy(), beta.copy()


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize(
    ("prior", "factor", "num_inner"), [(0.0, 1.0, 2), (0.7, 1.0, 4), (0.3, 2.0, 3)]
)
def test_paper_equals_algorithm_2_of_each_block(name, prior, factor, num_inner):
    """Errata of BOL-Eq9-12 (d): each block has its own divisor."""
    sequences = task(name)
    learner = bol.learner(
        dual="dense",
        variant="paper",
        start=prior,
        divisor_factor=factor,
        num_inner_steps=num_inner,
        num_power_steps=200,
        step_size=0.5,
        averaging="factors",
        dtype=jnp.float64,
    )
    state, trace = in_order(learner, sequences, 2)
    rounds = list(algorithm_2(sequences, 2, 0.5, prior, factor, num_inner))
    labels = sequences.space.num_labels
    ours = blocks_of(state.params, labels)
    np.testing.assert_allclose(ours, rounds[-1][0], rtol=1e-6, atol=1e-9)
    mean = bilinear.split(bol.final_params(state).table[:-1], labels)
    for found, part in ((mean.left, 1), (mean.right, 2)):
        expected = np.mean([one[part] for one in rounds], axis=0)
        np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6, atol=1e-9)
    assert trace.is_mistake.any()


def test_an_untouched_block_keeps_its_factors():
    sequences = task("first order")
    learner = bol.learner(dual="dense", variant="paper", start=0.5, dtype=jnp.float64)
    state, _ = in_order(learner, sequences, 2)
    is_touched = np.asarray((state.blocks != 0).any(axis=(1, 2)))[:-1]
    rows = bilinear.split(state.params.table[:-1], sequences.space.num_labels)
    rests = ~is_touched & (np.asarray(rows.left)[:, 0] == 1).all(axis=1)
    came_back = ~is_touched & ~rests  # a block may be moved and moved back
    seen = np.unique(sequences.feature_ids)
    unseen = np.setdiff1d(np.arange(sequences.space.num_features), seen)
    assert rests[unseen].all() and is_touched.any() and not came_back[unseen].any()


@pytest.mark.parametrize("factor", [1.2, 2.0, 3.0])
def test_up_and_down_again_restores_the_factors(factor):
    """DR-B12: with c > 1 and a converged inner loop, for any Theta, alpha, beta."""
    rng = np.random.default_rng(0)
    theta, push = rng.normal(size=(2, 20, 4, 5))  # twenty blocks
    alpha, beta = rng.normal(size=(20, 4)), rng.normal(size=(20, 5))
    sigma = np.maximum(*(np.linalg.norm(t, 2, (1, 2)) for t in (theta, theta + push)))
    now = alpha, beta
    for after, move in ((theta + push, push), (theta, -push)):
        deltas = paper.sweep(
            jnp.asarray(after),
            jnp.einsum("kuv,kv->ku", move, now[1]),
            jnp.einsum("kuv,ku->kv", move, now[0]),
            divisor=factor * sigma[:, None],
            num_steps=400,
        )
        now = tuple(old + new for old, new in zip(now, deltas, strict=True))
    np.testing.assert_allclose(now[0], alpha, atol=1e-9)
    np.testing.assert_allclose(now[1], beta, atol=1e-9)


@pytest.mark.parametrize(
    ("variant", "name"),
    [("block", "both orders, transitions"), ("paper", "first order")],
)
def test_only_the_quotient_of_start_and_step_size_matters(variant, name):
    """DR-B11: Theta and its start scale together; factors of Alg. 2 do not scale."""
    sequences = task(name)
    found = []
    for step in (0.5, 2.0):
        learner = bol.learner(
            dual="dense",
            variant=variant,
            start=0.8 * step,
            step_size=step,
            dtype=jnp.float64,
        )
        found.append(in_order(learner, sequences, 3))
    (one, first), (two, second) = found
    np.testing.assert_array_equal(first.num_wrong, second.num_wrong)
    np.testing.assert_allclose(4 * one.blocks, two.blocks, atol=1e-12)


def block_run(sequences, num_passes, step, prior):
    """Mirror descent by blocks with exact leading pairs; yields W before each round."""
    space = sequences.space
    k, s = space.num_features, space.num_labels
    theta, flat = np.full((k, s, s + 1), prior), twins.empty(space)
    for _ in range(num_passes):
        for ids, labels in twins.sentences(sequences):
            u, sigma, vt = np.linalg.svd(theta, full_matrices=False)
            first = sigma[:, 0, None, None] * u[:, :, :1] * vt[:, :1]
            first = first.round(9)  # equal scores stay equal
            weights = flat._replace(first=first)
            yield weights, theta
            guess = twins.viterbi(space, weights, ids)
            right = twins.features(space, ids, labels)
            delta = twins.combine(right, twins.features(space, ids, guess), -1.0)
            theta = theta + step * delta.first
            flat = twins.combine(flat, delta, step)


@pytest.mark.parametrize("name", [*SPACES, SHARED])
@pytest.mark.parametrize("prior", [0.0, 1.5])
def test_mean_of_w_is_over_what_the_rounds_predicted_with(name, prior):
    """DR-B13, by a plain sum over rounds."""
    sequences = task(name)
    learner = bol.learner(
        dual="dense", start=prior, averaging="weights", dtype=jnp.float64
    )
    corpus, labels = streams.sentences.stream(sequences), sequences.space.num_labels
    state = learner.init(jax.random.key(0), corpus.example(0))
    update, first, zero = jax.jit(learner.update), 0, 0
    for i in range(sequences.num_sentences):
        first = first + blocks_of(state.params, labels)
        zero = zero + np.asarray(state.params.table)[:-1, :labels]
        state, _ = update(state, corpus.example(i))
    params = bol.final_params(state)
    assert isinstance(params, linear.Params)
    found = params.first[:-1] * sequences.num_sentences
    np.testing.assert_allclose(found, first, atol=1e-10)
    np.testing.assert_allclose(params.zero[:-1] * len(corpus.starts), zero, atol=1e-10)
    assert (np.asarray(params.first)[-1] == 0).all()  # no feature scores 0


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("num_steps", [0, 200])
def test_a_start_equals_mirror_descent_in_plain_loops(name, num_steps):
    """DR-B11: W is the leading part of Theta, and F* grows from that of the start."""
    sequences, prior = task(name), 1.5
    learner = bol.learner(
        dual="dense",
        start=prior,
        averaging="weights",
        num_power_steps=num_steps,
        dtype=jnp.float64,
    )
    state, _ = in_order(learner, sequences, 2)
    rounds = list(block_run(sequences, 2, 1.0, prior))
    expected = np.mean([weights.first for weights, _ in rounds], axis=0)
    params = bol.final_params(state)
    np.testing.assert_allclose(params.first[:-1], expected, rtol=1e-5, atol=1e-7)
    theta = np.asarray(state.blocks)[:-1] + prior
    values = np.linalg.norm(theta, 2, axis=(1, 2))
    begin = np.linalg.norm(np.full(theta.shape[1:], prior), 2)
    grown = (values**2 - begin**2).sum() + (state.params.table[:-1, :3] ** 2).sum()
    if state.params.transitions is not None:
        grown = grown + (state.params.transitions**2).sum()
    np.testing.assert_allclose(state.conjugate, grown / 2, rtol=1e-6)


@pytest.mark.parametrize("rank", [1, 2])
def test_mean_of_w_is_cut_to_a_rank_on_request(rank):
    """Each block's leading part, by an SVD in NumPy; other weights stay."""
    sequences = task("both orders, transitions")
    learner = bol.learner(
        dual="dense", start=1.5, averaging="weights", dtype=jnp.float64
    )
    state, _ = in_order(learner, sequences, 2)
    mean = bol.final_params(state)
    cut = jax.jit(bol.final_params, static_argnames="rank")(state, rank=rank)
    u, sigma, vt = np.linalg.svd(np.asarray(mean.first)[:-1], full_matrices=False)
    assert sigma[:, rank].max() > 0.01  # there is something to cut
    kept = [part[..., :rank] for part in (u, sigma, vt.swapaxes(1, 2))]
    expected = np.einsum("kur,kr,kvr->kuv", *kept)
    labels = sequences.space.num_labels
    np.testing.assert_allclose(blocks_of(cut, labels), expected, atol=1e-10)
    np.testing.assert_allclose(cut.table[:, :labels], mean.zero, atol=1e-12)
    np.testing.assert_allclose(cut.transitions, mean.transitions, atol=1e-12)
    assert (np.asarray(cut.table)[-1] == 0).all()
    with pytest.raises(InputError, match="`rank` must be at most 3, got 4"):
        bol.final_params(state, rank=4)
    dual, _ = in_order(bol.learner(dtype=jnp.float64), sequences, 1)
    with pytest.raises(InputError, match="needs averaging='weights', got rank=1"):
        bol.final_params(dual, rank=1)


def test_exact_pairs_are_for_few_labels():
    sequences = random_task(("1",), num_labels=17)
    example = streams.sentences.stream(sequences).example(0)
    learner = bol.learner(num_power_steps=0)
    with pytest.raises(InputError, match="`num_labels` must be at most 16, got 17"):
        learner.init(jax.random.key(0), example)


@pytest.mark.parametrize("num_steps", [0, 100])
def test_rank_2_keeps_the_start(num_steps):
    sequences = task("first order")
    learner = bol.learner(
        dual="dense",
        rank=2,
        start=1.0,
        averaging="weights",
        num_power_steps=num_steps,
        dtype=jnp.float64,
    )
    state, _ = in_order(learner, sequences, 1)
    theta = np.asarray(state.blocks)[:-1] + 1.0
    u, sigma, vt = np.linalg.svd(theta, full_matrices=False)
    expected = np.einsum("kur,kr,krv->kuv", u[:, :, :2], sigma[:, :2], vt[:, :2])
    ours = blocks_of(state.params, sequences.space.num_labels)
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_the_start_may_be_swept():
    sequences = task("first order")
    corpus = streams.sentences.stream(sequences)
    order = jnp.arange(sequences.num_sentences, dtype=jnp.int32)

    def run(start):
        learner = bol.learner(start=start, dtype=jnp.float64)
        state = learner.init(jax.random.key(0), corpus.example(0))
        return loops.run(learner, state, corpus, order)[1].num_wrong

    values = jnp.array([0.5, 2.0])
    both = jax.vmap(run)(values)
    for row, value in zip(both, (0.5, 2.0), strict=True):
        np.testing.assert_array_equal(row, run(value))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": -1.0}, "`start` must be"),
        ({"start": 1.0, "variant": "exact"}, "`start` needs variant='block'"),
        ({"start": 1.0, "variant": "paper", "divisor": "global"}, "`start` needs"),
        ({"divisor": "blok"}, "`divisor` must be one of 'block', 'global'"),
        ({"divisor_factor": 2.0}, "`divisor_factor` needs variant='paper'"),
        ({"variant": "paper", "divisor_factor": 0.5}, "at least 1, got 0.5"),
        ({"variant": "paper", "averaging": "weights"}, "needs variant='block'"),
    ],
)
def test_a_setting_that_the_variant_lacks_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        bol.learner(**arguments)


@pytest.mark.parametrize("num_labels", [4, 11])
def test_small_products_as_sums_equal_matrix_products(num_labels):
    """Eq. (9)-(12) and the leading pair; columns of zeros behind change nothing."""
    rng = np.random.default_rng(0)
    theta = jnp.asarray(rng.normal(size=(5, num_labels, num_labels + 1)))
    theta = theta.at[2].set(0)
    push = [jnp.asarray(rng.normal(size=(5, num_labels + i))) for i in range(2)]
    start = jnp.asarray(rng.normal(size=(5, num_labels + 1)))
    wide = ((0, 0), (0, 0), (0, 3))
    for num_steps in (1, 4):
        given = {"divisor": jnp.full((5, 1), 9.0), "num_steps": num_steps}
        plain = paper.sweep(theta, *push, **given)
        padded = jnp.pad(theta, wide), push[0], jnp.pad(push[1], wide[1:])
        for found in (
            paper.sweep(theta, *push, as_sums=True, **given),
            paper.sweep(*padded, as_sums=True, **given),
            paper.sweep(*padded, **given),
        ):
            for one, other in zip(found, plain, strict=True):
                np.testing.assert_allclose(one[:, : other.shape[1]], other, rtol=1e-10)
        expected = linalg.leading_subspace(theta, start[:, None], num_steps=num_steps)
        leading = paper._leading(theta, start, num_steps=num_steps)
        value = jnp.linalg.norm(expected.left[:, 0], axis=1)
        np.testing.assert_allclose(leading.right, expected.right[:, 0], rtol=1e-10)
        np.testing.assert_allclose(leading.value, value, rtol=1e-10)
        np.testing.assert_allclose(leading.residual, expected.residual, rtol=1e-9)


def test_a_wrong_sigma_1_makes_no_sweep_expand():
    """With c > 1 no block outgrows that of exact pairs, however poor the power steps.

    A start that leaves hardly any room for a new direction is the unlucky one.
    """
    sequences = random_task(("1", "1"), num_labels=4, num_sentences=60)
    sizes = []
    for num_power_steps in (1, 0):
        base = bol.learner(
            variant="paper",
            divisor_factor=2.0,
            num_inner_steps=16,
            num_power_steps=num_power_steps,
            averaging="none",
            dtype=jnp.float64,
        )

        def init(key, example, base=base):
            state = base.init(key, example)
            return state._replace(nudge=1e-9 * state.nudge)

        state, _ = in_order(Learner(init, base.update), sequences, 2)
        whole = touched.by_feature(state.params)
        sizes.append(np.linalg.norm(blocks_of(whole, 4), axis=(1, 2)).max())
    poor, exact = sizes
    assert poor <= 4 * exact
