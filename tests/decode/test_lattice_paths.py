"""Decoding of words in lanes against enumeration."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data.bisymbols import Alphabet, Words
from lowrank_jax.decode import lattice_paths
from lowrank_jax.streams.words import lattice

# Four letters with 1, 3, 2, 4 candidates after the boundary: ids 1, 2-4, 5-6, 7-10.
COUNTS = np.array([1, 1, 3, 2, 4], np.int32)
FIRST = (np.cumsum(COUNTS) - COUNTS).astype(np.int32)
NUM_SYMBOLS = int(COUNTS.sum())
LENGTHS = np.array([1, 2, 5, 3, 1, 4, 2, 5], np.int32)


@functools.lru_cache
def words():
    generator = np.random.default_rng(0)
    inside = np.arange(LENGTHS.max())[None, :] < LENGTHS[:, None]
    letters = np.where(inside, generator.integers(1, 5, inside.shape), 0)
    gold = FIRST[letters] + generator.integers(0, COUNTS[letters])
    return letters, np.where(inside, gold, -1)


@functools.lru_cache
def table(order):
    shape = (NUM_SYMBOLS,) * max(order, 2)
    return np.random.default_rng(order).normal(size=shape)


def enumerate_paths(order, word, cost, has_end):
    """All paths of a word: symbols, score with cost, and the cells they use."""
    letters, gold = words()
    length, pads = LENGTHS[word], max(order, 2) - 1
    lists = [FIRST[x] + np.arange(COUNTS[x]) for x in letters[word, :length]]
    for path in itertools.product(*lists):
        full = (0,) * pads + path + ((0,) if has_end else ())
        cells = [full[t : t + pads + 1] for t in range(len(full) - pads)]
        score = sum(table(order)[cell] for cell in cells)
        score += cost * sum(path[t] != gold[word, t] for t in range(length))
        yield path, score, cells


def expected(order, cost, has_end, smoothing=None):
    """Best paths, sum of their scores (or smooth maxima), and counts of cells."""
    total, counts, best_paths = 0.0, np.zeros(table(order).shape), []
    for word in range(len(LENGTHS)):
        found = list(enumerate_paths(order, word, cost, has_end))
        values = np.array([score for _, score, _ in found])
        best = values.argmax()
        best_paths.append(found[best][0])
        weights = np.eye(len(found))[best]
        total += values.max()
        if smoothing is not None:
            weights = np.exp((values - values.max()) / smoothing)
            total += smoothing * np.log(weights.sum())
            weights /= weights.sum()
        for weight, (_, _, cells) in zip(weights, found, strict=True):
            for cell in cells:
                counts[cell] += weight
    return best_paths, total, counts


ALPHABET = Alphabet(
    letters=np.array(list("abcd")),
    outputs=np.array([f"{i}" for i in range(NUM_SYMBOLS)]),
    letter_of=np.repeat(np.arange(5), COUNTS),
    first=FIRST,
    num_candidates=COUNTS,
)


def encoded(num_words):
    """Return the first words as `encode_words` does."""
    letters, gold = (part[:num_words] for part in words())
    each = np.arange(COUNTS.max())
    mask = (each < COUNTS[letters][..., None]) & (letters > 0)[..., None]
    candidates = np.where(mask, FIRST[letters][..., None] + each, 0)
    return Words(letters, candidates, mask, gold, LENGTHS[:num_words])


@functools.lru_cache
def lattice_of(order, has_end, num_lanes=3):
    given = ALPHABET, encoded(len(LENGTHS))
    return lattice(*given, order=order, has_end=has_end, num_lanes=num_lanes)


best_paths = jax.jit(lattice_paths.best_paths)
SETTINGS = [(3, 1.0, False), (3, 0.0, True), (2, 1.0, True), (1, 0.5, False)]


@pytest.mark.parametrize(("order", "cost", "has_end"), SETTINGS)
def test_best_paths_of_the_lattice_equal_enumeration(order, cost, has_end):
    laid = lattice_of(order, has_end)
    found = best_paths(jnp.asarray(table(order)), laid, cost=cost)
    paths, total, counts = expected(order, cost, has_end)
    np.testing.assert_allclose(found.score, total, rtol=1e-10)
    predicted = lattice_paths.paths_to_words(found, laid)
    for row, path, length in zip(predicted, paths, LENGTHS, strict=True):
        assert row[:length].tolist() == list(path)
        assert (row[length:] == -1).all()
    turned = np.bincount(np.asarray(found.cells).reshape(-1), minlength=counts.size + 1)
    turned = turned[:-1].reshape(counts.shape)
    np.testing.assert_array_equal(np.moveaxis(turned, -1, 0), counts)
    _, gold = words()
    wrong = sum(
        path[t] != gold[i, t] for i, path in enumerate(paths) for t in range(len(path))
    )
    assert int(found.num_wrong) == wrong


def test_the_number_of_lanes_changes_nothing():
    one, other = lattice_of(2, True), lattice_of(2, True, num_lanes=1)
    first, second = (
        lattice_paths.paths_to_words(best_paths(jnp.asarray(table(2)), laid), laid)
        for laid in (one, other)
    )
    np.testing.assert_array_equal(first, second)
    assert sorted(one.gold_cells) == sorted(other.gold_cells)


@pytest.mark.parametrize(("order", "has_end"), [(3, True), (2, False)])
def test_gold_cells_are_the_factors_of_the_true_words(order, has_end):
    _, gold = words()
    counts = np.zeros(table(order).shape)
    for word, length in enumerate(LENGTHS):
        true = tuple(gold[word, :length])
        for path, _, cells in enumerate_paths(order, word, 0, has_end):
            if path == true:
                for cell in cells:
                    counts[cell] += 1
    flat = np.bincount(lattice_of(order, has_end).gold_cells, minlength=counts.size)
    np.testing.assert_array_equal(
        np.moveaxis(flat.reshape(counts.shape), -1, 0), counts
    )


def test_smooth_maximum_and_its_gradient_equal_enumeration():
    order, has_end, smoothing = 3, True, 0.7
    laid = lattice_of(order, has_end)

    def value(table):
        return lattice_paths.smooth_maximum(table, laid, smoothing=smoothing)

    found, gradient = jax.jit(jax.value_and_grad(value))(jnp.asarray(table(order)))
    _, total, counts = expected(order, 1.0, has_end, smoothing)
    np.testing.assert_allclose(found, total, rtol=1e-10)
    np.testing.assert_allclose(gradient, counts, rtol=1e-9, atol=1e-12)


def test_wrong_shapes_and_orders_are_named():
    with pytest.raises(InputError, match="`table` must have shape"):
        lattice_paths.best_paths(jnp.zeros((2, 2)), lattice_of(3, False))
    with pytest.raises(InputError, match="`order` must be 1, 2 or 3, got 4"):
        lattice(ALPHABET, encoded(2), order=4)
    with pytest.raises(InputError, match="no word"):
        lattice(ALPHABET, encoded(0))
