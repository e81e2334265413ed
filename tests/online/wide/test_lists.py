"""Wide rounds of candidate lists against plain loops on dense features."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data import drop_shared
from lowrank_jax.models.tensor import Shape
from lowrank_jax.online import rerank, tensor_mira
from tests.online.test_tensor_mira import (
    NUM_LISTS,
    dense,
    ranked,
    substep,
    task,
    vectors_of,
)
from tests.online.wide import twins

KEY = np.array([0, 5], np.uint32)  # computes nothing at import


def train(learner, batch_size, num_passes=2):
    stream = streams.lists.stream(drop_shared(task()))
    given = {"key": KEY, "num_passes": num_passes, "batch_size": batch_size}
    return loops.train(learner, stream, **given)


def batches(schedule):
    """The lists of each round of two passes."""
    for index, size in enumerate(schedule):
        order = np.asarray(loops.pass_order(KEY, index, NUM_LISTS))
        yield from twins.batches(order, size, index == 0)


def pairs_of(score, batch, decoding="plain", num_best=1):
    """For each mistaken pair: place in the batch, rank, difference, cost."""
    lists = task()
    qualities = np.split(lists.quality.astype(float), lists.list_offsets[1:-1])
    vectors = vectors_of(lists)
    for i, n in enumerate(batch):
        features, quality = vectors[n], qualities[n]
        y = int(quality.argmax())
        scores = score(features)
        for k, z in enumerate(ranked(scores, quality, y, decoding, num_best)):
            if z != y:
                yield i, k, features[y] - features[z], quality[y] - quality[z]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "limit", "decoding", "num_best"),
    [
        ("perceptron", 0.5, "plain", 1),
        ("mira", 0.05, "plain", 1),
        ("mira", 1, "cost", 2),
    ],
)
def test_linear_rounds_equal_plain_loops(rule, limit, decoding, num_best):
    """TM-B1 with C m^-1/2; TM-B2 as the quadratic program of a batch."""
    learner = rerank.learner(
        rule=rule, max_step_size=limit, decoding=decoding, num_best=num_best,
        dtype=jnp.float64,
    )  # fmt: skip
    state, trace = train(learner, "3,8")
    w = np.zeros(task().num_features)
    total, rows = np.zeros_like(w), []
    for batch in batches((3, 8)):
        found = list(pairs_of(lambda x, w=w: x @ w, batch, decoding, num_best))
        here = np.zeros((len(batch), num_best, 3))  # is_mistake, margin, tau
        for i, k, delta, _ in found:
            here[i, k, :2] = 1, w @ delta
        if rule == "perceptron":
            eta = twins.step_of(len(found), limit)
            for i, k, delta, _ in found:
                w, here[i, k, 2] = w + eta * delta, eta
        moved = limit
        for _ in range(10 if rule == "mira" else 0):
            if moved <= 1e-5 * limit:
                break
            moved = 0.0
            for i, k, delta, cost in found:
                old, square = here[i, k, 2], delta @ delta
                full = old + (cost - w @ delta) / square if square else 0.0
                full = min(max(full, 0.0), limit)
                w, here[i, k, 2] = w + (full - old) * delta, full
                moved = max(moved, abs(full - old))
        total += len(batch) * w
        rows += list(here)
    rows = np.array(rows)
    near = {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_array_equal(trace.is_mistake, rows[:, 0, 0])
    np.testing.assert_allclose(trace.margin, rows[:, 0, 1], **near)
    np.testing.assert_allclose(trace.step_size, rows[:, :, 2].mean(axis=1), **near)
    assert (rows[..., 2] == 0).any() and (rows[..., 2] > 0).any()
    assert rule == "perceptron" or limit == 1 or (rows[..., 2] == limit).any()
    np.testing.assert_allclose(state.params[:-1], w, **near)
    mean = rerank.final_params(state)
    np.testing.assert_allclose(mean[:-1], total / len(rows), **near)
    assert int(state.num_rounds) == 2 * NUM_LISTS


@pytest.mark.parametrize("step", ["paper", "bcd"])
def test_tensor_rounds_equal_plain_loops(step):
    """TM-Eq6, DR-T2: one candidate after the other, chosen by the tensor before."""
    shape, limit = Shape((3, 4), 2), 0.3
    learner = tensor_mira.learner(
        shape=shape, step=step, max_step_size=limit, start="positive", num_best=2,
        averaging="average", dtype=jnp.float64,
    )  # fmt: skip
    stream = streams.lists.stream(drop_shared(task()))
    start = loops.start(learner, stream, key=KEY)
    params = [np.array(w) for w in start.params]
    sums, rows = [np.zeros_like(w) for w in params], []
    for batch in batches((3, 8)):
        whole = dense(params).ravel(order="F")
        before = [w.copy() for w in params]
        found = list(pairs_of(lambda x, w=whole: x @ w, batch, num_best=2))
        here, has_moved = np.zeros((len(batch), 2, 3)), False
        for i, k, delta, cost in found:
            here[i, k, :2] = 1, whole @ delta
            first, shaped = dense(params), delta.reshape(shape.sizes, order="F")
            if (first * shaped).sum() >= cost:
                continue
            has_moved, taus = True, []
            for h, d in np.ndindex(shape.num_components, shape.order):
                params[d][h], tau, _ = substep(
                    params, first, h, d, shaped, cost, limit, step
                )
                taus.append(tau)
            here[i, k, 2] = np.mean(taus)
        if has_moved and step != "paper":
            norms = [np.linalg.norm(w, axis=1, keepdims=True) for w in params]
            middle = np.sqrt(norms[0] * norms[1])
            params = [w * middle / n for w, n in zip(params, norms, strict=True)]
        inner = ((sums[1] + len(batch) * before[1]) * params[1]).sum(axis=1)
        sign = np.where((inner >= 0) | (not has_moved), 1, -1)[:, None]
        params = [w * sign for w in params]
        sums = [s + len(batch) * w for s, w in zip(sums, params, strict=True)]
        rows += list(here)
    rows = np.array(rows)
    state, trace = train(learner, "3,8")
    near = {"rtol": 1e-6, "atol": 1e-9}  # rounding grows from round to round
    np.testing.assert_array_equal(trace.is_mistake, rows[:, 0, 0])
    np.testing.assert_allclose(trace.margin, rows[:, 0, 1], **near)
    np.testing.assert_allclose(trace.step_size, rows[:, :, 2].mean(axis=1), **near)
    for found, w in zip(state.params, params, strict=True):
        np.testing.assert_allclose(found, w, **near)
    assert int(state.agreement.num_rounds) == len(rows)  # they never started anew
    for found, s in zip(tensor_mira.final_params(state), sums, strict=True):
        np.testing.assert_allclose(found, s / len(rows), **near)


@pytest.mark.parametrize("name", ["rerank", "tensor_mira"])
def test_a_batch_of_one_is_the_learner_itself(name):
    learner = rerank.learner()
    if name == "tensor_mira":
        learner = tensor_mira.learner(shape=Shape((3, 4), 2), averaging="average")
    one, other = (train(learner, size, 1) for size in (1, "1"))
    for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="at most 30, the number of training lists"):
        train(rerank.learner(), 31)
    learner = tensor_mira.learner(shape=Shape((3, 4), 2), record=("sub_steps",))
    with pytest.raises(InputError, match="record nothing, got record=sub_steps"):
        train(learner, 4)
