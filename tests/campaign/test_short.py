"""The short form of the campaign: a few seconds of each cheap part."""

import pytest

from tests.campaign import inputs, runs


@pytest.mark.slow
@pytest.mark.parametrize("fuzz", [inputs.fuzz_readers, inputs.fuzz_models])
def test_damaged_inputs_raise_nothing_but_input_errors(tmp_path, fuzz):
    part = fuzz(tmp_path, 3.0, seed=20)
    assert part.tried > 10
    assert part.found == []


def test_a_training_is_compared_with_a_training_of_its_own_kind(tmp_path):
    model = tmp_path / "m"
    words = runs.command("smm", tmp_path, model)
    before = runs.unbroken_bits(words, model)
    given = runs.command("sp", tmp_path, model)
    assert runs.quiet(given)[0] == 2  # the folder holds a model of another kind
    assert runs.bits(model) == before
    assert runs.unbroken_bits(given, model) != before
    with pytest.raises(AssertionError, match="no training"):
        runs.unbroken_bits([*given, "--passes", "-1"], model)
