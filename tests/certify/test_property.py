"""A certificate of a run holds for the settings of this run and for no others."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowrank_jax import certify, loops, streams, theory
from lowrank_jax.checks import InputError
from lowrank_jax.linalg import mirror
from lowrank_jax.models import bilinear
from lowrank_jax.online import bol, mirror_descent, perceptron
from lowrank_jax.theory.bol import regret
from tests.certify.test_audit import KINDS, data

MAPS = {
    "frobenius": mirror.frobenius(),
    "rank 1": mirror.rank_k(1),
    "rank 2": mirror.rank_k(2),
    "start": mirror.shifted(mirror.rank_k(1), 0.5),
}
WIDE = {"sp": (perceptron, {}), "rank 2": (bol, {"rank": 2}), "block": (bol, {})}
FAMILIES = {"serial": KINDS, "wide": WIDE, "mirror": MAPS}
CERTIFIERS = {  # the family of the run, and what the function is told beside it
    "regret": ("serial", "state trace data order key"),
    "along": ("serial", "state trace data order key"),
    "held_out": ("serial", "trace data"),
    "regret_certificate": ("serial", "step"),
    "along_rounds": ("serial", "step"),
    "wide_regret": ("wide", "state trace data key"),
    "chain": ("mirror", "state trace data order map"),
}
BIT = st.integers(0, 1)
FACTORS = st.sampled_from([0.1, 0.5, 0.9, 0.999, 1.001, 1.1, 2.0, 10.0])


@functools.lru_cache
def run(family, kind, step, seed, num_passes):
    """Return state and trace."""
    if family == "mirror":
        learner = mirror_descent.learner(
            map=MAPS[kind], step_size=step, record=("predicted",)
        )
    else:
        module, changes = FAMILIES[family][kind]
        learner = module.learner(step_size=step, record=("predicted",), **changes)
    given = {"key": jax.random.key(seed), "num_passes": num_passes}
    return loops.train(learner, data(0), batch_size=1 + (family == "wide"), **given)


def holds(name, kind, state, trace, sequences, order, key, step):
    """Ask one function for its certificate; the model U = 0 leaves it room."""
    ordered = {"order": order} if key is None else {"key": key}
    u = bilinear.zeros(data(0).space, 1, jnp.float32)
    if name == "regret":
        return certify.regret(state, trace, sequences, u, **ordered).holds
    if name == "along":
        found = certify.along(state, trace, sequences, u, **ordered)
        return regret.within_certificate(found).holds.all()
    if name == "held_out":
        return np.isfinite(certify.held_out(trace, sequences).loss)
    if name == "wide_regret":
        return certify.wide_regret(state, trace, sequences, u, **ordered).holds
    if name == "chain":
        stream, u = streams.sentences.stream(sequences), state.params
        u = jax.tree.map(jnp.zeros_like, u)
        given = MAPS[kind], state, trace, stream, order, u
        return regret.within_certificate(certify.mirror.chain(*given)).holds.all()
    losses = np.full(len(trace.margin), 9, np.float32)
    told = {"comparator_losses": losses, "comparator_penalty": 9.0}
    if name == "regret_certificate":
        return theory.regret_certificate(trace, step_size=step, **told).holds
    found = regret.along_rounds(trace, step_size=step, **told)
    return regret.within_certificate(found).holds.all()


def changed(sequences, what, draw):
    """Return the data with one label, feature or end of a sentence changed."""
    labels, ids = sequences.labels.copy(), sequences.feature_ids.copy()
    offsets = sequences.offsets.copy()
    place = draw(st.integers(0, sequences.num_tokens - 1))
    if what == "label":
        labels[place] = (labels[place] + 1) % 3
    elif what == "feature":
        ids[place, place % 3] = (ids[place, place % 3] + 1) % 12
    else:
        offsets[draw(st.integers(1, sequences.num_sentences - 1))] -= 1
    return dataclasses.replace(
        sequences, labels=labels, feature_ids=ids, offsets=offsets
    )


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(CERTIFIERS)), st.sampled_from([0.3, 1.0]), st.data())
def test_other_settings_than_those_of_the_run_certify_nothing(name, step, draw):
    """Variant, rank, start, step size, order, key, passes, map, sentences: one wrong.

    U = 0 leaves room: a number that is merely larger would not be noticed.
    """
    draw = draw.draw
    family, told = CERTIFIERS[name]
    kinds = list(FAMILIES[family])
    kind = draw(st.sampled_from(kinds))
    state, trace = run(family, kind, step, 0, 2)
    n, sequences = data(0).num_sentences, data(0)
    key = jax.random.key(0) if family == "wide" or draw(st.booleans()) else None
    order = np.concatenate([loops.pass_order(jax.random.key(0), i, n) for i in (0, 1)])
    what = draw(st.sampled_from(["nothing", *told.split()]))
    if what in ("state", "trace"):  # of another variant, rank, start, C, key, length
        other = draw(
            st.tuples(
                st.sampled_from(kinds),
                st.sampled_from([0.3, 1.0]),
                *[st.integers(0, 1)] * 2,
            ).filter(lambda o: o != (kind, step, 0, 1))
        )
        found = run(family, *other[:3], 1 + other[3])
        state, trace = (found[0], trace) if what == "state" else (state, found[1])
        if name == "held_out":  # a trace by itself; its first pass is cut short
            trace = jax.tree.map(
                lambda part: part[: draw(st.integers(1, n - 1))], trace
            )
    elif what == "step":
        step *= draw(FACTORS)
    elif what == "data":
        how = draw(st.sampled_from(["label", "feature", "end"]))
        sequences = changed(sequences, how, draw)
    elif what == "order":
        key, (i, j) = (
            None,
            draw(
                st.tuples(*[st.integers(0, 2 * n - 1)] * 2).filter(
                    lambda ij: order[ij[0]] != order[ij[1]]
                )
            ),
        )
        order[[i, j]] = order[[j, i]]
    elif what == "key":
        key = jax.random.key(draw(st.integers(1, 5)))
    elif what == "map":
        kind = draw(st.sampled_from([k for k in kinds if k != kind]))
    given = name, kind, state, trace, sequences, order, key, step
    if what == "nothing":
        assert holds(*given)
        return
    try:
        assert not holds(*given)
    except InputError:
        pass


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("name", ["regret", "along", "chain", "wide_regret"])
def test_a_step_size_that_was_written_over_certifies_nothing(name, factor):
    family = CERTIFIERS[name][0]
    kind = "rank 2"
    state, trace = run(family, kind, 0.3, 0, 2)
    n = data(0).num_sentences
    order = np.concatenate([loops.pass_order(jax.random.key(0), i, n) for i in (0, 1)])
    if family == "wide":
        trace = trace._replace(step_size=trace.step_size * np.float32(factor))
    else:
        state = state._replace(step_size=state.step_size * np.float32(factor))
    with pytest.raises(InputError):
        holds(name, kind, state, trace, data(0), order, jax.random.key(0), None)
