"""The trigram baselines on a few made-up words."""

from experiments.smm import subpatterns, words
from tests.experiments.smm.test_smm import SIZES, corpus  # noqa: F401  (a fixture)


def test_both_choose_on_development_words_and_score_on_the_test(corpus):  # noqa: F811
    split = words.draw_split(corpus, 0, SIZES)
    split = split._replace(test=split.development)  # one program decodes both
    found = subpatterns.fit_perceptron(split, 40, (1, 3), 0)
    assert found.keys() == {"development", "setting", "test"}
    assert found["setting"]["passes"] in (1, 3)
    assert found["test"] == found["development"] > 95

    lines = []
    found = subpatterns.fit_crf(split, 40, (1.0, 0.5), (2, 8), lines.append)
    assert found.keys() == {"development", "setting", "test"}
    assert found["setting"]["strength"] == 1.0  # of equal ones the first
    assert found["setting"]["iterations"] in (2, 8)
    assert found["test"] == found["development"] == 100
    assert len(lines) == 2 and "trigram CRF c 0.5" in lines[1]
