"""Write what was measured from the files in docs/results.

All of it goes to docs/measured.md, a table of ours beside the peers into the README,
the table of statements into docs/theory.md.

python docs/figures.py          # rewrite both
python docs/figures.py --check  # status 1 if they are not what the files say
"""

import importlib
import json
import pathlib
import sys

from experiments.__main__ import table as plain_table
from experiments.protocol import EXPERIMENTS, NOT_RUN

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
    rows = [
        [name, f"{value:.2f} s", f"{result['pass_ratio'][name]:.2f}"]
        for name, value in result["seconds_per_pass"].items()
    ]
    decoding = result["decoding"]
    speeds = [
        [name, f"{value:,.0f}", f"{value / decoding['CRFsuite']:.1f}"]
        for name, value in decoding.items()
    ]
    training, scaling = result["training"], result["scaling"]
    of_bol = result["pass_ratios"]["BOL block, first and 0-order"]
    turns = ", ".join(f"{ratio:.2f}" for ratio in of_bol)
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
        f"CoNLL-2000, {result['num_cores']} cores, one run, compilation apart, each "
        "operation of ours on one core. `lowrank-jax bench sequence`. A pass of BOL "
        f"over one of CRFsuite's averaged perceptron in the single turns: {turns}.\n\n"
        + table(["one pass, medians of three turns", "time", "ratio"], rows)
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
    ) + getattr(module, "table", plain_table)(result)


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


def tensor_speed() -> str:
    result = load("bench-tm")
    against = result["against_numpy"]
    ending = " largest over smallest V"
    growth = ", ".join(
        f"{key.removesuffix(ending)} {value:.2f}"
        for key, value in result.items()
        if key.endswith(ending)
    )
    rows = [
        [row["learner"], f"{row['num_features']:,}", f"{row['microseconds']:.0f}"]
        for row in result["by_num_features"]
    ]
    return (
        "### Speed of Tensor-MIRA\n\n"
        f"Lists of {result['num_candidates']} candidates with {result['num_active']} "
        f"active features, {result['num_cores']} cores, one run, compilation apart, "
        "each operation on one core. `lowrank-jax bench tm`. Time an example at the "
        f"largest number of features over the smallest: {growth}. Tensors of order 2 "
        "have vectors as long as the root of that number. MIRA in NumPy took "
        f"{against['numpy_microseconds']:.0f} microseconds, "
        f"{against['speedup']['T-MIRA']:.1f} times what T-MIRA took in the same "
        "minutes.\n\n" + table(["learner", "features", "microseconds an example"], rows)
    )


def word_speed() -> str:
    result = load("bench-smm")
    seconds = result["threshold_seconds"]
    tagging = result["tagging"]
    rows = [[name, f"{value * 1000:.0f} ms"] for name, value in seconds.items()]
    speeds = [
        [name, f"{tagging[name]:,.0f}"]
        for name in ("smm", "smm from strings", "CRFsuite", "CRFsuite from strings")
    ]
    return (
        "### Speed of FOBOS and of tagging words\n\n"
        f"NETtalk, {result['num_words']:,} words, rank {result['rank']}. "
        "`lowrank-jax bench smm`. An iteration takes "
        f"{result['seconds_per_iteration']:.2f} s, of which decoding "
        f"{result['decoding_seconds']:.2f} s. Accuracy {tagging['smm_accuracy']:.1f} % "
        f"beside {tagging['CRFsuite_accuracy']:.1f} % of CRFsuite with its own "
        "features.\n\n"
        + table(["singular-value thresholding", "time"], rows)
        + "\n"
        + table(["tagging", "words a second"], speeds)
    )


def statements() -> str:
    """Write the table of docs/theory.md: every statement and what its trials found."""
    result = load("verify")
    rows = []
    for row in result["statements"]:
        module, function = row["function"].removeprefix("lowrank_jax.").rsplit(".", 1)
        rows.append(
            [
                row["id"] + (f", {row['form']}" if row["form"] else ""),
                row["statement"].replace("|", "\\|"),
                row["status"],
                f"`{module}.{function}`",
                f"{row['trials']:,}",
                f"{row['worst_ratio']:.3g}" + ("" if row["is_tight"] else " (loose)"),
            ]
        )
    total = sum(row["trials"] for row in result["statements"])
    return (
        f"`{result['command']}`: {len(rows)} rows, {total:,} trials in "
        f"{result['seconds']:.0f} s on {result['num_cores']} cores. The last column is "
        "the largest observed / bound of all trials: 1 is attained.\n\n"
        + table(["id", "statement", "status", "function", "trials", "closest"], rows)
    )


def certificate_cost() -> str:
    result = load("bench-certify")
    return (
        "### Cost of a certificate\n\n"
        f"CoNLL-2000, {result['passes']} passes of BOL block, `lowrank-jax bench "
        f"certify`: {result['plain_seconds']:.1f} s without, "
        f"{result['certified_seconds']:.1f} s with its predictions recorded, and "
        f"{result['certificate_seconds']:.1f} s for the certificate at the end: "
        f"{100 * result['share']:.0f} % more. Median of {result['repeats']} runs; "
        "compilation apart.\n"
    )


def has(name: str) -> bool:
    return (RESULTS / f"{name}.json").exists()


def measured() -> str:
    """Write the whole of docs/measured.md."""
    parts = [
        "# Measured\n\nEvery figure is made by a command of this repository from the "
        "files in `docs/results`; `python docs/figures.py` writes this page.\n",
        "## BOL\n",
        chunking(),
        speed(),
        segmentation(),
    ]
    parts += [experiment(name) for name in ("bol-fig1", "bol-regret") if has(name)]
    if has("bench-certify"):
        parts.append(certificate_cost())
    for paper, bench, write in (
        ("sblr", "bench-sblr", matrix_speed),
        ("smm", "bench-smm", word_speed),
        ("tm", "bench-tm", tensor_speed),
    ):
        parts.append(f"## {paper.upper()}\n")
        names = [name for name in EXPERIMENTS if name.startswith(f"{paper}-")]
        parts += [experiment(name) for name in names if has(name)]
        if has(bench):
            parts.append(write())
    parts.append(status())
    return "\n".join(parts)


def status() -> str:
    rows = []
    for name, found in EXPERIMENTS.items():
        kept = "not yet"
        if has(name):
            kept = f"{load(name).get('scale', 'full')} scale"
        rows.append([f"`{name}`", found.title, f"{found.status}: {found.data}", kept])
    rows += [["", absent.title, absent.why, "not possible here"] for absent in NOT_RUN]
    return "## Tables and figures of the papers\n\n" + table(
        ["`reproduce`", "table or figure", "data", "result kept here"], rows
    )


def summary() -> str:
    """Write the README's table: ours beside the peers."""
    chunks = {row["method"]: row for row in load("bol-fig3")["rows"]}
    ours, theirs = (
        "BOL block, dual averaging",
        "CRFsuite averaged perceptron, 10 passes",
    )
    sequence, matrices = load("bench-sequence"), load("bench-sblr")
    passes, decoding = sequence["seconds_per_pass"], sequence["decoding"]
    sparse = {row["name"]: row for row in matrices["sparse"][0]["rows"]}
    quickest = min(
        row["seconds"]
        for name, row in sparse.items()
        if name.startswith(("proximal Newton", "FISTA")) and row["seconds"]
    )
    grid, words, lists = matrices["grid"], load("bench-smm"), load("bench-tm")
    tagging = words["tagging"]
    against = lists["against_numpy"]
    peer, own = against["numpy_microseconds"], against["microseconds"]["T-MIRA"]
    rows = [
        [
            "BOL",
            "chunk F1, CoNLL-2000",
            f"{chunks[ours]['f1']:.2f} ± {chunks[ours]['f1_std']:.2f}",
            f"CRFsuite averaged perceptron {chunks[theirs]['f1']:.2f}",
        ],
        [
            "",
            "one training pass",
            f"{passes['BOL block, first and 0-order']:.2f} s",
            f"the same {passes['CRFsuite averaged perceptron']:.2f} s",
        ],
        [
            "",
            "decoding, first-order features",
            f"{decoding['BOL block, first order, stream']:,.0f} tokens/s",
            f"CRFsuite {decoding['CRFsuite']:,.0f} tokens/s",
        ],
        [
            "SBLR",
            f"cross-validation, {grid['num_fits']:,} fits",
            f"{grid['fits_per_second']:.0f} fits/s",
            f"scikit-learn saga {grid['peer_fits_per_second']:.1f} fits/s",
        ],
        [
            "",
            "sparse logistic regression, one fit",
            f"{quickest:.3f} s",
            f"liblinear {sparse['scikit-learn liblinear']['seconds']:.3f} s",
        ],
        [
            "SMM",
            "words tagged",
            f"{tagging['smm']:,.0f}/s at {tagging['smm_accuracy']:.1f} %",
            f"CRFsuite {tagging['CRFsuite']:,.0f}/s at "
            f"{tagging['CRFsuite_accuracy']:.1f} %",
        ],
        [
            "TM",
            "reranking update, 1.33 M features",
            f"{own:.0f} µs",
            f"MIRA in NumPy {peer:.0f} µs",
        ],
    ]
    text = "## Measured\n\n" + table(["system", "task", "ours", "peer"], rows)
    text += (
        "\nTwo cores, compilation apart. All tables, commands and what falls short of "
        "the papers: [measured](docs/measured.md).\n"
    )
    if has("bol-regret"):
        text += "\n" + regret_picture()
    return text


def regret_picture() -> str:
    result = load("bol-regret")
    lines = []
    for task in result["tasks"]:
        final = task["final"]
        numbers = [
            f"{name} {value:,.0f}" if value is not None else f"{name} infinite"
            for name, value in final.items()
        ]
        lines.append(f"* {task['title']}: " + " ≤ ".join(numbers) + "\n")
    return (
        "![Regret, certificate and bounds along the rounds]"
        "(docs/results/bol-regret.png)\n\n"
        "Regret of a run, the certificate computed beside it (DR-B4), the tight bound "
        "and the paper's, summed over all rounds "
        f"(`{result['command']}`):\n\n" + "".join(lines)
    )


def main(arguments: list[str]) -> int:
    wanted = {ROOT / "docs" / "measured.md": measured()}
    for name, section in (("README.md", summary), ("docs/theory.md", statements)):
        if section is statements and not has("verify"):
            continue
        before, rest = (ROOT / name).read_text().split(BEGIN)
        after = rest.split(END)[1]
        wanted[ROOT / name] = before + BEGIN + section() + END + after
    is_old = [
        path
        for path, text in wanted.items()
        if not path.exists() or path.read_text() != text
    ]
    if "--check" in arguments:
        for path in is_old:
            print(f"{path.name} differs from docs/results: run python docs/figures.py")
        return int(bool(is_old))
    for path in is_old:
        path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
