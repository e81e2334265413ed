"""A sequence tagger: from sentences of strings to labels."""

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks, metrics, streams
from lowrank_jax.data.corpus import Corpus, corpus_of
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators import labelling, learners, training
from lowrank_jax.estimators.base import Estimator
from lowrank_jax.features import Encoder, Template, read_template, with_orders
from lowrank_jax.models import bilinear, linear
from lowrank_jax.store import folder as model_folder
from lowrank_jax.store.files import Path

__all__ = ["Labelling", "Tagger"]

_KIND = "tagger"
_MODELS: dict[str, Any] = {"linear": linear, "bilinear": bilinear}
_LEARNERS = {k: v for k, v in learners.LEARNERS.items() if v.data == "sentences"}

Params = linear.Params | bilinear.Params
#: Sentences of tokens; a token is a string or a tuple of columns.
Sentences = Corpus | Sequence[Sequence[str | tuple[str, ...]]]


class Labelling(NamedTuple):
    """One way to label a sentence.

    Attributes:
      labels: (num_tokens,) strings.
      score: Score of the model, comparable within a sentence only.
    """

    labels: np.ndarray
    score: float


class Tagger(Estimator):
    """Labels the tokens of sentences.

    Attributes:
      encoder_: Features and labels of the training data.
      params_: Weights of `models.linear` or `models.bilinear`.
      classes_: Labels in the order of the model.
      history_: One entry per pass: number of mistakes, loss, seconds.
      hyperparameters_: All settings of the learner, ready for JSON.
      training_: Summary of the training, ready for JSON.
    """

    def __init__(
        self,
        learner: str = "bol",
        num_passes: int | None = None,
        template: str | Template | None = None,
        orders: str | None = None,
        min_count: int = 1,
        seed: int = 0,
        format: str = "conll",
        **hyperparameters: Any,
    ) -> None:
        """Keep the settings; `fit` checks them.

        Args:
          learner: ``"bol"``, ``"sp"``, ``"mira"``, ``"bcd"`` or ``"crf"``.
          num_passes: Number of passes, or of iterations of crf at most. None takes 10,
            for crf 100.
          template: Feature template, its file, or the name of a shipped template. None
            takes the template of the format, or ``"nettalk"`` for data of one column.
          orders: ``"template"``, ``"zero"``, ``"first"`` or ``"both"``, as
            `features.with_orders` has them. None takes ``"both"`` for bilinear
            learners, else ``"template"``.
          min_count: Least number of occurrences of a feature.
          seed: Seed of the order of sentences and of the start.
          format: What `score` counts: chunks (``"conll"``), words
            (``"segmentation"``) or tokens (``"nettalk"``).
          **hyperparameters: Arguments of the ``learner`` function of the learner.
        """
        self.learner = learner
        self.num_passes = num_passes
        self.template = template
        self.orders = orders
        self.min_count = min_count
        self.seed = seed
        self.format = format
        self.hyperparameters = hyperparameters

    @classmethod
    def from_params(
        cls,
        encoder: Encoder,
        params: Params,
        *,
        learner: str = "bol",
        hyperparameters: Mapping[str, Any] | None = None,
        format: str = "conll",
        training: Mapping[str, Any] | None = None,
    ) -> "Tagger":
        """Return a fitted tagger with given weights.

        Args:
          encoder: Features and labels.
          params: Weights of `models.linear` or `models.bilinear`.
          learner: Name of the learner that made them.
          hyperparameters: Its settings, ready for JSON.
          format: Format of the data.
          training: Summary of the training, ready for JSON.
        """
        plain, about = dict(hyperparameters or {}), dict(training or {})
        is_batch = "converged" in about.get("history", [{}])[-1]
        tagger = cls(
            learner,
            num_passes=None if is_batch else about.get("passes"),
            template=encoder.template,
            orders="template",
            min_count=about.get("min_count", 1),
            seed=about.get("seed", 0),
            format=format,
            **learners.without_json(plain),
        )
        tagger.encoder_, tagger.params_ = encoder, params
        tagger.hyperparameters_, tagger.training_ = plain, about
        return tagger

    @property
    def classes_(self) -> np.ndarray:
        """Labels in the order of the model."""
        return np.array(self.encoder_.labels, dtype=object)

    @property
    def model(self) -> str:
        """``"linear"`` or ``"bilinear"``."""
        return "linear" if isinstance(self.params_, linear.Params) else "bilinear"

    @property
    def dtype(self) -> np.dtype:
        """Type of the weights."""
        return np.dtype(jax.tree.leaves(self.params_)[0].dtype)

    @property
    def num_parameters(self) -> int:
        """Number of weights of the model."""
        rank = 1
        if isinstance(self.params_, bilinear.Params):
            rank = bilinear.rank_of(self.params_.table, len(self.encoder_.labels))
        return labelling.num_parameters(
            self.encoder_.space,
            model=self.model,
            rank=rank,
            num_zero_order=self.encoder_.num_zero_order,
            num_first_order=self.encoder_.num_first_order,
        )

    def check(self) -> None:
        """Raise `InputError` unless the settings make sense."""
        self._learner({})
        self.template_for(2)
        checks.choice(tuple(learners.FORMATS), format=self.format)
        checks.whole(min_count=self.min_count)

    def template_for(self, num_columns: int) -> Template:
        """Return the template that `fit` uses for data of so many columns."""
        found = self.template
        if found is None:
            found = learners.FORMATS[self.format] if num_columns > 1 else "nettalk"
        if not isinstance(found, Template):
            found = read_template(found)
        return with_orders(found, self.orders or self._spec.orders)

    def fit(
        self,
        X: Sentences,
        y: Sequence[Sequence[str]] | None = None,
        *,
        run: Callable[[training.Job], training.Outcome] = training.run,
    ) -> "Tagger":
        """Train on labelled sentences and return the object itself.

        Args:
          X: Corpus, or sentences of tokens.
          y: Labels of each sentence. None takes the labels of the corpus.
          run: Function that does the job; the command line adds checkpoints.
        """
        self.check()
        self.__dict__.pop("params_", None)
        corpus = corpus_of(X, y)
        template = self.template_for(len(corpus.columns))
        template.check_columns(len(corpus.columns), corpus.source)
        spec, module = self._spec, learners.module_of(self._spec)
        more = {spec.one_pass: corpus.num_sentences} if spec.one_pass else {}
        learner, plain = self._learner(more)
        with jax.enable_x64(plain.get("dtype") == "float64"):
            self.encoder_, sequences = Encoder.fit_transform(
                corpus, template, min_count=self.min_count
            )
            job = training.Job(
                learner=learner,
                stream=(
                    streams.Whole(streams.lanes.lanes(sequences))
                    if spec.is_batch
                    else streams.sentences.stream(sequences)
                ),
                unit="sentences",
                num_examples=corpus.num_sentences,
                seed=self.seed,
                num_passes=self.num_passes or spec.num_passes,
                settings={
                    "learner": self.learner,
                    "hyperparameters": plain,
                    "seed": self.seed,
                    "min_count": self.min_count,
                    "template": template.to_text(),
                    "data": training.fingerprint(corpus),
                },
            )
            outcome = run(job)
            began = time.perf_counter()
            finish = jax.jit(module.final_params).lower(outcome.state).compile()
            compiled = time.perf_counter()
            params = jax.block_until_ready(finish(outcome.state))
            finished = time.perf_counter()
        self.hyperparameters_, self.params_ = plain, params
        self.training_ = {
            "learner": self.learner,
            "hyperparameters": plain,
            "format": self.format,
            "seed": self.seed,
            "min_count": self.min_count,
            "passes": len(outcome.history),
            "num_sentences": corpus.num_sentences,
            "num_tokens": corpus.num_tokens,
            "num_features": self.encoder_.num_features,
            "num_labels": len(self.encoder_.labels),
            "compile_seconds": outcome.compile_seconds + compiled - began,
            "train_seconds": outcome.seconds + finished - compiled,
            "seconds_per_pass": outcome.seconds / len(outcome.history),
            "history": outcome.history,
        }
        return self

    def predict(self, X: Sentences) -> Any:
        """Return the best labels: of a corpus (num_tokens,) strings, else lists.

        Args:
          X: Corpus, or sentences of tokens. Labels of a corpus are ignored.
        """
        corpus = corpus_of(X)
        codes = np.zeros(corpus.num_tokens, np.int32)
        with self._precision():
            if jax.default_backend() != "cpu":  # wide machines want many at once
                sequences = self._encode(corpus)
                codes = labelling.predict_batch(self._module, self.params_, sequences)
            else:
                for tokens, _, stream in labelling.groups(self._encode(corpus)):
                    found = labelling.predict_jitted(
                        self._module.scores, self.params_, stream
                    )
                    codes[tokens] = np.asarray(found)[: tokens.size]
        labels = self.classes_[codes]
        if isinstance(X, Corpus):
            return labels
        return [part.tolist() for part in np.split(labels, corpus.offsets[1:-1])]

    def score(self, X: Sentences, y: Sequence[Sequence[str]] | None = None) -> float:
        """Return F1 as a fraction, of chunks, words or tokens as `format` says.

        Args:
          X: Corpus, or sentences of tokens.
          y: Labels of each sentence. None takes the labels of the corpus.
        """
        corpus = corpus_of(X, y)
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
        corpus = corpus_of(X)
        results: list[list[Labelling]] = [[] for _ in range(corpus.num_sentences)]
        names, scores = self.classes_, self._module.scores
        with self._precision():
            for _, sentences, stream in labelling.groups(self._encode(corpus)):
                for i, sentence in enumerate(sentences.tolist()):
                    paths = labelling.k_best(
                        scores, k, self.params_, stream, np.int32(i)
                    )
                    length = int(corpus.lengths[sentence])
                    results[sentence] = [
                        Labelling(names[labels[:length]], float(score))
                        for labels, score, is_valid in zip(
                            *jax.device_get(paths), strict=True
                        )
                        if is_valid
                    ]
        return results

    def predict_marginals(self, X: Sentences) -> np.ndarray:
        """Return the probability of each label at each token, (num_tokens, S).

        The probabilities are the softmax over all labellings of a sentence,
        exp(score) / Z. Only training by likelihood (``crf``) fits them; max-margin and
        perceptron models are not calibrated.

        Args:
          X: Corpus, or sentences of tokens. Labels of a corpus are ignored.
        """
        corpus = corpus_of(X)
        result = np.zeros((corpus.num_tokens, len(self.encoder_.labels)), self.dtype)
        starts, scores = corpus.offsets.tolist(), self._module.scores
        with self._precision():
            for _, sentences, stream in labelling.groups(self._encode(corpus)):
                for i, sentence in enumerate(sentences.tolist()):
                    here = slice(starts[sentence], starts[sentence + 1])
                    found = labelling.marginals(
                        scores, self.params_, stream, np.int32(i)
                    )
                    result[here] = np.asarray(found)[: here.stop - here.start]
        return result

    def save(
        self,
        folder: Path,
        *,
        keep_checkpoint: bool = False,
        certificate: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the model folder, replacing an earlier one when this one is complete.

        Args:
          folder: Place of the model; made if it is missing.
          keep_checkpoint: If true, a checkpoint in the earlier folder stays.
          certificate: Certificate of the training, ready for JSON.

        Raises:
          InputError: If the folder holds a model of another kind or foreign files.
        """
        weights = {
            name: np.asarray(array)
            for name, array in self.params_._asdict().items()
            if array is not None
        }
        space = self.encoder_.space
        about = {
            "learner": self.learner,
            "hyperparameters": dict(self.hyperparameters_),
            "model": self.model,
            "dtype": self.dtype.name,
            "format": self.format,
            "num_features": space.num_features,
            "num_labels": space.num_labels,
            "num_parameters": self.num_parameters,
            "orders": " ".join(space.orders),
            "encoder": self.encoder_.metadata(),
            "training": dict(self.training_),
        }
        arrays = {"weights": weights, "vocabulary": self.encoder_.arrays()}
        extra = {}
        if certificate is not None:
            text = json.dumps(certificate, indent=1) + "\n"
            extra[model_folder.CERTIFICATE] = text.encode()
        content = model_folder.Content(about, arrays, extra)
        model_folder.write(folder, _KIND, content, keep_checkpoint=keep_checkpoint)

    @staticmethod
    def load(folder: Path) -> "Tagger":
        """Read a model folder.

        Raises:
          InputError: If there is no tagger, or it is unfinished, of another version,
            cut short or damaged.
        """
        content = model_folder.read(folder, _KIND)
        about, arrays = content.about, content.arrays
        with model_folder.complete(folder, _KIND):
            return Tagger.from_params(
                encoder=Encoder.from_arrays(arrays["vocabulary"], about["encoder"]),
                params=_params(about["model"], arrays["weights"]),
                learner=about["learner"],
                hyperparameters=about["hyperparameters"],
                format=about["format"],
                training=about["training"],
            )

    @property
    def _module(self) -> Any:
        return _MODELS[self.model]

    @property
    def _spec(self) -> learners.Spec:
        return learners.spec_of(self.learner, _LEARNERS)

    def _learner(self, more: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Build the learner; return it and all its settings, ready for JSON.

        Args:
          more: Settings that the data decide unless they are given.
        """
        given = dict(more) | dict(self.hyperparameters)
        every = learners.complete(self.learner, learners.options_of(self._spec), given)
        learner = learners.module_of(self._spec).learner(**given)
        return learner, learners.to_json(every)

    def _precision(self) -> Any:
        """Return the context in which the weights keep their precision."""
        return jax.enable_x64(self.dtype == np.float64)

    def _encode(self, corpus: Corpus) -> Sequences:
        return self.encoder_.transform(dataclasses.replace(corpus, labels=None))


def _params(model: str, weights: Mapping[str, np.ndarray]) -> Params:
    kind = _MODELS[model].Params
    needs_x64 = any(array.dtype == np.float64 for array in weights.values())
    with jax.enable_x64(needs_x64):
        fields = {name: jnp.asarray(array) for name, array in weights.items()}
    return kind(**{name: fields.get(name) for name in kind._fields})
