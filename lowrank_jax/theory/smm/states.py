r"""What the rank of a Hankel matrix says of the number of states (SMM, section 3.3).

A model of n states scores a string by
:math:`F(s) = \alpha^\top A_{s_1}\cdots A_{s_T}\beta`, so that a Hankel matrix
:math:`H(u, v) = F(uv)` is the product of a matrix with n columns (the rows
:math:`\alpha^\top A_u`) and one with n rows (:math:`A_v\beta`).

SMM-Eq4 has no certificate. The string :math:`x_{t-k:t}` has k + 1 symbols, so a decoder
over such factors costs :math:`O(T|Y|^{k+1})`, not :math:`O(T|Y|^k)`. In this library,
`order` is the number of symbols.
"""

import jax
import jax.numpy as jnp

from lowrank_jax.models import operators as models
from lowrank_jax.models.hankel import SubBlocks
from lowrank_jax.theory.certificate import Certificate, at_most, equal

__all__ = [
    "numerical_rank",
    "rank_certificate",
    "realisation_certificate",
    "recovery_certificate",
    "states_certificate",
    "unfolding_certificate",
    "unfolding_ranks",
]
__dir__ = __all__.copy

_ROUNDING = 100  # units of rounding, times the size, below which a value counts as 0


def numerical_rank(matrix: jax.Array) -> jax.Array:
    """Return how many singular values are not zero to rounding; batches in front."""
    values = jnp.linalg.svd(matrix, compute_uv=False)
    unit = _ROUNDING * max(matrix.shape[-2:]) * jnp.finfo(matrix.dtype).eps
    return (values > unit * values[..., :1]).sum(-1)


def rank_certificate(matrix: jax.Array, num_states: int | jax.Array) -> Certificate:
    r"""Compare the rank of a Hankel matrix with the number of states (SMM-T1).

    :math:`H = \mathcal P \mathcal S` with :math:`\mathcal P` of n columns, so the rank
    is at most n; with enough strings and a minimal model it is n.

    Args:
      matrix: (..., |P|, |S|) Scores of the strings uv.
      num_states: n.
    """
    rank = numerical_rank(matrix).astype(matrix.dtype)
    return at_most(rank, jnp.asarray(num_states, matrix.dtype))


def recovery_certificate(
    blocks: SubBlocks,
    num_states: int,
    strings: jax.Array,
    lengths: jax.Array,
    scores: jax.Array,
    *,
    is_printed: bool = False,
) -> Certificate:
    r"""Compare the scores of the recovered model with the true ones (SMM-R1, DR-M1).

    With :math:`H = \mathcal P \mathcal S` and :math:`h_S^\top = \alpha_0^\top\mathcal
    S`, :math:`h_P = \mathcal P\beta_0`, the recovered model is the true one in another
    basis of the states: :math:`\alpha^\top = h_S^\top V`, :math:`\beta = (HV)^+ h_P`.
    The paper prints h_P and h_S the other way round, which fits in shape where
    :math:`|P| = |S|`, and is right only where P = S.

    Args:
      blocks: Blocks of one model's Hankel matrix. The statement asks that its `empty`
        has the rank `num_states`.
      num_states: n. Static.
      strings: (N, L) Symbols of strings to score, also longer than the strings of H.
      lengths: (N,).
      scores: (N,) True F of each string.
      is_printed: Interchange h_P and h_S, as printed.

    Returns:
      Of the vector of scores, in the Euclidean norm; rounding may grow by the condition
      number of H.
    """
    values = jnp.linalg.svd(blocks.empty, compute_uv=False)
    least = values[num_states - 1]
    is_met = least > 1e-6 * values[0]
    if is_printed:
        blocks = blocks._replace(prefixes=blocks.suffixes, suffixes=blocks.prefixes)
    found = models.recover(blocks, num_states)
    observed = jax.vmap(lambda s, n: models.score(found, s, n))(strings, lengths)
    condition = values[0] / jnp.where(is_met, least, 1)
    scale = condition * jnp.linalg.norm(scores)
    return equal(observed, scores, num_axes=1, assumptions_met=is_met, scale=scale)


def unfolding_ranks(tensor: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the ranks of (a|bc) and of (ab|c) of a tensor (..., m, m, m)."""
    *batch, m, _, _ = tensor.shape
    first = numerical_rank(tensor.reshape(*batch, m, m * m))
    last = numerical_rank(tensor.reshape(*batch, m * m, m))
    return first, last


def states_certificate(tensor: jax.Array, num_states: int | jax.Array) -> Certificate:
    """Compare the two ranks of a model's trigram tensor with its states (DR-M3).

    Both unfoldings are Hankel matrices of the model, so neither rank exceeds n.

    Args:
      tensor: (..., m, m, m) F(abc) of a model.
      num_states: n.
    """
    first, last = unfolding_ranks(tensor)
    needed = jnp.maximum(first, last).astype(tensor.dtype)
    return at_most(needed, jnp.asarray(num_states, tensor.dtype))


def unfolding_certificate(tensor: jax.Array) -> Certificate:
    r"""Compare the states a tensor needs with rank(ab|c) (SMM-Eq7, Eq8, as printed).

    If the rank of the one matrix that is penalised were the number of states, no model
    would need more. But :math:`F(abc) = \delta_{ab} g_c` has rank(ab|c) = 1 and rank
    (a|bc) = m, and so needs at least m states.

    Args:
      tensor: (..., m, m, m).
    """
    first, last = unfolding_ranks(tensor)
    needed = jnp.maximum(first, last).astype(tensor.dtype)
    return at_most(needed, last.astype(tensor.dtype))


def realisation_certificate(tensor: jax.Array, ranks: tuple[int, int]) -> Certificate:
    r"""Compare the model of 2 + r1 + r2 states with its tensor (DR-M3).

    Start, r1 states, r2 states, end: the model scores a string of three symbols by
    :math:`(F_1)_a M_b (F_2)_c`, and any other string by 0, as no path of another length
    leads from start to end.

    Args:
      tensor: (m, m, m).
      ranks: Ranks of its unfoldings (a|bc) and (ab|c), or more. Static.

    Returns:
      Of the scores of all strings of 0 to 4 symbols, in the Euclidean norm.
    """
    model = models.from_trigrams(tensor, ranks=ranks)
    m = tensor.shape[0]
    states = model.alpha[None]
    observed, expected = [], []
    for length in range(5):
        observed.append(states @ model.beta)
        wanted = jnp.zeros((m**length,), tensor.dtype)
        expected.append(tensor.reshape(-1) if length == 3 else wanted)
        moved = jnp.einsum("si,aij->saj", states, model.matrices)
        states = moved.reshape(-1, states.shape[1])
    return equal(jnp.concatenate(observed), jnp.concatenate(expected), num_axes=1)
