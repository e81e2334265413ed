import re
import sys

import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.cli import main
from lowrank_jax.cli.commands import demo
from lowrank_jax.demo import SMALL, bol_section, sblr


@pytest.mark.slow
def test_all_sequence_learners_learn(demo_report):
    assert demo_report.status == 0
    made = demo_report.sequences
    names = [row.name for row in made.rows]
    assert names == ["sp", "averaged sp", "mira", "bol paper", "bol block"]
    for row in made.rows:
        mistakes, f1 = row.along["mistakes"], row.along["f1"]
        assert mistakes[-1] < mistakes[0] / 4
        assert f1[-1] > 80 and float(row.cells["accuracy"]) > 85
        assert len(f1) == len(mistakes) == SMALL.passes
    weights = {r.name: int(r.cells["weights"].replace(",", "")) for r in made.rows}
    assert weights["bol block"] < weights["sp"]


@pytest.mark.slow
def test_the_certificates_hold_in_every_round(demo_report):
    made = demo_report.sequences
    assert [regret.name for regret in made.regrets] == ["sp", "bol block"]
    for regret in made.regrets:
        along = regret.along
        assert along.regret.shape == (SMALL.sentences * SMALL.passes,)
        assert (along.certificate >= along.regret).all()
        np.testing.assert_allclose(along.regret[-1], regret.loss - regret.comparator)
        assert regret.best_step_size > 0
    for shares in made.spectra.values():
        assert 0.5 < shares[0] < shares[1] <= shares[-1] == pytest.approx(1)


@pytest.mark.slow
def test_what_the_certificate_allows_only_grows(demo_report):
    for regret in demo_report.sequences.regrets:
        steps = np.diff(regret.along.certificate)
        assert (steps >= -1e-3 * regret.loss).all()  # each B_t is 0 or more


@pytest.mark.slow
def test_all_four_systems_are_told_of(demo_report):
    def number(name):
        (line,) = re.findall(rf"^{name}  .*", demo_report.out, re.MULTILINE)
        return float(line.removeprefix(name).split()[0])

    assert number("sblr, rank 2") > 80 and number("logistic regression") > 80
    assert number("spectral") > number("none") > 50
    assert number("MIRA") > 0.6 and number("Tensor-MIRA, descent") > 0.6
    told = " ".join(demo_report.out.split())
    assert "1 fail as printed, as they should" in told and "Report: " in told


@pytest.mark.slow
def test_the_page_stands_by_itself(demo_report):
    page = demo_report.page.read_text("utf-8")
    assert page.count("<svg") == page.count("</svg>") == 14
    text = re.sub(r"base64,[^\"]*", "", page)
    assert "http" not in text and "<script" not in text and "src=" not in text
    assert 'name="viewport"' in text and "made up" in text
    for row in demo_report.sequences.rows:
        assert f">{row.along['f1'][-1]:.2f}</td>" in text
    for title in ("Sequences", "Matrices", "Words", "Lists", "The statements"):
        assert f"<h2>{title}" in text
    assert '<td data-title="id">TM-Eq6</td>' in text


@pytest.mark.slow
def test_statuses_are_told_apart_and_pictures_explained(demo_report):
    page = demo_report.page.read_text("utf-8")
    cells = re.findall(r'<td class="(\w+)" data-title="status">([^<]*)</td>', page)
    said = {"good": "holds, proved", "seen": "holds, checked"}
    assert dict(cells) == said | {"known": "fails as printed"}
    captions = re.findall(r"</svg>\n<figcaption>(.*?)</figcaption>", page, re.DOTALL)
    assert len(captions) == page.count("<svg")
    for caption in captions:  # each begins with a sentence that has a verb
        assert re.match(r"(The|Each) .* (is|shows?) |Each dot is", caption), caption
        assert caption.endswith(".")


@pytest.mark.slow
def test_without_matplotlib_the_page_is_text(demo_report, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    section = "".join(bol_section.section(demo_report.sequences))
    assert "<svg" not in section and "lowrank_jax[cli]" in section


def test_a_check_that_stops_is_told_of():
    with (
        demo._verifying(("no such id",)) as verified,
        pytest.raises(InputError, match="status 2; run it by itself"),
    ):
        verified()


def test_without_scikit_learn_matrices_are_made_up():
    found = sblr._made_up()
    assert found.x.shape == (1800, 8, 8) and set(found.y) == {0, 1, 2}
    assert "Made-up matrices" in found.about


@pytest.mark.slow
def test_wrong_words_are_marked(demo_report):
    made = demo_report.sequences
    shown = demo._sentences_text(made, is_coloured=False)
    coloured = demo._sentences_text(made, is_coloured=True)
    words = [pair for s in bol_section.cut_sentences(made) for pair in s]
    num_wrong = sum(not is_right for _, is_right in words)
    assert shown.count("[") == num_wrong == coloured.count("\033[97;41m")
    assert coloured.count("\033[97;44m") == len(words) - num_wrong


def test_a_word_is_right_if_both_its_ends_are():
    assert bol_section._spans(["ab", "c"]) == [(0, 2), (2, 3)]


def test_a_place_that_cannot_be_written_is_told_before_the_work(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["demo", "--out", str(tmp_path / "file" / "x")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "cannot be written" in captured.err
