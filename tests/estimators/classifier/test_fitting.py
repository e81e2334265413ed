"""The classifier against formulas written out in NumPy; its folder against damage."""

import dataclasses
import functools
import json
import shutil

import jax
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.estimators import classifier
from lowrank_jax.estimators.classifier import Classifier
from lowrank_jax.estimators.classifier import model as matrix_model
from lowrank_jax.linalg import penalties
from lowrank_jax.models.bilinear_logit import Params
from lowrank_jax.store import folder as model_folder

SETTINGS = {
    "mu1": 1e-2,
    "nu1": 1e-2,
    "max_iterations": 60,
    "tolerance": 1e-6,
    "start": "paper",
    "mu2": 0.0,
    "nu2": 0.0,
    "solver": "proximal",
    "step": "lemma",  # the shortest program to compile; its tests are elsewhere
}


@functools.lru_cache
def matrices(num_classes=2, dtype=np.float64):
    rng = np.random.default_rng(0)
    y = np.arange(20) % num_classes
    means = rng.normal(size=(num_classes, 4, 3))
    x = 40 * (means[y] + rng.normal(size=(20, 4, 3)) + 2)
    return x.astype(dtype), np.array(["left", "middle", "right"])[y]


@functools.cache
def fitted(num_classes=2, multi_class="joint"):
    x, y = matrices(num_classes)
    return classifier.fit(x, y, multi_class=multi_class, **SETTINGS)


@functools.cache
def from_given_start():
    """Three classes from singular vectors of the mean (SBLR-I1), taken in NumPy."""
    x, y = matrices(3)
    u, _, vt = np.linalg.svd(x.mean(0))
    left, right = np.tile(-u[:, :1], (2, 1, 1)), np.tile(vt[:1].T, (2, 1, 1))
    start = Params(left, right, np.zeros(2))
    return classifier.fit(x, y, **SETTINGS | {"start": start, "scale_start": False})


def by_hand(model, x):
    """Scores of the sets of factors, one product at a time."""
    u, v, b = model.params
    z = (x - model.scaling.shift) / model.scaling.size
    return np.array(
        [[np.trace(u[c].T @ m @ v[c]) + b[c] for c in range(len(b))] for m in z]
    )


def test_two_classes_score_and_predict_as_the_formula_says():
    model, (x, y) = fitted().classifier, matrices()
    z = by_hand(model, x)[:, 0]
    assert model.classes.tolist() == ["left", "middle"] and model.shape == (4, 3)
    np.testing.assert_allclose(model.scores(x), np.stack([0 * z, z], 1), rtol=1e-10)
    p = 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(model.probabilities(x), np.stack([1 - p, p], 1))
    np.testing.assert_array_equal(model.predict(x), np.where(z > 0, "middle", "left"))
    assert (model.predict(x) == y).mean() > 0.9
    assert model.pattern_classes.tolist() == ["middle"]


def test_many_classes_jointly_have_the_last_as_reference():
    model, (x, y) = from_given_start().classifier, matrices(3)
    z = np.concatenate([by_hand(model, x), np.zeros((20, 1))], 1)
    np.testing.assert_allclose(model.scores(x), z, rtol=1e-10)
    expected = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    np.testing.assert_allclose(model.probabilities(x), expected, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(x), model.classes[z.argmax(1)])
    own = z[np.arange(20), np.searchsorted(model.classes, y)]
    loss = (np.log(np.exp(z).sum(1)) - own).mean()  # SBLR-Eq30
    u, v, _ = model.params
    expected = loss + 1e-2 * (np.abs(u).sum() + np.abs(v).sum())
    found = from_given_start().traces[0].objective[-1]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_one_vs_all_is_the_binary_problem_of_each_class():
    done, (x, y) = fitted(3, "one-vs-all"), matrices(3)
    model = done.classifier
    z = by_hand(model, x)
    np.testing.assert_allclose(model.scores(x), z, rtol=1e-10)
    sigmoid = 1 / (1 + np.exp(-z))
    expected = sigmoid / sigmoid.sum(1, keepdims=True)
    np.testing.assert_allclose(model.probabilities(x), expected, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(x), model.classes[z.argmax(1)])
    # The same shapes as the two classes of `fitted()`: compiled already.
    for c, label in enumerate(model.classes):
        alone = classifier.fit(x, y == label, **SETTINGS)
        for part, other in zip(alone.classifier.params, model.params, strict=True):
            np.testing.assert_allclose(part[0], other[c], atol=1e-9)
        one, other = alone.traces[0].objective, done.traces[c].objective
        assert len(one) == len(other)
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_probabilities_of_one_vs_all_survive_scores_far_below_zero():
    model = fitted(3, "one-vs-all").classifier
    low = model.params._replace(bias=np.array([-2000.0, -2001.0, -2002.0]))
    far = dataclasses.replace(model, params=low)
    found = far.probabilities(matrices(3)[0])
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(1), 1)


def test_a_fit_is_that_of_matrices_divided_beforehand_and_falls_to_its_objective():
    done, (x, y) = fitted(), matrices()
    alone = classifier.fit(x / x.std(), y, scale="none", **SETTINGS)
    trace = done.traces[0]
    np.testing.assert_allclose(alone.traces[0].objective, trace.objective, rtol=1e-9)
    assert (np.diff(trace.objective) <= 1e-9).all()
    z = done.classifier.scores(x)[:, 1] * np.where(y == "middle", 1, -1)
    u, v, _ = done.classifier.params
    penalty = 1e-2 * (np.abs(u).sum() + np.abs(v).sum())
    expected = np.log1p(np.exp(-z)).mean() + penalty  # SBLR-Eq4
    np.testing.assert_allclose(trace.objective[-1], expected, rtol=1e-9)
    assert done.converged == bool(trace.converged[-1])
    assert len(trace.objective) <= 60 and done.seconds > 0 < done.compile_seconds


def test_the_unit_of_the_data_changes_nothing():
    x, y = matrices()
    volts = classifier.fit(x * 1e-6, y, **SETTINGS).classifier
    here = fitted().classifier
    np.testing.assert_allclose(volts.params.left, here.params.left, atol=1e-9)
    np.testing.assert_allclose(volts.scores(x * 1e-6), here.scores(x), atol=1e-8)


def test_each_scaling_does_what_it_says():
    x, _ = matrices()
    x = np.concatenate([x, np.full((20, 1, 3), 7.0)], 1)  # a row that is constant
    np.testing.assert_allclose(classifier.scaling_of(x, "global")(x).std(), 1)
    rows = classifier.scaling_of(x, "row")(x)
    np.testing.assert_allclose(rows.mean((0, 2)), 0, atol=1e-9)
    np.testing.assert_allclose(rows.std((0, 2)), [1, 1, 1, 1, 0], atol=1e-9)
    np.testing.assert_array_equal(classifier.scaling_of(x, "none")(x), x)
    assert classifier.scaling_of(x, "row")(x.astype(np.float32)).dtype == np.float32


def test_a_given_start_is_gone_on_from():
    x, y = matrices(3)
    before = from_given_start()  # compiled for the test of many classes
    start = before.classifier.params
    again = classifier.fit(x, y, **SETTINGS | {"start": start, "scale_start": False})
    assert again.traces[0].objective[0] <= before.traces[0].objective[-1] + 1e-9
    assert again.classifier.settings["start"] == "given"
    with pytest.raises(InputError, match=r"`start.bias` must have shape \(2,\)"):
        classifier.fit(x, y, start=start._replace(bias=np.zeros(1)))


def test_scores_in_parts_are_the_scores(monkeypatch):
    model, (x, _) = fitted().classifier, matrices()
    whole = model.scores(x)
    monkeypatch.setattr(matrix_model, "_CHUNK", 6 * 12)
    np.testing.assert_allclose(model.scores(x), whole, rtol=1e-12)


def test_the_path_ends_in_zero_and_holds_the_fit_in_its_middle():
    x, y = matrices()
    found = classifier.regularisation_path(x, y, num_points=3, span=1e3, **SETTINGS)
    np.testing.assert_allclose(found.mu1, [1e-5, 1e-2, 10])
    assert found.left.shape == (3, 1, 4, 1) and found.right.shape == (3, 1, 3, 1)
    np.testing.assert_allclose(
        found.left[1], fitted().classifier.params.left, atol=1e-9
    )
    assert not found.left[2].any() and found.left[0].any()
    with pytest.raises(InputError, match="`colour` is not an argument"):
        classifier.regularisation_path(x, y, colour=1)


def test_a_penalty_takes_the_place_of_the_strengths():
    x, y = matrices()
    lasso = penalties.elastic_net(l1=1e-2)
    rest = {k: v for k, v in SETTINGS.items() if k != "mu1"}
    done = classifier.fit(x, y, left_penalty=lasso, **rest)
    np.testing.assert_allclose(
        done.traces[0].objective, fitted().traces[0].objective, rtol=1e-12
    )
    settings = done.classifier.settings
    assert settings["left_penalty"] == "given" and settings["mu1"] == 0.0
    for sentence, call, more in (
        ("Give either `left_penalty`", classifier.fit, {"mu1": 1e-3}),
        ("Give either `left_penalty`", classifier.fit, {"mu2": 0.1}),
        ("moves `mu1` and `nu1`", classifier.regularisation_path, {}),
    ):
        with pytest.raises(InputError, match=sentence):
            call(x, y, left_penalty=lasso, **more)
    with pytest.raises(InputError, match="moves `mu1` and `nu1`"):
        classifier.regularisation_path(x, y, right_penalty=lasso)


def test_strengths_left_open_are_one_in_a_thousand():
    x, y = matrices()
    told = {k: v for k, v in SETTINGS.items() if k not in ("mu1", "nu1")}
    open_, given = (
        classifier.fit(x, y, **told | more).classifier
        for more in ({}, {"mu1": 1e-3, "nu1": 1e-3})
    )
    assert open_.settings == given.settings
    np.testing.assert_array_equal(open_.params.left, given.params.left)
    path = classifier.regularisation_path(x, y, num_points=3, span=1e3, **told)
    np.testing.assert_allclose(path.nu1, [1e-6, 1e-3, 1])


def test_single_precision_is_kept_and_read_back_bit_for_bit(tmp_path):
    x, y = matrices(dtype=np.float32)
    names = ("C3", "Cz", "C4", "O\u00e9")
    with jax.enable_x64(False):
        model = classifier.fit(x, y, **SETTINGS, row_names=names).classifier
    assert model.dtype == np.float32
    model.save(tmp_path / "m", patterns=b"a picture")
    again = Classifier.load(tmp_path / "m")
    for one, other in zip(model.params, again.params, strict=True):
        assert one.tobytes() == other.tobytes() and one.dtype == other.dtype
    assert again.row_names == names and again.settings == model.settings
    assert again.versions["lowrank_jax"] and again.classes.tolist() == [
        "left",
        "middle",
    ]
    np.testing.assert_array_equal(again.scores(x), model.scores(x))
    assert (tmp_path / "m" / "patterns.png").read_bytes() == b"a picture"
    model.save(tmp_path / "m")  # replaces the folder, and the picture is gone
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [
        "model.json",
        "weights.npz",
    ]


def test_damage_to_a_folder_is_told_in_one_sentence(tmp_path):
    good = tmp_path / "good"
    fitted().classifier.save(good)
    weights, text = (good / name for name in ("weights.npz", "model.json"))

    def broken(change, match):
        folder = tmp_path / "bad"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(good, folder)
        change(folder)
        with pytest.raises(InputError, match=match):
            Classifier.load(folder)

    def put(name, content):
        return lambda folder: (folder / name).write_bytes(content)

    def about(**changes):
        return put(
            "model.json", json.dumps(json.loads(text.read_bytes()) | changes).encode()
        )

    broken(
        put("weights.npz", weights.read_bytes()[:-30]), "weights.npz has .* bytes where"
    )
    broken(lambda folder: (folder / "weights.npz").unlink(), "weights.npz is missing")
    broken(put("model.json", text.read_bytes()[:-30]), "model.json is cut short")
    broken(lambda folder: (folder / "model.json").unlink(), "not a model folder")
    broken(about(format_version=9), "model format 9")
    broken(about(kind="tagger"), "is a tagger; use lowrank-jax tag")
    with pytest.raises(InputError, match="not a model folder"):
        Classifier.load(tmp_path / "nowhere")
    (good / "thesis.tex").write_text("much work")
    with pytest.raises(InputError, match="holds 'thesis.tex'"):
        fitted().classifier.save(good)
    with pytest.raises(InputError, match="is not a folder"):
        model_folder.check_target(text, "matrix classifier")


def changed(x, place, value):
    x = x.copy()
    x[place] = value
    return x


X, Y = matrices(3)


@pytest.mark.parametrize(
    ("x", "y", "more", "match"),
    [
        (X, Y, {"multi_class": "binary"}, "two classes .* got 3: left, middle, right"),
        (X, ["left"] * 20, {}, "at least two classes, got only left"),
        (X, Y[:5], {}, r"`y` must have shape \(20,\)"),
        (X, np.arange(20) / 3, {}, "`y` must hold classes, got the number 0.33"),
        (X, [None] * 20, {}, "whole numbers, words or truths"),
        (X[0], Y, {}, "three dimensions"),
        (X.astype(str), Y, {}, "real numbers"),
        (changed(X, (3, 2, 1), np.nan), Y, {}, r"finite, got nan at \(3, 2, 1\)"),
        (0 * X, Y, {}, "zero throughout"),
        (X, Y, {"rank": 4}, r"`rank` must lie in 1\.\.3 for 4x3 matrices, got 4"),
        (X, Y, {"mu1": -1.0}, "`mu1` must be zero or more"),
        (X, Y, {"solver": "minimise", "step": "tight"}, "`step` has no part in"),
        (X, Y, {"scale": "huge"}, "`scale` must be one of"),
        (X, Y, {"max_iterations": 0}, "`max_iterations` must be a whole number"),
        (X, Y, {"row_names": ["Cz"]}, "`row_names` must be 4"),
    ],
)
def test_bad_data_and_arguments_are_told_in_one_sentence(x, y, more, match):
    with pytest.raises(InputError, match=match):
        classifier.fit(x, y, **more)


def test_other_data_at_predict_are_refused():
    model = fitted().classifier
    with pytest.raises(InputError, match="matrices of 4x3 .* got 3x4"):
        model.predict(X.transpose(0, 2, 1))
    with pytest.raises(InputError, match="finite, got inf"):
        model.predict(changed(X, (0, 0, 0), np.inf))


def test_weights_are_the_product_of_the_factors():
    model = fitted(3, "one-vs-all").classifier
    for c in range(3):
        expected = model.params.left[c] @ model.params.right[c].T
        np.testing.assert_allclose(model.weights[c], expected)
