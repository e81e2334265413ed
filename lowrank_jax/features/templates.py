"""Template files in the format of CRF++: which values around a token make features.

A line such as ``U05:%x[-1,0]/%x[0,0]`` is expanded at every token. ``%x[row,col]``
becomes the value of data column `col`, `row` tokens after this one. The rest of the
line is copied. Blank lines and lines that begin with ``#`` are skipped. The first
letter is the order of the weights:

* ``U``: weights on the label of the token (0-order).
* ``B``: weights on the pair of labels of the token and its predecessor (first-order, a
  transition conditioned on the feature).
* ``B`` or ``B07``, without a macro: one weight per pair of labels for all features. It
  sets `Template.has_transitions` and is not a column.
* ``U`` or ``U07``, without a macro: a constant column, the bias of each label.

The same text after ``U`` and after ``B`` is one column with the orders ``"01"``. It is
computed once and has weights of both kinds. A line repeated with the same letter is a
second column. Its score therefore counts twice, as in CRF++.

Beyond CRF++, rows are not limited to -8..8, and a ``%`` that begins no macro is text.
A macro may also have a function of a column: ``%x[0,0,suffix3]`` is the last three
characters of column 0 of this token. Nobody has to write such columns into a file.

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

import collections
import dataclasses
import importlib.resources
import pathlib
import re
from collections.abc import Callable, Iterable
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from lowrank_jax import checks
from lowrank_jax.data.files import read_text

__all__ = [
    "Column",
    "Template",
    "column_function",
    "fill",
    "make_column",
    "parse_template",
    "read_template",
    "shipped_templates",
    "with_orders",
]
__dir__ = __all__.copy

#: Largest row of a macro: the room laid out on both sides of every sentence.
FARTHEST = 100
_MACRO = re.compile(r"%x\[([+-]?[0-9]+),([0-9]+(?:,[a-z]+[0-9]*)?)\]")
_NEGATIVE_COLUMN = re.compile(r"%x\[[+-]?[0-9]+,-[0-9]+\]")
_BROKEN_MACRO = re.compile(r"%x|%[A-Za-z]\[")
_DIGIT = re.compile(r"\d")
_AFFIX = re.compile(r"(prefix|suffix)([1-9][0-9]?)")


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of `feature_ids`: a text with gaps, and the values that fill them.

    Attributes:
      literals: Text before, between and after the macros, without the letter; one
        string more than macros. Columns with equal literals share their features.
      macros: Pairs ``(row, column)``, one per ``%x[row,column]``. The column is a
        number, or for ``%x[row,column,function]`` the text ``"column,function"``.
      orders: ``"0"``, ``"1"`` or ``"01"``, as in `data.sequences.Space`.
      line: Number of its line in the file, counted from 1, for messages.
    """

    literals: tuple[str, ...]
    macros: tuple[tuple[int, int | str], ...]
    orders: str
    line: int = dataclasses.field(default=0, compare=False)

    @property
    def text(self) -> str:
        """The line without its letter."""
        holes = [f"%x[{row},{column}]" for row, column in self.macros]
        return fill(self.literals, holes)


@dataclasses.dataclass(frozen=True)
class Template:
    """Columns of a template file, and its label transitions.

    Attributes:
      columns: Columns in the order of the file.
      has_transitions: True if there is a ``B`` line without a macro.
      source: Name of the file, for messages.
    """

    columns: tuple[Column, ...]
    has_transitions: bool
    source: str = dataclasses.field(default="template", compare=False)

    @property
    def orders(self) -> tuple[str, ...]:
        """One word per column, as `orders` of `data.sequences.Space`."""
        return tuple(column.orders for column in self.columns)

    def to_text(self) -> str:
        """Return a text from which `parse_template` makes an equal template."""
        lines = []
        for column in self.columns:
            lines += [f"{'UB'[int(order)]}{column.text}" for order in column.orders]
        if self.has_transitions:
            lines.append("B")
        return "".join(f"{line}\n" for line in lines)

    def check_columns(self, num_columns: int, data_source: str) -> None:
        """Raise `InputError` if a line asks for a column that the data do not have."""
        for column in self.columns:
            for _, name in column.macros:
                number = int(str(name).partition(",")[0])
                if number >= num_columns:
                    raise checks.InputError(
                        f"{self.source}, line {column.line}: {column.text!r} asks for "
                        f"column {number}, but {data_source} has {num_columns} "
                        f"column{'' if num_columns == 1 else 's'} before the label, "
                        "counted from 0; change the template or the data."
                    )


def fill(literals: tuple[str, ...], values: Iterable[str]) -> str:
    """Return the literals with a value between each two of them."""
    pairs = zip(values, literals[1:], strict=True)
    return literals[0] + "".join(value + literal for value, literal in pairs)


def parse_template(text: str, source: str = "template") -> Template:
    """Parse the text of a template file.

    Args:
      text: Lines of a template file in the format of CRF++.
      source: Name of the file, for messages.

    Raises:
      InputError: If a line begins with neither ``U`` nor ``B``, a macro is malformed,
        or there is no line at all.
    """
    columns: list[Column] = []
    lacking: dict[Any, collections.deque[int]] = {}
    has_transitions = False
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if line[0] not in "UB":
            raise checks.InputError(
                f"{source}, line {number}: {line!r} must begin with U or B, "
                "or with # to be a comment."
            )
        order = "0" if line[0] == "U" else "1"
        literals, macros = _split(line[1:], f"{source}, line {number}: {line!r}")
        if order == "1" and not macros:
            has_transitions = True
            continue
        _add(columns, lacking, Column(literals, macros, order, number))
    if not columns and not has_transitions:
        raise checks.InputError(
            f"{source} holds no template: write lines such as 'U00:%x[0,0]', or use "
            f"one of the shipped templates {', '.join(shipped_templates())}."
        )
    return Template(tuple(columns), has_transitions, source)


def read_template(name: str | pathlib.Path) -> Template:
    """Read a template file, or a shipped template by its name.

    Args:
      name: A word of `shipped_templates` or a path. If it is both, the shipped template
        is read; write ``./chunking`` or a `pathlib.Path` for the file.
    """
    if isinstance(name, str) and name in shipped_templates():
        source = f"{name}.template"
        text = (_shipped_folder() / source).read_text(encoding="utf-8")
        return parse_template(text, source)
    try:
        text = read_text(pathlib.Path(name))
    except checks.InputError as error:
        raise checks.InputError(
            f"{name} cannot be read as a template ({str(error).rstrip('.')}); give a "
            f"template file or one of {', '.join(shipped_templates())}."
        ) from None
    return parse_template(text, str(name))


def shipped_templates() -> tuple[str, ...]:
    """Return the names of the templates that come with the package."""
    names = [item.name for item in _shipped_folder().iterdir()]
    ending = ".template"
    return tuple(sorted(n.removesuffix(ending) for n in names if n.endswith(ending)))


def with_orders(template: Template, orders: str) -> Template:
    """Return the template with other orders for all its columns.

    A constant column (a bare ``U``) has no first-order form of its own. Instead
    of one, `has_transitions` is set, as by a bare ``B``.

    Args:
      template: Template as read from a file.
      orders: ``"template"`` keeps the orders and the bare ``B`` of the file. ``"zero"``
        makes all columns ``"0"`` and turns label transitions on. ``"first"`` makes all
        columns ``"1"`` and ``"both"`` makes them ``"01"``; label transitions stay as in
        the file.
    """
    checks.choice(("template", "zero", "first", "both"), orders=orders)
    if orders == "template":
        return template
    word = {"zero": "0", "first": "1", "both": "01"}[orders]
    has_transitions = template.has_transitions or orders == "zero"
    columns = []
    for column in template.columns:
        if column.macros:
            columns.append(dataclasses.replace(column, orders=word))
        else:
            has_transitions = True
            if "0" in word:
                columns.append(column)
    return Template(tuple(columns), has_transitions, template.source)


def column_function(name: str) -> Callable[[str], str]:
    """Return the function of a name, such as ``shape`` or ``suffix3``."""
    functions = {"lower": str.lower, "shape": _shape, "digits": _digits}
    if name in functions:
        return functions[name]
    match = _AFFIX.fullmatch(name)
    if match is None:
        raise checks.InputError(
            f"{name!r} is not a function of columns; there are {', '.join(functions)}, "
            "prefix1 to prefix99 and suffix1 to suffix99."
        )
    number = int(match[2])
    if match[1] == "prefix":
        return lambda value: value[:number]
    return lambda value: value[-number:]


def make_column(column: np.ndarray, name: str) -> np.ndarray:
    """Return a column made from a column; each distinct value is looked at once.

    Args:
      column: (num_tokens,) strings.
      name: Name of the function.
    """
    function, values = column_function(name), column.tolist()
    made = {value: function(value) for value in dict.fromkeys(values)}
    return np.fromiter(map(made.__getitem__, values), object, len(values))


def _shape(value: str) -> str:
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


def _digits(value: str) -> str:
    """Return the value with 0 for each digit."""
    return _DIGIT.sub("0", value)


def _shipped_folder() -> Traversable:
    return importlib.resources.files("lowrank_jax.features") / "shipped"


def _split(
    text: str, place: str
) -> tuple[tuple[str, ...], tuple[tuple[int, int | str], ...]]:
    """Split the text of a line into literals and macros."""
    if match := _NEGATIVE_COLUMN.search(text):
        raise checks.InputError(
            f"{place} has the macro {match.group()!r} with a negative column; "
            "columns are counted from 0."
        )
    parts = _MACRO.split(text)
    literals = tuple(parts[::3])
    for literal in literals:
        if match := _BROKEN_MACRO.search(literal):
            raise checks.InputError(
                f"{place} has a malformed macro at {literal[match.start() :]!r}; "
                "write %x[row,column], for example %x[-1,0]."
            )
    for row in parts[1::3]:
        if len(row) > 6 or abs(int(row)) > FARTHEST:
            raise checks.InputError(
                f"{place} looks {row} tokens away; row must be within -{FARTHEST} and "
                f"{FARTHEST}."
            )
    for number in parts[2::3]:
        if len(number.partition(",")[0]) > 6:
            raise checks.InputError(
                f"{place} asks for column {number}, and no data have so many."
            )
    names = [name if "," in name else int(name) for name in parts[2::3]]
    for name in names:
        if isinstance(name, str):
            try:
                column_function(name.partition(",")[2])
            except checks.InputError as error:
                raise checks.InputError(f"{place}: {error}") from None
    return literals, tuple(zip(map(int, parts[1::3]), names, strict=True))


def _add(
    columns: list[Column], lacking: dict[Any, collections.deque[int]], new: Column
) -> None:
    """Add the order to the first column of equal text that lacks it, else a column.

    Args:
      columns: Columns so far.
      lacking: Places of the columns of a text that lack an order, by text and order.
      new: Column of one order.
    """
    found = lacking.get((new.literals, new.macros, new.orders))
    if found:
        place = found.popleft()
        columns[place] = dataclasses.replace(columns[place], orders="01")
        return
    other = "1" if new.orders == "0" else "0"
    key = (new.literals, new.macros, other)
    lacking.setdefault(key, collections.deque()).append(len(columns))
    columns.append(new)
