"""Train a tagger on encoded sentences: from settings and arrays to weights."""

import dataclasses
import functools
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import features, loops, metrics, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data import records
from lowrank_jax.data.corpus import Bags, Corpus
from lowrank_jax.data.sequences import Sequences, check_weights
from lowrank_jax.estimators import base, learners, training
from lowrank_jax.estimators.tagger import compact
from lowrank_jax.estimators.tagger.model import arrays_of, params_of
from lowrank_jax.features import Encoder

if TYPE_CHECKING:
    from lowrank_jax.estimators.tagger.model import AnyEncoder

__all__ = ["Fit", "Run", "encode", "fit", "go_on", "train"]
__dir__ = __all__.copy

Run = Callable[[training.Job], training.Outcome]


class Fit(NamedTuple):
    """What a training gives.

    Attributes:
      params: Weights of `models.linear` or `models.bilinear`; with a judge, the
        weights of the best pass.
      state: State after the last pass.
      summary: Passes, seconds and history, ready for JSON.
    """

    params: Any
    state: Any
    summary: dict[str, Any]


def fit(
    learner: Any,
    spec: learners.Spec,
    sequences: Sequences,
    *,
    num_passes: int,
    seed: int,
    settings: Mapping[str, Any],
    run: Run | None = None,
    judge: Callable[[Any], float] | None = None,
    patience: int | None = None,
    start: Any = None,
    num_before: int = 0,
    batch_size: int | str = 1,
    num_devices: int = 1,
) -> Fit:
    """Train on encoded sentences.

    Args:
      learner: Learner, as ``learner(...)`` of its module builds it.
      spec: Entry of the learner.
      sequences: Training data.
      num_passes: Number of passes; of a batch learner, iterations at most.
      seed: Seed of the random key.
      settings: Everything that determines the result except the number of passes.
      run: Function that does the job; None takes `training.run`.
      judge: Score of weights on held-out data.
      patience: Number of passes without a better score; None runs all passes.
      start: State to begin with; None begins anew.
      num_before: Number of passes that led to `start`.
      batch_size: Number of sentences per update, or a schedule.
      num_devices: Number of devices.
    """
    module = learners.module_of(spec)

    @jax.jit
    def final(state: Any) -> Any:
        return _by_feature(module.final_params(state))

    job = training.Job(
        learner=learner,
        stream=(
            streams.Whole(streams.lanes.lanes(sequences))
            if spec.is_batch
            else streams.sentences.stream(sequences)
        ),
        unit="sentences",
        num_examples=sequences.num_sentences,
        seed=seed,
        num_passes=num_passes,
        settings=dict(settings),
        final=None if judge is None else final,
        judge=judge,
        patience=patience,
        start=start,
        num_before=num_before,
        batch_size=batch_size,
        num_devices=num_devices,
    )
    outcome = (run or training.run)(job)
    began = time.perf_counter()
    finish = jax.jit(module.final_params).lower(outcome.state).compile()
    compiled = time.perf_counter()
    params = jax.block_until_ready(finish(outcome.state))
    params = _kept(params, outcome.best)
    finished = time.perf_counter()
    training.check_finite(params, outcome)
    summary = {
        "passes": len(outcome.history),
        "compile_seconds": outcome.compile_seconds + compiled - began,
        "train_seconds": outcome.seconds + finished - compiled,
        "seconds_per_pass": outcome.seconds / len(outcome.history),
        "history": outcome.history,
        "run": job.settings,
        "machine": training.machine(),
    }
    if judge is not None:
        scores = [entry["dev"] for entry in outcome.history]
        summary |= {"best_pass": scores.index(max(scores)) + 1, "dev_f1": max(scores)}
    return Fit(params, outcome.state, summary)


def encode(tagger: Any, corpus: Corpus) -> "tuple[AnyEncoder, Sequences]":
    """Learn features and labels of training data; return encoder and encoded data."""
    if isinstance(corpus, Bags):
        if tagger.template is not None:
            raise InputError(
                f"`template` {tagger.template!r:.40} needs tokens of columns, and "
                "the tokens of `X` are lists or dicts of features; leave "
                "`template` out, or give strings or tuples."
            )
        return features.AttributeEncoder.fit_transform(
            corpus,
            orders=tagger.orders or tagger._spec.orders,
            min_count=tagger.min_count,
        )
    template = tagger.template_for(len(corpus.columns))
    template.check_columns(len(corpus.columns), corpus.source)
    if tagger.orders == "auto":
        from lowrank_jax.estimators.tagger import orders

        template = orders.choose(tagger, corpus, template)
    return Encoder.fit_transform(corpus, template, min_count=tagger.min_count)


def train(
    tagger: Any,
    corpus: Corpus,
    sequences: Sequences,
    *,
    num_passes: int,
    dev: Corpus | None = None,
    run: Run | None = None,
    start: Any = None,
    num_before: int = 0,
    weights: Any = None,
) -> None:
    """Train a tagger that has its encoder, and keep in it what was learned.

    Args:
      tagger: `Tagger` with checked settings.
      corpus: Training data.
      sequences: Training data, encoded.
      num_passes: Number of passes.
      dev: Held-out data to choose the best pass by.
      run: Function that does the job.
      start: State to begin with.
      num_before: Number of passes that led to `start`.
      weights: Weights of the training sentences.
    """
    spec = tagger._spec
    more = {spec.one_pass: corpus.num_sentences} if spec.one_pass else {}
    learner, plain = tagger._learner(more, tagger.encoder_.labels)
    if weights is not None:
        weights = np.asarray(weights)
        check_weights(weights, corpus.num_sentences, "sample_weight")
        sequences = dataclasses.replace(sequences, weights=weights)
    is_wide = loops.is_wide(tagger.batch_size, tagger.num_devices)
    costs = plain.get("label_cost")
    if is_wide and not (weights is corpus.unknown_label is costs is None):
        raise InputError(
            "`batch_size` and `num_devices` above 1 are for data without unknown "
            "labels, `sample_weight` and `label_cost`; leave them out."
        )
    settings = {
        "learner": tagger.learner,
        "hyperparameters": plain,
        "seed": tagger.seed,
        "min_count": tagger.min_count,
    }
    if tagger.scheme_ is not None:
        settings["labels"] = tagger.scheme_
    if tagger.batch_size != 1:  # the result does not depend on the number of devices
        settings["batch_size"] = tagger.batch_size
    about = tagger.encoder_.metadata()
    data: dict[str, Any] = {
        "template": about.get("template", about.get("attributes")),
        "data": base.fingerprint(corpus, sequences),
    }
    if start is not None:
        data["start"] = _digest(start)
    if weights is not None:
        data["weights"] = _digest(weights)
    if corpus.unknown_label is not None:
        settings["unknown_label"] = corpus.unknown_label
    judge = None
    if dev is not None:
        metrics.check_known(dev, tagger.format)
        held_out = tagger._encode(dev)
        data["dev"] = base.fingerprint(dev, held_out)
        judge = functools.partial(_f1, tagger, dev, held_out)
    with jax.enable_x64(plain.get("dtype") == "float64"):
        found = fit(
            learner,
            spec,
            sequences,
            num_passes=num_passes,
            seed=tagger.seed,
            settings=settings | data,
            run=run,
            judge=judge,
            patience=tagger.patience,
            start=start,
            num_before=num_before,
            batch_size=tagger.batch_size,
            num_devices=tagger.num_devices,
        )
    tagger.hyperparameters_, tagger.params_ = plain, found.params
    tagger._state = None if spec.is_batch else found.state
    tagger.training_ = {
        **settings,
        "format": tagger.format,
        "num_sentences": corpus.num_sentences,
        "num_tokens": corpus.num_tokens,
        "num_features": tagger.encoder_.num_features,
        "num_labels": len(tagger.encoder_.labels),
        **found.summary,
    }
    tagger.training_["passes"] += num_before
    if "orders_" in tagger.__dict__:
        tagger.training_["orders"] = tagger.orders_
    tagger.temperature_ = 1.0
    if spec.is_batch:
        return
    if dev is not None:
        tagger.calibrate(dev)
    elif tagger.calibration_folds:
        from lowrank_jax.estimators.tagger import calibration

        with jax.enable_x64(plain.get("dtype") == "float64"):
            tagger.temperature_ = calibration.fold_temperature(
                learner,
                learners.module_of(spec).final_params,
                sequences,
                tagger._scored,
                num_folds=tagger.calibration_folds,
                num_passes=num_passes,
                seed=tagger.seed,
            )


def go_on(
    tagger: Any,
    corpus: Corpus,
    *,
    num_passes: int,
    dev: Corpus | None = None,
    run: Run | None = None,
    weights: Any = None,
) -> None:
    """Train a fitted tagger on new data; arguments as for `train`."""
    from lowrank_jax.features.growing import grow

    tagger._check_kind(corpus)
    corpus = tagger._own_labels(corpus)
    num_features = tagger.encoder_.num_features
    num_before = tagger.training_.get("passes", 0)
    learner, plain = tagger._learner({}, tagger.encoder_.labels)
    with jax.enable_x64(plain.get("dtype") == "float64"):
        encoder, sequences = grow(tagger.encoder_, corpus)
        first = _first_state(learner, sequences, tagger.seed)
        state = tagger.__dict__.get("_state")
        if state is None:  # read from a folder: the weights are all there is
            if tagger.model != "linear" or tagger._spec.is_batch:
                raise InputError(
                    f"the folder of a {tagger.learner} model has no state to go on "
                    "from; take sp or mira, or train on all data."
                )
            if first.pool is not None:
                state = _restored(first, compact.by_entries(tagger._weights))
            else:
                wide = _wider(tagger.params_, first.params, num_features)
                state = first._replace(params=wide)
            num_before = 0
        start = _wider(state, first, num_features)
    tagger.encoder_ = encoder
    train(
        tagger,
        corpus,
        sequences,
        num_passes=num_passes,
        dev=dev,
        run=run,
        start=start,
        num_before=num_before,
        weights=weights,
    )


def _by_feature(params: Any) -> Any:
    """Return weights with one row per feature, of fixed shapes in every pass.

    Weights by their entries would be too large: they stay as they are.
    """
    if params.rows is None or isinstance(getattr(params, "first", None), tuple):
        return params
    from lowrank_jax.online import touched

    return touched.by_feature(params)


def _kept(last: Any, best: Any) -> Any:
    """Return the weights to keep: of touched features alone, but for a mean of W.

    Args:
      last: Weights after the last pass, with the index of all touched features.
      best: Weights of the best pass by feature; None takes the last.
    """
    if isinstance(getattr(last, "first", None), tuple):
        given = last if best is None else best
        return params_of("linear", compact.trim(arrays_of(given)))
    if last.rows is None or not hasattr(last, "table"):
        found = _by_feature(last) if best is None else best
        return jax.tree.map(jnp.asarray, found)
    given = last if best is None else best
    table, rows = compact.trimmed(
        np.asarray(given.table), np.asarray(last.rows), by_feature=best is not None
    )
    return jax.tree.map(jnp.asarray, given._replace(table=table, rows=rows))


def _digest(state: Any) -> str:
    """Return the SHA-256 of all numbers of a state."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(state):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def _first_state(learner: Any, sequences: Sequences, seed: int) -> Any:
    """Return the state before the first round."""
    stream = streams.sentences.stream(sequences)
    key = jax.random.split(jax.random.key(seed))[0]
    return jax.jit(lambda key, s: learner.init(key, s.example(0)))(key, stream)


def _restored(first: Any, weights: Mapping[str, np.ndarray]) -> Any:
    """Return a first state with the weights of a folder, by their entries.

    Args:
      first: State before the first round, with tables of touched features.
      weights: Arrays of the model by name.
    """
    from lowrank_jax.models import blocks
    from lowrank_jax.online import touched

    index, table = weights["rows"], first.params.first
    used, num_rows = len(weights["keys"]) - 1, table.keys.shape[0]
    num_rows = max(num_rows, -(-(used + 2) // 16) * 16)
    names = ("keys", "slots", "pages")
    found = records.listed(*(weights[name] for name in names))
    size, num_slots = table.values.pages.shape[1], table.keys.shape[1] - 1
    made = records.build(found, num_rows, size, num_slots)
    number = len(made.pages)
    room = max(table.values.pages.shape[0] - number, 1)
    pages = np.pad(made.pages, ((0, room), (0, 0)))
    params = first.params
    zero = params.zero
    if zero is not None:
        zero = touched.grown(zero, num_rows) if len(zero) < num_rows else zero
        zero = zero.at[:used].set(weights["zero"][:used])
    rows = params.rows.at[: len(index) - 1].set(index[:-1]).at[-1].set(num_rows - 1)
    values = blocks.Part(jnp.asarray(made.slots), jnp.asarray(pages))
    pages_in_use = jnp.array(number, jnp.int32)
    entries = blocks.Blocks(jnp.asarray(made.keys), values, pages_in_use)
    params = params._replace(zero=zero, first=entries, rows=rows)
    if params.transitions is not None:
        params = params._replace(transitions=jnp.asarray(weights["transitions"]))
    sums = first.sums
    if sums is not None:
        more = jax.tree.map(jnp.zeros_like, values)
        total = None if zero is None else jnp.zeros_like(zero)
        sums = sums._replace(zero=total, first=more)
    pool = first.pool._replace(num_rows=jnp.array(used, jnp.int32))
    return first._replace(params=params, sums=sums, pool=pool)


def _wider(old: Any, first: Any, num_features: int) -> Any:
    """Copy a state or weights into arrays with rows for more features."""
    if getattr(first, "scores", None) is not None:  # buffers of another window
        old = old._replace(scores=first.scores)
    if getattr(first, "pool", None) is not None:  # only the index has a row per feature
        rows = first.params.rows.at[:num_features].set(old.params.rows[:num_features])
        rows = rows.at[-1].set(old.params.rows[-1])
        old = jax.tree.map(jnp.copy, old)
        return old._replace(params=old.params._replace(rows=rows))

    def put(part: jax.Array, fresh: jax.Array) -> jax.Array:
        if part.shape == fresh.shape:
            return jnp.copy(part)  # the next pass donates what it is given
        return fresh.at[:num_features].set(part[:num_features])

    return jax.tree.map(put, old, first)


def _f1(tagger: Any, corpus: Corpus, sequences: Sequences, params: Any) -> float:
    """Return F1 of weights on held-out data, in percent."""
    labels = tagger._names(tagger._codes(sequences, params), corpus.offsets)
    return float(metrics.score_labels(corpus, labels, tagger.format)["f1"])
