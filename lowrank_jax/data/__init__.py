"""Layer 1: files to arrays, on the host, in NumPy."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
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
    from lowrank_jax.data.chunks import convert_labels, legal_pairs, scheme_of
    from lowrank_jax.data.conll import read_conll, write_conll
    from lowrank_jax.data.conllu import read_conllu, write_conllu
    from lowrank_jax.data.corpus import Corpus, encode, split, split_fraction
    from lowrank_jax.data.files import open_text, read_bytes, read_text
    from lowrank_jax.data.list_files import (
        lists_from,
        read_json_lists,
        read_svmlight_lists,
        write_json_lists,
    )
    from lowrank_jax.data.lists import Lists, drop_shared, ranking_of
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

_MODULES = {
    "bisymbols": "BOUNDARY Alphabet Words alphabet_of encode_words hamming_accuracy",
    "characters": "CHARACTER_CLASSES character_classes character_columns fold_width",
    "chunks": "convert_labels legal_pairs scheme_of",
    "conll": "read_conll write_conll",
    "conllu": "read_conllu write_conllu",
    "corpus": "Corpus encode split split_fraction",
    "files": "open_text read_bytes read_text",
    "list_files": "lists_from read_json_lists read_svmlight_lists write_json_lists",
    "lists": "Lists drop_shared ranking_of",
    "made.lists": "RerankingTruth reranking_task",
    "made.matrices": "DenseTruth dense_task",
    "made.sentences": "BilinearTruth Lexicon bilinear_task segmentation_task",
    "made.words": "spelling_task",
    "matrices": "Matrices read_matrices",
    "nettalk": "read_nettalk",
    "segmentation": (
        "labels_from_words read_raw_text read_segmentation words_from_labels"
    ),
    "sets.catalogue": "DATASETS DataFile Dataset",
    "sets.registry": "Status check_files data_folders find",
}

__all__, __getattr__, __dir__ = lazy.attach(__name__, lazy.table(_MODULES))
