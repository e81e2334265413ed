r"""A fixed model U, against which the regret of a run is measured.

The regret of a run (errata of BOL-N3) is its loss minus the loss of one fixed U on the
same rounds, :math:`[1 - \langle U, \Delta\Phi^t\rangle]_+`. Of each round only the
learner's prediction is needed. :math:`\Delta\Phi^t` is zero except at the few positions
where the label pairs differ, so U is read only there.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Space
from lowrank_jax.linalg import spectra
from lowrank_jax.models import bilinear, blocks, linear
from lowrank_jax.online import mistakes
from lowrank_jax.streams.sentences import Stream
from lowrank_jax.types import Sentence

__all__ = ["check", "gap", "margin", "margins", "penalty"]
__dir__ = __all__.copy


class _Parts(NamedTuple):
    """Sizes of U: its weights on labels, and its first-order blocks."""

    squares: jax.Array  # ()  ||w||^2, transitions included
    blocks: jax.Array  # (K + 1,)  a norm of each block


def check(params: Any, space: Space) -> None:
    """Raise `InputError` unless the parameters are of this feature space."""
    if not isinstance(params, linear.Params | bilinear.Params):
        raise InputError(
            "A comparator is a models.linear.Params or a models.bilinear.Params, got "
            f"{type(params).__name__}."
        )
    rows, labels = space.num_features + 1, space.num_labels
    shapes: dict[str, tuple[int, ...]] = {"transitions": (labels, labels + 1)}
    shapes["rows"] = (rows,)
    if params.rows is not None:  # tables of touched features
        rows = _num_features(params).shape[0]
    if isinstance(params, linear.Params):
        shapes |= {"zero": (rows, labels), "first": (rows, labels, labels + 1)}
    else:
        shapes["table"] = (rows, params.table.shape[-1])
    for name, shape in shapes.items():
        part = getattr(params, name)
        if isinstance(part, blocks.Blocks):  # entries, by row
            part = part.keys
            shape = (rows, part.shape[1])
        if part is not None and part.shape != shape:
            raise InputError(
                f"`{name}` of the comparator must have shape {shape} for these data, "
                f"got {part.shape}."
            )


def margin(params: Any, example: Sentence, predicted: jax.Array) -> jax.Array:
    r"""Return :math:`\langle U, \Delta\Phi^t\rangle` of one round; pure.

    Args:
      params: U, parameters of `models.linear` or `models.bilinear`.
      example: Sentence of the round.
      predicted: (window,) int32, labels that the learner predicted.
    """
    differences = mistakes.find(example, predicted)

    def one(n: jax.Array, total: jax.Array) -> jax.Array:
        here = mistakes.position(example, differences, n)
        return total + gap(params, here, example.space)

    dtype = linear.dtype_of(params)
    count = differences.num_positions
    return lax.fori_loop(jnp.zeros_like(count), count, one, jnp.zeros((), dtype))


def margins(
    params: Any, corpus: Stream, order: jax.Array, predicted: jax.Array
) -> jax.Array:
    r"""Return :math:`\langle U, \Delta\Phi^t\rangle` of the rounds of a run; pure.

    Args:
      params: U, parameters of `models.linear` or `models.bilinear`.
      corpus: Sentences of the run.
      order: (num_rounds,) int32, the sentence of each round.
      predicted: (num_rounds, window) int, `Info.predicted` of the run.
    """

    def one(_: None, given: tuple[jax.Array, jax.Array]) -> tuple[None, jax.Array]:
        index, labels = given
        example = corpus.example(index)
        labels = labels.astype(example.labels.dtype)
        return None, margin(params, example, labels)

    return lax.scan(one, None, (order, predicted))[1]


def gap(params: Any, here: mistakes.Position, space: Space) -> jax.Array:
    """Return score(true pair) - score(predicted pair) of U at one position; pure.

    Only entries of the two pairs are read.
    """
    labels, before, ids = here.labels, here.previous, here.ids
    is_feature = (ids < space.num_features)[:, None]
    if params.rows is not None:
        ids = _at(params.rows, ids)
    order_0 = jnp.array(space.zero_order, jnp.int32)
    order_1 = jnp.array(space.first_order, jnp.int32)
    zero, first = ids[order_0][:, None], ids[order_1][:, None]
    dtype = linear.dtype_of(params)  # id K scores 0, whatever its row holds
    is_zero, is_first = (
        is_feature[columns].astype(dtype) for columns in (order_0, order_1)
    )
    if here.values is not None:
        value = here.values.astype(dtype)[:, None]
        is_zero, is_first = is_zero * value[order_0], is_first * value[order_1]
    parts: list[jax.Array] = []
    if isinstance(params, linear.Params):
        if params.zero is not None:
            parts.append((is_zero * _at(params.zero, zero, labels[None])).sum(0))
        if params.first is not None:
            if isinstance(params.first, blocks.Blocks):
                pair = labels * blocks.stride(space.num_labels) + before
                pairs = blocks.at(params.first, first, pair[None])
            else:
                pairs = _at(params.first, first, labels[None], before[None])
            parts.append((is_first * pairs).sum(0))
    else:
        table, size = params.table, space.num_labels
        rank, stride = bilinear.rank_of(table, size), bilinear.stride(size)
        parts.append((is_zero * _at(table, zero, labels[None])).sum(0))
        for j in range(rank):
            left = _at(table, first, size * (1 + j) + labels[None])
            right = _at(table, first, size * (1 + rank) + stride * j + before[None])
            parts.append(params.scale * (is_first * left * right).sum(0))
    if params.transitions is not None:
        parts.append(params.transitions[labels, before])
    both = sum(parts[1:], start=parts[0])
    return both[0] - both[1]


def _at(table: jax.Array, *index: jax.Array) -> jax.Array:
    return table.at[index].get(mode="promise_in_bounds")


def penalty(
    params: Any, space: Space, *, variant: str, rank: int = 1, start: float = 0.0
) -> jax.Array:
    r"""Return :math:`F^{**}(U)` of the mirror map that a learner uses; pure.

    With a start :math:`\Theta_0 = c_0 11^\top` it is the Fenchel-Young gap of U from
    the start, :math:`F^{**}(U) - \langle U, \Theta_0\rangle + F^*(\Theta_0)` (DR-B11).
    The gap is 0 for the map of the start. Multiples of :math:`11^\top` change no
    margin, so a
    block of U that is zero is taken to be the map of the start.

    It is half a sum of squares: :math:`\|w\|^2` of the weights on labels, plus for the
    blocks

    ===========  ==================================================================
    ``"sp"``     :math:`\sum_k\|U_k\|_F^2`
    ``"block"``  :math:`\sum_k\|U_k\|^2`, spectral r-support norm (DR-B6, DR-B5):
                 :math:`\|U_k\|_F` where :math:`U_k` has rank r or less, the trace
                 norm for any :math:`U_k` if r = 1
    ``"paper"``  :math:`(\sum_k\|U_k\|_{s(1)})^2`, and for ``"exact"`` (BOL-N4)
    ===========  ==================================================================

    Args:
      params: U.
      space: Sizes of the feature space.
      variant: Variant of the learner. Static.
      rank: Rank r of ``"block"``. Static.
      start: :math:`c_0`; other than 0 only with ``"block"``. Static.
    """
    checks.choice(("sp", "block", "paper", "exact"), variant=variant)
    number = _num_features(params)
    if variant == "sp":
        parts = _parts(params, space, "frobenius")
        return (parts.squares + (number * parts.blocks**2).sum()) / 2
    if variant != "block":
        parts = _parts(params, space, "trace")
        return (parts.squares + (number * parts.blocks).sum() ** 2) / 2
    own_rank = _rank(params, space)
    if rank > 1 and own_rank > rank:
        raise InputError(
            f"The comparator's blocks have rank {own_rank} where the learner has "
            f"rank={rank}: take one of rank {rank} or less, or a learner of rank 1."
        )
    parts = _parts(params, space, "frobenius" if own_rank <= rank else "trace")
    if start == 0:
        return (parts.squares + (number * parts.blocks**2).sum()) / 2
    sums = _sums(params, space)
    num_entries = space.num_labels * (space.num_labels + 1)
    energy = start**2 * num_entries  # sigma_1(Theta_0)^2
    gaps = (parts.blocks**2 - 2 * start * sums + energy) / 2
    # Rounding of the many blocks that are the start itself would add up.
    is_start = jnp.abs(sums - start * num_entries) <= 1e-5 * start * num_entries
    is_start = is_start & (gaps <= 1e-5 * energy)
    gaps = jnp.where(is_start | (parts.blocks == 0), 0, gaps)
    return parts.squares / 2 + (number * jnp.maximum(gaps, 0)).sum()


def _num_features(params: Any) -> jax.Array:
    """Return the number of features that have each row: (rows,), or (1,) ones."""
    dtype = linear.dtype_of(params)
    if params.rows is None:
        return jnp.ones((1,), dtype)
    table: Any = params.first if isinstance(params, linear.Params) else params.table
    if isinstance(table, blocks.Blocks):
        table = table.keys
    return jnp.zeros((table.shape[0],), dtype).at[params.rows[:-1]].add(1)


def _rank(params: Any, space: Space) -> int:
    if isinstance(params, linear.Params):
        return 1 if params.first is None else space.num_labels
    return bilinear.rank_of(params.table, space.num_labels)


def _parts(params: Any, space: Space, norm: str) -> _Parts:
    if isinstance(params, linear.Params):
        squares = [
            (part * part).sum()
            for part in (params.zero, params.transitions)
            if part is not None
        ]
        dtype = linear.dtype_of(params)
        total = sum(squares, start=jnp.zeros((), dtype))
        if params.first is None:
            return _Parts(total, jnp.zeros((1,), dtype))
        if isinstance(params.first, blocks.Blocks):
            return _Parts(total, _entry_norms(params.first, norm, space.num_labels))
        return _Parts(total, _block_norms(params.first, norm))
    rows = bilinear.split(params.table, space.num_labels)
    total = (rows.zero**2).sum()
    if params.transitions is not None:
        total = total + (params.transitions**2).sum()
    # Norms of sum_j alpha_j beta_j^T, from the two small Gram matrices (r, r).
    left = jnp.einsum("kis,kjs->kij", rows.left, rows.left)
    right = jnp.einsum("kis,kjs->kij", rows.right, rows.right)
    scale = jnp.abs(params.scale)
    if norm == "frobenius" or left.shape[1] == 1:
        return _Parts(total, scale * jnp.sqrt((left * right).sum((1, 2))))
    products = jnp.einsum("kjs,kjt->kst", rows.left, rows.right)
    return _Parts(total, scale * _block_norms(products, norm))


def _sums(params: Any, space: Space) -> jax.Array:
    """Return the sum of the entries of each first-order block: (K + 1,)."""
    if isinstance(params, linear.Params):
        assert params.first is not None
        if isinstance(params.first, blocks.Blocks):
            slots, pages = params.first.values
            return slots.sum(1) + pages.sum(1)[params.first.keys[:, 0]]
        return params.first.sum((1, 2))
    rows = bilinear.split(params.table, space.num_labels)
    return params.scale * (rows.left.sum(2) * rows.right.sum(2)).sum(1)


def _entry_norms(first: blocks.Blocks, norm: str, num_labels: int) -> jax.Array:
    """Return the norms of blocks that are kept by their entries."""
    if norm == "frobenius":
        return jnp.sqrt(blocks.squares(first))

    def one(row: jax.Array) -> jax.Array:
        block = blocks.dense(first.keys, first.values, row[None], num_labels)
        return spectra.singular_values(block[0]).sum()

    rows = jnp.arange(first.keys.shape[0], dtype=jnp.int32)
    return lax.map(one, rows, batch_size=256)


def _block_norms(blocks: jax.Array, norm: str) -> jax.Array:
    if norm == "frobenius":
        return jnp.sqrt((blocks * blocks).sum((1, 2)))
    return lax.map(
        lambda block: spectra.singular_values(block).sum(),
        blocks,
        batch_size=4096,
    )
