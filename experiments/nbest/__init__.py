"""k-best lists of a base tagger, made by jack-knife: a real task for rerankers."""

from experiments.nbest.chunk_lists import (
    TRAINING_SIZES,
    ChunkLists,
    Split,
    chunk_lists,
    corpus_f1,
    make_chunk_lists,
    take_split,
)
from experiments.nbest.jackknife import (
    Labellings,
    contiguous_folds,
    jackknife,
    k_best,
    train_base,
    valid_transitions,
)

__all__ = [
    "TRAINING_SIZES",
    "ChunkLists",
    "Labellings",
    "Split",
    "chunk_lists",
    "contiguous_folds",
    "corpus_f1",
    "jackknife",
    "k_best",
    "make_chunk_lists",
    "take_split",
    "train_base",
    "valid_transitions",
]
