r"""Mirror maps: a conjugate :math:`F^*`, its gradient, and what a certificate needs.

A mirror map turns a dual :math:`\Theta` into weights :math:`W = \nabla F^*(\Theta)`. A
`MirrorMap` holds the functions of one array. `online.mirror_descent` learns with any of
them, and `certify.mirror` certifies the run.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.linalg import spectra

__all__ = [
    "MirrorMap",
    "blocks",
    "conjugate",
    "frobenius",
    "rank_k",
    "shifted",
    "singular_values",
    "spectral",
    "support_norm_squared",
    "support_spectrum",
    "top_of",
]
__dir__ = __all__.copy

Number = Callable[[jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class MirrorMap:
    r"""A mirror map; functions of one array of any shape.

    Attributes:
      conjugate: :math:`F^*`, from :math:`\Theta` to a number. Convex.
      gradient: :math:`\nabla F^*` or a subgradient, from :math:`\Theta` to W of the
        same shape. None takes `jax.grad` of the conjugate, which may be NaN where the
        conjugate has a kink, as a norm has at 0.
      biconjugate: :math:`F^{**}`, from U to a number; infinite outside the domain. A
        certificate against U needs it. A larger function is safe.
      smoothness: Number L with :math:`F^*(\Theta + \Delta) \le F^*(\Theta) + \langle
        \nabla F^*(\Theta), \Delta\rangle + \frac L2\|\Delta\|_F^2` for all arguments.
        Or a function that replaces :math:`L\|\Delta\|_F^2`, homogeneous of degree 2,
        such as :math:`(p - 1)\|\Delta\|_p^2`. None if there is no bound.
    """

    conjugate: Number
    gradient: Number | None = None
    biconjugate: Number | None = None
    smoothness: float | Number | None = None

    def __post_init__(self) -> None:
        """Check that the parts are functions, and the smoothness positive."""
        for name in ("conjugate", "gradient", "biconjugate"):
            value = getattr(self, name)
            if not callable(value) and (value is not None or name == "conjugate"):
                raise checks.InputError(f"`{name}` must be a function, got {value!r}.")
        if not callable(self.smoothness):
            checks.positive(smoothness=self.smoothness)

    def weights(self, theta: jax.Array) -> jax.Array:
        """Return W of a dual."""
        return (self.gradient or jax.grad(self.conjugate))(theta)

    def curvature(self, delta: jax.Array) -> jax.Array | None:
        r"""Return the bound on twice the second-order rest of a move, or None.

        By homogeneity the move :math:`C\Delta` has :math:`C^2` times the curvature.
        """
        if self.smoothness is None:
            return None
        if callable(self.smoothness):
            return self.smoothness(delta)
        return jnp.asarray(self.smoothness, delta.dtype) * (delta * delta).sum()


def frobenius() -> MirrorMap:
    r"""Return the map of :math:`\frac12\|\Theta\|_F^2`: the perceptron."""

    def half_square(array: jax.Array) -> jax.Array:
        return (array * array).sum() / 2

    return MirrorMap(half_square, lambda theta: theta, half_square, 1.0)


def rank_k(rank: int) -> MirrorMap:
    r"""Return BOL's map of a matrix, :math:`\frac12\sum_{i\le k}\sigma_i^2` (DR-B5).

    Its gradient jumps where :math:`\sigma_k = \sigma_{k+1}`, so it has no smoothness.

    Args:
      rank: k, at least 1. Static.
    """
    checks.whole(rank=rank)
    return MirrorMap(
        lambda theta: conjugate(theta, rank=rank),
        lambda theta: top_of(theta, rank=rank),
        lambda weights: support_norm_squared(weights, rank=rank) / 2,
    )


def spectral() -> MirrorMap:
    r"""Return the map of :math:`\frac12\sigma_1^2` (BOL-P1), `rank_k` of rank 1."""
    return rank_k(1)


def blocks(one: MirrorMap) -> MirrorMap:
    """Return the map that applies `one` to each block along the first axis (DR-B6)."""

    def total(function: Number) -> Number:
        return lambda array: jax.vmap(function)(array).sum()

    smoothness = one.smoothness
    return MirrorMap(
        total(one.conjugate),
        jax.vmap(one.weights),
        None if one.biconjugate is None else total(one.biconjugate),
        total(smoothness) if callable(smoothness) else smoothness,
    )


def shifted(one: MirrorMap, start: float | jax.Array) -> MirrorMap:
    r"""Return the map of a run from :math:`\Theta_0` (DR-B11).

    As a function of :math:`\Theta - \Theta_0` its conjugate is :math:`F^*(\Theta) -
    F^*(\Theta_0)`, and its biconjugate the Fenchel-Young gap of U from the start,
    :math:`F^{**}(U) - \langle U, \Theta_0\rangle + F^*(\Theta_0)`.

    Args:
      one: Map to shift.
      start: :math:`\Theta_0`, an array of the dual's shape, or one number for all
        entries.
    """

    def first(like: jax.Array) -> jax.Array:
        return jnp.broadcast_to(jnp.asarray(start, like.dtype), like.shape)

    def gap(weights: jax.Array) -> jax.Array:
        assert one.biconjugate is not None
        zero = first(weights)
        return one.biconjugate(weights) - (weights * zero).sum() + one.conjugate(zero)

    return MirrorMap(
        lambda moved: one.conjugate(first(moved) + moved) - one.conjugate(first(moved)),
        lambda moved: one.weights(first(moved) + moved),
        None if one.biconjugate is None else gap,
        one.smoothness,
    )


def singular_values(matrix: jax.Array) -> jax.Array:
    """Return the singular values, largest first."""
    return spectra.singular_values(matrix)


def conjugate(theta: jax.Array, *, rank: int = 1) -> jax.Array:
    r"""Return :math:`F_k^*(\Theta) = \frac12\sum_{i\le k}\sigma_i^2` (BOL-P1, DR-B5).

    Args:
      theta: (m, n).
      rank: k, at least 1. Static.
    """
    top = singular_values(theta)[:rank]
    return (top * top).sum() / 2


def top_of(theta: jax.Array, *, rank: int = 1) -> jax.Array:
    r"""Return :math:`\sum_{i\le k}\sigma_iu_iv_i^\top`, a subgradient (BOL-P2).

    Args:
      theta: (m, n).
      rank: k, at least 1. Static.
    """
    left, values, right = spectra.svd(theta)
    return (left[:, :rank] * values[None, :rank]) @ right[:rank]


def support_norm_squared(weights: jax.Array, *, rank: int = 1) -> jax.Array:
    r"""Return the squared spectral k-support norm; k = 1: the squared trace norm.

    Args:
      weights: (m, n).
      rank: k. Static.
    """
    return 2 * support_spectrum(singular_values(weights), rank)[1]


def support_spectrum(values: jax.Array, rank: int) -> tuple[jax.Array, jax.Array]:
    """Return the best spectrum for a linear form, and its gain, of k candidates."""
    size = values.shape[0]
    rank = min(rank, size)
    spectra = []
    for head in range(rank):  # head = k - r - 1 values stay
        level = values[head:].sum() / (rank - head)
        tail = jnp.full((size - head,), level, values.dtype)
        spectra.append(jnp.concatenate([values[:head], tail]))
    stacked = jnp.stack(spectra)
    top = -jnp.sort(-stacked, axis=1)[:, :rank]
    gains = stacked @ values - (top * top).sum(1) / 2
    best = gains.argmax()
    return stacked[best], gains[best]
