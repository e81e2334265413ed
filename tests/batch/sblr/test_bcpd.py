"""Sparse bilinear logistic regression against a plain NumPy twin of its algorithms."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, streams
from lowrank_jax.batch.sblr import bcpd, streamed
from lowrank_jax.batch.sblr.start import start_params
from lowrank_jax.checks import InputError
from lowrank_jax.linalg import penalties
from lowrank_jax.models import bilinear_logit, lipschitz

NET = {"mu1": 0.01, "mu2": 0.05, "nu1": 0.02, "nu2": 0.03}


def task(num_classes=2, dtype=np.float64, seed=0, shape=(24, 5, 4)):
    rng = np.random.default_rng(seed)
    y = np.arange(shape[0]) % num_classes
    means = rng.standard_normal((num_classes, *shape[1:]))
    x = rng.standard_normal(shape) + 0.5 * means[y]
    weights = rng.uniform(0.5, 1.5, shape[0])
    weights[3] = 0.0
    return streams.matrices.label_matrices(x.astype(dtype), y, weights=weights)[0]


@functools.cache
def run(num_classes=2, max_iterations=5, dtype=np.float64, **settings):
    labelled = task(num_classes, dtype)
    learner = bcpd.learner(**settings)

    @jax.jit
    def program(labelled):
        state = learner.init(jax.random.key(0), labelled)
        return state, *loops.converge(
            learner, state, labelled, max_iterations=max_iterations
        )

    state, final, trace, count = jax.device_get(program(labelled))
    return labelled, state, final, jax.tree.map(lambda part: part[:count], trace)


class Twin:
    """Algorithms 2 and 3 as printed, matrix by matrix (SBLR-Eq7..16, Eq32)."""

    def __init__(self, labelled, params, mu, nu, growth=1.5, least=1e-6):
        self.x, self.y, self.omega = (np.asarray(part) for part in labelled[:3])
        self.left, self.right, self.bias = (np.array(part) for part in params)
        self.mu, self.nu, self.growth, self.least = mu, nu, growth, least
        self.constants = [1.0, 1.0]

    def loss(self, left, right, bias):
        total = 0.0
        for x, y, omega in zip(self.x, self.y, self.omega, strict=True):
            scores = self.scores(x, left, right, bias)
            total += omega * (np.log(1 + np.exp(scores).sum()) - y @ scores)
        return total

    def scores(self, x, left, right, bias):
        pairs = zip(left, right, bias, strict=True)
        return np.array([np.trace(u.T @ x @ v) + b for u, v, b in pairs])

    def gradients(self, left, right, bias):
        found = [np.zeros_like(part) for part in (left, right, bias)]
        for x, y, omega in zip(self.x, self.y, self.omega, strict=True):
            scores = np.exp(self.scores(x, left, right, bias))
            gaps = omega * (scores / (1 + scores.sum()) - y)
            for c, gap in enumerate(gaps):
                found[0][c] += gap * x @ right[c]
                found[1][c] += gap * x.T @ left[c]
                found[2][c] += gap
        return found

    def penalty(self, factors, strengths):
        l1, l2 = strengths
        return l1 * np.abs(factors).sum() + l2 / 2 * (factors**2).sum()

    def objective(self):
        return (
            self.loss(self.left, self.right, self.bias)
            + self.penalty(self.left, self.mu)
            + self.penalty(self.right, self.nu)
        )

    def step(self, which):
        params = [self.left, self.right, self.bias]
        grads, old = self.gradients(*params), [part.copy() for part in params]
        l1, l2 = (self.mu, self.nu)[which]
        before, power = self.loss(*old), -1
        while True:
            constant = max(self.least, self.constants[which] * self.growth**power)
            moved = (constant * old[which] - grads[which]) / (constant + l2)
            threshold = l1 / (constant + l2)  # SBLR-Eq10
            params[which] = np.sign(moved) * np.maximum(np.abs(moved) - threshold, 0)
            params[2] = old[2] - grads[2] / constant  # SBLR-Eq9
            moves = [params[which] - old[which], params[2] - old[2]]
            model = before + (grads[which] * moves[0]).sum() + grads[2] @ moves[1]
            model += constant / 2 * ((moves[0] ** 2).sum() + (moves[1] ** 2).sum())
            if self.loss(*params) <= model:  # SBLR-Eq14
                break
            power += 1
        self.constants[which] = constant
        self.left, self.right, self.bias = params

    def sweep(self):
        self.step(0)
        self.step(1)


@pytest.mark.parametrize(("num_classes", "start"), [(2, "paper"), (3, "label")])
def test_sweeps_are_those_of_the_paper(num_classes, start):
    """SBLR-Alg2 for two classes, SBLR-Alg3 for three."""
    settings = NET | {"rank": 2, "start": start, "tolerance": 0.0}
    labelled, state, final, trace = run(num_classes, **settings)
    twin = Twin(labelled, state.params, (0.01, 0.05), (0.02, 0.03))
    np.testing.assert_allclose(state.objective, twin.objective(), rtol=1e-10)
    for k in range(5):
        before = twin.objective(), twin.left, twin.right, twin.bias
        twin.step(0)
        between = twin.bias
        twin.step(1)
        constants = trace.left_constant[k], trace.right_constant[k]
        np.testing.assert_allclose(constants, twin.constants, rtol=1e-10)
        np.testing.assert_allclose(trace.objective[k], twin.objective(), rtol=1e-10)
        new = twin.left, twin.right, twin.bias
        move = np.sqrt(
            sum(((a - b) ** 2).sum() for a, b in zip(new, before[1:], strict=True))
        )
        size = np.sqrt(sum((part**2).sum() for part in before[1:]))
        fall = abs(twin.objective() - before[0]) / (1 + before[0])
        change = max(move / (1 + size), fall)  # SBLR-Eq8
        np.testing.assert_allclose(trace.change[k], change, rtol=1e-8)
        squares = [
            ((a - b) ** 2).sum() for a, b in zip(new[:2], before[1:3], strict=True)
        ]
        squares += [((between - before[3]) ** 2).sum(), ((new[2] - between) ** 2).sum()]
        drop = before[0] - twin.objective()
        printed = drop - twin.least / 2 * sum(squares)  # SBLR-Eq17
        in_u, in_v = twin.constants
        factors = np.array([in_u + 0.05, in_v + 0.03, in_u, in_v])  # DR-S3
        tight = drop - factors @ squares / 2
        np.testing.assert_allclose(trace.decrease_slack[k], printed, rtol=1e-8)
        np.testing.assert_allclose(trace.tight_slack[k], tight, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(trace.loss[k], twin.loss(*new), rtol=1e-10)
    assert trace.right_support[-1] == np.count_nonzero(twin.right)
    is_alive = [u.any() and v.any() for u, v in zip(twin.left, twin.right, strict=True)]
    assert trace.num_zero[-1] == is_alive.count(False)
    for found, expected in zip(final.params, new, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert trace.left_support[-1] == np.count_nonzero(twin.left)


def test_starts_are_singular_vectors_of_the_means():
    labelled = task()
    x, y, omega = (np.asarray(part) for part in labelled[:3])
    for start, shares, sign in (
        ("paper", omega, -1),
        ("label", omega * (y[:, 0] - 0.5), 1),
    ):
        u, _, vt = np.linalg.svd(np.einsum("n,nst->st", shares, x))
        found = start_params(labelled, rank=2, start=start)
        for j in range(2):
            outer = np.outer(found.left[0, :, j], found.right[0, :, j])
            np.testing.assert_allclose(
                outer, sign * np.outer(u[:, j], vt[j]), atol=1e-10
            )


LONG = NET | {"max_iterations": 3000, "tolerance": 1e-11}


@pytest.mark.parametrize("step", ["backtracking", "tight", "lemma"])
def test_every_step_rule_descends_as_promised(step):
    """SBLR-Eq17 and DR-S3: each sweep decreases F by at least so much."""
    labelled, state, _, trace = run(step=step, **LONG)
    assert (np.diff([state.objective, *trace.objective]) <= 1e-15).all()
    assert (trace.decrease_slack >= -1e-14).all()
    assert (trace.tight_slack >= -1e-14).all()
    assert (trace.tight_slack < trace.decrease_slack).all()
    if step != "lemma":  # its steps are some hundred times too short
        assert_stationary(trace)
    if step != "backtracking":
        features = bilinear_logit.left_features(labelled, state.params.right)
        rule = getattr(lipschitz, f"{step}_constant")
        constant = rule(features, labelled.weights)
        np.testing.assert_allclose(trace.left_constant[0], constant, rtol=1e-10)


def test_blocks_solved_to_a_tolerance_reach_the_same_point_in_fewer_sweeps():
    """SBLR-Alg1."""
    *_, trace = run(solver="minimise", block_tolerance=1e-10, **LONG)
    assert_stationary(trace)
    assert len(trace.objective) < len(run(step="backtracking", **LONG)[3].objective)
    assert (trace.tight_slack >= -1e-10).all()


def assert_stationary(trace):
    """DR-S4: the balance identity holds at the limit, and not before."""
    np.testing.assert_allclose(trace.objective[-1], 0.36456, atol=1e-5)
    assert trace.stationarity[-1] < 1e-5
    assert trace.balance[-1] < 1e-5
    assert trace.balance[0] > 1e-4
    assert trace.converged[-1] and not trace.converged[:-1].any()


def test_weight_zero_is_the_same_as_leaving_a_matrix_out():
    settings = NET | {"rank": 2, "start": "label", "tolerance": 0.0}
    labelled, state, final, _ = run(3, **settings)
    kept = np.asarray(labelled.weights) > 0
    assert not kept.all()
    twin = Twin(labelled, state.params, (0.01, 0.05), (0.02, 0.03))
    twin.x, twin.y, twin.omega = twin.x[kept], twin.y[kept], twin.omega[kept]
    for _ in range(5):
        twin.sweep()
    np.testing.assert_allclose(final.params.left, twin.left, rtol=1e-9, atol=1e-12)


def test_chunks_from_the_host_give_the_run_in_one_piece():
    """The products of a matrix do not depend on its chunk; nothing is sampled."""
    settings = NET | {"rank": 2, "start": "label", "tolerance": 0.0}
    labelled, _, final, trace = run(3, **settings)
    params, infos = streamed.fit(
        np.asarray(labelled.x),
        labelled.targets,
        labelled.weights,
        chunk_size=7,  # does not divide 24
        rank=2,
        left_penalty=penalties.elastic_net(l1=0.01, l2=0.05),
        right_penalty=penalties.elastic_net(l1=0.02, l2=0.03),
        start="label",
        tolerance=0.0,
        max_iterations=5,
        dtype=jnp.float64,
    )
    for one, other in zip(final.params, params, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)
    objectives = [info.objective for info in infos]
    np.testing.assert_allclose(objectives, trace.objective, rtol=1e-12)


def test_single_precision_does_not_drive_the_constants_up():
    *_, trace = run(dtype=np.float32, max_iterations=600, tolerance=0.0, **NET)
    *_, exact = run(step="backtracking", **LONG)
    assert trace.left_constant[-1] < 3 * exact.left_constant[-1]
    assert trace.right_constant[-1] < 3 * exact.right_constant[-1]
    np.testing.assert_allclose(trace.objective[-1], exact.objective[-1], rtol=1e-5)


def test_total_variation_as_a_penalty_descends():
    """SBLR-X1: another prox, Algorithm 2 unchanged."""
    smooth = penalties.total_variation(strength=0.02, l2=0.01)
    settings = {"nu1": 0.01, "nu2": 0.01, "left_penalty": smooth}
    *_, trace = run(max_iterations=60, tolerance=0.0, **settings)
    assert (np.diff(trace.objective) <= 1e-13).all()
    assert trace.stationarity[-1] < 0.1 * trace.stationarity[0]


def test_rank_beyond_the_matrices_is_refused_in_words():
    with pytest.raises(InputError, match=r"`rank` must lie in 1..4 for 5x4 matrices"):
        bcpd.learner(rank=5).init(jax.random.key(0), task())


def test_a_given_start_is_scaled_without_its_bias():
    """The size is that of the least F, and the F of the state is that of its params."""
    labelled = task()
    start = start_params(labelled, rank=2)._replace(bias=jnp.array([3.0]))
    learner = bcpd.learner(rank=2, start=start, scale_start=True, **NET)
    state = learner.init(jax.random.key(0), labelled)

    def twin(size):
        params = size * start.left, size * start.right, start.bias
        return Twin(labelled, params, (0.01, 0.05), (0.02, 0.03))

    size = min((2.0**k for k in range(-12, 5)), key=lambda size: twin(size).objective())
    np.testing.assert_allclose(state.params.left, twin(size).left)
    np.testing.assert_allclose(state.params.bias, [3.0])
    np.testing.assert_allclose(state.objective, twin(size).objective(), rtol=1e-10)


def test_options_without_effect_are_refused_in_words():
    penalty, start = penalties.none(), start_params(task(), rank=2)
    for sentence, options in (
        ("`left_penalty`, or `mu1` and `mu2`", {"left_penalty": penalty, "mu1": 0.1}),
        ("`left_penalty`, or `mu1` and `mu2`", {"left_penalty": penalty, "mu2": 0.1}),
        (
            "`right_penalty`, or `nu1` and `nu2`",
            {"right_penalty": penalty, "nu2": jnp.float32(0.1)},
        ),
        ("`rank` must be 2, the rank of `start`, got 1", {"start": start}),
        ("`rank` must be 2, the rank of `start`, got 3", {"start": start, "rank": 3}),
        ("`step` has no part in solver='min", {"solver": "minimise", "step": "lemma"}),
        ("`growth` has no part in solver='min", {"solver": "minimise", "growth": 2.0}),
        ("`growth` has no part in .* step='tight'", {"step": "tight", "growth": 2.0}),
        ("`block_tolerance` has no part in solver='pro", {"block_tolerance": 0.1}),
        ("`max_block_steps` has no part in solver='pro", {"max_block_steps": 9}),
    ):
        with pytest.raises(InputError, match=sentence):
            bcpd.learner(**options)
    bcpd.learner(left_penalty=penalty, mu1=0.0, nu1=0.1, rank=2, start=start)


def test_settings_have_the_names_and_defaults_of_the_learner():
    assert bcpd.Settings._field_defaults == bcpd.learner.__kwdefaults__
    static, numbers = bcpd.Settings(left_penalty=penalties.none(), nu1=0.1).split()
    assert hash(static) == hash(bcpd.Settings(left_penalty=static.left_penalty))
    assert numbers["nu1"] == 0.1 and "mu1" not in numbers


def test_a_solution_path_from_strong_penalties_leaves_zero():
    """Warm starts: at 0.5 the factors are zero, and a weaker penalty revives them."""
    labelled = task()
    last, sizes = None, []
    for strength in (0.5, 0.02):
        learner = bcpd.learner(
            mu1=strength, nu1=strength, start="label" if last is None else last
        )
        state = learner.init(jax.random.key(0), labelled)
        state, _, _ = jax.jit(
            lambda *given, learner=learner: loops.converge(
                learner, *given, max_iterations=300
            )
        )(state, labelled)
        last = bcpd.final_params(state)
        sizes.append(float(jnp.abs(last.left).sum() * jnp.abs(last.right).sum()))
    assert sizes[0] == 0 < sizes[1]
    # Where zero is best it stays, and factors that are not zero are kept to the bit.
    strong = bcpd.learner(mu1=0.5, nu1=0.5, start=jax.tree.map(jnp.zeros_like, last))
    assert not np.asarray(strong.init(jax.random.key(0), labelled).params.left).any()
    kept = bcpd.learner(mu1=0.02, nu1=0.02, start=last).init(None, labelled).params
    chex.assert_trees_all_equal(kept, last)
