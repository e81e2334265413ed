import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.store import arrays as files_of_arrays
from lowrank_jax.store import checkpoint, files


class Inner(NamedTuple):
    table: jax.Array
    nothing: jax.Array | None


class State(NamedTuple):
    inner: Inner
    scale: jax.Array
    key: jax.Array
    count: jax.Array
    more: Any


def make_state(seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    table = np.zeros((50, 3, 4), np.float32)
    table[[3, 17]] = rng.normal(size=(2, 3, 4))
    table[5, 0, 0] = -0.0
    table[6, 0, 0] = np.nan
    return State(
        inner=Inner(jnp.asarray(table), None),
        scale=jnp.asarray(0.1, jnp.float32),
        key=jax.random.key(seed),
        count=jnp.asarray(7, jnp.int32),
        more=(
            jnp.asarray(rng.normal(size=(4, 5))),
            jnp.ones((3,), jnp.bfloat16) / 3,
            jnp.zeros((0, 4)),
            jnp.array([True, False]),
        ),
    )


def bits(leaf: jax.Array) -> bytes:
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).tobytes()


def assert_same_bits(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert bits(a) == bits(b)


def test_a_state_comes_back_bit_for_bit(tmp_path):
    state = make_state()
    checkpoint.save(tmp_path / "c.npz", state, {"pass": 3})
    loaded, metadata = checkpoint.load(tmp_path / "c.npz", make_state(1))
    assert metadata == {"pass": 3}
    assert_same_bits(state, loaded)


def test_shapes_alone_are_enough_to_load(tmp_path):
    state = make_state()
    checkpoint.save(tmp_path / "c.npz", state, {})
    loaded, _ = checkpoint.load(tmp_path / "c.npz", jax.eval_shape(lambda: state))
    assert_same_bits(state, loaded)


def test_a_table_of_zeros_takes_no_room(tmp_path):
    path = tmp_path / "c.npz"
    table = jnp.zeros((100_000, 20)).at[7, 3].set(1.0)
    checkpoint.save(path, {"table": table}, {})
    assert path.stat().st_size < 4000
    loaded, _ = checkpoint.load(path, {"table": table})
    assert_same_bits({"table": table}, loaded)


def test_pack_keeps_what_is_not_sparse_as_it_is():
    arrays = {"full": np.arange(1.0, 5.0), "words": np.array(["a", "b"])}
    assert set(files_of_arrays.pack(arrays)) == {"full", "words"}
    sparse = {"sparse": np.eye(9)}
    packed = files_of_arrays.pack(sparse)
    assert set(packed) == {"sparse.places", "sparse.values", "sparse.shape"}
    np.testing.assert_array_equal(files_of_arrays.unpack(packed)["sparse"], np.eye(9))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_cut_short_is_refused_in_one_sentence(tmp_path, share):
    path = tmp_path / "c.npz"
    checkpoint.save(path, make_state(), {})
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match="c.npz is cut short or damaged"):
        checkpoint.load(path, make_state())


def test_a_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "c.npz"
    checkpoint.save(path, {"a": jnp.arange(1.0, 500.0)}, {})
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        checkpoint.load(path, {"a": jnp.zeros(499)})


def test_another_state_is_refused(tmp_path):
    path = tmp_path / "c.npz"
    checkpoint.save(path, {"a": jnp.ones(3), "b": jnp.ones(2)}, {})
    with pytest.raises(InputError, match=r"another learner or other data \(\['b'\]\)"):
        checkpoint.load(path, {"a": jnp.ones(3)})
    with pytest.raises(InputError, match=r"\['a'\] is float64\[3\] where float64\[4\]"):
        checkpoint.load(path, {"a": jnp.ones(4), "b": jnp.ones(2)})
    with pytest.raises(InputError, match="does not exist"):
        checkpoint.load(tmp_path / "none.npz", {})


def test_another_version_and_another_npz_are_refused(tmp_path):
    path = tmp_path / "c.npz"
    text = json.dumps({"format": 99, "leaves": [], "metadata": {}}).encode()
    np.savez(path, metadata=np.frombuffer(text, np.uint8))
    with pytest.raises(InputError, match="format 99 where this version reads 1"):
        checkpoint.load(path, {})
    np.savez(path, a=np.ones(3))
    with pytest.raises(InputError, match="is not a checkpoint"):
        checkpoint.load(path, {})


def test_a_failed_write_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "c.npz"
    checkpoint.save(path, {"a": jnp.ones(3)}, {"n": 1})

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        files.replace_file(path, fail)
    assert checkpoint.read_metadata(path) == {"n": 1}
    assert os.listdir(tmp_path) == ["c.npz"]


def test_a_kill_while_writing_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "c.npz"
    checkpoint.save(path, {"a": jnp.ones(3)}, {"n": 1})
    program = (
        "import os, sys\n"
        "from lowrank_jax.store import files\n"
        "def write(file):\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), 9)\n"
        "files.replace_file(sys.argv[1], write)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -9
    assert checkpoint.read_metadata(path) == {"n": 1}
    (left,) = set(os.listdir(tmp_path)) - {"c.npz"}
    assert files.PARTS.fullmatch(left)
    checkpoint.save(path, {"a": jnp.ones(3)}, {"n": 2})  # the remains do no harm
    assert checkpoint.read_metadata(path) == {"n": 2}


def test_a_number_that_the_file_lacks_keeps_its_value(tmp_path):
    """A field added to a state, and one removed, leave older files readable."""
    path = tmp_path / "state.npz"
    table, ratio = jnp.arange(6.0).reshape(2, 3), jnp.zeros((4,))
    checkpoint.save(path, {"count": jnp.ones(()), "ratio": ratio, "table": table}, {})
    shape = jax.ShapeDtypeStruct((2, 3), table.dtype)
    like = {"count": jnp.zeros(()), "step": jnp.asarray(0.5), "table": shape}
    found, _ = checkpoint.load(path, like, dropped=("ratio']",))
    assert (found["step"], found["count"]) == (0.5, 1)
    np.testing.assert_array_equal(found["table"], table)
    with pytest.raises(InputError, match="ratio"):
        checkpoint.load(path, like)
    like["step"] = jax.ShapeDtypeStruct((), table.dtype)
    with pytest.raises(InputError, match="step"):
        checkpoint.load(path, like, dropped=("ratio']",))
