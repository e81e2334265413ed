"""``lowrank-jax train``: from a labelled file to a model folder."""

import argparse
import pathlib
import sys
import time
from typing import TYPE_CHECKING, Any

from lowrank_jax import streams
from lowrank_jax.checks import InputError
from lowrank_jax.cli import arguments as kinds
from lowrank_jax.cli import files, learners, long_help, machine, options

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus
    from lowrank_jax.estimators.tagger import Tagger
    from lowrank_jax.features import Template

__all__ = ["add_parser", "check_labels", "run", "share_of"]

_LIST = "\n".join(
    f"  {name:<6} {spec.title}" for name, spec in learners.LEARNERS.items()
)

_DESCRIPTION = f"""\
Train a sequence tagger and write it as a model folder.

learners (lowrank-jax train LEARNER --help lists the hyper-parameters of one):
{_LIST}
"""

_EPILOG = """\
formats:
  conll         columns separated by blanks, the label last, an empty line after each
                sentence; F1 is that of chunks, as conlleval counts them
  segmentation  words separated by blanks, one sentence a line; F1 is that of words
  nettalk       the NETtalk file; F1 is the share of letters that are right

examples:
  lowrank-jax train bol --train conll2000/train.txt --test conll2000/test.txt \\
      --passes 10 --model chunker --json result.json
  lowrank-jax train bol --train train.txt --set variant=paper --model paper
  lowrank-jax train sp --train pku.txt --format segmentation --orders first --model sp
  lowrank-jax train bol --train train.txt --passes 20 --model chunker --resume
  lowrank-jax train smm --train nettalk/nettalk.data --format nettalk \\
      --fraction 0.1 --set strength=10 step_size=0.3 unfolding=both --model speller
"""


def _describe(parsed: argparse.Namespace) -> str:
    name = getattr(parsed, "learner", "")
    return learners.describe(name) if name in learners.LEARNERS else ""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "train",
        help="train a sequence tagger",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        add_help=False,
    )
    add = parser.add_argument
    add(
        "learner",
        metavar="LEARNER",
        choices=tuple(learners.LEARNERS),
        help=f"one of {', '.join(learners.LEARNERS)}",
    )
    add("--train", metavar="FILE", required=True, help="training data")
    add("--test", metavar="FILE", help="data to score the model on")
    add("--model", metavar="DIR", required=True, help="folder to write the model to")
    add(
        "--format",
        choices=tuple(files.FORMATS),
        default="conll",
        help="of the data; default: conll",
    )
    add(
        "--template",
        metavar="FILE",
        help="feature template as of CRF++, or the name of a shipped one; default: "
        "the shipped one of the format",
    )
    add(
        "--orders",
        choices=("template", "zero", "first", "both"),
        help="which templates have weights on the label (zero), on pairs of labels "
        "(first) or on both, whatever the file says; default: both for bilinear "
        "learners, else template",
    )
    add(
        "--min-count",
        metavar="N",
        type=kinds.count,
        default=1,
        help="drop features that occur less often in the training data",
    )
    add(
        "--passes",
        metavar="N",
        type=kinds.count,
        help="passes over the training data, of crf and smm at most so many "
        "iterations; default: 10, of crf 100, of smm 200",
    )
    options.add_seed(parser, "of the order of sentences and of what else is random")
    add(
        "--fraction",
        metavar="X",
        type=kinds.share,
        default=1.0,
        help="share of the training sentences to use, above 0 and up to 1",
    )
    options.add_settings(parser, "hyper-parameters of the learner")
    add(
        "--unseen-label",
        choices=("known-type", "error", "ignore"),
        default="known-type",
        help="a label of the test data that training never saw: count it as an error "
        "of the model (ignore), stop (error), or stop unless its prefix and its type "
        "were seen apart, as I-LST of CoNLL-2000 is (known-type, the default)",
    )
    options.add_checkpoints(parser)
    add(
        "--certify",
        metavar="U",
        nargs="?",
        const="average",
        help="certify the regret of this run (DR-B4; learners bol and sp) against a "
        "fixed model: average (the model of this run, the default), hindsight (its "
        "best multiple after the fact), or the folder of another model on the same "
        "features; kept in certificate.json of the model folder",
    )
    add(
        "--certify-every",
        metavar="N",
        type=kinds.count,
        help="also log the exact spectrum of the dual (sigma_2/sigma_1 of all blocks) "
        "after every N rounds of a pass, and at its end",
    )
    add("--json", metavar="FILE", help="write the results there; - prints them")
    files.add_data_dir(parser)
    words = "show this help; after LEARNER also its hyper-parameters"
    long_help.add_help(parser, _describe, words)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, save, score; return the exit status."""
    if learners.LEARNERS[arguments.learner].kind == "words":
        from lowrank_jax.cli.commands import train_words

        return train_words.run(arguments)
    if learners.LEARNERS[arguments.learner].kind == "online":
        machine.use_one_core()
    began = time.perf_counter()
    folder = pathlib.Path(arguments.model)
    train_path, test_path = files.find_train_and_test(arguments)
    files.check_json(arguments.json, arguments.model)

    import jax

    from lowrank_jax.cli import certifying
    from lowrank_jax.store.folder import check_target

    check_target(folder, "tagger")
    files.check_place(folder)
    name = arguments.learner
    given = learners.parse_settings(name, arguments.settings)
    certifying.prepare(arguments, given)
    learner = learners.module_of(name).learner(**given)  # settings are checked first
    template = _template(arguments)

    whole = files.read_corpus(train_path, arguments.format)
    template.check_columns(len(whole.columns), whole.source)
    train = share_of(whole, arguments)
    one_pass = learners.LEARNERS[name].one_pass
    if one_pass and one_pass not in given:
        given[one_pass] = train.num_sentences
        learner = learners.module_of(name).learner(**given)
    settings = learners.to_json(learners.all_settings(name, given))
    test = None
    if test_path is not None:
        test = files.read_corpus(test_path, arguments.format)
        template.check_columns(len(test.columns), test.source)
        check_labels(whole, test, test_path, arguments)
    with jax.enable_x64(settings.get("dtype") == "float64"):
        return _train(arguments, learner, settings, template, train, test, began)


def _train(
    arguments: argparse.Namespace,
    learner: Any,
    settings: dict[str, Any],
    template: "Template",
    train: "Corpus",
    test: "Corpus | None",
    began: float,
) -> int:
    import jax

    from lowrank_jax.cli import certifying, scoring
    from lowrank_jax.estimators import training
    from lowrank_jax.estimators.tagger import Tagger
    from lowrank_jax.features import Encoder

    folder = pathlib.Path(arguments.model)
    encoder, sequences = Encoder.fit_transform(
        train, template, min_count=arguments.min_count
    )
    fixed = certifying.comparator(arguments, encoder)
    spec = learners.LEARNERS[arguments.learner]
    module = learners.module_of(arguments.learner)
    job = training.Job(
        learner=learner,
        kind=spec.kind,
        corpus=(
            streams.sentences.stream(sequences)
            if spec.kind == "online"
            else streams.Whole(module.lay_out(sequences))
        ),
        num_sentences=train.num_sentences,
        seed=arguments.seed,
        num_passes=arguments.passes or spec.num_passes,
        settings={
            "learner": arguments.learner,
            "hyperparameters": settings,
            "seed": arguments.seed,
            "min_count": arguments.min_count,
            "template": template.to_text(),
            "data": training.fingerprint(train),
        },
        folder=folder,
        checkpoint_seconds=arguments.checkpoint_seconds,
        keep_checkpoint=arguments.keep_checkpoint,
        keep_traces=arguments.certify is not None,
        every=arguments.certify_every,
        on_rounds=certifying.watch(arguments, settings),
    )
    read_seconds = time.perf_counter() - began
    outcome = training.run(job, resume=arguments.resume)
    if outcome.stopped_by is not None:
        return 128 + outcome.stopped_by

    began = time.perf_counter()
    finish = jax.jit(module.final_params).lower(outcome.state).compile()
    compiled = time.perf_counter()
    params = jax.block_until_ready(finish(outcome.state))
    finished = time.perf_counter()
    pass_seconds = sum(entry["seconds"] for entry in outcome.history)
    result: dict[str, Any] = {
        "learner": arguments.learner,
        "hyperparameters": settings,
        "format": arguments.format,
        "train": arguments.train,
        "test": arguments.test,
        "seed": arguments.seed,
        "fraction": arguments.fraction,
        "min_count": arguments.min_count,
        "passes": len(outcome.history),
        "num_sentences": train.num_sentences,
        "num_tokens": train.num_tokens,
        "num_features": encoder.num_features,
        "num_labels": len(encoder.labels),
        "read_seconds": read_seconds,
        "compile_seconds": outcome.compile_seconds + compiled - began,
        "train_seconds": pass_seconds + finished - compiled,
        "seconds_per_pass": pass_seconds / len(outcome.history),
        "history": outcome.history,
    }
    tagger = Tagger(
        encoder=encoder,
        params=params,
        learner=arguments.learner,
        hyperparameters=settings,
        format=arguments.format,
        metadata=dict(result),
    )
    result["num_parameters"] = tagger.num_parameters
    summary = sys.stderr if arguments.json == "-" else sys.stdout
    certificate = None
    if arguments.certify is not None:
        fixed = params if fixed is None else fixed
        certificate = certifying.certificate(arguments, settings, job, outcome, fixed)
        result["certificate"] = certificate
    tagger.save(
        folder, keep_checkpoint=arguments.keep_checkpoint, certificate=certificate
    )
    print(f"model: {folder}, {tagger.num_parameters:,} parameters", file=summary)
    if certificate is not None:
        print(certifying.line(certificate), file=summary)
    names = ("f1", "precision", "recall", "accuracy", "sentence_accuracy", "f1_is")
    result |= dict.fromkeys(names)
    if test is not None:
        result |= _score(tagger, test, arguments)
        print(scoring.score_line(result), file=summary)
    result |= machine.describe_machine()
    files.write_json(arguments.json, result)
    return 0


def _template(arguments: argparse.Namespace) -> "Template":
    from lowrank_jax.features import read_template, with_orders

    name = arguments.template or files.FORMATS[arguments.format]
    orders = arguments.orders or learners.LEARNERS[arguments.learner].orders
    return with_orders(read_template(name), orders)


def share_of(train: "Corpus", arguments: argparse.Namespace) -> "Corpus":
    """Return the share of the training sentences that ``--fraction`` asks for."""
    from lowrank_jax.data import split_fraction

    if arguments.fraction == 1:
        return train
    return split_fraction(train, arguments.fraction, arguments.seed)


def check_labels(
    train: "Corpus", test: "Corpus", path: str, arguments: argparse.Namespace
) -> None:
    """Stop at, or tell of, labels of the test data that training never saw."""
    assert train.labels is not None and test.labels is not None
    seen = set(train.labels.tolist())
    labels = test.labels.tolist()
    unseen = sorted(set(labels) - seen)
    parts = {part for label in seen for part in _parts(label)}
    for label in unseen:
        is_known = all(part in parts for part in _parts(label))
        if arguments.unseen_label == "ignore":
            break
        if arguments.unseen_label == "known-type" and is_known and "-" in label:
            continue
        token = labels.index(label)
        place = files.place_of_token(path, test, arguments.format, token)
        raise InputError(
            f"{place} has the label {label!r}, which the training data do not have; "
            f"correct it, or say --unseen-label ignore to count it as an error of the "
            f"model."
        )
    if unseen:
        number = sum(label not in seen for label in labels)
        print(
            f"lowrank-jax: the training data do not have the label"
            f"{'s' if len(unseen) > 1 else ''} {', '.join(unseen)} of {number} test "
            f"tokens, which count as errors.",
            file=sys.stderr,
        )


def _parts(label: str) -> tuple[str, str]:
    """Prefix and type of a label, such as ``I-`` and ``LST``."""
    prefix, hyphen, kind = label.partition("-")
    return prefix + hyphen, hyphen + kind


def _score(
    tagger: "Tagger", test: "Corpus", arguments: argparse.Namespace
) -> dict[str, Any]:
    from lowrank_jax.cli import scoring

    began = time.perf_counter()
    predicted = tagger.tag(test)
    seconds = time.perf_counter() - began
    return scoring.score(test, predicted, arguments.format) | {
        "num_test_sentences": test.num_sentences,
        "num_test_tokens": test.num_tokens,
        "test_seconds": seconds,
    }
