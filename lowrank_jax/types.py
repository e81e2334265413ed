"""What passes between the layers: a learner, its stream of examples, one sentence.

Strings end at `features`. After it, a corpus is a `data.sequences.Sequences`: flat
arrays over all tokens and the offsets of the sentences. One example of a sequence
learner is a `Sentence`: a window of fixed size on those arrays, and its true length.
"""

import dataclasses
import inspect
import re
import zlib
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp

from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Space

__all__ = [
    "Learner",
    "Sentence",
    "Stream",
    "Whole",
    "check_dtype",
    "documented",
    "fingerprint",
    "fingerprints",
]
__dir__ = __all__.copy


def check_dtype(dtype: Any) -> None:
    """Raise `InputError` if JAX would give another type than the one asked for."""
    wanted = jnp.dtype(dtype)
    if jax.dtypes.canonicalize_dtype(wanted) != wanted:
        raise InputError(
            f"`dtype` {wanted.name} needs double precision, and it is off: call "
            "jax.config.update('jax_enable_x64', True) before any computation, or take "
            "dtype=float32."
        )


Tuple = TypeVar("Tuple", bound=type[NamedTuple])


def documented(cls: Tuple) -> Tuple:
    """Return a named tuple whose fields have the texts of `Attributes:` in `help`."""
    _, _, section = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")
    for name, text in re.findall(r"^ {2}(\w+): (.+(?:\n {4}.+)*)", section, re.M):
        getattr(cls, name).__doc__ = " ".join(text.split())
    return cls


State = TypeVar("State")
Info = TypeVar("Info")
Example = TypeVar("Example")


class Learner(NamedTuple, Generic[State, Info, Example]):
    """Pure functions; `lax.scan(update, state, examples)` runs it.

    Attributes:
      init: ``(key, example) -> State``.
      update: ``(state, example) -> (State, Info)``.
      grow: ``state -> State``, for a learner whose tables may become full. It gives
        a full state more room, and returns any other state as it is.
      wide: Function without arguments that returns the wide rounds of the learner
        (`online.wide`), if it has any.
    """

    init: Callable[[jax.Array, Example], State]
    update: Callable[[State, Example], tuple[State, Info]]
    grow: Callable[[State], State] | None = None
    wide: Callable[[], Any] | None = None


class Stream(Protocol):
    """Examples on the device, one at a time; a registered dataclass."""

    @property
    def num_examples(self) -> int:
        """Number of examples. Static."""

    def example(self, index: jax.Array | int) -> Any:
        """Return one example. Pure; the index may be traced."""

    def check(self) -> None:
        """Raise `InputError` unless the examples can be trained on. On the host."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Whole:
    """A stream of one example, which is all of the data.

    Attributes:
      data: Pytree that the `update` of a batch learner takes.
    """

    data: Any

    @property
    def num_examples(self) -> int:
        """Number of examples, which is 1."""
        return 1

    def example(self, index: jax.Array | int) -> Any:
        """Return all of the data."""
        del index
        return self.data

    def check(self) -> None:
        """Do nothing: whoever made the data has checked them."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sentence:
    """One sequence in a window of fixed size. Tokens beyond `length` are ignored.

    Attributes:
      feature_ids: (window, num_templates) int32, in 0..K; K scores 0.
      labels: (window,) int32, in 0..S-1; -1 for an unknown label.
      length: () int32, number of tokens, at most `window`.
      space: Sizes of the feature space. Static.
      values: (window, num_templates) value of each feature. None means 1 each.
      weight: () weight of the sentence in training. None means 1.
      is_partial: True if labels may be unknown. Static.
    """

    feature_ids: jax.Array
    labels: jax.Array
    length: jax.Array
    space: Space = dataclasses.field(metadata={"static": True})
    values: jax.Array | None = None
    weight: jax.Array | None = None
    is_partial: bool = dataclasses.field(default=False, metadata={"static": True})


def fingerprint(example: Any) -> jax.Array:
    """Return a hash of one example, () uint32; of a sentence up to its length. Pure.

    The hash depends on each number, on its place and on the feature space. A trace
    that holds it says which examples its rounds met.

    Args:
      example: Any pytree of arrays, such as a `Sentence`.
    """
    leaves, structure = jax.tree.flatten(example)
    total = jnp.uint32(zlib.crc32(str(structure).encode()))
    for number, leaf in enumerate(leaves):
        bits = jnp.asarray(leaf)
        if jnp.issubdtype(bits.dtype, jnp.floating):
            bits = jax.lax.bitcast_convert_type(bits, jnp.uint32)
        shape = bits.shape
        places = jnp.arange(bits.size, dtype=jnp.uint32).reshape(shape)
        mixed = _mix(bits.astype(jnp.uint32) ^ _mix(places + jnp.uint32(number << 24)))
        if isinstance(example, Sentence) and jnp.ndim(leaf):
            is_inside = jnp.arange(shape[0], dtype=jnp.int32) < example.length
            is_inside = is_inside.reshape(-1, *(1,) * (len(shape) - 1))
            mixed = jnp.where(is_inside, mixed, 0)
        total = total + mixed.sum(dtype=jnp.uint32)
    return _mix(total)


@jax.jit
def fingerprints(stream: Stream) -> jax.Array:
    """Return the hash of each example of a stream, (num_examples,) uint32."""
    numbers = jnp.arange(stream.num_examples, dtype=jnp.int32)
    return jax.lax.map(lambda index: fingerprint(stream.example(index)), numbers)


def _mix(bits: jax.Array) -> jax.Array:
    """Spread 32 bits, one to one, so that each depends on all."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = (bits ^ (bits >> jnp.uint32(shift))) * jnp.uint32(factor)
    return bits ^ (bits >> jnp.uint32(16))
