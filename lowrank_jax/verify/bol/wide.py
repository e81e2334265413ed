"""Wide rounds of mirror descent: many examples per update (DR-B10)."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.theory.bol import wide
from lowrank_jax.verify.statement import Certify, Effort, Found, cheaply, proved

__all__: list[str] = []
__dir__ = __all__.copy

_STEPS = ("constant", "1 / B", "1 / m", "m^-1/2")
_MAPS = ("sp", "leading pair")
_SHAPE = (3, 4)
_MOST = 100  # mistakes of a run: 4 rounds of 24 examples at most


class _Run(NamedTuple):
    """One run at C = 1; all of it is proportional to C."""

    deltas: np.ndarray  # (n, m, k) of the mistaken examples
    margin: np.ndarray  # (n,)
    step: np.ndarray  # (n,)
    theta: np.ndarray  # (m, k) at the end
    rounds: list[tuple[np.ndarray, np.ndarray, float]]  # Theta before, dPhi, eta


def _map(name: str, theta: np.ndarray) -> np.ndarray:
    """Return the gradient of F*."""
    if name == "sp":
        return theta
    u, sigma, v = np.linalg.svd(theta)
    return sigma[0] * np.outer(u[:, 0], v[0])


def _conjugate(name: str, theta: np.ndarray) -> float:
    sigma = np.linalg.svd(theta, compute_uv=False)
    return float((sigma**2).sum() if name == "sp" else sigma[0] ** 2) / 2


def _penalty(name: str, u: np.ndarray) -> float:
    """Return F**: half the square of the Frobenius norm, or of the trace norm."""
    sigma = np.linalg.svd(u, compute_uv=False)
    return float((sigma**2).sum() if name == "sp" else sigma.sum() ** 2) / 2


def _run(rng: np.random.Generator, name: str, batch_size: int, step: str) -> _Run:
    """Run wide rounds on random examples with three candidates; the first is true."""
    num_rounds = int(rng.integers(1, 5))
    features = rng.standard_normal((num_rounds, batch_size, 3, *_SHAPE))
    features[:, :, 0] += rng.standard_normal(_SHAPE)
    theta, parts, rounds = np.zeros(_SHAPE), [], []
    for batch in features:
        w = _map(name, theta)
        scores = (batch * w).sum((2, 3))
        deltas = batch[:, 0] - batch[np.arange(batch_size), scores.argmax(1)]
        if not theta.any():  # all scores are equal: the wrong one is taken
            deltas = batch[:, 0] - batch[:, 1]
        deltas = deltas[np.abs(deltas).max((1, 2)) > 0]
        number = max(len(deltas), 1)
        factors = (1.0, 1 / batch_size, 1 / number, number**-0.5)
        eta = factors[_STEPS.index(step)]
        rounds.append((theta, deltas, eta))
        margins = (deltas * w).sum((1, 2))
        parts.append((deltas, margins, np.full(len(deltas), eta)))
        theta = theta + eta * deltas.sum(0)
    deltas, margin, steps = (np.concatenate(x) for x in zip(*parts, strict=True))
    return _Run(deltas, margin, steps, theta, rounds)


def _runs(effort: Effort) -> Iterator[tuple[str, _Run, np.random.Generator]]:
    rng = effort.generator(46)
    for _ in range(effort.trials(4, 250)):
        for name in _MAPS:
            for step in _STEPS:
                size = int(rng.integers(1, 25))
                yield name, _run(rng, name, size, step), rng


@proved(
    "DR-B10",
    "sum eta_t (L_i(W_{t-1}) - L_i(U)) <= F**(U) + F*(Theta_N) - sum eta_t <W, G_t>",
    wide.wide_certificate,
)
def _regret(certify: Certify, effort: Effort) -> Iterator[Found]:
    """Compare with 0, W_N, a random U, and W_N where it attains the bound."""
    trials: dict[str, list[Any]] = {}
    for name, run, rng in _runs(effort):
        last = _map(name, run.theta)
        largest = float((run.deltas * last).sum((1, 2)).max(initial=0))
        attaining = 1 / largest if largest > 0 else 1.0
        drawn = 10.0 ** rng.uniform(-2, 1)
        other = rng.standard_normal(_SHAPE) * drawn
        for factor, u, words in (
            (1.0, 0 * last, "U = 0"),
            (drawn, drawn * last, "U = W_N"),
            (drawn, other, "any U"),
            (attaining, attaining * last, "attaining"),
        ):
            margins = (run.deltas * u).sum((1, 2))
            given = (
                _filled(factor * run.margin),
                _filled(np.ones(len(run.margin))) > 0,
                _filled(factor * run.step),
                factor**2 * _conjugate(name, run.theta),
                _filled(np.maximum(0, 1 - margins)),
                _penalty(name, u),
            )
            trials.setdefault(f"{name}, {words}", []).append(given)

    def one(*given: Any) -> Any:
        margin, is_mistake, step, conjugate, losses, penalty = given
        return certify(
            margin,
            is_mistake,
            step_size=step,
            conjugate=conjugate,
            comparator_losses=losses,
            comparator_penalty=penalty,
        )

    yield from _found(one, trials)


def _filled(values: np.ndarray) -> np.ndarray:
    """Return numbers with zeros behind them: one program serves all runs."""
    return np.pad(np.asarray(values, float), (0, _MOST - len(values)))


def _found(one: Any, trials: dict[str, list[Any]]) -> Iterator[Found]:
    many = cheaply(jax.vmap(one))
    for case, given in trials.items():
        stacked = [jnp.asarray(np.stack(part)) for part in zip(*given, strict=True)]
        yield Found(many(*stacked), case)


@proved(
    "DR-B10: price",
    "B_t = sum of B_t^i one by one + eta_t sum <W^i - W_{t-1}, dPhi_i>",
    wide.price_of_staleness,
)
def _price(certify: Certify, effort: Effort) -> Iterator[Found]:
    trials: dict[str, list[Any]] = {}
    for name, run, _ in _runs(effort):
        for round_of in run.rounds:
            trials.setdefault(name, []).append(_priced(name, *round_of))

    def one(*given: Any) -> Any:
        return certify(*given[:4], step_size=given[4])

    yield from _found(one, trials)


def _priced(name: str, theta: np.ndarray, deltas: np.ndarray, eta: float) -> tuple:
    """Return what one round and its examples one by one cost."""
    stale = (deltas * _map(name, theta)).sum((1, 2))
    after = theta + eta * deltas.sum(0)
    bregman = _conjugate(name, after) - _conjugate(name, theta) - eta * stale.sum()
    parts, fresh, now = [], [], theta
    for delta in deltas:
        fresh.append(float((_map(name, now) * delta).sum()))
        later = now + eta * delta
        grown = _conjugate(name, later) - _conjugate(name, now)
        parts.append(grown - eta * fresh[-1])
        now = later
    return bregman, *(_filled(np.array(x)) for x in (parts, stale, fresh)), eta
