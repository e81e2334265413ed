"""Settings of an estimator in scikit-learn's habit, without depending on it."""

import dataclasses
import hashlib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lowrank_jax.data.corpus import Bags, Corpus
from lowrank_jax.data.sequences import Sequences

__all__ = ["Estimator", "fingerprint"]
__dir__ = __all__.copy


class Estimator:
    """Named settings; the settings of the learner are keyword arguments.

    Attributes:
      hyperparameters: Settings of the learner that were given.
      training_: Summary of the training, ready for JSON.
    """

    hyperparameters: Mapping[str, Any]
    training_: dict[str, Any]

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One entry per pass."""
        return self.training_["history"]

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the settings of the constructor without settings of the learner."""
        parameters = inspect.signature(cls).parameters.values()
        return {p.name: p.default for p in parameters if p.kind != p.VAR_KEYWORD}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all settings that the constructor was given, and its defaults.

        Args:
          deep: No effect; scikit-learn passes it.
        """
        own = {name: getattr(self, name) for name in self._defaults()}
        return own | dict(self.hyperparameters)

    def set_params(self, **settings: Any) -> Self:
        """Change settings and return the object itself."""
        own = self._defaults()
        for name in settings.keys() & own.keys():
            setattr(self, name, settings[name])
        others = {k: v for k, v in settings.items() if k not in own}
        self.hyperparameters = dict(self.hyperparameters) | others
        return self

    def __sklearn_tags__(self) -> Any:
        """Return the tags that scikit-learn asks for; only scikit-learn calls this."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(two_d_array=False),
        )

    def __repr__(self) -> str:
        """Name the class and the settings that are not the default."""
        own = self._defaults()
        shown = [
            f"{name}={_short(value)}"
            for name, value in self.get_params().items()
            if name not in own or name == "learner" or value != own[name]
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    if not TYPE_CHECKING:  # mypy knows what `fit` sets

        def __getattr__(self, name: str) -> Any:
            """Say what to do where something learned is asked for too early."""
            if name.endswith("_") and not name.startswith("_"):
                raise AttributeError(
                    f"this {type(self).__name__} has no {name} yet; call fit or load "
                    f"first."
                )
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )


def _short(value: Any) -> str:
    """Return the text of a value, or its type if that is long."""
    text = repr(value)
    return text if len(text) <= 40 else f"<{type(value).__name__}>"


def fingerprint(corpus: Corpus, sequences: Sequences | None = None) -> str:
    """Return the SHA-256 of all strings and sentence ends of a corpus.

    Args:
      corpus: Corpus of columns, or of bags of features.
      sequences: Encoded corpus, which stands for the features of bags.
    """
    digest = hashlib.sha256(corpus.offsets.astype("<i8").tobytes())
    if isinstance(corpus, Bags) and sequences is not None:
        for part in (sequences.feature_ids, sequences.values):
            digest.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
        corpus = dataclasses.replace(corpus, columns=())
    for column in (*corpus.columns, corpus.labels):
        text = "\n".join(column.tolist()) if column is not None else ""
        digest.update(f"{len(text)}\n{text}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
