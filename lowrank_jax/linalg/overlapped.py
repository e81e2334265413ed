r"""The proximal map of two nuclear norms of one tensor (DR-M3).

.. math:: \min_X \; \tfrac12\|X - Z\|^2
          + \tau_1\|X_{(a|bc)}\|_* + \tau_2\|X_{(ab|c)}\|_*

Both unfoldings of *one* tensor are penalised: the overlapped form. (A sum of two
tensors, with one norm each, is the latent form: its penalty is the infimal convolution
of the two norms, and it is the smaller of the two.) With a multiplier for either norm
the dual is

.. math:: \max \; \tfrac12\|Z\|^2 - \tfrac12\|Z - \Lambda_1 - \Lambda_2\|^2
          \quad\text{s.t. } \|\Lambda_{1,(a|bc)}\|_2 \le \tau_1,\;
          \|\Lambda_{2,(ab|c)}\|_2 \le \tau_2 ,

and going up in one multiplier after the other is thresholding (Dykstra's method):

.. math:: X_1 = \mathrm{SVT}_{\tau_1}(Z - \Lambda_2), \quad
          \Lambda_1 = Z - \Lambda_2 - X_1, \qquad
          X_2 = \mathrm{SVT}_{\tau_2}(Z - \Lambda_1), \quad
          \Lambda_2 = Z - \Lambda_1 - X_2 .

There is no step size to choose. With the best first multiplier for each second one,
this is projected gradient ascent in the second with the step 1 over its constant, so
it takes Nesterov's momentum: the next step starts from :math:`\Lambda_2` and a share of
its last move, and from :math:`\Lambda_2` alone where that points downhill. (ADMM took
several times as many steps, and as it has a parameter more, is left out.)

Either multiplier is always feasible, so the value of
the dual, :math:`\tfrac12\langle\Lambda_1 + \Lambda_2, Z + X_2\rangle`, is a lower bound
at no further cost. X_1 and X_2 meet in the solution.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.linalg.svt import singular_values, svt

__all__ = ["Overlapped", "overlapped_prox", "unfold"]
__dir__ = __all__.copy


class Overlapped(NamedTuple):
    """The solution and how good it is.

    Attributes:
      tensor: (l, m, n), X_2.
      norms: (2,) nuclear norms of its unfoldings (a|bc) and (ab|c).
      ranks: (2,) int32, ranks of the unfoldings: singular values above the tolerance.
      objective: () objective of the problem above.
      lower_bound: () lower bound on the minimum.
      multipliers: Two (l, m, n), within the thresholds; Z less their sum is X_2.
      num_steps: () int32, of two thresholdings each.
      converged: () bool, True if X_1 and X_2 agree to the tolerance.
    """

    tensor: jax.Array
    norms: jax.Array
    ranks: jax.Array
    objective: jax.Array
    lower_bound: jax.Array
    multipliers: tuple[jax.Array, jax.Array]
    num_steps: jax.Array
    converged: jax.Array


def unfold(tensor: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the unfoldings (a|bc) and (ab|c)."""
    return (
        tensor.reshape(tensor.shape[0], -1),
        tensor.reshape(-1, tensor.shape[-1]),
    )


def overlapped_prox(
    tensor: jax.Array,
    thresholds: tuple[float | jax.Array, float | jax.Array],
    *,
    start: jax.Array | None = None,
    tolerance: float | jax.Array = 1e-6,
    max_steps: int = 1000,
    svt_method: str = "gram",
) -> Overlapped:
    r"""Threshold the singular values of both unfoldings at once.

    Args:
      tensor: (l, m, n), Z.
      thresholds: :math:`\tau_1` of (a|bc) and :math:`\tau_2` of (ab|c), zero or more.
        May be traced.
      start: (l, m, n), the second multiplier of a similar problem; None for 0.
      tolerance: Stop where :math:`\|X_1 - X_2\|` is at most this share of
        :math:`\|Z\|`, positive. May be traced.
      max_steps: Largest number of steps, at least 1. Static.
      svt_method: ``"gram"`` or ``"svd"``, as `svt` has them.
    """
    checks.non_negative(first_threshold=thresholds[0], second_threshold=thresholds[1])
    checks.positive(tolerance=tolerance)
    checks.whole(max_steps=max_steps)
    dtype = tensor.dtype
    taus = tuple(jnp.asarray(threshold, dtype) for threshold in thresholds)
    limit = jnp.asarray(tolerance, dtype) * jnp.sqrt(jnp.vdot(tensor, tensor))

    def step(carry: tuple) -> tuple:
        _, last, ahead, momentum, num_steps, _ = carry
        x1 = svt(unfold(tensor - ahead)[0], taus[0], method=svt_method).matrix
        first = tensor - ahead - x1.reshape(tensor.shape)
        x2 = svt(unfold(tensor - first)[1], taus[1], method=svt_method).matrix
        second = tensor - first - x2.reshape(tensor.shape)
        move = second - ahead  # X_1 - X_2
        is_near = jnp.sqrt(jnp.vdot(move, move)) <= limit
        momentum = jnp.where(jnp.vdot(move, second - last) < 0, 1, momentum)
        following = (1 + jnp.sqrt(1 + 4 * momentum * momentum)) / 2
        ahead = second + (momentum - 1) / following * (second - last)
        return first, second, ahead, following, num_steps + 1, is_near

    def goes_on(carry: tuple) -> jax.Array:
        return (carry[4] < max_steps) & ~carry[5]

    given = jnp.zeros_like(tensor) if start is None else start
    begin = (
        jnp.zeros_like(tensor),
        given,
        given,
        jnp.ones((), dtype),
        jnp.array(0, jnp.int32),
        jnp.array(False),
    )
    first, second, _, _, num_steps, converged = lax.while_loop(goes_on, step, begin)
    total = first + second
    found = tensor - total
    values = [singular_values(part) for part in unfold(found)]
    norms = jnp.stack([part.sum() for part in values])
    # What is zero in X_1 is at most the norm of X_1 - X_2 in X_2.
    ranks = jnp.stack([(part > limit).sum(dtype=jnp.int32) for part in values])
    half = jnp.asarray(0.5, dtype)
    return Overlapped(
        tensor=found,
        norms=norms,
        ranks=ranks,
        objective=half * jnp.vdot(total, total) + jnp.vdot(jnp.stack(taus), norms),
        lower_bound=half * jnp.vdot(total, tensor + found),
        multipliers=(first, second),
        num_steps=num_steps,
        converged=converged,
    )
