"""Pictures of a classifier of matrices, drawn into your own axes by matplotlib."""

from typing import TYPE_CHECKING, Any

import numpy as np

from lowrank_jax.checks import InputError

if TYPE_CHECKING:
    from lowrank_jax.estimators.classifier import (
        BilinearClassifier,
        BilinearClassifierCV,
    )

__all__ = ["convergence", "path", "patterns"]
__dir__ = __all__.copy


def patterns(model: "BilinearClassifier", ax: Any = None, info: Any = None) -> Any:
    """Draw the pattern over rows of each component, and its course over columns.

    The row pattern is the forward model `patterns_` seen through the course: what EEG
    people read. The course is the weight of each column.

    Args:
      model: Fitted classifier.
      ax: Array of axes (num_components, 2), or two axes for one component. None makes a
        figure.
      info: ``mne.Info`` with the places of the rows. The row pattern is then drawn as a
        topography, which needs MNE. None draws bars.

    Returns:
      The axes, (num_components, 2).
    """
    rows, columns, titles = _components(model)
    axes = _axes(ax, len(rows), 2)
    names = model.classifier_.row_names
    for (left, right), u, v, title in zip(axes, rows, columns, titles, strict=True):
        if info is None:
            left.bar(np.arange(u.size), u)
            left.set_ylabel("pattern")
            if names:
                left.set_xticks(np.arange(u.size), names, rotation=90)
            else:
                left.set_xlabel("row")
        else:
            _topography(u, info, left)
        left.set_title(title)
        right.plot(np.arange(v.size), v)
        right.axhline(0, color="grey", linewidth=0.6)
        right.set(xlabel="column", ylabel="weight")
    return axes


def _components(model: "BilinearClassifier") -> tuple[list, list, list]:
    """Return row patterns, courses and titles, the strongest component first."""
    rows, columns, titles = [], [], []
    params, found = model.params_, model.patterns_
    for c, label in enumerate(model.classifier_.pattern_classes.tolist()):
        left, right = params.left[c], params.right[c]
        sizes = np.linalg.norm(left, axis=0) * np.linalg.norm(right, axis=0)
        for place, j in enumerate(np.argsort(-sizes, kind="stable").tolist()):
            v = right[:, j]
            v = v * (-1 if v[np.abs(v).argmax()] < 0 else 1)
            rows.append(found[c] @ v / max(float(v @ v), np.finfo(v.dtype).tiny))
            columns.append(v)
            titles.append(f"class {label}, component {place + 1}")
    return rows, columns, titles


def _topography(values: np.ndarray, info: Any, axes: Any) -> None:
    try:
        import mne
    except ImportError as error:
        raise InputError(
            "`info` asks for topographies, which need MNE: pip install mne, or leave "
            "`info` out."
        ) from error
    if len(info["ch_names"]) != values.size:
        raise InputError(
            f"`info` must have {values.size} channels as the matrices have rows, got "
            f"{len(info['ch_names'])}."
        )
    mne.viz.plot_topomap(values, info, axes=axes, show=False)


def path(model: "BilinearClassifierCV", ax: Any = None) -> Any:
    """Draw the cross-validated score against the strength, one line per rank.

    Args:
      model: Fitted `BilinearClassifierCV`.
      ax: Axes; None makes a figure.

    Returns:
      The axes.
    """
    if "selection_" not in vars(model):
        raise InputError(
            "`model` must be a fitted BilinearClassifierCV, got "
            f"{type(model).__name__}: it has no cross-validation to draw."
        )
    axes = _axes(ax, 1, 1)[0, 0]
    name = "auc" if model.get_params()["scoring"] == "roc_auc" else "accuracy"
    rows = model.cv_results_
    # The strength that varies: the squares, or the l1 norms where they are fixed.
    along = "mu2" if len({row["mu2"] for row in rows}) > 1 else "mu1"
    for rank in sorted({row["rank"] for row in rows}):
        here = [row for row in rows if row["rank"] == rank]
        strengths = sorted({row[along] for row in here})
        best = [max(r[name] for r in here if r[along] == s) for s in strengths]
        axes.plot(strengths, best, marker="o", label=f"rank {rank}")
    axes.set_xscale("symlog", linthresh=1e-4)
    axes.axvline(model.best_params_[along], color="grey", linestyle=":")
    axes.set(xlabel=f"{along} (dotted: chosen)", ylabel=f"cross-validated {name}")
    axes.legend()
    return axes


def convergence(model: "BilinearClassifier", ax: Any = None) -> Any:
    """Draw the objective above its last value, over the sweeps.

    Args:
      model: Classifier that was fitted in this process: a loaded model has no history.
      ax: Axes; None makes a figure.

    Returns:
      The axes.
    """
    if "history_" not in vars(model):
        raise InputError(
            "`model` has no history: call fit, a loaded model does not keep it."
        )
    axes = _axes(ax, 1, 1)[0, 0]
    for trace in model.history_:
        above = np.asarray(trace.objective - trace.objective[-1], np.float64)
        sweeps = np.arange(1, above.size + 1)
        axes.plot(sweeps, np.where(above > 0, above, np.nan), marker=".")
    state = "converged" if model.converged_ else "not converged"
    axes.set_yscale("log")
    axes.set(xlabel="sweep", ylabel="objective above its last value", title=state)
    return axes


def _axes(ax: Any, num_rows: int, num_columns: int) -> np.ndarray:
    """Return axes as an array, of a new figure if none are given."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise InputError(
                "Pictures need matplotlib: pip install 'lowrank_jax[cli]'."
            ) from error
        size = (4.5 * num_columns, 2.8 * num_rows)
        _, ax = pyplot.subplots(
            num_rows, num_columns, figsize=size, squeeze=False, layout="constrained"
        )
    found = np.asarray(ax, object)
    if found.size != num_rows * num_columns:
        raise InputError(
            f"`ax` must be {num_rows * num_columns} axes, got {found.size}."
        )
    return found.reshape(num_rows, num_columns)
