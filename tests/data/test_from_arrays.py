"""Corpora and lists from arrays: the same as the long way, or one clear sentence."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import data, loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.lists import Lists
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.models import bilinear, candidates, tensor
from lowrank_jax.online import bol, mira, perceptron, rerank
from lowrank_jax.types import Sentence
from tests.online.tasks import random_task

ORDERS = ("01", "0", "1")


def parts():
    task = random_task(ORDERS, has_transitions=True)
    return task, np.diff(task.offsets)


def test_flat_and_padded_arrays_make_the_same_corpus():
    task, lengths = parts()
    sizes = {"num_features": 12, "num_labels": 3, "has_transitions": True}
    flat = Sequences.from_arrays(
        task.feature_ids, task.labels, lengths, ORDERS, **sizes
    )
    ids = np.full((len(lengths), 20, 3), 99)
    labels = np.full((len(lengths), 20), 99)
    for i, (a, b) in enumerate(zip(task.offsets, task.offsets[1:], strict=False)):
        ids[i, : b - a], labels[i, : b - a] = task.feature_ids[a:b], task.labels[a:b]
    padded = Sequences.from_arrays(ids, labels, lengths, ORDERS, **sizes)
    for made in (flat, padded):
        assert made.space == task.space
        for name in ("feature_ids", "labels", "offsets"):
            np.testing.assert_array_equal(getattr(made, name), getattr(task, name))
            assert getattr(made, name).dtype == np.int32
    unknown = Sequences.from_arrays(task.feature_ids, None, lengths, ORDERS)
    assert (unknown.labels == -1).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": lambda a: a.astype(float)}, "`ids` must hold integers, got float64"),
        ({"lengths": lambda a: a[:-1]}, r"`lengths` must add up to the \d+ rows"),
        ({"lengths": lambda a: -a}, "`lengths` must be one row of numbers that are 0"),
        ({"labels": lambda a: a[:-1]}, "`labels` the same without the last axis"),
        ({"num_features": 7}, r"`feature_ids` must lie in 0..7, .* got \d+ at row \d+"),
        ({"num_labels": 2}, r"`labels` must lie in -1..1, .* got 2 at row \d+"),
        (
            {"ids": lambda a: a.astype(np.int64) + 2**32},
            r"`feature_ids` must lie in 0..12, .* got 42949",
        ),
        (
            {"labels": lambda a: a.astype(np.int64) + 2**32},
            r"`labels` must lie in -1..2, .* got 42949",
        ),
        ({"orders": ("0", "1")}, "`feature_ids` must have 2 columns"),
        ({"orders": ("0", "1", "2")}, "`orders` must hold '0', '1' or '01', got '2'"),
    ],
)
def test_arrays_that_do_not_fit_are_named(change, message):
    task, lengths = parts()
    given = {"ids": task.feature_ids, "labels": task.labels, "lengths": lengths}
    given |= {"orders": ORDERS, "num_features": 12, "num_labels": 3}
    given |= {n: c(given[n]) if callable(c) else c for n, c in change.items()}
    with pytest.raises(InputError, match=message):
        Sequences.from_arrays(**given)


def test_what_is_no_sequences_is_named_with_the_way_out():
    task, _ = parts()
    stream = streams.sentences.stream(task)
    corpus = data.segmentation_task(3, 1, seed=0)[0]
    for wrong, way in ((corpus, "features.Encoder"), (stream, "use it as it is")):
        for function in (streams.sentences.stream, streams.lanes.lanes):
            with pytest.raises(InputError, match=f"must be Sequences of ids.*{way}"):
                function(wrong)
    key = jax.random.key(0)
    with pytest.raises(InputError, match=r"got a Corpus: encode it"):
        loops.train(perceptron.learner(), corpus, key=key, num_passes=1)
    bad = dataclasses.replace(task, offsets=task.offsets + 50)
    with pytest.raises(InputError, match=r"`offsets` must ascend from 0"):
        streams.sentences.stream(bad)
    bad = dataclasses.replace(task, feature_ids=task.feature_ids * 50)
    with pytest.raises(InputError, match="`feature_ids` must lie in 0..12"):
        streams.sentences.stream(bad)
    with pytest.raises(InputError, match="`window` must be a whole number"):
        streams.sentences.stream(task, window=8.5)


@pytest.mark.parametrize("window", [0, 5, 9])
def test_a_window_that_is_no_multiple_of_the_group_is_an_error(window):
    """It would move the last slice back, and score its positions by wrong features."""
    space, ids = Space(4, 2, ("01",)), jnp.zeros((window, 1), jnp.int32)
    sentence = Sentence(ids, ids[:, 0], jnp.int32(window), space)
    words = f"must be a positive multiple of 8, got {window}: pad"
    with pytest.raises(InputError, match=words):
        bilinear.scores(bilinear.zeros(space, 1, jnp.float32), sentence)
    for module in (bol, perceptron, mira):
        learner = module.learner()
        with pytest.raises(InputError, match=words):
            learner.update(learner.init(jax.random.key(0), sentence), sentence)


@pytest.mark.parametrize("window", [None, 3, 7])
def test_a_stream_rounds_a_window_below_the_group_up(window):
    ids = np.arange(6)[:, None] % 4
    short = Sequences.from_arrays(ids, ids[:, 0] % 2, [3, 1, 2], ("01",))
    stream = streams.sentences.stream(short, window=window)
    assert stream.window == 8 and stream.example(2).feature_ids.shape == (8, 1)
    for module in (bol, perceptron):
        _, trace = loops.train(
            module.learner(), stream, key=jax.random.key(0), num_passes=2
        )
        assert trace.is_mistake.shape == (6,)


@pytest.mark.parametrize("module", [bol, perceptron, mira])
@pytest.mark.parametrize(
    ("name", "value"), [("feature_ids", 13), ("feature_ids", -1), ("labels", 3)]
)
@pytest.mark.parametrize("is_stacked", [False, True])
def test_ids_and_labels_out_of_range_do_not_train(module, name, value, is_stacked):
    """An array of JAX would clip the index, and train on other features in silence."""
    given, _ = parts()
    if is_stacked:
        stream = streams.sentences.stream(given)
        given = jax.vmap(stream.example)(jnp.arange(stream.num_examples))
    array = np.array(getattr(given, name))
    array[(4, *(0,) * (array.ndim - 1))] = value
    bad = dataclasses.replace(given, **{name: array})
    words = rf"`{name}` must lie in .*, got {value} at row 4\."
    with pytest.raises(InputError, match=words):
        loops.train(module.learner(), bad, key=jax.random.key(0), num_passes=1)


def test_double_precision_that_is_off_is_one_error_before_training():
    task, _ = parts()
    with jax.enable_x64(False):
        for module in (perceptron, bol):
            learner = module.learner(dtype=jnp.float64)
            with pytest.raises(InputError, match="`dtype` float64 needs double"):
                loops.train(learner, task, key=jax.random.key(0), num_passes=1)


def test_a_corpus_is_indexed_by_slices_arrays_and_masks_and_split_in_two():
    corpus = data.segmentation_task(10, 1, seed=0)[0]
    mask = np.arange(10) % 3 == 0
    for which, indices in (
        (slice(2, 7, 2), [2, 4, 6]),
        (np.array([5, 1, 5]), [5, 1, 5]),
        ([3], [3]),
        (mask, [0, 3, 6, 9]),
        (slice(-2, None), [8, 9]),
    ):
        ours, theirs = corpus[which], corpus.take(indices)
        np.testing.assert_array_equal(ours.offsets, theirs.offsets)
        np.testing.assert_array_equal(ours.labels, theirs.labels)
    for wrong in (3, mask[:4], np.zeros((2, 2), int)):
        with pytest.raises(InputError, match="indexed by a slice, an array of indices"):
            corpus[wrong]
    with pytest.raises(InputError, match=r"must lie in 0..9"):
        corpus[[10]]
    taken, rest = data.split(corpus, 0.7, 3)
    assert (taken.num_sentences, rest.num_sentences) == (7, 3)
    same = data.split_fraction(corpus, 0.7, 3)
    np.testing.assert_array_equal(taken.labels, same.labels)
    assert sorted([*taken.lengths, *rest.lengths]) == sorted(corpus.lengths)
    assert taken.num_tokens + rest.num_tokens == corpus.num_tokens


def dense_lists():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 3, 2, 5)) * (rng.random((4, 3, 2, 5)) < 0.6)
    return x, rng.random((4, 3))


def test_dense_lists_have_the_scores_of_the_tensor_whatever_the_order_of_cells():
    x, quality = dense_lists()
    factors = tensor.random(jax.random.key(0), tensor.Shape((2, 5), 2), jnp.float64)
    w = np.einsum("ha,hb->ab", *factors)
    expected = np.einsum("lcab,ab->lc", x, w)
    flat = x.reshape(4, 3, 10)
    fortran = x.transpose(0, 1, 3, 2).reshape(4, 3, 10)
    for lists in (
        Lists.from_dense(x, quality),
        Lists.from_dense(flat, quality, sizes=(2, 5), fastest="last"),
        Lists.from_dense(fortran, quality, sizes=(2, 5)),
        Lists.from_dense(list(fortran), list(quality)),
    ):
        stream = streams.lists.stream(lists)
        for i in range(4):
            found = tensor.scores(factors, stream.example(i))
            np.testing.assert_allclose(found, expected[i], rtol=1e-6)
    weights = jnp.asarray(np.append(w.ravel(), 0))
    stream = streams.lists.stream(Lists.from_dense(flat, quality))
    found = candidates.linear_scores(weights, stream.example(1))
    np.testing.assert_allclose(found, expected[1], rtol=1e-6)
    ragged = Lists.from_dense([flat[0], flat[1, :2]], [quality[0], quality[1, :2]])
    assert np.diff(ragged.list_offsets).tolist() == [3, 2]


def test_dense_lists_that_do_not_fit_are_named():
    x, quality = dense_lists()
    percent = 100 * quality
    with pytest.raises(InputError, match=r"`quality` .* 0..1, got .* candidate 0 of l"):
        Lists.from_dense(x, percent)
    with pytest.raises(InputError, match="`quality` must have one number per"):
        Lists.from_dense(x, quality[:, :2])
    with pytest.raises(InputError, match="needs flat features and the `sizes`"):
        Lists.from_dense(x, quality, fastest="last")
    with pytest.raises(InputError, match="`sizes` must have the product 10"):
        Lists.from_dense(x.reshape(4, 3, 10), quality, sizes=(3, 5))
    of = "candidate 2 of list 1, from 0"
    with pytest.raises(InputError, match=f"`values` must be finite, got nan at {of}"):
        x_bad = x.copy()
        x_bad[1, 2].flat[3] = np.nan
        Lists.from_dense(x_bad, quality)
    good = Lists.from_dense(x, quality)
    bad = dataclasses.replace(good, quality=good.quality * 100)
    with pytest.raises(InputError, match=r"`quality` must lie in 0..1"):
        streams.lists.stream(bad)
    bad = dataclasses.replace(good, feature_ids=good.feature_ids + 2)
    with pytest.raises(InputError, match=r"`feature_ids` must lie in 0..10, got 11 at"):
        streams.lists.stream(bad)
    with pytest.raises(InputError, match="`lists` must be Lists, got a ndarray"):
        streams.lists.stream(x)
    with jax.enable_x64(False):
        learner = rerank.learner(dtype=jnp.float64)
        stream = streams.lists.stream(good)
        with pytest.raises(InputError, match="`dtype` float64 needs double"):
            loops.train(learner, stream, key=jax.random.key(0), num_passes=1)
