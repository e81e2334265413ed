"""Models with one row per touched feature: trimmed, kept in a folder, and used."""

import numpy as np
import pytest

from lowrank_jax import Tagger, data
from lowrank_jax.checks import InputError
from lowrank_jax.estimators.tagger import calibration, compact
from lowrank_jax.online import touched
from lowrank_jax.store import folder as model_folder


def drawn(seed, share, dtype=np.float32, num_features=37, width=14):
    """A table in the order of first mistakes, with room for more, and its index."""
    draw = np.random.default_rng(seed)
    features = draw.permutation(num_features)[: int(share * num_features)]
    table = draw.normal(size=(len(features) + 9, width)).astype(dtype)
    table[draw.random(table.shape) < 0.6] = 0
    table[draw.random(table.shape) < 0.1] = -0.0
    index = np.zeros(num_features + 1, np.int32)
    index[features], index[-1] = np.arange(len(features)) + 1, len(table) - 1
    return table, index


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_trimmed_and_packed_is_the_same_by_feature(share, dtype):
    table, index = drawn(0, share, dtype)
    for given, is_long in ((table, False), (table[index], True)):
        found, rows = compact.trimmed(given, index, by_feature=is_long)
        assert len(found) == 1 + np.count_nonzero(index)
        assert found[rows].tobytes() == table[index].tobytes()
    weights = {"table": table, "scale": dtype(2), "rows": index}
    again = compact.unpack(compact.pack(weights), len(index) - 1, 3)
    assert again["table"].tobytes() == found.tobytes() and again["scale"] == 2
    assert again["rows"].dtype == np.int32
    np.testing.assert_array_equal(again["rows"], rows)


def test_the_file_has_a_bit_for_each_place_and_the_numbers():
    table, index = drawn(1, 0.5, num_features=8_000, width=80)
    packed = compact.pack({"table": table, "rows": index})
    stored = table[np.unique(index)]
    bits = len(index) / 8 + stored.size / 8
    numbers = np.count_nonzero(stored.view(np.uint32)) * stored.itemsize
    size = sum(part.nbytes for part in packed.values())
    assert size <= bits + numbers + stored.shape[1] + 1


@pytest.fixture(scope="module")
def sentences():
    train, test, _ = data.segmentation_task(60, 12, seed=0, num_words=30)
    return train, test


@pytest.fixture(scope="module", params=["plain", "uniform", "dev", "rank"])
def trained(request, sentences):
    train, test = sentences
    more = {"uniform": {"start": 0.5}, "rank": {"rank": 2}}.get(request.param, {})
    tagger = Tagger("bol", num_passes=3, **more)
    return tagger.fit(train, X_dev=test if request.param == "dev" else None), test


def by_feature(tagger):
    """The same model as tables of all features."""
    other = Tagger.from_params(
        tagger.encoder_,
        touched.by_feature(tagger.params_),
        hyperparameters=tagger.hyperparameters_,
        format=tagger.format,
        training=tagger.training_,
    )
    other.temperature_ = tagger.temperature_
    return other


def assert_same_model(one, two, test, monkeypatch):
    for most in (3e8, -1):  # in NumPy, then by the compiled program
        monkeypatch.setattr("lowrank_jax.estimators.tagger.small._MOST_WORK", most)
        np.testing.assert_array_equal(one.predict(test), two.predict(test))
        np.testing.assert_array_equal(
            one.predict_marginals(test), two.predict_marginals(test)
        )
        assert repr(one.k_best(test, 3)) == repr(two.k_best(test, 3))
    assert one.top_features(4) == two.top_features(4)
    assert one.num_parameters == two.num_parameters and one.dtype == two.dtype
    for feature in one.encoder_.feature_names(range(0, one.encoder_.num_features, 9)):
        assert one.factors(feature) == two.factors(feature)
    assert calibration._norm(one._weights) == calibration._norm(two._weights)


@pytest.mark.slow
def test_a_trained_model_is_the_one_by_feature(trained, tmp_path, monkeypatch):
    tagger, test = trained
    num_features = tagger.encoder_.num_features
    assert tagger.params_.rows.shape == (num_features + 1,)
    assert len(tagger.params_.table) == 1 + np.count_nonzero(tagger.params_.rows)
    assert len(tagger.params_.table) < num_features + 1  # some are never touched
    long = by_feature(tagger)
    assert_same_model(tagger, long, test, monkeypatch)
    for name, model in (("short", tagger), ("long", long)):
        model.save(tmp_path / name)
    loaded = [Tagger.load(tmp_path / name) for name in ("short", "long")]
    assert "rows" in loaded[0]._weights and "rows" not in loaded[1]._weights
    for one in loaded:
        assert_same_model(one, tagger, test, monkeypatch)


def rewritten(folder, change):
    """Write a folder again with other arrays."""
    content = model_folder.read(folder, "tagger")
    change(content.arrays["weights"])
    model_folder.write(folder, "tagger", content)


def longer(name):
    return lambda w: w.update({name: np.concatenate([w[name], w[name][:1]])})


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        longer("touched"),
        longer("filled"),
        longer("table"),
        lambda w: w.update(touched=w["touched"] | 255),
        lambda w: w.update(touched=w["touched"].astype(np.int32)),
        lambda w: w.update(filled=w["filled"].astype(np.float32)),
        lambda w: w.update(filled=w["filled"].reshape(-1)),
        lambda w: w.update(filled=w["filled"] | 255),
        lambda w: w.update(table=w["table"] * np.float32(np.nan)),
        lambda w: w.update(table=w["table"].astype(np.int32)),
        lambda w: w.pop("filled"),
        lambda w: w.pop("touched"),
        lambda w: w.pop("table"),
    ],
)
def test_a_damaged_index_is_refused(sentences, tmp_path, change):
    tagger = Tagger("bol", num_passes=1).fit(sentences[0])
    tagger.save(tmp_path / "m")
    rewritten(tmp_path / "m", change)
    with pytest.raises(InputError, match=r"damaged|incomplete"):
        Tagger.load(tmp_path / "m")


@pytest.mark.parametrize("entry", [np.float32(3e38), np.float64(1e200)])
def test_weights_whose_scores_overflow_are_refused_without_a_warning(
    sentences, tmp_path, entry
):
    tagger = Tagger("bol", num_passes=1).fit(sentences[0])
    tagger.save(tmp_path / "m")

    def change(weights):
        for name in {"table", "transitions", "scale"} & weights.keys():
            weights[name] = weights[name].astype(entry.dtype)
        weights["table"][:] = entry

    rewritten(tmp_path / "m", change)
    with pytest.raises(InputError, match="weights so large that scores overflow"):
        Tagger.load(tmp_path / "m")


def test_a_rank_that_nobody_trains_is_refused(sentences, tmp_path):
    """A table of zeros takes a few bytes of a file at any width."""
    tagger = Tagger("bol", num_passes=1).fit(sentences[0])
    tagger.save(tmp_path / "m")

    def change(weights):
        del weights["filled"], weights["touched"]
        weights["table"] = np.zeros((len(tagger.params_.rows), 30_000), np.float32)

    rewritten(tmp_path / "m", change)
    with pytest.raises(InputError, match="30000 columns of 'table'"):
        Tagger.load(tmp_path / "m")
    with pytest.raises(InputError, match="`rank` must be at most 1024"):
        Tagger("bol", num_passes=1, rank=1025).fit(sentences[0])


def test_an_index_that_no_program_wrote_is_not_used(sentences, tmp_path):
    tagger = by_feature(Tagger("bol", num_passes=1).fit(sentences[0]))
    tagger.save(tmp_path / "m")
    far = np.full(tagger.encoder_.num_features + 1, 10**9, np.int32)
    rewritten(tmp_path / "m", lambda w: w.update(rows=far))
    assert "rows" not in Tagger.load(tmp_path / "m")._weights


@pytest.fixture(scope="module", params=["sp", "mira with dev"])
def linear(request, sentences):
    train, test = sentences
    tagger = Tagger(request.param.split()[0], num_passes=3, orders="both")
    return tagger.fit(train, X_dev=test if "dev" in request.param else None), test


@pytest.mark.slow
def test_a_linear_model_by_its_entries_is_the_dense_one(linear, tmp_path, monkeypatch):
    tagger, test = linear
    weights = tagger._weights
    assert len(weights["keys"]) == 1 + np.count_nonzero(weights["rows"])
    assert len(weights["keys"]) < tagger.encoder_.num_features + 1
    assert weights["pages"].shape[0] > 1  # some blocks do not fit into a record
    long = by_feature(tagger)
    assert "first" in long._weights
    tagger.save(tmp_path / "short")
    loaded = Tagger.load(tmp_path / "short")
    for name, part in weights.items():
        np.testing.assert_array_equal(loaded._weights[name], part)
    for model in (tagger, loaded):
        for most in (3e8, -1):  # in NumPy, then by the compiled program
            monkeypatch.setattr("lowrank_jax.estimators.tagger.small._MOST_WORK", most)
            np.testing.assert_array_equal(model.predict(test), long.predict(test))
        assert model.top_features(4) == long.top_features(4)
        np.testing.assert_allclose(
            calibration._norm(model._weights), calibration._norm(long._weights)
        )


@pytest.mark.slow
def test_training_goes_on_from_entries_of_a_folder(linear, sentences, tmp_path):
    """Weights of a dense folder, as earlier versions wrote it, give the same."""
    tagger, (train, _) = linear[0], sentences
    by_feature(tagger).save(tmp_path / "long")
    tagger.save(tmp_path / "short")
    both = [Tagger.load(tmp_path / name) for name in ("short", "long")]
    for one in both:
        one.learner = tagger.learner
        one.partial_fit(train)
    short, long = (touched.by_feature(one.params_) for one in both)
    for name in ("zero", "first"):
        np.testing.assert_allclose(getattr(short, name), getattr(long, name), atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        longer("entries"),
        lambda w: w.update(places=-w["places"]),
        lambda w: w.update(places=w["places"].astype(np.int32)),
        lambda w: w.update(places=w["places"] * 100),
        lambda w: w.update(entries=w["entries"] * np.float32(np.nan)),
        lambda w: w.pop("places"),
        lambda w: w.pop("entries"),
    ],
)
def test_damaged_entries_are_refused(linear, tmp_path, change):
    linear[0].save(tmp_path / "m")
    rewritten(tmp_path / "m", change)
    with pytest.raises(InputError, match=r"damaged|incomplete"):
        Tagger.load(tmp_path / "m")
