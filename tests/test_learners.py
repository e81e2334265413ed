"""The contract every learner keeps: one set of tests visits them all."""

from typing import NamedTuple

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
from lowrank_jax import streams, testing
from lowrank_jax.batch import crf
from lowrank_jax.batch.sblr import bcpd, fista
from lowrank_jax.batch.smm import fobos, smoothed
from lowrank_jax.checks import InputError
from lowrank_jax.data import dense_task
from lowrank_jax.data.bisymbols import Words
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.linalg import mirror
from lowrank_jax.models.tensor import Shape
from lowrank_jax.online import (
    bcd,
    bol,
    mira,
    mirror_descent,
    perceptron,
    rerank,
    tensor_mira,
)
from lowrank_jax.online.bol import dense
from lowrank_jax.streams.matrices import label_matrices
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
    return jax.tree.map(lambda part: np.stack([part] * 3), lanes)


def labelled_matrices(dtype):
    train, _, _ = dense_task(20, 5, seed=0, shape=(5, 4), noise=0.2)
    labelled, _ = label_matrices(jnp.asarray(train.x, dtype), train.y)
    return jax.tree.map(lambda part: np.stack([part] * 3), labelled)


def candidate_lists(dtype):
    del dtype  # values are float32: the dtype is the learner's
    lists, _, _ = reranking_task(8, 1, seed=0, sizes=(4, 5), num_active=(2, 6))
    corpus = streams.lists.stream(lists)
    rounds = jnp.arange(lists.num_lists, dtype=jnp.int32)
    return jax.vmap(lambda i: corpus.example(i))(rounds)


def lattices(dtype):
    del dtype
    _, _, lattice = words.task()
    return jax.tree.map(lambda part: np.stack([part] * 3), lattice)


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
    return jax.tree.map(lambda part: np.stack([part] * 3), data)


def three_words():
    alphabet, few, _ = words.task()
    parts = (few.letters, few.candidates, few.mask, few.gold, few.lengths)
    return alphabet, Words(*(part[2:5] for part in parts))


def trigram_lattices(dtype):
    del dtype
    data = trigram_crf.lettered_lattice(*three_words())
    return jax.tree.map(lambda part: np.stack([part] * 3), data)


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
    "mirror_descent": Case(
        mirror_descent, {"map": mirror.frobenius()}, "step_size", matrices
    ),
    "mirror_descent blocks": Case(
        mirror_descent,
        {"map": mirror.shifted(mirror.rank_k(2), 0.5)},
        "step_size",
        sentences,
        True,
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


def check(name, part):
    case = CASES[name]
    testing.check_learner(
        case.module,
        case.examples,
        hyperparameter=case.hyperparameter,
        settings=case.settings,
        only=(part,),
    )


each_case = pytest.mark.parametrize("name", CASES)


@each_case
def test_module_exports_the_names_of_the_contract(name):
    check(name, "names")
    case = CASES[name]
    if case.examples in WHOLE_CORPUS:  # `loops.passes` asks for it
        assert "converged" in case.module.Info._fields


@pytest.mark.slow
@each_case
def test_rounds_with_x64_off_are_traced_once_keep_dtypes_and_repeat_bit_for_bit(name):
    check(name, "rounds")


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CASES if not CASES[n].is_variant])
def test_jit_equals_no_jit_in_double_precision(name):
    check(name, "jit")


@pytest.mark.slow
@each_case
def test_vmap_over_a_hyperparameter_equals_single_runs(name):
    check(name, "vmap")


@pytest.mark.slow
@each_case
def test_init_and_update_lower_for_every_platform(name):
    check(name, "platforms")


def test_examples_that_are_not_stacked_are_refused_in_words():
    stream = sentences(jnp.float32)
    alone = [testing._at(stream, i) for i in range(3)]
    with pytest.raises(InputError, match="must be stacked along the first axis"):
        testing.check_learner(
            perceptron, alone, hyperparameter="step_size", only=("rounds",)
        )
