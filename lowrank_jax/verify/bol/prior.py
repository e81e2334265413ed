"""A start other than zero, Algorithm 2 as mirror descent, mean W: DR-B11 to B13."""

import itertools
from collections.abc import Iterator

import jax
import numpy as np

from lowrank_jax.theory.bol import prior
from lowrank_jax.verify.bol.matrices import Rng, Shape, batched, problems, scales
from lowrank_jax.verify.statement import Certify, Effort, Found, cheaply, proved

__all__: list[str] = []
__dir__ = __all__.copy

_ROUNDS = 6


def _leading(thetas: np.ndarray) -> np.ndarray:
    """Return sigma_1 u_1 v_1' of each matrix."""
    u, sigma, vt = np.linalg.svd(thetas, full_matrices=False)
    return sigma[..., :1, None] * u[..., :1] * vt[..., :1, :]


def _duals(rng: Rng, num: int, shape: Shape, start: np.ndarray) -> np.ndarray:
    """Return random walks from some matrices, each scaled: (num, rounds + 1, m, n)."""
    moves = rng.normal(size=(num, _ROUNDS, *shape))
    walks = np.cumsum(np.concatenate([start[:, None], moves], axis=1), axis=1)
    return walks * scales(rng, num)[:, None]


@proved(
    "DR-B11: any start",
    "from any start, C sum <U-W,dPhi> <= F**(U) - <U,T_0> + F*(T_0) + sum of B_t",
    prior.start_certificate,
)
def _starts(certify: Certify, effort: Effort) -> Iterator[Found]:
    certify = batched(certify)
    for rng, num, shape in problems(effort):
        sizes = rng.choice([0.0, 0.3, 3.0], (num, 1, 1))
        thetas = _duals(rng, num, shape, sizes * np.ones((num, *shape)))
        weights, step = _leading(thetas[:, :-1]), rng.uniform(0.1, 5, num)
        last = _leading(thetas[:, -1])
        yield Found(certify(thetas, weights, last, step_size=step), f"best U {shape}")
        size = np.linalg.norm(last, axis=(1, 2), keepdims=True)
        u = size * rng.normal(size=last.shape)
        yield Found(certify(thetas, weights, u, step_size=step), f"any U {shape}")
        others = weights + size[:, None] * rng.normal(size=weights.shape)
        yield Found(certify(thetas, others, u, step_size=step), f"any W {shape}")
        begin = _leading(thetas[:, 0])
        found = certify(thetas, weights, begin, step_size=step)
        yield Found(found, f"U of the start {shape}")


def _few(effort: Effort) -> Iterator[tuple[Rng, int, Shape]]:
    """Yield the problems of a quick run: each trial solves a linear system."""
    return problems(effort._replace(is_quick=True))


def _factors(rng: Rng, num: int, shape: Shape) -> tuple[np.ndarray, ...]:
    """Return duals with factors to start from, and a divisor above sigma_1."""
    start = rng.choice([0.0, 1.0], (num, 1, 1)) * rng.normal(size=(num, *shape))
    thetas = _duals(rng, num, shape, start)
    alpha, beta = (rng.normal(size=(num, size)) for size in shape)
    sigma = np.linalg.norm(thetas, 2, axis=(2, 3)).max(axis=1)
    return thetas, alpha, beta, sigma * rng.choice([1.3, 2.0, 5.0], num)


@proved(
    "DR-B12: sweeps",
    "Eq. (9)-(12) with a constant D > s1, run to their end, are (I - J/D)^-1 (a0, b0)",
    prior.sweep_certificate,
)
def _sweeps(certify: Certify, effort: Effort) -> Iterator[Found]:
    for rng, num, shape in _few(effort):
        thetas, alpha, beta, divisor = _factors(rng, num, shape)
        found = batched(certify)(thetas, alpha, beta, divisor=divisor)
        yield Found(found, f"walk {shape}")


@proved(
    "DR-B12: gradient",
    "the gradient of F_D* is a b' of that pair",
    prior.resolvent_gradient_certificate,
)
def _gradients(certify: Certify, effort: Effort) -> Iterator[Found]:
    for rng, num, shape in _few(effort):
        thetas, alpha, beta, divisor = _factors(rng, num, shape)
        found = batched(certify)(thetas[:, -1], alpha, beta, divisor=divisor)
        yield Found(found, f"differentiated {shape}")


@proved(
    "DR-B12: penalty",
    "<ab',T> - F_D*(T) <= D/2 (|a-a0|^2 + |b-b0|^2): the start is the prior mean",
    prior.resolvent_penalty_certificate,
)
def _penalties(certify: Certify, effort: Effort) -> Iterator[Found]:
    certify = batched(certify)
    for rng, num, shape in _few(effort):
        thetas, alpha, beta, divisor = _factors(rng, num, shape)
        last = thetas[:, -1]
        own = cheaply(jax.vmap(prior.resolvent))(last, alpha, beta, divisor)
        found = certify(last, alpha, beta, *own, divisor=divisor)
        yield Found(found, f"own pair {shape}")
        pairs = tuple(rng.normal(size=part.shape) for part in (alpha, beta))
        found = certify(last, alpha, beta, *pairs, divisor=divisor)
        yield Found(found, f"any pair {shape}")


@proved(
    "DR-B13: mean W",
    "the loss of the mean of W is at most the mean of the losses",
    prior.mean_certificate,
)
def _means(certify: Certify, effort: Effort) -> Iterator[Found]:
    certify = batched(certify)
    for rng, num, shape in problems(effort):
        features = rng.normal(size=(num, 4, *shape)) * scales(rng, num)[:, None]
        weights = rng.normal(size=(num, _ROUNDS, *shape))
        gold = rng.integers(0, 4, num)
        yield Found(certify(weights, features, gold), f"any rounds {shape}")
        same = np.repeat(weights[:, :1], _ROUNDS, axis=1)
        yield Found(certify(same, features, gold), f"equal rounds {shape}")


def _every_run(moves: np.ndarray, start: float) -> tuple[np.ndarray, np.ndarray]:
    """Run mirror descent on all sequences of examples; return W_{t-1} and the draws.

    Args:
      moves: (num, examples, Y, m, n) features of each label less the true label's.
      start: c_0.
    """
    num, num_examples = moves.shape[:2]
    drawn = np.array(list(itertools.product(range(num_examples), repeat=3)))
    theta = np.full((num, len(drawn), *moves.shape[3:]), start)
    weights = []
    for examples in drawn.T:
        weights.append(_leading(theta))
        here = moves[:, examples]  # (num, runs, Y, m, n)
        best = np.einsum("rsmn,rsymn->rsy", weights[-1], here).argmax(-1)
        step = np.take_along_axis(here, best[..., None, None, None], axis=2)
        theta = theta - step[:, :, 0]
    return np.stack(weights, axis=2), np.broadcast_to(drawn, (num, *drawn.shape))


@proved(
    "DR-B13: held out",
    "in expectation, held-out loss of mean W <= mean of l_t(W_{t-1}) of a first pass",
    prior.held_out_certificate,
)
def _held_out(certify: Certify, effort: Effort) -> Iterator[Found]:
    certify = batched(certify)
    for rng, num, shape in _few(effort):
        moves = rng.normal(size=(num, 3, 3, *shape)) * scales(rng, num)[:, None, None]
        moves[:, :, 0] = 0  # the true label
        for start in (0.0, 1.0):
            weights, drawn = _every_run(moves, start)
            found = certify(weights, drawn, moves)
            yield Found(found, f"all sequences, start {start:g} {shape}")
        same = np.broadcast_to(weights[:, :1, :1], weights.shape)
        yield Found(certify(same, drawn, moves), f"W that rests {shape}")
