"""One result, in the form that suits the platform a program is lowered for.

All forms of a function give the same result, within rounding. The form of a CPU is the
reference. A GPU wants few launches, a TPU whole rows and no gathers of single numbers.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax import checks

__all__ = ["accumulate", "by_platform", "forced"]
__dir__ = __all__.copy

Result = TypeVar("Result")
_FORCED: ContextVar[str | None] = ContextVar("form", default=None)
_FORMS = ("cpu", "gpu", "tpu")
_MOST_SPELT_OUT = 128  # steps; 400 take seconds to compile


def by_platform(
    *arguments: Any,
    cpu: Callable[..., Result],
    gpu: Callable[..., Result] | None = None,
    tpu: Callable[..., Result] | None = None,
) -> Result:
    """Return the result of the form for the platform; pure.

    Args:
      *arguments: Trees of arrays, given to the form.
      cpu: Form for a CPU, and for platforms without a form of their own.
      gpu: Form for a GPU; None takes the form for a CPU.
      tpu: Form for a TPU; None takes the form for a CPU.
    """
    gpu, tpu = gpu or cpu, tpu or cpu
    form = _FORCED.get()
    if form is not None:
        return {"cpu": cpu, "gpu": gpu, "tpu": tpu}[form](*arguments)
    own = {"cuda": gpu, "rocm": gpu, "tpu": tpu}
    own = {name: found for name, found in own.items() if found is not cpu}
    return lax.platform_dependent(*arguments, default=cpu, **own)


def accumulate(
    step: Callable[[jax.Array, Any], jax.Array], start: jax.Array, places: Sequence[int]
) -> jax.Array:
    """Take a step from a total to the next for each place, in order.

    Spelt out, a sum fuses with the gathers of its terms on a CPU, where a reduction
    does not. Many steps are a loop, as each step that is spelt out is compiled.

    Args:
      step: Function of the total and of a place, which is traced in a loop.
      start: Total at the start.
      places: Whole numbers.
    """
    if len(places) <= _MOST_SPELT_OUT:
        return functools.reduce(step, places, start)
    each = jnp.array(places, jnp.int32)
    return lax.fori_loop(0, len(places), lambda i, total: step(total, each[i]), start)


@contextlib.contextmanager
def forced(form: str) -> Iterator[None]:
    """Take one form on every platform while tracing, to compare forms on one machine.

    A function that `jax.jit` has traced before keeps the form it was traced with.

    Args:
      form: ``"cpu"``, ``"gpu"`` or ``"tpu"``.
    """
    checks.choice(_FORMS, form=form)
    token = _FORCED.set(form)
    try:
        yield
    finally:
        _FORCED.reset(token)
