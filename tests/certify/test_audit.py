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
from lowrank_jax.data import segmentation_task
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.online import bol, mira, perceptron
from lowrank_jax.theory.bol import regret
from tests.online.tasks import random_task

ORDERS = ("01", "0", "1")
KINDS = {
    "sp": (perceptron, {}),
    "block": (bol, {}),
    "rank 2": (bol, {"rank": 2}),
    "paper": (bol, {"variant": "paper"}),
    "global": (bol, {"variant": "paper", "divisor": "global"}),
    "exact": (bol, {"variant": "exact"}),
    "start": (bol, {"start": 0.1}),
    "paper, start": (bol, {"variant": "paper", "start": 0.1}),
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_the_settings_of_the_run_are_certified(kind, step):
    found = certificate(*trained(kind, step), data(0), 0)
    assert found.holds and found.num_mistakes > 4
    assert found.step_size == pytest.approx(step, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_curves_of_a_run_in_single_precision_end_with_its_certificate(kind):
    """The sums are in double precision, and C is judged by the precision of the run."""
    state, trace = trained(kind, 0.3)
    assert trace.margin.dtype == np.float32
    found = certificate(state, trace, data(0), 0)
    params = bol.bilinear.zeros(data(0).space, 1, jnp.float32)
    along = certify.along(state, trace, data(0), params, key=jax.random.key(0))
    np.testing.assert_allclose(along.regret[-1], found.regret, rtol=1e-12)
    assert along.certificate[-1] >= found.certificate * (1 - 1e-5)
    assert np.isfinite(along.certificate).all()


#: Each is compiled: the other step size is tried where it is part of the program.
RUNS = [*((kind, 0.3) for kind in KINDS), ("sp", 1.0), ("block", 1.0), ("paper", 1.0)]
runs = st.sampled_from(RUNS)


@settings(max_examples=60, deadline=None)
@given(mine=runs, other=runs, seed=st.integers(0, 2), key=st.integers(0, 3))
def test_a_wrong_variant_rank_step_size_key_or_data_set_is_refused(
    mine, other, seed, key
):
    """State of one run with the trace of another, with other data, another key."""
    trace, state = trained(*mine)[1], trained(*other)[0]
    if (other, seed, key) == (mine, 0, 0):
        assert certificate(state, trace, data(0), 0).holds
        return
    with pytest.raises(InputError):
        certificate(state, trace, data(seed), key)


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(list(KINDS)), draw=st.data())
def test_a_change_of_one_thing_is_refused(kind, draw):
    """Step size of the state, one swap in the order, one number of the data anywhere.

    A label, a feature, a sentence end or the space may differ where no round was wrong.
    """
    state, trace = trained(kind, 0.3)
    sequences, n = data(0), data(0).num_sentences
    order = np.concatenate([loops.pass_order(jax.random.key(0), i, n) for i in (0, 1)])
    what = draw.draw(st.sampled_from("step order cut label feature end space".split()))
    params = bol.bilinear.zeros(sequences.space, 1, jnp.float32)
    wrong = draw.draw(st.integers(0, 2 * n - 1).filter(lambda t: trace.is_mistake[t]))
    sentence = int(order[wrong])
    if what == "step":
        factor = draw.draw(st.floats(0.1, 10).filter(lambda x: abs(x - 1) > 1e-3))
        state = state._replace(step_size=state.step_size * np.float32(factor))
    elif what == "order":
        other = draw.draw(st.integers(0, n - 1).filter(lambda s: s != sentence))
        order[wrong] = other
    elif what == "cut":
        trace = jax.tree.map(lambda part: part[:-1], trace)
        order = order[:-1]
    elif what == "space":
        space = sequences.space
        space = dataclasses.replace(space, orders=("01", "01", "1"))
        sequences = dataclasses.replace(sequences, space=space)
    else:
        place = draw.draw(st.integers(0, sequences.num_tokens - 1))
        labels, ids = sequences.labels.copy(), sequences.feature_ids.copy()
        offsets = sequences.offsets.copy()
        if what == "label":
            labels[place] = (labels[place] + 1) % 3
        elif what == "feature":
            column = draw.draw(st.integers(0, 2))
            ids[place, column] = (ids[place, column] + 1) % 12
        else:  # one token to the next sentence; the longest stays in its window
            sentence = draw.draw(st.integers(1, n - 1))
            offsets[sentence] -= 1
        sequences = dataclasses.replace(
            sequences, labels=labels, feature_ids=ids, offsets=offsets
        )
    with pytest.raises(InputError):
        certify.regret(state, trace, sequences, params, order=order)
    if what not in ("step", "order", "cut"):
        with pytest.raises(InputError, match="did not meet each of the"):
            certify.held_out(trace, sequences)


@pytest.mark.parametrize("start", [None, 0.05, 0.11, 0.5])
@pytest.mark.parametrize("kind", ["block", "rank 2", "paper", "start", "paper, start"])
def test_a_start_of_another_run_is_refused(kind, start):
    """Also a small one, with which the inequality would hold."""
    state, trace = trained(kind, 0.3)
    if start is None and state.start is None:
        assert certificate(state, trace, data(0), 0).holds
        return
    state = state._replace(start=None if start is None else np.float32(start))
    with pytest.raises(InputError, match="from which its factors have grown by"):
        certificate(state, trace, data(0), 0)


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


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(list(KINDS)), factor=st.floats(0.1, 10))
def test_the_statement_itself_knows_the_step_size_of_a_trace(kind, factor):
    """`regret_certificate` and the curves of DR-B4 hold for the run's C alone."""
    _, trace = trained(kind, 0.3)
    zero = jnp.zeros(len(trace.margin), jnp.float32)
    step = jnp.float32(0.3 * factor)
    given = {"comparator_losses": zero + 9, "comparator_penalty": jnp.float32(9.0)}
    whole, each = judged()(trace, step, given)
    assert bool(whole.holds) == bool(each.holds.all()) == (abs(factor - 1) < 1e-4)


@functools.lru_cache
def judged():
    def both(trace, step, given):
        along = regret.along_rounds(trace, step_size=step, **given)
        whole = regret.regret_certificate(trace, step_size=step, **given)
        return whole, regret.within_certificate(along)

    return jax.jit(both)


def test_held_out_takes_trace_data_and_certificate_of_one_run():
    """The number of sentences is counted, not believed (DR-B13)."""
    learner = perceptron.learner(record=("predicted",))
    one, two = (
        certify.run(learner, data(0), key=jax.random.key(0), num_passes=n)
        for n in (1, 2)
    )
    assert certify.held_out(one.trace, data(0), one.certificate).bound is not None
    with pytest.raises(InputError, match="of one run"):
        certify.held_out(two.trace, data(0), one.certificate)
    half = jax.tree.map(lambda part: part[:3], one.trace)
    with pytest.raises(InputError, match="The first 6 rounds of the trace did not"):
        certify.held_out(half, data(0))
    with pytest.raises(InputError, match="The first 6 rounds of the trace did not"):
        certify.held_out(jax.tree.map(lambda part: part[3:], two.trace), data(0))
    silent = one.trace._replace(fingerprint=None)
    with pytest.raises(InputError, match="needs to know the examples"):
        certify.held_out(silent, data(0))
    # A later pass meets each sentence once too, with weights that have seen it.
    with pytest.raises(InputError, match="not 0: give the trace from the first round"):
        certify.held_out(jax.tree.map(lambda part: part[6:], two.trace), data(0))
    for changed in (
        one.certificate._replace(certificate=0.9 * one.certificate.certificate),
        one.certificate._replace(comparator_penalty=0.0),
        one.certificate._replace(linear_regret=one.certificate.regret - 1),
    ):
        with pytest.raises(InputError, match="where its own numbers make"):
            certify.held_out(one.trace, data(0), changed)
    halved = one.trace._replace(margin=one.trace.margin / 2)
    with pytest.raises(InputError, match="increments of the trace are not C"):
        certify.held_out(halved, data(0))


@pytest.mark.parametrize("module", [bol, perceptron])
def test_paths_of_greatest_cost_certify_nothing(module):
    """Their margins are not the losses of DR-B4 and DR-B13."""
    learner = module.learner(record=("predicted",), label_cost=2 - 2 * np.eye(3))
    key = jax.random.key(0)
    state, trace = loops.train(learner, data(0), key=key, num_passes=1)
    with pytest.raises(InputError, match="without `label_cost`"):
        certificate(state, trace, data(0), 0)
    with pytest.raises(InputError, match="without `label_cost`"):
        certify.held_out(trace, data(0))


def test_a_corpus_of_strings_is_named():
    corpus, _, _ = segmentation_task(2, 1, seed=0)
    learner = perceptron.learner(record=("predicted",))
    with pytest.raises(InputError, match="got a Corpus: encode it"):
        certify.run(learner, corpus, key=jax.random.key(0), num_passes=1)
    with pytest.raises(InputError, match="got a Corpus: encode it"):
        certify.losses(bol.bilinear.zeros(data(0).space, 1, jnp.float32), corpus)


def test_a_single_huge_step_is_known_to_the_last_digit():
    """In single precision C vanishes beside C^2: its increments cannot tell it."""
    step = np.float32(1e9)
    learner = perceptron.learner(step_size=step, record=("predicted",))
    first = Sequences.from_arrays(
        np.array([[0], [1]]), np.array([1, 2]), np.array([2]), ("0",)
    )
    state, trace = loops.train(learner, first, key=jax.random.key(0), num_passes=1)
    assert trace.is_mistake.all()
    assert certificate(state, trace, first, 0).holds
    other = state._replace(step_size=np.nextafter(step, np.float32(np.inf)))
    with pytest.raises(InputError, match="of one run"):
        certificate(other, trace, first, 0)
    given = {"comparator_losses": np.zeros(1, np.float32), "comparator_penalty": 9e18}
    for factor in (1, 1.001, 2):
        found = regret.regret_certificate(trace, step_size=step * factor, **given)
        assert bool(found.holds) == (factor == 1)


def test_numbers_that_no_comparator_has_certify_nothing():
    """Losses below 0, a conjugate below the trace's, losses of another run."""
    _, trace = trained("sp", 1.0)
    zero, last = np.zeros(12, np.float32), trace.conjugate[-1]

    def holds(losses=zero, conjugate=last):
        given = {"comparator_losses": losses, "comparator_penalty": 1e6}
        return bool(
            regret.regret_certificate(
                trace, step_size=1.0, conjugate=conjugate, **given
            ).holds
        )

    assert holds() and holds(conjugate=2 * last)
    assert not holds(zero - 1) and not holds(conjugate=last / 2)
    with pytest.raises(InputError, match="one loss per round of the trace, shape"):
        holds(zero[:3])
