"""A learner's update as a portable program: bytes that run without the learner's code.

`export_update` compiles nothing: it lowers the update for CPU, CUDA and TPU and stores
one program for each, with the structure of its arguments. One program for all platforms
would choose between them at run time, and its numbers differ in the last bit from those
of `jit`. `load_update` gives it back as a
function, in another process or a later version of the library. It needs the package
flatbuffers (``pip install lowrank_jax[export]``).
"""

import dataclasses
import functools
import importlib
import importlib.util
import json
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax import export as jax_export

from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Space
from lowrank_jax.types import Learner

__all__ = ["export_update", "load_update", "register"]
__dir__ = __all__.copy

_MARK = b"lowrank_jax update 1\n"


def export_update(
    learner: Learner,
    state: Any,
    example: Any,
    platforms: tuple[str, ...] = ("cpu", "cuda", "tpu"),
) -> bytes:
    """Return `learner.update` as bytes, for states and examples of these shapes.

    Args:
      learner: Learner. Its hyper-parameters become constants of the program.
      state: State, or its shapes (`jax.eval_shape`).
      example: Example, or its shapes.
      platforms: Platforms to lower for.

    Raises:
      InputError: If the package flatbuffers is not installed.
    """
    _check_flatbuffers()
    info = jax.eval_shape(learner.update, state, example)[1]
    classes = list(dict.fromkeys(_classes((state, example, info))))
    register(*classes)
    programs = {
        name: bytes(
            jax_export.export(jax.jit(learner.update), platforms=(name,))(
                state, example
            ).serialize()
        )
        for name in platforms
    }
    head = {
        "classes": [_name(cls) for cls in classes],
        "sizes": {name: len(program) for name, program in programs.items()},
    }
    return b"".join([_MARK, json.dumps(head).encode(), b"\n", *programs.values()])


def load_update(program: bytes) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return the function ``(state, example) -> (state, info)`` of some bytes. Jit it.

    The program is the one for the platform that JAX computes on by default.

    The bytes name the classes of their arguments, and loading imports their modules.
    Load only what you trust.

    Raises:
      InputError: If the bytes are not from `export_update`, or not for this platform.
    """
    _check_flatbuffers()
    mark, text, body = (bytes(program).split(b"\n", 2) + [b"", b""])[:3]
    if mark + b"\n" != _MARK:
        raise InputError(
            f"`program` must be bytes from export_update, got {bytes(program[:20])!r}."
        )
    head, first = json.loads(text), 0
    here = {"gpu": "cuda"}.get(jax.default_backend(), jax.default_backend())
    if here not in head["sizes"]:
        raise InputError(
            f"`program` is for {', '.join(head['sizes'])} and JAX computes on {here}: "
            f"export it with platforms=('{here}',)."
        )
    for name, size in head["sizes"].items():
        if name == here:
            body = body[first : first + size]
            break
        first += size
    for name in head["classes"]:
        module, _, attribute = name.partition(":")
        register(getattr(importlib.import_module(module), attribute))
    return jax_export.deserialize(bytearray(body)).call


@functools.cache
def _register(cls: type) -> None:
    name = _name(cls)
    if issubclass(cls, tuple):
        jax_export.register_namedtuple_serialization(cls, serialized_name=name)
    else:
        jax_export.register_pytree_node_serialization(
            cls,
            serialized_name=name,
            serialize_auxdata=lambda fixed: json.dumps(_plain(fixed)).encode(),
            deserialize_auxdata=lambda text: _fixed(json.loads(bytes(text))),
        )


def register(*classes: type) -> None:
    """Make named tuples and registered dataclasses known to `jax.export`.

    `export_update` and `load_update` do so by themselves. Call it if you serialise
    programs of your own that take states or examples of this library.
    """
    for cls in classes:
        _register(cls)


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _classes(tree: Any) -> Iterator[type]:
    """Yield the classes of the nodes of a pytree that JAX does not know by itself."""
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        if len(jax.tree.leaves(tree)) == 1 and jax.tree.leaves(tree)[0] is tree:
            return  # a leaf that happens to be a dataclass
        yield type(tree)
        parts = [getattr(tree, field.name) for field in dataclasses.fields(tree)]
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        yield type(tree)
        parts = list(tree)
    elif isinstance(tree, tuple | list):
        parts = list(tree)
    else:
        parts = list(tree.values()) if isinstance(tree, dict) else []
    for part in parts:
        if not isinstance(part, Space):  # static
            yield from _classes(part)


def _plain(fixed: Any) -> Any:
    """Return static fields as JSON; a tuple is marked, for JSON has lists only."""
    if isinstance(fixed, Space):
        return {"space": _plain(dataclasses.astuple(fixed))}
    if isinstance(fixed, tuple):
        return {"tuple": [_plain(part) for part in fixed]}
    return fixed


def _fixed(plain: Any) -> Any:
    if isinstance(plain, dict) and "space" in plain:
        return Space(*_fixed(plain["space"]))
    if isinstance(plain, dict):
        return tuple(_fixed(part) for part in plain["tuple"])
    return plain


def _check_flatbuffers() -> None:
    if importlib.util.find_spec("flatbuffers") is None:
        raise InputError(
            "Exported programs need the package flatbuffers: "
            "pip install lowrank_jax[export]."
        )
