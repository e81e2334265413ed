"""Trainings that are killed, starved of disk, run twice at once, and repeated."""

import contextlib
import gc
import hashlib
import io
import itertools
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from lowrank_jax.checks import InputError
from lowrank_jax.cli import main
from lowrank_jax.estimators import load
from lowrank_jax.store.files import Folder
from tests.campaign import children
from tests.campaign.crashes import crash_points
from tests.campaign.inputs import CONLL, JSON_LISTS, NETTALK, peak
from tests.campaign.report import Part

LEARNERS = ("sp", "mira", "bol", "bcd", "crf", "smm", "tm", "perceptron")


def command(learner: str, place: pathlib.Path, model: pathlib.Path) -> list[str]:
    """Return the arguments of a short training, its data written beside."""
    (place / "a.txt").write_bytes(CONLL * 3)
    (place / "n.data").write_bytes(NETTALK + NETTALK.split(b"\n", 1)[1] * 3)
    (place / "l.jsonl").write_bytes(JSON_LISTS * 4)
    more = ["--model", str(model), "--checkpoint-seconds", "0"]
    if learner in ("tm", "perceptron"):
        given = ["rerank", "train", str(place / "l.jsonl"), "--learner", learner]
        return [*given, "--epochs", "3", *more]
    given = ["train", learner, "--passes", "3", *more]
    if learner == "smm":
        data = ["--train", str(place / "n.data"), "--format", "nettalk"]
        return [*given, *data, "--set", "order=2"]
    return [*given, "--train", str(place / "a.txt")]


def quiet(arguments: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its status and standard error."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        status = main(arguments)
    return status, err.getvalue()


def bits(model: pathlib.Path) -> str:
    """Return the checksum of the weights that a reader takes, "" if there are none.

    A process that died between the renames has left them as ``weights.new.npz``.
    """
    about = json.loads((model / "model.json").read_text("utf-8"))
    wanted = about["files"]["weights.npz"]["sha256"]
    paths = model / "weights.npz", model / "weights.new.npz"
    there = [path.read_bytes() for path in paths if path.exists()]
    found = {hashlib.sha256(content).hexdigest() for content in there}
    return wanted if wanted in found else ""


def unbroken_bits(given: list[str], model: pathlib.Path) -> str:
    """Return the bits of a training into an empty folder: nothing else may be there.

    The model of another learner would be kept, as it is of another kind, and its bits
    would be taken for those of this training.
    """
    shutil.rmtree(model, ignore_errors=True)
    status, err = quiet(given)
    if status:
        raise AssertionError(f"no training: {err[-200:]}")
    return bits(model)


def crash_trainings(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Let every training command die at every file operation, then resume it."""
    part = Part("trainings that die at a file operation, resumed", seconds)
    rng, model = random.Random(seed), place / "m"
    points = {}
    for learner in rng.sample(LEARNERS, len(LEARNERS)):
        if part.is_over:
            break
        given = command(learner, place, model)
        unbroken, before = unbroken_bits(given, model), part.tried

        def check(given: list[str] = given, unbroken: str = unbroken) -> str:
            if (model / "model.json").exists():
                load(model)
            status, err = quiet([*given, "--resume"])
            if status or bits(model) != unbroken:
                return f"status {status}, other bits: {err[-200:]}"
            return ""

        def prepare() -> None:
            shutil.rmtree(model, ignore_errors=True)

        every = crash_points(prepare, lambda given=given: quiet(given), check)
        for number, operation, wrong in every:
            part.trial(
                wrong and f"{learner}, operation {number} ({operation}): {wrong}"
            )
            if part.is_over:
                break
        points[learner] = part.tried - before
    part.note = ", ".join(f"{name} {count}" for name, count in points.items())
    return part.end()


def crash_saves(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Die at every file operation of the saves of every kind of model and checkpoint.

    Another model of the same kind is saved over a model. What is left must load, and be
    the one or the other.
    """
    part = Part("saves of models and checkpoints that die at a file operation", seconds)
    rng, points = random.Random(seed), {}
    old, model, new = (place / name for name in ("old", "m", "new"))

    def prepare() -> None:
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(old, model)

    for learner in rng.sample(LEARNERS, len(LEARNERS)):
        for folder in (old, new):
            shutil.rmtree(folder, ignore_errors=True)
        given = command(learner, place, new)
        if quiet(given)[0]:
            raise AssertionError(f"{learner} does not train")
        later = load(new)
        shorter = command(learner, place, old)
        shorter[shorter.index("3", shorter.index("--model") - 2)] = "1"
        quiet(shorter)
        known, before = {bits(old), bits(new)}, part.tried

        def check(known: set[str] = known) -> str:
            load(model)
            return "" if bits(model) in known else "other bits"

        every = crash_points(prepare, lambda later=later: later.save(model), check)
        for number, operation, wrong in every:
            part.trial(
                wrong and f"{learner}, operation {number} ({operation}): {wrong}"
            )
        points[learner] = part.tried - before
        if part.is_over:
            break
    part.note = ", ".join(f"{name} {count}" for name, count in points.items())
    return part.end()


def train(given: list[str]) -> int:
    """Run a command in a child."""
    return main(given)


def kill_trainings(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Send signals to training processes after a random pass, then resume them.

    A trial counts if the process was alive when the signal came.
    """
    part = Part("processes ended by SIGKILL, SIGTERM, SIGINT, resumed", seconds)
    late, signals = [0], (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
    unbroken: dict[str, str] = {}

    def long(learner: str, own: pathlib.Path) -> list[str]:
        given = command(learner, own, own / "m")
        given[given.index("3", given.index("--model") - 2)] = "12"
        return given

    for learner in LEARNERS:
        if children.start(train, long(learner, place), err=place / "err").join() or (
            not (place / "m" / "model.json").exists()
        ):
            raise AssertionError(f"{learner}: {(place / 'err').read_text()}")
        unbroken[learner] = bits(place / "m")
        shutil.rmtree(place / "m")

    def work(index: int) -> None:
        rng, own = random.Random(f"{seed} {index}"), place / f"{index}"
        own.mkdir()
        model, err = own / "m", own / "err"
        for count in itertools.count(4 * index):
            if part.is_over:
                return
            learner = LEARNERS[count % len(LEARNERS)]
            given = long(learner, own)
            shutil.rmtree(model, ignore_errors=True)
            err.write_text("")
            child = children.start(train, given, err=err)
            passes, number = rng.randrange(12), rng.choice(signals)
            while child.is_alive() and len(err.read_text().splitlines()) < passes:
                time.sleep(0.001)
            time.sleep(rng.choice((0, 0.001, 0.01)))
            if child.is_alive() and child.pid is not None:
                os.kill(child.pid, number)
            child.join(60)
            if child.exitcode == 0:
                late[0] += 1
                continue
            told = err.read_text()
            again = children.start(train, [*given, "--resume"], err=err)
            again.join()
            is_same = again.exitcode == 0 and bits(model) == unbroken[learner]
            wrong = (
                f"{learner}, signal {number}: {told[-200:]} {err.read_text()[-200:]}"
            )
            part.trial(None if is_same else wrong)

    children.side_by_side(work)
    part.note = f"{late[0]} more had ended before the signal"
    return part.end()


@contextlib.contextmanager
def full_disk(num_bytes: int) -> Iterator[None]:
    """Let writing fail after so many bytes in all."""
    create, left = Folder.create, [num_bytes]

    class Limited(io.FileIO):
        def write(self, content: object) -> int:  # type: ignore[override]
            left[0] -= len(memoryview(content))  # type: ignore[arg-type]
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            return super().write(content)  # type: ignore[arg-type]

    def limited(self: Folder, name: str) -> object:
        with create(self, name) as file:
            return Limited(os.dup(file.fileno()), "wb")

    Folder.create = limited  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Folder.create = create  # type: ignore[method-assign]


def starve(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Let the disk be full at a random byte; limit the size of a file; lose files."""
    part = Part("full disk, file-size limit, lost files, two writers", seconds)
    rng, model = random.Random(seed), place / "m"
    given = command("sp", place, model)
    unbroken = unbroken_bits(given, model)
    while not part.is_over:
        if rng.random() < 0.5:
            shutil.rmtree(model, ignore_errors=True)
        with full_disk(rng.randrange(30_000)):
            status, err = quiet(given)
        is_told = status == 0 or (status == 2 and "No space left" in err)
        is_told &= "Traceback" not in err and (status == 0 or str(model) in err)
        part.trial(None if is_told else f"full disk: status {status}: {err[-200:]}")
        if (model / "model.json").exists():
            part.trial(None if bits(model) == unbroken else "full disk: other bits")
            path = rng.choice(sorted(model.iterdir()))
            path.unlink()
            try:
                load(model)
            except InputError:
                pass
            part.trial()
        status, err = quiet([*given, "--resume"])
        is_same = status == 0 and bits(model) == unbroken
        part.trial(None if is_same else f"after a full disk: {err[-200:]}")
        if part.tried % 50 < 4:
            part.trial(_two_writers(given, model, unbroken))
            part.trial(_small_files(given, model))
    return part.end()


def _two_writers(given: list[str], model: pathlib.Path, unbroken: str) -> str | None:
    program = [sys.executable, "-m", "lowrank_jax", *given]
    pair = [subprocess.Popen(program, stderr=subprocess.PIPE) for _ in range(2)]
    told = [process.communicate()[1].decode() for process in pair]
    codes = sorted(process.returncode for process in pair)
    is_sound = codes == [0, 0] or (
        codes == [0, 2] and "is being written by" in "".join(told)
    )
    if is_sound and bits(model) == unbroken:
        return None
    return f"two writers: {codes} {told[0][-100:]} {told[1][-100:]}"


def _small_files(given: list[str], model: pathlib.Path) -> str | None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

    before = bits(model)
    program = [sys.executable, "-m", "lowrank_jax", *given]
    done = subprocess.run(program, capture_output=True, preexec_fn=limit, check=False)
    err = done.stderr.decode()
    if done.returncode == 2 and str(model) in err and "Traceback" not in err:
        return None if bits(model) == before else "file-size limit: other bits"
    return f"file-size limit: {done.returncode} {err[-200:]}"


def repeat(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Compare the bits over threads, processes and hash seeds; watch the memory."""
    part, model = Part("the same bits again; memory", seconds), place / "m"
    differ = []
    for learner in random.Random(seed).sample(LEARNERS, len(LEARNERS)):
        found: dict[str, list[str]] = {}
        for threads in ("1", "2", "4"):
            if part.is_over:
                break
            shutil.rmtree(model, ignore_errors=True)
            given = command(learner, place, model)
            if threads == "4":  # a process of its own: the seed of hashes is set there
                env = os.environ | {"PJRT_NPROC": threads, "PYTHONHASHSEED": "1"}
                program = [sys.executable, "-m", "lowrank_jax", *given]
                subprocess.run(program, env=env, check=True, capture_output=True)
            else:
                env = {"PJRT_NPROC": threads}
                child = children.start(train, given, err=place / "err", env=env)
                child.join()
                assert child.exitcode == 0, (place / "err").read_text()
            found.setdefault(bits(model), []).append(threads)
            part.trial()
        if len(found) > 1:
            differ.append(
                f"{learner} ({' / '.join(','.join(t) for t in found.values())})"
            )
    given, count = command("sp", place, model), 0
    quiet(given)
    gc.collect()
    before = peak()
    while not part.is_over and count < 100:
        quiet(given)
        count += 1
    growth = peak() - before
    per = growth / max(count, 1)
    part.trial(f"{per:.1f} MB more per training" if per > 5 else None)
    part.note = f"bits by threads differ: {', '.join(differ) or 'none'}; "
    part.note += f"{count} trainings in one process take {growth:.0f} MB more"
    for passes in ("3", "103"):
        given[given.index("--passes") + 1] = passes
        before = peak()
        shutil.rmtree(model)
        quiet(given)
    growth = peak() - before
    part.trial(f"{growth:.0f} MB more by 100 passes" if growth > 50 else None)
    part.note += f", 100 passes more {growth:.0f} MB"
    if any(not name.startswith(("crf", "smm")) for name in differ):
        part.found.append(f"bits differ by the number of threads: {', '.join(differ)}")
    return part.end()
