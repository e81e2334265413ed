"""Settings as text: ``--set name=value``, read by the types of a signature."""

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lowrank_jax.checks import InputError
from lowrank_jax.estimators import learners

__all__ = ["describe", "describe_learner", "parse", "parse_value"]

Options = Mapping[str, inspect.Parameter]


def parse(texts: Iterable[str], options: Options, *, owner: str) -> dict[str, Any]:
    """Read ``name=value`` texts.

    Args:
      texts: Values of ``--set``; the last of several values of a name counts.
      options: Settings with their types.
      owner: Name of the learner or command, for the message.

    Raises:
      InputError: If a name is unknown or a value is not of the right type.
    """
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set {text!r} must have the form name=value.")
        if name not in options:
            raise InputError(
                f"--set {text!r} is not a setting of {owner}; it has "
                f"{', '.join(options)}."
            )
        try:
            settings[name] = parse_value(value, options[name].annotation)
        except ValueError as error:
            raise InputError(f"--set {text!r}: the value must be {error}.") from None
    return settings


def parse_value(text: str, annotation: Any) -> Any:
    """Read a value of an annotated type; ValueError says what it must be."""
    import numpy as np

    kinds = typing.get_args(annotation) or (annotation,)
    if typing.get_origin(annotation) is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if type(None) in kinds and str not in kinds and text.lower() == "none":
        return None
    if bool in kinds:
        words = {"true": True, "yes": True, "1": True}
        words |= {"false": False, "no": False, "0": False}
        if text.lower() not in words:
            raise ValueError("true or false")
        return words[text.lower()]
    if int in kinds or float in kinds:
        if float not in kinds:
            return _number(int, text, "a whole number")
        return _number(float, text, "a number")
    if str in kinds:
        return text
    if np.dtype in kinds:
        if text not in ("float32", "float64"):
            raise ValueError("float32 or float64")
        return np.dtype(text)
    raise ValueError("given in Python: the command line cannot set it")


def describe(
    title: str,
    options: Options,
    functions: Iterable[Callable[..., Any]],
    defaults: Mapping[str, str] | None = None,
) -> str:
    """Return the help on settings.

    Args:
      title: First words.
      options: Settings with their defaults.
      functions: Functions whose docstrings describe the settings.
      defaults: Words on defaults that a value does not tell.
    """
    texts: dict[str, list[str]] = {}
    for function in functions:
        texts |= _argument_texts(function)
    plain = learners.to_json({name: p.default for name, p in options.items()})
    lines = [f"{title} (--set name=value):"]
    for name, default in plain.items():
        if isinstance(default, list):
            default = ",".join(default) or "nothing"
        lines.append(f"  {name} (default: {(defaults or {}).get(name, default)})")
        lines += [f"      {line}" for line in texts.get(name, [])]
    return "\n".join(lines) + "\n"


def describe_learner(name: str, spec: learners.Spec) -> str:
    """Return the help on a learner and its settings."""
    text = describe(
        f"settings of {name}",
        learners.options_of(spec),
        learners.functions_of(spec),
        spec.words,
    )
    return f"{name}: {spec.title}.\n\n{text}"


def _number(kind: Any, text: str, demand: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(demand) from None


def _argument_texts(function: Callable[..., Any]) -> dict[str, list[str]]:
    """Return the lines on each argument in a docstring of Google's form."""
    texts: dict[str, list[str]] = {}
    name, is_inside = "", False
    for line in (inspect.getdoc(function) or "").split("\n"):
        if line.strip() and not line.startswith(" "):
            is_inside = line == "Args:"
        elif is_inside and (match := re.match(r"  (\w+): (.*)", line)):
            name, text = match.groups()
            texts[name] = [_without_markup(text)]
        elif is_inside and name and line.strip():
            texts[name].append(_without_markup(line.strip()))
    return texts


def _without_markup(text: str) -> str:
    text = re.sub(r":math:`([^`]*)`", r"\1", text)
    return text.replace("``", "").replace("`", "")
