"""What is compiled for several devices: programs whose data or tables are spread.

Sharding is as `lowrank_jax.sharding` lays arrays out. `online.padded` has no call of
its own there: its sentences are spread, and the weights are on all devices.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, PartitionSpec

from experiments.accelerators import programs
from experiments.accelerators.programs import Program, Shapes
from lowrank_jax import online
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.batch.smm import fobos, smoothed

__all__ = ["SPREAD", "Spread"]


class Spread(NamedTuple):
    """A program on several devices."""

    build: Callable[[Shapes, int], Program]
    devices: tuple[int, ...] = programs.DEVICES

    def __call__(self, shapes: Shapes, mesh: Mesh) -> Program:
        """Return the program for a mesh."""
        return self.build(shapes, mesh.size)


_SPREAD, _WHOLE = PartitionSpec("data"), PartitionSpec()


def _lanes(shapes: Shapes, count: int) -> Program:
    del count  # 256 lanes are a multiple of it
    by_lane = PartitionSpec(None, "data")
    names = ("feature_ids", "labels", "previous", "is_inside")
    specs = {
        field.name: by_lane if field.name in names else _WHOLE
        for field in dataclasses.fields(shapes.lanes)
        if not field.metadata.get("static")
        and getattr(shapes.lanes, field.name) is not None
    }
    lanes = dataclasses.replace(shapes.lanes, **specs)
    return programs._gradient(shapes)._replace(shardings=(_WHOLE, lanes))


def _words(learner: Callable[[], Any]) -> Callable[[Shapes, int], Program]:
    def build(shapes: Shapes, count: int) -> Program:
        shares = programs._whole(lambda given: given.shares[count], learner, 15000)
        return shares(shapes)._replace(shardings=(_WHOLE, _SPREAD))

    return build


def _rounds(number: int) -> Callable[[Shapes, int], Program]:
    def build(shapes: Shapes, count: int) -> Program:
        del count
        built = programs._padded("first", online.padded.bol, number)(shapes)
        return built._replace(shardings=(_WHOLE, _SPREAD))

    return build


def _matrices(shapes: Shapes, count: int) -> Program:
    del count
    given, made = programs._matrices(64, 1000, 1000), bcpd.learner(rank=2, mu1=0.01)
    built = programs._whole(given, lambda: made, 64)(shapes)
    return built._replace(shardings=(_WHOLE, _SPREAD))


def _rows(shapes: Shapes, count: int) -> Program:
    """Return the average of a state whose tables are spread by feature."""
    number = shapes.first.space.num_features + 1
    filled = -(-number // count) * count
    state = programs._bol_state(shapes, dual="dense", averaging="factors")

    def is_table(leaf: Any) -> bool:
        return leaf.ndim > 1 and leaf.shape[0] == number

    def longer(leaf: Any) -> Any:
        return leaf.update(shape=(filled, *leaf.shape[1:])) if is_table(leaf) else leaf

    specs = jax.tree.map(lambda leaf: _SPREAD if is_table(leaf) else _WHOLE, state)
    given = (jax.tree.map(longer, state),)
    return Program(online.bol.final_params, given, 0, shardings=(specs,))


#: Name of each program to the programs for several numbers of devices.
SPREAD: dict[str, Spread] = {
    **{
        f"online.padded.bol, {number} sentences, spread": Spread(_rounds(number))
        for number in (64, 256)
    },
    "batch.crf, gradient, spread": Spread(_lanes),
    "batch.smm.fobos, an iteration, spread": Spread(_words(fobos.learner)),
    "batch.smm.smoothed, an iteration, spread": Spread(_words(smoothed.learner)),
    "batch.sblr.bcpd 64 x 1000 x 1000, an iteration, spread": Spread(_matrices),
    "bol.final_params, spread": Spread(_rows),
}
