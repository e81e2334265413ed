"""Train on candidate lists pass by pass, choose from lists, and say how good that is.

The counterpart of `loops` for lists: one round slices one list. The order of a pass
depends on the key and the index of the pass alone, so that going on from a saved state
gives what an unbroken run gives, bit for bit.
"""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks, loops
from lowrank_jax.data.lists import Candidates, Lists, ListStream, candidates, oracle
from lowrank_jax.models.candidates import best
from lowrank_jax.types import Learner

__all__ = ["Quality", "passes", "predict", "quality_of", "run"]


def run(
    learner: Learner, state: Any, corpus: ListStream, order: jax.Array
) -> tuple[Any, Any]:
    """Scan `learner.update` over the lists in `order`; pure, to be jitted or vmapped.

    Args:
      learner: `online.tensor_mira` or `online.rerank`.
      state: from `learner.init` or an earlier run.
      corpus: from `data.lists.stream_lists`.
      order: (num_rounds,) int32, the list of each round.

    Returns:
      The final state and the trace: each field of `Info`, stacked over rounds.
    """

    def round_of(state: Any, index: jax.Array) -> tuple[Any, Any]:
        return learner.update(state, candidates(corpus, index))

    return lax.scan(round_of, state, order)


@functools.lru_cache(maxsize=8)
def _program(learner: Learner) -> Any:
    """Jit a pass of this learner; a second run of the same shapes compiles nothing."""
    return jax.jit(lambda *given: run(learner, *given), donate_argnums=0)


def passes(
    learner: Learner,
    corpus: ListStream,
    *,
    key: jax.Array,
    num_passes: int,
    state: Any = None,
    first_pass: int = 0,
) -> Iterator[loops.Pass]:
    """Train and hand out each pass as it ends; arguments as `loops.passes`.

    Raises:
      InputError: if there is no list, or a quality is not known.
    """
    checks.whole(num_passes=num_passes)
    checks.whole(least=0, first_pass=first_pass)
    num_lists = corpus.starts.shape[0]
    if num_lists == 0:
        raise checks.InputError("There is no list to train on.")
    num_unknown = int(jnp.isnan(corpus.quality).sum())
    if num_unknown:
        raise checks.InputError(
            f"{num_unknown} candidates have no known quality: training needs them all."
        )
    key_start, key_order = jax.random.split(key)
    began = time.perf_counter()
    if state is None:
        state = jax.jit(learner.init)(key_start, candidates(corpus, 0))
    order = loops.order_of(key_order, first_pass, num_lists)
    compiled = _program(learner).lower(state, corpus, order).compile()
    jax.block_until_ready(state)
    compile_seconds = time.perf_counter() - began
    for index in range(first_pass, num_passes):
        order = loops.order_of(key_order, index, num_lists).block_until_ready()
        began = time.perf_counter()
        state, trace = compiled(state, corpus, order)
        jax.block_until_ready((state, trace))
        seconds = time.perf_counter() - began
        yield loops.Pass(index, state, jax.device_get(trace), seconds, compile_seconds)
        compile_seconds = 0.0


def predict(
    scores: Callable[[Any, Candidates], jax.Array],
    params: Any,
    corpus: ListStream,
    *,
    batch_size: int | None = None,
) -> jax.Array:
    """Choose a candidate from each list; pure, to be jitted.

    Args:
      scores: of the model: `models.tensor.scores` or `models.candidates.linear_scores`.
      params: of the model.
      corpus: from `data.lists.stream_lists`.
      batch_size: lists at a time, for wide machines; None takes them one by one.

    Returns:
      (num_lists,) int32, the candidate chosen, counted from the first of its list.
    """
    order = jnp.arange(corpus.starts.shape[0], dtype=jnp.int32)
    return lax.map(
        lambda i: best(scores(params, candidates(corpus, i))),
        order,
        batch_size=batch_size,
    )


class Quality(NamedTuple):
    """Mean quality over lists of three choices.

    Attributes:
      chosen: by the model.
      base: by the system that made the lists: their first candidates.
      oracle: of the best candidates.
    """

    chosen: float
    base: float
    oracle: float


def quality_of(lists: Lists, chosen: np.ndarray | jax.Array) -> Quality:
    """Return the mean quality of the chosen, the first and the best candidates.

    Args:
      lists: every list with at least one candidate; the quality of all known.
      chosen: (num_lists,) integers, from `predict`.
    """
    quality = np.asarray(lists.quality, np.float64)
    starts = np.asarray(lists.list_offsets, np.int64)[:-1]
    chosen = np.asarray(chosen, np.int64)
    if chosen.shape != starts.shape:
        raise checks.InputError(
            f"`chosen` must have one candidate for each of the {starts.size} lists, "
            f"got shape {chosen.shape}."
        )
    picks = (starts + chosen, starts, starts + oracle(lists))
    return Quality(*(float(quality[pick].mean()) for pick in picks))
