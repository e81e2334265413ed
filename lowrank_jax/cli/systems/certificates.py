"""``train --certify``: the certificate of a run on its own data."""

import argparse
import time
from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.estimators.learners import LEARNERS

if TYPE_CHECKING:
    from lowrank_jax.cli.fitting import Run
    from lowrank_jax.estimators.tagger import Tagger
    from lowrank_jax.estimators.training import Job
    from lowrank_jax.features import AttributeEncoder, Encoder

__all__ = ["Certifier"]
__dir__ = __all__.copy


class Certifier:
    """Does what ``--certify`` and ``--certify-every`` ask for."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Keep the arguments."""
        self.arguments = arguments
        self._comparator: Any = None
        self._is_wide = False

    def prepare(self, given: dict[str, Any]) -> None:
        """Check the options, and have the learner record its predictions.

        Args:
          given: Settings of the learner, to which the record is added.
        """
        learner, every = self.arguments.learner, self.arguments.certify_every
        if self.arguments.certify is None:
            raise InputError("--certify-every needs --certify; add it.")
        known = [name for name, spec in LEARNERS.items() if spec.has_certificate]
        if learner not in known:
            raise InputError(
                f"--certify knows the learners {' and '.join(known)}, got "
                f"{learner}: leave it out, or train one of those."
            )
        if every is not None and learner == "sp":
            raise InputError(
                "--certify-every looks at the spectrum of blocks, which sp does not "
                "have; leave it out, or train bol."
            )
        if self.arguments.certify == "hindsight" and given.get("start"):
            raise InputError(
                f"--certify hindsight is for runs from zero, got start="
                f"{given['start']:g}; say --certify to compare with the model itself."
            )
        self._is_wide = self.arguments.batch_size != 1 or self.arguments.devices != 1
        is_hindsight = self.arguments.certify == "hindsight"
        if self._is_wide and (every is not None or is_hindsight):
            raise InputError(
                "--certify-every and --certify hindsight are for updates of one "
                "sentence; leave out --batch-size and --devices, or say --certify."
            )
        record = tuple(given.get("record", ()))
        given["record"] = tuple(dict.fromkeys((*record, "predicted")))

    def watch(self, job: "Job", encoder: "Encoder") -> "Job":
        """Return the job with the traces kept and the state looked at.

        The model to compare with is read before the training, so that a folder which
        will not do costs no time.

        Args:
          job: Training to certify.
          encoder: Features of this run.
        """
        if self.arguments.certify not in ("average", "hindsight"):
            self._comparator = self._read_comparator(encoder)
        every = self.arguments.certify_every
        look = _look if every is not None else None
        return job._replace(keep_traces=True, every=every, on_rounds=look)

    def certificate(self, run: "Run", tagger: "Tagger") -> dict[str, Any]:
        """Certify the run; return the content of certificate.json.

        Args:
          run: The run, with the traces of all passes.
          tagger: Model that the run made.
        """
        import jax
        import numpy as np

        from lowrank_jax import certify
        from lowrank_jax.online import touched

        began = time.perf_counter()
        settings, outcome = tagger.hyperparameters_, run.outcome
        params = tagger.params_ if self._comparator is None else self._comparator
        step_size = float(settings["step_size"])
        if hasattr(params, "table"):
            params = touched.by_feature(params)
        with jax.enable_x64(tagger.dtype == np.float64):
            stream: Any = run.job.stream
            if self._is_wide:
                wide = certify.wide_regret(
                    outcome.state,
                    outcome.traces,
                    stream,
                    params,
                    key=jax.random.key(run.job.seed),
                )
                return self._wide(wide, tagger, outcome, began)
            found = certify.regret(
                outcome.state,
                outcome.traces,
                stream,
                params,
                key=jax.random.key(run.job.seed),
                hindsight=self.arguments.certify == "hindsight",
            )
            unseen = certify.held_out(outcome.traces, stream, found)
        result = found._asdict() | {"held_out": unseen._asdict()}
        if found.spectrum is not None:
            result["spectrum"] = found.spectrum._asdict()
        # The step size as it was given, not rounded to the precision.
        result["step_size"] = step_size
        return self._content("DR-B4", result, tagger, outcome, began)

    def _wide(self, found: Any, tagger: Any, outcome: Any, began: float) -> Any:
        """Return the content of certificate.json for wide rounds."""
        result = found._asdict()
        if found.spectrum is not None:
            result["spectrum"] = found.spectrum._asdict()
        result["batch_size"] = self.arguments.batch_size
        return self._content("DR-B10", result, tagger, outcome, began)

    def _content(
        self, statement: str, result: Any, tagger: Any, outcome: Any, began: float
    ) -> dict[str, Any]:
        learner, settings = self.arguments.learner, tagger.hyperparameters_
        left_out = ("sentences", "seconds")
        return {
            "statement": statement,
            "learner": learner,
            "comparator": self.arguments.certify,
            "variant": "sp" if learner == "sp" else settings["variant"],
            "rank": settings.get("rank", 1),
            **result,
            "passes": [
                {key: entry[key] for key in entry if key not in left_out}
                for entry in outcome.history
            ],
            "seconds": time.perf_counter() - began,
        }

    def line(self, found: dict[str, Any]) -> str:
        """Say what was certified: the regret, and the loss on unseen sentences."""
        verdict = "holds" if found["holds"] else "DOES NOT HOLD"
        if self._is_wide:
            return (
                f"certificate (DR-B10) against {found['comparator']}: regret, weighed "
                f"by steps, {found['regret']:,.1f}, at most "
                f"{found['certificate']:,.1f}: {verdict}"
            )
        unseen = found["held_out"]
        return (
            f"certificate (DR-B4) against {found['comparator']}: regret "
            f"{found['regret']:,.1f}, at most {found['certificate']:,.1f}: {verdict}\n"
            f"held-out loss (DR-B13) of the mean of W over the first pass: expected at "
            f"most {unseen['loss']:,.2f} ± {unseen['standard_error']:,.2f} per sentence"
        )

    def _read_comparator(self, encoder: "Encoder") -> Any:
        """Read the weights of the model that ``--certify`` names."""
        from lowrank_jax.estimators.tagger import Tagger

        folder = self.arguments.certify
        other = Tagger.load(folder)
        if not _same_features(encoder, other.encoder_):
            raise InputError(
                f"--certify {folder}: that model has other features or labels than "
                f"this run; train it on the same data with the same template."
            )
        if self.arguments.learner == "sp" and other.model != "linear":
            raise InputError(
                f"--certify {folder}: a run of sp needs a linear model to compare with "
                f"(sp, mira or crf), got {other.learner}."
            )
        return other.params_


def _look(state: Any) -> dict[str, Any]:
    """Return the exact spectrum of a state."""
    from lowrank_jax import certify

    ended = certify.conjugate(state)
    assert ended.spectrum is not None
    return {"conjugate": ended.value, "spectrum": ended.spectrum._asdict()}


def _same_features(one: "Encoder", other: "Encoder | AttributeEncoder") -> bool:
    """Return whether ids mean the same in both."""
    import numpy as np

    if one.space != other.space or one.labels != other.labels:
        return False
    mine, theirs = one.arrays(), other.arrays()
    return mine.keys() == theirs.keys() and all(
        np.array_equal(mine[name], theirs[name]) for name in mine
    )
