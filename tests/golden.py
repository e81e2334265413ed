"""What the commands give, as hashes: shows that a change of the house changes nothing.

``python -m tests.golden before.json`` runs every training command with a fixed seed on
made-up files and keeps the hashes of the weights, the result JSON (times, memory and
versions left out) and the messages. After a change, ``python -m tests.golden
after.json --against before.json`` runs them again and names each difference.
"""

import argparse
import concurrent.futures
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile
from typing import Any

#: Fields of a result that differ from run to run.
_UNSTEADY = ("seconds", "memory", "version", "device", "cores", "function")

_TRAIN = "--train {d}/train.txt --test {d}/test.txt --seed 3 --json -"
_WORDS = "--train {d}/nettalk.txt --test {d}/nettalk.txt --format nettalk --json -"
_TRAININGS = {
    "bol": "bol --passes 3",
    "bol-rank2": "bol --passes 3 --set rank=2",
    "bol-paper": "bol --passes 3 --set variant=paper averaging=factors",
    "bol-paper-none": "bol --passes 3 --set variant=paper averaging=none",
    "bol-exact": "bol --passes 2 --set variant=exact averaging=none",
    "bol-factors": "bol --passes 3 --set averaging=factors",
    "bol-none": "bol --passes 3 --set averaging=none",
    "bol-first": "bol --passes 3 --orders first",
    "bol-double": "bol --passes 3 --set dtype=float64",
    "bol-certify": "bol --passes 3 --certify --certify-every 15",
    "bol-half": "bol --passes 3 --fraction 0.5 --min-count 2",
    "sp": "sp --passes 3",
    "sp-certify": "sp --passes 3 --certify hindsight",
    "mira": "mira --passes 3",
    "bcd": "bcd --passes 3",
    "crf": "crf --passes 8",
    "crf-l1": "crf --passes 8 --set penalty=l1",
}
_SPELLERS = {
    "smm": "smm --passes 6",
    "smm-both": "smm --passes 6 --set unfolding=both",
    "smm-truncated": "smm --passes 6 --set unfolding=both svt=truncated max_rank=4",
    "smm-best": "smm --passes 6 --set iterate=best strength=2 step_size=0.3",
}
_LISTS = {
    "tm": "{d}/lists.jsonl --learner tm --test {d}/lists.jsonl",
    "tm-3-2": "{d}/lists.jsonl --learner tm --set order=3 num_components=2",
    "tm-sequential": "{d}/lists.svm --learner tm --set mapping=sequential step=paper",
    "tm-mira": "{d}/lists.jsonl --learner mira --set max_step_size=0.01",
    "tm-perceptron": "{d}/lists.svm --learner perceptron --set dtype=float64",
}
_FITS = {
    "fit": "--rank 2 --seed 1 --no-plots",
    "fit-cv": "--cv 3 --set max_iterations=40 mu1=0.01 mu2=0.1",
    "fit-one-vs-all": "--rank 1 --set multi_class=one-vs-all",
    "fit-minimise": "--rank 1 --no-plots --set solver=minimise mu1=0.01",
}


def _cases() -> dict[str, list[str]]:
    """Lines of commands by name; {d} is the folder of files, {m} that of models."""
    cases = {}
    for name, text in _TRAININGS.items():
        cases[name] = [f"train {text} {_TRAIN} --model {{m}}/{name}"]
    for name in ("bol", "sp", "crf", "bol-certify"):
        short = _TRAININGS[name].replace("passes 3", "passes 1")
        short = short.replace("passes 8", "passes 4")
        first = f"train {short} {_TRAIN} --model {{m}}/{name}-on --keep-checkpoint"
        again = f"train {_TRAININGS[name]} {_TRAIN} --model {{m}}/{name}-on --resume"
        cases[f"{name}-on"] = [first, again]
    for name, text in _SPELLERS.items():
        cases[name] = [f"train {text} {_WORDS} --model {{m}}/{name}"]
    short = f"train smm --passes 3 {_WORDS} --model {{m}}/smm-on --keep-checkpoint"
    again = f"train smm --passes 6 {_WORDS} --model {{m}}/smm-on --resume"
    cases["smm-on"] = [short, again, "tag {m}/smm-on {d}/words-only.txt"]
    words = "--train {d}/words.txt --test {d}/words.txt --format segmentation --json -"
    cases["words"] = [
        f"train sp --passes 2 {words} --model {{m}}/words",
        "tag {m}/words {d}/words.txt",
    ]
    for name, text in _LISTS.items():
        cases[name] = [
            f"rerank train {text} --epochs 2 --seed 1 --json - --model {{m}}/{name}"
        ]
    cases["tm"].append("rerank apply {m}/tm {d}/lists.jsonl --json {m}/tm.json")
    tensor = "rerank train {d}/lists.jsonl --learner tm"
    cases["tm-on"] = [
        f"{tensor} --epochs 1 --keep-checkpoint --model {{m}}/tm-on",
        f"{tensor} --epochs 3 --resume --json - --model {{m}}/tm-on",
    ]
    for name, text in _FITS.items():
        cases[name] = [f"fit {{d}}/three.npz {text} --json - --model {{m}}/{name}"]
    cases["fit"].append("predict {m}/fit {d}/three.npz --json -")
    cases["sp"] += [
        "tag {m}/sp {d}/test.txt",
        "tag {m}/sp {d}/test.txt --k-best 3",
        "tag {m}/sp {d}/test.txt --marginals",
        "eval {d}/test.txt {d}/test.txt",
    ]
    cases["bol"] += ["tag {m}/bol {d}/test.txt --marginals"]
    cases["wrong"] = [
        "train bol --train {d}/train.txt --model {m}/wrong --set blok=3",
        "train bol --train {d}/train.txt --model {m}/wrong --set rank=x",
        "train bol --train {d}/train.txt --model {m}/wrong --set rank",
        "train bol --train {d}/train.txt --model {m}/wrong --set variant=blok",
        "train smm --train {d}/train.txt --model {m}/wrong",
        "train sp --train {d}/missing.txt --model {m}/wrong",
        "train sp --train {d}/lists.svm --model {m}/wrong",
        "rerank train {d}/lists.jsonl --model {m}/wrong --set blok=3",
        "rerank train {d}/lists.jsonl --model {m}/wrong --learner tm --set order=x",
        "rerank train {d}/lists.jsonl --model {m}/wrong --num-features 3",
        "fit {d}/three.npz --model {m}/wrong --set blok=3",
        "fit {d}/three.npz --model {m}/wrong --set mu1=x",
        "fit {d}/three.npz --model {d} --rank 1",
        "fit {d}/three.npz --model {m}/wrong --rank 99",
        "tag {m}/missing {d}/test.txt",
        "predict {m}/missing {d}/three.npz",
        "rerank apply {m}/missing {d}/lists.jsonl",
        "eval {d}/test.txt {d}/train.txt",
    ]
    cases["verify"] = ["verify --quick --json {m}/verify.json"]
    return cases


def _write_files(folder: pathlib.Path) -> None:
    import numpy as np

    from lowrank_jax import data
    from tests.cli.conftest import chunk_lines, words_text

    (folder / "train.txt").write_text(chunk_lines(40, 2, noise=0.2))
    (folder / "test.txt").write_text(chunk_lines(15, 1))
    train, _, _ = data.segmentation_task(40, 15, seed=0, num_words=30)
    (folder / "words.txt").write_text(words_text(train), encoding="utf-8")
    entries = ["cat\tk@t\t>1<\t0", "cab\tk@b\t>1<\t0", "tac\tt@k\t>1<\t0"] * 5
    (folder / "nettalk.txt").write_text("\n".join(entries) + "\n")
    (folder / "words-only.txt").write_text("c\na\nt\n\nb\na\nc\n\n")
    rng = np.random.default_rng(0)
    lines, plain = [], []
    for number in range(30):
        candidates = []
        for _ in range(4):
            ids = rng.choice(40, 5, replace=False)
            values = rng.normal(size=5).round(3)
            quality = round(float(rng.random()), 3)
            named = {f"f{i}": float(v) for i, v in zip(ids, values, strict=True)}
            candidates.append({"features": named, "quality": quality})
            pairs = sorted(zip(ids.tolist(), values.tolist(), strict=True))
            text = " ".join(f"{i}:{value}" for i, value in pairs)
            plain.append(f"{quality} qid:{number} {text}")
        lines.append(json.dumps({"candidates": candidates}))
    (folder / "lists.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "lists.svm").write_text("\n".join(plain) + "\n")
    x = rng.normal(size=(60, 6, 8)).astype(np.float32)
    y = (x[:, 0, 0] + x[:, 1, 1] > 0).astype(int) + (x[:, 2, 2] > 0.5)
    np.savez(folder / "three.npz", x=x, y=y)


def _run(name: str, lines: list[str], files: str, models: str) -> dict[str, Any]:
    """Run the commands of a case in this process; return what they gave."""
    from lowrank_jax.cli import main

    outputs = []
    for line in lines:
        out, err = io.StringIO(), io.StringIO()
        argv = line.format(d=files, m=models).split()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(argv)
        outputs.append([status, _steady_text(out.getvalue()), _lines(err.getvalue())])
    found: dict[str, Any] = {"outputs": outputs}
    for path in sorted(pathlib.Path(models).glob(f"{name}/*.npz")):
        found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    if name == "verify":
        statements = json.loads(pathlib.Path(models, "verify.json").read_text())
        rows = _steady(statements["statements"])
        found["statements"] = sorted(rows, key=lambda row: (row["id"], row["form"]))
        del found["outputs"]
    text = json.dumps(found).replace(files, "DATA").replace(models, "MODELS")
    return json.loads(text)


def _steady(value: Any) -> Any:
    """Leave out what differs from run to run."""
    if isinstance(value, dict):
        return {
            name: _steady(part)
            for name, part in value.items()
            if not any(word in name for word in _UNSTEADY)
        }
    return [_steady(part) for part in value] if isinstance(value, list) else value


def _steady_text(text: str) -> Any:
    try:
        return _steady(json.loads(text))
    except ValueError:
        return _lines(text)


def _lines(text: str) -> list[str]:
    """Lines of a text but those of progress, which tell times."""
    return [line for line in text.split("\n") if not re.search(r"\d s\b", line)]


def main() -> int:
    """Run all cases; return 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="file to write")
    parser.add_argument("--against", help="file of an earlier run to compare with")
    parser.add_argument("--only", nargs="*", help="names of cases")
    arguments = parser.parse_args()
    os.environ["PJRT_NPROC"] = "1"
    cases = _cases()
    names = arguments.only or list(cases)
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        _write_files(pathlib.Path(folder))
        with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
            given = [(name, cases[name], folder, f"{folder}/models") for name in names]
            results = pool.map(_run, *zip(*given, strict=True))
            found = dict(zip(names, results, strict=True))
    pathlib.Path(arguments.out).write_text(json.dumps(found, indent=1) + "\n")
    if arguments.against is None:
        return 0
    before = json.loads(pathlib.Path(arguments.against).read_text())
    different = [name for name in names if before.get(name) != found[name]]
    for name in different:
        for part in sorted(before.get(name, {}).keys() | found[name].keys()):
            old, new = before.get(name, {}).get(part), found[name].get(part)
            if old != new:
                print(f"{name}, {part}:\n  before {old}\n  now    {new}"[:3000])
    print(f"{len(names) - len(different)} of {len(names)} cases are as before.")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
