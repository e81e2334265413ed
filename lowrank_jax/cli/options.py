"""Arguments that several commands have, in the same words, and their types.

The values of ``--set name=value`` are read by the types of a signature.
"""

import argparse
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lowrank_jax.checks import InputError, unknown
from lowrank_jax.estimators import learners

__all__ = [
    "add_checkpoints",
    "add_help",
    "add_seed",
    "add_settings",
    "add_wide",
    "batches",
    "count",
    "describe_learner",
    "describe_settings",
    "parse_settings",
    "parse_value",
    "seconds",
    "seed",
    "share",
]
__dir__ = __all__.copy

Options = Mapping[str, inspect.Parameter]


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least 1, got {text!r}"
        )
    return int(text)


def seed(text: str) -> int:
    """Read the seed of a random key."""
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 0 to {2**32 - 1}, got {text!r}"
        )
    return int(text)


def batches(text: str) -> int | str:
    """Read a batch size, or a schedule of batch sizes by pass."""
    from lowrank_jax.streams.packs import check_schedule

    try:
        found = check_schedule(text)
    except InputError as error:
        words = str(error).removeprefix("`batch_size` ").rstrip(".")
        raise argparse.ArgumentTypeError(words) from None
    return found[0] if len(found) == 1 else ",".join(map(str, found))


def share(text: str) -> float:
    """Read a share, above 0 and at most 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, got {text!r}")
    return value


def seconds(text: str) -> float:
    """Read a time, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise argparse.ArgumentTypeError(
            f"must be a number of seconds, 0 or more, got {text!r}"
        )
    return value


def add_settings(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--set``; `what` names the things that can be set."""
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="extend",
        nargs="+",
        default=[],
        dest="settings",
        help=f"{what}; may be given again",
    )


def add_seed(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--seed``; `what` describes it."""
    parser.add_argument(
        "--seed", metavar="N", type=seed, default=0, help=f"{what}; default: 0"
    )


def add_checkpoints(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run that can be interrupted."""
    add = parser.add_argument
    add(
        "--resume",
        action="store_true",
        help="resume from the checkpoint in the model folder; the result equals an "
        "unbroken run bit for bit",
    )
    add(
        "--checkpoint-seconds",
        metavar="X",
        type=seconds,
        default=30.0,
        help="least time between two checkpoints, which are written at the end of a "
        "pass; an interrupted run writes one too; default: 30",
    )
    add(
        "--keep-checkpoint",
        action="store_true",
        help="keep a checkpoint beside the model, to add passes later",
    )


def add_wide(parser: argparse.ArgumentParser, what: str, more: str = "") -> None:
    """Add the options of wide rounds; `what` names the examples."""
    parser.add_argument(
        "--batch-size",
        metavar="B",
        type=batches,
        default=1,
        help=f"{what} per update, or a schedule by pass such as 8,16,64; default: 1"
        + more,
    )
    parser.add_argument(
        "--devices",
        metavar="N",
        type=count,
        default=1,
        help="devices that share each batch, with the same result; on a CPU the cores "
        "to use; default: 1",
    )


class _Help(argparse.Action):
    def __init__(
        self, *, describe: Callable[[argparse.Namespace], str], **given: Any
    ) -> None:
        super().__init__(nargs=0, **given)
        self.describe = describe

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        text = self.describe(namespace)
        if text and not parser.get_default("learner") and "learner" in namespace:
            # After a learner that was asked for: its settings, not the options again.
            print(f"{text}\nOptions of the command: {parser.prog} --help")
            parser.exit()
        parser.print_help()
        if text:
            print(f"\n{text}", end="")
        parser.exit()


def add_help(
    parser: argparse.ArgumentParser,
    describe: Callable[[argparse.Namespace], str],
    words: str = "show this help and the settings",
) -> None:
    """Add ``-h`` and ``--help`` to a parser made without them.

    Args:
      parser: Parser to add them to.
      describe: Function from the arguments parsed so far to the text after the help,
        which may be empty.
      words: Help on the option itself.
    """
    parser.add_argument("-h", "--help", action=_Help, describe=describe, help=words)


def parse_settings(
    texts: Iterable[str], options: Options, *, owner: str
) -> dict[str, Any]:
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
            raise unknown(f"--set {text!r}", name, owner, options)
        try:
            settings[name] = parse_value(value, options[name].annotation)
        except ValueError as error:
            raise InputError(f"--set {text!r}: the value must be {error}.") from None
    return settings


def parse_value(text: str, annotation: Any) -> Any:
    """Read a value of an annotated type; ValueError says what it must be."""
    import numpy as np

    is_choice = typing.get_origin(annotation) is typing.Literal
    given = (annotation,) if is_choice else typing.get_args(annotation) or (annotation,)
    kinds = [str if typing.get_origin(k) is typing.Literal else k for k in given]
    if np.ndarray in kinds:  # a cost of labels
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ValueError('a JSON object such as {"B-NP": 2}')
        return found
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


def describe_settings(
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
    text = describe_settings(
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
