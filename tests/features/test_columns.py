import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data.corpus import corpus_of
from lowrank_jax.features import Encoder, parse_template, read_template
from lowrank_jax.features.templates import column_function, make_column


@pytest.mark.parametrize(
    ("name", "value", "made"),
    [
        ("lower", "McDonald-92", "mcdonald-92"),
        ("shape", "McDonald-92", "XxXx-d"),
        ("shape", "", ""),
        ("digits", "McDonald-92", "McDonald-00"),
        ("prefix3", "McDonald-92", "McD"),
        ("suffix3", "McDonald-92", "-92"),
        ("suffix12", "short", "short"),
    ],
)
def test_a_function_makes_a_value(name, value, made):
    assert column_function(name)(value) == made
    column = np.array([value, "x", value], object)
    assert make_column(column, name).tolist()[::2] == [made, made]


def test_a_macro_with_a_function_is_a_column_written_by_hand():
    words = ["The", "old", "McDonald", "had", "7", "farms"]
    labels = [["x", "y"] * 3]
    made = parse_template("U1:%x[0,0,suffix2]/%x[-1,0,shape]\nU2:%x[1,0,lower]\nB\n")
    plain = parse_template("U1:%x[0,1]/%x[-1,2]\nU2:%x[1,3]\nB\n")
    names = ("suffix2", "shape", "lower")
    tuples = [(w, *(column_function(n)(w) for n in names)) for w in words]
    one, rows = Encoder.fit_transform(corpus_of([words], labels), made)
    two, expected = Encoder.fit_transform(corpus_of([tuples], labels), plain)
    texts = [
        [encoder.feature_names(row) for row in found.feature_ids.tolist()]
        for encoder, found in ((one, rows), (two, expected))
    ]
    assert texts[0] == texts[1]
    again = Encoder.from_arrays(one.arrays(), one.metadata())
    assert again.template == made
    found = again.transform(corpus_of([words]))
    np.testing.assert_array_equal(found.feature_ids, rows.feature_ids)


def test_a_function_that_is_not_there_is_named():
    with pytest.raises(InputError, match="line 1: .*'stem' is not a function"):
        parse_template("U1:%x[0,0,stem]")
    with pytest.raises(InputError, match="asks for column 2"):
        parse_template("U1:%x[0,2,lower]").check_columns(1, "f")


@pytest.mark.parametrize("name", ["words", "entities"])
def test_shipped_templates_need_words_alone(name):
    read_template(name).check_columns(1, "f")
