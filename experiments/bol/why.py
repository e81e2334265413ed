"""Why Algorithm 2 works: its start, its R, its c, and rare features.

Shares of PFR 1998-01, tested on the pku test, nine first-order character templates and
no label transitions. One setting is changed at a time.

* Start: Theta_0 of 0 or c_0 11' with uniform factors; and random factors, of the same
  mean length, with Theta_0 = 0.
* R and c: the steps of Eq. (9)-(12) and the factor of the divisor.
* Alignment of touched blocks with Theta: median cosine of alpha_k with the leading left
  vector of Theta_k and with the vector of ones, and the slope of log |W_k| on
  log sigma_k. A slope of 2 would be the hidden power 3.
* Rare features: test characters in four groups of equal size, by the share of their
  features that were seen at most twice in training; errors of labels in each.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.bol import table1, tagging
from experiments.intervals import Mean, decide, mean_of
from experiments.protocol import Experiment, Result, Setup, Verdict
from experiments.tables import markdown
from lowrank_jax import loops, models, online
from lowrank_jax.types import Learner

__all__ = ["EXPERIMENT", "alignment", "rarity_groups"]

BASE = "start 1, R=2, c=1"
RANDOM = "random factors"
NUM_GROUPS = 4
RARE = 2


def settings() -> dict[str, dict[str, Any]]:
    """Return the settings of Algorithm 2 by name; one differs from `BASE` in each."""
    base = {"start": 1.0, "num_inner_steps": 2, "divisor_factor": 1.0}
    return {
        BASE: base,
        "start 0": base | {"start": 0.0},
        "start 0.3": base | {"start": 0.3},
        "start 3": base | {"start": 3.0},
        RANDOM: base | {"start": 0.0},
        "R=1": base | {"num_inner_steps": 1},
        "R=4": base | {"num_inner_steps": 4},
        "R=8": base | {"num_inner_steps": 8},
        "start 0, c=2, R=2": base | {"start": 0.0, "divisor_factor": 2.0},
        "start 0, c=2, R=8": {
            "start": 0.0,
            "num_inner_steps": 8,
            "divisor_factor": 2.0,
        },
        "c=2": base | {"divisor_factor": 2.0},
    }


def random_start(learner: Any, seed: int) -> Any:
    """Return the learner from random factors: half-normal sizes with random signs."""

    def init(key: jax.Array, example: Any) -> Any:
        state = learner.init(key, example)
        table, labels = state.params.table, example.space.num_labels
        noise = jax.random.normal(jax.random.key(1000 + seed), table.shape, table.dtype)
        is_factor = jnp.arange(table.shape[1]) >= labels
        table = jnp.where(is_factor[None], table * noise, table)
        return state._replace(params=state.params._replace(table=table))

    return Learner(init, learner.update, learner.grow)


def alignment(state: Any, num_labels: int, start: float) -> dict[str, float]:
    """Return how the factors of touched blocks lie to Theta.

    Args:
      state: State of the last round, with a dense dual.
      num_labels: S.
      start: c_0.
    """
    moved = np.asarray(online.bol.theta(state), np.float64)
    is_touched = np.abs(moved).sum(axis=(1, 2)) > 0
    theta = moved[is_touched] + start
    rows = models.bilinear.split(state.params.table, num_labels)
    left = np.asarray(rows.left, np.float64)[is_touched, 0]
    right = np.asarray(rows.right, np.float64)[is_touched, 0]
    u, sigma, _ = np.linalg.svd(theta)
    length = np.linalg.norm(left, axis=1)
    size = length * np.linalg.norm(right, axis=1)
    is_kept = (sigma[:, 0] > 0) & (size > 0)
    inner = np.abs(np.einsum("ku,ku->k", left, u[:, :, 0]))
    slope = np.polyfit(np.log(sigma[is_kept, 0]), np.log(size[is_kept]), 1)[0]
    return {
        "cosine_top": float(np.median(inner[is_kept] / length[is_kept])),
        "cosine_ones": float(
            np.median(np.abs(left.sum(axis=1))[is_kept] / length[is_kept])
            / num_labels**0.5
        ),
        "slope": float(slope),
        "touched": int(is_touched.sum()),
    }


def rarity_groups(task: tagging.Task) -> np.ndarray:
    """Return the group 0.. of each test character, by its share of rare features.

    A feature is rare if it was seen at most `RARE` times in training, or never.
    """
    num_features = task.encoder.space.num_features
    counts = np.bincount(
        np.asarray(task.train.feature_ids).ravel(), minlength=num_features + 1
    )
    counts[num_features] = 0  # a feature that training has not seen
    is_rare = counts[np.asarray(task.test.feature_ids)] <= RARE
    order = np.argsort(is_rare.mean(axis=1), kind="stable")
    groups = np.empty(len(order), int)
    groups[order] = np.arange(len(order)) * NUM_GROUPS // len(order)
    return groups


def fit(
    name: str | None, task: tagging.Task, seed: int, num_passes: int
) -> dict[str, Any]:
    """Train once; return F1, mistakes, errors by group and alignment.

    Args:
      name: Name in `settings`, or None for sp.
      task: The data.
      seed: Seed of the shuffles.
      num_passes: Number of passes.
    """
    space = dataclasses.replace(
        task.encoder.space,
        orders=("1",) * len(task.encoder.space.orders),
        has_transitions=False,
    )
    train, test = (
        tagging.stream(dataclasses.replace(part, space=space))
        for part in (task.train, task.test)
    )
    if name is None:
        learner: Any = online.perceptron.learner(averaging="none")
    else:
        learner = online.bol.learner(
            variant="paper", averaging="none", dual="dense", **settings()[name]
        )
    if name == RANDOM:
        learner = random_start(learner, seed)
    mistakes = 0
    key = jax.random.key(seed)
    for done in loops.passes(learner, train, key=key, num_passes=num_passes):
        mistakes += int(done.trace.is_mistake.sum())
    labels = tagging.predicted(task, done.state.params, test)
    gold, groups = np.asarray(task.gold.labels), rarity_groups(task)
    found: dict[str, Any] = {
        "f1": task.score(labels, task.gold),
        "mistakes": mistakes,
        "errors": [
            100 * float((labels != gold)[groups == group].mean())
            for group in range(NUM_GROUPS)
        ],
    }
    if name is not None:
        start = settings()[name]["start"]
        found |= alignment(done.state, space.num_labels, start)
    return found


def run(setup: Setup) -> Result:
    """Train all settings on draws of PFR; small: one fiftieth, four passes."""
    whole, test = table1.read_corpora(setup.data_dir)
    share, num_seeds, num_passes = (0.05, 5, 20) if setup.is_full else (0.02, 2, 4)
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in range(num_seeds):
        task = table1.Lazy(table1.part_of(whole, share, seed)[0], test)

        def compute(name: str | None, task: Any = task, seed: int = seed) -> Any:
            return fit(name, task(), seed, num_passes)

        for name in (None, *settings()):
            shown = name or "sp"
            found = setup.cell(f"{seed}, {shown}", partial(compute, name))
            runs.setdefault(shown, []).append(found)
            setup.say(f"{seed} {shown:20} F1 {found['f1']:.2f}")
    return {
        "experiment": "bol-why",
        "scale": setup.scale,
        "seeds": num_seeds,
        "passes": num_passes,
        "share": share,
        "test": "SIGHAN-2005 pku test",
        "runs": runs,
    }


def _gain(runs: dict[str, Any], name: str, other: str = "sp") -> Mean:
    pairs = zip(runs[name], runs[other], strict=True)
    return mean_of([a["f1"] - b["f1"] for a, b in pairs])


def verdicts(result: Result) -> list[Verdict]:
    """Return what the settings say."""
    runs = result["runs"]
    ups = [
        decide(f"{name} above {other}", _gain(runs, name, other))
        for name, other in (
            (BASE, "sp"),
            (BASE, "start 0"),
            ("start 0", RANDOM),
            (BASE, "R=8"),
            ("start 0, c=2, R=8", "start 0"),
        )
    ]
    pairs = list(zip(runs["sp"], runs[BASE], strict=True))
    gains = [
        [a - b for a, b in zip(x["errors"], y["errors"], strict=True)] for x, y in pairs
    ]
    most = mean_of([gain[-1] - gain[0] for gain in gains])
    claim = f"{BASE} saves more errors over sp where rare features are many"
    return [*ups, decide(claim, most)]


def table(result: Result) -> str:
    """Write F1, gains, alignment and errors by group as Markdown."""
    runs, rows = result["runs"], []
    for name, found in runs.items():
        gain = "" if name == "sp" else _gain(runs, name).shown("+", mark="±")
        mean = {
            key: float(np.mean([one[key] for one in found]))
            for key in ("mistakes", "cosine_top", "cosine_ones", "slope")
            if key in found[0]
        }
        errors = np.mean([one["errors"] for one in found], axis=0)
        rows.append(
            [
                name,
                mean_of([one["f1"] for one in found]).shown(mark="±"),
                gain,
                f"{mean['mistakes']:,.0f}",
                *(
                    f"{mean[key]:.2f}" if key in mean else "-"
                    for key in ("cosine_top", "cosine_ones", "slope")
                ),
                *(f"{error:.2f}" for error in errors),
            ]
        )
    head = ["setting", "F1", "over sp", "mistakes", "cos with u", "cos with 1", "slope"]
    head += [f"errors, group {group + 1}" for group in range(NUM_GROUPS)]
    return (
        f"Algorithm 2, last iterate, first-order features alone, {result['passes']} "
        f"passes over {result['share']:.0%} of PFR, {result['seeds']} fresh draws, "
        f"95 % intervals; word F1 on the {result['test']}. Unless a row says "
        f"otherwise: {BASE}. Groups are quarters of the test characters, from few rare "
        "features to many; errors are wrong labels in percent.\n\n"
        + markdown(head, rows)
    )


def picture(figure: Any, result: Result) -> None:
    """Draw the gain over sp by setting, and the errors saved by group."""
    figure.set_size_inches(8.4, 4.0)
    left, right = figure.subplots(1, 2)
    runs = result["runs"]
    names = [name for name in runs if name != "sp"]
    for place, name in enumerate(names):
        gain = _gain(runs, name)
        left.errorbar(gain.mean, -place, xerr=gain.half, fmt="o", color="C0", capsize=2)
    left.axvline(0, color="0.3", linewidth=0.8)
    left.set_yticks([-place for place in range(len(names))], names, fontsize=8)
    left.set_xlabel("F1 of Algorithm 2 minus F1 of sp (points)")
    left.set_title("Start, R and c", loc="left")
    for i, name in enumerate((BASE, "start 0", "c=2")):
        saved = np.array(
            [
                np.subtract(a["errors"], b["errors"])
                for a, b in zip(runs["sp"], runs[name], strict=True)
            ]
        )
        found = [mean_of(list(column)) for column in saved.T]
        right.errorbar(
            np.arange(NUM_GROUPS) + 1 + 0.06 * (i - 1),
            [one.mean for one in found],
            yerr=[one.half for one in found],
            marker="os^"[i],
            capsize=2,
            label=name,
        )
    right.axhline(0, color="0.3", linewidth=0.8)
    right.set_xticks(range(1, NUM_GROUPS + 1))
    right.set_xlabel("quarter of characters (4: most rare features)")
    right.set_ylabel("wrong labels saved over sp (points)")
    right.set_title("Where the gain is", loc="left")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3)


EXPERIMENT = Experiment(
    "bol-why",
    "Why Algorithm 2 of BOL works: start, R, c, and rare features",
    "a stand-in",
    "shares of PFR 1998-01 (stand-in for SIGHAN-2005 pku), PKU test",
    run,
    table,
    picture,
    verdicts=verdicts,
)
