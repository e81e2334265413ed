r"""The leading singular pair: power iteration, warm starts and how a step turns it.

BOL computes its mirror map (`spectral.mirror_map`) by power iteration. The functions
here say how exact the result is, and test what the paper says of it.
"""

import jax
import jax.numpy as jnp

from lowrank_jax.linalg.norms import nonzero, norm
from lowrank_jax.theory.bol.spectral import singular_values, spectral_gap
from lowrank_jax.theory.certificate import Certificate, at_most, equal

__all__ = [
    "power_iteration_certificate",
    "warm_start_certificate",
    "warm_start_error_certificate",
    "wedin_certificate",
]
__dir__ = __all__.copy


def power_iteration_certificate(
    theta: jax.Array, start: jax.Array, *, num_steps: int, is_printed: bool = False
) -> Certificate:
    r"""BOL-N2: the angles to :math:`u_1,v_1` shrink by :math:`(\sigma_2/\sigma_1)^2`.

    With :math:`\alpha\leftarrow\Theta\Theta^\top\alpha` each coordinate along
    :math:`u_i` is multiplied by :math:`\sigma_i^2`, hence
    :math:`\tan\angle(\alpha^{(k)},u_1)\le(\sigma_2/\sigma_1)^{2k}
    \tan\angle(\alpha^{(0)},u_1)`; so too for
    :math:`\beta\leftarrow\Theta^\top\Theta\beta`,
    :math:`\beta^{(0)}=\Theta^\top\alpha^{(0)}`. The paper prints the transposes
    interchanged. The simultaneous form makes the same vectors.

    Args:
      theta: (m, n); square for the printed form.
      start: (m,), not orthogonal to the leading left vector.
      num_steps: k. Static.
      is_printed: Take the paper's transposes. Static.

    Returns:
      Two certificates: for the left and for the right vector.
    """
    left, values, right = jnp.linalg.svd(theta, full_matrices=False)
    turned = theta.T if is_printed else theta
    pair = _unit(start), _unit(turned.T @ start)
    before = jnp.stack([_tangent(pair[0], left[:, 0]), _tangent(pair[1], right[0])])
    for _ in range(num_steps):
        pair = (
            _unit(turned @ (turned.T @ pair[0])),
            _unit(turned.T @ (turned @ pair[1])),
        )
    after = jnp.stack([_tangent(pair[0], left[:, 0]), _tangent(pair[1], right[0])])
    gap, _ = spectral_gap(theta, 1)
    share = gap / nonzero(values[0])
    second = values[1] if values.shape[0] > 1 else jnp.zeros_like(values[0])
    rate = (second / nonzero(values[0])) ** (2 * num_steps)
    # An angle below a few units in the last place, over the gap, is rounding.
    floor = 256 * jnp.finfo(theta.dtype).eps / nonzero(share)
    after = jnp.where(after <= floor, 0, after)
    return at_most(
        after,
        rate * before,
        assumptions_met=(gap > 0) & jnp.isfinite(before).all(),
        scale=1e9 * floor,
        tolerance=1e-9,
    )


def warm_start_certificate(
    theta: jax.Array,
    step: jax.Array,
    left: jax.Array,
    right: jax.Array,
    *,
    num_sweeps: int,
    is_printed: bool | jax.Array = False,
) -> Certificate:
    r"""BOL-Eq9-12: the sparse updates are power steps on :math:`\Theta+E`.

    Since :math:`(\Theta+E)\beta=\sigma_1\alpha+E\beta` for the exact leading pair of
    :math:`\Theta`, the sparse form :math:`\alpha+\Delta\alpha` equals
    :math:`\frac1{\sigma_1}(\Theta+E)(\beta+\Delta\beta)`. For any other pair it does
    not: see `warm_start_error_certificate`.

    Args:
      theta: (m, n), before the round, not 0.
      step: (m, n), E = C times the difference of features.
      left: (m,), unit.
      right: (n,), unit.
      num_sweeps: Sweeps of both forms. Static.
      is_printed: Claim it for every pair, as the paper's updates do.
    """
    sigma = singular_values(theta)[0]
    inverse = 1 / nonzero(sigma)
    total = theta + step
    moves = jnp.zeros_like(left), jnp.zeros_like(right)
    power = left, right
    for _ in range(num_sweeps):
        in_left = inverse * (step @ right + total @ moves[1])  # Eq. (9)
        in_right = inverse * (step.T @ left + total.T @ in_left)  # Eq. (11)
        moves = in_left, in_right
        power_left = inverse * (total @ power[1])
        power = power_left, inverse * (total.T @ power_left)
    sparse = jnp.concatenate([left + moves[0], right + moves[1]])  # Eq. (10), (12)
    residual = norm(theta @ right - sigma * left) + norm(theta.T @ left - sigma * right)
    is_exact = residual <= 64 * jnp.finfo(theta.dtype).eps * sigma * len(sparse)
    size = 1 + inverse * singular_values(total)[0]
    return equal(
        sparse,
        jnp.concatenate(power),
        num_axes=1,
        assumptions_met=(sigma > 0) & (is_exact | is_printed),
        scale=size ** (2 * num_sweeps),
    )


def warm_start_error_certificate(
    theta: jax.Array, step: jax.Array, left: jax.Array, right: jax.Array
) -> Certificate:
    r"""BOL-Eq9-12: the difference of one sparse sweep from a power step.

    :math:`\alpha+\Delta\alpha-\frac1{\sigma_1}(\Theta+E)\beta =
    \alpha-\frac1{\sigma_1}\Theta\beta`, whatever E is. The error of the pair is
    never corrected. It is 0 if and only if the pair is exact.

    Args:
      theta: (m, n), before the round, not 0.
      step: (m, n), E.
      left: (m,), any.
      right: (n,), any.
    """
    sigma = singular_values(theta)[0]
    inverse = 1 / nonzero(sigma)
    sparse = left + inverse * (step @ right)  # Eq. (9), (10), first sweep
    power = inverse * ((theta + step) @ right)
    return equal(
        sparse - power,
        left - inverse * (theta @ right),
        num_axes=1,
        assumptions_met=sigma > 0,
        scale=norm(sparse) + norm(power),
    )


def wedin_certificate(
    theta: jax.Array, step: jax.Array, *, is_printed: bool | jax.Array = False
) -> Certificate:
    r"""BOL, remark after Eq. 8: how far a step turns the leading pair (Wedin).

    :math:`\sin\theta\le\|E\|_2/\delta` with
    :math:`\delta=\sigma_1(\Theta+E)-\sigma_2(\Theta)>0`, for both vectors. The paper
    leaves out the gap. With the gap :math:`\sigma_1-\sigma_2` of :math:`\Theta` alone
    it would be false: :math:`\Theta=\operatorname{diag}(2,1)` and
    :math:`E=\begin{pmatrix}-.5&\epsilon\\\epsilon&.5\end{pmatrix}` turn by 45 degrees.

    Args:
      theta: (m, n).
      step: (m, n), E.
      is_printed: Leave the gap out.

    Returns:
      Two certificates: for the left and for the right vector.
    """
    left, values, right = jnp.linalg.svd(theta, full_matrices=False)
    new_left, new_values, new_right = jnp.linalg.svd(theta + step, full_matrices=False)
    sines = jnp.stack(
        [_sine(left[:, 0], new_left[:, 0]), _sine(right[0], new_right[0])]
    )
    gap = new_values[0] - (values[1] if values.shape[0] > 1 else 0)
    size = singular_values(step)[0]
    old_gap, _ = spectral_gap(theta, 1)
    new_gap, _ = spectral_gap(theta + step, 1)
    met = (gap > 0) & (old_gap > 0) & (new_gap > 0)
    bound = size / jnp.where(is_printed | (gap == 0), 1, gap)
    # A leading vector is known to some units in the last place over its own gap.
    least = jnp.minimum(old_gap, new_gap)
    floor = 1e-5 * (values[0] + new_values[0]) / nonzero(least)
    return at_most(sines, bound, assumptions_met=met, scale=floor)


def _tangent(vector: jax.Array, axis: jax.Array) -> jax.Array:
    """Tangent of the angle of a unit vector to a unit axis; infinity at 90 degrees."""
    along = jnp.vdot(vector, axis)
    across = norm(vector - along * axis)
    is_across = jnp.abs(along) <= 64 * jnp.finfo(vector.dtype).eps
    return jnp.where(is_across, jnp.inf, across / nonzero(jnp.abs(along)))


def _sine(vector: jax.Array, axis: jax.Array) -> jax.Array:
    return norm(vector - jnp.vdot(vector, axis) * axis)


def _unit(vector: jax.Array) -> jax.Array:
    return vector / nonzero(norm(vector))
