"""Wide rounds of MIRA against plain loops, and its quadratic program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops
from lowrank_jax.checks import InputError
from lowrank_jax.online import mira, touched
from tests.online.tasks import random_task
from tests.online.wide import twins
from tests.online.wide.test_perceptron import KEY, orders_of


@pytest.mark.parametrize(
    ("cost", "largest", "orders"),
    [("hamming", 0.1, "0 0"), ("one", 1.0, "0 0"), ("hamming", 0.0625, "01 1")],
)
def test_wide_rounds_equal_plain_loops(cost, largest, orders):
    has_transitions = cost == "hamming"
    task = random_task(orders.split(), has_transitions=has_transitions, shared=True)
    learner = mira.learner(
        max_step_size=largest, cost=cost, capacity=mira.Capacity(5, 3, 2),
        dtype=jnp.float64,
    )  # fmt: skip
    given = {"key": KEY, "num_passes": 3, "batch_size": 6}
    state, trace = loops.train(learner, task, **given)
    last, mean, rows = twins.mira(
        task, orders_of(task, 3), [6] * 3, largest, cost == "one"
    )
    wrong, margin, tau = (np.array(part) for part in zip(*rows, strict=True))
    np.testing.assert_array_equal(trace.num_wrong, wrong)
    np.testing.assert_allclose(trace.margin, margin, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(trace.step_size, tau, rtol=1e-9, atol=1e-10)
    assert ((tau > 0) & (tau < largest)).any()
    held = touched.by_feature(state.params)
    found = touched.by_feature(mira.final_params(state))
    for name in ("zero", "first") if "1" in orders else ("zero",):
        for own, twin in ((held, last), (found, mean)):
            own, twin = getattr(own, name)[:-1], getattr(twin, name)
            np.testing.assert_allclose(own, twin, atol=1e-10)
    squares = sum((part**2).sum() for part in last) / 2
    np.testing.assert_allclose(state.conjugate, squares, rtol=1e-9)


def test_cost_augmented_decoding_has_no_wide_rounds():
    with pytest.raises(InputError, match="of mira need decoding=plain"):
        loops.train(
            mira.learner(decoding="cost"),
            random_task(("0", "0")),
            key=jax.random.key(0),
            num_passes=1,
            batch_size=4,
        )
