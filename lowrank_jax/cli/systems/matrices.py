"""Labelled matrices: what ``fit`` does with them."""

import argparse
import dataclasses
import inspect
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import cross_validation, matrices, output
from lowrank_jax.cli.fitting import Run
from lowrank_jax.cli.options import describe_settings, parse_settings

if TYPE_CHECKING:
    from lowrank_jax.data.matrices import Matrices
    from lowrank_jax.estimators.classifier import Fit
    from lowrank_jax.estimators.classifier.selection import Selection

__all__ = ["LabelledMatrices", "describe", "options"]
__dir__ = __all__.copy

#: With --grid paper, fits step and stop as in the paper. The model is always fitted as
#: it was validated.
_PAPER = {
    "solver": "proximal",
    "tolerance": 1e-3,
    "max_iterations": 500,
}
_IN_PYTHON = (
    *("x", "y", "row_names", "sample_weight", "left_penalty", "right_penalty"),
)


def options() -> dict[str, inspect.Parameter]:
    """Return the arguments of `classifier.fit` that can be given as text."""
    from lowrank_jax.estimators import classifier

    parameters = inspect.signature(classifier.fit, eval_str=True).parameters
    found = {name: p for name, p in parameters.items() if name not in _IN_PYTHON}
    for (
        name,
        value,
    ) in classifier.STRENGTHS.items():  # plain numbers where there is no other penalty
        found[name] = found[name].replace(default=value, annotation=float)
    return found


def describe() -> str:
    """Return the help on the settings."""
    from lowrank_jax.estimators import classifier

    return describe_settings("settings", options(), [classifier.fit])


class LabelledMatrices:
    """Fits a classifier; see `cli.fitting.System`."""

    kind = "matrix classifier"
    is_online = False
    estimator: Any = None  # a fit is not resumed

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Keep the arguments."""
        self.arguments = arguments
        self.settings: dict[str, Any] = {}
        self.scores: dict[str, dict[str, Any]] = {}
        self.chosen: Selection | None = None
        self.train: Matrices
        self.test: Matrices | None = None
        self.done: Fit

    def names(self) -> tuple[str, str | None]:
        """Return the names of training and test data; refuse what has no meaning."""
        given = self.arguments
        if given.split == 1:
            raise InputError(
                "--split must be below 1: some matrices must be left to fit."
            )
        if given.grid is not None and given.cv is None:
            raise InputError(
                f"--grid {given.grid} is about what --cv tries; add --cv K, or leave "
                "it out."
            )
        if given.images and given.no_plots:
            raise InputError("--images is about pictures, and --no-plots draws none.")
        given.grid = given.grid or "small"
        return given.data, given.test

    def prepare(self) -> None:
        """Read the settings, before anything is read."""
        texts = self.arguments.settings
        self.settings = parse_settings(texts, options(), owner="fit")
        if self.arguments.rank is not None:
            self.settings["rank"] = self.arguments.rank

    def read(self, train_path: str, test_path: str | None) -> None:
        """Read training and test data, and check that they belong together."""
        import numpy as np

        given = self.arguments
        train = matrices.read(train_path, given)
        if train.y is None:
            raise InputError(
                f"{train_path} has no labels: `fit` needs them beside the matrices; "
                f"add them as an array y, or name theirs with --x and --y."
            )
        test = None
        if given.split is not None:
            train, test = _hold_out(train, given.split, given.seed)
        elif test_path is not None:
            has_both = matrices.has_test_part(test_path, given)
            test = matrices.read(test_path, given, "test" if has_both else None)
        elif matrices.has_test_part(train_path, given):
            test = matrices.read(train_path, given, "test")
        if test is not None:
            assert train.y is not None
            matrices.check_fits(
                test_path or train_path,
                test,
                shape=(train.x.shape[1], train.x.shape[2]),
                names=train.names,
                classes=np.unique(train.y),
            )
        self.train, self.test = train, test

    def fit(self, run: Run) -> dict[str, Any]:
        """Choose rank and strengths if ``--cv`` asks for it, fit, and score."""
        from lowrank_jax.estimators import classifier
        from lowrank_jax.estimators.classifier import choosing

        given, train, every = self.arguments, self.train, self.settings
        if given.cv is not None:
            every = (_PAPER if given.grid == "paper" else choosing.LOOSE) | every
            defaults = {name: p.default for name, p in options().items()}
            chosen = cross_validation.choose(train, defaults | every, set(every), given)
            every = every | {"rank": chosen.rank} | chosen.settings
            self.chosen = chosen
        assert train.y is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", classifier.ZeroModel)  # `lines` tells it
            self.done = done = classifier.fit(
                train.x, train.y, row_names=train.names, **every
            )
        self.scores = {"train": matrices.figures(done.classifier, train)}
        if self.chosen is not None:
            found = {"accuracy": self.chosen.accuracy, "auc": self.chosen.auc}
            self.scores["cv"] = found
        if self.test is not None and self.test.y is not None:
            self.scores["test"] = matrices.figures(done.classifier, self.test)
        return self._result()

    def save(self, result: dict[str, Any]) -> None:
        """Write the model folder with pictures."""
        given = self.arguments
        pictures = {}
        if not given.no_plots:
            pictures = _draw(self.done, self.train, self.chosen, is_image=given.images)
        kept = {name: value for name, value in result.items() if name != "cv"}
        model = dataclasses.replace(self.done.classifier, metadata=kept)
        model.save(given.model, **pictures)

    def lines(self, result: dict[str, Any]) -> Iterator[str]:
        """Yield the summary."""
        height, width = result["shape"]
        state = "converged" if result["converged"] else "not converged"
        yield (
            f"model: {self.arguments.model}, rank {result['rank']}, {height}x{width}, "
            f"{len(result['classes'])} classes, {result['left_support']} of "
            f"{result['left_size']} row weights and {result['right_support']} of "
            f"{result['right_size']} column weights not zero"
        )
        yield (
            f"fit: objective {result['objective']:.6g} after "
            f"{result['num_iterations']} iterations ({state}), "
            f"{result['train_seconds']:.2f} s and {result['compile_seconds']:.2f} s of "
            f"compilation"
        )
        if self.chosen is not None:
            told = ", ".join(f"{n} {v:g}" for n, v in self.chosen.settings.items())
            yield f"chosen by cross-validation: rank {self.chosen.rank}, {told}"
        words = {"train": "training data", "cv": "cross-validated", "test": "test data"}
        for part, found in self.scores.items():
            yield matrices.line_of(words[part], found)
        if self.done.zero_note:
            output.note(
                f"{self.done.zero_note[0].lower()}{self.done.zero_note[1:]}: lower "
                "mu1, mu2, nu1, nu2 with --set, or choose them with --cv."
            )

    def _result(self) -> dict[str, Any]:
        """Return the result, ready for JSON."""
        given, model, done = self.arguments, self.done.classifier, self.done
        measured_on = list(self.scores)[-1]  # the test data if there are any
        num_iterations = [len(trace.objective) for trace in done.traces]
        result: dict[str, Any] = {
            "data": given.data,
            "test": given.test,
            "split": given.split,
            "seed": given.seed,
            "rank": model.rank,
            "settings": dict(model.settings),
            "classes": model.classes.tolist(),
            "shape": list(model.shape),
            "num_matrices": len(self.train.x),
            "num_test_matrices": 0 if self.test is None else len(self.test.x),
            "measured_on": measured_on,
            **self.scores[measured_on],
            **{
                f"{part}_{name}": value
                for part, found in self.scores.items()
                for name, value in found.items()
            },
            "objective": float(sum(trace.objective[-1] for trace in done.traces)),
            "stationarity": float(max(t.stationarity[-1] for t in done.traces)),
            "num_iterations": max(num_iterations),
            "converged": done.converged,
            **_support(done),
            "train_seconds": done.seconds,
            "compile_seconds": done.compile_seconds,
        }
        if len(done.traces) > 1:
            result["num_iterations_by_class"] = num_iterations
        if self.chosen is not None:
            found = {"ranks": self.chosen.ranks, "rows": self.chosen.rows}
            result["cv"] = {"num_folds": given.cv, "grid": given.grid} | found
        return result


def _support(done: "Fit") -> dict[str, Any]:
    """Count the weights that are not zero, in all and by class."""
    params = done.classifier.params
    result: dict[str, Any] = {}
    for name, part in (("left", params.left), ("right", params.right)):
        each = (part != 0).sum((1, 2))
        result[f"{name}_support"] = int(each.sum())
        result[f"{name}_size"] = int(part.size)
        result[f"{name}_support_by_class"] = each.tolist()
    return result


def _draw(
    done: "Fit", train: "Matrices", chosen: "Selection | None", *, is_image: bool
) -> dict[str, bytes]:
    """Draw the pictures; without matplotlib say so."""
    from lowrank_jax.report import classifier as matrix_plots

    if not matrix_plots.can_draw():
        output.note(
            "no pictures, they need matplotlib: pip install 'lowrank_jax[cli]'."
        )
        return {}
    pictures = {
        "patterns": matrix_plots.patterns(done.classifier, is_image=is_image),
        "convergence": matrix_plots.convergence(done),
    }
    if chosen is not None:
        from lowrank_jax.estimators.classifier import regularisation_path

        assert train.y is not None
        path = regularisation_path(train.x, train.y, **done.classifier.settings)
        pictures["path"] = matrix_plots.path(
            done.classifier, path, chosen.rows, chosen.ranks
        )
    return pictures


def _hold_out(
    found: "Matrices", share: float, seed: int
) -> tuple["Matrices", "Matrices"]:
    """Hold out a share of each class, at least one matrix, and leave at least one."""
    import numpy as np

    assert found.y is not None
    rng = np.random.default_rng(seed)
    is_test = np.zeros(len(found.y), bool)
    for label in np.unique(found.y):
        places = np.flatnonzero(found.y == label)
        if len(places) < 2:
            raise InputError(
                f"--split needs two matrices of each class, and the class {label!s} "
                f"has one; name a test file with --test."
            )
        number = min(max(round(share * len(places)), 1), len(places) - 1)
        is_test[rng.permutation(places)[:number]] = True
    parts = (~is_test, is_test)
    train, test = (found._replace(x=found.x[p], y=found.y[p]) for p in parts)
    return train, test
