"""Candidate lists: oracle, subsets, what is shared, and the form on the device."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import streams
from lowrank_jax.checks import InputError
from lowrank_jax.data import lists as data
from lowrank_jax.data.lists import Lists
from lowrank_jax.data.made.lists import reranking_task
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
    monkeypatch.setattr(data, "LISTS_AT_ONCE", 5)
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


def test_spread_is_the_mean_squared_distance_from_the_mean():
    lists, _ = task()
    parts = np.split(dense(lists), lists.list_offsets[1:-1])
    total = sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts)
    found = data.spread(data.drop_shared(lists))
    np.testing.assert_allclose(found, total / lists.num_candidates, rtol=1e-6)


@pytest.mark.parametrize("width", [16, 3])
def test_scores_on_the_device_equal_the_dense_product(width):
    lists, _ = task()
    corpus = streams.lists.stream(lists, width=width)
    weights = np.random.default_rng(1).normal(size=lists.num_features + 1)

    @jax.jit
    def score(corpus, i):  # the last weight, of id V, must not count
        return model.linear_scores(jnp.asarray(weights), corpus.example(i))

    expected = parts(lists, dense(lists) @ weights[:-1])
    for i in range(lists.num_lists):
        found = np.asarray(score(corpus, i))
        np.testing.assert_allclose(found[: expected[i].size], expected[i], rtol=1e-10)
        assert (found[expected[i].size :] == -np.inf).all()
        one = corpus.example(i)
        assert one.num_candidates == expected[i].size
        quality = np.asarray(one.quality)[: expected[i].size]
        np.testing.assert_array_equal(quality, parts(lists, lists.quality)[i])


@functools.lru_cache
def uneven():
    """Lists of 1, 4 and 2 candidates, the second with many features."""
    num_features = 1500
    common = [3, 7, 1499]  # in all candidates of the second list
    many = np.random.default_rng(2).permutation(num_features)
    rows = [
        [5, 2, num_features],
        [*common, *many[:300], 9, 9],  # a feature twice
        [],
        [*common, *many[250:900], num_features],
        common,
        [],
        [4],
    ]
    rng = np.random.default_rng(3)
    lengths = [len(row) for row in rows]
    return Lists(
        feature_ids=np.concatenate(rows).astype(np.int32),
        values=rng.normal(size=sum(lengths)),
        candidate_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        list_offsets=np.array([0, 1, 5, 7], np.int32),
        quality=rng.random(len(rows)),
        num_features=num_features,
    )


def entries_of(corpus, i):
    """Candidate, feature and value of each entry of a list, sorted."""
    first = int(corpus.starts[i])
    rows = slice(*np.asarray(corpus.row_offsets)[[first, first + corpus.counts[i]]])
    places, values = np.asarray(corpus.places[rows]), np.asarray(corpus.values[rows])
    owner = np.broadcast_to(np.asarray(corpus.owner[rows])[:, None], places.shape)
    begin, end = np.asarray(corpus.feature_offsets[i : i + 2])
    features = np.asarray(corpus.features[begin:end])[places]
    assert not values[features == corpus.num_features].any()
    found = zip(owner.flat, features.flat, values.flat, strict=True)
    return sorted(entry for entry in found if entry[1] < corpus.num_features)


@pytest.mark.parametrize(("width", "at_once"), [(16, 2), (3, 64)])
def test_entries_find_their_features_among_those_of_the_list(
    monkeypatch, width, at_once
):
    monkeypatch.setattr(streams.lists, "LISTS_AT_ONCE", at_once)
    for lists in (task()[0], uneven(), data.take(uneven(), [1, 1, 0])):
        corpus = streams.lists.stream(lists, width=width)
        size = lists.num_features
        offsets = np.asarray(corpus.feature_offsets)
        for i in range(lists.num_lists):
            expected = []
            first, last = lists.list_offsets[i : i + 2]
            for c in range(first, last):
                run = slice(*lists.candidate_offsets[c : c + 2])
                pairs = zip(lists.feature_ids[run], lists.values[run], strict=True)
                expected += [(c - first, *pair) for pair in pairs if pair[0] < size]
            assert entries_of(corpus, i) == sorted(expected)
            features = np.asarray(corpus.features[offsets[i] : offsets[i + 1]])
            distinct = sorted({entry[1] for entry in expected})
            np.testing.assert_array_equal(features, [size, *distinct])
        assert corpus.max_distinct == np.diff(offsets).max()
        behind = corpus.features.shape[0] - offsets[-1]  # slices stay inside
        assert behind >= max(streams.lists.FEATURES, corpus.max_distinct)
        assert corpus.places.dtype == np.uint16
    nothing = streams.lists.stream(data.take(uneven(), []))
    assert nothing.max_distinct == 1 and nothing.feature_offsets.shape == (1,)


@pytest.mark.parametrize(("most", "dtype"), [(2**16, np.uint16), (2**16 + 1, np.int32)])
def test_places_are_as_wide_as_the_longest_list_asks(most, dtype):
    ids = np.arange(most - 1, dtype=np.int32)[::-1]
    lists = Lists(
        feature_ids=ids,
        values=np.ones(ids.size, np.float32),
        candidate_offsets=np.array([0, ids.size]),
        list_offsets=np.array([0, 1]),
        quality=np.ones(1, np.float32),
        num_features=ids.size,
    )
    corpus = streams.lists.stream(lists)
    assert (corpus.max_distinct, corpus.places.dtype) == (most, dtype)
    places = np.asarray(corpus.places).reshape(-1)[: ids.size]
    np.testing.assert_array_equal(np.asarray(corpus.features)[places], ids)


def test_a_list_is_weighed_up_to_its_own_features_and_no_further():
    lists = uneven()
    corpus = streams.lists.stream(lists)
    assert corpus.max_distinct > 3 * streams.lists.FEATURES  # several at a time
    weights = np.random.default_rng(4).normal(size=lists.num_features + 1)
    weights[-1] = np.nan  # of id V: it must not count

    @jax.jit
    def score(corpus, i):
        return model.linear_scores(jnp.asarray(weights), corpus.example(i))

    expected = parts(lists, dense(lists) @ weights[:-1])
    for i in (0, 1, 2):
        found = np.asarray(score(corpus, i))
        np.testing.assert_allclose(found[: expected[i].size], expected[i], rtol=1e-10)
        assert (found[expected[i].size :] == -np.inf).all()


@functools.partial(jax.jit, static_argnums=(2, 3))
def difference(corpus, given, cost, oracle, index=0):
    """The pair of a list and its dense difference."""
    one = corpus.example(index)
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
    corpus = streams.lists.stream(lists)
    vectors, size = dense(lists), corpus.max_candidates
    for index in (0, 5, lists.num_lists - 1):
        first, best = lists.list_offsets[index], int(data.oracle(lists)[index])
        for z in range(int(corpus.counts[index])):
            given = jnp.zeros(size).at[z].set(1.0).at[best].add(0.25)
            pair, total = difference(corpus, given, "quality", "first", index)
            expected = vectors[first + best] - vectors[first + z]
            np.testing.assert_allclose(total[:-1], expected, atol=1e-6)
            assert pair.is_mistake == (z != best)
            gap = lists.quality[first + best] - lists.quality[first + z]
            np.testing.assert_allclose(pair.cost, gap, rtol=1e-6)
            np.testing.assert_allclose(pair.margin, -0.75 if z != best else 0)


def test_the_nearest_oracle_is_the_best_of_equals_by_score():
    lists, _ = task()
    quality = lists.quality.copy()
    best = int(data.oracle(lists)[0])
    other = (best + 2) % int(lists.list_offsets[1])
    quality[other] = quality[best]
    corpus = streams.lists.stream(dataclasses.replace(lists, quality=quality))
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
        streams.lists.stream(dataclasses.replace(lists, list_offsets=offsets))


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
