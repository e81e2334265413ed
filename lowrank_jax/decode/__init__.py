"""From score arrays to label sequences: decoders see scores, never models or features.

Kernels are written for one sentence, `vmap` outside; functions that end in `_batch` are
written on many sentences at once, for speed. `scores` states the conventions.
"""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.decode.batch import (
        entropy_batch,
        k_best_paths_batch,
        path_score_batch,
        sample_path_batch,
    )
    from lowrank_jax.decode.cost import (
        cost_table,
        hamming_cost,
        label_costs,
        loss_augmented_path,
        pair_counts,
        path_cost,
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

_MODULES = {
    "batch": "entropy_batch k_best_paths_batch path_score_batch sample_path_batch",
    "cost": (
        "cost_table hamming_cost label_costs loss_augmented_path pair_counts "
        "path_cost path_score"
    ),
    "forward_backward": "Marginals entropy log_partition marginals sample_path",
    "k_best": "Paths k_best_paths",
    "lattice_paths": "LatticePaths best_paths paths_to_words smooth_maximum",
    "scaled": "BatchMarginals log_partition_batch marginals_batch safe_spread",
    "scores": "Path Scores allow_labels",
    "viterbi": "best_path",
    "viterbi_batch": "best_path_batch",
}

__all__, __getattr__, __dir__ = lazy.attach(__name__, lazy.table(_MODULES))
