"""Certificates of runs in wide rounds (DR-B10)."""

import dataclasses

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
    settings = {"step_size": 0.5} | settings
    learner = module.learner(record=("predicted",), **settings)
    given = {"key": KEY, "num_passes": 2, "batch_size": batch_size}
    state, trace = loops.train(learner, task, **given)
    return task, state, trace, touched.by_feature(module.final_params(state))


@pytest.mark.slow
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
    if module is bol:
        other = state._replace(start=0.6 if state.start is None else None)
        with pytest.raises(InputError, match="from which its factors have grown by"):
            certify.wide_regret(other, trace, task, params, key=KEY)


def test_the_sum_of_the_moves_is_the_dual_and_another_run_is_refused():
    task, state, trace, params = trained(perceptron)
    with pytest.raises(InputError, match="do not add up to the dual"):
        halved = trace._replace(step_size=trace.step_size / 2)
        certify.wide_regret(state, halved, task, params, key=KEY)
    with pytest.raises(InputError, match="where sentence|another example than"):
        certify.wide_regret(state, trace, task, params, key=jax.random.key(9))
    with pytest.raises(InputError, match="`certify.wide_regret` certifies them"):
        certify.regret(state, trace, task, params, key=KEY)
    with pytest.raises(InputError, match="in rounds of one sentence"):
        certify.held_out(trace, task)
    half = jax.tree.map(lambda part: part[:14], trace)
    with pytest.raises(InputError, match="seen 28 sentences where the trace has 14"):
        certify.wide_regret(state, half, task, params, key=KEY)
    blind = trace._replace(predicted=None)
    with pytest.raises(InputError, match="needs their trace with predictions"):
        certify.wide_regret(state, blind, task, params, key=KEY)


def test_other_data_are_refused_where_no_sentence_was_wrong():
    """A feature of one place differs: each sentence of the trace has its hash."""
    task, state, trace, params = trained(perceptron)
    for place in range(task.num_tokens):
        ids = task.feature_ids.copy()
        ids[place, 0] = (ids[place, 0] + 1) % task.space.num_features
        other = dataclasses.replace(task, feature_ids=ids)
        with pytest.raises(InputError, match="met another example than"):
            certify.wide_regret(state, trace, other, params, key=KEY)
    silent = trace._replace(fingerprint=None)
    with pytest.raises(InputError, match="needs to know the examples"):
        certify.wide_regret(state, silent, task, params, key=KEY)


def test_tiny_steps_are_compared_too():
    """Room is a share of the steps, however small."""
    task, state, trace, params = trained(perceptron, step_size=1e-8)
    assert certify.wide_regret(state, trace, task, params, key=KEY).holds
    doubled = trace._replace(step_size=2 * trace.step_size)
    with pytest.raises(InputError, match="do not add up to the dual"):
        certify.wide_regret(state, doubled, task, params, key=KEY)
