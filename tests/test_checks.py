"""Checks of arguments on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import checks
from lowrank_jax.checks import InputError


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), jnp.array(3.0), (1, 2.0)])
def test_positive_numbers_pass(value):
    assert checks.positive(c=value) is None
    assert checks.non_negative(c=value) is None


@pytest.mark.parametrize("make", [float, np.float32, np.array, jnp.array])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_other_numbers_are_refused_whatever_holds_them(make, value):
    for check in (checks.positive, checks.non_negative):
        with pytest.raises(InputError, match="`c` must be"):
            check(c=make(value))


def test_zero_is_not_positive():
    checks.non_negative(c=jnp.zeros(()))
    with pytest.raises(InputError, match="`c` must be positive"):
        checks.positive(c=jnp.zeros(()))


def test_what_is_too_large_is_told_of():
    checks.at_most(10, c=10)
    with pytest.raises(InputError, match="`c` must be at most 10, got 11"):
        checks.at_most(10, c=11)


def test_what_is_no_number_is_told_of():
    with pytest.raises(InputError, match="`c` must be a number, got 'red'"):
        checks.positive(c="red")


def test_what_is_traced_or_a_schedule_passes():
    checks.positive(c=lambda count: -1.0, d=None)

    def checked(c):
        checks.positive(c=c)
        return c

    assert jax.jit(checked)(-1.0) == -1
    assert (jax.vmap(checked)(-jnp.ones(2)) == -1).all()
    assert jax.grad(checked)(-1.0) == 1


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_a_random_key_passes_new_or_raw_traced_or_not(impl):
    new = jax.random.key(0, impl=impl)
    for key in (new, jax.random.key_data(new)):
        for check in (checks.random_key, jax.jit(checks.random_key)):
            assert check(key) is None
        assert jax.vmap(checks.random_key)(key[None]) is None


@pytest.mark.parametrize("key", [0, None, "0", np.zeros(2, np.int32), jnp.zeros(())])
def test_what_is_no_random_key_is_told_of(key):
    with pytest.raises(InputError, match=r"such as jax.random.key\(0\), got [^<]*$"):
        checks.random_key(key)
    with pytest.raises(InputError, match=r"such as jax.random.key\(0\), got key<"):
        checks.random_key(jax.random.split(jax.random.key(0)))
