"""Which blocks of weights a sentence touches, and how many weights there are.

The weights of one feature are a block (BOL-M2). A sentence has the same feature at
several tokens; a scatter-add with such duplicates is slow on accelerators, so the
distinct blocks of each sentence are listed here, once, on the host.
"""

from typing import NamedTuple

import numpy as np

from lowrank_jax import checks
from lowrank_jax.data.sequences import Sequences, Space

__all__ = ["Blocks", "num_parameters", "unique_blocks"]


class Blocks(NamedTuple):
    """The distinct features of each sentence, end to end.

    Attributes:
      ids: (num_blocks,) int32, sorted within a sentence, without the id K.
      offsets: (num_sentences + 1,) int32; those of sentence i are
        ``ids[offsets[i]:offsets[i+1]]``.
      slots: (num_tokens, num_templates) int32, the place of each feature in the list
        of its sentence, so that ``ids[offsets[i] + slots]`` gives `feature_ids` back;
        where `feature_ids` is K, the length of the list.
    """

    ids: np.ndarray
    offsets: np.ndarray
    slots: np.ndarray


def unique_blocks(sequences: Sequences) -> Blocks:
    """List the distinct features of each sentence."""
    feature_ids = np.asarray(sequences.feature_ids)
    unseen = sequences.space.num_features
    num_sentences = sequences.num_sentences
    lengths = np.diff(np.asarray(sequences.offsets))
    sentence = np.repeat(np.arange(num_sentences), lengths)
    keys = sentence[:, None] * (unseen + 1) + feature_ids
    distinct, slots = np.unique(keys, return_inverse=True)
    owner, ids = np.divmod(distinct, unseen + 1)
    is_feature = ids < unseen
    # K is the largest id, so it comes last in its sentence and moves no other slot.
    starts = np.searchsorted(owner, np.arange(num_sentences))
    sizes = np.bincount(owner[is_feature], minlength=num_sentences)
    slots = slots.reshape(feature_ids.shape) - starts[sentence][:, None]
    return Blocks(
        ids=ids[is_feature].astype(np.int32),
        offsets=np.cumsum([0, *sizes]).astype(np.int32),
        slots=slots.astype(np.int32),
    )


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
      space: the sizes.
      model: ``"linear"`` or ``"bilinear"``.
      rank: of each block of the bilinear model.
      num_zero_order: features in 0-order columns; by default all, where there is such
        a column. `Encoder.num_zero_order` knows.
      num_first_order: the same for first-order columns.
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
