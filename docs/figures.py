"""Write the measured figures into the README from the files in docs/results.

python docs/figures.py          # rewrite the section
python docs/figures.py --check  # status 1 if it is not what the files say
"""

import importlib
import json
import pathlib
import sys

from lowrank_jax.reproduce import EXPERIMENTS

ROOT = pathlib.Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"


def load(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def chunking() -> str:
    result = load("bol-fig3")
    rows = []
    for row in result["rows"]:
        spread = "" if row["f1_std"] is None else f" ± {row['f1_std']:.2f}"
        paper = "" if row["paper"] is None else f"{row['paper']:.1f}"
        rows.append(
            [
                row["method"],
                f"{row['f1']:.2f}{spread}",
                f"{row['train_seconds']:.1f}",
                paper,
            ]
        )
    return (
        "### Chunking, CoNLL-2000\n\n"
        f"Test F1, mean of {result['seeds']} seeds, {result['passes']} passes, the "
        "shipped template; seconds to train, compilation apart. "
        "The paper reads off Figure 3 (mean of its methods). "
        f"`{result['command']}`. {result['note']}\n\n"
        + table(["method", "F1", "seconds", "paper"], rows)
    )


def segmentation() -> str:
    result = load("bol-table1")
    rows = [
        [
            row["method"],
            row["template"],
            f"{row['f1']:.2f}",
            f"{row['train_seconds']:.0f}",
            "" if row["paper"] is None else f"{row['paper']:.1f}",
        ]
        for row in result["rows"]
    ]
    return (
        "### Chinese word segmentation\n\n"
        f"Word F1 on the SIGHAN-2005 pku test after {result['passes']} passes over "
        "PFR 1998-01, which stands in for the official training file; the paper's "
        f"figures are with that file. `{result['command']}`. {result['note']}\n\n"
        + table(["method", "template", "F1", "seconds", "paper"], rows)
    )


def speed() -> str:
    result = load("bench-sequence")
    passes = result["seconds_per_pass"]
    base = passes["CRFsuite averaged perceptron"]
    rows = [
        [name, f"{value:.2f} s", f"{value / base:.2f}"]
        for name, value in passes.items()
    ]
    decoding = result["decoding"]
    speeds = [
        [name, f"{value:,.0f}", f"{value / decoding['CRFsuite']:.1f}"]
        for name, value in decoding.items()
    ]
    training, scaling = result["training"], result["scaling"]
    micro = ", ".join(
        f"{float(value):.2f} at {int(tokens):,}"
        for tokens, value in scaling["microseconds_per_token"].items()
    )
    reached = training["bol_seconds_to_93.5"]
    reached_text = (
        "" if reached is None else f" (F1 93.5 is reached after {reached:.1f} s)"
    )
    return (
        "### Speed beside CRFsuite\n\n"
        f"CoNLL-2000, {result['num_cores']} cores, one run, compilation apart. "
        f"`lowrank-jax bench sequence`. {result['note']}\n\n"
        + table(["one pass, median of the first five", "time", "ratio"], rows)
        + "\n"
        + table(["decoding", "tokens a second", "ratio"], speeds)
        + f"\nTraining BOL for 10 passes takes {training['bol_seconds']:.1f} s for F1 "
        f"{training['bol_f1']:.2f}{reached_text}; CRFsuite's L-BFGS takes "
        f"{training['lbfgs_seconds']:.1f} s for {training['lbfgs_f1']:.2f}. "
        "Features of the training set are compiled in "
        f"{result['feature_seconds']:.1f} s. "
        f"A first pass of BOL costs, in microseconds a token, {micro} tokens; with the "
        f"feature table padded to 4 million rows a pass takes "
        f"{scaling['padded_over_plain']:.2f} times as long. Peak memory of "
        f"`train bol`: {result['peak_memory_mb'] / 1000:.1f} GB.\n"
    )


def experiment(name: str) -> str:
    """Write a section with the experiment's own table."""
    result = load(name)
    module = importlib.import_module(EXPERIMENTS[name].module)
    note = result.get("note", "")
    return (
        f"### {EXPERIMENTS[name].title}\n\n"
        f"`{result['command']}`." + (f" {note}" if note else "") + "\n\n"
    ) + module.table(result)


def matrix_speed() -> str:
    result = load("bench-sblr")
    grid, stream = result["grid"], result["stream"]
    peers = []
    for case in result["sparse"]:
        for row in case["rows"]:
            is_there = row["seconds"] is not None
            peers.append(
                [
                    f"{case['share']:g}",
                    row["name"],
                    f"{row['seconds']:.4f} s" if is_there else row["words"],
                    f"{row['ratio']:.2f}" if "ratio" in row else "",
                ]
            )
    note = result.get("note", "")
    return (
        "### Speed beside scikit-learn\n\n"
        f"BCI Competition II data set IV, {result['num_cores']} cores, one run, "
        "compilation apart. `lowrank-jax bench sblr`." + (f" {note}" if note else "")
    ) + (
        f"\n\nA grid of {grid['num_points']} points on {grid['num_folds']} folds: "
        f"{grid['fits_per_second']:.0f} fits a second in one program; scikit-learn's "
        f"saga, fit by fit in two processes: {grid['peer_fits_per_second']:.1f}; ratio "
        f"{grid['ratio']:.1f}. An iteration of Algorithm 2 on matrices of "
        f"{stream['size']} x {stream['size']} takes {stream['ratio']:.1f} times as "
        "long as reading them once.\n\n"
        + table(["strength", "sparse LR to the same objective", "time", "ratio"], peers)
    )


def section() -> str:
    parts = [chunking(), speed(), segmentation()]
    parts += [
        experiment(name)
        for name in EXPERIMENTS
        if name.startswith("sblr-") and (RESULTS / f"{name}.json").exists()
    ]
    if (RESULTS / "bench-sblr.json").exists():
        parts.append(matrix_speed())
    return "## Measured\n\n" + "\n".join(parts)


def main(arguments: list[str]) -> int:
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    new = before + BEGIN + section() + END + after
    if "--check" in arguments:
        if new != text:
            print("README.md differs from docs/results: run python docs/figures.py")
        return int(new != text)
    readme.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
