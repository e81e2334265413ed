"""Scores, labels and differences of a batch of sentences.

Each device scores and decodes its share, group by group (`streams.packs`,
`decode.packed`). Then all devices know all labels, and find the differences of the
whole batch in the order of the pass.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import packed
from lowrank_jax.models import bilinear
from lowrank_jax.online import mistakes
from lowrank_jax.online import wide as base
from lowrank_jax.streams import packs, sentences

__all__ = ["Buffers", "Found", "buffers_for", "find", "info", "rounds"]
__dir__ = __all__.copy

_TOKENS = 8  # scored at a time


class Buffers(NamedTuple):
    """What each round writes over. New zeros in each round would cost 15 %."""

    scores: jax.Array  # (group_tokens + room, [S + 1,] W)
    best: jax.Array  # (longest, group, W)
    labels: jax.Array  # (share_room,) int32
    gaps: jax.Array  # (share_room,)  score(true pair) - score(predicted pair)


class Found(NamedTuple):
    """Differences of a batch, in the order of its sentences."""

    token: jax.Array  # (batch_tokens,) int32 token of the corpus
    labels: jax.Array  # (2, batch_tokens) int32: true and predicted
    previous: jax.Array  # (2, batch_tokens) int32; S at the start
    owner: jax.Array  # (batch_tokens,) int32 sentence of the batch
    where: jax.Array  # (batch_tokens,) int32 places that differ
    number: jax.Array  # () int32 number of such places
    num_wrong: jax.Array  # (B,) int32
    margin: jax.Array  # (B,)  <W, dPhi_i>
    extra: jax.Array  # (D,) int32 number that each device has sent
    rows: jax.Array | None = None  # (K + 1,) row of each feature; None: its id

    def position(self, stream: sentences.Stream, n: jax.Array) -> mistakes.Position:
        """Return the n-th place that differs."""
        i = self.where[n]
        token = self.token[i]
        values = None if stream.values is None else stream.values[token]
        pair, ids = (self.labels[:, i], self.previous[:, i]), stream.feature_ids[token]
        if self.rows is not None:
            ids = self.rows.at[ids].get(mode="promise_in_bounds")
        return mistakes.Position(ids, *pair, i, values)


def buffers_for(
    shapes: packs.Layout, space: Space, dtype: jnp.dtype, *, has_pairs: bool
) -> Buffers:
    """Return buffers of zeros for one device."""
    width = bilinear.stride(space.num_labels)
    each = (space.num_labels + 1, width) if has_pairs else (width,)
    room = packs.share_room(shapes)
    tokens = shapes.group_tokens + 2 * packs.GROUP
    return Buffers(
        scores=jnp.zeros((tokens, *each), dtype),
        best=jnp.zeros((shapes.longest, shapes.group, width), dtype),
        labels=jnp.zeros((room,), jnp.int32),
        gaps=jnp.zeros((room,), dtype),
    )


def find(
    score: Callable[..., jax.Array],
    transitions: jax.Array | None,
    here: packs.Round,
    buffers: Buffers,
    *,
    is_off: jax.Array | bool = False,
    extra: jax.Array | None = None,
) -> tuple[Buffers, Found]:
    """Decode a batch and find its differences.

    Args:
      score: Function from ids (n, num_templates), and values if there are any, to
        scores (n, S + 1, W), or (n, W) beside `transitions`; see `packed.best_paths`.
      transitions: (S + 1, W) scores of pairs of labels, or None.
      here: Round.
      buffers: Buffers of this device.
      is_off: True if the round is not to be done.
      extra: () int32 number that all devices are told.
    """
    stream, plan, index, shapes, axis = here
    if stream.is_partial or stream.weights is not None:
        raise InputError(
            "Wide rounds are for data without unknown labels and weights of "
            "sentences; take rounds of one sentence."
        )
    buffers = _decode(score, transitions, here, buffers, jnp.asarray(is_off))
    dtype, zero = buffers.gaps.dtype, jnp.zeros((), jnp.int32)
    sent = jnp.stack([buffers.labels.astype(dtype), buffers.gaps])
    told = zero if extra is None else extra
    sent = sent.at[0, -1].set(told.astype(dtype))  # nobody reads a label there
    got = sent[None] if axis is None else lax.all_gather(sent, axis)
    all_labels = got[:, 0].astype(jnp.int32)
    count = jnp.where(is_off, zero, plan.batch_count[index])
    size, first = shapes.batch_tokens, plan.batch_first[index]

    def cut(part: np.ndarray | jax.Array) -> jax.Array:
        return lax.dynamic_slice_in_dim(part, first, size)

    token, place, owner = cut(plan.batch_token), cut(plan.place), cut(plan.owner)
    place_of = jnp.arange(size, dtype=jnp.int32)
    is_inside = place_of < count
    labels = jnp.stack([stream.labels[token], all_labels.ravel()[place]])
    is_start = (owner != jnp.roll(owner, 1)) | (place_of == 0)
    previous = jnp.where(
        is_start[None], stream.space.num_labels, jnp.roll(labels, 1, axis=1)
    )
    is_wrong = is_inside & (labels[0] != labels[1])
    differs = is_wrong | (is_inside & (previous[0] != previous[1]))
    where, number = mistakes.marked(differs)
    gaps = jnp.where(differs, got[:, 1].ravel()[place], 0)
    wrong = jnp.zeros((shapes.batch_size,), jnp.int32)
    margin = jnp.zeros((shapes.batch_size,), dtype)
    found = Found(
        token=token,
        labels=labels,
        previous=previous,
        owner=owner,
        where=where.astype(jnp.int32),
        number=number,
        num_wrong=wrong.at[owner].add(is_wrong.astype(jnp.int32)),
        margin=margin.at[owner].add(gaps),
        extra=all_labels[:, -1],
    )
    return buffers, found


def _decode(
    score: Callable[..., jax.Array],
    transitions: jax.Array | None,
    here: packs.Round,
    buffers: Buffers,
    is_off: jax.Array,
) -> Buffers:
    """Return the buffers with labels and gaps of the share of this device."""
    stream, plan, index, shapes, _ = here
    zero, num_labels = jnp.zeros((), jnp.int32), stream.space.num_labels
    first, lengths = plan.first[index], plan.lengths[index]
    lengths = jnp.where(is_off, zero, lengths)
    group = shapes.group

    def one(k: jax.Array, carry: tuple) -> tuple[jax.Array, Buffers]:
        at, buffers = carry
        own = lax.dynamic_slice_in_dim(lengths, k * group, group)
        count = own.sum(dtype=jnp.int32)
        num_steps = (count + _TOKENS - 1) // _TOKENS

        def tokens(j: jax.Array) -> jax.Array:
            place = first + at + j * _TOKENS
            return lax.dynamic_slice_in_dim(plan.token, place, _TOKENS)

        def fill(j: jax.Array, scores: jax.Array) -> jax.Array:
            at = tokens(j)
            ids = stream.feature_ids.at[at].get(mode="promise_in_bounds")
            values = None if stream.values is None else stream.values[at]
            found = score(ids, values)
            return lax.dynamic_update_slice_in_dim(scores, found, j * _TOKENS, 0)

        scores = lax.fori_loop(zero, num_steps, fill, buffers.scores)
        labels, best = packed.best_paths(
            None if transitions is None else scores,
            scores if transitions is None else transitions,
            own,
            buffers.labels,
            at,
            buffers.best,
            num_labels=num_labels,
        )

        def gap(j: jax.Array, gaps: jax.Array) -> jax.Array:
            here, place = tokens(j), at + j * _TOKENS
            back = lax.dynamic_slice_in_dim(plan.back, first + place, _TOKENS)
            before = stream.labels[jnp.maximum(here - 1, 0)]
            guess_before = labels[jnp.maximum(back, 0)]
            true, guess = (
                stream.labels[here],
                lax.dynamic_slice_in_dim(labels, place, _TOKENS),
            )
            lane = j * _TOKENS + jnp.arange(_TOKENS, dtype=jnp.int32)
            before = jnp.where(back < 0, num_labels, before)
            guess_before = jnp.where(back < 0, num_labels, guess_before)
            if transitions is None:
                found = scores[lane, before, true] - scores[lane, guess_before, guess]
            else:
                found = scores[lane, true] - scores[lane, guess]
                pairs = transitions[before, true] - transitions[guess_before, guess]
                found = found + pairs
            return lax.dynamic_update_slice_in_dim(gaps, found, place, 0)

        gaps = lax.fori_loop(zero, num_steps, gap, buffers.gaps)
        return at + count, Buffers(scores, best, labels, gaps)

    return lax.fori_loop(zero, shapes.share // group, one, (zero, buffers))[1]


def info(
    found: Found,
    step: jax.Array,
    *,
    cost: jax.Array | float = 1.0,
    record: tuple[str, ...] = (),
) -> base.Info:
    """Return what a round has found, by sentence.

    Args:
      found: Differences.
      step: Step size of the round, or of each sentence.
      cost: Cost of a mistake, or of each sentence.
      record: Names of what is recorded.
    """
    is_mistake = found.num_wrong > 0
    return base.Info(
        loss=jnp.where(is_mistake, jax.nn.relu(cost - found.margin), 0),
        is_mistake=is_mistake,
        num_wrong=found.num_wrong,
        margin=found.margin,
        step_size=step,
        predicted=found.labels[1] if "predicted" in record else None,
    )


def rounds(
    update: Callable[..., Any], buffers: Callable[..., Any], **more: Any
) -> base.Wide:
    """Return wide rounds of sentences.

    Args:
      update: Update of a round, as in `Wide`.
      buffers: Buffers of a round, as in `Wide`.
      **more: `spread` and `gather`, as `Wide` has them.
    """

    def layout(
        stream: sentences.Stream, batch_size: int, num_devices: int
    ) -> packs.Layout:
        labels = stream.space.num_labels
        token_bytes = 4 * (labels + 1) * bilinear.stride(labels)
        lengths = np.asarray(stream.lengths)
        return packs.layout(lengths, batch_size, num_devices, token_bytes)

    def plan(
        stream: sentences.Stream,
        order: np.ndarray,
        sizes: np.ndarray,
        shapes: packs.Layout,
    ) -> packs.Plan:
        starts, lengths = np.asarray(stream.starts), np.asarray(stream.lengths)
        return packs.plan(starts, lengths, order, sizes, shapes)

    return base.Wide(
        layout=layout,
        plan=plan,
        buffers=buffers,
        update=update,
        trace=_trace,
        info_like=base.info_like,
        **more,
    )


def _trace(stream: sentences.Stream, plan: packs.Plan, infos: base.Info) -> base.Info:
    """Return the `Info` of each sentence in the order of the pass, on the host.

    Args:
      stream: Corpus.
      plan: Plan of the pass.
      infos: `Info` of each round; fields are (num_rounds, B), `step_size` may be
        (num_rounds,), and `predicted` (num_rounds, batch_tokens).
    """
    num_rounds, size = infos.num_wrong.shape
    done = plan.size[:num_rounds]
    is_sentence = np.arange(size)[None] < done[:, None]
    steps = np.asarray(infos.step_size)
    if steps.ndim == 1:
        steps = np.broadcast_to(steps[:, None], is_sentence.shape)
    kept: list[Any] = [part[is_sentence] for part in (*infos[:4], steps)]
    predicted: Any = None
    if infos.predicted is not None:
        count = plan.batch_count[:num_rounds]
        inside = np.arange(infos.predicted.shape[1])[None] < count[:, None]
        total = int(count.sum())
        before = np.repeat(np.cumsum(done) - done, count)
        sentence = before + plan.owner[:total]
        step = np.arange(total) - np.searchsorted(sentence, sentence)
        predicted = np.zeros((int(done.sum()), stream.window), np.int32)
        predicted[sentence, step] = infos.predicted[inside]
    return base.Info(*kept)._replace(predicted=predicted)
