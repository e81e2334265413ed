"""How the rows on the geometry of BOL's mirror map stand to each other."""

from lowrank_jax.verify import Effort, run
from lowrank_jax.verify.catalogue import PARTS, part

STATEMENTS = part(PARTS[0])


def test_printed_forms_have_a_true_one_beside_them():
    for row in STATEMENTS:
        if row.status == "printed-form-fails":
            assert any(
                other.id == row.id and other.status == "proved" for other in STATEMENTS
            )


def test_printed_second_order_bound_is_loose_by_four_times_the_smaller_side():
    rows = {(row.id, row.form): row for row in STATEMENTS}
    printed = run(rows["BOL-P3", "printed"], Effort(is_quick=True))
    tight = run(rows["DR-B2", "segment"], Effort(is_quick=True))
    assert 0.95 < 12 * printed.worst_ratio <= 1  # l = 3 at quick effort
    assert 0.95 < tight.worst_ratio <= 1 + 1e-9
