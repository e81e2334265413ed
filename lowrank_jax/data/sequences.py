"""A corpus after `features`: flat arrays over all tokens."""

import dataclasses
from typing import Any

import numpy as np

from lowrank_jax.checks import InputError

__all__ = [
    "MOST_RANK",
    "Sequences",
    "Space",
    "as_values",
    "check_ids",
    "check_sequences",
    "check_values",
    "check_weights",
]
__dir__ = __all__.copy

#: Largest rank of the weights of a feature; no file may claim a larger one.
MOST_RANK = 1024


@dataclasses.dataclass(frozen=True)
class Space:
    """Sizes of a feature space, the same for training and test. Static and hashable.

    Attributes:
      num_features: K. Id K itself means "not a feature" and scores 0.
      num_labels: S.
      orders: One word per template (column of `feature_ids`): ``"0"`` for weights on
        the label (K, S), ``"1"`` for weights on the pair of labels, ``"01"`` for both.
      has_transitions: True if there is also one weight per pair of labels that does not
        depend on features (a bare ``B`` in a template file).
    """

    num_features: int
    num_labels: int
    orders: tuple[str, ...]
    has_transitions: bool = False

    @property
    def zero_order(self) -> tuple[int, ...]:
        """Columns of `feature_ids` with weights on the label."""
        return tuple(i for i, order in enumerate(self.orders) if "0" in order)

    @property
    def first_order(self) -> tuple[int, ...]:
        """Columns of `feature_ids` with weights on the pair of labels."""
        return tuple(i for i, order in enumerate(self.orders) if "1" in order)


@dataclasses.dataclass(frozen=True)
class Sequences:
    """A corpus after `features/`: flat arrays over all tokens.

    Attributes:
      feature_ids: (num_tokens, num_templates) int32, in 0..K; K scores 0.
      labels: (num_tokens,) int32, in 0..S-1, or -1 if the label is unknown. Learners
        treat unknown labels as latent.
      offsets: (num_sentences + 1,) int32; sentence i is ``offsets[i]:offsets[i+1]``.
      space: Sizes of the feature space.
      values: (num_tokens, num_templates) real value of each feature. None means 1
        each; the kernels then do not multiply.
      weights: (num_sentences,) weight of each sentence in training. None means 1 each.
    """

    feature_ids: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    space: Space
    values: np.ndarray | None = None
    weights: np.ndarray | None = None

    @classmethod
    def from_arrays(
        cls,
        ids: np.ndarray,
        labels: np.ndarray | None,
        lengths: np.ndarray,
        orders: tuple[str, ...],
        *,
        num_features: int | None = None,
        num_labels: int | None = None,
        has_transitions: bool = False,
        values: np.ndarray | None = None,
    ) -> "Sequences":
        """Make a corpus of integer arrays, and check it.

        Args:
          ids: (num_tokens, num_templates) integers in 0..K, the sentences end to end.
            Or padded, (num_sentences, longest, num_templates).
          labels: Integers in 0..S-1 in the shape of `ids` without its last axis; -1
            for an unknown label. None if all are unknown.
          lengths: (num_sentences,) number of tokens of each sentence.
          orders: One word per template, as in `Space`.
          num_features: K. None takes the largest id plus 1. Give the K of the training
            data for other data.
          num_labels: S. None takes the largest label plus 1.
          has_transitions: True adds a weight per pair of labels.
          values: Real value of each feature, in the shape of `ids`. None means 1 each.

        Raises:
          InputError: If an array does not fit, with the row and the value.
        """
        ids, lengths = np.asarray(ids), np.asarray(lengths)
        if labels is None:
            labels = np.full(ids.shape[:-1], -1, np.int32)
        labels = np.asarray(labels)
        for name, array in (("ids", ids), ("labels", labels), ("lengths", lengths)):
            if not np.issubdtype(array.dtype, np.integer):
                raise InputError(f"`{name}` must hold integers, got {array.dtype}.")
        if ids.ndim not in (2, 3) or labels.shape != ids.shape[:-1]:
            raise InputError(
                "`ids` must have shape (num_tokens, num_templates) or (num_sentences, "
                "longest, num_templates) and `labels` the same without the last axis, "
                f"got {ids.shape} and {labels.shape}."
            )
        if lengths.ndim != 1 or (lengths < 0).any():
            raise InputError(
                "`lengths` must be one row of numbers that are 0 or more, got "
                f"{lengths.tolist()[:9]}."
            )
        if ids.ndim == 3:
            if len(lengths) != len(ids) or (lengths > ids.shape[1]).any():
                raise InputError(
                    f"`lengths` must be {len(ids)} numbers of at most {ids.shape[1]}, "
                    f"the padded length, got {lengths.tolist()[:9]}."
                )
            is_inside = np.arange(ids.shape[1]) < lengths[:, None]
            if values is not None and np.shape(values) == ids.shape:
                values = np.asarray(values)[is_inside]
            ids, labels = ids[is_inside], labels[is_inside]
        if lengths.sum() != len(ids):
            raise InputError(
                f"`lengths` must add up to the {len(ids)} rows of `ids`, got "
                f"{lengths.sum()}."
            )
        if num_features is None:
            num_features = int(ids.max(initial=0)) + 1
        if num_labels is None:
            num_labels = int(labels.max(initial=0)) + 1
        space = Space(num_features, num_labels, tuple(orders), has_transitions)
        check_ids(ids, labels, space)  # before large ones wrap around
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        made = cls(
            ids.astype(np.int32),
            labels.astype(np.int32),
            offsets.astype(np.int32),
            space,
            None if values is None else as_values(values),
        )
        check_sequences(made)
        return made

    @property
    def num_sentences(self) -> int:
        """Number of sentences."""
        return int(self.offsets.shape[0]) - 1

    @property
    def num_tokens(self) -> int:
        """Number of tokens in all sentences."""
        return int(self.feature_ids.shape[0])


def check_sequences(sequences: Any) -> None:
    """Raise `InputError` unless this is a corpus of ids that fits its own space."""
    if not isinstance(sequences, Sequences):
        name = type(sequences).__name__
        hints = {
            "Corpus": "encode it with features.Encoder",
            "Stream": "it lies on the device already, so use it as it is",
        }
        hint = hints.get(name, "see data.sequences.Sequences.from_arrays")
        raise InputError(f"`sequences` must be Sequences of ids, got a {name}: {hint}.")
    space = sequences.space
    if sequences.feature_ids.shape[1:] != (len(space.orders),):
        raise InputError(
            f"`feature_ids` must have {len(space.orders)} columns, one per template of "
            f"`orders`, got shape {sequences.feature_ids.shape}."
        )
    for order in space.orders:
        if order not in ("0", "1", "01", ""):
            raise InputError(f"`orders` must hold '0', '1' or '01', got {order!r}.")
    offsets = np.asarray(sequences.offsets)
    num_tokens = sequences.num_tokens
    is_bad = np.append(np.diff(offsets) < 0, offsets[-1] > num_tokens)
    if is_bad.any() or offsets[0] != 0:
        place = int(is_bad.argmax()) if is_bad.any() else 0
        raise InputError(
            f"`offsets` must ascend from 0 to at most {num_tokens}, the number of "
            f"tokens, got {offsets[place]} at row {place}."
        )
    check_ids(sequences.feature_ids, sequences.labels, space)
    if sequences.values is not None:
        check_values(sequences.values, sequences.feature_ids)
    if sequences.weights is not None:
        check_weights(sequences.weights, sequences.num_sentences)


def as_values(values: Any) -> np.ndarray:
    """Return values as an array of floats: float64 stays, all else is float32."""
    values = np.asarray(values)
    return values if values.dtype == np.float64 else values.astype(np.float32)


def check_values(values: Any, feature_ids: Any) -> None:
    """Raise `InputError` unless the values are finite and each belongs to an id."""
    values = np.asarray(values)
    if values.shape != np.shape(feature_ids) or values.dtype.kind != "f":
        raise InputError(
            f"`values` must be floats in the shape of `feature_ids` "
            f"{np.shape(feature_ids)}, got {values.dtype} of shape {values.shape}."
        )
    if not np.isfinite(values).all():
        at = tuple(np.argwhere(~np.isfinite(values))[0].tolist())
        raise InputError(
            f"`values` must be finite, got {values[at]} at row {at[0]}, column "
            f"{at[-1]}."
        )


def check_weights(weights: Any, number: int, name: str = "weights") -> None:
    """Raise `InputError` unless there is a finite weight of 0 or more per sentence."""
    weights = np.asarray(weights)
    if weights.shape != (number,) or weights.dtype.kind not in "fiu":
        raise InputError(
            f"`{name}` must be {number} numbers, one per sentence, got "
            f"{weights.dtype} of shape {weights.shape}."
        )
    is_bad = ~(np.isfinite(weights) & (weights >= 0))
    if is_bad.any() or not weights.any():
        place = int(is_bad.argmax())
        raise InputError(
            f"`{name}` must be finite, 0 or more and not all 0, got {weights[place]} "
            f"at sentence {place}."
        )


def check_ids(
    feature_ids: Any, labels: Any, space: Space, *, least_label: int = -1
) -> None:
    """Raise `InputError` unless ids and labels lie in the ranges of their space."""
    for name, array, least, most, what in (
        ("feature_ids", feature_ids, 0, space.num_features, "features"),
        ("labels", labels, least_label, space.num_labels - 1, "labels less one"),
    ):
        array = np.asarray(array)
        if array.size and not least <= array.min() <= array.max() <= most:
            at = tuple(np.argwhere((array < least) | (array > most))[0].tolist())
            raise InputError(
                f"`{name}` must lie in {least}..{most}, the number of {what}, got "
                f"{array[at]} at row {at[0]}."
            )
