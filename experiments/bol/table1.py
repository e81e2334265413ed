"""BOL-E1: Chinese word segmentation, training on PFR 1998-01, testing on SIGHAN PKU.

The official PKU training file is not at hand. PFR January 1998 stands in for it: the
same month of the same corpus, with 0.99 agreement where the two can be compared.

The features are the paper's nine character templates, width folded. Rows "first order"
have first-order features alone and no label transitions, as in the paper. Rows
"0-order" have weights on labels and label transitions. Twenty passes, as in the paper.
Each online run is scored twice: its last iterate and its mean.

Two sizes: tenths of PFR, a fresh draw per seed, and all of PFR, a fresh shuffle per
seed. Two averaged forms have settings chosen on sentences of PFR outside the training
part: the mean of W (start, passes, 0-order weights beside or not) and 0-order sp
(passes). Nothing is chosen on the test. The CRFs have 0-order templates: first-order
ones take an hour on all of PFR (`bol-fig2` has them on a tenth of pku).
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bol import tagging
from experiments.bol.tagging import Method
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import markdown
from lowrank_jax import data, metrics, online

__all__ = ["EXPERIMENT", "Lazy", "methods", "part_of", "read_corpora", "score"]

TEMPLATE = "segmentation-folded"
NUM_DEVELOPMENT = 2000
SP, ZERO = "sp, first order", "sp, 0-order"
LITERAL, SAFE = "Algorithm 2, c=1, R=4", "Algorithm 2, c=2, R=4"
START = "Algorithm 2, c=1, R=2, start 1"
CHOSEN, CHOSEN_SP = "mean of W, chosen", "sp, 0-order, passes chosen"

#: Differences that a claim is about: method, form, other method, its form.
CLAIMS = (
    ("Algorithm 2, c=1, R=2", "last", SP, "last"),
    (LITERAL, "last", SP, "last"),
    ("Algorithm 2, c=2, R=2", "last", SP, "last"),
    (SAFE, "last", SP, "last"),
    (START, "last", SP, "last"),
    (START, "last", "bcd", "last"),
    (START, "last", "crf2 (L2, c=1), 0-order", "last"),
    (START, "last", "crf1 (L1, c=1), 0-order", "last"),
    (START, "mean", ZERO, "mean"),
    ("block, start 3", "mean", SP, "mean"),
    ("block, start 3", "mean", ZERO, "mean"),
    (CHOSEN, "mean", CHOSEN_SP, "mean"),
    (CHOSEN, "mean", ZERO, "mean"),
)
CRFS = {
    "crf2 (L2, c=1), 0-order": {"penalty": "l2"},
    "crf1 (L1, c=1), 0-order": {"penalty": "l1"},
}
PAPER = {
    SP: 94.3,
    LITERAL: 94.6,
    "bcd": 94.4,
    "crf2 (L2, c=1), 0-order": 93.3,
    "crf1 (L1, c=1), 0-order": 92.5,
}


def block(start: float, orders: str = "first", rank: int = 1) -> Method:
    """Return block mirror descent with exact pairs and the mean of W.

    Args:
      start: c_0.
      orders: ``"first"``, or ``"both"`` for 0-order weights beside.
      rank: Rank of each block.
    """
    name = f"block, start {start:g}" + (f", rank {rank}" if rank > 1 else "")
    name += ", 0-order beside" if orders == "both" else ""
    settings = {"averaging": "weights", "num_power_steps": 0, "start": start}
    return Method(name, online.bol, settings | {"rank": rank}, orders)


def methods() -> list[Method]:
    """Return the online learners with settings that are given."""

    def paper(name: str, factor: float, num_inner: int, start: float = 0.0) -> Method:
        settings = {"variant": "paper", "divisor_factor": factor, "start": start}
        settings["num_inner_steps"] = num_inner
        return Method(name, online.bol, settings, "first")

    return [
        Method(SP, online.perceptron, {}, "first"),
        paper("Algorithm 2, c=1, R=2", 1.0, 2),
        paper(LITERAL, 1.0, 4),
        paper("Algorithm 2, c=2, R=2", 2.0, 2),
        paper(SAFE, 2.0, 4),
        paper(START, 1.0, 2, start=1.0),
        Method("bcd", online.bcd, {}, "first"),
        block(3.0),
        Method(ZERO, online.perceptron, {}, "zero"),
    ]


#: Rows on all of PFR, where a run takes a minute.
LARGE = (SP, START, "bcd", ZERO)
#: Forms of the mean of W that held-out sentences choose from.
CANDIDATES = (
    block(1.0),
    block(3.0),
    block(3.0, rank=2),
    block(1.0, "both"),
)


def score(predicted: np.ndarray, gold: data.Corpus) -> float:
    """Word F1 in percent."""
    return metrics.word_scores_from_labels(
        np.asarray(gold.labels), predicted, gold.offsets
    ).f1


def read_corpora(data_dir: Path | str | None) -> tuple[data.Corpus, data.Corpus]:
    """Read PFR 1998-01 to train on and the pku test."""
    train = data.find("pfr199801/199801_tagged.txt.xz", data_dir)
    test = data.find("sighan2005/pku_test_gold.utf8.xz", data_dir)
    return (
        data.read_segmentation(train, tagged=True),
        data.read_segmentation(test, tagged=False),
    )


def part_of(
    train: data.Corpus, share: float, seed: int
) -> tuple[data.Corpus, data.Corpus]:
    """Return a share of the sentences, and others to choose settings on."""
    order = np.random.default_rng((11, seed)).permutation(train.num_sentences)
    size = int(train.num_sentences * share)
    rest = order[size : size + NUM_DEVELOPMENT]
    return train.take(np.sort(order[:size])), train.take(np.sort(rest))


def choose(
    setup: Setup,
    train: data.Corpus,
    share: float,
    num_draws: int,
    passes: tuple[int, ...],
) -> dict[str, Any]:
    """Choose the form of mean W and both numbers of passes on held-out sentences.

    Args:
      setup: What the run was given.
      train: All training sentences.
      share: Share to train on. The held-out sentences lie outside.
      num_draws: Number of draws over which held-out scores are averaged.
      passes: Numbers of passes to choose from.
    """
    sp = Method(ZERO, online.perceptron, {}, "zero")
    found: dict[str, dict[str, list[float]]] = {}

    def compute(method: Method, task: Lazy, draw: int) -> dict[str, float]:
        return tagging.fit(
            method, task(), seed=draw, num_passes=passes[-1], scored_at=passes
        )["by_pass"]

    for draw in range(num_draws):
        task = Lazy(*part_of(train, share, draw))
        for method in (sp, *CANDIDATES):
            name = f"held out, {share:g}, {draw}, {method.name}"
            scores = setup.cell(name, partial(compute, method, task, draw))
            setup.say(f"held out {share:.2g} {draw} {method.name:40} {scores}")
            for number, f1 in scores.items():
                found.setdefault(method.name, {}).setdefault(number, []).append(f1)
    means = {
        name: {number: float(np.mean(f1)) for number, f1 in by_pass.items()}
        for name, by_pass in found.items()
    }
    best = max(
        ((name, number) for name in means if name != ZERO for number in means[name]),
        key=lambda key: means[key[0]][key[1]],
    )
    return {
        "draws": num_draws,
        "by_passes": means,
        "method": best[0],
        "passes": int(best[1]),
        "sp_passes": int(max(means[ZERO], key=means[ZERO].__getitem__)),
    }


def run(setup: Setup) -> Result:
    """Train and score all methods; small: a fiftieth of the sentences, three passes."""
    whole, test = read_corpora(setup.data_dir)
    num_passes, num_draws, num_large = (20, 5, 5) if setup.is_full else (3, 2, 0)
    if not setup.is_full:
        whole = data.split_fraction(whole, 0.2, 0)
    rows, claims, chosen = [], [], {}
    for size, number in (("a tenth", num_draws), ("all", num_large)):
        if not number:
            continue
        share, is_all = (0.1, False) if size == "a tenth" else (1.0, True)
        held_out = 1 - NUM_DEVELOPMENT / whole.num_sentences if is_all else share
        passes = (10, 20, 40) if setup.is_full else (2, 3)
        passes = passes[:2] if is_all else passes
        chosen[size] = choose(setup, whole, held_out, 1 if is_all else 2, passes)
        setup.say(f"{size}: chosen {chosen[size]}")
        runs: dict[str, list[dict[str, Any]]] = {}
        for seed in range(number):
            part = whole if is_all else part_of(whole, share, seed)[0]
            lazy = Lazy(part, test)
            for name, compute in _fits(chosen[size], lazy, seed, num_passes):
                if is_all and name not in (*LARGE, CHOSEN, CHOSEN_SP, *CRFS):
                    continue
                if name in CRFS and seed >= (1 if is_all else 3):
                    continue
                found = setup.cell(f"{size}, {seed}, {name}", compute)
                runs.setdefault(name, []).append(found)
                setup.say(
                    f"{size:8} {seed} {name:32} last {found['last']:.2f} mean "
                    f"{found['mean']:.2f}  {found['seconds']:.1f} s"
                )
        for name, of_seeds in runs.items():
            for form in ("last",) if name in CRFS else ("last", "mean"):
                paper = PAPER.get(name) if is_all and form == "last" else None
                row = tagging.summary(name, of_seeds, form, paper)
                rows.append(row | {"size": size, "orders": _orders(name, chosen[size])})
        claims += [{"size": size} | claim for claim in paired(runs)]
    return {
        "experiment": "bol-table1",
        "scale": setup.scale,
        "passes": num_passes,
        "seeds": num_draws,
        "seeds_all": num_large,
        "train": "PFR 1998-01 (stand-in for SIGHAN-2005 pku training)",
        "test": "SIGHAN-2005 pku test",
        "chosen": chosen,
        "rows": rows,
        "claims": claims,
    }


def paired(runs: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the differences of `CLAIMS`, over the seeds that both methods have.

    A CRF has fewer seeds than the online learners, the first ones.
    """
    claims = []
    for claim in CLAIMS:
        ours, _, other, _ = claim
        number = min(len(runs.get(name, [])) for name in (ours, other))
        both = {name: runs[name][:number] for name in (ours, other) if number}
        found = tagging.differences(both, [claim])
        claims += [one | {"seeds": number} for one in found]
    return claims


class Lazy:
    """A task whose features are compiled when the first method asks for them."""

    def __init__(self, train: data.Corpus, test: data.Corpus) -> None:
        self._given = train, test
        self._made: tagging.Task | None = None

    def __call__(self) -> tagging.Task:
        self._made = self._made or tagging.make_task(*self._given, TEMPLATE, score)
        return self._made


def _fits(chosen: dict[str, Any], task: Lazy, seed: int, num_passes: int) -> Any:
    """Yield the name of each row and what fits it."""

    def online_run(method: Method, number: int) -> dict[str, Any]:
        return tagging.fit(method, task(), seed=seed, num_passes=number)

    def crf_run(settings: dict[str, Any]) -> dict[str, Any]:
        return tagging.fit_crf(settings, task(), 5 * num_passes)

    for method in methods():
        yield method.name, partial(online_run, method, num_passes)
    (best,) = (one for one in CANDIDATES if one.name == chosen["method"])
    yield CHOSEN, partial(online_run, best, chosen["passes"])
    sp = Method(ZERO, online.perceptron, {}, "zero")
    yield CHOSEN_SP, partial(online_run, sp, chosen["sp_passes"])
    for name, settings in CRFS.items():
        yield name, partial(crf_run, settings)


def _orders(name: str, chosen: dict[str, Any]) -> str:
    """Return the features of a row."""
    if name == CHOSEN and "beside" in chosen["method"]:
        return "first and 0-order"
    return "0-order" if "0-order" in name else "first order"


def verdicts(result: Result) -> list[Verdict]:
    """Return the paper's claims on Table 1, and those on the mean of W."""
    return [
        found
        for size in dict.fromkeys(claim["size"] for claim in result["claims"])
        for found in tagging.decided(
            f"{size} of PFR", [one for one in result["claims"] if one["size"] == size]
        )
    ]


def table(result: Result) -> str:
    """Write F1, seconds and differences as Markdown."""
    text = (
        f"Word F1 on the {result['test']} after {result['passes']} passes, "
        "± standard deviation over seeds. Training data are shares of PFR 1998-01, "
        "which stands in for the official training file; the paper's figures are with "
        "that file. A seed is a fresh draw of the tenth, or a fresh shuffle of all. "
        "Rows without 0-order features have no label transitions.\n\n"
    )
    for size, chosen in result["chosen"].items():
        text += (
            f"{_title(size)}: held-out sentences of PFR chose {chosen['method']} with "
            f"{chosen['passes']} passes for the mean of W, and {chosen['sp_passes']} "
            "passes for 0-order sp.\n\n"
        )
        for form, name in (("last", "last iterate"), ("mean", "mean")):
            rows = [
                row | {"method": f"{row['method']} ({row['orders']})"}
                for row in result["rows"]
                if (row["size"], row["form"]) == (size, form)
            ]
            text += f"{_title(size)}, {name}:\n\n{tagging.table(rows)}\n"
    rows = []
    for claim in result["claims"]:
        found, told = f"{claim['difference']:+.2f}", "one seed, no interval"
        if claim.get("seeds") != 1:
            found, told = f"{found} ± {claim['half']:.2f}", claim["verdict"]
        rows.append([claim["size"], claim["method"], claim["over"], found, told])
    head = ["size", "method", "over", "difference", ""]
    return text + "Paired differences, 95 % intervals:\n\n" + markdown(head, rows)


def _title(size: str) -> str:
    return f"{size[0].upper()}{size[1:]} of PFR"


def picture(figure: Any, result: Result) -> None:
    """Draw the paired differences with their intervals."""
    figure.set_size_inches(7.2, 5.0)
    sizes = list(dict.fromkeys(claim["size"] for claim in result["claims"]))
    all_axes = figure.subplots(1, len(sizes), squeeze=False, sharey=True)[0]
    names = list(
        dict.fromkeys(
            f"{claim['method']}\nover {claim['over']}" for claim in result["claims"]
        )
    )
    for axes, size in zip(all_axes, sizes, strict=True):
        for claim in result["claims"]:
            if claim["size"] == size:
                place = -names.index(f"{claim['method']}\nover {claim['over']}")
                axes.errorbar(
                    claim["difference"],
                    place,
                    xerr=claim["half"],
                    fmt="o",
                    color="C0",
                    capsize=2,
                )
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_title(_title(size), loc="left")
        axes.set_xlabel("difference of F1 (points)")
        axes.grid(alpha=0.3, axis="x")
    all_axes[0].set_yticks([-k for k in range(len(names))], names, fontsize=6)


EXPERIMENT = Experiment(
    "bol-table1",
    "BOL Table 1 (pku): word segmentation, F1 of all methods",
    "a stand-in",
    "PFR 1998-01 to train (stand-in for SIGHAN-2005 pku), PKU test",
    run,
    table,
    picture,
    verdicts=verdicts,
)
