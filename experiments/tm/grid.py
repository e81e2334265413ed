r"""Rerankers trained over a grid: one program per shape, C and seeds side by side.

Tensor models are small, so `vmap` runs all values of C and all seeds at once over the
same lists. A linear model has a table of V weights; its runs come one after the other,
in one program. A program runs a fixed number of rounds at a time, so that all training
sizes use the same one.
"""

import dataclasses
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from experiments import nbest
from experiments.orders import shuffled
from experiments.protocol import Say
from lowrank_jax import loops, streams
from lowrank_jax.features import mapping
from lowrank_jax.models import tensor
from lowrank_jax.models.candidates import best, linear_scores
from lowrank_jax.online import rerank, tensor_mira

__all__ = [
    "Swept",
    "Task",
    "Tensor",
    "cells_of",
    "choose",
    "linear_passes",
    "make_task",
    "place_of",
    "read_lists",
    "surrogate_of",
    "sweep",
    "to_cells",
]

Params = Any


class Tensor(NamedTuple):
    """A tensor model and how it is trained; static and hashable.

    Attributes:
      order: Order D.
      num_components: Number H of components.
      mapping: ``"surrogate"`` or ``"sequential"``.
      step: Argument of `tensor_mira.learner`.
      decoding: Argument of `tensor_mira.learner`.
      start: Argument of `tensor_mira.learner`.
      averaging: Argument of `tensor_mira.learner`.
    """

    order: int = 2
    num_components: int = 1
    mapping: str = "surrogate"
    step: Any = "bcd"
    decoding: Any = "cost"
    start: Any = "constant"
    averaging: Any = "average"

    def shape(self, num_features: int) -> tensor.Shape:
        """Return the mode sizes for V features (TM-N2)."""
        sizes = tensor.mode_sizes(num_features, self.order)
        return tensor.Shape(sizes, self.num_components)


@dataclasses.dataclass(frozen=True)
class Task:
    """Lists on the host and on the device.

    Attributes:
      splits: Splits by name: ``"train"``, ``"development"`` and ``"test"``.
      streams: The same lists on the device, with features as they are numbered.
      num_rounds: Number of rounds in one program; divides all training sizes.
    """

    splits: dict[str, nbest.Split]
    streams: dict[str, streams.lists.Stream]
    num_rounds: int

    @property
    def num_features(self) -> int:
        """How many features there are: V."""
        return self.streams["train"].num_features


class Swept(NamedTuple):
    """What came of some runs side by side.

    Attributes:
      params: Params to predict with, after each pass; every leaf is (num_lanes, ...).
      sums: Sums of `Info` over the rounds of each pass, (num_lanes,): mistakes, loss,
        raises (sub-steps that raised TM-Eq3), substeps.
      seconds: Time of all passes.
      compile_seconds: Time of the compilation; 0 if the program was there.
    """

    params: list[Params]
    sums: list[dict[str, np.ndarray]]
    seconds: float
    compile_seconds: float


def make_task(made: nbest.ChunkLists, sizes: Sequence[int]) -> Task:
    """Put the lists on the device.

    Args:
      made: Lists made by `nbest`.
      sizes: Training sizes that will be asked for.
    """
    names = ("train", "development", "test")
    splits = {name: getattr(made, name) for name in names}
    on_device = {
        name: streams.lists.stream(split.lists) for name, split in splits.items()
    }
    return Task(splits, on_device, int(np.gcd.reduce(np.asarray(sizes))))


def read_lists(scale: str, data_dir: Path | str | None, say: Say) -> nbest.ChunkLists:
    """Make or read the chunk lists: all of them, or few for ``"small"``."""
    if scale == "full":
        return nbest.chunk_lists(data_dir, say=say)
    return nbest.chunk_lists(
        data_dir,
        num_train=500,
        num_development=300,
        num_test=500,
        num_folds=5,
        num_passes=3,
        min_count=2,
        say=say,
    )


def surrogate_of(task: Task, size: int, *, seed: int = 0) -> np.ndarray:
    """Return the weights of a perceptron after one pass over the first lists: (V,)."""
    run = linear_passes(
        task, size, rule="perceptron", limit=1.0, decoding="plain", seed=seed
    )
    state = next(run)[0]
    return np.asarray(state.params)[: task.num_features]


def place_of(setting: Tensor, num_features: int, surrogate: np.ndarray) -> np.ndarray:
    """Return the cell of each feature."""
    sizes = setting.shape(num_features).sizes
    if setting.mapping == "surrogate":
        return mapping.surrogate_mapping(surrogate, sizes)
    return mapping.sequential_mapping(num_features, sizes)


def to_cells(
    corpus: streams.lists.Stream, place: np.ndarray, num_cells: int
) -> streams.lists.Stream:
    """Do `data.lists.remap` on the device."""
    cells = jnp.asarray(np.append(place, num_cells).astype(np.int32))
    return dataclasses.replace(
        corpus, features=_gather(cells, corpus.features), num_features=num_cells
    )


def cells_of(
    task: Task, setting: Tensor, surrogate: np.ndarray
) -> dict[str, streams.lists.Stream]:
    """Return all lists with features as cells of the tensor."""
    place = place_of(setting, task.num_features, surrogate)
    num_cells = setting.shape(task.num_features).num_cells
    return {
        name: to_cells(stream, place, num_cells)
        for name, stream in task.streams.items()
    }


@jax.jit
def _gather(table: jax.Array, ids: jax.Array) -> jax.Array:
    return table.at[ids].get(mode="promise_in_bounds")


def sweep(
    setting: Tensor,
    corpus: streams.lists.Stream,
    *,
    size: int,
    limits: Sequence[float],
    seeds: Sequence[int],
    num_passes: int,
    num_rounds: int,
    num_features: int,
    dtype: Any = jnp.float32,
) -> Swept:
    """Train a tensor model with several C and seeds, side by side.

    Args:
      setting: The model.
      corpus: Training lists, with features as cells.
      size: Number of lists to use, from the first on.
      limits: C of each lane.
      seeds: Seed of each lane, for the order of lists and a random start.
      num_passes: Number of passes over the lists.
      num_rounds: Number of rounds in one program; divides `size`.
      num_features: Number V of features, before padding.
      dtype: Type of the params.
    """
    shape = setting.shape(num_features)
    same = setting._replace(mapping="")  # the program does not depend on it
    start, step, final = _programs(same, shape, jnp.dtype(dtype))
    c = jnp.asarray(limits, dtype)
    keys = jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))
    split = jax.vmap(jax.random.split)(keys)
    state = start(c, split[:, 0], corpus)
    orders = _orders(split[:, 1], 0, size)[:, :num_rounds]
    began = time.perf_counter()
    compiled = _compiled(step, c, state, corpus, orders)
    compile_seconds, seconds = time.perf_counter() - began, 0.0
    params, sums = [], []
    for index in range(num_passes):
        orders = jax.block_until_ready(_orders(split[:, 1], index, size))
        began = time.perf_counter()
        total: dict[str, np.ndarray] = {}
        for first in range(0, size, num_rounds):
            part = orders[:, first : first + num_rounds]
            state, found = compiled(c, state, corpus, part)
            for name, value in jax.device_get(found).items():
                total[name] = total.get(name, 0) + value
        params.append(jax.device_get(final(state)))
        seconds += time.perf_counter() - began
        sums.append(total)
    return Swept(params, sums, seconds, compile_seconds)


_COMPILED: dict[Any, Any] = {}


def _compiled(step: Any, *given: Any) -> Any:
    """Compile once for each program and shapes, apart from the first call."""
    leaves, structure = jax.tree.flatten(given)
    key = step, structure, *((leaf.shape, leaf.dtype) for leaf in leaves)
    if key not in _COMPILED:
        _COMPILED[key] = step.lower(*given).compile()
    return _COMPILED[key]


def _orders(keys: jax.Array, index: int, size: int) -> jax.Array:
    return jax.vmap(lambda key: shuffled(key, index, size))(keys)


@functools.lru_cache(maxsize=32)
def _programs(setting: Tensor, shape: tensor.Shape, dtype: Any) -> tuple[Any, ...]:
    """Jit the start, some rounds, and the final params, with lanes in front."""
    num_substeps = shape.num_components * shape.order

    def learner(limit: jax.Array) -> Any:
        return tensor_mira.learner(
            shape=shape,
            max_step_size=limit,
            step=setting.step,
            decoding=setting.decoding,
            start=setting.start,
            averaging=setting.averaging,
            dtype=dtype,
        )

    def start(limit: jax.Array, key: jax.Array, corpus: streams.lists.Stream) -> Any:
        return learner(limit).init(key, corpus.example(0))

    def rounds(
        limit: jax.Array, state: Any, corpus: streams.lists.Stream, order: jax.Array
    ) -> tuple[Any, dict[str, jax.Array]]:
        state, info = loops.run(learner(limit), state, corpus, order)
        return state, {
            "mistakes": info.is_mistake.sum(),
            "loss": info.loss.sum(),
            "raises": (info.rises * num_substeps).sum(),
            "substeps": info.is_mistake.sum() * num_substeps,
        }

    def lanes(
        limits: jax.Array, states: Any, corpus: streams.lists.Stream, orders: jax.Array
    ) -> Any:
        def lane(given: tuple[jax.Array, Any, jax.Array]) -> Any:
            limit, state, order = given
            return rounds(limit, state, corpus, order)

        # Side by side lanes take different lists, so that slices become gathers, and
        # each waits for the longest: on a CPU one after the other is several times
        # faster.
        is_wide = jax.default_backend() != "cpu"
        given = (limits, states, orders)
        return jax.vmap(lane)(given) if is_wide else lax.map(lane, given)

    return (
        jax.jit(jax.vmap(start, in_axes=(0, 0, None))),
        jax.jit(lanes),
        jax.jit(jax.vmap(tensor_mira.final_params)),
    )


def linear_passes(
    task: Task, size: int, *, rule: str, limit: float, decoding: str, seed: int
) -> Any:
    """Train a linear model without end, and hand out each pass.

    Args:
      task: The lists.
      size: Number of training lists to use, from the first on.
      rule: Argument of `rerank.learner`.
      limit: C.
      decoding: Argument of `rerank.learner`.
      seed: Seed for the order of lists.

    Yields:
      ``(state, mistakes, seconds)``; the state is only good until the next pass.
    """
    corpus = task.streams["train"]
    start, step = _linear_programs(rule, decoding)
    key = jax.random.split(jax.random.key(seed))[1]
    state, index = start(corpus), 0
    while True:
        order = shuffled(key, index, size).block_until_ready()
        began, mistakes = time.perf_counter(), 0
        for first in range(0, size, task.num_rounds):
            part = order[first : first + task.num_rounds]
            state, found = step(jnp.float32(limit), state, corpus, part)
            mistakes += int(found)
        yield state, mistakes, time.perf_counter() - began
        index += 1


@functools.lru_cache(maxsize=8)
def _linear_programs(rule: Any, decoding: Any) -> tuple[Any, Any]:
    def learner(limit: Any) -> Any:
        return rerank.learner(rule=rule, max_step_size=limit, decoding=decoding)

    def start(corpus: streams.lists.Stream) -> Any:
        return learner(1.0).init(jax.random.key(0), corpus.example(0))

    def rounds(
        limit: jax.Array, state: Any, corpus: streams.lists.Stream, order: jax.Array
    ) -> tuple[Any, jax.Array]:
        state, info = loops.run(learner(limit), state, corpus, order)
        return state, info.is_mistake.sum()

    return jax.jit(start), jax.jit(rounds, donate_argnums=1)


def choose(
    params: Params,
    corpus: streams.lists.Stream,
    *,
    num_lists: int | None = None,
    is_tensor: bool,
) -> np.ndarray:
    """Choose from the first lists with one model, or several tensor models.

    Args:
      params: Params of one linear model, or of tensor models with leaves
        (num_lanes, ...).
      corpus: Lists; for tensor models with features as cells.
      num_lists: Number of lists to use; None takes all.
      is_tensor: True for tensor models.

    Returns:
      (num_lanes, num_lists) candidates, counted from the first of the list.
    """
    many = corpus.starts.shape[0] if num_lists is None else num_lists
    indices = jnp.arange(many, dtype=jnp.int32)
    found = _choosers()[is_tensor](params, corpus, indices)
    return np.atleast_2d(np.asarray(found))


@functools.lru_cache
def _choosers() -> dict[bool, Any]:
    def linear(
        params: Params, corpus: streams.lists.Stream, indices: jax.Array
    ) -> jax.Array:
        return lax.map(
            lambda i: best(linear_scores(params, corpus.example(i))), indices
        )

    def lanes(
        params: Params, corpus: streams.lists.Stream, indices: jax.Array
    ) -> jax.Array:
        def one(index: jax.Array) -> jax.Array:
            example = corpus.example(index)
            return jax.vmap(lambda part: best(tensor.scores(part, example)))(params)

        return lax.map(one, indices).T

    return {False: jax.jit(linear), True: jax.jit(lanes)}
