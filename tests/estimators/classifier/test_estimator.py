"""The classifier as an object: settings, `fit`, what was learned, its folder."""

import functools
import inspect

import numpy as np
import pytest
import sklearn.base

from lowrank_jax.checks import InputError
from lowrank_jax.estimators import classifier
from lowrank_jax.estimators.classifier import BilinearClassifier
from lowrank_jax.linalg import penalties
from tests.estimators.classifier.test_fitting import SETTINGS, fitted, matrices


@functools.cache
def model(num_classes=2, scale="global"):
    x, y = matrices(num_classes)
    return BilinearClassifier(scale=scale, **SETTINGS).fit(x, y, row_names="abcd")


@pytest.mark.parametrize("num_classes", [2, 3])
def test_fit_of_the_object_is_fit_of_the_function(num_classes):
    found, (x, y) = model(num_classes), matrices(num_classes)
    done = fitted(num_classes)
    for one, other in zip(found.params_, done.classifier.params, strict=True):
        np.testing.assert_array_equal(one, other)
    expected = done.classifier
    np.testing.assert_array_equal(found.classes_, expected.classes)
    np.testing.assert_array_equal(found.predict(x), expected.predict(x))
    np.testing.assert_array_equal(found.predict_proba(x), expected.probabilities(x))
    scores = expected.scores(x)
    scores = scores[:, 1] if num_classes == 2 else scores
    np.testing.assert_array_equal(found.decision_function(x), scores)
    assert found.score(x, y) == (expected.predict(x) == y).mean() > 0
    assert found.n_iter_ == len(done.traces[0].objective)
    assert found.converged_ is done.converged
    np.testing.assert_array_equal(found.history_[0].objective, done.traces[0].objective)


@pytest.mark.parametrize("scale", ["global", "row"])
def test_coefficients_score_matrices_as_they_are_given(scale):
    found, (x, _) = model(scale=scale), matrices()
    by_hand = np.einsum("nst,st->n", x, found.coef_[0]) + found.intercept_[0]
    np.testing.assert_allclose(found.decision_function(x), by_hand, rtol=1e-9)


def test_numbers_that_overflow_on_the_scale_of_the_model_are_one_sentence():
    """A model of tiny numbers and huge numbers: the scores were NaN."""
    x, y = matrices()
    fit = BilinearClassifier(rank=1, scale="row", max_iterations=3).fit(x * 1e-30, y)
    assert np.isfinite(fit.predict_proba(x * 1e-30)).all()
    far = x * 1e-30
    far[4] = x[4] * 1e290
    with pytest.raises(InputError, match=r"numbers up to .*e\+2.. at 4, too large"):
        fit.predict_proba(far)


def test_a_folder_gives_the_model_back(tmp_path):
    x, y = matrices()
    model().save(tmp_path / "model")
    found = BilinearClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(
        found.decision_function(x), model().decision_function(x)
    )
    assert found.get_params() == model().get_params()
    numbers = model().n_iter_, model().converged_
    assert (found.n_iter_, found.converged_) == numbers
    assert found.classifier_.row_names == tuple("abcd")
    found.fit(x, y)  # the settings are there, so it can be fitted again
    np.testing.assert_array_equal(found.coef_, model().coef_)


def test_a_folder_keeps_no_object_of_python(tmp_path):
    x, y = matrices()
    settings = SETTINGS | {"mu1": None, "left_penalty": penalties.none()}
    BilinearClassifier(**settings).fit(x, y).save(tmp_path / "model")
    found = BilinearClassifier.load(tmp_path / "model")
    assert found.score(x, y) > 0.8
    with pytest.raises(InputError, match="`left_penalty` was an object of Python"):
        found.fit(x, y)


def test_scikit_learn_clones_it_and_settings_are_those_of_the_function():
    one = BilinearClassifier(rank=2, mu1=0.5)
    other = sklearn.base.clone(one)
    assert other is not one and other.get_params() == one.get_params()
    assert repr(other) == "BilinearClassifier(rank=2, mu1=0.5)"
    assert repr(other.set_params(rank=1)) == "BilinearClassifier(mu1=0.5)"
    beside = {"x", "y", "row_names", "sample_weight"}
    names = set(inspect.signature(classifier.fit).parameters) - beside
    assert set(one.get_params()) == set(
        inspect.signature(BilinearClassifier).parameters
    )
    assert set(one.get_params()) == names


def test_what_cannot_be_done_is_one_sentence():
    with pytest.raises(InputError, match="not fitted: call fit"):
        BilinearClassifier().predict(matrices()[0])
    with pytest.raises(InputError, match="`ranks` is not .*; the nearest is `rank`,"):
        BilinearClassifier(ranks=2)
    with pytest.raises(InputError, match="`rank` must"):
        BilinearClassifier(rank=9).fit(*matrices())
    assert not hasattr(BilinearClassifier(), "history_")
