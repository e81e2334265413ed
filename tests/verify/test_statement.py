import sys

import jax.numpy as jnp
import numpy as np

from lowrank_jax.theory.certificate import at_most
from lowrank_jax.verify import Effort, Found, Statement, run
from lowrank_jax.verify.statement import fails, proved, rows_of, tried

QUICK = Effort(is_quick=True, seed=3)


def stated(*founds, status="proved", **given):
    return Statement("X-1", "a <= b", status, found, lambda *_: founds, **given)


def found(observed, bound, case="a case", **given):
    return Found(at_most(jnp.asarray(observed), jnp.asarray(bound), **given), case)


def test_trials_are_counted_and_the_worst_is_named():
    met = jnp.array([True, True, False])
    result = run(
        stated(
            found([1.0, 2.0, 9.0], [4.0, 4.0, 4.0], "many", assumptions_met=met),
            found(0.9, 1.0, "one"),
        ),
        QUICK,
    )
    assert (result.trials, result.silent, result.failures) == (3, 1, 0)
    np.testing.assert_allclose(result.worst_slack, 0.1)
    np.testing.assert_allclose(result.worst_ratio, 0.9)
    assert result.worst_case == "one"
    assert result.holds and result.as_expected
    assert (result.id, result.statement, result.status) == ("X-1", "a <= b", "proved")


def test_one_failure_is_enough():
    result = run(stated(found([0.0, 2.0], 1.0, "bad"), found(0.0, 1.0, "good")), QUICK)
    assert result.failures == 1 and result.worst_case == "bad"
    assert not result.holds and not result.as_expected
    np.testing.assert_allclose(result.worst_slack, -0.5)


def test_a_printed_form_is_expected_to_fail():
    status = "printed-form-fails"
    fails = run(stated(found(2.0, 1.0), status=status), QUICK)
    assert fails.as_expected and not fails.holds
    holds = run(stated(found(1.0, 2.0), status=status), QUICK)
    assert holds.holds and not holds.as_expected


def test_without_a_trial_nothing_holds():
    silent = found(2.0, 1.0, assumptions_met=False)
    for statement in (stated(silent), stated()):
        result = run(statement, QUICK)
        assert result.trials == 0 and not result.holds and not result.as_expected


def test_what_is_not_a_number_is_the_worst_slack():
    result = run(stated(found([jnp.nan, 0.5], 1.0, "nan"), found(0.0, 1.0)), QUICK)
    assert result.worst_slack == -np.inf and result.worst_ratio == np.inf
    assert result.worst_case == "nan" and result.failures == 1 and not result.holds


def test_the_slack_is_a_share_of_the_finite_side():
    result = run(stated(found([1e-6, 0.0], [2e-6, 0.0])), QUICK)
    np.testing.assert_allclose(result.worst_slack, 0.0)
    result = run(stated(found(1e-6, 2e-6)), QUICK)
    np.testing.assert_allclose(result.worst_slack, 0.5)
    result = run(stated(found(1.0, jnp.inf)), QUICK)
    assert result.worst_slack == np.inf and result.holds


def test_checks_run_in_double_precision():
    def check(certify, effort):
        yield certify(jnp.ones(()), 1.0 + 1e-6 * jnp.ones(()))

    result = run(Statement("X", "w", "proved", found, check), QUICK)
    np.testing.assert_allclose(result.worst_slack, 1e-6, rtol=1e-3)


def test_effort_gives_numbers_of_trials_and_generators_by_seed_and_salt():
    full = Effort(is_quick=False, seed=3)
    assert (QUICK.trials(5, 50), full.trials(5, 50)) == (5, 50)
    one, same, other = (
        effort.generator(*salt).random()
        for effort, salt in ((QUICK, (1,)), (full, (1,)), (QUICK, (2,)))
    )
    assert one == same != other
    assert Effort(True, 4).generator(1).random() != one


@proved("Y-1", "a row", at_most)
@fails("Y-2: printed", "another", max, limit=2)
def _check(certify, effort, *, limit=1):
    yield certify, limit


@proved("Y-3", "over all problems", at_most)
@tried(lambda one, effort, size: [one(size)], size=4)
def _shared(certify, problem):
    return certify, problem


def test_rows_stand_over_their_checks_from_top_to_bottom():
    rows = rows_of(sys.modules[__name__])
    assert [(row.id, row.status, row.form) for row in rows] == [
        ("Y-1", "proved", ""),
        ("Y-2", "printed-form-fails", "printed"),
        ("Y-3", "proved", ""),
    ]
    given = [list(row.check(row.function, QUICK)) for row in rows]
    assert given == [[(at_most, 1)], [(max, 2)], [(at_most, 4)]]


def test_the_result_names_the_function():
    name = run(stated(found(1.0, 2.0)), QUICK).function
    assert name == f"{__name__}.found"
