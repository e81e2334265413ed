"""``lowrank-jax show``: what a tagger has learned."""

import argparse
from collections.abc import Iterator
from typing import Any

from lowrank_jax.cli import files, options, output, unlabelled

__all__ = ["add_parser", "run"]
__dir__ = __all__.copy

_DESCRIPTION = """\
Show what a tagger has learned: its strongest features by label, its transitions, and
on request why the tokens of a sentence get their labels.
"""

_EPILOG = """\
The weights of a feature are its weights on the label. If a model has weights on pairs
of labels only, the mean over the previous label is shown. A contribution is what a
feature adds to the score of the label minus what it adds to the score of the rival.
U12:NNP is line U12 of the template with the value NNP.

examples:
  lowrank-jax show chunker
  lowrank-jax show chunker --top 20 --json chunker.json --html chunker.html
  lowrank-jax show chunker --explain sentence.txt
  lowrank-jax show bol-model --feature U12:NNP
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "show",
        help="show what a tagger has learned",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("model", metavar="DIR", help="the model folder")
    add(
        "--top",
        metavar="N",
        type=options.count,
        default=10,
        help="number of features per label; default: 10",
    )
    add(
        "--explain",
        metavar="FILE",
        help="columns of a sentence, as for tag: say why its tokens get their labels; "
        "only the first sentence is read",
    )
    add(
        "--feature",
        metavar="NAME",
        help="show the two factors of a feature of bol or bcd: the weight of a pair of "
        "labels is the factor of the label times the factor of the label before it",
    )
    add("--html", metavar="FILE", help="write a page with pictures")
    add("--json", metavar="FILE", help="write the results there; - prints them")
    files.add_data_dir(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show a model; return the exit status."""
    from lowrank_jax.estimators.tagger import Tagger

    files.check_json(arguments.json, arguments.model)
    if arguments.html is not None:
        files.check_json(arguments.html, arguments.model)
    tagger = Tagger.load(arguments.model)
    reasons = []
    if arguments.explain is not None:
        path = files.find_data(arguments.explain, arguments.data_dir)
        corpus = unlabelled.read(path, tagger, arguments.model)[0]
        reasons = tagger.explain(corpus.take([0]))
    about = {
        "folder": arguments.model,
        "learner": tagger.learner,
        "model": tagger.model,
        "num_features": tagger.encoder_.num_features,
        "num_labels": len(tagger.encoder_.labels),
        "num_sentences": tagger.training_.get("num_sentences"),
        "passes": tagger.training_.get("passes"),
        "facts": "learner model num_features num_labels num_sentences passes".split(),
        "transitions": tagger.transitions(),
        "top_features": tagger.top_features(arguments.top),
    }
    if arguments.feature is not None:
        about["feature"] = arguments.feature
        about["factors"] = tagger.factors(arguments.feature)
    place = output.summary_to(arguments.json)
    for line in _lines(about, reasons):
        print(line, file=place)
    if arguments.html is not None:
        from lowrank_jax.report.tagger import tagger_page

        files.write_text(arguments.html, tagger_page(about, reasons))
    explained = {"explained": [reason._asdict() for reason in reasons]}
    files.write_json(arguments.json, about | (explained if reasons else {}))
    return 0


def _lines(about: dict[str, Any], reasons: list[Any]) -> Iterator[str]:
    yield (
        f"{about['folder']}: {about['learner']}, {about['num_features']:,} features, "
        f"{about['num_labels']} labels"
    )
    for reason in reasons:
        token = reason.token if isinstance(reason.token, str) else reason.token[0]
        parts = [f"{name} {value:+.3g}" for name, value in reason.contributions[:5]]
        yield (
            f"{token}: {reason.label}, by {reason.margin:.3g} over {reason.rival}: "
            + ", ".join(parts)
        )
    for number, factors in enumerate(about.get("factors", ()), 1):
        yield f"{about['feature']}, component {number}"
        for name, factor in factors.items():
            largest = sorted(factor.items(), key=lambda pair: -abs(pair[1]))[:10]
            shown = ", ".join(f"{label} {value:+.3g}" for label, value in largest)
            yield f"  {name} label: {shown}"
    if reasons or "factors" in about:
        return
    pairs = [
        (value, f"{previous} > {current}")
        for previous, row in about["transitions"].items()
        for current, value in row.items()
        if value
    ]
    pairs.sort(key=lambda pair: -abs(pair[0]))
    if pairs:
        yield "\nstrongest transitions"
        yield from (f"  {value:+10.4g}  {name}" for value, name in pairs[:10])
    for label, found in about["top_features"].items():
        yield f"\n{label}"
        yield from (f"  {value:+10.4g}  {name}" for name, value in found)
