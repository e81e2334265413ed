import os
import signal
import subprocess
import sys
import threading

import pytest

from lowrank_jax.cli.output import StopRequest

# A long computation in C that signals do not interrupt, as a compiled pass is.
PROGRAM = """
import hashlib, sys
from lowrank_jax.cli.output import StopRequest
with StopRequest("stopping") as stop:
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", int(sys.argv[1]))
    print("number", stop.number, flush=True)
"""


def start(rounds: int) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(rounds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_one_signal_lets_the_work_end():
    process = start(1_000_000)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "number 15\n", "stopping\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_stops_at_once(number):
    process = start(200_000_000)  # a minute or more
    try:
        process.send_signal(number)
        assert process.stderr.readline() == "stopping\n"
        process.send_signal(number)
        assert process.wait(timeout=30) == 128 + number
    finally:
        process.kill()
        process.communicate()


def test_the_handlers_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest("stopping") as stop:
        assert signal.getsignal(signal.SIGTERM) is not before
        os.kill(os.getpid(), signal.SIGTERM)
        stop._thread.join(timeout=0.5)  # it goes on watching
    assert stop.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_outside_the_main_thread_it_does_nothing():
    found = []

    def work():
        with StopRequest("stopping") as stop:
            found.append(stop.number)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [None]
