"""Sequences: online bilinear learning beside the perceptron and MIRA, certified.

The task is word segmentation from a Zipf lexicon (`data.segmentation_task`): CJK
characters without meaning, words drawn at random. All learners see the same features,
each with weights on labels and on pairs of labels.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from lowrank_jax import certify, data, loops, metrics, streams
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.demo import Row, Size
from lowrank_jax.estimators import labelling
from lowrank_jax.estimators.tagger.model import num_parameters
from lowrank_jax.features import Encoder, read_template, with_orders
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import bol, mira, perceptron
from lowrank_jax.theory.bol.regret import AlongRounds
from lowrank_jax.types import Learner

__all__ = ["TITLE", "Demo", "Regret", "run"]
__dir__ = __all__.copy

TITLE = "Sequences: made-up text, cut into words of a made-up lexicon"
_SEED = 0

# Ways from the last state to a model: their names, each with a few words about it.
_Ends = dict[str, tuple[str, Callable[[Any], Any]]]


class Regret(NamedTuple):
    """The certificate of one run (DR-B4), as sums over rounds.

    Attributes:
      name: Name of the learner.
      along: Regret and certificate up to each round, (num_rounds,).
      loss: Loss of the learner at the end.
      comparator: Loss of the fixed model on the same rounds.
      best_step_size: The C that makes the dual largest, after the fact (DR-B8).
    """

    name: str
    along: AlongRounds
    loss: float
    comparator: float
    best_step_size: float


class Demo(NamedTuple):
    """What the section shows.

    Attributes:
      train: Training data.
      test: Test data.
      num_words: Number of words in the lexicon.
      rows: One row per learner.
      predicted: (num_tokens,) labels of the test data by the last learner.
      regrets: Certificates of some runs.
      spectra: Share of the first-order blocks' squared entries that the best blocks of
        rank 1, 2, ... hold, (S,), for some models.
    """

    train: Corpus
    test: Corpus
    num_words: int
    rows: list[Row]
    predicted: np.ndarray
    regrets: list[Regret]
    spectra: dict[str, np.ndarray]


class _Task(NamedTuple):
    """The data, ready for the device."""

    encoder: Encoder
    train: streams.sentences.Stream
    test_corpus: Corpus
    test: streams.sentences.Stream
    num_passes: int


class _Run(NamedTuple):
    """A finished run; `rows` has one entry for each way to end it."""

    state: Any
    traces: list[Any]  # one per pass
    params: Any  # weights of the last way
    predicted: np.ndarray  # by the last way
    rows: list[Row]


def run(size: Size, tell: Callable[[Row], None]) -> Demo:
    """Train all learners; `tell` takes the row of each as it ends."""
    train, test, lexicon = data.segmentation_task(
        size.sentences, 300, seed=_SEED, num_characters=80, num_words=1200
    )
    template = with_orders(read_template("segmentation"), "both")
    encoder, sequences = Encoder.fit_transform(train, template)
    test_stream = streams.sentences.stream(encoder.transform(test))
    task = _Task(
        encoder, streams.sentences.stream(sequences), test, test_stream, size.passes
    )

    def go(model: Any, learner: Learner, ends: _Ends) -> _Run:
        done = _run(task, model, learner, ends)
        for row in done.rows:
            tell(row)
        return done

    first = go(
        linear,
        perceptron.learner(record=("predicted",), dual="dense"),
        {
            "sp": ("structured perceptron", lambda state: state.params),
            "averaged sp": ("the same, averaged", perceptron.final_params),
        },
    )
    second = go(linear, mira.learner(), {"mira": ("MIRA", mira.final_params)})
    third = go(
        bilinear,
        bol.learner(variant="paper", divisor_factor=2.0),
        {"bol paper": ("rank 1, as in the paper", bol.final_params)},
    )
    block = go(
        bilinear,
        bol.learner(variant="block", record=("predicted",)),
        {"bol block": ("rank 1 in each block", bol.final_params)},
    )
    # The averaged perceptron is the fixed model that the regret is against.
    fixed = first.params
    return Demo(
        train=train,
        test=test,
        num_words=len(lexicon.words),
        rows=[row for done in (first, second, third, block) for row in done.rows],
        predicted=block.predicted,
        regrets=[
            _regret("sp", task, first, fixed),
            _regret("bol block", task, block, fixed),
        ],
        spectra={
            "sp: the weights": _energy(first.state.params.first),
            "bol block: the dual": _energy(bol.theta(block.state)),
        },
    )


@functools.lru_cache
def _predictor(scores: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(functools.partial(labelling.predict, scores))


def _run(task: _Task, model: Any, learner: Learner, ends: _Ends) -> _Run:
    """Train, and score each way to end on the test data after every pass."""
    names = np.array(task.encoder.labels, dtype=object)
    finish = {name: jax.jit(final) for name, (_, final) in ends.items()}
    predict = _predictor(model.scores)
    gold, offsets = task.test_corpus.labels, task.test_corpus.offsets
    assert gold is not None
    traces, seconds = [], 0.0
    f1: dict[str, list[float]] = {name: [] for name in ends}
    predicted, params = {}, None
    for done in loops.passes(
        learner, task.train, key=jax.random.key(_SEED), num_passes=task.num_passes
    ):
        traces.append(done.trace)
        seconds += done.seconds
        for name in ends:
            params = finish[name](done.state)
            predicted[name] = names[np.asarray(predict(params, task.test))]
            scores = metrics.word_scores_from_labels(gold, predicted[name], offsets)
            f1[name].append(scores.f1)
    num_weights = num_parameters(
        task.encoder.space,
        model="linear" if model is linear else "bilinear",
        num_zero_order=task.encoder.num_zero_order,
        num_first_order=task.encoder.num_first_order,
    )
    mistakes = [int(info.is_mistake.sum()) for info in traces]
    rows = []
    for name, (about, _) in ends.items():
        cells = {
            "word F1": f"{f1[name][-1]:.2f}",
            "accuracy": f"{metrics.token_accuracy(gold, predicted[name]):.2f}",
            "weights": f"{num_weights:,}",
        }
        along = {"f1": f1[name], "mistakes": mistakes}
        rows.append(Row(name, cells, seconds, along, about))
    return _Run(done.state, traces, params, predicted[name], rows)


def _regret(name: str, task: _Task, run: _Run, fixed: linear.Params) -> Regret:
    """Compare the losses of a run with their certificate (DR-B4).

    The comparator is the multiple of the fixed model that bounds the loss best.
    """
    given = (run.state, run.traces, task.train, fixed)
    options: Any = {"key": jax.random.key(_SEED), "hindsight": True}
    found = certify.regret(*given, **options)
    return Regret(
        name=name,
        along=certify.along(*given, **options),
        loss=found.loss,
        comparator=found.comparator_loss,
        best_step_size=found.best_step_size,
    )


def _energy(blocks: jax.Array | None) -> np.ndarray:
    """Return the share of squared entries that the best blocks of rank 1, ... hold."""
    assert blocks is not None
    values = np.linalg.svd(np.asarray(blocks, np.float64), compute_uv=False)
    energy = (values**2).sum(axis=0)
    return np.cumsum(energy) / energy.sum()
