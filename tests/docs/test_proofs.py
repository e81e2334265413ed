"""Each derived result has its statement, its proof and its place on the theory page."""

import pathlib
import re

import pytest

from lowrank_jax.verify import catalogue

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "theory.md"
IDS = sorted(
    {row.id.split(",")[0] for row in catalogue.statements() if row.id.startswith("DR-")}
)


@pytest.mark.parametrize("name", IDS)
def test_a_derived_result_is_proved_on_the_page(name):
    text = PAGE.read_text()
    (part,) = re.findall(
        rf"\*\*{name}(?:\.\*\*|\*\*).*?(?=\n\*\*|\n#)", text, re.DOTALL
    )
    assert "*Proof.*" in part and "∎" in part and "checked" not in part
