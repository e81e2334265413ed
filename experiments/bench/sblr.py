"""Classifying matrices, ours and scikit-learn side by side.

Three measurements, compilation apart:

* a grid of 900 points on 10 folds of BCI Competition II data set IV: fits per second of
  one `vmap`ped program (`selection.cross_validate`, rank 1) and of
  ``LogisticRegression(solver="saga")`` with the elastic net. The peer fits one by one
  in two processes of one thread each, on a sample of the same points and folds, with
  ``l1 = mu1``, ``l2 = mu2``. It has one weight per entry of the matrix, ours a product
  of two vectors: both choose strengths, but their objectives differ;
* sparse logistic regression at equal objective: seconds until F is within 1e-4,
  relatively, of the lowest known. Proximal Newton on a working set and FISTA with
  restarts stand beside the peers. The mean is taken off for all, which changes nothing
  but the offset;
* an iteration of Algorithm 2 on matrices of 1000 x 1000 over reading them once.
"""

import importlib.util
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.protocol import Experiment, Result, Say, Setup
from experiments.sblr.learners import sparse_newton
from experiments.sblr.table1 import matrices_of, stream_ratio
from experiments.sblr.tasks import CHUNK
from experiments.tables import markdown
from lowrank_jax import data, loops
from lowrank_jax.batch.sblr import fista
from lowrank_jax.estimators.classifier import selection
from lowrank_jax.streams.matrices import Labelled, label_matrices
from lowrank_jax.types import Learner

__all__ = ["EXPERIMENT"]

UNIT = 50.0  # microvolts
NUM_PEER_FITS = 60
PRECISION = 1e-4  # relative, of the objective
MAX_ITERATIONS = 10_000  # of FISTA
MAX_NEWTON = 200  # iterations of proximal Newton
PATIENCE = 5.0  # seconds that a peer's fit may take before the next is not tried
#: It penalises the offset too; a large constant makes that small.
_LIBLINEAR: dict[str, Any] = {"max_iter": 100_000, "intercept_scaling": 100.0}
SHARES = (0.1, 0.01)  # of the strength from which on all weights are 0


def run(setup: Setup) -> Result:
    """Measure, and say each figure as it comes."""
    say = setup.say
    path = data.find("bci2_iv/sp1s_aa_100hz.npz", setup.data_dir)
    read = data.read_matrices(path, split="train")
    assert read.y is not None
    x = np.asarray(read.x, np.float32) / np.float32(UNIT)
    points = selection.grid_points(selection.GRID)
    result: Result = {
        "device": jax.devices()[0].device_kind,
        "num_cores": os.cpu_count(),
    }
    result["grid"] = grid_speed(x, np.asarray(read.y), points, 10, NUM_PEER_FITS, say)
    result["sparse"] = [
        sparse_speed(x, np.asarray(read.y), share, say) for share in SHARES
    ]
    result["stream"] = stream_ratio(matrices_of(1000, 0), say)
    return result


def table(result: Result) -> str:
    """Write the three measurements as Markdown."""
    grid, stream = result["grid"], result["stream"]
    rows = []
    for case in result["sparse"]:
        for row in case["rows"]:
            is_there = row["seconds"] is not None
            seconds = f"{row['seconds']:.4f} s" if is_there else row["words"]
            ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
            rows.append([f"{case['share']:g}", row["name"], seconds, ratio])
    return (
        f"BCI Competition II data set IV, {result['num_cores']} cores, one run, "
        f"compilation apart. A grid of {grid['num_points']} points on "
        f"{grid['num_folds']} folds: {grid['fits_per_second']:.0f} fits per second in "
        "one program; scikit-learn's saga, fit by fit in two processes: "
        f"{grid['peer_fits_per_second']:.1f}; ratio {grid['ratio']:.1f}. An iteration "
        f"of Algorithm 2 on matrices of {stream['size']} x {stream['size']} takes "
        f"{stream['ratio']:.1f} times as long as reading them once.\n\n"
        + markdown(
            ["strength", "sparse LR to the same objective", "time", "ratio"], rows
        )
    )


def grid_speed(
    x: np.ndarray,
    y: np.ndarray,
    points: np.ndarray,
    num_folds: int,
    num_peer_fits: int,
    say: Say,
) -> dict[str, float]:
    """Compare fits per second over a grid and folds."""
    labelled, _ = label_matrices(x, y)
    weights = selection.fold_weights(y, num_folds=num_folds)
    say(f"{len(points)} points on {num_folds} folds:")
    few = points[: -(-CHUNK // num_folds)]  # at least a chunk: the same programs
    began = time.perf_counter()
    selection.cross_validate(labelled, few, weights, chunk_size=CHUNK, max_iterations=1)
    compile_seconds = time.perf_counter() - began
    began = time.perf_counter()
    _, sweeps = selection.cross_validate(labelled, points, weights, chunk_size=CHUNK)
    seconds = time.perf_counter() - began
    num_fits = len(points) * num_folds
    ours = num_fits / seconds
    say(
        f"  one program: {num_fits} fits in {seconds:.1f} s, {ours:.1f} per second, "
        f"{sweeps.mean():.0f} sweeps each   (compiled in {compile_seconds:.1f} s)"
    )
    peer, share = _peer_speed(x, y, points, weights, num_peer_fits)
    say(
        f"  scikit-learn saga, 2 processes: {peer:.2f} per second, "
        f"{100 * share:.0f} % stopped by their tolerance"
    )
    say(f"  ratio {ours / peer:.1f}")
    return {
        "num_points": len(points),
        "num_folds": num_folds,
        "num_fits": num_fits,
        "seconds": seconds,
        "compile_seconds": compile_seconds,
        "mean_sweeps": float(sweeps.mean()),
        "fits_per_second": ours,
        "peer_fits": num_peer_fits,
        "peer_fits_per_second": peer,
        "peer_converged": share,
        "ratio": ours / peer,
    }


def _peer_fit(x: np.ndarray, y: np.ndarray, l1: float, l2: float) -> bool:
    """Fit by saga in a process; return True if it came to its tolerance."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = _peer("saga", len(y), l1, l2, max_iter=100, tol=1e-3).fit(x, y)
    return bool(model.n_iter_.max() < 100)


def _peer(solver: str, num_matrices: int, l1: float, l2: float, **options: Any) -> Any:
    """Return scikit-learn's model of the mean loss with l1 |w| + l2 / 2 |w|^2.

    It weighs the sum of losses by C and shares one unit between both penalties.
    """
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(
        solver=solver,
        C=1 / (num_matrices * (l1 + l2)),
        l1_ratio=l1 / (l1 + l2),
        **options,
    )


def _peer_speed(
    x: np.ndarray,
    y: np.ndarray,
    points: np.ndarray,
    weights: np.ndarray,
    num_fits: int,
) -> tuple[float, float]:
    """Return fits per second in two processes, and the share that converged."""
    import joblib

    flat = x.reshape(len(x), -1)
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(points) * len(weights), num_fits, replace=False)
    given = []
    for fit in chosen:
        point, fold = divmod(int(fit), len(weights))
        l1, l2 = map(float, points[point, :2])
        is_train = weights[fold] > 0
        given.append((flat[is_train], y[is_train], l1, l2))
    with joblib.parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
        with joblib.Parallel() as pool:
            pool(joblib.delayed(_peer_fit)(*one) for one in given[:2])  # starts them
            began = time.perf_counter()
            found = pool(joblib.delayed(_peer_fit)(*one) for one in given)
            seconds = time.perf_counter() - began
    return num_fits / seconds, float(np.mean(found))


def sparse_speed(
    x: np.ndarray, y: np.ndarray, share: float, say: Say
) -> dict[str, Any]:
    """Compare seconds to an objective of sparse logistic regression.

    Args:
      x: (n, s, t) matrices.
      y: (n,) classes, 0 or 1.
      share: Strength, as a share of the least one that makes all weights 0.
      say: Takes one line of text.
    """
    x = x.astype(np.float64) - x.mean(0, dtype=np.float64)
    flat = x.reshape(len(x), -1)
    l1 = share * float(np.abs(flat.T @ (y - y.mean())).max() / len(y))
    with jax.enable_x64(True):
        exact, _ = label_matrices(x, y)
        solve = _descent(_newton, MAX_NEWTON, 1e-12)
        _, trace, number = solve(exact, jnp.float64(l1))
        lowest = float(np.asarray(trace.objective)[: int(number)].min())
        num_weights = int(np.asarray(trace.support)[int(number) - 1])
    precise = _peer("liblinear", len(y), l1, 0.0, **_LIBLINEAR, tol=1e-8).fit(flat, y)
    other = _objective(flat, y, l1, precise.coef_[0], float(precise.intercept_[0]))
    lowest = min(lowest, other)
    say(
        f"sparse logistic regression, {share:g} of the largest strength, {num_weights} "
        f"weights, seconds to 1 + {PRECISION:g} times the lowest F {lowest:.6f}:"
    )
    goal = (1 + PRECISION) * lowest
    labelled, _ = label_matrices(x.astype(np.float32), y)
    rows = []
    for name, make, most in (
        ("proximal Newton", _newton, MAX_NEWTON),
        ("FISTA with restarts", _fista, MAX_ITERATIONS),
    ):
        rows.append(_ours(f"{name}, float32", make, most, labelled, l1, goal))
        with jax.enable_x64(True):
            rows.append(_ours(f"{name}, float64", make, most, exact, l1, goal))
    reached = [row["seconds"] for row in rows if row["seconds"] is not None]
    for solver in ("saga", "liblinear"):
        rows.append(_peer_to_goal(solver, flat, y, l1, goal))
    rows.append(_skglm_to_goal(flat, y, l1, goal))
    for row in rows:
        if row["seconds"] is None:
            say(f"  {row['name']:36} {row['words']}")
            continue
        ratio = ""
        if reached:  # ratios are to the best of ours
            row["ratio"] = row["seconds"] / min(reached)
            ratio = f"   ratio {row['ratio']:6.2f}"
        say(f"  {row['name']:36} {row['seconds']:9.4f} s{ratio}   ({row['words']})")
    return {"share": share, "l1": l1, "objective": lowest, "rows": rows}


def _newton(l1: jax.Array, tolerance: float) -> Learner:
    return sparse_newton.learner(l1=l1, tolerance=tolerance)


def _fista(l1: jax.Array, tolerance: float) -> Learner:
    return fista.learner(l1=l1, restart=True, tolerance=tolerance)


def _descent(
    make: Callable[[jax.Array, float], Learner], max_iterations: int, tolerance: float
) -> Any:
    """Jit a learner of ours, from its start on."""

    @jax.jit
    def descend(labelled: Labelled, l1: jax.Array) -> Any:
        learner = make(l1, tolerance)
        state = learner.init(jax.random.key(0), labelled)
        return loops.converge(learner, state, labelled, max_iterations=max_iterations)

    return descend


def _ours(
    name: str,
    make: Callable[[jax.Array, float], Learner],
    max_iterations: int,
    labelled: Labelled,
    l1: float,
    goal: float,
) -> dict[str, Any]:
    strength = jnp.asarray(l1, labelled.x.dtype)
    _, trace, _ = _descent(make, max_iterations, 0.0)(labelled, strength)
    is_there = np.asarray(trace.objective, np.float64) <= goal
    is_there &= np.asarray(trace.objective) > 0  # zeros after an early end
    if not is_there.any():
        return {"name": name, "seconds": None, "words": "does not reach it"}
    number = int(is_there.argmax()) + 1
    descend = _descent(make, number, 0.0)
    began = time.perf_counter()
    jax.block_until_ready(descend(labelled, strength))
    compile_seconds = time.perf_counter() - began
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        jax.block_until_ready(descend(labelled, strength))
        seconds.append(time.perf_counter() - began)
    words = f"{number} iterations, compiled in {compile_seconds:.1f} s"
    return {"name": name, "seconds": float(np.median(seconds)), "words": words}


def _objective(
    flat: np.ndarray, y: np.ndarray, l1: float, weights: np.ndarray, offset: float
) -> float:
    margins = np.where(y == 1, 1, -1) * (flat @ weights + offset)
    return float(np.logaddexp(0, -margins).mean() + l1 * np.abs(weights).sum())


def _first_to_goal(
    name: str, fits: list[tuple[str, Callable[[], Any]]], is_good: Callable[[Any], bool]
) -> dict[str, Any]:
    """Return the seconds of the first fit, of ever more work, that is good enough."""
    for words, fit in fits:
        began = time.perf_counter()
        model = fit()
        seconds = time.perf_counter() - began
        if is_good(model):
            return {"name": name, "seconds": seconds, "words": words}
        if seconds > PATIENCE:
            break
    words = f"does not reach it in {seconds:.0f} s"
    return {"name": name, "seconds": None, "words": words}


def _peer_to_goal(
    solver: str, flat: np.ndarray, y: np.ndarray, l1: float, goal: float
) -> dict[str, Any]:
    """Raise the epochs of saga, or lower the tolerance of liblinear, to the goal."""
    if solver == "saga":
        plans = [
            (f"{number} epochs", {"max_iter": number, "tol": 0.0})
            for number in np.unique(np.geomspace(1, 20_000, 40).astype(int)).tolist()
        ]
    else:
        plans = [
            (
                f"tol {tol:.0e}",
                _LIBLINEAR | {"tol": tol},
            )
            for tol in np.geomspace(1, 1e-7, 15).tolist()
        ]

    def make(options: dict[str, Any]) -> Callable[[], Any]:
        def fit() -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it is told to stop early
                return _peer(solver, len(y), l1, 0.0, **options).fit(flat, y)

        return fit

    def is_good(model: Any) -> bool:
        found = _objective(flat, y, l1, model.coef_[0], float(model.intercept_[0]))
        return found <= goal

    fits = [(words, make(options)) for words, options in plans]
    fits[0][1]()  # what is loaded at the first call
    return _first_to_goal(f"scikit-learn {solver}", fits, is_good)


def _skglm_to_goal(
    flat: np.ndarray, y: np.ndarray, l1: float, goal: float
) -> dict[str, Any]:
    if importlib.util.find_spec("skglm") is None:
        words = "not installed: pip install 'lowrank_jax[peers]'"
        return {"name": "skglm", "seconds": None, "words": words}
    from skglm import SparseLogisticRegression

    columns = np.asfortranarray(flat)  # as it likes them

    def make(tol: float) -> Callable[[], Any]:
        options = {"alpha": l1, "tol": tol, "max_iter": 200, "max_epochs": 5000}
        return lambda: SparseLogisticRegression(**options).fit(columns, y)

    def is_good(model: Any) -> bool:
        offset = float(np.ravel(model.intercept_)[0])
        return _objective(flat, y, l1, np.ravel(model.coef_), offset) <= goal

    fits = [(f"tol {tol:.0e}", make(tol)) for tol in np.geomspace(1e-1, 1e-9, 17)]
    fits[-1][1]()  # compiles; a loose tolerance would end before it begins
    return _first_to_goal("skglm", fits, is_good)


EXPERIMENT = Experiment(
    "bench-sblr",
    "Speed beside scikit-learn",
    "a stand-in",
    "BCI Competition II data set IV, and made matrices",
    run,
    table,
    needs={"sklearn": "scikit-learn"},
)
