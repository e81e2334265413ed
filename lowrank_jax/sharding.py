r"""What outgrows one device: data, tables or runs put across a mesh of devices.

Nothing here computes. Arrays are laid out (`jax.sharding.NamedSharding`), and the
learners, which are array programs, run unchanged: the compiler makes their sums over
the data across devices. Five things can be too large for one device, or too slow:

=============  =====================================================================
`shard`        matrices of the batch learners, by matrix
`shard_lanes`  sentences of `batch.crf`, by lane
`shard_words`  words of `batch.fobos` and `batch.smoothed`, by share
`shard_rows`   weight tables of the sequence models, by feature
`spread`       many runs at once (seeds, folds, hyper-parameters), by run
=============  =====================================================================

An axis that does not divide by the number of devices is filled up: matrices of weight
0, rows that no feature has, runs that are thrown away. Over several processes
(`jax.distributed`) the same calls are made by each of them, on a mesh of all devices.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.streams.lanes import Lanes
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.streams.words import Lattice

__all__ = ["mesh", "shard", "shard_lanes", "shard_rows", "shard_words", "spread"]
__dir__ = __all__.copy


def mesh(num_devices: int | None = None, *, axis: str = "data") -> Mesh:
    """Return the first devices in a row, over all processes.

    Args:
      num_devices: Number of devices; None takes all there are.
      axis: Name of the one axis.

    Raises:
      InputError: If there are not so many.
    """
    devices = jax.devices()
    if num_devices is None:
        num_devices = len(devices)
    checks.whole(num_devices=num_devices)
    if num_devices > len(devices):
        raise InputError(
            f"`num_devices` must lie in 1..{len(devices)}, the {devices[0].platform} "
            f"devices there are, got {num_devices}."
        )
    return Mesh(np.array(devices[:num_devices]), (axis,), (AxisType.Auto,))


def shard(labelled: Labelled, mesh: Mesh) -> Labelled:
    r"""Put matrices across devices, each holding its share of them.

    Matrices of zeros with weight 0 fill up the last share. The loss, its gradient and
    the constants are sums over matrices times weights, so they change nothing, with
    one exception: `batch.fista` with ``step="backtracking"`` begins at a constant that
    depends on n where :math:`n \le st`, and goes another way to the same minimum.

    Each device is sent its own rows only. Arrays of the host, `numpy.memmap` among
    them, are never whole on any device; `streams.matrices.label_matrices` puts them on
    one, so make the `Labelled` of arrays of the host where that is too much.

    Args:
      labelled: Matrices, the same in each process. Not to be traced.
      mesh: Mesh of one axis.

    Returns:
      The same with n rounded up to a multiple of the devices.

    Raises:
      InputError: If the parts differ in n.
    """
    host = jax.tree.map(np.asarray, labelled)  # a file mapped into memory stays there
    sizes = {part.shape[0] for part in host if part is not None}
    if len(sizes) != 1:
        raise InputError(
            f"`labelled` must have one n throughout, got {sorted(sizes)} matrices."
        )
    num_rows = _filled(sizes.pop(), mesh)

    def place(part: np.ndarray) -> jax.Array:
        def rows(index: Any) -> np.ndarray:
            start, stop, _ = index[0].indices(num_rows)
            found = part[start:stop].astype(dtype)
            missing = stop - start - found.shape[0]
            return np.pad(found, [(0, missing)] + [(0, 0)] * (found.ndim - 1))

        dtype = jax.dtypes.canonicalize_dtype(part.dtype)
        shape = (num_rows, *part.shape[1:])
        return jax.make_array_from_callback(shape, _rows(mesh), rows, dtype=dtype)

    return jax.tree.map(place, host)


def shard_lanes(lanes: Lanes, mesh: Mesh) -> Lanes:
    """Put the sentences of `batch.crf` across devices, each holding its share of lanes.

    Scores and recursions then run on the sentences of each device. The marginals are
    exchanged, and the gradient is the same on all devices.

    Args:
      lanes: Corpus from `streams.lanes.lanes` with ``num_devices=mesh.size``.
      mesh: Mesh of one axis.

    Raises:
      InputError: If the devices would not get equally many lanes.
    """
    number = lanes.labels.shape[1]
    if number % mesh.size:
        raise InputError(
            f"`lanes` has {number} lanes, which is no multiple of the {mesh.size} "
            f"devices: make it by streams.lanes.lanes(..., num_devices={mesh.size})."
        )
    by_lane = NamedSharding(mesh, PartitionSpec(None, _axis(mesh)))
    whole = NamedSharding(mesh, PartitionSpec())
    names = ("feature_ids", "labels", "previous", "is_inside", "values", "weights")
    placed = {
        field.name: jax.device_put(
            getattr(lanes, field.name), by_lane if field.name in names else whole
        )
        for field in dataclasses.fields(lanes)
        if not field.metadata.get("static")
    }
    return dataclasses.replace(lanes, **placed)


def shard_words(lattice: Lattice, mesh: Mesh) -> Lattice:
    """Put the words of `batch.fobos` and `batch.smoothed` across devices, by share.

    Each device decodes its words. The counts of factors are added up, and the spectrum
    is found on all devices.

    Args:
      lattice: Corpus from `streams.words.batches` with ``num_batches=mesh.size`` and
        ``has_all=True``.
      mesh: Mesh of one axis.

    Raises:
      InputError: If there is not one share for each device.
    """
    if lattice.table_base.shape[:-2] != (mesh.size,):
        raise InputError(
            f"`lattice` must have a share for each of the {mesh.size} devices: make it "
            f"by streams.words.batches(..., num_batches={mesh.size}, has_all=True)."
        )
    return jax.device_put(lattice, _rows(mesh))


def shard_rows(tree: Any, mesh: Mesh, *, num_features: int) -> Any:
    """Put the tables of a sequence model across devices, by feature; pure.

    A table is an array of two axes or more with K + 1 rows (so there must not be just
    as many labels). Rows of zeros fill it up: no feature has them, they are neither
    read nor written. What is no table is copied to all devices. Where a table is too
    large for one device, make it in place:
    ``jax.jit(lambda key, example: shard_rows(learner.init(key, example), ...))``.

    For `models.linear` and `models.bilinear`, and for the states of
    `online.perceptron` and `online.bol` with ``dual="dense"`` (`final_params` of BOL is
    slow if the state averages in the dual: its time grows with the square of K). Sparse
    states are not put across devices: their tables hold touched features only, in the
    order of their first mistake.

    Args:
      tree: Parameters or a state.
      mesh: Mesh of one axis.
      num_features: K, `Space.num_features`.

    Raises:
      InputError: If nothing in the tree is such a table.
    """
    checks.whole(num_features=num_features)
    num_rows = num_features + 1
    missing = _filled(num_rows, mesh) - num_rows
    whole = NamedSharding(mesh, PartitionSpec())
    num_tables = 0

    def place(part: jax.Array) -> jax.Array:
        nonlocal num_tables
        if part.ndim < 2 or part.shape[0] != num_rows:
            return jax.lax.with_sharding_constraint(part, whole)
        num_tables += 1
        part = jnp.pad(part, [(0, missing)] + [(0, 0)] * (part.ndim - 1))
        return jax.lax.with_sharding_constraint(part, _rows(mesh))

    tree = jax.tree.map(place, tree)
    if not num_tables:
        raise InputError(
            f"`tree` must have a table of `num_features` + 1 = {num_rows} rows, and "
            "has none. A state of `online.bol` or of a first-order perceptron has "
            "such tables with dual='dense'."
        )
    return tree


def spread(
    function: Callable[..., Any], mesh: Mesh, *, in_axes: int | tuple = 0
) -> Callable[..., Any]:
    """Return ``jit(vmap(function))``, the runs dealt out to the devices.

    Each device runs its share by itself: nothing passes between them, and a loop with a
    stopping rule (`loops.converge`) ends where the slowest run of that device does.

    Args:
      function: Pure function of one run.
      mesh: Mesh of one axis.
      in_axes: 0 if all arguments are stacked over runs, or for each argument 0, or None
        where all runs are given the same: that is copied to all devices.

    Returns:
      Function of the stacked arguments. Its results are stacked in the same order.

    Raises:
      InputError: If `in_axes` is something else, or the runs are not as many in all
        stacked arguments.
    """
    axis = _axis(mesh)
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,)
    if 0 not in axes or not set(axes) <= {0, None}:
        raise InputError(
            "`in_axes` must be 0, or a tuple of 0 and None with at least one 0, got "
            f"{in_axes!r}."
        )

    def run(*given: Any) -> Any:
        each = axes if isinstance(in_axes, tuple) else axes * len(given)
        if len(each) != len(given):
            raise InputError(
                f"`in_axes` has {len(each)} entries for {len(given)} arguments."
            )
        stacked = [part for part, one in zip(given, each, strict=True) if one == 0]
        sizes = {leaf.shape[:1] for leaf in jax.tree.leaves(stacked)}
        if len(sizes) != 1 or () in sizes:
            raise InputError(
                "Stacked arguments must all have the same number of runs, got first "
                f"axes of {', '.join(map(str, sorted(sizes)))}."
            )
        ((num_runs,),) = sizes
        # The last run is made again where there is room.
        which = jnp.minimum(jnp.arange(_filled(num_runs, mesh)), num_runs - 1)
        given = tuple(
            jax.tree.map(lambda leaf: leaf[which], part) if one == 0 else part
            for part, one in zip(given, each, strict=True)
        )
        found = jax.shard_map(
            jax.vmap(function, in_axes=each),
            mesh=mesh,
            in_specs=tuple(
                PartitionSpec(axis) if one == 0 else PartitionSpec() for one in each
            ),
            out_specs=PartitionSpec(axis),
            check_vma=False,  # loops begin with constants, the same on all devices
        )(*given)
        return jax.tree.map(lambda leaf: leaf[:num_runs], found)

    return jax.jit(run)


def _axis(mesh: Mesh) -> str:
    """Return the name of the one axis."""
    if len(mesh.axis_names) != 1:
        raise InputError(
            f"`mesh` must have one axis, got {mesh.axis_names}; `sharding.mesh` makes "
            "one."
        )
    return mesh.axis_names[0]


def _rows(mesh: Mesh) -> NamedSharding:
    """Return the layout with the first axis across the devices."""
    return NamedSharding(mesh, PartitionSpec(_axis(mesh)))


def _filled(size: int, mesh: Mesh) -> int:
    """Return the size rounded up to a multiple of the number of devices."""
    return -(-size // mesh.size) * mesh.size
