r"""Hankel matrices of factor scores (SMM, section 3.3).

A factor of order k scores k consecutive bi-symbols. Its values are laid out as

.. math:: H(u, v) = F(uv), \qquad u \in P,\; v \in S \qquad\text{(SMM-Eq6)}

with a *basis* (P, S) such that every string of interest is uv for one pair (u, v)
alone; then no two entries are tied, and H itself is the table of scores (SMM-Eq8).
Such bases, for n bi-symbols:

======================  =====================================  ==================
score                   matrices                               made by
======================  =====================================  ==================
:math:`F_k`             P of length k-1, S single              ``basis(k)``
:math:`F_{[k]}`         P of lengths 0..k-1, S single          ``"stacked"``
:math:`F_{[k]}`         one matrix an order                    ``"separate"``
======================  =====================================  ==================

With one symbol as suffix (``unfolding="last"``) the rank of the trigram matrix is that
of (ab|c); ``"first"`` penalises (a|bc) instead, and ``"both"`` takes the sum of two
tables, each with its own matrix: the latent form, whose penalty of the sum is the
infimal convolution of the two norms (`batch.smm.penalties` has the overlapped form,
both norms of one table). The number of states of a weighted automaton for F
lies between the larger of the two ranks and their sum plus 2 (DR-M3).

`order` is the number of symbols, and :math:`F_{[k]}` runs over orders 1..k (errata).
To recover operators (SMM-R1) the basis must hold the empty string and is tied: see
`tie_groups`.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks

__all__ = [
    "Block",
    "Params",
    "SubBlocks",
    "basis",
    "num_entries",
    "order_of",
    "score_table",
    "sub_blocks",
    "tie_groups",
    "zeros",
]
__dir__ = __all__.copy

#: One matrix a block of the basis.
Params = tuple[jax.Array, ...]

_BOUNDARY = 0  # the id of the boundary symbol, as in `data.bisymbols`


@dataclasses.dataclass(frozen=True)
class Block:
    """One matrix: rows are strings of given lengths, columns single symbols.

    Attributes:
      lengths: Lengths of the strings of the rows, ascending; a length l holds ``n**l``
        rows.
      columns: ``"last"`` (the column is the last symbol of the factor) or ``"first"``.
    """

    lengths: tuple[int, ...]
    columns: str = "last"

    def shape(self, num_symbols: int) -> tuple[int, int]:
        """Return the shape of the matrix."""
        return sum(num_symbols**length for length in self.lengths), num_symbols


def basis(
    order: int = 3, *, lower_orders: str = "none", unfolding: str = "last"
) -> tuple[Block, ...]:
    """Return the blocks of a basis without ties.

    Args:
      order: Symbols in the longest factor, 1 to 3.
      lower_orders: ``"none"`` for :math:`F_k`; ``"stacked"`` (one matrix for all
        orders) or ``"separate"`` (a matrix each) for :math:`F_{[k]}`.
      unfolding: ``"last"``, ``"first"`` or ``"both"``: the symbol of the columns.
    """
    checks.whole(order=order)
    if order > 3:
        raise checks.InputError(f"`order` must be 1, 2 or 3, got {order}.")
    checks.choice(("none", "stacked", "separate"), lower_orders=lower_orders)
    checks.choice(("last", "first", "both"), unfolding=unfolding)
    groups: list[tuple[int, ...]] = [tuple(range(order))]
    if lower_orders == "none":
        groups = [(order - 1,)]
    elif lower_orders == "separate":
        groups = [(length,) for length in range(order)]
    sides = ("last", "first") if unfolding == "both" else (unfolding,)
    return tuple(
        Block(lengths, side)
        for side in sides
        for lengths in groups
        # Orders 1 and 2 have one unfolding, up to transposition.
        if side == sides[0] or max(lengths) > 1
    )


def order_of(blocks: tuple[Block, ...]) -> int:
    """Return the number of symbols of the longest factor."""
    return 1 + max(max(block.lengths) for block in blocks)


def zeros(
    blocks: tuple[Block, ...], num_symbols: int, dtype: jnp.dtype = jnp.float32
) -> Params:
    """Return zero matrices."""
    return tuple(jnp.zeros(block.shape(num_symbols), dtype) for block in blocks)


def score_table(
    blocks: tuple[Block, ...],
    params: Params,
    *,
    has_boundary: bool = True,
    mixing: jax.Array | None = None,
) -> jax.Array:
    """Sum all blocks into one table of the score of a position.

    Entry (a, b, c) is the score that symbol c adds after a and b: F(abc), and for
    :math:`F_{[3]}` F(abc) + F(bc) + F(c). Linear in the parameters.

    Args:
      blocks: Blocks from `basis`.
      params: One matrix per block.
      has_boundary: True if factors that reach over the start (or the end) of a word
        count. If not, they score 0, and a word shorter than the order has no score of
        that order (the paper's own form).
      mixing: (n, n) symmetric matrix S that is applied to each axis of the table; None
        for the identity. Where M makes these n symbols of others and S S = M M', the
        norm of a block is the least norm of a Hankel matrix over the others.

    Returns:
      (n, n, n) for order 3; (n, n) for orders 1 and 2.
    """
    order = max(order_of(blocks), 2)
    num_symbols = params[0].shape[1]
    table = jnp.zeros((num_symbols,) * order, params[0].dtype)
    for block, matrix in zip(blocks, params, strict=True):
        begin = 0
        for length in block.lengths:
            end = begin + num_symbols**length
            part = matrix[begin:end].reshape((num_symbols,) * (length + 1))
            begin = end
            if block.columns == "first":
                part = jnp.moveaxis(part, -1, 0)
            if not has_boundary:
                part = _without_boundary(part)
            table = table + part.reshape((1,) * (order - part.ndim) + part.shape)
    if mixing is not None:
        for _ in range(order):  # each product moves the first axis to the end
            table = jnp.tensordot(table, mixing, ((0,), (0,)))
    return table


def _without_boundary(part: jax.Array) -> jax.Array:
    """Put 0 wherever a symbol is the boundary."""
    for axis in range(part.ndim):
        is_inner = jnp.arange(part.shape[axis]) != _BOUNDARY
        shape = [1] * part.ndim
        shape[axis] = -1
        part = jnp.where(is_inner.reshape(shape), part, 0)
    return part


def tie_groups(num_symbols: int) -> np.ndarray:
    """Return which entries of the tied trigram basis are the same string.

    The basis is P' = S' = the empty string and all symbols, P = P' followed by the
    empty string or a symbol, S = S': rows are the strings of length 0, 1, 2, columns
    the strings of length 0, 1, both in the order empty, a, ab (errata SMM-N5).

    Returns:
      (1 + n + n^2, 1 + n) int32: the number of the string uv, in 0..n + n^2 + n^3,
      shorter ones first, in the order of their symbols.
    """
    n = num_symbols
    rows = [np.zeros((1, 0), int)]
    rows += [np.indices((n,) * length).reshape(length, -1).T for length in (1, 2)]
    numbers = []
    for strings in rows:
        symbols = np.tile(np.arange(n), len(strings))[:, None]
        joined = np.concatenate([np.repeat(strings, n, axis=0), symbols], axis=1)
        with_symbol = _string_number(joined, n).reshape(len(strings), n)
        alone = _string_number(strings, n)[:, None]
        numbers.append(np.concatenate([alone, with_symbol], axis=1))
    return np.concatenate(numbers).astype(np.int32)


def _string_number(strings: np.ndarray, n: int) -> np.ndarray:
    length = strings.shape[1]
    powers = np.array([n**k for k in range(length)][::-1], int)
    return sum(n**k for k in range(length)) + (strings * powers).sum(axis=1)


class SubBlocks(NamedTuple):
    """What the recovery of operators needs (SMM-R1).

    Attributes:
      empty: (1 + n, 1 + n) the block of P' and S'.
      symbols: (n, 1 + n, 1 + n) the block of P' followed by each symbol, and S'.
      prefixes: (1 + n,) F of the strings of P'.
      suffixes: (1 + n,) F of the strings of S'.
    """

    empty: jax.Array
    symbols: jax.Array
    prefixes: jax.Array
    suffixes: jax.Array


def sub_blocks(matrix: jax.Array) -> SubBlocks:
    """Cut the matrix of the tied basis (see `tie_groups`) into its sub-blocks."""
    num_rows, width = matrix.shape
    n = width - 1
    if num_rows != 1 + n + n * n:
        raise checks.InputError(
            f"`matrix` must have shape (1 + n + n^2, 1 + n), got {matrix.shape}."
        )
    single = matrix[1:width]  # rows a: the empty prefix followed by a
    double = matrix[width:].reshape(n, n, width)  # rows (p, a)
    symbols = jnp.concatenate([single[None], double]).transpose(1, 0, 2)
    empty = matrix[:width]
    return SubBlocks(empty, symbols, empty[:, 0], matrix[0])


def num_entries(blocks: tuple[Block, ...], num_symbols: int) -> int:
    """Return how many weights there are."""
    return sum(math.prod(block.shape(num_symbols)) for block in blocks)
