"""Conjugates, subgradients and singular pairs of BOL's mirror map."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest

from lowrank_jax.theory.bol import blocks as block_spectral
from lowrank_jax.theory.bol import singular_pairs, spectral

SHAPE = (3, 2)  # one shape: few programs to compile
quickly = hypothesis.settings(max_examples=20, deadline=None)


@functools.cache
def jitted(function, **static):
    return jax.jit(functools.partial(function, **static))


@st.composite
def problems(draw, num=2):
    """Draw matrices: random, one row, tied, of rank one or zero, of any scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    found = []
    for _ in range(num):
        gauss = rng.normal(size=SHAPE)
        kinds = {
            "gauss": gauss,
            "row": gauss * [[1], [0], [0]],
            "counts": rng.integers(-1, 2, SHAPE).astype(float),
            "one": gauss[:, :1] * gauss[:1],
            "zero": np.zeros(SHAPE),
            "tied": np.linalg.qr(gauss)[0],
        }
        kind = draw(st.sampled_from(sorted(kinds)))
        found.append(kinds[kind] * 10.0 ** draw(st.sampled_from([-8, -1, 0, 8])))
    return found


def k_support_squared(values, rank):
    """Return the squared k-support norm by its published case distinction."""
    w = np.sort(np.abs(values))[::-1]
    for r in range(rank):
        level = w[rank - r - 1 :].sum() / (r + 1)
        above = np.inf if rank - r - 2 < 0 else w[rank - r - 2]
        if above > level >= w[rank - r - 1]:
            return (w[: rank - r - 1] ** 2).sum() + level**2 * (r + 1)
    raise AssertionError("one case must hold")


def by_hand(theta, blocks):
    norms = [spectral.support_norm_squared(theta, rank=k) for k in (1, 2, 3)]
    conjugates = [spectral.conjugate(theta, rank=k) for k in (1, 2)]
    of_blocks = [block_spectral.block_conjugate(blocks, power=q) for q in (1.0, 2.0)]
    one = block_spectral.block_map(blocks, power=1.0)
    return norms, conjugates, of_blocks, one


def test_hand_computed_numbers():
    theta = np.diag([3.0, 2.0, 1.0])
    blocks = np.stack([np.diag([3.0, 1.0]), np.diag([4.0, 2.0])])
    norms, conjugates, of_blocks, one = jitted(by_hand)(theta, blocks)
    # k = 2: 3 is not above (2 + 1)/1, so all are merged: (3 + 2 + 1)^2 / 2.
    assert [float(value) for value in norms] == pytest.approx([36, 18, 14])
    assert [float(value) for value in conjugates] == pytest.approx([4.5, 6.5])
    assert [float(value) for value in of_blocks] == pytest.approx([8, 12.5])
    np.testing.assert_allclose(one, [np.zeros((2, 2)), np.diag([4.0, 0])], atol=1e-12)


def support_norms(matrix):
    return [spectral.support_norm_squared(matrix, rank=k) for k in (1, 2, 3, 4)]


@quickly
@hypothesis.given(st.integers(0, 2**32 - 1))
def test_support_norm_equals_its_published_form(seed):
    values = np.random.default_rng(seed).exponential(size=5)
    found = [float(value) for value in jitted(support_norms)(np.diag(values))]
    expected = [k_support_squared(values, k) for k in (1, 2, 3, 4)]
    assert found == pytest.approx(expected, rel=1e-10)


def conjugate_statements(theta, other):
    found = {}
    for rank in (1, 2):
        best = spectral.support_maximiser(theta, rank=rank)
        slope = spectral.mirror_map(theta, rank=rank)
        found[rank] = (
            spectral.attained_certificate(theta, rank=rank),
            spectral.gradient_certificate(theta, rank=rank),
            spectral.biconjugate_certificate(theta, other, rank=rank),
            spectral.subgradient_certificate(theta, other, slope, rank=rank),
            spectral.biconjugate_certificate(theta, best, rank=rank),
        )
    return found


@quickly
@hypothesis.given(problems())
def test_conjugates_and_maps_hold_on_anything(pair):
    for found in jitted(conjugate_statements)(*pair).values():
        assert all(bool(part.holds) for part in found), found
        attained = found[-1]
        assert float(attained.observed) == pytest.approx(
            float(attained.bound), rel=1e-9
        )


def block_statements(thetas, others, power):
    best = block_spectral.block_maximiser(others, power=power)
    return (
        block_spectral.block_attained_certificate(thetas, power=power),
        block_spectral.block_subgradient_certificate(thetas, others, power=power),
        block_spectral.block_biconjugate_certificate(others, thetas, power=power),
        block_spectral.block_biconjugate_certificate(others, best, power=power),
    )


@quickly
@hypothesis.given(problems(), st.sampled_from([1.0, 1.3, 2.0]))
def test_block_forms_hold_on_anything(pair, power):
    thetas = np.stack([pair[0], pair[1], pair[0][::-1]])
    others = np.stack([pair[1], pair[1], pair[0]])
    found = jitted(block_statements)(thetas, others, power)
    assert all(bool(part.holds) for part in found), found
    attained = found[-1]
    assert float(attained.observed) == pytest.approx(float(attained.bound), rel=1e-9)


def pair_statements(theta, step, left, right):
    return (
        singular_pairs.power_iteration_certificate(theta, left, num_steps=2),
        singular_pairs.wedin_certificate(theta, step),
        singular_pairs.warm_start_error_certificate(theta, step, left, right),
        spectral.unit_loss_certificate(theta, step),
        spectral.map_scale_certificate(theta),
    )


@quickly
@hypothesis.given(problems(), st.integers(0, 2**32 - 1))
def test_statements_on_the_leading_pair_hold_on_anything(pair, seed):
    rng = np.random.default_rng(seed)
    left, right = (rng.normal(size=side) for side in SHAPE)
    found = jitted(pair_statements)(*pair, left, right)
    assert all(bool(part.holds.all()) for part in found), found


def test_an_unpaired_mixture_of_tied_vectors_is_no_subgradient():
    theta = np.eye(2)
    wrong = np.array([[0.0, 1.0], [0.0, 0.0]])  # u_1 v_2', not a leading pair
    certify = jitted(spectral.subgradient_certificate)
    found = certify(theta, theta + 0.5 * wrong, wrong)
    assert not bool(found.holds)
    right = np.full((2, 2), 0.5)
    others = theta + 0.5 * wrong, 3 * theta, -theta
    for other in others:
        assert bool(certify(theta, other, right).holds)


def test_printed_power_iteration_runs_to_the_other_vector():
    theta = np.array([[0.0, 2.0], [1.0, 0.0]])
    both = [
        jitted(
            singular_pairs.power_iteration_certificate,
            num_steps=3,
            is_printed=is_printed,
        )(theta, np.ones(2))
        for is_printed in (True, False)
    ]
    assert not both[0].holds.any()
    # tan = 1 at the start of the left vector, (1/2)^6 after three steps.
    assert both[1].holds.all()
    assert float(both[1].observed[0]) == pytest.approx(2.0**-6)
    assert float(both[1].bound[0]) == pytest.approx(2.0**-6)


def test_wedins_gap_is_between_two_matrices():
    theta = np.diag([2.0, 1.0])
    step = np.array([[-0.4999, 0.01], [0.01, 0.4999]])
    found = jitted(singular_pairs.wedin_certificate)(theta, step)
    assert found.holds.all()
    # The gap of the first matrix alone, which is 1, would not do.
    assert float(found.observed[0]) > np.linalg.norm(step, 2) / 1.0
    # Rounding is judged by the smaller gap of the two.
    for second in (2.0**-20, -(2.0**-20)):
        found = jitted(singular_pairs.wedin_certificate)(theta, np.diag([0, second]))
        scale = 1e-5 * (2 + 2) / min(1, 1 - second)
        np.testing.assert_allclose(found.scale, scale, rtol=1e-9)


def test_warm_start_differs_from_power_iteration_off_the_exact_pair():
    theta, step = np.diag([2.0, 1.0]), np.array([[0.0, 1.0], [0.0, 0.0]])
    certify = jitted(singular_pairs.warm_start_certificate, num_sweeps=2)
    exact, other = np.array([1.0, 0.0]), np.array([0.8, 0.6])
    for pair, holds in ((exact, True), (other, False)):
        found = certify(theta, step, pair, pair, is_printed=True)
        assert bool(found.holds) is holds
    silent = certify(theta, step, other, other, is_printed=False)
    assert not bool(silent.assumptions_met)


def single_statements(theta):
    return (
        spectral.attained_certificate(theta),
        spectral.gradient_certificate(theta),
        block_spectral.block_attained_certificate(theta[None], power=1.5),
    )


def test_dtype_is_kept_with_x64_off():
    with jax.enable_x64(False):
        theta = np.diag([3.0, 2.0]).astype(np.float32)
        for found in jitted(single_statements)(theta):
            assert found.slack.dtype == np.float32
            assert bool(found.holds)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 2])
def test_a_gradient_that_is_off_by_a_hundred_millionth_is_noticed(monkeypatch, rank):
    """BOL-P2, DR-B5, DR-B6: wherever the certificate speaks, next to ties too."""
    shape = (400, 4, 3)
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.normal(size=(400, n, n)))[0] for n in shape[1:])
    gaps = 10.0 ** rng.uniform(-14, 0, 400)
    values = np.ones((400, 3))
    values[:, rank:] *= (1 - gaps)[:, None]
    thetas = np.einsum("nij,nj,nkj->nik", u[:, :, :3], values, v)

    def judge():
        one = jax.vmap(functools.partial(spectral.gradient_certificate, rank=rank))
        some = jax.vmap(block_spectral.block_gradient_certificate)
        found = [jax.jit(one)(thetas)]
        if rank == 1:
            found.append(jax.jit(some)(thetas[:, None]))
        return found

    for found in judge():
        assert (
            found.holds.all()
            and (found.slack >= -1e-9 * found.bound)[found.assumptions_met].all()
        )
        is_clear = gaps > 1e-3
        assert found.assumptions_met[is_clear].all()
        assert not found.assumptions_met[gaps < 1e-5].any()
    for module, name in ((spectral, "mirror_map"), (block_spectral, "block_map")):
        right = getattr(module, name)

        def off(*args, right=right, **kwargs):
            return (1 + 1e-8) * right(*args, **kwargs)

        monkeypatch.setattr(module, name, off)
    for found in judge():
        assert not found.holds[found.assumptions_met].any()
