"""The arrays behind the plots: shapes, and what the statements say of them."""

import numpy as np
import pytest

from lowrank_jax.verify import Effort, curves, page, run
from lowrank_jax.verify.statement import Found, Statement


@pytest.fixture(scope="module")
def made():
    """Of learners and steps the most telling ones alone: each is a program more."""
    return curves.Curves(
        regret=curves.regrets(),
        duals=curves.duals(names=("sp", "bol exact")),
        descent=curves.descent(),
        gap=curves.duality_gap(),
        rounds=curves.tensor_rounds(steps=("paper", "bcd")),
    )


@pytest.mark.slow
def test_regret_certificate_tight_and_paper_bound_are_a_chain(made):
    regret, certificate, tight, paper, scale = made.regret
    assert regret.shape == certificate.shape == tight.shape == paper.shape == (250,)
    slack = 1e-9 * scale
    assert np.isfinite(paper[-1])
    assert (regret <= certificate + slack).all()
    assert (certificate <= tight + slack).all()
    assert (tight <= paper + slack).all()
    assert regret[-1] > 0 and certificate[-1] < 2 * regret[-1] < tight[-1]


def test_duals_of_sequence_runs(made):
    assert set(made.duals) < set(curves.LEARNERS)
    for run_ in made.duals.values():
        assert all(part.shape == (400,) for part in run_)
        assert (np.diff(run_.mistakes) >= 0).all() and run_.mistakes[-1] > 50
        some = run_.conjugate > 0
        best = run_.best_step_size * run_.mistakes
        best -= run_.best_step_size**2 * run_.conjugate
        np.testing.assert_allclose(best[some], run_.best_dual[some], rtol=1e-9)
        assert (run_.best_dual >= run_.dual - 1e-9).all()
        assert (run_.ratio <= 1).all() and (run_.ratio >= 0).all()
    assert made.duals["sp"].dual[-1] < 0 < made.duals["sp"].best_dual[-1]
    in_use = {name: run_.blocks_in_use[-1] for name, run_ in made.duals.items()}
    np.testing.assert_allclose(in_use["bol exact"], 1)
    assert in_use["sp"] > 20


def test_descent_at_the_predicted_rate(made):
    run_ = made.descent
    assert run_.objective.shape == run_.distance.shape
    assert (np.diff(run_.objective) <= 1e-14).all()
    last = run_.distance[-40:-10]
    observed = (last[-1] / last[0]) ** (1 / 29)
    np.testing.assert_allclose(observed, run_.predicted_rate, rtol=1e-3)


def test_the_gap_closes_from_both_sides(made):
    run_ = made.gap
    assert run_.objective.shape == run_.best.shape == run_.lower_bound.shape == (300,)
    assert (np.diff(run_.best) <= 0).all() and (np.diff(run_.lower_bound) >= 0).all()
    assert 0 < run_.lower_bound[-1] <= run_.best[-1] < 1.1 * run_.lower_bound[-1]


def test_block_descent_never_raises_objective_3(made):
    rises = {
        step: (rounds.after > rounds.before * (1 + 1e-9)).mean()
        for step, rounds in made.rounds.items()
    }
    assert rises["bcd"] == 0 < rises["paper"]
    assert all(rounds.before.size > 50 for rounds in made.rounds.values())


def test_the_page_shows_table_and_plots(made):
    def check(*_):
        yield Found(curves.theory.at_most(2.0, 1.0), "x")

    effort = Effort(is_quick=True)
    results = [
        run(Statement("A-1", "one < two", status, max, check, form=form), effort)
        for status, form in (("proved", ""), ("printed-form-fails", "printed"))
    ]
    text = page.page(results, made, effort, 1.0)
    assert text.count("<svg") == text.count("</svg>") == 6
    assert "http" not in text and "<script" not in text and "#010203" not in text
    assert "printed: one &lt; two" in text
    status = 'data-title="status">'
    wrong = "NOT AS EXPECTED: proved, but fails in 1"
    assert f'<td class="bad" {status}{wrong}</td>' in text
    assert f'<td class="known" {status}fails as printed</td>' in text
    for part in zip(*page._SAID.values(), strict=True):  # words, colours
        assert len(set(part)) == 3
