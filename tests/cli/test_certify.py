"""``train --certify``: what it keeps, and that an interrupted run keeps it too."""

import json

import pytest

from tests.cli.test_train import train


def certificate(folder):
    found = json.loads((folder / "certificate.json").read_text())
    del found["seconds"]
    return found


def test_train_certifies_its_run(cli, files, tmp_path):
    """DR-B4 in certificate.json, in the results, and in one line."""
    model = tmp_path / "model"
    given = train("sp", files, model, "--train", files.noisy)
    done = cli(*given, "--certify", "hindsight", "--json", tmp_path / "out.json")
    assert done.status == 0
    assert "certificate (DR-B4) against hindsight: regret" in done.out
    assert "holds" in done.out
    assert "held-out loss (DR-B13) of the mean of W over the first pass" in done.out
    found = certificate(model)
    assert found["holds"] and found["num_rounds"] == 80
    assert found["regret"] <= found["linear_regret"] + 1e-6
    assert found["certificate"] - found["regret"] == pytest.approx(found["slack"])
    assert found["held_out"]["num_rounds"] == 40 and found["held_out"]["bound"] is None
    assert found["held_out"]["loss"] > 0
    kept = json.loads((tmp_path / "out.json").read_text())["certificate"]
    assert kept["regret"] == found["regret"]


@pytest.mark.slow
def test_resumed_run_has_the_certificate_of_an_unbroken_one(cli, files, tmp_path):
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    more = ("--certify", "--certify-every", 15)
    one = (*train("bol", files, broken, *more), "--keep-checkpoint")
    assert cli(*one, "--passes", 1).status == 0
    assert cli(*one, "--passes", 2, "--resume").status == 0
    assert cli(*train("bol", files, whole, *more)).status == 0
    assert certificate(broken)["regret"] == certificate(whole)["regret"]
    assert certificate(broken)["passes"] == certificate(whole)["passes"]
    looks = [look for done in certificate(whole)["passes"] for look in done["rounds"]]
    assert [look["num_rounds"] for look in looks] == [15, 30, 40, 55, 70, 80]
    last = certificate(whole)
    assert looks[-1]["spectrum"] == last["spectrum"]
    assert looks[-1]["conjugate"] == last["conjugate"] >= looks[0]["conjugate"] > 0
    plain = tmp_path / "plain"
    assert cli(*train("bol", files, plain, "--certify")).status == 0
    assert certificate(plain)["regret"] == certificate(whole)["regret"]


@pytest.mark.parametrize(
    ("learner", "more", "words"),
    [
        ("mira", ("--certify",), "knows the learners bol and sp, got mira"),
        ("bol", ("--certify-every", 2), "--certify-every needs --certify"),
        ("sp", ("--certify", "nowhere"), "nowhere is not a model folder"),
        ("sp", ("--certify", "--certify-every", 2), "which sp does not have"),
    ],
)
def test_a_certificate_that_cannot_be_made_is_one_sentence(
    cli, files, tmp_path, learner, more, words
):
    done = cli(*train(learner, files, tmp_path / "model", *more))
    assert done.status == 2
    assert words in done.err


def test_features_of_the_same_number_but_other_words_are_others(cli, files, tmp_path):
    text, model = files.noisy.read_text(), tmp_path / "model"
    words = sorted({line.split()[0] for line in text.splitlines() if line.strip()})
    swap = dict(zip(words, words[1:] + words[:1], strict=True))
    lines = [line.split() for line in text.splitlines()]
    turned = [" ".join([swap[w[0]], *w[1:]]) if w else "" for w in lines]
    (tmp_path / "other.txt").write_text("\n".join(turned) + "\n")
    assert cli(*train("sp", files, model, "--train", files.noisy)).status == 0
    given = ("--train", tmp_path / "other.txt", "--certify", model)
    done = cli(*train("sp", files, tmp_path / "new", *given))
    assert done.status == 2
    assert "other features or labels" in done.err


def test_the_other_model_must_have_the_same_features(cli, files, chunker, tmp_path):
    given = ("--train", files.words, "--format", "segmentation", "--certify", chunker)
    done = cli(*train("sp", files, tmp_path / "model", *given))
    assert done.status == 2
    assert "other features or labels" in done.err
