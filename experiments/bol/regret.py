r"""Regret, its certificate and the bounds along the rounds, on dense and real data.

Four curves against one comparator U, each below the next: the regret of the run, the
certificate (DR-B4), the tight bound (DR-B3) and the paper's (BOL-P4). Two tasks:

* dense matrices with a planted pattern of rank 1. Under noise every bound is finite;
  with less noise and a tenth of the labels wrong the spectral gap closes;
* CoNLL-2000 chunking with block features (DR-B6), one pass. Two singular values of a
  block are equal as soon as a tag is wrong at a feature seen once. So the paper's bound
  is infinite from the second mistake on. At a tie the tight bound uses a form that
  holds there too: for G in the subdifferential of :math:`\frac12\sigma_1^2`,

  .. math:: \tfrac12\sigma_1(\Theta + E)^2 - \tfrac12\sigma_1(\Theta)^2
     - \langle G, E\rangle \le 2\sigma_1(\Theta)\|E\|_2 + \tfrac12\|E\|_2^2,

  since :math:`\sigma_1(\Theta + E) \le \sigma_1(\Theta) + \|E\|_2` and
  :math:`|\langle G, E\rangle| \le \sigma_1(\Theta)\|E\|_2`.

C = 1 throughout: it scales the curves and changes no prediction.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from experiments.intervals import stated
from experiments.protocol import Experiment, Result, Say, Setup
from experiments.tables import markdown
from lowrank_jax import data, loops, streams
from lowrank_jax.certify import best_multiple, comparator
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.features import Encoder, read_template, with_orders
from lowrank_jax.linalg.segments import remainder_bound
from lowrank_jax.online import bol
from lowrank_jax.online.bol import dense
from lowrank_jax.theory.bol import regret

__all__ = ["EXPERIMENT", "Touched", "block_bounds", "replay"]

SHAPE = (12, 10)
NUM_ROUNDS = 600
DENSE = (  # title, size of the noise, share of wrong labels
    ("dense, rank 1 under noise", 0.6, 0.0),
    ("dense, a tenth of the labels wrong", 0.02, 0.1),
)
NUM_POWER_STEPS = 32  # the mirror map as good as exact, which the tight bound asks for
SIZES = (2, 4, 8, 16, 32)  # blocks are cut to their rows and columns in use


def run(setup: Setup) -> Result:
    """Run both tasks; small takes a tenth of the sentences."""
    say = setup.say
    tasks = []
    for title, noise, share in DENSE:
        tasks.append({"title": title, **_dense(noise, share)})
        say(_words(tasks[-1]))
    path = data.find("conll2000/train.txt.xz", setup.data_dir)
    corpus = data.read_conll(path)
    if not setup.is_full:
        corpus = data.split_fraction(corpus, 0.1, 0)
    tasks.append({"title": "CoNLL-2000, blocks of rank 1", **_chunking(corpus, say)})
    say(_words(tasks[-1]))
    return {"experiment": "bol-regret", "scale": setup.scale, "tasks": tasks}


def _dense(noise_size: float, share_wrong: float) -> dict[str, Any]:
    """Run the exact mirror map on planted matrices, in double precision."""
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=size) for size in SHAPE)
    pattern = np.outer(left / np.linalg.norm(left), right / np.linalg.norm(right))
    signs = rng.choice([-1.0, 1.0], NUM_ROUNDS)
    noise = noise_size * rng.normal(size=(NUM_ROUNDS, *SHAPE))
    x = signs[:, None, None] * pattern + noise
    given = np.where(rng.random(NUM_ROUNDS) < share_wrong, -signs, signs)
    with jax.enable_x64(True):
        learner = dense.learner(variant="exact")
        choices = jax.vmap(dense.binary)(jnp.asarray(x), jnp.asarray(given))
        key = jax.random.key(0)

        @jax.jit
        def trained(choices: Any) -> tuple[Any, Any]:
            first = jax.tree.map(lambda part: part[0], choices)
            return lax.scan(learner.update, learner.init(key, first), choices)

        state, trace = trained(choices)
        is_mistake = np.asarray(trace.is_mistake)
        delta = np.where(is_mistake[:, None, None], given[:, None, None] * x, 0)
        theta = np.cumsum(delta, axis=0)
        before = np.concatenate([np.zeros((1, *SHAPE)), theta[:-1]])
        ratio = jax.jit(jax.vmap(regret.segment_ratio))(before, delta)
        found = block_bounds(before, delta)
        margins = np.einsum("mn,tmn->t", pattern, delta)
        size = best_multiple(margins[is_mistake], 0.5, 1.0)
        along = regret.along_rounds(
            trace,
            step_size=1.0,
            comparator_losses=jnp.asarray(np.maximum(1 - size * margins, 0)),
            comparator_penalty=size**2 / 2,
            squared_norm=trace.squared_norm,
            ratio=ratio,
            num_values=min(SHAPE),
        )
        curves = {
            "regret": np.asarray(along.regret),
            "certificate": np.asarray(along.certificate),
            "tight": size**2 / 2 + np.cumsum(found.bound),
            "paper": np.asarray(along.paper),
        }
    return _kept(curves, is_mistake, float(np.median(np.asarray(ratio)[is_mistake])))


def _chunking(corpus: data.Corpus, say: Say) -> dict[str, Any]:
    """Run block BOL for one pass, then replay it with exact singular values."""
    template = with_orders(read_template("chunking"), "both")
    _, sequences = Encoder.fit_transform(corpus, template)
    stream, key = streams.sentences.stream(sequences), jax.random.key(0)
    learner = bol.learner(num_power_steps=NUM_POWER_STEPS, record=("predicted",))
    (done,) = loops.passes(learner, stream, key=key, num_passes=1)
    trace: Any = done.trace  # on the host
    order = loops.pass_order(key, 0, sequences.num_sentences)
    say(f"trained on {sequences.num_sentences} sentences; replaying")
    params = jax.jit(bol.final_params)(done.state)
    margins = np.asarray(
        jax.jit(comparator.margins)(params, stream, order, trace.predicted),
        np.float64,
    )
    penalty = float(comparator.penalty(params, stream.space, variant="block"))
    size = best_multiple(margins[trace.is_mistake], penalty, 1.0)
    num_rounds = len(margins)
    growth, bound, squares = np.zeros((3, num_rounds))
    ratios, first_tie = [], num_rounds
    for touched in replay(sequences, np.asarray(order), trace.predicted):
        found = block_bounds(touched.before, touched.push)
        growth += _by_round(touched, found.growth, num_rounds)
        bound += _by_round(touched, found.bound, num_rounds)
        growth[touched.others_at] += touched.others
        bound[touched.others_at] += touched.others_squared
        lengths = (touched.push.astype(np.float64) ** 2).sum((1, 2))
        squares += _by_round(touched, lengths, num_rounds)
        squares[touched.others_at] += 2 * touched.others_squared
        ratios.append(found.ratio)
        is_tied = found.ratio >= 1 - 1e-9
        first_tie = min(first_tie, int(touched.round[is_tied].min(initial=num_rounds)))
        say(f"replayed up to round {int(touched.round.max(initial=0)) + 1}")
    margin = np.where(trace.is_mistake, trace.margin, 0).astype(np.float64)
    losses = np.where(trace.is_mistake, 1 - margin, 0)
    other = np.where(trace.is_mistake, np.maximum(1 - size * margins, 0), 0)
    start = size**2 * penalty
    # The whole of Theta is tied no later than one of its blocks is.
    size_of = sequences.space.num_labels * sequences.space.num_features
    paper = start + 2 * size_of * np.cumsum(squares)
    paper[first_tie:] = np.inf
    curves = {
        "regret": np.cumsum(losses - other),
        "certificate": start + np.cumsum(growth - margin),
        "tight": start + np.cumsum(bound),
        "paper": paper,
    }
    return _kept(curves, trace.is_mistake, float(np.median(np.concatenate(ratios))))


def _kept(
    curves: dict[str, np.ndarray], is_mistake: np.ndarray, median_ratio: float
) -> dict[str, Any]:
    """Keep some 200 rounds of each curve; infinity is null in JSON."""
    last = len(is_mistake) - 1
    at = np.unique(np.linspace(0, last, 200).astype(int))
    pairs = [("regret", "certificate"), ("certificate", "tight"), ("tight", "paper")]
    return {
        "num_rounds": last + 1,
        "num_mistakes": int(is_mistake.sum()),
        "median_ratio": median_ratio,
        "at": (at + 1).tolist(),
        "curves": {name: _finite(curve[at]) for name, curve in curves.items()},
        "final": {name: _finite(curve[-1:])[0] for name, curve in curves.items()},
        "finite_rounds": {
            name: int(np.isfinite(curve).sum()) for name, curve in curves.items()
        },
        "is_chain": {
            f"{low} <= {high}": bool(
                (
                    curves[low]
                    <= curves[high] + 1e-4 * np.maximum(np.abs(curves[low]), 1)
                ).all()
            )
            for low, high in pairs
        },
    }


def _finite(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


class Touched(NamedTuple):
    """The blocks that some rounds touch, before the push, and what else they move."""

    round: np.ndarray  # (n,)  of each block
    before: np.ndarray  # (n, S, S + 1)
    push: np.ndarray  # (n, S, S + 1)
    others_at: np.ndarray  # (rounds,)  rounds with a mistake
    others: np.ndarray  # (rounds,)  growth of half the squares of the other weights
    others_squared: np.ndarray  # (rounds,)  half the squares of what they move by


def replay(
    sequences: Sequences,
    order: np.ndarray,
    predicted: np.ndarray,
    *,
    chunk_size: int = 20_000,
) -> Iterator[Touched]:
    """Yield the moves of a run of block BOL with C = 1, from what it predicted.

    Args:
      sequences: Training sentences of the run.
      order: (num_rounds,) sentence of each round.
      predicted: (num_rounds, window) predicted labels.
      chunk_size: Number of blocks at a time, about.
    """
    space = sequences.space
    labels, unused = space.num_labels, space.num_features
    theta = np.zeros((unused, labels, labels + 1), np.float32)
    weights = np.zeros((unused, labels), np.float32)
    transitions = np.zeros((labels, labels + 1), np.float32)
    offsets = np.asarray(sequences.offsets)
    parts: list[tuple[np.ndarray, ...]] = []
    others: list[tuple[int, float, float]] = []

    def chunk() -> Touched:
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        at, grown, squares = (np.array(column) for column in zip(*others, strict=True))
        return Touched(columns[0], columns[1], columns[2], at, grown, squares)

    for round_index, sentence in enumerate(order.tolist()):
        here = slice(offsets[sentence], offsets[sentence + 1])
        true = np.asarray(sequences.labels[here])
        guess = predicted[round_index, : len(true)].astype(true.dtype)
        if (true == guess).all():
            continue
        ids = np.asarray(sequences.feature_ids[here])
        pairs = [np.append(labels, side[:-1]) for side in (true, guess)]
        differs = (true != guess) | (pairs[0] != pairs[1])
        rows = ids[differs][:, list(space.first_order)]
        blocks, inverse = np.unique(rows, return_inverse=True)
        inverse = inverse.reshape(rows.shape)
        push = np.zeros((len(blocks), labels, labels + 1), np.float32)
        for side, before, sign in ((true, pairs[0], 1), (guess, pairs[1], -1)):
            where = (inverse, side[differs][:, None], before[differs][:, None])
            np.add.at(push, where, sign)
        is_feature = blocks < unused
        blocks, push = blocks[is_feature], push[is_feature]
        parts.append((np.full(len(blocks), round_index), theta[blocks], push))
        theta[blocks] += push
        grown = squares = 0.0
        if space.zero_order:
            rows = ids[differs][:, list(space.zero_order)]
            touched, inverse = np.unique(rows, return_inverse=True)
            inverse = inverse.reshape(rows.shape)
            move = np.zeros((len(touched), labels), np.float32)
            np.add.at(move, (inverse, true[differs][:, None]), 1)
            np.add.at(move, (inverse, guess[differs][:, None]), -1)
            move, touched = move[touched < unused], touched[touched < unused]
            grown += float((weights[touched] * move).sum()) + (move**2).sum() / 2
            squares += float((move**2).sum()) / 2
            weights[touched] += move
        if space.has_transitions:
            move = np.zeros_like(transitions)
            np.add.at(move, (true[differs], pairs[0][differs]), 1)
            np.add.at(move, (guess[differs], pairs[1][differs]), -1)
            grown += float((transitions * move).sum() + (move**2).sum() / 2)
            squares += float((move**2).sum()) / 2
            transitions += move
        others.append((round_index, grown, squares))
        if sum(len(part[0]) for part in parts) >= chunk_size:
            yield chunk()
            parts, others = [], []
    if parts:
        yield chunk()


def _by_round(touched: Touched, values: np.ndarray, num_rounds: int) -> np.ndarray:
    return np.bincount(touched.round, weights=values, minlength=num_rounds)


class Bounds(NamedTuple):
    """Of each block: growth of its conjugate, bound on its remainder, its ratio."""

    growth: np.ndarray  # (n,)  (sigma_1(Theta + E)^2 - sigma_1(Theta)^2) / 2
    bound: np.ndarray  # (n,)  of growth - <G, E>: DR-B2, at ties the other form
    ratio: np.ndarray  # (n,)  bound on sigma_2 / sigma_1 along the segment


def block_bounds(before: np.ndarray, push: np.ndarray) -> Bounds:
    """Bound what each block's push can cost (DR-B2 and the form that holds at ties).

    Args:
      before: (n, S, S + 1) Theta.
      push: (n, S, S + 1) E.
    """
    found = np.zeros((3, len(before)))
    used = (before != 0) | (push != 0)
    rows, columns = used.any(2), used.any(1)
    sizes = np.maximum(rows.sum(1), columns.sum(1))
    limits = np.array(SIZES)
    bucket = limits[np.searchsorted(limits, sizes)]
    for size in np.unique(bucket).tolist():
        some = np.flatnonzero(bucket == size)
        cut = _cut(before[some], push[some], rows[some], columns[some], size)
        with jax.enable_x64(True):
            # One shape a size: filled up with zeros to a round number.
            room = 1 << max(8, int(len(some) - 1).bit_length())
            filled = np.pad(cut, ((0, room - len(some)), (0, 0), (0, 0), (0, 0)))
            values = _block_bounds(jnp.asarray(filled))
        found[:, some] = np.asarray(values)[:, : len(some)]
    return Bounds(*found)


def _cut(
    before: np.ndarray,
    push: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    size: int,
) -> np.ndarray:
    """Move the rows and columns in use to the front and cut there: (n, 2, s, s)."""
    both = np.stack([before, push], axis=1).astype(np.float64)
    width = max(both.shape[2:])
    grown = max(size - width, 0) + width
    both = np.pad(
        both,
        ((0, 0), (0, 0), (0, grown - both.shape[2]), (0, grown - both.shape[3])),
    )
    first = np.argsort(~rows, axis=1, kind="stable")
    second = np.argsort(~columns, axis=1, kind="stable")
    front = np.arange(grown)

    def places(order: np.ndarray) -> np.ndarray:
        rest = np.broadcast_to(
            front[order.shape[1] :], (len(order), grown - order.shape[1])
        )
        return np.concatenate([order, rest], axis=1)[:, :size]

    both = np.take_along_axis(both, places(first)[:, None, :, None], 2)
    return np.take_along_axis(both, places(second)[:, None, None, :], 3)


@jax.jit
def _block_bounds(cut: jax.Array) -> jax.Array:
    def one(pair: jax.Array) -> jax.Array:
        before, push = pair
        sigma = jnp.linalg.svd(before, compute_uv=False)[0]
        after = jnp.linalg.svd(before + push, compute_uv=False)[0]
        ratio = regret.segment_ratio(before, push)
        bound = remainder_bound(before, push)
        return jnp.stack([(after * after - sigma * sigma) / 2, bound, ratio])

    return lax.map(one, cut, batch_size=256).T


def _words(task: dict[str, Any]) -> str:
    return f"{task['title']}: " + ", ".join(
        f"{name} {_number(value)}" for name, value in task["final"].items()
    )


def _number(value: float | None) -> str:
    return "infinite" if value is None else f"{value:,.4g}"


def table(result: Result) -> str:
    """Write the end of each chain as Markdown."""
    rows = []
    for task in result["tasks"]:
        final = [_number(value) for value in task["final"].values()]
        if task["final"]["paper"] is None:
            final[-1] = f"infinite after round {task['finite_rounds']['paper']}"
        counts = [f"{task[name]:,}" for name in ("num_rounds", "num_mistakes")]
        holds = "yes" if all(task["is_chain"].values()) else "no"
        ratio = f"{task['median_ratio']:.3f}"
        rows.append([task["title"], *counts, ratio, *final, holds])
    head = ["task", "rounds", "mistakes", "median σ₂/σ₁", "regret"]
    head += ["certificate (DR-B4)", "tight bound", "paper's bound"]
    return (
        "Sums over all rounds at C = 1, against the best multiple of a fixed model: "
        "the planted pattern, on CoNLL-2000 the run's own average. The tight bound is "
        "DR-B3; on CoNLL-2000 by blocks, with the form that holds at ties.\n\n"
        + markdown([*head, "each below the next"], rows)
    )


def picture(figure: Any, result: Result) -> None:
    """Draw the four curves of each task."""
    tasks = result["tasks"]
    figure.set_size_inches(4.2 * len(tasks), 3.8)
    panels = figure.subplots(1, len(tasks))
    styles = {
        "regret": ("C0", "-", "regret"),
        "certificate": ("C2", "-", "certificate (DR-B4)"),
        "tight": ("C1", "--", "tight bound (DR-B3)"),
        "paper": ("C3", ":", "the paper's bound (BOL-P4)"),
    }
    for axes, task in zip(panels, tasks, strict=True):
        at = np.array(task["at"])
        for name, (colour, line, label) in styles.items():
            values = np.array(task["curves"][name], dtype=float)  # null is nan
            shown = np.where(values > 0, values, np.nan)
            if np.isfinite(shown).any() and task["finite_rounds"][name] > 1:
                axes.loglog(at, shown, line, color=colour, label=label)
            if task["final"][name] is None:
                finite = task["finite_rounds"][name]
                words = f"the paper's bound is infinite\nafter round {finite}"
                axes.annotate(
                    words,
                    (0.03, 0.97),
                    xycoords="axes fraction",
                    va="top",
                    color=colour,
                    fontsize=8,
                )
        axes.set_title(task["title"], loc="left", fontsize=10)
        axes.set_xlabel("round")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("sum over rounds")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("Regret below its certificate below its bounds", x=0.01, ha="left")


EXPERIMENT = Experiment(
    "bol-regret",
    "BOL Propositions 3 to 5: regret, its certificate and its bounds by rounds",
    "the paper's data",
    "CoNLL-2000, and dense matrices drawn here",
    run,
    table,
    picture,
    verdicts=lambda result: [
        stated(f"{task['title']}: {link}", is_true, f"{task['num_rounds']:,} rounds")
        for task in result["tasks"]
        for link, is_true in task["is_chain"].items()
    ],
)
