r"""BOL on dense matrix features, without blocks, as in the theory (BOL-M1, BOL-Eq1).

An example has candidates :math:`\Phi(x, y) \in \mathbb R^{m\times n}` and the index of
the right one. A binary task is the pair :math:`\pm\frac12 X`. Round :math:`t` is

.. math:: \bar y^t = \arg\max_y \langle W_{t-1}, \Phi(x^t, y)\rangle, \qquad
   \Theta_t = \Theta_{t-1} + C\,\Delta\Phi^t, \qquad W_t = \nabla F^*(\Theta_t)
   \qquad \text{(BOL-Eq8)}

===============  ================================================================
``"exact"``      truncated SVD: :math:`F_k^*=\frac12\sum_{i\le k}\sigma_i^2`, DR-B5
``"power"``      `num_inner_steps` of the true power iteration, warm-started, BOL-N2
``"paper"``      Eq. (9)-(12), which replace :math:`\Theta_{t-1}\beta_{t-1}` by
                 :math:`\sigma_1\alpha_{t-1}`
``"frobenius"``  :math:`F^*=\frac12\|\Theta\|_F^2`: the perceptron on matrices
===============  ================================================================

:math:`\sigma_1` is exact (SVD) in all variants, so this learner is for small matrices.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax import checks
from lowrank_jax.linalg import spectra
from lowrank_jax.types import Learner, documented

__all__ = ["Choice", "Info", "State", "binary", "final_params", "learner"]
__dir__ = __all__.copy

VARIANTS = ("exact", "power", "paper", "frobenius")


class Choice(NamedTuple):
    """One example: candidates and the index of the right one."""

    features: jax.Array  # (num_candidates, m, n)
    label: jax.Array  # () int32


def binary(x: jax.Array, y: jax.Array) -> Choice:
    r"""Make a binary example of a matrix (m, n) and a label of -1 or +1.

    The candidates are :math:`-\frac12 X, +\frac12 X`, so that
    :math:`\Delta\Phi = y X` on a mistake.
    """
    features = jnp.stack([-x / 2, x / 2])
    return Choice(features, (jnp.asarray(y) > 0).astype(jnp.int32))


class Sums(NamedTuple):
    """Sums over rounds, for averaging."""

    theta: jax.Array | None  # (m, n)  DR-B9
    left: jax.Array | None  # (rank, m)  BOL-X2
    right: jax.Array | None  # (rank, n)
    scale: jax.Array | None  # ()


@documented
class State(NamedTuple):
    """What the next round needs, and nothing else.

    Attributes:
      params: W_t, (m, n).
      theta: Theta_t, (m, n).
      left: alpha; carries the singular values in "exact", (rank, m).
      right: beta, (rank, n).
      scale: Scale of the factors, ().
      sums: Sums over rounds for averaging, or None.
      conjugate: F*(Theta_t), ().
      num_rounds: Number of rounds, () int32.
    """

    params: jax.Array
    theta: jax.Array
    left: jax.Array
    right: jax.Array
    scale: jax.Array
    sums: Sums | None
    conjugate: jax.Array
    num_rounds: jax.Array


@documented
class Info(NamedTuple):
    """What the proof and the report need of this round.

    Attributes:
      loss: [1 - <W, dPhi>]_+ on a mistake, else 0, ().
      is_mistake: True if the prediction was wrong, () bool.
      num_wrong: 1 on a mistake, () int32.
      margin: <W_{t-1}, dPhi_t>, ().
      squared_norm: ``||dPhi_t||_F^2``, ().
      dual_increment: Delta_t (BOL-N5), ().
      conjugate: F*(Theta_t), ().
      bregman: B_t (DR-B4), ().
      sigma_1: sigma_1(Theta_t), ().
      ratio: sigma_{k+1} / sigma_k of Theta_t, k the rank, ().
      residual: ``1 - |cos|`` between alpha and u_1, ().
      step_size: C, ().
    """

    loss: jax.Array
    is_mistake: jax.Array
    num_wrong: jax.Array
    margin: jax.Array
    squared_norm: jax.Array
    dual_increment: jax.Array
    conjugate: jax.Array
    bregman: jax.Array
    sigma_1: jax.Array
    ratio: jax.Array
    residual: jax.Array
    step_size: jax.Array | None = None


def learner(
    *,
    variant: Literal["exact", "power", "paper", "frobenius"] = "exact",
    rank: int = 1,
    step_size: float | jax.Array = 1.0,
    averaging: Literal["none", "dual", "factors"] = "none",
    num_inner_steps: int = 4,
) -> Learner[State, Info, Choice]:
    """Build the pair ``(init, update)``; both are pure. The example sets the dtype.

    Args:
      variant: ``"exact"``, ``"power"``, ``"paper"`` or ``"frobenius"``; see the module.
      rank: Rank of W, at least 1; other than 1 only with ``"exact"``. Static.
      step_size: :math:`C`, positive. May be traced.
      averaging: ``"none"``, ``"dual"`` or ``"factors"`` (BOL-X2). ``"dual"`` takes the
        exact map of the mean of Theta, for every variant (DR-B9).
      num_inner_steps: R, for ``"power"`` and ``"paper"``. Static.
    """
    checks.choice(VARIANTS, variant=variant)
    checks.whole(rank=rank, num_inner_steps=num_inner_steps)
    checks.positive(step_size=step_size)
    checks.choice(("none", "dual", "factors"), averaging=averaging)
    if rank != 1 and variant != "exact":
        raise checks.InputError(
            f"`rank` other than 1 needs variant='exact', got rank={rank} with "
            f"variant={variant!r}."
        )
    if variant == "frobenius" and averaging == "factors":
        raise checks.InputError(
            "`averaging='factors'` needs factors, and variant='frobenius' has none; "
            "say 'dual' or 'none'."
        )

    def init(key: jax.Array, example: Choice) -> State:
        del key  # Alg. 2 starts from the uniform pair
        _, m, n = example.features.shape
        if rank > min(m, n):
            raise checks.InputError(
                f"`rank` must lie in 1..{min(m, n)} for a {m}x{n} matrix, got {rank}."
            )
        dtype = example.features.dtype
        left, right = jnp.ones((rank, m), dtype), jnp.ones((rank, n), dtype)
        left, right = left / jnp.sqrt(1.0 * m), right / jnp.sqrt(1.0 * n)
        left, right = left.astype(dtype), right.astype(dtype)
        theta, scale = jnp.zeros((m, n), dtype), jnp.zeros((), dtype)
        if variant == "exact":
            left = 0 * left
        elif variant == "frobenius":  # no factors
            left, right = left[:0], right[:0]
        sums = None
        if averaging == "dual":
            sums = Sums(theta, None, None, None)
        elif averaging == "factors":
            sums = Sums(None, 0 * left, 0 * right, scale)
        return State(
            params=theta,
            theta=theta,
            left=left,
            right=right,
            scale=scale,
            sums=sums,
            conjugate=scale,
            num_rounds=jnp.zeros((), jnp.int32),
        )

    def update(state: State, example: Choice) -> tuple[State, Info]:
        features, label = example
        dtype = features.dtype
        step = jnp.asarray(step_size, dtype)
        scores = jnp.einsum("ymn,mn->y", features, state.params)
        predicted = jnp.argmax(scores).astype(label.dtype)
        is_mistake = predicted != label
        delta = features[label] - features[predicted]
        margin = (state.params * delta).sum()
        theta = state.theta + step * delta  # Eq. (8)

        u, sigma, vt = spectra.svd(theta)
        old = spectra.singular_values(state.theta)[0]
        left, right, scale = _map(
            variant,
            rank,
            num_inner_steps,
            state,
            theta,
            step * delta,
            old,
            u,
            sigma,
            vt,
        )
        # A round without a mistake changes nothing.
        left = jnp.where(is_mistake, left, state.left)
        right = jnp.where(is_mistake, right, state.right)
        scale = jnp.where(is_mistake, scale, state.scale)
        if variant == "frobenius":
            params, conjugate = theta, (theta * theta).sum() / 2
        else:
            params = scale * jnp.einsum("ru,rv->uv", left, right)
            conjugate = (sigma[:rank] ** 2).sum() / 2  # BOL-P1, DR-B5
        growth = conjugate - state.conjugate
        more = Sums(theta, None, None, None)
        if averaging == "factors":
            more = Sums(None, left, right, scale)
        sums = None
        if state.sums is not None:
            sums = jax.tree.map(jnp.add, state.sums, more)
        next_one = sigma[rank] if rank < sigma.shape[0] else jnp.zeros((), dtype)
        last = sigma[rank - 1]
        alpha = left[0] if left.shape[0] else jnp.zeros_like(u[:, 0])
        cosine = jnp.abs((alpha * u[:, 0]).sum())
        length = jnp.sqrt((alpha * alpha).sum())
        info = Info(
            loss=jnp.where(is_mistake, jax.nn.relu(1 - margin), 0),
            is_mistake=is_mistake,
            num_wrong=is_mistake.astype(jnp.int32),
            margin=margin,
            squared_norm=(delta * delta).sum(),
            dual_increment=jnp.where(is_mistake, step, 0) - growth,  # BOL-N5
            conjugate=conjugate,
            bregman=growth - step * margin,  # DR-B4
            sigma_1=sigma[0],
            ratio=next_one / jnp.where(last > 0, last, 1),
            residual=jnp.where(
                length > 0, 1 - cosine / jnp.where(length > 0, length, 1), 0
            ),
            step_size=step,
        )
        num_rounds = state.num_rounds + 1
        return (
            State(params, theta, left, right, scale, sums, conjugate, num_rounds),
            info,
        )

    return Learner(init, update)


def _map(
    variant: str,
    rank: int,
    num_inner_steps: int,
    state: State,
    theta: jax.Array,
    push: jax.Array,
    old_sigma: jax.Array,
    u: jax.Array,
    sigma: jax.Array,
    vt: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return alpha, beta and the scale after the round."""
    one = jnp.ones((), theta.dtype)
    if variant == "exact":
        left, right = (u[:, :rank] * sigma[None, :rank]).T, vt[:rank]
        # Signs agree with the pair before (errata of BOL-X2).
        agreement = (left * state.left).sum(axis=1) + (right * state.right).sum(axis=1)
        sign = jnp.where(agreement < 0, -1, 1).astype(theta.dtype)[:, None]
        return sign * left, sign * right, one
    if variant == "frobenius":
        return state.left, state.right, one
    alpha, beta = state.left[0], state.right[0]
    if variant == "power":
        for _ in range(num_inner_steps):  # BOL-N2, transposes as in the errata
            alpha = _unit(theta @ beta, alpha)
            beta = _unit(theta.T @ alpha, beta)
        return alpha[None], beta[None], sigma[0]
    divisor = jnp.where(old_sigma > 0, old_sigma, sigma[0])
    divisor = jnp.where(divisor > 0, divisor, 1)
    delta_beta = jnp.zeros_like(beta)
    for _ in range(num_inner_steps):
        delta_alpha = (push @ beta + theta @ delta_beta) / divisor  # Eq. (9)
        delta_beta = (push.T @ alpha + theta.T @ delta_alpha) / divisor  # Eq. (11)
    alpha = _unit(alpha + delta_alpha, alpha)  # Eq. (10)
    beta = _unit(beta + delta_beta, beta)  # Eq. (12)
    return alpha[None], beta[None], sigma[0]


def _unit(vector: jax.Array, otherwise: jax.Array) -> jax.Array:
    """Return the vector scaled to length 1, or `otherwise` if it is zero."""
    length = jnp.sqrt((vector * vector).sum())
    return jnp.where(length > 0, vector / jnp.where(length > 0, length, 1), otherwise)


def final_params(state: State) -> jax.Array:
    """Return the W (m, n) to predict with, averaged as set in the learner."""
    if state.sums is None:
        return state.params
    num_rounds = jnp.maximum(state.num_rounds, 1).astype(state.theta.dtype)
    theta, left, right, scale = jax.tree.map(lambda s: s / num_rounds, state.sums)
    if theta is not None:
        rank = state.left.shape[0]
        if rank == 0:  # "frobenius": the map is the identity
            return theta
        u, sigma, vt = spectra.svd(theta)
        return (u[:, :rank] * sigma[None, :rank]) @ vt[:rank]
    return scale * jnp.einsum("ru,rv->uv", left, right)
