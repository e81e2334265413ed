"""``lowrank-jax rerank train|apply``: choose from n-best lists."""

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, options
from lowrank_jax.cli.fitting import fit_command
from lowrank_jax.estimators.learners import RERANKERS

if TYPE_CHECKING:
    from lowrank_jax.data.lists import Lists
    from lowrank_jax.estimators.reranker import Reranker

__all__ = ["add_parser", "run_apply", "run_train"]
__dir__ = __all__.copy

_DESCRIPTION = """\
Train a reranker of n-best lists, and apply it.

formats:
  json      one list per line: {"candidates": [{"features": {"name": 1.0}, "quality":
            0.93}, ...]}; files *.jsonl or *.json
  svmlight  one candidate per line, `quality qid:3 17:0.5 29:1`, the candidates of a
            list together; files *.svm, *.svmlight or *.dat
Files may be packed (.gz, .xz). The quality is needed in training only. It may be any
number, such as the grades of LETOR.
"""

_EPILOG = """\
examples:
  lowrank-jax rerank train train.jsonl --test dev.jsonl --model reranker
  lowrank-jax rerank train train.svm --learner tm --set order=2 --model m
  lowrank-jax rerank train train.jsonl --set max_step_size=0.01 --model m
  lowrank-jax rerank apply reranker new.jsonl --out chosen.jsonl
  lowrank-jax rerank apply reranker new.jsonl --k-best 5 > five.jsonl
"""


def _describe(parsed: argparse.Namespace) -> str:
    return options.describe_learner(parsed.learner, RERANKERS[parsed.learner])


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
    add("data", metavar="TRAIN", help="training lists; each candidate needs a quality")
    add("--test", metavar="FILE", help="lists to score the model on")
    add(
        "--learner",
        choices=tuple(RERANKERS),
        default="mira",
        help="; ".join(f"{name}: {spec.title}" for name, spec in RERANKERS.items())
        + "; default: mira",
    )
    add("--model", metavar="DIR", required=True, help="folder to write the model to")
    add(
        "--epochs",
        metavar="N",
        type=options.count,
        default=5,
        help="passes over the lists; default: 5",
    )
    options.add_wide(
        train,
        "lists",
        "; above 1 mira solves the quadratic program of a batch (docs/running.md)",
    )
    options.add_seed(train, "seed of the order of lists and of a random start")
    options.add_settings(train, "settings of the learner, listed below")
    add(
        "--num-features",
        metavar="V",
        type=options.count,
        help="number of features of svmlight files, above every feature id; default: "
        "the largest id of the training file plus 1",
    )
    options.add_checkpoints(train)
    _add_common(train, "- prints them")
    options.add_help(train, _describe)
    train.set_defaults(run=run_train)

    apply = parts.add_parser(
        "apply",
        help="choose from lists with a model",
        description="Choose a candidate from each list. One JSON object per list is "
        'written: its own fields, "chosen" (counted from 0) and "scores". With --sort '
        'or --k-best, "candidates" holds the candidates with their own fields, score '
        "and place in the list, the best first.",
    )
    apply.add_argument("model", metavar="DIR", help="the model folder")
    apply.add_argument("data", metavar="FILE", help="lists; - reads standard input")
    apply.add_argument(
        "--out", metavar="FILE", help="write the choices there, not to the terminal"
    )
    apply.add_argument(
        "--sort", action="store_true", help="write the candidates, the best first"
    )
    apply.add_argument(
        "--k-best",
        metavar="K",
        type=options.count,
        help="write the K best candidates, the best first",
    )
    _add_common(apply, "- prints them, instead of the choices if --out is not given")
    apply.set_defaults(run=run_apply)


def _add_common(parser: argparse.ArgumentParser, dash: str) -> None:
    parser.add_argument(
        "--format",
        choices=("json", "svmlight"),
        help="format of the files; default: by the suffix of the file",
    )
    parser.add_argument(
        "--json", metavar="FILE", help=f"write the figures there; {dash}"
    )
    files.add_data_dir(parser)


def run_train(arguments: argparse.Namespace) -> int:
    """Train, save, score; return the exit status."""
    from lowrank_jax.cli.systems.lists import CandidateLists

    return fit_command(arguments, CandidateLists(arguments))


def run_apply(arguments: argparse.Namespace) -> int:
    """Choose from lists; return the exit status."""
    path = files.find_data(arguments.data, arguments.data_dir)
    files.check_outputs(arguments.out, arguments.json, arguments.model)

    from lowrank_jax.cli.systems import lists as system
    from lowrank_jax.estimators.reranker import Reranker

    model = Reranker.load(arguments.model)
    kind = system.format_of(path, arguments)
    if (kind == "json") != (model.names_ is not None):
        raise InputError(
            f"{path} has the format {kind}, and {arguments.model} was trained on the "
            "other format; convert the lists."
        )
    rows: list[dict[str, Any]] = []
    lists, _ = system.read(
        *(path, kind),
        training=False,
        names=model.names_,
        room=model.num_features_,
        keep=rows,
    )
    return _apply(arguments, model, lists, rows)


def _line(
    row: dict[str, Any], scores: list[float], best: int, *, k: int | None
) -> dict[str, Any]:
    """Return the object of one list: its own fields, and what the model says.

    Args:
      row: Content of the list as it was read.
      scores: Scores of its candidates.
      best: Place of the chosen candidate.
      k: Number of candidates to write, or None for the scores alone.
    """
    found = {name: value for name, value in row.items() if name != "candidates"}
    found |= {"chosen": best}
    if k is None:
        return found | {"scores": scores}
    given = row.get("candidates", [{}] * len(scores))
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k]
    own = [given[i] | {"place": i, "score": scores[i]} for i in order]
    return found | {"candidates": own}


def _apply(
    arguments: argparse.Namespace,
    model: "Reranker",
    lists: "Lists",
    rows: list[dict[str, Any]],
) -> int:
    import numpy as np

    from lowrank_jax.cli.systems.lists import quality_line, quality_of

    began = time.perf_counter()
    scores = model.decision_function(lists)
    seconds = time.perf_counter() - began
    offsets = np.asarray(lists.list_offsets)
    if not np.isfinite(scores).all():
        place = np.searchsorted(offsets, np.isfinite(scores).argmin(), side="right")
        raise InputError(
            f"{arguments.data}: list {place} has a score that is not finite; scale its "
            "values, or train the model again."
        )
    lines, k = [], arguments.k_best
    if arguments.sort and k is None:
        k = lists.num_candidates
    for row, part in zip(rows, np.split(scores, offsets[1:-1]), strict=True):
        values = [float(f"{value:.7g}") for value in part.tolist()]
        line = _line(row, values, int(part.argmax()), k=k)
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    text = "".join(lines)
    is_free = arguments.out not in (None, "-")
    if is_free:
        files.write_text(arguments.out, text)
    elif arguments.json != "-":
        sys.stdout.write(text)
    figures = quality_of(lists, scores)
    if figures is not None:
        place = sys.stdout if is_free and arguments.json != "-" else sys.stderr
        print(quality_line(arguments.data, figures), file=place)
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
