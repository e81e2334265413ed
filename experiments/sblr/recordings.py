"""Real data of SBLR Tables 2 to 5 as tasks: skeletons, images, spectra and EEG.

A task is scaled by the standard deviation of its training part. Folds never part what
belongs together: people, objects, sessions and runs are held out whole. The readers
stand here and not in the library, since each makes choices of one experiment.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from experiments.sblr.tasks import Task
from lowrank_jax import data

__all__ = ["Case", "categories", "movements", "objects", "people", "spectra", "videos"]

NUM_FRAMES = 12
BROKEN = (13, 9, 2)  # action, subject, repetition: not one frame with a person
TRAINED_ON = (1, 3, 5, 7, 9)  # subjects of the usual split
RATE = 160.0  # of eegmmidb, in Hz
BANDS = np.arange(8.0, 30.0, 2.0)  # lower ends, in Hz


class Case(NamedTuple):
    """A task and what its interval needs.

    Attributes:
      task: The matrices.
      units: (n_test,) numbers of units, which the bootstrap draws whole.
      signals: (n, s, t) what a peer takes in place of the matrices, or None.
    """

    task: Task
    units: np.ndarray
    signals: np.ndarray | None = None


def _case(
    x: np.ndarray,
    codes: np.ndarray,
    is_train: np.ndarray,
    groups: np.ndarray,
    units: np.ndarray,
    signals: np.ndarray | None = None,
) -> Case:
    """Scale; hold out one group of the training part at a time."""
    kept = groups[is_train][None] != np.unique(groups[is_train])[:, None]
    folds = kept / kept.sum(1, keepdims=True)
    x = (x / x[is_train].std()).astype(np.float32)
    return Case(Task(x, codes, is_train, folds), units[~is_train], signals)


def _skeletons(place: Any, num_actions: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Return (n, 60, frames) joints from the hip centre, resampled, and their notes.

    Frames without a person are left out, and so is the one sequence without any other.
    """
    with np.load(data.find("msr_action3d/msr_action3d_real3d.npz", place)) as arrays:
        kept = {name: arrays[name] for name in arrays}
    key = np.stack([kept[name] for name in ("action", "subject", "repetition")], axis=1)
    is_kept = (key != BROKEN).any(1) & (key[:, 0] <= num_actions)
    found = []
    for i in np.flatnonzero(is_kept):
        frames = kept["frames"][kept["offsets"][i] : kept["offsets"][i + 1]]
        frames = frames[frames.any(axis=(1, 2))]
        frames = (frames - frames[:, 6:7]).reshape(len(frames), -1)  # 6: hip centre
        at = np.linspace(0, len(frames) - 1, NUM_FRAMES)
        low = np.floor(at).astype(int)
        high, share = np.minimum(low + 1, len(frames) - 1), (at - low)[:, None]
        found.append(((1 - share) * frames[low] + share * frames[high]).T)
    notes = {"action": key[is_kept, 0] - 1, "subject": key[is_kept, 1]}
    return np.stack(found), notes


def people(place: Any, *, num_actions: int = 20) -> Iterator[Case]:
    """Yield MSR-Action3D with half of the people to train on, the others to test."""
    x, notes = _skeletons(place, num_actions)
    is_train = np.isin(notes["subject"], TRAINED_ON)
    groups = notes["subject"] // 4  # people 1 3, 5 7 and 9 together
    yield _case(x, notes["action"], is_train, groups, np.arange(len(x)))


def videos(
    place: Any, repetitions: int, *, num_actions: int = 20, num_train: int = 6
) -> Iterator[Case]:
    """Yield MSR-Action3D with so many sequences of each action to train on."""
    x, notes = _skeletons(place, num_actions)
    codes = notes["action"]
    for repetition in range(repetitions):
        rng = np.random.default_rng(repetition)
        groups = np.full(len(codes), -1)
        for code in range(num_actions):
            drawn = rng.permutation(np.flatnonzero(codes == code))[:num_train]
            groups[drawn] = np.arange(num_train) % 3
        yield _case(x, codes, groups >= 0, groups, np.arange(len(x)))


def _images(place: Any, size: int, num_categories: int) -> tuple[np.ndarray, Any]:
    """Return (categories, objects, views, size, size) grey means in 0..1."""
    with np.load(data.find("eth80/eth80_64x64.npz", place)) as arrays:
        x = arrays["x"].reshape(8, 10, 41, size, 64 // size, size, 64 // size)
    return x[:num_categories].mean(axis=(4, 6)) / 255, np.arange(num_categories)


def categories(
    place: Any, repetitions: int, *, size: int = 16, num_categories: int = 8
) -> Iterator[Case]:
    """Yield ETH-80 with half of the objects, 8 views of each, to train on.

    All views of the other objects are the test.
    """
    x, codes = _images(place, size, num_categories)
    shape = x.shape[:3]
    every = np.broadcast_to(codes[:, None, None], shape)
    place_of = np.arange(shape[0] * 10).reshape(-1, 10, 1) * np.ones(shape, int)
    for repetition in range(repetitions):
        rng = np.random.default_rng(repetition)
        groups = np.full(shape, -1)
        is_test = np.zeros(shape, bool)
        for code in range(num_categories):
            order = rng.permutation(10)
            views = (rng.integers(41) + np.arange(8) * 5) % 41
            groups[code, order[:5, None], views[None]] = np.arange(5)[:, None] % 3
            is_test[code, order[5:]] = True
        used = ((groups >= 0) | is_test).ravel()
        parts = (groups >= 0, groups, place_of)
        is_train, folds, units = (part.reshape(-1)[used] for part in parts)
        matrices = x.reshape(-1, size, size)[used]
        yield _case(matrices, every.reshape(-1)[used], is_train, folds, units)


def objects(
    place: Any, repetitions: int, *, size: int = 16, num_categories: int = 8
) -> Iterator[Case]:
    """Yield ETH-80 with 4 views of each object to train on, the others to test."""
    x, _ = _images(place, size, num_categories)
    x = x.reshape(-1, 41, size, size)
    codes = np.repeat(np.arange(len(x)), 41)
    for repetition in range(repetitions):
        rng = np.random.default_rng(repetition)
        groups = np.full((len(x), 41), -1)
        for row in groups:
            row[rng.permutation(41)[:4]] = np.arange(4) % 2
        folds = groups.ravel()
        matrices = x.reshape(-1, size, size)
        yield _case(matrices, codes, folds >= 0, folds, np.arange(len(codes)))


def spectra(place: Any, *, subjects: tuple[int, ...] = (1, 2, 3)) -> Iterator[Case]:
    """Yield BCI Competition III data set V: earlier sessions train, the last is test.

    A matrix is the mean of 8 windows, half a second, of the logarithm of the power. A
    subject with one training session holds out thirds of it, in order of time. A unit
    of the test is a stretch of one label.
    """
    with np.load(data.find("bci3_v_psd/bci3_v_psd.npz", place)) as arrays:
        kept = {name: arrays[name] for name in ("x", "label", "subject", "session")}
    x = np.log(kept["x"]).reshape(-1, 8, 8, 12).mean(1)
    label, subject, session = (
        kept[name].reshape(-1, 8)[:, 0] for name in ("label", "subject", "session")
    )
    for one in subjects:
        here = subject == one
        codes, at = label[here].astype(int), session[here]
        is_train, groups = at < 4, at.astype(int)
        if len(np.unique(at[is_train])) == 1:
            groups = np.arange(len(at)) * 3 // int(is_train.sum())
        stretch = np.cumsum(np.append(0, np.diff(codes) != 0))
        yield _case(x[here], codes, is_train, groups, stretch)


def movements(place: Any, *, tasks: tuple[int, ...] = (2, 3)) -> Iterator[Case]:
    """Yield eegmmidb S001, fists against feet: each run is the test once.

    A matrix is the logarithm of the power of 64 channels in 11 bands of 2 Hz from 8 to
    30 Hz. Peers take the signals between 8 and 30 Hz.
    """
    with np.load(data.find("eegmmidb_s001/eegmmidb_s001.npz", place)) as arrays:
        kept = {name: arrays[name] for name in ("x", "label", "run", "task")}
    for task in tasks:
        here = kept["task"] == task
        given, codes = kept["x"][here].astype(float), kept["label"][here].astype(int)
        run = kept["run"][here]
        waves = np.fft.rfft(given - given.mean(-1, keepdims=True), axis=-1)
        pitch = np.fft.rfftfreq(given.shape[-1], 1 / RATE)
        power = np.abs(waves) ** 2
        inside = [(pitch >= low) & (pitch < low + 2) for low in BANDS]
        x = np.log(np.stack([power[..., each].mean(-1) for each in inside], axis=-1))
        is_band = (pitch >= BANDS[0]) & (pitch < BANDS[-1] + 2)
        signals = np.fft.irfft(waves * is_band, n=given.shape[-1], axis=-1)
        for held_out in np.unique(run):
            units = np.arange(len(codes)) + 1000 * task
            yield _case(x, codes, run != held_out, run, units, signals)
