"""k-best lists of a base tagger, made by jack-knife: a real task for rerankers."""

from experiments.nbest.lists import (
    TRAINING_SIZES,
    ChunkLists,
    Split,
    chunk_lists,
    make_chunk_lists,
)
from experiments.nbest.tag_lists import tag_lists

__all__ = [
    "TRAINING_SIZES",
    "ChunkLists",
    "Split",
    "chunk_lists",
    "make_chunk_lists",
    "tag_lists",
]
