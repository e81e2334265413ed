"""A row: a statement of a paper, the function that is tried, and its trials.

A row stands over its check. The check receives the row's function, so that what is
named is what is tried.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import numpy as np

from lowrank_jax.theory.certificate import Certificate

__all__ = [
    "Certify",
    "Check",
    "Effort",
    "Found",
    "Result",
    "Statement",
    "cheaply",
    "checked",
    "fails",
    "proved",
    "rows_of",
    "run",
    "statement",
    "tried",
]
__dir__ = __all__.copy

Status = Literal["proved", "checked", "printed-form-fails"]
Certify = Callable[..., Any]  # a function of `theory`
Check = Callable[..., Iterable["Found"]]
AnyCheck = TypeVar("AnyCheck", bound=Check)


class Effort(NamedTuple):
    """How hard to try, and from which seed."""

    is_quick: bool
    seed: int = 0

    def trials(self, quick: int, full: int) -> int:
        """Return the number of trials to make: a few, or many."""
        return quick if self.is_quick else full

    def generator(self, *salt: int) -> np.random.Generator:
        """Return a generator of this seed; the salt tells one use from another."""
        return np.random.default_rng((self.seed, *salt))


class Found(NamedTuple):
    """A certificate, or many of them stacked, and what they were computed on."""

    certificate: Certificate
    case: str  # such as "random 4x3", "tie", "counter-example of the errata"


@dataclasses.dataclass(frozen=True)
class Statement:
    """One row: one form of one statement.

    Attributes:
      id: Id of the paper's statement, such as "BOL-P3", or of a derived result, such as
        "DR-B2".
      words: The statement in one short line of words and simple formulas.
      status: "proved" (it must hold in every trial), "checked" (found to hold, without
        a proof here), "printed-form-fails" (as the paper prints it; it must fail).
      function: The function that is tried. The check receives it.
      check: Yields the certificates of all trials, given the function and the effort.
        It runs with 64-bit numbers switched on.
      is_tight: True if some trial comes within 5 % of the bound, so that a constant 5 %
        too strict would be caught. Identities are tight.
      form: "" or what tells two rows of one id apart, such as "printed", "corrected".
    """

    id: str
    words: str
    status: Status
    function: Certify
    check: Check
    is_tight: bool = True
    form: str = ""


def statement(
    status: Status,
    label: str,
    words: str,
    function: Certify,
    *,
    is_tight: bool = True,
    **given: Any,
) -> Callable[[AnyCheck], AnyCheck]:
    """Put a row over a check; several rows may stand over one.

    `proved`, `checked` and `fails` are this decorator for one status.

    Args:
      status: See `Statement`.
      label: Id, or id and form with a colon between, such as "BOL-N5: printed".
      words: See `Statement`.
      function: See `Statement`.
      is_tight: See `Statement`.
      **given: Arguments that this row passes to the check, such as `is_printed`.
    """

    def put(check: AnyCheck) -> AnyCheck:
        tried = functools.partial(check, **given)
        id, _, form = label.partition(": ")
        row = Statement(id, words, status, function, tried, is_tight, form)
        check.rows = (row, *getattr(check, "rows", ()))  # type: ignore[attr-defined]
        return check

    return put


proved = functools.partial(statement, "proved")
checked = functools.partial(statement, "checked")
fails = functools.partial(statement, "printed-form-fails")


def tried(on: Check, **kept: Any) -> Callable[[Callable[..., Any]], Check]:
    """Make a check of a function of the row's function and one problem.

    Args:
      on: Yields the certificates of a function of one problem, over all problems.
      **kept: Arguments of `on`. A row may give others.
    """

    def over(one: Callable[..., Any]) -> Check:
        @functools.wraps(one)
        def check(certify: Certify, effort: Effort, **given: Any) -> Iterable[Found]:
            return on(functools.partial(one, certify), effort, **kept, **given)

        return check

    return over


def rows_of(module: ModuleType) -> tuple[Statement, ...]:
    """Return the rows over the checks of a module, from top to bottom."""
    own = (
        value
        for value in vars(module).values()
        if getattr(value, "__module__", None) == module.__name__
    )
    return tuple(row for value in own for row in getattr(value, "rows", ()))


def cheaply(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a program that runs a few times: less time to compile, more to run."""
    options = {
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
    }
    return jax.jit(function, compiler_options=options)


class Result(NamedTuple):
    """What the trials of one statement found."""

    id: str
    form: str
    statement: str
    status: str
    function: str
    trials: int  # in which the assumptions were met
    silent: int  # in which they were not
    failures: int
    worst_slack: float  # least slack, as a share of the terms that the sides are from
    worst_ratio: float  # largest observed / bound: 1 is attained
    worst_case: str
    is_tight: bool
    holds: bool  # in every trial
    as_expected: bool  # a printed form that fails should fail, all others hold
    seconds: float


def run(statement: Statement, effort: Effort) -> Result:
    """Make the trials of one statement, in double precision.

    Args:
      statement: Row to check.
      effort: Number and seed of the trials.
    """
    began = time.perf_counter()
    trials = silent = failures = 0
    worst_slack, worst_ratio, worst_case = np.inf, -np.inf, ""
    with jax.enable_x64(True):
        for found in statement.check(statement.function, effort):
            shares, ratios, is_met, has_held = _numbers(found.certificate)
            trials += int(is_met.sum())
            silent += int((~is_met).sum())
            failures += int((~has_held).sum())
            if not is_met.any():
                continue
            worst_ratio = max(worst_ratio, float(ratios[is_met].max()))
            if (least := float(shares[is_met].min())) < worst_slack:
                worst_slack, worst_case = least, found.case
    holds = failures == 0 and trials > 0
    function = statement.function
    should_fail = statement.status == "printed-form-fails"
    return Result(
        id=statement.id,
        form=statement.form,
        statement=statement.words,
        status=statement.status,
        function=f"{function.__module__}.{function.__qualname__}",
        trials=trials,
        silent=silent,
        failures=failures,
        worst_slack=worst_slack,
        worst_ratio=worst_ratio,
        worst_case=worst_case,
        is_tight=statement.is_tight,
        holds=holds,
        as_expected=failures > 0 if should_fail else holds,
        seconds=time.perf_counter() - began,
    )


def _numbers(certificate: Certificate) -> Iterator[np.ndarray]:
    """Yield slack over scale, observed over bound, met and held, flat."""
    observed, bound, slack, is_met, has_held, scale = map(np.ravel, certificate)
    shares = slack / np.where(scale == 0, 1, scale)
    yield np.where(np.isnan(shares), -np.inf, shares)
    with np.errstate(invalid="ignore", over="ignore"):  # as `theory.ratio`
        quotients = observed / np.where(bound == 0, 1, bound)
    ratios = np.where(bound == 0, np.sign(observed), quotients)
    yield np.nan_to_num(ratios, nan=np.inf)
    yield is_met
    yield has_held
