"""A corpus after `features`: flat arrays over all tokens."""

import dataclasses

import numpy as np

__all__ = ["Sequences", "Space"]


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
      labels: (num_tokens,) int32, in 0..S-1, or -1 if the label is unknown.
      offsets: (num_sentences + 1,) int32; sentence i is ``offsets[i]:offsets[i+1]``.
      space: Sizes of the feature space.
    """

    feature_ids: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    space: Space

    @property
    def num_sentences(self) -> int:
        """Number of sentences."""
        return int(self.offsets.shape[0]) - 1

    @property
    def num_tokens(self) -> int:
        """Number of tokens in all sentences."""
        return int(self.feature_ids.shape[0])
