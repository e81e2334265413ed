r"""What can be said of a run of sparse bilinear logistic regression once it has ended.

The functions tell the linear rate, predicted and observed (DR-S6), whether the limit is
a global minimum (DR-S7), whether the assumptions of the convergence theorems hold
(SBLR-A4.1, R4.1), and how well the factors are balanced (DR-S4). They run on the host
and take arrays of any learner.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from lowrank_jax.linalg import penalties
from lowrank_jax.linalg.penalties import Penalty
from lowrank_jax.models import bilinear_logit, logistic
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.certificate import Certificate, at_most

__all__ = [
    "Assumptions",
    "GlobalCertificate",
    "assumptions",
    "fixed_sweep",
    "dual_bound",
    "global_certificate",
    "observed_rate",
    "support_sweep",
    "sweep_jacobian_rate",
]
__dir__ = __all__.copy

Sweep = Callable[[jax.Array], jax.Array]


def fixed_sweep(
    params: Params,
    labelled: Labelled,
    left_penalty: Penalty,
    right_penalty: Penalty,
    *,
    left_constant: float | jax.Array,
    right_constant: float | jax.Array,
) -> Params:
    """Make one sweep with constants that are given (SBLR-Eq7).

    Args:
      params: Point where the sweep begins.
      labelled: The data.
      left_penalty: r_1.
      right_penalty: r_2.
      left_constant: L_u.
      right_constant: L_v.
    """

    def loss(params: Params) -> jax.Array:
        scores = bilinear_logit.scores(params, labelled.x)
        return logistic.loss(scores, labelled.targets, labelled.weights)

    left, right, bias = params
    in_left = 1 / jnp.asarray(left_constant, bias.dtype)
    in_right = 1 / jnp.asarray(right_constant, bias.dtype)
    slope = jax.grad(loss)(params)
    left = left_penalty.prox(left - in_left * slope.left, in_left)  # Eq. (10)
    bias = bias - in_left * slope.bias  # Eq. (9)
    slope = jax.grad(loss)(Params(left, right, bias))
    right = right_penalty.prox(right - in_right * slope.right, in_right)
    bias = bias - in_right * slope.bias
    return Params(left, right, bias)


def support_sweep(
    params: Params,
    labelled: Labelled,
    left_penalty: Penalty,
    right_penalty: Penalty,
    *,
    left_constant: float | jax.Array,
    right_constant: float | jax.Array,
) -> tuple[Sweep, jax.Array]:
    """Write one sweep with fixed constants (SBLR-Eq7) on the entries that are not 0.

    Args:
      params: The limit; its zeros stay zero.
      labelled: The data.
      left_penalty: r_1, with a prox that is differentiable on the support.
      right_penalty: r_2.
      left_constant: L_u.
      right_constant: L_v.

    Returns:
      The sweep, a function from a vector to a vector, and the limit as such a vector:
      the entries of U and V other than 0, then the bias.
    """
    flat, restore = ravel_pytree(params)
    is_free = np.array(flat != 0)
    is_free[flat.size - params.bias.size :] = True
    places = jnp.asarray(np.flatnonzero(is_free), jnp.int32)

    def sweep(vector: jax.Array) -> jax.Array:
        moved = fixed_sweep(
            restore(jnp.zeros_like(flat).at[places].set(vector)),
            labelled,
            left_penalty,
            right_penalty,
            left_constant=left_constant,
            right_constant=right_constant,
        )
        return ravel_pytree(moved)[0][places]

    return sweep, flat[places]


def sweep_jacobian_rate(
    sweep: Sweep,
    limit: jax.Array,
    *,
    num_symmetries: int = 0,
    max_dense: int = 300,
    num_steps: int = 100,
) -> float:
    r"""Return the contraction predicted for the end of a run (DR-S6).

    The spectral radius of the Jacobian of one sweep at its limit: from all eigenvalues
    where the support is small, else by Arnoldi's iteration on products with it.

    Args:
      sweep: One iteration with fixed constants, on the active support.
      limit: Fixed point of the sweep, a vector.
      num_symmetries: Eigenvalues to leave out from the top. A direction along which
        the objective is constant has the eigenvalue 1 and is not contracted: with a
        ridge alone :math:`(UQ, VQ)` costs the same for each rotation Q, which makes
        r(r - 1)/2 of them per class.
      max_dense: The largest support whose Jacobian is formed.
      num_steps: Steps of Arnoldi's iteration, at most the size of the support.
    """
    push = jax.jit(lambda tangent: jax.jvp(sweep, (limit,), (tangent,))[1])
    if limit.size <= max_dense:
        eye = np.eye(limit.size, dtype=limit.dtype)
        matrix = np.stack([np.asarray(push(row)) for row in eye], axis=1)
    else:
        matrix = _arnoldi(push, limit, num_steps)
    moduli = np.sort(np.abs(np.linalg.eigvals(matrix)))[::-1]
    return float(moduli[num_symmetries])


def _arnoldi(push: Sweep, limit: jax.Array, num_steps: int) -> np.ndarray:
    """Return the Hessenberg matrix of a linear map on a Krylov space."""
    num_steps = min(num_steps, limit.size)
    start = np.random.default_rng(0).normal(size=limit.size)
    basis = [start / np.linalg.norm(start)]
    hessenberg = np.zeros((num_steps + 1, num_steps))
    for k in range(num_steps):
        vector = np.asarray(push(jnp.asarray(basis[k], limit.dtype)), np.float64)
        for _ in range(2):  # twice is enough (Kahan)
            parts = np.stack(basis) @ vector
            hessenberg[: k + 1, k] += parts
            vector = vector - parts @ np.stack(basis)
        length = np.linalg.norm(vector)
        if length <= 1e-12:  # the space is invariant: nothing is left out
            return hessenberg[: k + 1, : k + 1]
        hessenberg[k + 1, k] = length
        basis.append(vector / length)
    return hessenberg[:-1]


def observed_rate(distances: np.ndarray, *, floor: float | None = None) -> float:
    """Return the contraction per iteration at the end of a run.

    The slope of the logarithm over the last third of the iterations before the
    distances reach the floor, where rounding takes over.

    Args:
      distances: (num_iterations,) Distances to the limit. Distances to the last iterate
        fall ever faster near their end, which says nothing of the run (SBLR-R4.3).
      floor: None takes 1e-10 of the largest distance in double precision, 1e-4 of it
        in single.
    """
    distances = np.asarray(distances)
    if floor is None:
        share = 1e-10 if distances.dtype == np.float64 else 1e-4
        floor = share * float(distances.max())
    is_low = distances <= floor
    end = int(is_low.argmax()) if is_low.any() else len(distances)
    first = min(2 * end // 3, end - 2)
    if first < 0:
        raise ValueError(
            f"`distances` must have at least two values above the floor {floor:g}, got "
            f"{end}."
        )
    logs = np.log(distances[first:end].astype(np.float64))
    return float(np.exp(np.polyfit(np.arange(end - first), logs, 1)[0]))


class GlobalCertificate(NamedTuple):
    """Evidence that a point is a global minimum of the problem with ridges."""

    certificate: Certificate  # sigma_1 of the gradient in W against sqrt(mu_2 nu_2)
    sigma_1: jax.Array  # (m,)  for each class
    stationarity: (
        jax.Array
    )  # ()  dist(0, dF): the certificate asks for a stationary point
    is_stationary: jax.Array  # () bool
    is_global: jax.Array  # () bool: stationary, and the certificate holds
    objective: jax.Array  # ()  F(U, V, b)
    lower_bound: jax.Array  # ()  of every F(U', V', b'), whatever the rank
    gap: jax.Array  # ()  objective - lower_bound: F is that near to the minimum


def global_certificate(
    params: Params,
    labelled: Labelled,
    left_l2: float | jax.Array,
    right_l2: float | jax.Array,
    *,
    tolerance: float = 1e-6,
) -> GlobalCertificate:
    r"""Decide whether a stationary point is a global minimum (DR-S7).

    Without absolute values problem (4) is the factored form of
    :math:`\min_W \ell(W, b) + \sqrt{\mu_2\nu_2}\,\|W\|_*`, and a stationary point with
    :math:`\sigma_1(\nabla_{W_c}\ell) \le \sqrt{\mu_2\nu_2}` for each class is a global
    minimum of both; else the rank is too small, or it is a saddle.

    A run ends near a stationary point, not at one. Its distance from the minimum is at
    most `gap`, by weak duality, at any point (`dual_bound`).

    Args:
      params: Point where the run has ended.
      labelled: The data.
      left_l2: :math:`\mu_2`.
      right_l2: :math:`\nu_2`.
      tolerance: Bound on the distance from stationary, and on the slack relative to the
        bound. Static.
    """
    x, targets, weights = labelled[:3]
    scores = bilinear_logit.scores(params, x)
    residuals = logistic.residuals(scores, targets, weights)
    slope = jnp.einsum("nc,nst->cst", residuals, x)  # in W
    sigma_1 = jnp.linalg.svd(slope, compute_uv=False)[:, 0]
    dtype = x.dtype
    strengths = jnp.asarray(left_l2, dtype), jnp.asarray(right_l2, dtype)
    bound = jnp.sqrt(strengths[0] * strengths[1])
    in_left = jnp.einsum("cst,ctr->csr", slope, params.right)
    in_right = jnp.einsum("cst,csr->ctr", slope, params.left)
    parts = (
        penalties.elastic_net(l2=strengths[0]).distance(params.left, in_left),
        penalties.elastic_net(l2=strengths[1]).distance(params.right, in_right),
        *residuals.sum(0),
    )
    stationarity = jnp.sqrt(sum(part * part for part in parts))
    squares = [(part * part).sum() for part in (params.left, params.right)]
    ridges = (strengths[0] * squares[0] + strengths[1] * squares[1]) / 2
    objective = logistic.loss(scores, targets, weights) + ridges
    lower = dual_bound(scores, labelled, bound)
    observed = sigma_1.max()
    is_stationary = stationarity <= tolerance
    certificate = at_most(observed, bound, tolerance=tolerance)
    return GlobalCertificate(
        certificate,
        sigma_1,
        stationarity,
        is_stationary,
        is_stationary & certificate.holds,
        objective,
        lower,
        objective - lower,
    )


def dual_bound(scores: jax.Array, labelled: Labelled, strength: jax.Array) -> jax.Array:
    r"""Bound :math:`\min_{W,b} \ell(W, b) + \lambda\sum_c\|W_c\|_*` from below (DR-S7).

    The dual of the problem is :math:`\max_p \sum_i\omega_iH(p_i)`, H the entropy, over
    distributions :math:`p_i` on the classes with :math:`\sum_i\omega_i(p_i - y_i) = 0`
    and :math:`\sigma_1(\sum_i\omega_i(p_{ic} - y_{ic})X_i) \le \lambda` for each class.
    Any scores give such a point. Their shares p are mixed with one distribution for all
    matrices until the first condition holds. Then :math:`p - y` is scaled down, which
    keeps the first condition, until the second holds. At the minimum both steps do
    nothing and the bound is attained.

    Args:
      scores: (n, m) scores of any model.
      labelled: The data.
      strength: :math:`\lambda`, which is :math:`\sqrt{\mu_2\nu_2}` for factors.
    """
    x, targets, weights = labelled[:3]
    own = jnp.concatenate([targets, 1 - targets.sum(1, keepdims=True)], axis=1)
    zeros = jnp.zeros_like(scores[:, :1])  # the reference class
    shares = jax.nn.softmax(jnp.concatenate([scores, zeros], axis=1), axis=1)
    total = weights.sum()
    usual = weights @ own / total
    excess = weights @ (shares - own) / total
    is_there = usual > 0
    need = jnp.where(is_there, excess / jnp.where(is_there, usual, 1), jnp.inf)
    need = jnp.where((excess > 0) | is_there, need, 0).max()  # least e / (1 - e)
    is_possible = jnp.isfinite(need)
    need = jnp.where(is_possible, jnp.maximum(need, 0), 1)
    mixed = usual - excess / jnp.where(need > 0, need, 1)
    mixed = jnp.maximum(mixed, 0)  # rounding: one entry is 0
    part = need / (1 + need)
    rest = (1 - part) * (shares - own) + part * (mixed[None] - own)
    slope = jnp.einsum("n,nc,nst->cst", weights, rest[:, :-1], x)
    sigma_1 = jnp.linalg.svd(slope, compute_uv=False)[:, 0].max()
    scale = jnp.where(
        sigma_1 > strength, strength / jnp.where(sigma_1 > 0, sigma_1, 1), 1
    )
    found = own + scale * rest
    entropy = weights @ jax.scipy.special.entr(jnp.maximum(found, 0)).sum(1)
    return jnp.where(is_possible, entropy, 0)


class Assumptions(NamedTuple):
    """The assumptions of Theorems 4.1 to 4.3, as a run meets them."""

    is_regularised: bool  # mu_1 + mu_2 > 0 and nu_1 + nu_2 > 0
    has_all_classes: bool  # each class has a matrix of positive weight
    is_separated: bool  # every matrix scores its own class highest
    hold: bool | None  # None: these numbers do not decide it
    words: str


def assumptions(
    params: Params,
    labelled: Labelled,
    *,
    left_strength: float,
    right_strength: float,
) -> Assumptions:
    """Decide whether the assumptions of Theorems 4.1 to 4.3 hold (SBLR-A4.1, R4.1).

    A solution exists, and the iterates stay bounded, if both blocks are penalised and
    each class is there. Where no penalty acts, weights that separate the data can be
    scaled up for ever: the infimum 0 is not attained, and the theorems are silent.

    Args:
      params: Point where the run has ended.
      labelled: The data.
      left_strength: mu_1 + mu_2.
      right_strength: nu_1 + nu_2.
    """
    targets, weights = np.asarray(labelled.targets), np.asarray(labelled.weights)
    scores = np.asarray(jax.jit(bilinear_logit.scores)(params, labelled.x))
    zeros = np.zeros((len(scores), 1))  # the reference class
    scores = np.concatenate([scores, zeros], axis=1)
    is_own = np.concatenate([targets, 1 - targets.sum(1, keepdims=True)], axis=1) > 0.5
    own = scores[is_own]
    margins = own - np.where(is_own, -np.inf, scores).max(1)
    is_there = weights > 0
    is_separated = bool((margins[is_there] > 0).all())
    has_all_classes = bool(is_own[is_there].any(0).all())
    is_regularised = left_strength > 0 and right_strength > 0
    hold: bool | None = True
    words = "Both blocks are penalised and every class is there: a solution exists."
    if not has_all_classes:
        hold = False
        words = "A class has no matrix: its offset runs away, and there is no solution."
    elif not is_regularised and is_separated:
        hold = False
        words = (
            "The weights separate the classes and a block has no penalty: scaled up, "
            "the loss falls towards its infimum and never attains it; Theorems 4.1 to "
            "4.3 say nothing about this run."
        )
    elif not is_regularised:
        hold = None
        words = (
            "A block has no penalty, and these weights do not separate the classes: "
            "whether the iterates stay bounded is not known."
        )
    return Assumptions(is_regularised, has_all_classes, is_separated, hold, words)
