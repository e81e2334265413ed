"""Run a learner over a stream of examples: the only place that runs an `update`.

A corpus lies on the device as flat arrays. One round slices a window of fixed size at
the start of its sentence, and the learner works up to the true length within it; so
one compiled program serves sentences of all lengths, and nothing is padded.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowrank_jax import checks
from lowrank_jax.certify import comparator
from lowrank_jax.data.padding import add_window, length_buckets, pad_sequences
from lowrank_jax.decode import Scores, best_path, best_path_batch
from lowrank_jax.models import windows
from lowrank_jax.types import Learner, Sentence, Sequences, Space

__all__ = [
    "Certified",
    "Pass",
    "Stream",
    "comparator_margins",
    "converge",
    "iterations",
    "order_of",
    "pass_order",
    "passes",
    "predict",
    "predict_batch",
    "run",
    "sentence",
    "stream",
    "train",
]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stream:
    """A corpus on the device, ready to be sliced sentence by sentence.

    Attributes:
      feature_ids: (num_tokens + window, num_templates) int32.
      labels: (num_tokens + window,) int32.
      starts: (num_sentences,) int32, first token of each sentence.
      lengths: (num_sentences,) int32.
      window: static; the longest sentence, rounded up.
      space: static sizes.
    """

    feature_ids: jax.Array
    labels: jax.Array
    starts: jax.Array
    lengths: jax.Array
    window: int = dataclasses.field(metadata={"static": True})
    space: Space = dataclasses.field(metadata={"static": True})


def stream(sequences: Sequences, *, window: int | None = None) -> Stream:
    """Put a corpus on the device.

    Args:
      sequences: from `features`.
      window: at least the length of the longest sentence; None takes just that.
    """
    offsets = np.asarray(sequences.offsets)
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=1))
    if window is None:
        window = longest
    if window < longest:
        raise checks.InputError(
            f"`window` must be at least {longest}, the longest sentence, got {window}."
        )
    window = windows.window_of(window)
    padded = add_window(sequences, window)
    return Stream(
        feature_ids=jnp.asarray(padded.feature_ids, jnp.int32),
        labels=jnp.asarray(padded.labels, jnp.int32),
        starts=jnp.asarray(offsets[:-1], jnp.int32),
        lengths=jnp.asarray(lengths, jnp.int32),
        window=window,
        space=sequences.space,
    )


def sentence(corpus: Stream, index: jax.Array | int) -> Sentence:
    """Return one sentence of the stream; the index may be traced."""
    start = corpus.starts[index]
    return Sentence(
        feature_ids=lax.dynamic_slice_in_dim(corpus.feature_ids, start, corpus.window),
        labels=lax.dynamic_slice_in_dim(corpus.labels, start, corpus.window),
        length=corpus.lengths[index],
        space=corpus.space,
    )


class Certified(NamedTuple):
    """The trace of a run beside a fixed model U."""

    info: Any  # the learner's own trace
    comparator_margin: jax.Array  # (num_rounds,)  <U, dPhi_t>


def run(
    learner: Learner,
    state: Any,
    corpus: Stream,
    order: jax.Array,
    *,
    certify: Any = None,
) -> tuple[Any, Any]:
    """Scan `learner.update` over the sentences in `order`; pure, to be jitted.

    Args:
      learner: any of `online`.
      state: from `learner.init` or an earlier run.
      corpus: from `stream`.
      order: (num_rounds,) int32, the sentence of each round.
      certify: parameters of a fixed model U that the regret is measured against; the
        learner must record what it predicts (``record=("predicted",)``). For a U that
        is known only after the run: `comparator_margins`.

    Returns:
      The final state and the trace: each field of `Info`, stacked over rounds; with
      `certify` a `Certified`.
    """

    def round_of(state: Any, index: jax.Array) -> tuple[Any, Any]:
        example = sentence(corpus, index)
        state, info = learner.update(state, example)
        if certify is None:
            return state, info
        if getattr(info, "predicted", None) is None:
            raise checks.InputError(
                "`certify` needs a learner that records its predictions: bol or sp "
                "with record=('predicted',)."
            )
        return state, Certified(
            info, comparator.margin(certify, example, info.predicted)
        )

    return lax.scan(round_of, state, order)


def comparator_margins(
    params: Any, corpus: Stream, order: jax.Array, predicted: jax.Array
) -> jax.Array:
    r"""Return :math:`\langle U, \Delta\Phi^t\rangle` of the rounds of a run; pure.

    Args:
      params: U, of `models.linear` or `models.bilinear`.
      corpus: that the run was on.
      order: (num_rounds,) int32, the sentence of each round.
      predicted: (num_rounds, window) int, `Info.predicted` of the run.
    """

    def one(_: None, given: tuple[jax.Array, jax.Array]) -> tuple[None, jax.Array]:
        index, labels = given
        example = sentence(corpus, index)
        labels = labels.astype(example.labels.dtype)
        return None, comparator.margin(params, example, labels)

    return lax.scan(one, None, (order, predicted))[1]


def order_of(key: jax.Array, index: int, num_sentences: int) -> jax.Array:
    """Return the order of pass `index`: a shuffle that depends on nothing else."""
    return jax.random.permutation(
        jax.random.fold_in(key, index), jnp.arange(num_sentences, dtype=jnp.int32)
    )


def pass_order(key: jax.Array, index: int, num_sentences: int) -> jax.Array:
    """Return the order of a pass of `passes` or `train` that was given this key."""
    return order_of(jax.random.split(key)[1], index, num_sentences)


@functools.lru_cache(maxsize=8)
def _program(learner: Learner) -> Any:
    """Jit a pass of this learner; a second run of the same shapes compiles nothing."""
    return jax.jit(lambda *given: run(learner, *given), donate_argnums=0)


class Pass(NamedTuple):
    """One pass over the corpus.

    Attributes:
      pass_index: from 0.
      state: after the pass. It is given away to the next pass: copy what must stay.
      trace: the pass's `Info`, stacked over rounds, on the host.
      seconds: of the pass, compilation left out.
      compile_seconds: spent before this pass.
    """

    pass_index: int
    state: Any
    trace: Any
    seconds: float
    compile_seconds: float


def passes(
    learner: Learner,
    corpus: Stream,
    *,
    key: jax.Array,
    num_passes: int,
    state: Any = None,
    first_pass: int = 0,
    every: int | None = None,
    on_rounds: Callable[[int, Any], None] | None = None,
) -> Iterator[Pass]:
    """Train and hand out each pass as it ends.

    The order of a pass depends on the key and its index alone, so that going on from a
    saved state with `first_pass` gives what an unbroken run gives, bit for bit.

    Args:
      learner: any of `online`.
      corpus: from `stream`.
      key: of the start and of the shuffles.
      num_passes: in all, counting those before `first_pass`.
      state: where to go on from; None starts anew. It is donated.
      first_pass: index of the first pass to run.
      every: call `on_rounds` after so many rounds of a pass, and again, and at its end;
        None calls it at the end alone. The result does not depend on it.
      on_rounds: takes the number of rounds since the first pass, and the state, which
        is given away to the next rounds: copy what must stay.
    """
    checks.whole(num_passes=num_passes)
    checks.whole(least=0, first_pass=first_pass)
    if every is not None:
        checks.whole(every=every)
    if corpus.starts.shape[0] == 0:
        raise checks.InputError("There is no sentence to train on.")
    num_unknown = int((corpus.labels < 0).sum())
    if num_unknown:
        raise checks.InputError(
            f"{num_unknown} tokens have no known label (-1): training needs them all; "
            "encode the training corpus with its labels."
        )
    key_start, _ = jax.random.split(key)
    num_sentences = corpus.starts.shape[0]
    began = time.perf_counter()
    if state is None:
        state = jax.jit(learner.init)(key_start, sentence(corpus, 0))
    length = num_sentences if every is None else min(every, num_sentences)
    ends = [*range(length, num_sentences, length), num_sentences]
    starts = [0, *ends[:-1]]
    order = pass_order(key, first_pass, num_sentences)
    compiled = {
        size: _program(learner).lower(state, corpus, order[:size]).compile()
        for size in {end - start for start, end in zip(starts, ends, strict=True)}
    }
    jax.block_until_ready(state)
    compile_seconds = time.perf_counter() - began
    for index in range(first_pass, num_passes):
        order = pass_order(key, index, num_sentences).block_until_ready()
        seconds, traces = 0.0, []
        for start, end in zip(starts, ends, strict=True):
            began = time.perf_counter()
            state, trace = compiled[end - start](state, corpus, order[start:end])
            jax.block_until_ready((state, trace))
            seconds += time.perf_counter() - began
            traces.append(jax.device_get(trace))
            if on_rounds is not None:
                on_rounds(index * num_sentences + end, state)
        whole = jax.tree.map(lambda *parts: np.concatenate(parts), *traces)
        yield Pass(index, state, whole, seconds, compile_seconds)
        compile_seconds = 0.0


@functools.lru_cache(maxsize=8)
def _iteration(learner: Learner) -> Any:
    return jax.jit(learner.update, donate_argnums=0)


def iterations(
    learner: Learner,
    corpus: Any,
    *,
    key: jax.Array,
    num_iterations: int,
    state: Any = None,
    first_iteration: int = 0,
) -> Iterator[Pass]:
    """Run a batch learner, and hand out each iteration as it ends.

    Ends early where `Info.converged` says so. The trace of an iteration is its `Info`.

    Args:
      learner: any of `batch` whose `update` takes a whole corpus.
      corpus: what its `update` takes, made once on the host.
      key: of the start.
      num_iterations: at most so many in all, counting those before `first_iteration`.
      state: where to go on from; None starts anew. It is donated.
      first_iteration: index of the first one to run.
    """
    checks.whole(num_iterations=num_iterations)
    checks.whole(least=0, first_iteration=first_iteration)
    began = time.perf_counter()
    if state is None:
        state = jax.jit(learner.init)(key, corpus)
    compiled = _iteration(learner).lower(state, corpus).compile()
    jax.block_until_ready(state)
    compile_seconds = time.perf_counter() - began
    for index in range(first_iteration, num_iterations):
        began = time.perf_counter()
        state, info = compiled(state, corpus)
        jax.block_until_ready((state, info))
        seconds = time.perf_counter() - began
        info = jax.device_get(info)
        yield Pass(index, state, info, seconds, compile_seconds)
        compile_seconds = 0.0
        if info.converged:
            break


def converge(
    learner: Learner, state: Any, corpus: Any, *, max_iterations: int
) -> tuple[Any, Any, jax.Array]:
    """Repeat a batch learner's `update` until `Info.converged`; pure, to be jitted.

    One program holds the loop and the stopping rule, and `vmap` over it runs many
    problems side by side, each stopping by itself.

    Args:
      learner: any of `batch` whose `Info` has `converged`.
      state: from `learner.init` or an earlier run.
      corpus: what its `update` takes.
      max_iterations: at most so many, at least 1. Static.

    Returns:
      The final state; the trace, each field of `Info` stacked over `max_iterations`
      (zeros after the last one); and the number of iterations.
    """
    checks.whole(max_iterations=max_iterations)
    shapes = jax.eval_shape(learner.update, state, corpus)[1]
    trace = jax.tree.map(
        lambda part: jnp.zeros((max_iterations, *part.shape), part.dtype), shapes
    )

    def advance(carry: tuple) -> tuple:
        state, trace, done, _ = carry
        state, info = learner.update(state, corpus)
        trace = jax.tree.map(lambda all, part: all.at[done].set(part), trace, info)
        return state, trace, done + 1, info.converged

    start = (state, trace, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    state, trace, num_iterations, _ = lax.while_loop(
        lambda carry: (carry[2] < max_iterations) & ~carry[3], advance, start
    )
    return state, trace, num_iterations


def train(
    learner: Learner,
    sequences: Sequences,
    *,
    key: jax.Array,
    num_passes: int,
    on_pass: Callable[[Pass], None] | None = None,
) -> tuple[Any, Any]:
    """Train over a corpus; return the final state and the trace of all rounds."""
    traces = []
    for done in passes(learner, stream(sequences), key=key, num_passes=num_passes):
        traces.append(done.trace)
        if on_pass is not None:
            on_pass(done)
    return done.state, jax.tree.map(lambda *parts: np.concatenate(parts), *traces)


def predict(
    scores: Callable[[Any, Sentence], Scores], params: Any, corpus: Stream
) -> jax.Array:
    """Label every token of a corpus, sentence by sentence; pure, to be jitted.

    Args:
      scores: of the model: `models.linear.scores` or `models.bilinear.scores`.
      params: of the model.
      corpus: from `stream`.

    Returns:
      (num_tokens,) int32 labels.
    """

    def one(labels: jax.Array, index: jax.Array) -> tuple[jax.Array, None]:
        example = sentence(corpus, index)
        path = best_path(scores(params, example), example.length)
        # The window reaches into the next sentences, which come later and overwrite.
        start = corpus.starts[index]
        return lax.dynamic_update_slice_in_dim(labels, path.labels, start, 0), None

    order = jnp.arange(corpus.starts.shape[0], dtype=jnp.int32)
    labels, _ = lax.scan(one, jnp.zeros_like(corpus.labels), order)
    return labels[: labels.shape[0] - corpus.window]


@functools.partial(jax.jit, static_argnums=(0, 4))
def _predict_padded(
    model: ModuleType, params: Any, ids: jax.Array, lengths: jax.Array, space: Space
) -> jax.Array:
    num_sentences, num_positions = ids.shape[:2]
    found = model.positions(params, ids.reshape(-1, ids.shape[2]), space)
    found = jax.tree.map(
        lambda part: part.reshape(num_sentences, num_positions, *part.shape[1:]), found
    )
    scores = model.with_transitions(params, *found)
    return best_path_batch(scores.unary, scores.pairwise, lengths).labels


def predict_batch(
    model: ModuleType,
    params: Any,
    sequences: Sequences,
    *,
    max_tokens: int = 16384,
) -> np.ndarray:
    """Label every token of a corpus, many sentences at a time.

    Sentences of like length are padded together, so an accelerator has thousands of
    positions to work on at once. A function of the host: it compiles one program for
    each of a few lengths and keeps them.

    Args:
      model: `models.linear` or `models.bilinear`.
      params: of the model.
      sequences: from `features`.
      max_tokens: padded positions at a time; bounds the memory.

    Returns:
      (num_tokens,) int32 labels.
    """
    checks.whole(max_tokens=max_tokens)
    offsets = np.asarray(sequences.offsets)
    lengths = np.diff(offsets)
    labels = np.zeros(sequences.num_tokens, np.int32)
    for indices, length in length_buckets(lengths):
        # One shape a length: the last group is filled up with empty sentences.
        size = min(len(indices), max(1, max_tokens // length))
        for begin in range(0, len(indices), size):
            group = indices[begin : begin + size]
            ids, _, mask = pad_sequences(sequences, group, length)
            missing = size - len(group)
            ids = np.pad(ids, ((0, missing), (0, 0), (0, 0)))
            counts = np.pad(lengths[group], (0, missing)).astype(np.int32)
            found = _predict_padded(model, params, ids, counts, sequences.space)
            where = (offsets[group][:, None] + np.arange(length))[mask]
            labels[where] = np.asarray(found)[: len(group)][mask]
    return labels
