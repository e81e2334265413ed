"""A page that is built shows below each block what the block prints."""

import importlib
import pathlib

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = "# A\n\n```python\nx = 2\nprint(x)\n```\n\nThen\n\n```python\ny = x\n```\n"


@pytest.fixture
def outputs(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("outputs")


def test_each_output_stands_below_its_block(outputs):
    last = "\n```python\nprint(x * y)\nprint('end')\n```\n"
    found = outputs.with_outputs(PAGE + last)
    expected = PAGE.replace("print(x)\n```\n", "print(x)\n```\n\n```text\n2\n```\n")
    assert found == expected + last + "\n```text\n4\nend\n```\n"
    assert outputs.with_outputs("# no code\n") == "# no code\n"


def test_a_block_that_fails_stops_the_build(outputs):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        outputs.with_outputs("```python\n1 / 0\n```\n")


def test_each_picture_stands_below_its_block(outputs, tmp_path):
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n"
    page = f"{PAGE}\n```python\n{code}```\n"
    found = outputs.with_outputs(page, tmp_path / "page")
    assert found.endswith("(../results/pages/page/block-2-1.svg)\n")
    assert b"<svg" in (tmp_path / "page" / "block-2-1.svg").read_bytes()
