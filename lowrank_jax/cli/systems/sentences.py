"""Sentences of labelled tokens: what ``train`` does with them."""

import argparse
import functools
import pathlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files, output
from lowrank_jax.cli.fitting import Run
from lowrank_jax.cli.options import parse_settings
from lowrank_jax.estimators import learners

if TYPE_CHECKING:
    from lowrank_jax.cli.systems.certificates import Certifier
    from lowrank_jax.data.corpus import Corpus

__all__ = ["Sentences", "check_labels"]
__dir__ = __all__.copy


class Sentences:
    """Trains a tagger; see `cli.fitting.System`."""

    kind = "tagger"

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Keep the arguments."""
        self.arguments = arguments
        self.spec = learners.LEARNERS[arguments.learner]
        self.is_online = not self.spec.is_batch
        self.certifier: Certifier | None = None
        self.certificate: dict[str, Any] | None = None
        self.estimator: Any = None
        self.train: Corpus
        self.test: Corpus | None = None
        self.dev: Corpus | None = None

    def names(self) -> tuple[str, str | None]:
        """Return the names of training and test data."""
        return self.arguments.train, self.arguments.test

    def prepare(self) -> None:
        """Check the settings, before anything is read."""
        from lowrank_jax.estimators.tagger import Tagger

        given, arguments = self._given(), self.arguments
        if arguments.patience is not None and arguments.dev is None:
            raise InputError(
                "--patience needs held-out data to score; give --dev FILE."
            )
        if arguments.start is not None:
            self.estimator = self._start(arguments.start)
            return
        if arguments.certify is not None or arguments.certify_every is not None:
            from lowrank_jax.cli.systems.certificates import Certifier

            if given.get("label_cost") is not None:
                raise InputError(
                    "--certify is for the loss without costs (DR-B4); leave out --set "
                    "label_cost, or --certify."
                )
            self.certifier = Certifier(arguments)
            self.certifier.prepare(given)
        self.estimator = Tagger(
            arguments.learner,
            num_passes=arguments.passes,
            template=arguments.template,
            orders=arguments.orders,
            min_count=arguments.min_count,
            seed=arguments.seed,
            format=arguments.format,
            patience=arguments.patience,
            calibration_folds=arguments.calibrate,
            labels=arguments.labels,
            legal_only=arguments.legal_only,
            batch_size=arguments.batch_size,
            num_devices=arguments.devices,
            unknown_label=arguments.unknown_label or None,
            **given,
        )
        self.estimator.check()

    def read(self, train_path: str, test_path: str | None) -> None:
        """Read the data, and check that they have the columns of the template."""
        for corpus in self._read(train_path, test_path):
            template = self.estimator.template_for(len(self.train.columns))
            template.check_columns(len(corpus.columns), corpus.source)
        if template.has_transitions and self._given().get("variant") == "paper":
            output.note(
                "the template has label transitions (a bare B line). Their weights "
                "move by 1 on each mistake and drown the factors of variant=paper; "
                "leave the line out."
            )
        elif template.has_transitions and self.arguments.orders == "first":
            output.note(
                "label transitions (a bare B line of the template) stand beside the "
                "first-order features; leave the line out for first-order features "
                "alone."
            )

    def fit(self, run: Run) -> dict[str, Any]:
        """Train the tagger; certify the run if that is asked for."""
        certifier, tagger = self.certifier, self.estimator
        if self.arguments.start is not None:
            from lowrank_jax.estimators.tagger import fitting

            number = self.arguments.passes or self.spec.num_passes
            fitting.go_on(tagger, self.train, num_passes=number, dev=self.dev, run=run)
            return self._summary(run)
        if certifier is None:
            tagger.fit(self.train, X_dev=self.dev, run=run)
            return self._summary(run)
        tagger.fit(
            self.train,
            X_dev=self.dev,
            run=lambda job: run(certifier.watch(job, tagger.encoder_)),
        )
        self.certificate = certifier.certificate(run, tagger)
        return self._summary(run) | {"certificate": self.certificate}

    def save(self, result: dict[str, Any]) -> None:
        """Write the model folder, and say what its weights are on."""
        if self.spec.orders == "both" and self.arguments.orders is None:
            output.note(
                f"{self.arguments.learner} gives `U` lines first-order weights too; "
                "--orders template does not."
            )
        self.estimator.save(
            self.arguments.model,
            keep_checkpoint=self.arguments.keep_checkpoint,
            certificate=self.certificate,
        )

    def lines(self, result: dict[str, Any]) -> Iterator[str]:
        """Yield the summary, and add the scores on the test data to the result."""
        folder = pathlib.Path(self.arguments.model)
        if "orders" in result:
            from lowrank_jax.estimators.tagger import orders

            yield orders.line(result["orders"])
        yield f"model: {folder}, {result['num_parameters']:,} parameters"
        if self.certifier is not None and self.certificate is not None:
            yield self.certifier.line(self.certificate)
        names = ("f1", "precision", "recall", "accuracy", "sentence_accuracy", "f1_is")
        result |= dict.fromkeys(names)
        if self.test is not None:
            result |= self._score(self.test)
            yield output.score_line(result)

    def _start(self, folder: str) -> Any:
        """Read the model to go on from; refuse what it has settled already."""
        from lowrank_jax.estimators.tagger import Tagger

        given = self.arguments
        for option, is_given in (
            ("--template", given.template is not None),
            ("--orders", given.orders is not None),
            ("--set", bool(given.settings)),
            ("--certify", given.certify is not None),
            ("--certify-every", given.certify_every is not None),
            ("--calibrate", bool(given.calibrate)),
            ("--labels", given.labels is not None),
            ("--legal-only", given.legal_only),
            ("--batch-size", given.batch_size != 1),
            ("--devices", given.devices != 1),
        ):
            if is_given:
                raise InputError(
                    f"{option} has no meaning beside --from {folder}, whose settings "
                    "stay; leave it out."
                )
        tagger = Tagger.load(folder)
        if tagger.learner != given.learner or tagger.format != given.format:
            raise InputError(
                f"--from {folder} is a model of {tagger.learner} for --format "
                f"{tagger.format}; give the same learner and format."
            )
        column = given.label_column or "upos"
        if tagger.training_.get("label_column", column) != column:
            raise InputError(
                f"--from {folder} has learned --label-column "
                f"{tagger.training_['label_column']}, got {column}; give the same."
            )
        tagger.set_params(seed=given.seed, patience=given.patience)
        return tagger

    def _given(self) -> dict[str, Any]:
        """Return the settings of ``--set``."""
        name, texts = self.arguments.learner, self.arguments.settings
        return parse_settings(texts, learners.options_of(self.spec), owner=name)

    def _read(self, train_path: str, test_path: str | None) -> "Iterator[Corpus]":
        """Read training and test data, and yield each as it is read."""
        from lowrank_jax.data.corpus import split_fraction

        arguments = self.arguments
        self.train = whole = self._with_unknown(train_path)
        yield whole
        self._check_scheme(whole, train_path)
        if arguments.fraction != 1:
            self.train = split_fraction(whole, arguments.fraction, arguments.seed)
        if arguments.dev is not None:
            dev_path = files.find_data(arguments.dev, arguments.data_dir)
            self.dev = self._with_unknown(dev_path)
            yield self.dev
            self._check_scheme(self.dev, dev_path)
        if test_path is not None:
            self.test = self._with_unknown(test_path)
            yield self.test
            check_labels(whole, self.test, test_path, arguments)

    def _with_unknown(self, path: str) -> "Corpus":
        """Read a file, and note which of its labels are unknown."""
        from lowrank_jax import metrics
        from lowrank_jax.data.corpus import with_unknown

        text = self.arguments.unknown_label
        corpus = with_unknown(files.read_corpus(path, self.arguments), text or None)
        if corpus.unknown_label is None:
            return corpus
        assert corpus.labels is not None
        if self.certifier is not None:
            raise InputError(
                f"{path} has unknown labels ({text}), and --certify (DR-B4) needs all "
                "of them; leave --certify out."
            )
        if hasattr(self, "train"):  # data to score
            metrics.check_known(corpus, self.arguments.format)
        number = int((corpus.labels == text).sum())
        output.note(
            f"{number} of {corpus.num_tokens} tokens of {path} are labelled {text}: "
            "their labels are unknown (--unknown-label)."
        )
        return corpus

    def _check_scheme(self, corpus: "Corpus", path: str) -> None:
        """Raise with file and line if labels have no scheme but need one."""
        has_scheme = getattr(self.estimator, "scheme_", None) is not None
        if self.arguments.labels or self.arguments.legal_only or has_scheme:
            from lowrank_jax.data import scheme_of

            assert corpus.labels is not None
            place = functools.partial(
                files.place_of_token, path, corpus, self.arguments.format
            )
            scheme_of(corpus.labels, corpus.offsets, place)

    def _summary(self, run: Run) -> dict[str, Any]:
        """Complete the summary that is kept with the model; return the result."""
        arguments = self.arguments
        self.estimator.training_ |= {
            "train": arguments.train,
            "test": arguments.test,
            "fraction": arguments.fraction,
            "min_count": arguments.min_count,
            "read_seconds": run.read_seconds,
        }
        if arguments.format == "conllu":
            self.estimator.training_["label_column"] = arguments.label_column or "upos"
        about = {"num_parameters": self.estimator.num_parameters}
        return self.estimator.training_ | about

    def _score(self, test: "Corpus") -> dict[str, Any]:
        from lowrank_jax import metrics

        began = time.perf_counter()
        predicted = self.estimator.predict(test)
        seconds = time.perf_counter() - began
        return metrics.score_labels(test, predicted, self.arguments.format) | {
            "num_test_sentences": test.num_sentences,
            "num_test_tokens": test.num_tokens,
            "test_seconds": seconds,
        }


def check_labels(
    train: "Corpus", test: "Corpus", path: str, arguments: argparse.Namespace
) -> None:
    """Raise `InputError`, or print a note, if a test label is not in training."""
    assert train.labels is not None and test.labels is not None
    seen = set(train.labels.tolist())
    labels = test.labels.tolist()
    unseen = sorted(set(labels) - seen - {test.unknown_label})
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
            f"correct it, or give --unseen-label ignore to count it as an error of the "
            f"model."
        )
    if unseen:
        number = sum(label not in seen for label in labels)
        output.note(
            f"the training data do not have the label{'s' if len(unseen) > 1 else ''} "
            f"{', '.join(unseen)} of {number} test tokens; these count as errors."
        )


def _parts(label: str) -> tuple[str, str]:
    """Return prefix and type of a label, such as ``I-`` and ``LST``."""
    prefix, hyphen, kind = label.partition("-")
    return prefix + hyphen, hyphen + kind
