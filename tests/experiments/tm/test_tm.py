"""The experiments of Tensor-MIRA on tiny lists: right figures, tables and plots."""

import dataclasses
import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import intervals, nbest
from experiments.__main__ import draw
from experiments.bench import tm as bench
from experiments.protocol import Setup
from experiments.tm import (
    chunks,
    defaults,
    fig3,
    fig4,
    findings,
    grid,
    scores,
    steps,
    table1,
    tags,
)
from experiments.tm.grid import Tensor
from lowrank_jax import Reranker, loops, streams
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.models import tensor
from lowrank_jax.online import rerank, tensor_mira
from tests.experiments.nbest.examples import corpus_f1

SIZES = (8, 16)
NUM_CHUNKS = 10


def split_of(lists):
    """Ten gold chunks a sentence, ten predicted, as many right as the quality says."""
    correct = np.round(lists.quality * NUM_CHUNKS).astype(np.int32)
    predicted = np.full(correct.shape, NUM_CHUNKS, np.int32)
    gold = np.full(lists.num_lists, NUM_CHUNKS, np.int32)
    lists = dataclasses.replace(lists, quality=(correct / NUM_CHUNKS).astype("f"))
    return nbest.Split(lists, correct, predicted, gold)


@functools.lru_cache
def made():
    train, test, _ = reranking_task(16, 20, seed=0, sizes=(4, 5), num_shared=0)
    parts = train, test, test  # of one shape: fewer programs
    return nbest.ChunkLists(*map(split_of, parts), train.num_features)


@functools.lru_cache
def task():
    return grid.make_task(made(), SIZES)


@pytest.fixture
def tiny(monkeypatch):
    """Run the experiments on tiny lists, with few settings."""
    few = functools.partial(
        steps.run, limits=(0.1,), models=((1, "constant"),), decodings=("plain",)
    )
    scale = table1.Scale(SIZES, table1.NUM_SEEDS, 2, (2,), (1,))
    monkeypatch.setattr(grid, "read_lists", lambda *_: made())
    monkeypatch.setattr(table1, "SCALES", {"small": scale})
    monkeypatch.setattr(steps, "run", few)


def test_a_sweep_side_by_side_equals_single_runs():
    """Lanes of C and seeds are what the learner gives alone, mapping included."""
    setting = Tensor()
    place = np.random.default_rng(0).permutation(20).astype(np.int32)
    cells = grid.to_cells(task().streams["train"], place, 20)
    limits, seeds = (0.01, 1.0), (0, 1)
    swept = grid.sweep(
        setting,
        cells,
        size=16,
        limits=limits,
        seeds=seeds,
        num_passes=2,
        num_rounds=8,
        num_features=20,
    )
    corpus = streams.lists.stream(
        dataclasses.replace(
            made().train.lists, feature_ids=place[made().train.lists.feature_ids]
        )
    )
    lane = 1
    learner = tensor_mira.learner(
        shape=tensor.Shape((4, 5)),
        step="bcd",
        decoding="cost",
        averaging="average",
        max_step_size=limits[lane],
    )
    key = jax.random.key(seeds[lane])
    passes = loops.passes(learner, corpus, key=key, num_passes=2)
    for index, done in enumerate(passes):
        alone = jax.device_get(jax.jit(tensor_mira.final_params)(done.state))
        for one, many in zip(alone, swept.params[index], strict=True):
            np.testing.assert_allclose(many[lane], one, rtol=1e-3, atol=1e-4)
        assert swept.sums[index]["mistakes"][lane] == done.trace.is_mistake.sum()
    lists = made().train.lists
    table = np.zeros((lists.num_candidates, 20))
    owner = np.repeat(np.arange(lists.num_candidates), np.diff(lists.candidate_offsets))
    np.add.at(table, (owner, lists.feature_ids), lists.values)
    values = table @ np.einsum("hi,hj->ij", *alone).ravel(order="F")[place]
    expected = [part.argmax() for part in np.split(values, lists.list_offsets[1:-1])]
    found = grid.choose(swept.params[-1], cells, is_tensor=True)
    assert (found[lane] == expected).mean() > 0.9  # to rounding
    assert not np.allclose(swept.params[-1][0][0], swept.params[-1][0][1], rtol=0.1)
    assert swept.sums[0]["substeps"].max() <= 2 * 16


def test_outcomes_are_the_f1_of_the_corpus_and_intervals_cover_it():
    split = made().test
    rng = np.random.default_rng(0)
    chosen = rng.integers(3, size=(4, 20))
    found = scores.outcome(split, chosen)
    expected = [corpus_f1(split, one) for one in chosen]
    np.testing.assert_allclose(scores.f1_of(found), expected)
    quality = scores.mean_quality(split, chosen)
    np.testing.assert_allclose(quality * 100, expected, rtol=1e-6)
    samples = intervals.Bootstrap(20).sample(*found)
    # A mean over 20 sentences and 4 runs: the spread over both, roughly.
    assert abs(samples.mean() - np.mean(expected)) < 2
    per_list = 100 * found.correct / NUM_CHUNKS
    low = per_list.mean(axis=0).std() / np.sqrt(20)
    assert 0.7 * low < samples.std() < 2 * (low + np.std(expected) / 2)
    above = intervals.answer(np.linspace(1, 2, 100), 1.5)
    assert above["answer"] == "yes" and above["interval"][0] == pytest.approx(1.025)
    assert intervals.answer(np.linspace(-1, 2, 100), 0.5)["note"] == "not established"
    assert (
        intervals.answer(np.linspace(-2, -1, 9), -1.0)["note"] == "the opposite holds"
    )


@pytest.mark.slow
def test_table1_chooses_on_development_and_answers_each_finding(tiny, tmp_path):
    lines = []
    result = json.loads(json.dumps(table1.run(Setup(say=lines.append))))
    rows = result["rows"]
    assert len(rows) == 2 * (3 + 3)
    for row in rows:
        assert len(row["f1_runs"]) == table1.NUM_SEEDS and row["passes"] in (1, 2)
        assert row["f1"] == pytest.approx(100 * row["quality"], rel=1e-4)
        assert result["base_f1"] - 30 < row["f1"] <= result["oracle_f1"]
    assert {row["mapping"] for row in rows} == {"surrogate", "sequential", None}
    sizes = [row["paper_sizes"] for row in result["mode_sizes"]]
    assert sizes == [[1155, 1155], [110, 110, 111], [34, 34, 34, 34]]
    for row in result["mode_sizes"]:
        assert row["paper_parameters"] == row["paper_parameters_printed"]
    assert {name[0] for name in result["findings"]} == set("1234")
    assert all(f["answer"] in ("yes", "no") for f in result["findings"].values())
    decided = {one["claim"]: one["verdict"] for one in findings.verdicts(result)}
    assert decided.keys() == result["findings"].keys()
    for claim, finding in result["findings"].items():
        assert (decided[claim] == "holds") == (finding["answer"] == "yes")
    (step,) = result["steps"]
    assert step["bcd_raises"] == 0 and step["bcd_substeps"] > 20
    assert any("T-MIRA" in line for line in lines)
    text = table1.EXPERIMENT.table(result)
    assert "1155x1155" in text and "| T-MIRA | printed | 2 | 1 | surrogate |" in text
    draw(table1.EXPERIMENT, result, tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("module", "lists", "name", "test"),
    [
        (tags, "tag_lists", "tm-tags", "Brown, 20 sentences"),
        (chunks, "chunk_lists", "tm-chunks", "CoNLL-2000 test, 20 sentences"),
    ],
)
def test_other_lists_run_the_same_grid(
    tiny, monkeypatch, tmp_path, module, lists, name, test
):
    scale = table1.Scale(SIZES, table1.NUM_SEEDS, 2, (2,), (1,))
    monkeypatch.setattr(tags, "SCALES", {"small": scale})
    asked = []
    monkeypatch.setattr(nbest, lists, lambda *_, **how: asked.append(how) or made())
    result = json.loads(json.dumps(module.run(Setup(say=lambda _: None))))
    assert asked[0].get("base") == ("mira" if module is chunks else None)
    other = table1.run(Setup(say=lambda _: None))
    assert result["experiment"] == name and result["test"].startswith(test)
    scored = [[row["f1_runs"] for row in one["rows"]] for one in (result, other)]
    assert scored[0] == scored[1]
    draw(module.EXPERIMENT, result, tmp_path / "lists.png")


def test_verdicts_show_the_differences_they_rest_on():
    part = {"value": 0.5, "interval": [0.1, 0.9], "answer": "yes", "note": ""}
    low = {"value": -0.5, "interval": [-1.0, -0.1], "answer": "no"}
    result = {
        "findings": {
            "1a: better": {"answer": "yes", "by_size": {"100": {"MIRA": part}}},
            "2b: always": {
                "answer": "no",
                "by_size": {"100": part, "200": low | {"note": "the opposite holds"}},
            },
            "3a: mapping": {
                "answer": "no", "mean": part, "num_above": 1, "num_cells": 2,
                "cells": [part, low | {"note": "not established"}],
            },
        }
    }  # fmt: skip
    found = {one["claim"]: one for one in findings.verdicts(result)}
    one = found["1a: better"]
    assert (one["value"], one["found"]) == (0.5, "MIRA +0.50 (+0.10 to +0.90)")
    two = found["2b: always"]
    assert two["found"] == "100 +0.50 (+0.10 to +0.90); 200 -0.50 (-1.00 to -0.10)"
    assert (two["value"], two["verdict"]) == (None, "fails")
    three = found["3a: mapping"]
    assert three["found"] == "mean +0.50 (+0.10 to +0.90); above 0 in 1 of 2 cells"
    assert three["verdict"] == "not decided"


def test_defaults_are_compared_with_each_method_list_by_list(monkeypatch, tmp_path):
    train, held, _ = reranking_task(20, 30, seed=0)
    found = {"default": {}} | {n: {"learner": n} for n in ("perceptron", "tm")}
    pairs = [("made", [(train, held)]), ("again", [(train, held)])]
    monkeypatch.setattr(defaults, "splits", lambda _: pairs)
    monkeypatch.setattr(defaults, "methods", lambda _: found)
    result = json.loads(json.dumps(defaults.run(Setup(say=lambda _: None))))
    task, other = result["tasks"]
    assert task["rows"] == other["rows"]
    draw(defaults.EXPERIMENT, result, tmp_path / "defaults.png")
    rows = {row["method"]: row for row in task["rows"]}
    assert rows["oracle"]["quality"] == 1 and task["lists"] == 30
    first = held.quality[held.list_offsets[:-1]].mean()
    assert rows["base order"]["quality"] == pytest.approx(first)
    own = Reranker().fit(train).score(held)
    assert rows["default"]["quality"] == pytest.approx(own)
    gain, half = rows["base order"]["default over it"]
    assert gain == pytest.approx(100 * (own - first))
    assert "| perceptron |" in defaults.EXPERIMENT.table(result)
    better = defaults.verdicts(result)[0]
    assert better["claim"] == "made: defaults better than base order"
    assert better["value"] == gain > 0
    assert better["verdict"] == ("holds" if gain > half else "not decided")


def test_bleu_of_a_sentence_is_its_definition():
    assert defaults.bleu("a b c d e".split(), "a b c d e".split()) == pytest.approx(1)
    parts = 3 / 4, (1 + 1) / (3 + 1), (0 + 1) / (2 + 1), (0 + 1) / (1 + 1)
    expected = math.prod(parts) ** 0.25 * math.exp(1 - 5 / 4)
    found = defaults.bleu("a b x d".split(), "a b c d e".split())
    assert found == pytest.approx(expected)


def test_fig4_shows_the_energy_of_both_mappings(monkeypatch, tmp_path):
    monkeypatch.setattr(grid, "read_lists", lambda *_: made())
    weights = np.random.default_rng(0).normal(size=20)
    monkeypatch.setattr(grid, "surrogate_of", lambda *_: weights)
    result = fig4.run(Setup(say=lambda _: None))
    surrogate, sequential = result["rows"]
    expected = np.linalg.svd(weights.reshape(4, 5), compute_uv=False)
    np.testing.assert_allclose(sequential["singular_values"], expected)
    assert surrogate["rank_one_energy"] > 0.8 > sequential["rank_one_energy"]
    assert "surrogate" in fig4.table(result)
    assert fig4.verdicts(result)[0]["verdict"] == "holds"
    surrogate["rank_one_energy"] = 0.0
    assert fig4.verdicts(result)[0]["verdict"] == "fails"
    draw(fig4.EXPERIMENT, result, tmp_path / "four.png")
    assert (tmp_path / "four.png").stat().st_size > 10_000


def test_fig3_is_drawn_from_its_result(tmp_path):
    curves = {"train_f1": [90.0, 95], "held_out_f1": [90.0, 91]}
    curves |= {f"{name}_std": [0.1, 0.1] for name in list(curves)}
    names = ("T-MIRA", "MIRA", "perceptron")
    rows = [{"method": name, "C": 0.1, **curves} for name in names]
    result = {"size": 2000, "base_f1": 90.0, "notes": ["one"], "rows": rows}
    assert "| MIRA | 0.1 | 90.00 | 95.00 | 95.00 |" in fig3.table(result)
    rows[2] = {**rows[2], "train_f1": [90.0, 96], "held_out_f1": [90.0, 92]}
    found = fig3.verdicts(result | {"seeds": 4})
    assert [one["verdict"] for one in found] == ["holds", "fails"] * 2
    half = 3.182446 * np.sqrt(2 * 0.1**2 / 4)  # t of 3 degrees
    np.testing.assert_allclose(found[0]["interval"], [1 - half, 1 + half], rtol=1e-6)
    draw(fig3.EXPERIMENT, result, tmp_path / "three.png")
    assert (tmp_path / "three.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_peer_of_the_bench_is_our_mira():
    lists = bench.made_lists(12, num_features=60, num_active=5, num_candidates=4)
    weights, mean, mistakes = bench.numpy_mira(lists, np.arange(12), 0.1)
    learner = rerank.learner(max_step_size=0.1)
    corpus = streams.lists.stream(lists)
    state, info = jax.jit(lambda s, o: loops.run(learner, s, corpus, o))(
        learner.init(None, corpus.example(0)), jnp.arange(12, dtype=jnp.int32)
    )
    assert mistakes == info.is_mistake.sum() > 5
    np.testing.assert_allclose(state.params, weights, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(rerank.final_params(state), mean, rtol=1e-4, atol=1e-6)
