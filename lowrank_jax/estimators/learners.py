"""The learners by name: their modules, and all their settings with defaults.

To add a learner write one entry into `LEARNERS` or `RERANKERS`. Its settings, their
types and their help come from the signature and the docstring of its functions.
"""

import importlib
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from lowrank_jax.checks import InputError, unknown

__all__ = [
    "FORMATS",
    "LEARNERS",
    "RERANKERS",
    "Spec",
    "check_wide",
    "complete",
    "functions_of",
    "module_of",
    "options_of",
    "spec_of",
    "to_json",
    "without_json",
]
__dir__ = __all__.copy


#: Formats of labelled files and the shipped template of each.
FORMATS = {
    "conll": "chunking",
    "conllu": "words",
    "segmentation": "segmentation",
    "nettalk": "nettalk",
}


class Spec(NamedTuple):
    """What an estimator must know of a learner.

    Attributes:
      module: Module with ``learner(...)`` and ``final_params(state)``.
      data: ``"sentences"``, ``"words"`` or ``"lists"``.
      title: Description in a few words.
      is_batch: If true, an update takes all data at once.
      model: ``"linear"``, ``"bilinear"``, ``"hankel"`` or ``"tensor"``.
      orders: Orders of features by default, ``"template"`` or ``"both"``.
      num_passes: Number of passes by default; iterations of a batch learner.
      functions: Functions whose arguments are settings. A name without a module is of
        `module`.
      hidden: Arguments of these functions that are no settings.
      defaults: Defaults that differ from the signatures.
      one_pass: A setting that is the number of sentences unless it is given.
      has_certificate: True if `certify` knows the regret of a run.
      words: Words on defaults that a value does not tell, for the help.
    """

    module: str
    data: str
    title: str
    is_batch: bool = False
    model: str = "linear"
    orders: str = "template"
    num_passes: int = 10
    functions: tuple[str, ...] = ("learner",)
    hidden: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = types.MappingProxyType({})
    one_pass: str = ""
    has_certificate: bool = False
    words: Mapping[str, str] = types.MappingProxyType({})


#: The learners of taggers and spellers.
LEARNERS: Mapping[str, Spec] = types.MappingProxyType(
    {
        "bol": Spec(
            "lowrank_jax.online.bol",
            "sentences",
            "bilinear online learning: rank-1 blocks by mirror descent",
            model="bilinear",
            orders="both",
            hidden=("capacity",),
            has_certificate=True,
        ),
        "sp": Spec(
            "lowrank_jax.online.perceptron",
            "sentences",
            "structured perceptron, averaged",
            hidden=("capacity",),
            has_certificate=True,
        ),
        "mira": Spec(
            "lowrank_jax.online.mira",
            "sentences",
            "MIRA, also known as passive-aggressive",
            hidden=("capacity",),
        ),
        "bcd": Spec(
            "lowrank_jax.online.bcd",
            "sentences",
            "bilinear model by blockwise coordinate descent",
            model="bilinear",
            orders="both",
            one_pass="num_rounds_per_block",
            words={"num_rounds_per_block": "the number of training sentences"},
        ),
        "crf": Spec(
            "lowrank_jax.batch.crf",
            "sentences",
            "conditional random field, L2 (L-BFGS) or L1 (OWL-QN)",
            is_batch=True,
            num_passes=100,
        ),
        "smm": Spec(
            "lowrank_jax.batch.smm.fobos",
            "words",
            "spectral max-margin: low-rank Hankel matrices, for --format nettalk",
            is_batch=True,
            model="hankel",
            orders="",
            num_passes=200,
            functions=("learner", "final_params"),
            hidden=("state",),
        ),
    }
)

#: Limit of a step of MIRA times the spread of the features, chosen on held-out lists of
#: four tasks (``python -m experiments tm-defaults``).
STEP = 0.1

#: The learners of rerankers. Their defaults in the library are the paper's.
RERANKERS: Mapping[str, Spec] = types.MappingProxyType(
    {
        "tm": Spec(
            "lowrank_jax.online.tensor_mira",
            "lists",
            "Tensor-MIRA: weights of low CP rank",
            model="tensor",
            num_passes=5,
            functions=("lowrank_jax.estimators.reranker:tensor_shape", "learner"),
            hidden=("num_features", "shape"),
            defaults={
                "step": "bcd",
                "decoding": "cost",
                "averaging": "average",
                "start": "auto",
            },
            words={"start": "auto: constant for one component, positive for more"},
        ),
        "mira": Spec(
            "lowrank_jax.online.rerank",
            "lists",
            "MIRA, one weight per feature",
            num_passes=5,
            hidden=("rule",),
            defaults={"decoding": "cost", "max_step_size": None},
            words={"max_step_size": f"{STEP} / data.lists.spread of the lists"},
        ),
        "perceptron": Spec(
            "lowrank_jax.online.rerank",
            "lists",
            "perceptron, one weight per feature",
            num_passes=5,
            hidden=("rule",),
        ),
    }
)


def check_wide(estimator: Any, learner: Any) -> None:
    """Raise `InputError` unless batches and devices fit the learner.

    Args:
      estimator: Estimator with `batch_size` and `num_devices`.
      learner: Learner of the estimator.
    """
    from lowrank_jax import checks, loops

    checks.whole(num_devices=estimator.num_devices)
    if not loops.is_wide(estimator.batch_size, estimator.num_devices):
        return
    if learner.wide is None:
        raise InputError(
            "`batch_size` and `num_devices` above 1 are for bol, sp and mira, got "
            f"{estimator.learner}; leave them out."
        )
    learner.wide()  # refuses settings that have no wide rounds
    if getattr(estimator, "calibration_folds", 0):
        raise InputError(
            "`calibration_folds` trains with batch_size=1, got batch_size="
            f"{estimator.batch_size}; calibrate on held-out data instead."
        )
    if estimator.num_devices > 1:
        from lowrank_jax import sharding

        sharding.mesh(estimator.num_devices)  # says how many there are


def spec_of(name: str, known: Mapping[str, Spec]) -> Spec:
    """Return the entry of a learner, or say which learners there are."""
    if name not in known:
        raise InputError(f"`learner` must be one of {', '.join(known)}, got {name!r}.")
    return known[name]


def module_of(spec: Spec) -> Any:
    """Import the module of a learner."""
    return importlib.import_module(spec.module)


def functions_of(spec: Spec) -> list[Callable[..., Any]]:
    """Return the functions whose arguments are settings."""
    found = []
    for name in spec.functions:
        module, _, function = name.rpartition(":")
        found.append(getattr(importlib.import_module(module or spec.module), function))
    return found


def options_of(spec: Spec) -> dict[str, inspect.Parameter]:
    """Return the settings of a learner with their types and defaults."""
    return {
        name: parameter.replace(default=spec.defaults.get(name, parameter.default))
        for function in functions_of(spec)
        for name, parameter in inspect.signature(
            function, eval_str=True
        ).parameters.items()
        if name not in spec.hidden
    }


def complete(
    owner: str,
    options: Mapping[str, inspect.Parameter],
    given: Mapping[str, Any],
    also: Iterable[str] = (),
) -> dict[str, Any]:
    """Return all settings, those not given by default.

    Args:
      owner: Name of the learner, for the message.
      options: Settings from `options_of`.
      given: Values that were given.
      also: Names that a wrong one may mean beside the settings.

    Raises:
      InputError: If a name is not a setting, or None is given for a number or word.
    """
    for name, value in given.items():
        if name not in options:
            raise unknown(f"`{name}`", name, owner, options, also)
        takes_none = type(None) in typing.get_args(options[name].annotation)
        if value is None and not takes_none:
            raise InputError(f"`{name}` must have a value, got None; leave it out.")
    return {name: p.default for name, p in options.items()} | dict(given)


def label_cost(cost: Any, labels: tuple[str, ...]) -> Any:
    """Return the cost of wrong labels as the learners take it.

    Args:
      cost: Dict from a true label to its cost, or to a dict from predicted labels to
        costs. A cost that is not named is 1. Anything else is returned as it is.
      labels: Labels of the model.
    """
    import numpy as np

    if not isinstance(cost, Mapping):
        return cost
    table, places = np.ones((len(labels),) * 2), {n: i for i, n in enumerate(labels)}
    for true, found in cost.items():
        pairs = found if isinstance(found, Mapping) else {None: found}
        for predicted, number in pairs.items():
            for name in (true, *(() if predicted is None else (predicted,))):
                if name not in places:
                    raise InputError(
                        f"`label_cost` has the label {name!r}, and the training data "
                        f"have {', '.join(labels)}."
                    )
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise InputError(
                    f"`label_cost` must hold numbers, got {number!r} for {true!r}."
                )
            column = slice(None) if predicted is None else places[predicted]
            table[places[true], column] = number
    return table


def to_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as JSON has them: a dtype becomes its name."""
    return {name: _plain(value) for name, value in settings.items()}


def without_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as a learner takes them: undo `to_json`."""
    import numpy as np

    found = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    if "dtype" in found:
        found["dtype"] = np.dtype(found["dtype"])
    return found


def _plain(value: Any) -> Any:
    import numpy as np

    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.dtype) or (isinstance(value, type) and value is not type):
        return np.dtype(value).name
    if hasattr(value, "dtype"):  # jnp.float32 is neither a dtype nor a type
        return np.dtype(value).name
    return value
