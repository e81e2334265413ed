"""Which templates get first-order weights, chosen on held-out training sentences.

All templates have 0-order weights, and label transitions stand beside. Each template
is first given first-order weights alone. Then, best first, a template keeps them if the
score of the held-out sentences rises. The last fit on all sentences is not part of it.

All candidates have the same shapes and run one compiled program: the first-order
columns of templates that are left out hold "not a feature".
"""

import dataclasses
from collections.abc import Collection
from typing import Any

import jax
import numpy as np

from lowrank_jax import loops, metrics, models, streams
from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import Corpus
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators import labelling, learners
from lowrank_jax.features import Encoder, Template, with_orders

__all__ = ["choose", "line"]
__dir__ = __all__.copy

_MOST_SENTENCES, _MOST_PASSES, _LEAST_SENTENCES = 4000, 5, 10


def choose(tagger: Any, corpus: Corpus, template: Template) -> Template:
    """Return the template with the orders that were chosen; keep how in `orders_`.

    Args:
      tagger: `Tagger` with checked settings.
      corpus: Training data. At most 4,000 sentences are used, a fifth of them held out.
      template: Template whose texts count, not its orders.
    """
    spec, number = tagger._spec, corpus.num_sentences
    if spec.is_batch:
        raise InputError(
            f"`orders` 'auto' needs sp, mira, bol or bcd, got {tagger.learner!r}; name "
            "the orders."
        )
    if number < _LEAST_SENTENCES or corpus.unknown_label is not None:
        raise InputError(
            f"`orders` 'auto' needs at least {_LEAST_SENTENCES} training sentences "
            f"whose labels are all known, got {number} sentences; name the orders."
        )
    is_double = tagger._learner({})[1].get("dtype") == "float64"
    with jax.enable_x64(is_double):
        template, tagger.orders_ = _chosen(tagger, corpus, template)
    return template


def _chosen(
    tagger: Any, corpus: Corpus, template: Template
) -> tuple[Template, dict[str, Any]]:
    spec = tagger._spec
    template = with_orders(template, "zero")
    shuffled = np.random.default_rng(tagger.seed).permutation(corpus.num_sentences)
    shuffled = shuffled[:_MOST_SENTENCES]
    held_out = corpus.take(np.sort(shuffled[: len(shuffled) // 5]))
    rest = corpus.take(np.sort(shuffled[len(shuffled) // 5 :]))
    encoder, train = Encoder.fit_transform(rest, template, min_count=tagger.min_count)
    dev = encoder.transform(held_out, unseen_label="ignore")
    more = {spec.one_pass: train.num_sentences} if spec.one_pass else {}
    learner, _ = tagger._learner(more, encoder.labels)
    num_passes = min(tagger.num_passes or spec.num_passes, _MOST_PASSES)
    final = jax.jit(learners.module_of(spec).final_params)
    key = jax.random.key(tagger.seed)
    columns = [i for i, one in enumerate(template.columns) if one.macros]
    rounds: Any = None

    def score(chosen: Collection[int]) -> float:
        nonlocal rounds
        stream = streams.sentences.stream(_with_first(train, columns, chosen))
        rounds = rounds or loops.Rounds(learner, stream)
        rounds.stream = stream
        state = loops.start(learner, stream, key=key)
        for index in range(num_passes):
            order = loops.pass_order(key, index, train.num_sentences)
            state, _ = rounds.run(state, order)
        params = final(state)
        is_linear = isinstance(params, models.linear.Params)
        model = models.linear if is_linear else models.bilinear
        codes = labelling.predict_all(model, params, _with_first(dev, columns, chosen))
        labels = np.array(encoder.labels, object)[codes]
        return float(metrics.score_labels(held_out, labels, tagger.format)["f1"])

    none = best = score(())
    alone = {i: score((i,)) for i in columns}
    chosen: tuple[int, ...] = ()
    for i in sorted(columns, key=lambda i: -alone[i]):
        found = score((*chosen, i)) if chosen else alone[i]
        if found > best or (spec.model == "bilinear" and not chosen):
            chosen, best = (*chosen, i), found
    made = tuple(
        dataclasses.replace(one, orders="01") if i in chosen else one
        for i, one in enumerate(template.columns)
    )
    names = [f"B{one.text}" for one in template.columns]
    return dataclasses.replace(template, columns=made), {
        "first_order": [names[i] for i in sorted(chosen)],
        "num_templates": len(columns),
        "score": best,
        "score_without": none,
        "alone": {names[i]: found for i, found in alone.items()},
        "num_held_out": held_out.num_sentences,
    }


def line(report: dict[str, Any]) -> str:
    """Write what was chosen as one line."""
    chosen = report["first_order"]
    names = f": {', '.join(chosen)}" if chosen else ""
    return (
        f"first-order weights: {len(chosen)} of {report['num_templates']} templates"
        f"{names} ({report['score']:.2f} on {report['num_held_out']} held-out training "
        f"sentences, {report['score_without']:.2f} without)"
    )


def _with_first(
    sequences: Sequences, columns: list[int], chosen: Collection[int]
) -> Sequences:
    """Return sentences with a first-order column beside each 0-order column."""
    ids, space = sequences.feature_ids, sequences.space
    is_chosen = np.array([i in chosen for i in columns], bool)
    first = np.where(is_chosen[None], ids[:, columns], space.num_features)
    orders = ("0",) * ids.shape[1] + ("1",) * len(columns)
    return dataclasses.replace(
        sequences,
        feature_ids=np.concatenate([ids, first.astype(ids.dtype)], axis=1),
        space=dataclasses.replace(space, orders=orders),
    )
