import copy
import dataclasses
import itertools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import data, loops, metrics, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import Scores, path_score
from lowrank_jax.estimators import labelling
from lowrank_jax.estimators.tagger import Tagger
from lowrank_jax.estimators.tagger.model import num_parameters
from lowrank_jax.features import Encoder, read_template, with_orders
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import perceptron
from lowrank_jax.store.folder import check_target

FILES = {"model.json", "weights.npz", "vocabulary.npz"}


def make_tagger(kind: str) -> tuple[Tagger, Corpus]:
    """A perceptron that has learnt, or a bilinear model at random."""
    train, test, _ = data.segmentation_task(60, 25, seed=0, num_words=40)
    template = with_orders(read_template("segmentation"), "both")
    encoder, sequences = Encoder.fit_transform(train, template)
    if kind == "linear":
        learner = perceptron.learner(dual="dense")  # tables that the tests read
        state, _ = loops.train(learner, sequences, key=jax.random.key(0), num_passes=2)
        params = jax.jit(perceptron.final_params)(state)
    else:
        zeros = bilinear.zeros(encoder.space, 2, jnp.float32)
        table = jax.random.normal(jax.random.key(0), zeros.table.shape, jnp.float32)
        params = zeros._replace(table=table.at[-1].set(0), scale=jnp.float32(0.3))
    tagger = Tagger.from_params(
        encoder,
        params,
        learner=kind,
        hyperparameters={"step_size": 1.0},
        format="segmentation",
        training={"passes": 2},
    )
    return tagger, test


def named(tagger: Tagger, learner: str) -> Tagger:
    """The same model under the name of another learner."""
    other = copy.copy(tagger)
    other.learner = learner
    return other


@pytest.fixture(scope="module", params=["linear", "bilinear"])
def trained(request) -> tuple[Tagger, Corpus]:
    return make_tagger(request.param)


def scores_of(tagger: Tagger, corpus: Corpus, index: int) -> tuple[Scores, int]:
    """Scores of one sentence as numbers, straight from the model."""
    stream = streams.sentences.stream(tagger.encoder_.transform(corpus))
    module = linear if tagger.model == "linear" else bilinear
    scores = module.scores(tagger.params_, stream.example(index))
    length = int(corpus.lengths[index])
    num_labels = len(tagger.encoder_.labels)
    pairwise = np.asarray(scores.pairwise, np.float64)[..., : num_labels + 1]
    return Scores(np.asarray(scores.unary, np.float64), pairwise), length


def enumerate_paths(tagger: Tagger, corpus: Corpus, index: int):
    """All labellings of a sentence with their scores, best first."""
    scores, length = scores_of(tagger, corpus, index)
    num_labels = len(tagger.encoder_.labels)
    pairs = scores.pairwise
    pairs = np.broadcast_to(pairs, (scores.unary.shape[0], *pairs.shape[-2:]))
    found = []
    for labels in itertools.product(range(num_labels), repeat=length):
        before = (num_labels, *labels[:-1])
        places = range(length)
        unary = sum(scores.unary[i, labels[i]] for i in places)
        total = unary + sum(pairs[i, labels[i], before[i]] for i in places)
        found.append((total, [tagger.encoder_.labels[label] for label in labels]))
    return sorted(found, key=lambda pair: -pair[0])


def first_tokens(corpus: Corpus, length: int) -> Corpus:
    columns = tuple(column[:length] for column in corpus.columns)
    return Corpus(columns, corpus.labels[:length], np.array([0, length]), "short")


def test_a_trained_tagger_finds_most_words(trained):
    tagger, test = trained
    labels = tagger.predict(test)
    assert labels.shape == (test.num_tokens,)
    if tagger.model == "bilinear":
        pytest.skip("its weights are random")
    assert metrics.word_scores_from_labels(test.labels, labels, test.offsets).f1 > 75


def test_tag_gives_the_path_of_greatest_score(trained):
    tagger, test = trained
    labels = tagger.predict(test)
    index = {label: i for i, label in enumerate(tagger.encoder_.labels)}
    best = tagger.k_best(test, 2)
    for i in (0, 7, test.num_sentences - 1):
        here = slice(test.offsets[i], test.offsets[i + 1])
        scores, length = scores_of(tagger, test, i)
        codes = np.array([index[label] for label in labels[here]])
        codes = np.pad(codes, (0, scores.unary.shape[0] - length)).astype(np.int32)
        total = float(path_score(Scores(*map(jnp.asarray, scores)), codes, length))
        np.testing.assert_allclose(best[i][0].score, total, rtol=1e-5)
        assert best[i][0].score >= best[i][1].score


def test_k_best_equals_enumeration(trained):
    tagger, test = trained
    short = first_tokens(test, 5)
    expected = enumerate_paths(tagger, short, 0)
    (found,) = tagger.k_best(short, 7)
    assert [list(path.labels) for path in found] == [p for _, p in expected[:7]]
    np.testing.assert_allclose(
        [path.score for path in found], [score for score, _ in expected[:7]], rtol=1e-5
    )


def test_k_best_of_a_short_sentence_has_all_paths_and_no_more(trained):
    tagger, test = trained
    (found,) = tagger.k_best(first_tokens(test, 1), 50)
    assert len(found) == len(tagger.encoder_.labels)


def test_marginals_equal_enumeration_and_sum_to_one(trained):
    tagger, test = trained
    short = first_tokens(test, 4)
    paths = enumerate_paths(tagger, short, 0)
    weights = np.exp(np.array([score for score, _ in paths]) - paths[0][0])
    weights /= weights.sum()
    expected = np.zeros((4, len(tagger.encoder_.labels)))
    for weight, (_, labels) in zip(weights, paths, strict=True):
        for i, label in enumerate(labels):
            expected[i, tagger.encoder_.labels.index(label)] += weight
    found = tagger.predict_marginals(short)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(tagger.predict_marginals(test).sum(axis=1), 1, rtol=1e-5)


def test_a_very_long_sentence_changes_nothing_for_the_others(trained):
    tagger, test = trained
    repeated = test.take(np.tile(np.arange(test.num_sentences), 4))
    one = dataclasses.replace(repeated, offsets=np.array([0, repeated.num_tokens]))
    assert one.num_tokens > 1024
    both = Corpus(
        tuple(
            np.concatenate([a, b, a])
            for a, b in zip(test.columns, one.columns, strict=True)
        ),
        None,
        np.concatenate(
            [test.offsets, test.num_tokens + one.offsets[1:] + test.offsets]
        ),
        "both",
    )
    labels, alone = tagger.predict(both), tagger.predict(test)
    np.testing.assert_array_equal(labels[: test.num_tokens], alone)
    np.testing.assert_array_equal(labels[-test.num_tokens :], alone)
    middle = labels[test.num_tokens : -test.num_tokens]
    np.testing.assert_array_equal(middle, tagger.predict(one))


def test_on_an_accelerator_the_labels_are_the_same(trained, monkeypatch):
    tagger, test = trained
    expected = tagger.predict(test)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(labelling, "predict_jitted", None)  # the other way
    np.testing.assert_array_equal(tagger.predict(test), expected)


def test_a_sentence_is_labelled_the_same_alone_as_among_others(trained):
    tagger, test = trained
    labels = tagger.predict(test)
    for i in (0, test.num_sentences - 1):
        here = slice(test.offsets[i], test.offsets[i + 1])
        np.testing.assert_array_equal(tagger.predict(test.take([i])), labels[here])


def test_a_saved_model_gives_the_same_labels_in_a_fresh_process(trained, tmp_path):
    tagger, test = trained
    folder, text = tmp_path / "deep" / "model", tmp_path / "text.txt"
    tagger.save(folder)
    assert {item.name for item in folder.iterdir()} == FILES
    assert os.listdir(folder.parent) == ["model"]
    sentences = data.words_from_labels(
        test.columns[0], tagger.predict(test), test.offsets
    )
    text.write_text("".join("".join(s) + "\n" for s in sentences), encoding="utf-8")
    program = (
        "import sys\n"
        "from lowrank_jax import data\n"
        "from lowrank_jax.estimators.tagger import Tagger\n"
        "corpus = data.read_raw_text(sys.argv[2])\n"
        "sys.stdout.write(' '.join(Tagger.load(sys.argv[1]).predict(corpus)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), str(text)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == tagger.predict(test).tolist()


def test_a_loaded_model_is_the_saved_one_bit_for_bit(trained, tmp_path):
    tagger, _ = trained
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert jax.tree.structure(loaded.params_) == jax.tree.structure(tagger.params_)
    for a, b in zip(
        jax.tree.leaves(loaded.params_), jax.tree.leaves(tagger.params_), strict=True
    ):
        assert a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert loaded.learner == tagger.learner
    assert loaded.hyperparameters_ == tagger.hyperparameters_
    assert loaded.training_ == tagger.training_
    assert loaded.num_parameters == tagger.num_parameters > 0


def test_a_float64_model_keeps_its_precision_where_x64_is_off(trained, tmp_path):
    tagger, test = trained
    third = jax.tree.map(lambda array: array.astype(jnp.float64) / 3, tagger.params_)
    tagger = copy.copy(tagger)
    tagger.params_ = third
    test = test.take([0, 1])
    tagger.save(tmp_path / "m")
    with jax.enable_x64(False):
        loaded = Tagger.load(tmp_path / "m")
        scores = [paths[0].score for paths in loaded.k_best(test, 1)]
    assert loaded.dtype == np.float64
    assert scores == [paths[0].score for paths in tagger.k_best(test, 1)]


def test_saving_replaces_a_model_and_drops_its_checkpoint(trained, tmp_path):
    tagger, test = trained
    tagger.save(tmp_path / "m")
    (tmp_path / "m" / "checkpoint.npz").write_bytes(b"x")
    named(tagger, "second").save(tmp_path / "m", keep_checkpoint=True)
    assert {i.name for i in (tmp_path / "m").iterdir()} == FILES | {"checkpoint.npz"}
    named(tagger, "third").save(tmp_path / "m")
    assert Tagger.load(tmp_path / "m").learner == "third"
    assert {i.name for i in (tmp_path / "m").iterdir()} == FILES
    assert os.listdir(tmp_path) == ["m"]


def test_a_foreign_folder_is_refused_and_left_as_it_is(trained, tmp_path):
    tagger, _ = trained
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds 'letter.txt'"):
        tagger.save(tmp_path / "home")
    with pytest.raises(InputError, match="is not a folder"):
        tagger.save(tmp_path / "home" / "letter.txt")
    assert os.listdir(tmp_path / "home") == ["letter.txt"]
    check_target(tmp_path / "new", "tagger")


def test_a_link_to_a_folder_stays_a_link(trained, tmp_path):
    tagger, _ = trained
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "m")
    tagger.save(tmp_path / "far" / "m")
    named(tagger, "second").save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert Tagger.load(tmp_path / "far" / "m").learner == "second"
    assert Tagger.load(tmp_path / "link").learner == "second"


def cut(path, share=0.5):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def set_version(path):
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"format_version": 7}))


def drop_learner(path):
    about = json.loads(path.read_text())
    del about["learner"]
    path.write_text(json.dumps(about))


@pytest.mark.parametrize(
    "name, spoil, sentence",
    [
        ("weights.npz", cut, "weights.npz has .* bytes where .* are expected"),
        ("vocabulary.npz", cut, "vocabulary.npz has .* bytes where"),
        ("weights.npz", flip, "weights.npz does not have the checksum"),
        ("weights.npz", os.unlink, "weights.npz is missing"),
        ("model.json", os.unlink, "is not a model folder: it has no model.json"),
        ("model.json", cut, "model.json is cut short or damaged"),
        ("model.json", drop_learner, "is damaged or not of a tagger"),
        ("model.json", set_version, "has model format 7 where this version reads 1"),
    ],
)
def test_a_spoilt_model_folder_is_told_in_one_sentence(
    trained, tmp_path, name, spoil, sentence
):
    trained[0].save(tmp_path / "m")
    spoil(tmp_path / "m" / name)
    with pytest.raises(InputError, match=sentence) as caught:
        Tagger.load(tmp_path / "m")
    assert "\n" not in str(caught.value)


def test_a_folder_with_a_checkpoint_alone_says_how_to_go_on(tmp_path):
    (tmp_path / "checkpoint.npz").write_bytes(b"")
    with pytest.raises(InputError, match="unfinished training .* --resume"):
        Tagger.load(tmp_path)


def test_weights_are_counted_by_order():
    count = num_parameters
    space = Space(10, 3, ("0", "01", "1"), has_transitions=True)
    assert count(space) == 10 * 3 + 10 * 12 + 12
    assert count(space, model="bilinear") == 10 * 3 + 10 * 7 + 12
    assert count(space, model="bilinear", rank=2) == 30 + 10 * 14 + 12
    counts = {"num_zero_order": 4, "num_first_order": 7}
    assert count(space, **counts) == 4 * 3 + 7 * 12 + 12
    assert count(Space(10, 3, ("0",))) == 30
    assert count(Space(10, 3, ("1",)), model="bilinear") == 70


def test_bad_models_are_named():
    space = Space(10, 3, ("0",))
    with pytest.raises(InputError, match="`model`"):
        num_parameters(space, model="cubic")
    with pytest.raises(InputError, match="`rank`"):
        num_parameters(space, model="bilinear", rank=0)


def test_defaults_are_not_worse_than_a_perceptron_without_an_average():
    given = {"template": "segmentation", "format": "segmentation"}
    gains = []
    for seed in range(2):
        train, held, _ = data.segmentation_task(150, 150, seed=seed)
        plain = Tagger("sp", averaging="none", **given).fit(train).score(held)
        gains.append(Tagger(**given).fit(train).score(held) - plain)
    assert sum(gains) >= 0
