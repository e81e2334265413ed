"""Rerankers in a folder."""

import dataclasses
import itertools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import metrics
from lowrank_jax.checks import InputError
from lowrank_jax.data.lists import ranking_of
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.estimators.reranker import Reranker
from lowrank_jax.models import tensor


def made(order, dtype):
    """Return a tensor model of modes that are all different, and some lists."""
    sizes = tuple(range(1, order + 1)) if order < 5 else (1,) * (order - 3) + (2, 3, 6)
    lists, _, _ = reranking_task(5, 1, seed=0, sizes=(6, 6))
    shape = tensor.Shape(sizes, 2)
    params = tensor.random(jax.random.key(0), shape, dtype)
    place = np.arange(lists.num_features, dtype=np.int32) % shape.num_cells
    model = Reranker.from_params(
        tuple(part * 10 for part in params), lists.num_features, place=place
    )
    return model, lists


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("order", [2, 12])
def test_a_model_comes_back_with_its_modes_in_order_and_its_precision(
    tmp_path, order, dtype
):
    model, lists = made(order, dtype)
    model.save(tmp_path / "m")
    with jax.enable_x64(False):  # as in a fresh process
        again = Reranker.load(tmp_path / "m")
        scores = again.decision_function(lists)
    assert [part.shape for part in again.params_] == [p.shape for p in model.params_]
    assert all(part.dtype == dtype for part in again.params_)
    assert scores.dtype == dtype
    np.testing.assert_array_equal(scores, model.decision_function(lists))


def test_a_folder_that_lacks_something_is_refused(tmp_path):
    model, _ = made(2, jnp.float32)
    model.save(tmp_path / "m")
    about = json.loads((tmp_path / "m" / "model.json").read_text())
    del about["num_features"]
    (tmp_path / "m" / "model.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="damaged or not of a reranker"):
        Reranker.load(tmp_path / "m")


def test_python_lists_go_in_and_orders_come_out():
    good, bad = {"right": 1.0, "long": 2.0}, {"wrong": 1.0, "long": 1.0}
    train = [
        [{"features": bad, "quality": -3}, {"features": good, "quality": 7.5}],
        [{"features": good, "quality": 6}, {"features": bad, "quality": 0}],
    ]
    model = Reranker().fit(train)
    new = [{"candidates": [{"features": bad}, {"features": {}}, {"features": good}]}]
    (order,) = model.predict(new)
    assert (
        order[0] == 2
        and sorted(order) == [0, 1, 2]
        and model.predict_first(new).tolist() == [2]
    )
    assert model.score(train) == (7.5 + 6) / 2
    with pytest.raises(InputError, match="list 0 has a candidate without an object"):
        model.predict([[{"quality": 1}]])


def test_grades_train_as_their_shares_do():
    lists, _, _ = reranking_task(30, 1, seed=0, sizes=(6, 6))
    span = lists.quality.max() - lists.quality.min()
    shares = (lists.quality - lists.quality.min()) / span
    one = Reranker(num_passes=2).fit(lists, shares.astype(np.float32))
    other = Reranker(num_passes=2).fit(lists, 4 * shares.astype(np.float32) - 1)
    np.testing.assert_allclose(one.params_, other.params_, atol=1e-5)


def test_measures_of_an_order_are_their_definitions():
    lists, _, _ = reranking_task(20, 1, seed=1, sizes=(6, 6))
    scores = np.random.default_rng(0).normal(size=lists.num_candidates)
    reciprocal, gains = [], []
    for begin, end in itertools.pairwise(lists.list_offsets.tolist()):
        quality = [float(q) for q in lists.quality[begin:end]]
        order = sorted(range(end - begin), key=lambda i: -scores[begin + i])
        ranked = [quality[i] - min(quality) for i in order]
        reciprocal.append(1 / (1 + ranked.index(max(ranked))))
        ideal = sorted(ranked, reverse=True)
        gain, most = (
            sum(g / math.log2(2 + place) for place, g in enumerate(part))
            for part in (ranked, ideal)
        )
        gains.append(gain / most if most else 1)
    found = ranking_of(lists, scores)
    np.testing.assert_allclose(found, [np.mean(reciprocal), np.mean(gains)], rtol=1e-12)
    perfect = ranking_of(lists, lists.quality)
    assert perfect == (1, 1)


def test_defaults_are_not_worse_than_the_base_order_and_the_perceptron():
    train, test, _ = reranking_task(150, 150, seed=2, sizes=(6, 6), num_shared=3)
    ours = Reranker().fit(train)
    assert ours.learner == "mira"
    first = metrics.quality_of(test, np.zeros(test.num_lists, int)).chosen
    assert ours.score(test) > first
    assert ours.score(test) >= Reranker("perceptron").fit(train).score(test)


def test_the_default_step_does_not_depend_on_the_unit_of_the_features():
    train, test, _ = reranking_task(30, 30, seed=0)
    ours = Reranker(num_passes=2).fit(train)
    larger = [dataclasses.replace(x, values=64 * x.values) for x in (train, test)]
    again = Reranker(num_passes=2).fit(larger[0])
    assert again.settings_["max_step_size"] < ours.settings_["max_step_size"] / 4000
    for one, other in zip(ours.predict(test), again.predict(larger[1]), strict=True):
        np.testing.assert_array_equal(one, other)
