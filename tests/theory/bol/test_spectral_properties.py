"""Attempts to break the certificates of BOL's geometry: ties, zeros, all scales.

Every certificate is tried on drawn cases, where it must hold, and on cases made to
attain it, where it must fail once its constant is 5 % too strict.
"""

import functools
import sys
from unittest import mock

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from lowrank_jax.theory import certificate
from lowrank_jax.theory.bol import blocks, curvature, singular_pairs, spectral

KINDS = ("gauss", "separated", "tied", "near", "one", "counts", "zero")
SHAPE, BLOCKS = (3, 2), 2  # few shapes: few programs to compile
OPTIONS = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
often = hypothesis.settings(max_examples=20, deadline=None)
seeds = st.integers(0, 2**32 - 1)
powers = st.integers(-8, 8)


@functools.cache
def watched(function, module=None, **static):
    """Compile a certificate; returns it and, in a list, those 5 % too strict."""
    module = module or sys.modules[function.__module__]

    def both(*values, **traced):
        noted = []

        def at_most(observed, bound, **options):
            noted.append(certificate.at_most(observed, 0.95 * bound, **options))
            return certificate.at_most(observed, bound, **options)

        def equal(observed, expected, **options):
            more = 1.05 * jnp.asarray(observed).astype(float)
            noted.append(certificate.equal(more, expected, **options))
            return certificate.equal(observed, expected, **options)

        has = {"at_most": at_most, "equal": equal}
        has = {name: has[name] for name in has if hasattr(module, name)}
        with mock.patch.multiple(module, **has):
            found = function(*values, **static, **traced)
        return found, noted

    return jax.jit(both, compiler_options=OPTIONS)


def sound(found):
    """Ask of each certificate that it holds, with a finite slack where it speaks."""
    is_leaf = lambda part: isinstance(part, certificate.Certificate)  # noqa: E731
    for part in jax.tree.leaves(found, is_leaf=is_leaf):
        assert np.all(part.holds), part
        assert np.isfinite(np.asarray(part.slack)[part.assumptions_met]).all(), part


def refused(strict):
    """Ask that all certificates made too strict speak, and fail."""
    for part in strict:
        assert np.all(part.assumptions_met) and not np.any(part.holds), part


def matrix(rng, kind, shape=SHAPE, power=0):
    """Return a matrix of one kind, of the size 10^power."""
    size = min(shape)
    left, right = (np.linalg.qr(rng.normal(size=(n, size)))[0] for n in shape)
    gauss = rng.normal(size=shape)
    spectra = {
        "separated": np.cumsum(10 ** rng.uniform(-2, 0, size))[::-1],
        "tied": np.ones(size),
        "near": np.sort(1 - 10 ** rng.uniform(-14, -2, size))[::-1],
        "one": np.arange(size) == 0,
        "zero": np.zeros(size),
    }
    if kind in spectra:
        found = (left * spectra[kind]) @ right.T
    else:
        found = gauss if kind == "gauss" else rng.integers(-1, 2, shape).astype(float)
    return found * 10.0**power


@st.composite
def problems(draw, shape=SHAPE, num=1):
    """Draw a generator of numbers and matrices, each of its own kind and scale."""
    rng = np.random.default_rng(draw(seeds))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=num, max_size=num))
    sizes = draw(st.lists(powers, min_size=num, max_size=num))
    pairs = zip(kinds, sizes, strict=True)
    found = np.stack([matrix(rng, kind, shape, power) for kind, power in pairs])
    return rng, found if num > 1 else found[0]


def gap_share(theta):
    """Return (s_1 - s_2) / s_1, 1 for a matrix of zeros."""
    values = np.linalg.svd(theta, compute_uv=False)
    return (values[0] - values[1]) / values[0] if values[0] else 1.0


@often
@hypothesis.given(problems(), st.sampled_from([1, 2]))
def test_no_factors_gain_more_than_the_conjugate_and_the_best_gain_it(drawn, rank):
    rng, theta = drawn
    check = watched(spectral.conjugate_certificate)
    size = np.sqrt(np.linalg.norm(theta)) * 10 ** rng.uniform(-2, 2)
    left, right = (size * rng.normal(size=(n, rank)) for n in SHAPE)
    sound(check(left, right, theta)[0])
    u, s, v = np.linalg.svd(theta, full_matrices=False)
    found, strict = check(u[:, :rank] * s[:rank], v[:rank].T, theta)
    sound(found)
    if s[0]:
        refused(strict)


@often
@hypothesis.given(problems(), powers, st.sampled_from([1, 2]))
def test_the_hull_lies_below_every_combination_and_touches_the_best(drawn, power, rank):
    rng, weights = drawn
    check = watched(spectral.hull_certificate)
    left, right = (rng.normal(size=(2, n, rank)) for n in SHAPE)
    shares = rng.dirichlet([0.3, 0.3])
    left = left * 10.0 ** (power * rng.integers(0, 2, (2, 1, 1)))
    sound(check(left, right, shares)[0])
    u, s, v = np.linalg.svd(weights, full_matrices=False)
    if rank == 1:  # the combination that costs the squared trace norm
        left, right = (s.sum() * u.T)[..., None], v[..., None]
        shares = s / s.sum() if s.any() else shares
    else:  # a matrix of rank k costs what it is
        left, right = (np.stack([part, part]) for part in (u * s, v.T))
    found, strict = check(left, right, shares)
    sound(found)
    if s.any():
        refused(strict)


@often
@hypothesis.given(seeds, powers, powers, powers, st.booleans())
def test_the_slides_cost_the_product_of_norms_at_best(seed, one, two, off, is_zero):
    rng = np.random.default_rng(seed)
    left, right = (
        rng.normal(size=n) * 10.0**power
        for n, power in zip(SHAPE, (one, two), strict=True)
    )
    lengths = np.linalg.norm(left), np.linalg.norm(right)
    best = np.sqrt(lengths[1] / lengths[0])
    check = watched(spectral.slides_certificate)
    sound(check(left * (not is_zero), right, best * 10.0**off, is_printed=False)[0])
    found, strict = check(left, right, best, is_printed=False)
    sound(found)
    refused(strict)
    product = lengths[0] * lengths[1]
    printed = check(left, right, best, is_printed=True)[0]
    assert bool(printed.holds) == (product <= 2)  # half its square, or less


@often
@hypothesis.given(problems(), st.integers(-8, 2), st.booleans())
def test_warm_starts_of_exact_pairs_alone_are_power_steps(drawn, power, is_parallel):
    rng, theta = drawn
    check = watched(singular_pairs.warm_start_certificate, num_sweeps=2)
    u, s, v = np.linalg.svd(theta, full_matrices=False)
    step = rng.normal(size=SHAPE)
    step = step / np.linalg.norm(step) * s[0] * 10.0**power
    if is_parallel:  # the new matrix is another multiple of the old
        step = theta * 10.0**power
    pair = u[:, 0], v[0]
    found, strict = check(theta, step, *pair, is_printed=False)
    sound(found)
    assert bool(found.assumptions_met) == (s[0] > 0)
    turned = (pair[0] + 0.05 * u[:, 1]) / np.sqrt(1 + 0.05**2), pair[1]
    printed = check(theta, step, *turned, is_printed=True)[0]
    if s[0] and power <= 0:  # larger steps leave less than the rounding allowed
        refused(strict)
        assert not bool(printed.holds)


@often
@hypothesis.given(seeds, st.lists(powers, min_size=4, max_size=4), st.booleans())
def test_no_rescaling_beats_the_group_lasso_and_the_best_attains_it(
    seed, sizes, is_empty
):
    rng = np.random.default_rng(seed)
    left, right = (rng.normal(size=(BLOCKS, n)) for n in SHAPE)
    left = left * 10.0 ** np.array(sizes[:2])[:, None]
    right = right * 10.0 ** np.array(sizes[2:])[:, None]
    if is_empty:
        left[0], right[0] = 0, 0
    lengths = [np.linalg.norm(part, axis=1) for part in (left, right)]
    best = np.ones(BLOCKS)
    np.divide(lengths[1], lengths[0], out=best, where=lengths[0] > 0)
    best = np.sqrt(best)
    check = watched(blocks.rescaling_certificate)
    sound(check(left, right, best * 10 ** rng.uniform(-4, 4, BLOCKS))[0])
    sound(check(0 * left, right, best)[0])
    found, strict = check(left, right, best)
    sound(found)
    refused(strict)


@often
@hypothesis.given(problems(num=BLOCKS), st.sampled_from([1.0, 1.25, 1.5, 2.0]))
def test_no_rank_one_blocks_gain_more_than_their_conjugate(drawn, power):
    rng, theta = drawn
    check = watched(blocks.block_conjugate_certificate)
    size = np.linalg.norm(theta, axis=(1, 2))[:, None] * 10 ** rng.uniform(-2, 1)
    left, right = (rng.normal(size=(BLOCKS, n)) for n in SHAPE)
    sound(check(size * left, right, theta, power=power)[0])
    u, s, v = np.linalg.svd(theta, full_matrices=False)
    top = s[:, 0]
    shares = top / top.max() if top.any() else top
    if power == 1:  # one of the largest blocks gains as much as all of them
        slope = top.max() * (np.arange(BLOCKS) == top.argmax())
    else:
        dual = power / (power - 1)
        total = max((shares**dual).sum(), 1.0)
        slope = top.max() * total ** (2 / dual - 1) * shares ** (dual - 1)
    found, strict = check(slope[:, None] * u[:, :, 0], v[:, 0], theta, power=power)
    sound(found)
    if top.any():
        refused(strict)


@often
@hypothesis.given(problems(num=BLOCKS))
def test_the_gradient_of_blocks_is_the_map_wherever_there_is_one(drawn):
    _, theta = drawn
    found, strict = watched(blocks.block_gradient_certificate)(theta)
    sound(found)
    shares = [gap_share(block) for block in theta]
    least = spectral.least_gap(theta.dtype)
    assert bool(found.assumptions_met) or min(shares) < 1.01 * least
    if min(shares) > 1.01 * least and theta.any():
        refused(strict)


@often
@hypothesis.given(
    problems(num=BLOCKS), st.sampled_from([1e-6, 1e-3, 0.3, 3.0]), st.booleans()
)
def test_remainders_of_blocks_stay_below_the_sum_of_their_bounds(drawn, share, is_one):
    rng, theta = drawn
    check = watched(blocks.block_second_order_certificate, num_points=9)
    u, s, v = np.linalg.svd(theta, full_matrices=False)
    gaps = np.where(s[:, 0] - s[:, 1] > 1e-10 * s[:, 0], s[:, 0] - s[:, 1], 0)
    moves = rng.normal(size=theta.shape)
    moves = moves / np.linalg.norm(moves, axis=(1, 2), keepdims=True)
    moves = share * gaps[:, None, None] * moves
    if is_one:
        moves[0] = 0
    found = check(theta, moves)[0]
    sound(found)
    assert bool(found.assumptions_met) or share > 1 / 4
    # Along u_1 v_2 + u_2 v_1 the curvature is the largest; small steps attain it.
    bend = u[:, :, [0, 1]] @ v[:, [1, 0]] / np.sqrt(2)
    found, strict = check(theta, 1e-3 * gaps[:, None, None] * bend)
    sound(found)
    largest = s[:, 0].argmax()
    if gaps[largest] > 1e-2 * s[largest, 0]:
        refused(strict)


@often
@hypothesis.given(problems((2, 3)), st.sampled_from([1, 2]))
def test_the_hessian_has_the_spectrum_in_closed_form(drawn, rank):
    _, theta = drawn
    found, strict = watched(curvature.hessian_certificates, rank=rank)(theta)
    sound(found)
    values = np.linalg.svd(theta, compute_uv=False)
    least = gap_share(theta) if values[0] else 0
    assert bool(found.largest.assumptions_met) == (least > 1e-6)
    if least > 1e-3:
        refused(strict)


@often
@hypothesis.given(problems((2, 3)), st.sampled_from([0, 1]))
def test_the_hessian_of_a_singular_value_is_that_of_the_corollary(drawn, place):
    _, theta = drawn
    function = curvature.singular_value_certificates
    found, strict = watched(function, place=place)(theta)
    sound(found[:2])
    values = np.linalg.svd(theta, compute_uv=False)
    least = min(gap_share(theta), values[-1] / values[0]) if values[0] else 0
    assert bool(found.hessian.assumptions_met) == (least > 1e-6)
    if least > 1e-3:
        # Tr D may be small beside what is known of it, but is wrong by 1 as printed.
        refused([strict[0], found.printed_trace])
        np.testing.assert_allclose(found.printed_trace.slack, -1, rtol=1e-3)


def pencil(parts, point):
    """Return a symmetric matrix that is quadratic in two numbers."""
    x, y = point
    raw = parts[0] + x * parts[1] + y * parts[2] + x * y * parts[3] + y * y * parts[4]
    return (raw + raw.T) / 2


def of_pencil(parts, point):
    return curvature.eigenvalue_hessian_certificate(
        functools.partial(pencil, parts), point, place=1
    )


@often
@hypothesis.given(problems((3, 3)), powers, st.booleans())
def test_the_hessian_of_an_eigenvalue_is_overtons(drawn, power, has_signs):
    rng, start = drawn
    u, s, _ = np.linalg.svd(start)
    start = (u * s * [1, 1, -1 if has_signs else 1]) @ u.T
    parts = np.stack([start, *(rng.normal(size=(4, 3, 3)) * 10.0**power)])
    found, strict = watched(of_pencil, curvature)(parts, jnp.zeros(2))
    sound(found)
    values = np.linalg.eigvalsh(start)
    size = np.abs(values).max()
    least = np.diff(values).min() / size if size else 0
    assert bool(found.assumptions_met) == (least > 1e-6)
    if least > 1e-2:
        refused(strict)


def test_the_hessian_of_an_eigenvalue_just_below_a_power_of_two():
    """Eigenvalues w with (1 + w) - w != 1 once gave `eigh` a wrong derivative."""
    parts = np.zeros((5, 3, 3))
    parts[0] = np.diag([2.0**27, 2.0**26 - 2.0**-27, 0])
    parts[1] = 1
    found = watched(of_pencil, curvature)(parts, jnp.zeros(2))[0]
    sound(found)
    # 1 + 2^27 / 2^26 times the terms 2 / 2^26 of the sum.
    np.testing.assert_allclose(found.scale, 3 * 2 * 2.0**-26, rtol=1e-6)
