r"""Second-order decoding of one word: factors of three symbols, padded candidate lists.

The score of a path of candidate indices :math:`j_0 \ldots j_{T-1}` is

.. math:: s(j) = \sum_{t<T} A_t(j_{t-2}, j_{t-1}, j_t)   \qquad\text{(SMM-Eq4)}

with :math:`A` the `scores` (L, C, C, C). A state is a pair of consecutive candidates.
Before the word stand two boundary symbols, candidate 0 of their own lists: so
:math:`A_0` is read at (0, 0, j) and :math:`A_1` at (0, i, j). Candidates that are not
there score minus infinity. Lower orders are broadcast over the older symbols. Costs of
wrong symbols are added to the scores beforehand, as in `factor_scores`.

Written for one word; `vmap` outside. It takes room and time for C^3 entries a position:
for a whole corpus with lists of many lengths `streams.words` reads some thirteen times
fewer entries (counted on 15,000 words of NETtalk).
"""

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.checks import InputError
from lowrank_jax.decode.forward_backward import _log_sum_exp
from lowrank_jax.decode.scores import Length, Path, as_length

__all__ = [
    "best_path_trigram",
    "factor_scores",
    "log_partition_trigram",
    "marginals_trigram",
]

_BOUNDARY = 0  # the id of the boundary symbol


def factor_scores(
    table: jax.Array,
    candidates: jax.Array,
    mask: jax.Array,
    length: Length = None,
    *,
    gold: jax.Array | None = None,
    cost: float | jax.Array = 1.0,
    has_end: bool = False,
) -> jax.Array:
    """Look up the scores of one word's factors in a table.

    Args:
      table: (n, n, n) or (n, n), score of a factor, oldest symbol first.
      candidates: (L, C) int ids.
      mask: (L, C) bool, True where there is a candidate.
      length: true length; None means all L positions.
      gold: (L,) ids of the true symbols; then the cost of a wrong one is added.
      cost: of one wrong symbol. May be traced.
      has_end: whether the factor that ends in one boundary symbol is scored; it is
        added to the scores of the last position.

    Returns:
      (L, C, C, C), indexed by the candidates at t-2, t-1, t.
    """
    table, candidates = jnp.asarray(table), jnp.asarray(candidates)
    num_positions, num_candidates = candidates.shape
    length = as_length(length, num_positions)
    start = jnp.full((2, num_candidates), _BOUNDARY, candidates.dtype)
    padded = jnp.concatenate([start, candidates])
    is_first = jnp.arange(num_candidates) == 0
    there = jnp.concatenate([jnp.stack([is_first, is_first]), mask])
    a, b, c = (padded[k : k + num_positions] for k in range(3))
    in_a, in_b, in_c = (there[k : k + num_positions] for k in range(3))

    def look_up(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
        if table.ndim == 2:
            found = table[b[:, None, :, None], c[:, None, None, :]]
            shape = (a.shape[0], a.shape[1], b.shape[1], c.shape[1])
            return jnp.broadcast_to(found, shape)
        return table[a[:, :, None, None], b[:, None, :, None], c[:, None, None, :]]

    scores = look_up(a, b, c)
    if has_end:
        end = jnp.full((num_positions, 1), _BOUNDARY, candidates.dtype)
        last = look_up(b, c, end)[:, None, :, :, 0]  # (L, 1, C, C)
        is_last = jnp.arange(num_positions, dtype=jnp.int32) == length - 1
        scores = scores + jnp.where(is_last[:, None, None, None], last, 0)
    if gold is not None:
        wrong = jnp.where(c != gold[:, None], jnp.asarray(cost, table.dtype), 0)
        scores = scores + wrong[:, None, None, :]
    allowed = in_a[:, :, None, None] & in_b[:, None, :, None] & in_c[:, None, None, :]
    return jnp.where(allowed, scores, -jnp.inf)


def best_path_trigram(scores: jax.Array, length: Length = None) -> Path:
    """Find the best path of one word.

    Args:
      scores: (L, C, C, C) as above.
      length: true length; None means all L positions.

    Returns:
      `Path` with candidate indices as its labels.
    """
    num_positions, num_candidates = _check(scores)
    length = as_length(length, num_positions)

    def forward(delta: jax.Array, inputs: tuple) -> tuple[jax.Array, jax.Array]:
        t, score = inputs
        total = delta[:, :, None] + score
        best = jnp.argmax(total, axis=0).astype(jnp.int32)
        return jnp.where(t < length, total.max(axis=0), delta), best

    positions = jnp.arange(num_positions, dtype=jnp.int32)
    delta, pointers = lax.scan(forward, _start(scores), (positions, scores))
    last = jnp.argmax(delta.reshape(-1)).astype(jnp.int32)
    state = (last // num_candidates, last % num_candidates)  # (j_{T-2}, j_{T-1})

    def backward(state: tuple, inputs: tuple) -> tuple[tuple, jax.Array]:
        t, pointer = inputs
        before, now = state
        inside = t < length
        earlier = (pointer[before, now], before)
        state = jax.tree.map(lambda x, y: jnp.where(inside, x, y), earlier, state)
        return state, jnp.where(inside, now, 0)

    _, labels = lax.scan(backward, state, (positions, pointers), reverse=True)
    return Path(labels, delta.max())


def log_partition_trigram(scores: jax.Array, length: Length = None) -> jax.Array:
    """Return () the logarithm of the sum over paths of exp(score).

    Args:
      scores: (L, C, C, C) as above.
      length: true length; None means all L positions.
    """
    num_positions, _ = _check(scores)
    length = as_length(length, num_positions)

    def forward(alpha: jax.Array, inputs: tuple) -> tuple[jax.Array, None]:
        t, score = inputs
        new = _log_sum_exp(alpha[:, :, None] + score, (0,))
        return jnp.where(t < length, new, alpha), None

    positions = jnp.arange(num_positions, dtype=jnp.int32)
    alpha, _ = lax.scan(forward, _start(scores), (positions, scores))
    return _log_sum_exp(alpha, (0, 1))


def marginals_trigram(scores: jax.Array, length: Length = None) -> jax.Array:
    """Return (L, C, C, C), the probability of each factor; 0 beyond the end.

    The gradient of the log-partition function in the scores.
    """
    return jax.grad(log_partition_trigram)(scores, length)


def _check(scores: jax.Array) -> tuple[int, int]:
    if scores.ndim != 4 or len(set(scores.shape[1:])) != 1:
        raise InputError(f"`scores` must have shape (L, C, C, C), got {scores.shape}.")
    return scores.shape[0], scores.shape[1]


def _start(scores: jax.Array) -> jax.Array:
    """Only the pair of boundary symbols is possible before the word."""
    size = scores.shape[1]
    is_start = jnp.arange(size * size).reshape(size, size) == 0
    return jnp.where(is_start, 0, -jnp.inf).astype(scores.dtype)
