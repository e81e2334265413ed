"""Wide rounds on devices and processes: the result does not depend on their number."""

import json
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from lowrank_jax import sharding
from lowrank_jax.checks import InputError
from tests.test_sharding import ROOT, SECONDS, settings

PROGRAM = [sys.executable, "-W", "error", "-m", "tests.online.wide.devices_program"]


def started(num_devices, *arguments):
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=settings(num_devices),
    )


@pytest.mark.slow
def test_one_two_and_four_devices_have_the_same_bits():
    """Mistakes, margins, steps, duals, averages; one or two collectives a round."""
    out, error = (process := started(4)).communicate(timeout=3 * SECONDS)
    assert process.returncode == 0, error[-3000:]
    found = json.loads(out)
    assert len(found) == 10
    assert [claim for claim, is_true in found.items() if not is_true] == []


@pytest.mark.slow
def test_processes_have_the_bits_of_devices():
    """`jax.distributed` on loopback, one device each."""
    digests, number = [], 2
    for count, devices in ((1, number), (number, 1)):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        running = [started(devices, i, count, port) for i in range(count)]
        for process in running:
            out, error = process.communicate(timeout=3 * SECONDS)
            assert process.returncode == 0, error[-3000:]
            digests += [line for line in out.splitlines() if "digest" in line]
    assert len(digests) == 1 + number and len(set(digests)) == 1


def test_more_devices_than_there_are_is_an_error():
    most = len(jax.devices())
    with pytest.raises(InputError, match=f"must lie in 1..{most}"):
        sharding.mesh(most + 1)
    assert np.array(sharding.mesh(1).devices).size == 1
