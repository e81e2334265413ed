"""The runs behind ``lowrank-jax demo``: small, on made-up data, with certificates.

The task is word segmentation from a Zipf lexicon (`data.segmentation_task`): CJK
characters without meaning, words drawn at random. All learners see the same features,
each with weights on labels and on pairs of labels.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import data, loops, metrics, theory
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.decode import best_path
from lowrank_jax.features import (
    Encoder,
    num_parameters,
    read_template,
    with_orders,
)
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import bol, mira, mistakes, perceptron
from lowrank_jax.types import Learner, Sentence

__all__ = ["Demo", "Regret", "Result", "run_demo"]

_NUM_PASSES = 8
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
      loss: (num_rounds,) running sum of the learner's losses.
      bound: (num_rounds,) what the certificate allows it to be.
      comparator: (num_rounds,) running sum of the losses of a fixed model.
      certificate: total regret, its bound and the slack.
    """

    name: str
    loss: np.ndarray
    bound: np.ndarray
    comparator: np.ndarray
    certificate: theory.Certificate


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
      seconds: of everything.
    """

    train: Corpus
    test: Corpus
    num_words: int
    results: list[Result]
    regrets: list[Regret]
    spectra: dict[str, np.ndarray]
    seconds: float


class _Task(NamedTuple):
    """The data, ready for the device."""

    encoder: Encoder
    train: loops.Stream
    test_corpus: Corpus
    test: loops.Stream


class _Run(NamedTuple):
    """A finished run; `results` has one entry for each way to end it."""

    state: Any
    trace: Any
    params: Any  # of the last way
    results: list[Result]


def run_demo(tell: Callable[[Result], None]) -> Demo:
    """Train all learners; `tell` hears of each as it ends."""
    began = time.perf_counter()
    train, test, lexicon = data.segmentation_task(
        1000, 300, seed=_SEED, num_characters=80, num_words=1200
    )
    template = with_orders(read_template("segmentation"), "both")
    encoder, sequences = Encoder.fit_transform(train, template)
    test_stream = loops.stream(encoder.transform(test))
    task = _Task(encoder, loops.stream(sequences), test, test_stream)

    def run(model: Any, learner: Learner, ends: dict[str, _End]) -> _Run:
        done = _run(task, model, learner, ends)
        for result in done.results:
            tell(result)
        return done

    first = run(
        linear,
        perceptron.learner(),
        {
            "sp": _End("structured perceptron", lambda state: state.params),
            "averaged sp": _End("the same, averaged", perceptron.final_params),
        },
    )
    second = run(linear, mira.learner(), {"mira": _End("MIRA", mira.final_params)})
    third = run(
        bilinear,
        bol.learner(variant="paper"),
        {"bol paper": _End("rank 1, as in the paper", bol.final_params)},
    )
    # The averaged perceptron is the fixed model that the regret is against.
    fixed = first.params
    block = run(
        bilinear,
        _watched(bol.learner(variant="block"), bilinear, fixed),
        {"bol block": _End("rank 1 in each block", bol.final_params)},
    )
    again = _run(task, linear, _watched(perceptron.learner(), linear, fixed), {})
    return Demo(
        train=train,
        test=test,
        num_words=len(lexicon.words),
        results=[r for done in (first, second, third, block) for r in done.results],
        regrets=[
            _regret("sp", again, again.state.conjugate, _penalty(fixed, "frobenius")),
            _regret(
                "bol block",
                block,
                bol.conjugate(block.state),
                _penalty(fixed, "nuclear"),
            ),
        ],
        spectra={
            "sp: the weights": _energy(again.state.params.first),
            "bol block: the dual": _energy(block.state.blocks),
        },
        seconds=time.perf_counter() - began,
    )


class _End(NamedTuple):
    """A way from the last state to a model."""

    about: str
    final_params: Callable[[Any], Any]


def _run(task: _Task, model: Any, learner: Learner, ends: dict[str, _End]) -> _Run:
    """Train, and score each way to end on the test data after every pass."""
    names = np.array(task.encoder.labels, dtype=object)
    finish = {name: jax.jit(end.final_params) for name, end in ends.items()}
    predict = jax.jit(functools.partial(loops.predict, model.scores))
    gold, offsets = task.test_corpus.labels, task.test_corpus.offsets
    assert gold is not None
    passes, traces = [], []
    f1: dict[str, list[float]] = {name: [] for name in ends}
    predicted, params = {}, None
    for done in loops.passes(
        learner, task.train, key=jax.random.key(_SEED), num_passes=_NUM_PASSES
    ):
        passes.append(done)
        traces.append(done.trace)
        for name in ends:
            params = finish[name](done.state)
            predicted[name] = names[np.asarray(predict(params, task.test))]
            scores = metrics.word_scores_from_labels(gold, predicted[name], offsets)
            f1[name].append(scores.f1)
    trace = jax.tree.map(lambda *parts: np.concatenate(parts), *traces)
    infos = [t[0] if type(t) is tuple else t for t in traces]
    results = [
        Result(
            name=name,
            about=end.about,
            mistakes=[int(info.is_mistake.sum()) for info in infos],
            f1=f1[name],
            accuracy=metrics.token_accuracy(gold, predicted[name]),
            num_parameters=_num_parameters(task.encoder, model),
            seconds=sum(done.seconds for done in passes),
            compile_seconds=sum(done.compile_seconds for done in passes),
            predicted=predicted[name],
        )
        for name, end in ends.items()
    ]
    return _Run(done.state, trace, params, results)


def _num_parameters(encoder: Encoder, model: Any) -> int:
    return num_parameters(
        encoder.space,
        model="linear" if model is linear else "bilinear",
        num_zero_order=encoder.num_zero_order,
        num_first_order=encoder.num_first_order,
    )


def _watched(learner: Learner, model: Any, fixed: linear.Params) -> Learner:
    """Note beside each round the margin of a fixed linear model, <U, dPhi_t>."""

    def update(state: Any, example: Sentence) -> tuple[Any, Any]:
        scores = model.scores(state.params, example)
        predicted = best_path(scores, example.length).labels
        differences = mistakes.find(example, predicted)
        margin = mistakes.margin(linear.scores(fixed, example), example, differences)
        state, info = learner.update(state, example)
        return state, (info, margin)

    return Learner(learner.init, update)


def _penalty(fixed: linear.Params, norm: str) -> float:
    r"""Return :math:`F^{**}(U)`, half a sum of squared norms over the blocks.

    Of a block it is the Frobenius norm for the perceptron and the trace norm for rank-1
    blocks (DR-B6); of weights on labels it is the Euclidean norm for both.
    """
    assert fixed.zero is not None and fixed.first is not None
    assert fixed.transitions is not None
    values = jnp.linalg.svd(fixed.first, compute_uv=False)
    squares = values.sum(1) ** 2 if norm == "nuclear" else (values**2).sum(1)
    total = squares.sum() + (fixed.zero**2).sum() + (fixed.transitions**2).sum()
    return float(total) / 2


def _regret(name: str, run: _Run, conjugate: jax.Array, penalty: float) -> Regret:
    r"""Compare the losses of a run with C = 1 with their certificate (DR-B4).

    For :math:`U = cU_0` the certificate bounds the summed loss by
    :math:`\sum_t[1 - c\langle U_0, \Delta\Phi^t\rangle]_+ + c^2F^{**}(U_0) + \sum B_t`;
    taken is the c that makes it least.
    """
    info, watched = run.trace
    is_mistake = np.asarray(info.is_mistake)
    margin = np.where(is_mistake, np.asarray(info.margin, np.float64), 0)
    fixed = np.asarray(watched, np.float64)

    def losses(size: float) -> np.ndarray:
        return np.where(is_mistake, np.maximum(1 - size * fixed, 0), 0)

    sizes = np.geomspace(1e-3, 10, 200)
    bounds = [losses(size).sum() + size**2 * penalty for size in sizes]
    size = float(sizes[int(np.argmin(bounds))])
    certificate = theory.regret_certificate(
        jnp.asarray(margin, jnp.float32),
        jnp.asarray(is_mistake),
        step_size=1.0,
        conjugate=conjugate,
        comparator_losses=jnp.asarray(losses(size), jnp.float32),
        comparator_penalty=jnp.asarray(size**2 * penalty, jnp.float32),
    )
    comparator = np.cumsum(losses(size))
    bregman = np.cumsum(np.asarray(info.bregman, np.float64))
    return Regret(
        name=name,
        loss=np.cumsum(np.where(is_mistake, 1 - margin, 0)),
        bound=comparator + size**2 * penalty + bregman,
        comparator=comparator,
        certificate=certificate,
    )


def _energy(blocks: jax.Array | None) -> np.ndarray:
    """Share of the squared entries that the best blocks of rank 1, 2, ... hold."""
    assert blocks is not None
    values = np.linalg.svd(np.asarray(blocks, np.float64), compute_uv=False)
    energy = (values**2).sum(axis=0)
    return np.cumsum(energy) / energy.sum()
