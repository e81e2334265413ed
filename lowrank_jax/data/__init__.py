"""Layer 1: files to arrays, on the host, in NumPy."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.data.bisymbols import BOUNDARY as BOUNDARY
    from lowrank_jax.data.bisymbols import Alphabet as Alphabet
    from lowrank_jax.data.bisymbols import Words as Words
    from lowrank_jax.data.bisymbols import alphabet_of as alphabet_of
    from lowrank_jax.data.bisymbols import encode_words as encode_words
    from lowrank_jax.data.bisymbols import hamming_accuracy as hamming_accuracy
    from lowrank_jax.data.characters import CHARACTER_CLASSES as CHARACTER_CLASSES
    from lowrank_jax.data.characters import character_classes as character_classes
    from lowrank_jax.data.characters import character_columns as character_columns
    from lowrank_jax.data.characters import fold_width as fold_width
    from lowrank_jax.data.chunks import convert_labels as convert_labels
    from lowrank_jax.data.chunks import legal_pairs as legal_pairs
    from lowrank_jax.data.chunks import scheme_of as scheme_of
    from lowrank_jax.data.conll import read_conll as read_conll
    from lowrank_jax.data.conll import write_conll as write_conll
    from lowrank_jax.data.conllu import read_conllu as read_conllu
    from lowrank_jax.data.conllu import write_conllu as write_conllu
    from lowrank_jax.data.corpus import Corpus as Corpus
    from lowrank_jax.data.corpus import encode as encode
    from lowrank_jax.data.corpus import split as split
    from lowrank_jax.data.corpus import split_fraction as split_fraction
    from lowrank_jax.data.files import open_text as open_text
    from lowrank_jax.data.files import read_bytes as read_bytes
    from lowrank_jax.data.files import read_text as read_text
    from lowrank_jax.data.list_files import lists_from as lists_from
    from lowrank_jax.data.list_files import read_json_lists as read_json_lists
    from lowrank_jax.data.list_files import read_svmlight_lists as read_svmlight_lists
    from lowrank_jax.data.list_files import write_json_lists as write_json_lists
    from lowrank_jax.data.lists import Lists as Lists
    from lowrank_jax.data.lists import drop_shared as drop_shared
    from lowrank_jax.data.lists import ranking_of as ranking_of
    from lowrank_jax.data.made.lists import RerankingTruth as RerankingTruth
    from lowrank_jax.data.made.lists import reranking_task as reranking_task
    from lowrank_jax.data.made.matrices import DenseTruth as DenseTruth
    from lowrank_jax.data.made.matrices import dense_task as dense_task
    from lowrank_jax.data.made.sentences import BilinearTruth as BilinearTruth
    from lowrank_jax.data.made.sentences import Lexicon as Lexicon
    from lowrank_jax.data.made.sentences import bilinear_task as bilinear_task
    from lowrank_jax.data.made.sentences import segmentation_task as segmentation_task
    from lowrank_jax.data.made.words import spelling_task as spelling_task
    from lowrank_jax.data.matrices import Matrices as Matrices
    from lowrank_jax.data.matrices import read_matrices as read_matrices
    from lowrank_jax.data.nettalk import read_nettalk as read_nettalk
    from lowrank_jax.data.segmentation import labels_from_words as labels_from_words
    from lowrank_jax.data.segmentation import read_raw_text as read_raw_text
    from lowrank_jax.data.segmentation import read_segmentation as read_segmentation
    from lowrank_jax.data.segmentation import words_from_labels as words_from_labels
    from lowrank_jax.data.sets.catalogue import DATASETS as DATASETS
    from lowrank_jax.data.sets.dataset import DataFile as DataFile
    from lowrank_jax.data.sets.dataset import Dataset as Dataset
    from lowrank_jax.data.sets.registry import Status as Status
    from lowrank_jax.data.sets.registry import check_files as check_files
    from lowrank_jax.data.sets.registry import data_folders as data_folders
    from lowrank_jax.data.sets.registry import find as find

__all__, __getattr__, __dir__ = lazy.attach(__name__)
