r"""A start other than zero, Algorithm 2 as mirror descent, the mean of W (DR-B11..B13).

The start :math:`\Theta_0` of the dual is a prior: the regret bound of DR-B4 holds with
the Fenchel-Young gap of U from the start in place of :math:`F^{**}(U)`. Equations
(9)-(12) of the paper with a constant divisor :math:`D > \sigma_1` are mirror descent,
and their start :math:`(\alpha_0, \beta_0)` is the prior mean. The mean of W over rounds
is the model that the bound speaks of, because the loss is convex.
"""

import jax
import jax.numpy as jnp

from lowrank_jax.theory import certificate
from lowrank_jax.theory.certificate import Certificate

__all__ = [
    "held_out_certificate",
    "mean_certificate",
    "resolvent",
    "resolvent_conjugate",
    "resolvent_gradient_certificate",
    "resolvent_penalty_certificate",
    "start_certificate",
    "sweep_certificate",
]
__dir__ = __all__.copy


def start_certificate(
    thetas: jax.Array,
    weights: jax.Array,
    comparator: jax.Array,
    *,
    step_size: float | jax.Array,
    rank: int = 1,
) -> Certificate:
    r"""Compare the linear regret from any start with its bound (DR-B11).

    .. math:: C\sum_t\langle U - W_{t-1}, \Delta\Phi^t\rangle \le
       \big[F^{**}(U) - \langle U, \Theta_0\rangle + F^*(\Theta_0)\big] + \sum_t B_t

    with :math:`F^* = \frac12\sum_{i \le r}\sigma_i^2`, for any :math:`W_{t-1}`. The
    bracket is 0 for :math:`U = \nabla F^*(\Theta_0)`. Proof: Fenchel-Young at
    :math:`\Theta_N`, then
    :math:`\langle U, \Theta_N\rangle = \langle U, \Theta_0\rangle
    + C\sum_t\langle U, \Delta\Phi^t\rangle`, and the sum of
    :math:`B_t = F^*(\Theta_t) - F^*(\Theta_{t-1}) - C\langle W_{t-1},
    \Delta\Phi^t\rangle` telescopes.

    Args:
      thetas: (N + 1, m, n) dual before the first round and after each round.
      weights: (N, m, n) :math:`W_{t-1}`, any matrices.
      comparator: (m, n) U of rank r or less, or any U if r = 1.
      step_size: :math:`C`.
      rank: r. Static.
    """
    moves = thetas[1:] - thetas[:-1]  # C dPhi^t
    margins = (weights * moves).sum((1, 2))
    observed = (comparator[None] * moves).sum() - margins.sum()
    values = _conjugate(thetas, rank)
    bregman = values[1:] - values[:-1] - margins
    gap = _biconjugate(comparator, rank) - (comparator * thetas[0]).sum() + values[0]
    bound = gap + bregman.sum()
    scale = jnp.abs(margins).sum() + jnp.abs(values).max() + jnp.abs(gap)
    step = jnp.asarray(step_size, thetas.dtype)
    return certificate.at_most(observed / step, bound / step, scale=scale / step)


def _conjugate(thetas: jax.Array, rank: int) -> jax.Array:
    sigma = jnp.linalg.svd(thetas, compute_uv=False)[..., :rank]
    return (sigma * sigma).sum(-1) / 2


def _biconjugate(comparator: jax.Array, rank: int) -> jax.Array:
    """Half the squared trace norm for r = 1, else the Frobenius norm (rank U <= r)."""
    if rank == 1:
        return jnp.linalg.svd(comparator, compute_uv=False).sum() ** 2 / 2
    return (comparator * comparator).sum() / 2


def resolvent(
    theta: jax.Array, alpha: jax.Array, beta: jax.Array, divisor: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    r"""Return :math:`(I - J/D)^{-1}(\alpha_0, \beta_0)` (DR-B12).

    .. math:: \alpha = \alpha_0 + \tfrac1D\Theta\beta, \qquad
       \beta = \beta_0 + \tfrac1D\Theta^\top\alpha, \qquad
       J = \begin{pmatrix}0 & \Theta\\ \Theta^\top & 0\end{pmatrix}

    Args:
      theta: (m, n) with :math:`\sigma_1 < D`.
      alpha: (m,) :math:`\alpha_0`.
      beta: (n,) :math:`\beta_0`.
      divisor: D.
    """
    m = alpha.shape[0]
    top = jnp.concatenate([jnp.zeros((m, m), theta.dtype), theta], axis=1)
    rest = jnp.zeros((beta.shape[0],) * 2, theta.dtype)
    bottom = jnp.concatenate([theta.T, rest], axis=1)
    system = jnp.eye(m + beta.shape[0], dtype=theta.dtype)
    system = system - jnp.concatenate([top, bottom]) / divisor
    found = jnp.linalg.solve(system, jnp.concatenate([alpha, beta]))
    return found[:m], found[m:]


def resolvent_conjugate(
    theta: jax.Array, alpha: jax.Array, beta: jax.Array, divisor: jax.Array | float
) -> jax.Array:
    r"""Return :math:`F_D^*(\Theta)`, the value of DR-B12's supremum.

    .. math:: F_D^*(\Theta) = \sup_{a, b}\; a^\top\Theta b
       - \tfrac D2\big(\|a - \alpha_0\|^2 + \|b - \beta_0\|^2\big)

    Args:
      theta: (m, n) with :math:`\sigma_1 < D`.
      alpha: (m,) :math:`\alpha_0`.
      beta: (n,) :math:`\beta_0`.
      divisor: D.
    """
    a, b = resolvent(theta, alpha, beta, divisor)
    away = ((a - alpha) ** 2).sum() + ((b - beta) ** 2).sum()
    return a @ theta @ b - divisor / 2 * away


def sweep_certificate(
    thetas: jax.Array,
    alpha: jax.Array,
    beta: jax.Array,
    *,
    divisor: jax.Array | float,
    num_sweeps: int = 400,
) -> Certificate:
    r"""Compare Eq. (9)-(12) along a run with the gradient of :math:`F_D^*` (DR-B12).

    With a constant :math:`D > \sigma_1(\Theta_t)` throughout and the inner loop run to
    its end, the factors are :math:`(I - J_t/D)^{-1}` of the prior mean. From
    :math:`\Theta_0 = 0` the prior mean is the start. From another :math:`\Theta_0` it
    is :math:`(I - J_0/D)(\alpha_0, \beta_0)`. Proof: subtract the two equations of
    `resolvent` of rounds t and t-1.

    Args:
      thetas: (N + 1, m, n) dual before the first round and after each round.
      alpha: (m,) factor before the first round.
      beta: (n,) factor before the first round.
      divisor: D.
      num_sweeps: Sweeps of the inner loop, enough for it to converge. Static.
    """
    mean_alpha = alpha - thetas[0] @ beta / divisor
    mean_beta = beta - thetas[0].T @ alpha / divisor

    def round_of(factors: tuple, pair: tuple) -> tuple:
        before, after = pair
        a, b = factors
        push_a, push_b = (after - before) @ b, (after - before).T @ a

        def sweep(deltas: tuple, _: None) -> tuple:
            d_a = (push_a + after @ deltas[1]) / divisor  # Eq. (9)
            d_b = (push_b + after.T @ d_a) / divisor  # Eq. (11)
            return (d_a, d_b), None

        start = jnp.zeros_like(a), jnp.zeros_like(b)
        (d_a, d_b), _ = jax.lax.scan(sweep, start, None, num_sweeps)
        return (a + d_a, b + d_b), None  # Eq. (10), (12)

    pairs = (thetas[:-1], thetas[1:])
    (a, b), _ = jax.lax.scan(round_of, (alpha, beta), pairs)
    expected = resolvent(thetas[-1], mean_alpha, mean_beta, divisor)
    sigma = jnp.linalg.svd(thetas, compute_uv=False)[:, 0].max()
    contraction = (sigma / divisor) ** 2
    is_met = (sigma < divisor) & (contraction**num_sweeps < 1e-12)
    scale = jnp.sqrt(alpha @ alpha + beta @ beta)
    return certificate.equal(
        jnp.concatenate([a, b]),
        jnp.concatenate(expected),
        num_axes=1,
        assumptions_met=is_met,
        scale=scale / jnp.maximum(1 - sigma / divisor, 1e-6),
    )


def resolvent_gradient_certificate(
    theta: jax.Array, alpha: jax.Array, beta: jax.Array, *, divisor: jax.Array | float
) -> Certificate:
    r"""Compare :math:`\nabla F_D^*` by differentiation with :math:`\alpha\beta^\top`.

    Args:
      theta: (m, n).
      alpha: (m,) :math:`\alpha_0`.
      beta: (n,) :math:`\beta_0`.
      divisor: D.
    """
    found = jax.grad(resolvent_conjugate)(theta, alpha, beta, divisor)
    a, b = resolvent(theta, alpha, beta, divisor)
    sigma = jnp.linalg.svd(theta, compute_uv=False)[0]
    room = 1 - sigma / divisor
    scale = (alpha @ alpha + beta @ beta) / jnp.maximum(room, 1e-6) ** 3
    return certificate.equal(
        found, jnp.outer(a, b), num_axes=2, assumptions_met=room > 0, scale=scale
    )


def resolvent_penalty_certificate(
    theta: jax.Array,
    alpha: jax.Array,
    beta: jax.Array,
    left: jax.Array,
    right: jax.Array,
    *,
    divisor: jax.Array | float,
) -> Certificate:
    r"""Compare :math:`\langle ab^\top, \Theta\rangle - F_D^*(\Theta)` with its bound.

    .. math:: \langle ab^\top, \Theta\rangle \le F_D^*(\Theta)
       + \tfrac D2\big(\|a - \alpha_0\|^2 + \|b - \beta_0\|^2\big)

    So :math:`F_D^{**}(ab^\top)` is at most the last term: the penalty of the slides
    (BOL-Eq7s) around the start in place of 0. The pair of `resolvent` attains it.

    Args:
      theta: (m, n).
      alpha: (m,) :math:`\alpha_0`.
      beta: (n,) :math:`\beta_0`.
      left: (m,) a.
      right: (n,) b.
      divisor: D.
    """
    sigma = jnp.linalg.svd(theta, compute_uv=False)[0]
    away = ((left - alpha) ** 2).sum() + ((right - beta) ** 2).sum()
    value = resolvent_conjugate(theta, alpha, beta, divisor)
    return certificate.at_most(
        left @ theta @ right - value,
        divisor / 2 * away,
        assumptions_met=sigma < divisor,
        scale=jnp.abs(value) + divisor / 2 * (alpha @ alpha + beta @ beta),
    )


def mean_certificate(
    weights: jax.Array, features: jax.Array, gold: jax.Array
) -> Certificate:
    r"""Compare the loss of the mean of W with the mean of the losses (DR-B13).

    .. math:: \ell(W) = \max_{y'}\langle W, \Phi(x, y') - \Phi(x, y)\rangle, \qquad
       \ell(\bar W) \le \tfrac1N\sum_t\ell(W_t)

    The loss is a maximum of linear functions, hence convex. For independent draws,
    :math:`\bar W = \frac1N\sum_t W_{t-1}` therefore has
    :math:`E\,\ell(\bar W) \le \frac1N E\sum_t\ell_t(W_{t-1})`, and DR-B11 bounds the
    right side. The mean of Theta (DR-B9) and the mean of the factors (BOL-X2) have no
    such line, because the map is not linear.

    Args:
      weights: (N, m, n) W of each round.
      features: (Y, m, n) :math:`\Phi(x, y')` of each label.
      gold: () int, the true label.
    """
    moves = features - features[gold][None]

    def loss(weight: jax.Array) -> jax.Array:
        return jnp.einsum("mn,ymn->y", weight, moves).max()

    losses = jax.vmap(loss)(weights)
    return certificate.at_most(
        loss(weights.mean(0)), losses.mean(), scale=jnp.abs(losses).max()
    )


def held_out_certificate(
    weights: jax.Array, drawn: jax.Array, moves: jax.Array
) -> Certificate:
    r"""Compare the expected held-out loss of mean W with the rounds' loss (DR-B13).

    .. math:: E\,\ell(\bar W) \le E\,\frac1N\sum_t\ell_t(W_{t-1}), \qquad
       \bar W = \frac1N\sum_t W_{t-1}

    The expectations are exact: over all sequences of N examples, each with the same
    probability, and over one more example. Proof: :math:`W_{t-1}` does not depend on
    example t, so :math:`E\,\ell_t(W_{t-1})` is the loss of :math:`W_{t-1}` on a new
    example. The rest is DR-B13 of `mean_certificate`. With :math:`W_t` in place of
    :math:`W_{t-1}` it is false.

    Args:
      weights: (runs, N, m, n) :math:`W_{t-1}` of the run on each sequence.
      drawn: (runs, N) int, the example of each round: all sequences.
      moves: (examples, Y, m, n) :math:`\Phi(x, y') - \Phi(x, y)` of each example.
    """

    def losses(weight: jax.Array) -> jax.Array:
        return jnp.einsum("...mn,eymn->...ey", weight, moves).max(-1)

    of_mean = losses(weights.mean(1)).mean()
    found = jnp.take_along_axis(losses(weights), drawn[..., None], axis=2)
    return certificate.at_most(of_mean, found.mean(), scale=jnp.abs(found).max())
