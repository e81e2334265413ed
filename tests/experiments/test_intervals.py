import numpy as np
import pytest

from experiments.intervals import Mean, decide, mean_of, stated, verdict, wilson


def test_interval_is_students_and_wider_for_shared_examples():
    values = [0.7, 0.8, 0.75, 0.85]
    by_hand = 3.182446 * np.std(values, ddof=1) / 2  # t of 3 degrees
    assert mean_of(values).half == pytest.approx(by_hand, rel=1e-6)
    wide = mean_of(values, test_over_train=0.25)
    assert wide.half == pytest.approx(by_hand * np.sqrt(2), rel=1e-6)
    mean, half = mean_of([1.0, 2.0, 3.0])
    assert mean == 2 and half == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)
    assert mean_of([4.0]) == (4.0, 0.0)


def test_a_mean_is_shown_with_its_interval():
    assert Mean(2.0, 0.5).shown() == "2.00 +- 0.50"
    assert Mean(4.0, 0.0).shown("+") == "+4.00"
    assert Mean(0.5, 0.1).shown(digits=3, mark="±") == "0.500 ± 0.100"


def test_an_interval_with_zero_tells_nothing_apart():
    assert verdict(Mean(0.1, 0.2)) == "not told apart"
    assert verdict(Mean(0.3, 0.2)) == "better" and verdict(Mean(-0.3, 0.2)) == "worse"


def test_wilson_covers_a_share():
    low, high = wilson(0.5, 100)
    assert low == pytest.approx(0.4038, abs=1e-4) and low + high == pytest.approx(1)


def test_a_claim_without_an_interval_is_stated():
    assert stated("it is", True, "1 of 1")["verdict"] == "holds"
    found = stated("it is", False, "0 of 1")
    assert found["verdict"] == "fails" and found["interval"] is None
    assert decide("it is", Mean(1.0, 0.0))["verdict"] == "not decided"
