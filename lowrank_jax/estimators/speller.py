"""A trained tagger of words by bi-symbols (SMM): letters to outputs, and its folder.

The model is a table of scores of consecutive bi-symbols, given by one matrix a block
of a Hankel basis (`models.hankel`). The folder is one of `model_folder`: ``model.json``
and ``weights.npz``, with the alphabet among the arrays.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.data.bisymbols import Alphabet, encode_words
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.decode.lattice_paths import LatticePaths, best_paths, paths_to_words
from lowrank_jax.models import hankel
from lowrank_jax.store import folder as model_folder
from lowrank_jax.streams import words as lattices
from lowrank_jax.streams.words import Lattice

__all__ = ["WordTagger"]

_KIND = "word tagger"
_ALPHABET = tuple(field.name for field in dataclasses.fields(Alphabet))
_AT_ONCE = 20_000  # words decoded at a time; bounds the memory

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True, eq=False)
class WordTagger:
    """A model with all it needs to label the letters of words.

    Attributes:
      alphabet: the bi-symbols of the training corpus.
      params: one matrix a block of the basis.
      basis: the arguments of `models.hankel.basis`: order, lower_orders, unfolding.
      has_boundary: whether factors over the boundary symbol count.
      has_end: whether the factor that ends a word counts (`fobos.lay_out`).
      learner: name of the learner, for information.
      hyperparameters: that it was trained with, ready for JSON.
      metadata: a summary of the training, ready for JSON.
    """

    alphabet: Alphabet
    params: hankel.Params
    basis: Mapping[str, Any]
    has_boundary: bool = True
    has_end: bool = False
    learner: str = "smm"
    hyperparameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def blocks(self) -> tuple[hankel.Block, ...]:
        """The blocks that `params` are the matrices of."""
        return hankel.basis(**self.basis)

    @property
    def dtype(self) -> np.dtype:
        """Of the matrices."""
        return np.dtype(self.params[0].dtype)

    @property
    def num_parameters(self) -> int:
        """How many entries the matrices have."""
        return sum(int(np.prod(part.shape)) for part in self.params)

    def predict(self, corpus: Corpus) -> np.ndarray:
        """Return the best output of each letter, (num_tokens,) strings.

        A letter that training never saw gets the output most frequent there, and the
        letters about it are labelled as if a symbol without any weight stood there.

        Args:
          corpus: its labels, if there are any, are not looked at.
        """
        bare = dataclasses.replace(corpus, labels=None)
        found = [np.zeros(0, self.alphabet.outputs.dtype)]
        with jax.enable_x64(self.dtype == np.float64):
            table = hankel.score_table(
                self.blocks, self.params, has_boundary=self.has_boundary
            )
            for begin in range(0, corpus.num_sentences, _AT_ONCE):
                end = min(begin + _AT_ONCE, corpus.num_sentences)
                found.append(self._predict(table, bare.take(np.arange(begin, end))))
        return np.concatenate(found)

    def unseen_letters(self, corpus: Corpus) -> list[str]:
        """Return the letters of a corpus that training never saw, sorted."""
        return sorted(set(corpus.columns[0].tolist()) - set(self.alphabet.letters))

    def save(self, folder: Path, *, keep_checkpoint: bool = False) -> None:
        """Write the model folder, replacing an earlier one when this one is complete.

        Args:
          folder: where; made if it is not there.
          keep_checkpoint: whether a checkpoint in the earlier folder stays.

        Raises:
          InputError: if the folder holds anything that is not of a model.
        """
        about = {
            "learner": self.learner,
            "hyperparameters": dict(self.hyperparameters),
            "model": "hankel",
            "basis": dict(self.basis),
            "has_boundary": self.has_boundary,
            "has_end": self.has_end,
            "dtype": self.dtype.name,
            "format": "nettalk",
            "num_symbols": self.alphabet.num_symbols,
            "num_parameters": self.num_parameters,
            "training": dict(self.metadata),
        }
        arrays = {name: np.asarray(getattr(self.alphabet, name)) for name in _ALPHABET}
        for i, part in enumerate(self.params):
            arrays[f"block_{i}"] = np.asarray(part)
        content = model_folder.Content(about, {"weights": arrays})
        model_folder.write(folder, _KIND, content, keep_checkpoint=keep_checkpoint)

    @staticmethod
    def load(folder: Path) -> "WordTagger":
        """Read a model folder.

        Raises:
          InputError: if it is no such folder, of another version, cut short, damaged.
        """
        content = model_folder.read(folder, _KIND)
        about, arrays = content.about, content.arrays["weights"]
        with model_folder.complete(folder, _KIND):
            blocks = hankel.basis(**about["basis"])
            matrices = [arrays[f"block_{i}"] for i in range(len(blocks))]
            with jax.enable_x64(matrices[0].dtype == np.float64):
                params = tuple(jnp.asarray(part) for part in matrices)
            return WordTagger(
                alphabet=Alphabet(**{name: arrays[name] for name in _ALPHABET}),
                params=params,
                basis=about["basis"],
                has_boundary=about["has_boundary"],
                has_end=about.get("has_end", False),
                learner=about["learner"],
                hyperparameters=about["hyperparameters"],
                metadata=about["training"],
            )

    def _predict(self, table: jax.Array, corpus: Corpus) -> np.ndarray:
        words = encode_words(self.alphabet, corpus)
        lattice = lattices.lay_out(
            words.letters,
            words.gold,
            words.lengths,
            self.alphabet.first,
            self.alphabet.num_candidates,
            order=int(self.basis["order"]),
            has_end=self.has_end,
        )
        ids = paths_to_words(_decode(table, lattice), lattice)
        return self.alphabet.outputs[ids[words.inside]]


@jax.jit
def _decode(table: jax.Array, lattice: Lattice) -> LatticePaths:
    return best_paths(table, lattice, cost=0.0)
