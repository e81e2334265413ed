"""Candidate lists: oracle, subsets, what is shared, and the form on the device."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data import lists as data
from lowrank_jax.data import reranking_task
from lowrank_jax.data.lists import Lists
from lowrank_jax.models import candidates as model


@functools.lru_cache
def task():
    train, _, truth = reranking_task(12, 1, seed=3, num_active=(1, 40))
    # Reals, id V, an entry twice, a candidate and a list without entries.
    rng = np.random.default_rng(0)
    values = train.values * rng.choice([1, 0.5, -2], train.num_entries)
    ids = train.feature_ids.copy()
    ids[::7] = train.num_features
    ids[1] = ids[2]
    train = dataclasses.replace(
        train, values=values.astype(np.float32), feature_ids=ids
    )
    return train, truth


def dense(lists):
    """Feature vectors of all candidates, (num_candidates, V)."""
    table = np.zeros((lists.num_candidates, lists.num_features + 1))
    owner = np.repeat(np.arange(lists.num_candidates), np.diff(lists.candidate_offsets))
    np.add.at(table, (owner, lists.feature_ids), lists.values)
    return table[:, :-1]


def parts(lists, table):
    return np.split(table, lists.list_offsets[1:-1])


def test_oracle_is_the_first_of_the_best():
    lists = Lists(
        feature_ids=np.zeros(0, np.int32),
        values=np.zeros(0, np.float32),
        candidate_offsets=np.zeros(9, np.int32),
        list_offsets=np.array([0, 3, 3, 5, 8], np.int32),
        quality=np.array([0.1, 0.7, 0.7, np.nan, np.nan, np.nan, 0, 0.2], np.float32),
        num_features=1,
    )
    np.testing.assert_array_equal(data.oracle(lists), [1, -1, -1, 2])


def test_take_keeps_the_chosen_lists():
    lists, _ = task()
    chosen = [4, 0, 4]
    found = data.take(lists, chosen)
    whole, qualities = dense(lists), parts(lists, lists.quality)
    expected = [parts(lists, whole)[i] for i in chosen]
    np.testing.assert_array_equal(dense(found), np.concatenate(expected))
    np.testing.assert_array_equal(
        found.quality, np.concatenate([qualities[i] for i in chosen])
    )
    assert data.take(lists, []).num_entries == 0


def test_remap_moves_the_columns():
    lists, truth = task()
    found = data.remap(lists, truth.place, 150)
    np.testing.assert_array_equal(dense(found)[:, truth.place], dense(lists))
    with pytest.raises(InputError, match="one cell for each of the 144"):
        data.remap(lists, truth.place[1:], 150)
    with pytest.raises(InputError, match=r"must lie in 0\.\.99"):
        data.remap(lists, truth.place, 100)
    wide = truth.place.astype(np.int64)
    wide[0] = 2**32  # would wrap to 0
    with pytest.raises(InputError, match=r"`num_cells` must be at most 2147483647"):
        data.remap(lists, wide, 2**33)
    with pytest.raises(InputError, match=r"must lie in 0\.\.149"):
        data.remap(lists, wide, 150)
    with pytest.raises(InputError, match="`place` must hold integers, got float64"):
        data.remap(lists, truth.place + 0.5, 150)


def test_drop_shared_keeps_all_differences(monkeypatch):
    monkeypatch.setattr(data, "_LISTS_AT_ONCE", 5)
    lists, _ = task()
    found = data.drop_shared(lists)
    np.testing.assert_array_equal(found.list_offsets, lists.list_offsets)
    pairs = zip(parts(lists, dense(lists)), parts(found, dense(found)), strict=True)
    for before, after in pairs:
        np.testing.assert_allclose(after - after[0], before - before[0], atol=1e-6)
        # Of every feature, no other value to subtract would leave fewer entries.
        for old, new in zip(before.T, after.T, strict=True):
            most = np.unique(old, return_counts=True)[1].max()
            assert (new == 0).sum() == most
    assert (found.values != 0).all()
    assert found.num_entries < lists.num_entries
    again = data.drop_shared(found)
    np.testing.assert_array_equal(dense(again), dense(found))
    empty = data.drop_shared(data.take(lists, []))
    assert empty.num_lists == empty.num_entries == 0


@pytest.mark.parametrize("width", [16, 3])
def test_scores_on_the_device_equal_the_dense_product(width):
    lists, _ = task()
    corpus = data.stream_lists(lists, width=width)
    weights = np.random.default_rng(1).normal(size=lists.num_features + 1)

    @jax.jit
    def score(corpus, i):  # the last weight, of id V, must not count
        return model.linear_scores(jnp.asarray(weights), data.candidates(corpus, i))

    expected = parts(lists, dense(lists) @ weights[:-1])
    for i in range(lists.num_lists):
        found = np.asarray(score(corpus, i))
        np.testing.assert_allclose(found[: expected[i].size], expected[i], rtol=1e-10)
        assert (found[expected[i].size :] == -np.inf).all()
        one = data.candidates(corpus, i)
        assert one.num_candidates == expected[i].size
        quality = np.asarray(one.quality)[: expected[i].size]
        np.testing.assert_array_equal(quality, parts(lists, lists.quality)[i])


@functools.partial(jax.jit, static_argnums=(2, 3))
def difference(corpus, given, cost, oracle):
    """The pair of the first list and its dense difference."""
    one = data.candidates(corpus, 0)
    (pair,) = model.choose(one, given, cost, oracle)
    start = jnp.zeros(one.num_features + 1)
    total = model.fold_difference(
        lambda ids, deltas, table: table.at[ids].add(deltas),
        start,
        one,
        pair,
        start.dtype,
    )
    return pair, total


def test_folding_over_a_difference_visits_each_entry_once():
    lists, _ = task()
    corpus = data.stream_lists(lists)
    vectors, size = dense(lists), corpus.max_candidates
    best = int(data.oracle(lists)[0])
    for z in range(int(corpus.counts[0])):
        given = jnp.zeros(size).at[z].set(1.0).at[best].add(0.25)
        pair, total = difference(corpus, given, "quality", "first")
        expected = vectors[best] - vectors[z]
        np.testing.assert_allclose(total[:-1], expected, atol=1e-6)
        assert pair.is_mistake == (z != best)
        np.testing.assert_allclose(
            pair.cost, lists.quality[best] - lists.quality[z], rtol=1e-6
        )
        np.testing.assert_allclose(pair.margin, -0.75 if z != best else 0)


def test_the_nearest_oracle_is_the_best_of_equals_by_score():
    lists, _ = task()
    quality = lists.quality.copy()
    best = int(data.oracle(lists)[0])
    other = (best + 2) % int(lists.list_offsets[1])
    quality[other] = quality[best]
    corpus = data.stream_lists(dataclasses.replace(lists, quality=quality))
    given = jnp.zeros(corpus.max_candidates).at[other].set(1.0)
    first, _ = difference(corpus, given, "one", "first")
    near, _ = difference(corpus, given, "one", "nearest")
    assert (int(first.oracle), int(near.oracle)) == (min(best, other), other)
    assert (bool(near.is_mistake), float(near.cost)) == (False, 0.0)
    if best < other:
        assert (bool(first.is_mistake), float(first.cost)) == (True, 1.0)


def test_an_empty_list_is_named():
    lists, _ = task()
    offsets = np.insert(lists.list_offsets, 2, lists.list_offsets[2])
    with pytest.raises(InputError, match="List 2 .* has no candidate"):
        data.stream_lists(dataclasses.replace(lists, list_offsets=offsets))


def test_planted_lists_follow_the_planted_weights():
    train, test, truth = reranking_task(30, 30, seed=1, rank=2, noise=1.0)
    index = np.unravel_index(truth.place, (12, 12), order="F")
    tensor = sum(np.outer(a, b) for a, b in zip(*truth.factors, strict=True))
    np.testing.assert_allclose(truth.weights, tensor[index], rtol=1e-12)

    def share(lists):
        scores = parts(lists, dense(lists) @ truth.weights)
        return np.mean([s.argmax() for s in scores] == data.oracle(lists))

    assert share(test) == 1  # and noise is in the training part alone
    assert 0.2 < share(train) < 0.9
    again = reranking_task(30, 30, seed=1, rank=2, noise=1.0)[0]
    np.testing.assert_array_equal(again.values, train.values)
    with pytest.raises(InputError, match="at most 4 together"):
        reranking_task(1, 1, seed=0, sizes=(2, 2))
    with pytest.raises(InputError, match="`num_active` must be two ascending"):
        reranking_task(1, 1, seed=0, num_active=(3, 2))
