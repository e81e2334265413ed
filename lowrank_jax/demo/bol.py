"""Sequences: online bilinear learning beside the perceptron and MIRA, certified.

The task is word segmentation from a Zipf lexicon (`data.segmentation_task`): CJK
characters without meaning, words drawn at random. All learners see the same features,
each with weights on labels and on pairs of labels.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import data, loops, metrics, streams
from lowrank_jax.certify import comparator, regret
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.demo import Size
from lowrank_jax.estimators import labelling
from lowrank_jax.features import Encoder, read_template, with_orders
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import bol, mira, perceptron
from lowrank_jax.theory.bol.regret import AlongRounds, along_rounds
from lowrank_jax.types import Learner

__all__ = ["Demo", "Regret", "Result", "run"]

_SEED = 0


class Result(NamedTuple):
    """One learner on the task.

    Attributes:
      name: of the learner.
      about: what it is, in a few words.
      mistakes: (num_passes,) sentences of the training data it got wrong in each pass.
      f1: (num_passes,) word F1 on the test data after each pass, percent.
      accuracy: of the labels of the test data at the end, percent.
      num_parameters: of the model.
      seconds: of all passes, compilation left out.
      compile_seconds: spent before.
      predicted: (num_tokens,) labels of the test data at the end.
    """

    name: str
    about: str
    mistakes: list[int]
    f1: list[float]
    accuracy: float
    num_parameters: int
    seconds: float
    compile_seconds: float
    predicted: np.ndarray


class Regret(NamedTuple):
    """The certificate of one run (DR-B4), as sums over rounds.

    Attributes:
      name: of the learner.
      along: regret and certificate up to each round, (num_rounds,).
      loss: of the learner at the end.
      comparator: loss of the fixed model on the same rounds.
      best_step_size: the C that makes the dual largest, after the fact (DR-B8).
    """

    name: str
    along: AlongRounds
    loss: float
    comparator: float
    best_step_size: float


class Demo(NamedTuple):
    """All that the report shows.

    Attributes:
      train: training data.
      test: test data.
      num_words: in the lexicon.
      results: one a learner.
      regrets: of some of them.
      spectra: for some models, the share of the first-order blocks' squared entries
        that is of rank 1, 2, ..., (S,).
    """

    train: Corpus
    test: Corpus
    num_words: int
    results: list[Result]
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
    """A finished run; `results` has one entry for each way to end it."""

    state: Any
    traces: list[Any]  # of each pass
    params: Any  # of the last way
    results: list[Result]


class _End(NamedTuple):
    """A way from the last state to a model."""

    about: str
    final_params: Callable[[Any], Any]


def run(size: Size, tell: Callable[[Result], None]) -> Demo:
    """Train all learners; `tell` hears of each as it ends."""
    train, test, lexicon = data.segmentation_task(
        size.sentences, 300, seed=_SEED, num_characters=80, num_words=1200
    )
    template = with_orders(read_template("segmentation"), "both")
    encoder, sequences = Encoder.fit_transform(train, template)
    test_stream = streams.sentences.stream(encoder.transform(test))
    task = _Task(
        encoder, streams.sentences.stream(sequences), test, test_stream, size.passes
    )

    def go(model: Any, learner: Learner, ends: dict[str, _End]) -> _Run:
        done = _run(task, model, learner, ends)
        for result in done.results:
            tell(result)
        return done

    first = go(
        linear,
        perceptron.learner(record=("predicted",)),
        {
            "sp": _End("structured perceptron", lambda state: state.params),
            "averaged sp": _End("the same, averaged", perceptron.final_params),
        },
    )
    second = go(linear, mira.learner(), {"mira": _End("MIRA", mira.final_params)})
    third = go(
        bilinear,
        bol.learner(variant="paper"),
        {"bol paper": _End("rank 1, as in the paper", bol.final_params)},
    )
    block = go(
        bilinear,
        bol.learner(variant="block", record=("predicted",)),
        {"bol block": _End("rank 1 in each block", bol.final_params)},
    )
    # The averaged perceptron is the fixed model that the regret is against.
    fixed = first.params
    return Demo(
        train=train,
        test=test,
        num_words=len(lexicon.words),
        results=[r for done in (first, second, third, block) for r in done.results],
        regrets=[
            _regret("sp", "sp", task, first, fixed),
            _regret("bol block", "block", task, block, fixed),
        ],
        spectra={
            "sp: the weights": _energy(first.state.params.first),
            "bol block: the dual": _energy(block.state.blocks),
        },
    )


@functools.lru_cache
def _predictor(scores: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(functools.partial(labelling.predict, scores))


def _run(task: _Task, model: Any, learner: Learner, ends: dict[str, _End]) -> _Run:
    """Train, and score each way to end on the test data after every pass."""
    names = np.array(task.encoder.labels, dtype=object)
    finish = {name: jax.jit(end.final_params) for name, end in ends.items()}
    predict = _predictor(model.scores)
    gold, offsets = task.test_corpus.labels, task.test_corpus.offsets
    assert gold is not None
    passes, traces = [], []
    f1: dict[str, list[float]] = {name: [] for name in ends}
    predicted, params = {}, None
    for done in loops.passes(
        learner, task.train, key=jax.random.key(_SEED), num_passes=task.num_passes
    ):
        passes.append(done)
        traces.append(done.trace)
        for name in ends:
            params = finish[name](done.state)
            predicted[name] = names[np.asarray(predict(params, task.test))]
            scores = metrics.word_scores_from_labels(gold, predicted[name], offsets)
            f1[name].append(scores.f1)
    results = [
        Result(
            name=name,
            about=end.about,
            mistakes=[int(info.is_mistake.sum()) for info in traces],
            f1=f1[name],
            accuracy=metrics.token_accuracy(gold, predicted[name]),
            num_parameters=_num_parameters(task.encoder, model),
            seconds=sum(done.seconds for done in passes),
            compile_seconds=sum(done.compile_seconds for done in passes),
            predicted=predicted[name],
        )
        for name, end in ends.items()
    ]
    return _Run(done.state, traces, params, results)


def _num_parameters(encoder: Encoder, model: Any) -> int:
    return labelling.num_parameters(
        encoder.space,
        model="linear" if model is linear else "bilinear",
        num_zero_order=encoder.num_zero_order,
        num_first_order=encoder.num_first_order,
    )


_margins = jax.jit(comparator.margins)


def _regret(
    name: str, variant: str, task: _Task, run: _Run, fixed: linear.Params
) -> Regret:
    """Compare the losses of a run with C = 1 with their certificate (DR-B4).

    Of all multiples of the fixed model the one is taken that bounds the loss best.
    """
    num_sentences = task.train.starts.shape[0]
    others, margins, are_mistakes, conjugates = [], [], [], []
    for index, trace in enumerate(run.traces):
        order = loops.pass_order(jax.random.key(_SEED), index, num_sentences)
        others.append(_margins(fixed, task.train, order, trace.predicted))
        margins.append(trace.margin)
        are_mistakes.append(trace.is_mistake)
        conjugates.append(trace.conjugate)
    is_mistake = np.concatenate(are_mistakes)
    margin, other, conjugate = (
        np.concatenate(parts).astype(np.float64)
        for parts in (margins, others, conjugates)
    )
    # Along the way a few power steps estimate it; at the end it is exact.
    conjugate[-1] = regret.conjugate(run.state).value
    space = task.train.space
    penalty = float(comparator.penalty(fixed, space, variant=variant))
    size = regret.best_multiple(other[is_mistake], penalty, 1.0)
    losses = np.where(is_mistake, np.maximum(1 - size * other, 0), 0)
    with jax.enable_x64(True):
        along = along_rounds(
            jnp.asarray(margin),
            jnp.asarray(is_mistake),
            step_size=1.0,
            conjugate=jnp.asarray(conjugate),
            comparator_losses=jnp.asarray(losses),
            comparator_penalty=size**2 * penalty,
        )
        along = jax.device_get(along)
    num_mistakes = int(is_mistake.sum())
    return Regret(
        name=name,
        along=along,
        loss=float(np.where(is_mistake, np.maximum(1 - margin, 0), 0).sum()),
        comparator=float(losses.sum()),
        best_step_size=num_mistakes / (2 * float(conjugate[-1])),  # DR-B8
    )


def _energy(blocks: jax.Array | None) -> np.ndarray:
    """Share of the squared entries that the best blocks of rank 1, 2, ... hold."""
    assert blocks is not None
    values = np.linalg.svd(np.asarray(blocks, np.float64), compute_uv=False)
    energy = (values**2).sum(axis=0)
    return np.cumsum(energy) / energy.sum()
