r"""Online mirror descent with a map of your own (BOL-Eq8 for any conjugate).

Round :math:`t` predicts with :math:`W_{t-1}` and, on a mistake, moves in the dual:

.. math:: \Theta_t = \Theta_{t-1} + C\,\Delta\Phi^t, \qquad W_t = \nabla F^*(\Theta_t).

An example is an `online.bol.dense.Choice` whose candidates are arrays of any shape, or
a `types.Sentence`. For sentences the map acts on the first-order block
:math:`\Theta_k` of each feature, and a round maps the touched blocks only:
:math:`F^*(\Theta) = \frac12\|w\|^2 + \sum_k f^*(\Theta_k)`, with w the weights on
labels and label transitions. This is the general path. `online.bol`,
`online.bol.dense` and `online.perceptron` are faster forms for their own maps.
"""

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import best_path
from lowrank_jax.linalg.mirror import MirrorMap
from lowrank_jax.models import linear
from lowrank_jax.online import mistakes
from lowrank_jax.online.bol.block import first_of_its_kind
from lowrank_jax.online.bol.dense import Choice
from lowrank_jax.types import Learner, Sentence, check_dtype, documented, fingerprint

__all__ = ["Info", "MirrorMap", "State", "final_params", "learner"]
__dir__ = __all__.copy


@documented
class State(NamedTuple):
    """What the next round needs, and nothing else.

    Attributes:
      params: W_t, an array, or `linear.Params` for sentences.
      theta: Theta_t, an array; for sentences its blocks, (K + 1, S, S + 1).
      values: For sentences f* of each block, (K + 1,), else None.
      total: Sum of W_0..W_{t-1} if `averaging` is "weights", else None.
      conjugate: F*(Theta_t), ().
      step_size: C, ().
      num_rounds: t, () int32.
    """

    params: jax.Array | linear.Params
    theta: jax.Array
    values: jax.Array | None
    total: jax.Array | None
    conjugate: jax.Array
    step_size: jax.Array
    num_rounds: jax.Array


@documented
class Info(NamedTuple):
    """What the proof and the report need of this round.

    Attributes:
      loss: [1 - <W_{t-1}, dPhi_t>]_+ on a mistake, else 0.
      is_mistake: Boolean.
      num_wrong: Number of wrong labels, int32.
      margin: <W_{t-1}, dPhi_t>, 0 or less.
      dual_increment: Delta_t (BOL-N5).
      conjugate: F*(Theta_t).
      bregman: B_t (DR-B4).
      curvature: Bound on 2 B_t / C^2 from the smoothness of the map, or None.
      predicted: Predicted candidate, () int32; for sentences the labels, (window,), if
        recorded, else None.
      fingerprint: Hash of the example (`types.fingerprint`), where `predicted` is.
      step_size: C, times the weight of a sentence.
    """

    loss: jax.Array
    is_mistake: jax.Array
    num_wrong: jax.Array
    margin: jax.Array
    dual_increment: jax.Array
    conjugate: jax.Array
    bregman: jax.Array
    curvature: jax.Array | None
    predicted: jax.Array | None
    fingerprint: jax.Array | None
    step_size: jax.Array | None = None


def learner(
    *,
    map: MirrorMap,
    step_size: float | jax.Array = 1.0,
    averaging: Literal["none", "weights"] = "none",
    record: tuple[Literal["predicted"], ...] = (),
    dtype: jnp.dtype = jnp.float32,
) -> Learner[State, Info, Choice | Sentence]:
    """Build the pair ``(init, update)``; both are pure.

    Args:
      map: Mirror map of the dual, for sentences of one block (S, S + 1).
      step_size: :math:`C`, positive. May be traced.
      averaging: ``"none"`` takes the last W, ``"weights"`` the mean of the W that the
        rounds predicted with (DR-B13), for arrays only. Static.
      record: ``("predicted",)`` records the predicted labels of a sentence, which
        `certify.mirror` needs. Static.
      dtype: Type of the weights.
    """
    checks.positive(step_size=step_size)
    checks.choice(("none", "weights"), averaging=averaging)
    for name in record:
        checks.choice(("predicted",), record=name)
    if not isinstance(map, MirrorMap):
        raise checks.InputError(f"`map` must be a MirrorMap, got {map!r}.")

    def init(key: jax.Array, example: Choice | Sentence) -> State:
        check_dtype(dtype)
        del key  # nothing is random: the dual starts at zero
        zero, values = jnp.zeros((), dtype), None
        params: jax.Array | linear.Params
        if isinstance(example, Sentence):
            if averaging == "weights":
                raise checks.InputError(
                    "`averaging='weights'` is for arrays: the mean of W would touch "
                    "every block in every round; say 'none', or take `online.bol`."
                )
            params, theta, values = _start(map, example.space, dtype)
            conjugate, total = values.sum(), None
        else:
            theta = jnp.zeros(example.features.shape[1:], dtype)
            params, conjugate = map.weights(theta), map.conjugate(theta)
            total = jnp.zeros_like(theta) if averaging == "weights" else None
        return State(
            params=params,
            theta=theta,
            values=values,
            total=total,
            conjugate=conjugate.astype(dtype),
            step_size=zero + jnp.asarray(step_size, dtype),
            num_rounds=jnp.zeros((), jnp.int32),
        )

    def update(state: State, example: Choice | Sentence) -> tuple[State, Info]:
        step = jnp.asarray(step_size, dtype)
        if isinstance(example, Sentence):
            step = mistakes.weighted(step, example)
            new, margin, growth, info = _sentence(map, state, example, step)
            if "predicted" not in record:
                info = info._replace(predicted=None, fingerprint=None)
        else:
            new, margin, growth, info = _choice(map, state, example, step)
        conjugate = state.conjugate + growth
        info = info._replace(
            loss=jnp.where(info.is_mistake, jax.nn.relu(1 - margin), 0),
            margin=margin,
            dual_increment=jnp.where(info.is_mistake, step, 0) - growth,  # BOL-N5
            conjugate=conjugate,
            bregman=growth - step * margin,  # DR-B4
            step_size=step,
        )
        new = new._replace(
            conjugate=conjugate,
            step_size=state.step_size,
            num_rounds=state.num_rounds + 1,
        )
        return new, info

    return Learner(init, update)


def final_params(state: State) -> jax.Array | linear.Params:
    """Return the model to predict with: the last W, or its mean if it was kept."""
    if state.total is None:
        return state.params
    return state.total / jnp.maximum(state.num_rounds, 1).astype(state.total.dtype)


Moved = tuple[State, jax.Array, jax.Array, Info]  # with the margin and growth of F*


def _choice(map: MirrorMap, state: State, example: Choice, step: jax.Array) -> Moved:
    assert isinstance(state.params, jax.Array)
    features, label = example.features.astype(step.dtype), example.label
    axes = state.params.ndim
    scores = jnp.tensordot(features, state.params, axes)
    predicted = jnp.argmax(scores).astype(label.dtype)
    delta = features[label] - features[predicted]  # dPhi_t
    theta = state.theta + step * delta  # BOL-Eq8
    is_mistake = predicted != label
    growth = jnp.where(is_mistake, map.conjugate(theta) - map.conjugate(state.theta), 0)
    total = None if state.total is None else state.total + state.params  # DR-B13
    params = jnp.where(is_mistake, map.weights(theta), state.params)
    new = state._replace(params=params, theta=theta, total=total)
    zero = jnp.zeros((), step.dtype)
    info = Info(
        loss=zero,
        is_mistake=is_mistake,
        num_wrong=is_mistake.astype(jnp.int32),
        margin=zero,
        dual_increment=zero,
        conjugate=zero,
        bregman=zero,
        curvature=map.curvature(delta),
        predicted=predicted,
        fingerprint=fingerprint(example),
    )
    return new, (state.params * delta).sum(), growth, info


def _start(
    map: MirrorMap, space: Space, dtype: jnp.dtype
) -> tuple[linear.Params, jax.Array, jax.Array]:
    """Return the weights, the blocks of the dual and f* of each block at the start."""
    if not space.first_order:
        raise checks.InputError(
            "Mirror descent on sentences needs first-order features, and the template "
            "has none: add `B` lines, or read it with orders='both'."
        )
    if callable(map.smoothness):
        raise checks.InputError(
            "`smoothness` must be a number for sentences, got a function: a round "
            "never holds the whole move of a block."
        )
    params = linear.zeros(space, dtype)
    assert isinstance(params.first, jax.Array)
    theta = jnp.zeros_like(params.first)
    block = jnp.zeros(theta.shape[1:], dtype)
    params = params._replace(first=theta.at[:-1].set(map.weights(block)[None]))
    values = jnp.zeros((space.num_features + 1,), dtype)
    values = values.at[:-1].set(map.conjugate(block).astype(dtype))
    return params, theta, values


def _squares(
    example: Sentence, differences: mistakes.Differences
) -> tuple[jax.Array, jax.Array]:
    r"""Return :math:`\|\Delta\Phi\|^2` without and within the first-order blocks."""
    space = example.space

    def only(order: str) -> tuple[str, ...]:
        return tuple(order if order in given else "" for given in space.orders)

    linear_part = dataclasses.replace(space, orders=only("0"))
    blocks = dataclasses.replace(space, orders=only("1"), has_transitions=False)
    one, other = (
        mistakes.squared_norm(dataclasses.replace(example, space=part), differences)
        for part in (linear_part, blocks)
    )
    return one, other


class _Tables(NamedTuple):
    params: linear.Params
    theta: jax.Array
    values: jax.Array
    margin: jax.Array
    growth: jax.Array


def _sentence(
    map: MirrorMap, state: State, example: Sentence, step: jax.Array
) -> Moved:
    assert isinstance(state.params, linear.Params) and state.values is not None
    space, dtype = example.space, step.dtype
    scores = linear.scores(state.params, example)
    predicted = best_path(scores, example.length).labels
    example, differences = mistakes.compare(example, scores, predicted)
    columns = jnp.array(space.first_order, jnp.int32)

    def move(n: jax.Array, tables: _Tables) -> _Tables:
        here = mistakes.position(example, differences, n)
        params, growth = tables.params, tables.growth
        touched = mistakes.entries(here, space, dtype)
        theta, _, _ = mistakes.add(tables.theta, None, touched.pop("first"), step, step)
        for name, entries in touched.items():
            table, _, more = mistakes.add(
                getattr(params, name), None, entries, step, step
            )
            params, growth = params._replace(**{name: table}), growth + more
        margin = tables.margin + mistakes.score_gap(scores, here)
        return _Tables(params, theta, tables.values, margin, growth)

    def apply(n: jax.Array, tables: _Tables) -> _Tables:
        ids = mistakes.position(example, differences, n).ids[columns]
        is_feature = ids < space.num_features
        theta = tables.theta.at[ids].get(mode="promise_in_bounds")
        new = jnp.where(is_feature, jax.vmap(map.conjugate)(theta), 0).astype(dtype)
        old = tables.values.at[ids].get(mode="promise_in_bounds")
        new = jnp.where(jnp.isnan(old), old, new)  # written after read: no copy
        growth = jnp.where(first_of_its_kind(ids), new - old, 0).sum()
        weights = jnp.where(is_feature[:, None, None], jax.vmap(map.weights)(theta), 0)
        assert isinstance(tables.params.first, jax.Array)
        first = tables.params.first.at[ids].set(weights, mode="promise_in_bounds")
        values = tables.values.at[ids].set(new, mode="promise_in_bounds")
        return tables._replace(
            params=tables.params._replace(first=first),
            values=values,
            growth=tables.growth + growth,
        )

    zero, count = jnp.zeros((), dtype), differences.num_positions
    tables = _Tables(state.params, state.theta, state.values, zero, zero)
    for body in (move, apply):
        tables = lax.fori_loop(jnp.zeros_like(count), count, body, tables)
    curvature = None
    if map.smoothness is not None:
        squares = _squares(example, differences)
        largest = jnp.asarray(map.smoothness, dtype)
        curvature = squares[0].astype(dtype) + largest * squares[1].astype(dtype)
    new = state._replace(params=tables.params, theta=tables.theta, values=tables.values)
    info = Info(
        loss=zero,
        is_mistake=count > 0,
        num_wrong=differences.num_wrong,
        margin=zero,
        dual_increment=zero,
        conjugate=zero,
        bregman=zero,
        curvature=curvature,
        predicted=predicted,
        fingerprint=fingerprint(example),
    )
    return new, tables.margin, tables.growth, info
