r"""Tensor-MIRA: online reranking with weights of low CP rank (TM-Alg2).

Round :math:`t` compares the candidate :math:`z_t` of the highest score with the oracle
:math:`y_t`. On a mistake it updates one vector :math:`w_h^d` after the other, to reduce

.. math:: \tfrac12\|T - T_t\|^2 + C\,[\rho(y_t, z_t) - \langle T, \Delta\Phi\rangle]_+,
   \qquad \Delta\Phi = \Phi(x_t, y_t) - \Phi(x_t, z_t)         \qquad \text{(TM-Eq3)}

with T in CP form. With all other vectors fixed the tensor is linear in :math:`w_h^d`:
:math:`\langle T, \Delta\Phi\rangle = s + w_h^d\cdot\Delta\phi`. Here
:math:`\Delta\phi` is :math:`\Delta\Phi` contracted with the other vectors of h
(TM-Eq5), and s comes from the other components. Let
:math:`B = \prod_{d'\ne d}\|w_h^{d'}\|^2`. Then

.. math:: w_h^d \leftarrow c + \tau\Delta\phi, \qquad
   \tau = \min\{K, [\rho - s - c\cdot\Delta\phi]_+ / \|\Delta\phi\|^2\}

``step="paper"``
  :math:`c = w_h^d`, :math:`K = C` (TM-Eq6). An unclipped step restores the margin, and
  all later steps of the round are 0. With a large C only :math:`w_1^1` learns (DR-T3).
``step="exact"``
  :math:`c = w_h^d`, :math:`K = C/B`. It solves the sub-problem of TM-N4 (DR-T1).
``step="bcd"``
  :math:`c = g/B`, :math:`K = C/B`, where g is the contraction of :math:`T_t` minus the
  other components with the other vectors. It solves TM-Eq3 in :math:`w_h^d`, so the
  objective never rises, in any number of sweeps (DR-T2). All vectors learn.

With ``decoding="cost"``, :math:`z_t` has the highest sum of score and cost; in TM-Alg2
it has the highest score. With ``num_best`` n, the round takes steps against each of the
n best candidates in turn, each from the tensor after the candidate before it.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.linalg.gather import read
from lowrank_jax.models import candidates, tensor
from lowrank_jax.models.tensor import Params, Shape
from lowrank_jax.online import components
from lowrank_jax.streams.lists import Candidates
from lowrank_jax.types import Learner, check_dtype, documented

__all__ = ["Info", "State", "final_params", "learner"]
__dir__ = __all__.copy

_ROUNDING = 32  # smaller rises of the objective, in units of rounding, do not count


@documented
class State(NamedTuple):
    """What the next round needs, and nothing else.

    Attributes:
      params: For each mode (H, n_d).
      sums: Sum of the params over rounds, if the learner averages.
      num_rounds: Number of rounds t, () int32.
      agreement: Fit of the averages to the tensor, if the learner averages.
    """

    params: Params
    sums: Params | None
    num_rounds: jax.Array
    agreement: components.Agreement | None = None


@documented
class Info(NamedTuple):
    """What the proof and the report need of this round; 0 without a mistake.

    Attributes:
      loss: [rho - <T_t, dPhi>]_+, ().
      is_mistake: True if z_t is not y_t, () bool.
      cost: rho(y_t, z_t), ().
      margin: <T_t, dPhi>, ().
      step_size: tau, mean over the sub-steps (h, d), ().
      clipped: Share of sub-steps with tau at its limit, ().
      moved: Share of sub-steps that changed their vector, ().
      objective: TM-Eq3 at T_t, C times the loss; sum over candidates, ().
      objective_after: TM-Eq3 after the round; sum over candidates, ().
      rises: Share of sub-steps that raised TM-Eq3, ().
      norm_product: Product over d of ``||w_h^d||^2``, mean over h, ().
      component_distance: Distance of the components, in 0..1; 0 if all are equal, ().
      average_cosine: Cosine of the tensor and the tensor of the averages; 1 if the
        learner does not average, ().
      restarted: True if the averages no longer stand for the tensor and start anew
        (`components.agree`), () bool.
      sub_steps: Tau, TM-Eq3 before and after, if recorded, (num_sweeps, H, D, 3).
    """

    loss: jax.Array
    is_mistake: jax.Array
    cost: jax.Array
    margin: jax.Array
    step_size: jax.Array
    clipped: jax.Array
    moved: jax.Array
    objective: jax.Array
    objective_after: jax.Array
    rises: jax.Array
    norm_product: jax.Array
    component_distance: jax.Array
    average_cosine: jax.Array
    restarted: jax.Array
    sub_steps: jax.Array | None = None


class _Sweep(NamedTuple):
    """Sub-steps of a round so far."""

    params: Params  # for each mode (H, n_d)
    margin: jax.Array  # ()  <T, dPhi>
    objective: jax.Array  # ()  TM-Eq3
    total: jax.Array  # (4,)  sums of tau, clipped, moved, rises
    seen: jax.Array | None  # (sub-steps, 3)  tau, objective before and after each


class _Mended(NamedTuple):
    """Constraints of a round so far, one per candidate."""

    params: Params  # for each mode (H, n_d)
    objectives: jax.Array  # (2,)  sums of TM-Eq3 before and after
    total: jax.Array  # (4,)
    seen: jax.Array | None  # (sub-steps, 3), of the first constraint


def learner(
    *,
    shape: Shape,
    step: Literal["paper", "exact", "bcd"] = "paper",
    max_step_size: float | jax.Array = 0.1,
    num_sweeps: int = 1,
    start: Literal["constant", "positive", "random"] = "constant",
    averaging: Literal["average", "none"] = "none",
    cost: Literal["quality", "one"] = "quality",
    oracle: Literal["first", "nearest"] = "first",
    decoding: Literal["plain", "cost"] = "plain",
    num_best: int = 1,
    record: tuple[Literal["sub_steps"], ...] = (),
    dtype: jnp.dtype = jnp.float32,
) -> Learner[State, Info, Candidates]:
    r"""Build the pair ``(init, update)``; both are pure.

    The feature ids of an example (`Candidates`) are cells of the tensor: see
    `data.lists.remap` and `features.mapping`.

    Args:
      shape: Mode sizes, first index fastest, and number of components. Static.
      step: ``"paper"``, ``"exact"`` or ``"bcd"``.
      max_step_size: :math:`C`, positive. May be traced.
      num_sweeps: Number of sweeps over all vectors per round. Static.
      start: ``"constant"`` makes all components equal, as in the paper. ``"positive"``
        draws entries uniformly in 0..1 before scaling; use it if H > 1. ``"random"``
        draws them in -1..1. Then the weight of a decisive feature, such as the score
        of a base system, may take long to find its sign, or lose it again.
      averaging: ``"average"`` keeps the mean of each vector over rounds, since the
        round at which the means last started anew (`Info.restarted`); ``"none"``.
      cost: :math:`\rho`: ``"quality"`` (difference of quality) or ``"one"``.
      oracle: Choice among several best candidates: the ``"first"``, or the one with
        the highest score now (``"nearest"``).
      decoding: ``"plain"`` if :math:`z_t` has the highest score, as in TM-Alg2,
        ``"cost"`` if it has the highest sum of score and cost.
      num_best: Number of candidates per round to update against, in turn. Static.
      record: ``("sub_steps",)`` records tau and objective (3) of sub-steps. Static.
      dtype: Type of the params.
    """
    checks.positive(max_step_size=max_step_size)
    tensor.check_shape(shape)
    if not jnp.issubdtype(jnp.dtype(dtype), jnp.floating):
        raise checks.InputError(
            f"`dtype` must be a floating-point type, got {jnp.dtype(dtype).name}."
        )
    checks.whole(num_sweeps=num_sweeps, num_best=num_best)
    checks.at_most(1000, num_sweeps=num_sweeps, num_best=num_best)
    checks.choice(("paper", "exact", "bcd"), step=step)
    checks.choice(("constant", "positive", "random"), start=start)
    checks.choice(("average", "none"), averaging=averaging)
    checks.choice(("quality", "one"), cost=cost)
    checks.choice(("first", "nearest"), oracle=oracle)
    checks.choice(("plain", "cost"), decoding=decoding)
    for name in record:
        checks.choice(("sub_steps",), record=name)
    num_components, order = shape.num_components, shape.order
    rules: dict[str, Any] = {"cost": cost, "oracle": oracle, "decoding": decoding}
    rules["num_best"] = num_best

    def init(key: jax.Array, example: Candidates) -> State:
        check_dtype(dtype)
        if example.num_features != shape.num_cells:
            raise checks.InputError(
                f"`shape` has {shape.num_cells} cells, and the lists have "
                f"{example.num_features}; map them with `data.lists.remap`."
            )
        if start == "constant":
            params = tensor.constant(shape, dtype)
        else:
            lowest = 0.0 if start == "positive" else -1.0
            params = tensor.random(key, shape, dtype, lowest=lowest)
        sums = jax.tree.map(jnp.zeros_like, params) if averaging == "average" else None
        agreement = None if sums is None else components.no_agreement(dtype)
        return State(params, sums, jnp.zeros((), jnp.int32), agreement)

    num_substeps = num_sweeps * num_components * order

    def mend(
        done: _Mended, example: Candidates, pair: candidates.Pair, limit: jax.Array
    ) -> _Mended:
        """Take the sub-steps against one candidate."""
        first = done.params
        lengths = [jnp.linalg.norm(factor, axis=1) for factor in first]

        def substep(sweep: _Sweep, h: jax.Array, d: int, j: jax.Array) -> _Sweep:
            w = sweep.params[d][h]
            phi = _contract(sweep.params, h, d, example, pair)  # TM-Eq5
            weight, target, size = _contracted(first, sweep.params, h, d, lengths[d])
            centre, largest = w, limit
            if step != "paper":
                safe = jnp.where(weight > 0, weight, 1)
                largest = jnp.where(weight > 0, limit / safe, 0)
                if step == "bcd":
                    centre = jnp.where(weight > 0, target / safe, w)
            square, along, inner = jnp.stack([phi, w, centre]) @ phi
            rest = sweep.margin - along  # s of TM-N4
            gap = jax.nn.relu(pair.cost - rest - inner)
            full = jnp.where(square > 0, gap / jnp.where(square > 0, square, 1), 0)
            tau = jnp.minimum(largest, full)  # TM-Eq6, DR-T1, DR-T2
            new = centre + tau * phi
            margin = rest + inner + tau * square
            # Moving w by delta adds delta x (other vectors) to T - T_t.
            delta = new - w
            moved, slope = jnp.stack([delta, weight * w - target]) @ delta
            old = w @ w
            before = jax.nn.relu(pair.cost - sweep.margin)
            after = jax.nn.relu(pair.cost - margin)
            distance = slope + weight * moved / 2
            growth = distance + limit * (after - before)
            # Terms may cancel, so rounding is judged against their lengths.
            unit = _ROUNDING * jnp.finfo(dtype).eps
            scale = jnp.sqrt(moved) * (weight * jnp.sqrt(old) + size)
            terms = (2 * jnp.sqrt(old) + jnp.sqrt(moved)) * jnp.sqrt(square)
            scale = scale + limit * (jnp.abs(pair.cost) + jnp.abs(rest) + terms)
            has_moved = moved > unit * unit * old
            marks = [tau, full > largest, has_moved, growth > unit * scale]
            seen, objective = sweep.seen, sweep.objective + growth
            if seen is not None:
                seen = seen.at[j].set(jnp.stack([tau, sweep.objective, objective]))
            factor = sweep.params[d].at[h].set(new)
            return _Sweep(
                params=(*sweep.params[:d], factor, *sweep.params[d + 1 :]),
                margin=margin,
                objective=objective,
                total=sweep.total + jnp.stack([mark.astype(dtype) for mark in marks]),
                seen=seen,
            )

        def component(j: jax.Array, sweep: _Sweep) -> _Sweep:
            for d in range(order):
                sweep = substep(sweep, j % num_components, d, j * order + d)
            return sweep

        count = jnp.where(pair.is_mistake, num_sweeps * num_components, 0)
        count = count.astype(jnp.int32)
        loss = jnp.where(pair.is_mistake, jax.nn.relu(pair.cost - pair.margin), 0)
        none = jnp.zeros((4,), dtype)
        begin = _Sweep(first, pair.margin, limit * loss, none, done.seen)
        end = lax.fori_loop(jnp.zeros_like(count), count, component, begin)
        return _Mended(
            params=end.params,
            objectives=done.objectives + jnp.stack([begin.objective, end.objective]),
            total=done.total + end.total,
            seen=end.seen,
        )

    def ended(
        state: State, params: Params, has_moved: jax.Array, size: jax.Array | int = 1
    ) -> tuple[State, jax.Array, jax.Array, jax.Array]:
        """Return the state after a round of `size` lists that ended with `params`.

        It also returns the cosine of tensor and averages, whether the averages start
        anew, and the squared lengths of the vectors before they were balanced, (D, H).
        """
        sums, agreement, reference = state.sums, state.agreement, params
        times = jnp.asarray(size).astype(dtype)
        if sums is not None:
            reference = jax.tree.map(lambda s, w: s + times * w, sums, state.params)
        squares, agreements = components.inner(params, (params, reference))
        if step != "paper":
            params = components.balanced(params, squares, has_moved)
        near, restarted = jnp.ones((), dtype), jnp.zeros((), bool)
        if sums is not None and agreement is not None:
            params = components.aligned(params, agreements, has_moved)
            number = jnp.maximum(agreement.num_rounds + size, 1).astype(dtype)
            mean_of = jax.tree.map(lambda total: total / number, reference)
            near = components.cosine(params, mean_of)
            agreement, restarted = components.agree(agreement, near, size)
            keep = ~restarted
            sums = jax.tree.map(
                lambda s, w: jnp.where(keep, s + times * w, times * w), sums, params
            )
        state = State(params, sums, state.num_rounds + size, agreement)
        return state, near, restarted, squares

    def update(state: State, example: Candidates) -> tuple[State, Info]:
        limit = jnp.asarray(max_step_size, dtype)
        found = tensor.scores(state.params, example)
        pairs = candidates.choose(example, found, **rules)
        pair = pairs[0]
        loss = jnp.where(pair.is_mistake, jax.nn.relu(pair.cost - pair.margin), 0)
        none = jnp.zeros((2,), dtype), jnp.zeros((4,), dtype)
        seen = jnp.zeros((num_substeps, 3), dtype) if "sub_steps" in record else None
        end = mend(_Mended(state.params, *none, seen), example, pair, limit)
        seen, end = end.seen, end._replace(seen=None)
        has_moved = pair.is_mistake
        if num_best > 1:
            rest = jax.tree.map(lambda *parts: jnp.stack(parts), *pairs[1:])

            def against(
                carry: tuple[_Mended, jax.Array], other: candidates.Pair
            ) -> tuple[tuple[_Mended, jax.Array], None]:
                done, has_moved = carry
                other = _again(other, done.params, example)
                done = mend(done, example, other, limit)
                return (done, has_moved | other.is_mistake), None

            (end, has_moved), _ = lax.scan(against, (end, has_moved), rest)

        state, near, restarted, squares = ended(state, end.params, has_moved)
        mean = end.total / (num_substeps * num_best)
        norms = squares.prod(axis=0)  # (H,); balancing the lengths keeps them
        alike = jnp.ones((), dtype)
        if num_components > 1:
            alike = tensor.gram(state.params, state.params).sum() / jnp.maximum(
                num_components * norms.sum(), jnp.finfo(dtype).tiny
            )
        if seen is not None:
            seen = seen.reshape(num_sweeps, num_components, order, 3)
        info = Info(
            loss=loss,
            is_mistake=pair.is_mistake,
            cost=pair.cost,
            margin=pair.margin,
            step_size=mean[0],
            clipped=mean[1],
            moved=mean[2],
            objective=end.objectives[0],
            objective_after=end.objectives[1],
            rises=mean[3],
            norm_product=norms.mean(),
            component_distance=jnp.sqrt(jax.nn.relu(1 - alike)),
            average_cosine=near,
            restarted=restarted,
            sub_steps=seen,
        )
        return state, info

    def wide() -> Any:
        from lowrank_jax.online.wide import lists as wide_lists

        if record:
            raise checks.InputError(
                "Wide rounds (`batch_size` above 1) of lists record nothing, got "
                f"record={', '.join(record)}: leave it out, or take batch_size=1."
            )

        def against(params: Params, example: Candidates, pair: candidates.Pair) -> Any:
            pair, none = _again(pair, params, example), jnp.zeros((4,), dtype)
            start = _Mended(params, none[:2], none, None)
            done = mend(start, example, pair, jnp.asarray(max_step_size, dtype))
            return done.params, done.total[0] / num_substeps, pair.is_mistake

        return wide_lists.tensor_rounds(against, lambda *now: ended(*now)[0], **rules)

    return Learner(init, update, wide=wide)


def final_params(state: State) -> Params:
    """Return the model to predict with, the average over rounds if it was kept."""
    if state.sums is None or state.agreement is None:
        return state.params
    num_rounds = state.agreement.num_rounds
    return tuple(
        jnp.where(num_rounds > 0, total / jnp.maximum(num_rounds, 1).astype(w.dtype), w)
        for w, total in zip(state.params, state.sums, strict=True)
    )


def _again(
    pair: candidates.Pair, params: Params, example: Candidates
) -> candidates.Pair:
    """Recompute the margin of a pair; it is a mistake only if it is still violated."""
    sizes = tuple(factor.shape[1] for factor in params)
    margin = candidates.margin_of(
        lambda cells: tensor.weights(params, cells, sizes),
        example,
        pair,
        params[0].dtype,
    )
    is_mistake = pair.is_mistake & (margin < pair.cost)
    return pair._replace(margin=margin, is_mistake=is_mistake)


def _contract(
    params: Params, h: jax.Array, d: int, example: Candidates, pair: candidates.Pair
) -> jax.Array:
    """Contract the difference with all vectors of h except the d-th: (n_d,)."""
    sizes = tuple(factor.shape[1] for factor in params)
    vectors = [factor[h] for factor in params]

    def body(cells: jax.Array, deltas: jax.Array, phi: jax.Array) -> jax.Array:
        index = tensor.indices(cells, sizes)
        for e in range(len(sizes)):
            if e != d:
                deltas = deltas * read(vectors[e], index[e])
        return phi.at[index[d]].add(deltas, mode="promise_in_bounds")

    start = jnp.zeros_like(vectors[d])
    return candidates.fold_difference(body, start, example, pair, start.dtype)


def _contracted(
    first: Params, now: Params, h: jax.Array, d: int, lengths: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""Contract :math:`T_t` minus the other components with the vectors of h.

    Args:
      first: Vectors of :math:`T_t`.
      now: Current vectors.
      h: Component.
      d: Mode that is not contracted.
      lengths: (H,) lengths of the d-th vectors of `first`.

    Returns:
      B; g of DR-T2, (n_d,); and the length of the terms of g. Components may nearly
      cancel, so rounding in g is judged against this length.
    """
    num_components = lengths.shape[0]
    inner = jnp.ones((2 * num_components,), lengths.dtype)
    for e in range(len(now)):  # products over the other modes
        if e != d:
            inner = inner * (jnp.concatenate([first[e], now[e]]) @ now[e][h])
    plus, minus = inner[:num_components], inner[num_components:]
    weight, target, size = minus[h], plus @ first[d], jnp.abs(plus) @ lengths
    if num_components > 1:
        minus = minus.at[h].set(0)
        target = target - minus @ now[d]
        size = size + jnp.abs(minus) @ jnp.linalg.norm(now[d], axis=1)
    return weight, target, size
