"""A classifier of matrices in scikit-learn's habit."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from lowrank_jax.batch.sblr.bcpd import Info
from lowrank_jax.checks import InputError
from lowrank_jax.estimators.classifier.fitting import fit, plain_settings
from lowrank_jax.estimators.classifier.model import Classifier
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.store.folder import Path

__all__ = ["BilinearClassifier"]

_DEFAULTS = {k: v for k, v in (fit.__kwdefaults__ or {}).items() if k != "row_names"}


class BilinearClassifier:
    r"""Sparse bilinear logistic regression on matrices.

    The settings are the keyword arguments of `fit`, the function, which explains them:
    ``BilinearClassifier(rank=2, mu1=0.01)``. What was learned ends in an underscore.

    Attributes:
      classes_: (num_classes,) labels in order.
      params_: Factors and offsets for scaled matrices, as NumPy arrays.
      coef_: (m, s, t) weights for matrices as they are given. There is one set per
        class except the reference class. The reference is the first class if there are
        two, else the last. One-vs-all with three or more classes has no reference.
      intercept_: (m,) offsets for matrices as they are given.
      n_iter_: Number of sweeps, of the longest problem with one-vs-all.
      converged_: True if every problem came within the tolerance.
      history_: One trace of `batch.bcpd.Info` per problem, stacked over sweeps. A
        loaded model has none.
      classifier_: The stored part: `Classifier` with its scaling and its settings.
    """

    classifier_: Classifier
    history_: tuple[Info, ...]

    def __init__(self, **settings: Any) -> None:
        """Take the settings; nothing is checked before `fit`."""
        self.__dict__.update(_DEFAULTS)
        self.set_params(**settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name.

        Args:
          deep: No effect; scikit-learn passes it.
        """
        del deep
        return {name: getattr(self, name) for name in _DEFAULTS}

    def set_params(self, **settings: Any) -> "BilinearClassifier":
        """Change settings; return the object itself."""
        for name, value in settings.items():
            if name not in _DEFAULTS:
                raise InputError(
                    f"`{name}` is not a setting of BilinearClassifier; it has "
                    f"{', '.join(_DEFAULTS)}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the settings that differ from their defaults."""
        changed = {k: v for k, v in self.get_params().items() if v is not _DEFAULTS[k]}
        shown = (
            f"{name}={value!r}"
            for name, value in plain_settings(changed).items()
            if value != _DEFAULTS[name]
        )
        return f"BilinearClassifier({', '.join(shown)})"

    def fit(
        self,
        X: np.ndarray,  # noqa: N803
        y: np.ndarray | Sequence[Any],
        *,
        row_names: Sequence[str] = (),
    ) -> "BilinearClassifier":
        """Fit by `batch.bcpd`; return the object itself.

        Args:
          X: (n, s, t) real numbers; integers become float32.
          y: (n,) labels: whole numbers, words or truths.
          row_names: Names of the s rows, for pictures.

        Raises:
          InputError: If matrices, labels or a setting are out of range.
        """
        settings = self.get_params()
        lost = [
            name
            for name in ("left_penalty", "right_penalty", "start")
            if isinstance(settings[name], str) and settings[name] == "given"
        ]
        if lost:
            raise InputError(
                f"`{lost[0]}` was an object of Python, which a model folder does not "
                f"keep: set it again before fitting."
            )
        done = fit(X, y, row_names=row_names, **settings)
        summary = {
            "num_iterations": max(len(trace.objective) for trace in done.traces),
            "converged": done.converged,
        }
        self.classifier_ = dataclasses.replace(done.classifier, metadata=summary)
        self.history_ = done.traces
        return self

    @property
    def classes_(self) -> np.ndarray:
        """Labels in order."""
        return self._fitted.classes

    @property
    def params_(self) -> Params:
        """Factors and offsets for scaled matrices."""
        return self._fitted.params

    @property
    def coef_(self) -> np.ndarray:
        """Weights (m, s, t) for matrices as they are given."""
        return self._fitted.weights / self._fitted.scaling.size

    @property
    def intercept_(self) -> np.ndarray:
        """Offsets (m,) for matrices as they are given."""
        shift = (self.coef_ * self._fitted.scaling.shift).sum((1, 2))
        return self.params_.bias - shift

    @property
    def n_iter_(self) -> int:
        """Number of sweeps."""
        return self._fitted.metadata["num_iterations"]

    @property
    def converged_(self) -> bool:
        """Whether every problem came within the tolerance."""
        return self._fitted.metadata["converged"]

    def decision_function(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return scores: (n,) of the second of two classes, else (n, num_classes).

        Args:
          X: (n, s, t).
        """
        scores = self._fitted.scores(X)
        return scores[:, 1] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return the probability of each class, (n, num_classes).

        Args:
          X: (n, s, t).
        """
        return self._fitted.probabilities(X)

    def predict(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return the class with the largest score, (n,) labels.

        Args:
          X: (n, s, t).
        """
        return self._fitted.predict(X)

    def score(
        self,
        X: np.ndarray,  # noqa: N803
        y: np.ndarray | Sequence[Any],
    ) -> float:
        """Return the accuracy, the share of matrices with the right label.

        Args:
          X: (n, s, t).
          y: (n,) labels.
        """
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def save(self, folder: Path) -> None:
        """Write the model folder, which `predict` of the command line reads, too.

        Args:
          folder: Place of the folder. It is made if it is missing.

        Raises:
          InputError: If the folder holds anything that is not of such a model.
        """
        self._fitted.save(folder)

    @staticmethod
    def load(folder: Path) -> "BilinearClassifier":
        """Read a model folder, also one that the command `fit` has written.

        Args:
          folder: Place of the folder.

        Raises:
          InputError: If it is no such folder, of another version, or damaged.
        """
        found = Classifier.load(folder)
        known = {k: v for k, v in found.settings.items() if k in _DEFAULTS}
        model = BilinearClassifier(**known)
        model.classifier_ = found
        return model

    @property
    def _fitted(self) -> Classifier:
        if "classifier_" not in self.__dict__:
            raise InputError(
                "This BilinearClassifier is not fitted: call fit(X, y) first, or load "
                "a model folder."
            )
        return self.classifier_


BilinearClassifier.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [p for n, p in inspect.signature(fit).parameters.items() if n in _DEFAULTS]
)
