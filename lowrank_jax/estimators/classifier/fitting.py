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

Strengths. By default there is a little :math:`\ell_1` on both factors. Without any, a
problem whose classes can be separated has no solution at all (errata SBLR-R4.1). Zero
is a stationary point, and with :math:`\ell_1` on both factors a local minimum. If the
strengths are too large, every fit ends at zero.

Tolerance. The paper stops at 1e-3 or after 500 iterations. Fits of rank 2 to three
quarters of the training part of `bci2_iv` stopped there on a plateau (training accuracy
0.83, held out 0.74). A tolerance of 1e-4 or 1000 iterations gave 0.94 and 0.79, and is
the default here.
"""

import functools
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import __version__, checks, loops, streams
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.batch.sblr.bcpd import Info
from lowrank_jax.checks import InputError
from lowrank_jax.estimators.classifier.model import (
    Classifier,
    Scaling,
    check_matrices,
    scaling_of,
)
from lowrank_jax.linalg.penalties import Penalty
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.streams.matrices import Labelled

__all__ = [
    "Classifier",
    "Fit",
    "Scaling",
    "StrengthPath",
    "fit",
    "prepare",
    "regularisation_path",
    "scaling_of",
]

#: Strength of the l1 penalty if neither a strength nor a penalty is given.
STRENGTH = 1e-3

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
    def converged(self) -> bool:
        """Whether each problem came within the tolerance."""
        return all(bool(trace.converged[-1]) for trace in self.traces)


def fit(
    x: np.ndarray,
    y: np.ndarray | Sequence[Any],
    *,
    rank: int = 1,
    mu1: float | None = None,
    mu2: float = 0.0,
    nu1: float | None = None,
    nu2: float = 0.0,
    left_penalty: Penalty | None = None,
    right_penalty: Penalty | None = None,
    multi_class: str = "joint",
    scale: str = "global",
    solver: str = "proximal",
    step: str = "backtracking",
    start: str | Params = "label",
    scale_start: bool | None = None,
    tolerance: float = 1e-4,
    max_iterations: int = 1000,
    growth: float = 1.5,
    least_constant: float = 1e-6,
    block_tolerance: float = 1e-5,
    max_block_steps: int = 1000,
    row_names: Sequence[str] = (),
) -> Fit:
    r"""Fit a classifier of matrices; a function of the host.

    Args:
      x: (n, s, t) real numbers; integers become float32.
      y: (n,) labels: whole numbers, words or truths.
      rank: Rank r, at most the smaller side of a matrix.
      mu1: Strength of :math:`\|U\|_1` (SBLR-Eq5) for scaled matrices, zero or more. If
        U has no penalty of its own, the default is 1e-3.
      mu2: Strength of :math:`\frac12\|U\|_F^2`.
      nu1: Strength of :math:`\|V\|_1`. If V has no penalty of its own, the default is
        1e-3.
      nu2: Strength of :math:`\frac12\|V\|_F^2`.
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
        block.
      max_block_steps: Largest number of steps of ``"minimise"`` per block.
      row_names: Names of the s rows, for pictures.

    Returns:
      The classifier and how it came about.

    Raises:
      InputError: If matrices, labels or an argument are out of range, or if an argument
        would have no effect.
    """
    given = dict(locals())
    settings = {k: v for k, v in given.items() if k not in ("x", "y", "row_names")}
    settings |= _strengths(settings)
    names = tuple(map(str, row_names))
    data = prepare(x, y, scale=scale, multi_class=multi_class)
    _check_names(names, data.labelled.x.shape[1])
    problem = _problem(data, settings)

    began = time.perf_counter()
    compiled = _solve.lower(*problem).compile()
    ready = time.perf_counter()
    found = jax.block_until_ready(compiled(*problem[:3]))
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
    classifier = Classifier(
        classes=data.classes,
        params=params,
        scaling=data.scaling,
        settings=plain_settings(settings),
        row_names=names,
        versions={
            "lowrank_jax": __version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
        },
    )
    return Fit(classifier, tuple(traces), seconds, ready - began)


def _strengths(settings: Mapping[str, Any]) -> dict[str, float]:
    """Return mu1 and nu1, or the usual strength where they are None."""
    result = {}
    for name, penalty in (("mu1", "left_penalty"), ("nu1", "right_penalty")):
        usual = STRENGTH if settings[penalty] is None else 0.0
        result[name] = usual if settings[name] is None else settings[name]
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
) -> Prepared:
    """Check training data and scale them; the arguments are explained by `fit`.

    Raises:
      InputError: If matrices, labels or an argument are out of range.
    """
    checks.choice(_MULTI_CLASS, multi_class=multi_class)
    x, y = check_matrices(x), _labels(y)
    scaling = scaling_of(x, scale)
    labelled, classes = streams.matrices.label_matrices(scaling(x), y)
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


def _problem(data: Prepared, settings: Mapping[str, Any]) -> tuple:
    """Return the arguments of `_solve`, checked."""
    checks.whole(max_iterations=settings["max_iterations"])
    given = bcpd.Settings(**{k: v for k, v in settings.items() if k in _DESCENT})
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


@functools.partial(jax.jit, static_argnums=(3, 4))
def _solve(
    labelled: Labelled,
    numbers: dict[str, Any],
    start: Params | None,
    fixed: bcpd.Settings,
    max_iterations: int,
) -> tuple[Params, Info, jax.Array]:
    """Run one problem, or one per class, to its end."""

    def run(labelled: Labelled, start: Params | None) -> tuple:
        settings = fixed._asdict() | numbers
        if start is not None:
            settings["start"] = start
        learner = bcpd.learner(**settings)
        state = learner.init(jax.random.key(0), labelled)
        state, trace, num_iterations = loops.converge(
            learner, state, labelled, max_iterations=max_iterations
        )
        return bcpd.final_params(state), trace, num_iterations

    if labelled.targets.ndim == 2:
        return run(labelled, start)
    data = Labelled(x=None, targets=0, weights=None)  # type: ignore[arg-type]
    axes = (data, None if start is None else 0)
    return jax.vmap(run, in_axes=axes)(labelled, start)


class StrengthPath(NamedTuple):
    """Models along a range of strengths.

    Attributes:
      mu1: (k,) strengths on U, rising.
      nu1: (k,) strengths on V, in proportion.
      left: (k, m, s, r).
      right: (k, m, t, r).
    """

    mu1: np.ndarray
    nu1: np.ndarray
    left: np.ndarray
    right: np.ndarray


def regularisation_path(
    x: np.ndarray,
    y: np.ndarray | Sequence[Any],
    *,
    num_points: int = 25,
    span: float = 30.0,
    **settings: Any,
) -> StrengthPath:
    r"""Fit along a range of :math:`\ell_1` strengths, in one compiled program.

    Both strengths move together, from a `span`-th of the given ones to `span` times;
    where one of them is 0 both start from 1e-3.

    Args:
      x: (n, s, t).
      y: (n,) labels.
      num_points: Number of strengths, at least 2.
      span: Largest factor up and down, above 1.
      **settings: Settings of `fit`, penalties excepted.
    """
    checks.whole(least=2, num_points=num_points)
    defaults = {k: v for k, v in (fit.__kwdefaults__ or {}).items() if k != "row_names"}
    unknown = sorted(set(settings) - set(defaults))
    if unknown:
        raise InputError(f"`{unknown[0]}` is not an argument of fit.")
    settings = defaults | settings
    for name in ("left_penalty", "right_penalty"):
        if settings[name] is not None:
            raise InputError(
                f"The path moves `mu1` and `nu1`: leave `{name}` out, which would "
                f"take their place."
            )
    settings |= _strengths(settings)
    data = prepare(x, y, scale=settings["scale"], multi_class=settings["multi_class"])
    labelled, numbers, start, *fixed = _problem(data, settings)
    middle = np.array([settings["mu1"], settings["nu1"]], np.float64)
    if (middle <= 0).any():
        middle = np.full(2, 1e-3)
    factors = np.geomspace(1 / span, span, num_points)
    mu1, nu1 = factors * middle[0], factors * middle[1]
    dtype = labelled.x.dtype
    strengths = jnp.asarray(np.stack([mu1, nu1], 1), dtype)
    left, right = _solve_path(labelled, numbers, start, strengths, *fixed)
    if data.is_one_vs_all:
        left, right = left[:, :, 0], right[:, :, 0]
    return StrengthPath(mu1, nu1, np.asarray(left), np.asarray(right))


@functools.partial(jax.jit, static_argnums=(4, 5))
def _solve_path(
    labelled: Labelled,
    numbers: dict[str, Any],
    start: Params | None,
    strengths: jax.Array,
    fixed: bcpd.Settings,
    max_iterations: int,
) -> tuple[jax.Array, jax.Array]:
    def one(strength: jax.Array) -> tuple[jax.Array, jax.Array]:
        here = numbers | {"mu1": strength[0], "nu1": strength[1]}
        params, _, _ = _solve(labelled, here, start, fixed, max_iterations)
        return params.left, params.right

    return jax.lax.map(one, strengths)  # one by one: each ends by itself


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings ready for JSON; what only Python can hold becomes "given"."""
    return {
        name: value if isinstance(value, str | int | float | None) else "given"
        for name, value in settings.items()
    }


def _labels(y: np.ndarray | Sequence[Any]) -> np.ndarray:
    """Check labels and return them as whole numbers, words or truths."""
    y = np.asarray(y)
    if y.dtype == object and all(isinstance(label, str) for label in y.tolist()):
        y = y.astype(str)
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


def _check_names(names: Collection[str], num_rows: int) -> None:
    if names and len(names) != num_rows:
        raise InputError(
            f"`row_names` must be {num_rows} as `x` has rows, got {len(names)}."
        )
