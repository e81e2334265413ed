r"""Weights of all sub-patterns of three consecutive bi-symbols (SMM-B5, SMM-B6).

A pattern shows at each of up to three places the bi-symbol (``s``), its letter alone
(``x``) or nothing (``_``); its bi-symbols stand side by side and there is at least one.
Up to a shift these are the twelve `PATTERNS`: a bi-symbol with every subset of the
letters around it within a trigram, and every run of bi-symbols with the letters left.
Each has a table of weights with one axis a place that shows something, and a trigram
(a, b, c) scores

.. math:: F(a, b, c) = w_{s}(c) + w_{xs}(x_b, c) + w_{sx}(b, x_c) + w_{ss}(b, c)
          + \dots + w_{sss}(a, b, c),

x the letter of a bi-symbol: every pattern ends at c, so that a word's sum over trigrams
(SMM-Eq4) holds each occurrence once. What lies right of a bi-symbol is thus scored by a
later trigram; at the end of a word by the one that ends in the boundary, if words are
laid out with ``has_end=True``. (Without it the end shows by what is not there: as much
can be told apart, but with a weight for each letter in place of one.) The boundary is a
bi-symbol and a letter as any other.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["PATTERNS", "Params", "cells", "mixing", "score_table", "zeros"]


class Params(NamedTuple):
    """One table a pattern; letters have K values, bi-symbols n."""

    s: jax.Array  # (n,)
    xs: jax.Array  # (K, n)
    sx: jax.Array  # (n, K)
    ss: jax.Array  # (n, n)
    x_s: jax.Array  # (K, n)
    s_x: jax.Array  # (n, K)
    xxs: jax.Array  # (K, K, n)
    xsx: jax.Array  # (K, n, K)
    sxx: jax.Array  # (n, K, K)
    xss: jax.Array  # (K, n, n)
    ssx: jax.Array  # (n, n, K)
    sss: jax.Array  # (n, n, n)


#: What each shows, oldest place first; the last character stands at c.
PATTERNS: tuple[str, ...] = Params._fields


def zeros(num_letters: int, num_symbols: int, dtype: jnp.dtype = jnp.float32) -> Params:
    """Return zero weights.

    Args:
      num_letters: K, the boundary and the letter of `unknown` counted.
      num_symbols: Number of symbols n.
      dtype: Type of the weights.
    """
    sizes = {"x": num_letters, "s": num_symbols}
    shapes = ([sizes[kind] for kind in name if kind != "_"] for name in PATTERNS)
    return Params(*(jnp.zeros(shape, dtype) for shape in shapes))


def cells(
    letters: Sequence[jax.Array], symbols: Sequence[jax.Array]
) -> dict[str, tuple[jax.Array, ...]]:
    """Return the entry of each table that a trigram reads: one index an axis.

    Args:
      letters: Letters of a, b and c; three arrays of any one shape.
      symbols: Ids of a, b and c.
    """
    at_place = [{"x": x, "s": s} for x, s in zip(letters, symbols, strict=True)]
    return {
        name: tuple(
            place[kind]
            for place, kind in zip(at_place[-len(name) :], name, strict=True)
            if kind != "_"
        )
        for name in PATTERNS
    }


def score_table(params: Params, letter_of: jax.Array) -> jax.Array:
    """Sum all tables into one (n, n, n), F(a, b, c). Linear in the parameters.

    Only three tables of the result's size are added: what shows no more of a than its
    letter is summed up before it is spread over a, and so for c.

    Args:
      params: Weights.
      letter_of: (n,) int, the letter of each bi-symbol.
    """
    w = params
    num_letters = w.xs.shape[0]
    letters = jnp.arange(num_letters, dtype=letter_of.dtype)
    # A product with zeros and ones: its transpose is one too, not a scatter.
    is_letter = (letters[:, None] == letter_of[None, :]).astype(w.s.dtype)  # (K, n)

    def spread(table: jax.Array, axis: int) -> jax.Array:
        """Let an axis of letters be one of bi-symbols."""
        exact = lax.Precision.HIGHEST
        found = jnp.tensordot(table, is_letter, ((axis,), (0,)), precision=exact)
        return jnp.moveaxis(found, -1, axis)

    one_left = w.xxs + w.x_s[:, None, :] + (w.xs + w.s[None, :])[None, :, :]
    left = w.xss + w.ss[None, :, :] + spread(w.xsx, 2) + spread(one_left, 1)
    one_right = w.sxx + w.s_x[:, None, :]
    right = w.ssx + w.sx[None, :, :] + spread(one_right, 1)
    return w.sss + spread(left, 0) + spread(right, 2)  # (x_a, b, c) and (a, b, x_c)


def mixing(letter_of: np.ndarray, nothing: float, letter: float) -> jax.Array:
    r"""Return S that makes the table of a Hankel matrix over all sub-patterns.

    Let E be a Hankel matrix over strings of three places, each with a bi-symbol, a
    letter alone or nothing. One of m = n + K + 1 signs stands at a place. With
    :math:`M = [I, w_x L, w_\epsilon 1]`, (n, m), the table is E with M applied to each
    axis. Among all E with one table the smallest nuclear norm has the E whose rows and
    columns lie in the row space of M. With :math:`S = (M M^\top)^{1/2}` it is the norm
    of the matrix H with (n, n, n) entries whose table is H with S applied to each axis.
    The same holds of the Frobenius norm.

    Args:
      letter_of: (n,) int, the letter of each bi-symbol.
      nothing: Weight :math:`w_\epsilon` of places that show nothing.
      letter: Weight :math:`w_x` of places that show a letter alone.
    """
    is_same = letter_of[:, None] == letter_of[None, :]
    gram = np.eye(len(letter_of)) + letter**2 * is_same + nothing**2
    values, vectors = np.linalg.eigh(gram)
    return jnp.asarray((vectors * np.sqrt(values)) @ vectors.T, jnp.float32)
