"""``train --certify``: the certificate of this run on these data."""

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from lowrank_jax import loops
from lowrank_jax.certify import regret
from lowrank_jax.checks import InputError

if TYPE_CHECKING:
    from lowrank_jax.estimators.training import Job, Outcome
    from lowrank_jax.features import Encoder

__all__ = ["certificate", "comparator", "line", "prepare", "watch"]

_LEARNERS = ("bol", "sp")


def prepare(arguments: argparse.Namespace, given: dict[str, Any]) -> None:
    """Check what ``--certify`` asks for, and have the learner record what it needs.

    Args:
      arguments: of the command.
      given: the learner's hyper-parameters, to which the record is added.
    """
    if arguments.certify is None:
        if arguments.certify_every is not None:
            raise InputError("--certify-every needs --certify; add it.")
        return
    if arguments.learner not in _LEARNERS:
        raise InputError(
            f"--certify knows the learners {' and '.join(_LEARNERS)}, got "
            f"{arguments.learner}: leave it out, or train one of those."
        )
    if arguments.certify_every is not None and arguments.learner == "sp":
        raise InputError(
            "--certify-every looks at the spectrum of blocks, which sp does not have; "
            "leave it out, or train bol."
        )
    record = tuple(given.get("record", ()))
    given["record"] = tuple(dict.fromkeys((*record, "predicted")))


def _kind(learner: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return variant, rank and step size, as `certify` wants them."""
    return {
        "variant": "sp" if learner == "sp" else settings["variant"],
        "rank": settings.get("rank", 1),
        "step_size": float(settings["step_size"]),
    }


def comparator(arguments: argparse.Namespace, encoder: "Encoder") -> Any:
    """Read the model that ``--certify`` names, or return None where it is our own.

    Before the training, so that a folder which will not do costs no time.

    Args:
      arguments: of the command.
      encoder: of this run; the other model must have the same features.
    """
    if arguments.certify in (None, "average", "hindsight"):
        return None
    from lowrank_jax.estimators.tagger import Tagger

    folder = arguments.certify
    other = Tagger.load(folder)
    if not _same_features(encoder, other.encoder):
        raise InputError(
            f"--certify {folder}: that model has other features or labels than this "
            f"run; train it on the same data with the same template."
        )
    if arguments.learner == "sp" and other.model != "linear":
        raise InputError(
            f"--certify {folder}: a run of sp needs a linear model to compare with "
            f"(sp, mira or crf), got {other.learner}."
        )
    return other.params


def _same_features(one: "Encoder", other: "Encoder") -> bool:
    """Return whether ids mean the same in both."""
    if one.space != other.space or one.labels != other.labels:
        return False
    mine, theirs = one.arrays(), other.arrays()
    return mine.keys() == theirs.keys() and all(
        np.array_equal(mine[name], theirs[name]) for name in mine
    )


def watch(
    arguments: argparse.Namespace, settings: dict[str, Any]
) -> Callable[[Any], dict[str, Any]] | None:
    """Return what looks at the exact spectrum of a state, if it is asked for."""
    if arguments.certify_every is None:
        return None

    def look(state: Any) -> dict[str, Any]:
        ended = regret.conjugate(state)
        assert ended.spectrum is not None
        return {"conjugate": ended.value, "spectrum": ended.spectrum._asdict()}

    return look


def certificate(
    arguments: argparse.Namespace,
    settings: dict[str, Any],
    job: "Job",
    outcome: "Outcome",
    params: Any,
) -> dict[str, Any]:
    """Certify the run; returns what certificate.json holds.

    Args:
      arguments: of the command.
      settings: all hyper-parameters.
      job: what was trained on.
      outcome: with the traces of all passes.
      params: of the model to compare with.
    """
    began = time.perf_counter()
    kind = _kind(arguments.learner, settings)
    key = jax.random.key(job.seed)
    orders = [
        loops.pass_order(key, index, job.num_sentences)
        for index in range(len(outcome.traces))
    ]
    ended = regret.conjugate(outcome.state)
    found = regret.run_certificate(
        outcome.traces,
        orders,
        job.corpus,
        params,
        ended,
        is_best_multiple=arguments.certify == "hindsight",
        step_size=kind["step_size"],
    )
    result = found._asdict()
    if found.spectrum is not None:
        result["spectrum"] = found.spectrum._asdict()
    return {
        "statement": "DR-B4",
        "learner": arguments.learner,
        "comparator": arguments.certify,
        **kind,
        **result,
        "passes": [
            {key: entry[key] for key in entry if key not in ("sentences", "seconds")}
            for entry in outcome.history
        ],
        "seconds": time.perf_counter() - began,
    }


def line(found: dict[str, Any]) -> str:
    """Say in one line what was certified."""
    verdict = "holds" if found["holds"] else "DOES NOT HOLD"
    return (
        f"certificate (DR-B4) against {found['comparator']}: regret "
        f"{found['regret']:,.1f}, at most {found['certificate']:,.1f}: {verdict}"
    )
