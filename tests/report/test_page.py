import sys

import pytest

from lowrank_jax.report import page


def draw(figure):
    axes = figure.subplots()
    axes.plot([1, 2], [3, 4], color=page.BLUE, label="a line")
    axes.legend()


@pytest.fixture(scope="module")
def drawn():
    return page.picture(draw, "What is <b>seen</b> & more. The rest.", 2.0)


def test_a_picture_takes_the_colours_of_the_page(drawn):
    assert drawn.count("<svg") == drawn.count("</svg>") == 1
    assert "currentColor" in drawn and "var(--line)" in drawn and page.BLUE in drawn
    assert "#010203" not in drawn and "#040506" not in drawn
    assert "http" not in drawn and "<metadata" not in drawn and "<?xml" not in drawn
    assert 'aria-label="What is seen &amp; more"' in drawn
    assert "<figcaption>What is <b>seen</b> & more. The rest.</figcaption>" in drawn


def test_a_picture_is_the_same_each_time(drawn):
    assert page.picture(draw, "What is <b>seen</b> & more. The rest.", 2.0) == drawn


def test_a_file_is_drawn_on_white():
    assert page.draw_png(draw, (2.0, 1.0)).startswith(b"\x89PNG")


def test_without_matplotlib_there_is_a_remark(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not page.can_draw()
    assert "lowrank_jax[cli]" in page.picture(draw, "x")


def test_a_table_escapes_its_cells_and_marks_the_last():
    text = page.table(["x", "y<"], [["a<b", "c"]], text=["x"], marks=["bad"])
    assert '<td class="text">a&lt;b</td><td class="bad">c</td>' in text
    assert "<th>y&lt;</th>" in text


def test_a_page_escapes_its_title_and_needs_nothing_else():
    text = page.page("a < b", ["<p>body</p>"])
    assert "<h1>a &lt; b</h1>" in text and "<p>body</p>" in text
    assert "http" not in text and "<script" not in text
    assert "prefers-color-scheme: dark" in text
