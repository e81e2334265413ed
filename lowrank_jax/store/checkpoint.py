"""The state of an unfinished training in one file, read back bit for bit.

A checkpoint is one ``.npz`` file without pickled objects: the leaves of the state and a
JSON text. It is replaced atomically, so a run that is killed while writing leaves the
earlier checkpoint intact.
"""

import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.store.arrays import read_arrays, write_arrays
from lowrank_jax.store.files import Path

__all__ = ["load", "read_metadata", "save"]
__dir__ = __all__.copy

_FORMAT = 1
_METADATA = "metadata"


def save(path: Path, state: Any, metadata: Mapping[str, Any]) -> None:
    """Write a state, replacing the file only when the new one is complete.

    Args:
      path: Path of the file; its folder must exist.
      state: Tree of arrays, numbers and random keys (NamedTuples, None, tuples).
      metadata: Further content, ready for JSON.
    """
    leaves = jax.tree_util.tree_leaves_with_path(state)
    names = [jax.tree_util.keystr(place) for place, _ in leaves]
    keys = [str(jax.random.key_impl(x)) if _is_key(x) else None for _, x in leaves]
    arrays = {f"leaf_{i}": _to_host(leaf) for i, (_, leaf) in enumerate(leaves)}
    text = {"format": _FORMAT, "leaves": names, "keys": keys}
    text["metadata"] = dict(metadata)
    arrays[_METADATA] = np.frombuffer(json.dumps(text).encode(), np.uint8)
    write_arrays(path, arrays)


def load(
    path: Path,
    like: Any,
    *,
    dropped: tuple[str, ...] = (),
    may_grow: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Read a state that `save` wrote.

    Args:
      path: Path of the file.
      like: State of the same kind, or its shapes from `jax.eval_shape`. A number
        (an array of no axis) that the file lacks keeps the value that `like` has, so
        a field added later does not make older files unreadable.
      dropped: Ends of the names of leaves that the file may have and `like` lacks.
      may_grow: True if a table of the file may have more rows than in `like`.

    Returns:
      The state, with the same bits, and the metadata.

    Raises:
      InputError: If the file is missing, cut short, or of another kind of state.
    """
    arrays = read_arrays(path)
    text = _read_text(path, arrays)
    names = text["leaves"]
    leaves = jax.tree_util.tree_leaves_with_path(like)
    wanted = [jax.tree_util.keystr(place) for place, _ in leaves]
    have, place_of = set(wanted), {name: i for i, name in enumerate(names)}
    kept = [name for name in names if name in have or not name.endswith(dropped)]
    values = dict(zip(wanted, (leaf for _, leaf in leaves), strict=True))
    needed = [
        name for name in wanted if name in place_of or not _has_number(values[name])
    ]
    if kept != needed:
        odd = sorted(set(kept) ^ set(needed))
        raise _other_state(path, f"{', '.join(odd) or 'the order of the fields'}")
    restored = []
    try:
        for name, leaf in values.items():
            if name not in place_of:
                restored.append(leaf)
                continue
            i = place_of[name]
            array, key = arrays[f"leaf_{i}"], text["keys"][i]
            if key is not None:
                restored.append(jax.random.wrap_key_data(jnp.asarray(array), impl=key))
            else:
                restored.append(_to_leaf(path, name, array, leaf, may_grow))
        state = jax.tree.unflatten(jax.tree.structure(like), restored)
    except InputError:
        raise
    except Exception as error:  # arrays and keys of any kind may be there
        raise _other_state(path, f"{type(error).__name__}: {error}") from None
    return state, text["metadata"]


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a checkpoint, without its arrays."""
    return _read_text(path, read_arrays(path, only=(_METADATA,)))["metadata"]


def _read_text(path: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the text beside the leaves: their names and the metadata."""
    try:
        text = json.loads(arrays[_METADATA].tobytes())
        version = text["format"]
        are_names = all(isinstance(name, str) for name in text["leaves"])
        if not are_names or not isinstance(text["metadata"], dict):
            raise TypeError
    except (KeyError, ValueError, TypeError, RecursionError):
        raise InputError(f"{path} is not a checkpoint; check the path.") from None
    if version != _FORMAT:
        raise InputError(
            f"{path} has checkpoint format {version!r} where this version reads "
            f"{_FORMAT}; train again from the start."
        )
    return text


def _has_number(leaf: Any) -> bool:
    """Return True for an array without axes, False for a shape or a larger array."""
    return isinstance(leaf, jax.Array | np.ndarray) and leaf.ndim == 0


def _is_key(leaf: Any) -> bool:
    """Return True for a random key (of the typed kind)."""
    if not isinstance(leaf, jax.Array):
        return False
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_host(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _to_leaf(
    path: Path, name: str, array: np.ndarray, like: Any, may_grow: bool
) -> Any:
    """Give an array the type of the leaf it belongs to."""
    if not hasattr(like, "dtype"):
        return array.item()
    dtype = np.dtype(like.dtype)
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)  # bfloat16 and its kin are saved as plain bytes
    fits = array.shape == like.shape
    if may_grow and array.ndim == len(like.shape) > 1:
        fits = array.shape[1:] == like.shape[1:] and len(array) >= like.shape[0]
    if not fits or array.dtype != dtype:
        raise _other_state(
            path,
            f"{name} is {array.dtype}{list(array.shape)} where "
            f"{dtype}{list(like.shape)} is expected",
        )
    return jnp.asarray(array)


def _other_state(path: Path, what: str) -> InputError:
    return InputError(
        f"{path} holds the state of another learner or other data ({what}); train "
        f"again from the start."
    )
