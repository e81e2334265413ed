"""Ranks of Hankel matrices, recovery and realisation."""

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from lowrank_jax.models import operators
from lowrank_jax.models.hankel import SubBlocks
from lowrank_jax.theory.smm import states

settings = hypothesis.settings(max_examples=20, deadline=None)
STRINGS = [(), (0,), (1,), (0, 1), (1, 0, 0)]


def score(alpha, beta, matrices, string):
    state = alpha
    for symbol in string:
        state = state @ matrices[symbol]
    return state @ beta


@functools.lru_cache
def checks():
    words = np.zeros((5, 3), np.int32)
    for row, string in zip(words, STRINGS, strict=True):
        row[: len(string)] = string
    lengths = np.array([len(string) for string in STRINGS])

    def both(blocks, scores, is_printed):
        return states.recovery_certificate(
            blocks, 2, words, lengths, scores, is_printed=is_printed
        )

    return jax.jit(states.rank_certificate), jax.jit(both, static_argnums=2)


def model(seed, scale, num_states=2):
    rng = np.random.default_rng(seed)
    alpha, beta = rng.normal(size=(2, num_states))
    return scale * alpha, beta, rng.normal(size=(2, num_states, num_states))


def blocks_of(model, prefixes, suffixes):
    def table(middle):
        return [[score(*model, u + middle + v) for v in suffixes] for u in prefixes]

    return SubBlocks(
        np.array(table(())),
        np.array([table((a,)) for a in range(2)]),
        np.array([score(*model, u) for u in prefixes]),
        np.array([score(*model, v) for v in suffixes]),
    )


@settings
@hypothesis.given(st.integers(0, 10**6), st.integers(-8, 8), st.booleans())
def test_rank_and_recovery_hold_for_any_model_of_two_states(seed, power, is_zero):
    rank, recovery = checks()
    found = model(seed, 0.0 if is_zero else 10.0**power)
    blocks = blocks_of(found, STRINGS[:4], [(1,), (0,), (1, 1), (0, 0)])
    assert bool(rank(blocks.empty, 2.0).holds)
    scores = np.array([score(*found, string) for string in STRINGS])
    assert bool(recovery(blocks, scores, False).holds)


def test_the_printed_recovery_is_right_only_where_prefixes_are_suffixes():
    _, recovery = checks()
    found = model(3, 1.0)
    scores = np.array([score(*found, string) for string in STRINGS])
    same = blocks_of(found, STRINGS[:4], STRINGS[:4])
    assert bool(recovery(same, scores, True).holds)
    apart = blocks_of(found, STRINGS[:4], [(1,), (0,), (1, 1), (0, 0)])
    assert bool(recovery(apart, scores, False).assumptions_met)
    assert bool(recovery(apart, scores, False).holds)
    assert not bool(recovery(apart, scores, True).holds)


def test_a_model_of_three_states_breaks_the_bound_of_two():
    rank, _ = checks()
    blocks = blocks_of(model(1, 1.0, 3), STRINGS[:4], [(1,), (0,), (1, 1), (0, 0)])
    found = rank(blocks.empty, 2.0)
    assert float(found.observed) == 3 and not bool(found.holds)


def test_the_diagonal_tensor_needs_as_many_states_as_symbols():
    tensor = jnp.asarray(np.eye(3)[:, :, None] * np.array([1.0, 2.0, 5.0]))
    found = jax.jit(states.unfolding_certificate)(tensor)
    assert (float(found.observed), float(found.bound)) == (3, 1)
    assert not bool(found.holds)
    check = jax.jit(states.realisation_certificate, static_argnums=1)
    assert bool(check(tensor, (3, 1)).holds)
    assert not bool(check(tensor, (2, 1)).holds)
    shape = jax.eval_shape(lambda t: operators.from_trigrams(t, ranks=(3, 1)), tensor)
    assert shape.alpha.shape == (6,)
    assert bool(jax.jit(states.states_certificate)(tensor, 6.0).holds)
    assert not bool(jax.jit(states.states_certificate)(tensor, 2.0).holds)
