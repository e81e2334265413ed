"""A trained sequence tagger: from strings to labels, and a folder to keep it in.

A model folder holds ``model.json`` (what it is, how it was made, size and SHA-256 of
the other files), ``weights.npz`` and ``vocabulary.npz``. It is written beside its place
and then renamed: there is always one complete model to read, the old or the new one.
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks, streams
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.decode import k_best_paths, marginals
from lowrank_jax.estimators import labelling
from lowrank_jax.features import Encoder, num_parameters
from lowrank_jax.models import bilinear, linear
from lowrank_jax.store import folder as model_folder

__all__ = ["Labelling", "Tagger"]

_KIND = "tagger"
_MODELS: dict[str, Any] = {"linear": linear, "bilinear": bilinear}
_SHORT = 256  # sentences up to this length are decoded in one window

Params = linear.Params | bilinear.Params
Path = str | os.PathLike[str]


class Labelling(NamedTuple):
    """One way to label a sentence.

    Attributes:
      labels: (num_tokens,) strings.
      score: of the model; comparable within a sentence only.
    """

    labels: np.ndarray
    score: float


@dataclasses.dataclass(frozen=True, eq=False)
class Tagger:
    """A model with all it needs to label strings.

    Attributes:
      encoder: from strings to feature ids.
      params: of `models.linear` or `models.bilinear`.
      learner: name of the learner, for information.
      hyperparameters: that it was trained with, ready for JSON.
      format: of the training file: ``"conll"``, ``"segmentation"`` or ``"nettalk"``.
      metadata: a summary of the training, ready for JSON.
    """

    encoder: Encoder
    params: Params
    learner: str
    hyperparameters: Mapping[str, Any]
    format: str
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def model(self) -> str:
        """``"linear"`` or ``"bilinear"``."""
        return "linear" if isinstance(self.params, linear.Params) else "bilinear"

    @property
    def dtype(self) -> np.dtype:
        """Of the weights."""
        return np.dtype(jax.tree.leaves(self.params)[0].dtype)

    @property
    def num_parameters(self) -> int:
        """How many weights the model has."""
        rank = 1
        if isinstance(self.params, bilinear.Params):
            rank = bilinear.rank_of(self.params.table, len(self.encoder.labels))
        return num_parameters(
            self.encoder.space,
            model=self.model,
            rank=rank,
            num_zero_order=self.encoder.num_zero_order,
            num_first_order=self.encoder.num_first_order,
        )

    def tag(self, corpus: Corpus) -> np.ndarray:
        """Return the best labels of all tokens, (num_tokens,) strings.

        Args:
          corpus: its labels, if there are any, are not looked at.
        """
        codes = np.zeros(corpus.num_tokens, np.int32)
        with self._precision():
            if jax.default_backend() != "cpu":  # wide machines want many at once
                sequences = self._encode(corpus)
                codes = labelling.predict_batch(self._module, self.params, sequences)
                return self._names[codes]
            for tokens, _, stream in self._streams(corpus):
                found = np.asarray(_predict(self._module.scores, self.params, stream))
                codes[tokens] = found[: tokens.size]
        return self._names[codes]

    def k_best(self, corpus: Corpus, k: int) -> list[list[Labelling]]:
        """Return the k best labellings of each sentence, best first.

        Args:
          corpus: its labels, if there are any, are not looked at.
          k: how many; a short sentence may have fewer.
        """
        checks.whole(k=k)
        results: list[list[Labelling]] = [[] for _ in range(corpus.num_sentences)]
        names, scores = self._names, self._module.scores
        with self._precision():
            for _, sentences, stream in self._streams(corpus):
                for i, sentence in enumerate(sentences.tolist()):
                    paths = _k_best(scores, k, self.params, stream, np.int32(i))
                    length = int(corpus.lengths[sentence])
                    results[sentence] = [
                        Labelling(names[labels[:length]], float(score))
                        for labels, score, is_valid in zip(
                            *jax.device_get(paths), strict=True
                        )
                        if is_valid
                    ]
        return results

    def marginals(self, corpus: Corpus) -> np.ndarray:
        """Return the probability of each label at each token, (num_tokens, S).

        That is the softmax over all labellings of a sentence, exp(score) / Z. Only
        training by likelihood (``crf``) fits such probabilities; those of max-margin
        and perceptron models are not calibrated.

        Args:
          corpus: its labels, if there are any, are not looked at.
        """
        result = np.zeros((corpus.num_tokens, len(self.encoder.labels)), self.dtype)
        starts, scores = corpus.offsets.tolist(), self._module.scores
        with self._precision():
            for _, sentences, stream in self._streams(corpus):
                for i, sentence in enumerate(sentences.tolist()):
                    here = slice(starts[sentence], starts[sentence + 1])
                    found = _marginals(scores, self.params, stream, np.int32(i))
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
          folder: where; made if it is not there.
          keep_checkpoint: whether a checkpoint in the earlier folder stays.
          certificate: of the training, ready for JSON, to be kept beside the model.

        Raises:
          InputError: if the folder holds anything that is not of a model.
        """
        weights = {
            name: np.asarray(array)
            for name, array in self.params._asdict().items()
            if array is not None
        }
        space = self.encoder.space
        about = {
            "learner": self.learner,
            "hyperparameters": dict(self.hyperparameters),
            "model": self.model,
            "dtype": self.dtype.name,
            "format": self.format,
            "num_features": space.num_features,
            "num_labels": space.num_labels,
            "num_parameters": self.num_parameters,
            "orders": " ".join(space.orders),
            "encoder": self.encoder.metadata(),
            "training": dict(self.metadata),
        }
        arrays = {"weights": weights, "vocabulary": self.encoder.arrays()}
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
          InputError: if it is no model folder, of another version, cut short, damaged.
        """
        content = model_folder.read(folder, _KIND)
        about, arrays = content.about, content.arrays
        with model_folder.complete(folder, _KIND):
            return Tagger(
                encoder=Encoder.from_arrays(arrays["vocabulary"], about["encoder"]),
                params=_params(about["model"], arrays["weights"]),
                learner=about["learner"],
                hyperparameters=about["hyperparameters"],
                format=about["format"],
                metadata=about["training"],
            )

    @property
    def _module(self) -> Any:
        return _MODELS[self.model]

    @property
    def _names(self) -> np.ndarray:
        return np.array(self.encoder.labels, dtype=object)

    def _precision(self) -> Any:
        """The precision of the weights, whatever that of the process is."""
        return jax.enable_x64(self.dtype == np.float64)

    def _encode(self, corpus: Corpus) -> Sequences:
        return self.encoder.transform(dataclasses.replace(corpus, labels=None))

    def _streams(
        self, corpus: Corpus
    ) -> Iterator[tuple[np.ndarray, np.ndarray, streams.sentences.Stream]]:
        """Yield token indices, sentence indices and stream of groups of like length."""
        sequences = self._encode(corpus)
        lengths = np.maximum(corpus.lengths, 1)
        # One very long sentence must not give all others its window.
        level = np.ceil(np.log2(np.maximum(lengths / _SHORT, 1)) / 2)
        for value in np.unique(level).tolist():
            sentences = np.flatnonzero(level == value)
            tokens = np.flatnonzero(np.repeat(level == value, corpus.lengths))
            window = -(-int(lengths[sentences].max()) // 32) * 32
            part = _padded(sequences, tokens, corpus.lengths[sentences])
            yield tokens, sentences, streams.sentences.stream(part, window=window)


def _params(model: str, weights: Mapping[str, np.ndarray]) -> Params:
    kind = _MODELS[model].Params
    needs_x64 = any(array.dtype == np.float64 for array in weights.values())
    with jax.enable_x64(needs_x64):
        fields = {name: jnp.asarray(array) for name, array in weights.items()}
    return kind(**{name: fields.get(name) for name in kind._fields})


_predict = jax.jit(labelling.predict, static_argnums=0)


def _k_best_one(
    scores: Any,
    k: int,
    params: Params,
    corpus: streams.sentences.Stream,
    index: jax.Array,
) -> Any:
    sentence = corpus.example(index)
    return k_best_paths(scores(params, sentence), k, sentence.length)


def _marginals_one(
    scores: Any, params: Params, corpus: streams.sentences.Stream, index: jax.Array
) -> jax.Array:
    sentence = corpus.example(index)
    return marginals(scores(params, sentence), sentence.length).unary


_k_best = jax.jit(_k_best_one, static_argnums=(0, 1))
_marginals = jax.jit(_marginals_one, static_argnums=0)


def _padded(sequences: Sequences, tokens: np.ndarray, lengths: np.ndarray) -> Sequences:
    """Take tokens and fill up to a round number, so that few shapes are compiled."""
    num_tokens, num_sentences = _round_up(tokens.size, 512), _round_up(lengths.size, 32)
    space = sequences.space
    shape = (num_tokens, len(space.orders))
    feature_ids = np.full(shape, space.num_features, np.int32)
    feature_ids[: tokens.size] = sequences.feature_ids[tokens]
    offsets = np.full(num_sentences + 1, tokens.size, np.int32)
    offsets[: lengths.size + 1] = np.concatenate([[0], np.cumsum(lengths)])
    return Sequences(feature_ids, np.zeros(num_tokens, np.int32), offsets, space)


def _round_up(number: int, least: int) -> int:
    """Round up to one of four sizes between two powers of 2."""
    number = max(number, least)
    step = 1 << max(0, number.bit_length() - 3)
    return -(-number // step) * step
