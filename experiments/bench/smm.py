"""Spectral max-margin tagging: an iteration in parts, thresholds, words per second.

On NETtalk, 15,000 training words. Decoding is compared with CRFsuite on the same test
words. CRFsuite's features are letters at most two away, as far as a trigram of
bi-symbols reaches. Its labels form a first-order chain, and every label is allowed
everywhere. Our states are pairs of outputs, and a letter has the outputs it was seen
with.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import crfsuite
from experiments.protocol import Experiment, Result, Say, Setup
from experiments.smm import words as nettalk
from experiments.tables import markdown
from lowrank_jax import data, features, loops, streams
from lowrank_jax.batch.smm import fobos
from lowrank_jax.batch.smm.hinge import hinge
from lowrank_jax.decode.lattice_paths import best_paths, paths_to_words
from lowrank_jax.estimators.speller import Speller
from lowrank_jax.linalg.svt import svt, truncated_svt
from lowrank_jax.models import hankel
from lowrank_jax.streams.words import Lattice

__all__ = ["EXPERIMENT"]

NUM_REPEATS = 5
NUM_TURNS = 15  # of the thresholds, one after the other
STRENGTH, STEP_SIZE = 30.0, 0.3
UNFOLDING: Any = "first"
NUM_ITERATIONS = 40  # before anything is measured, so that the rank is a real one

#: What CRFsuite sees: letters at most two away, adjacent pairs and triples of them.
TEMPLATE = "\n".join(
    f"U{length}{start + 2}:"
    + "/".join(f"%x[{start + place},0]" for place in range(length))
    for length in (1, 2, 3)
    for start in range(-2, 4 - length)
)
TEMPLATE += "\nB\n"


def run(setup: Setup) -> Result:
    """Measure, and say each figure as it comes."""
    say = setup.say
    split = nettalk.draw_split(nettalk.read_words(setup.data_dir), 0)
    alphabet = data.alphabet_of(split.train)
    words = data.encode_words(alphabet, split.train)
    lattice = jax.device_put(streams.words.lattice(alphabet, words))
    blocks = hankel.basis(3, unfolding=UNFOLDING)
    say(
        f"{split.train.num_sentences:,} words, {alphabet.num_symbols} bi-symbols, "
        f"matrix {blocks[0].shape(alphabet.num_symbols)}"
    )
    learner = fobos.learner(
        unfolding=UNFOLDING, strength=STRENGTH, step_size=STEP_SIZE, tolerance=0.0
    )
    times = []
    for done in loops.passes(
        learner,
        streams.Whole(lattice),
        key=jax.random.key(0),
        num_passes=NUM_ITERATIONS,
    ):
        times.append(done.seconds)
        if done.pass_index == 0:
            compile_seconds = done.compile_seconds
    state = done.state
    result: Result = {
        "num_words": split.train.num_sentences,
        "num_symbols": alphabet.num_symbols,
        "rank": int(state.rank),
        "compile_seconds": compile_seconds,
        "seconds_per_iteration": float(np.median(times)),
    }
    say(f"rank after {NUM_ITERATIONS} iterations       {result['rank']:8d}")
    say(
        f"FOBOS iteration, whole            {result['seconds_per_iteration']:8.3f} s"
        f"   (compiled in {compile_seconds:.1f} s)"
    )
    params = state.params
    result |= _parts(blocks, params, result["rank"], lattice, say)
    tagger = Speller.from_params(
        alphabet, params, {"order": 3, "lower_orders": "none", "unfolding": UNFOLDING}
    )
    result["tagging"] = _tagging(tagger, split, say)
    return result


def table(result: Result) -> str:
    """Write the times of FOBOS and of tagging as Markdown."""
    tagging = result["tagging"]
    thresholds = [
        [name, f"{1000 * value:.0f} ms"]
        for name, value in result["threshold_seconds"].items()
    ]
    names = ("smm", "smm from strings", "CRFsuite", "CRFsuite from strings")
    return (
        f"NETtalk, {result['num_words']:,} words, rank {result['rank']}. An iteration "
        f"takes {result['seconds_per_iteration']:.2f} s, of which decoding "
        f"{result['decoding_seconds']:.2f} s. Accuracy {tagging['smm_accuracy']:.1f} % "
        f"beside {tagging['CRFsuite_accuracy']:.1f} % of CRFsuite with its own "
        "features.\n\n"
        + markdown(["singular-value thresholding", "time"], thresholds)
        + "\n"
        + markdown(
            ["tagging", "words per second"],
            ([name, f"{tagging[name]:,.0f}"] for name in names),
        )
    )


def _parts(
    blocks: tuple[hankel.Block, ...],
    params: hankel.Params,
    rank: int,
    lattice: Lattice,
    say: Say,
) -> dict[str, Any]:
    """Time decoding, and the threshold in three ways."""
    decode = jax.jit(lambda params, lattice: hinge(blocks, params, lattice))
    decoding, found = _time(decode, params, lattice)
    say(f"  decoding (hinge, subgradient)   {decoding:8.3f} s")
    eta = STEP_SIZE / np.sqrt(NUM_ITERATIONS)
    half_way = params[0] - jnp.float32(eta) * found.gradient[0]
    threshold = jnp.float32(eta * STRENGTH)
    room = min(rank + 8, min(half_way.shape))
    start = svt(params[0], 0.0).right[:, :room]
    ways: dict[str, tuple[Any, tuple]] = {
        "full, Gram matrix": (jax.jit(svt), (half_way, threshold)),
        "full, SVD": (
            jax.jit(lambda *given: svt(*given, method="svd")),
            (half_way, threshold),
        ),
        f"truncated, {room} vectors": (
            jax.jit(truncated_svt),
            (half_way, threshold, start),
        ),
    }
    seconds, results = _in_turn(ways)
    exact = results["full, SVD"].matrix
    base = seconds["full, SVD"]
    errors = {}
    for name, value in seconds.items():
        difference = jnp.linalg.norm(results[name].matrix - exact)
        errors[name] = float(difference / jnp.linalg.norm(exact))
        say(
            f"  threshold {name:22}{value:8.4f} s   SVD / this {base / value:6.1f}"
            f"   difference {errors[name]:.1e}, rank {int(results[name].rank)}"
        )
    return {
        "decoding_seconds": decoding,
        "threshold_seconds": seconds,
        "threshold_relative_difference": errors,
    }


def _in_turn(
    ways: dict[str, tuple[Any, tuple]],
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return median seconds and results of calls that take turns."""
    results = {name: function(*given) for name, (function, given) in ways.items()}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(NUM_TURNS):
        for name, (function, given) in ways.items():
            began = time.perf_counter()
            jax.block_until_ready(function(*given))
            taken[name].append(time.perf_counter() - began)
    return {name: float(np.median(each)) for name, each in taken.items()}, results


def _tagging(tagger: Speller, split: nettalk.Split, say: Say) -> dict[str, Any]:
    """Return test words tagged per second, ours and CRFsuite."""
    test, num_words = split.test, split.test.num_sentences
    words = data.encode_words(tagger.alphabet_, test)
    lattice = jax.device_put(streams.words.lattice(tagger.alphabet_, words))
    table = hankel.score_table(tagger.blocks, tagger.params_)
    decode = jax.jit(lambda table, lattice: best_paths(table, lattice, cost=0.0))
    seconds, paths = _time(decode, table, lattice)
    found = paths_to_words(paths, lattice)
    result = {
        "smm": num_words / seconds,
        "smm from strings": num_words / _time(tagger.predict, test)[0],
        "smm_accuracy": data.hamming_accuracy(words, found),
    }
    result |= _crfsuite(split)
    say("test words tagged per second:")
    for ours, peer in (
        ("smm", "CRFsuite"),
        ("smm from strings", "CRFsuite from strings"),
    ):
        ratio = result[ours] / result[peer]
        say(
            f"  {ours:18}{result[ours]:10,.0f}   {peer:22}{result[peer]:10,.0f}"
            f"   ratio {ratio:6.2f}"
        )
    return result


def _crfsuite(split: nettalk.Split) -> dict[str, float]:
    import pycrfsuite

    template = features.parse_template(TEMPLATE)
    encoder, sequences = features.Encoder.fit_transform(split.train, template)
    trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
    labels = np.asarray(split.train.labels).tolist()
    for sentence, a, b in zip(
        crfsuite.attributes(sequences),
        split.train.offsets[:-1],
        split.train.offsets[1:],
        strict=True,
    ):
        trainer.append(sentence, labels[a:b])
    trainer.set("max_iterations", 3)
    tagger = pycrfsuite.Tagger()
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        trainer.train(model)
        tagger.open(model)

        def from_strings() -> list[str]:
            items = crfsuite.attributes(
                encoder.transform(split.test, unseen_label="ignore")
            )
            return [label for item in items for label in tagger.tag(item)]

        strings, predicted = _time(from_strings)
        items = crfsuite.attributes(
            encoder.transform(split.test, unseen_label="ignore")
        )
        built = [pycrfsuite.ItemSequence(item) for item in items]

        def decode() -> None:
            for item in built:
                tagger.set(item)
                tagger.tag()

        seconds, _ = _time(decode)
    is_right = np.array(predicted) == np.asarray(split.test.labels)
    num_words = split.test.num_sentences
    return {
        "CRFsuite": num_words / seconds,
        "CRFsuite from strings": num_words / strings,
        "CRFsuite_accuracy": 100 * float(is_right.mean()),
    }


def _time(function: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """Return median seconds after one call that compiles, and the result."""
    result = jax.block_until_ready(function(*given))
    seconds = []
    for _ in range(NUM_REPEATS):
        began = time.perf_counter()
        result = jax.block_until_ready(function(*given))
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds)), result


EXPERIMENT = Experiment(
    "bench-smm",
    "Speed of FOBOS and of tagging words",
    "the paper's data",
    "NETtalk",
    run,
    table,
    needs={"pycrfsuite": "CRFsuite"},
)
