"""Data, tables and runs across devices and processes give what one device gives."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import data, sharding, streams
from lowrank_jax.checks import InputError
from lowrank_jax.streams.matrices import Labelled
from tests import sharding_program

ROOT = pathlib.Path(__file__).parents[1]
PROGRAM = [sys.executable, "-W", "error", "-m", "tests.sharding_program"]
SECONDS = 120  # a program takes a few; a machine may be busy


def settings(num_devices):
    flags = os.environ["XLA_FLAGS"]
    count = f"--xla_force_host_platform_device_count={num_devices}"
    # The emitters make faster programs and take thrice as long to make them.
    quick = "--xla_cpu_use_fusion_emitters=false"
    return os.environ | {"XLA_FLAGS": f"{flags} {count} {quick}"}


def four_devices():
    """Return what the program has found on four devices."""
    done = subprocess.run(
        PROGRAM,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=settings(4),
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


# One test for both: they are compared with the same fits, which are made once.
@pytest.mark.slow
def test_four_devices_and_two_processes_equal_one_device():
    fitted = four_devices()
    weights = np.array(fitted.pop("fista's weights"))
    for claim, found in fitted.items():
        if claim.endswith("less one device") or claim.endswith("less vmap"):
            assert 0 <= found <= 1e-10, claim
        elif "gathered" in claim:
            assert found == 0, claim
        else:
            assert found is True, claim
    assert len(fitted) == 34

    for held in two_processes():
        assert held["devices"] == 2 and held["shares"] == [16]
        np.testing.assert_allclose(
            held["weights"], weights, rtol=1e-10, atol=1e-10 * np.abs(weights).max()
        )
    assert np.abs(weights).max() > 0.1


def two_processes():
    """Return what each of two processes on this machine has printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [
        subprocess.Popen(
            [*PROGRAM, str(index), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=settings(1),
        )
        for index in range(2)
    ]
    try:
        ended = [one.communicate(timeout=SECONDS) for one in started]
    finally:
        for one in started:
            one.kill()  # nothing to one that has ended
            one.wait()
    for one, (_, errors) in zip(started, ended, strict=True):
        assert one.returncode == 0, errors[-3000:]
    return [json.loads(printed.splitlines()[-1]) for printed, _ in ended]


def test_a_mesh_of_more_devices_than_there_are_is_refused_by_name():
    num_devices = len(jax.devices())
    with pytest.raises(
        InputError, match=rf"`num_devices` must lie in 1..{num_devices}"
    ):
        sharding.mesh(num_devices + 1)
    with pytest.raises(InputError, match="`num_devices` must be a whole number"):
        sharding.mesh(0)
    assert sharding.mesh(1, axis="runs").axis_names == ("runs",)


def words():
    train, _, _ = data.spelling_task(5, 1, seed=0)
    alphabet = data.alphabet_of(train)
    return alphabet, data.encode_words(alphabet, train)


def test_what_cannot_be_spread_is_refused_in_words():
    mesh = sharding.mesh(1)
    labelled = Labelled(np.ones((3, 2, 2)), np.ones((2, 1)), np.ones(3))
    with pytest.raises(InputError, match="one n throughout, got \\[2, 3\\]"):
        sharding.shard(labelled, mesh)
    with pytest.raises(InputError, match="= 8 rows, and has none"):
        sharding.shard_rows({"table": jnp.ones((7, 2))}, mesh, num_features=7)
    lattice = streams.words.lattice(*words())
    with pytest.raises(InputError, match="num_batches=1, has_all=True"):
        sharding.shard_words(lattice, mesh)
    for in_axes in (1, (None,), (0, 1)):
        with pytest.raises(InputError, match="`in_axes` must be 0"):
            sharding.spread(jnp.add, mesh, in_axes=in_axes)
    add = sharding.spread(jnp.add, mesh)
    with pytest.raises(InputError, match=r"first axes of \(2,\), \(3,\)"):
        add(np.ones(2), np.ones(3))
    with pytest.raises(InputError, match="2 entries for 1 arguments"):
        sharding.spread(jnp.sin, mesh, in_axes=(0, None))(np.ones(2))
    two_axes = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("a", "b"))
    with pytest.raises(InputError, match="`mesh` must have one axis"):
        sharding.spread(jnp.add, two_axes)


def test_sharded_matrices_keep_their_precision_and_a_missing_part():
    labelled = Labelled(
        np.ones((3, 2, 2), np.float32), np.ones((3, 1), np.float32), np.ones(3)
    )
    with jax.enable_x64(False):
        found = sharding.shard(labelled, sharding.mesh(1))
    assert found.x.dtype == found.weights.dtype == jnp.float32
    assert found.turned is None and found.x.shape == (3, 2, 2)


def test_distance_of_the_program_sees_a_difference():
    assert sharding_program.distance([np.ones(2)], [np.array([1, 1.1])]) > 0.09
