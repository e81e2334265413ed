"""From score arrays to label sequences: decoders see scores, never models or features.

Kernels are written for one sentence, `vmap` outside; functions that end in `_batch` are
written on many sentences at once, for speed. `scores` states the conventions.
"""

from lowrank_jax.decode.cost import (
    hamming_cost,
    loss_augmented_path,
    pair_counts,
    path_score,
)
from lowrank_jax.decode.forward_backward import (
    Marginals,
    entropy,
    log_partition,
    marginals,
    sample_path,
)
from lowrank_jax.decode.k_best import Paths, k_best_paths
from lowrank_jax.decode.lattice_paths import (
    LatticePaths,
    best_paths,
    paths_to_words,
    smooth_maximum,
)
from lowrank_jax.decode.scaled import (
    BatchMarginals,
    log_partition_batch,
    marginals_batch,
    safe_spread,
)
from lowrank_jax.decode.scores import Path, Scores, allow_labels
from lowrank_jax.decode.viterbi import best_path
from lowrank_jax.decode.viterbi_batch import best_path_batch
from lowrank_jax.streams.words import Lattice

__all__ = [
    "BatchMarginals",
    "Lattice",
    "LatticePaths",
    "Marginals",
    "Path",
    "Paths",
    "Scores",
    "allow_labels",
    "best_path",
    "best_path_batch",
    "best_paths",
    "entropy",
    "hamming_cost",
    "k_best_paths",
    "log_partition",
    "log_partition_batch",
    "loss_augmented_path",
    "marginals",
    "marginals_batch",
    "pair_counts",
    "path_score",
    "paths_to_words",
    "safe_spread",
    "sample_path",
    "smooth_maximum",
]
