r"""Exact proximal map of total variation along one dimension (SBLR-X1).

.. math:: \arg\min_x \tfrac12\|x - z\|^2 + \sum_{i<n} \lambda_i |x_{i+1} - x_i|

by dynamic programming. Let :math:`d_i` be the derivative of the least value that the
terms up to i can have, as a function of :math:`x_i = b`. It is increasing, piecewise
linear, and of slope 1 at least:

.. math:: d_1(b) = b - z_1, \qquad
   d_{i+1}(b) = \operatorname{clip}(d_i(b), -\lambda_i, \lambda_i) + b - z_{i+1}

With :math:`d_i(l_i) = -\lambda_i`, :math:`d_i(h_i) = \lambda_i` the solution is read
off backwards: :math:`d_n(x_n) = 0`,
:math:`x_i = \operatorname{clip}(x_{i+1}, l_i, h_i)`.

The function is kept as its heights at knots, in order, in an array of fixed size whose
unused ends are at minus and plus infinity. Clipping drops the knots beyond
:math:`l_i` and :math:`h_i` and puts these two in their place. So each of the n steps is
a few passes over 2n numbers without a branch, and `vmap` over columns, classes and
strengths costs no more than their number: in order of magnitude 0.5 ms for 100 numbers
and 15 ms for 1000 on one core. Equal neighbours come out equal to the last bit.
"""

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["edge_prox", "total_variation"]
__dir__ = __all__.copy


def total_variation(values: jax.Array, strength: float | jax.Array) -> jax.Array:
    r"""Return the prox of :math:`\tau \sum_i |x_{i+1} - x_i|`.

    Args:
      values: Values z, (size,).
      strength: Strength tau, zero or more.
    """
    strength = jnp.asarray(strength, values.dtype)
    size = max(values.shape[0] - 1, 0)
    return edge_prox(values, jnp.broadcast_to(strength, (size,)))


def edge_prox(values: jax.Array, strengths: jax.Array) -> jax.Array:
    r"""Return the prox with a strength for each pair of neighbours.

    Args:
      values: Values z, (size,).
      strengths: Strengths lambda, (size - 1,), zero or more; 0 cuts the line in two.
    """
    if values.shape[0] <= 1:
        return values
    size = values.shape[0]
    # The dual variables are sums of z - x, which is no longer than z - mean:
    # no strength above this bound acts, and an infinite one becomes a number.
    center = values.mean()
    values = values - center
    bound = jnp.sqrt(size * (values * values).sum())
    strengths = jnp.minimum(strengths, bound)
    far = jnp.asarray(jnp.inf, values.dtype)
    places = jnp.arange(2 * size + 1, dtype=jnp.int32)
    # The one knot of d_1 is its root, where the height is 0.
    knots = jnp.full(places.shape, values[0])
    heights = jnp.where(places < size, -far, jnp.where(places > size, far, 0))

    def forward(
        function: tuple[jax.Array, jax.Array], inputs: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        knots, heights = function
        following, strength = inputs
        num_below = (heights < -strength).sum(dtype=jnp.int32)
        num_within = (heights <= strength).sum(dtype=jnp.int32)
        low = _solve(knots, heights, num_below, -strength)
        high = _solve(knots, heights, num_within, strength)
        first, last = num_below - 1, num_within
        knots = jnp.where(places == first, low, jnp.where(places == last, high, knots))
        heights = jnp.clip(heights, -strength, strength) + (knots - following)
        heights = jnp.where(places < first, -far, heights)
        heights = jnp.where(places > last, far, heights)
        return (knots, heights), (low, high)

    function, (lows, highs) = lax.scan(
        forward, (knots, heights), (values[1:], strengths)
    )
    zero = jnp.zeros((), values.dtype)
    last = _solve(*function, (function[1] < zero).sum(dtype=jnp.int32), zero) + center
    # Moved back before the clipping, which then only selects: flat pieces stay flat.
    bounds = (lows + center, highs + center)

    def backward(
        x: jax.Array, bound: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        x = jnp.clip(x, *bound)
        return x, x

    _, others = lax.scan(backward, last, bounds, reverse=True)
    return jnp.concatenate([others, last[None]])


def _solve(
    knots: jax.Array, heights: jax.Array, place: jax.Array, target: jax.Array
) -> jax.Array:
    """Return where the function takes the target, between `place - 1` and `place`.

    Beyond the first and the last knot the slope is 1.
    """
    left, right = lax.dynamic_slice_in_dim(knots, place - 1, 2)
    left_height, right_height = lax.dynamic_slice_in_dim(heights, place - 1, 2)
    has_left, has_right = jnp.isfinite(left_height), jnp.isfinite(right_height)
    is_between = has_left & has_right & (left_height < right_height)
    rise = jnp.where(is_between, right_height - left_height, 1)
    share = jnp.where(is_between, (target - left_height) / rise, 0)
    return jnp.where(
        has_left & has_right,
        jnp.minimum(left + share * (right - left), right),
        jnp.where(
            has_left, left + (target - left_height), right + (target - right_height)
        ),
    )
