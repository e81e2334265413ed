"""The short form of the campaign: a few seconds of each cheap part."""

import pytest

from tests.campaign import inputs


@pytest.mark.parametrize("fuzz", [inputs.fuzz_readers, inputs.fuzz_models])
def test_damaged_inputs_raise_nothing_but_input_errors(tmp_path, fuzz):
    part = fuzz(tmp_path, 3.0, seed=20)
    assert part.tried > 10
    assert part.found == []
