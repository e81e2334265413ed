"""Columns made from columns: case, shape, affixes, digits.

A template names them in a macro: ``%x[0,0,suffix3]`` is the last three characters of
column 0 of this token. Nobody has to write such columns into a file.

===========  ============================================  ==================
function     value                                         of ``McDonald-92``
===========  ============================================  ==================
lower        small letters                                 ``mcdonald-92``
shape        X, x and d for letters and digits, runs once  ``XxXx-d``
digits       each digit as 0                               ``McDonald-00``
prefixN      first N characters                            ``McD`` (N = 3)
suffixN      last N characters                             ``-92`` (N = 3)
===========  ============================================  ==================
"""

import re
from collections.abc import Callable

import numpy as np

from lowrank_jax.checks import InputError

__all__ = ["FUNCTIONS", "digits", "function_of", "lower", "make", "shape"]
__dir__ = __all__.copy

_DIGIT = re.compile(r"\d")
_AFFIX = re.compile(r"(prefix|suffix)([1-9][0-9]?)")


def lower(value: str) -> str:
    """Return the value in small letters."""
    return value.lower()


def shape(value: str) -> str:
    """Return X for large and x for small letters, d for digits; runs count once."""
    found: list[str] = []
    for character in value:
        if character.isupper():
            mark = "X"
        elif character.isalpha():
            mark = "x"
        else:
            mark = "d" if character.isdigit() else character
        if found[-1:] != [mark]:
            found.append(mark)
    return "".join(found)


def digits(value: str) -> str:
    """Return the value with 0 for each digit."""
    return _DIGIT.sub("0", value)


#: Functions by name; prefixN and suffixN come on top of them.
FUNCTIONS: dict[str, Callable[[str], str]] = {
    "lower": lower,
    "shape": shape,
    "digits": digits,
}


def function_of(name: str) -> Callable[[str], str]:
    """Return the function of a name, such as ``shape`` or ``suffix3``."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    match = _AFFIX.fullmatch(name)
    if match is None:
        raise InputError(
            f"{name!r} is not a function of columns; there are {', '.join(FUNCTIONS)}, "
            "prefix1 to prefix99 and suffix1 to suffix99."
        )
    number = int(match[2])
    if match[1] == "prefix":
        return lambda value: value[:number]
    return lambda value: value[-number:]


def make(column: np.ndarray, name: str) -> np.ndarray:
    """Return a column made from a column; each distinct value is looked at once.

    Args:
      column: (num_tokens,) strings.
      name: Name of the function.
    """
    function, values = function_of(name), column.tolist()
    made = {value: function(value) for value in dict.fromkeys(values)}
    return np.fromiter(map(made.__getitem__, values), object, len(values))
