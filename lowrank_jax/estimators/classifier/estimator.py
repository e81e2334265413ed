"""A classifier of matrices in scikit-learn's habit."""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from lowrank_jax.batch.sblr.bcpd import Info
from lowrank_jax.checks import InputError, unknown
from lowrank_jax.estimators.classifier.fitting import fit, plain_settings
from lowrank_jax.estimators.classifier.model import Classifier
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.store.folder import Path

__all__ = ["BilinearClassifier", "signature_of"]
__dir__ = __all__.copy

_BESIDE = ("row_names", "sample_weight")
_DEFAULTS = {k: v for k, v in (fit.__kwdefaults__ or {}).items() if k not in _BESIDE}


class BilinearClassifier:
    r"""Sparse bilinear logistic regression on matrices.

    The settings are the keyword arguments of `fit`, the function, which explains them:
    ``BilinearClassifier(rank=2, mu1=0.01)``. What was learned ends in an underscore.
    The object works in scikit-learn's ``Pipeline``, ``GridSearchCV``, ``clone`` and
    ``cross_val_score``. scikit-learn itself is not needed.

    Attributes:
      classes_: (num_classes,) labels in order.
      params_: Factors and offsets for scaled matrices, as NumPy arrays.
      coef_: (m, s, t) weights for matrices as they are given. There is one set per
        class except the reference class. The reference is the first class if there are
        two, else the last. One-vs-all with three or more classes has no reference.
      intercept_: (m,) offsets for matrices as they are given.
      patterns_: (m, s, t) forward model of the scores: how the matrices move if a score
        grows by 1 (Haufe et al., NeuroImage 2014). Read these, not the weights.
      n_iter_: Number of sweeps, of the longest problem with one-vs-all.
      converged_: True if every problem came within the tolerance.
      history_: One trace of `batch.bcpd.Info` per problem, stacked over sweeps. A
        loaded model has none.
      classifier_: The stored part: `Classifier` with its scaling and its settings.
    """

    classifier_: Classifier
    history_: tuple[Info, ...]

    _estimator_type = "classifier"
    _defaults: Mapping[str, Any] = _DEFAULTS

    def __init__(self, **settings: Any) -> None:
        """Take the settings; nothing is checked before `fit`."""
        self.__dict__.update(self._defaults)
        self.set_params(**settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name.

        Args:
          deep: No effect; scikit-learn passes it.
        """
        del deep
        return {name: getattr(self, name) for name in self._defaults}

    def set_params(self, **settings: Any) -> Self:
        """Change settings; return the object itself."""
        for name, value in settings.items():
            if name not in self._defaults:
                owner = type(self).__name__
                raise unknown(f"`{name}`", name, owner, self._defaults)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the settings that differ from their defaults."""
        usual, every = self._defaults, self.get_params()
        changed = {k: v for k, v in every.items() if v is not usual[k]}
        shown = (
            f"{name}={value!r}"
            for name, value in plain_settings(changed).items()
            if value != usual[name]
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what this is; it alone calls this."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True),
        )

    def fit(
        self,
        X: np.ndarray,  # noqa: N803
        y: np.ndarray | Sequence[Any],
        sample_weight: np.ndarray | Sequence[float] | None = None,
        *,
        row_names: Sequence[str] = (),
    ) -> Self:
        """Fit by `batch.bcpd`; return the object itself.

        Args:
          X: (n, s, t) real numbers. float32 and float64 are kept, others become
            float32.
          y: (n,) labels: whole numbers, words or truths.
          sample_weight: (n,) weights of the matrices, zero or more, or None.
          row_names: Names of the s rows, for pictures.

        Raises:
          InputError: If matrices, labels or a setting are out of range.
        """
        return self._fit(X, y, self.get_params(), sample_weight, row_names)

    def _fit(
        self,
        x: np.ndarray,
        y: np.ndarray | Sequence[Any],
        settings: dict[str, Any],
        sample_weight: np.ndarray | Sequence[float] | None,
        row_names: Sequence[str],
    ) -> Self:
        for name in ("left_penalty", "right_penalty", "start"):
            if isinstance(settings.get(name), str) and settings[name] == "given":
                raise InputError(
                    f"`{name}` was an object of Python, which a model folder does not "
                    f"keep: set it again before fitting."
                )
        extra: Any = {"row_names": row_names, "sample_weight": sample_weight}
        done = fit(x, y, **extra, **settings)
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
    def patterns_(self) -> np.ndarray:
        """Forward model (m, s, t) of the scores."""
        if self._fitted.patterns is None:
            raise InputError(
                "This model was saved by an earlier version, without patterns: fit it "
                "again."
            )
        return self._fitted.patterns

    @property
    def n_iter_(self) -> int:
        """Number of sweeps."""
        return self._fitted.metadata["num_iterations"]

    @property
    def converged_(self) -> bool:
        """True if every problem came within the tolerance."""
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
        sample_weight: np.ndarray | Sequence[float] | None = None,
    ) -> float:
        """Return the accuracy, the share of matrices with the right label.

        Args:
          X: (n, s, t).
          y: (n,) labels.
          sample_weight: (n,) weight of each matrix. None weighs all alike.
        """
        is_right = self.predict(X) == np.asarray(y)
        return float(np.average(is_right, weights=sample_weight))

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


def signature_of(defaults: Mapping[str, Any]) -> inspect.Signature:
    """Return the signature of a constructor that takes these settings by name."""
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature(
        [inspect.Parameter(n, only, default=v) for n, v in defaults.items()]
    )


BilinearClassifier.__signature__ = signature_of(_DEFAULTS)  # type: ignore[attr-defined]
