"""Wide rounds of BOL against plain loops; growth, ranks, averages, refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.models import bilinear
from lowrank_jax.online import bol, mira, perceptron, touched
from lowrank_jax.online.wide import owners, touches
from tests.online.bol.test_bol import SPACES, first_order, task
from tests.online.tasks import random_task
from tests.online.wide import twins
from tests.online.wide.test_perceptron import KEY, orders_of


def random_state(learner, sequences, rank):
    """Return a state with random Theta, each block in a page, and Theta itself.

    From Theta = 0 all is small integers, and equal scores are a matter of rounding.
    """
    space, corpus = sequences.space, streams.sentences.stream(sequences)
    state = learner.init(KEY, corpus.example(0))
    k, s = space.num_features, space.num_labels
    theta = 0.3 * np.random.default_rng(5).standard_normal((k, s, s + 1))
    right = np.linalg.svd(theta)[2][:, :rank]
    left = np.einsum("kuv,krv->kru", theta, right)
    own = jnp.arange(1, k + 1, dtype=jnp.int32)
    columns = bilinear.join(jnp.asarray(left), jnp.asarray(right))
    padded = np.zeros((k, s, bilinear.stride(s)))
    padded[:, :, : s + 1] = theta
    blocks = state.blocks
    size = blocks.values.pages.shape[1]
    flat = np.pad(padded.reshape(k, -1), ((0, 0), (0, size - s * bilinear.stride(s))))
    values = blocks.values._replace(pages=blocks.values.pages.at[own].set(flat))
    state = state._replace(
        params=state.params._replace(
            table=state.params.table.at[own, s:].set(columns),
            rows=state.params.rows.at[:k].set(own),
        ),
        blocks=blocks._replace(
            keys=blocks.keys.at[own, 0].set(own),
            values=values,
            num_pages=jnp.asarray(k + 1, jnp.int32),
        ),
        pool=state.pool._replace(num_rows=jnp.asarray(k + 1, jnp.int32)),
    )
    return state, theta, right


def trained(learner, sequences, state, **more):
    given = {"key": KEY, "state": state, "num_passes": 2}
    return loops.passes(learner, sequences, **given, **more)


@pytest.mark.parametrize(
    ("name", "rank", "batch_size"),
    [(name, 1, 5) for name in SPACES] + [("columns share features", 2, "3,9")],
)
def test_wide_rounds_equal_plain_loops(name, rank, batch_size):
    """DR-B6 with one move and one map of each touched block a round; DR-B9."""
    sequences = task(name)
    labels = sequences.space.num_labels
    learner = bol.learner(
        rank=rank, step_size=0.5, num_power_steps=3, dtype=jnp.float64
    )
    state, theta, right = random_state(learner, sequences, rank)
    nudge = np.asarray(state.nudge)
    done = list(trained(learner, sequences, state, batch_size=batch_size))
    state = done[-1].state
    schedule = streams.packs.check_schedule(batch_size)
    sizes = [schedule[min(i, len(schedule) - 1)] for i in range(2)]
    w, theta, means, rows = twins.bol_block(
        *(sequences, orders_of(sequences, 2), sizes, 0.5, theta, right, nudge, 3)
    )
    wrong, margin, eta = (np.array(part) for part in zip(*rows, strict=True))
    assert (wrong > 0).sum() > 10
    joined = [np.concatenate(x) for x in zip(*(d.trace[:5] for d in done), strict=True)]
    np.testing.assert_array_equal(joined[2], wrong)
    np.testing.assert_allclose(joined[3], margin, rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(joined[4][wrong > 0], eta[wrong > 0])
    np.testing.assert_allclose(bol.theta(state)[:-1], theta, atol=1e-12)
    params = touched.by_feature(state.params)
    np.testing.assert_allclose(first_order(params, labels), w.first, atol=1e-8)
    np.testing.assert_allclose(params.table[:-1, :labels], w.zero, atol=1e-10)
    final = touched.by_feature(bol.final_params(state, num_power_steps=2000))
    np.testing.assert_allclose(final.table[:-1, :labels], means[1], atol=1e-10)
    u, sigma, v = np.linalg.svd(means[0])
    best = np.einsum("kur,kr,krv->kuv", u[:, :, :rank], sigma[:, :rank], v[:, :rank])
    np.testing.assert_allclose(first_order(final, labels), best, atol=1e-5)
    assert int(state.num_rounds) == 2 * sequences.num_sentences


def test_the_mean_of_w_is_over_what_sentences_were_predicted_with():
    """DR-B13 with averaging='weights'."""
    sequences = task("both orders")
    learner = bol.learner(
        averaging="weights", step_size=0.5, num_power_steps=3, dtype=jnp.float64
    )
    state, theta, right = random_state(learner, sequences, 1)
    nudge = np.asarray(state.nudge)
    *_, done = trained(learner, sequences, state, batch_size=4)
    found = touched.by_feature(bol.final_params(done.state))
    given = (orders_of(sequences, 2), [4, 4], 0.5, theta, right, nudge, 3)
    _, _, means, _ = twins.bol_block(sequences, *given)
    np.testing.assert_allclose(found.first[:-1], means[2], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("averaging", ["dual", "factors", "none"])
def test_small_tables_grow_without_a_change(averaging):
    """The result does not depend on the room at the start."""
    sequences = random_task(
        ("01", "01"), num_sentences=30, num_labels=4, has_transitions=True
    )
    results = []
    for capacity in (None, bol.Capacity(2, 1, 2)):
        learner = bol.learner(averaging=averaging, capacity=capacity, start=0.5)
        given = {"key": KEY, "num_passes": 2, "batch_size": 7}
        state, trace = loops.train(learner, sequences, **given)
        results.append((trace, touched.by_feature(bol.final_params(state))))
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_going_on_from_a_pass_gives_the_same_bits():
    sequences = task("both orders")
    learner = bol.learner()
    given = {"key": KEY, "num_passes": 3, "batch_size": "2,5"}
    whole, _ = loops.train(learner, sequences, **given)
    (first,) = loops.passes(learner, sequences, **given | {"num_passes": 1})
    *_, last = loops.passes(
        learner, sequences, **given, state=first.state, first_pass=1
    )
    for a, b in zip(*map(jax.tree.leaves, (whole, last.state)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"variant": "paper"}, "of bol need variant=block, got variant=paper"),
        ({"dual": "dense"}, "of bol need dual=sparse, got dual=dense"),
        ({"record": ("ratio",)}, "no record beside 'predicted', got record=ratio"),
    ],
)
def test_settings_without_wide_rounds_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        loops.train(
            bol.learner(**settings),
            task("both orders"),
            key=KEY,
            num_passes=1,
            batch_size=4,
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "orders"),
    [
        (perceptron, ("0", "0")),
        (mira, ("0", "0")),
        (mira, ("01", "1")),
        (bol, ("01", "01")),
    ],
)
def test_a_value_of_two_is_a_feature_that_occurs_twice(module, orders):
    """Real values: scores, moves and inner products carry them."""
    one = random_task(orders)
    ids = one.feature_ids
    twice = dataclasses.replace(
        one,
        feature_ids=np.concatenate([ids, ids[:, :1]], axis=1),
        space=dataclasses.replace(one.space, orders=(*orders, orders[0])),
    )
    values = np.ones(ids.shape, np.float32)
    values[:, 0] = 2
    valued = dataclasses.replace(one, values=values)
    results = []
    for data in (twice, valued):
        learner = module.learner(dtype=jnp.float64)
        state, trace = loops.train(learner, data, key=KEY, num_passes=2, batch_size=4)
        results.append((trace, touched.by_feature(state.params)))
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("averaging", ["dual", "none"])
def test_what_is_spread_over_devices_is_gathered_whole(averaging):
    rng = np.random.default_rng(0)
    learner = bol.learner(averaging=averaging, capacity=bol.Capacity(20, 12, 2))
    example = streams.sentences.stream(task("both orders")).example(0)
    shapes = jax.eval_shape(learner.init, KEY, example)
    state = jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), shapes)
    keys, parts = state.blocks.keys, [state.blocks.values]
    if averaging == "dual":
        parts.append(state.sums.blocks)
    rows = rng.permutation(len(keys) - 1)[:9]  # the last row is no feature
    keys[rows, 0], keys[:-1, 1] = np.arange(1, 10), rng.integers(1, 9, len(keys) - 1)
    for part in parts:
        part.slots[:-1, 1] = rng.normal(size=len(keys) - 1)
        part.pages[1:10] = rng.normal(size=part.pages[1:10].shape)
    found = owners.gather(owners.spread(state, 3)[0])
    assert found.blocks.num_pages == 10
    np.testing.assert_array_equal(found.blocks.keys[:, 1:], keys[:, 1:])
    given = [found.blocks.values]
    if averaging == "dual":
        given.append(found.sums.blocks)
    for part, wanted in zip(given, parts, strict=True):
        np.testing.assert_array_equal(part.slots, wanted.slots)
        pages = part.pages[found.blocks.keys[:, 0]]  # under numbers of their own
        np.testing.assert_array_equal(pages, wanted.pages[keys[:, 0]])


def test_pages_that_a_round_needs_are_counted_by_device():
    """As `_give_rows` and the owners do it: row modulo D."""
    rng = np.random.default_rng(0)
    features = rng.permutation(900)[:700].astype(np.int32)
    rows = np.zeros(901, np.int32)
    old = features[::3]
    rows[old] = 1 + rng.permutation(len(old))
    listed = touches.Listed(
        jnp.pad(jnp.array(features), (0, 256)), jnp.int32(600), jnp.int32(700)
    )
    first = jnp.int32(1 + len(old))
    given, _ = touches._give_rows(jnp.array(rows), first, listed)
    for number in (1, 3, 7):
        own = np.asarray(given)[features[:600]] % number
        needed = touches._needed(jnp.array(rows), first, listed, number)
        np.testing.assert_array_equal(needed, np.bincount(own, minlength=number))
    own = np.asarray(given)[features[:600]]
    owner = owners.Owner("devices", 3, jnp.int32(2))  # the third of three
    mine, count, most = owner.mine(listed, given, jnp.zeros(600, jnp.int32), 901)
    np.testing.assert_array_equal(mine[:count], own[own % 3 == 2])
    numbers = np.bincount(own % 3)
    assert int(most) == numbers.max() > numbers.min()
