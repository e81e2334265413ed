"""Layer 1: files to arrays, on the host, in NumPy."""

from lowrank_jax.data.bisymbols import (
    BOUNDARY,
    Alphabet,
    Words,
    alphabet_of,
    encode_words,
    hamming_accuracy,
)
from lowrank_jax.data.characters import (
    CHARACTER_CLASSES,
    character_classes,
    character_columns,
    fold_width,
)
from lowrank_jax.data.conll import read_conll, write_conll
from lowrank_jax.data.corpus import Corpus, encode, split_fraction
from lowrank_jax.data.files import open_text, read_bytes, read_text
from lowrank_jax.data.list_files import (
    read_json_lists,
    read_svmlight_lists,
    write_json_lists,
)
from lowrank_jax.data.lists import Lists, drop_shared
from lowrank_jax.data.made.lists import RerankingTruth, reranking_task
from lowrank_jax.data.made.matrices import DenseTruth, dense_task
from lowrank_jax.data.made.sentences import (
    BilinearTruth,
    Lexicon,
    bilinear_task,
    segmentation_task,
)
from lowrank_jax.data.made.words import spelling_task
from lowrank_jax.data.matrices import Matrices, read_matrices
from lowrank_jax.data.nettalk import read_nettalk
from lowrank_jax.data.segmentation import (
    labels_from_words,
    read_raw_text,
    read_segmentation,
    words_from_labels,
)
from lowrank_jax.data.sets.catalogue import DATASETS, DataFile, Dataset
from lowrank_jax.data.sets.registry import Status, check_files, data_folders, find

__all__ = [
    "BOUNDARY",
    "CHARACTER_CLASSES",
    "DATASETS",
    "Alphabet",
    "BilinearTruth",
    "Corpus",
    "DataFile",
    "Dataset",
    "DenseTruth",
    "Lexicon",
    "Lists",
    "Matrices",
    "RerankingTruth",
    "Status",
    "Words",
    "alphabet_of",
    "bilinear_task",
    "character_classes",
    "character_columns",
    "data_folders",
    "dense_task",
    "drop_shared",
    "encode",
    "encode_words",
    "find",
    "fold_width",
    "hamming_accuracy",
    "labels_from_words",
    "open_text",
    "read_bytes",
    "read_conll",
    "read_json_lists",
    "read_matrices",
    "read_nettalk",
    "read_raw_text",
    "read_segmentation",
    "read_svmlight_lists",
    "read_text",
    "reranking_task",
    "segmentation_task",
    "spelling_task",
    "split_fraction",
    "check_files",
    "words_from_labels",
    "write_conll",
    "write_json_lists",
]
