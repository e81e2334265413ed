"""Where SBLR's objective is low, and where it has solutions (SBLR-Eq3 to R4.1)."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp

from lowrank_jax.batch.sblr.start import start_params
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.theory.sblr import landscape, lipschitz
from lowrank_jax.verify.sblr.ends import End, Run, on_ends, on_sweeps
from lowrank_jax.verify.sblr.points import Trial, on_points
from lowrank_jax.verify.statement import Certify, Effort, Found, fails, proved, tried

__all__: list[str] = []
__dir__ = __all__.copy


@proved(
    "SBLR-Eq19",
    "the whole gradient has a local Lipschitz constant, given in the data",
    lipschitz.joint_certificate,
)
@tried(on_points)
def _joint(certify: Certify, trial: Trial) -> Certificate:
    return certify(trial.labelled, trial.params, trial.other)


@proved(
    "SBLR-Eq3",
    "|grad_U| <= sum w_i |g_i| sigma_1(X_i) |V|: U = V = 0 is stationary",
    landscape.zero_certificate,
)
@tried(on_points)
def _zero(certify: Certify, trial: Trial) -> Certificate:
    return certify(trial.params, trial.labelled)


def _start(certify: Certify, trial: Trial, start: str) -> Certificate:
    rank = trial.params.left.shape[2]
    first = start_params(trial.labelled, rank=rank, start=start)
    return certify(first, trial.labelled)


@fails(
    "SBLR-I1: printed",
    "-u, v of the mean matrix minimise the first-order expansion",
    landscape.start_certificate,
)
@tried(on_points)
def _printed_start(certify: Certify, trial: Trial) -> Certificate:
    return _start(certify, trial, "paper")


@proved(
    "SBLR-I1: corrected",
    "u, v of the mean of y_i X_i minimise the first-order expansion",
    landscape.start_certificate,
)
@tried(on_points)
def _label_start(certify: Certify, trial: Trial) -> Certificate:
    return _start(certify, trial, "label")


@proved(
    "SBLR-A4.1: corrected",
    "a point of small loss is large: the iterates are bounded only off 0",
    landscape.loss_norm_certificate,
)
def _norms(certify: Certify, effort: Effort) -> Iterator[Found]:
    yield from on_points(lambda trial: certify(trial.params, trial.labelled), effort)
    kinds = ("no penalty", "separable, no penalty", "one block")
    yield from on_ends(
        lambda end: certify(end.params, end.problem.labelled), effort, kinds=kinds
    )


@fails(
    "SBLR-R4.1: printed",
    "with Eq5 problem (4) has a solution",
    landscape.minimum_certificate,
)
def _runaway(certify: Certify, effort: Effort) -> Iterator[Found]:
    """Compare with points that have less than the solution which is claimed."""

    def larger(end: End) -> Certificate:
        left, right, bias = end.params
        other = Params(1.5 * left, 1.5 * right, 2.25 * bias)
        return certify(end.params, other, *end.problem[:2])

    def shifted(end: End) -> Certificate:
        left, right, bias = end.params
        other = Params(left / 2, 2 * right, bias)
        return certify(end.params, other, *end.problem[:2])

    def raised(end: End) -> Certificate:
        labelled, strengths, *_ = end.problem
        of_one = labelled._replace(weights=labelled.weights * labelled.targets[:, 0])
        other = end.params._replace(bias=end.params.bias + jnp.ones(1))
        return certify(end.params, other, of_one, strengths)

    for one, kind, words in (
        (larger, "separable, no penalty", "scaled up"),
        (shifted, "one block", "size shifted to the free block"),
        (raised, "elastic net", "one label, offset raised"),
    ):
        for found in on_ends(one, effort, kinds=(kind,)):
            yield Found(found.certificate, f"{kind}: {words}")


@proved(
    "SBLR-R4.1: corrected",
    "level sets are bounded if both blocks are penalised and both labels there",
    landscape.level_set_certificate,
)
def _level_sets(certify: Certify, effort: Effort) -> Iterator[Found]:
    def along(run: Run) -> Certificate:
        labelled, strengths, *_ = run.problem
        level = run.sweeps.objectives[0]
        return jax.vmap(
            lambda params: certify(params, labelled, strengths, level=level)
        )(run.few.params)

    yield from on_points(
        lambda trial: certify(trial.params, trial.labelled, trial.strengths), effort
    )
    yield from on_sweeps(along, effort)
