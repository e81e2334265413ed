"""No certificate for settings other than the settings of the run."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowrank_jax import certify, loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.online import bol, mira, perceptron
from tests.online.tasks import random_task

ORDERS = ("01", "0", "1")
KINDS = {
    "sp": (perceptron, {}),
    "block": (bol, {}),
    "rank 2": (bol, {"rank": 2}),
    "paper": (bol, {"variant": "paper"}),
    "global": (bol, {"variant": "paper", "divisor": "global"}),
    "exact": (bol, {"variant": "exact"}),
}
STEPS = (0.3, 1.0)


@functools.lru_cache
def data(seed):
    return random_task(ORDERS, has_transitions=True, seed=seed, num_sentences=6)


@functools.lru_cache
def trained(kind, step, seed=0, key=0):
    """Return state and trace of two passes."""
    module, changes = KINDS[kind]
    learner = module.learner(step_size=step, record=("predicted",), **changes)
    return loops.train(learner, data(seed), key=jax.random.key(key), num_passes=2)


def certificate(state, trace, sequences, key):
    params = bol.bilinear.zeros(sequences.space, 1, jnp.float32)
    return certify.regret(state, trace, sequences, params, key=jax.random.key(key))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_the_settings_of_the_run_are_certified(kind, step):
    found = certificate(*trained(kind, step), data(0), 0)
    assert found.holds and found.num_mistakes > 4
    assert found.step_size == pytest.approx(step, rel=1e-6)


runs = st.tuples(st.sampled_from(list(KINDS)), st.sampled_from(STEPS))


@settings(max_examples=60, deadline=None)
@given(mine=runs, other=runs, seed=st.integers(0, 2), key=st.integers(0, 3))
def test_a_wrong_variant_rank_step_size_key_or_data_set_is_refused(
    mine, other, seed, key
):
    """State of one run with the trace of another, with other data, another key."""
    right = (other, seed, key) == (mine, 0, 0)
    trace, state = trained(*mine)[1], trained(*other)[0]
    sequences = data(seed)
    own = certificate(*trained(*mine), data(0), 0)
    if right:
        assert own.holds
        return
    try:
        found = certificate(state, trace, sequences, key)
    except InputError:
        return
    # Not told apart: then it is the certificate of the run.
    assert not found.holds or found == own


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(list(KINDS)), draw=st.data())
def test_a_change_of_one_thing_is_refused(kind, draw):
    """Step size of the state, one swap in the order, one label, one feature."""
    state, trace = trained(kind, 0.3)
    sequences, n = data(0), data(0).num_sentences
    order = np.concatenate([loops.pass_order(jax.random.key(0), i, n) for i in (0, 1)])
    what = draw.draw(st.sampled_from(["step", "order", "label", "feature", "cut"]))
    params = bol.bilinear.zeros(sequences.space, 1, jnp.float32)
    wrong = draw.draw(st.integers(0, 2 * n - 1).filter(lambda t: trace.is_mistake[t]))
    sentence = int(order[wrong])
    inside = slice(*sequences.offsets[sentence : sentence + 2])
    length = inside.stop - inside.start
    if what == "step":
        factor = draw.draw(st.floats(0.1, 10).filter(lambda x: abs(x - 1) > 1e-3))
        state = state._replace(step_size=state.step_size * np.float32(factor))
    elif what == "order":
        other = draw.draw(st.integers(0, n - 1).filter(lambda s: s != sentence))
        order[wrong] = other
    elif what == "cut":
        trace = jax.tree.map(lambda part: part[:-1], trace)
        order = order[:-1]
    else:
        place = inside.start + draw.draw(st.integers(0, length - 1))
        labels, ids = sequences.labels.copy(), sequences.feature_ids.copy()
        if what == "label":
            labels[place] = (labels[place] + 1) % 3
        else:
            guess = trace.predicted[wrong, :length]
            place = inside.start + int((guess != labels[inside]).argmax())
            ids[place, 1] = (ids[place, 1] + 1) % 12  # column "0": its own table
        sequences = dataclasses.replace(sequences, labels=labels, feature_ids=ids)
    with pytest.raises(InputError):
        certify.regret(state, trace, sequences, params, order=order)


def test_states_that_cannot_be_certified_are_named():
    state, trace = loops.train(
        mira.learner(), data(0), key=jax.random.key(0), num_passes=1
    )
    _, good = trained("sp", 1.0)
    with pytest.raises(InputError, match="needs one step size for all rounds"):
        certificate(state, good, data(0), 0)
    with pytest.raises(InputError, match="online.bol and online.perceptron, got"):
        certificate((1, 2), good, data(0), 0)
    state = trained("sp", 1.0)[0]
    with pytest.raises(InputError, match="`order` must hold 12 indices of 6 sentences"):
        params = bol.bilinear.zeros(data(0).space, 1, jnp.float32)
        certify.regret(state, good, data(0), params, order=np.zeros(3, int))
    wide = streams.sentences.stream(data(0), window=32)
    with pytest.raises(InputError, match="windows of the data have 32"):
        certify.regret(state, good, wide, params, key=jax.random.key(0))
