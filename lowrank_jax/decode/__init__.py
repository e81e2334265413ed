"""From score arrays to label sequences: decoders see scores, never models or features.

Kernels are written for one sentence, `vmap` outside; functions that end in `_batch` are
written on many sentences at once, for speed. `scores` states the conventions.
"""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.decode.batch import entropy_batch as entropy_batch
    from lowrank_jax.decode.batch import k_best_paths_batch as k_best_paths_batch
    from lowrank_jax.decode.batch import path_score_batch as path_score_batch
    from lowrank_jax.decode.batch import sample_path_batch as sample_path_batch
    from lowrank_jax.decode.cost import cost_table as cost_table
    from lowrank_jax.decode.cost import hamming_cost as hamming_cost
    from lowrank_jax.decode.cost import label_costs as label_costs
    from lowrank_jax.decode.cost import loss_augmented_path as loss_augmented_path
    from lowrank_jax.decode.cost import pair_counts as pair_counts
    from lowrank_jax.decode.cost import path_cost as path_cost
    from lowrank_jax.decode.cost import path_score as path_score
    from lowrank_jax.decode.forward_backward import Marginals as Marginals
    from lowrank_jax.decode.forward_backward import entropy as entropy
    from lowrank_jax.decode.forward_backward import log_partition as log_partition
    from lowrank_jax.decode.forward_backward import marginals as marginals
    from lowrank_jax.decode.forward_backward import sample_path as sample_path
    from lowrank_jax.decode.k_best import Paths as Paths
    from lowrank_jax.decode.k_best import k_best_paths as k_best_paths
    from lowrank_jax.decode.lattice_paths import LatticePaths as LatticePaths
    from lowrank_jax.decode.lattice_paths import best_paths as best_paths
    from lowrank_jax.decode.lattice_paths import paths_to_words as paths_to_words
    from lowrank_jax.decode.lattice_paths import smooth_maximum as smooth_maximum
    from lowrank_jax.decode.scaled import BatchMarginals as BatchMarginals
    from lowrank_jax.decode.scaled import log_partition_batch as log_partition_batch
    from lowrank_jax.decode.scaled import marginals_batch as marginals_batch
    from lowrank_jax.decode.scaled import safe_spread as safe_spread
    from lowrank_jax.decode.scores import LowRankScores as LowRankScores
    from lowrank_jax.decode.scores import Path as Path
    from lowrank_jax.decode.scores import Scores as Scores
    from lowrank_jax.decode.scores import allow_labels as allow_labels
    from lowrank_jax.decode.viterbi import best_path as best_path
    from lowrank_jax.decode.viterbi_batch import best_path_batch as best_path_batch

__all__, __getattr__, __dir__ = lazy.attach(__name__)
