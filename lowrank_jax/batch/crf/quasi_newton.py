r"""Quasi-Newton iterations: OWL-QN, plain L-BFGS, and the L-BFGS of `optax`.

OWL-QN is L-BFGS for a smooth convex loss plus an l1 norm (Andrew and Gao, 2007).

It minimises :math:`F(w) = f(w) + \lambda \|w\|_1`, which is smooth within one orthant.
An iteration has four steps. (1) It takes the pseudo-gradient, the negative of the
steepest descent of F,

.. math:: \diamond_i = \begin{cases}
   g_i + \lambda\operatorname{sign}(w_i) & w_i \ne 0 \\
   \mathcal S_\lambda(g_i) & w_i = 0 \end{cases} \qquad g = \nabla f(w).

(2) It multiplies the pseudo-gradient by the L-BFGS inverse Hessian of f. (3) It drops
the entries of the direction that do not go down along :math:`-\diamond`. (4) It
searches along the direction, from step 1 by halving, and projects each point onto the
orthant of w (of :math:`-\diamond` where w is 0). An entry that would change sign
becomes 0, which makes the solution sparse.

Without the norm, (1), (3) and the projection disappear, and L-BFGS with a search by
halving remains. For a strictly convex f every remembered pair has positive curvature.
The program of `step` contains the loss once. The program of `smooth_step`, which uses
`optax.lbfgs`, contains it three times. If the loss takes long to compile, use `step`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from lowrank_jax.linalg.prox import soft_threshold

__all__ = [
    "Search",
    "Stepped",
    "common_info",
    "init",
    "progress",
    "pseudo_gradient",
    "smooth_init",
    "smooth_solver",
    "smooth_step",
    "step",
]
__dir__ = __all__.copy

Params = Any  # a tree of arrays
ValueAndGradient = Callable[[Params], tuple[jax.Array, Params]]

SUFFICIENT = 1e-4  # share of the decrease that the slope promises (Armijo)


class Search(NamedTuple):
    """What the next iteration needs beside the weights."""

    value: jax.Array  # ()  f(w), infinite before the first iteration
    gradient: Params  # gradient of f at w
    moves: Params  # (memory_size, ...)  w_{k+1} - w_k of the last iterations
    changes: Params  # (memory_size, ...)  of the gradient
    curvatures: jax.Array  # (memory_size,)  1 / <move, change>; 0 where there is none
    scale: jax.Array  # ()  <move, change> / <change, change> of the last pair; after a
    # failed search, the most of the pseudo-gradient to go by
    num_pairs: jax.Array  # () int32  stored so far


class Stepped(NamedTuple):
    """After one iteration."""

    params: Params
    search: Any  # a `Search`, or of `optax.lbfgs`
    objective: jax.Array  # ()  F(w)
    objective_before: jax.Array  # ()  infinite in the first iteration
    step_size: jax.Array  # ()  0 where no point with a sufficient decrease was found
    promise: jax.Array  # ()  decrease by the slope at the last point tried along the
    # pseudo-gradient itself; infinite where it was tried along another direction
    num_evaluations: jax.Array  # () int32  of f and its gradient
    gradient_norm: jax.Array  # ()  of the pseudo-gradient at the new point


def init(params: Params, memory_size: int) -> Search:
    """Return the search before the first iteration."""
    dtype = jax.tree.leaves(params)[0].dtype

    def stacked(leaf: jax.Array) -> jax.Array:
        return jnp.zeros((memory_size, *leaf.shape), leaf.dtype)

    return Search(
        value=jnp.array(jnp.inf, dtype),
        gradient=jax.tree.map(jnp.zeros_like, params),
        moves=jax.tree.map(stacked, params),
        changes=jax.tree.map(stacked, params),
        curvatures=jnp.zeros((memory_size,), dtype),
        scale=jnp.ones((), dtype),
        num_pairs=jnp.zeros((), jnp.int32),
    )


def step(
    value_and_gradient: ValueAndGradient,
    strength: jax.Array | None,
    params: Params,
    search: Search,
    *,
    max_evaluations: int = 30,
) -> Stepped:
    """Run one iteration; the first one evaluates the start and does not move.

    So the loss stands in the program once, and takes its time to compile once.

    Args:
      value_and_gradient: Function that returns the smooth loss f and its gradient.
      strength: Strength lambda; None for plain L-BFGS.
      params: Weights w.
      search: Search from `init` or the last iteration.
      max_evaluations: Largest number of evaluations per line search. The step is halved
        after each.
    """
    is_new = jnp.isinf(search.value)  # then the only trial is the start itself
    old_value, gradient = search.value, search.gradient
    objective = old_value + _penalty(params, strength)
    downhill = pseudo_gradient(params, gradient, strength)
    direction = jax.tree.map(jnp.negative, _inverse_hessian(search, downhill))
    if strength is not None:
        direction = jax.tree.map(
            lambda d, p: jnp.where(d * p < 0, d, 0), direction, downhill
        )
    orthant = jax.tree.map(
        lambda w, p: jnp.where(w != 0, jnp.sign(w), -jnp.sign(p)), params, downhill
    )
    # Nothing is known of the curvature yet: the first step has length 1 at most.
    first = jnp.where(search.num_pairs > 0, 1, 1 / jnp.maximum(_norm(direction), 1))
    first = jnp.where(is_new, 0, first)

    def at(size: jax.Array) -> Params:
        def move(w: jax.Array, d: jax.Array, sign: jax.Array) -> jax.Array:
            moved = w + size * d
            if strength is None:
                return moved
            return jnp.where(moved * sign > 0, moved, 0)

        return jax.tree.map(move, params, direction, orthant)

    def is_wanted(trial: tuple) -> jax.Array:
        index, _, _, _, _, is_good = trial
        return ~is_good & (index < max_evaluations)

    def halve(trial: tuple) -> tuple:
        index, size, _, _, _, _ = trial
        size = jnp.where(index > 0, size / 2, size)
        point = at(size)
        value, gradient = value_and_gradient(point)
        slope = _inner(downhill, jax.tree.map(jnp.subtract, point, params))
        bound = objective + SUFFICIENT * slope
        is_lower = (value + _penalty(point, strength) <= bound) & (slope < 0)
        is_good = is_new | is_lower
        return index + 1, size, value, gradient, slope, is_good

    nothing = jnp.zeros((), jnp.int32)
    start = (nothing, first, old_value, gradient, jnp.zeros_like(first))
    num_trials, size, value, new, slope, is_good = lax.while_loop(
        is_wanted, halve, (*start, jnp.zeros((), bool))
    )
    # A failure along the pseudo-gradient is gone on from by halving on, one along
    # another direction by the pseudo-gradient at full length.
    is_other = is_new | (search.num_pairs > 0)
    restart = jnp.where(is_other, 1, search.scale * size / 2)
    size = jnp.where(is_good, size, 0)
    params, before = at(size), params
    value, new = jax.tree.map(
        lambda found, old: jnp.where(is_good, found, old),
        (value, new),
        (old_value, gradient),
    )
    search = search._replace(value=value, gradient=new)
    move = jax.tree.map(jnp.subtract, params, before)
    change = jax.tree.map(jnp.subtract, new, gradient)
    return Stepped(
        params=params,
        search=_remember(search, move, change, restart),
        objective=value + _penalty(params, strength),
        objective_before=objective,
        step_size=size,
        promise=jnp.where(is_other, jnp.inf, -slope),
        num_evaluations=num_trials,
        gradient_norm=_norm(pseudo_gradient(params, new, strength)),
    )


def progress(stepped: Stepped, tolerance: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the relative decrease of an iteration, and whether it is the last one.

    It is the last one if a step was taken that gained no more than the tolerance; or if
    none was found along the pseudo-gradient, on which a shorter one could gain no more:
    F is convex, so no step gains more than its slope promises. A failure along another
    direction says nothing, and the next iteration starts afresh.

    Args:
      stepped: Iteration from `step`.
      tolerance: Decrease relative to the objective before, or to 1 if 1 is larger.
    """
    before = stepped.objective_before
    size = jnp.maximum(jnp.abs(before), 1)
    change = jnp.where(jnp.isinf(before), jnp.inf, (before - stepped.objective) / size)
    is_told = (stepped.step_size > 0) | (stepped.promise <= tolerance * size)
    return change, (change <= tolerance) & is_told


def common_info(stepped: Stepped, tolerance: jax.Array) -> dict[str, jax.Array]:
    """Return the fields of `Info` that every learner by quasi-Newton steps has."""
    change, converged = progress(stepped, tolerance)
    return {
        "objective": stepped.objective,
        "gradient_norm": stepped.gradient_norm,
        "step_size": stepped.step_size,
        "num_evaluations": stepped.num_evaluations,
        "relative_change": change,
        "converged": converged,
    }


def smooth_solver(
    memory_size: int, max_evaluations: int
) -> optax.GradientTransformationExtraArgs:
    """Return `optax.lbfgs` with a zoom line search from step 1."""
    return optax.lbfgs(
        memory_size=memory_size,
        linesearch=optax.scale_by_zoom_linesearch(
            max_linesearch_steps=max_evaluations, initial_guess_strategy="one"
        ),
    )


def smooth_init(solver: optax.GradientTransformationExtraArgs, params: Params) -> Any:
    """Return the search of `smooth_step` before the first iteration."""
    return _cast(solver.init(params), jax.tree.leaves(params)[0].dtype)


def smooth_step(
    solver: optax.GradientTransformationExtraArgs,
    objective: Callable[[Params], jax.Array],
    params: Params,
    search: Any,
    *,
    is_first: jax.Array,
) -> Stepped:
    """Run one iteration of `optax.lbfgs`; stay where it finds no lower point.

    Args:
      solver: Solver from `smooth_solver`.
      objective: Smooth function of the weights.
      params: Weights w.
      search: Search from `smooth_init` or from the last iteration.
      is_first: () bool, True in the first iteration, which also evaluates the start.
    """
    dtype = jax.tree.leaves(params)[0].dtype
    # optax does not run under strict promotion.
    with jax.numpy_dtype_promotion("standard"):
        evaluate = optax.value_and_grad_from_state(objective)
        before, gradient = evaluate(params, state=search)
        moves, found = solver.update(
            gradient, search, params, value=before, grad=gradient, value_fn=objective
        )
        moved = optax.apply_updates(params, moves)
    memory, line = found[0], found[-1]
    # Where it finds no lower point, optax goes to a higher one. Stay instead, forget
    # all pairs, and begin again along the gradient.
    is_good = (line.value < before) | (line.info.decrease_error <= 0)
    is_good &= line.learning_rate > 0
    slope = optax.tree.vdot(gradient, moves)
    moved, value, new = jax.tree.map(
        lambda found, old: jnp.where(is_good, found, old),
        (moved, line.value, line.grad),
        (params, before, gradient),
    )
    found = (
        memory._replace(
            count=jnp.where(is_good, memory.count, 0),
            weights_memory=jnp.where(is_good, memory.weights_memory, 0),
        ),
        *found[1:-1],
        line._replace(value=value, grad=new),
    )
    is_steepest = (search[0].count == 0) & (line.learning_rate > 0)
    num_evaluations = line.info.num_linesearch_steps.astype(jnp.int32)
    return Stepped(
        params=moved,
        search=_cast(found, dtype),
        objective=value.astype(dtype),
        objective_before=before.astype(dtype),
        step_size=jnp.where(is_good, line.learning_rate, 0).astype(dtype),
        promise=jnp.where(is_steepest, -slope, jnp.inf).astype(dtype),
        num_evaluations=num_evaluations + is_first.astype(jnp.int32),
        gradient_norm=optax.tree.norm(new).astype(dtype),
    )


def _cast(search: Any, dtype: jnp.dtype) -> Any:
    """Give all floats of a search one dtype: optax has some of the default one."""

    def one(leaf: jax.Array) -> jax.Array:
        is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(dtype if is_float else leaf.dtype)  # never weak

    return jax.tree.map(one, search)


def pseudo_gradient(
    params: Params, gradient: Params, strength: float | jax.Array | None
) -> Params:
    """Return the element of F's subdifferential at `params` with the least norm.

    It is zero exactly at a minimum.

    Args:
      params: Weights w.
      gradient: Gradient of f at w.
      strength: Strength lambda; None for 0.
    """
    if strength is None:
        return gradient

    def one(w: jax.Array, g: jax.Array) -> jax.Array:
        at_zero = soft_threshold(g, strength)
        return jnp.where(w != 0, g + strength * jnp.sign(w), at_zero)

    return jax.tree.map(one, params, gradient)


def _remember(
    search: Search, move: Params, change: Params, restart: jax.Array
) -> Search:
    """Store a pair over the oldest one; a useless pair gets the weight 0.

    No move at all means that the search has failed: all pairs are forgotten, and the
    next iteration goes along the pseudo-gradient, by `restart` times it at most.
    """
    curvature, energy = _inner(move, change), _inner(change, change)
    is_useful = curvature > 0
    is_stuck = _inner(move, move) == 0
    slot = search.num_pairs % search.curvatures.shape[0]

    def store(stack: jax.Array, leaf: jax.Array) -> jax.Array:
        return lax.dynamic_update_index_in_dim(stack, leaf, slot, 0)

    weight = jnp.where(is_useful, 1 / jnp.where(is_useful, curvature, 1), 0)
    curvatures = search.curvatures.at[slot].set(weight)
    scale = jnp.where(
        is_useful, curvature / jnp.where(is_useful, energy, 1), search.scale
    )
    return search._replace(
        moves=jax.tree.map(store, search.moves, move),
        changes=jax.tree.map(store, search.changes, change),
        curvatures=jnp.where(is_stuck, 0, curvatures),
        scale=jnp.where(is_stuck, restart, scale),
        num_pairs=jnp.where(is_stuck, 0, search.num_pairs + 1),
    )


def _inverse_hessian(search: Search, vector: Params) -> Params:
    """Multiply by the L-BFGS inverse Hessian: the two-loop recursion."""
    memory_size = search.curvatures.shape[0]
    age = jnp.arange(memory_size, dtype=jnp.int32)
    oldest_first = (search.num_pairs + age) % memory_size

    def pair(slot: jax.Array) -> tuple[Params, Params]:
        return jax.tree.map(lambda stack: stack[slot], (search.moves, search.changes))

    def right(vector: Params, slot: jax.Array) -> tuple[Params, jax.Array]:
        move, change = pair(slot)
        share = search.curvatures[slot] * _inner(move, vector)
        return jax.tree.map(lambda v, y: v - share * y, vector, change), share

    def left(vector: Params, inputs: tuple) -> tuple[Params, None]:
        slot, share = inputs
        move, change = pair(slot)
        share = share - search.curvatures[slot] * _inner(change, vector)
        return jax.tree.map(lambda v, s: v + share * s, vector, move), None

    vector, shares = lax.scan(right, vector, oldest_first, reverse=True)
    vector = jax.tree.map(lambda v: search.scale * v, vector)
    return lax.scan(left, vector, (oldest_first, shares))[0]


def _inner(a: Params, b: Params) -> jax.Array:
    products = jax.tree.map(
        lambda x, y: jnp.vdot(x, y, precision=lax.Precision.HIGHEST), a, b
    )
    return jnp.stack(jax.tree.leaves(products)).sum()


def _norm(a: Params) -> jax.Array:
    return jnp.sqrt(_inner(a, a))


def _penalty(params: Params, strength: jax.Array | None) -> jax.Array | float:
    if strength is None:
        return 0.0
    sizes = [jnp.abs(leaf).sum() for leaf in jax.tree.leaves(params)]
    return strength * jnp.stack(sizes).sum()
