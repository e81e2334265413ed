"""Each statement of the geometry of BOL's mirror map comes out as it should."""

import functools

import pytest

from lowrank_jax.verify import Effort, run
from lowrank_jax.verify.bol_geometry import STATEMENTS


@functools.cache
def result(place):
    return run(STATEMENTS[place], Effort(is_quick=True))


@pytest.mark.parametrize(
    "place",
    range(len(STATEMENTS)),
    ids=[f"{row.id} {row.form}".strip() for row in STATEMENTS],
)
def test_statement_comes_out_as_expected(place):
    found = result(place)
    assert found.as_expected, found
    assert found.trials > 0
    if found.is_tight and found.status != "printed-form-fails":
        assert found.worst_ratio > 1 / 1.05, found


def test_rows_are_told_apart_and_printed_forms_have_a_true_one_beside_them():
    keys = [(row.id, row.form) for row in STATEMENTS]
    assert len(set(keys)) == len(keys)
    for row in STATEMENTS:
        if row.status == "printed-form-fails":
            assert any(
                other.id == row.id and other.status == "proved" for other in STATEMENTS
            )


def test_printed_second_order_bound_is_loose_by_four_times_the_smaller_side():
    places = {(row.id, row.form): i for i, row in enumerate(STATEMENTS)}
    printed = result(places["BOL-P3", "printed"])
    tight = result(places["DR-B2", "segment"])
    assert 0.95 < 12 * printed.worst_ratio <= 1  # l = 3 at quick effort
    assert 0.95 < tight.worst_ratio <= 1 + 1e-9
