"""The spectral IO-HMM: exact from exact moments, near from counts."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.smm.learners import moments as spectral_moments
from experiments.smm.learners.moments import Moments
from lowrank_jax import streams
from lowrank_jax.checks import InputError
from lowrank_jax.data import Corpus, alphabet_of, encode_words, hamming_accuracy
from lowrank_jax.decode.lattice_paths import best_paths, paths_to_words

LETTERS, OUTPUTS, STATES, STOP = 3, 2, 2, 0.25
PAIRS = LETTERS * OUTPUTS


@functools.lru_cache
def process():
    """Start, and (PAIRS, STATES, STATES): emit a pair and move, or stop."""
    letters = np.array([[0.6, 0.2], [0.2, 0.2], [0.2, 0.6]])  # the middle one tells
    outputs = np.array([[0.9, 0.1], [0.1, 0.9]])  # nothing of the state
    emit = (letters[:, None] * outputs[None]).reshape(PAIRS, STATES)
    move = np.array([[0.85, 0.15], [0.1, 0.9]])
    return np.array([0.6, 0.4]), (1 - STOP) * emit[:, :, None] * move[None]


def expectations(order):
    """Expected number of times each string of pairs occurs in a word."""
    start, matrices = process()
    state = start @ np.linalg.inv(np.eye(STATES) - matrices.sum(axis=0))
    for _ in range(order):
        state = np.einsum("...i,sij->...sj", state, matrices)
    return state.sum(axis=-1)  # after the last pair anything may follow


@functools.lru_cache
def sample(num_words=20_000):
    """Words of the process that are not empty, and how many were drawn in all."""
    generator = np.random.default_rng(1)
    start, matrices = process()
    choices = matrices.transpose(1, 0, 2).reshape(STATES, -1)
    limits = np.cumsum(choices, axis=1)  # above the last one: stop
    letters, outputs, offsets = [], [], [0]
    for _ in range(num_words):
        state = int(generator.random() > start[0])
        while True:
            drawn = np.searchsorted(limits[state], generator.random())
            if drawn >= PAIRS * STATES:
                break
            pair, state = divmod(int(drawn), STATES)
            letters.append("abc"[pair // OUTPUTS])
            outputs.append("xy"[pair % OUTPUTS])
        if len(letters) > offsets[-1]:
            offsets.append(len(letters))
    corpus = Corpus(
        (np.array(letters),), np.array(outputs), np.array(offsets), "sample"
    )
    alphabet = alphabet_of(corpus)
    assert alphabet.num_symbols == PAIRS + 2  # every pair, boundary and unknown
    return alphabet, encode_words(alphabet, corpus), num_words


fit = jax.jit(spectral_moments.fit, static_argnames="rank")


def score_table(alphabet, model, is_conditional):
    of = functools.partial(
        spectral_moments.score_table, alphabet, is_conditional=is_conditional
    )
    return jax.jit(of)(model)


def table(model):
    alpha, beta, matrices = (np.asarray(part) for part in model)
    return np.einsum("i,aij,bjk,ckl,l->abc", alpha, *[matrices] * 3, beta)


def test_exact_moments_give_the_operators_of_the_process():
    model = fit(Moments(*(expectations(order) for order in (1, 2, 3))), rank=STATES)
    np.testing.assert_allclose(table(model), expectations(3), rtol=1e-10)
    # Nothing of four or five pairs was given: these scores are the model's own.
    alpha, beta, matrices = (np.asarray(part) for part in model)
    for order in (4, 5):
        state = alpha
        for _ in range(order):
            state = np.einsum("...i,sij->...sj", state, matrices)
        np.testing.assert_allclose(state @ beta, expectations(order), rtol=1e-9)


def test_counts_of_many_words_come_near_with_the_right_number_of_states():
    alphabet, words, num_drawn = sample()
    moments = spectral_moments.count(
        alphabet, words, has_boundary=False, dtype=np.float64
    )
    scale = words.num_words / num_drawn  # empty words count in the expectation
    for order, found in enumerate(moments, 1):
        inner = found[(slice(1, -1),) * order] * scale
        np.testing.assert_allclose(inner, expectations(order), atol=0.03)
        assert not np.delete(found, range(1, PAIRS + 1), axis=0).any()
    wanted = expectations(3)

    def error(rank):
        found = table(fit(moments, rank=rank))[1:-1, 1:-1, 1:-1]
        return np.linalg.norm(found * scale - wanted) / np.linalg.norm(wanted)

    assert error(STATES) < 0.03  # sampling error: some 2 % of the moments
    assert error(1) > 5 * error(STATES)


def small():
    """Fifteen words of the sample, one of them with a pair that is not known."""
    alphabet, words, _ = sample()
    gold = words.gold[:15].copy()
    gold[3, 0] = -1
    return alphabet, gold, words.lengths[:15]


@pytest.mark.parametrize("has_boundary", [True, False])
@pytest.mark.parametrize("has_end", [True, False])
def test_counts_equal_a_plain_loop(has_boundary, has_end):
    alphabet, gold, lengths = small()
    _, words, _ = sample()
    cut = type(words)(words.letters[:15], None, None, gold, lengths)
    found = spectral_moments.count(
        alphabet, cut, has_boundary=has_boundary, has_end=has_end
    )
    n = alphabet.num_symbols
    wanted = [np.zeros((n,) * order) for order in (1, 2, 3)]
    for row, length in zip(gold, lengths, strict=True):
        string = [0, 0] * has_boundary + row[:length].tolist() + [0] * has_end
        for order, t in itertools.product((1, 2, 3), range(len(string))):
            part = tuple(string[t : t + order])
            if len(part) == order and min(part) >= 0:
                wanted[order - 1][part] += 1 / 15
    for part, value in zip(found, wanted, strict=True):
        assert part.dtype == np.float32
        np.testing.assert_allclose(part, value, rtol=1e-5)


def test_conditional_tables_sum_to_one_over_the_outputs_of_three_letters():
    alphabet, words, _ = sample()
    moments = spectral_moments.count(alphabet, words)
    model = fit(moments, rank=5)
    divided = spectral_moments.conditional_moments(alphabet, moments).trigrams
    scores = score_table(alphabet, model, True)
    assert scores.dtype == jnp.float32
    for found in (divided, np.asarray(scores)):
        sums = np.zeros((LETTERS + 2,) * 3)
        np.add.at(sums, np.ix_(*[alphabet.letter_of] * 3), found)
        seen = sums[1:-1, 1:-1, 1:-1]
        np.testing.assert_allclose(seen, np.ones_like(seen), rtol=1e-5)
        assert found.min() >= 0


def test_the_table_decodes_better_than_the_best_output_of_each_letter():
    alphabet, words, _ = sample()
    small = slice(0, 300)
    words = type(words)(
        words.letters[small],
        words.candidates[small],
        words.mask[small],
        words.gold[small],
        words.lengths[small],
    )
    lattice = streams.words.lattice(alphabet, words)
    _, all_words, _ = sample()
    moments = spectral_moments.count(alphabet, all_words)
    decode = jax.jit(lambda scores: best_paths(scores, lattice, cost=0.0))

    def accuracy(scores):
        return hamming_accuracy(words, paths_to_words(decode(scores), lattice))

    unigrams = jnp.asarray(moments.unigrams)
    n = alphabet.num_symbols
    baseline = accuracy(jnp.broadcast_to(unigrams[None, None], (n, n, n)))
    model = fit(moments, rank=5)
    for is_conditional in (False, True):
        found = score_table(alphabet, model, is_conditional)
        assert accuracy(found) > baseline + 2


def test_too_many_states_are_named():
    moments = Moments(np.ones(3), np.ones((3, 3)), np.ones((3, 3, 3)))
    with pytest.raises(InputError, match="`rank` must be at most 3 .*got 4"):
        spectral_moments.fit(moments, rank=4)
