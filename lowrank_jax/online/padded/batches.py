"""Batches of padded sentences: a stream whose examples are rounds."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks
from lowrank_jax.data.sequences import Space
from lowrank_jax.streams import packs, sentences

__all__ = ["Batch", "Batches", "batches"]
__dir__ = __all__.copy


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Batch:
    """Sentences of one round, padded."""

    feature_ids: jax.Array  # (B, L, num_templates) int32
    labels: jax.Array  # (B, L) int32
    lengths: jax.Array  # (B,) int32; 0 for no sentence
    space: Space = dataclasses.field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Batches:
    """A corpus and its batches, a stream for `loops.run`."""

    corpus: sentences.Stream
    plan: jax.Array  # (num_rounds, B) int32 sentences; -1 for none

    @property
    def num_examples(self) -> int:
        """Number of rounds."""
        return self.plan.shape[0]

    def example(self, index: jax.Array | int) -> Batch:
        """Return one batch. The index may be traced."""
        corpus, which = self.corpus, self.plan[index]
        starts = corpus.starts[jnp.maximum(which, 0)]
        place = jnp.arange(corpus.window, dtype=jnp.int32)
        tokens = starts[:, None] + place[None]
        return Batch(
            feature_ids=corpus.feature_ids.at[tokens].get(mode="promise_in_bounds"),
            labels=corpus.labels.at[tokens].get(mode="promise_in_bounds"),
            lengths=jnp.where(which < 0, 0, corpus.lengths[jnp.maximum(which, 0)]),
            space=corpus.space,
        )


def batches(
    corpus: sentences.Stream,
    order: np.ndarray,
    batch_size: int,
    *,
    has_ramp: bool = False,
) -> Batches:
    """Cut a pass into batches, on the host.

    Args:
      corpus: Sentences.
      order: Sentences in the order of the pass.
      batch_size: Number of sentences of a round.
      has_ramp: True begins with rounds of 1, 2, 4, ... sentences.
    """
    if corpus.values is not None:
        raise checks.InputError(
            "Padded rounds need features without values, and this corpus has them: "
            "take `online.perceptron` or `online.bol`."
        )
    checks.whole(batch_size=batch_size)
    checks.at_most(corpus.num_examples, batch_size=batch_size)
    sizes = packs.sizes_of(len(order), batch_size, has_ramp=has_ramp)
    rows = np.full((len(sizes), batch_size), -1, np.int32)
    rows[np.arange(batch_size)[None] < sizes[:, None]] = order
    return Batches(corpus, jnp.asarray(rows))
