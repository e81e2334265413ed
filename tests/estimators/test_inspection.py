"""What a tagger shows of itself, against scores taken apart by hand."""

import json

import numpy as np
import pytest

from lowrank_jax import Tagger, data
from lowrank_jax.checks import InputError
from lowrank_jax.cli import main
from lowrank_jax.estimators.tagger import compact, small
from tests.cli.conftest import chunk_lines


@pytest.fixture(scope="module", params=["sp", "bol"])
def fitted(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("shown")
    (place / "train.txt").write_text(chunk_lines(40, 2, noise=0.1))
    corpus = data.read_conll(place / "train.txt")
    tagger = Tagger(request.param, num_passes=2).fit(corpus)
    tagger.save(place / "m")
    return tagger, corpus, place


def path_score(tagger, sequences, path):
    """Score of a labelling, position by position."""
    tokens = np.arange(len(path))
    unary, pairs = small.position_scores(tagger._weights, tokens, sequences)
    before = [len(tagger.classes_), *path[:-1]]
    pairs = np.broadcast_to(pairs, (len(path), *pairs.shape[-2:]))
    return sum(
        float(unary[i, y]) + float(pairs[i, y, before[i]]) for i, y in enumerate(path)
    )


def test_contributions_add_up_to_the_margin_over_the_best_rival(fitted):
    tagger, corpus, _ = fitted
    sentence = corpus.take([3])
    sequences = tagger.encoder_.transform(sentence)
    names = list(tagger.encoder_.labels)
    reasons = tagger.explain(sentence)
    path = [names.index(reason.label) for reason in reasons]
    assert [r.label for r in reasons] == tagger.predict(sentence).tolist()
    best = path_score(tagger, sequences, path)
    for i, reason in enumerate(reasons):
        others = {
            label: best - path_score(tagger, sequences, path[:i] + [k] + path[i + 1 :])
            for k, label in enumerate(names)
            if k != path[i]
        }
        least = min(others.values())
        assert others[reason.rival] == pytest.approx(least, abs=1e-3)
        assert reason.margin == pytest.approx(least, abs=1e-3)
        total = sum(value for _, value in reason.contributions)
        assert total == pytest.approx(reason.margin, abs=1e-9)


def test_top_features_are_the_largest_weights(fitted):
    tagger, _, _ = fitted
    weights = tagger._weights
    table = compact.read(weights) if "table" in weights else weights["zero"]
    shown = tagger.top_features(3)
    for k, label in enumerate(tagger.encoder_.labels):
        column = np.asarray(table)[:-1, k]
        sizes = np.sort(np.abs(column))[::-1][:3]
        values = [value for _, value in shown[label]]
        np.testing.assert_allclose(np.sort(np.abs(values))[::-1], sizes)
        assert values == sorted(values, reverse=True)
        everything = tagger.encoder_.feature_names(range(tagger.encoder_.num_features))
        for name, value in shown[label]:
            assert column[everything.index(name)] == np.float32(value)


def test_transitions_are_named_by_previous_then_current_label(fitted):
    tagger, _, _ = fitted
    found, table = tagger.transitions(), tagger._weights["transitions"]
    names = tagger.encoder_.labels
    assert found[names[0]][names[1]] == table[1, 0]
    assert found["<start>"][names[1]] == table[1, len(names)]


def test_factors_multiply_to_the_block_of_a_feature(fitted):
    tagger, _, _ = fitted
    name = next(iter(tagger.top_features(1).values()))[0][0]
    if tagger.model == "linear":
        with pytest.raises(InputError, match="the model is linear"):
            tagger.factors(name)
        return
    (entry,) = tagger.factors(name)
    assert list(entry["previous"]) == [*tagger.encoder_.labels, "<start>"]
    with pytest.raises(InputError, match="'nobody' is not a feature"):
        tagger.factors("nobody")


def test_the_command_shows_text_json_and_a_page(fitted, capsys):
    tagger, _, place = fitted
    model, out, page = place / "m", place / "out.json", place / "page.html"
    assert main(["show", str(model), "--top", "2", "--json", str(out)]) == 0
    text = capsys.readouterr().out
    found = json.loads(out.read_text())
    assert found["top_features"].keys() == set(tagger.classes_)
    for pairs in found["top_features"].values():
        assert len(pairs) == 2 and all(name in text for name, _ in pairs)
    given = ["--explain", str(place / "train.txt"), "--html", str(page)]
    assert main(["show", str(model), *given, "--json", str(out)]) == 0
    explained = json.loads(out.read_text())["explained"]
    assert explained[0]["label"] in tagger.classes_
    written = page.read_text()
    assert "Why these labels" in written and "http" not in written.replace(
        "http://www.w3.org", ""
    )
    assert main(["show", str(place)]) == 2
    if tagger.model == "bilinear":
        name = next(iter(found["top_features"].values()))[0][0]
        given = ["--feature", name, "--html", str(page), "--json", str(out)]
        capsys.readouterr()
        assert main(["show", str(model), *given]) == 0
        assert json.loads(out.read_text())["factors"] == tagger.factors(name)
        assert "previous label: " in capsys.readouterr().out
        assert "Factor of the previous label." in page.read_text()
