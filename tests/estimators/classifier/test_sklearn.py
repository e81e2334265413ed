"""The classifier in scikit-learn's own tools: what a user of theirs does first."""

import functools
import warnings

import joblib
import numpy as np
import pytest
import sklearn.base
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from lowrank_jax import BilinearClassifier, BilinearClassifierCV
from lowrank_jax.checks import InputError
from lowrank_jax.estimators.classifier import ZeroModel, choosing, fit, lanes

FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


@functools.cache
def trials(dtype=np.float32, num=60, shape=(5, 8)):
    """Two classes that differ by a pattern of rank 1 under correlated noise."""
    rng = np.random.default_rng(3)
    y = np.arange(num) % 2
    mix = rng.normal(size=(shape[0], shape[0]))
    noise = np.einsum("ab,nbt->nat", mix, rng.normal(size=(num, *shape)))
    pattern = np.outer(rng.normal(size=shape[0]), np.sin(np.arange(shape[1])))
    return (noise + 0.8 * (2 * y - 1)[:, None, None] * pattern).astype(dtype), y


def test_pipeline_grid_search_and_cross_validation_run_unchanged():
    x, y = trials()
    pipe = make_pipeline(FunctionTransformer(), BilinearClassifier())
    grid = {"bilinearclassifier__mu2": [0.01, 0.3], "bilinearclassifier__rank": [1]}
    search = GridSearchCV(pipe, grid, cv=FOLDS, scoring="roc_auc").fit(x, y)
    assert search.best_score_ > 0.8
    scores = cross_val_score(BilinearClassifier(), x, y, cv=FOLDS)
    assert scores.shape == (3,) and scores.mean() > 0.7
    chances = cross_val_predict(
        BilinearClassifier(), x, y, cv=FOLDS, method="predict_proba"
    )
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-5)
    assert sklearn.base.is_classifier(BilinearClassifier())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_joblib_keeps_the_model_and_the_precision_is_that_of_the_data(dtype, tmp_path):
    x, y = trials(dtype)
    model = BilinearClassifier().fit(x, y)
    joblib.dump(model, tmp_path / "model")
    found = joblib.load(tmp_path / "model")
    scores = model.decision_function(x)
    np.testing.assert_array_equal(found.decision_function(x), scores)
    assert model.coef_.shape == (1, 5, 8)
    assert model.params_.left.dtype == model.patterns_.dtype == dtype
    assert scores.dtype == dtype


@pytest.mark.parametrize(
    "labels",
    [["rest", "move"], [True, False], [-1, 1], [2.0, 7.0]],
)
def test_labels_of_any_kind_come_back(labels):
    x, y = trials()
    for given in (np.array(labels)[y], np.array(np.array(labels)[y], object)):
        model = BilinearClassifier().fit(x, given)
        assert set(model.predict(x).tolist()) == set(labels)
        assert model.classes_.tolist() == sorted(labels)
        assert model.score(x, given) > 0.8


def test_a_weight_is_a_number_of_copies():
    x, y = trials(np.float64)
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    for scale in ("global", "row"):
        settings = {"scale": scale, "tolerance": 1e-7, "block_tolerance": 1e-8}
        one = BilinearClassifier(**settings).fit(x, y, sample_weight=weights)
        many = BilinearClassifier(**settings)
        many.fit(np.repeat(x, weights, 0), np.repeat(y, weights))
        np.testing.assert_allclose(one.coef_, many.coef_, atol=1e-6)
        np.testing.assert_allclose(one.patterns_, many.patterns_, rtol=1e-4)
    with pytest.raises(InputError, match="`sample_weight` must be 60 numbers"):
        BilinearClassifier().fit(x, y, sample_weight=[1, -1])


def test_patterns_are_haufes_transform_and_find_the_source():
    x, y = trials(np.float64)
    model = BilinearClassifier().fit(x, y)
    flat, w = x.reshape(len(x), -1), model.coef_.reshape(1, -1)
    covariance = np.cov(flat.T, bias=True)
    by_hand = covariance @ w.T / (w @ covariance @ w.T)  # Haufe et al., Eq. (6)
    np.testing.assert_allclose(model.patterns_[0].ravel(), by_hand[:, 0], rtol=1e-8)
    several = BilinearClassifier().fit(x, np.arange(len(x)) % 3)
    w = several.coef_.reshape(2, -1)
    by_hand = covariance @ w.T @ np.linalg.inv(w @ covariance @ w.T)
    np.testing.assert_allclose(several.patterns_.reshape(2, -1), by_hand.T, rtol=1e-6)


def test_grid_search_finds_what_the_one_program_finds():
    x, y = trials(np.float64)
    stop = {"tolerance": 1e-5, "block_tolerance": 1e-6}
    grid = {"rank": [1, 2], "mu2": [0.3, 0.03]}
    plain = BilinearClassifier(mu1=1e-3, nu1=1e-3, nu2=0.03, **stop)
    search = GridSearchCV(plain, grid, cv=FOLDS).fit(x, y)
    strengths = {"mu1": [1e-3], "nu1": [1e-3], "nu2": [0.03], "mu2": [0.3, 0.03]}
    chosen = BilinearClassifierCV(ranks=(1, 2), grid=strengths, cv=FOLDS, **stop)
    chosen.fit(x, y)
    ours = {(r["rank"], r["mu2"]): r["accuracy"] for r in chosen.cv_results_}
    found = search.cv_results_
    for point, score in zip(found["params"], found["mean_test_score"], strict=True):
        np.testing.assert_allclose(ours[point["rank"], point["mu2"]], score, atol=1e-9)
    assert chosen.best_score_ == pytest.approx(search.best_score_)
    again = sklearn.base.clone(chosen)
    assert repr(again) == repr(chosen)
    np.testing.assert_allclose(
        chosen.coef_,
        sklearn.base.clone(plain).set_params(**chosen.best_params_).fit(x, y).coef_,
        atol=1e-4,  # 10 times the tolerance: two solvers of one problem
    )
    trace = chosen.history_[0]
    assert (
        chosen.converged_
        and trace.converged[-1]
        and (np.diff(trace.objective) <= 0).all()
    )
    assert len(trace.objective) == chosen.n_iter_ and trace.stationarity[-1] < 1e-4


def test_fits_of_three_classes_side_by_side_are_the_fits_one_by_one():
    x, y = trials()[0], np.arange(60) % 3
    x = x + y[:, None, None] * np.outer(np.ones(5), np.cos(np.arange(8))).astype("f4")
    given = {"ranks": (1, 2), "cv": 2, "grid": {"mu2": [0.1], "nu2": [0.1]}}
    together = choosing.choose(x, y, **given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "fits_side_by_side", lambda *_: False)
        alone = choosing.choose(x, y, **given)
    for one, two in zip(together.rows, alone.rows, strict=True):
        assert one["accuracy"] == pytest.approx(two["accuracy"], abs=1 / 30)
    assert alone.whole is None and together.whole is not None


def test_fits_of_a_path_start_from_the_last_one_unless_it_has_lost_a_column():
    x, y = trials(np.float64)
    given = {"ranks": (2,), "cv": 3, "tolerance": 1e-6, "block_tolerance": 1e-8}
    weak = {"mu1": [1e-3], "nu1": [1e-3], "nu2": [0.03]}
    alone = choosing.choose(x, y, grid=weak | {"mu2": [0.02]}, **given).rows[0]
    path = choosing.choose(x, y, grid=weak | {"mu2": [0.021, 0.02]}, **given).rows
    assert path[0]["mu2"] == 0.021 and path[1]["sweeps"] < alone["sweeps"] / 2
    dead = weak | {"mu1": [9.0, 1e-3], "mu2": [0.02]}
    after = choosing.choose(x, y, grid=dead, **given).rows
    assert after[0]["mu1"] == 9.0 and after[0]["auc"] == 0.5
    assert after[1] == alone  # to the bit


def test_an_all_zero_model_is_never_silent():
    x, y = trials()
    with pytest.warns(ZeroModel, match="All weights are zero"):
        model = BilinearClassifier(mu1=5.0, nu1=5.0).fit(x, y)
    assert not model.coef_.any() and not model.converged_
    assert not model.patterns_.any()


def test_a_descent_that_falls_to_zero_is_tried_from_weak_strengths():
    x, y = trials(num=200, shape=(20, 30))
    strengths = {"mu1": 0.03, "nu1": 0.03, "mu2": 0.0, "nu2": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = fit(x, y, **strengths)
    assert done.converged and done.classifier.params.left.any()
    assert float(done.traces[0].objective[-1]) < np.log(2)  # of zero weights


def test_defaults_are_not_worse_than_a_plain_logistic_regression():
    x, y = trials(num=120, shape=(12, 20))
    flat = x.reshape(len(x), -1)
    ours = cross_val_score(BilinearClassifier(), x, y, cv=FOLDS, scoring="roc_auc")
    plain = cross_val_score(
        LogisticRegression(max_iter=500), flat / x.std(), y, cv=FOLDS, scoring="roc_auc"
    )
    assert ours.mean() >= plain.mean()
    assert BilinearClassifier().fit(x, y).converged_


def test_choice_refuses_what_it_cannot_do():
    x, y = trials()
    with pytest.raises(InputError, match="`scoring` must be"):
        choosing.choose(x, y, scoring="f1")
    with pytest.raises(InputError, match="`cv` must hold out every matrix"):
        choosing.choose(x, y, cv=[(np.arange(60), [0])])
    with pytest.raises(InputError, match="`multi_class` must be 'joint'"):
        BilinearClassifierCV(multi_class="one-vs-all").fit(x, np.arange(60) % 3)
