r"""Singular value thresholding of a matrix some of whose entries are tied (SMM-X2).

.. math:: \min_X \; \tfrac12\|X - Z\|_F^2 + \tau\|X\|_*
          \quad\text{s.t. } X_{ij} = X_{kl} \text{ where tied}

* ``"projection"``: threshold, then average tied entries. The paper's heuristic; it is
  not the solution (errata SMM-X2), but a tied matrix near it.
* ``"admm"``: exact, to a tolerance. With :math:`\bar Z` the average over ties,
  :math:`X` tied and :math:`Y = X` free,

  .. math:: X \leftarrow \overline{(Z + \rho\,(Y - U)) / (1 + \rho)}, \quad
            Y \leftarrow \mathrm{SVT}_{\tau/\rho}(X + U), \quad
            U \leftarrow U + X - Y.

After the second step :math:`\Lambda = \rho U` has :math:`\|\Lambda\|_2 \le \tau`, so it
is feasible in the dual, and its value there is a lower bound at no further cost:

.. math:: \tfrac12\|\bar Z - Z\|^2 + \langle \bar\Lambda, \bar Z\rangle
          - \tfrac12\|\bar\Lambda\|^2.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.linalg import spectra
from lowrank_jax.linalg.svt import svt

__all__ = ["Tied", "average_ties", "tied_objective", "tied_prox"]
__dir__ = __all__.copy


class Tied(NamedTuple):
    """A tied matrix and how good it is.

    Attributes:
      matrix: (m, n), tied entries equal.
      objective: () objective of the problem above.
      lower_bound: () lower bound on the minimum; minus infinity for the projection.
      num_steps: () int32, steps of ADMM.
      converged: () bool, True if the tolerance was reached; False for the projection.
      multiplier: (m, n) Lambda, the start of a similar problem; 0 for the projection.
    """

    matrix: jax.Array
    objective: jax.Array
    lower_bound: jax.Array
    num_steps: jax.Array
    converged: jax.Array
    multiplier: jax.Array


def average_ties(
    matrix: jax.Array, groups: jax.Array, num_groups: int | None = None
) -> jax.Array:
    """Replace each entry by the mean of those tied to it: the nearest tied matrix.

    Args:
      matrix: (m, n).
      groups: (m, n) int; entries of one number are tied.
      num_groups: Number of groups, more than the largest one; None takes ``m * n``.
        Static.
    """
    flat = jnp.asarray(groups).reshape(-1)
    size = matrix.size if num_groups is None else num_groups
    sums = jnp.zeros(size, matrix.dtype).at[flat].add(matrix.reshape(-1))
    counts = jnp.zeros(size, matrix.dtype).at[flat].add(1)
    return (sums / jnp.maximum(counts, 1))[flat].reshape(matrix.shape)


def tied_objective(
    matrix: jax.Array, target: jax.Array, threshold: float | jax.Array
) -> jax.Array:
    """Return () the value at a matrix of the problem whose target is Z."""
    values = spectra.singular_values(matrix)
    difference = matrix - target
    return jnp.asarray(threshold, matrix.dtype) * values.sum() + jnp.vdot(
        difference, difference
    ) / jnp.asarray(2, matrix.dtype)


def tied_prox(
    matrix: jax.Array,
    groups: jax.Array | Callable,
    threshold: float | jax.Array,
    *,
    start: jax.Array | None = None,
    method: str = "admm",
    num_groups: int | None = None,
    penalty: float | jax.Array = 1.0,
    tolerance: float | jax.Array = 1e-6,
    max_steps: int = 1000,
    svt_method: str = "gram",
) -> Tied:
    r"""Threshold the singular values of a matrix and keep its ties.

    Args:
      matrix: (m, n), Z.
      groups: (m, n) int; entries of one number are tied, as `hankel.tie_groups` gives;
        or the function that replaces each entry of a matrix by the mean of its group.
      threshold: Threshold tau, zero or more. May be traced.
      start: (m, n), the multiplier ADMM starts from; None for 0.
      method: ``"projection"`` or ``"admm"``.
      num_groups: Number of groups, more than the largest one; None takes ``m * n``.
        Static.
      penalty: Number rho of ADMM, positive. May be traced.
      tolerance: ADMM stops when :math:`\|X - Y\|_F` and the step of Y, times rho, are
        both below it, relative to :math:`\|Z\|_F`.
      max_steps: Largest number of steps of ADMM, at least 1. Static.
      svt_method: ``"gram"`` or ``"svd"``, as `svt` has them.
    """
    checks.choice(("projection", "admm"), method=method)
    checks.non_negative(threshold=threshold)
    checks.positive(penalty=penalty, tolerance=tolerance)
    checks.whole(max_steps=max_steps)
    dtype = matrix.dtype
    tau = jnp.asarray(threshold, dtype)

    def average(given: jax.Array) -> jax.Array:
        if callable(groups):
            return groups(given)
        return average_ties(given, groups, num_groups)

    if method == "projection":
        found = average(svt(matrix, tau, method=svt_method).matrix)
        return Tied(
            found,
            tied_objective(found, matrix, tau),
            jnp.array(-jnp.inf, dtype),
            jnp.array(0, jnp.int32),
            jnp.array(False),
            jnp.zeros_like(matrix),
        )
    rho = jnp.asarray(penalty, dtype)
    mean = average(matrix)
    limit = jnp.asarray(tolerance, dtype) * jnp.sqrt(jnp.vdot(matrix, matrix))

    def step(carry: tuple) -> tuple:
        _, y, u, num_steps, _ = carry
        x = (mean + rho * average(y - u)) / (1 + rho)
        new = svt(x + u, tau / rho, method=svt_method).matrix
        u = u + x - new
        primal = jnp.sqrt(jnp.vdot(x - new, x - new))
        dual = rho * jnp.sqrt(jnp.vdot(new - y, new - y))
        return x, new, u, num_steps + 1, jnp.maximum(primal, dual) <= limit

    def goes_on(carry: tuple) -> jax.Array:
        return (carry[3] < max_steps) & ~carry[4]

    multiplier = jnp.zeros_like(mean) if start is None else start
    first = (
        mean,
        mean - average(multiplier),  # where the Lagrangian is smallest
        multiplier / rho,
        jnp.array(0, jnp.int32),
        jnp.array(False),
    )
    x, _, u, num_steps, converged = lax.while_loop(goes_on, step, first)
    x = average(x)  # once more: rounding may differ from one tied entry to another
    multiplier = average(rho * u)
    half = jnp.asarray(0.5, dtype)
    bound = (
        half * jnp.vdot(mean - matrix, mean - matrix)
        + jnp.vdot(multiplier, mean)
        - half * jnp.vdot(multiplier, multiplier)
    )
    objective = tied_objective(x, matrix, tau)
    return Tied(x, objective, bound, num_steps, converged, rho * u)
