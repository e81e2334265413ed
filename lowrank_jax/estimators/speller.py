"""A speller: from the letters of words to outputs, by bi-symbols (SMM).

The model is a table of scores of consecutive bi-symbols, given by one matrix per block
of a Hankel basis (`models.hankel`).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks, metrics, streams
from lowrank_jax.data.bisymbols import Alphabet, alphabet_of, encode_words
from lowrank_jax.data.corpus import Corpus, corpus_of
from lowrank_jax.decode.lattice_paths import LatticePaths, best_paths, paths_to_words
from lowrank_jax.estimators import learners, training
from lowrank_jax.estimators.base import Estimator, fingerprint
from lowrank_jax.models import hankel
from lowrank_jax.store import folder as model_folder
from lowrank_jax.store.arrays import check_arrays
from lowrank_jax.store.files import Path
from lowrank_jax.streams.words import Lattice

__all__ = ["Speller"]
__dir__ = __all__.copy

_KIND = "word tagger"
_ALPHABET = tuple(field.name for field in dataclasses.fields(Alphabet))
_BASIS = ("order", "lower_orders", "unfolding")
_LEARNERS = {k: v for k, v in learners.LEARNERS.items() if v.data == "words"}
_AT_ONCE = 20_000  # words decoded at a time; bounds the memory

#: Words of letters.
Words = Corpus | Sequence[Sequence[str]]


class Speller(Estimator):
    """Labels the letters of words.

    Attributes:
      alphabet_: Bi-symbols of the training corpus.
      params_: One matrix per block of the basis.
      basis_: Arguments of `models.hankel.basis`: order, lower_orders, unfolding.
      has_boundary_: True if factors over the boundary symbol count.
      has_end_: True if the factor that ends a word counts (`streams.words.lattice`).
      history_: One entry per iteration: objective, converged, seconds.
      hyperparameters_: All settings of the learner, ready for JSON.
      training_: Summary of the training, ready for JSON.
    """

    def __init__(
        self,
        learner: str = "smm",
        num_passes: int | None = None,
        seed: int = 0,
        **hyperparameters: Any,
    ) -> None:
        """Keep the settings; `fit` checks them.

        Args:
          learner: ``"smm"``.
          num_passes: Largest number of iterations. None takes 200.
          seed: Seed of the random key.
          **hyperparameters: Arguments of `batch.fobos.learner`, and ``iterate`` of its
            ``final_params``.
        """
        self.learner = learner
        self.num_passes = num_passes
        self.seed = seed
        self.hyperparameters = hyperparameters

    @classmethod
    def from_params(
        cls,
        alphabet: Alphabet,
        params: hankel.Params,
        basis: Mapping[str, Any],
        *,
        has_boundary: bool = True,
        has_end: bool = False,
        learner: str = "smm",
        hyperparameters: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> "Speller":
        """Return a fitted speller with given matrices.

        Args:
          alphabet: Bi-symbols.
          params: One matrix per block of the basis.
          basis: Arguments of `models.hankel.basis`.
          has_boundary: True if factors over the boundary symbol count.
          has_end: True if the factor that ends a word counts.
          learner: Name of the learner that made them.
          hyperparameters: Settings of the learner, ready for JSON.
          training: Summary of the training, ready for JSON.
        """
        plain, about = dict(hyperparameters or {}), dict(training or {})
        given = learners.without_json(plain)
        speller = cls(learner, seed=about.get("seed", 0), **given)
        speller.alphabet_, speller.params_ = alphabet, params
        speller.basis_ = dict(basis)
        speller.has_boundary_, speller.has_end_ = has_boundary, has_end
        speller.hyperparameters_, speller.training_ = plain, about
        return speller

    @property
    def classes_(self) -> np.ndarray:
        """Outputs of the training corpus, sorted."""
        return np.unique(self.alphabet_.outputs[1:-1])

    @property
    def blocks(self) -> tuple[hankel.Block, ...]:
        """Blocks of the basis, one per matrix of `params_`."""
        return hankel.basis(**self.basis_)

    @property
    def dtype(self) -> np.dtype:
        """Type of the matrices."""
        return np.dtype(self.params_[0].dtype)

    @property
    def num_parameters(self) -> int:
        """Number of entries of all matrices."""
        return sum(int(np.prod(part.shape)) for part in self.params_)

    def check(self) -> None:
        """Raise `InputError` unless the settings make sense."""
        self._settings()

    def fit(
        self,
        X: Words,
        y: Sequence[Sequence[str]] | None = None,
        *,
        run: Callable[[training.Job], training.Outcome] = training.run,
    ) -> "Speller":
        """Train on words with one output per letter and return the object itself.

        Args:
          X: Corpus, or words of letters.
          y: Outputs of each word. None takes the labels of the corpus.
          run: Function that does the job; the command line adds checkpoints.
        """
        learner, every, of_final = self._settings()
        corpus = corpus_of(X, y)
        plain = learners.to_json(every)
        spec, module = self._spec, learners.module_of(self._spec)
        with jax.enable_x64(plain["dtype"] == "float64"):
            alphabet = alphabet_of(corpus)
            words = encode_words(alphabet, corpus)
            lattice = streams.words.lattice(alphabet, words, order=every["order"])
            job = training.Job(
                learner=learner,
                stream=streams.Whole(jax.device_put(lattice)),
                unit="sentences",
                num_examples=corpus.num_sentences,
                seed=self.seed,
                num_passes=self.num_passes or spec.num_passes,
                settings={
                    "learner": self.learner,
                    # Which iterate is taken may be asked for after the run, too.
                    "hyperparameters": {
                        name: value
                        for name, value in plain.items()
                        if name not in of_final
                    },
                    "seed": self.seed,
                    "data": fingerprint(corpus),
                },
            )
            outcome = run(job)
            params = module.final_params(outcome.state, **of_final)
        training.check_finite(params, outcome)
        self.alphabet_, self.params_ = alphabet, params
        self.basis_ = {name: every[name] for name in _BASIS}
        self.has_boundary_, self.has_end_ = every["has_boundary"], False
        self.hyperparameters_ = plain
        self.training_ = {
            "learner": self.learner,
            "hyperparameters": plain,
            "format": "nettalk",
            "seed": self.seed,
            "passes": len(outcome.history),
            "num_sentences": corpus.num_sentences,
            "num_tokens": corpus.num_tokens,
            "num_features": alphabet.num_symbols,
            "num_labels": len(self.classes_),
            "rank": int(outcome.state.rank),
            "best_objective": float(outcome.state.best_objective),
            "lower_bound": float(outcome.state.lower_bound),
            "compile_seconds": outcome.compile_seconds,
            "train_seconds": outcome.seconds,
            "seconds_per_pass": outcome.seconds / len(outcome.history),
            "history": outcome.history,
            "run": job.settings,
            "machine": training.machine(),
        }
        return self

    def predict(self, X: Words) -> Any:
        """Return the best outputs: of a corpus (num_tokens,) strings, else lists.

        A letter that training never saw gets the output most frequent there. The
        letters about it are labelled as if a symbol without any weight stood there.

        Args:
          X: Corpus, or words of letters. Labels of a corpus are ignored.
        """
        corpus = corpus_of(X)
        bare = dataclasses.replace(corpus, labels=None)
        found = [np.zeros(0, self.alphabet_.outputs.dtype)]
        with jax.enable_x64(self.dtype == np.float64):
            table = hankel.score_table(
                self.blocks, self.params_, has_boundary=self.has_boundary_
            )
            for begin in range(0, corpus.num_sentences, _AT_ONCE):
                end = min(begin + _AT_ONCE, corpus.num_sentences)
                found.append(self._predict(table, bare.take(np.arange(begin, end))))
        outputs = np.concatenate(found)
        if isinstance(X, Corpus):
            return outputs
        return [part.tolist() for part in np.split(outputs, corpus.offsets[1:-1])]

    def score(self, X: Words, y: Sequence[Sequence[str]] | None = None) -> float:
        """Return the fraction of the letters with the right output.

        Args:
          X: Corpus, or words of letters.
          y: Outputs of each word. None takes the labels of the corpus.
        """
        corpus = corpus_of(X, y)
        return metrics.score_labels(corpus, self.predict(corpus), "nettalk")["f1"] / 100

    def unseen_letters(self, corpus: Corpus) -> list[str]:
        """Return the letters of a corpus that training never saw, sorted."""
        return sorted(set(corpus.columns[0].tolist()) - set(self.alphabet_.letters))

    def save(self, folder: Path, *, keep_checkpoint: bool = False) -> None:
        """Write the model folder, replacing an earlier one when this one is complete.

        Args:
          folder: Place of the model; made if it is missing.
          keep_checkpoint: If true, a checkpoint in the earlier folder stays.

        Raises:
          InputError: If the folder holds a model of another kind or foreign files.
        """
        about = {
            "learner": self.learner,
            "hyperparameters": dict(self.hyperparameters_),
            "model": "hankel",
            "basis": dict(self.basis_),
            "has_boundary": self.has_boundary_,
            "has_end": self.has_end_,
            "dtype": self.dtype.name,
            "format": "nettalk",
            "num_symbols": self.alphabet_.num_symbols,
            "num_parameters": self.num_parameters,
            "training": dict(self.training_),
        }
        arrays = {name: np.asarray(getattr(self.alphabet_, name)) for name in _ALPHABET}
        for i, part in enumerate(self.params_):
            arrays[f"block_{i}"] = np.asarray(part)
        content = model_folder.Content(about, {"weights": arrays})
        model_folder.write(folder, _KIND, content, keep_checkpoint=keep_checkpoint)

    @staticmethod
    def load(folder: Path) -> "Speller":
        """Read a model folder.

        Raises:
          InputError: If there is no speller, or it is unfinished, of another version,
            cut short or damaged.
        """
        content = model_folder.read(folder, _KIND)
        about, arrays = content.about, content.arrays["weights"]
        with model_folder.complete(folder, _KIND):
            blocks = hankel.basis(**about["basis"])
            alphabet = Alphabet(**{name: arrays[name] for name in _ALPHABET})
            _check_alphabet(folder, alphabet)
            shapes = [block.shape(alphabet.num_symbols) for block in blocks]
            check_arrays(
                folder, arrays, {f"block_{i}": shape for i, shape in enumerate(shapes)}
            )
            matrices = [arrays[f"block_{i}"] for i in range(len(blocks))]
            for name in ("has_boundary", "has_end"):
                if not isinstance(about.get(name, False), bool):
                    raise TypeError(name)
            with jax.enable_x64(matrices[0].dtype == np.float64):
                params = tuple(jnp.asarray(part) for part in matrices)
            return Speller.from_params(
                alphabet,
                params,
                about["basis"],
                has_boundary=about["has_boundary"],
                has_end=about.get("has_end", False),
                learner=about["learner"],
                hyperparameters=about["hyperparameters"],
                training=about["training"],
            )

    @property
    def _spec(self) -> learners.Spec:
        return learners.spec_of(self.learner, _LEARNERS)

    def _settings(self) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Return the learner, all settings, and the settings of ``final_params``."""
        own, options = self._defaults(), learners.options_of(self._spec)
        every = learners.complete(self.learner, options, self.hyperparameters, own)
        of_final = {"iterate": every["iterate"]}
        given = {name: v for name, v in every.items() if name not in of_final}
        learner = learners.module_of(self._spec).learner(**given)
        checks.choice(("last", "best", "average"), **of_final)
        return learner, every, of_final

    def _predict(self, table: jax.Array, corpus: Corpus) -> np.ndarray:
        words = encode_words(self.alphabet_, corpus)
        lattice = streams.words.lattice(
            self.alphabet_,
            words,
            order=int(self.basis_["order"]),
            has_end=self.has_end_,
        )
        ids = paths_to_words(_decode(table, lattice), lattice)
        return self.alphabet_.outputs[ids[words.inside]]


def _check_alphabet(folder: Path, alphabet: Alphabet) -> None:
    """Raise unless the arrays of an alphabet from a file fit together."""
    arrays, size = dataclasses.asdict(alphabet), alphabet.outputs.size
    num_letters = alphabet.letters.size
    check_arrays(folder, arrays, {"letters": (num_letters,), "outputs": (size,)}, "U")
    each = {"first": (num_letters + 2,), "num_candidates": (num_letters + 2,)}
    check_arrays(folder, arrays, {"letter_of": (size,)} | each, "i")
    last = alphabet.first.astype(np.int64) + alphabet.num_candidates
    is_sound = alphabet.first.min() >= 0 and alphabet.num_candidates.min() >= 1
    is_sound &= last.max() <= size and alphabet.letter_of.min() >= 0
    is_rising = (alphabet.letters[1:] > alphabet.letters[:-1]).all()
    if not is_sound or not is_rising or alphabet.letter_of.max() > num_letters + 1:
        raise ValueError("the numbers of the alphabet")


@jax.jit
def _decode(table: jax.Array, lattice: Lattice) -> LatticePaths:
    return best_paths(table, lattice, cost=0.0)
