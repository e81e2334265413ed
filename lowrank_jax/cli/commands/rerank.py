"""``lowrank-jax rerank train|apply``: choose from n-best lists."""

import argparse
import json
import pathlib
import sys
import time
from typing import TYPE_CHECKING, Any

from lowrank_jax import streams
from lowrank_jax.checks import InputError
from lowrank_jax.cli import arguments as kinds
from lowrank_jax.cli import files, long_help, machine, options

if TYPE_CHECKING:
    from lowrank_jax.data.lists import Lists
    from lowrank_jax.estimators.reranker import RerankModel

__all__ = ["add_parser", "run_apply", "run_train"]

_DESCRIPTION = """\
Train a reranker of n-best lists, and apply it.

formats:
  json      one list a line: {"candidates": [{"features": {"name": 1.0}, "quality":
            0.93}, ...]}; files *.jsonl or *.json
  svmlight  one candidate a line, `quality qid:3 17:0.5 29:1`, those of a list
            together; files *.svm, *.svmlight or *.dat
Files may be packed (.gz, .xz). The quality, in 0..1, is needed in training only.
"""

_EPILOG = """\
examples:
  lowrank-jax rerank train train.jsonl --test dev.jsonl --model reranker
  lowrank-jax rerank train train.svm --set order=2 num_components=2 --model reranker
  lowrank-jax rerank train train.jsonl --learner mira --set max_step_size=0.01 --model m
  lowrank-jax rerank apply reranker new.jsonl --out chosen.jsonl
"""

_LEARNERS = {
    "tm": "Tensor-MIRA: weights of low CP rank",
    "mira": "MIRA, one weight a feature",
    "perceptron": "perceptron, one weight a feature",
}

_SUFFIXES = {
    ".jsonl": "json",
    ".json": "json",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".dat": "svmlight",
}


def _describe(parsed: argparse.Namespace) -> str:
    from lowrank_jax.cli import rerank_settings

    return rerank_settings.describe(parsed.learner)


def add_parser(commands: Any) -> None:
    """Add the parsers of this command."""
    parser = commands.add_parser(
        "rerank",
        help="train and apply a reranker of n-best lists",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    train = parts.add_parser(
        "train",
        help="train a reranker",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        add_help=False,
    )
    add = train.add_argument
    add("data", metavar="TRAIN", help="lists to train on, every quality known")
    add("--test", metavar="FILE", help="lists to score the model on")
    add(
        "--learner",
        choices=tuple(_LEARNERS),
        default="tm",
        help="; ".join(f"{name}: {text}" for name, text in _LEARNERS.items())
        + "; default: tm",
    )
    add("--model", metavar="DIR", required=True, help="folder to write the model to")
    add(
        "--epochs",
        metavar="N",
        type=kinds.count,
        default=5,
        help="passes over the lists; default: 5",
    )
    options.add_seed(train, "of the order of lists and of a random start")
    options.add_settings(train, "settings of the learner, listed below")
    add(
        "--num-features",
        metavar="V",
        type=kinds.count,
        help="of svmlight files: more than every feature id; default: the largest id "
        "of the training file plus 1",
    )
    options.add_checkpoints(train)
    _add_common(train, "- prints them")
    long_help.add_help(train, _describe)
    train.set_defaults(run=run_train)

    apply = parts.add_parser(
        "apply",
        help="choose from lists with a model",
        description="Choose a candidate from each list. Written is one JSON object a "
        'list: {"chosen": 3, "scores": [...]}, candidates counted from 0.',
    )
    apply.add_argument("model", metavar="DIR", help="the model folder")
    apply.add_argument("data", metavar="FILE", help="lists; - reads standard input")
    apply.add_argument(
        "--out", metavar="FILE", help="write the choices there, not to the terminal"
    )
    _add_common(
        apply, "- prints them, in the place of the choices if --out is not given"
    )
    apply.set_defaults(run=run_apply)


def _add_common(parser: argparse.ArgumentParser, dash: str) -> None:
    parser.add_argument(
        "--format",
        choices=("json", "svmlight"),
        help="of the files; default: by the ends of their names",
    )
    parser.add_argument(
        "--json", metavar="FILE", help=f"write the figures there; {dash}"
    )
    files.add_data_dir(parser)


def run_train(arguments: argparse.Namespace) -> int:
    """Train, save, score; return the exit status."""
    machine.use_one_core()
    began = time.perf_counter()
    path = files.find_data(arguments.data, arguments.data_dir)
    test_path = None
    if arguments.test is not None:
        test_path = files.find_data(arguments.test, arguments.data_dir)
    files.check_json(arguments.json, arguments.model)

    import jax

    from lowrank_jax.cli import rerank_settings
    from lowrank_jax.store import folder as model_folder

    model_folder.check_target(arguments.model, "reranker")
    files.check_place(arguments.model)
    given = rerank_settings.parse(arguments.learner, arguments.settings)
    settings = rerank_settings.complete(arguments.learner, given)
    rerank_settings.check(arguments.learner, settings)
    kind = _format(path, arguments)
    if kind == "json" and arguments.num_features is not None:
        raise InputError(
            f"--num-features {arguments.num_features} is for svmlight, and {path} is "
            "of the format json, whose names tell their number; leave it out."
        )
    lists, names = _read(path, kind, training=True, room=arguments.num_features)
    test = None
    if test_path is not None:
        if _format(test_path, arguments) != kind:
            raise InputError(
                f"{test_path} is not of the format {kind} of {path}; bring both to one."
            )
        test, _ = _read(
            test_path, kind, training=False, names=names, room=lists.num_features
        )
    with jax.enable_x64(settings["dtype"] == "float64"):
        return _train(arguments, settings, lists, names, test, began)


def _train(
    arguments: argparse.Namespace,
    settings: dict[str, Any],
    lists: "Lists",
    names: dict[str, int] | None,
    test: "Lists | None",
    began: float,
) -> int:
    import hashlib

    import jax
    import numpy as np

    from lowrank_jax.cli import rerank_settings
    from lowrank_jax.data.lists import drop_shared, remap
    from lowrank_jax.estimators import training
    from lowrank_jax.estimators.reranker import RerankModel

    folder = pathlib.Path(arguments.model)
    digest = hashlib.sha256()
    for part in vars(lists).values():
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update(json.dumps(names).encode())
    short = drop_shared(lists)  # rankings and updates stay as they are
    place = None
    if arguments.learner == "tm":
        shape = rerank_settings.shape_of(settings, lists.num_features)
        place = _place(settings, short, shape, arguments.seed)
        short = remap(short, place, shape.num_cells)
    module, learner = rerank_settings.build(
        arguments.learner, settings, lists.num_features
    )
    plain = rerank_settings.to_json(settings)
    job = training.Job(
        learner=learner,
        kind="lists",
        corpus=streams.lists.stream(short),
        num_sentences=lists.num_lists,
        seed=arguments.seed,
        num_passes=arguments.epochs,
        settings={
            "learner": arguments.learner,
            "settings": plain,
            "seed": arguments.seed,
            "data": digest.hexdigest(),
        },
        folder=folder,
        checkpoint_seconds=arguments.checkpoint_seconds,
        keep_checkpoint=arguments.keep_checkpoint,
    )
    read_seconds = time.perf_counter() - began
    outcome = training.run(job, resume=arguments.resume)
    if outcome.stopped_by is not None:
        return 128 + outcome.stopped_by

    params = jax.block_until_ready(jax.jit(module.final_params)(outcome.state))
    result: dict[str, Any] = {
        "learner": arguments.learner,
        "settings": plain,
        "train": arguments.data,
        "test": arguments.test,
        "seed": arguments.seed,
        "epochs": len(outcome.history),
        "num_lists": lists.num_lists,
        "num_candidates": lists.num_candidates,
        "num_features": lists.num_features,
        "sizes": None if place is None else list(shape.sizes),
        "read_seconds": read_seconds,
        "compile_seconds": outcome.compile_seconds,
        "train_seconds": sum(entry["seconds"] for entry in outcome.history),
        "history": outcome.history,
    }
    model = RerankModel(
        params=params,
        num_features=lists.num_features,
        names=names,
        place=place,
        learner=arguments.learner,
        settings=plain,
        metadata=dict(result),
    )
    result["num_parameters"] = model.num_parameters
    model.save(folder, keep_checkpoint=arguments.keep_checkpoint)
    summary = sys.stderr if arguments.json == "-" else sys.stdout
    print(f"model: {folder}, {model.num_parameters:,} parameters", file=summary)
    for part, found in (("train", lists), ("test", test)):
        figures = None if found is None else _quality(found, model.choose(found))
        result |= {f"{part}_{name}": value for name, value in (figures or {}).items()}
        if figures is not None:
            print(
                _line({"train": "training", "test": "test"}[part], figures),
                file=summary,
            )
    result |= machine.describe_machine()
    files.write_json(arguments.json, result)
    return 0


def _place(settings: dict[str, Any], lists: "Lists", shape: Any, seed: int) -> Any:
    """Return the cell of each feature: by a perceptron's weights, or by their ids."""
    from lowrank_jax.features import mapping

    if settings["mapping"] == "sequential":
        return mapping.sequential_mapping(lists.num_features, shape.sizes)

    import jax
    import numpy as np

    pass
    from lowrank_jax import loops
    from lowrank_jax.online import rerank

    learner = rerank.learner(rule="perceptron", averaging="none")
    (done,) = loops.passes(
        learner, streams.lists.stream(lists), key=jax.random.key(seed), num_passes=1
    )
    return mapping.surrogate_mapping(np.asarray(done.state.params)[:-1], shape.sizes)


def run_apply(arguments: argparse.Namespace) -> int:
    """Choose from lists; return the exit status."""
    path = files.find_data(arguments.data, arguments.data_dir)
    files.check_outputs(arguments.out, arguments.json, arguments.model)

    from lowrank_jax.estimators.reranker import RerankModel

    model = RerankModel.load(arguments.model)
    kind = _format(path, arguments)
    if (kind == "json") != (model.names is not None):
        raise InputError(
            f"{path} is of the format {kind}, and {arguments.model} was not trained on "
            "that; bring the lists to the other format."
        )
    lists, _ = _read(
        path, kind, training=False, names=model.names, room=model.num_features
    )
    return _apply(arguments, model, lists)


def _apply(arguments: argparse.Namespace, model: "RerankModel", lists: "Lists") -> int:
    import numpy as np

    began = time.perf_counter()
    scores = model.scores(lists)
    seconds = time.perf_counter() - began
    offsets = np.asarray(lists.list_offsets)
    if not np.isfinite(scores).all():
        place = np.searchsorted(offsets, np.isfinite(scores).argmin(), side="right")
        raise InputError(
            f"{arguments.data}: list {place} has a score that is not finite; scale its "
            "values, or train the model again."
        )
    lines, chosen = [], []
    for part in np.split(scores, offsets[1:-1]):
        chosen.append(int(part.argmax()))
        values = [float(f"{value:.7g}") for value in part.tolist()]
        lines.append(json.dumps({"chosen": chosen[-1], "scores": values}) + "\n")
    text = "".join(lines)
    is_free = arguments.out not in (None, "-")
    if is_free:
        files.write_text(arguments.out, text)
    elif arguments.json != "-":
        sys.stdout.write(text)
    figures = _quality(lists, np.array(chosen))
    if figures is not None:
        place = sys.stdout if is_free and arguments.json != "-" else sys.stderr
        print(_line(arguments.data, figures), file=place)
    files.write_json(
        arguments.json,
        {
            "model": arguments.model,
            "data": arguments.data,
            "num_lists": lists.num_lists,
            "num_candidates": lists.num_candidates,
            **(figures or {}),
            "apply_seconds": seconds,
        },
    )
    return 0


def _quality(lists: "Lists", chosen: Any) -> dict[str, float] | None:
    """Return mean qualities, where all are known."""
    import numpy as np

    from lowrank_jax.metrics import quality_of

    if np.isnan(lists.quality).any():
        return None
    found = quality_of(lists, chosen)
    return {
        "quality": found.chosen,
        "first_quality": found.base,
        "oracle_quality": found.oracle,
    }


def _line(name: str, figures: dict[str, float]) -> str:
    return (
        f"{name}: mean quality {figures['quality']:.4f}, of the first candidates "
        f"{figures['first_quality']:.4f}, of the best {figures['oracle_quality']:.4f}"
    )


def _format(path: str, arguments: argparse.Namespace) -> str:
    """Return the format that was given, or that of the file's name."""
    if arguments.format is not None:
        return arguments.format
    name = pathlib.Path(path)
    if name.suffix in (".gz", ".xz"):
        name = name.with_suffix("")
    if name.suffix not in _SUFFIXES:
        raise InputError(
            f"{path}: the format cannot be told from the name, which should end in "
            f"{', '.join(_SUFFIXES)}; say --format json or --format svmlight."
        )
    return _SUFFIXES[name.suffix]


def _read(
    path: str,
    kind: str,
    *,
    training: bool,
    names: Any = None,
    room: int | None = None,
) -> tuple["Lists", dict[str, int] | None]:
    from lowrank_jax.data import read_json_lists, read_svmlight_lists

    if kind == "json":
        return read_json_lists(path, names=names, training=training)
    return read_svmlight_lists(path, num_features=room, training=training), None
