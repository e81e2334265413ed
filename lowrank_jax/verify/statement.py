"""A statement of a paper, and what thousands of trials find of it."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import jax
import numpy as np

from lowrank_jax.theory.certificate import Certificate

__all__ = ["Effort", "Found", "Result", "Statement", "run"]

Status = Literal["proved", "checked", "printed-form-fails"]


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
    """One form of one statement.

    Attributes:
      id: of the paper's statement, such as "BOL-P3", or of a derived result, "DR-B2".
      words: the statement in one short line of words and simple formulas.
      status: "proved" (it must hold in every trial), "checked" (found to hold, without
        a proof here), "printed-form-fails" (as the paper prints it; must fail).
      function: the dotted name of the function that computes the certificate.
      check: yields the certificates of all trials; runs with 64-bit numbers switched
        on.
      is_tight: some trial comes within 5 % of the bound, so that a constant 5 % too
        strict would be caught. Identities are tight.
      form: "" or what tells two rows of one id apart, such as "printed", "corrected".
    """

    id: str
    words: str
    status: Status
    function: str
    check: Callable[[Effort], Iterable[Found]]
    is_tight: bool = True
    form: str = ""


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
    worst_slack: float  # least slack, as a share of the larger side
    worst_ratio: float  # largest observed / bound: 1 is attained
    worst_case: str
    is_tight: bool
    holds: bool  # in every trial
    as_expected: bool  # a printed form that fails should fail, all others hold
    seconds: float


def run(statement: Statement, effort: Effort) -> Result:
    """Make the trials of one statement, in double precision.

    Args:
      statement: what to check.
      effort: how hard.
    """
    began = time.perf_counter()
    trials = silent = failures = 0
    worst_slack, worst_ratio, worst_case = np.inf, -np.inf, ""
    with jax.enable_x64(True):
        for found in statement.check(effort):
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
    should_fail = statement.status == "printed-form-fails"
    return Result(
        id=statement.id,
        form=statement.form,
        statement=statement.words,
        status=statement.status,
        function=statement.function,
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
    """Yield slack over the larger side, observed over bound, met and held, flat."""
    observed, bound, slack, is_met, has_held = map(np.ravel, certificate)
    sides = np.stack([np.abs(observed), np.abs(bound)])
    size = np.where(np.isfinite(sides), sides, 0).max(0)
    shares = slack / np.where(size == 0, 1, size)
    yield np.where(np.isnan(shares), -np.inf, shares)
    with np.errstate(invalid="ignore", over="ignore"):  # as `theory.ratio`
        quotients = observed / np.where(bound == 0, 1, bound)
    ratios = np.where(bound == 0, np.sign(observed), quotients)
    yield np.nan_to_num(ratios, nan=np.inf)
    yield is_met
    yield has_held
