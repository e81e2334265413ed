"""The trigram perceptron against dictionaries and enumeration, word by word."""

import collections
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.smm.learners import trigram_perceptron
from lowrank_jax import loops, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data import Corpus, encode_words
from tests.experiments.smm.learners import test_subpatterns as toy

STEP = 0.5  # a power of 2: sums are exact, and ties are ties


def twin(order, has_end):
    """Run the rounds with dictionaries; return weights, their average and numbers."""
    weights, total = collections.Counter(), collections.Counter()
    infos = []
    for i in order:
        scores = {}
        for path in toy.candidate_paths(i):
            counts = toy.features(path, has_end)
            scores[path] = sum(weights[f] * times for f, times in counts.items())
        top = max(scores.values())
        ties = [path for path in scores if scores[path] == top]
        # Of equal paths: the pair at the end decides, then what stands before it.
        pair = 1 if has_end else 2
        best = min(ties, key=lambda p: (p[-pair:], p[:-pair][::-1]))
        true = toy.true_path(i)
        for f, times in toy.features(true, has_end).items():
            weights[f] += STEP * times
        for f, times in toy.features(best, has_end).items():
            weights[f] -= STEP * times
        total.update(weights)
        num_wrong = sum(a != b for a, b in zip(best, true, strict=True))
        margin = scores[true] - top
        loss = max(0, 1 - margin) if num_wrong else 0
        infos.append((loss, num_wrong > 0, num_wrong, margin))
    average = {f: total[f] / len(order) for f in total}
    return weights, average, infos


def scan(learner, state, stream, order):
    return loops.run(learner, state, stream, order)


def program(**settings):
    learner = trigram_perceptron.learner(**settings)
    return learner, jax.jit(functools.partial(scan, learner))


@pytest.mark.parametrize("has_end", [True, False])
def test_rounds_equal_those_with_dictionaries(has_end):
    stream = trigram_perceptron.stream(*toy.task(), has_end=has_end)
    num_words = stream.num_examples
    order = np.random.default_rng(0).permutation(np.arange(num_words).repeat(3))
    learner, run = program(step_size=STEP, dtype=jnp.float64)
    start = learner.init(jax.random.key(0), stream.example(0))
    state, trace = run(start, stream, jnp.asarray(order, jnp.int32))
    weights, average, infos = twin(order.tolist(), has_end)
    for name, wanted in zip(trace._fields, zip(*infos, strict=True), strict=True):
        np.testing.assert_array_equal(getattr(trace, name), wanted, err_msg=name)
    assert int(state.num_rounds) == len(order)
    assert trace.is_mistake.any() and not trace.is_mistake.all()
    for found, wanted in zip(state.params, toy.as_params(weights), strict=True):
        np.testing.assert_array_equal(found, wanted)
    params = trigram_perceptron.final_params(state)
    for found, wanted in zip(params, toy.as_params(average), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    last = trigram_perceptron.final_params(state._replace(sums=None))
    assert last is state.params


def large_copies(learner):
    """Compile a pass and return the lines that copy a table with an axis of n."""
    n, num_words, num_positions, width = 157, 20, 9, 5  # 157: no other axis has it

    def ints(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.int32)

    words = trigram_perceptron.Word(
        letters=ints(num_words, num_positions),
        first=ints(num_words, num_positions),
        is_candidate=jax.ShapeDtypeStruct((num_words, num_positions, width), bool),
        gold=ints(num_words, num_positions),
        num_trigrams=ints(num_words),
        num_letters=29,
        num_symbols=n,
    )
    state = jax.eval_shape(learner.init, jax.random.key(0), words)
    step = jax.jit(
        functools.partial(scan, learner),
        donate_argnums=0,
    )
    text = (
        step.lower(state, streams.Stacked(words), ints(num_words)).compile().as_text()
    )
    assert f"[{n},{n},{n}]" in text  # the tables are there to be copied
    pattern = re.compile(rf"= \w+\[[^\]]*\b{n}\b[^\]]*\][^ ]* copy\(")
    return [line for line in text.splitlines() if pattern.search(line)]


def test_a_pass_copies_no_table():
    assert large_copies(trigram_perceptron.learner()) == []


def test_the_check_sees_a_copy():
    base = trigram_perceptron.learner(averaging="none")

    def update(state, word):
        new, info = base.update(state, word)
        return jax.lax.cond(info.is_mistake, lambda: new, lambda: state), info

    assert large_copies(base._replace(update=update))


def test_words_without_known_pairs_are_refused():
    alphabet, words = toy.task()
    unknown = Corpus((np.array(["a", "b"]),), None, np.array([0, 2]), "no labels")
    with pytest.raises(InputError, match="2 letters have no known pair"):
        trigram_perceptron.stream(alphabet, encode_words(alphabet, unknown))
    assert (words.gold[words.inside] >= 0).all()
