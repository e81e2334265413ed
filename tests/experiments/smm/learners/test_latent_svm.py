"""The latent SVM: decoding equals enumeration, the objective never rises."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.smm.learners import latent_svm
from lowrank_jax.data import Corpus, alphabet_of, encode_words, hamming_accuracy


@functools.lru_cache
def task():
    """Forty words: the output of "a" alternates within a word, that of "b" does not."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 6, 40)
    letters, outputs = [], []
    for length in lengths:
        word = generator.choice(list("ab"), length)
        turns = np.cumsum(word == "a") % 2
        letters += word.tolist()
        outputs += np.where(word == "a", np.array(["x", "y"])[turns], "x").tolist()
    offsets = np.cumsum([0, *lengths])
    corpus = Corpus((np.array(letters),), np.array(outputs), offsets, "toy")
    alphabet = alphabet_of(corpus)
    words = encode_words(alphabet, corpus)
    return alphabet, words, latent_svm.padded_words(alphabet, words)


def enumerated(params, words, i, value_of):
    """Best (score, path) of word i over outputs and hidden states."""
    length = int(words.lengths[i])
    lists = [words.candidates[i, t][words.mask[i, t]] for t in range(length)]
    states = range(params.shape[1])
    best = (-np.inf, ())
    for path in itertools.product(*lists):
        for hidden in itertools.product(states, repeat=length):
            before = (0, *hidden[:-1])
            steps = zip(path, before, hidden, strict=True)
            total = sum(params[step] for step in steps) + value_of(i, path)
            best = max(best, (total, path))
    return best


def hamming(words, scale):
    return lambda i, path: (
        scale * sum(a != b for a, b in zip(path, words.gold[i], strict=False))
    )


def test_scores_and_predictions_equal_enumeration():
    _, words, data = task()
    params = np.random.default_rng(1).normal(size=(data.symbols.shape[0], 2, 2))
    cost = np.where(words.candidates == words.gold[:, :, None], 0.0, 1.0)
    best = jax.jit(latent_svm.best_scores)
    augmented = best(params, data, cost)
    only = best(params, data, np.where(cost == 0, 0.0, -np.inf))
    found = np.asarray(jax.jit(latent_svm.predict)(params, data))
    for i in range(12):
        length = words.lengths[i]
        wanted, _ = enumerated(params, words, i, hamming(words, 1.0))
        np.testing.assert_allclose(augmented[i], wanted, rtol=1e-10)
        wanted, _ = enumerated(params, words, i, hamming(words, -1e6))
        np.testing.assert_allclose(only[i], wanted, rtol=1e-10)
        _, path = enumerated(params, words, i, hamming(words, 0.0))
        assert tuple(found[i, :length]) == path
        assert (found[i, length:] == -1).all()


@functools.lru_cache
def trained():
    """Eight starts; the traces, and the accuracy of the one of least objective."""
    _, words, data = task()
    learner = latent_svm.learner(num_states=2, dtype=jnp.float64)

    @jax.jit
    @jax.vmap
    def run(key):
        again = lambda state, _: learner.update(state, data)  # noqa: E731
        start = learner.init(key, data)
        state, trace = jax.lax.scan(again, start, None, length=12)
        return trace, latent_svm.predict(latent_svm.final_params(state), data)

    trace, found = run(jax.random.split(jax.random.key(0), 8))
    trace, best = jax.device_get(trace), int(np.argmin(trace.objective[:, -1]))
    return trace, hamming_accuracy(words, np.asarray(found)[best])


def test_the_objective_never_rises_and_lies_below_the_linearised_problem():
    trace, _ = trained()
    assert (np.diff(trace.objective) <= 1e-12).all()
    assert (trace.objective[:, 1:] <= trace.surrogate[:, :-1] + 1e-12).all()
    assert (trace.objective[:, -1] < 0.8 * trace.objective[:, 0]).all()


def test_hidden_states_learn_what_one_state_cannot():
    alphabet, words, _ = task()
    # With one state a letter has one output, whatever stands around it.
    times = np.bincount(words.gold[words.inside], minlength=alphabet.num_symbols)
    best = [times[alphabet.letter_of == k].max() for k in (1, 2)]
    ceiling = 100 * sum(best) / words.num_letters
    _, hidden = trained()
    assert hidden > ceiling + 5


def test_a_word_whose_label_is_not_known_teaches_nothing():
    _, _, data = task()
    gold, others = np.array(data.gold), np.array(data.candidates)
    gold[3, 0] = -1
    others[3] = others[3, ::-1]  # the same word backwards
    learner = latent_svm.learner(num_inner_steps=1, dtype=jnp.float64)
    update = jax.jit(learner.update)
    state = latent_svm.State(
        np.random.default_rng(0).normal(size=(data.symbols.shape[0], 2, 2)), np.int32(0)
    )

    def objective(**changes):
        return update(state, data._replace(**changes))[1].objective

    assert objective(candidates=others) != objective()
    assert objective(gold=gold) == objective(gold=gold, candidates=others)
    assert np.isfinite(objective(gold=gold))
