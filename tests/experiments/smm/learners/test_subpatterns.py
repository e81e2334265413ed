"""Sub-patterns of trigrams: the table of scores against a dictionary of features."""

import collections
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.smm.learners import subpatterns
from lowrank_jax.data import Corpus, alphabet_of, encode_words


@functools.lru_cache
def task():
    """Fourteen short words; "a" has three outputs, "b" two and "c" one."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 6, 14)
    letters = generator.choice(list("abc"), lengths.sum())
    outputs = {"a": list("xyz"), "b": list("xy"), "c": list("x")}
    labels = np.array([generator.choice(outputs[letter]) for letter in letters])
    corpus = Corpus((letters,), labels, np.cumsum([0, *lengths]), "toy")
    alphabet = alphabet_of(corpus)
    assert alphabet.num_candidates.tolist() == [1, 3, 2, 1, 1]
    return alphabet, encode_words(alphabet, corpus)


def candidate_paths(i):
    """All paths of word i."""
    _, words = task()
    lists = [words.candidates[i, t][words.mask[i, t]] for t in range(words.lengths[i])]
    return [tuple(map(int, path)) for path in itertools.product(*lists)]


def true_path(i):
    _, words = task()
    return tuple(map(int, words.gold[i, : words.lengths[i]]))


@functools.lru_cache
def patterns_by_definition():
    """Fill three places in all ways; drop empty ends; keep bi-symbols side by side."""
    found = set()
    for kinds in itertools.product("_xs", repeat=3):
        pattern = "".join(kinds).strip("_")
        symbols = [place for place, kind in enumerate(pattern) if kind == "s"]
        if symbols and symbols[-1] - symbols[0] == len(symbols) - 1:
            found.add(pattern)
    return found


def features(path, has_end=True):
    """Count the features of a path: pattern and what it shows."""
    alphabet, _ = task()
    full = (0, 0, *path, *([0] if has_end else []))
    counts = collections.Counter()
    for end in range(2, len(full)):
        for pattern in patterns_by_definition():
            begin = end + 1 - len(pattern)
            shown = tuple(
                int(alphabet.letter_of[symbol]) if kind == "x" else symbol
                for kind, symbol in zip(pattern, full[begin : end + 1], strict=True)
                if kind != "_"
            )
            counts[pattern, shown] += 1
    return counts


def score(params, counts):
    """Weights of the features of a path, added up."""
    return sum(
        times * getattr(params, pattern)[shown]
        for (pattern, shown), times in counts.items()
    )


def as_params(counts):
    """Lay a dictionary of features out as tables."""
    alphabet, _ = task()
    zeros = subpatterns.zeros(alphabet.first.size, alphabet.num_symbols, jnp.float64)
    tables = jax.tree.map(np.array, zeros)
    for (pattern, shown), times in counts.items():
        getattr(tables, pattern)[shown] += times
    return tables


def random_params(seed=0):
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda t: generator.normal(size=t.shape), as_params({}))


def test_the_patterns_are_those_of_the_definition():
    assert set(subpatterns.PATTERNS) == patterns_by_definition()
    assert len(subpatterns.PATTERNS) == 12


def test_a_path_sums_up_the_weights_of_its_features_and_its_gradient_counts_them():
    alphabet, words = task()
    letter_of = jnp.asarray(alphabet.letter_of)
    params = random_params()

    @jax.jit
    def table_and_gradient(params, counts):
        table, back = jax.vjp(lambda p: subpatterns.score_table(p, letter_of), params)
        return table, back(counts)[0]

    for has_end in (True, False):
        total, expected = np.zeros((alphabet.num_symbols,) * 3), collections.Counter()
        for i in range(words.num_words):
            path = candidate_paths(i)[-1]
            full = (0, 0, *path, *([0] if has_end else []))
            counts = np.zeros_like(total)
            for t in range(len(full) - 2):
                counts[full[t : t + 3]] += 1
            table, _ = table_and_gradient(params, total)
            wanted = score(params, features(path, has_end))
            np.testing.assert_allclose((counts * table).sum(), wanted, rtol=1e-10)
            total += counts
            expected.update(features(path, has_end))
        _, gradient = table_and_gradient(params, total)
        for found, wanted in zip(gradient, as_params(expected), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_the_entries_of_a_trigram_are_those_the_table_of_scores_adds():
    alphabet, _ = task()
    params = random_params(1)
    n = alphabet.num_symbols
    symbols = list(np.indices((n, n, n)))
    letters = [alphabet.letter_of[part] for part in symbols]
    cells = subpatterns.cells(letters, symbols)
    total = sum(getattr(params, name)[cells[name]] for name in subpatterns.PATTERNS)
    table = subpatterns.score_table(params, jnp.asarray(alphabet.letter_of))
    np.testing.assert_allclose(total, table, rtol=1e-10, atol=1e-12)


def test_mixing_gives_the_least_norm_over_all_strings_with_one_table():
    """E over bi-symbols, letters and nothing; its table; the matrix H of that table."""
    letter_of = np.array([0, 1, 1, 1, 2])
    mixing = np.asarray(subpatterns.mixing(letter_of, 0.5, 0.7), float)
    signs = np.concatenate(
        [np.eye(5), 0.7 * np.eye(3)[letter_of], np.full((5, 1), 0.5)], axis=1
    )
    np.testing.assert_allclose(mixing @ mixing, signs @ signs.T, rtol=1e-5)

    def table_of(tensor, matrix):
        return np.einsum("abc,ia,jb,kc->ijk", tensor, matrix, matrix, matrix)

    def norm(tensor):
        return np.linalg.norm(tensor.reshape(-1, tensor.shape[-1]), "nuc")

    generator = np.random.default_rng(0)
    any_one = generator.normal(size=(9, 9, 9))
    table = table_of(any_one, signs)
    small = table_of(table, np.linalg.inv(mixing))  # H
    np.testing.assert_allclose(table_of(small, mixing), table, rtol=1e-6, atol=1e-8)
    least = table_of(table, np.linalg.pinv(signs))
    np.testing.assert_allclose(table_of(least, signs), table, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(norm(small), norm(least), rtol=1e-5)
    assert norm(least) < norm(any_one)
    np.testing.assert_allclose(np.linalg.norm(small), np.linalg.norm(least), rtol=1e-5)
