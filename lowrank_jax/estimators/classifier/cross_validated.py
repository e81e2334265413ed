"""A classifier of matrices that chooses its rank and strengths by itself."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.estimators.classifier.choosing import LOOSE, choose
from lowrank_jax.estimators.classifier.estimator import BilinearClassifier, signature_of
from lowrank_jax.estimators.classifier.fitting import (
    check_names,
    plain_settings,
    prepare,
)
from lowrank_jax.estimators.classifier.model import (
    check_matrices,
    classifier_of,
    precision_of,
)
from lowrank_jax.estimators.classifier.selection import NAMES, Selection
from lowrank_jax.estimators.classifier.solving import is_zero

__all__ = ["BilinearClassifierCV"]
__dir__ = __all__.copy

_CHOSEN = ("rank", *NAMES, "left_penalty", "right_penalty")
_OWN: dict[str, Any] = {
    "ranks": (1, 2),
    "grid": None,
    "cv": 5,
    "scoring": "accuracy",
    "seed": 0,
}


class BilinearClassifierCV(BilinearClassifier):
    """`BilinearClassifier` with rank and strengths chosen by cross-validation.

    All ranks, strengths and folds are fits of one compiled program, side by side, and
    so is the fit of the choice to all matrices (`choosing.choose`). The settings
    are the arguments `ranks`, `grid`, `cv`, `scoring` and `seed` of `choosing.choose`,
    and the settings of `BilinearClassifier` that are not chosen. The tolerance is
    1e-3, for the folds and for the last fit.

    Attributes:
      best_params_: Chosen rank, mu1, mu2, nu1, nu2.
      best_score_: Mean over the folds of the score of the choice.
      cv_results_: One row per rank and point of the grid, with its scores.
    """

    selection_: Selection

    _defaults = (
        _OWN
        | {k: v for k, v in BilinearClassifier._defaults.items() if k not in _CHOSEN}
        | LOOSE
    )

    def fit(
        self,
        X: np.ndarray,  # noqa: N803
        y: np.ndarray | Sequence[Any],
        sample_weight: np.ndarray | Sequence[float] | None = None,
        *,
        row_names: Sequence[str] = (),
    ) -> Self:
        """Choose, then fit the choice to all matrices; return the object itself.

        Args:
          X: (n, s, t) real numbers.
          y: (n,) labels.
          sample_weight: (n,) weights of the matrices, zero or more, or None.
          row_names: Names of the s rows, for pictures.

        Raises:
          InputError: If matrices, labels or a setting are out of range.
        """
        every = self.get_params()
        if every["multi_class"] == "one-vs-all" and len(np.unique(y)) > 2:
            raise InputError(
                "`multi_class` must be 'joint' for BilinearClassifierCV, got "
                "'one-vs-all': choose rank and strengths yourself, or by GridSearchCV."
            )
        self.selection_ = choose(X, y, sample_weight=sample_weight, **every)
        settings = {k: v for k, v in every.items() if k not in _OWN} | self.best_params_
        whole = self.selection_.whole
        if whole is None or is_zero(whole[0]).any():  # `fit` warns
            return self._fit(X, y, settings, sample_weight, row_names)
        params, trace = whole
        x = check_matrices(X)
        names = tuple(map(str, row_names))
        check_names(names, x.shape[1])
        given = {name: every[name] for name in ("scale", "multi_class")}
        with precision_of(x):
            data = prepare(x, y, sample_weight=sample_weight, **given)
            model = classifier_of(data, params, plain_settings(settings), names)
        summary = {
            "num_iterations": len(trace.objective),
            "converged": bool(trace.converged[-1]),
        }
        self.classifier_ = dataclasses.replace(model, metadata=summary)
        self.history_ = (trace,)
        return self

    @property
    def best_params_(self) -> dict[str, Any]:
        """Chosen rank and strengths."""
        return {"rank": self.selection_.rank} | self.selection_.settings

    @property
    def best_score_(self) -> float:
        """Score of the choice."""
        found = self.selection_
        is_auc = self.get_params()["scoring"] == "roc_auc"
        return float(found.auc if is_auc and found.auc is not None else found.accuracy)

    @property
    def cv_results_(self) -> list[dict[str, Any]]:
        """Rows of the cross-validation."""
        return self.selection_.rows


BilinearClassifierCV.__signature__ = signature_of(  # type: ignore[attr-defined]
    BilinearClassifierCV._defaults
)
