"""A classifier of matrices: scaling, scores, and a folder to keep it in."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import __version__, checks
from lowrank_jax.checks import InputError
from lowrank_jax.models import bilinear_logit, logistic
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.store import folder as model_folder
from lowrank_jax.store.arrays import check_arrays
from lowrank_jax.store.files import Path
from lowrank_jax.streams.matrices import Labelled

__all__ = [
    "KIND",
    "Classifier",
    "Scaling",
    "check_matrices",
    "classifier_of",
    "forward_patterns",
    "precision_of",
    "scaling_of",
]
__dir__ = __all__.copy

KIND = "matrix classifier"
_SCALES = ("global", "row", "none")
_CHUNK = 1 << 24  # numbers scored at a time


class Scaling(NamedTuple):
    """Scaling of matrices: ``(x - shift) / size``.

    Attributes:
      shift: (1, 1) or (s, 1).
      size: (1, 1) or (s, 1), positive.
    """

    shift: np.ndarray
    size: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return scaled matrices (n, s, t), in their own dtype."""
        return ((x - self.shift) / self.size).astype(x.dtype)


def scaling_of(x: np.ndarray, scale: str, weights: np.ndarray | None = None) -> Scaling:
    """Return the scaling of training matrices; see `classifier`.

    Args:
      x: (n, s, t).
      scale: ``"global"``, ``"row"`` or ``"none"``.
      weights: (n,) weights of the matrices, positive; None weighs all alike.
    """
    checks.choice(_SCALES, scale=scale)
    none = Scaling(np.zeros((1, 1)), np.ones((1, 1)))
    if scale == "none":
        return none
    if scale == "global":
        size = _deviation(x, weights, (0, 1, 2))[1]
        return none._replace(size=np.full((1, 1), size if size > 0 else 1.0))
    shift, size = _deviation(x, weights, (0, 2))
    return Scaling(shift[:, None], np.where(size > 0, size, 1.0)[:, None])


def _deviation(
    x: np.ndarray, weights: np.ndarray | None, axis: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation in double precision."""
    if weights is None:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            size = np.asarray(np.std(x, axis=axis, dtype=np.float64))
        if not np.isfinite(size).all() or not (size > 0).all():  # as of 1e300
            largest = np.float64(np.abs(x).max()) or 1.0
            size = largest * np.std(x / largest, axis=axis, dtype=np.float64)
        return np.asarray(np.mean(x, axis=axis, dtype=np.float64)), np.asarray(size)
    each = np.broadcast_to(weights[:, None, None], x.shape)
    mean = np.average(x, axis=axis, weights=each, keepdims=True)
    square = np.average((x - mean) ** 2, axis=axis, weights=each)
    return mean.reshape(square.shape), np.sqrt(square)


def forward_patterns(
    params: Params, labelled: Labelled, scaling: Scaling
) -> np.ndarray:
    r"""Return the forward model of the scores, (m, s, t), for matrices as given.

    Weights are filters: they also cancel noise, so a large weight need not mean signal.
    The patterns :math:`A = \Sigma_x W \Sigma_z^{-1}` say how the matrices move with the
    scores z = W x (Haufe et al., NeuroImage 2014, Eq. 6). Zero weights have none.

    Args:
      params: Factors and offsets for scaled matrices.
      labelled: Scaled training matrices.
      scaling: Their scaling.
    """
    x = np.asarray(labelled.x)
    share = np.asarray(labelled.weights, np.float64)
    z = np.einsum("nst,csr,ctr->nc", x, *params[:2], optimize=True).astype(np.float64)
    z = z - share @ z
    met = np.einsum("n,nc,nst->cst", share, z, x, optimize=True)  # W Sigma_x
    inverse = np.linalg.pinv((z * share[:, None]).T @ z)  # Sigma_z^{-1}
    found = np.einsum("dc,cst->dst", inverse, met) * scaling.size
    return found.astype(x.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class Classifier:
    """A model with all it needs to classify matrices.

    Attributes:
      classes: (num_classes,) labels in order.
      params: Factors and offsets for scaled matrices, as NumPy arrays. There is one set
        per class except the reference class. The reference is the first class if there
        are two, else the last. One-vs-all with three or more classes has no reference.
      scaling: Scaling of the training data.
      settings: Settings of the fit, ready for JSON.
      row_names: Names of the s rows, or ().
      metadata: Summary of the fit, ready for JSON.
      versions: Versions of the packages that made it.
      patterns: (m, s, t) forward model; see `BilinearClassifier`. None if the model is
        of an earlier version.
    """

    classes: np.ndarray
    params: Params
    scaling: Scaling
    settings: Mapping[str, Any]
    row_names: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    patterns: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of a matrix: s, t."""
        return self.params.left.shape[1], self.params.right.shape[1]

    @property
    def rank(self) -> int:
        """The rank r of the weights."""
        return self.params.left.shape[2]

    @property
    def dtype(self) -> np.dtype:
        """Type of the weights."""
        return np.dtype(self.params.left.dtype)

    @property
    def is_one_vs_all(self) -> bool:
        """True if each class has a problem of its own."""
        return self.params.left.shape[0] == len(self.classes)

    @property
    def pattern_classes(self) -> np.ndarray:
        """The class that each set of factors speaks for, (m,)."""
        if self.is_one_vs_all:
            return self.classes
        return self.classes[1:] if len(self.classes) == 2 else self.classes[:-1]

    @property
    def weights(self) -> np.ndarray:
        r""":math:`W_c = U_c V_c^\top` for scaled matrices, (m, s, t)."""
        return np.einsum("csr,ctr->cst", self.params.left, self.params.right)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the score of each class, (n, num_classes); the reference has 0.

        Args:
          x: (n, s, t).

        Raises:
          InputError: If the matrices have another shape or are not finite.
        """
        found = self._scores(x)
        if self.is_one_vs_all:
            return found
        zero = np.zeros((len(found), 1), found.dtype)
        parts = (zero, found) if len(self.classes) == 2 else (found, zero)
        return np.concatenate(parts, axis=1)

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Return the probability of each class, (n, num_classes).

        With one-vs-all these are the sigmoids of the scores, made to sum to 1.

        Args:
          x: (n, s, t).
        """
        found = self._scores(x)
        with precision_of(self):
            if self.is_one_vs_all:  # in logarithms: sigmoids may all be 0 in float32
                return np.asarray(jax.nn.softmax(jax.nn.log_sigmoid(found), axis=-1))
            return np.asarray(logistic.probabilities(jnp.asarray(found)))

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the class with the largest score, (n,) labels (SBLR-M2).

        Args:
          x: (n, s, t).
        """
        return self.classes[self.scores(x).argmax(1)]

    def save(self, folder: Path, **pictures: bytes) -> None:
        """Write the model folder, replacing an earlier one when this one is complete.

        Args:
          folder: Place of the folder. It is made if it is missing.
          **pictures: PNG files to put beside the model, by name without ``.png``.

        Raises:
          InputError: If the folder holds anything that is not of a model.
        """
        about = {
            "classes": self.classes.tolist(),
            "shape": list(self.shape),
            "rank": self.rank,
            "dtype": self.dtype.name,
            "settings": dict(self.settings),
            "row_names": list(self.row_names),
            "training": dict(self.metadata),
            "versions": dict(self.versions),
        }
        arrays = {
            **self.params._asdict(),
            "classes": self.classes,
            "shift": self.scaling.shift,
            "size": self.scaling.size,
        }
        if self.patterns is not None:
            arrays["patterns"] = self.patterns
        extra = {f"{name}.png": picture for name, picture in pictures.items()}
        content = model_folder.Content(about, {"weights": arrays}, extra)
        model_folder.write(folder, KIND, content)

    @staticmethod
    def load(folder: Path) -> "Classifier":
        """Read a model folder.

        Raises:
          InputError: If it is no such folder, of another version, cut short, damaged.
        """
        content = model_folder.read(folder, KIND)
        about, arrays = content.about, content.arrays["weights"]
        with model_folder.complete(folder, KIND):
            parts: Any = (arrays[name] for name in Params._fields)
            _check(folder, arrays, about["row_names"])
            for name in ("settings", "training", "versions"):
                if not isinstance(about[name], dict):
                    raise TypeError(name)
            return Classifier(
                classes=arrays["classes"],
                params=Params(*parts),
                scaling=Scaling(arrays["shift"], arrays["size"]),
                settings=about["settings"],
                row_names=tuple(about["row_names"]),
                metadata=about["training"],
                versions=about["versions"],
                patterns=arrays.get("patterns"),
            )

    def _scores(self, x: np.ndarray) -> np.ndarray:
        """Scores as the model has them, (n, m), some matrices at a time."""
        x = check_matrices(x)
        if x.shape[1:] != self.shape:
            raise InputError(
                f"`x` must hold matrices of {self.shape[0]}x{self.shape[1]} as the "
                f"model was fitted on, got {x.shape[1]}x{x.shape[2]}."
            )
        size = max(1, min(len(x), _CHUNK // (x.shape[1] * x.shape[2])))
        found = []
        with precision_of(self):
            for begin in range(0, len(x), size):
                with np.errstate(over="ignore", invalid="ignore"):  # told below
                    part = self.scaling(x[begin : begin + size]).astype(self.dtype)
                missing = size - len(part)  # one shape for all, so one program
                part = np.pad(part, ((0, missing), (0, 0), (0, 0)))
                found.append(np.asarray(_score(self.params, part)))
        scores = np.concatenate(found)[: len(x)]
        if not np.isfinite(scores).all():
            i = int(np.argmin(np.isfinite(scores).all(axis=1)))
            raise InputError(
                f"`x` has numbers up to {np.abs(x[i]).max():.3g} at {i}, too large for "
                "the scale of this model; give matrices in the unit of the training."
            )
        return scores


_score = jax.jit(bilinear_logit.scores)


def _check(folder: Path, arrays: Mapping[str, np.ndarray], row_names: Any) -> None:
    """Raise unless the arrays of a saved model fit together."""
    check_arrays(folder, arrays, {"classes": (None,)}, "fiubU")
    num_classes = arrays["classes"].size
    num_sets, rows, rank = arrays["left"].shape
    columns = arrays["right"].shape[1]
    sets = {"left": (num_sets, rows, rank), "bias": (num_sets,)}
    check_arrays(folder, arrays, sets | {"right": (num_sets, columns, rank)})
    types = {arrays[name].dtype.name for name in ("left", "right", "bias")}
    if types not in ({"float32"}, {"float64"}):
        raise TypeError(f"factors of type {', '.join(sorted(types))}")
    if np.unique(arrays["classes"]).size < max(num_classes, 2):
        raise ValueError("classes that are not distinct")
    if num_sets not in (num_classes - 1, num_classes if num_classes > 2 else 1):
        raise ValueError(f"{num_sets} sets of factors for {num_classes} classes")
    sizes = {arrays["shift"].shape, arrays["size"].shape}
    if not sizes <= {(1, 1), (rows, 1)} or 0 in arrays["left"].shape or columns == 0:
        raise ValueError(f"a scaling of shape {arrays['size'].shape}")
    check_arrays(folder, arrays, {"shift": (None, 1), "size": (None, 1)})
    if (arrays["size"] <= 0).any() or len(row_names) not in (0, rows):
        raise ValueError("the scaling or the names of the rows")
    if not all(isinstance(name, str) for name in row_names):
        raise TypeError("the names of the rows")
    if "patterns" in arrays:
        check_arrays(folder, arrays, {"patterns": (num_sets, rows, columns)})


def precision_of(held: np.ndarray | Classifier) -> Any:
    """Return the context in which JAX keeps the precision of an array or a model."""
    return jax.enable_x64(held.dtype == np.float64)


def check_matrices(x: np.ndarray) -> np.ndarray:
    """Check matrices and return them in float32 or float64."""
    x = np.asarray(x)
    if x.ndim != 3 or 0 in x.shape:
        raise InputError(
            f"`x` must have three dimensions (matrices, rows, columns) and no empty "
            f"one, got shape {x.shape}."
        )
    if x.dtype.kind not in "fiub":
        raise InputError(f"`x` must hold real numbers, got dtype {x.dtype}.")
    if x.dtype not in (np.float32, np.float64):
        x = x.astype(np.float32)
    if not np.isfinite(x).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
        raise InputError(
            f"`x` must be finite, got {x[place]} at {place}; fill or remove it."
        )
    return x


def classifier_of(
    data: Any, params: Params, settings: Mapping[str, Any], names: tuple[str, ...]
) -> Classifier:
    """Return the model of a fit, with its patterns.

    Args:
      data: Training data as `fitting.prepare` returns them.
      params: Factors and offsets for scaled matrices.
      settings: Settings of the fit, ready for JSON.
      names: Names of the rows, or ().
    """
    return Classifier(
        classes=data.classes,
        params=params,
        scaling=data.scaling,
        patterns=forward_patterns(params, data.labelled, data.scaling),
        settings=settings,
        row_names=names,
        versions={
            "lowrank_jax": __version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
        },
    )
