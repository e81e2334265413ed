"""A trained reranker: its weights, what its features are called, and its folder."""

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.lists import Lists, remap
from lowrank_jax.models import tensor
from lowrank_jax.models.candidates import best, linear_scores
from lowrank_jax.store import folder as model_folder

__all__ = ["KIND", "RerankModel", "choose"]

KIND = "reranker"
_NAMES, _PLACE = "names", "place"

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class RerankModel:
    """Chooses a candidate from each list.

    Attributes:
      params: a table (V + 1,) of a linear model, or for each mode (H, n_d).
      num_features: V.
      names: the id of each name, of lists read from JSON; None where ids are numbers.
      place: (V,) cell of each feature in the tensor; None for a linear model.
      learner: its name.
      settings: of the learner, ready for JSON.
      metadata: what else is to be known of the training, ready for JSON.
    """

    params: Any
    num_features: int
    names: Mapping[str, int] | None
    place: np.ndarray | None
    learner: str
    settings: Mapping[str, Any]
    metadata: Mapping[str, Any]

    @property
    def num_parameters(self) -> int:
        """How many numbers there are to learn."""
        if self.place is None:
            return self.num_features
        return sum(int(np.prod(part.shape)) for part in self.params)

    def scores(self, lists: Lists) -> np.ndarray:
        """Return the score of each candidate, (num_candidates,)."""
        if lists.num_features != self.num_features:
            raise InputError(
                f"The lists have {lists.num_features} features where the model has "
                f"{self.num_features}; read them with the names of the model."
            )
        if lists.num_lists == 0:
            return np.zeros(0, np.float32)
        if self.place is not None:
            sizes = tuple(part.shape[1] for part in self.params)
            lists = remap(lists, self.place, tensor.Shape(sizes).num_cells)
        with _precision(self.params):
            found = _scores(
                self.place is not None, self.params, streams.lists.stream(lists)
            )
        counts = np.diff(np.asarray(lists.list_offsets))
        is_there = np.arange(found.shape[1])[None] < counts[:, None]
        return np.asarray(found)[is_there]

    def choose(self, lists: Lists) -> np.ndarray:
        """Return the candidate of the highest score of each list, from 0."""
        return _best(lists, self.scores(lists))

    def save(self, folder: Path, *, keep_checkpoint: bool = False) -> None:
        """Write the model, replacing an earlier one when this one is complete.

        Args:
          folder: Place of the model; made if it is missing.
          keep_checkpoint: If true, a checkpoint in the earlier folder stays.
        """
        arrays: dict[str, np.ndarray] = {}
        if self.place is None:
            arrays["weights"] = np.asarray(self.params)
        else:
            arrays |= {f"mode_{d}": np.asarray(w) for d, w in enumerate(self.params)}
            arrays[_PLACE] = np.asarray(self.place)
        if self.names is not None:
            text = json.dumps(list(self.names), ensure_ascii=False)
            data = text.encode("utf-8", "surrogatepass")
            arrays[_NAMES] = np.frombuffer(data, np.uint8)
        about = {
            "learner": self.learner,
            "settings": dict(self.settings),
            "num_features": self.num_features,
            "training": dict(self.metadata),
        }
        content = model_folder.Content(about, {"weights": arrays})
        model_folder.write(folder, KIND, content, keep_checkpoint=keep_checkpoint)

    @classmethod
    def load(cls, folder: Path) -> "RerankModel":
        """Read a model that `save` wrote.

        Raises:
          InputError: if it is no such model, of another version, or damaged.
        """
        content = model_folder.read(folder, KIND)
        about, arrays = content.about, content.arrays["weights"]
        names = None
        if _NAMES in arrays:
            text = arrays[_NAMES].tobytes().decode("utf-8", "surrogatepass")
            names = {name: i for i, name in enumerate(json.loads(text))}
        place = arrays.get(_PLACE)
        with model_folder.complete(folder, KIND):
            params: Any
            if place is None:
                params = arrays["weights"]
            else:
                order = sum(name.startswith("mode_") for name in arrays)
                params = tuple(arrays[f"mode_{d}"] for d in range(order))
            with _precision(params):
                params = jax.tree.map(jnp.asarray, params)
            return cls(
                params=params,
                num_features=about["num_features"],
                names=names,
                place=place,
                learner=about["learner"],
                settings=about["settings"],
                metadata=about["training"],
            )


def _precision(params: Any) -> Any:
    """Return the context in which the weights keep their precision."""
    return jax.enable_x64(jax.tree.leaves(params)[0].dtype == np.float64)


@functools.partial(jax.jit, static_argnums=0)
def _scores(is_tensor: bool, params: Any, corpus: streams.lists.Stream) -> jax.Array:
    """Return (num_lists, max_candidates) scores, -inf where there is no candidate."""
    score = tensor.scores if is_tensor else linear_scores
    order = jnp.arange(corpus.starts.shape[0], dtype=jnp.int32)
    return lax.map(lambda i: score(params, corpus.example(i)), order)


def _best(lists: Lists, scores: np.ndarray) -> np.ndarray:
    if lists.num_lists == 0:
        return np.zeros(0, np.int32)
    parts = np.split(scores, np.asarray(lists.list_offsets)[1:-1])
    return np.array([part.argmax() for part in parts], np.int32)


def choose(
    scores: Callable[[Any, streams.lists.Candidates], jax.Array],
    params: Any,
    corpus: streams.lists.Stream,
    *,
    batch_size: int | None = None,
) -> jax.Array:
    """Choose a candidate from each list; pure, to be jitted.

    Args:
      scores: of the model: `models.tensor.scores` or `models.candidates.linear_scores`.
      params: of the model.
      corpus: from `streams.lists.stream`.
      batch_size: lists at a time, for wide machines; None takes them one by one.

    Returns:
      (num_lists,) int32, the candidate chosen, counted from the first of its list.
    """
    order = jnp.arange(corpus.num_examples, dtype=jnp.int32)
    return lax.map(
        lambda i: best(scores(params, corpus.example(i))),
        order,
        batch_size=batch_size,
    )
