"""Damaged inputs for every reader and loader, by seeded mutation.

A reader may return or raise `InputError`. Anything else is a finding: another
exception, a warning, or more than five seconds of one core (a minute of any machine).
"""

import contextlib
import gzip
import io
import json
import lzma
import pathlib
import random
import resource
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from lowrank_jax import data
from lowrank_jax.checks import InputError
from lowrank_jax.cli.options import parse_settings
from lowrank_jax.estimators import BilinearClassifier, Reranker, Speller, Tagger
from lowrank_jax.estimators import learners as known
from lowrank_jax.features import read_template
from lowrank_jax.store import checkpoint, folder
from tests.campaign.report import Part

CONLL = b"the DT B-NP\ncat NN I-NP\nsat VB B-VP\n\na DT B-NP\ndog NN I-NP\n"
NETTALK = b"----------\nab\txy\t01\t0\nba\tyx\t10\t0\n"
JSON_LISTS = (
    b'{"candidates": [{"features": {"f": 1.0, "g": -2}, "quality": 0.5}]}\n' * 2
)
SVM = b"0.5 qid:1 1:0.5 2:1 # a\n1 qid:1 2:3\n0 qid:2 1:1\n"
TEMPLATE = b"U00:%x[0,0]\nU01:%x[-1,1]/%x[0,1]\nB00:%x[0,0]\nB\n# end\n"
TOKENS = [b"%x[", b"-1", b"1e400", b"nan", b"qid:", b"\0", b"\xff", b"\n", b"\t", b'"']
TOKENS += [
    b"{",
    b"[" * 3000,
    b"9" * 5000,
    b"\xef\xbb\xbf",
    b"\xe3\x80\x80",
    b"1_0",
    b":",
]
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    "",
    "\0",
    [],
    {},
    [[]],
    "\ud800",
    0.5,
]


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Return the content with one to four damages."""
    found = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place, kind = rng.randrange(len(found) + 1), rng.randrange(6)
        end = min(len(found), place + rng.choice((1, 2, 8, 100)))
        if kind == 0 and place < len(found):
            found[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del found[place:end]
        elif kind == 2:
            found[place:place] = rng.choice(TOKENS)
        elif kind == 3:
            found[place:place] = found[place:end] * rng.choice((1, 2, 50))
        elif kind == 4:
            found[place:end] = rng.randbytes(end - place)
        elif rng.random() < 0.2:
            del found[place:]
    return bytes(found)


def mutate_json(value: Any, rng: random.Random) -> Any:
    """Return the value with one node replaced, dropped or made odd."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(sorted(value))
        if rng.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return value | {key: mutate_json(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [*value[:place], mutate_json(value[place], rng), *value[place + 1 :]]
    return rng.choice(ODD)


def mutate_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Return the array with another shape, type or entry."""
    kind = rng.randrange(6)
    if kind == 0 and array.size:
        flat = array.copy().reshape(-1)
        with contextlib.suppress(ValueError, OverflowError):
            flat[rng.randrange(flat.size)] = rng.choice(
                (-1, 0, 2**31 - 1, np.nan, 1e38)
            )
        return flat.reshape(array.shape)
    if kind == 1 and array.ndim:
        return array[: rng.randrange(array.shape[0] + 1)]
    if kind == 2:
        return array[None]
    if kind == 3:
        return np.concatenate([array.reshape(-1)] * 2)
    if kind == 4:
        return np.zeros(
            array.shape, rng.choice(("f4", "f8", "i8", "U2", "?", "c8", "S3"))
        )
    return rng.choice((np.zeros(0), np.float64(3.0), array.reshape(-1), array.T))


def readers(place: pathlib.Path) -> dict[str, tuple[bytes, Callable[[], object]]]:
    """Return the reader of files and a sound content, by name of the file."""
    npz = io.BytesIO()
    scale = np.ones((2, 1))
    np.savez(npz, x=np.ones((4, 2, 3)), y=np.arange(4), scale=scale, names=["a", "b"])
    state = {"a": np.eye(9), "b": np.float32(2)}
    checkpoint.save(place / "c.npz", state, {"settings": {}, "history": []})
    at = place.joinpath
    return {
        "a.txt": (CONLL, lambda: data.read_conll(at("a.txt"))),
        "b.txt": (CONLL, lambda: data.read_conll(at("b.txt"), has_labels=False)),
        "words.txt": (b"ab c\nd ef\n", lambda: data.read_segmentation(at("words.txt"))),
        "tags.txt": (b"ab/n c/v\n", lambda: data.read_segmentation(at("tags.txt"))),
        "raw.txt": (b"abc\ndef\n", lambda: data.read_raw_text(at("raw.txt"))),
        "n.data": (NETTALK, lambda: data.read_nettalk(at("n.data"))),
        "l.jsonl": (JSON_LISTS, lambda: data.read_json_lists(at("l.jsonl"))),
        "l.svm": (SVM, lambda: data.read_svmlight_lists(at("l.svm"))),
        "t.template": (TEMPLATE, lambda: read_template(at("t.template"))),
        "a.txt.gz": (gzip.compress(CONLL), lambda: data.read_conll(at("a.txt.gz"))),
        "a.txt.xz": (lzma.compress(CONLL), lambda: data.read_conll(at("a.txt.xz"))),
        "x.npz": (npz.getvalue(), lambda: data.read_matrices(at("x.npz"))),
        "c.npz": (
            at("c.npz").read_bytes(),
            lambda: checkpoint.load(at("c.npz"), state),
        ),
    }


def models(place: pathlib.Path) -> dict[str, tuple[Any, Callable[[Any], object]]]:
    """Train one small model of each kind; return class and use, by kind."""
    rng = np.random.default_rng(0)
    sentences = [["a", "b", "c"], ["b", "a"]]
    labels = [["x", "y", "x"], ["y", "x"]]
    x, y = rng.normal(size=(12, 3, 4)), np.arange(12) % 3
    (place / "l.jsonl").write_bytes(JSON_LISTS)
    lists, names = data.read_json_lists(place / "l.jsonl")
    Tagger("bol", 1).fit(sentences, labels).save(place / "tagger")
    Speller("smm", 2, order=2).fit(sentences, labels).save(place / "word tagger")
    Reranker("tm", 1).fit(lists, names=names).save(place / "reranker")
    BilinearClassifier(rank=1, max_iterations=2).fit(x, y).save(
        place / "matrix classifier"
    )
    return {
        "tagger": (Tagger, lambda model: model.predict(sentences)),
        "word tagger": (Speller, lambda model: model.predict(sentences)),
        "reranker": (Reranker, lambda model: model.predict(lists)),
        "matrix classifier": (BilinearClassifier, lambda model: model.predict(x)),
    }


def attempt(part: Part, name: str, act: Callable[[], object]) -> None:
    """Count one trial, and keep what it raised, its time and its warnings."""
    began, busy = time.monotonic(), time.process_time()
    wrong = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            act()
    except InputError as error:
        if "\n" in str(error) or len(str(error)) > 2000:
            wrong = f"{name}: a message of {len(str(error))} characters"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{pathlib.Path(last.filename).name}:{last.lineno}"
        wrong = f"{name}: {type(error).__name__} at {place}: {str(error)[:200]!r}"
    took, busy = time.monotonic() - began, time.process_time() - busy
    if busy > 5 or took > 60:
        wrong = f"{name}: {took:.0f} seconds, {busy:.0f} of them busy"
    part.trial(wrong)


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fuzz_readers(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Damage the files of every reader, and the texts of settings."""
    part, rng = Part("damaged files, every reader", seconds), random.Random(seed)
    every, before = readers(place), peak()
    options = known.options_of(known.LEARNERS["bol"])
    names = list(every)
    while not part.is_over:
        name = rng.choice(names)
        content, read = every[name]
        if name.endswith("z") and rng.random() < 0.3:  # inside the packing
            pack = gzip.compress if name.endswith("gz") else lzma.compress
            damaged = pack(mutate(CONLL, rng))
        else:
            damaged = mutate(content, rng)
        (place / name).write_bytes(damaged)
        attempt(part, name, read)
        text = mutate(b"rank=2", rng).decode("latin-1")
        attempt(part, "--set", lambda t=text: parse_settings([t], options, owner="bol"))
    part.trial("a gigabyte of memory" if peak() - before > 1000 else None)
    part.note = f"{peak() - before:.0f} MB above the start"
    return part.end()


def fuzz_models(place: pathlib.Path, seconds: float, seed: int) -> Part:
    """Damage model folders: text, arrays with true checksums, raw bytes."""
    rng, target = random.Random(seed), place / "damaged"
    every = models(place)
    part = Part("damaged model folders, loaded and used", seconds)
    sound = {kind: folder.read(place / kind, kind) for kind in every}
    before = peak()
    while not part.is_over:
        kind = rng.choice(list(every))
        content = sound[kind]
        about, arrays = content.about, dict(content.arrays)
        if rng.random() < 0.5:
            about = mutate_json(about, rng)
        else:
            name = rng.choice(list(arrays))
            key = rng.choice(list(arrays[name]))
            array = mutate_array(arrays[name][key], rng)
            arrays[name] = arrays[name] | {key: array}
        for item in target.iterdir() if target.exists() else ():
            item.unlink()
        folder.write(target, kind, content._replace(arrays=arrays))
        model = target / "model.json"
        written = json.loads(model.read_text())
        if isinstance(about, dict) and about is not content.about:
            about = about | ({"files": written["files"]} if rng.random() < 0.9 else {})
            model.write_text(json.dumps(about))
        elif about is not content.about:
            model.write_text(json.dumps(about))
        if rng.random() < 0.1:
            path = rng.choice(sorted(target.iterdir()))
            path.write_bytes(mutate(path.read_bytes(), rng))
        load, use = every[kind]
        attempt(part, kind, lambda load=load, use=use: use(load.load(target)))
    part.note = f"{peak() - before:.0f} MB above the start"
    return part.end()
