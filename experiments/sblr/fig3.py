r"""SBLR-E2: convergence of Algorithm 2 against its true limit (Figure 3).

The paper takes its last iterate for the limit and reads superlinear convergence off the
end of the curve, where the distance must fall to 0 whatever the algorithm does. Here
the limit is found to machine precision: Newton's method on the fixed-point equation of
a sweep, on the support that the run has settled on. The contraction towards it is
predicted beforehand, by the spectral radius of the Jacobian of a sweep (DR-S6).

BCI Competition II data set IV, in units of 50 microvolts, stands in for data set IVb;
rank 1; float64; the paper's start. Runs:

* without penalties, 600 iterations and ten times as many: the norm grows, and nothing
  says that a limit exists (SBLR-A4.1; where the weights separate the classes none
  does);
* mu1 = nu1 = 0.01, mu2 = nu2 = 0.5, the paper's strengths: on these data they leave no
  weight other than zero;
* a tenth of these strengths, with the steps of the paper (backtracking) and with the
  tight constants (DR-S1), whose fixed point has one Jacobian.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from experiments.intervals import stated
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import markdown
from lowrank_jax import data, streams
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.linalg import penalties
from lowrank_jax.models import bilinear_logit, logistic
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.sblr import limits as theory

__all__ = ["EXPERIMENT", "converge_traced", "predicted_rate", "true_limit"]

UNIT = 50.0  # microvolts
PAPER = (0.01, 0.5)  # mu1 = nu1, mu2 = nu2
WEAKER = (0.001, 0.05)
NUM_RECENT = 60  # sweeps whose constants the prediction for backtracking takes


def run(setup: Setup) -> Result:
    """Run all settings; small has fewer iterations with penalties."""
    say = setup.say
    path = data.find("bci2_iv/sp1s_aa_100hz.npz", setup.data_dir)
    read = data.read_matrices(path, split="train")
    num_plain, num_long = 600, 10_000 if setup.is_full else 3_000
    result: Result = {
        "experiment": "sblr-fig3",
        "scale": setup.scale,
        "data": "BCI Competition II data set IV, stand-in for BCI III data set IVb",
        "unit_microvolts": UNIT,
    }
    with jax.enable_x64(True):
        assert read.y is not None
        labelled, _ = streams.matrices.label_matrices(
            np.asarray(read.x, np.float64) / UNIT, read.y
        )
        result["plain"] = _plain(labelled, num_plain)
        plain = result["plain"]
        say(
            f"no penalty: |W| {plain['norm'][0]:.2f} -> {plain['norm'][-1]:.2f} after "
            f"{plain['k'][-1]} iterations, F {plain['objective'][-1]:.4f}"
        )
        say(plain["assumptions"])
        result["paper_strengths"] = _paper_strengths(labelled)
        say(result["paper_strengths"]["words"])
        result["runs"], limit = [], None
        for step in ("backtracking", "tight"):
            found, limit = _penalised(labelled, step, num_long, limit)
            result["runs"].append(found)
            say(
                f"{step}: rate observed {found['observed_rate']:.6f}, predicted "
                f"{found['predicted_rate']:.6f}; distance to the limit at the end "
                f"{found['to_limit'][-1]:.1e}"
            )
    return result


def converge_traced(
    labelled: Labelled, num_iterations: int, **options: Any
) -> tuple[bcpd.State, np.ndarray, bcpd.Info]:
    """Run so many sweeps, whatever the stopping rule says.

    Returns:
      The last state, the iterates (num_iterations + 1, size) as vectors and the trace.
    """
    learner = bcpd.learner(**options)

    @jax.jit
    def descend(labelled: Labelled) -> tuple[bcpd.State, jax.Array, Any]:
        def one(state: bcpd.State, _: None) -> tuple[bcpd.State, Any]:
            state, info = learner.update(state, labelled)
            return state, (ravel_pytree(state.params)[0], info)

        start = learner.init(jax.random.key(0), labelled)
        state, (vectors, trace) = lax.scan(one, start, None, length=num_iterations)
        first = ravel_pytree(start.params)[0][None]
        return state, jnp.concatenate([first, vectors]), trace

    state, vectors, trace = descend(labelled)
    return state, np.asarray(vectors), jax.tree.map(np.asarray, trace)


def true_limit(
    state: bcpd.State, labelled: Labelled, l1: float, l2: float, *, num_steps: int = 8
) -> Params:
    """Return the limit of a run.

    Newton's method on x = sweep(x), on the entries that are not 0 at the end of the
    run; the stationarity of what comes out is for the caller to look at.
    """
    constants = float(state.left_constant), float(state.right_constant)
    sweep, vector = _sweep(state.params, labelled, l1, l2, constants)
    jacobian = jax.jit(jax.jacfwd(sweep))
    once = jax.jit(sweep)
    for _ in range(num_steps):
        slope = np.eye(vector.size) - np.asarray(jacobian(vector))
        vector = vector + np.linalg.solve(slope, np.asarray(once(vector) - vector))
    flat, restore = ravel_pytree(state.params)
    is_free = np.asarray(flat) != 0
    is_free[flat.size - state.params.bias.size :] = True
    whole = np.zeros(flat.size)
    whole[is_free] = np.asarray(vector)
    return restore(jnp.asarray(whole))


def predicted_rate(
    limit: Params,
    labelled: Labelled,
    l1: float,
    l2: float,
    constants: list[tuple[float, float]],
) -> float:
    """Return the contraction per iteration at the limit (DR-S6).

    Args:
      limit: Limit of the run.
      labelled: The data.
      l1: mu1 = nu1.
      l2: mu2 = nu2.
      constants: L_u and L_v of consecutive sweeps. Backtracking changes them in every
        sweep; the rate is then the radius of the product of the sweeps' Jacobians, to
        the power 1 / number of sweeps.
    """
    if len(constants) == 1:
        sweep, vector = _sweep(limit, labelled, l1, l2, constants[0])
        return theory.sweep_jacobian_rate(sweep, vector)

    @jax.jit
    def jacobian(pair: jax.Array) -> jax.Array:
        with jax.ensure_compile_time_eval():  # the limit's support
            sweep, vector = _sweep(limit, labelled, l1, l2, (pair[0], pair[1]))
        return jax.jacfwd(sweep)(vector)

    found = [np.asarray(jacobian(np.asarray(pair))) for pair in constants]
    product = np.linalg.multi_dot(found[::-1])
    radius = float(np.abs(np.linalg.eigvals(product)).max())
    return radius ** (1 / len(constants))


def _sweep(
    params: Params,
    labelled: Labelled,
    l1: float,
    l2: float,
    constants: tuple[float | jax.Array, float | jax.Array],
) -> tuple[Callable[[jax.Array], jax.Array], jax.Array]:
    penalty = penalties.elastic_net(l1=l1, l2=l2)
    return theory.support_sweep(
        params,
        labelled,
        penalty,
        penalty,
        left_constant=constants[0],
        right_constant=constants[1],
    )


def objective(params: Params, labelled: Labelled, l1: float, l2: float) -> float:
    """Return F."""
    penalty = penalties.elastic_net(l1=l1, l2=l2)
    scores = jax.jit(bilinear_logit.scores)(params, labelled.x)
    loss = logistic.loss(scores, labelled.targets, labelled.weights)
    return float(loss + penalty.value(params.left) + penalty.value(params.right))


def _penalised(
    labelled: Labelled, step: Any, num_iterations: int, limit: Params | None
) -> tuple[dict[str, Any], Params]:
    """Run with a penalty; without a limit the run finds its own."""
    l1, l2 = WEAKER
    strengths: dict[str, Any] = {"mu1": l1, "mu2": l2, "nu1": l1, "nu2": l2}
    state, vectors, trace = converge_traced(
        labelled, num_iterations, step=step, **strengths
    )
    if limit is None:
        limit = true_limit(state, labelled, l1, l2)
    at = bcpd.learner(start=limit, step=step, **strengths)
    still = jax.jit(at.update)(at.init(jax.random.key(0), labelled), labelled)[1]
    if step == "backtracking":
        recent = trace.left_constant[-NUM_RECENT:], trace.right_constant[-NUM_RECENT:]
        constants = [(float(a), float(b)) for a, b in zip(*recent, strict=True)]
    else:
        constants = [(float(still.left_constant), float(still.right_constant))]
    lowest = objective(limit, labelled, l1, l2)
    to_limit = np.linalg.norm(vectors - np.asarray(ravel_pytree(limit)[0]), axis=1)
    to_last = np.linalg.norm(vectors - vectors[-1], axis=1)
    k = _places(num_iterations)
    support = trace.left_support + trace.right_support
    settled = int(np.flatnonzero(np.append(True, support[:-1] != support[-1]))[-1])
    found = {
        "step": step,
        "l1": l1,
        "l2": l2,
        "iterations": num_iterations,
        "k": k.tolist(),
        "gap": (trace.objective[np.maximum(k - 1, 0)] - lowest).tolist(),
        "to_limit": to_limit[k].tolist(),
        "to_last": to_last[k].tolist(),
        "objective": lowest,
        "stationarity_at_limit": float(still.stationarity),
        "support": [int(trace.left_support[-1]), int(trace.right_support[-1])],
        "support_settled_at": settled,
        "predicted_rate": predicted_rate(limit, labelled, l1, l2, constants),
        # To 1e-9: below, the rounding of the iterates themselves shows.
        "observed_rate": theory.observed_rate(to_limit, floor=1e-9 * to_limit.max()),
        "late_rate_to_last": _late_rate(to_last),
        "constants": constants[-1],
    }
    return found, limit


def _late_rate(distances: np.ndarray) -> float:
    """Return the contraction per iteration over the last hundredth but one step."""
    tail = distances[-max(len(distances) // 100, 3) : -1]
    return float((tail[-1] / tail[0]) ** (1 / (len(tail) - 1)))


def _paper_strengths(labelled: Labelled) -> dict[str, Any]:
    l1, l2 = PAPER
    strengths = {"mu1": l1, "mu2": l2, "nu1": l1, "nu2": l2}
    state, _, trace = converge_traced(labelled, 50, **strengths)
    num_left = int((np.asarray(state.params.left) != 0).sum())
    is_zero = num_left == 0
    words = (
        f"mu1 = nu1 = {l1}, mu2 = nu2 = {l2} leave no weight other than zero here"
        if is_zero
        else f"mu1 = nu1 = {l1}, mu2 = nu2 = {l2} leave {num_left} channels"
    )
    return {
        "l1": l1,
        "l2": l2,
        "is_zero": is_zero,
        "stationarity": float(trace.stationarity[-1]),
        "words": words,
    }


def _plain(labelled: Labelled, num_iterations: int) -> dict[str, Any]:
    # Ten times as long, to see whether the last iterate of the paper was a limit.
    state, vectors, trace = converge_traced(labelled, 10 * num_iterations)
    found = theory.assumptions(
        state.params, labelled, left_strength=0.0, right_strength=0.0
    )
    k = _places(10 * num_iterations)
    norms = np.linalg.norm(vectors, axis=1)
    to_last = np.linalg.norm(vectors - vectors[num_iterations], axis=1)
    return {
        "k": k.tolist(),
        "norm": norms[k].tolist(),
        "objective": trace.objective[np.maximum(k - 1, 0)].tolist(),
        "last": num_iterations,
        "norm_at_last": float(norms[num_iterations]),
        "to_last": to_last[k].tolist(),
        "is_separated": found.is_separated,
        "hold": found.hold,
        "assumptions": found.words,
    }


def _places(num_iterations: int) -> np.ndarray:
    """Return some 300 iterations to keep, dense at the start and spread to the end."""
    early = np.geomspace(1, num_iterations, 120)
    even = np.linspace(0, num_iterations, 200)
    return np.unique(np.concatenate([early, even]).astype(int))


def table(result: Result) -> str:
    """Write observed and predicted rates as Markdown."""
    plain = result["plain"]
    rows = [
        [
            row["step"],
            f"{row['observed_rate']:.6f}",
            f"{row['predicted_rate']:.6f}",
            f"{row['late_rate_to_last']:.4f}",
            f"{row['stationarity_at_limit']:.0e}",
            f"{row['support'][0]} + {row['support'][1]}",
        ]
        for row in result["runs"]
    ]
    head = ["steps", "observed, to the limit", "predicted (DR-S6)"]
    head += ["to the last iterate, at its end", "stationarity at the limit", "support"]
    return (
        f"{result['data']}, rank 1, float64. The paper takes the last iterate for the "
        "limit; ours is exact. Contraction per iteration:\n\n"
        + markdown(head, rows)
        + f"\n{result['paper_strengths']['words'].capitalize()}; the runs above have "
        f"mu1 = nu1 = {WEAKER[0]:g}, mu2 = nu2 = {WEAKER[1]:g}. Without penalties the "
        f"norm is {plain['norm_at_last']:.2g} after {plain['last']} iterations and "
        f"{plain['norm'][-1]:.2g} after {plain['k'][-1]}. {plain['assumptions']}\n"
    )


def picture(figure: Any, result: Result) -> None:
    """Draw the gap, the distances with the predicted rate, and the run without end."""
    figure.set_size_inches(12.0, 3.8)
    (left, middle, right) = figure.subplots(1, 3)
    colours = {"tight": "C0", "backtracking": "C1"}
    for row in result["runs"]:
        k = np.array(row["k"])
        gap = np.array(row["gap"])
        is_above = gap > 1e-14
        colour = colours[row["step"]]
        left.semilogy(k[is_above], gap[is_above], color=colour, label=row["step"])
        distances = np.array(row["to_limit"])
        middle.semilogy(k, distances, color=colour, label=f"{row['step']}, to limit")
        middle.semilogy(
            k[:-1],
            row["to_last"][:-1],
            color=colour,
            linestyle=":",
            label=f"{row['step']}, to last iterate",
        )
        _draw_rate(middle, k, distances, row["predicted_rate"], colour)
    left.set_title("objective above its limit", loc="left")
    left.set_ylabel(r"$F^k - F^*$")
    middle.set_title("distance", loc="left")
    middle.set_ylabel(r"$\|W^k - W^*\|$")
    for axes in (left, middle):
        axes.set_xlabel("iteration k")
        axes.legend(frameon=False, fontsize=8)
        axes.grid(alpha=0.3)

    plain = result["plain"]
    k, last = np.array(plain["k"]), plain["last"]
    right.loglog(k[1:], plain["norm"][1:], color="C3", label=r"$\|W^k\|$")
    right.loglog(k[1:], plain["objective"][1:], color="C2", label=r"$F^k$")
    is_before = (k > 0) & (k < last)
    right.loglog(
        k[is_before],
        np.array(plain["to_last"])[is_before],
        color="0.4",
        linestyle=":",
        label=rf"$\|W^k - W^{{{last}}}\|$, as in the paper",
    )
    right.axvline(last, color="0.7", linewidth=1)
    right.set_xlabel("iteration k")
    right.set_title("no penalty: the norm grows", loc="left")
    right.legend(frameon=False, fontsize=8)
    right.grid(alpha=0.3)
    figure.suptitle("Convergence of Algorithm 2 (SBLR Figure 3)", x=0.01, ha="left")


def _draw_rate(
    axes: Any, k: np.ndarray, distances: np.ndarray, rate: float, colour: str
) -> None:
    """Draw the predicted line a little above the later part of the curve."""
    is_shown = (distances > 1e-12) & (k >= k[-1] // 4)
    if not is_shown.any():
        return
    shown = k[is_shown]
    line = 4 * distances[is_shown][0] * rate ** (shown - shown[0])
    label = f"predicted rate {rate:.5f}"
    axes.semilogy(shown, line, "--", color=colour, linewidth=1, label=label)


def verdicts(result: Result) -> list[Verdict]:
    """Decide how the runs approach their limit: the last tenth of the iterations."""
    found = []
    for run in result["runs"]:
        seen, predicted = run["observed_rate"], run["predicted_rate"]
        text = f"contraction {seen:.6f}, {predicted:.6f} predicted"
        name = run["step"]
        found += [
            stated(f"{name}: convergence is superlinear", seen < 0.5, text),
            stated(
                f"{name}: the rate of DR-S6 within a tenth of its distance to 1",
                abs(seen - predicted) < 0.1 * (1 - predicted),
                text,
            ),
        ]
    return found


EXPERIMENT = Experiment(
    "sblr-fig3",
    "SBLR Figure 3: convergence against the true limit, and its predicted rate",
    "a stand-in",
    "BCI Competition II data set IV (stand-in for BCI III data set IVb)",
    run,
    table,
    picture,
    verdicts=verdicts,
)
