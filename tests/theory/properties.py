"""What the property tests of certificates share."""

import functools

import hypothesis
import jax
import numpy as np
from hypothesis import strategies as st

settings = hypothesis.settings(max_examples=20, deadline=None)
seeds, powers = st.integers(0, 10**6), st.integers(-8, 8)
kinds = st.sampled_from(["random", "ties", "rank one", "zero"])


@functools.cache
def program(function):
    return jax.jit(function)


def is_sound(found):
    """Tell whether a statement holds, with a finite slack, wherever it speaks."""
    slack = np.asarray(found.slack)[np.asarray(found.assumptions_met)]
    return bool(np.asarray(found.holds).all() and np.isfinite(slack).all())


def is_attained(found):
    return np.isclose(found.observed, found.bound, rtol=1e-9, atol=0)
