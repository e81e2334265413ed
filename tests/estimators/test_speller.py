"""Taggers of words from Python; `tests/cli/test_train_smm.py` has the command."""

import jax.numpy as jnp
import numpy as np

from lowrank_jax import data, streams
from lowrank_jax.decode.lattice_paths import best_paths, paths_to_words
from lowrank_jax.estimators.speller import Speller
from lowrank_jax.models import hankel


def test_a_model_with_ends_of_words_decodes_and_comes_back_with_them(tmp_path):
    corpus, _, _ = data.spelling_task(20, 1, seed=0)
    alphabet = data.alphabet_of(corpus)
    words = data.encode_words(alphabet, corpus)
    basis = {"order": 3, "lower_orders": "none", "unfolding": "last"}
    blocks = hankel.basis(**basis)
    rng = np.random.default_rng(0)
    params = tuple(
        jnp.asarray(rng.normal(size=block.shape(alphabet.num_symbols)))
        for block in blocks
    )
    tagger = Speller.from_params(alphabet, params, basis, has_end=True)
    tagger.save(tmp_path / "m")
    again = Speller.load(tmp_path / "m")
    assert again.has_end_
    found = again.predict(corpus)

    lattice = streams.words.lattice(alphabet, words, has_end=True)
    table = hankel.score_table(blocks, params)
    ids = paths_to_words(best_paths(table, lattice, cost=0.0), lattice)
    np.testing.assert_array_equal(found, alphabet.outputs[ids[words.inside]])
    other = Speller.from_params(alphabet, params, basis).predict(corpus)
    assert (other != found).any()  # the ends do count
