"""A reranker: chooses one candidate from each list."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks, loops, metrics, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.list_files import lists_from
from lowrank_jax.data.lists import Lists, drop_shared, remap, spread
from lowrank_jax.estimators import learners, training
from lowrank_jax.estimators.base import Estimator
from lowrank_jax.features import mapping as mappings
from lowrank_jax.models import tensor
from lowrank_jax.models.candidates import best, linear_scores
from lowrank_jax.store import folder as model_folder
from lowrank_jax.store.arrays import check_arrays
from lowrank_jax.store.files import Path

__all__ = ["Reranker", "choose", "tensor_shape"]
__dir__ = __all__.copy

_KIND = "reranker"
_NAMES, _PLACE = "names", "place"


def tensor_shape(
    num_features: int,
    order: int = 2,
    num_components: int = 1,
    mapping: str = "surrogate",
) -> tensor.Shape:
    """Return the mode sizes of a tensor model for so many features.

    Args:
      num_features: V.
      order: D, modes of the tensor; their sizes follow from the number of features.
      num_components: H, outer products that the tensor is a sum of.
      mapping: Features are laid out by the weights of a perceptron after one pass
        (``"surrogate"``) or in the order of their ids (``"sequential"``).
    """
    checks.whole(order=order, num_components=num_components)
    checks.choice(("surrogate", "sequential"), mapping=mapping)
    return tensor.Shape(tensor.mode_sizes(num_features, order), num_components)


class Reranker(Estimator):
    """Chooses a candidate from each list.

    Attributes:
      params_: Table (V + 1,) of a linear model, or one array (H, n_d) per mode.
      num_features_: V.
      names_: Id of each name, for lists read from JSON; None if ids are numbers.
      place_: (V,) cell of each feature in the tensor; None for a linear model.
      history_: One entry per pass: number of updates, loss, seconds.
      settings_: All settings of the learner, ready for JSON.
      training_: Summary of the training, ready for JSON.
    """

    def __init__(
        self,
        learner: str = "mira",
        num_passes: int | None = None,
        seed: int = 0,
        batch_size: int | str = 1,
        num_devices: int = 1,
        **hyperparameters: Any,
    ) -> None:
        """Keep the settings; `fit` checks them.

        Args:
          learner: ``"mira"``, ``"tm"`` (Tensor-MIRA) or ``"perceptron"``. On held-out
            lists of the shipped tasks the tensor is not better than MIRA (tm-defaults).
          num_passes: Number of passes over the lists. None takes 5.
          seed: Seed of the order of lists and of a random start.
          batch_size: Lists per update, or ``"8,16,64"`` by pass (`online.wide.lists`).
          num_devices: Number of devices that share a batch, with the same result.
          **hyperparameters: Arguments of the ``learner`` function of the learner, and
            for ``"tm"`` of `tensor_shape`.
        """
        self.learner = learner
        self.num_passes = num_passes
        self.seed = seed
        self.batch_size = batch_size
        self.num_devices = num_devices
        self.hyperparameters = hyperparameters

    @classmethod
    def from_params(
        cls,
        params: Any,
        num_features: int,
        *,
        place: np.ndarray | None = None,
        names: Mapping[str, int] | None = None,
        learner: str = "tm",
        settings: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> "Reranker":
        """Return a fitted reranker with given weights.

        Args:
          params: Table (V + 1,) of a linear model, or one array (H, n_d) per mode.
          num_features: V.
          place: (V,) cell of each feature in the tensor; None for a linear model.
          names: Id of each name; None if ids are numbers.
          learner: Name of the learner that made them.
          settings: Settings of the learner, ready for JSON.
          training: Summary of the training, ready for JSON.
        """
        plain, about = dict(settings or {}), dict(training or {})
        given = learners.without_json(plain)
        given["batch_size"] = about.get("batch_size", 1)
        model = cls(learner, about.get("epochs"), about.get("seed", 0), **given)
        model.params_, model.num_features_ = params, num_features
        model.place_, model.names_ = place, names
        model.settings_, model.training_ = plain, about
        return model

    @property
    def num_parameters(self) -> int:
        """Number of weights of the model."""
        if self.place_ is None:
            return self.num_features_
        return sum(int(np.prod(part.shape)) for part in self.params_)

    def check(self) -> None:
        """Raise `InputError` unless the settings make sense."""
        learners.check_wide(self, self._learner(1)[0])

    def fit(
        self,
        X: Lists | Sequence[Any],
        y: np.ndarray | None = None,
        *,
        names: Mapping[str, int] | None = None,
        run: Callable[[training.Job], training.Outcome] = training.run,
    ) -> "Reranker":
        """Train on lists of known quality and return the object itself.

        Args:
          X: Candidate lists, or Python lists of candidates such as
            ``{"features": {"name": 1.0}, "quality": 0.9}``.
          y: (num_candidates,) qualities, any numbers. None takes the qualities of the
            lists. Qualities beyond 0..1, such as grades, are scaled to 0..1: the
            lowest of all lists becomes 0, the highest 1.
          names: Id of each name, from `data.read_json_lists`, kept with the model.
          run: Function that does the job; the command line adds checkpoints.
        """
        if not isinstance(X, Lists):
            X, names = lists_from(X, training=y is None)
        lists = _with_quality(X, y)
        lists = dataclasses.replace(lists, quality=_scaled(lists.quality))
        short = drop_shared(lists)  # rankings and updates stay as they are
        learner, plain, shape = self._learner(lists.num_features, spread(short))
        learners.check_wide(self, learner)
        about = {"learner": self.learner, "settings": plain, "seed": self.seed}
        about |= {} if self.batch_size == 1 else {"batch_size": self.batch_size}
        module = learners.module_of(self._spec)
        with jax.enable_x64(plain["dtype"] == "float64"):
            place = None
            if shape is not None:
                place = _place_features(short, shape, plain["mapping"], self.seed)
                short = remap(short, place, shape.num_cells)
            job = training.Job(
                learner=learner,
                stream=streams.lists.stream(short),
                unit="lists",
                num_examples=lists.num_lists,
                seed=self.seed,
                num_passes=self.num_passes or self._spec.num_passes,
                settings=about | {"data": _fingerprint(lists, names)},
                batch_size=self.batch_size,
                num_devices=self.num_devices,
            )
            outcome = run(job)
            params = jax.block_until_ready(jax.jit(module.final_params)(outcome.state))
        training.check_finite(params, outcome)
        self.params_, self.num_features_ = params, lists.num_features
        self.place_, self.names_, self.settings_ = place, names, plain
        self.training_ = about | {
            "epochs": len(outcome.history),
            "num_lists": lists.num_lists,
            "num_candidates": lists.num_candidates,
            "num_features": lists.num_features,
            "sizes": None if shape is None else list(shape.sizes),
            "compile_seconds": outcome.compile_seconds,
            "train_seconds": outcome.seconds,
            "history": outcome.history,
            "run": job.settings,
            "machine": training.machine(),
        }
        return self

    def decision_function(self, X: Lists | Sequence[Any]) -> np.ndarray:
        """Return the score of each candidate, (num_candidates,)."""
        X = self._lists(X)
        if X.num_features != self.num_features_:
            raise InputError(
                f"The lists have {X.num_features} features where the model has "
                f"{self.num_features_}; read them with the names of the model."
            )
        if X.num_lists == 0:
            return np.zeros(0, np.float32)
        lists = X
        if self.place_ is not None:
            sizes = tuple(part.shape[1] for part in self.params_)
            lists = remap(X, self.place_, tensor.Shape(sizes).num_cells)
        blank = np.zeros(lists.num_candidates, np.float32)  # a score needs no quality
        lists = dataclasses.replace(lists, quality=blank)
        is_tensor, corpus = self.place_ is not None, streams.lists.stream(lists)
        with _precision(self.params_):
            found = np.asarray(_scores(is_tensor, self.params_, corpus))
        counts = np.diff(np.asarray(lists.list_offsets))
        return found[np.arange(found.shape[1])[None] < counts[:, None]]

    def predict(self, X: Lists | Sequence[Any]) -> list[np.ndarray]:
        """Return the order of each list: candidates from 0, the highest score first."""
        X = self._lists(X)
        scores = self.decision_function(X)
        if X.num_lists == 0:
            return []
        parts = np.split(scores, np.asarray(X.list_offsets)[1:-1])
        return [np.argsort(-part, kind="stable") for part in parts]

    def predict_first(self, X: Lists | Sequence[Any]) -> np.ndarray:
        """Return the candidate of the highest score of each list, from 0."""
        return np.array([order[0] for order in self.predict(X)], np.int32)

    def score(self, X: Lists | Sequence[Any], y: np.ndarray | None = None) -> float:
        """Return the mean quality of the chosen candidates.

        Args:
          X: Candidate lists, as in `fit`.
          y: (num_candidates,) qualities. None takes the qualities of the lists.
        """
        lists = _with_quality(self._lists(X), y)
        return metrics.quality_of(lists, self.predict_first(lists)).chosen

    def _lists(self, given: Lists | Sequence[Any]) -> Lists:
        """Return lists with the ids of this model."""
        if isinstance(given, Lists):
            return given
        if self.names_ is None:
            raise InputError(
                "`X` must be Lists with numbers as ids, as this model was trained on."
            )
        return lists_from(given, names=dict(self.names_), training=False)[0]

    def save(self, folder: Path, *, keep_checkpoint: bool = False) -> None:
        """Write the model folder, replacing an earlier one when this one is complete.

        Args:
          folder: Place of the model; made if it is missing.
          keep_checkpoint: If true, a checkpoint in the earlier folder stays.

        Raises:
          InputError: If the folder holds a model of another kind or foreign files.
        """
        arrays: dict[str, np.ndarray] = {}
        if self.place_ is None:
            arrays["weights"] = np.asarray(self.params_)
        else:
            arrays |= {f"mode_{d}": np.asarray(w) for d, w in enumerate(self.params_)}
            arrays[_PLACE] = np.asarray(self.place_)
        if self.names_ is not None:
            text = json.dumps(list(self.names_), ensure_ascii=False)
            data = text.encode("utf-8", "surrogatepass")
            arrays[_NAMES] = np.frombuffer(data, np.uint8)
        about = {
            "learner": self.learner,
            "settings": dict(self.settings_),
            "num_features": self.num_features_,
            "training": dict(self.training_),
        }
        content = model_folder.Content(about, {"weights": arrays})
        model_folder.write(folder, _KIND, content, keep_checkpoint=keep_checkpoint)

    @classmethod
    def load(cls, folder: Path) -> "Reranker":
        """Read a model folder.

        Raises:
          InputError: If there is no reranker, or it is unfinished, of another version,
            cut short or damaged.
        """
        content = model_folder.read(folder, _KIND)
        about, arrays = content.about, content.arrays["weights"]
        names, place = None, arrays.get(_PLACE)
        with model_folder.complete(folder, _KIND):
            num_features = about["num_features"]
            checks.whole(num_features=num_features)
            if _NAMES in arrays:
                text = arrays[_NAMES].tobytes().decode("utf-8", "surrogatepass")
                names = {str(name): i for i, name in enumerate(json.loads(text))}
                if len(names) != num_features:
                    raise ValueError(f"{len(names)} names of {num_features} features")
            _check_weights(folder, arrays, num_features)
            params: Any
            if place is None:
                params = arrays["weights"]
            else:
                order = sum(name.startswith("mode_") for name in arrays)
                params = tuple(arrays[f"mode_{d}"] for d in range(order))
            with _precision(params):
                params = jax.tree.map(jnp.asarray, params)
            return cls.from_params(
                params,
                num_features,
                place=place,
                names=names,
                learner=about["learner"],
                settings=about["settings"],
                training=about["training"],
            )

    @property
    def _spec(self) -> learners.Spec:
        return learners.spec_of(self.learner, learners.RERANKERS)

    def _learner(
        self, num_features: int, spread: float = 1.0
    ) -> tuple[Any, dict[str, Any], tensor.Shape | None]:
        """Return the learner, all its settings ready for JSON, and the tensor's shape.

        Args:
          num_features: V.
          spread: Scale of the features, from `data.lists.spread`.
        """
        own, options = self._defaults(), learners.options_of(self._spec)
        every = learners.complete(self.learner, options, self.hyperparameters, own)
        if every.get("start") == "auto":  # equal components would stay equal (DR-T3)
            is_one = every["num_components"] == 1
            every["start"] = "constant" if is_one else "positive"
        if every["max_step_size"] is None:
            every["max_step_size"] = learners.STEP / (spread or 1.0)
        plain = learners.to_json(every)
        module = learners.module_of(self._spec)
        if self._spec.model != "tensor":
            return module.learner(rule=self.learner, **every), plain, None
        names = ("order", "num_components", "mapping")
        shape = tensor_shape(num_features, **{name: every.pop(name) for name in names})
        return module.learner(shape=shape, **every), plain, shape


def _with_quality(lists: Lists, y: np.ndarray | None) -> Lists:
    return lists if y is None else dataclasses.replace(lists, quality=np.asarray(y))


def _scaled(quality: np.ndarray) -> np.ndarray:
    """Return qualities in 0..1, unchanged if they are; a cost has this scale."""
    quality = np.asarray(quality)
    low, high = np.nanmin(quality, initial=0), np.nanmax(quality, initial=1)
    if low >= 0 and high <= 1:
        return quality
    low, high = np.nanmin(quality), np.nanmax(quality)
    return ((quality - low) / max(high - low, np.finfo(np.float32).tiny)).astype(
        np.float32
    )


def _place_features(
    lists: Lists, shape: tensor.Shape, mapping: str, seed: int
) -> np.ndarray:
    """Return the cell of each feature: by a perceptron's weights, or by their ids."""
    if mapping == "sequential":
        return mappings.sequential_mapping(lists.num_features, shape.sizes)
    from lowrank_jax.online import rerank

    learner = rerank.learner(rule="perceptron", averaging="none")
    (done,) = loops.passes(
        learner, streams.lists.stream(lists), key=jax.random.key(seed), num_passes=1
    )
    return mappings.surrogate_mapping(np.asarray(done.state.params)[:-1], shape.sizes)


def _check_weights(
    folder: Path, arrays: Mapping[str, np.ndarray], num_features: int
) -> None:
    """Raise unless the weights of a saved model fit its number of features."""
    if _PLACE not in arrays:
        check_arrays(folder, arrays, {"weights": (num_features + 1,)})
        return
    order = sum(name.startswith("mode_") for name in arrays)
    components = arrays["mode_0"].shape[0]
    modes = {f"mode_{d}": (components, None) for d in range(order)}
    check_arrays(folder, arrays, modes)
    check_arrays(folder, arrays, {_PLACE: (num_features,)}, "iu")
    if len({arrays[name].dtype for name in modes}) > 1:
        raise ValueError("modes of several types")
    place = arrays[_PLACE].astype(np.int64)
    num_cells = tensor.Shape(tuple(arrays[m].shape[1] for m in modes)).num_cells
    if not 0 <= place.min() <= place.max() < num_cells:
        raise ValueError(f"a place outside 0..{num_cells - 1}")


def _fingerprint(lists: Lists, names: Mapping[str, int] | None) -> str:
    """Return the SHA-256 of all arrays, in the order of the fields, and the names."""
    digest = hashlib.sha256()
    for part in vars(lists).values():
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update(json.dumps(names).encode())
    return digest.hexdigest()


def _precision(params: Any) -> Any:
    """Return the context in which the weights keep their precision."""
    return jax.enable_x64(jax.tree.leaves(params)[0].dtype == np.float64)


@functools.partial(jax.jit, static_argnums=0)
def _scores(is_tensor: bool, params: Any, corpus: streams.lists.Stream) -> jax.Array:
    """Return (num_lists, max_candidates) scores, -inf where there is no candidate."""
    score = tensor.scores if is_tensor else linear_scores
    order = jnp.arange(corpus.starts.shape[0], dtype=jnp.int32)
    return lax.map(lambda i: score(params, corpus.example(i)), order)


def choose(
    scores: Callable[[Any, streams.lists.Candidates], jax.Array],
    params: Any,
    corpus: streams.lists.Stream,
    *,
    batch_size: int | None = None,
) -> jax.Array:
    """Choose a candidate from each list; pure, to be jitted.

    Args:
      scores: `models.tensor.scores` or `models.candidates.linear_scores`.
      params: Parameters of the model.
      corpus: Stream from `streams.lists.stream`.
      batch_size: Number of lists at a time, for wide machines; None takes one.

    Returns:
      (num_lists,) int32, the chosen candidate, counted from the first of its list.
    """
    order = jnp.arange(corpus.num_examples, dtype=jnp.int32)
    return lax.map(
        lambda i: best(scores(params, corpus.example(i))),
        order,
        batch_size=batch_size,
    )
