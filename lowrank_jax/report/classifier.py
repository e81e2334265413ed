"""Pictures of a classifier of matrices, as PNG: weights, convergence, strengths.

Matplotlib is imported when a picture is drawn; `can_draw` tells if it is there.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lowrank_jax.report.page import can_draw, draw_png

if TYPE_CHECKING:
    from lowrank_jax.estimators.classifier import Classifier, Fit, StrengthPath

__all__ = ["can_draw", "convergence", "path", "patterns"]
__dir__ = __all__.copy

_UP, _DOWN, _GREY = "#1d5fa8", "#c8553d", "#8a8a8a"
_MAP = "RdBu"  # blue is positive, as in the bars
_MOST_ROWS = 12  # patterns in one picture
_MOST_IMAGES = 24
_MOST_NAMES = 64  # named bars in one chart


def patterns(model: "Classifier", *, is_image: bool = False) -> bytes:
    r"""Draw the weights, component by component.

    Args:
      model: The classifier.
      is_image: Draw :math:`W_c` and each :math:`U_j V_j^\top` as images; else each
        component as a bar a row (channel) and a line over the columns (times).
    """
    return _draw_images(model) if is_image else _draw_courses(model)


def _components(model: "Classifier") -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Title, row pattern and column course of each component, strongest first.

    The sign of a component is free; the largest weight over columns is made positive.
    """
    found = []
    for c, name in enumerate(model.pattern_classes.tolist()):
        left, right = (np.asarray(part[c]) for part in model.params[:2])
        sizes = np.linalg.norm(left, axis=0) * np.linalg.norm(right, axis=0)
        for place, j in enumerate(np.argsort(-sizes, kind="stable").tolist()):
            u, v = left[:, j], right[:, j]
            sign = -1.0 if v[np.abs(v).argmax()] < 0 else 1.0
            title = f"{_against(model, name)}, component {place + 1} of {model.rank}"
            found.append((title, sign * u, sign * v))
    return found


def _against(model: "Classifier", name: Any) -> str:
    classes = model.classes.tolist()
    if len(classes) == 2:
        return f"class {name} against {classes[0]}"
    if model.is_one_vs_all:
        return f"class {name} against the others"
    return f"class {name} against {classes[-1]}"


def _draw_courses(model: "Classifier") -> bytes:
    every = _components(model)
    shown = every[:_MOST_ROWS]
    height, _ = model.shape
    names = model.row_names if 0 < height <= _MOST_NAMES else ()

    def draw(figure: Any) -> None:
        grid = figure.subplots(
            len(shown), 2, squeeze=False, gridspec_kw={"width_ratios": [1.35, 1]}
        )
        for (title, u, v), (bars, course) in zip(shown, grid, strict=True):
            colours = np.where(u >= 0, _UP, _DOWN)
            bars.bar(np.arange(u.size), u, 0.8, color=colours)
            bars.axhline(0, color="#444444", linewidth=0.6)
            bars.set_title(title, loc="left", fontsize=9, fontweight="bold")
            bars.set_xlim(-0.8, u.size - 0.2)
            bars.grid(axis="x", visible=False)
            bars.set_ylabel(f"row weight\n({(u != 0).sum()} of {u.size} not 0)")
            _limit(bars, u)
            if names:
                bars.set_xticks(np.arange(u.size), names, fontsize=_small(u.size))
                bars.tick_params(axis="x", rotation=90 if u.size > 12 else 0, length=0)
                for label, weight in zip(bars.get_xticklabels(), u, strict=True):
                    label.set_color("#222222" if weight else "#b5b5b5")
            else:
                bars.set_xlabel("row")
                bars.xaxis.get_major_locator().set_params(integer=True)
            course.axhline(0, color="#444444", linewidth=0.6)
            course.fill_between(
                np.arange(v.size), v, color=_UP, alpha=0.12, linewidth=0
            )
            mark = "." if v.size <= 128 else ""
            course.plot(np.arange(v.size), v, marker=mark, markersize=3, color=_UP)
            course.set_ylabel(f"column weight\n({(v != 0).sum()} of {v.size} not 0)")
            course.set_xlim(-0.5, v.size - 0.5)
            course.set_xlabel("column (time)")
            course.xaxis.get_major_locator().set_params(integer=True)
            _limit(course, v)
        if len(shown) < len(every):
            figure.suptitle(
                f"the first {len(shown)} of {len(every)} components", fontsize=9
            )

    return draw_png(draw, (9.5, 2.5 * len(shown) + 0.1))


def _draw_images(model: "Classifier") -> bytes:
    """Draw each class as an image, with its components if there are several."""
    num_parts = 1 + (model.rank if model.rank > 1 else 0)
    num_classes = len(model.pattern_classes)
    shown = min(num_classes, max(1, _MOST_IMAGES // num_parts))
    num_columns = num_parts if num_parts > 1 else min(shown, 5)
    num_rows = -(-shown * num_parts // num_columns)
    height, width = model.shape
    tall = 2.05 * min(max(height / width, 0.4), 2.5) + 0.3

    def draw(figure: Any) -> None:
        grid = figure.subplots(num_rows, num_columns, squeeze=False).reshape(-1)
        for axes in grid:
            axes.axis("off")
        panels = iter(grid)
        for c in range(shown):
            left, right = model.params.left[c], model.params.right[c]
            sizes = np.linalg.norm(left, axis=0) * np.linalg.norm(right, axis=0)
            name = model.pattern_classes.tolist()[c]
            images = [(f"class {name}", model.weights[c])]
            for place, j in enumerate(np.argsort(-sizes, kind="stable").tolist()):
                if num_parts > 1:
                    image = np.outer(left[:, j], right[:, j])
                    images.append((f"component {place + 1}", image))
            limit = max(np.abs(model.weights[c]).max(), 1e-30)
            for title, image in images:
                axes = next(panels)
                drawn = axes.imshow(image, _MAP, vmin=-limit, vmax=limit)
                axes.axis("on")
                axes.grid(visible=False)
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(True)
                axes.spines[:].set_color("#cccccc")
                axes.set_title(title, fontsize=9, loc="left")
            if num_parts == 1:
                axes.set_title(
                    f"\u00b1{limit:.2g}", fontsize=8, loc="right", color=_GREY
                )
                continue
            bar = figure.colorbar(drawn, ax=axes, shrink=0.9, aspect=14, format="%.2g")
            bar.set_ticks([-limit, 0, limit])
            bar.outline.set_visible(False)
            bar.ax.tick_params(labelsize=7, length=2)
        note = "weights of a bright pixel: blue speaks for the class, red against it"
        if shown < num_classes:
            note += f" ({shown} of {num_classes} classes)"
        figure.suptitle(note, fontsize=9, color="#444444")

    return draw_png(draw, (max(2.2 * num_columns, 4.6), tall * num_rows + 0.4))


def convergence(done: "Fit") -> bytes:
    """Draw objective, change, stationarity and step constants over the iterations."""
    tolerance = float(done.classifier.settings["tolerance"])
    many = len(done.traces) > 1

    def draw(figure: Any) -> None:
        (objective, change), (stationarity, constants) = figure.subplots(
            2, 2, sharex=True
        )
        colours = _colours(len(done.traces))
        for trace, colour in zip(done.traces, colours, strict=True):
            k = np.arange(1, len(trace.objective) + 1)
            look: dict[str, Any] = {"color": colour, "linewidth": 1.0 if many else 1.6}
            if k.size == 1:
                look["marker"] = "."
            above = trace.objective - trace.objective[-1]
            objective.plot(k, np.where(above > 0, above, np.nan), **look)
            change.plot(k, trace.change, **look)
            stationarity.plot(k, trace.stationarity, **look)
            constants.plot(k, trace.left_constant, **look)
            right = look if many else look | {"color": _DOWN}
            style = "--" if many else "-"
            constants.plot(k, trace.right_constant, linestyle=style, **right)
        change.axhline(tolerance, color=_GREY, linestyle=":", linewidth=1.2)
        change.annotate(
            f"tolerance {tolerance:g}",
            (0.99, tolerance),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            color=_GREY,
            fontsize=8,
        )
        last = sum(float(trace.objective[-1]) for trace in done.traces)
        _title(
            objective, "objective above its last value", f"$F^k - F^K$, {last:.4g} last"
        )
        _title(change, "relative change", "$q^k$, Eq. (8)")
        _title(stationarity, "distance to stationarity", r"dist$(0, \partial F)$")
        _title(constants, "accepted step constants", "$L_u$ and $L_v$")
        if many:
            lines = constants.get_lines()[:2]
            names = ["$L_u$ (one line per class)", "$L_v$"]
        else:
            lines, names = constants.get_lines(), ["$L_u$ (rows)", "$L_v$ (columns)"]
        constants.legend(lines, names, fontsize=8, loc="best")
        for axes in (objective, change, stationarity, constants):
            _logarithmic(axes)
        for axes in (stationarity, constants):
            axes.set_xlabel("iteration $k$")

    return draw_png(draw, (8.4, 5.2))


def path(
    model: "Classifier",
    found: "StrengthPath",
    rows: Sequence[Mapping[str, Any]],
    ranks: Sequence[Mapping[str, Any]] = (),
) -> bytes:
    """Draw accuracies of the cross-validation, and weights along the strength mu1.

    Args:
      model: The classifier that was chosen.
      found: The regularisation path.
      rows: Rows of the cross-validation, one per point: ``rank``, ``mu1``,
        ``accuracy``, ...
      ranks: ``rank`` and ``accuracy`` of each rank tried without penalties.
    """
    is_single = found.left.shape[1] == 1 and found.left.shape[3] == 1
    chosen = float(model.settings["mu1"])

    def draw(figure: Any) -> None:
        top, rows_axes, columns_axes = figure.subplots(
            3, 1, gridspec_kw={"height_ratios": [1.0, 1.15, 1.15]}
        )
        _draw_grid(top, rows, ranks)
        sign = _signs(found) if is_single else None
        for axes, part, word, names in (
            (rows_axes, found.left, "row", model.row_names),
            (columns_axes, found.right, "column", ()),
        ):
            # (size, k): signed if there is one component, else the largest of all
            if sign is not None:
                values = (part[:, 0, :, 0] * sign[:, None]).T
            else:
                values = np.abs(part).max((1, 3)).T
            _draw_path(axes, found.mu1, values, word, names, is_single)
            if chosen > 0:
                axes.axvline(chosen, color="#222222", linestyle=":", linewidth=1.2)
        columns_axes.set_xlabel(
            "strength $\\mu_1$"
            + (f", $\\nu_1$ = {found.nu1[0] / found.mu1[0]:.3g} $\\mu_1$")
            + ("; dotted: chosen" if chosen > 0 else "")
        )

    return draw_png(draw, (8.4, 8.4))


def _draw_grid(
    axes: Any,
    rows: Sequence[Mapping[str, Any]],
    tried: Sequence[Mapping[str, Any]],
) -> None:
    """Draw the accuracy of each point of the grid against mu1, a colour a rank."""
    ranks = sorted({int(row["rank"]) for row in rows})
    strengths = sorted({float(row["mu1"]) for row in rows if row["mu1"] > 0})
    zero = strengths[0] / 3 if strengths else 1.0  # where mu1 = 0 is drawn
    for rank, colour in zip(ranks, _colours(len(ranks)), strict=True):
        here = [row for row in rows if int(row["rank"]) == rank]
        places = np.array([float(row["mu1"]) or zero for row in here])
        shares = np.array([float(row["accuracy"]) for row in here])
        axes.scatter(places, shares, 9, color=colour, alpha=0.35, linewidths=0)
        each = np.unique(places)
        best = [shares[places == place].max() for place in each]
        axes.plot(
            each, best, color=colour, marker="o", markersize=4, label=f"rank {rank}"
        )
    for i, row in enumerate(tried):
        name = f"rank {row['rank']},\nno penalty"
        style = ("--", ":", "-.")[i % 3]
        level = float(row["accuracy"])
        axes.axhline(level, color=_GREY, linestyle=style, linewidth=1.2, label=name)
    axes.set_xscale("log")
    if any(float(row["mu1"]) == 0 for row in rows):
        ticks = [zero, *strengths]
        axes.set_xticks(ticks, ["0", *(f"{value:g}" for value in strengths)])
        axes.minorticks_off()
    axes.set_ylabel("cross-validated accuracy")
    axes.set_xlabel("$\\mu_1$ of the grid")
    _title(
        axes,
        "cross-validation",
        "a dot a point of the grid, line: best at each $\\mu_1$",
    )
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_path(
    axes: Any,
    strengths: np.ndarray,
    values: np.ndarray,
    word: str,
    names: Sequence[str],
    is_signed: bool,
) -> None:
    """Draw weights (size, k) as an image over log strengths; white is exactly 0."""
    step = np.log(strengths[1] / strengths[0]) / 2
    edges = np.exp(np.append(np.log(strengths) - step, np.log(strengths[-1]) + step))
    scale = np.abs(values).max(axis=0, keepdims=True)
    shown = np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)
    lines = np.arange(len(values) + 1) - 0.5
    colours = _MAP if is_signed else "Blues"
    # Small weights keep some colour: zero alone is white.
    shown = np.sign(shown) * (0.1 + 0.9 * np.sqrt(np.abs(shown)))
    shown = np.where(shown == 0, np.nan, shown)
    least = -1 if is_signed else 0
    axes.pcolormesh(edges, lines, shown, cmap=colours, vmin=least, vmax=1)
    axes.set_xscale("log")
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.grid(visible=False)
    if 0 < len(names) <= _MOST_NAMES:
        axes.set_yticks(np.arange(len(names)), names, fontsize=_small(len(names) * 1.6))
    else:
        axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(f"{word}s")
    is_zero = ~values.any(axis=0)
    if is_zero.any():
        middle = np.exp(np.log(strengths[is_zero]).mean())
        look = {"ha": "center", "va": "center", "color": _GREY, "fontsize": 8}
        axes.text(middle, len(values) / 2, "all weights\nare 0", **look)
    note = "blue above 0, red below, white exactly 0" if is_signed else "white: all 0"
    _title(axes, f"{word} weights along $\\mu_1$", f"{note}; each model to its largest")


def _signs(found: "StrengthPath") -> np.ndarray:
    """Signs (k,) that make neighbours on the path agree, the first with v > 0 most."""
    right = found.right[:, 0, :, 0]
    signs = np.ones(len(right))
    reference = right[0] * (1 if right[0][np.abs(right[0]).argmax()] >= 0 else -1)
    for i, here in enumerate(right):
        if here @ reference < 0:
            signs[i] = -1
        if here.any():
            reference = signs[i] * here
    return signs


def _limit(axes: Any, values: np.ndarray) -> None:
    """Leave some room, and a sane range where all values are zero."""
    most = float(np.abs(values).max())
    if most == 0:
        axes.set_ylim(-1, 1)
        return
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    room = 0.08 * (high - low)
    axes.set_ylim(low - room if low < 0 else 0, high + room if high > 0 else 0)


def _small(number: float) -> float:
    """Size of text that names so many bars."""
    return 8.0 if number <= 32 else max(3.5, 8.0 * 32 / number)


def _colours(number: int) -> list[Any]:
    import matplotlib

    if number == 1:
        return [_UP]
    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.88, number)))


def _title(axes: Any, title: str, note: str) -> None:
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
    axes.set_title(note, loc="right", fontsize=8, color="#555555")


def _logarithmic(axes: Any) -> None:
    """Take a logarithmic axis where there is anything positive to show."""
    values = np.concatenate([np.ravel(line.get_ydata()) for line in axes.get_lines()])
    if (np.nan_to_num(values.astype(float)) > 0).any():
        axes.set_yscale("log")
