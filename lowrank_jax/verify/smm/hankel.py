"""SMM's statements on Hankel matrices and the states of models, and their trials."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.models import operators as models
from lowrank_jax.models.hankel import SubBlocks
from lowrank_jax.models.operators import Operators
from lowrank_jax.theory.certificate import Certificate, equal
from lowrank_jax.theory.smm import states
from lowrank_jax.verify.statement import Certify, Effort, Found, fails, proved

__all__: list[str] = []
__dir__ = __all__.copy


class _Sample(NamedTuple):
    """Models of n states and their scores on strings over two symbols."""

    num_states: int
    matrix: np.ndarray  # (N, |P|, |S|)  F(uv)
    blocks: SubBlocks  # one set per model
    strings: np.ndarray  # (K, L)
    lengths: np.ndarray  # (K,)
    scores: np.ndarray  # (N, K)


_WORDS = [w for k in range(4) for w in itertools.product(range(2), repeat=k)]
_PREFIXES, _SUFFIXES = _WORDS[:6], [_WORDS[i] for i in (1, 2, 4, 6, 8, 13)]


def _padded(words: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    strings = np.zeros((len(words), 8), np.int32)
    for row, word in zip(strings, words, strict=True):
        row[: len(word)] = word
    return strings, np.array([len(word) for word in words])


_scores = jax.jit(
    jax.vmap(jax.vmap(models.score, in_axes=(None, 0, 0)), in_axes=(0, None, None))
)


@functools.lru_cache
def _sample(effort: Effort, num_states: int) -> _Sample:
    """Draw models: scales from 1e-8 to 1e8, some not minimal, one zero."""
    rng = effort.generator(21, num_states)
    n, number = num_states, effort.trials(400, 2000)
    matrices = rng.normal(size=(number, 2, n, n)) / np.sqrt(n)
    alpha, beta = rng.normal(size=(2, number, n))
    alpha *= 10.0 ** rng.integers(-8, 9, (number, 1))
    alpha[::10, 0] = matrices[::10, :, :, 0] = 0  # the first state is never reached
    alpha[-1] = 0
    words = [u + v for u in _PREFIXES for v in _SUFFIXES]
    words += [u + (a,) + v for a in range(2) for u in _PREFIXES for v in _SUFFIXES]
    words += [*_PREFIXES, *_SUFFIXES]
    num_known = len(words)
    words += [tuple(rng.integers(0, 2, k)) for k in rng.integers(0, 9, 30)]
    strings, lengths = _padded(words)
    found = np.asarray(_scores(Operators(alpha, beta, matrices), strings, lengths))
    p, s = len(_PREFIXES), len(_SUFFIXES)
    cuts = np.cumsum([p * s, 2 * p * s, p, s])
    parts: Any = np.split(found, cuts, axis=1)
    empty, symbols, prefixes, suffixes, _ = parts
    empty = empty.reshape(number, p, s)
    blocks = SubBlocks(empty, symbols.reshape(number, 2, p, s), prefixes, suffixes)
    test = slice(num_known, None)
    return _Sample(n, empty, blocks, strings[test], lengths[test], found[:, test])


def _states(effort: Effort) -> tuple[int, ...]:
    return (3,) if effort.is_quick else (1, 2, 3, 4)


@proved(
    "SMM-T1",
    "a Hankel matrix of a model of n states has at most the rank n",
    states.rank_certificate,
)
def _ranks(certify: Certify, effort: Effort) -> Iterator[Found]:
    for n in _states(effort):
        found = jax.jit(certify)(_sample(effort, n).matrix, float(n))
        yield Found(found, f"random models of {n} states")


@proved(
    "SMM-T1: converse",
    "a Hankel matrix of rank n gives a model of n states, F on all strings",
    states.recovery_certificate,
)
@fails(
    "SMM-R1: printed",
    "recovery with alpha = h_P V, beta = (HV)^+ h_S is exact",
    states.recovery_certificate,
    is_printed=True,
)
@proved(
    "DR-M1",
    "recovery with alpha = h_S V, beta = (HV)^+ h_P is exact",
    states.recovery_certificate,
)
@functools.lru_cache
def _recovery(
    certify: Certify, effort: Effort, *, is_printed: bool = False
) -> list[Found]:
    found = []
    for n in _states(effort):
        sample = _sample(effort, n)
        tried = functools.partial(certify, is_printed=is_printed)
        tried = jax.vmap(tried, in_axes=(0, None, None, None, 0))
        program = jax.jit(tried, static_argnums=1)
        given = sample.blocks, n, sample.strings, sample.lengths, sample.scores
        found.append(
            Found(program(*given), f"models of {n} states, |P| = |S|, P is not S")
        )
    return found


def _tensors(effort: Effort) -> dict[tuple[int, int], np.ndarray]:
    """Draw trigram tensors over four symbols, by the ranks of their unfoldings."""
    rng = effort.generator(22)
    number = effort.trials(400, 1000)
    drawn = {}
    for r1, r2 in ((2, 3),) if effort.is_quick else ((2, 3), (1, 1), (4, 4)):
        first, last = (rng.normal(size=(number, 4, r)) for r in (r1, r2))
        middle = rng.normal(size=(number, 4, r1, r2))
        tensor = np.einsum("nai,nbij,ncj->nabc", first, middle, last)
        drawn[r1, r2] = tensor * 10.0 ** rng.integers(-8, 9, (number, 1, 1, 1))
    drawn[2, 3][0] = 0
    return drawn


def _diagonal(num_symbols: int) -> np.ndarray:
    """F(abc) = delta_ab g_c."""
    weights = np.arange(1.0, num_symbols + 1)
    return np.eye(num_symbols)[:, :, None] * weights[None, None]


@fails(
    "SMM-Eq7-8: printed",
    "a trigram tensor needs no more states than rank(ab|c)",
    states.unfolding_certificate,
)
def _one_unfolding(certify: Certify, effort: Effort) -> Iterator[Found]:
    found = jax.jit(certify)(_diagonal(6)[None])
    yield Found(found, "F(abc) = delta_ab g_c over 6 symbols")


@proved(
    "DR-M3: construction",
    "2 + rank(a|bc) + rank(ab|c) states realise any trigram tensor",
    states.realisation_certificate,
)
def _realisation(certify: Certify, effort: Effort) -> Iterator[Found]:
    drawn = _tensors(effort)

    @jax.jit
    def check(tensors: list) -> list[Certificate]:
        pairs = zip(tensors, drawn, strict=True)
        return [jax.vmap(lambda t, r=r: certify(t, r))(tensor) for tensor, r in pairs]

    for found, ranks in zip(check(list(drawn.values())), drawn, strict=True):
        yield Found(found, f"unfoldings of ranks {ranks}")
    if effort.is_quick:  # operations outside `jit` are compiled one by one
        return
    tensors = [tensor[1] for tensor in drawn.values()] + [_diagonal(4)]
    expected = np.array([2.0 + sum(ranks) for ranks in (*drawn, (4, 1))])
    sizes = [models.from_trigrams(jnp.asarray(t)).alpha.size for t in tensors]
    found = jax.jit(equal)(np.array(sizes, float), expected)
    yield Found(found, "number of states")


@proved(
    "DR-M3: lower bound",
    "a model has at least max(rank(a|bc), rank(ab|c)) states",
    states.states_certificate,
)
def _needed_states(certify: Certify, effort: Effort) -> Iterator[Found]:
    rng = effort.generator(23)
    number = effort.trials(400, 2000)
    check = jax.jit(
        lambda a, b, m, n: certify(
            jax.vmap(models.trigram_table)(Operators(a, b, m)), n
        )
    )
    for n in (2,) if effort.is_quick else (1, 2, 3, 4, 6):
        alpha, beta = rng.normal(size=(2, number, n))
        matrices = rng.normal(size=(number, 4, n, n))
        yield Found(check(alpha, beta, matrices, float(n)), f"models of {n} states")
