"""Training over lists pass by pass, and choosing from them."""

import dataclasses

import chex
import jax
import numpy as np
import pytest

from lowrank_jax import loops, metrics, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.lists import oracle, remap, take
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.estimators import reranker as choosing
from lowrank_jax.models import tensor
from lowrank_jax.online import tensor_mira


def test_passes_resume_bit_for_bit_and_learn_the_planted_weights():
    sizes = (6, 6)
    train, test, truth = reranking_task(150, 60, seed=0, sizes=sizes, num_shared=0)
    train, test = (remap(part, truth.place, 36) for part in (train, test))
    corpus = streams.lists.stream(train)
    learner = tensor_mira.learner(
        shape=tensor.Shape(sizes), step="bcd", averaging="average", max_step_size=0.03
    )
    settings = dict(key=jax.random.key(0), num_passes=3)
    done = []
    for part in loops.passes(learner, corpus, **settings):
        state = jax.device_get(part.state)  # the state itself is given away
        done.append((part.pass_index, state, part.trace))
    again = list(
        loops.passes(learner, corpus, state=done[0][1], first_pass=1, **settings)
    )
    assert [part.pass_index for part in again] == [1, 2]
    chex.assert_trees_all_equal(again[-1].state, done[-1][1])
    chex.assert_trees_all_equal(again[-1].trace, done[-1][2])
    losses = [trace.loss.mean() for _, _, trace in done]
    assert losses[2] < losses[0] / 2

    params = tensor_mira.final_params(done[-1][1])
    predict = jax.jit(
        lambda *given: choosing.choose(tensor.scores, *given, batch_size=None)
    )
    chosen = np.asarray(predict(params, streams.lists.stream(test)))
    found = metrics.quality_of(test, chosen)
    assert found.chosen > 0.95 > 0.6 > found.base
    assert found.oracle == 1

    whole = np.stack([test.list_offsets[:-1], chosen + test.list_offsets[:-1]])
    expected = test.quality.astype(float)[whole].mean(axis=1)
    np.testing.assert_allclose([found.base, found.chosen], expected, rtol=1e-12)
    assert (oracle(test) == chosen).mean() > 0.7


def test_what_cannot_be_trained_on_is_named():
    lists, _, _ = reranking_task(3, 1, seed=0)
    learner = tensor_mira.learner(shape=tensor.Shape((12, 12)))
    settings = dict(key=jax.random.key(0), num_passes=1)
    quality = lists.quality.copy()
    quality[:2] = np.nan
    unknown = streams.lists.stream(dataclasses.replace(lists, quality=quality))
    with pytest.raises(InputError, match="2 candidates have no known quality"):
        next(loops.passes(learner, unknown, **settings))
    with pytest.raises(InputError, match="no list to train on"):
        next(loops.passes(learner, streams.lists.stream(take(lists, [])), **settings))
    with pytest.raises(InputError, match="for each of the 3 lists"):
        metrics.quality_of(lists, np.zeros(2))
