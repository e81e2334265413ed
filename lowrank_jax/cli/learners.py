"""The learners that ``train`` knows, and their hyper-parameters as text.

To add a learner write one line into `LEARNERS`; its options, their types and their help
come from the signature and the docstring of its ``learner`` function.
"""

import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lowrank_jax.checks import InputError

__all__ = [
    "LEARNERS",
    "Spec",
    "all_settings",
    "argument_texts",
    "describe",
    "module_of",
    "parse_settings",
    "parse_value",
    "split_settings",
    "to_json",
]


class Spec(NamedTuple):
    """What the command line must know of a learner.

    Attributes:
      module: with ``learner(**hyperparameters)`` and ``final_params(state)``.
      kind: ``"online"`` (one sentence an update), ``"batch"`` (all of them) or
        ``"words"`` (all of them, as bi-symbols: `cli.commands.train_words`).
      model: ``"linear"``, ``"bilinear"`` or ``"hankel"``.
      orders: of features, by default: ``"template"`` or ``"both"``; "" without any.
      title: in a few words.
      num_passes: by default; of a batch learner, iterations.
      final: arguments of ``final_params`` that are hyper-parameters, too.
      one_pass: a hyper-parameter that is the number of sentences unless it is set.
    """

    module: str
    kind: str
    model: str
    orders: str
    title: str
    num_passes: int = 10
    final: tuple[str, ...] = ()
    one_pass: str = ""


#: The learners by name.
LEARNERS: Mapping[str, Spec] = types.MappingProxyType(
    {
        "bol": Spec(
            "lowrank_jax.online.bol",
            "online",
            "bilinear",
            "both",
            "bilinear online learning: rank-1 blocks by mirror descent",
        ),
        "sp": Spec(
            "lowrank_jax.online.perceptron",
            "online",
            "linear",
            "template",
            "structured perceptron, averaged",
        ),
        "mira": Spec(
            "lowrank_jax.online.mira",
            "online",
            "linear",
            "template",
            "MIRA, also known as passive-aggressive",
        ),
        "bcd": Spec(
            "lowrank_jax.online.bcd",
            "online",
            "bilinear",
            "both",
            "bilinear model by blockwise coordinate descent",
            one_pass="num_rounds_per_block",
        ),
        "crf": Spec(
            "lowrank_jax.batch.crf",
            "batch",
            "linear",
            "template",
            "conditional random field, L2 (L-BFGS) or L1 (OWL-QN)",
            num_passes=100,
        ),
        "smm": Spec(
            "lowrank_jax.batch.smm.fobos",
            "words",
            "hankel",
            "",
            "spectral max-margin: low-rank Hankel matrices, for --format nettalk",
            num_passes=200,
            final=("iterate",),
        ),
    }
)


def module_of(name: str) -> Any:
    """Import the module of a learner."""
    return importlib.import_module(LEARNERS[name].module)


def all_settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all hyper-parameters of a learner, those not given by default."""
    options = _options(name)
    return {option: p.default for option, p in options.items()} | dict(given)


def split_settings(
    name: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part hyper-parameters into those of ``learner`` and those of ``final_params``."""
    final = LEARNERS[name].final
    return (
        {option: value for option, value in settings.items() if option not in final},
        {option: value for option, value in settings.items() if option in final},
    )


def parse_settings(name: str, texts: Iterable[str]) -> dict[str, Any]:
    """Read ``name=value`` texts as keyword arguments of a learner.

    Args:
      name: of the learner.
      texts: what ``--set`` was given; the last of several values counts.

    Raises:
      InputError: if a name is not known or a value is not of the right type.
    """
    options = _options(name)
    settings = {}
    for text in texts:
        option, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set {text!r} must have the form name=value.")
        if option not in options:
            raise InputError(
                f"--set {text!r} is not a hyper-parameter of {name}; it has "
                f"{', '.join(options)}."
            )
        try:
            settings[option] = parse_value(value, options[option].annotation)
        except ValueError as error:
            raise InputError(f"--set {text!r}: the value must be {error}.") from None
    return settings


def to_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyper-parameters as JSON has them: a dtype becomes its name."""
    return {name: _plain(value) for name, value in settings.items()}


def describe(name: str) -> str:
    """Return the help on the hyper-parameters of a learner."""
    spec, module = LEARNERS[name], module_of(name)
    texts = argument_texts(module.final_params) | argument_texts(module.learner)
    lines = [f"{name}: {spec.title}.", "", "hyper-parameters (--set name=value):"]
    for option, parameter in _options(name).items():
        default = _plain(parameter.default)
        if isinstance(default, list):
            default = ",".join(default) or "nothing"
        if option == spec.one_pass:
            default = "the number of training sentences"
        lines.append(f"  {option} (default: {default})")
        lines += [f"      {line}" for line in texts.get(option, [])]
    return "\n".join(lines) + "\n"


def _options(name: str) -> dict[str, inspect.Parameter]:
    module = module_of(name)
    options = dict(inspect.signature(module.learner, eval_str=True).parameters)
    final = inspect.signature(module.final_params, eval_str=True).parameters
    return options | {option: final[option] for option in LEARNERS[name].final}


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


def _number(kind: Any, text: str, demand: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(demand) from None


def _plain(value: Any) -> Any:
    import numpy as np

    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and value is not type):
        return np.dtype(value).name
    if hasattr(value, "dtype"):  # jnp.float32 is neither a dtype nor a type
        return np.dtype(value).name
    return value


def argument_texts(function: Any) -> dict[str, list[str]]:
    """The lines on each argument in a docstring of Google's form, as plain text."""
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
