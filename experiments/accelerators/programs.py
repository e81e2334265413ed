"""What is compiled: every learner's update, decoder and certificate, at full shapes.

Sentences have CoNLL-2000's shapes (8,936 sentences, 19 templates, 22 labels), words
have NETtalk's. Lists are as in ``bench-tm``, matrices as in ``bench-sblr``. Models and
states are shapes only: nothing of them is allocated. Programs that repeat others are
left out: margins of a comparator are losses before their sum, entropies are marginals.
"""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.bench.tm import made_lists
from experiments.smm import words as nettalk
from lowrank_jax import batch, data, decode, features, loops, models, online, streams
from lowrank_jax.batch.sblr import bcpd, fista
from lowrank_jax.batch.smm import fobos, smoothed
from lowrank_jax.certify import comparator, spectrum, unseen
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators import labelling
from lowrank_jax.linalg.svt import svt, truncated_svt
from lowrank_jax.models.tensor import Shape, mode_sizes
from lowrank_jax.streams.matrices import Labelled
from lowrank_jax.theory.bol.regret import Rounds, regret_certificate

__all__ = ["DEVICES", "PROGRAMS", "Program", "Shapes", "shapes_of"]

#: Mean number of positions at which a round of a first pass moves the weights.
POSITIONS = 2.9
SENTENCES = 8936
#: Numbers of devices of the programs that are spread.
DEVICES = (4, 8)


class Program(NamedTuple):
    """One program to compile.

    Attributes:
      function: Function of arrays.
      arguments: Shapes of its arguments.
      num_sentences: Number of sentences, words or lists that one call works on; 0 if
        the program does not work on examples.
      donate: Places of the arguments that results may overwrite.
      trips: Mean number of steps of loops that the data decide.
      shardings: Layout of the arguments on several devices.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    num_sentences: int = 1
    donate: tuple[int, ...] = ()
    trips: dict[str, float] = {}
    shardings: Any = None


class Shapes(NamedTuple):
    """Shapes of the corpora."""

    zero: Any  # stream of sentences, 0-order features and transitions
    first: Any  # stream of sentences, both orders
    lanes: Any
    lattice: Any
    shares: dict[int, Any]  # the lattice in shares, by number of devices
    lists: Any
    trips: dict[str, float]


def shapes_of(data_dir: Path | None = None) -> Shapes:
    """Read the corpora for their shapes.

    Args:
      data_dir: Folder of the data; None takes the usual place.
    """
    corpus = data.read_conll(data.find("conll2000/train.txt.xz", data_dir))
    template = features.read_template("chunking")
    _, zero = features.Encoder.fit_transform(corpus, template)
    first = _first_order(zero)
    split = nettalk.draw_split(nettalk.read_words(data_dir), 0)
    alphabet = data.alphabet_of(split.train)
    words = data.encode_words(alphabet, split.train)
    lengths = np.diff(zero.offsets)
    deal = functools.partial(streams.words.batches, alphabet, words, has_all=True)
    return Shapes(
        zero=_shapes(streams.sentences.stream(zero)),
        first=_shapes(streams.sentences.stream(first)),
        lanes=_shapes(streams.lanes.lanes(zero)),
        lattice=_shapes(streams.words.lattice(alphabet, words)),
        shares={count: _shapes(deal(num_batches=count)) for count in DEVICES},
        lists=_shapes(streams.lists.stream(made_lists(400, num_features=1_333_000))),
        trips={
            "streams/sentences.py": float(np.mean(-(-lengths // 8))),
            "decode/viterbi.py": float(np.mean(lengths)) - 1,
            "online/": POSITIONS,
            "bol/": POSITIONS,
        },
    )


def _first_order(zero: Sequences) -> Sequences:
    orders = ("01",) * len(zero.space.orders)
    space = dataclasses.replace(zero.space, orders=orders, has_transitions=False)
    return dataclasses.replace(zero, space=space)


def _shapes(tree: Any) -> Any:
    return jax.eval_shape(lambda part: part, tree)


def _array(*shape: int, dtype: Any = jnp.float32) -> Any:
    """Return a shape, which stands where an array is declared."""
    return jax.ShapeDtypeStruct(shape, dtype)


def _key() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0))


def _example(stream: Any) -> Any:
    return jax.eval_shape(lambda given: given.example(0), stream)


def _round(learner: Any, stream: Any, trips: dict[str, float]) -> Program:
    example = _example(stream)
    state = jax.eval_shape(learner.init, _key(), example)
    return Program(learner.update, (state, example), 1, (0,), trips)


def _sentences(name: str, learner: Callable[[], Any]) -> Callable[[Shapes], Program]:
    """Return a pass of an online learner of sentences.

    A compiler chooses layouts for a whole program. A round by itself would show changes
    of layout that a pass makes once.
    """

    def build(shapes: Shapes) -> Program:
        stream, made = getattr(shapes, name), learner()
        state = jax.eval_shape(made.init, _key(), _example(stream))
        order = _array(SENTENCES, dtype=jnp.int32)
        function = functools.partial(loops.run, made)
        given = (state, stream, order)
        return Program(function, given, SENTENCES, (0,), shapes.trips)

    return build


def _padded(
    name: str, learner: Callable[..., Any], number: int
) -> Callable[[Shapes], Program]:
    """Return a round of many sentences, in the form of accelerators."""

    def build(shapes: Shapes) -> Program:
        plan = _array(1, number, dtype=jnp.int32)
        batches = online.padded.Batches(getattr(shapes, name), plan)
        made = learner(num_positions=4 * number)
        built = _round(made, batches, {})
        return built._replace(num_sentences=number)

    return build


def _rerank(shapes: Shapes) -> Program:
    return _round(online.rerank.learner(), shapes.lists, {})


def _tensor(shapes: Shapes) -> Program:
    shape = Shape(mode_sizes(shapes.lists.num_features, 2))
    # A tensor learner takes ids as cells, and the tensor has some cells more.
    cells = dataclasses.replace(shapes.lists, num_features=shape.num_cells)
    return _round(online.tensor_mira.learner(shape=shape, step="bcd"), cells, {})


def _whole(
    part: Callable[[Shapes], Any], learner: Callable[[], Any], number: int
) -> Callable[[Shapes], Program]:
    """Return an iteration of a batch learner."""

    def build(shapes: Shapes) -> Program:
        given, made = part(shapes), learner()
        state = jax.eval_shape(made.init, _key(), given)
        return Program(made.update, (state, given), number, (0,))

    return build


def _matrices(count: int, rows: int, columns: int) -> Callable[[Shapes], Labelled]:
    def part(shapes: Shapes) -> Labelled:
        del shapes
        x = _array(count, rows, columns)
        turned = _array(count, columns, rows)
        is_small = 4 * count * rows * columns <= streams.matrices.SMALL
        sizes = _array(count, 1), _array(count)
        return Labelled(x, *sizes, turned if is_small else None)

    return part


def _start(part: Callable[[Shapes], Any]) -> Callable[[Shapes], Program]:
    def build(shapes: Shapes) -> Program:
        learner = bcpd.learner(rank=2, mu1=0.01, nu1=0.01)
        return Program(learner.init, (_key(), part(shapes)), 0)

    return build


def _bol_state(shapes: Shapes, **settings: Any) -> Any:
    learner = online.bol.learner(**{"averaging": "dual"} | settings)
    return jax.eval_shape(learner.init, _key(), _example(shapes.first))


def _bilinear(shapes: Shapes) -> Any:
    zeros = functools.partial(models.bilinear.zeros, rank=1, dtype=jnp.float32)
    return jax.eval_shape(lambda: zeros(shapes.first.space))


def _linear(shapes: Shapes) -> Any:
    zeros = models.linear.zeros
    return jax.eval_shape(lambda: zeros(shapes.zero.space, jnp.float32))


def _predict(name: str) -> Callable[[Shapes], Program]:
    def build(shapes: Shapes) -> Program:
        model: Any = getattr(models, name)
        params = _linear(shapes) if name == "linear" else _bilinear(shapes)
        stream = shapes.zero if name == "linear" else shapes.first
        function = functools.partial(labelling.predict, model.scores)
        return Program(function, (params, stream), SENTENCES, (), shapes.trips)

    return build


def _predict_batch(name: str) -> Callable[[Shapes], Program]:
    def build(shapes: Shapes) -> Program:
        model: Any = getattr(models, name)
        params = _linear(shapes) if name == "linear" else _bilinear(shapes)
        space = shapes.zero.space if name == "linear" else shapes.first.space
        ids = _array(682, 24, 19, dtype=jnp.int32)

        def one(params: Any, ids: jax.Array, lengths: jax.Array) -> jax.Array:
            return labelling._predict_padded(model, params, ids, lengths, space, None)

        return Program(one, (params, ids, _array(682, dtype=jnp.int32)), 682)

    return build


def _decoder(
    function: Callable[..., Any], *, is_batch: bool = False, is_shared: bool = False
) -> Callable[[Shapes], Program]:
    """Return a decoder of one sentence, or of 64 sentences."""

    def build(shapes: Shapes) -> Program:
        lead = (64, 80) if is_batch else (80,)
        pairs = (22, 23) if is_shared else (*lead, 22, 24)
        scores = decode.Scores(_array(*lead, 22), _array(*pairs))
        lengths = _array(*lead[:-1], dtype=jnp.int32)
        number = 64 if is_batch else 1
        return Program(function, (scores, lengths), number, (), shapes.trips)

    return build


def _sample(scores: decode.Scores, length: jax.Array) -> jax.Array:
    return decode.sample_path(jax.random.key(0), scores, length)


def _lattice_paths(function: Callable[..., Any]) -> Callable[[Shapes], Program]:
    def build(shapes: Shapes) -> Program:
        table = _array(*(shapes.lattice.num_symbols,) * 3)
        return Program(function, (table, shapes.lattice), shapes.lattice.num_words)

    return build


def _svt(rows: int, columns: int, method: str) -> Callable[[Shapes], Program]:
    def build(shapes: Shapes) -> Program:
        del shapes
        matrix, tau = _array(rows, columns), _array()
        if method == "truncated":
            return Program(truncated_svt, (matrix, tau, _array(columns, 24)), 0)
        return Program(functools.partial(svt, method=method), (matrix, tau), 0)

    return build


def _gradient(shapes: Shapes) -> Program:
    function = batch.crf.negative_log_likelihood
    return Program(function, (_linear(shapes), shapes.lanes), SENTENCES)


def _theta(shapes: Shapes) -> Program:
    blocks = _bol_state(shapes).blocks
    function = functools.partial(spectrum._theta_of, prior=None, num_labels=22)
    return Program(
        lambda blocks, ids: function(blocks, ids), (blocks, _array(4096, dtype="int32"))
    )


def _losses(shapes: Shapes) -> Program:
    given = (_bilinear(shapes), shapes.first)
    return Program(unseen._losses, given, SENTENCES, (), shapes.trips)


def _penalty(shapes: Shapes) -> Program:
    space = dataclasses.replace(shapes.first.space, has_transitions=True)
    params = jax.eval_shape(lambda: models.linear.zeros(space, jnp.float32))

    def function(params: Any) -> jax.Array:
        return comparator.penalty(params, space, variant="block")

    return Program(function, (params,), 0)


def _regret(shapes: Shapes) -> Program:
    del shapes
    each = _array(SENTENCES)

    def function(trace: Rounds, losses: jax.Array, numbers: jax.Array) -> Any:
        return regret_certificate(
            trace,
            step_size=1.0,
            conjugate=numbers[0],
            comparator_losses=losses,
            comparator_penalty=numbers[1],
        )

    trace = Rounds(each, _array(SENTENCES, dtype=bool), each, each, each)
    return Program(function, (trace, each, _array(2)), 0)


#: Name of each program to the function that builds it, the most important first.
PROGRAMS: dict[str, Callable[[Shapes], Program]] = {
    **{
        f"online.padded.{kind}, {number} sentences": _padded(part, learner, number)
        for kind, part, learner in (
            ("bol", "first", online.padded.bol),
            ("perceptron", "zero", online.padded.perceptron),
        )
        for number in (64, 256)
    },
    "online.bol block, a pass": _sentences("first", online.bol.learner),
    "online.perceptron, a pass": _sentences("zero", online.perceptron.learner),
    "online.mira, a pass": _sentences("zero", online.mira.learner),
    "bol.final_params": lambda shapes: Program(
        online.bol.final_params, (_bol_state(shapes),), 0
    ),
    "predict_batch, linear, 682 x 24": _predict_batch("linear"),
    "predict_batch, bilinear, 682 x 24": _predict_batch("bilinear"),
    "predict, bilinear, the corpus": _predict("bilinear"),
    "decode.best_path": _decoder(decode.best_path),
    "decode.best_path_batch, 64 x 80, shared": _decoder(
        decode.best_path_batch, is_batch=True, is_shared=True
    ),
    "decode.best_path_batch, 64 x 80": _decoder(decode.best_path_batch, is_batch=True),
    "decode.marginals_batch, 64 x 80": _decoder(decode.marginals_batch, is_batch=True),
    "decode.k_best_paths, k = 5": _decoder(
        lambda scores, length: decode.k_best_paths(scores, 5, length)
    ),
    "decode.marginals": _decoder(decode.marginals),
    "decode.sample_path": _decoder(_sample),
    "batch.crf, gradient": _gradient,
    "batch.sblr.bcpd 64 x 1000 x 1000, start": _start(_matrices(64, 1000, 1000)),
    "batch.sblr.bcpd 64 x 1000 x 1000, an iteration": _whole(
        _matrices(64, 1000, 1000), lambda: bcpd.learner(rank=2, mu1=0.01, nu1=0.01), 64
    ),
    "batch.sblr.bcpd 316 x 28 x 50, an iteration": _whole(
        _matrices(316, 28, 50), lambda: bcpd.learner(rank=2, mu1=0.01, nu1=0.01), 316
    ),
    "batch.sblr.fista 316 x 28 x 50, an iteration": _whole(
        _matrices(316, 28, 50), lambda: fista.learner(l1=0.01), 316
    ),
    "batch.smm.fobos, an iteration": _whole(
        lambda shapes: shapes.lattice, fobos.learner, 15000
    ),
    "batch.smm.smoothed, an iteration": _whole(
        lambda shapes: shapes.lattice, smoothed.learner, 15000
    ),
    "decode.best_paths, words": _lattice_paths(decode.best_paths),
    "decode.smooth_maximum, words": _lattice_paths(
        functools.partial(decode.smooth_maximum, smoothing=0.1)
    ),
    "online.rerank, a round": _rerank,
    "online.tensor_mira, a round": _tensor,
    "certify.conjugate, 4,096 blocks": _theta,
    "certify, losses of a model": _losses,
    "certify, penalty of a comparator": _penalty,
    "certify, regret": _regret,
    "online.bol paper, a pass": _sentences(
        "first", lambda: online.bol.learner(variant="paper")
    ),
    "online.bol exact, a pass": _sentences(
        "first", lambda: online.bol.learner(variant="exact")
    ),
    "online.bcd, a pass": _sentences("first", online.bcd.learner),
    "online.bol block, dual='dense', a pass": _sentences(
        "first", lambda: online.bol.learner(dual="dense")
    ),
    "batch.crf l2, an iteration": _whole(
        lambda shapes: shapes.lanes, batch.crf.learner, SENTENCES
    ),
    "batch.crf l1, an iteration": _whole(
        lambda shapes: shapes.lanes, lambda: batch.crf.learner(penalty="l1"), SENTENCES
    ),
    "linalg.svt gram 20000 x 128": _svt(20000, 128, "gram"),
    "linalg.svt svd 20000 x 128": _svt(20000, 128, "svd"),
    "linalg.truncated_svt 20000 x 128": _svt(20000, 128, "truncated"),
}
