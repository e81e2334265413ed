"""Small runs that show what the statements say: the arrays behind the plots.

All runs are in double precision on generated problems. Numbers that a learner only
estimates along its way (singular values, conjugates) are computed exactly here.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from lowrank_jax import loops, streams, theory
from lowrank_jax.batch.sblr import bcpd
from lowrank_jax.batch.smm import fobos
from lowrank_jax.data import lists
from lowrank_jax.data.bisymbols import alphabet_of, encode_words
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.data.made.matrices import dense_task
from lowrank_jax.data.made.sentences import bilinear_task
from lowrank_jax.data.made.words import spelling_task
from lowrank_jax.linalg import penalties
from lowrank_jax.models import bilinear
from lowrank_jax.models.tensor import Shape
from lowrank_jax.online import bol, perceptron, tensor_mira
from lowrank_jax.online.bol import dense
from lowrank_jax.streams.words import Lattice
from lowrank_jax.theory.bol.regret import AlongRounds, along_rounds, segment_ratio
from lowrank_jax.theory.sblr.limits import fixed_sweep
from lowrank_jax.types import Learner
from lowrank_jax.verify.statement import cheaply

__all__ = [
    "Curves",
    "Descent",
    "Duals",
    "Gap",
    "Rounds",
    "compute",
    "descent",
    "duality_gap",
    "duals",
    "regrets",
    "tensor_rounds",
]
__dir__ = __all__.copy

LEARNERS = ("sp", "bol block", "bol paper", "bol exact")
STEPS = ("paper", "exact", "bcd")


class Duals(NamedTuple):
    """A sequence learner, after each round: (num_rounds,)."""

    mistakes: np.ndarray  # M, summed up
    conjugate: np.ndarray  # F*(Theta_t), exact, at C = 1
    best_step_size: np.ndarray  # C* = M / 2f (DR-B8)
    best_dual: np.ndarray  # M^2 / 4f
    ratio: np.ndarray  # sigma_2 / sigma_1 of Theta as one matrix
    blocks_in_use: np.ndarray  # participation number of the blocks of W

    @property
    def dual(self) -> np.ndarray:
        """The dual objective at C = 1 (BOL-N1)."""
        return self.mistakes - self.conjugate


class Descent(NamedTuple):
    """A run of sparse bilinear logistic regression: (num_sweeps,)."""

    objective: np.ndarray  # F after each sweep
    limit: float  # F where the run ends up
    distance: np.ndarray  # from U, V and b to that end
    predicted_rate: float  # contraction of the distance, sweep by sweep (DR-S6)


class Gap(NamedTuple):
    """A run of spectral tagging: (num_iterations,)."""

    objective: np.ndarray
    best: np.ndarray  # the least so far
    lower_bound: np.ndarray  # on the optimum (DR-M2), the best so far


class Rounds(NamedTuple):
    """The rounds with a mistake of a run of Tensor-MIRA."""

    before: np.ndarray  # objective (3) as the round begins
    after: np.ndarray  # and as it ends


class Curves(NamedTuple):
    """All of them."""

    regret: AlongRounds  # (num_rounds,) each
    duals: dict[str, Duals]  # by learner
    descent: Descent
    gap: Gap
    rounds: dict[str, Rounds]  # by step


def compute(seed: int = 0) -> Curves:
    """Run everything; some seconds."""
    return Curves(
        regret=regrets(seed),
        duals=duals(seed),
        descent=descent(seed),
        gap=duality_gap(seed),
        rounds=tensor_rounds(seed),
    )


def regrets(seed: int = 0, *, num_rounds: int = 250) -> AlongRounds:
    """Run mirror descent on dense matrices: regret against the planted weights."""
    train, _, truth = dense_task(
        num_rounds, 1, seed=seed, shape=(6, 5), noise=0.1, dtype=np.float64
    )
    learner = dense.learner()

    def update(state: dense.State, example: dense.Choice) -> tuple:
        after, info = learner.update(state, example)
        push = after.theta - state.theta
        return after, (info, push, segment_ratio(state.theta, push, num_cells=48))

    @cheaply
    def program(x: jax.Array, y: jax.Array, planted: jax.Array) -> AlongRounds:
        stream = streams.Stacked(jax.vmap(dense.binary)(x, y))
        state = learner.init(jax.random.key(0), stream.example(0))
        watched: Learner = Learner(learner.init, update)
        order = jnp.arange(stream.num_examples, dtype=jnp.int32)
        _, (info, push, ratio) = loops.run(watched, state, stream, order)
        # U: the planted direction, at the size where its loss and its norm are least.
        margins = jnp.einsum("tmn,mn->t", push, planted)
        sizes = jnp.geomspace(1e-2, 1e2, 400)
        hinges = jax.nn.relu(1 - sizes[:, None] * margins[None])
        losses = jnp.where(info.is_mistake[None], hinges, 0)
        penalties = sizes**2 / 2
        best = (losses.sum(1) + penalties).argmin()
        return along_rounds(
            info,
            step_size=1.0,
            comparator_losses=losses[best],
            comparator_penalty=penalties[best],
            squared_norm=info.squared_norm,
            ratio=ratio,
            num_values=5,
        )

    with jax.enable_x64(True):
        found = program(train.x, train.y, np.outer(truth.left, truth.right))
        return jax.device_get(found)


def duals(
    seed: int = 0, *, names: Sequence[str] = LEARNERS, num_passes: int = 5
) -> dict[str, Duals]:
    """Run sequence learners: their dual, its spectrum and the blocks they use."""
    train, _, _ = bilinear_task(80, 1, seed=seed)
    rng = np.random.default_rng(seed)
    order = np.concatenate(
        [rng.permutation(train.num_sentences) for _ in range(num_passes)]
    ).astype(np.int32)
    with jax.enable_x64(True):
        corpus = streams.sentences.stream(train)
        learners = {name: _watched(name, train.space.num_labels) for name in names}
        return {
            name: jax.device_get(cheaply(_dual_run(learner))(corpus, order))
            for name, learner in learners.items()
        }


def _dual_run(
    learner: Learner,
) -> Callable[[streams.sentences.Stream, jax.Array], Duals]:
    def program(corpus: streams.sentences.Stream, order: jax.Array) -> Duals:
        state = learner.init(jax.random.key(0), corpus.example(0))
        _, (is_mistake, conjugate, *rest) = loops.run(learner, state, corpus, order)
        mistakes = jnp.cumsum(is_mistake).astype(conjugate.dtype)
        best = theory.best_step_size(mistakes, conjugate)
        parts: Any = (mistakes, conjugate, *best, *rest)
        return Duals(*parts)

    return program


def _watched(name: str, num_labels: int) -> Learner:
    """Return a learner with exact numbers of its state instead of `Info`."""
    given: dict[str, Any] = {"averaging": "none", "dtype": jnp.float64}
    given["dual"] = "dense"
    if name != "sp":
        given["variant"] = name.removeprefix("bol ")
    if name == "bol paper":
        given["divisor"] = "global"
    learner = perceptron.learner(**given) if name == "sp" else bol.learner(**given)
    conjugate: Callable[[jax.Array], jax.Array] = {
        "sp": lambda values: (values * values).sum() / 2,
        "bol block": lambda values: (values[:, 0] ** 2).sum() / 2,  # DR-B6
    }.get(name, lambda values: values.max() ** 2 / 2)  # BOL-P1

    def update(state: Any, example: Any) -> tuple[Any, tuple]:
        state, info = learner.update(state, example)
        if name == "sp":
            blocks = state.params.first
            sizes = (blocks * blocks).sum((1, 2))
        else:
            blocks = state.blocks
            rows = bilinear.split(state.params.table, num_labels)
            parts = (rows.left, rows.right)
            sizes = jnp.stack([(part**2).sum((1, 2)) for part in parts]).prod(0)
        values = jnp.linalg.svd(blocks, compute_uv=False)
        two = lax.top_k(values.ravel(), 2)[0]
        ratio = two[1] / jnp.where(two[0] > 0, two[0], 1)
        squares = (sizes**2).sum()
        in_use = sizes.sum() ** 2 / jnp.where(squares > 0, squares, 1)
        return state, (info.is_mistake, conjugate(values), ratio, in_use)

    return Learner(learner.init, update)


def descent(seed: int = 0, *, num_sweeps: int = 1500) -> Descent:
    """Run Algorithm 2 to its end, and predict the rate at which it came there."""
    train, _, _ = dense_task(
        60, 1, seed=seed, shape=(8, 6), perturbation=0.3, noise=0.1, dtype=np.float64
    )
    penalty = penalties.elastic_net(l1=0.01, l2=0.05)
    learner = bcpd.learner(
        left_penalty=penalty,
        right_penalty=penalty,
        step="tight",
        start="label",
        tolerance=0.0,
    )

    @cheaply
    def program(labelled: streams.matrices.Labelled) -> tuple:
        def one(state: bcpd.State, _: None) -> tuple:
            state, info = learner.update(state, labelled)
            return state, (info, ravel_pytree(state.params)[0])

        state = learner.init(jax.random.key(0), labelled)
        trace: tuple
        state, trace = lax.scan(one, state, length=num_sweeps)
        info, points = trace
        _, restore = ravel_pytree(state.params)

        def sweep(vector: jax.Array) -> jax.Array:
            moved = fixed_sweep(
                restore(vector),
                labelled,
                penalty,
                penalty,
                left_constant=info.left_constant[-1],
                right_constant=info.right_constant[-1],
            )
            return ravel_pytree(moved)[0]

        return info.objective, points, jax.jacfwd(sweep)(points[-1])

    with jax.enable_x64(True):
        assert train.y is not None
        labelled, _ = streams.matrices.label_matrices(train.x, train.y > 0)
        objective, points, jacobian = jax.device_get(program(labelled))
    distance = np.linalg.norm(points - points[-1:], axis=1)
    rate = float(np.abs(np.linalg.eigvals(jacobian)).max())  # DR-S6
    end = int((distance > 1e-11 * distance[0]).sum())  # beyond it rounding takes over
    return Descent(objective[:end], float(objective[-1]), distance[:end], rate)


def duality_gap(seed: int = 0, *, num_iterations: int = 300) -> Gap:
    """Run spectral tagging on generated words, with the lower bound on its optimum."""
    corpus, _, _ = spelling_task(40, 1, seed=seed, num_letters=4, lengths=(2, 6))
    alphabet = alphabet_of(corpus)
    learner = fobos.learner(strength=2.0, step_size=0.3, gap_every=1, dtype=jnp.float64)

    @cheaply
    def program(lattice: Lattice) -> fobos.Info:
        def one(state: fobos.State, _: None) -> tuple:
            return learner.update(state, lattice)

        state = learner.init(jax.random.key(0), lattice)
        return lax.scan(one, state, length=num_iterations)[1]

    with jax.enable_x64(True):
        lattice = streams.words.lattice(alphabet, encode_words(alphabet, corpus))
        trace = jax.device_get(program(lattice))
    return Gap(trace.objective, trace.best_objective, trace.lower_bound)


def tensor_rounds(
    seed: int = 0, *, steps: Sequence[str] = STEPS, num_lists: int = 300
) -> dict[str, Rounds]:
    """Run Tensor-MIRA with each of its steps: objective (3) of every round."""
    train, _, truth = reranking_task(
        num_lists, 1, seed=seed, sizes=(6, 6), rank=2, noise=0.2
    )
    shape = Shape((6, 6), 2)
    order = np.arange(num_lists, dtype=np.int32)

    def run(step: Any) -> Callable[[streams.lists.Stream, jax.Array], Any]:
        learner = tensor_mira.learner(
            shape=shape,
            step=step,
            start="random",
            max_step_size=0.3,
            dtype=jnp.float64,
        )

        def program(stream: streams.lists.Stream, order: jax.Array) -> tensor_mira.Info:
            key = jax.random.key(0)
            state = learner.init(key, stream.example(0))
            return loops.run(learner, state, stream, order)[1]

        return program

    found = {}
    with jax.enable_x64(True):
        stream = streams.lists.stream(lists.remap(train, truth.place, shape.num_cells))
        for step in steps:
            info = jax.device_get(cheaply(run(step))(stream, order))
            parts = (info.objective, info.objective_after)
            found[step] = Rounds(*(part[info.is_mistake] for part in parts))
    return found
