"""Trainings that are killed, starved of disk, run twice at once, and repeated."""

import contextlib
import gc
import hashlib
import io
import itertools
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from lowrank_jax.checks import InputError
from lowrank_jax.cli import main
from lowrank_jax.data.corpus import corpus_of
from lowrank_jax.estimators import BilinearClassifier, Reranker, Speller, Tagger, load
from lowrank_jax.store.files import Folder
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
    """Return the checksum of the weights."""
    return hashlib.sha256((model / "weights.npz").read_bytes()).hexdigest()


def crash_trainings(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Let every training command die at every file operation, then resume it."""
    part = Part("trainings that die at a file operation, resumed", seconds)
    rng, model = random.Random(seed), place / "m"
    points = {}
    for learner in rng.sample(LEARNERS, len(LEARNERS)):
        if part.is_over:
            break
        given = command(learner, place, model)
        quiet(given)
        unbroken, before = bits(model), part.tried

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


def kill_trainings(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Send signals to training processes at random times, then resume them."""
    part = Part("processes ended by SIGKILL, SIGTERM, SIGINT, resumed", seconds)
    rng, model = random.Random(seed), place / "m"
    times: dict[str, tuple[float, str]] = {}
    for count in itertools.count():
        learner = ("sp", "bol", "tm")[count % 3]
        given = command(learner, place, model)
        given[given.index("3", given.index("--model") - 2)] = "40"
        shutil.rmtree(model, ignore_errors=True)
        program = [sys.executable, "-m", "lowrank_jax", *given]
        if part.is_over:
            break
        if learner not in times:
            began = time.monotonic()
            subprocess.run(program, capture_output=True, check=True)
            times[learner] = time.monotonic() - began, bits(model)
            continue
        took, unbroken = times[learner]
        process = subprocess.Popen(
            program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(took * rng.uniform(0.3, 1.0))
        number = rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
        process.send_signal(number)
        process.wait(60)
        status, err = quiet([*given, "--resume"])
        is_same = status == 0 and bits(model) == unbroken
        part.trial(None if is_same else f"{learner}, signal {number}: {err[-200:]}")
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
    quiet(given)
    unbroken = bits(model)
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


def extremes(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Fit estimators with extreme data and settings: finite numbers or one sentence."""
    part, rng = Part("numerical extremes through Python", seconds), random.Random(seed)
    draw = np.random.default_rng(seed)
    sizes = (0.0, 1e-45, 1e-30, 1e-8, 1.0, 1e8, 1e30, 1e38, 1e300, np.inf, np.nan, -1.0)
    x, y = draw.normal(size=(12, 3, 4)), np.arange(12) % 2
    x[:, 0, 0] += 3 * y
    sentences = [["a", "b", "a"], ["b", "b"]]
    labels = [["x", "y", "x"], ["y", "y"]]
    settings = {"sp": "step_size", "bol": "step_size", "mira": "max_step_size"}
    settings |= {"bcd": "max_step_size", "crf": "l2"}

    def tagger() -> object:
        learner = rng.choice(sorted(settings))
        given = {settings[learner]: rng.choice(sizes)}
        model = Tagger(learner, 2, **given).fit(sentences, labels)
        return given, model.predict_marginals(corpus_of(sentences))

    def classifier() -> object:
        size, dtype = rng.choice(sizes), rng.choice((np.float32, np.float64))
        with np.errstate(all="ignore"):
            scaled = (x * size).astype(dtype)
        scaled[0] *= rng.choice((1.0, 1.0, 1e6))
        scale = rng.choice(("global", "row"))
        given = {"rank": 1, "max_iterations": 10, "scale": scale}
        given["mu1"] = rng.choice((0.01, rng.choice(sizes)))
        model = BilinearClassifier(**given).fit(scaled, y)
        return given, model.predict_proba(scaled)

    def reranker() -> object:
        from lowrank_jax import data

        value = rng.choice(("1e38", "1e-45", "-1e38", "0", "1e30", "1"))
        text = JSON_LISTS.replace(b'"f": 1', b'"f": ' + value.encode())
        (place / "e.jsonl").write_bytes(text * 2)
        lists, names = data.read_json_lists(place / "e.jsonl")
        model = Reranker(rng.choice(("tm", "mira", "perceptron")), 2)
        return value, model.fit(lists, names=names).decision_function(lists)

    def speller() -> object:
        given = {"order": 2, "tau": rng.choice(sizes)}
        model = Speller("smm", 3, **given).fit(sentences, labels)
        return given, np.concatenate([np.asarray(p).ravel() for p in model.params_])

    makers: list[Callable[[], object]] = [tagger, classifier, classifier, reranker]
    makers.append(speller)
    while not part.is_over:
        make = rng.choice(makers)
        wrong = None
        try:
            given, numbers = make()  # type: ignore[misc]
            if not np.isfinite(numbers).all():
                wrong = f"{make.__name__} {given}: numbers that are not finite"
        except InputError:
            pass
        except Exception as error:
            wrong = f"{make.__name__}: {type(error).__name__}: {str(error)[:200]}"
        part.trial(wrong)
    return part.end()


def repeat(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Compare the bits over threads, processes and hash seeds; watch the memory."""
    part, model = Part("the same bits again; memory", seconds), place / "m"
    differ = []
    for learner in random.Random(seed).sample(LEARNERS, len(LEARNERS)):
        found: dict[str, list[str]] = {}
        for threads, hash_seed in (("1", "0"), ("2", "1")):
            if part.is_over:
                break
            shutil.rmtree(model, ignore_errors=True)
            given = command(learner, place, model)
            env = os.environ | {"PJRT_NPROC": threads, "PYTHONHASHSEED": hash_seed}
            program = [sys.executable, "-m", "lowrank_jax", *given]
            subprocess.run(program, env=env, check=True, capture_output=True)
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
    if any(not name.startswith(("crf", "smm")) for name in differ):
        part.found.append(f"bits differ by the number of threads: {', '.join(differ)}")
    return part.end()
