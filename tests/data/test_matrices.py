"""Files of matrices: keys, shapes and what is said of bad ones."""

import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data import read_matrices

X = np.arange(24.0).reshape(2, 3, 4)
Y = np.array([1, -1])


@pytest.fixture
def save(tmp_path):
    def write(**arrays):
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
        return path

    return write


def test_x_and_y_are_read(save):
    data = read_matrices(save(x=X, y=Y, names=["a", "b", "c"]))
    np.testing.assert_array_equal(data.x, X.astype(np.float32))
    np.testing.assert_array_equal(data.y, Y)
    assert data.x.dtype == np.float32
    assert data.names == ("a", "b", "c")


def test_labels_may_be_missing(save):
    assert read_matrices(save(x=X)).y is None
    assert read_matrices(save(z=X, w=Y), "z").y is None


def test_keys_can_be_named(save):
    data = read_matrices(save(x=X + 1, z=X, w=Y), "z", "w")
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_array_equal(data.y, Y)


def test_splits_and_scale(save):
    path = save(x_train=X, y_train=Y, x_test=X[:1] + 1, y_test=Y[:1], scale=0.5)
    np.testing.assert_array_equal(read_matrices(path).x, X / 2)
    np.testing.assert_array_equal(read_matrices(path, split="train").x, X / 2)
    np.testing.assert_array_equal(read_matrices(path, split="test").x, (X[:1] + 1) / 2)


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"z": X}, {}, "no array 'x', 'x_train' or 'images'; it has z"),
        ({"x": X, "y": Y}, {"x": "q"}, "no array 'q'; it has x, y"),
        ({"x": X, "y": Y}, {"x": "x", "y": "q"}, "no array 'q'"),
        ({"x": X, "y": Y}, {"y": "y"}, "`x` must be given"),
        ({"x": X, "y": Y}, {"split": "test"}, "no test part, only x, y"),
        ({"x": X}, {"split": "dev"}, "`split` must be one of"),
        ({"x": X[0]}, {}, r"three dimensions .* got shape \(3, 4\)"),
        ({"x": X[:0]}, {}, r"no empty one, got shape \(0, 3, 4\)"),
        ({"x": X, "y": Y[:1]}, {}, r"must have shape \(2,\).* got \(1,\)"),
        ({"x": X.astype(complex)}, {}, "real numbers, got dtype complex"),
        ({"x": X.astype(str)}, {}, "real numbers, got dtype"),
        ({"x": np.where(X == 6, np.nan, X)}, {}, r"got nan at \(0, 1, 2\) and 1 such"),
        ({"x": X * 1e300}, {}, "finite in float32"),
        ({"x": X, "y": np.array([1, np.nan])}, {}, "must be finite, got nan at 1"),
        ({"x": X, "names": ["a"]}, {}, r"row names .* 3 .* got shape \(1,\)"),
    ],
)
def test_bad_arrays_are_named(save, arrays, options, message):
    with pytest.raises(InputError, match=message):
        read_matrices(save(**arrays), **options)


def test_bad_files_are_named(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_matrices(tmp_path / "no.npz")
    with pytest.raises(InputError, match="is a folder"):
        read_matrices(tmp_path)
    np.save(tmp_path / "bare.npy", X)
    with pytest.raises(InputError, match="one bare array"):
        read_matrices(tmp_path / "bare.npy")
    (tmp_path / "text.npz").write_text("no arrays here")
    with pytest.raises(InputError, match="not a readable npz file"):
        read_matrices(tmp_path / "text.npz")
    np.savez(tmp_path / "whole.npz", x=X)
    content = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="not a readable npz file"):
        read_matrices(tmp_path / "cut.npz")
    np.savez(tmp_path / "objects.npz", x=np.array([[[object()]]]))
    with pytest.raises(InputError, match="not a readable npz file"):
        read_matrices(tmp_path / "objects.npz")


def test_bci2_iv_has_its_counts(corpus_path):
    path = corpus_path("bci2_iv/sp1s_aa_100hz.npz")
    train, test = read_matrices(path), read_matrices(path, split="test")
    assert train.x.shape == (316, 28, 50)
    assert np.bincount(train.y).tolist() == [159, 157]
    assert test.x.shape == (100, 28, 50)
    assert np.bincount(test.y).tolist() == [49, 51]
    assert train.names[:2] == ("F3", "F1")
    raw = np.load(path)["x_train"]
    np.testing.assert_allclose(train.x, raw * 0.1, rtol=1e-5)


def test_coil20_has_its_counts(corpus_path):
    data = read_matrices(corpus_path("coil20/coil20_32x32.npz"))
    assert data.x.shape == (1440, 32, 32)
    assert np.bincount(data.y).tolist() == [0] + [72] * 20
    assert data.x.min() >= 0.0
    assert data.x.max() <= 1.0
