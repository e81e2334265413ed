"""What a tagger has learned: strongest features, transitions, reasons for a label.

All in NumPy, on the weights of `models.linear` or `models.bilinear` by name.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lowrank_jax import checks
from lowrank_jax.checks import InputError
from lowrank_jax.data import records
from lowrank_jax.data.sequences import Sequences
from lowrank_jax.estimators.tagger import compact, small

__all__ = ["START", "Reason", "explain", "factors", "top_features", "transitions"]
__dir__ = __all__.copy

#: Name of the place before the first token, in tables of transitions.
START = "<start>"

Weights = Mapping[str, np.ndarray]


class Reason(NamedTuple):
    """Why a token has its label.

    Attributes:
      token: The token as it was given.
      label: Predicted label.
      rival: Label that scores best here if this one is barred and all others stay.
      margin: Score of the prediction minus score with the rival.
      contributions: Pairs (feature, part of the margin), largest size first. The
        transitions have names such as ``B-NP > I-NP``. The parts add up to the margin.
    """

    token: Any
    label: str
    rival: str
    margin: float
    contributions: list[tuple[str, float]]


def top_features(
    encoder: Any, weights: Weights, n: int
) -> dict[str, list[tuple[str, float]]]:
    """Return the n strongest features of each label with their weights.

    Args:
      encoder: Encoder of the model.
      weights: Arrays of the model by name.
      n: Number of features per label; the largest sizes, positive or negative.
    """
    checks.whole(n=n)
    table = _label_weights(weights, len(encoder.labels))[: encoder.num_features]
    chosen = {}
    for place, label in enumerate(encoder.labels):
        column = table[:, place]
        number = min(n, len(column))
        ids = np.argpartition(-np.abs(column), number - 1)[:number]
        chosen[label] = ids[np.argsort(-column[ids], kind="stable")]
    wanted = sorted({i for ids in chosen.values() for i in ids.tolist()})
    names = dict(zip(wanted, encoder.feature_names(wanted), strict=True))
    return {
        label: [(names[i], float(table[i, place])) for i in chosen[label].tolist()]
        for place, label in enumerate(encoder.labels)
    }


def transitions(
    labels: tuple[str, ...], weights: Weights
) -> dict[str, dict[str, float]]:
    """Return the weight of each pair of labels: previous label, then current label."""
    table = weights.get("transitions")
    if table is None:
        table = np.zeros((len(labels), len(labels) + 1))
    columns = zip((*labels, START), table.T.tolist(), strict=True)
    return {name: dict(zip(labels, row, strict=True)) for name, row in columns}


def factors(encoder: Any, weights: Weights, feature: str) -> list[dict[str, Any]]:
    """Return the factors of a feature of a bilinear model, one entry per rank.

    Args:
      encoder: Encoder of the model.
      weights: Arrays of the model by name.
      feature: Name of the feature, as `top_features` has it.

    Returns:
      Entries with ``"current"`` (alpha times the scale, by label) and ``"previous"``
      (beta, by label and `START`).
    """
    if "table" not in weights:
        raise InputError("the model is linear, so its features have no factors.")
    names = encoder.feature_names(range(encoder.num_features))
    if feature not in names:
        raise InputError(
            f"`feature` {feature!r} is not a feature of the model; names are such as "
            f"{', '.join(names[:3])}."
        )
    labels = encoder.labels
    row = compact.read(weights, names.index(feature))
    _, left, right = small.split(row, len(labels))
    scale = float(weights["scale"])
    return [
        {
            "current": dict(zip(labels, (scale * alpha).tolist(), strict=True)),
            "previous": dict(zip((*labels, START), beta.tolist(), strict=True)),
        }
        for alpha, beta in zip(left, right, strict=True)
    ]


def explain(
    encoder: Any, weights: Weights, sequences: Sequences, tokens: list[Any]
) -> list[Reason]:
    """Return the reasons for the labels of one sentence.

    Args:
      encoder: Encoder of the model.
      weights: Arrays of the model by name.
      sequences: The sentence, encoded.
      tokens: Tokens to show.
    """
    num_labels, ids = len(encoder.labels), np.asarray(sequences.feature_ids)
    path = small.predict(weights, sequences).tolist()
    before = [num_labels, *path[:-1]]
    shared = weights.get("transitions", np.zeros((num_labels, num_labels + 1)))
    used = np.unique(ids[ids < encoder.num_features]).tolist()
    texts = dict(zip(used, encoder.feature_names(used), strict=True))
    values = sequences.values
    values = np.ones(ids.shape) if values is None else np.asarray(values, float)
    names = (*encoder.labels, START)
    reasons = []
    for i, (token, label) in enumerate(zip(tokens, path, strict=True)):
        kept = [t for t in range(ids.shape[1]) if ids[i, t] < encoder.num_features]
        parts = [
            values[i, t] * _parts(weights, sequences, ids[i, t], t, before[i])
            for t in kept
        ]
        rows = [texts[ids[i, t]] for t in kept]
        rows.append(f"{names[before[i]]} > {names[label]}")
        parts.append(shared[:, before[i]])
        if i + 1 < len(path):  # the next token sees this label as its previous one
            after = path[i + 1]
            rows.append(f"{names[label]} > {names[after]}")
            parts.append(shared[after, :num_labels])
            for t in range(ids.shape[1]):
                if t in sequences.space.first_order:
                    block = _block(weights, ids[i + 1, t], num_labels)
                    parts.append(values[i + 1, t] * block[after, :num_labels])
                    feature = texts.get(ids[i + 1, t], "")
                    rows.append(f"{feature} of the next token")
        table = np.array(parts, float)
        total = table.sum(axis=0)
        others = np.where(np.arange(num_labels) == label, -np.inf, total)
        if "barred" in weights:  # a legal rival, if there is one
            after = path[i + 1] if i + 1 < len(path) else num_labels
            bars = weights["barred"]
            legal = others + bars[:-1, before[i]] + bars[after, :num_labels]
            others = legal if np.isfinite(legal.max()) else others
        rival = int(others.argmax()) if num_labels > 1 else label
        gaps = table[:, label] - table[:, rival]
        found: dict[str, float] = {}
        for name, gap in zip(rows, gaps.tolist(), strict=True):
            found[name] = found.get(name, 0.0) + gap
        ordered = sorted(found.items(), key=lambda pair: -abs(pair[1]))
        reasons.append(
            Reason(
                token,
                names[label],
                names[rival],
                float(gaps.sum()),
                [pair for pair in ordered if pair[1] != 0],
            )
        )
    return reasons


def _label_weights(weights: Weights, num_labels: int) -> np.ndarray:
    """Return (K + 1, S): 0-order weights, or means over the previous label."""
    if "zero" in weights:
        return compact.read(weights, name="zero")
    if "first" in weights:
        return weights["first"][:, :, :num_labels].mean(axis=2)
    if "keys" in weights:
        return _means(weights, num_labels)
    if "table" not in weights:
        return np.zeros((1, num_labels))
    zero, left, right = small.split(weights["table"], num_labels)
    if not zero.any():
        means = right[..., :num_labels].mean(axis=-1)
        zero = weights["scale"] * (left * means[..., None]).sum(axis=-2)
    return compact.read(dict(weights) | {"table": zero})


def _means(weights: Weights, num_labels: int) -> np.ndarray:
    """Return (K + 1, S): means over the previous label of weights by their entries."""
    names = ("keys", "slots", "pages")
    found = records.listed(*(weights[name] for name in names))
    current, previous = np.divmod(found.places, -(-(num_labels + 1) // 8) * 8)
    inside = previous < num_labels
    sums = np.zeros((len(weights["keys"]), num_labels))
    np.add.at(sums, (found.rows[inside], current[inside]), found.values[inside])
    return (sums / num_labels)[weights["rows"]]


def _block(weights: Weights, feature: int, num_labels: int) -> np.ndarray:
    """Return the (S, S + 1) weights of a feature on pairs of labels."""
    if "table" not in weights:
        return compact.blocks(weights, np.array([[feature]]), num_labels)[0]
    _, left, right = small.split(compact.read(weights, feature), num_labels)
    return weights["scale"] * np.einsum("rs,rp->sp", left, right)


def _parts(
    weights: Weights, sequences: Sequences, feature: int, column: int, before: int
) -> np.ndarray:
    """Return what a feature adds to each label of its token, (S,)."""
    space = sequences.space
    part = np.zeros(space.num_labels)
    if column in space.zero_order:
        name = "table" if "table" in weights else "zero"
        row = compact.read(weights, feature, name)
        part = part + row[: space.num_labels]
    if column in space.first_order:
        part = part + _block(weights, feature, space.num_labels)[:, before]
    return part
