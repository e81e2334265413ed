"""The statements of TM on the steps of Tensor-MIRA, and their trials.

Rounds are drawn once. Each round is done twice. This module does it in NumPy, with
dense tensors and one sub-step at a time. The learner does it without building a tensor.
"""

import functools
import itertools
import string
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import streams
from lowrank_jax.data import lists as data
from lowrank_jax.models.tensor import Shape
from lowrank_jax.online import tensor_mira
from lowrank_jax.theory.certificate import equal
from lowrank_jax.theory.tm import steps as pa
from lowrank_jax.verify.statement import (
    Certify,
    Effort,
    Found,
    checked,
    fails,
    proved,
)

__all__: list[str] = []
__dir__ = __all__.copy

_SIZE, _ORDER, _COMPONENTS, _SWEEPS = 3, 2, 2, 3
_ROUND = _ORDER * _COMPONENTS  # sub-steps of one sweep
_PAPER, _EXACT, _BCD = "paper", "exact", "bcd"  # TM-Eq6, DR-T1, DR-T2


class _Rounds(NamedTuple):
    """Rounds of Tensor-MIRA: the vectors at the start, and the mistake to correct."""

    vectors: Any  # (N, D, H, n)
    difference: Any  # (N, n, ..., n)
    cost: Any  # (N,)
    limit: Any  # (N,)  C


class _Substeps(NamedTuple):
    """All S sub-steps of the rounds, done with dense tensors."""

    problem: pa.Subproblem  # (N, S, ...) TM-N4: the centre is the old vector
    target: pa.Subproblem  # (N, S, ...) TM-Eq3 in one vector: the centre is g/B
    before: Any  # (N, S, n)
    after: Any  # (N, S, n)
    is_clipped: Any  # (N, S) bool
    vectors: Any  # (N, S, D, H, n) after each sub-step
    objectives: Any  # (N, S + 1)  TM-Eq3
    scale: Any  # (N, S)  size of the terms of TM-Eq3


def _dense(vectors: Any) -> Any:
    """Sum the outer products of all components, (N, n, ..., n)."""
    letters = string.ascii_lowercase[: vectors.shape[1]]
    terms = ",".join("yz" + letter for letter in letters)
    return np.einsum(f"{terms}->y{letters}", *vectors.swapaxes(0, 1))


def _contract(whole: Any, vectors: Any, d: int) -> Any:
    """Contract tensors with all of the (N, D, n) vectors but the d-th."""
    letters = string.ascii_lowercase[: whole.ndim - 1]
    others = [i for i in range(whole.ndim - 1) if i != d]
    terms = ",".join(["y" + letters, *("y" + letters[i] for i in others)])
    parts = [vectors[:, i] for i in others]
    return np.einsum(f"{terms}->y{letters[d]}", whole, *parts)


def _dot(left: Any, right: Any) -> Any:
    return (left * right).sum(tuple(range(1, left.ndim)))


def _substeps(step: str, rounds: _Rounds) -> _Substeps:
    """Do the sub-steps of `_SWEEPS` sweeps over all vectors."""
    vectors, difference, cost, limit = rounds
    order, num_components = vectors.shape[1:3]
    first = _dense(vectors)
    sizes = np.abs(first)
    rows: list[tuple] = []
    objectives = [limit * np.maximum(cost - _dot(first, difference), 0)]
    for _, h, d in itertools.product(
        range(_SWEEPS), range(num_components), range(order)
    ):
        own = vectors[:, :, h]
        w, phi = own[:, d], _contract(difference, own, d)
        others = vectors.copy()
        others[:, :, h] = 0
        rest = _dense(others)
        weight = np.delete((own * own).sum(2), d, axis=1).prod(1)
        centre = _contract(first - rest, own, d) / weight[:, None]
        residual = cost - _dot(rest, difference)
        problem = pa.Subproblem(w, phi, residual, weight, limit)
        target = problem._replace(centre=centre)
        if step != _BCD:
            centre = w
        largest = limit if step == _PAPER else limit / weight
        square = _dot(phi, phi)
        gap = np.maximum(residual - _dot(centre, phi), 0)
        full = np.where(square > 0, gap / np.where(square > 0, square, 1), 0)
        new = centre + np.minimum(largest, full)[:, None] * phi
        vectors = vectors.copy()
        vectors[:, d, h] = new
        whole = _dense(vectors)
        moved, sizes = whole - first, np.maximum(sizes, _dense(np.abs(vectors)))
        hinge = np.maximum(cost - _dot(whole, difference), 0)
        objectives.append(_dot(moved, moved) / 2 + limit * hinge)
        size = _dot(sizes, sizes) + limit * (cost + _dot(sizes, np.abs(difference)))
        rows.append((problem, target, w, new, full > largest, vectors, size))
    *stacked, scale = jax.tree.map(lambda *parts: np.stack(parts, axis=1), *rows)
    problem, target, before, after, is_clipped, steps = stacked
    values = np.stack(objectives, axis=1)
    return _Substeps(problem, target, before, after, is_clipped, steps, values, scale)


@functools.lru_cache
def _rounds(effort: Effort, order: int, size: int) -> _Rounds:
    """Draw rounds: many scales and limits, ties, zeros, equal components."""
    rng = effort.generator(11, order, size)
    number = effort.trials(400, 6000)
    vectors = rng.normal(size=(number, order, _COMPONENTS, size))
    vectors *= 10 ** rng.uniform(-0.5, 0.5, (number, order, 1, 1))
    difference = rng.normal(size=(number,) + (size,) * order)
    difference[::7] = np.round(difference[::7])  # counts: sparse, with ties
    scales = 10.0 ** rng.integers(-8, 9, number)
    scales[::2] = 1
    vectors *= scales.reshape(-1, 1, 1, 1) ** (1 / order)
    difference /= scales.reshape((-1,) + (1,) * order)
    has_equal = _has_equal(number)
    vectors[has_equal] = vectors[has_equal][:, :, :1]
    margin = _dot(_dense(vectors), difference)  # a mistake has a negative margin
    difference *= np.where(margin > 0, -1, 1).reshape((-1,) + (1,) * order)
    difference[1] = 0
    cost = rng.uniform(0.05, 1, number)
    limit = 10 ** rng.uniform(-5, 2, number) * scales**2  # scaled like TM-Eq3
    return _Rounds(vectors, difference, cost, limit)


def _has_equal(number: int) -> Any:
    return np.arange(number) % 5 == 0


@functools.lru_cache
def _traces(effort: Effort, step: str, order: int, size: int) -> _Substeps:
    return _substeps(step, _rounds(effort, order, size))


_MAIN = (_ORDER, _SIZE)


def _shapes(effort: Effort) -> tuple[tuple[int, int], ...]:
    """Return order and size of the tensors, the learner's own shape first."""
    return (_MAIN,) if effort.is_quick else (_MAIN, (2, 1), (3, 2))


class _Learnt(NamedTuple):
    vectors: Any  # (N, D, H, n)
    info: tensor_mira.Info


@functools.lru_cache
def _learnt(effort: Effort, step: str, make: Certify) -> _Learnt:
    """Do the rounds with the learner.

    Each list has two candidates, and the worse candidate has no features.
    """
    vectors, difference, cost, limit = _rounds(effort, *_MAIN)
    number, num_cells = len(cost), _SIZE**_ORDER
    lists = data.Lists(
        feature_ids=np.tile(np.arange(num_cells, dtype=np.int32), number),
        values=difference.transpose(0, *range(_ORDER, 0, -1)).reshape(-1),  # by cell
        candidate_offsets=np.repeat(np.arange(number + 1), 2)[1:] * num_cells,
        list_offsets=2 * np.arange(number + 1),
        quality=np.stack([np.ones(number), 1 - cost], axis=1).reshape(-1),
        num_features=num_cells,
    )
    shape = Shape((_SIZE,) * _ORDER, _COMPONENTS)

    def one(corpus: streams.lists.Stream, inputs: tuple) -> _Learnt:
        vectors, limit, index = inputs
        learner = make(shape=shape, step=step, max_step_size=limit, dtype=jnp.float64)
        start = tensor_mira.State(tuple(vectors), None, jnp.zeros((), jnp.int32))
        state, info = learner.update(start, corpus.example(index))
        return _Learnt(jnp.stack(state.params), info)

    inputs = (vectors, limit, np.arange(number, dtype=np.int32))
    run = jax.jit(lambda c, x: jax.lax.map(functools.partial(one, c), x))
    return jax.device_get(run(streams.lists.stream(lists), inputs))


@checked(
    "TM-Alg2",
    "the learner's round is Eq6 (or DR-T1, DR-T2) in each vector in turn",
    tensor_mira.learner,
)
def _learner_rounds(certify: Certify, effort: Effort) -> Iterator[Found]:
    same = jax.jit(equal, static_argnames="num_axes")
    for step in (_PAPER, _BCD) if effort.is_quick else (_PAPER, _EXACT, _BCD):
        learnt, found = _learnt(effort, step, certify), _traces(effort, step, *_MAIN)
        is_mistake = learnt.info.is_mistake
        certificate = same(
            _dense(learnt.vectors),
            _dense(found.vectors[:, _ROUND - 1]),
            num_axes=_ORDER,
            assumptions_met=is_mistake,
            scale=np.sqrt(found.scale[:, _ROUND - 1]),
        )
        yield Found(certificate, f"tensors after a round, {step}")
        certificate = same(
            learnt.info.objective_after,
            found.objectives[:, _ROUND],
            assumptions_met=is_mistake,
            scale=found.scale[:, _ROUND - 1],
        )
        yield Found(certificate, f"objective after a round, {step}")


@fails(
    "TM-Eq6: printed",
    "the step min{C, .} does not raise the objective of its sub-problem",
    pa.descent_certificate,
    step=_PAPER,
)
@proved(
    "TM-Eq6: corrected",
    "the step min{C/B, .} does not raise the objective of its sub-problem",
    pa.descent_certificate,
    step=_EXACT,
)
def _step_descent(certify: Certify, effort: Effort, *, step: str) -> Iterator[Found]:
    for shape in _shapes(effort):
        found = _traces(effort, step, *shape)
        certificate = jax.jit(certify)(found.problem, found.before, found.after)
        yield Found(certificate, f"sub-steps of rounds, {shape[0]} modes of {shape[1]}")


@fails(
    "TM-Eq6(b): printed",
    "a round moves all D H vectors",
    pa.all_move_certificate,
)
def _all_move(certify: Certify, effort: Effort) -> Iterator[Found]:
    is_met: Any = ~_traces(effort, _PAPER, *_MAIN).is_clipped[:, 0]
    learnt = _learnt(effort, _PAPER, tensor_mira.learner)
    is_met &= learnt.info.is_mistake
    before = _rounds(effort, *_MAIN).vectors
    found = jax.jit(jax.vmap(certify))(before, learnt.vectors, is_met)
    yield Found(found, "first step unclipped")


@proved(
    "TM-Eq6(b): corrected",
    "after an unclipped first step of Eq6 no vector but w_1^1 moves",
    pa.only_first_certificate,
)
def _only_first(certify: Certify, effort: Effort) -> Iterator[Found]:
    check = jax.jit(jax.vmap(certify))
    is_clipped = _traces(effort, _PAPER, *_MAIN).is_clipped[:, 0]
    before = _rounds(effort, *_MAIN).vectors
    after = _learnt(effort, _PAPER, tensor_mira.learner).vectors
    yield Found(check(before, after, is_clipped), "rounds of the learner")


@fails(
    "TM-N5: printed",
    "under Eq6 the objective (3) never rises",
    pa.objective_certificate,
    step=_PAPER,
)
@fails(
    "TM-N5: printed, exact step",
    "under min{C/B, .}, which solves TM-N4, the objective (3) never rises",
    pa.objective_certificate,
    step=_EXACT,
)
@proved(
    "TM-N5: corrected",
    "under DR-T2 the objective (3) never rises, in any number of sweeps",
    pa.objective_certificate,
    step=_BCD,
)
def _objective_falls(certify: Certify, effort: Effort, *, step: str) -> Iterator[Found]:
    certify = jax.jit(certify)
    for shape in _shapes(effort):
        found = _traces(effort, step, *shape)
        certificate = certify(found.objectives, found.scale)
        yield Found(certificate, f"{_SWEEPS} sweeps, {shape[0]} modes of {shape[1]}")
    if effort.is_quick and step == _EXACT:
        return
    info = _learnt(effort, step, tensor_mira.learner).info
    ends = np.stack([info.objective, info.objective_after], axis=1)
    size = _traces(effort, step, *_MAIN).scale[:, _ROUND - 1 : _ROUND]
    yield Found(certify(ends, size), "rounds of the learner")


@proved(
    "TM-I1",
    "equal components stay equal while every step is clipped",
    pa.components_certificate,
)
def _components(certify: Certify, effort: Effort) -> Iterator[Found]:
    check = jax.jit(jax.vmap(certify))
    for step in (_PAPER,) if effort.is_quick else (_PAPER, _EXACT):
        is_clipped = _traces(effort, step, *_MAIN).is_clipped[:, :_ROUND].all(1)
        after = _learnt(effort, step, tensor_mira.learner).vectors
        certificate = check(after, is_clipped & _has_equal(len(after)))
        yield Found(certificate, f"rounds of the learner, {step}")


@proved(
    "DR-T1",
    "w_t + min{C/B, [.]_+ / ||dphi||^2} dphi solves the sub-problem of TM-N4",
    pa.solution_certificate,
    step=_EXACT,
)
@proved(
    "DR-T2",
    "the same step from g/B minimises the objective (3) in one vector",
    pa.solution_certificate,
    step=_BCD,
)
def _step_solves(certify: Certify, effort: Effort, *, step: str) -> Iterator[Found]:
    certify, compare = jax.jit(certify), jax.jit(pa.comparison_certificate)
    rng = effort.generator(7)
    for shape in _shapes(effort):
        found = _traces(effort, step, *shape)
        problem = found.problem if step == _EXACT else found.target
        certificate = certify(problem, found.after)
        yield Found(certificate, f"sub-steps of rounds, {shape[0]} modes of {shape[1]}")
        for share in (0, 0.5, 0.999, 1.001, 2):
            other = problem.centre + share * (found.after - problem.centre)
            certificate = compare(problem, found.after, other)
            yield Found(certificate, f"the step times {share}")
        size = np.sqrt((found.after**2).sum(-1, keepdims=True))
        for spread in (1e-3, 1.0):
            other = found.after + spread * size * rng.normal(size=found.after.shape)
            certificate = compare(problem, found.after, other)
            yield Found(certificate, f"vectors at distance {spread}")


@proved(
    "DR-T3",
    "a step of length a raises the sub-problem if and only if a > 2C/B",
    pa.rise_certificate,
)
@proved(
    "DR-T3: value",
    "a step of length a adds a ||dphi||^2 (B a / 2 - C) to the sub-problem",
    pa.rise_value_certificate,
)
def _rises(certify: Certify, effort: Effort) -> Iterator[Found]:
    certify = jax.jit(certify)
    rng = effort.generator(8)
    number = effort.trials(400, 50_000)
    for size in (4,) if effort.is_quick else (1, 4):
        centre, phi = rng.normal(size=(2, number, size))
        phi *= 10.0 ** rng.integers(-4, 5, (number, 1))
        weight: Any = 2 * 10 ** rng.uniform(-2, 2, number)
        weight[:50] = 2  # clipped with B = 2: J stays as it is
        limit: Any = 10 ** rng.uniform(-3, 3, number)
        short = 10 ** rng.uniform(-3, 3, number)
        problem = pa.Subproblem(centre, phi, short + _dot(centre, phi), weight, limit)
        step = np.minimum(limit, short / _dot(phi, phi))  # TM-Eq6
        yield Found(certify(problem, step), f"steps of Eq6, n = {size}")
    found = _traces(effort, _PAPER, *_MAIN)
    step = np.where(found.is_clipped, found.problem.limit, 0)
    yield Found(certify(found.problem, step), "clipped sub-steps of rounds")
