"""What a fitted tagger is: features, labels, weights, and the folder that holds them.

Nothing here loads JAX before it is needed: reading a model and labelling a few
sentences are NumPy alone (`small`).
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lowrank_jax import checks, features
from lowrank_jax.checks import InputError
from lowrank_jax.data.chunks import SCHEMES, convert_labels, legal_pairs, scheme_of
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.estimators import learners
from lowrank_jax.estimators.base import Estimator
from lowrank_jax.estimators.tagger import compact, small
from lowrank_jax.features import Encoder
from lowrank_jax.store import folder as model_folder
from lowrank_jax.store.arrays import check_arrays
from lowrank_jax.store.files import Path

if TYPE_CHECKING:
    from lowrank_jax.features import AttributeEncoder
    from lowrank_jax.models import bilinear, linear

    AnyEncoder = Encoder | AttributeEncoder
    Params = linear.Params | bilinear.Params

__all__ = ["TaggerModel", "arrays_of", "num_parameters", "params_of"]
__dir__ = __all__.copy

_KIND = "tagger"


class TaggerModel(Estimator):
    """The fitted part of a `Tagger`.

    Attributes:
      encoder_: Features and labels of the training data.
      hyperparameters_: All settings of the learner, ready for JSON.
      scheme_: Scheme of the chunks in the labels that were given (``"given"``) and in
        the labels of the model (``"own"``), and ``"legal_only"``. None if neither
        `labels` nor `legal_only` was asked for.
    """

    learner: str
    format: str
    encoder_: "AnyEncoder"
    hyperparameters_: dict[str, Any]
    temperature_: float
    scheme_: dict[str, Any] | None = None
    _weights: dict[str, np.ndarray]
    _params: Any
    _state: Any

    @classmethod
    def from_params(
        cls,
        encoder: "AnyEncoder",
        params: "Params | Mapping[str, np.ndarray]",
        *,
        learner: str = "bol",
        hyperparameters: Mapping[str, Any] | None = None,
        format: str = "conll",
        training: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return a fitted tagger with given weights.

        Args:
          encoder: Features and labels.
          params: Weights of `models.linear` or `models.bilinear`, or their arrays by
            name.
          learner: Name of the learner that made them.
          hyperparameters: Settings of the learner, ready for JSON.
          format: Format of the data.
          training: Summary of the training, ready for JSON.
        """
        plain, about = dict(hyperparameters or {}), dict(training or {})
        is_batch = "converged" in about.get("history", [{}])[-1]
        tagger = cls(  # type: ignore[call-arg]
            learner,
            num_passes=None if is_batch else about.get("passes"),
            template=encoder.template,
            orders=_orders_of(encoder),
            min_count=about.get("min_count", 1),
            seed=about.get("seed", 0),
            format=format,
            **learners.without_json(plain),
        )
        tagger.encoder_, tagger.temperature_ = encoder, 1.0
        if isinstance(params, Mapping):
            tagger._weights = dict(params)
        else:
            tagger.params_ = params
        tagger.hyperparameters_, tagger.training_ = plain, about
        return tagger

    @property
    def classes_(self) -> np.ndarray:
        """Labels in the order of the model."""
        return np.array(self.encoder_.labels, dtype=object)

    @property
    def params_(self) -> "Params":
        """Weights of `models.linear` or `models.bilinear`, on the device."""
        if self.__dict__.get("_params") is None:
            self._params = params_of(self.model, self._weights)
        return self._params

    @params_.setter
    def params_(self, params: "Params") -> None:
        self._params, self._weights = params, arrays_of(params)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs; the weights as NumPy arrays."""
        left_out = ("_params", "_state")
        return {k: v for k, v in self.__dict__.items() if k not in left_out}

    @property
    def model(self) -> str:
        """``"linear"`` or ``"bilinear"``."""
        return "bilinear" if "table" in self._weights else "linear"

    @property
    def dtype(self) -> np.dtype:
        """Type of the weights."""
        return compact.dtype_of(self._weights)

    @property
    def num_parameters(self) -> int:
        """Number of weights of the model."""
        from lowrank_jax.models import bilinear

        rank = 1
        if self.model == "bilinear":
            table: Any = self._weights["table"]
            rank = bilinear.rank_of(table, len(self.encoder_.labels))
        return num_parameters(
            self.encoder_.space,
            model=self.model,
            rank=rank,
            num_zero_order=self.encoder_.num_zero_order,
            num_first_order=self.encoder_.num_first_order,
        )

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
            "temperature": self.temperature_,
            "training": dict(self.training_),
        }
        if self.scheme_ is not None:
            about["labels"] = self.scheme_
        arrays = {
            "weights": compact.pack(self._weights),
            "vocabulary": self.encoder_.arrays(),
        }
        extra = {}
        if certificate is not None:
            text = json.dumps(certificate, indent=1) + "\n"
            extra[model_folder.CERTIFICATE] = text.encode()
        content = model_folder.Content(about, arrays, extra)
        model_folder.write(folder, _KIND, content, keep_checkpoint=keep_checkpoint)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a model folder.

        Raises:
          InputError: If there is no tagger, or it is unfinished, of another version,
            cut short or damaged.
        """
        content = model_folder.read(folder, _KIND)
        about, arrays = content.about, content.arrays
        with model_folder.complete(folder, _KIND):
            has_names = "attributes" in about["encoder"]
            kind: Any = features.AttributeEncoder if has_names else Encoder
            encoder = kind.from_arrays(arrays["vocabulary"], about["encoder"])
            space, stored = encoder.space, arrays["weights"]
            stored = compact.unpack(stored, space.num_features, space.num_labels)
            names = _FIELDS[about["model"]] & stored.keys()
            weights = {name: stored[name] for name in sorted(names)}
            _check_weights(folder, about["model"], weights, space)
            checks.choice(tuple(learners.FORMATS), format=about["format"])
            tagger = cls.from_params(
                encoder=encoder,
                params=weights,
                learner=about["learner"],
                hyperparameters=about["hyperparameters"],
                format=about["format"],
                training=about["training"],
            )
            tagger.temperature_ = float(about.get("temperature", 1.0))
            if "labels" in about:
                tagger._load_scheme(about["labels"])
            return tagger

    def _load_scheme(self, found: Mapping[str, Any]) -> None:
        """Take over the entry ``labels`` of a model folder."""
        own, given = str(found["own"]), str(found["given"])
        checks.choice(tuple(SCHEMES), own=own, given=given)
        is_legal = bool(found["legal_only"])
        self.scheme_ = {"given": given, "own": own, "legal_only": is_legal}
        self.set_params(labels=own if own != given else None, legal_only=is_legal)

    def _learn_scheme(self, corpus: Corpus, labels: str | None, is_legal: bool) -> None:
        """Set `scheme_` from training data."""
        self.scheme_ = None
        if corpus.labels is not None and (labels is not None or is_legal):
            if corpus.unknown_label is not None:
                raise InputError(
                    f"{corpus.source} has tokens with the unknown label "
                    f"{corpus.unknown_label!r}, and `labels` and `legal_only` need all "
                    "labels to tell the scheme of chunks; leave them out."
                )
            given = scheme_of(corpus.labels, corpus.offsets)
            own = labels or given
            self.scheme_ = {"given": given, "own": own, "legal_only": is_legal}

    def _own_labels(self, corpus: Corpus) -> Corpus:
        """Return a corpus with labels in the scheme of the model."""
        if self.scheme_ is None or corpus.labels is None:
            return corpus
        scheme_of(corpus.labels, corpus.offsets)  # raises if there is none
        found = convert_labels(corpus.labels, corpus.offsets, self.scheme_["own"])
        return dataclasses.replace(corpus, labels=found)

    def _names(self, codes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return labels in the scheme that the training data had."""
        names, scheme = self.classes_[codes], self.scheme_
        if scheme is None or scheme["own"] == scheme["given"]:
            return names
        return convert_labels(names, offsets, scheme["given"])

    def _bars(self) -> dict[str, np.ndarray]:
        """Return the table of barred pairs by its name in `small.Weights`, or nothing.

        Raises:
          InputError: If sentences of some length would have no legal labels.
        """
        if self.scheme_ is None or not self.scheme_["legal_only"]:
            return {}
        legal = legal_pairs(self.encoder_.labels, self.scheme_["own"])
        alone = legal[:-1, -1] & legal[-1, :-1] & np.diag(legal)[:-1]
        if not alone.any():
            raise InputError(
                "`legal_only` needs a label that can fill a sentence, such as O, got "
                f"the labels {', '.join(self.encoder_.labels)}."
            )
        return {"barred": np.where(legal, 0.0, -np.inf).astype(np.float32)}

    @property
    def _scored(self) -> dict[str, np.ndarray]:
        """Weights, and the table of barred pairs if only legal labels are wanted."""
        return self._weights | self._bars()

    def _decoded(self, params: Any) -> Any:
        """Return parameters as `labelling` takes them, with barred pairs if any."""
        from lowrank_jax.estimators.labelling import Barred

        bars = self._bars()
        return Barred(params, bars["barred"]) if bars else params

    def _codes(self, sequences: Sequences, params: Any = None) -> np.ndarray:
        """Label encoded sentences: small inputs in NumPy, others by a program.

        Args:
          sequences: Sentences from `features`.
          params: Weights; None takes the weights of this model.
        """
        weights = self._scored if params is None else arrays_of(params) | self._bars()
        if small.is_small(weights, sequences):
            return small.predict(weights, sequences)
        import jax

        from lowrank_jax import models
        from lowrank_jax.estimators import labelling

        module = models.bilinear if "table" in weights else models.linear
        given = self.params_ if params is None else params
        with jax.enable_x64(compact.dtype_of(weights) == np.float64):
            return labelling.predict_all(module, self._decoded(given), sequences)

    def _k_best(
        self, sequences: Sequences, k: int
    ) -> list[list[tuple[np.ndarray, float]]]:
        """Return the k best paths: of small inputs in NumPy, else by a program."""
        # A token takes some 30 k times as long as in `small.best_paths`: it is sorted.
        if small.is_small(self._weights, sequences, 30 * k):
            return small.k_best(self._scored, sequences, k)
        from lowrank_jax.estimators import labelling

        with self._precision():
            params = self._decoded(self.params_)
            return labelling.k_best_all(self._module, k, params, sequences)

    @property
    def _module(self) -> Any:
        from lowrank_jax import models

        return getattr(models, self.model)

    def _precision(self) -> Any:
        """Return the context in which the weights keep their precision."""
        import jax

        return jax.enable_x64(self.dtype == np.float64)


#: Arrays of the two models, as `models.linear.Params` and `models.bilinear.Params`.
_FIELDS = {
    "linear": {"zero", "first", "transitions", "rows", "keys", "slots", "pages"},
    "bilinear": {"table", "transitions", "scale", "rows"},
}


def _check_weights(
    folder: Path, model: str, weights: Mapping[str, np.ndarray], space: Space
) -> None:
    """Raise unless the weights from a folder have the shapes that a space asks for."""
    rows, labels = space.num_features + 1, space.num_labels
    shapes: dict[str, tuple[int | None, ...]] = {}
    if model == "bilinear":
        rows = weights["table"].shape[0] if "rows" in weights else rows
        shapes |= {"table": (rows, None), "scale": ()}
        stride = -(-(labels + 1) // 8) * 8  # columns of one beta
        if weights["table"].shape[-1] < 2 * labels + stride:
            raise ValueError(f"too few columns for {labels} labels")
    else:
        rows = len(weights["keys"]) if "keys" in weights else rows
        shapes |= {"zero": (rows, labels)} if space.zero_order else {}
        if "keys" in weights:  # first-order weights by their entries
            shapes |= {"slots": weights["keys"].shape, "pages": (None, None)}
        elif space.first_order:
            shapes["first"] = (rows, labels, labels + 1)
    if space.has_transitions:
        shapes["transitions"] = (labels, labels + 1)
    weights = {k: part for k, part in weights.items() if k not in ("rows", "keys")}
    if set(weights) != set(shapes) or len({w.dtype for w in weights.values()}) > 1:
        raise ValueError(f"the arrays {', '.join(sorted(weights))}")
    check_arrays(folder, weights, shapes)
    largest = [float(np.abs(part).max(initial=0)) for part in weights.values()]
    if model == "bilinear":
        entry = float(np.abs(weights["table"]).max())
        largest.append(entry * entry * abs(float(weights["scale"])))
    top = float(np.finfo(compact.dtype_of(weights)).max)
    if max(largest) * max(len(space.orders), 1) > top:
        raise ValueError("weights so large that scores overflow")


def arrays_of(params: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a model by name; entries (`models.blocks`) take three."""
    found = params._asdict()
    if isinstance(found.get("first"), tuple):
        blocks = found.pop("first")
        found |= {"keys": blocks.keys, **blocks.values._asdict()}
    return {name: np.asarray(part) for name, part in found.items() if part is not None}


def params_of(model: str, weights: Mapping[str, np.ndarray]) -> Any:
    """Put weights on the device."""
    import jax
    import jax.numpy as jnp

    from lowrank_jax import models

    kind = getattr(models, model).Params
    needs_x64 = any(array.dtype == np.float64 for array in weights.values())
    with jax.enable_x64(needs_x64):
        fields: dict[str, Any] = {k: jnp.asarray(v) for k, v in weights.items()}
        if "keys" in fields:
            values = models.blocks.Part(fields["slots"], fields["pages"])
            number = jnp.array(len(fields["pages"]), jnp.int32)
            fields["first"] = models.blocks.Blocks(fields["keys"], values, number)
    return kind(**{name: fields.get(name) for name in kind._fields})


def _orders_of(encoder: "AnyEncoder") -> str:
    """Return the setting `orders` that gives the features of an encoder again."""
    if isinstance(encoder, Encoder):
        return "template"
    return {"0": "zero", "1": "first", "01": "both"}[encoder.order]


def num_parameters(
    space: Space,
    *,
    model: str = "linear",
    rank: int = 1,
    num_zero_order: int | None = None,
    num_first_order: int | None = None,
) -> int:
    r"""Count the weights of a first-order tagger.

    With :math:`S` labels and one more column for the start of a sentence, a 0-order
    feature has :math:`S` weights. A first-order feature has :math:`S (S + 1)` weights
    in the linear model (BOL-Eq3) and :math:`r (2 S + 1)`, the sizes of
    :math:`\alpha_k` and :math:`\beta_k`, in the bilinear model of rank :math:`r`
    (BOL-Eq5). Label transitions are a full :math:`S (S + 1)` in both.

    Args:
      space: Sizes of the model.
      model: ``"linear"`` or ``"bilinear"``.
      rank: Rank of each block of the bilinear model.
      num_zero_order: Number of features in 0-order columns, from
        `Encoder.num_zero_order`. None takes all if there is such a column.
      num_first_order: Number of features in first-order columns; None as above.
    """
    checks.choice(("linear", "bilinear"), model=model)
    checks.whole(rank=rank)
    if num_zero_order is None:
        num_zero_order = space.num_features if space.zero_order else 0
    if num_first_order is None:
        num_first_order = space.num_features if space.first_order else 0
    num_labels = space.num_labels
    full = num_labels * (num_labels + 1)
    block = full if model == "linear" else rank * (2 * num_labels + 1)
    transitions = full if space.has_transitions else 0
    return num_zero_order * num_labels + num_first_order * block + transitions
