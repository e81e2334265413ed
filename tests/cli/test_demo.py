import re
import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.cli import demo, demo_report, demo_runs, main, report


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The whole demo, once; what it found is kept."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    kept = []

    def keep(tell):
        kept.append(run_demo(tell))
        return kept[0]

    run_demo = demo_runs.run_demo
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_runs, "run_demo", keep)
        status = main(["demo", "--out", str(folder)])
    return types.SimpleNamespace(
        status=status, demo=kept[0], page=(folder / "report.html").read_text("utf-8")
    )


def test_all_learners_learn(made):
    assert made.status == 0
    names = [result.name for result in made.demo.results]
    assert names == ["sp", "averaged sp", "mira", "bol paper", "bol block"]
    for result in made.demo.results:
        assert result.mistakes[-1] < result.mistakes[0] / 5
        assert result.f1[-1] > 85 and result.accuracy > 90
        assert len(result.f1) == len(result.mistakes)
    weights = {r.name: r.num_parameters for r in made.demo.results}
    assert weights["bol block"] < weights["sp"]


def test_the_certificates_hold_in_every_round(made):
    assert [regret.name for regret in made.demo.regrets] == ["sp", "bol block"]
    for regret in made.demo.regrets:
        assert float(regret.certificate.slack) > 0
        assert (regret.bound >= regret.loss).all()
        regret_at_end = regret.loss[-1] - regret.comparator[-1]
        np.testing.assert_allclose(
            float(regret.certificate.observed), regret_at_end, rtol=1e-4
        )
    for shares in made.demo.spectra.values():
        assert 0.5 < shares[0] < shares[1] <= shares[-1] == pytest.approx(1)


def test_the_page_stands_by_itself(made):
    assert made.page.count("data:image/png;base64,") == 3
    text = re.sub(r"base64,[^\"]*", "", made.page)
    assert "http" not in text and "<script" not in text and "<link" not in text
    assert 'name="viewport"' in text
    assert "made up" in text
    for result in made.demo.results:
        assert f"<td>{result.f1[-1]:.2f}</td>" in text


def test_without_matplotlib_the_page_is_text(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = demo_report.report(made.demo)
    assert "<img" not in page and "lowrank_jax[cli]" in page


def test_wrong_words_are_marked(made):
    shown = demo._sentences_text(made.demo, is_coloured=False)
    coloured = demo._sentences_text(made.demo, is_coloured=True)
    words = [pair for s in demo_report.cut_sentences(made.demo) for pair in s]
    num_wrong = sum(not is_right for _, is_right in words)
    assert shown.count("[") == num_wrong == coloured.count("\033[97;41m")
    assert coloured.count("\033[97;44m") == len(words) - num_wrong


def test_a_word_is_right_if_both_its_ends_are():
    assert demo_report._spans(["ab", "c"]) == [(0, 2), (2, 3)]


def test_the_certificate_is_that_of_the_trace():
    info = types.SimpleNamespace(
        is_mistake=np.array([True, False, True]),
        margin=np.array([0.0, 0.0, -2.0], np.float32),
        bregman=np.array([3.0, 0.0, 4.0], np.float32),
    )
    fixed = np.array([2.0, -5.0, 4.0])  # U has margin 1 on both at half its size
    run = types.SimpleNamespace(trace=(info, fixed))
    conjugate = jnp.float32(5.0)  # sum of the Bregman terms less that of the margins
    found = demo_runs._regret("x", run, conjugate, 0.01)
    np.testing.assert_allclose(found.loss, [1, 1, 4])
    # c = 1/2 leaves no loss of U and costs 0.01 / 4.
    np.testing.assert_allclose(found.comparator, 0, atol=0.05)
    np.testing.assert_allclose(found.bound, [3, 3, 7], atol=0.06)
    np.testing.assert_allclose(float(found.certificate.bound), 7, atol=0.06)
    np.testing.assert_allclose(float(found.certificate.observed), 4, atol=0.05)


def test_a_place_that_cannot_be_written_is_told_before_the_work(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["demo", "--out", str(tmp_path / "file" / "x")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "cannot be written" in captured.err


def test_a_table_escapes_its_cells():
    assert "<td>a&lt;b</td>" in report.table(["x"], [["a<b"]])
