"""Every statement of TM comes out as its status says."""

import pytest

from lowrank_jax.verify import tm
from lowrank_jax.verify.statement import Effort, run

EFFORT = Effort(is_quick=True, seed=0)
each_statement = pytest.mark.parametrize(
    "statement", tm.STATEMENTS, ids=lambda s: f"{s.id} {s.form}".strip()
)


@each_statement
def test_the_statement_is_as_expected_and_as_tight_as_it_says(statement):
    result = run(statement, EFFORT)
    assert result.as_expected, result
    assert result.trials > 0
    if statement.is_tight and statement.status != "printed-form-fails":
        assert 1 / 1.05 < result.worst_ratio < 1.05, result


def test_no_two_rows_have_one_name():
    names = [(statement.id, statement.form) for statement in tm.STATEMENTS]
    assert len(set(names)) == len(names)
