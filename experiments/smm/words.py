"""NETtalk splits, and max-margin taggers scored on them: shared by the SMM figures.

A method is a list of settings (regulariser, strength, step size c, ...). Every setting
runs for the same number of iterations. At some of them (`checkpoints`) the last and the
averaged iterate are scored on the development words. Setting, iterate and number of
iterations with the best score are chosen, for all methods in the same way. Only the
choice is scored on the test words.
"""

import dataclasses
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from experiments.protocol import Say, Verdict
from experiments.tables import markdown
from lowrank_jax import data, loops, streams
from lowrank_jax.batch.smm import fobos
from lowrank_jax.decode.lattice_paths import LatticePaths, best_paths, paths_to_words
from lowrank_jax.models import hankel
from lowrank_jax.streams.words import Lattice

__all__ = [
    "ITERATES",
    "SIZES",
    "Best",
    "Chosen",
    "Encoded",
    "Part",
    "Setting",
    "Split",
    "Task",
    "accuracy",
    "choose",
    "claims_table",
    "verdicts",
    "draw_split",
    "encode",
    "make_task",
    "read_words",
]

#: Sizes of training, development and test part (SMM-E1).
SIZES = (15_000, 1_034, 3_974)
#: What is scored on the development words at each checkpoint.
ITERATES = ("last", "average")


class Split(NamedTuple):
    """One random split; the training part in random order."""

    train: data.Corpus
    development: data.Corpus
    test: data.Corpus


class Encoded(NamedTuple):
    """Bi-symbols of training words, and the words to score on."""

    alphabet: data.Alphabet
    train: data.Words
    development: data.Words
    test: data.Words


class Best(NamedTuple):
    """The best model so far on the development words; of equal ones the first."""

    development: float = -1.0
    setting: dict[str, Any] = {}
    params: Any = None

    def or_better(self, score: float, setting: dict[str, Any], params: Any) -> "Best":
        """Return the better one of the two."""
        return Best(score, setting, params) if score > self.development else self

    def row(self, test: float) -> dict[str, Any]:
        """Return the choice with its accuracy on the test words, ready for JSON."""
        return {
            "development": self.development,
            "setting": self.setting,
            "test": test,
        }


class Part(NamedTuple):
    """Words to score on."""

    words: data.Words
    lattice: Lattice


class Task(NamedTuple):
    """Training words of one size, and what to score on."""

    alphabet: data.Alphabet
    train: Lattice
    development: Part
    test: Part


@dataclasses.dataclass(frozen=True)
class Setting:
    """Hyper-parameters of `batch.fobos` that are tried."""

    regulariser: str
    strength: float
    step_size: float
    unfolding: str = "last"
    lower_orders: str = "none"

    @property
    def basis(self) -> tuple[hankel.Block, ...]:
        """Return the blocks of its matrices."""
        return hankel.basis(3, lower_orders=self.lower_orders, unfolding=self.unfolding)


class Chosen(NamedTuple):
    """What was best on the development words.

    Attributes:
      development: Accuracy on the development words, in percent.
      setting: Setting that reached this accuracy.
      iterations: Number of iterations.
      iterate: The last or the averaged iterate, one of `ITERATES`.
      rank: Rank of all blocks together; -1 if no spectrum is computed.
      gap: Duality gap at the end of the run, relative to its objective.
      params: The model.
    """

    development: float
    setting: Setting
    iterations: int
    iterate: str
    rank: int
    gap: float
    params: hankel.Params

    def summary(self) -> dict[str, Any]:
        """Return all but the model, ready for JSON."""
        found = self._asdict()
        del found["params"]
        return found | {"setting": dataclasses.asdict(self.setting)}


def read_words(data_dir: Path | str | None) -> data.Corpus:
    """Read NETtalk."""
    return data.read_nettalk(data.find("nettalk/nettalk.data.xz", data_dir))


def draw_split(corpus: data.Corpus, seed: int, sizes: Sequence[int] = SIZES) -> Split:
    """Draw training, development and test words at random."""
    order = np.random.default_rng(seed).permutation(corpus.num_sentences)
    ends = np.cumsum([0, *sizes])
    parts = [order[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]
    return Split(*(corpus.take(part) for part in parts))


def encode(split: Split, size: int) -> Encoded:
    """Encode the first `size` training words; the alphabet is of these alone."""
    train = split.train.take(np.arange(min(size, split.train.num_sentences)))
    alphabet = data.alphabet_of(train)
    parts = (train, split.development, split.test)
    return Encoded(alphabet, *(data.encode_words(alphabet, part) for part in parts))


def make_task(split: Split, size: int, *, has_end: bool = False) -> Task:
    """Lay out the first `size` training words and the words to score on.

    Args:
      split: The words.
      size: Number of training words.
      has_end: True if words end in a boundary symbol.
    """
    alphabet, *parts = encode(split, size)
    train, development, test = (
        Part(
            words,
            jax.device_put(streams.words.lattice(alphabet, words, has_end=has_end)),
        )
        for words in parts
    )
    return Task(alphabet, train.lattice, development, test)


def accuracy(setting: Setting, params: hankel.Params, part: Part) -> float:
    """Hamming accuracy in percent."""
    paths = _decode(setting.basis, params, part.lattice)
    found = paths_to_words(paths, part.lattice)
    return data.hamming_accuracy(part.words, found)


def choose(
    settings: Sequence[Setting],
    task: Task,
    checkpoints: Sequence[int],
    say: Say,
) -> tuple[Chosen, list[dict[str, Any]]]:
    """Run each setting, and choose by accuracy on the development words.

    Args:
      settings: Settings to try.
      task: Words to learn from and to score on.
      checkpoints: Numbers of iterations after which to score, ascending, multiples of
        the first.
      say: Takes one line of progress.

    Returns:
      The best one, and a row for each setting: its best development accuracy and how
      it was reached.
    """
    best, rows = None, []
    for setting in settings:
        began = time.perf_counter()
        found = _run(setting, task, checkpoints)
        seconds = time.perf_counter() - began
        rows.append(found.summary() | {"seconds": seconds})
        say(
            f"    {setting.regulariser:17} {setting.unfolding:5} "
            f"tau {setting.strength:<6g} c {setting.step_size:<5g} "
            f"development {found.development:.2f} ({found.iterate} of "
            f"{found.iterations}), gap {found.gap:.3f}, {seconds:.0f} s"
        )
        if best is None or found.development > best.development:
            best = found
    assert best is not None
    return best, rows


def verdicts(result: dict[str, Any]) -> list[Verdict]:
    """Return the claims of a figure of SMM as verdicts."""
    decided: dict[str, Literal["holds", "fails", "not decided"]]
    decided = {"yes": "holds", "no": "fails", "in part": "not decided"}
    return [
        {
            "claim": claim["claim"],
            "value": claim.get("points"),
            "interval": None,
            "verdict": decided[claim["answer"]],
            "found": claim["found"].replace("+-", "±"),
        }
        for claim in result["claims"]
    ]


def claims_table(claims: list[dict[str, Any]]) -> str:
    """Write what the paper says beside what was found as Markdown."""
    names = ("claim", "found", "answer")
    rows = [[claim[name] for name in names] for claim in claims]
    return markdown(["the paper says", "here", "so"], rows)


def _run(setting: Setting, task: Task, checkpoints: Sequence[int]) -> Chosen:
    """Run one setting to the last checkpoint; return its best on development words."""
    chunk = checkpoints[0]
    static = (setting.regulariser, setting.unfolding, setting.lower_orders)
    numbers = (np.float32(setting.strength), np.float32(setting.step_size))
    state = _start(*static, task.train)
    best, done = None, 0
    for goal in checkpoints:
        while done < goal:
            state, trace = _advance(*static, chunk, state, task.train, *numbers)
            done += chunk
        for iterate in ITERATES:
            params = fobos.final_params(state, iterate)
            score = accuracy(setting, params, task.development)
            if best is None or score > best.development:
                best = Chosen(
                    score,
                    setting,
                    done,
                    iterate,
                    int(state.rank),
                    1.0,
                    jax.tree.map(lambda part: part.copy(), params),
                )
    assert best is not None
    return best._replace(gap=float(trace.gap[-1]))


def _learner(
    regulariser: Any,
    unfolding: Any,
    lower_orders: Any,
    strength: Any = 1.0,
    step_size: Any = 1.0,
) -> Any:
    return fobos.learner(
        regulariser=regulariser,
        unfolding=unfolding,
        lower_orders=lower_orders,
        strength=strength,
        step_size=step_size,
        tolerance=0.0,  # all settings have the same number of iterations
    )


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _start(
    regulariser: Any, unfolding: Any, lower_orders: Any, lattice: Lattice
) -> Any:
    learner = _learner(regulariser, unfolding, lower_orders)
    return learner.init(jax.random.key(0), lattice)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3), donate_argnums=4)
def _advance(
    regulariser: Any,
    unfolding: Any,
    lower_orders: Any,
    num_iterations: int,
    state: Any,
    lattice: Lattice,
    strength: jax.Array,
    step_size: jax.Array,
) -> tuple[Any, Any]:
    learner = _learner(regulariser, unfolding, lower_orders, strength, step_size)
    state, trace, _ = loops.converge(
        learner, state, lattice, max_iterations=num_iterations
    )
    return state, trace


@functools.partial(jax.jit, static_argnums=0)
def _decode(
    blocks: tuple[hankel.Block, ...], params: hankel.Params, lattice: Lattice
) -> LatticePaths:
    return best_paths(hankel.score_table(blocks, params), lattice, cost=0.0)
