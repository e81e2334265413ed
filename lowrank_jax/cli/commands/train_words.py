"""``lowrank-jax train smm``: words as bi-symbols, from a NETtalk file to a folder."""

import argparse
import pathlib
import sys
import time
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, learners

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus
    from lowrank_jax.estimators.speller import WordTagger

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Train, save, score; return the exit status."""
    began = time.perf_counter()
    folder = pathlib.Path(arguments.model)
    _check(arguments)
    train_path, test_path = files.find_train_and_test(arguments)
    files.check_json(arguments.json, arguments.model)

    import jax

    from lowrank_jax.cli.commands import train as common
    from lowrank_jax.store.folder import check_target

    check_target(folder, "word tagger")
    files.check_place(folder)
    name = arguments.learner
    settings = learners.all_settings(
        name, learners.parse_settings(name, arguments.settings)
    )
    of_learner, of_final = learners.split_settings(name, settings)
    learner = learners.module_of(name).learner(**of_learner)
    _check_iterate(of_final)
    whole = files.read_corpus(train_path, arguments.format)
    train = common.share_of(whole, arguments)
    test = None
    if test_path is not None:
        test = files.read_corpus(test_path, arguments.format)
        common.check_labels(whole, test, test_path, arguments)
    with jax.enable_x64(learners.to_json(settings)["dtype"] == "float64"):
        return _train(arguments, learner, settings, train, test, began)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what has no meaning for bi-symbols."""
    name = arguments.learner
    if arguments.format != "nettalk":
        raise InputError(
            f"{name} learns words as pairs of a letter and a label, so --format must "
            f"be nettalk, got {arguments.format}."
        )
    features, rounds = "features", "the regret of rounds"
    for option, is_given, about in (
        ("--template", arguments.template is not None, features),
        ("--orders", arguments.orders is not None, features),
        ("--min-count", arguments.min_count != 1, features),
        ("--certify", arguments.certify is not None, rounds),
        ("--certify-every", arguments.certify_every is not None, rounds),
    ):
        if is_given:
            raise InputError(
                f"{option} is about {about}, which {name} does not have; leave it out."
            )


def _check_iterate(of_final: dict[str, Any]) -> None:
    """Find a wrong `iterate` before training, not after."""
    from lowrank_jax import checks

    checks.choice(("last", "best", "average"), **of_final)


def _train(
    arguments: argparse.Namespace,
    learner: Any,
    settings: dict[str, Any],
    train: "Corpus",
    test: "Corpus | None",
    began: float,
) -> int:
    import jax

    from lowrank_jax import data, streams
    from lowrank_jax.cli import scoring
    from lowrank_jax.cli.machine import describe_machine
    from lowrank_jax.estimators import training
    from lowrank_jax.estimators.speller import WordTagger

    folder = pathlib.Path(arguments.model)
    spec = learners.LEARNERS[arguments.learner]
    module = learners.module_of(arguments.learner)
    of_learner, of_final = learners.split_settings(arguments.learner, settings)
    plain = learners.to_json(settings)
    alphabet = data.alphabet_of(train)
    words = data.encode_words(alphabet, train)
    lattice = module.lay_out(alphabet, words, order=settings["order"])
    job = training.Job(
        learner=learner,
        kind="batch",
        corpus=streams.Whole(jax.device_put(lattice)),
        num_sentences=train.num_sentences,
        seed=arguments.seed,
        num_passes=arguments.passes or spec.num_passes,
        settings={
            "learner": arguments.learner,
            # Which iterate is taken may be asked for after the run, too.
            "hyperparameters": learners.to_json(of_learner),
            "seed": arguments.seed,
            "data": training.fingerprint(train),
        },
        folder=folder,
        checkpoint_seconds=arguments.checkpoint_seconds,
        keep_checkpoint=arguments.keep_checkpoint,
    )
    read_seconds = time.perf_counter() - began
    outcome = training.run(job, resume=arguments.resume)
    if outcome.stopped_by is not None:
        return 128 + outcome.stopped_by

    pass_seconds = sum(entry["seconds"] for entry in outcome.history)
    result: dict[str, Any] = {
        "learner": arguments.learner,
        "hyperparameters": plain,
        "format": arguments.format,
        "train": arguments.train,
        "test": arguments.test,
        "seed": arguments.seed,
        "fraction": arguments.fraction,
        "min_count": arguments.min_count,
        "passes": len(outcome.history),
        "num_sentences": train.num_sentences,
        "num_tokens": train.num_tokens,
        "num_features": alphabet.num_symbols,
        "num_labels": len(set(alphabet.outputs[1:-1].tolist())),
        "rank": int(outcome.state.rank),
        "best_objective": float(outcome.state.best_objective),
        "lower_bound": float(outcome.state.lower_bound),
        "read_seconds": read_seconds,
        "compile_seconds": outcome.compile_seconds,
        "train_seconds": pass_seconds,
        "seconds_per_pass": pass_seconds / len(outcome.history),
        "history": outcome.history,
    }
    tagger = WordTagger(
        alphabet=alphabet,
        params=module.final_params(outcome.state, **of_final),
        basis={name: settings[name] for name in ("order", "lower_orders", "unfolding")},
        has_boundary=settings["has_boundary"],
        learner=arguments.learner,
        hyperparameters=plain,
        metadata=dict(result),
    )
    result["num_parameters"] = tagger.num_parameters
    tagger.save(folder, keep_checkpoint=arguments.keep_checkpoint)
    summary = sys.stderr if arguments.json == "-" else sys.stdout
    print(f"model: {folder}, {tagger.num_parameters:,} parameters", file=summary)
    names = ("f1", "precision", "recall", "accuracy", "sentence_accuracy", "f1_is")
    result |= dict.fromkeys(names)
    if test is not None:
        result |= _score(tagger, test, arguments.format)
        print(scoring.score_line(result), file=summary)
    result |= describe_machine()
    files.write_json(arguments.json, result)
    return 0


def _score(tagger: "WordTagger", test: "Corpus", file_format: str) -> dict[str, Any]:
    from lowrank_jax.cli import scoring

    began = time.perf_counter()
    predicted = tagger.predict(test)
    seconds = time.perf_counter() - began
    return scoring.score(test, predicted, file_format) | {
        "num_test_sentences": test.num_sentences,
        "num_test_tokens": test.num_tokens,
        "test_seconds": seconds,
    }
