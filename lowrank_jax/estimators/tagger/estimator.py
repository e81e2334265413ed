"""A sequence tagger: from sentences of strings or features to labels."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np

from lowrank_jax import checks, metrics
from lowrank_jax.checks import InputError
from lowrank_jax.data.chunks import SCHEMES
from lowrank_jax.data.corpus import Bags, Corpus, labels_like, sentences_of
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators import learners
from lowrank_jax.estimators.tagger import small
from lowrank_jax.estimators.tagger.model import TaggerModel
from lowrank_jax.features import Encoder, Template, read_template, with_orders

if TYPE_CHECKING:
    from lowrank_jax.estimators.tagger import inspection
    from lowrank_jax.estimators.tagger.fitting import Run
    from lowrank_jax.estimators.tagger.settings import Settings

__all__ = ["Labelling", "Tagger"]
__dir__ = __all__.copy

_LEARNERS = {k: v for k, v in learners.LEARNERS.items() if v.data == "sentences"}

#: A corpus, or sentences of tokens; `data.corpus.corpus_of` says what a token may be.
Sentences = Any


class Labelling(NamedTuple):
    """One way to label a sentence.

    Attributes:
      labels: (num_tokens,) strings.
      score: Score of the model, comparable within a sentence only.
    """

    labels: np.ndarray
    score: float


class Tagger(TaggerModel):
    """Labels the tokens of sentences.

    Attributes:
      encoder_: Features and labels of the training data.
      params_: Weights of `models.linear` or `models.bilinear`; BOL's weights have an
        index `rows` (`online.touched`).
      classes_: Labels in the order of the model.
      temperature_: Number that divides scores to give probabilities.
      scheme_: Schemes of chunks in the labels, if `labels` or `legal_only` is given.
      orders_: What ``orders="auto"`` has chosen, and its held-out scores.
      history_: One entry per pass: number of mistakes, loss, seconds.
      hyperparameters_: All settings of the learner, ready for JSON.
      training_: Summary of the training, ready for JSON.
    """

    def __init__(
        self,
        learner: str = "sp",
        num_passes: int | None = None,
        template: str | Template | None = None,
        orders: str | None = None,
        min_count: int = 1,
        seed: int = 0,
        format: str = "conll",
        patience: int | None = None,
        calibration_folds: int = 0,
        labels: str | None = None,
        legal_only: bool = False,
        batch_size: int | str = 1,
        num_devices: int = 1,
        unknown_label: str | None = "?",
        **hyperparameters: "Unpack[Settings]",
    ) -> None:
        """Keep the settings; `fit` checks them.

        Args:
          learner: ``"sp"``, ``"mira"``, ``"crf"``, ``"bol"`` or ``"bcd"``.
          num_passes: Number of passes, or of iterations of crf at most. None takes 10,
            for crf 100.
          template: Feature template, its file, or the name of a shipped template, for
            tokens of columns. None takes the template of the format, or ``"words"``
            for words alone. Lists and dicts of features need none.
          orders: ``"template"``, ``"zero"``, ``"first"`` or ``"both"``, as
            `features.with_orders` has them, or ``"auto"``, chosen on held-out training
            sentences. None takes ``"both"`` for bilinear learners, else ``"template"``.
          min_count: Least number of occurrences of a feature.
          seed: Seed of the order of sentences and of the start.
          format: What `score` counts: chunks (``"conll"``), words
            (``"segmentation"``) or tokens (``"conllu"``, ``"nettalk"``).
          patience: Number of passes without a better score on held-out data after which
            `fit` ends. None makes all passes.
          calibration_folds: Number of folds of the training data to fit the temperature
            of probabilities on, 0 for none. Each fold trains once more. With 2 folds
            each model sees half of the data, and the probabilities come out too low;
            take 4. Held-out data given to `fit` serve instead.
          labels: Scheme of chunks that the model learns: ``"iob1"``, ``"iob2"`` or
            ``"iobes"``. `fit` converts labels to it, and predictions are converted
            back. `classes_` and probabilities are in this scheme. None takes labels as
            they are.
          legal_only: If true, no labels are predicted that the scheme does not allow,
            such as ``O`` before ``I-NP`` in IOB2. Training stays as it is. The scheme
            is `labels`, or the scheme of the training data.
          batch_size: Sentences per update of bol, sp, mira, or ``"8,16,64"`` by pass.
          num_devices: Number of devices that share a batch, with the same result.
          unknown_label: Label of training tokens whose label is not known; None and -1
            in `y` say the same. Such labels are latent: learners go towards the best
            labels that agree with the known ones, crf sums over all of them.
          **hyperparameters: Arguments of the ``learner`` function of the learner. Here
            `label_cost` may be a dict such as ``{"B-NP": 2, "O": {"B-NP": 3}}``: costs
            by true label, or by true and predicted label; others cost 1.
        """
        self.learner = learner
        self.num_passes = num_passes
        self.template = template
        self.orders = orders
        self.min_count = min_count
        self.seed = seed
        self.format = format
        self.patience = patience
        self.calibration_folds = calibration_folds
        self.labels = labels
        self.legal_only = legal_only
        self.batch_size = batch_size
        self.num_devices = num_devices
        self.unknown_label = unknown_label
        self.hyperparameters = dict(hyperparameters)

    def check(self) -> None:
        """Raise `InputError` unless the settings make sense."""
        learners.check_wide(self, self._learner({})[0])
        self.template_for(2)
        checks.choice(tuple(learners.FORMATS), format=self.format)
        if self.labels is not None:
            checks.choice(tuple(SCHEMES), labels=self.labels)
        checks.whole(min_count=self.min_count)
        checks.whole(least=0, calibration_folds=self.calibration_folds)
        if self.calibration_folds == 1 or (
            self.calibration_folds and self._spec.is_batch
        ):
            raise InputError(
                f"`calibration_folds` must be 0 or at least 2, and 0 for crf, whose "
                f"training fits probabilities, got {self.calibration_folds}."
            )
        if self.patience is not None:
            checks.whole(patience=self.patience)

    def template_for(self, num_columns: int) -> Template:
        """Return the template that `fit` uses for data of so many columns."""
        found = self.template
        if found is None:
            found = learners.FORMATS[self.format]
            if num_columns == 1:
                found = "words" if self.format.startswith("conll") else "nettalk"
        if not isinstance(found, Template):
            found = read_template(found)
        if self.orders == "auto":
            return with_orders(found, "zero")
        return with_orders(found, self.orders or self._spec.orders)

    def fit(
        self,
        X: Sentences,
        y: Any = None,
        X_dev: Sentences = None,
        y_dev: Any = None,
        sample_weight: Any = None,
        *,
        run: "Run | None" = None,
    ) -> "Tagger":
        """Train on labelled sentences and return the object itself.

        Args:
          X: Corpus, or sentences of tokens. A token is a string, a tuple of columns, a
            list of feature strings, or a dict of features.
          y: Labels of each sentence, or all labels in a flat array. None takes the
            labels of the corpus.
          X_dev: Held-out sentences. They are scored after each pass, and the weights of
            the best pass are kept. None keeps the weights of the last pass.
          y_dev: Labels of the held-out sentences.
          sample_weight: Weight of each sentence, which multiplies the step (for mira
            and bcd, the largest step) or the log-likelihood of crf. None means 1 each.
          run: Function that does the job; the command line adds checkpoints.
        """
        from lowrank_jax.estimators.tagger import fitting

        self.check()
        for name in ("_params", "_weights", "_state", "orders_"):
            self.__dict__.pop(name, None)
        corpus = self._begin(self._given(X, y))
        self.encoder_, sequences = fitting.encode(self, corpus)
        self._bars()
        fitting.train(
            self,
            corpus,
            sequences,
            num_passes=self.num_passes or self._spec.num_passes,
            dev=None if X_dev is None else self._given(X_dev, y_dev),
            run=run,
            weights=sample_weight,
        )
        return self

    def partial_fit(
        self,
        X: Sentences,
        y: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
    ) -> "Tagger":
        """Make one pass over more labelled sentences and return the object itself.

        The rounds go on where the last ones ended, averages included. Features that
        are new get weights of their own. A model that was read from a folder has its
        weights only: training goes on from them, and averages begin anew.

        Args:
          X: Corpus, or sentences of tokens of the kind of the first call.
          y: Labels, as for `fit`.
          classes: All labels that will ever come, at the first call, in the scheme
            `labels` if that is given. None takes the labels of the first call.
          sample_weight: Weights of sentences, as for `fit`.
        """
        from lowrank_jax.estimators.tagger import fitting

        self.check()
        if self._spec.is_batch:
            raise InputError(
                f"`learner` {self.learner!r} needs all data at once; take sp, mira or "
                "bol for data that come bit by bit."
            )
        corpus = self._given(X, y)
        if "_weights" not in self.__dict__:
            corpus = self._begin(corpus)
            self.encoder_, sequences = fitting.encode(self, corpus)
            if classes is not None:
                names = tuple(sorted({*map(str, classes), *self.encoder_.labels}))
                from lowrank_jax.features.growing import with_labels

                self.encoder_, sequences = with_labels(self.encoder_, names, corpus)
            self._bars()
            fitting.train(self, corpus, sequences, num_passes=1, weights=sample_weight)
        else:
            fitting.go_on(self, corpus, num_passes=1, weights=sample_weight)
        return self

    def predict(self, X: Sentences) -> Any:
        """Return the best labels: of a corpus (num_tokens,) strings, else lists.

        Args:
          X: Corpus, or sentences of tokens. Labels of a corpus are ignored.
        """
        corpus = sentences_of(X)
        codes = self._codes(self._encode(corpus))
        return labels_like(X, corpus, self._names(codes, corpus.offsets))

    def score(self, X: Sentences, y: Any = None) -> float:
        """Return F1 as a fraction, of chunks, words or tokens as `format` says.

        Args:
          X: Corpus, or sentences of tokens.
          y: Labels of each sentence. None takes the labels of the corpus.
        """
        corpus = self._given(X, y)
        return (
            metrics.score_labels(corpus, self.predict(corpus), self.format)["f1"] / 100
        )

    def k_best(self, X: Sentences, k: int) -> list[list[Labelling]]:
        """Return the k best labellings of each sentence, best first.

        Args:
          X: Corpus, or sentences of tokens. Labels of a corpus are ignored.
          k: Number of labellings; a short sentence may have fewer.
        """
        checks.whole(k=k)
        found = self._k_best(self._encode(sentences_of(X)), k)
        return [
            [
                Labelling(self._names(codes, np.array([0, len(codes)])), score)
                for codes, score in paths
            ]
            for paths in found
        ]

    def predict_marginals(self, X: Sentences) -> Any:
        """Return the probability of each label at each token.

        The probabilities are the softmax over all labellings of a sentence,
        ``exp(score / temperature_) / Z``. Training by likelihood (``crf``) fits them.
        Perceptron and max-margin models need `calibrate`, held-out data in `fit`, or
        `calibration_folds`; else their temperature is 1.

        Args:
          X: Corpus, or sentences of tokens. Labels of a corpus are ignored.

        Returns:
          Of a corpus a (num_tokens, S) array. Of sentences one list per sentence, with
          a dict from label to probability for each token.
        """
        corpus = sentences_of(X)
        sequences, heat = self._encode(corpus), self.temperature_
        if small.is_small(self._weights, sequences):
            result = small.marginals(self._scored, sequences, heat).astype(self.dtype)
        else:
            from lowrank_jax.estimators import labelling

            with self._precision():
                result = labelling.marginals_all(
                    self._module, self._decoded(self.params_), sequences, heat
                )
        if isinstance(X, Corpus):
            return result
        names, bounds = self.encoder_.labels, corpus.offsets.tolist()
        rows = [dict(zip(names, row, strict=True)) for row in result.tolist()]
        return [rows[a:b] for a, b in itertools.pairwise(bounds)]

    def calibrate(self, X: Sentences, y: Any = None) -> "Tagger":
        """Fit `temperature_` on held-out sentences and return the object itself.

        Labels stay as they are; only probabilities change.

        Args:
          X: Corpus, or sentences that the model was not trained on.
          y: Labels, as for `fit`.
        """
        from lowrank_jax.estimators.tagger import calibration

        corpus = self._given(X, y)
        self._check_kind(corpus)
        if corpus.labels is None:
            raise InputError(f"{corpus.source} has no labels to compare with.")
        encoder: Any = self.encoder_
        sequences = encoder.transform(self._own_labels(corpus), unseen_label="ignore")
        self.temperature_ = calibration.fit_temperature(self._scored, sequences)
        return self

    def top_features(self, n: int = 10) -> dict[str, list[tuple[str, float]]]:
        """Return the n strongest features of each label with their weights.

        Args:
          n: Number of features per label.
        """
        from lowrank_jax.estimators.tagger import inspection

        return inspection.top_features(self.encoder_, self._weights, n)

    def transitions(self) -> dict[str, dict[str, float]]:
        """Return the weight of each pair of labels: previous, then current label.

        The previous label ``"<start>"`` is the place before the first token.
        """
        from lowrank_jax.estimators.tagger import inspection

        return inspection.transitions(self.encoder_.labels, self._weights)

    def factors(self, feature: str) -> list[dict[str, Any]]:
        """Return the two factors of a feature of a bilinear model, by rank.

        Args:
          feature: Name of the feature, as `top_features` has it.
        """
        from lowrank_jax.estimators.tagger import inspection

        return inspection.factors(self.encoder_, self._weights, feature)

    def explain(self, sentence: Any) -> "list[inspection.Reason]":
        """Return for each token its label, the rival label, and what decides.

        Args:
          sentence: One sentence: a list of tokens, or a corpus of one sentence.
        """
        corpus = sentences_of(sentence if isinstance(sentence, Corpus) else [sentence])
        if corpus.num_sentences != 1:
            raise InputError(
                f"`sentence` must be one sentence, got {corpus.num_sentences}; "
                "take one with `take`."
            )
        tokens = list(zip(*(c.tolist() for c in corpus.columns), strict=True))
        shown = [token[0] if len(token) == 1 else token for token in tokens]
        from lowrank_jax.estimators.tagger import inspection

        return inspection.explain(
            self.encoder_, self._scored, self._encode(corpus), shown
        )

    @property
    def _spec(self) -> learners.Spec:
        return learners.spec_of(self.learner, _LEARNERS)

    def _learner(
        self, more: Mapping[str, Any], labels: tuple[str, ...] = ()
    ) -> tuple[Any, dict[str, Any]]:
        """Build the learner; return it and all its settings, ready for JSON.

        Args:
          more: Settings that the data decide unless they are given.
          labels: Labels of the training data, once they are known.
        """
        given = dict(more) | dict(self.hyperparameters)
        own, options = self._defaults(), learners.options_of(self._spec)
        every = learners.complete(self.learner, options, given, own)
        if isinstance(given.get("label_cost"), Mapping):
            cost = given.pop("label_cost")
            given["label_cost"] = learners.label_cost(cost, labels) if labels else 1.0
        learner = learners.module_of(self._spec).learner(**given)
        return learner, learners.to_json(every)

    def _given(self, X: Sentences, y: Any) -> Corpus:
        return sentences_of(X, y, self.unknown_label)

    def _begin(self, corpus: Corpus) -> Corpus:
        """Learn the scheme of the labels; return the corpus in the model's scheme."""
        self._learn_scheme(corpus, self.labels, self.legal_only)
        return self._own_labels(corpus)

    def _check_kind(self, corpus: Corpus) -> None:
        """Raise `InputError` unless the tokens are of the kind of the training data."""
        if isinstance(self.encoder_, Encoder) == isinstance(corpus, Bags):
            has, wants = "strings or tuples of columns", "lists or dicts of features"
            if isinstance(corpus, Bags):
                has, wants = wants, has
            raise InputError(
                f"{corpus.source} has tokens that are {has}, and the model was trained "
                f"on {wants}; give tokens as in training."
            )

    def _encode(self, corpus: Corpus) -> Sequences:
        self._check_kind(corpus)
        plain: Any = dataclasses.replace(corpus, labels=None)
        return self.encoder_.transform(plain)
