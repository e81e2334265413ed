"""Batches of sentences for wide rounds, packed without padding.

A wide round (`online.wide`) takes a batch of sentences. The sentences are dealt to the
devices by falling length, to and fro, so that the shares are of about equal size. A
share is cut into groups of at most 16 sentences. The tokens of a group lie time-major:
the first tokens of all its sentences, then the second tokens of those that have one,
and so on. Lengths fall within a group, so one Viterbi step of a group is one contiguous
slice.

`plan` makes the plan of one pass on the host. It holds places of tokens in the corpus,
never features, and is the same on all devices. `Layout` holds its shapes, which are the
same in all passes with one batch size.
"""

from typing import Any, NamedTuple

import numpy as np

from lowrank_jax import checks

__all__ = [
    "GROUP",
    "Layout",
    "Plan",
    "Round",
    "check_schedule",
    "check_size",
    "deal",
    "layout",
    "places",
    "plan",
    "sizes_of",
]
__dir__ = __all__.copy

GROUP = 16  # sentences side by side; 8 or 32 cost the same within 10 %
_BYTES = 64_000_000  # most memory for the scores of one group


class Layout(NamedTuple):
    """Shapes of the plans of all passes with one batch size. Static and hashable.

    Attributes:
      batch_size: Largest number of sentences in a round, B.
      num_devices: Number of devices, D.
      group: Number of sentences of a group.
      share: Number of sentences of a device, a multiple of `group`.
      longest: Length of the longest sentence.
      group_tokens: Most tokens of a group.
      share_tokens: Most tokens of a share.
      batch_tokens: Most tokens of a batch.
      num_rounds: Number of rounds of a pass, the ramp and an empty round included.
    """

    batch_size: int
    num_devices: int
    group: int
    share: int
    longest: int
    group_tokens: int
    share_tokens: int
    batch_tokens: int
    num_rounds: int


class Plan(NamedTuple):
    """The rounds of one pass.

    Attributes:
      token: (D, T) token of the corpus, in the packed order of each device.
      back: (D, T) place of the token before, counted in the share; -1 at a start.
      first: (D, R) first token of each share.
      lengths: (D, R, share) lengths of its sentences, falling in each group.
      batch_token: (N,) token of the corpus, sentence after sentence.
      place: (N,) place of that token in the shares of its round, side by side.
      owner: (N,) sentence of that token, counted in its batch.
      batch_first: (R,) first token of each batch.
      batch_count: (R,) number of its tokens.
      size: (R,) number of its sentences; 0 for a round that is left out.
    """

    token: np.ndarray
    back: np.ndarray
    first: np.ndarray
    lengths: np.ndarray
    batch_token: np.ndarray
    place: np.ndarray
    owner: np.ndarray
    batch_first: np.ndarray
    batch_count: np.ndarray
    size: np.ndarray

    @property
    def owned(self) -> tuple[str, ...]:
        """Names of the parts with an axis of devices."""
        return ("token", "back", "first", "lengths")


class Round(NamedTuple):
    """What a device is told of a round."""

    stream: Any
    plan: Any  # plan of the pass; the parts of a device are its own
    number: Any  # () int32 round of the pass
    layout: Any  # static shapes
    axis: str | None  # axis of devices, or None for one device


def check_schedule(batch_size: int | str | tuple[int, ...]) -> tuple[int, ...]:
    """Return the batch size of each pass, the last one for all passes after it.

    Args:
      batch_size: Number of sentences, or a schedule such as ``"8,16,64"`` or
        ``(8, 16, 64)`` that does not fall.

    Raises:
      InputError: If it is neither.
    """
    given = batch_size
    if isinstance(given, str):
        words = [word.strip() for word in given.split(",")]
        if not all(word.isdecimal() for word in words):
            raise checks.InputError(
                "`batch_size` must be a whole number or numbers with commas such as "
                f"8,16,64, got {batch_size!r}."
            )
        given = tuple(int(word) for word in words)
    found = tuple(given) if isinstance(given, tuple | list) else (given,)
    for number in found:
        checks.whole(batch_size=number)
    if not found or list(found) != sorted(found):
        raise checks.InputError(
            f"`batch_size` must not fall from pass to pass, got {batch_size!r}."
        )
    return found


def check_size(batch_size: int, number: int, unit: str) -> None:
    """Raise `InputError` if a batch is larger than the training data."""
    if batch_size > number:
        raise checks.InputError(
            f"`batch_size` must be at most {number}, the number of training {unit}, "
            f"got {batch_size}."
        )


def sizes_of(num_sentences: int, batch_size: int, *, has_ramp: bool) -> np.ndarray:
    """Return the number of sentences of each round of a pass.

    Args:
      num_sentences: Number of sentences.
      batch_size: B.
      has_ramp: If true, the first rounds have 1, 2, 4, ... sentences, up to B. Before
        the first update all predictions are alike, and a large first batch would add
        up as many equal differences (DR-B10).
    """
    sizes, left, size = [], num_sentences, 1 if has_ramp else batch_size
    while left > 0:
        sizes.append(min(size, left))
        left, size = left - sizes[-1], min(2 * size, batch_size)
    return np.array(sizes, np.int32)


def layout(
    lengths: np.ndarray, batch_size: int, num_devices: int, token_bytes: int
) -> Layout:
    """Return the shapes for a corpus.

    Args:
      lengths: (num_sentences,) lengths.
      batch_size: B, at most the number of sentences.
      num_devices: D.
      token_bytes: Memory for the scores of one token. It bounds the group.
    """
    check_size(batch_size, len(lengths), "sentences")
    falling = np.sort(np.asarray(lengths, np.int64))[::-1]
    share = -(-batch_size // num_devices)
    group = GROUP
    while group > 1 and (
        group >= 2 * share or falling[:group].sum() * token_bytes > _BYTES
    ):
        group //= 2
    return Layout(
        batch_size=batch_size,
        num_devices=num_devices,
        group=group,
        share=-(-share // group) * group,
        longest=int(falling[0]),
        group_tokens=int(falling[: group * num_devices : num_devices].sum()),
        share_tokens=int(falling[:batch_size:num_devices].sum()),
        batch_tokens=int(falling[:batch_size].sum()),
        num_rounds=len(sizes_of(len(lengths), batch_size, has_ramp=True)) + 1,
    )


def plan(
    starts: np.ndarray,
    lengths: np.ndarray,
    order: np.ndarray,
    sizes: np.ndarray,
    shapes: Layout,
) -> Plan:
    """Deal and pack the batches of one pass.

    Args:
      starts: (num_sentences,) first token of each sentence.
      lengths: (num_sentences,) lengths.
      order: (num_sentences,) order of the sentences in this pass.
      sizes: Number of sentences of each round, from `sizes_of`.
      shapes: Layout.
    """
    num_rounds, devices, group = shapes.num_rounds, shapes.num_devices, shapes.group
    starts, lengths = np.asarray(starts)[order], np.asarray(lengths)[order]
    size = np.zeros(num_rounds, np.int32)
    size[: len(sizes)] = sizes
    before = np.cumsum(size) - size  # sentences before each round
    batch_start = np.cumsum(lengths) - lengths  # tokens before each sentence
    deal_of = lengths, size, before, shapes.share, devices
    own = deal(*deal_of)  # (D, R, share), -1 for none
    n = np.where(own >= 0, lengths[own], 0)

    lane, step, place = places(n.reshape(-1, group))
    in_round = n.sum(axis=2)
    first = np.cumsum(in_round, axis=1) - in_round
    in_device = in_round.sum(axis=1)
    round_of = lane // shapes.share
    device = round_of // num_rounds
    place = place - (np.cumsum(in_device) - in_device)[device]
    relative = place - first.ravel()[round_of]
    sentence = own.ravel()[lane]

    total = len(lane)
    room = max(shapes.group_tokens, GROUP) + GROUP
    most = total if devices == 1 else int(in_device.max(initial=0))
    usual = total if devices == 1 else -(-total // devices) * 51 // 50
    width = max(usual, -(-most // 4096) * 4096 if most > usual else 0) + room
    token = np.zeros((devices, width), np.int32)
    token[device, place] = starts[sentence] + step
    back = np.full((devices, width), -1, np.int32)
    back[device[1:], place[1:]] = np.where(step[1:] > 0, relative[:-1], -1)

    batch = np.zeros((3, total + shapes.batch_tokens), np.int32)
    where = batch_start[sentence] + step
    batch[0, where] = starts[sentence] + step
    batch[1, where] = device * share_room(shapes) + relative
    batch[2, where] = sentence - np.repeat(before, size)[sentence]
    batch_count = np.add.reduceat(
        np.append(lengths, 0), np.minimum(before, len(lengths))
    )
    batch_count = np.where(size > 0, batch_count, 0)
    whole = (first, n, np.cumsum(batch_count) - batch_count, batch_count, size)
    first, n, batch_first, batch_count, size = (x.astype(np.int32) for x in whole)
    flat = batch[0], batch[1], batch[2]
    return Plan(token, back, first, n, *flat, batch_first, batch_count, size)


def places(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lane, step and packed place of each token, sentence after sentence.

    Args:
      lengths: (num_groups, group) lengths, falling in each group; 0 for no sentence.
    """
    group, width = lengths.shape[1], int(lengths.max(initial=0)) + 1
    keys = np.arange(len(lengths))[:, None] * width + lengths
    ended = np.bincount(keys.ravel(), minlength=len(lengths) * width)
    active = group - np.cumsum(ended.reshape(-1, width), axis=1)  # have a token there
    earlier = (np.cumsum(active) - active.ravel()).reshape(-1, width)
    n = lengths.ravel()
    lane = np.repeat(np.arange(n.size), n)
    step = np.arange(len(lane)) - np.repeat(np.cumsum(n) - n, n)
    return lane, step, earlier[lane // group, step] + lane % group


def share_room(shapes: Layout) -> int:
    """Return the length of a buffer of labels: writes of a whole group stay inside."""
    return shapes.share_tokens + 2 * GROUP


def deal(
    lengths: np.ndarray, size: np.ndarray, before: np.ndarray, share: int, devices: int
) -> np.ndarray:
    """Deal each batch to the devices by falling length, to and fro.

    Args:
      lengths: (num_examples,) lengths in the order of the pass.
      size: (R,) number of examples of each round.
      before: (R,) number of examples before each round.
      share: Most examples of a device in a round.
      devices: D.

    Returns:
      (D, R, share) examples in the order of the pass, -1 for none.
    """
    column = np.arange(share * devices)[None]
    batch = np.where(column < size[:, None], before[:, None] + column, -1)
    n = np.where(batch >= 0, lengths[batch], -1)
    batch = np.take_along_axis(batch, np.argsort(-n, axis=1, kind="stable"), 1)
    found = batch.reshape(len(size), share, devices)
    flip = (np.arange(share)[None] + np.arange(len(size))[:, None]) % 2 == 1
    found = np.where(flip[:, :, None], found[:, :, ::-1], found)
    return np.ascontiguousarray(found.transpose(2, 0, 1))
