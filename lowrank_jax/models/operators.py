r"""Input-output operator models and their recovery from Hankel matrices (SMM-M1, R1).

A model of n states scores a string of bi-symbols :math:`s_1 \ldots s_T` by

.. math:: F(s) = \alpha^\top A_{s_1} \cdots A_{s_T}\, \beta       \qquad\text{(SMM-M1)}

and there are three ways to one:

* `recover`, from the blocks of a Hankel matrix :math:`H = U \Sigma V^\top` cut at rank
  n. The paper has h_P and h_S the wrong way round (errata); corrected (DR-M1),

  .. math:: A_s = (HV)^+ H_s V, \quad \alpha^\top = h_S^\top V, \quad
            \beta = (HV)^+ h_P.

* `from_trigrams`, from a trigram tensor with unfoldings of ranks r1 = rank(a|bc) and
  r2 = rank(ab|c): 2 + r1 + r2 states, start to r1 to r2 to end; zero on strings of
  other lengths (DR-M3). Fewer states than that give an approximation.
* `tied_matrix` with `recover`, from scores of orders 1 to 3. Where the block of P', S'
  (1 + m rows, for m symbols) is invertible, 1 + m states give *every* score of order up
  to 3 back: :math:`h_S^\top H^{-1}` and :math:`H^{-1} h_P` are unit vectors, so
  :math:`F(abc) = e_a^\top H_b\, e_c`. Fewer states give an approximation.

Exact decoding with a model is NP-hard; `trigram_table` makes the table of its piecewise
scores, with which `decode` predicts as with any other.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks
from lowrank_jax.linalg import spectra
from lowrank_jax.models.hankel import SubBlocks, tie_groups

__all__ = [
    "Operators",
    "from_factors",
    "from_trigrams",
    "num_weights",
    "recover",
    "score",
    "tied_matrix",
    "trigram_table",
]
__dir__ = __all__.copy


class Operators(NamedTuple):
    """A model of n states.

    Attributes:
      alpha: (n,) weights of the first state.
      beta: (n,) weights of the last state.
      matrices: (num_symbols, n, n), one operator a bi-symbol.
    """

    alpha: jax.Array
    beta: jax.Array
    matrices: jax.Array


def score(
    operators: Operators,
    symbols: jax.Array,
    length: int | jax.Array | None = None,
) -> jax.Array:
    """Return () the score F of one string.

    Args:
      operators: Model.
      symbols: (L,) int ids; what lies beyond `length` is ignored.
      length: Length of the string; None means all L.
    """
    symbols = jnp.asarray(symbols)
    is_inside = jnp.arange(symbols.shape[0]) < (
        symbols.shape[0] if length is None else length
    )

    def step(state: jax.Array, inputs: tuple) -> tuple[jax.Array, None]:
        symbol, inside = inputs
        return jnp.where(inside, state @ operators.matrices[symbol], state), None

    state, _ = lax.scan(step, operators.alpha, (symbols, is_inside))
    return state @ operators.beta


def recover(blocks: SubBlocks, rank: int) -> Operators:
    """Recover a model of `rank` states from the blocks of a Hankel matrix (DR-M1).

    Exact if the matrix `blocks.empty` has just this rank and belongs to a model with as
    many states. Directions in which it is zero to rounding are left out (weight 0).

    Args:
      blocks: Blocks as `hankel.sub_blocks` gives them, or blocks of any other prefixes
        and suffixes: `empty` (|P|, |S|), `symbols` (num_symbols, |P|, |S|), `prefixes`
        (|P|,) and `suffixes` (|S|,).
      rank: Number of states. Static.
    """
    checks.whole(rank=rank)
    empty = blocks.empty
    if rank > min(empty.shape):
        raise checks.InputError(
            f"`rank` must be at most {min(empty.shape)} for a Hankel matrix of shape "
            f"{empty.shape}, got {rank}."
        )
    wanted = (empty.shape[:1], empty.shape[1:], empty.shape)
    given = (blocks.prefixes.shape, blocks.suffixes.shape, blocks.symbols.shape[1:])
    if given != wanted:
        raise checks.InputError(
            f"`blocks` must have prefixes, suffixes and symbols of shapes {wanted} to "
            f"go with `empty`, got {given}."
        )
    left, values, right = spectra.svd(empty)
    least = values[0] * max(empty.shape) * jnp.finfo(empty.dtype).eps
    is_kept = values[:rank] > least
    inverse = jnp.where(is_kept, 1 / jnp.where(is_kept, values[:rank], 1), 0)
    v = right[:rank].T  # (|S|, rank)
    inverted = inverse[:, None] * left[:, :rank].T  # (HV)^+, since HV = U Sigma
    return Operators(
        alpha=blocks.suffixes @ v,  # DR-M1: h_S, not h_P as printed
        beta=inverted @ blocks.prefixes,
        matrices=inverted @ (blocks.symbols @ v),
    )


def trigram_table(operators: Operators, *, lower_orders: bool = False) -> jax.Array:
    """Return (m, m, m): what symbol c adds to the piecewise score after a and b.

    Args:
      operators: Model over m symbols.
      lower_orders: False for F(abc), the piecewise score of order 3 (SMM-Eq4); True
        for F(abc) + F(bc) + F(c), all orders up to 3 (SMM-N3).
    """
    alpha, beta, matrices = operators
    ones = alpha @ matrices  # (m, n)  alpha A_a
    ends = matrices @ beta  # (m, n)  A_c beta
    twos = jnp.einsum("ai,bij->abj", ones, matrices)
    table = jnp.einsum("abj,cj->abc", twos, ends)
    if lower_orders:
        table = table + (ones @ ends.T)[None] + (ones @ beta)[None, None]
    return table


def from_factors(first: jax.Array, middle: jax.Array, last: jax.Array) -> Operators:
    """Build the model of F(abc) = first[a] middle[b] last[c], zero elsewhere (DR-M3).

    Args:
      first: (m, r1).
      middle: (m, r1, r2).
      last: (m, r2).

    Returns:
      A model of 2 + r1 + r2 states.
    """
    num_symbols, r1, r2 = middle.shape
    n = 2 + r1 + r2
    matrices = jnp.zeros((num_symbols, n, n), middle.dtype)
    matrices = matrices.at[:, 0, 1 : 1 + r1].set(first)
    matrices = matrices.at[:, 1 : 1 + r1, 1 + r1 : n - 1].set(middle)
    matrices = matrices.at[:, 1 + r1 : n - 1, n - 1].set(last)
    state = jnp.arange(n)
    return Operators(
        alpha=(state == 0).astype(middle.dtype),
        beta=(state == n - 1).astype(middle.dtype),
        matrices=matrices,
    )


def from_trigrams(
    tensor: jax.Array, *, ranks: tuple[int, int] | None = None
) -> Operators:
    """Build a model that is F on strings of three symbols, zero on others (DR-M3).

    The tensor is projected on the leading left vectors of its unfolding (a|bc) and the
    leading right ones of (ab|c); with both ranks in full nothing is lost.

    Args:
      tensor: (m, m, m).
      ranks: ``(r1, r2)`` of the two unfoldings; None takes their numerical ranks, and
        then the tensor must be concrete.
    """
    size = tensor.shape[0]
    if tensor.shape != (size,) * 3:
        raise checks.InputError(
            f"`tensor` must have shape (m, m, m), got {tensor.shape}."
        )
    values, first = _leading(tensor.reshape(size, -1).T)
    last_values, last = _leading(tensor.reshape(-1, size))
    if ranks is None:
        ranks = (_numerical_rank(values, size), _numerical_rank(last_values, size))
    checks.whole(least=0, r1=ranks[0], r2=ranks[1])
    first, last = first[:, : ranks[0]], last[:, : ranks[1]]
    middle = jnp.einsum("ai,abc,cj->bij", first, tensor, last, optimize="optimal")
    return from_factors(first, middle, last)


def _leading(tall: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Singular values and right vectors, in columns, of a tall matrix."""
    _, values, right = jnp.linalg.svd(jnp.linalg.qr(tall, mode="r"))
    return values, right.T


def _numerical_rank(values: jax.Array, size: int) -> int:
    found = np.asarray(values)
    return int((found > found[0] * size * np.finfo(found.dtype).eps).sum())


def tied_matrix(
    tables: tuple[jax.Array, ...], empty: float | jax.Array = 0.0
) -> jax.Array:
    """Lay scores of orders 1 to 3 out on the tied basis of `hankel.tie_groups`.

    Args:
      tables: F of single symbols (m,), of pairs (m, m) and of triples (m, m, m).
      empty: F of the empty string; free, as no piecewise score reads it.

    Returns:
      (1 + m + m^2, 1 + m), which `hankel.sub_blocks` cuts for `recover`.
    """
    if [part.ndim for part in tables] != [1, 2, 3]:
        raise checks.InputError(
            "`tables` must hold scores of orders 1, 2 and 3, got shapes "
            f"{[part.shape for part in tables]}."
        )
    start = jnp.asarray(empty, tables[0].dtype).reshape(1)
    values = jnp.concatenate([start, *(part.reshape(-1) for part in tables)])
    return values[tie_groups(tables[0].shape[0])]


def num_weights(operators: Operators) -> int:
    """Return how many entries are not zero; on the host."""
    return sum(int(np.count_nonzero(np.asarray(part))) for part in operators)
