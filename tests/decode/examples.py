"""Random sentences for the tests of decoders: small whole scores, so that ties occur.

Few shapes, since each one is compiled.
"""

import hypothesis
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np

from lowrank_jax.decode import Scores

NUM_POSITIONS = 5
KINDS = [(1, True), (2, False), (3, True)]  # number of labels, whether pairs are shared
LENGTHS = np.array([0, 1, 2, 4, 5, 5, 3], np.int32)  # of a ragged batch

few_examples = hypothesis.settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def random_scores(
    seed, num_labels, *, is_shared, num_positions=NUM_POSITIONS, spread=None
):
    """Return `unary` and `pairwise`: whole numbers in -2..2, or normal."""
    rng = np.random.default_rng(seed)
    shape = (num_labels, num_labels + 1)
    shape = shape if is_shared else (num_positions, *shape)

    def draw(shape):
        if spread is None:
            return rng.integers(-2, 3, shape).astype(float)
        return spread * rng.normal(size=shape)

    return draw((num_positions, num_labels)), draw(shape)


def random_batch(num_labels, *, is_shared, spread=None, num_positions=NUM_POSITIONS):
    """Return (B, L, S) and (S, S+1) or (B, L, S, S+1), one sentence for each length."""
    options = {"is_shared": is_shared, "spread": spread, "num_positions": num_positions}
    many = [random_scores(i, num_labels, **options) for i in range(len(LENGTHS))]
    unary, pairwise = (np.stack(arrays) for arrays in zip(*many, strict=True))
    return unary, pairwise[0] if is_shared else pairwise


@st.composite
def sentences(draw, spread=None, kinds=KINDS):
    """Draw (unary, pairwise, length), padding included."""
    num_labels, is_shared = draw(st.sampled_from(kinds))
    scores = random_scores(draw(seeds), num_labels, is_shared=is_shared, spread=spread)
    return *scores, draw(st.integers(0, NUM_POSITIONS))


def jax_scores(unary, pairwise, dtype="float64"):
    """Turn NumPy arrays into `Scores`.

    Pairwise scores of two labels and of each position get three more columns of nan:
    what a model may pad its rows with, and no decoder may read.
    """
    unary, pairwise = jnp.asarray(unary, dtype), jnp.asarray(pairwise, dtype)
    if unary.shape[-1] == 2 and pairwise.ndim > 2:
        widths = [(0, 0)] * (pairwise.ndim - 1) + [(0, 3)]
        pairwise = jnp.pad(pairwise, widths, constant_values=jnp.nan)
    return Scores(unary, pairwise)
