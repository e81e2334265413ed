"""Run a learner over a stream of examples: the only place that runs an `update`.

A stream (`types.Stream`) hands out one example at a time. An online learner makes one
round per example, and a pass is one `lax.scan` over all of them. A batch learner takes
all data as one example (`streams.Whole`), and a pass is one iteration.
"""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from lowrank_jax import checks
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.streams import sentences
from lowrank_jax.types import Example, Info, Learner, State, Stream, Whole

__all__ = [
    "Pass",
    "Rounds",
    "as_stream",
    "converge",
    "is_wide",
    "pass_order",
    "passes",
    "run",
    "start",
    "sweep",
    "train",
]
__dir__ = __all__.copy


def run(
    learner: Learner[State, Info, Any], state: State, stream: Stream, order: jax.Array
) -> tuple[State, Info]:
    """Scan `learner.update` over the examples in `order`. Pure; jit it.

    Args:
      learner: Learner of `online`, or of `batch` if the stream is a `streams.Whole`.
      state: State from `learner.init` or from an earlier run.
      stream: Stream of examples.
      order: Index of the example of each round, (num_rounds,) int32.

    Returns:
      The final state and the trace, which is `Info` with each field stacked over
      rounds. The trace of a `streams.Whole` is the `Info` of its one iteration.
    """
    if isinstance(stream, Whole):  # no scan: a scan may copy the state
        return learner.update(state, stream.data)

    def round_of(state: Any, index: jax.Array) -> tuple[Any, Any]:
        return learner.update(state, stream.example(index))

    return lax.scan(round_of, state, order)


@functools.partial(jax.jit, static_argnums=2)
def pass_order(key: jax.Array, index: int, num_examples: int) -> jax.Array:
    """Return the order of pass `index`, a shuffle that depends on arguments only.

    `passes`, `train` and `sweep` with this key run the examples in this order.
    """
    checks.random_key(key)
    return jax.random.permutation(
        jax.random.fold_in(jax.random.split(key)[1], index),
        jnp.arange(num_examples, dtype=jnp.int32),
    )


def as_stream(data: Any) -> Stream:
    """Return a stream of the data, which may be a stream already.

    Args:
      data: Stream; sentences as `features` gives them; or a pytree of examples of one
        shape, stacked along the first axis of each leaf.
    """
    if isinstance(data, Sequences | Corpus):  # for a corpus, an error says what to do
        return sentences.stream(data)  # type: ignore[arg-type]
    if hasattr(data, "num_examples") and hasattr(data, "example"):
        return data
    from lowrank_jax.streams.stacked import Stacked  # a sentence needs no more files

    return Stacked(data)


def _checked(data: Any, key: jax.Array) -> Stream:
    """Return a stream of the data, and raise if data or key cannot be used."""
    checks.random_key(key)
    stream = as_stream(data)
    stream.check()
    return stream


def start(learner: Learner[State, Any, Any], data: Any, *, key: jax.Array) -> State:
    """Return the state that `passes` and `train` start from with this key.

    Args:
      learner: Learner of `online`, or of `batch` if the stream is a `streams.Whole`.
      data: Data as `as_stream` takes them.
      key: Random key of the run.
    """
    state: State = _start(learner, key, _checked(data, key))
    return state


@functools.partial(jax.jit, static_argnums=0)
def _start(learner: Learner, key: jax.Array, stream: Stream) -> Any:
    """Return the state before the first round, as one program."""
    key = key if isinstance(stream, Whole) else jax.random.split(key)[0]
    return learner.init(key, stream.example(0))


@functools.lru_cache(maxsize=8)
def _program(learner: Learner) -> Any:
    """Jit a pass of this learner. Another run of the same shapes does not recompile."""
    return jax.jit(lambda *given: run(learner, *given), donate_argnums=0)


class Pass(NamedTuple, Generic[State, Info]):
    """One pass over the examples.

    Attributes:
      pass_index: Index of the pass, from 0.
      state: State after the pass. The next pass donates its buffers, so copy what you
        keep.
      trace: `Info` of the pass, stacked over rounds, on the host.
      seconds: Duration of the pass without compilation.
      compile_seconds: Duration of the compilation before this pass.
    """

    pass_index: int
    state: State
    trace: Info
    seconds: float
    compile_seconds: float


def passes(
    learner: Learner[State, Info, Any],
    stream: Any,
    *,
    key: jax.Array,
    num_passes: int,
    state: Any = None,
    first_pass: int = 0,
    every: int | None = None,
    on_rounds: Callable[[int, Any], None] | None = None,
    batch_size: int | str | tuple[int, ...] = 1,
    mesh: Mesh | None = None,
) -> Iterator[Pass[State, Info]]:
    """Train, and yield each pass as it ends.

    The order of a pass depends only on the key and the index of the pass. A run that
    resumes from a saved state with `first_pass` therefore equals an unbroken run, bit
    for bit. A batch learner ends early when `Info.converged` is true. If the tables of
    a learner become full (`Learner.grow`), they grow between two rounds, and the rounds
    that were not done are done next. This takes a compilation.

    Args:
      learner: Learner of `online`, or of `batch` if the stream is a `streams.Whole`.
      stream: Examples, as `as_stream` takes them.
      key: Random key of the start and of the shuffles.
      num_passes: Number of passes in all, including those before `first_pass`.
      state: State to resume from; None starts anew. Its buffers are donated.
      first_pass: Index of the first pass to run.
      every: Number of rounds between two calls of `on_rounds` within a pass. None
        calls it only at the end of a pass. The result does not depend on it.
      on_rounds: Function of the number of rounds since the first pass, and of the
        state. The next rounds donate the buffers of the state, so copy what you keep.
      batch_size: Number of examples per update, B: a number, or a schedule by pass such
        as ``"8,16,64"``. Above 1 the rounds are wide (`online.wide`), and the trace is
        `online.wide.Info` by example. 1 is the learner itself.
      mesh: Devices to share each batch (`sharding.mesh`); None takes one device. The
        result does not depend on their number.
    """
    checks.whole(num_passes=num_passes)
    checks.whole(least=0, first_pass=first_pass)
    if every is not None:
        checks.whole(every=every)
    stream = _checked(stream, key)
    is_whole, size = isinstance(stream, Whole), stream.num_examples
    began = time.perf_counter()
    if state is None:
        state = _start(learner, key, stream)
    if is_wide(batch_size, 1 if mesh is None else mesh.size):
        yield from _wide_passes(
            learner,
            stream,
            state,
            batch_size=batch_size,
            mesh=mesh,
            num_passes=num_passes,
            first_pass=first_pass,
            order_of=lambda index: pass_order(key, index, size),
            every=every,
            on_rounds=on_rounds,
        )
        return
    length = size if every is None else min(every, size)
    ends = [*range(length, size, length), size]
    starts = [0, *ends[:-1]]
    order = pass_order(key, first_pass, size)
    compiled = {
        count: _compile(_program(learner), state, stream, order[:count])
        for count in {end - start for start, end in zip(starts, ends, strict=True)}
    }
    jax.block_until_ready(state)
    rounds = Rounds(learner, stream)
    rounds.compiled |= {(n, _shapes(state)): made for n, made in compiled.items()}
    compile_seconds = time.perf_counter() - began
    for index in range(first_pass, num_passes):
        order = pass_order(key, index, size).block_until_ready()
        seconds, traces = 0.0, []
        for start, end in zip(starts, ends, strict=True):
            state, trace = rounds.run(state, order[start:end])
            seconds += rounds.seconds
            compile_seconds += rounds.compile_seconds
            traces.append(trace)
            if on_rounds is not None:
                on_rounds(index * size + end, state)
        trace = traces[0] if len(traces) == 1 else _concatenate(traces)
        yield Pass(index, state, trace, seconds, compile_seconds)
        compile_seconds = 0.0
        if is_whole and trace.converged:
            break


def is_wide(batch_size: int | str | tuple[int, ...], num_devices: int = 1) -> bool:
    """Return True unless each update is to take one example, on one device.

    Args:
      batch_size: Number of examples per update, or a schedule, as in `passes`.
      num_devices: Number of devices.
    """
    if batch_size == 1:
        return num_devices > 1
    from lowrank_jax.streams import packs  # rounds of one sentence need no more files

    return packs.check_schedule(batch_size)[-1] > 1 or num_devices > 1


def _wide_passes(
    *given: Any,
    every: int | None,
    on_rounds: Callable[[int, Any], None] | None,
    **settings: Any,
) -> Iterator[Pass]:
    """Train in wide rounds; see `lowrank_jax.wide`."""
    from lowrank_jax import wide

    if every is not None:
        raise checks.InputError(
            "`every` is for rounds of one example: leave it out, or take batch_size=1."
        )
    for done in wide.passes(*given, **settings):
        state = done.state()
        if on_rounds is not None:
            on_rounds(int(state.num_rounds), state)
        yield Pass(done.pass_index, state, *done[2:])


class Rounds:
    """Runs some rounds by compiled programs, and grows a state that is full."""

    def __init__(self, learner: Learner, stream: Stream) -> None:
        """Keep the learner and its examples."""
        self.learner, self.stream = learner, stream
        self.compiled: dict[Any, Any] = {}  # by number of rounds and shapes
        self.seconds = self.compile_seconds = 0.0

    def run(self, state: Any, order: jax.Array) -> tuple[Any, Any]:
        """Return the state after these rounds and their trace, on the host."""
        self.seconds, self.compile_seconds, traces = 0.0, 0.0, []
        while True:
            count, began = order.shape[0], time.perf_counter()
            key = count, _shapes(state)
            if key not in self.compiled:
                self.compiled[key] = _compile(
                    _program(self.learner), state, self.stream, order
                )
            ready = time.perf_counter()
            first = int(state.num_rounds) if self.learner.grow else 0
            state, trace = self.compiled[key](state, self.stream, order)
            jax.block_until_ready((state, trace))
            ended = time.perf_counter()
            self.seconds += ended - ready
            trace = jax.device_get(trace)
            done = int(state.num_rounds) - first if self.learner.grow else count
            if done < count:  # the rest was not begun: the state is full
                assert self.learner.grow is not None
                trace = jax.tree.map(lambda part, done=done: part[:done], trace)
                state = jax.block_until_ready(self.learner.grow(state))
            traces.append(trace)
            self.compile_seconds += ready - began + time.perf_counter() - ended
            if done == count:
                return state, traces[0] if len(traces) == 1 else _concatenate(traces)
            order = order[done:]


def train(
    learner: Learner[State, Info, Any],
    stream: Any,
    *,
    key: jax.Array,
    num_passes: int,
    batch_size: int | str | tuple[int, ...] = 1,
    mesh: Mesh | None = None,
) -> tuple[State, Info]:
    """Train by passes; return the final state and the trace of all rounds.

    Args:
      learner: Learner of `online`.
      stream: Examples, as `as_stream` takes them: a stream, sentences, or a pytree of
        stacked examples.
      key: Random key of the start and of the shuffles.
      num_passes: Number of passes.
      batch_size: Number of examples per update, as in `passes`.
      mesh: Devices, as in `passes`.
    """
    traces = []
    begin = functools.partial(passes, learner, stream, key=key, num_passes=num_passes)
    for done in begin(batch_size=batch_size, mesh=mesh):
        traces.append(done.trace)
    return done.state, _concatenate(traces)


def sweep(
    learner_of: Callable[[Any], Learner],
    values: Any,
    data: Any,
    key: jax.Array,
    *,
    num_passes: int = 1,
    keep: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """Train one learner per value of a hyper-parameter, all from the same key.

    One program is compiled for all values. On a CPU the runs go one after the other
    (`lax.map`), because `vmap` over a sequence learner makes each round pay for the
    longest sentence and for both sides of each branch. Elsewhere they go side by side.

    Args:
      learner_of: Function from one value to a learner. The value is traced, so it may
        set real hyper-parameters (a step size), not shapes or names.
      values: Pytree of values, stacked along the first axis of each leaf.
      data: Data as `as_stream` takes them.
      key: Random key of the starts and of the shuffles, as in `train`.
      num_passes: Number of passes.
      keep: Function of the final state and the trace of a run that returns what to
        keep. None keeps both, which for large tables is much.

    Returns:
      What `keep` returns, stacked over the values.
    """
    checks.whole(num_passes=num_passes)
    stream = _checked(data, key)
    size = stream.num_examples

    def one(value: Any, stream: Stream, key: jax.Array) -> Any:
        learner = learner_of(value)
        state = learner.init(jax.random.split(key)[0], stream.example(0))
        orders = [pass_order(key, index, size) for index in range(num_passes)]
        state, trace = run(learner, state, stream, jnp.concatenate(orders))
        kept = (state, trace) if keep is None else keep(state, trace)
        return kept, None if learner.grow is None else state.num_rounds

    @jax.jit
    def all_of(values: Any, stream: Stream, key: jax.Array) -> Any:
        if jax.default_backend() == "cpu":
            return lax.map(lambda value: one(value, stream, key), values)
        return jax.vmap(lambda value: one(value, stream, key))(values)

    kept, num_rounds = all_of(values, stream, key)
    if num_rounds is not None and int(num_rounds.min()) < size * num_passes:
        raise checks.InputError(
            "The tables of a run became full, and a sweep cannot grow them: "
            "build the learner with a larger `capacity`, or with dual='dense'."
        )
    return kept


def converge(
    learner: Learner[State, Any, Example],
    state: State,
    data: Example,
    *,
    max_iterations: int,
) -> tuple[State, Any, jax.Array]:
    """Repeat the `update` of a batch learner until `Info.converged`. Pure; jit it.

    One program holds the loop and the stopping rule. Under `vmap` it runs many problems
    side by side, and each stops by itself.

    Args:
      learner: Learner of `batch` whose `Info` has `converged`.
      state: State from `learner.init` or from an earlier run.
      data: Data that the `update` takes.
      max_iterations: Largest number of iterations, at least 1. Static.

    Returns:
      The final state; the trace, each field of `Info` stacked over `max_iterations`
      (zeros after the last one); and the number of iterations.
    """
    checks.whole(max_iterations=max_iterations)
    shapes = jax.eval_shape(learner.update, state, data)[1]
    trace = jax.tree.map(
        lambda part: jnp.zeros((max_iterations, *part.shape), part.dtype), shapes
    )

    def advance(carry: tuple) -> tuple:
        state, trace, done, _ = carry
        state, info = learner.update(state, data)
        trace = jax.tree.map(lambda all, part: all.at[done].set(part), trace, info)
        return state, trace, done + 1, info.converged

    start = (state, trace, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    state, trace, num_iterations, _ = lax.while_loop(
        lambda carry: (carry[2] < max_iterations) & ~carry[3], advance, start
    )
    return state, trace, num_iterations


def _shapes(state: Any) -> tuple:
    return tuple(np.shape(leaf) for leaf in jax.tree.leaves(state))


def _compile(program: Any, *given: Any) -> Any:
    """Compile ahead of time, so that compilation is timed separately."""
    if jax.config.jax_disable_jit:  # type: ignore[attr-defined]
        return program
    return program.lower(*given).compile()


def _concatenate(traces: list[Any]) -> Any:
    return jax.tree.map(lambda *parts: np.concatenate(parts), *traces)
