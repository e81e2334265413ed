"""Attempts to break duality, margins and the chain of regrets, on runs of BOL-Eq8."""

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from lowrank_jax.theory.bol import duality, margin, regret
from tests.theory.properties import is_attained, is_sound, powers, seeds, settings

ROUNDS = 12
shapes = st.sampled_from([(2, 3), (1, 4)])
KINDS = ("random", "whole numbers", "ties", "rank one", "one matrix", "some zero")
kinds = st.sampled_from([*KINDS, "separable", "zero"])
TIED = ("whole numbers", "ties", "one matrix", "zero")  # margins of 0 are usual


def rank_1(rng, shape):
    left, right = (rng.standard_normal(size) for size in shape)
    return np.outer(left / np.linalg.norm(left), right / np.linalg.norm(right))


def drawn(rng, kind, shape):
    """Return differences (ROUNDS, m, n) of size about 1, and a planted matrix."""
    deltas, planted = rng.standard_normal((ROUNDS, *shape)), rank_1(rng, shape)
    signs = rng.choice([-1.0, 1.0], (ROUNDS, 1, 1))
    if kind == "whole numbers":
        deltas = np.round(deltas)
    elif kind == "ties":
        deltas = np.eye(*shape) * signs * rng.choice([-1.0, 1.0], (ROUNDS, shape[0], 1))
    elif kind == "rank one":
        deltas = np.stack([rank_1(rng, shape) for _ in range(ROUNDS)])
    elif kind == "one matrix":
        deltas = deltas[:1] * signs
    elif kind == "some zero":
        deltas = deltas * (signs > 0)
    elif kind == "separable":
        deltas = deltas * np.sign((planted * deltas).sum((1, 2), keepdims=True))
    return deltas * (kind != "zero"), planted


def leading(theta):
    u, sigma, vt = np.linalg.svd(theta)
    return sigma[0] * np.outer(u[:, 0], vt[0])


def run(deltas, step):
    """Run mirror descent by plain loops: a mistake where the margin is not positive."""
    theta, rounds = np.zeros(deltas.shape[1:]), []
    for delta in deltas:
        score = (leading(theta) * delta).sum()
        is_mistake = score <= 0
        delta = delta * is_mistake
        after = theta + step * delta
        before_f, f = (np.linalg.norm(x, 2) ** 2 / 2 for x in (theta, after))
        rounds.append(
            {
                "before": theta,
                "after": after,
                "params": leading(after),
                "delta": delta,
                "is_mistake": is_mistake,
                "margin": score * is_mistake,
                "loss": (1 - score) * is_mistake,
                "conjugate": f,
                "increment": step * is_mistake - f + before_f,
            }
        )
        theta = after
    return {name: np.stack([one[name] for one in rounds]) for name in rounds[0]}


def compared(trace, matrices):
    """Return what is to be known of 6 matrices U, some again, for one program."""
    us = np.resize(np.stack(matrices), (6, *matrices[0].shape))
    sigma = np.linalg.svd(us, compute_uv=False)
    return {
        "margins": np.einsum("umn,tmn->ut", us, trace["delta"]),
        "trace": sigma.sum(1) ** 2 / 2,
        "energy": (sigma**2).sum(1) / 2,
        "is_rank_1": (sigma[:, 1:] <= 1e-12 * sigma[:, :1]).all(1),
    }


@jax.jit
def study(trace, unit, step, us, factor):
    """Return all certificates; a factor other than 1 falsifies each identity."""
    is_mistake, margins = trace["is_mistake"], us["margins"]
    pushes = step * trace["delta"]
    count, conjugate = is_mistake.sum(), trace["conjugate"][-1]
    f = conjugate / (step * step)
    losses = jnp.where(is_mistake[None], jax.nn.relu(1 - margins), 0)
    loss = losses.sum(1)
    increments = factor * trace["increment"]
    best = duality.best_step_size(count, f).step_size
    squares = (trace["delta"] ** 2).sum((1, 2))
    ratio = jax.vmap(regret.segment_ratio)(trace["before"], pushes)
    weak = functools.partial(
        duality.weak_duality, count, conjugate, step_size=step, comparator_loss=loss
    )
    both = {"comparator_penalty": us["trace"], "comparator_loss": loss}

    growth = jnp.where(is_mistake, step, 0) - trace["increment"]
    rounds = regret.Rounds(
        margin=trace["margin"],
        is_mistake=is_mistake,
        dual_increment=trace["increment"],
        conjugate=trace["conjugate"],
        bregman=growth - step * trace["margin"],
    )

    def chain(losses, penalty, energy, is_rank_1):
        along = regret.along_rounds(
            rounds,
            step_size=step,
            comparator_losses=losses,
            comparator_penalty=penalty,
            comparator_energy=energy,
            squared_norm=squares,
            ratio=ratio,
            num_values=min(pushes.shape[1:]),
        )
        return regret.tight_within_paper(along, is_rank_1=is_rank_1)

    def literal(margins):
        own = factor * trace["loss"]
        return regret.literal_regret(own, is_mistake, trace["margin"], margins)

    identities = {
        "increments": duality.increment_identity(
            increments, trace["before"], pushes, is_mistake, step_size=step
        ),
        "parabola": duality.dual_of_step(
            increments,
            unit["is_mistake"].sum(),
            unit["conjugate"][-1],
            step_size=step,
        ),
        "mean": duality.dual_mean(trace["after"], factor * pushes),
        "same": duality.same_run(
            factor * trace["params"], unit["params"], step_size=step
        ),
        "literal": jax.vmap(literal)(margins),
    }
    inequalities = {
        "growth": duality.growth_bound(
            trace["increment"],
            is_mistake,
            step_size=step,
            conjugate=trace["conjugate"],
            squared_norm=squares,
            ratio=ratio,
        ),
        "weak": weak(comparator_penalty=us["trace"]),
        "best": duality.dual_is_largest_at_best_step(
            count, f, step_size=best * jnp.array([1.0, 0.9, 1.1, 1e-8, 1e8])
        ),
        "best_weak": duality.weak_duality_at_best_step(count, f, **both),
        "separable": duality.separable_mistakes(count, f, **both),
        "later": regret.later_losses(
            trace["margin"], (trace["params"] * trace["delta"]).sum((1, 2)), is_mistake
        ),
        "chain": jax.vmap(chain)(losses, us["trace"], us["energy"], us["is_rank_1"]),
    }
    printed = {
        "rise": duality.increments_rise(trace["increment"], is_mistake),
        "weak": weak(comparator_penalty=us["energy"]),
    }
    # The largest C at which `growth_bound` lets no increment fall.
    largest = jnp.where(squares > 0, 2 * (1 - ratio) / squares, jnp.inf).min()
    return identities, inequalities, printed, largest


def studied(deltas, step, matrices, *, factor=1.0):
    """Return the run and its certificates; `matrices` may be a function of the run."""
    trace, unit = run(deltas, step), run(deltas, 1.0)
    us = compared(trace, matrices(trace) if callable(matrices) else matrices)
    return us, *study(trace, unit, step, us, factor)


@settings
@hypothesis.given(seeds, kinds, shapes, powers, powers)
def test_no_run_breaks_duality_or_the_chain(seed, kind, shape, power, step_power):
    rng = np.random.default_rng(seed)
    deltas, planted = drawn(rng, kind, shape)
    scale = 10.0**power
    # Where scores are equal, powers of 2 keep rounding from telling them apart.
    step = 2.0 ** (3 * step_power) if kind in TIED else 10.0**step_power

    def matrices(trace):
        least = (planted * trace["delta"])[trace["is_mistake"]].sum((1, 2)).min()
        free = planted / least * (1 + 1e-9) if least > 0 else planted / scale
        full = rng.standard_normal((2, *shape)) * [[[0.1 / scale]], [[10 / scale]]]
        return [0 * planted, trace["params"][-1], free, np.eye(*shape) / scale, *full]

    us, identities, inequalities, printed, _ = studied(scale * deltas, step, matrices)
    for name, found in (identities | inequalities).items():
        assert is_sound(found), name
    if kind == "separable":
        assert inequalities["separable"].assumptions_met[2]
        assert us["is_rank_1"][2] and np.isfinite(inequalities["chain"].bound[2, 0])
    # With the Frobenius norm it is weak duality for U of rank 1 alone.
    assert np.asarray(printed["weak"].holds)[us["is_rank_1"]].all()


@settings
@hypothesis.given(seeds, shapes, powers, powers, st.sampled_from([0.95, 1.05]))
def test_identities_of_a_run_notice_5_per_cent(seed, shape, power, step_power, factor):
    deltas, planted = drawn(np.random.default_rng(seed), "random", shape)
    given = 10.0**power * deltas, 10.0**step_power, [0 * planted]
    identities = studied(*given, factor=factor)[1]
    for name, found in identities.items():
        assert not found.holds.all(), name


@settings
@hypothesis.given(seeds, shapes, powers)
def test_one_mistake_of_rank_one_attains_the_bounds_of_duality(seed, shape, power):
    """At C = 1 / |dPhi|^2, U = dPhi / |dPhi|^2: both sides are C / 2."""
    matrix = 10.0**power * rank_1(np.random.default_rng(seed), shape)
    step = 1 / (matrix**2).sum()
    deltas = np.repeat(matrix[None], ROUNDS, 0)
    trace, unit = run(deltas, step), run(deltas, 1.0)
    us = compared(trace, [(1 + 1e-12) * step * matrix])
    _, found, printed, largest = study(trace, unit, step, us, 1.0)
    assert trace["is_mistake"].sum() == 1 and all(map(is_sound, found.values()))
    assert is_attained(found["growth"])[0] and is_attained(found["best"])[0]
    weak = ("weak", "best_weak", "separable")
    assert all(np.allclose(found[name].slack / found[name].bound, 0) for name in weak)
    strict = us | {"trace": 0.95 * us["trace"]}
    _, found, _, _ = study(trace, unit, step, strict, 1.0)
    assert not any(found[name].holds.any() for name in weak)
    low = trace | {"increment": trace["increment"] - 0.05 * step}
    assert not study(low, unit, step, us, 1.0)[1]["growth"].holds[0]
    away = trace | {"params": -trace["params"]}
    assert not study(away, unit, step, us, 1.0)[1]["later"].holds[0]
    # The increment C - C^2 |dPhi|^2 / 2 falls below 0 where C is above its limit.
    np.testing.assert_allclose(largest, 2 * step, rtol=1e-9)
    for share, is_rising in ((0.95, True), (1.05, False)):
        at = share * float(largest)
        printed = study(run(deltas, at), unit, at, us, 1.0)[2]
        assert printed["rise"].holds.all() == is_rising


@settings
@hypothesis.given(seeds, kinds, shapes, powers)
def test_dual_rises_at_the_step_that_growth_allows(seed, kind, shape, power):
    """Not at any C: the printed form fails at a larger one."""
    deltas, planted = drawn(np.random.default_rng(seed), kind, shape)
    deltas = 10.0**power * deltas
    largest = float(studied(deltas, 1.0, [planted])[-1])
    if 0 < largest < np.inf:
        step = 2.0 ** np.floor(np.log2(0.99 * largest))
        assert is_sound(studied(deltas, step, [planted])[3]["rise"])
    if deltas[0].any():  # the first mistake, from zero: C < C^2 |dPhi|_2^2 / 2
        step = 3 / np.linalg.norm(deltas[0], 2) ** 2
        assert not studied(deltas, step, [planted])[3]["rise"].holds[0]


@settings
@hypothesis.given(powers, st.floats(0.5, 0.95))
def test_weak_duality_in_the_frobenius_norm_is_false_for_rank_two(power, second):
    """|e11|, then second times e22: W does not move. U = 0.9 I, as in BOL-P4's row."""
    deltas = np.zeros((ROUNDS, 2, 3))
    deltas[0, 0, 0], deltas[1, 1, 1] = 1.0, second
    scale = 10.0**power
    us = [0.9 * np.eye(2, 3) / scale, np.eye(2, 3) / (2 * scale)]
    found = studied(scale * deltas, 1 / scale**2, us)
    assert not found[3]["weak"].holds[0] and is_sound(found[2]["weak"])
    assert is_attained(found[2]["later"])[1]


@settings
@hypothesis.given(seeds, shapes, powers, powers)
def test_paper_s_bound_without_a_push_is_the_tight_one(seed, shape, power, step_power):
    """Both are the penalty of U over C; a U of rank two has two penalties."""
    rank_one = 10.0**power * rank_1(np.random.default_rng(seed), shape)
    trace = run(np.zeros((ROUNDS, *shape)), 10.0**step_power)
    us = compared(trace, [rank_one, rank_one + 10.0**power * np.eye(*shape)])
    found = study(trace, trace, 10.0**step_power, us, 1.0)[1]["chain"]
    assert is_sound(found) and is_attained(found)[0].all()
    for part, place in (("trace", 0), ("is_rank_1", 1)):
        wrong = us | {part: 1.05 * us[part] if part == "trace" else np.ones(6, bool)}
        found = study(trace, trace, 10.0**step_power, wrong, 1.0)[1]["chain"]
        assert found.holds[place].all() == (place == 1 and shape[0] == 1)


@jax.jit
def margins(weights, pool, trace, step, loss, energy, factor):
    separated = margin.separation(weights, pool)
    count = trace["is_mistake"].astype(pool.dtype).sum()
    f = trace["conjugate"][-1] / (step * step)
    return separated, {
        "mistakes": margin.mistake_bound(factor * count, separated),
        "below": margin.conjugate_below(factor * count, f, separated),
        "above": margin.conjugate_above(count, factor * f, separated),
        "corollary": margin.corollary(
            factor * (trace["loss"].sum() - loss),
            separated,
            step_size=step,
            num_rounds=jnp.maximum(count, 1),
            num_values=min(weights.shape),
            comparator_energy=energy,
        ),
    }


def margins_of(pool, weights, step, *, factor=1.0):
    """Run on a pool, and compare with the weights scaled to margins of 1 or more."""
    trace = run(pool, step)
    least = (weights * pool).sum((1, 2)).min()
    u = weights / least if least > 0 else weights
    us = compared(trace, [u])
    loss = np.maximum(0, 1 - us["margins"][0])[trace["is_mistake"]].sum()
    return margins(weights, pool, trace, step, loss, us["energy"][0], factor)


@settings
@hypothesis.given(
    seeds, kinds, shapes, powers, powers, st.sampled_from([0.0, 0.05, 0.2, 1.0])
)
def test_no_pool_breaks_the_bounds_on_mistakes(
    seed, kind, shape, power, step_power, spread
):
    """Differences near a planted matrix of rank one, or far from it."""
    noise, planted = drawn(np.random.default_rng(seed), kind, shape)
    pool = 10.0**power * ((spread < 1) * planted + spread * noise)
    separated, found = margins_of(pool, planted, 10.0**step_power)
    assert all(map(is_sound, found.values()))
    if spread <= 0.05 and kind not in ("random", "separable"):  # noise of size about 1
        assert separated.is_met


@settings
@hypothesis.given(seeds, shapes, powers)
def test_one_matrix_of_rank_one_attains_the_bounds_on_mistakes(seed, shape, power):
    matrix = rank_1(np.random.default_rng(seed), shape)
    pool = 10.0**power * np.repeat(matrix[None], ROUNDS, 0)
    step = 0.5 / (pool[0] ** 2).sum() / min(shape)  # where BOL-C6 is least
    found = margins_of(pool, matrix, step)[1]
    attained = ("mistakes", "below", "above")
    assert all(is_attained(found[name]) for name in attained)
    strict = margins_of(pool, matrix, step, factor=1.05)[1]
    assert not any(strict[name].holds for name in attained)
    # BOL-C6 is off by its 2 l, and a regret beyond that is noticed.
    np.testing.assert_allclose(found["corollary"].bound, 2 * min(shape), rtol=1e-9)
    much = 2.1 * min(shape)
    assert not margins_of(pool, matrix, step, factor=much)[1]["corollary"].holds
