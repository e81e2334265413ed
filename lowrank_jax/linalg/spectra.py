r"""Singular value decompositions in a form for each platform.

CPU and GPU have a library for it. On a TPU, the decomposition is a program of its own,
which takes minutes to compile for 1,000 columns or for thousands of blocks. There, the
one-sided Jacobi method takes its place. Columns i and j turn by the angle that makes
them orthogonal,

.. math:: (a_i, a_j) \leftarrow (c\,a_i - s\,a_j,\; s\,a_i + c\,a_j), \qquad
   \zeta = \frac{\|a_j\|^2 - \|a_i\|^2}{2\langle a_i, a_j\rangle}, \quad
   \frac sc = \frac{\operatorname{sign}\zeta}{|\zeta| + \sqrt{1 + \zeta^2}},

half of all columns at a time against the other half, in the order of a round-robin
tournament. After some sweeps over all pairs :math:`A V = U \Sigma`. The method finds
small singular values beside large ones to full relative accuracy.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.linalg.forms import by_platform

__all__ = ["singular_values", "svd"]
__dir__ = __all__.copy

_MOST_SWEEPS = 30  # ten are usual for a thousand columns


@jax.custom_jvp
def svd(matrix: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return U (..., m, k), sigma (..., k) and V' (..., k, n), with k = min(m, n).

    Singular values fall. On a TPU, a left vector (of a wide matrix, a right vector) of
    the singular value 0 is 0.

    Args:
      matrix: (..., m, n).
    """
    return by_platform(matrix, cpu=_library, tpu=_jacobi)


@svd.defjvp
def _svd_jvp(primals: tuple, tangents: tuple) -> tuple:
    return jax.jvp(_library, primals, tangents)


@jax.custom_jvp
def singular_values(matrix: jax.Array) -> jax.Array:
    """Return the singular values (..., min(m, n)) of matrices (..., m, n), falling."""
    return by_platform(matrix, cpu=_library_values, tpu=_jacobi_values)


@singular_values.defjvp
def _values_jvp(primals: tuple, tangents: tuple) -> tuple:
    return jax.jvp(_library_values, primals, tangents)


def _library(matrix: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    left, values, right = jnp.linalg.svd(matrix, full_matrices=False)
    return left, values, right


def _library_values(matrix: jax.Array) -> jax.Array:
    return jnp.linalg.svd(matrix, compute_uv=False)


def _jacobi(matrix: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    num_rows, num_columns = matrix.shape[-2:]
    if num_rows < num_columns:
        left, values, right = _jacobi(matrix.mT)
        return right.mT, values, left.mT
    each = jnp.eye(num_columns, dtype=matrix.dtype)
    each = jnp.broadcast_to(each, (*matrix.shape[:-2], *each.shape))
    turned = _turned(jnp.concatenate([matrix.mT, each], axis=-1), num_rows)
    images, right = turned[..., :num_rows], turned[..., num_rows:]
    squares = (images * images).sum(-1)
    order = jnp.argsort(-squares, axis=-1)[..., :num_columns]
    values = jnp.sqrt(jnp.take_along_axis(squares, order, -1))
    images = jnp.take_along_axis(images, order[..., None], -2)
    right = jnp.take_along_axis(right, order[..., None], -2)
    left = images / jnp.where(values > 0, values, 1)[..., None]
    return left.mT, values, right


def _jacobi_values(matrix: jax.Array) -> jax.Array:
    if matrix.shape[-2] < matrix.shape[-1]:
        matrix = matrix.mT
    turned = _turned(matrix.mT, matrix.shape[-2])
    squares = -jnp.sort(-(turned * turned).sum(-1), axis=-1)
    return jnp.sqrt(squares[..., : matrix.shape[-1]])


def _turned(rows: jax.Array, num_entries: int) -> jax.Array:
    """Turn rows against each other until their first entries are orthogonal.

    Args:
      rows: (..., n, m or more).
      num_entries: Number m of entries that count. The others turn with them. Static.

    Returns:
      The rows in another order, and a row of zeros if n is odd.
    """
    num_rows = rows.shape[-2]
    if num_rows == 1:
        return rows
    room = [(0, 0)] * (rows.ndim - 2) + [(0, num_rows % 2), (0, 0)]
    rows = jnp.pad(rows, room)
    half = rows.shape[-2] // 2
    # Rounding of a cosine; rows that are closer to orthogonal turn no more.
    tolerance = float(jnp.finfo(rows.dtype).eps) * max(num_entries, 16) ** 0.5
    turn = functools.partial(_turn, num_entries=num_entries, tolerance=tolerance)

    def step(_: jax.Array, carry: tuple) -> tuple:
        return turn(*carry)

    def sweep(carry: tuple) -> tuple:
        number, _, one, two = carry
        none = jnp.zeros((), rows.dtype)
        found = lax.fori_loop(0, 2 * half - 1, step, (none, one, two))
        return (number + 1, *found)

    def goes_on(carry: tuple) -> jax.Array:
        number, cosine, *_ = carry
        return (number < _MOST_SWEEPS) & (cosine > tolerance)

    start = (jnp.zeros((), jnp.int32), jnp.ones((), rows.dtype))
    *_, one, two = lax.while_loop(
        goes_on, sweep, (*start, rows[..., :half, :], rows[..., half:, :])
    )
    return jnp.concatenate([one, two], axis=-2)


def _turn(
    largest: jax.Array,
    one: jax.Array,
    two: jax.Array,
    *,
    num_entries: int,
    tolerance: float,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Make each row of `one` orthogonal to its row of `two`, and change partners."""
    x, y = one[..., :num_entries], two[..., :num_entries]
    a, b, product = (x * x).sum(-1), (y * y).sum(-1), (x * y).sum(-1)
    scale = jnp.sqrt(a) * jnp.sqrt(b)
    cosine = jnp.abs(product) / jnp.where(scale > 0, scale, 1)
    is_turned = cosine > tolerance
    zeta = (b - a) / jnp.where(is_turned, 2 * product, 1)
    tangent = 1 / (jnp.abs(zeta) + jnp.sqrt(1 + zeta * zeta))
    tangent = jnp.where(zeta < 0, -tangent, tangent)
    tangent = jnp.where(is_turned, tangent, 0)
    c = (1 / jnp.sqrt(1 + tangent * tangent))[..., None]
    s = c * tangent[..., None]
    one, two = c * one - s * two, s * one + c * two
    # The first row stays; all others go round the table by one place.
    above = jnp.concatenate([one[..., :1, :], two[..., :1, :], one[..., 1:-1, :]], -2)
    below = jnp.concatenate([two[..., 1:, :], one[..., -1:, :]], -2)
    if one.shape[-2] == 1:
        above, below = one, two
    return jnp.maximum(largest, cosine.max()), above, below
