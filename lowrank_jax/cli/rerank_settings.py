"""The settings of the rerankers as text, and the learners that they make."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.cli import learners
from lowrank_jax.models.tensor import Shape, mode_sizes
from lowrank_jax.online import rerank, tensor_mira

__all__ = ["build", "check", "complete", "describe", "parse", "shape_of", "to_json"]

to_json = learners.to_json

#: Where the command line differs from the library, whose defaults are the paper's.
_DEFAULTS: Mapping[str, dict[str, Any]] = {
    "tm": {"step": "bcd", "decoding": "cost", "averaging": "average", "start": "auto"},
    "mira": {"decoding": "cost"},
    "perceptron": {},
}


def _model(
    order: int = 2, num_components: int = 1, mapping: str = "surrogate"
) -> tuple[int, int, str]:
    """Name what the command line makes of a tensor model.

    Args:
      order: D, modes of the tensor; their sizes follow from the number of features.
      num_components: H, outer products that the tensor is a sum of.
      mapping: features are laid out by the weights of a perceptron after one pass
        (``"surrogate"``) or in the order of their ids (``"sequential"``).
    """
    return order, num_components, mapping


def _options(name: str) -> dict[str, inspect.Parameter]:
    """Return the settings of a learner, the command line's own first."""
    module = tensor_mira if name == "tm" else rerank
    functions = ([_model] if name == "tm" else []) + [module.learner]
    found: dict[str, inspect.Parameter] = {}
    for function in functions:
        found |= inspect.signature(function, eval_str=True).parameters
    return {
        option: parameter.replace(
            default=_DEFAULTS[name].get(option, parameter.default)
        )
        for option, parameter in found.items()
        if option not in ("shape", "rule")
    }


def parse(name: str, texts: Iterable[str]) -> dict[str, Any]:
    """Read ``name=value`` texts.

    Args:
      name: of the learner.
      texts: what ``--set`` was given; the last of several values counts.

    Raises:
      InputError: if a name is not known or a value is not of the right type.
    """
    options, settings = _options(name), {}
    for text in texts:
        option, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set {text!r} must have the form name=value.")
        if option not in options:
            raise InputError(
                f"--set {text!r} is not a setting of {name}; it has "
                f"{', '.join(options)}."
            )
        try:
            settings[option] = learners.parse_value(value, options[option].annotation)
        except ValueError as error:
            raise InputError(f"--set {text!r}: the value must be {error}.") from None
    return settings


def complete(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings, those not given by default."""
    settings = {option: p.default for option, p in _options(name).items()} | dict(given)
    if settings.get("start") == "auto":  # equal components would stay equal (DR-T3)
        settings["start"] = (
            "constant" if settings["num_components"] == 1 else "positive"
        )
    return {
        **settings,
        "dtype": learners.to_json({"dtype": settings["dtype"]})["dtype"],
    }


def check(name: str, settings: Mapping[str, Any]) -> None:
    """Raise `InputError` unless the values make sense, before anything is read."""
    if name == "tm":
        checks.whole(order=settings["order"], num_components=settings["num_components"])
        checks.choice(("surrogate", "sequential"), mapping=settings["mapping"])
    build(name, settings, 1)


def shape_of(settings: Mapping[str, Any], num_features: int) -> Shape:
    """Return the mode sizes of a tensor model for so many features."""
    sizes = mode_sizes(num_features, settings["order"])
    return Shape(sizes, settings["num_components"])


def build(name: str, settings: Mapping[str, Any], num_features: int) -> tuple[Any, Any]:
    """Return the module and the learner."""
    import jax.numpy as jnp

    given = dict(settings) | {"dtype": jnp.dtype(settings["dtype"])}
    if name != "tm":
        return rerank, rerank.learner(rule=name, **given)
    shape = shape_of(settings, num_features)
    for option in ("order", "num_components", "mapping"):
        del given[option]
    return tensor_mira, tensor_mira.learner(shape=shape, **given)


def describe(name: str) -> str:
    """Return the help on the settings of a learner."""
    module = tensor_mira if name == "tm" else rerank
    texts = learners.argument_texts(module.learner)
    if name == "tm":
        texts |= learners.argument_texts(_model)
        texts["start"] = [
            *texts["start"],
            "auto: constant for one component, positive for more.",
        ]
    lines = [f"settings of {name} (--set name=value):"]
    for option, parameter in _options(name).items():
        default = learners.to_json({option: parameter.default})[option]
        lines.append(f"  {option} (default: {default})")
        lines += [f"      {line}" for line in texts.get(option, [])]
    return "\n".join(lines) + "\n"
