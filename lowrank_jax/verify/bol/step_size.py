"""BOL's step size C, the best one, and averages of its runs (BOL-Alg2, DR-B8, B9)."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import loops, streams
from lowrank_jax.data.sequences import Space
from lowrank_jax.online import perceptron
from lowrank_jax.theory import certificate
from lowrank_jax.theory.bol import duality
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.types import Learner, Sentence
from lowrank_jax.verify.bol.runs import TIED
from lowrank_jax.verify.bol.studies import (
    MAIN_SHAPE,
    Studied,
    found_on,
    on_runs,
    study,
)
from lowrank_jax.verify.statement import Certify, Effort, Found, cheaply, proved, tried

__all__: list[str] = []
__dir__ = __all__.copy


@proved(
    "BOL-Alg2: any C",
    "W_t and the mistakes do not depend on C, but for the factor C",
    duality.same_run,
)
def _any_step(certify: Certify, effort: Effort) -> Iterator[Found]:
    """Compare W_t and mistakes; where equal scores are usual, rounding breaks them."""

    def pair(run: Studied, variant: str) -> tuple:
        runs = (run.exact, run.unit), (run.paper, run.paper_unit)
        return runs[variant == "paper"]

    def same_weights(run: Studied, variant: str) -> Certificate:
        one, unit = pair(run, variant)
        return certify(one.params, unit.params, step_size=run.step)

    def same_mistakes(run: Studied, variant: str) -> Certificate:
        one, unit = pair(run, variant)
        count = jnp.asarray(float(len(one.info.is_mistake)))
        agree = (one.info.is_mistake == unit.info.is_mistake).sum()
        return certificate.equal(agree.astype(count.dtype), count)

    for same, over_floor in ((same_weights, True), (same_mistakes, False)):
        for variant in ("exact", "paper"):
            yield from on_runs(
                functools.partial(same, variant=variant),
                effort,
                without=TIED,
                over_floor=over_floor,
            )


@proved(
    "DR-B8: parabola",
    "D(C) = CM - C^2 f",
    duality.dual_of_step,
)
@tried(on_runs, without=TIED)
def _parabola(certify: Certify, run: Studied) -> Certificate:
    mistakes, conjugate = run.unit.info.is_mistake.sum(), run.unit.info.conjugate[-1]
    increments = run.exact.info.dual_increment
    return certify(increments, mistakes, conjugate, step_size=run.step)


@proved(
    "DR-B8: maximum",
    "D(C) <= M^2/4f, attained at C* = M/2f",
    duality.dual_is_largest_at_best_step,
)
@tried(on_runs)
def _largest(certify: Certify, run: Studied) -> Certificate:
    given = run.num_mistakes, run.unit_conjugate
    factors = jnp.array([0.5, 0.98, 1.0, 1.7]).astype(run.step.dtype)
    best = duality.best_step_size(*given).step_size
    return certify(*given, step_size=factors * best)


@proved(
    "DR-B8: weak duality",
    "M^2/4f <= F**(U) + C* sum L_t(U)",
    duality.weak_duality_at_best_step,
)
@proved(
    "DR-B8: separable",
    "M^2 <= 4 f F**(U) where <U, dPhi_t> >= 1",
    duality.separable_mistakes,
)
@tried(on_runs)
def _at_best(certify: Certify, run: Studied) -> Certificate:
    return certify(
        run.num_mistakes,
        run.unit_conjugate,
        comparator_penalty=run.us.trace,
        comparator_loss=run.losses,
    )


@proved(
    "DR-B9",
    "mean of Theta_t = its lazy form; for sp it is the averaged perceptron",
    duality.dual_mean,
)
def _dual_average(certify: Certify, effort: Effort) -> Iterator[Found]:
    """Compare the averaged perceptron with the mean of W_t: matrices, sentences."""

    def mean(run: Studied) -> Certificate:
        return certify(run.exact.after, run.step * run.exact.deltas)

    def on_matrices(run: Studied) -> Certificate:
        params = run.perceptron.params
        scale, average = jnp.abs(params).max(), run.perceptron.average
        return certificate.equal(average, params.mean(0), num_axes=2, scale=scale)

    yield from on_runs(mean, effort, over_floor=True)
    made, studied = study(effort, MAIN_SHAPE)
    found = cheaply(jax.vmap(on_matrices))(studied)
    yield from found_on(found, made, "sp on matrices")
    if not effort.is_quick:  # the learner of sequences takes long to compile
        yield Found(_averaged_perceptron(effort), "sp on sentences")


def _averaged_perceptron(effort: Effort) -> Certificate:
    rng = effort.generator(44)
    space = Space(num_features=6, num_labels=3, orders=("1", "0"))
    count, window = 40, 8
    ids: Any = rng.integers(0, 6, (count, window, 2)).astype(np.int32)
    labels: Any = rng.integers(0, 3, (count, window)).astype(np.int32)
    lengths: Any = rng.integers(1, window + 1, count).astype(np.int32)
    sentences = streams.Stacked(Sentence(ids, labels, lengths, space=space))
    learner = perceptron.learner(step_size=0.5, dual="dense", dtype=jnp.float64)

    def update(state: perceptron.State, sentence: Sentence) -> tuple:
        state, _ = learner.update(state, sentence)
        return state, state.params

    @cheaply
    def go(stream: streams.Stacked) -> tuple:
        state = learner.init(jax.random.key(0), stream.example(0))
        order = jnp.arange(count, dtype=jnp.int32)
        watched: Learner = Learner(learner.init, update)
        state, params = loops.run(watched, state, stream, order)
        return perceptron.final_params(state), params

    average, params = go(sentences)
    parts = [(average.zero, params.zero), (average.first, params.first)]
    own = np.concatenate([np.ravel(mean) for mean, _ in parts])
    every = np.concatenate([np.reshape(each, (count, -1)) for _, each in parts], 1)
    return certificate.equal(jnp.asarray(own), jnp.asarray(every.mean(0)), num_axes=1)
