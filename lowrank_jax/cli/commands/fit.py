"""``lowrank-jax fit``: from labelled matrices to a classifier and pictures of it."""

import argparse
import pathlib
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from lowrank_jax.checks import InputError
from lowrank_jax.cli import arguments as kinds
from lowrank_jax.cli import cross_validation, files, long_help, matrices, options

if TYPE_CHECKING:
    from lowrank_jax.data import Matrices
    from lowrank_jax.estimators.classifier import Fit
    from lowrank_jax.estimators.classifier.selection import Selection

__all__ = ["add_parser", "run"]

_DESCRIPTION = """\
Fit a sparse bilinear logistic regression to matrices, such as EEG trials (channels x
times) or images, and write it as a model folder with pictures of its weights.

DATA.npz holds x (n, s, t) and y (n,), or x_train, y_train, x_test, y_test: then the
training part is fitted and the test part scored. Row names in `channels` or `names` are
shown in the pictures. The matrices are brought to a common scale first (--set scale),
so that the strengths mu1, mu2, nu1, nu2 do not depend on the unit.
"""

_EPILOG = """\
examples:
  lowrank-jax fit bci2_iv/sp1s_aa_100hz.npz --model eeg-model --json result.json
  lowrank-jax fit trials.npz --cv 5 --model eeg-model
  lowrank-jax fit trials.npz --rank 2 --set mu1=0.01 nu2=0.1 --split 0.25 --model m
  lowrank-jax fit coil20/coil20_32x32.npz --split 0.3 --images --model objects \\
      --set multi_class=one-vs-all
"""

#: With --cv fits stop as the paper's do: the model is fitted as it was validated.
_STOP = {"tolerance": 1e-3, "max_iterations": 500}
_IN_PYTHON = ("x", "y", "row_names", "left_penalty", "right_penalty")


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "fit",
        help="fit a classifier of matrices",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        add_help=False,
    )
    add = parser.add_argument
    add("data", metavar="DATA.npz", help="labelled matrices")
    add("--model", metavar="DIR", required=True, help="folder to write the model to")
    add(
        "--rank",
        metavar="R",
        type=kinds.count,
        help="of the weights; default: 1, with --cv chosen",
    )
    options.add_settings(parser, "strengths and the like, listed below")
    add(
        "--cv",
        metavar="K",
        type=kinds.count,
        help="choose rank and strengths by K-fold cross-validation; those given by "
        "--rank and --set stay; all fits stop at tolerance 0.001 or 500 iterations "
        "unless --set says otherwise",
    )
    add(
        "--grid",
        choices=("small", "paper"),
        help="points that --cv tries: 36, the default, or 900 as the paper does",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--test", metavar="DATA.npz", help="data to score the model on")
    where.add_argument(
        "--split",
        metavar="X",
        type=kinds.share,
        help="share of each class to hold out and to score the model on, below 1",
    )
    options.add_seed(
        parser, "of --split and of the folds; the fit itself has nothing random"
    )
    add(
        "--images",
        action="store_true",
        help="rows and columns are both places: draw weights as images",
    )
    add("--no-plots", action="store_true", help="draw no pictures")
    add("--json", metavar="FILE", help="write the results there; - prints them")
    matrices.add_keys(parser)
    files.add_data_dir(parser)
    long_help.add_help(parser, lambda _: _describe_settings())
    parser.set_defaults(run=run)


class _Data(NamedTuple):
    """Training data, and test data where there are any."""

    train: "Matrices"
    test: "Matrices | None"


def run(arguments: argparse.Namespace) -> int:
    """Fit, score, save; return the exit status."""
    folder = pathlib.Path(arguments.model)
    path = matrices.find(arguments.data, arguments)
    test_path = None
    if arguments.test is not None:
        test_path = matrices.find(arguments.test, arguments)
    if arguments.split == 1:
        raise InputError("--split must be below 1: some matrices must be left to fit.")
    if arguments.grid is not None and arguments.cv is None:
        raise InputError(
            f"--grid {arguments.grid} is about what --cv tries; add --cv K, or leave "
            "it out."
        )
    if arguments.images and arguments.no_plots:
        raise InputError("--images is about pictures, and --no-plots draws none.")
    arguments.grid = arguments.grid or "small"
    files.check_json(arguments.json, arguments.model)

    from lowrank_jax.store import folder as model_folder

    model_folder.check_target(folder, "matrix classifier")
    files.check_place(folder)
    settings = _parse_settings(arguments)
    data = _read(path, test_path, arguments)
    chosen = None
    if arguments.cv is not None:
        settings = _STOP | settings
        every = {name: p.default for name, p in _options().items()} | settings
        chosen = cross_validation.choose(data.train, every, set(settings), arguments)
        settings = settings | {"rank": chosen.rank} | chosen.settings
    return _fit(arguments, settings, data, chosen)


def _fit(
    arguments: argparse.Namespace,
    settings: dict[str, Any],
    data: _Data,
    chosen: "Selection | None",
) -> int:
    from lowrank_jax.cli.machine import describe_machine
    from lowrank_jax.estimators import classifier

    train = data.train
    assert train.y is not None
    done = classifier.fit(train.x, train.y, row_names=train.names, **settings)
    model = done.classifier
    scores = {"train": matrices.figures(model, train)}
    if chosen is not None:
        scores["cv"] = {"accuracy": chosen.accuracy, "auc": chosen.auc}
    if data.test is not None and data.test.y is not None:
        scores["test"] = matrices.figures(model, data.test)
    measured_on = list(scores)[-1]  # the test data if there are any
    num_iterations = [len(trace.objective) for trace in done.traces]
    result: dict[str, Any] = {
        "data": arguments.data,
        "test": arguments.test,
        "split": arguments.split,
        "seed": arguments.seed,
        "rank": model.rank,
        "settings": dict(model.settings),
        "classes": model.classes.tolist(),
        "shape": list(model.shape),
        "num_matrices": len(train.x),
        "num_test_matrices": 0 if data.test is None else len(data.test.x),
        "measured_on": measured_on,
        **scores[measured_on],
        **{f"{part}_{name}": v for part, s in scores.items() for name, v in s.items()},
        "objective": float(sum(trace.objective[-1] for trace in done.traces)),
        "stationarity": float(max(trace.stationarity[-1] for trace in done.traces)),
        "num_iterations": max(num_iterations),
        "converged": done.converged,
        **_support(done),
        "train_seconds": done.seconds,
        "compile_seconds": done.compile_seconds,
    }
    if len(done.traces) > 1:
        result["num_iterations_by_class"] = num_iterations
    if chosen is not None:
        found = {"ranks": chosen.ranks, "rows": chosen.rows}
        result["cv"] = {"num_folds": arguments.cv, "grid": arguments.grid} | found
    pictures = {} if arguments.no_plots else _draw(arguments, done, train, chosen)
    saved = _with_metadata(model, result)
    saved.save(arguments.model, **pictures)
    _tell(arguments, done, result, scores)
    files.write_json(arguments.json, result | describe_machine())
    return 0


def _with_metadata(model: Any, result: dict[str, Any]) -> Any:
    import dataclasses

    kept = {name: value for name, value in result.items() if name != "cv"}
    return dataclasses.replace(model, metadata=kept)


def _tell(
    arguments: argparse.Namespace,
    done: "Fit",
    result: dict[str, Any],
    scores: dict[str, dict[str, Any]],
) -> None:
    """Print the summary."""
    place = matrices.summary_to(arguments)
    height, width = result["shape"]
    state = "converged" if result["converged"] else "not converged"
    print(
        f"model: {arguments.model}, rank {result['rank']}, {height}x{width}, "
        f"{len(result['classes'])} classes, {result['left_support']} of "
        f"{result['left_size']} row weights and {result['right_support']} of "
        f"{result['right_size']} column weights not zero",
        file=place,
    )
    print(
        f"fit: objective {result['objective']:.6g} after {result['num_iterations']} "
        f"iterations ({state}), {result['train_seconds']:.2f} s and "
        f"{result['compile_seconds']:.2f} s of compilation",
        file=place,
    )
    words = {"train": "training data", "cv": "cross-validated", "test": "test data"}
    for part, found in scores.items():
        print(matrices.line_of(words[part], found), file=place)
    if not result["left_support"] or not result["right_support"]:
        print(
            "lowrank-jax: all weights are zero, so every matrix gets the same class: "
            "lower mu1, mu2, nu1, nu2 with --set, or choose them with --cv.",
            file=sys.stderr,
        )


def _support(done: "Fit") -> dict[str, Any]:
    """How many weights are not zero, in all and by class."""
    params = done.classifier.params
    result: dict[str, Any] = {}
    for name, part in (("left", params.left), ("right", params.right)):
        each = (part != 0).sum((1, 2))
        result[f"{name}_support"] = int(each.sum())
        result[f"{name}_size"] = int(part.size)
        result[f"{name}_support_by_class"] = each.tolist()
    return result


def _draw(
    arguments: argparse.Namespace,
    done: "Fit",
    train: "Matrices",
    chosen: "Selection | None",
) -> dict[str, bytes]:
    """Draw the pictures; without matplotlib say so."""
    from lowrank_jax.report import classifier as matrix_plots

    if not matrix_plots.can_draw():
        print(
            "lowrank-jax: no pictures, they need matplotlib: "
            "pip install 'lowrank_jax[cli]'.",
            file=sys.stderr,
        )
        return {}
    pictures = {
        "patterns": matrix_plots.patterns(done.classifier, is_image=arguments.images),
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


def _read(path: str, test_path: str | None, arguments: argparse.Namespace) -> _Data:
    """Read training and test data, and check that they belong together."""
    import numpy as np

    train = matrices.read(path, arguments)
    if train.y is None:
        raise InputError(
            f"{path} has no labels: `fit` needs them beside the matrices; add them as "
            f"an array y, or name theirs with --x and --y."
        )
    test = None
    if arguments.split is not None:
        train, test = _hold_out(train, arguments.split, arguments.seed)
        test_path = path
    elif test_path is not None:
        has_both = matrices.has_test_part(test_path, arguments)
        test = matrices.read(test_path, arguments, "test" if has_both else None)
    elif matrices.has_test_part(path, arguments):
        test = matrices.read(path, arguments, "test")
        test_path = path
    if test is not None:
        assert test_path is not None and train.y is not None
        shape = train.x.shape[1], train.x.shape[2]
        classes = np.unique(train.y)
        matrices.check_fits(
            test_path, test, shape=shape, names=train.names, classes=classes
        )
    return _Data(train, test)


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


def _options() -> dict[str, Any]:
    """The keyword arguments of `classifier.fit` that can be given as text."""
    import inspect

    from lowrank_jax.estimators import classifier

    parameters = inspect.signature(classifier.fit, eval_str=True).parameters
    found = {name: p for name, p in parameters.items() if name not in _IN_PYTHON}
    for name in ("mu1", "nu1"):  # plain numbers where there is no other penalty
        found[name] = found[name].replace(default=classifier.STRENGTH, annotation=float)
    return found


def _parse_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Read ``name=value`` texts and ``--rank``."""
    from lowrank_jax.cli import learners

    options, settings = _options(), {}
    for text in arguments.settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set {text!r} must have the form name=value.")
        if name not in options:
            raise InputError(
                f"--set {text!r} is not a setting of fit; it has {', '.join(options)}."
            )
        try:
            settings[name] = learners.parse_value(value, options[name].annotation)
        except ValueError as error:
            raise InputError(f"--set {text!r}: the value must be {error}.") from None
    if arguments.rank is not None:
        settings["rank"] = arguments.rank
    return settings


def _describe_settings() -> str:
    from lowrank_jax.cli import learners
    from lowrank_jax.estimators import classifier

    texts = learners.argument_texts(classifier.fit)
    lines = ["settings (--set name=value):"]
    for name, parameter in _options().items():
        lines.append(f"  {name} (default: {parameter.default})")
        lines += [f"      {line}" for line in texts.get(name, [])]
    return "\n".join(lines) + "\n"
