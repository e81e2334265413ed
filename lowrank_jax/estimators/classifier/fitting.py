r"""Fit a classifier of matrices.

`fit` takes matrices (n, s, t) and labels (n,), as scikit-learn does. It scales the
matrices, solves the sparse bilinear logistic regression of `batch.bcpd` in one compiled
program and returns a `Classifier`.

Scale. A penalty means something only relative to the size of the data. EEG comes in
volts (1e-5) or microvolts (50), images in 0..1 or 0..255, and the unit vectors that the
descent starts from saturate or vanish with them. By default the matrices are therefore
divided by the standard deviation of all training values (``scale="global"``). The same
strengths then fit data of any unit, zero stays zero, and the rows keep their
proportions. ``"row"`` brings each row to mean 0 and standard deviation 1, for channels
of different kinds. The shift only moves the bias, which has no penalty. ``"none"``
leaves the matrices as they are (the paper). The model keeps the scaling of the training
data and applies it to every matrix.

Strengths. The default is an elastic net on both factors, 1e-3 and 1e-2. On the official
training part of `bci2_iv` (rank 1, two times five folds) it had an AUC of 0.898, and
:math:`\ell_1` of 1e-3 alone 0.867. Without any penalty, a problem whose classes can be
separated has no solution at all (errata SBLR-R4.1).

Zero is a stationary point, and with :math:`\ell_1` on both factors a local minimum. If
the weights of a class end there, `fit` tries again from weak strengths (`solving`). If
zero is still the lowest end, `fit` returns it with the warning `ZeroModel`. A fit whose
weights are all zero does not count as converged.

Solver. By default each block is solved (Algorithm 1). On `bci2_iv` the fit is within
1e-4 after 15 sweeps. With one proximal step per block (Algorithms 2 and 3), 5000 sweeps
end higher.
"""

import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks, streams
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.batch.sblr.bcpd import Info
from lowrank_jax.checks import InputError
from lowrank_jax.estimators.classifier.model import (
    Classifier,
    Scaling,
    check_matrices,
    classifier_of,
    precision_of,
    scaling_of,
)
from lowrank_jax.estimators.classifier.solving import alive, is_zero, solve
from lowrank_jax.linalg.penalties import Penalty
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled

__all__ = [
    "Classifier",
    "Fit",
    "Scaling",
    "ZeroModel",
    "check_names",
    "fit",
    "prepare",
    "scaling_of",
]
__dir__ = __all__.copy

#: Strengths of the elastic net if neither a strength nor a penalty is given.
STRENGTHS = {"mu1": 1e-3, "mu2": 1e-2, "nu1": 1e-3, "nu2": 1e-2}

_DESCENT = bcpd.Settings._fields
_MULTI_CLASS = ("joint", "one-vs-all", "binary")


class Fit(NamedTuple):
    """What `fit` returns.

    Attributes:
      classifier: Fitted model.
      traces: Traces on the host, each a `batch.bcpd.Info` stacked over sweeps. There is
        one trace, or one per class with one-vs-all of more than two classes.
      seconds: Duration of the descent without compilation.
      compile_seconds: Duration of the compilation.
    """

    classifier: Classifier
    traces: tuple[Info, ...]
    seconds: float
    compile_seconds: float

    @property
    def is_zero(self) -> bool:
        """True if all weights are zero, so that every matrix gets the same class."""
        return bool(is_zero(self.classifier.params).all())

    @property
    def zero_classes(self) -> np.ndarray:
        """Classes whose weights are zero: no matrix changes their score."""
        model = self.classifier
        return model.pattern_classes[is_zero(model.params)]

    @property
    def zero_note(self) -> str:
        """Say which weights are zero, and what follows; empty if no class has any."""
        if self.is_zero:
            return "All weights are zero, so every matrix gets the same class"
        names = self.zero_classes.tolist()
        if not names:
            return ""
        few = ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
        return (
            f"The weights of {len(names)} of {len(self.classifier.classes)} classes "
            f"are zero ({few}), so no matrix changes the scores of these classes"
        )

    @property
    def converged(self) -> bool:
        """True if each problem came within the tolerance, and not all are zero."""
        each = (bool(trace.converged[-1]) for trace in self.traces)
        return all(each) and not self.is_zero


class ZeroModel(UserWarning):
    """Weights are zero, of all classes or some: too strong penalties, or no signal."""


def fit(
    x: np.ndarray,
    y: np.ndarray | Sequence[Any],
    *,
    rank: int = 1,
    mu1: float | None = None,
    mu2: float | None = None,
    nu1: float | None = None,
    nu2: float | None = None,
    left_penalty: Penalty | None = None,
    right_penalty: Penalty | None = None,
    multi_class: str = "joint",
    scale: str = "global",
    solver: str = "minimise",
    step: str = "backtracking",
    start: str | Params = "label",
    scale_start: bool | None = None,
    tolerance: float = 1e-4,
    max_iterations: int = 1000,
    growth: float = 1.5,
    least_constant: float = 1e-6,
    block_tolerance: float | None = None,
    max_block_steps: int = 1000,
    row_names: Sequence[str] = (),
    sample_weight: np.ndarray | Sequence[float] | None = None,
) -> Fit:
    r"""Fit a classifier of matrices; a function of the host.

    Args:
      x: (n, s, t) real numbers; integers become float32.
      y: (n,) labels: whole numbers, words or truths.
      rank: Rank r, at most the smaller side of a matrix.
      mu1: Strength of :math:`\|U\|_1` (SBLR-Eq5) for scaled matrices, zero or more. If
        U has no penalty of its own, the default is 1e-3.
      mu2: Strength of :math:`\frac12\|U\|_F^2`. The default is 1e-2.
      nu1: Strength of :math:`\|V\|_1`. If V has no penalty of its own, the default is
        1e-3.
      nu2: Strength of :math:`\frac12\|V\|_F^2`. The default is 1e-2.
      left_penalty: Penalty :math:`r_1` in place of mu1 and mu2.
      right_penalty: Penalty :math:`r_2` in place of nu1 and nu2.
      multi_class: Treatment of more than two classes: ``"joint"``, one model of all
        (Algorithm 3); ``"one-vs-all"``, one binary model per class, side by side
        (SBLR-M2); or ``"binary"``, which refuses them.
      scale: Scaling of the matrices: ``"global"`` divides all by the standard deviation
        of all training values, ``"row"`` brings each row to mean 0 and deviation 1,
        ``"none"`` changes nothing.
      solver: Solver of a block: ``"proximal"``, one step per block (Algorithms 2 and
        3), or ``"minimise"``, each block solved to `block_tolerance` (Algorithm 1).
      step: Constant of a proximal step: ``"backtracking"`` (SBLR-Eq13..16), ``"tight"``
        (DR-S1, DR-S2) or ``"lemma"`` (SBLR-L3.1, L6.1). ``"minimise"`` takes none.
      start: Start of the descent: ``"paper"`` (SBLR-I1), ``"label"`` (its correction)
        or factors.
      scale_start: True scales the factors of the start to where F is least. None does
        so for ``"label"`` alone.
      tolerance: Epsilon of the stopping rule, Eq. (8).
      max_iterations: Largest number of sweeps.
      growth: Factor :math:`\eta` of the backtracking, above 1.
      least_constant: Constant :math:`L_{\min}` of the backtracking and of the decrease
        that the trace is compared with.
      block_tolerance: Norm of the gradient mapping at which ``"minimise"`` ends a
        block. None takes `tolerance`.
      max_block_steps: Largest number of steps of ``"minimise"`` per block.
      row_names: Names of the s rows, for pictures.
      sample_weight: (n,) weight of each matrix in the loss and in the scaling, zero or
        more. A matrix of weight zero is left out. None weighs all alike.

    Returns:
      The classifier and how it came about.

    Raises:
      InputError: If matrices, labels or an argument are out of range, or if an argument
        would have no effect.
    """
    given = dict(locals())
    beside = ("x", "y", "row_names", "sample_weight")
    settings = complete({k: v for k, v in given.items() if k not in beside})
    names = tuple(map(str, row_names))
    x = check_matrices(x)
    check_names(names, x.shape[1])
    with precision_of(x):
        data = prepare(
            x, y, scale=scale, multi_class=multi_class, sample_weight=sample_weight
        )
        problem = problem_of(data, settings)
        began = time.perf_counter()
        compiled = solve.lower(*problem).compile()
        ready = time.perf_counter()
        found = jax.block_until_ready(compiled(*problem[:3]))
        found = alive(problem, found)
        seconds = time.perf_counter() - ready
    params, trace, num_iterations = jax.device_get(found)

    if data.is_one_vs_all:
        params = Params(*(part[:, 0] for part in params))
        traces = [
            jax.tree.map(lambda part, c=c: part[c, : num_iterations[c]], trace)
            for c in range(len(data.classes))
        ]
    else:
        traces = [jax.tree.map(lambda part: part[:num_iterations], trace)]
    done = Fit(
        classifier_of(data, params, plain_settings(settings), names),
        tuple(traces),
        seconds,
        ready - began,
    )
    if done.zero_note:
        advice = "lower mu1, mu2, nu1, nu2, or choose them by BilinearClassifierCV."
        warnings.warn(ZeroModel(f"{done.zero_note}: {advice}"), stacklevel=2)
    return done


def complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of `fit` with the usual values where they are None."""
    result = dict(settings)
    for name, usual in STRENGTHS.items():
        has_own = result["left_penalty" if name < "n" else "right_penalty"] is not None
        if result[name] is None:
            result[name] = 0.0 if has_own else usual
    return result


class Prepared(NamedTuple):
    """Training data as the learner takes them.

    Attributes:
      labelled: Scaled matrices.
      classes: Labels in order.
      scaling: Scaling of the matrices.
      is_one_vs_all: True if each class gets a problem of its own.
    """

    labelled: Labelled
    classes: np.ndarray
    scaling: Scaling
    is_one_vs_all: bool


def prepare(
    x: np.ndarray,
    y: np.ndarray | Sequence[Any],
    *,
    scale: str = "global",
    multi_class: str = "joint",
    sample_weight: np.ndarray | Sequence[float] | None = None,
) -> Prepared:
    """Check training data and scale them; the arguments are explained by `fit`.

    Raises:
      InputError: If matrices, labels or an argument are out of range.
    """
    checks.choice(_MULTI_CLASS, multi_class=multi_class)
    x, y = check_matrices(x), _labels(y)
    weights = None
    if sample_weight is not None:
        weights = _weights(sample_weight, y)
        x, y, weights = (part[weights > 0] for part in (x, y, weights))
    scaling = scaling_of(x, scale, weights)
    labelled, classes = streams.matrices.label_matrices(scaling(x), y, weights=weights)
    if multi_class == "binary" and len(classes) != 2:
        raise InputError(
            f"`y` must have two classes for multi_class='binary', got {len(classes)}: "
            f"{', '.join(map(str, classes[:5]))}"
            f"{', ...' if len(classes) > 5 else ''}; choose 'joint' or 'one-vs-all'."
        )
    is_one_vs_all = multi_class == "one-vs-all" and len(classes) > 2
    if is_one_vs_all:
        is_class = y[None, :, None] == classes[:, None, None]
        targets = jnp.asarray(is_class, labelled.x.dtype)
        labelled = labelled._replace(targets=targets)  # (num_classes, n, 1)
    return Prepared(labelled, classes, scaling, is_one_vs_all)


def descent_of(settings: Mapping[str, Any]) -> bcpd.Settings:
    """Return the settings of the descent among the settings of `fit`."""
    every = {k: v for k, v in settings.items() if k in _DESCENT}
    if every.get("block_tolerance") is None:
        every.pop("block_tolerance", None)
        if every.get("solver") == "minimise" and every.get("tolerance"):
            every["block_tolerance"] = every["tolerance"]
    return bcpd.Settings(**every)


def problem_of(data: Prepared, settings: Mapping[str, Any]) -> tuple:
    """Return the arguments of `solve`, checked."""
    checks.whole(max_iterations=settings["max_iterations"])
    given = descent_of(settings)
    given.check()
    height, width = data.labelled.x.shape[1:]
    if given.rank > min(height, width):
        raise InputError(
            f"`rank` must lie in 1..{min(height, width)} for {height}x{width} "
            f"matrices, got {given.rank}."
        )
    fixed, numbers = given.split()
    start = None
    if not isinstance(given.start, str):
        fixed = fixed._replace(start="given")
        start = jax.tree.map(
            lambda part: jnp.asarray(part, data.labelled.x.dtype), given.start
        )
        num_sets = len(data.classes) - (not data.is_one_vs_all)
        sizes = (
            (num_sets, height, given.rank),
            (num_sets, width, given.rank),
            (num_sets,),
        )
        for name, part, size in zip(Params._fields, start, sizes, strict=True):
            if part.shape != size:
                raise InputError(
                    f"`start.{name}` must have shape {size}, got {part.shape}."
                )
        if data.is_one_vs_all:
            start = Params(*(part[:, None] for part in start))
    return data.labelled, numbers, start, fixed, settings["max_iterations"]


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings ready for JSON; what only Python can hold becomes "given"."""
    return {
        name: value if isinstance(value, str | int | float | None) else "given"
        for name, value in settings.items()
    }


def _weights(given: np.ndarray | Sequence[float], y: np.ndarray) -> np.ndarray:
    """Check the weights of matrices."""
    weights = np.asarray(given, np.float64)
    is_good = weights.shape == y.shape and bool((weights >= 0).all())
    if not is_good or not 0 < weights.sum() < np.inf:
        raise InputError(
            f"`sample_weight` must be {len(y)} numbers of zero or more with a positive "
            f"sum, got shape {weights.shape}."
        )
    return weights


def _labels(y: np.ndarray | Sequence[Any]) -> np.ndarray:
    """Check labels and return them as whole numbers, words or truths."""
    y = np.asarray(y)
    if y.dtype.kind == "S":
        raise InputError(
            f"`y` must hold numbers or text, got bytes ({y.dtype}); decode them with "
            "y.astype(str)."
        )
    if y.dtype == object:  # as from a table of pandas
        kinds = {type(label) for label in y.tolist()}
        if len(kinds) == 1 and kinds <= {str, int, bool, float}:
            y = np.array(y.tolist())
    if y.dtype.kind == "f" and (y != np.floor(y)).any():
        odd = y[y != np.floor(y)][0]
        raise InputError(
            f"`y` must hold classes, got the number {odd}; divide the numbers into "
            f"classes first."
        )
    if y.dtype.kind not in "iubfUS":
        raise InputError(
            f"`y` must hold whole numbers, words or truths, got dtype {y.dtype}."
        )
    return y


def check_names(names: Collection[str], num_rows: int) -> None:
    """Raise `InputError` unless there is a name for each row, or none at all."""
    if names and len(names) != num_rows:
        raise InputError(
            f"`row_names` must be {num_rows} as `x` has rows, got {len(names)}."
        )
