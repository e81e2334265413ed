"""First-order weights by their entries against dense ones, with pools that overflow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import checks, loops, streams
from lowrank_jax.certify import comparator, mirror, spectrum
from lowrank_jax.data.sequences import Sequences, Space
from lowrank_jax.linalg.mirror import frobenius
from lowrank_jax.models import bilinear, blocks, linear
from lowrank_jax.online import entries, mira, perceptron, touched
from lowrank_jax.online.bol import block
from lowrank_jax.store import checkpoint
from tests.online.bol.test_sparse import stream

SMALL = entries.Capacity(num_features=30, num_pages=20, num_slots=2)


def train(module, sequences, num_passes=2, **settings):
    learner = module.learner(dtype=jnp.float64, **settings)
    key = jax.random.key(0)
    return loops.train(learner, sequences, key=key, num_passes=num_passes)


def same(one, other, atol=0.0):
    for ours, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=atol, rtol=0)


def test_single_entries_are_those_of_the_whole_block():
    """Entries in the record of a row, on a page of its own, and nowhere."""
    num_labels, stride = 3, blocks.stride(3)
    empty = blocks.zeros(4, num_labels, jnp.float64, num_pages=2, num_slots=3)
    keys = np.array(empty.keys)
    slots, pages = (np.array(part) for part in empty.values)
    keys[1, 1:] = 1 + np.array([0, stride + 2, 2 * stride])
    slots[1, 1:] = -2.0, -3.0, 5.0
    keys[2, 0] = 1  # and its further entries on page 1
    pages[1, : num_labels * stride] = np.arange(num_labels * stride)
    made = empty._replace(
        keys=jnp.asarray(keys), values=blocks.Part(*map(jnp.asarray, (slots, pages)))
    )
    shape = 4, num_labels, num_labels + 1
    ids, current, previous = np.indices(shape, np.int32)
    found = blocks.at(made, jnp.asarray(ids), jnp.asarray(current * stride + previous))
    whole = blocks.dense(made.keys, made.values, jnp.arange(4), num_labels)
    np.testing.assert_array_equal(found, whole[:, :, : num_labels + 1])
    assert (found[1, 0, 0], found[1, 1, 2], found[1, 2, 0]) == (-2, -3, 5)
    assert found[2, 2, 3] == 2 * stride + 3 and not found[3].any()
    sizes = (np.square(slots).sum(1) + [0, 0, np.square(pages[1]).sum(), 0]).tolist()
    assert blocks.squares(made).tolist() == sizes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "settings"),
    [
        (perceptron, {"step_size": 0.75, "record": ("squared_norm",)}),
        (mira, {"max_step_size": 0.1, "decoding": "cost"}),
    ],
)
def test_weights_by_their_entries_equal_dense_ones_after_growth(module, settings):
    sequences = stream()
    dense, expected = train(module, sequences, dual="dense", **settings)
    state, trace = train(module, sequences, capacity=SMALL, **settings)
    first = state.params.first
    # The pools were too small, and all ways to store an entry were used.
    assert first.keys.shape[0] > 32 and first.values.pages.shape[0] > 21
    assert int(first.num_pages) > 5 and (np.asarray(first.keys) > 0).all(1).any()
    assert not bool(state.pool.is_full)
    same(trace, expected, atol=1e-9)
    num_labels = sequences.space.num_labels
    for one, other in (
        (state.params, dense.params),
        (module.final_params(state), module.final_params(dense)),
    ):
        same(touched.by_feature(one, num_labels), other, atol=1e-10)
    found, wanted = spectrum.conjugate(state), spectrum.conjugate(dense)
    assert found.value == pytest.approx(wanted.value, rel=1e-12)
    assert found.value == pytest.approx(float(state.conjugate), rel=1e-9)
    listed, whole = spectrum.dual(state), spectrum.dual(dense)
    places = np.arange(whole.first[:-1].size)
    np.testing.assert_allclose(
        listed.first.at(places), whole.first[:-1].ravel(), atol=1e-10
    )
    np.testing.assert_allclose(listed.zero, whole.zero, atol=1e-10)


@pytest.mark.slow
def test_scores_of_entries_are_those_of_the_dense_table():
    sequences = stream(4)
    corpus = streams.sentences.stream(sequences)
    state, _ = train(perceptron, sequences, capacity=SMALL, step_size=0.3)
    params = perceptron.final_params(state)
    plain = touched.by_feature(params)
    for i in range(6):
        one = linear.scores(params, corpus.example(i))
        other = linear.scores(plain, corpus.example(i))
        width = other.pairwise.shape[-1]
        np.testing.assert_allclose(one.unary, other.unary, atol=1e-12)
        np.testing.assert_allclose(
            one.pairwise[..., :width], other.pairwise, atol=1e-12
        )
    ids = jnp.asarray(sequences.feature_ids)  # more lines than are scattered singly
    found = linear.positions(params, ids, sequences.space)[1]
    wanted = linear.positions(plain, ids, sequences.space)[1]
    np.testing.assert_allclose(found[..., :width], wanted, atol=1e-12)


@pytest.mark.slow
def test_a_model_by_its_entries_is_the_comparator_that_the_dense_one_is():
    sequences = stream(3)
    corpus = streams.sentences.stream(sequences)
    params = perceptron.final_params(train(perceptron, sequences, capacity=SMALL)[0])
    plain = touched.by_feature(params)
    comparator.check(params, sequences.space)
    predicted = jax.random.randint(jax.random.key(1), (corpus.window,), 0, 5, jnp.int32)
    for i in range(4):
        example = corpus.example(i)
        one, other = [comparator.margin(p, example, predicted) for p in (params, plain)]
        np.testing.assert_allclose(one, other, atol=1e-12)
    for variant, start in (("sp", 0.0), ("block", 0.5), ("paper", 0.0)):
        one, other = [
            comparator.penalty(p, sequences.space, variant=variant, start=start)
            for p in (params, plain)
        ]
        np.testing.assert_allclose(one, other, rtol=1e-10)
    one, other = [mirror.penalty(frobenius(), p) for p in (params, plain)]
    np.testing.assert_allclose(one, other, rtol=1e-10)
    with pytest.raises(checks.InputError, match="by_feature"):
        bilinear.truncated(params, 1)


@pytest.mark.slow
def test_a_run_that_grew_equals_one_that_did_not_and_resumes(tmp_path):
    sequences = stream(2)
    corpus, key = streams.sentences.stream(sequences), jax.random.key(0)
    learner = perceptron.learner(capacity=SMALL)
    first, second = [
        done.state if i else jax.tree.map(jnp.copy, done.state)
        for i, done in enumerate(loops.passes(learner, corpus, key=key, num_passes=2))
    ]
    roomy, _ = loops.train(perceptron.learner(), corpus, key=key, num_passes=2)
    final = [touched.by_feature(perceptron.final_params(s)) for s in (second, roomy)]
    same(*final)
    checkpoint.save(tmp_path / "one", first, {})
    like = jax.eval_shape(learner.init, key, corpus.example(0))
    state, _ = checkpoint.load(tmp_path / "one", like, may_grow=True)
    assert state.params.zero.shape[0] > like.params.zero.shape[0]
    (done,) = loops.passes(
        learner, corpus, key=key, num_passes=2, state=state, first_pass=1
    )
    same(done.state, second)


def test_a_full_state_does_nothing_and_says_so():
    sequences = stream(1)
    corpus = streams.sentences.stream(sequences)
    order = jnp.arange(corpus.num_examples, dtype=jnp.int32)
    learner = mira.learner(capacity=SMALL)
    go = jax.jit(lambda *given: loops.run(learner, *given))
    state = learner.init(jax.random.key(0), corpus.example(0))
    state, trace = go(state, corpus, order)
    done = int(state.num_rounds)
    assert bool(state.pool.is_full) and 0 < done < corpus.num_examples
    assert not np.asarray(trace.is_mistake)[done:].any()
    again, _ = go(state, corpus, order)
    same(state._replace(scores=None), again._replace(scores=None))
    pages = np.asarray(state.params.first.values.pages)
    assert pages.any()
    state = learner.grow(state)
    assert learner.grow(state) is state and not bool(state.pool.is_full)
    found = np.asarray(state.params.first.values.pages)
    np.testing.assert_array_equal(found[: len(pages)], pages)
    assert not found[len(pages) :].any()


def test_repeated_features_and_blocks_without_other_weights():
    """Two columns share features, and the model has first-order weights alone."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 6, (40, 2)).astype(np.int32)
    ids[::3, 1] = ids[::3, 0]
    labels = rng.integers(0, 3, 40).astype(np.int32)
    space = Space(6, 3, ("1", "1"), has_transitions=False)
    sequences = Sequences(ids, labels, np.arange(0, 41, 4, dtype=np.int32), space)
    dense, expected = train(perceptron, sequences, dual="dense")
    state, trace = train(perceptron, sequences, capacity=SMALL)
    same(trace, expected)
    same(touched.by_feature(state.params, 3), dense.params)
    assert isinstance(state.params.first, blocks.Blocks)
    assert perceptron.final_params(state).zero is None


@pytest.mark.parametrize("prior", [None, 0.3])
def test_products_are_those_of_blocks_that_are_written_out(prior):
    rng, labels, each = np.random.default_rng(0), 5, blocks.stride(5)
    keys, page = np.zeros((7, 4), np.int32), np.zeros((3, blocks.page_size(labels)))
    for row, number in ((1, 2), (2, 3), (3, 3)):  # rows 2 and 3 have pages
        places = rng.choice(labels * (labels + 1), number, replace=False)
        pairs = places // (labels + 1) * each + places % (labels + 1)
        keys[row, 1 : 1 + number] = 1 + pairs
    keys[2, 0], keys[3, 0] = 1, 2
    parts = []
    for _ in range(2):
        slots = np.where(keys > 0, rng.normal(size=keys.shape), 0)
        slots[:, 0] = 0
        wide = page.copy()
        for i in range(labels):
            wide[1:, i * each : i * each + labels + 1] = rng.normal(size=(2, 6))
        parts.append(blocks.Part(jnp.asarray(slots), jnp.asarray(wide)))
    ids = jnp.array([3, 0, 1, 6, 2, 1], jnp.int32)  # row 6 is no feature
    given = jnp.asarray(keys), [(parts[0], 1.0), (parts[1], -0.5)], ids, labels
    start = None if prior is None else jnp.asarray(prior)
    one, two = (np.asarray(blocks.dense(given[0], p, ids, labels)) for p in parts)
    theta = one - 0.5 * two
    is_feature = (np.asarray(ids) < 6)[:, None, None]
    theta[:, :, : labels + 1] += np.where(is_feature, prior or 0, 0)
    right, left = rng.normal(size=(6, each)), rng.normal(size=(6, labels))
    right[:, labels + 1 :] = 0

    @jax.jit
    def both(right, left):
        times, back = blocks.products(*given, prior=start)
        return times(right), back(left)

    found = both(right, left)
    expected = (
        np.einsum("kuv,kv->ku", theta, right),
        np.einsum("kuv,ku->kv", theta, left),
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_the_map_of_many_labels_is_that_of_blocks_written_out():
    labels = blocks.MANY
    made = blocks.zeros(3, labels, jnp.float64, num_pages=1, num_slots=3)
    keys, slots = (np.array(part) for part in (made.keys, made.values.slots))
    keys[1, 1:3] = 1 + np.array([5, 9 * blocks.stride(labels) + 64])
    slots[1, 1:3] = -2.0, 3.0
    made = made._replace(keys=keys, values=made.values._replace(slots=slots))
    right = np.random.default_rng(0).normal(size=(2, blocks.stride(labels)))

    @jax.jit
    def times(made, right):
        ids = jnp.array([2, 1], jnp.int32)
        return block.theta_to_map(made, ids, None, labels).times(right)

    expected = np.zeros((2, labels))
    expected[1, [0, 9]] = -2 * right[1, 5], 3 * right[1, 64]
    np.testing.assert_allclose(times(made, right), expected, rtol=1e-12)
