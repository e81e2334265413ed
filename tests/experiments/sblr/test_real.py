"""SBLR Tables 2 to 5 on other real data: what is held out, and what is told."""

import numpy as np
import pytest

from experiments.__main__ import draw
from experiments.sblr import real, recordings, tasks
from experiments.sblr.tasks import Method, Task


@pytest.fixture
def place(corpus_path):
    """Return the folder of the data sets."""
    return corpus_path("msr_action3d/msr_action3d_real3d.npz").parent.parent


def belongs_together(case, groups):
    """Assert that no group is on both sides of the split, or of a fold."""
    is_train = case.task.is_train
    assert not set(groups[is_train]) & set(groups[~is_train])
    for fold in case.task.folds:
        held, kept = groups[is_train][fold == 0], groups[is_train][fold > 0]
        assert len(held) and not set(held) & set(kept)
    assert len(case.units) == (~is_train).sum()
    assert case.task.x[is_train].std() == pytest.approx(1, rel=1e-4)


def test_people_of_msr_action3d_are_trained_on_or_tested_on(place):
    case = next(recordings.people(place))
    x, notes = recordings._skeletons(place, 20)
    assert x.shape == (566, 60, recordings.NUM_FRAMES)
    assert case.task.is_train.sum() == 292 - 1  # one is broken
    belongs_together(case, notes["subject"])


def test_frames_are_resampled_from_the_first_to_the_last(place):
    x, _ = recordings._skeletons(place, 1)
    with np.load(place / "msr_action3d/msr_action3d_real3d.npz") as arrays:
        frames = arrays["frames"][: arrays["offsets"][1]]
    frames = (frames - frames[:, 6:7]).reshape(len(frames), -1)
    for at in (0, -1):
        np.testing.assert_allclose(x[0, :, at], frames[at], rtol=1e-6)
    assert (x[:, 18:21] == 0).all()  # the hip centre


def test_six_sequences_of_each_action_are_trained_on(place):
    case = next(recordings.videos(place, 1))
    counts = np.bincount(case.task.codes[case.task.is_train])
    assert (counts == 6).all() and len(case.task.folds) == 3


def test_objects_of_eth80_are_trained_on_or_tested_on(place):
    case = next(recordings.categories(place, 1, size=8))
    with np.load(place / "eth80/eth80_64x64.npz") as arrays:
        small = arrays["x"].reshape(3280, 8, 8, 8, 8).mean((2, 4)) / 255
        name = arrays["category"] * 10 + arrays["object"]
    scale = small.reshape(-1)[0] / case.task.x.reshape(-1)[0]
    known = {row.tobytes(): n for row, n in zip(np.round(small, 4), name, strict=True)}
    rows = np.round(case.task.x.astype(float) * scale, 4)
    groups = np.array([known.get(row.tobytes(), -1) for row in rows])
    is_known = groups >= 0  # rounding may lose a few
    assert is_known.mean() > 0.5
    is_train = case.task.is_train
    assert not set(groups[is_train & is_known]) & set(groups[~is_train & is_known])
    assert (groups[is_known] // 10 == case.task.codes[is_known]).all()
    assert np.bincount(case.task.codes[is_train]).tolist() == [40] * 8
    assert np.bincount(case.task.codes[~is_train]).tolist() == [205] * 8


def test_sessions_and_runs_of_eeg_are_held_out_whole(place):
    sizes = []
    for case in recordings.spectra(place):
        is_train = case.task.is_train
        assert is_train[: is_train.sum()].all()  # the last session is the test
        sizes.append((is_train.sum() * 8, (~is_train).sum() * 8))
        for fold in case.task.folds:  # one stretch of time is held out
            assert np.abs(np.diff(fold == 0)).sum() <= 2
    assert sizes == [(3488, 3504), (10400, 3472), (10288, 3488)]
    cases = list(recordings.movements(place))
    assert [len(case.units) for case in cases] == [15] * 6
    assert all(case.task.x.shape == (45, 64, 11) for case in cases)
    assert sum(len(set(case.units)) for case in cases) == 90


def test_strong_penalties_flatten_what_they_are_about():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 3, 4)).astype(np.float32)
    codes = (x[:, 0].sum(1) > 0).astype(int)
    is_train = np.arange(24) < 18
    folds = np.eye(3)[np.arange(18) % 3].T == 0
    task = Task(x, codes, is_train, folds / folds.sum(1, keepdims=True))
    swapped = task._replace(x=np.where(is_train[:, None, None], x, x[:, :, ::-1]))

    def scores(penalty, strength, task):
        points = np.array([[strength]])
        method = Method("some", False, points, penalty=penalty, max_iterations=500)
        return tasks.choose_and_score(method, task)[0][:, 0]

    flat = scores("variation", 1e3, task)  # constant along the columns
    assert np.ptp(flat) > 0.1
    np.testing.assert_allclose(flat, scores("variation", 1e3, swapped), atol=1e-3)
    free = scores("variation", 0, task) - scores("variation", 0, swapped)
    assert np.abs(free).max() > 0.1
    assert np.ptp(scores("nuclear", 1e3, task)) == 0


def some_protocol(overlap):
    return real.Protocol("some", "Table 0", lambda: iter(()), False, overlap)


def test_the_order_of_the_paper_is_answered_by_paired_differences(tmp_path):
    rng = np.random.default_rng(0)
    names = ("LR", "sparse LR", "ridge LR", "BLR", "SBLR")
    levels = (0.3, 0.5, 0.6, 0.7, 0.9)
    drawn = rng.random((2, 300))
    found = {
        name: [row < level for row in drawn]
        for name, level in zip(names, levels, strict=True)
    }
    choices = {name: [None, None] for name in names}
    units = [np.arange(300) // 3] * 2
    part = real.summary(some_protocol(None), found, choices, units)
    assert {row["verdict"] for row in part["differences"]} == {"better"}
    assert real._order(part) == "holds"
    worse = found | {"SBLR": found["LR"]}
    part = real.summary(some_protocol(None), worse, choices, units)
    assert real._order(part) == "fails"
    told = {v["claim"]: v["verdict"] for v in real.verdicts({"protocols": [part]})}
    assert told["BLR above sparse LR: some"] == "holds"
    assert told["SBLR above BLR: some"] == "fails"
    equal = found | {"SBLR": found["BLR"]}
    part = real.summary(some_protocol(0.0), equal, choices, units)
    assert real._order(part) == "not decided"
    result = {"protocols": [part], "left_out": ["CSP + LDA (MNE)"]}
    text = real.table(result)
    assert "SBLR less BLR" in text and "CSP + LDA (MNE) is left out" in text
    draw(real.EXPERIMENT, result, tmp_path / "real.png")


def test_units_are_drawn_whole():
    values = np.repeat([0.0, 1.0], 50)
    alone = real._by_units(values, np.arange(100))
    whole = real._by_units(values, np.repeat([0, 1, 2, 3], 25))
    assert whole["high"] - whole["low"] > 2 * (alone["high"] - alone["low"])
    assert alone["mean"] == whole["mean"] == 0.5
