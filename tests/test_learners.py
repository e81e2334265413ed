"""The contract every learner keeps: one set of tests visits them all."""

import functools
import inspect
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.sblr.learners import sparse_newton
from experiments.smm.learners import (
    latent_svm,
    stochastic,
    tied,
    trigram_crf,
    trigram_perceptron,
)
from lowrank_jax import streams
from lowrank_jax.batch import crf
from lowrank_jax.batch.sblr import bcpd, fista
from lowrank_jax.batch.smm import fobos, smoothed
from lowrank_jax.data import dense_task
from lowrank_jax.data.bisymbols import Words
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.models.tensor import Shape
from lowrank_jax.online import bcd, bol, mira, perceptron, rerank, tensor_mira
from lowrank_jax.online.bol import dense
from lowrank_jax.streams.matrices import label_matrices
from lowrank_jax.types import Learner
from tests.batch.smm import test_fobos as words
from tests.online.tasks import random_task


class Case(NamedTuple):
    """A learner with fixed settings, its real hyper-parameter and its examples."""

    module: object
    settings: dict
    hyperparameter: str
    examples: object  # dtype -> examples, stacked over rounds
    is_variant: bool = False  # of what another case, or its own tests, visit in full


def sentences(dtype):
    del dtype  # ids are integers: the dtype is the learner's
    sequences = random_task(("01", "0", "1"), has_transitions=True)
    corpus = streams.sentences.stream(sequences)
    rounds = jnp.arange(sequences.num_sentences, dtype=jnp.int32)
    return jax.vmap(lambda i: corpus.example(i))(rounds)


def matrices(dtype):
    train, _, _ = dense_task(20, 5, seed=0, shape=(5, 4), noise=0.2)
    x, y = jnp.asarray(train.x, dtype), jnp.asarray(train.y, dtype)
    return jax.vmap(dense.binary)(x, y)


def whole_corpora(dtype):
    del dtype
    sequences = random_task(
        ("01", "0"), has_transitions=True, num_sentences=3, max_length=3
    )
    lanes = streams.lanes.lanes(sequences)
    return jax.tree.map(lambda part: jnp.stack([jnp.asarray(part)] * 3), lanes)


def labelled_matrices(dtype):
    train, _, _ = dense_task(20, 5, seed=0, shape=(5, 4), noise=0.2)
    labelled, _ = label_matrices(jnp.asarray(train.x, dtype), train.y)
    return jax.tree.map(lambda part: jnp.stack([part] * 3), labelled)


def candidate_lists(dtype):
    del dtype  # values are float32: the dtype is the learner's
    lists, _, _ = reranking_task(8, 1, seed=0, sizes=(4, 5), num_active=(2, 6))
    corpus = streams.lists.stream(lists)
    rounds = jnp.arange(lists.num_lists, dtype=jnp.int32)
    return jax.vmap(lambda i: corpus.example(i))(rounds)


def lattices(dtype):
    del dtype
    _, _, lattice = words.task()
    return jax.tree.map(lambda part: jnp.stack([jnp.asarray(part)] * 3), lattice)


def lattice_batches(dtype):
    del dtype
    alphabet, few, _ = words.task()
    return jax.tree.map(
        jnp.asarray, streams.words.batches(alphabet, few, num_batches=3)
    )


def latent_words(dtype):
    del dtype
    alphabet, few, _ = words.task()
    data = latent_svm.padded_words(alphabet, few)
    return jax.tree.map(lambda part: jnp.stack([part] * 3), data)


def three_words():
    alphabet, few, _ = words.task()
    parts = (few.letters, few.candidates, few.mask, few.gold, few.lengths)
    return alphabet, Words(*(part[2:5] for part in parts))


def trigram_lattices(dtype):
    del dtype
    data = trigram_crf.lettered_lattice(*three_words())
    return jax.tree.map(lambda part: jnp.stack([jnp.asarray(part)] * 3), data)


def trigram_words(dtype):
    del dtype
    return trigram_perceptron.stream(*three_words()).examples


#: Examples of learners that take all of a corpus at once.
WHOLE_CORPUS = (
    whole_corpora,
    labelled_matrices,
    lattices,
    latent_words,
    trigram_lattices,
)

SHORT_SEARCH = {"memory_size": 2, "max_evaluations": 3}

CASES = {
    "perceptron": Case(perceptron, {}, "step_size", sentences),
    "mira": Case(mira, {}, "max_step_size", sentences),
    "bol block": Case(bol, {}, "step_size", sentences),
    "bol rank 2": Case(
        bol, {"rank": 2, "averaging": "factors"}, "step_size", sentences, True
    ),
    "bol paper": Case(bol, {"variant": "paper"}, "step_size", sentences),
    "bol exact": Case(bol, {"variant": "exact"}, "step_size", sentences, True),
    "bcd": Case(bcd, {"num_rounds_per_block": 5}, "max_step_size", sentences),
    "crf l2": Case(crf, SHORT_SEARCH, "strength", whole_corpora),
    "crf l1": Case(
        crf, SHORT_SEARCH | {"penalty": "l1"}, "strength", whole_corpora, True
    ),
    "bcpd": Case(bcpd, {"mu1": 0.01, "growth": 4.0}, "nu2", labelled_matrices),
    "fista": Case(
        fista, {"step": "backtracking", "restart": True}, "l2", labelled_matrices
    ),
    "rerank": Case(rerank, {}, "max_step_size", candidate_lists),
    "tensor_mira": Case(
        tensor_mira,
        {
            "shape": Shape((2, 2, 5), 2),
            "step": "bcd",
            "start": "random",
            "averaging": "average",
        },
        "max_step_size",
        candidate_lists,
    ),
    "fobos": Case(
        fobos,
        {"svt": "truncated", "max_rank": 3, "unfolding": "both"},
        "step_size",
        lattices,
    ),
    "stochastic_fobos": Case(
        stochastic,
        {"num_batches": 3, "prox_every": 2},
        "strength",
        lattice_batches,
    ),
    "tied_fobos": Case(
        tied, {"ties": "exact", "max_prox_steps": 3}, "strength", lattices
    ),
    "smoothed": Case(smoothed, {"first_curvature": 10.0}, "strength", lattices),
    "latent_svm": Case(latent_svm, {"num_inner_steps": 3}, "strength", latent_words),
    # Loops within loops: op by op they take long, and have their own twin.
    "sparse_newton": Case(
        sparse_newton,
        {"l1": 0.05, "working_set": 4, "max_inner_steps": 1},
        "l2",
        labelled_matrices,
        True,
    ),
    # Twelve tables each: op by op they take long, and have their own twins.
    "trigram_crf": Case(trigram_crf, SHORT_SEARCH, "strength", trigram_lattices, True),
    "trigram_perceptron": Case(
        trigram_perceptron, {}, "step_size", trigram_words, True
    ),
    "bol_dense exact": Case(dense, {}, "step_size", matrices),
    "bol_dense power": Case(
        dense,
        {"variant": "power", "averaging": "factors"},
        "step_size",
        matrices,
        True,
    ),
    "bol_dense frobenius": Case(
        dense,
        {"variant": "frobenius", "averaging": "dual"},
        "step_size",
        matrices,
        True,
    ),
}


def build(case, dtype, **changes) -> Learner:
    settings = case.settings | changes
    if "dtype" in inspect.signature(case.module.learner).parameters:
        settings = settings | {"dtype": dtype}
    return case.module.learner(**settings)


def start(case, dtype, **changes):
    learner = build(case, dtype, **changes)
    examples = case.examples(dtype)
    first = jax.tree.map(lambda part: part[0], examples)
    return learner, jax.jit(learner.init)(jax.random.key(0), first), examples, first


each_case = pytest.mark.parametrize("name", CASES)


@each_case
def test_module_exports_the_names_of_the_contract(name):
    module = CASES[name].module
    assert {"State", "Info", "learner", "final_params"} <= set(module.__all__)
    assert all(
        parameter.kind is parameter.KEYWORD_ONLY
        for parameter in inspect.signature(module.learner).parameters.values()
    )


def assert_kept(case, dtype, state, new_state, info):
    """Dtype and structure are those of the start, and `Info` holds numbers."""
    chex.assert_trees_all_equal_shapes_and_dtypes(state, new_state)
    floats = [
        leaf
        for leaf in jax.tree.leaves((new_state, info))
        if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    assert {leaf.dtype.name for leaf in floats} == {dtype}
    assert isinstance(new_state, case.module.State)
    assert isinstance(info, case.module.Info)
    assert all(jnp.shape(number) == () for number in jax.tree.leaves(info))


@each_case
def test_rounds_with_x64_off_are_traced_once_keep_dtypes_and_repeat_bit_for_bit(name):
    case = CASES[name]
    with jax.enable_x64(False):
        learner, start_state, examples, _ = start(case, jnp.float32)
        chex.clear_trace_counter()
        update = jax.jit(chex.assert_max_traces(learner.update, n=1))
        num_rounds = jax.tree.leaves(examples)[0].shape[0]

        def run():
            state, infos = start_state, []
            for i in range(num_rounds):
                example = jax.tree.map(lambda part, i=i: part[i], examples)
                state, info = update(state, example)
                infos.append(info)
            return state, infos

        state, infos = run()
        assert_kept(case, "float32", start_state, state, infos[0])
        chex.assert_trees_all_equal((state, infos), run())
        if case.examples in WHOLE_CORPUS:  # `loops.passes` asks for it
            assert infos[0].converged.dtype == bool
        field = "objective" if hasattr(infos[0], "objective") else "loss"
        numbers = [float(getattr(info, field)) for info in infos]
        assert np.isfinite(numbers).all()
        assert len(set(numbers)) > 1  # something was learnt
        if hasattr(state, "num_rounds"):
            assert state.num_rounds == num_rounds


@functools.lru_cache
def update_by_value(name):
    """Compile an update that takes the real hyper-parameter, in double precision."""
    case = CASES[name]

    def update(value, state, example):
        learner = build(case, jnp.float64, **{case.hyperparameter: value})
        return learner.update(state, example)

    return update, jax.jit(update)


@pytest.mark.parametrize("name", [n for n in CASES if not CASES[n].is_variant])
def test_jit_equals_no_jit_in_double_precision(name):
    case = CASES[name]
    _, state, _, first = start(case, jnp.float64)
    plain_update, update = update_by_value(name)
    value = jnp.array(0.5)
    compiled = update(value, state, first)
    assert_kept(case, "float64", state, *compiled)
    with jax.disable_jit():
        plain = plain_update(value, state, first)
    chex.assert_trees_all_close(compiled, plain, rtol=1e-10, atol=1e-12)


@each_case
def test_vmap_over_a_hyperparameter_equals_single_runs(name):
    _, state, examples, _ = start(CASES[name], jnp.float64)
    plain_update, update = update_by_value(name)
    many = jax.jit(jax.vmap(plain_update, in_axes=(0, 0, None)))
    values = jnp.array([0.5, 2.0])
    together = jax.tree.map(lambda part: jnp.stack([part] * 2), state)
    alone = [state, state]
    for k in range(jax.tree.leaves(examples)[0].shape[0]):
        example = jax.tree.map(lambda part, k=k: part[k], examples)
        together, infos = many(values, together, example)
        for i, value in enumerate(values):
            alone[i], info = update(value, alone[i], example)
            picked = jax.tree.map(lambda part, i=i: part[i], (together, infos))
            chex.assert_trees_all_close(picked, (alone[i], info), rtol=1e-8, atol=1e-8)


@each_case
def test_init_and_update_lower_for_every_platform(name):
    learner, state, _, first = start(CASES[name], jnp.float32)
    key = jax.random.key_data(jax.random.key(0))

    def init(data, example):
        return learner.init(jax.random.wrap_key_data(data), example)

    flat_state, state_tree = jax.tree.flatten(state)
    flat_first, first_tree = jax.tree.flatten(first)

    def flat_init(data, *leaves):
        return jax.tree.leaves(init(data, jax.tree.unflatten(first_tree, leaves)))

    def flat_update(leaves, more):
        state = jax.tree.unflatten(state_tree, leaves)
        example = jax.tree.unflatten(first_tree, more)
        return jax.tree.leaves(learner.update(state, example))

    platforms = ("cpu", "cuda", "tpu")
    for function, given in (
        (flat_init, (key, *flat_first)),
        (flat_update, (flat_state, flat_first)),
    ):
        found = jax.export.export(jax.jit(function), platforms=platforms)(*given)
        assert found.platforms == platforms
        # Single precision stays single where double is on.
        floats = [
            a.dtype for a in found.out_avals if jnp.issubdtype(a.dtype, jnp.floating)
        ]
        assert set(floats) == {jnp.dtype(jnp.float32)}
