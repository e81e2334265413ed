"""Certificates of runs in wide rounds (DR-B10)."""

import jax
import pytest

from lowrank_jax import certify, loops
from lowrank_jax.checks import InputError
from lowrank_jax.online import bol, perceptron, touched
from tests.online.tasks import random_task

KEY = jax.random.key(2)


def trained(module, batch_size=5, **settings):
    orders = ("0", "0") if module is perceptron else ("01", "0")
    task = random_task(orders, has_transitions=True, shared=True)
    learner = module.learner(record=("predicted",), step_size=0.5, **settings)
    given = {"key": KEY, "num_passes": 2, "batch_size": batch_size}
    state, trace = loops.train(learner, task, **given)
    return task, state, trace, touched.by_feature(module.final_params(state))


@pytest.mark.parametrize(
    ("module", "settings"),
    [(perceptron, {}), (bol, {"rank": 2}), (bol, {"start": 0.5})],
)
def test_the_regret_of_a_wide_run_is_within_its_certificate(module, settings):
    """DR-B10, with F*(Theta_N) from singular values."""
    task, state, trace, params = trained(module, **settings)
    found = certify.wide_regret(state, trace, task, params, key=KEY)
    assert found.holds and 0 < found.num_mistakes <= found.num_rounds == 28
    weight = trace.step_size * trace.is_mistake
    assert found.loss == pytest.approx((weight * (1 - trace.margin)).sum(), rel=1e-5)
    expected = found.comparator_penalty + found.conjugate
    expected -= (weight * trace.margin).sum()
    assert found.certificate == pytest.approx(expected, rel=1e-5)


def test_the_sum_of_the_moves_is_the_dual_and_another_run_is_refused():
    task, state, trace, params = trained(perceptron)
    with pytest.raises(InputError, match="do not add up to the dual"):
        halved = trace._replace(step_size=trace.step_size / 2)
        certify.wide_regret(state, halved, task, params, key=KEY)
    with pytest.raises(InputError, match="wrong labels where sentence"):
        certify.wide_regret(state, trace, task, params, key=jax.random.key(9))
    half = jax.tree.map(lambda part: part[:14], trace)
    with pytest.raises(InputError, match="seen 28 sentences where the trace has 14"):
        certify.wide_regret(state, half, task, params, key=KEY)
    blind = trace._replace(predicted=None)
    with pytest.raises(InputError, match="needs their trace with predictions"):
        certify.wide_regret(state, blind, task, params, key=KEY)
