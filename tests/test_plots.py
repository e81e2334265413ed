"""Pictures of a classifier, into axes of the user."""

import matplotlib
import numpy as np
import pytest

from lowrank_jax import BilinearClassifier, BilinearClassifierCV, plots
from lowrank_jax.checks import InputError
from tests.estimators.classifier.test_sklearn import FOLDS, trials

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def test_patterns_show_the_forward_model_and_the_course():
    x, y = trials()
    model = BilinearClassifier().fit(x, y, row_names="abcde")
    ((bars, course),) = plots.patterns(model)
    v = course.get_lines()[0].get_ydata()
    heights = [bar.get_height() for bar in bars.patches]
    np.testing.assert_allclose(heights, model.patterns_[0] @ v / (v @ v), rtol=1e-5)
    np.testing.assert_allclose(np.abs(v), np.abs(model.params_.right[0, :, 0]))
    assert [text.get_text() for text in bars.get_xticklabels()] == list("abcde")
    _, mine = pyplot.subplots(1, 2)
    assert plots.patterns(model, ax=mine)[0, 0] is mine[0]
    with pytest.raises(InputError, match="`ax` must be 2 axes, got 1"):
        plots.patterns(model, ax=mine[0])


def test_topographies_need_as_many_channels_as_rows():
    mne = pytest.importorskip("mne")
    x, y = trials()
    model = BilinearClassifier().fit(x, y)
    info = mne.create_info(["C3", "Cz", "C4", "Pz", "Fz"], 100.0, "eeg")
    places = 0.09 * np.array(
        [[-0.7, 0, 0.7], [0, 0, 1], [0.7, 0, 0.7], [0, -0.7, 0.7], [0, 0.7, 0.7]]
    )
    named = dict(zip(info["ch_names"], places, strict=True))
    info.set_montage(mne.channels.make_dig_montage(named, coord_frame="head"))
    ((left, _),) = plots.patterns(model, info=info)
    assert left.images
    with pytest.raises(InputError, match="`info` must have 5 channels"):
        plots.patterns(model, info=mne.create_info(["C3"], 100.0, "eeg"))


def test_path_and_convergence_show_what_was_measured():
    x, y = trials()
    model = BilinearClassifierCV(ranks=(1,), cv=FOLDS, grid={"mu2": [0.3, 0.03]})
    model.fit(x, y)
    line = plots.path(model).get_lines()[0]
    by_strength = sorted((r["mu2"], r["accuracy"]) for r in model.cv_results_)
    np.testing.assert_allclose(line.get_xydata(), by_strength)
    (line,) = plots.convergence(model).get_lines()
    assert len(line.get_xdata()) == model.n_iter_
    with pytest.raises(InputError, match="must be a fitted BilinearClassifierCV"):
        plots.path(BilinearClassifier().fit(x, y))
