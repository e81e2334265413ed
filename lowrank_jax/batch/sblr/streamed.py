"""Bilinear logistic regression on matrices larger than the memory of the device.

A sweep of `bcpd` reads the matrices twice and needs only their products with the
factors, one row or column per matrix. The products fit where the matrices do not. So
the matrices stay on the host (an array, or a `numpy.memmap` on the disk) and go through
the device in chunks, for the products alone. A run in one piece has the same products:
nothing is sampled or approximated.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.batch.sblr.start import start_shares, start_vectors
from lowrank_jax.models import bilinear_logit
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled

__all__ = ["fit"]
__dir__ = __all__.copy


def fit(
    x: np.ndarray,
    targets: np.ndarray | jax.Array,
    weights: np.ndarray | jax.Array,
    *,
    chunk_size: int,
    start: str | Params = "label",
    max_iterations: int = 500,
    dtype: Any = jnp.float32,
    **settings: Any,
) -> tuple[Params, list[bcpd.Info]]:
    """Fit by sweeps of `bcpd` over matrices that stay on the host.

    Args:
      x: (n, s, t), read in slices along the first axis.
      targets: (n, m), as in `Labelled`.
      weights: (n,) summing to 1.
      chunk_size: Number of matrices on the device at a time.
      start: Start as in `bcpd.learner`.
      max_iterations: Largest number of sweeps.
      dtype: Type of the computation.
      **settings: Other fields of `bcpd.Settings`.

    Returns:
      The model, and the `Info` of each sweep.
    """
    checks.whole(chunk_size=chunk_size, max_iterations=max_iterations)
    given = bcpd.Settings(start=start, **settings)
    given.check()
    targets, weights = jnp.asarray(targets, dtype), jnp.asarray(weights, dtype)
    parts = bcpd.stages(given)
    stages = bcpd.Stages(
        jax.jit(parts.init, static_argnums=4),
        *(jax.jit(part) for part in (parts.first, parts.second, parts.finish)),
    )

    def chunks() -> Iterator[Labelled]:
        for begin in range(0, x.shape[0], chunk_size):
            end = begin + chunk_size
            piece = jnp.asarray(x[begin:end], dtype)
            yield Labelled(piece, targets[begin:end], weights[begin:end])

    def products(read: Callable[..., jax.Array], factors: jax.Array) -> jax.Array:
        return jnp.concatenate([read(piece, factors) for piece in chunks()], axis=1)

    if isinstance(start, str):
        shares = start_shares(targets, weights, start)
        means = jnp.zeros((shares.shape[1], *x.shape[1:]), dtype)
        begin = 0
        for piece in chunks():
            end = begin + piece.x.shape[0]
            means = means + jnp.einsum("nc,nst->cst", shares[begin:end], piece.x)
            begin = end
        params = start_vectors(means, rank=given.rank, num_classes=targets.shape[1])
    else:
        params = start

    left_features = jax.jit(bilinear_logit.left_features)
    right_features = jax.jit(bilinear_logit.right_features)
    features = products(left_features, params.right)
    state = stages.init(params, features, targets, weights, given.is_scaled)
    trace = []
    for _ in range(max_iterations):
        one = stages.first(state, targets, weights)
        meets = products(right_features, one.factors)
        two = stages.second(state, one, meets, targets, weights)
        features = products(left_features, two.factors)
        state, info = stages.finish(state, one, two, meets, features, targets, weights)
        trace.append(jax.device_get(info))
        if trace[-1].converged:
            break
    return state.params, trace
