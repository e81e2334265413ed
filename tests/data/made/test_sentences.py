"""The planted tasks have the structure they claim."""

import itertools

import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data import (
    bilinear_task,
    dense_task,
    segmentation_task,
    words_from_labels,
)


def test_segmentation_has_the_sizes_of_the_errata():
    train, test, lexicon = segmentation_task(200, 50, seed=0)
    assert (train.num_sentences, test.num_sentences) == (200, 50)
    assert len(set(lexicon.words)) == 150
    assert len({c for word in lexicon.words for c in word}) <= 40
    assert {len(word) for word in lexicon.words} == {1, 2, 3, 4}
    ratio = lexicon.probabilities[0] / lexicon.probabilities[9]
    assert ratio == pytest.approx(10)
    for corpus in (train, test):
        words = words_from_labels(corpus.columns[0], corpus.labels, corpus.offsets)
        assert {len(sentence) for sentence in words} == {4, 5, 6, 7, 8}
        assert {word for sentence in words for word in sentence} <= set(lexicon.words)


def test_frequent_words_come_first():
    train, _, lexicon = segmentation_task(2000, 1, seed=1)
    sentences = words_from_labels(train.columns[0], train.labels, train.offsets)
    words = [word for sentence in sentences for word in sentence]
    share = words.count(lexicon.words[0]) / len(words)
    # 12,000 draws: standard deviation .0035
    assert share == pytest.approx(lexicon.probabilities[0], abs=0.015)


def score_of(path, ids, truth):
    num_labels = truth.first_order.shape[1]
    total, before = 0.0, num_labels
    for position, label in enumerate(path):
        for feature in ids[position]:
            total += truth.first_order[feature, label, before]
            if truth.zero_order is not None:
                total += truth.zero_order[feature, label]
        before = label
    return total


@pytest.mark.parametrize("zero_order", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
def test_labels_are_the_best_path_with_the_margin_by_enumeration(rank, zero_order):
    train, test, truth = bilinear_task(
        12,
        8,
        seed=3,
        num_features=20,
        num_labels=3,
        num_templates=2,
        lengths=(1, 5),
        rank=rank,
        zero_order=zero_order,
        margin=0.05,
    )
    leads = []
    for part in (train, test):
        for start, end in itertools.pairwise(part.offsets):
            ids = part.feature_ids[start:end]
            paths = list(itertools.product(range(3), repeat=end - start))
            scores = np.array([score_of(path, ids, truth) for path in paths])
            order = np.argsort(scores)
            assert paths[order[-1]] == tuple(part.labels[start:end])
            leads.append(scores[order[-1]] - scores[order[-2]])
    assert min(leads) == pytest.approx(truth.margin, rel=1e-10)
    assert truth.margin >= 0.05


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_blocks_have_the_rank_asked_for(rank):
    _, _, truth = bilinear_task(2, 2, seed=0, rank=rank, zero_order=True)
    assert set(np.linalg.matrix_rank(truth.first_order)) == {rank}
    np.testing.assert_allclose(
        np.linalg.norm(truth.first_order, axis=(1, 2)), 1, rtol=1e-10
    )
    np.testing.assert_allclose(np.linalg.norm(truth.zero_order, axis=1), 1, rtol=1e-10)


def test_sequences_have_the_shapes_and_ids_of_their_space():
    train, test, _ = bilinear_task(30, 20, seed=0, zero_order=True)
    for part, size in ((train, 30), (test, 20)):
        assert part.num_sentences == size
        assert part.feature_ids.shape == (part.num_tokens, 3)
        assert part.offsets[-1] == part.num_tokens == part.labels.size
        dtypes = part.feature_ids.dtype, part.labels.dtype, part.offsets.dtype
        assert dtypes == (np.int32,) * 3
        assert part.space.num_features == 60
        assert part.space.orders == ("01",) * 3
        assert np.isin(np.diff(part.offsets), range(4, 11)).all()
        for column, ids in enumerate(part.feature_ids.T):
            assert ids.min() >= 20 * column
            assert ids.max() < 20 * (column + 1)


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
def test_noise_changes_that_share_of_the_training_labels_only(noise):
    clean_train, clean_test, _ = bilinear_task(50, 20, seed=5)
    train, test, truth = bilinear_task(50, 20, seed=5, noise=noise)
    np.testing.assert_array_equal(truth.clean_labels, clean_train.labels)
    num_changed = np.count_nonzero(train.labels != truth.clean_labels)
    assert num_changed == round(noise * train.num_tokens)
    np.testing.assert_array_equal(test.labels, clean_test.labels)
    assert train.labels.max() < 4
    assert train.labels.min() >= 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_labels_are_signs_of_the_planted_score(dtype):
    train, test, truth = dense_task(300, 100, seed=0, margin=0.05, dtype=dtype)
    weights = np.outer(truth.left, truth.right)
    assert np.linalg.norm(weights) == pytest.approx(1)
    scores = np.concatenate(
        [(part.x * weights).sum(axis=(1, 2)) for part in (train, test)]
    )
    np.testing.assert_array_equal(np.sign(scores), np.concatenate([train.y, test.y]))
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    assert np.abs(scores).min() == pytest.approx(truth.margin, rel=tolerance)
    assert truth.margin >= 0.05
    assert train.x.shape == (300, 12, 10)
    assert (train.x.dtype, train.y.dtype) == (dtype, dtype)


def test_dense_matrices_without_spread_meet_the_assumption_of_p5():
    train, _, truth = dense_task(300, 1, seed=0, spread=0.0, dtype=np.float64)
    sigma = np.linalg.svd(train.x, compute_uv=False)
    largest, ky_fan = sigma[:, 0].max(), (sigma[:, 0] + sigma[:, 1]).max()
    assert ky_fan / 2 < truth.margin < largest  # gamma in (M_2 / 2, M_1)


def test_dense_noise_turns_that_share_over():
    train, _, truth = dense_task(600, 1, seed=0, noise=0.1)
    assert np.count_nonzero(train.y != truth.clean_labels) == 60
    np.testing.assert_array_equal(np.abs(train.y), 1)


@pytest.mark.parametrize("task", [segmentation_task, bilinear_task, dense_task])
def test_a_seed_gives_one_task_and_another_seed_another(task):
    def flatten(result):
        train = result[0]
        name = "columns" if hasattr(train, "columns") else None
        array = train.columns[0] if name else getattr(train, "x", None)
        return (train.feature_ids if array is None else array).tolist()

    assert flatten(task(20, 5, seed=1)) == flatten(task(20, 5, seed=1))
    assert flatten(task(20, 5, seed=1)) != flatten(task(20, 5, seed=2))


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (segmentation_task, {"words_per_sentence": (5, 4)}, r"\[1\]` must .* 5, got 4"),
        (segmentation_task, {"num_characters": 2}, "`num_words` must be at most 15"),
        (bilinear_task, {"num_features": 61}, "multiple of the 3 templates, got 61"),
        (bilinear_task, {"rank": 5}, r"`rank` must lie in 1\.\.4, got 5"),
        (bilinear_task, {"noise": 1.5}, "`noise` must lie between 0 and 1"),
        (bilinear_task, {"margin": 50.0}, "`margin` must be smaller: only 0 of"),
        (dense_task, {"margin": 50.0}, "`margin` must be smaller: only 0 of"),
        (dense_task, {"shape": (0, 3)}, r"`shape\[0\]` must be a whole number"),
        (dense_task, {"spread": -1.0}, "`spread` must be zero or more"),
    ],
)
def test_arguments_out_of_range_are_named(task, options, message):
    with pytest.raises(InputError, match=message):
        task(2, 2, seed=0, **options)
