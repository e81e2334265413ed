"""A corpus laid out for recursions over all its sentences at once.

The sentences lie end to end in a fixed number of lanes, side by side: step j of a
recursion is row j of every lane, one dense array of (num_lanes, ...). A flag says where
a sentence begins and the recursion starts afresh. So one `lax.scan` of fixed shape runs
over sentences of all lengths, with hardly any padding (only where lanes end) and one
compilation; a program for each of several length buckets took minutes to compile.
"""

import dataclasses
import heapq

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks
from lowrank_jax.data.sequences import Sequences, Space, check_sequences
from lowrank_jax.linalg.gather_sum import SumPlan, plan_sums

__all__ = ["Lanes", "lanes"]
__dir__ = __all__.copy


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lanes:
    """A corpus on the device, in lanes; rows are ``step * num_lanes + lane``.

    Attributes:
      feature_ids: (num_steps, num_lanes, num_templates) int32, in 0..K; K scores 0.
      labels: (num_steps, num_lanes) int32, in 0..S-1, -1 if unknown; 0 in padding.
      previous: (num_steps, num_lanes) int32, the label before; S where a sentence
        begins, and in padding.
      is_inside: (num_steps, num_lanes) bool, False in padding.
      pair_counts: (S, S+1) int32, how often each true label follows each; with
        weights a sum of floats.
      zero_plan: Sums rows into the features of 0-order templates; None without them,
        or if features have values.
      first_plan: Sums rows into the features of first-order templates; None without
        them, or if features have values.
      space: Sizes. Static.
      values: (num_steps, num_lanes, num_templates) values of the features, 0 for id K;
        None for 1 each.
      weights: (num_steps, num_lanes) weight of the sentence; None for 1 each.
      is_partial: True if labels are unknown. Static.
    """

    feature_ids: jax.Array
    labels: jax.Array
    previous: jax.Array
    is_inside: jax.Array
    pair_counts: jax.Array
    zero_plan: SumPlan | None
    first_plan: SumPlan | None
    space: Space = dataclasses.field(metadata={"static": True})
    values: jax.Array | None = None
    weights: jax.Array | None = None
    is_partial: bool = dataclasses.field(default=False, metadata={"static": True})


def lanes(sequences: Sequences, *, num_lanes: int = 256, num_devices: int = 1) -> Lanes:
    """Lay a corpus out in lanes and plan the sums of its gradient, on the host.

    Args:
      sequences: Labelled corpus from `features`.
      num_lanes: Largest number of lanes; fewer where the longest sentence is longer
        than a lane would be. Wider lanes make shorter recursions.
      num_devices: Number of devices that the lanes will be dealt to, equally many each
        (`sharding.shard_lanes`).

    Raises:
      InputError: If no label is known or there is no token at all.
    """
    checks.whole(num_lanes=num_lanes, num_devices=num_devices)
    check_sequences(sequences)
    offsets = np.asarray(sequences.offsets, np.int64)
    labels = np.asarray(sequences.labels, np.int32)
    if labels.size and (labels < 0).all():
        raise checks.InputError(
            "training needs labels, and no token has a known one: give labelled data."
        )
    if labels.size == 0:
        raise checks.InputError("training needs data, and there is no token at all.")
    space = sequences.space
    lengths = np.diff(offsets)
    num_lanes = max(1, min(num_lanes, labels.size // int(lengths.max())))
    num_lanes = -(-num_lanes // num_devices) * num_devices
    rows, num_steps = _place(offsets, num_lanes)

    num_rows = num_steps * num_lanes
    token_ids = np.asarray(sequences.feature_ids, np.int32)
    feature_ids = np.full((num_rows, token_ids.shape[1]), space.num_features, np.int32)
    feature_ids[rows] = token_ids
    previous = np.concatenate([[space.num_labels], labels[:-1]]).astype(np.int32)
    previous[offsets[:-1][lengths > 0]] = space.num_labels
    pair_counts = np.zeros((space.num_labels, space.num_labels + 1), np.int32)
    is_partial = bool((labels < 0).any())
    weights = None
    if sequences.weights is not None:
        weights = np.repeat(np.asarray(sequences.weights, float), lengths)
        pair_counts = pair_counts.astype(float)
    if not is_partial:
        np.add.at(pair_counts, (labels, previous), 1 if weights is None else weights)

    def spread(values: np.ndarray, padding: float | bool) -> jax.Array:
        whole = np.full(num_rows, padding, values.dtype)
        whole[rows] = values
        return jnp.asarray(whole.reshape(num_steps, num_lanes))

    def plan(columns: tuple[int, ...]) -> SumPlan | None:
        if not columns or sequences.values is not None:
            return None
        ids = token_ids[:, columns].ravel()
        is_feature = ids < space.num_features
        return plan_sums(
            ids[is_feature],
            np.repeat(rows, len(columns))[is_feature],
            num_segments=space.num_features + 1,
            num_rows=num_rows,
        )

    values = None
    if sequences.values is not None:
        spaced = np.zeros((num_rows, token_ids.shape[1]), sequences.values.dtype)
        spaced[rows] = np.where(token_ids < space.num_features, sequences.values, 0)
        values = jnp.asarray(spaced.reshape(num_steps, num_lanes, -1))
    zero_plan = plan(space.zero_order)
    is_shared = space.first_order == space.zero_order
    return Lanes(
        feature_ids=jnp.asarray(feature_ids.reshape(num_steps, num_lanes, -1)),
        labels=spread(labels, 0),
        previous=spread(previous, space.num_labels),
        is_inside=spread(np.ones(labels.size, bool), False),
        pair_counts=jnp.asarray(pair_counts),
        zero_plan=zero_plan,
        first_plan=zero_plan if is_shared else plan(space.first_order),
        space=space,
        values=values,
        weights=None if weights is None else spread(weights, 0.0),
        is_partial=is_partial,
    )


def _place(offsets: np.ndarray, num_lanes: int) -> tuple[np.ndarray, int]:
    """Give each token its row: longest sentences first, each to the shortest lane.

    Returns:
      (num_tokens,) rows and the number of steps.
    """
    lengths = np.diff(offsets)
    lanes = [(0, lane) for lane in range(num_lanes)]
    rows = np.empty(int(offsets[-1]), np.int64)
    for sentence in np.argsort(-lengths, kind="stable"):
        start, size = offsets[sentence], int(lengths[sentence])
        used, lane = lanes[0]
        rows[start : start + size] = (used + np.arange(size)) * num_lanes + lane
        heapq.heapreplace(lanes, (used + size, lane))
    return rows, max(used for used, _ in lanes)
