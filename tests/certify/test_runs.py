"""The certificate of a run against plain NumPy: every feature vector written out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax import certify, loops, streams
from lowrank_jax.certify import comparator
from lowrank_jax.checks import InputError
from lowrank_jax.models import bilinear, linear
from lowrank_jax.online import bol, perceptron, touched
from tests.online import twins
from tests.online.tasks import random_task

STEP = 0.5
KINDS = {
    "sp": (perceptron, {}),
    "block": (bol, {"variant": "block"}),
    "rank 2": (bol, {"variant": "block", "rank": 2}),
    "paper": (bol, {"variant": "paper", "divisor": "global"}),
}


def task():
    return random_task(("01", "0", "1"), has_transitions=True)


@functools.lru_cache
def finished(kind, dtype=jnp.float64):
    """Train two passes; return learner kind, stream, traces, orders and state."""
    module, settings = KINDS[kind]
    learner = module.learner(
        **settings, step_size=STEP, record=("predicted",), dtype=dtype
    )
    corpus, key = streams.sentences.stream(task()), jax.random.key(3)
    traces = []
    for done in loops.passes(learner, corpus, key=key, num_passes=2):
        traces.append(done.trace)
    orders = [loops.pass_order(key, i, task().num_sentences) for i in range(2)]
    params = jax.jit(module.final_params)(done.state)
    return corpus, traces, orders, done.state, params


def certified(kind, *, dtype=jnp.float64, params=None, **options):
    """Certify the run, from its key."""
    corpus, traces, _, state, own = finished(kind, dtype)
    params = own if params is None else params
    options = {"key": jax.random.key(3)} | options
    return certify.regret(state, traces, corpus, params, **options)


def dense(params, space):
    """Write a model out as the twins' weights."""
    params = jax.device_get(jax.jit(touched.by_feature)(params))
    if isinstance(params, linear.Params):
        return twins.Weights(params.zero[:-1], params.first[:-1], params.transitions)
    rows = bilinear.split(params.table[:-1], space.num_labels)
    first = params.scale * np.einsum("kru,krv->kuv", rows.left, rows.right)
    return twins.Weights(rows.zero, first, params.transitions)


def differences(kind):
    """Yield dPhi of each round with a mistake, from the recorded predictions."""
    sequences = task()
    sentences = list(twins.sentences(sequences))
    _, traces, orders, *_ = finished(kind)
    for trace, order in zip(traces, orders, strict=True):
        for index, guess in zip(np.asarray(order), trace.predicted, strict=True):
            ids, labels = sentences[index]
            guess = guess[: len(labels)]
            if (guess != labels).any():
                right = twins.features(sequences.space, ids, labels)
                wrong = twins.features(sequences.space, ids, guess)
                yield twins.combine(right, wrong, -1.0)


def settings_of(kind):
    given = KINDS[kind][1]
    variant = "sp" if kind == "sp" else given["variant"]
    return {"variant": variant, "rank": given.get("rank", 1)}


def half_conjugate(theta, variant, rank):
    values = np.linalg.svd(theta.first, compute_uv=False)
    if variant == "sp":
        first = (theta.first**2).sum()
    else:
        energies = (values[:, :rank] ** 2).sum(1)
        first = energies.sum() if variant == "block" else energies.max()
    return ((theta.zero**2).sum() + (theta.transitions**2).sum() + first) / 2


@pytest.mark.parametrize("kind", KINDS)
def test_run_certificate_equals_plain_sums(kind):
    """DR-B4, DR-B8: losses of both, conjugate, bound, from written-out features."""
    corpus, traces, _, state, params = finished(kind)
    made, space = settings_of(kind), corpus.space
    ended = certify.conjugate(state)
    assert (ended.variant, ended.rank) == (made["variant"], made["rank"])
    found = certified(kind)
    assert found.step_size == STEP
    deltas = list(differences(kind))
    assert found.num_mistakes == len(deltas) > 15
    theta = functools.reduce(
        lambda total, one: twins.combine(total, one, STEP), deltas, twins.empty(space)
    )
    fixed = dense(params, space)
    margins = np.array([twins.dot(fixed, delta) for delta in deltas])
    losses = np.maximum(1 - margins, 0).sum()
    np.testing.assert_allclose(found.comparator_loss, losses, rtol=1e-10)
    expected = half_conjugate(theta, **made)
    np.testing.assert_allclose(found.conjugate, expected, rtol=1e-10)
    own = np.concatenate([trace.margin[trace.is_mistake] for trace in traces])
    np.testing.assert_allclose(found.regret, (1 - own).sum() - losses, rtol=1e-10)
    trace_norms = np.linalg.svd(fixed.first, compute_uv=False).sum(1)
    first = {
        "sp": (fixed.first**2).sum(),
        "block": (fixed.first**2).sum(),
        "paper": trace_norms.sum() ** 2,
        "exact": trace_norms.sum() ** 2,
    }[made["variant"]]
    penalty = ((fixed.zero**2).sum() + (fixed.transitions**2).sum() + first) / 2
    np.testing.assert_allclose(found.comparator_penalty, penalty, rtol=1e-10)
    bound = (penalty + expected - STEP * own.sum()) / STEP
    np.testing.assert_allclose(found.certificate, bound, rtol=1e-10)
    assert found.holds
    linear_regret = (margins - own).sum()
    np.testing.assert_allclose(found.linear_regret, linear_regret, rtol=1e-10)
    assert found.regret <= found.linear_regret <= found.certificate
    assert found.best_dual_objective <= found.best_dual_bound


@pytest.mark.parametrize("kind", ["sp", "block"])
def test_a_run_in_single_precision_is_certified_too(kind):
    *_, state, _ = finished(kind, jnp.float32)
    ended = certify.conjugate(state)
    carried = float(state.conjugate)  # of "block" by power steps, so too small
    assert carried / ended.value == pytest.approx(1, rel=1e-5 if kind == "sp" else 0.1)
    found = certified(kind, dtype=jnp.float32)
    assert found.holds and found.num_mistakes > 3
    assert found.regret < found.certificate


def test_a_trace_norm_charges_a_linear_comparator_of_rank_1_blocks():
    """DR-B6: F** of a full block is half its squared trace norm."""
    *_, params = finished("sp")
    space = task().space
    found = comparator.penalty(params, space, variant="block")
    dense = touched.by_feature(params)
    norms = np.linalg.svd(np.asarray(dense.first), compute_uv=False).sum(1)
    rest = (dense.zero**2).sum() + (dense.transitions**2).sum()
    np.testing.assert_allclose(found, (rest + (norms**2).sum()) / 2, rtol=1e-10)
    with pytest.raises(InputError, match="rank 3 where the learner has rank=2"):
        comparator.penalty(params, space, variant="block", rank=2)


def test_last_iterate_attains_the_linear_bound():
    """Fenchel-Young is an equality at the mirror map: the certificate is attained."""
    *_, state, _ = finished("sp")
    found = certified("sp", params=state.params)
    np.testing.assert_allclose(found.linear_regret, found.certificate, rtol=1e-10)


def test_best_multiple_is_the_least_on_a_grid():
    rng = np.random.default_rng(0)
    margins, penalty = rng.normal(0.7, 1, 50), 2.0

    def value(size):
        return np.maximum(1 - size * margins, 0).sum() + size**2 * penalty / STEP

    best = certify.best_multiple(margins, penalty, STEP)
    assert value(best) <= min(value(size) for size in np.linspace(0, 5, 5001)) + 1e-12
    assert certify.best_multiple(-np.abs(margins), penalty, STEP) < 1e-12
    assert certify.best_multiple(margins, 0.0, STEP) == 0


def test_hindsight_is_no_worse_than_the_model_itself():
    own, best = (certified("block", hindsight=wanted) for wanted in (False, True))
    assert best.holds
    gap = own.comparator_loss + own.certificate
    assert best.comparator_loss + best.certificate < gap


def test_margins_of_a_run_are_those_of_its_rounds_one_by_one():
    corpus, traces, orders, _, params = finished("block")
    found = comparator.margins(params, corpus, orders[0], traces[0].predicted)
    one = jax.jit(comparator.margin)
    rounds = zip(orders[0].tolist(), traces[0].predicted, strict=True)
    expected = [
        one(params, corpus.example(index), jnp.asarray(labels, jnp.int32))
        for index, labels in rounds
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_learner_that_records_nothing_is_refused():
    corpus, traces, _, state, params = finished("block")
    silent = [trace._replace(predicted=None) for trace in traces]
    with pytest.raises(InputError, match="record"):
        certify.regret(state, silent, corpus, params, key=jax.random.key(3))
    with pytest.raises(InputError, match="record"):
        certify.run(bol.learner(), task(), key=jax.random.key(3), num_passes=1)


def test_spectrum_tells_ties_and_blocks_in_use():
    blocks = np.zeros((5, 3, 4))
    blocks[0, :2, :2] = np.diag([2.0, 1.0])
    blocks[1, 0, 0] = blocks[1, 1, 1] = 3.0  # a tie
    blocks[3, 2, 3] = 1.0
    params = bilinear.Params(jnp.zeros((5, 3 + 3 + 8)), None, jnp.ones(()))

    nothing = dict.fromkeys(bol.State._fields)
    state = bol.State(**nothing | {"blocks": jnp.asarray(blocks), "params": params})
    found = certify.conjugate(state)
    assert found.value == pytest.approx((4 + 9 + 1) / 2, rel=1e-12)
    assert found.spectrum.num_blocks == 3
    assert found.spectrum.sigma_1 == pytest.approx(3)
    assert found.spectrum.share_of_ties == pytest.approx(1 / 3)
    assert found.spectrum.median_ratio == pytest.approx(0.5)
    assert found.spectrum.global_ratio == pytest.approx(1)
    assert found.spectrum.participation == pytest.approx(14**2 / (16 + 81 + 1))
    assert found.spectrum.mean_rank == pytest.approx((5 / 4 + 2 + 1) / 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"start": 0.8, "averaging": "weights"},
        {"start": 0.8},
        {"averaging": "weights"},
        {"variant": "paper", "start": 0.5},
        {"variant": "paper", "divisor_factor": 2.0, "averaging": "none"},
    ],
)
def test_a_run_from_a_uniform_start_is_certified(settings):
    """DR-B11 from written-out features: the gap of U from the start, and the growth."""
    corpus, key = streams.sentences.stream(task()), jax.random.key(3)
    learner = bol.learner(
        dual="dense",
        step_size=STEP,
        record=("predicted",),
        dtype=jnp.float64,
        **settings,
    )
    done = list(loops.passes(learner, corpus, key=key, num_passes=2))
    traces, state = [one.trace for one in done], done[-1].state
    params = bol.final_params(state)
    found = certify.regret(state, traces, corpus, params, key=key)
    start = settings.get("start", 0.0)
    theta = np.asarray(state.blocks)[:-1] + start
    begin = np.full(theta.shape[1:], start)
    grown = np.linalg.norm(theta, 2, axis=(1, 2)) ** 2 - np.linalg.norm(begin, 2) ** 2
    labels = theta.shape[1]
    flat = (np.asarray(state.params.table)[:, :labels] ** 2).sum()
    flat += (np.asarray(state.params.transitions) ** 2).sum()
    np.testing.assert_allclose(found.conjugate, (grown.sum() + flat) / 2, rtol=1e-8)
    if isinstance(params, linear.Params):
        first = np.asarray(params.first)[:-1]
        zero = np.asarray(params.zero)
    else:
        rows = bilinear.split(np.asarray(params.table)[:-1], labels)
        first = params.scale * np.einsum("kru,krv->kuv", rows.left, rows.right)
        zero = np.asarray(params.table)[:, :labels]
    norms = np.linalg.svd(first, compute_uv=False).sum(axis=1)
    gaps = (norms**2 - 2 * start * first.sum((1, 2)) + start**2 * begin.size) / 2
    gaps = np.where(norms == 0, 0, gaps)
    expected = gaps.sum() + ((zero**2).sum() + (params.transitions**2).sum()) / 2
    np.testing.assert_allclose(found.comparator_penalty, expected, rtol=1e-5)
    assert found.holds and found.num_mistakes > 5
    assert found.regret <= found.linear_regret + 1e-9 <= found.certificate + 2e-9


def test_a_variant_that_is_not_one_is_named():
    *_, params = finished("block")
    with pytest.raises(InputError, match="`variant` must be one of"):
        comparator.penalty(params, task().space, variant="blok")


@pytest.mark.parametrize("kind", ["sp", "block"])
def test_run_trains_and_certifies(kind):
    """`run` equals `loops.train` followed by `regret`, by key or by order."""
    module, settings = KINDS[kind]
    learner = module.learner(
        **settings, step_size=STEP, record=("predicted",), dtype=jnp.float64
    )
    key = jax.random.key(3)
    done = certify.run(learner, task(), key=key, num_passes=2)
    assert done.certificate == certified(kind)
    order = np.concatenate([loops.pass_order(key, i, 14) for i in range(2)])
    given = (done.state, done.trace, task(), done.params)
    assert certify.regret(*given, order=order) == done.certificate
    with pytest.raises(InputError, match="`key` or `order`"):
        certify.regret(*given)


@pytest.mark.parametrize("module", [bol, perceptron])
def test_each_curve_lies_below_the_next(module):
    """DR-B4, DR-B3, BOL-P4 along the rounds of a run on sentences."""
    settings = {"num_power_steps": 64} if module is bol else {}
    learner = module.learner(
        step_size=STEP, record=("predicted", "curvature"), dtype=jnp.float64, **settings
    )
    key = jax.random.key(3)
    done = certify.run(learner, task(), key=key, num_passes=2)
    found = certify.along(done.state, done.trace, task(), done.params, key=key)
    np.testing.assert_allclose(found.regret[-1], done.certificate.regret, rtol=1e-10)
    bound = done.certificate.certificate
    np.testing.assert_allclose(found.certificate[-1], bound, rtol=1e-6)
    room = 1e-9 * found.scale
    assert (found.regret <= found.certificate + room).all()
    assert (found.certificate <= found.tight + room).all()
    assert (found.tight <= found.paper + room).all()
    assert np.isfinite(found.paper).all()
    silent = certify.along(
        done.state, done.trace._replace(curvature=None), task(), done.params, key=key
    )
    assert np.isinf(silent.tight).all()


def test_a_comparator_of_another_space_is_refused():
    other = random_task(("01", "0", "1", "0"), has_transitions=False)
    params = linear.zeros(other.space, jnp.float64)._replace(zero=jnp.zeros((4, 3)))
    with pytest.raises(InputError, match="`zero` of the comparator must have shape"):
        certified("sp", params=params)
    with pytest.raises(InputError, match="A comparator is a models.linear.Params"):
        certified("sp", params=jnp.zeros(3))


@pytest.mark.slow
@pytest.mark.parametrize("module", [bol, perceptron])
def test_held_out_loss_is_certified_by_the_first_pass(module):
    """DR-B13, against plain sums over rounds one by one."""
    settings = {}
    if module is bol:  # exact pairs: W does not depend on the random key
        settings = {"averaging": "weights", "start": 0.5, "num_power_steps": 0}
    learner = module.learner(record=("predicted",), dtype=jnp.float64, **settings)
    corpus, key = streams.sentences.stream(task()), jax.random.key(3)
    done = certify.run(learner, task(), key=key, num_passes=1)
    found = certify.held_out(done.trace, task(), done.certificate)
    state, total, sentences = learner.init(key, corpus.example(0)), [], task()
    for index in loops.pass_order(key, 0, 14):
        weights = dense(state.params, sentences.space)
        ids, labels = list(twins.sentences(sentences))[index]
        best = twins.viterbi(sentences.space, weights, ids)
        right, wrong = (twins.features(sentences.space, ids, y) for y in (labels, best))
        total.append(twins.dot(weights, twins.combine(wrong, right, -1.0)))
        state, _ = jax.jit(learner.update)(state, corpus.example(int(index)))
    assert found.num_rounds == 14
    np.testing.assert_allclose(found.loss, np.mean(total), rtol=1e-9)
    error = np.std(total, ddof=1) / 14**0.5
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-9)
    assert found.bound is not None and found.loss <= found.bound + 1e-9
    twice = certify.run(learner, task(), key=key, num_passes=2)
    again = certify.held_out(twice.trace, task(), twice.certificate)
    assert again == found._replace(bound=None)
    loss = certify.losses(done.params, task())
    weights = dense(done.params, sentences.space)
    for value, (ids, labels) in zip(loss, twins.sentences(sentences), strict=True):
        best = twins.viterbi(sentences.space, weights, ids)
        right, wrong = (twins.features(sentences.space, ids, y) for y in (labels, best))
        expected = twins.dot(weights, twins.combine(wrong, right, -1.0))
        np.testing.assert_allclose(value, expected, atol=1e-9)


@pytest.mark.slow
def test_the_last_iterate_attains_the_bound_of_the_held_out_loss():
    """U = W_N: DR-B11 is an equality, and a bound 5 % stricter would be false."""
    learner = bol.learner(
        averaging="none",
        record=("predicted",),
        num_power_steps=0,
        dtype=jnp.float64,
        start=0.5,
    )
    done = certify.run(learner, task(), key=jax.random.key(3), num_passes=1)
    found = certify.held_out(done.trace, task(), done.certificate)
    assert found.loss <= found.bound * (1 + 1e-9)
    assert found.loss > 0.95 * found.bound
