"""Write what was measured from the files in docs/results.

A table or figure has its table beside it (docs/results/NAME.md). All tables together
go to docs/measured.md, a table of ours beside the peers into the README, the table of
statements into docs/theory.md, the verdicts on the claims of a paper into its page.

python docs/figures.py          # rewrite them
python docs/figures.py --check  # status 1 if they are not what the files say
"""

import functools
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # experiments are not installed

from experiments import catalogue  # noqa: E402
from experiments.accelerators import tables  # noqa: E402
from experiments.tables import markdown  # noqa: E402

RESULTS = ROOT / "docs" / "results"
BEGIN, END = "<!-- {} -->\n", "<!-- end of {} -->\n"
#: Experiments of each paper begin with its name; its benches.
BENCHES = {
    "bol": ("bench-sequence", "bench-wide", "bench-certify", "bench-tagger"),
    "sblr": ("bench-sblr", "bench-eeg"),
    "smm": ("bench-smm",),
    "tm": ("bench-tm",),
}


def load(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def has(name: str) -> bool:
    return (RESULTS / f"{name}.json").exists()


def reproduced() -> list[str]:
    """Return the names of tables and figures, without benches."""
    return [name for name in catalogue.NAMES if not name.startswith("bench-")]


def table_of(name: str) -> str:
    """Return the table of a kept result.

    A result without the hash of its sources is older than `experiments.cells`. Its
    table stays as its run wrote it, until the experiment is run again.
    """
    result, kept = load(name), RESULTS / f"{name}.md"
    if "sources" not in result and kept.exists():
        return kept.read_text()
    return catalogue.load(name).table(result)


def section(name: str) -> str:
    """Write a section of docs/measured.md: the command, and the experiment's table."""
    experiment, result = catalogue.load(name), load(name)
    table = table_of(name)
    notes = [f"`{result['command']}`.", result.get("note", "")]
    if "seconds" in table:
        notes.append(loaded(result))
    head = f"### {experiment.title}\n\n" + " ".join(filter(None, notes))
    return f"{head}\n\n{table}"


def loaded(result: dict) -> str:
    """Return a warning where more processes ran than there are cores."""
    if result.get("load", 0) <= result.get("machine", {}).get("num_cores", 0):
        return ""
    return (
        f"Up to {result['load']:.0f} processes shared {result['machine']['num_cores']} "
        "cores during the run: its seconds compare nothing."
    )


def why() -> str:
    """Write the figures of the section on Algorithm 2 of docs/papers/bol.md."""
    if not has("bol-why"):
        return "The table is made by `python -m experiments bol-why --scale full`.\n"
    return (
        "![Gain by setting, and where the gain is](../results/bol-why.png)\n\n"
        f"`{load('bol-why')['command']}`. {table_of('bol-why')}"
    )


#: Older results whose form has not changed since: their verdicts can be read.
READABLE = (
    "bol-table1",
    "bol-fig2",
    "bol-tasks",
    "sblr-table2",
    "sblr-table4",
    "bol-regret",
    "sblr-fig3",
    "smm-fig1",
    "smm-fig2",
    "smm-operators",
    "tm-fig3",
    "tm-fig4",
    "tm-table1",
)


def claims(paper: str) -> str:
    """Write the table of a paper's page: claim, here, verdict, command."""
    rows = []
    for name in reproduced():
        if not name.startswith(f"{paper}-") or not has(name):
            continue
        experiment, result = catalogue.load(name), load(name)
        if experiment.verdicts is None:
            continue
        if "sources" not in result and name not in READABLE:
            continue
        place = f"`{name}`" + (", small" if result["scale"] == "small" else "")
        for found in experiment.verdicts(result):
            rows.append([found["claim"], _here(found), found["verdict"], place])
    return (
        "A claim holds if its whole 95 % interval is on its side, fails if the whole "
        "interval is on the other side, and is not decided otherwise. For a claim "
        "about several numbers the module of the experiment says how it is decided. "
        "The command is `python -m experiments NAME --scale full`, or `--scale small` "
        "where the table says small.\n\n"
        + markdown(["claim", "here", "verdict", "NAME"], rows)
    )


def _here(found: dict) -> str:
    """Write the number of a verdict with its interval."""
    if found.get("found"):
        return found["found"]
    if found["interval"] is None:
        return "" if found["value"] is None else f"{found['value']:.2f}"
    low, high = found["interval"]
    return f"{found['value']:+.2f} ({low:+.2f} to {high:+.2f})"


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
        + markdown(["id", "statement", "status", "function", "trials", "closest"], rows)
    )


def compiled() -> str:
    """Write the tables of docs/accelerators.md: what the compilers made of programs."""
    return tables.table(load("accelerators"))


def measured() -> str:
    """Write the whole of docs/measured.md."""
    parts = [
        "# Measured\n\nEvery figure is made by a command of this repository from the "
        "files in `docs/results`; `python docs/figures.py` writes this page.\n",
    ]
    for paper, benches in BENCHES.items():
        parts.append(f"## {paper.upper()}\n")
        own = [name for name in reproduced() if name.startswith(f"{paper}-")]
        parts += [section(name) for name in (*own, *benches) if has(name)]
    return "\n".join([*parts, status()])


def status() -> str:
    rows = []
    for name in reproduced():
        found, kept, run = catalogue.load(name), "not yet", [""] * 3
        if has(name):
            result = load(name)
            kept, run = f"{result.get('scale', 'full')} scale", run_of(result)
        data = f"{found.status}: {found.data}"
        rows.append([f"`{name}`", found.title, data, kept, *run])
    for absent in catalogue.NOT_RUN:
        rows.append(["", absent.title, absent.why, "not possible here", *[""] * 3])
    head = ["`python -m experiments`", "table or figure", "data", "result kept here"]
    return (
        "## Tables and figures of the papers\n\nA result names the sources it was "
        "made from by a SHA-256 over the package's files, its first digits here. A "
        "result that names none is older than this rule. It also says in how many "
        "starts it was made, and the highest number of processes beside it.\n\n"
        + markdown([*head, "minutes", "starts, processes", "sources"], rows)
    )


def run_of(result: dict) -> list[str]:
    """Return minutes, starts with the highest load, and sources of a kept result."""
    minutes = f"{result['seconds'] / 60:.0f}" if "seconds" in result else ""
    if "sources" not in result:
        return [minutes, "", "not named"]
    starts = f"{result.get('starts', 1)}, {result.get('load', 0):.0f}"
    return [minutes, starts, f"`{result['sources']['lowrank_jax'][:8]}`"]


def when() -> str:
    """Write when to prefer the library to its peers, and when not."""
    f1 = {row["method"]: row["f1"] for row in load("bol-fig3")["rows"]}
    speed, eeg = load("bench-sequence"), load("bench-eeg")["rows"]
    passes, decoding = speed["seconds_per_pass"], speed["decoding"]
    ours, theirs = "averaged perceptron, 0-order", "CRFsuite averaged perceptron"
    auc = {row["name"]: row for row in eeg}
    bilinear, flat = (
        f"{row['test']:.2f} ({row['low']:.2f}..{row['high']:.2f})"
        for row in (
            auc["BilinearClassifier, defaults"],
            auc["logistic regression on all values"],
        )
    )
    task = load("bol-tasks")["rows"][0]  # NETtalk; the last iterate has rank 1
    gain = task["claims"][0]
    assert gain["method"] == "Algorithm 2, first order, last"
    assert gain["over"] == "sp, first order, last"
    tagging = load("bench-smm")["tagging"]
    return (
        "* **Rather than CRFsuite**, to train and tag fast: chunk F1 on CoNLL-2000 "
        f"{f1['sp, averaged, 0-order']:.2f} against {f1[theirs + ', 10 passes']:.2f}, "
        f"a pass in {passes[ours]:.2f} s against {passes[theirs]:.2f} s, "
        f"{decoding['perceptron, 0-order, batch'] / decoding['CRFsuite']:.1f} times "
        "the tokens per second (averaged perceptrons, compilation apart).\n"
        "* **Rather than scikit-learn**, if an example is a matrix: test AUC on EEG "
        f"at defaults {bilinear} against {flat} for logistic regression on all "
        "entries (95 % intervals, 100 trials).\n"
        "* **Rank 1 rather than full weights** for features of label pairs, if labels "
        f"are many: {gain['difference']:+.2f} ± {gain['half']:.2f} points on NETtalk, "
        f"{task['labels']} labels (Algorithm 2 over the perceptron, both first "
        "order).\n"
        "* **Stay with CRFsuite** for letters to sounds "
        f"({tagging['CRFsuite_accuracy']:.1f} % right, SMM here "
        f"{tagging['smm_accuracy']:.1f} %), and with scikit-learn for vectors.\n"
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
            "CRFsuite averaged perceptron "
            f"{passes['CRFsuite averaged perceptron']:.2f} s",
        ],
        [
            "",
            "decoding, first-order features",
            f"{decoding['BOL block, first order, batch']:,.0f} tokens/s",
            f"CRFsuite {decoding['CRFsuite']:,.0f} tokens/s",
        ],
        [
            "SBLR",
            f"cross-validation, {grid['num_fits']:,} fits",
            f"{grid['fits_per_second']:.0f} fits/s",
            f"scikit-learn saga {grid['peer_fits_per_second']:.1f} fits/s",
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
    text = "## Measured\n\n" + markdown(["system", "task", "ours", "peer"], rows)
    text += (
        "\nMeasured on two cores, without compilation. [Measured](docs/measured.md) "
        "has all tables and commands, and says what falls short of the papers.\n"
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
        "Regret of a run, its certificate (DR-B4), the tight bound and the bound of "
        "the paper. Each is a sum over all rounds "
        f"(`{result['command']}`):\n\n" + "".join(lines)
    )


def main(arguments: list[str]) -> int:
    wanted = {ROOT / "docs" / "measured.md": measured()}
    for name in reproduced():
        if has(name):
            wanted[RESULTS / f"{name}.md"] = table_of(name)
    for name, mark, section in (
        ("README.md", "when", when),
        ("README.md", "figures", summary),
        ("docs/theory.md", "figures", statements),
        ("docs/papers/bol.md", "why", why),
        *(
            (f"docs/papers/{paper}.md", "claims", functools.partial(claims, paper))
            for paper in BENCHES
        ),
        ("docs/accelerators.md", "accelerators", compiled),
    ):
        needed = {statements: "verify", compiled: "accelerators"}.get(section)
        if needed and not has(needed):
            continue
        begin, end = BEGIN.format(mark), END.format(mark)
        text = wanted.get(ROOT / name) or (ROOT / name).read_text()
        before, rest = text.split(begin)
        wanted[ROOT / name] = before + begin + section() + end + rest.split(end)[1]
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
