"""Checks of arguments, on the host, before anything is traced.

Only concrete values are checked. A value that is traced (inside `jit`, `vmap` or
`grad`) passes, so that a sweep over a hyper-parameter can run.
"""

import difflib
import numbers
from collections.abc import Iterable

import numpy as np

__all__ = [
    "InputError",
    "at_most",
    "choice",
    "non_negative",
    "positive",
    "random_key",
    "unknown",
    "whole",
]
__dir__ = __all__.copy

ABSENT = (
    "JAX_PLATFORMS={} asks for a device that JAX does not find here; unset it, or "
    "install JAX for this device."
)
_MOST = 1200  # characters of a message


class InputError(ValueError):
    """Bad input from the user: a file, a column or an argument.

    The message is one sentence that names the place, the value and what to do. The
    command line prints it without a traceback and exits with status 2. Whatever the
    value, the message is one printable line, and a long one loses its middle.
    """

    def __init__(self, message: str = "") -> None:
        """Make one line of the message."""
        line = "".join(c if c.isprintable() else _escaped(c) for c in str(message))
        if len(line) > _MOST:
            line = f"{line[: _MOST // 2]} ... {line[-_MOST // 4 :]}"
        super().__init__(line)


def positive(**values: object) -> None:
    """Raise unless each concrete number is greater than zero and finite."""
    for name, value in values.items():
        given = _concrete(name, value)
        if not ((given > 0) & (given < np.inf)).all():
            raise InputError(f"`{name}` must be positive and finite, got {value}.")


def non_negative(**values: object) -> None:
    """Raise unless each concrete number is zero or more, and finite."""
    for name, value in values.items():
        given = _concrete(name, value)
        if not ((given >= 0) & (given < np.inf)).all():
            raise InputError(f"`{name}` must be zero or more and finite, got {value}.")


def whole(*, least: int = 1, **values: object) -> None:
    """Raise unless each value is an integer of at least `least`."""
    for name, value in values.items():
        is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not is_whole or int(value) < least:  # type: ignore[call-overload]
            raise InputError(
                f"`{name}` must be a whole number of at least {least}, got {value!r}."
            )


def at_most(most: int, **values: int) -> None:
    """Raise if a value is above `most`.

    The values are numbers of steps of unrolled loops. Large values make huge programs.
    """
    for name, value in values.items():
        if value > most:
            raise InputError(f"`{name}` must be at most {most}, got {value}.")


def choice(allowed: tuple[str, ...], **values: object) -> None:
    """Raise unless each value is one of the allowed words."""
    for name, value in values.items():
        if value not in allowed:
            words = ", ".join(repr(word) for word in allowed)
            raise InputError(f"`{name}` must be one of {words}, got {value!r}.")


def random_key(key: object) -> None:
    """Raise unless `key` is one random key of JAX, new or raw; it may be traced."""
    kind, shape = str(getattr(key, "dtype", None)), getattr(key, "shape", None)
    is_new = kind.startswith("key<") and shape == ()
    is_raw = kind == "uint32" and shape in ((2,), (4,))  # threefry, rbg
    if not (is_new or is_raw):
        what = repr(key) if shape is None else f"{kind}{list(shape)}"
        raise InputError(f"`key` must be a key such as jax.random.key(0), got {what}.")


def unknown(
    what: str, name: str, owner: str, names: Iterable[str], also: Iterable[str] = ()
) -> InputError:
    """Return the error for a setting that does not exist; it names the nearest.

    Args:
      what: The setting as the user wrote it.
      name: Its name.
      owner: What has the settings.
      names: Its settings.
      also: Names that may be meant beside them.
    """
    names = list(names)
    near = difflib.get_close_matches(name, [*names, *also], n=1)
    hint = f"the nearest is `{near[0]}`, and " if near else ""
    every = ", ".join(names)
    return InputError(f"{what} is not a setting of {owner}; {hint}it has {every}.")


def _escaped(character: str) -> str:
    """Return a character as Python writes it; a line break becomes a blank."""
    return " " if character in "\n\r" else repr(character)[1:-1]


def _concrete(name: str, value: object) -> np.ndarray:
    """Return a value as an array, empty if it is traced, a function or None."""
    none = np.zeros(0)
    if value is None or callable(value):
        return none
    try:
        found = np.asarray(value)
    except TypeError:  # raised by JAX for a traced value
        return none
    except ValueError:  # rows of several lengths
        found = np.zeros(0, object)
    if found.dtype.kind in "biufV":  # V: bfloat16
        return found.astype(np.float64)
    raise InputError(f"`{name}` must be a number, got {value!r}.")
