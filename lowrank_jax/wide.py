"""Passes in wide rounds: batches of examples, on one device or on a mesh.

`loops.passes` calls `passes` for a batch size above 1. A pass is one program: a scan
over its rounds. The plan of a pass (`streams.packs`) is made on the host while the pass
before runs. On a mesh the program runs on all devices, of one process or of several
(`jax.distributed`), and the result does not depend on their number.
"""

import concurrent.futures
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lowrank_jax import checks
from lowrank_jax.streams import packs
from lowrank_jax.types import Learner, Stream, fingerprints

__all__ = ["Done", "Runner", "passes"]
__dir__ = __all__.copy


class Done(NamedTuple):
    """One pass; `state` is a function that returns the state on one device."""

    pass_index: int
    state: Callable[[], Any]
    trace: Any
    seconds: float
    compile_seconds: float


def passes(
    learner: Learner,
    stream: Stream,
    state: Any,
    *,
    batch_size: int | str | tuple[int, ...],
    mesh: Mesh | None,
    num_passes: int,
    first_pass: int,
    order_of: Callable[[int], Any],
) -> Iterator[Done]:
    """Train in wide rounds, and yield each pass as it ends.

    Args:
      learner: Learner with wide rounds (`Learner.wide`).
      stream: Examples.
      state: State to begin with.
      batch_size: Batch size, or a schedule of batch sizes by pass.
      mesh: Mesh of one axis; None runs on one device.
      num_passes: Number of passes in all, including those before `first_pass`.
      first_pass: Index of the first pass to run.
      order_of: Function from the index of a pass to its order.
    """
    schedule = packs.check_schedule(batch_size)
    if learner.wide is None:
        raise checks.InputError(
            "This learner has no wide rounds: take `batch_size` 1 without a mesh."
        )
    began = time.perf_counter()
    runner = Runner(learner, stream, mesh)
    runner.state = runner.placed(state)
    compile_seconds, marks = time.perf_counter() - began, None
    with concurrent.futures.ThreadPoolExecutor(1) as pool:

        def ask(index: int) -> Any:
            size = schedule[min(index, len(schedule) - 1)]
            order = np.asarray(order_of(index))
            return order, pool.submit(runner.plan, order, size, index == 0)

        asked = ask(first_pass) if first_pass < num_passes else None
        for index in range(first_pass, num_passes):
            assert asked is not None
            began = time.perf_counter()
            order, planned = asked
            shapes, plan = planned.result()
            waited = time.perf_counter() - began
            began = time.perf_counter()
            runner.prepare(shapes, plan)
            compile_seconds += time.perf_counter() - began
            later = index + 1
            asked = ask(later) if later < num_passes else None
            trace = runner.run(shapes, plan)
            if getattr(trace, "predicted", None) is not None:
                marks = np.asarray(fingerprints(stream)) if marks is None else marks
                trace = trace._replace(fingerprint=marks[order])
            yield Done(
                index,
                functools.partial(runner.gathered, runner.state),
                trace,
                waited + runner.seconds,
                compile_seconds + runner.compile_seconds,
            )
            compile_seconds = 0.0


class Runner:
    """Runs passes by compiled programs, and grows a state that is full."""

    def __init__(
        self, learner: Learner, stream: Stream, mesh: Mesh | None = None
    ) -> None:
        """Put the stream on the devices."""
        if mesh is not None and len(mesh.axis_names) != 1:
            raise checks.InputError(
                f"`mesh` must have one axis, got {mesh.axis_names}; `sharding.mesh` "
                "makes one."
            )
        assert learner.wide is not None
        self.learner, self.host = learner, stream
        self.wide = learner.wide()
        self.mesh = mesh if mesh is not None and mesh.size > 1 else None
        self.num_devices = 1 if self.mesh is None else self.mesh.size
        self.axis = None if self.mesh is None else self.mesh.axis_names[0]
        self.stream = self._put(stream, PartitionSpec())
        self.state: Any = None
        self.specs: Any = None
        self.buffers: dict[Any, Any] = {}
        self.compiled: dict[Any, Any] = {}
        self.seconds = self.compile_seconds = 0.0

    def plan(self, order: np.ndarray, size: int, has_ramp: bool) -> tuple[Any, Any]:
        """Return the shapes and the plan of a pass, on the host."""
        shapes = self.wide.layout(self.host, size, self.num_devices)
        sizes = packs.sizes_of(len(order), size, has_ramp=has_ramp)
        return shapes, self.wide.plan(self.host, order, sizes, shapes)

    def prepare(self, shapes: Any, plan: Any) -> None:
        """Make the buffers and the program of these shapes, unless they are there."""
        if shapes not in self.buffers:
            self.buffers.clear()  # they fit another batch size
            self.buffers[shapes] = self._buffers(shapes)
        self.program(shapes, self._placed_plan(plan))
        jax.block_until_ready((self.state, self.buffers[shapes]))

    def run(self, shapes: Any, plan: Any) -> Any:
        """Do a pass; return its trace by example."""
        self.seconds, self.compile_seconds, traces, start = 0.0, 0.0, [], 0
        began = time.perf_counter()
        given = jax.block_until_ready(self._placed_plan(plan))
        self.seconds += time.perf_counter() - began
        num_rounds = int((plan.size > 0).sum())
        ends = np.cumsum(plan.size)
        before = self._num_examples()
        while True:
            began = time.perf_counter()
            program = self.program(shapes, given)
            ready = time.perf_counter()
            first = self._put(jnp.asarray(start, jnp.int32), PartitionSpec())
            self.state, self.buffers[shapes], infos = program(
                self.state, self.buffers[shapes], self.stream, given, first
            )
            jax.block_until_ready((self.state, infos))
            ended = time.perf_counter()
            self.seconds += ended - ready
            done = self._num_examples() - before
            end = int(np.searchsorted(ends, done)) + 1 if done else 0
            infos = jax.device_get(infos)
            traces.append(jax.tree.map(lambda x, n=end - start: x[:n], infos))
            if end < num_rounds:  # the rest was not begun: the state is full
                assert self.learner.grow is not None
                state = self.learner.grow(self.gathered(self.state))
                self.state = jax.block_until_ready(self.placed(state))
            self.compile_seconds += ready - began + time.perf_counter() - ended
            if end == num_rounds:
                break
            start = end
        joined = jax.tree.map(lambda *parts: np.concatenate(parts), *traces)
        return self.wide.trace(self.host, plan, joined)

    def placed(self, state: Any) -> Any:
        """Return a state of one device, laid out for the devices of the run."""
        if self.mesh is None:
            return state
        state, is_owned = self.wide.spread(state, self.num_devices)
        own = PartitionSpec(self.axis)
        specs = jax.tree.map(lambda one: own if one else PartitionSpec(), is_owned)
        self.specs = specs
        return jax.tree.map(self._put, state, specs)

    def gathered(self, state: Any) -> Any:
        """Return the state on one device; the inverse of `placed`."""
        if self.mesh is None:
            return state
        whole = NamedSharding(self.mesh, PartitionSpec())
        held = jax.jit(lambda part: part, out_shardings=whole)(state)
        return jax.tree.map(jnp.asarray, self.wide.gather(jax.device_get(held)))

    def _num_examples(self) -> int:
        return int(np.asarray(self.state.num_rounds))

    def _placed_plan(self, plan: Any) -> Any:
        if self.mesh is None:
            return jax.tree.map(jnp.asarray, plan)
        return jax.tree.map(self._put, plan, self._plan_specs(plan))

    def _plan_specs(self, plan: Any) -> Any:
        own, whole = PartitionSpec(self.axis), PartitionSpec()
        return type(plan)(*[own if k in plan.owned else whole for k in plan._fields])

    def _put(self, tree: Any, spec: PartitionSpec) -> Any:
        """Put arrays of the host on the mesh; each process has all of them."""
        if self.mesh is None:
            return tree
        sharding = NamedSharding(self.mesh, spec)

        def put(part: Any) -> jax.Array:
            host = np.asarray(part)
            return jax.make_array_from_callback(
                host.shape, sharding, lambda index: host[index]
            )

        return jax.tree.map(put, tree)

    def _buffers(self, shapes: Any) -> Any:
        """Return the buffers of all devices, with an axis of devices in front."""

        def make(stream: Stream) -> Any:
            one = self.wide.buffers(stream, shapes)
            return jax.tree.map(
                lambda part: jnp.zeros((self.num_devices, *part.shape), part.dtype), one
            )

        if self.mesh is None:
            return jax.jit(make)(self.stream)
        own = NamedSharding(self.mesh, PartitionSpec(self.axis))
        return jax.jit(make, out_shardings=own)(self.stream)

    def program(self, shapes: Any, plan: Any) -> Any:
        """Return the compiled program of a pass; the plan may be on the host."""
        given = self.state, self.buffers[shapes], self.stream, plan
        key = tuple(np.shape(leaf) for leaf in jax.tree.leaves(given))
        if key in self.compiled:
            return self.compiled[key]
        run = functools.partial(_run, self.wide, shapes, self.axis, self.specs)
        if self.mesh is not None:
            own, whole = PartitionSpec(self.axis), PartitionSpec()
            run = jax.shard_map(
                run,
                mesh=self.mesh,
                in_specs=(self.specs, own, whole, self._plan_specs(plan), whole),
                out_specs=(self.specs, own, whole),
                check_vma=False,  # loops begin with constants, the same everywhere
            )
        program: Any = jax.jit(run, donate_argnums=(0, 1))
        if not jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            first = self._put(jnp.zeros((), jnp.int32), PartitionSpec())
            program = program.lower(*given, first).compile()
        self.compiled[key] = program
        return program


def _run(
    wide: Any,
    shapes: Any,
    axis: str | None,
    specs: Any,
    state: Any,
    buffers: Any,
    stream: Stream,
    plan: Any,
    start: jax.Array,
) -> tuple[Any, Any, Any]:
    """Scan over the rounds of a pass from round `start` on: one device's part."""
    buffers = jax.tree.map(lambda part: part[0], buffers)
    plan = plan._replace(**{name: getattr(plan, name)[0] for name in plan.owned})
    if axis is not None:
        state = jax.tree.map(lambda x, s: x[0] if s else x, state, specs)

    def one(carry: tuple, index: jax.Array) -> tuple[tuple, Any]:
        here = packs.Round(stream, plan, index, shapes, axis)
        state, buffers, info = wide.update(*carry, here)
        return (state, buffers), info

    # The last round of a plan is empty, so a run that goes on ends with empty rounds.
    rounds = start + jnp.arange(shapes.num_rounds, dtype=jnp.int32)
    rounds = jnp.minimum(rounds, shapes.num_rounds - 1)
    (state, buffers), infos = lax.scan(one, (state, buffers), rounds)
    if axis is not None:
        state = jax.tree.map(lambda x, s: x[None] if s else x, state, specs)
    return state, jax.tree.map(lambda part: part[None], buffers), infos
