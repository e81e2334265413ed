"""Tensor-MIRA against a twin on dense tensors, and the results DR-T1 to DR-T3."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data import drop_shared
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.models.tensor import Shape, mode_sizes
from lowrank_jax.online import components, rerank, tensor_mira

LIMITS = (100.0, 0.3, 0.02)  # C: never clipped, sometimes, mostly
NUM_LISTS = 30
RTOL = 1e-6  # rounding grows from round to round where steps are long
SETTINGS = {
    "paper": dict(shape=Shape((3, 4), 2)),
    "exact": dict(shape=Shape((3, 4), 2), averaging="average", decoding="cost"),
    "bcd": dict(shape=Shape((2, 3, 2), 2), num_sweeps=2, record=("sub_steps",)),
}
each_step = pytest.mark.parametrize("step", SETTINGS)


@functools.lru_cache
def task(sizes=(3, 4)):
    lists, _, _ = reranking_task(
        NUM_LISTS,
        1,
        seed=1,
        sizes=sizes,
        num_candidates=(3, 6),
        num_active=(2, 5),
        num_shared=3,
        noise=1.0,
    )
    return lists


def vectors_of(lists):
    """Dense features of all candidates, list by list."""
    table = np.zeros((lists.num_candidates, lists.num_features))
    owner = np.repeat(np.arange(lists.num_candidates), np.diff(lists.candidate_offsets))
    np.add.at(table, (owner, lists.feature_ids), lists.values)
    return np.split(table, lists.list_offsets[1:-1])


@functools.lru_cache
def program(module, **settings):
    """Compile a run over the lists, for several C side by side.

    What all candidates share is taken off: the twins see the lists with it.
    """
    corpus = streams.lists.stream(drop_shared(task()))
    order = jnp.arange(NUM_LISTS, dtype=jnp.int32)

    def one(limit, params):
        learner = module.learner(max_step_size=limit, dtype=jnp.float64, **settings)
        start = learner.init(jax.random.key(0), corpus.example(0))
        start = start if params is None else start._replace(params=params)
        return start, *loops.run(learner, start, corpus, order)

    return jax.jit(jax.vmap(one, in_axes=(0, None)))


def runs(module, limits, params=None, **settings):
    """Run once for each C: the first and the last state, and the trace."""
    found = program(module, **settings)(jnp.array(limits), params)
    found = jax.device_get(found)
    return [jax.tree.map(lambda part, i=i: part[i], found) for i in range(len(limits))]


@functools.lru_cache
def tensor_runs(step):
    settings = SETTINGS[step]
    rng = np.random.default_rng(1)
    params = tuple(rng.uniform(-1, 1, (2, n)) for n in settings["shape"].sizes)
    return runs(tensor_mira, LIMITS, params, step=step, **settings)


def outer(parts):
    return functools.reduce(np.multiply.outer, parts, np.ones(()))


def dense(params):
    return sum(outer([w[h] for w in params]) for h in range(params[0].shape[0]))


def contract(whole, parts, d):
    """Contract a tensor with all vectors but the d-th."""
    for mode in reversed(range(whole.ndim)):
        if mode != d:
            whole = np.tensordot(whole, parts[mode], axes=(mode, 0))
    return whole


def objective(whole, first, difference, cost, limit):
    """TM-Eq3 on dense tensors."""
    hinge = max(0.0, cost - (whole * difference).sum())
    return 0.5 * ((whole - first) ** 2).sum() + limit * hinge


def substep(params, first, h, d, difference, cost, limit, step):
    """One sub-step with dense tensors; returns the new vector, tau, is clipped."""
    parts = [w[h] for w in params]
    w, rest = params[d][h], dense(params) - outer(parts)
    phi = contract(difference, parts, d)
    weight = math.prod(p @ p for i, p in enumerate(parts) if i != d)
    largest = limit if step == "paper" else limit / weight
    centre = contract(first - rest, parts, d) / weight if step == "bcd" else w
    gap = max(0.0, cost - (rest * difference).sum() - centre @ phi)
    full = gap / (phi @ phi) if phi @ phi > 0 else 0.0
    tau = min(largest, full)
    return centre + tau * phi, tau, full > largest


def ranked(scores, quality, y, decoding, num_best):
    """The best candidates by score, or by score plus cost."""
    prices = quality[y] - quality if decoding == "cost" else 0
    return np.argsort(-(scores + prices), kind="stable")[:num_best].tolist()


def twin(
    start,
    limit,
    step,
    shape,
    num_sweeps=1,
    balance=True,
    decoding="plain",
    num_best=1,
    seen=None,
    **_,
):
    """Run all rounds with dense tensors; the params after each and the numbers.

    `seen` is given tau and TM-Eq3 before and after each sub-step of each round.
    """
    params = [np.array(w) for w in start]
    lists = task()
    qualities = np.split(lists.quality.astype(float), lists.list_offsets[1:-1])
    trace, after = [], []
    sums = [np.zeros_like(w) for w in params]
    num_substeps = num_sweeps * shape.num_components * shape.order * num_best
    for features, quality in zip(vectors_of(lists), qualities, strict=True):
        before = [w.copy() for w in params]
        scores = features @ dense(params).ravel(order="F")
        y = int(quality.argmax())
        chosen = ranked(scores, quality, y, decoding, num_best)
        steps = np.zeros((num_sweeps, shape.num_components, shape.order, 3))
        taus, clips, rises, has_moved, begins, ends = [], [], [], False, 0.0, 0.0
        for k, z in enumerate(chosen):
            first = dense(params)
            shaped = (features[y] - features[z]).reshape(shape.sizes, order="F")
            cost = quality[y] - quality[z]
            if y == z or (k > 0 and (first * shaped).sum() >= cost):
                continue
            has_moved = True
            value = objective(first, first, shaped, cost, limit)
            begins += value
            for sweep in range(num_sweeps):
                for h, d in np.ndindex(shape.num_components, shape.order):
                    new, tau, clip = substep(
                        params, first, h, d, shaped, cost, limit, step
                    )
                    params[d][h] = new
                    now = objective(dense(params), first, shaped, cost, limit)
                    rises.append(now > value + 1e-12 * (1 + value))
                    if k == 0:
                        steps[sweep, h, d] = tau, value, now
                    value = now
                    taus.append(tau)
                    clips.append(clip)
            ends += value
        if has_moved and balance:
            if step != "paper":
                norms = [np.linalg.norm(w, axis=1, keepdims=True) for w in params]
                middle = math.prod(norms) ** (1 / shape.order)
                params = [w * middle / n for w, n in zip(params, norms, strict=True)]
            for d in range(1, shape.order):  # turn vectors round towards their sums
                inner = ((sums[d] + before[d]) * params[d]).sum(axis=1)
                sign = np.where(inner >= 0, 1, -1)[:, None]
                params[d], params[0] = params[d] * sign, params[0] * sign
        for total, w in zip(sums, params, strict=True):
            total += w
        if seen is not None:
            seen.append(steps)
        mean = [np.sum(part) / num_substeps for part in (taus, clips, rises)]
        z = chosen[0]
        trace.append((y != z, quality[y] - quality[z], begins, ends, *mean))
        after.append([w.copy() for w in params])
    return after, np.array(trace, float)


def test_averages_start_anew_where_the_tensor_has_left_them():
    """A component that dies and comes back elsewhere is not mixed with the old one."""
    lists = task()
    order = jnp.tile(jnp.arange(NUM_LISTS, dtype=jnp.int32), 8)
    one = streams.lists.stream(drop_shared(lists))
    two = dataclasses.replace(lists, quality=1 - lists.quality)  # the worst is now best
    two = streams.lists.stream(drop_shared(two))
    learner = tensor_mira.learner(
        shape=Shape((2, 3, 2), 1), step="bcd", max_step_size=0.1, decoding="cost",
        averaging="average", dtype=jnp.float64,
    )  # fmt: skip

    def update(state, example):
        state, info = learner.update(state, example)
        return state, (info, state.params)

    @jax.jit
    def run(state, corpus):
        return jax.lax.scan(lambda s, i: update(s, corpus.example(i)), state, order)

    state, (before, old) = run(learner.init(jax.random.key(0), one.example(0)), one)
    assert not before.restarted.any()
    state, (info, new) = run(state, two)
    whole = [np.concatenate(pair) for pair in zip(old, new, strict=True)]
    begin = len(order) + int(np.flatnonzero(info.restarted)[-1])
    assert state.agreement.num_rounds == 2 * len(order) - begin
    for part, found in zip(whole, tensor_mira.final_params(state), strict=True):
        np.testing.assert_allclose(found, part[begin:].mean(0), rtol=1e-9)
    last = dense([part[-1] for part in whole])
    kept, mixed = (dense([part[at:].mean(0) for part in whole]) for at in (begin, 0))
    assert cosine(kept, last) > 0.8 > 0.5 > cosine(mixed, last)
    # The last cosine is with the mean before the round, its last term taken twice.
    terms = [np.append(part[begin:-1], part[-2:-1], axis=0) for part in whole]
    mean = dense([part.mean(0) for part in terms])
    np.testing.assert_allclose(info.average_cosine[-1], cosine(mean, last), rtol=1e-9)


def cosine(one, two):
    return (one * two).sum() / np.sqrt((one * one).sum() * (two * two).sum())


def test_scatter_alone_does_not_start_the_averages_anew():
    rng = np.random.default_rng(0)

    @jax.jit
    def follow(values):
        start = components.no_agreement(jnp.float64)
        return jax.lax.scan(components.agree, start, values)

    scattered = 0.2 + 0.2 * rng.normal(size=2000)
    after, restarted = follow(jnp.asarray(scattered))
    assert not restarted.any() and after.num_rounds == 2000
    fallen = np.append(np.full(300, 0.9), np.full(300, 0.3))
    after, restarted = follow(jnp.asarray(fallen))
    # The mean of 0.3 + 0.6 (99/100)^k is below 0.45 from k = 138 on.
    assert np.flatnonzero(restarted).tolist() == [300 + 138 - 1]
    assert after.num_rounds == 600 - (300 + 138 - 1)


@pytest.mark.slow
@each_step
def test_rounds_equal_those_on_dense_tensors(step):
    settings = SETTINGS[step]
    shape = settings["shape"]
    num_mistakes = 0
    for limit, (start, final, info) in zip(LIMITS, tensor_runs(step), strict=True):
        seen = []
        after, trace = twin(start.params, limit, step, seen=seen, **settings)
        if settings.get("record"):
            np.testing.assert_allclose(info.sub_steps, seen, rtol=RTOL, atol=1e-8)
        num_mistakes += trace[:, 0].sum()
        names = "is_mistake cost objective objective_after step_size clipped rises"
        for i, name in enumerate(names.split()):
            np.testing.assert_allclose(
                getattr(info, name), trace[:, i], rtol=RTOL, atol=1e-8, err_msg=name
            )
        # Signs are a matter of choice where nothing is averaged: compare tensors.
        found, expected = dense(final.params), dense(after[-1])
        np.testing.assert_allclose(found, expected, rtol=RTOL, atol=1e-8)
        assert final.num_rounds == NUM_LISTS
        norms = [math.prod(w[h] @ w[h] for w in after[-1]) for h in range(2)]
        np.testing.assert_allclose(info.norm_product[-1], np.mean(norms), rtol=RTOL)
        one, two = (outer([w[h] for w in after[-1]]) for h in range(2))
        apart = math.sqrt(((one - two) ** 2).sum() / 2 / sum(norms))
        np.testing.assert_allclose(info.component_distance[-1], apart, atol=1e-6)
        if settings.get("averaging"):
            for d, w in enumerate(tensor_mira.final_params(final)):
                mean = np.mean([params[d] for params in after], axis=0)
                np.testing.assert_allclose(w, mean, rtol=RTOL, atol=1e-8)
        if step != "paper":  # one length of all vectors changes no tensor
            plain, _ = twin(start.params, limit, step, balance=False, **settings)
            np.testing.assert_allclose(expected, dense(plain[-1]), atol=1e-6)
            lengths = [np.linalg.norm(w, axis=1) for w in final.params]
            np.testing.assert_allclose(lengths, lengths[:1] * shape.order, rtol=1e-9)
    assert num_mistakes > NUM_LISTS


def test_bcd_never_raises_the_objective_and_the_others_do():
    """DR-T2, and that the other two rules do raise it shows that the check sees."""
    rises = {step: [r[2].rises.sum() for r in tensor_runs(step)] for step in SETTINGS}
    assert rises["bcd"] == [0, 0, 0]
    assert sum(rises["paper"]) > 0
    assert sum(rises["exact"]) > 0
    for _, _, info in tensor_runs("bcd"):
        assert (info.objective_after <= info.objective * (1 + 1e-12)).all()


def random_problem(rng, sizes=(3, 2, 4)):
    params = [rng.normal(size=(2, n)) for n in sizes]
    first = dense([w + 0.3 * rng.normal(size=w.shape) for w in params])
    difference = rng.normal(size=sizes) * (rng.random(sizes) < 0.5)
    return params, first, difference, rng.random(), 10 ** rng.uniform(-3, 1)


def test_bcd_substep_is_the_minimum_over_its_vector():
    """DR-T2: thousands of random sub-steps, none raises, none can be bettered."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        params, first, difference, cost, limit = random_problem(rng)
        given = (first, difference, cost, limit)
        value = objective(dense(params), *given)
        for h, d in np.ndindex(2, 3):
            new, _, _ = substep(params, first, h, d, difference, cost, limit, "bcd")
            params[d][h] = new
            now = objective(dense(params), *given)
            assert now <= value * (1 + 1e-12)
            value = now
        for size in (1e-1, 1e-3):
            params[d][h] = new + size * rng.normal(size=new.shape)
            assert objective(dense(params), *given) >= value * (1 - 1e-12)


def test_exact_substep_is_the_minimum_of_its_sub_problem():
    """DR-T1 against a grid of steps and random moves; TM-Eq6 is not the minimum."""
    rng = np.random.default_rng(1)
    excess = []
    for _ in range(200):
        params, _, difference, cost, limit = random_problem(rng)
        parts = [w[1] for w in params]
        rest = dense(params) - outer(parts)
        weight = math.prod(p @ p for p in parts[1:])
        phi = contract(difference, parts, 0)
        s = (rest * difference).sum()

        def value(w, weight=weight, parts=parts, phi=phi, s=s, c=cost, limit=limit):
            move = w - parts[0]
            return weight / 2 * (move @ move) + limit * max(0.0, c - s - w @ phi)

        given = (params, dense(params), 1, 0, difference, cost, limit)
        best = value(substep(*given, "exact")[0])
        for a in np.linspace(0, 2 * limit, 50):
            assert best <= value(parts[0] + a * phi) + 1e-12
        for size in (1e-1, 1e-3):
            assert best <= value(parts[0] + size * rng.normal(size=3)) + 1e-12
        paper = substep(*given, "paper")
        excess.append(value(paper[0]) - best)
        if paper[2]:  # clipped: worse than not moving if and only if B > 2 (DR-T3)
            hinge_left = cost - s - paper[0] @ phi
            assert hinge_left > 0
            assert (value(paper[0]) > value(parts[0])) == (weight > 2)
    assert min(excess) > -1e-12
    assert max(excess) > 0.1


def test_without_clipping_the_paper_learns_one_vector_only():
    """DR-T3, and the share of vectors that learn grows as C shrinks."""
    large, _, small = tensor_runs("paper")
    start, final, info = large
    assert info.is_mistake.sum() > 10
    np.testing.assert_allclose(final.params[1], start.params[1], rtol=1e-12)
    np.testing.assert_allclose(final.params[0][1], start.params[0][1], rtol=1e-12)
    assert np.abs(final.params[0][0] - start.params[0][0]).min() > 1e-3
    shares = [r[2].moved[r[2].is_mistake].mean() for r in tensor_runs("paper")]
    assert shares[0] <= 0.25 < shares[1] < shares[2]
    assert small[2].clipped[small[2].is_mistake].mean() > 0.5
    moved = [r[2].moved[r[2].is_mistake].mean() for r in tensor_runs("bcd")]
    assert min(moved) > 0.9  # all vectors learn at every C
    # From zeros no vector has a direction to move along.
    zeros = jax.tree.map(np.zeros_like, start.params)
    for _, final, info in runs(
        tensor_mira, LIMITS, zeros, step="paper", **SETTINGS["paper"]
    ):
        assert info.is_mistake.any() and not (info.step_size + info.clipped).any()
        assert not any(factor.any() for factor in final.params)


def test_equal_components_stay_equal_while_every_step_is_clipped():
    """DR-T3: with a constant start the rank stays 1 as long as C is small."""
    settings = SETTINGS["paper"]
    equal = tuple(np.full((2, n), 0.4) for n in settings["shape"].sizes)
    (_, tiny, info), (_, _, other), (_, _, large) = runs(
        tensor_mira, (1e-5, 0.3, 1.0), equal, step="paper", **settings
    )
    assert (info.clipped[info.is_mistake] == 1).all()
    assert info.component_distance.max() < 1e-2
    np.testing.assert_allclose(tiny.params[0][0], tiny.params[0][1], rtol=1e-3)
    assert other.component_distance[-1] > 0.1
    assert not large.rises.any()  # sub-steps that stay where they are do not raise it


def test_n_best_rounds_equal_those_on_dense_tensors():
    """Each of the best candidates in turn, from the tensor the last one left."""
    settings = dict(shape=Shape((3, 4), 1), step="bcd", decoding="cost", num_best=3)
    rng = np.random.default_rng(2)
    params = tuple(rng.uniform(-1, 1, (1, n)) for n in (3, 4))
    found = runs(tensor_mira, LIMITS, params, **settings)
    for limit, (start, final, info) in zip(LIMITS, found, strict=True):
        after, trace = twin(start.params, limit, **settings)
        names = "is_mistake cost objective objective_after step_size clipped rises"
        for i, name in enumerate(names.split()):
            np.testing.assert_allclose(
                getattr(info, name), trace[:, i], rtol=RTOL, atol=1e-8, err_msg=name
            )
        np.testing.assert_allclose(
            dense(final.params), dense(after[-1]), rtol=RTOL, atol=1e-8
        )
        one, _ = twin(start.params, limit, **(settings | {"num_best": 1}))
        assert np.abs(dense(one[-1]) - dense(after[-1])).max() > 1e-3
        assert not info.rises.any() and not info.component_distance.any()


@pytest.mark.parametrize(
    ("rule", "decoding", "num_best"),
    [("mira", "plain", 1), ("perceptron", "plain", 1), ("mira", "cost", 3)],
)
def test_linear_rounds_equal_the_twin_with_all_features(rule, decoding, num_best):
    lists = task()
    qualities = np.split(lists.quality.astype(float), lists.list_offsets[1:-1])
    # The scores of a perceptron are often equal: its steps must be exact.
    limits = (4.0, 0.25) if rule == "perceptron" else LIMITS
    found = runs(rerank, limits, rule=rule, decoding=decoding, num_best=num_best)
    for limit, (_, final, info) in zip(limits, found, strict=True):
        w, total = np.zeros(lists.num_features), np.zeros(lists.num_features)
        for t, features in enumerate(vectors_of(lists)):
            scores, quality = (features - features[0]) @ w, qualities[t]
            y = int(quality.argmax())
            chosen = ranked(scores, quality, y, decoding, num_best)
            assert info.is_mistake[t] == (y != chosen[0])
            taus = []
            for k, z in enumerate(chosen):
                delta, cost = features[y] - features[z], quality[y] - quality[z]
                loss = max(0.0, cost - w @ delta) if y != z else 0.0
                if k == 0:
                    np.testing.assert_allclose(
                        info.loss[t], loss, rtol=1e-8, atol=1e-12
                    )
                tau = limit if rule == "perceptron" and y != z else 0.0
                if rule == "mira" and delta @ delta > 0:
                    tau = min(limit, loss / (delta @ delta))
                taus.append(tau)
                w = w + tau * delta
            np.testing.assert_allclose(
                info.step_size[t], sum(taus) / num_best, rtol=1e-8, atol=1e-12
            )
            total += w
        assert 5 < info.is_mistake.sum() < NUM_LISTS or decoding == "cost"
        np.testing.assert_allclose(final.params[:-1], w, rtol=1e-8, atol=1e-12)
        mean = rerank.final_params(final)
        np.testing.assert_allclose(mean[:-1], total / NUM_LISTS, rtol=1e-8, atol=1e-12)
        assert final.params[-1] == mean[-1] == 0
        assert final.scratch is None or not final.scratch.any()


def test_order_one_is_mira():
    corpus = streams.lists.stream(task())
    order = jnp.arange(NUM_LISTS, dtype=jnp.int32)
    settings = dict(max_step_size=0.05, dtype=jnp.float64)
    one = tensor_mira.learner(shape=Shape((12,)), step="bcd", **settings)
    other = rerank.learner(averaging="none", **settings)

    @jax.jit
    def both(corpus):
        first = corpus.example(0)
        start, zero = one.init(jax.random.key(0), first), other.init(None, first)
        same = zero._replace(params=jnp.append(start.params[0][0], 0.0))
        return (
            loops.run(one, start, corpus, order),
            loops.run(other, same, corpus, order),
        )

    (last, info), (linear, trace) = both(corpus)
    assert trace.is_mistake.sum() > 5
    np.testing.assert_array_equal(info.is_mistake, trace.is_mistake)
    np.testing.assert_allclose(info.step_size, trace.step_size, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(
        last.params[0][0], linear.params[:-1], rtol=1e-8, atol=1e-12
    )


def test_a_pass_copies_no_table_of_weights():
    learner = rerank.learner()  # with all three tables
    num_features = 40_000  # a number that no other axis has
    corpus = streams.lists.stream(task())
    corpus = dataclasses.replace(corpus, num_features=num_features)
    first = jax.eval_shape(lambda c: c.example(0), corpus)
    state = jax.eval_shape(learner.init, jax.random.key(0), first)
    order = jnp.arange(NUM_LISTS, dtype=jnp.int32)
    step = jax.jit(lambda *given: loops.run(learner, *given), donate_argnums=0)
    text = step.lower(state, corpus, order).compile().as_text()
    assert f"[{num_features + 1}]" in text
    copies = [
        line
        for line in text.splitlines()
        if f"[{num_features + 1}]" in line.partition("=")[2].split("(")[0]
        and " copy(" in line
    ]
    assert copies == []


def test_bad_arguments_are_named():
    first = jax.eval_shape(lambda c: c.example(0), streams.lists.stream(task()))
    learner = tensor_mira.learner(shape=Shape((3, 5)))
    with pytest.raises(InputError, match="15 cells, and the lists have 12"):
        jax.eval_shape(learner.init, jax.random.key(0), first)
    with pytest.raises(InputError, match="`step` must be one of"):
        tensor_mira.learner(shape=Shape((3, 4)), step="other")
    for shape, words in {
        (3, 4): "`shape` must be a Shape",
        Shape((70000, 70000)): "at most 2147483647 cells, got 4900000000",
        Shape((3, 4), 10**11): "at most 2147483647 parameters, got 700000000000",
        Shape((3, -4), 2): "`sizes` must be a whole number of at least 1, got -4",
        Shape((0, 3)): "`sizes` must be a whole number of at least 1, got 0",
        Shape((3, 4), 0): "`num_components` must be a whole number",
        Shape(()): "`sizes` must be a tuple of one size or more",
        Shape(3): "`sizes` must be a tuple of one size or more",
    }.items():
        with pytest.raises(InputError, match=words):
            tensor_mira.learner(shape=shape)
    with pytest.raises(InputError, match="`dtype` must be a floating-point type, got"):
        tensor_mira.learner(shape=Shape((3, 4)), dtype=jnp.int32)
    with pytest.raises(InputError, match="`order` must be at most 64, got 100000000"):
        mode_sizes(12, 100_000_000)
    with pytest.raises(InputError, match="`decoding` must be one of"):
        rerank.learner(decoding="other")
    with pytest.raises(InputError, match="`num_best` must be 1 for the perceptron"):
        rerank.learner(rule="perceptron", num_best=2)
    with pytest.raises(InputError, match="`max_step_size` must be positive"):
        rerank.learner(max_step_size=0.0)


def test_a_component_with_a_zero_vector_is_not_balanced():
    params = np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([[0.0, 4.0], [0.0, 0.0]])
    squares = jnp.array([(factor**2).sum(1) for factor in params])
    found = components.balanced(params, squares, jnp.array(True))
    np.testing.assert_allclose(found[0], [[2.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(found[1], [[0.0, 2.0], [0.0, 0.0]])
