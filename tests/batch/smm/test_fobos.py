"""Spectral max-margin tagging: FOBOS, its mini-batches, and the smoothed method."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.smm.learners import stochastic
from lowrank_jax import streams
from lowrank_jax.batch.smm import fobos, smoothed
from lowrank_jax.batch.smm.hinge import hinge, hinge_loss, smoothed_hinge
from lowrank_jax.batch.smm.penalties import lower_bound, proximal_step, warm_start
from lowrank_jax.checks import InputError
from lowrank_jax.data import Corpus
from lowrank_jax.data.bisymbols import alphabet_of, encode_words
from lowrank_jax.models import hankel


@functools.lru_cache
def task():
    """Twelve short words: an output depends on its letter and the output before it."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 5, 12)
    letters = generator.choice(list("abc"), lengths.sum())
    outputs = np.array(
        ["x" if x == "c" else generator.choice(["x", "y"]) for x in letters]
    )
    offsets = np.cumsum([0, *lengths])
    corpus = Corpus((letters,), outputs, offsets, "toy")
    alphabet = alphabet_of(corpus)
    words = encode_words(alphabet, corpus)
    return alphabet, words, streams.words.lattice(alphabet, words)


def loss_and_subgradient(table, *, has_end=False):
    """Sum of hinges by enumeration; counts of best less true factors, (n, n, n)."""
    _, words, _ = task()
    total, counts, num_wrong = 0.0, np.zeros(table.shape), 0
    for i, length in enumerate(words.lengths):
        lists = [words.candidates[i, t][words.mask[i, t]] for t in range(length)]
        gold = tuple(words.gold[i, :length].tolist())

        def cells(path):
            full = (0, 0, *path, 0) if has_end else (0, 0, *path)
            return [full[t : t + 3] for t in range(len(full) - 2)]

        def value(path, gold=gold, cells=cells):
            wrong = sum(a != b for a, b in zip(path, gold, strict=True))
            return sum(table[cell] for cell in cells(path)) + wrong

        best = max(itertools.product(*lists), key=value)
        total += value(best) - value(gold)
        num_wrong += sum(a != b for a, b in zip(best, gold, strict=True))
        for sign, path in ((1, best), (-1, gold)):
            for cell in cells(path):
                counts[cell] += sign
    return total, counts, num_wrong


def test_hinge_and_subgradient_equal_enumeration():
    alphabet, _, lattice = task()
    n = alphabet.num_symbols
    blocks = hankel.basis(3, lower_orders="stacked")
    generator = np.random.default_rng(1)
    params = tuple(jnp.asarray(generator.normal(size=b.shape(n))) for b in blocks)
    found = jax.jit(lambda p: hinge(blocks, p, lattice))(params)
    table = np.asarray(hankel.score_table(blocks, params))
    total, counts, num_wrong = loss_and_subgradient(table)
    np.testing.assert_allclose(found.loss, total, rtol=1e-10)
    assert int(found.num_wrong) == num_wrong
    parts = [counts.sum((0, 1))[None], counts.sum(0), counts.reshape(n * n, n)]
    wanted = np.concatenate(parts)  # rows of length 0, 1, 2
    np.testing.assert_allclose(found.gradient[0], wanted, atol=1e-12)


def run(num_iterations=12, **settings):
    _, _, lattice = task()
    learner = fobos.learner(**({"dtype": jnp.float64, "gap_every": 1} | settings))
    state = learner.init(jax.random.key(0), lattice)
    step = jax.jit(lambda s, _: learner.update(s, lattice))
    return jax.lax.scan(step, state, None, length=num_iterations)


PROX = {
    "nuclear": lambda h, t: svt(h, t),
    "none": lambda h, t: h,
    "frobenius": lambda h, t: h * max(0, 1 - t / max(np.linalg.norm(h), 1e-300)),
    "squared_frobenius": lambda h, t: h / (1 + t),
}
NORM = {
    "nuclear": lambda h: np.linalg.svd(h, compute_uv=False).sum(),
    "none": lambda h: 0.0,
    "frobenius": np.linalg.norm,
    "squared_frobenius": lambda h: (h**2).sum() / 2,
}


def svt(matrix, threshold):
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return (left * np.maximum(values - threshold, 0)) @ right


def test_iterations_are_those_of_algorithm_1():
    more = {"half": True, "reduction": "mean", "step_size": 5, "strength": 0.1}
    alphabet, words, _ = task()
    n = alphabet.num_symbols
    state, trace = run(6, **more)
    tau = more["strength"] / 2  # half
    scale = 1 / words.num_words  # mean
    h, best, weighted, steps = np.zeros((n * n, n)), (np.inf, None), 0, 0
    sums, bound, num_letters = np.zeros(3, object), -np.inf, words.lengths.sum()
    for t in range(1, 7):
        total, counts, num_wrong = loss_and_subgradient(h.reshape(n, n, n))
        objective = scale * total + tau * NORM["nuclear"](h)
        np.testing.assert_allclose(trace.objective[t - 1], objective, rtol=1e-8)
        if objective < best[0]:
            best = (objective, h)
        eta = more["step_size"] / np.sqrt(t)
        np.testing.assert_allclose(trace.step_size[t - 1], eta, rtol=1e-12)
        np.testing.assert_allclose(trace.accuracy[t - 1], 1 - num_wrong / num_letters)
        np.testing.assert_allclose(trace.loss[t - 1], scale * total, rtol=1e-8)
        if t in (1, 2, 4):  # DR-M2: averages begin anew at powers of two
            sums = np.zeros(3, object)
        sums = sums + eta * np.array([counts, num_wrong, 1], object)
        slope = np.linalg.norm(scale * sums[0].reshape(n * n, n) / sums[2], 2)
        bound = max(bound, min(1, tau / slope) * scale * sums[1] / sums[2])
        np.testing.assert_allclose(trace.lower_bound[t - 1], bound, rtol=1e-8)
        gap = (best[0] - bound) / best[0]
        np.testing.assert_allclose(trace.gap[t - 1], gap, rtol=1e-7)
        h = PROX["nuclear"](h - eta * scale * counts.reshape(n * n, n), eta * tau)
        weighted, steps = weighted + eta * h, steps + eta
    for iterate, wanted in (
        ("last", h),
        ("best", best[1]),
        ("average", weighted / steps),
    ):
        found = fobos.final_params(state, iterate)[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)
    assert int(state.rank) == np.linalg.matrix_rank(h, tol=1e-9)


@functools.lru_cache
def long_run():
    return run(400, strength=1.0, step_size=0.2)


def test_the_gap_closes_and_the_bound_stays_below():
    _, trace = long_run()
    best, bound = np.asarray(trace.best_objective), np.asarray(trace.lower_bound)
    assert (np.diff(best) <= 0).all() and (np.diff(bound) >= 0).all()
    assert bound[-1] <= best[-1] * (1 + 1e-9)
    assert trace.gap[-1] < 0.1 < trace.gap[40]  # O(1/sqrt(t)) is slow
    # the objective itself is not monotone (errata SMM-Alg1)
    assert (np.diff(np.asarray(trace.objective)) > 0).any()


@pytest.mark.parametrize("regulariser", PROX)
def test_the_proximal_step_of_each_penalty(regulariser):
    params = tuple(
        jnp.asarray(np.random.default_rng(k).normal(size=shape))
        for k, shape in enumerate([(1, 3), (9, 3)])
    )
    strengths = tuple(map(jnp.asarray, (0.4, 0.8)))
    step = jax.jit(functools.partial(proximal_step, regulariser, num_steps=1))
    empty = warm_start(jax.random.key(0), params, None)
    found = step(params, strengths, jnp.asarray(0.5), empty)
    wanted = [PROX[regulariser](np.asarray(params[k]), (0.2, 0.4)[k]) for k in (0, 1)]
    for k in (0, 1):
        np.testing.assert_allclose(found.params[k], wanted[k], atol=1e-10)
    penalty = 0.4 * NORM[regulariser](wanted[0]) + 0.8 * NORM[regulariser](wanted[1])
    np.testing.assert_allclose(found.penalty, penalty, rtol=1e-10)


def test_a_bound_holds_for_every_matrix():
    alphabet, _, lattice = task()
    n = alphabet.num_symbols
    blocks = hankel.basis(3)
    generator = np.random.default_rng(3)
    loss_of = jax.jit(lambda p: hinge(blocks, p, lattice))
    points = [
        (jnp.asarray(scale * generator.normal(size=(n * n, n))),)
        for scale in (0.01, 0.1, 0.5, 1.0)
    ]
    found = [loss_of(point) for point in points]
    bound_of = jax.jit(lower_bound, static_argnums=0)
    for weights in generator.dirichlet(np.ones(4), size=5):
        gradient = (
            sum(w * f.gradient[0] for w, f in zip(weights, found, strict=True)),
        )
        cost = sum(
            w * f.num_wrong.astype(float) for w, f in zip(weights, found, strict=True)
        )
        for regulariser in ("nuclear", "frobenius", "squared_frobenius", "none"):
            for tau in (0.3, 3.0):
                bound = bound_of(regulariser, gradient, cost, (jnp.asarray(tau),))
                for point, f in zip(points, found, strict=True):
                    penalty = tau * NORM[regulariser](np.asarray(point[0]))
                    assert float(bound) <= float(f.loss) + penalty + 1e-9
                assert float(bound) <= 23  # at H = 0: all letters wrong at most


def test_the_lower_bound_equals_plain_numpy():
    """DR-M2 to the digit: a bound that is a little too high is no bound."""
    generator = np.random.default_rng(4)
    parts = [generator.normal(size=shape) for shape in ((9, 3), (3, 3))]
    gradient, cost = tuple(map(jnp.asarray, parts)), jnp.asarray(7.0)
    for tau in (0.1, 1.0, 50.0):
        strengths = (jnp.asarray(tau), jnp.asarray(2 * tau))
        sigmas = [np.linalg.norm(part, 2) for part in parts]
        lengths = [np.linalg.norm(part) for part in parts]
        for name, norms in (("nuclear", sigmas), ("frobenius", lengths)):
            share = min(1, tau / norms[0], 2 * tau / norms[1])
            found = lower_bound(name, gradient, cost, strengths)
            np.testing.assert_allclose(found, share * 7, rtol=1e-10)
        total = lengths[0] ** 2 / tau + lengths[1] ** 2 / (2 * tau)
        share = min(1, 7 / total)
        found = lower_bound("squared_frobenius", gradient, cost, strengths)
        np.testing.assert_allclose(found, share * 7 - share**2 / 2 * total, rtol=1e-10)
        assert lower_bound("none", gradient, cost, strengths) == 0


def test_truncated_thresholds_give_the_same_run():
    _, full = long_run()
    _, trace = run(
        20,
        strength=1.0,
        step_size=0.2,
        svt="truncated",
        max_rank=6,
        num_subspace_steps=20,
    )
    assert trace.is_complete.all()
    np.testing.assert_array_equal(trace.rank, full.rank[:20])
    np.testing.assert_allclose(trace.objective, full.objective[:20], rtol=1e-7)
    np.testing.assert_allclose(trace.lower_bound, full.lower_bound[:20], rtol=1e-7)


def test_one_batch_is_fobos_and_a_late_threshold_adds_up():
    alphabet, words, _ = task()
    _, trace = long_run()
    batches = streams.words.batches(alphabet, words, num_batches=1)
    same = jax.tree.map(lambda part: jnp.repeat(jnp.asarray(part), 5, axis=0), batches)
    settings = {"strength": 1.0, "step_size": 0.2, "dtype": jnp.float64}
    learner = stochastic.learner(num_batches=1, **settings)
    start = learner.init(jax.random.key(0), jax.tree.map(lambda x: x[0], same))
    final, info = jax.jit(lambda s: jax.lax.scan(learner.update, s, same))(start)
    np.testing.assert_allclose(info.objective, trace.objective[:5], rtol=1e-8)
    np.testing.assert_array_equal(info.rank, trace.rank[:5])
    assert int(final.num_rounds) == 5

    batches = streams.words.batches(alphabet, words, num_batches=3)
    assert batches.num_words == 4
    assert int(batches.num_letters.sum()) == words.num_letters
    settings["num_batches"] = 3
    late = stochastic.learner(prox_every=3, **settings)
    none = stochastic.learner(regulariser="none", **settings)

    @jax.jit
    def both(state):
        return [jax.lax.scan(x.update, state, batches)[0] for x in (late, none)]

    found, plain = both(start)
    threshold = 0.2 * (1 + 1 / np.sqrt(2) + 1 / np.sqrt(3))
    wanted = svt(np.asarray(plain.params[0]), threshold)
    np.testing.assert_allclose(found.params[0], wanted, atol=1e-9)
    assert float(found.pending) == 0.0 and int(found.num_rounds) == 3


def test_smoothed_hinge_lies_above_and_its_gradient_is_its_own():
    alphabet, _, lattice = task()
    n, blocks = alphabet.num_symbols, hankel.basis(3)
    point = (jnp.asarray(np.random.default_rng(4).normal(size=(n * n, n))),)
    found = jax.jit(lambda p: smoothed_hinge(blocks, p, lattice, 0.3))(point)
    loss_of = jax.jit(lambda p, mu: hinge_loss(blocks, p, lattice, mu))
    exact, _, _ = loss_and_subgradient(np.asarray(hankel.score_table(blocks, point)))
    most = 0.3 * int(lattice.num_letters) * np.log(2)  # two candidates a letter
    assert float(exact) <= float(found.loss) <= float(exact) + most
    direction = jnp.asarray(np.random.default_rng(5).normal(size=(n * n, n)))
    ends = [loss_of((point[0] + s * 1e-5 * direction,), 0.3) for s in (1, -1)]
    slope = float(ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(jnp.vdot(found.gradient[0], direction), slope, rtol=1e-6)
    assert 0 < float(found.cost) < int(lattice.num_letters)


def test_the_smoothed_method_reaches_the_objective_in_fewer_passes():
    _, _, lattice = task()
    learner = smoothed.learner(
        smoothing=0.02, strength=1.0, first_curvature=10.0, dtype=jnp.float64
    )
    state = learner.init(jax.random.key(0), lattice)
    step = jax.jit(lambda s, _: learner.update(s, lattice))
    state, trace = jax.lax.scan(step, state, None, length=100)
    _, other = long_run()
    assert trace.gap[-1] < 0.05
    assert trace.lower_bound[-1] <= trace.best_objective[-1]
    assert trace.best_objective[-1] <= other.best_objective[-1] * 1.001
    assert trace.num_evaluations.sum() < 300 < len(other.gap)
    assert trace.is_accepted.all() and trace.is_complete.all()
    # the smoothed loss lies above the hinge
    assert (np.asarray(trace.smoothed_loss) >= np.asarray(trace.loss) - 1e-9).all()
    assert smoothed.final_params(state, "best")[0].shape == state.params[0].shape


@pytest.mark.slow
def test_the_smoothed_method_closes_the_gap_with_mixed_symbols():
    """The bound holds at every matrix, and the mixed problem is another problem."""
    alphabet, _, lattice = task()
    n, blocks = alphabet.num_symbols, hankel.basis(3)
    mixing = jnp.eye(n) + 0.3 * (alphabet.letter_of[:, None] == alphabet.letter_of)
    settings = {"smoothing": 0.02, "strength": 1.0, "dtype": jnp.float64}

    def solved(mixing):
        learner = smoothed.learner(first_curvature=10.0, mixing=mixing, **settings)
        state = learner.init(jax.random.key(0), lattice)
        step = jax.jit(lambda s, _: learner.update(s, lattice))
        return jax.lax.scan(step, state, None, length=200)

    state, trace = solved(mixing)
    assert trace.gap[-1] < 0.05 and trace.is_accepted.all()
    found = hinge_loss(blocks, state.best_params, lattice, mixing=mixing)
    table = np.asarray(hankel.score_table(blocks, state.best_params, mixing=mixing))
    np.testing.assert_allclose(found, loss_and_subgradient(table)[0], rtol=1e-9)
    penalty = np.linalg.norm(state.best_params[0], "nuc")
    np.testing.assert_allclose(found + penalty, trace.best_objective[-1], rtol=1e-9)
    bound = trace.lower_bound[-1]
    for seed in range(20):
        move = np.random.default_rng(seed).normal(size=state.params[0].shape) / 50
        point = (state.best_params[0] + move,)
        loss = hinge_loss(blocks, point, lattice, mixing=mixing)
        assert loss + np.linalg.norm(point[0], "nuc") >= bound
    assert abs(solved(None)[1].best_objective[-1] - trace.best_objective[-1]) > 0.1


def test_rounding_of_large_sums_does_not_stop_the_smoothed_method():
    """Separable words: scores are large, and their differences are nearly nothing."""
    corpus = Corpus(
        (np.array(list("cacica" * 10)),),
        np.array(list("k@sIk@" * 10)),
        np.arange(0, 61, 6),
        "toy",
    )
    alphabet = alphabet_of(corpus)
    words = encode_words(alphabet, corpus)
    lattice = streams.words.lattice(alphabet, words)
    learner = smoothed.learner(
        regulariser="squared_frobenius",
        strength=0.01,
        smoothing=0.003,
        dtype=jnp.float32,
    )
    state = learner.init(jax.random.key(0), lattice)
    step = jax.jit(lambda s, _: learner.update(s, lattice))
    _, trace = jax.lax.scan(step, state, None, length=150)
    assert trace.is_accepted.all() and trace.gap[-1] < 0.02


@pytest.mark.parametrize("max_rank", [1, 6])
def test_too_little_room_or_too_few_trials_are_told(max_rank):
    alphabet, words, lattice = task()
    settings = {"svt": "truncated", "max_rank": max_rank, "strength": 0.1}
    settings |= {"num_subspace_steps": 20, "dtype": jnp.float64}
    batches = streams.words.batches(alphabet, words, num_batches=3)
    learner = stochastic.learner(num_batches=3, prox_every=3, **settings)
    start = learner.init(jax.random.key(0), jax.tree.map(lambda x: x[0], batches))
    info = jax.jit(lambda s: jax.lax.scan(learner.update, s, batches))(start)[1]
    # Only the last step thresholds; the others have nothing to leave out.
    assert info.is_complete.tolist() == [True, True, max_rank > 1]

    learner = smoothed.learner(first_curvature=1e-3, max_trials=2, **settings)
    start = learner.init(jax.random.key(0), lattice)
    info = jax.jit(learner.update)(start, lattice)[1]
    assert info.is_complete == (max_rank > 1)
    assert not info.is_accepted and info.num_evaluations == 3


def test_wrong_settings_are_named():
    for module in (fobos, smoothed):
        with pytest.raises(InputError, match="`regulariser` must be one of"):
            module.learner(regulariser="l3")
        with pytest.raises(InputError, match="`strength` must be zero or more"):
            module.learner(strength=-1.0)
    with pytest.raises(InputError, match="`step_size` must be positive"):
        fobos.learner(step_size=0.0)
    with pytest.raises(InputError, match="`block_strengths` must have 1 numbers"):
        fobos.learner(block_strengths=(1.0, 2.0))
    with pytest.raises(InputError, match="`num_batches` must be a whole number"):
        stochastic.learner(num_batches=0)
    state, _ = long_run()
    with pytest.raises(InputError, match="`iterate` must be one of"):
        fobos.final_params(state, "first")
