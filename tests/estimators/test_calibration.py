"""Probabilities of models whose scores have no scale."""

import numpy as np
import pytest

from lowrank_jax import Tagger, data
from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators import labelling
from lowrank_jax.estimators.tagger import calibration, small
from lowrank_jax.models import bilinear, linear
from tests.cli.conftest import chunk_lines
from tests.estimators.test_small import ORDERS, draw_sequences, params_of


@pytest.mark.parametrize("kind", ["linear", "bilinear"])
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("heat", [1.0, 3.0])
def test_marginals_are_those_of_the_compiled_program(kind, orders, heat):
    sequences, draw = draw_sequences(5, *ORDERS[orders], lengths=(5, 0, 1, 20, 7))
    params, weights = params_of(kind, sequences.space, draw, False)
    model = linear if kind == "linear" else bilinear
    compiled = labelling.marginals_all(model, params, sequences, heat)
    found = small.marginals(weights, sequences, heat)
    np.testing.assert_allclose(found, compiled, atol=2e-5)  # float32 against float64


def test_the_temperature_that_drew_the_labels_is_found():
    sequences, draw = draw_sequences(0, *ORDERS["none"], lengths=(4000,))
    _, weights = params_of("linear", sequences.space, draw, False)
    truth = small.marginals(weights, sequences, 2.5)
    labels = np.array([draw.choice(5, p=row / row.sum()) for row in truth])
    given = Sequences(
        sequences.feature_ids,
        labels.astype(np.int32),
        sequences.offsets,
        sequences.space,
    )
    found = calibration.fit_temperature(weights, given)
    assert found == pytest.approx(2.5, rel=0.1)  # 4000 draws
    before = calibration.calibration_error(small.marginals(weights, given), labels)
    after = calibration.calibration_error(truth, labels)
    assert after < 3 < before


def test_the_error_is_the_gap_of_confidence_and_accuracy():
    rows = np.array([[0.9, 0.1]] * 10)
    labels = np.array([0] * 6 + [1] * 4)
    assert calibration.calibration_error(rows, labels) == pytest.approx(30)
    assert calibration.calibration_error(rows, np.zeros(10, int)) == pytest.approx(10)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    place = tmp_path_factory.mktemp("calibration")
    found = []
    for seed in (2, 3):
        (place / "c").write_text(chunk_lines(60, seed, noise=0.3))
        found.append(data.read_conll(place / "c"))
    return found


def quality_of(tagger, corpus, heat):
    """Return the mean log loss, which the temperature minimises, and the error."""
    sequences = tagger.encoder_.transform(corpus, unseen_label="ignore")
    found = small.marginals(tagger._weights, sequences, heat)
    rows = np.arange(len(sequences.labels))
    loss = -np.log(np.maximum(found[rows, sequences.labels], 1e-30)).mean()
    return loss, calibration.calibration_error(found, sequences.labels)


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["sp", "bol"])
def test_folds_make_probabilities_better_and_are_kept(parts, learner, tmp_path):
    train, test = parts
    tagger = Tagger(learner, num_passes=3, calibration_folds=2).fit(train)
    plain = Tagger(learner, num_passes=3).fit(train)
    assert plain.temperature_ == 1
    np.testing.assert_array_equal(plain.predict(test), tagger.predict(test))
    heat = tagger.temperature_
    (loss, error), (plain_loss, plain_error) = (
        quality_of(tagger, test, given) for given in (heat, 1.0)
    )
    assert loss < plain_loss
    if learner == "bol":  # the loss of sp falls here while its error rises
        assert error < plain_error
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.temperature_ == heat
    np.testing.assert_allclose(
        loaded.predict_marginals(test), tagger.predict_marginals(test)
    )
    assert plain.calibrate(test).temperature_ != 1
    assert Tagger(learner, num_passes=1).fit(train, X_dev=test).temperature_ != 1


def test_likelihood_needs_no_temperature(parts):
    with pytest.raises(InputError, match="0 for crf"):
        Tagger("crf", calibration_folds=2).fit(parts[0])
    with pytest.raises(InputError, match="at least 2"):
        Tagger("sp", calibration_folds=1).fit(parts[0])
