"""The statements of SMM on Hankel matrices and proximal maps, and their trials."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.batch.smm.penalties import proximal_step
from lowrank_jax.linalg.svt import svt
from lowrank_jax.linalg.ties import average_ties, tied_objective, tied_prox
from lowrank_jax.models import operators as models
from lowrank_jax.models.hankel import SubBlocks, tie_groups
from lowrank_jax.models.operators import Operators
from lowrank_jax.theory.certificate import Certificate, equal
from lowrank_jax.theory.smm import splitting, states
from lowrank_jax.verify.smm import runs
from lowrank_jax.verify.statement import Effort, Found, Statement

__all__ = ["STATEMENTS"]

_equal = jax.jit(equal)


# Hankel matrices


class _Sample(NamedTuple):
    """Models of n states and their scores on strings over two symbols."""

    num_states: int
    matrix: np.ndarray  # (N, |P|, |S|)  F(uv)
    blocks: SubBlocks  # of each model
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


def _ranks(effort: Effort) -> Iterator[Found]:
    for n in _states(effort):
        found = jax.jit(states.rank_certificate)(_sample(effort, n).matrix, float(n))
        yield Found(found, f"random models of {n} states")


@functools.lru_cache
def _recovery(effort: Effort, *, is_printed: bool) -> list[Found]:
    found = []
    for n in _states(effort):
        sample = _sample(effort, n)
        strings, lengths = jnp.asarray(sample.strings), jnp.asarray(sample.lengths)

        def one(
            blocks: SubBlocks,
            scores: jax.Array,
            n: int = n,
            strings: jax.Array = strings,
            lengths: jax.Array = lengths,
        ) -> Certificate:
            return states.recovery_certificate(
                blocks, n, strings, lengths, scores, is_printed=is_printed
            )

        certificate = jax.jit(jax.vmap(one))(sample.blocks, sample.scores)
        found.append(Found(certificate, f"models of {n} states, |P| = |S|, P is not S"))
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


def _realisation(effort: Effort) -> Iterator[Found]:
    drawn = _tensors(effort)

    @jax.jit
    def check(tensors: list) -> list[Certificate]:
        exact = states.realisation_certificate
        pairs = zip(tensors, drawn, strict=True)
        return [jax.vmap(lambda t, r=r: exact(t, r))(tensor) for tensor, r in pairs]

    for found, ranks in zip(check(list(drawn.values())), drawn, strict=True):
        yield Found(found, f"unfoldings of ranks {ranks}")
    if effort.is_quick:  # operations outside `jit` are compiled one by one
        return
    tensors = [tensor[1] for tensor in drawn.values()] + [_diagonal(4)]
    expected = np.array([2.0 + sum(ranks) for ranks in (*drawn, (4, 1))])
    sizes = [models.from_trigrams(jnp.asarray(t)).alpha.size for t in tensors]
    yield Found(_equal(np.array(sizes, float), expected), "number of states")


def _diagonal(num_symbols: int) -> np.ndarray:
    """F(abc) = delta_ab g_c."""
    weights = np.arange(1.0, num_symbols + 1)
    return np.eye(num_symbols)[:, :, None] * weights[None, None]


def _needed_states(effort: Effort) -> Iterator[Found]:
    rng = effort.generator(23)
    number = effort.trials(400, 2000)
    check = jax.jit(
        lambda a, b, m, n: states.states_certificate(
            jax.vmap(models.trigram_table)(Operators(a, b, m)), n
        )
    )
    for n in (2,) if effort.is_quick else (1, 2, 3, 4, 6):
        alpha, beta = rng.normal(size=(2, number, n))
        matrices = rng.normal(size=(number, 4, n, n))
        yield Found(check(alpha, beta, matrices, float(n)), f"models of {n} states")


def _one_unfolding(effort: Effort) -> Iterator[Found]:
    found = jax.jit(states.unfolding_certificate)(_diagonal(6)[None])
    yield Found(found, "F(abc) = delta_ab g_c over 6 symbols")


# Proximal maps


def _matrices(effort: Effort) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
    """Draw matrices and thresholds: all scales, zeros, equal singular values."""
    rng = effort.generator(24)
    number = effort.trials(400, 2000)
    shapes = ((4, 2),) if effort.is_quick else ((1, 1), (1, 5), (3, 3), (7, 3))
    drawn = {}
    for shape in shapes:
        matrices = rng.normal(size=(number, *shape))
        left, values, right = np.linalg.svd(matrices, full_matrices=False)
        matrices[::5] = 2 * (left @ right)[::5]  # all singular values 2
        values[::5] = 2
        shares = rng.choice([0, 0.01, 0.3, 0.9, 1, 2], number)
        thresholds = shares * values[:, 0]
        scales = 10.0 ** rng.integers(-8, 9, number)
        matrices *= scales[:, None, None]
        matrices[1] = 0
        drawn[shape] = matrices, thresholds * scales
    return drawn


def _one_matrix(
    matrix: jax.Array,
    threshold: jax.Array,
    noise: jax.Array,
    share: jax.Array,
) -> dict[str, dict[str, Certificate]]:
    """Return what is to be said of one matrix: statement, case, certificate."""
    unit, empty = jnp.ones_like(threshold), jnp.zeros((matrix.shape[1], 0), noise.dtype)

    def step(penalty: str, method: str = "gram") -> Certificate:
        """Hold the learner's proximal step against the minimum of its problem."""
        moved = proximal_step(
            penalty,
            (matrix,),
            (threshold,),
            unit,
            (empty,),
            num_steps=1,
            method=method,
        )
        return splitting.prox_certificate(
            matrix, moved.params[0], threshold, penalty=penalty
        )

    def printed(share: float) -> Certificate:
        """Hold SVT against the problem without 1/2."""
        found = svt(matrix, share * threshold, method="svd").matrix
        return splitting.prox_certificate(matrix, found, threshold, quadratic=1.0)

    found, other = (svt(z, threshold, method="svd").matrix for z in (matrix, noise))
    growth = splitting.prox_growth_certificate
    return {
        "printed": {"the problem without 1/2": printed(1.0)},
        "corrected": {
            "through the Gram matrix": step("nuclear"),
            "through the SVD": step("nuclear", "svd"),
            "the problem without 1/2, half the threshold": printed(0.5),
        },
        "growth": {
            "random perturbations": growth(matrix, found, found + noise, threshold),
            "multiples of the solution": growth(
                matrix, found, share * found, threshold
            ),
        },
        "non-expansive": {
            "two matrices": splitting.non_expansive_certificate(
                matrix, noise, found, other
            )
        },
        "norm": {"the norm": step("frobenius")},
        "squared": {"half the square": step("squared_frobenius")},
    }


@functools.lru_cache
def _all_prox(effort: Effort) -> list[tuple[str, Found]]:
    rng = effort.generator(25)
    check = jax.jit(jax.vmap(_one_matrix))
    found = []
    for shape, (matrices, thresholds) in _matrices(effort).items():
        size = np.abs(matrices).max((1, 2), keepdims=True)
        noise = size * 10.0 ** rng.integers(-3, 2, size.shape)
        noise = noise * rng.normal(size=matrices.shape)
        shares = rng.choice([0, 0.5, 0.99, 1.01, 3], len(matrices))
        for form, cases in check(matrices, thresholds, noise, shares).items():
            found += [(form, Found(c, f"{shape}, {case}")) for case, c in cases.items()]
    return found


def _prox(form: str, effort: Effort) -> Iterator[Found]:
    return (found for name, found in _all_prox(effort) if name == form)


class _Ties(NamedTuple):
    projected: jax.Array  # (N,) objective
    solved: jax.Array  # (N,)
    bound: jax.Array  # (N,)
    others: jax.Array  # (N,) of a tied matrix near the solution


@functools.lru_cache
def _ties(effort: Effort) -> _Ties:
    rng = effort.generator(26)
    number = effort.trials(40, 400)
    groups = jnp.asarray(tie_groups(2))

    def one(inputs: tuple) -> _Ties:
        matrix, threshold, noise = inputs
        rough, exact = (
            tied_prox(matrix, groups, threshold, method=method)
            for method in ("projection", "admm")
        )
        other = exact.matrix + average_ties(noise, groups)
        near = tied_objective(other, matrix, threshold)
        return _Ties(rough.objective, exact.objective, exact.lower_bound, near)

    matrices = rng.normal(size=(number, 7, 3))
    thresholds = rng.uniform(0.1, 2, number)
    noise = rng.normal(size=matrices.shape) * 10.0 ** rng.integers(
        -3, 1, (number, 1, 1)
    )
    run = jax.jit(lambda inputs: jax.lax.map(one, inputs))
    return jax.device_get(run((matrices, thresholds, noise)))


def _projection(effort: Effort) -> Iterator[Found]:
    ties = _ties(effort)
    check = jax.jit(splitting.tied_certificate, static_argnames="tolerance")
    yield Found(check(ties.projected, ties.solved), "projection against ADMM")


def _tied(effort: Effort) -> Iterator[Found]:
    ties = _ties(effort)
    check = jax.jit(splitting.tied_certificate, static_argnames="tolerance")
    # The method stops at a relative residual of 1e-6.
    found = check(ties.solved, ties.bound, tolerance=1e-4)
    yield Found(found, "ADMM against its lower bound")
    yield Found(check(ties.bound, ties.others), "the bound against tied matrices")
    found = check(ties.solved, ties.projected, tolerance=1e-4)
    yield Found(found, "ADMM against the projection")


_HANKEL, _FOBOS = "lowrank_jax.theory.smm.states.", "lowrank_jax.theory.smm.splitting."

STATEMENTS: tuple[Statement, ...] = (
    Statement(
        id="SMM-T1",
        words="a Hankel matrix of a model of n states has at most the rank n",
        status="proved",
        function=_HANKEL + "rank_certificate",
        check=_ranks,
    ),
    Statement(
        id="SMM-T1",
        words="a Hankel matrix of rank n gives a model of n states, F on all strings",
        status="proved",
        function=_HANKEL + "recovery_certificate",
        check=functools.partial(_recovery, is_printed=False),
        form="converse",
    ),
    Statement(
        id="SMM-R1",
        words="recovery with alpha = h_P V, beta = (HV)^+ h_S is exact",
        status="printed-form-fails",
        function=_HANKEL + "recovery_certificate",
        check=functools.partial(_recovery, is_printed=True),
        form="printed",
    ),
    Statement(
        id="DR-M1",
        words="recovery with alpha = h_S V, beta = (HV)^+ h_P is exact",
        status="proved",
        function=_HANKEL + "recovery_certificate",
        check=functools.partial(_recovery, is_printed=False),
    ),
    Statement(
        id="SMM-Eq7-8",
        words="a trigram tensor needs no more states than rank(ab|c)",
        status="printed-form-fails",
        function=_HANKEL + "unfolding_certificate",
        check=_one_unfolding,
        form="printed",
    ),
    Statement(
        id="DR-M3",
        words="2 + rank(a|bc) + rank(ab|c) states realise any trigram tensor",
        status="proved",
        function=_HANKEL + "realisation_certificate",
        check=_realisation,
        form="construction",
    ),
    Statement(
        id="DR-M3",
        words="a model has at least max(rank(a|bc), rank(ab|c)) states",
        status="proved",
        function=_HANKEL + "states_certificate",
        check=_needed_states,
        form="lower bound",
    ),
    Statement(
        id="SMM-N6",
        words="SVT with threshold eta tau solves min ||H - Z||^2 + eta tau ||H||_*",
        status="printed-form-fails",
        function=_FOBOS + "prox_certificate",
        check=functools.partial(_prox, "printed"),
        form="printed",
    ),
    Statement(
        id="SMM-N6",
        words="SVT with threshold t solves min ||H - Z||^2 / 2 + t ||H||_*",
        status="proved",
        function=_FOBOS + "prox_certificate",
        check=functools.partial(_prox, "corrected"),
        form="corrected",
    ),
    Statement(
        id="SMM-N6",
        words="any other matrix costs more than SVT(Z) by half its squared distance",
        status="proved",
        function=_FOBOS + "prox_growth_certificate",
        check=functools.partial(_prox, "growth"),
        form="growth",
    ),
    Statement(
        id="SMM-N6",
        words="SVT is (firmly) non-expansive",
        status="proved",
        function=_FOBOS + "non_expansive_certificate",
        check=functools.partial(_prox, "non-expansive"),
        form="non-expansive",
    ),
    Statement(
        id="SMM-B2",
        words="H [1 - t / ||H||_F]_+ is the proximal map of t ||H||_F",
        status="proved",
        function=_FOBOS + "prox_certificate",
        check=functools.partial(_prox, "norm"),
        form="norm",
    ),
    Statement(
        id="SMM-B2",
        words="H / (1 + t) is the proximal map of t ||H||_F^2 / 2",
        status="proved",
        function=_FOBOS + "prox_certificate",
        check=functools.partial(_prox, "squared"),
        form="squared",
    ),
    Statement(
        id="SMM-X2",
        words="SVT and then the mean of tied entries solves the tied problem",
        status="printed-form-fails",
        function=_FOBOS + "tied_certificate",
        check=_projection,
        form="printed",
    ),
    Statement(
        id="SMM-X2",
        words="ADMM solves the tied problem, to its tolerance, and bounds its minimum",
        status="proved",
        function=_FOBOS + "tied_certificate",
        check=_tied,
        form="corrected",
    ),
    *runs.STATEMENTS,
)
