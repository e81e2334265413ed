"""Readers of candidate lists: what they take, and what they say of bad files."""

import dataclasses
import gzip
import json
import math
import re

import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data import read_json_lists, read_svmlight_lists, write_json_lists
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.models.tensor import mode_sizes

JSON = [
    {
        "candidates": [
            {"features": {"a": 1, "b": 0.5}, "quality": 0.9},
            {"features": {}, "quality": 1},
        ]
    },
    {"candidates": [{"features": {"c": -2, "a": 3}, "quality": 0}]},
]
SVMLIGHT = """\
0.9 qid:3 0:1 1:0.5 # the first
1 qid:3

0 qid:x 2:-2 0:3
"""


def write(tmp_path, text, name="lists"):
    path = tmp_path / name
    path.write_text(text)
    return path


def as_lines(items):
    return "".join(json.dumps(item) + "\n" for item in items)


def check(lists):
    np.testing.assert_array_equal(lists.feature_ids, [0, 1, 2, 0])
    np.testing.assert_array_equal(lists.values, np.float32([1, 0.5, -2, 3]))
    np.testing.assert_array_equal(lists.candidate_offsets, [0, 2, 2, 4])
    np.testing.assert_array_equal(lists.list_offsets, [0, 2, 3])
    np.testing.assert_array_equal(lists.quality, np.float32([0.9, 1, 0]))
    assert lists.num_features == 3
    assert lists.feature_ids.dtype == lists.list_offsets.dtype == np.int32


def test_both_formats_give_the_same_lists(tmp_path):
    lists, names = read_json_lists(write(tmp_path, as_lines(JSON)))
    check(lists)
    assert names == {"a": 0, "b": 1, "c": 2}
    check(read_svmlight_lists(write(tmp_path, SVMLIGHT)))
    packed = tmp_path / "lists.gz"
    packed.write_bytes(gzip.compress(as_lines(JSON).encode()))
    check(read_json_lists(packed)[0])


def test_unknown_names_become_the_id_that_scores_nothing(tmp_path):
    names = {"c": 0, "a": 1}
    lists, same = read_json_lists(write(tmp_path, as_lines(JSON)), names=names)
    np.testing.assert_array_equal(lists.feature_ids, [1, 2, 0, 1])
    assert lists.num_features == 2
    assert same == {"c": 0, "a": 1}


def test_quality_may_be_left_out_where_nothing_is_trained(tmp_path):
    text = as_lines([{"candidates": [{"features": {"a": 1}}]}])
    lists, _ = read_json_lists(write(tmp_path, text), training=False)
    assert np.isnan(lists.quality).all()
    lists = read_svmlight_lists(write(tmp_path, "nan qid:1 1:2\n"), training=False)
    assert np.isnan(lists.quality).all()


GOOD = as_lines(JSON[:1])


def one(value, quality="0"):
    """One candidate of one feature."""
    return f'{{"candidates": [{{"features": {{"a": {value}}}, "quality": {quality}}}]}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no list"),
        (GOOD + "{", ":2 is not JSON"),
        (GOOD + "[]", ':2 has no array "candidates"'),
        (GOOD + '{"candidates": []}', ":2 is a list without candidates"),
        (GOOD + '{"candidates": [{}]}', ':2 has a candidate without an object "fea'),
        ('{"candidates": [{"features": {}}]}', ":1 has a candidate without a quality"),
        ('{"candidates": [{"features": {}, "quality": 1e99}]}', "quality 1e+99"),
        ('{"candidates": [{"features": {}, "quality": NaN}]}', "without a quality"),
        (
            '{"candidates": [{"features": {"a": NaN}, "quality": 0}]}',
            ":1 gives feature 'a' the value nan, which is not finite",
        ),
        (
            '{"candidates": [{"features": {"a": [1]}, "quality": 0}]}',
            ":1 has [1] where a number",
        ),
        (
            '{"candidates": [{"features": {"a": true}, "quality": 0}]}',
            ":1 has True where a number",
        ),
        (one('"0.5"'), ":1 has '0.5' where a number"),
        (one("1", '"0.5"'), ":1 has '0.5' where a number"),
        (one("1e39"), ":1 gives feature 'a' the value 1e+39, which is beyond 1e+38"),
        (one("-1e39"), ":1 gives feature 'a' the value -1e+39, which is beyond"),
        (one("Infinity"), ":1 gives feature 'a' the value inf, which is not finite"),
        (one("7" * 400), "7777, which is beyond 1e+38; scale it"),
        (one("1", "7" * 400), "7777, and it must be finite"),
        (one("7" * 5000), ":1 is not JSON (a number of too many digits)"),
        ("[" * 100_000, ":1 is not JSON (brackets nested too deeply"),
        (one("[" * 900 + "]" * 900), ":1 has [[[[[[[...]]]]]]] where a number"),
        (one('1, "b": 2, "a": 3'), ":1 has the name 'a' twice in one object"),
        (one('1}, "features": {"a": 1'), ":1 has the name 'features' twice"),
        (
            '{"candidates": [{"features": {}, "quality": 0}]}',
            "gives no candidate a feature, and training needs some",
        ),
    ],
)
def test_bad_json_is_named_by_file_and_line(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=re.escape(message)) as found:
        read_json_lists(path)
    assert str(path) in str(found.value)
    assert "\n" not in str(found.value) and len(str(found.value)) < 400


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0.5 1:1", ":4 has no qid in its second place"),
        ("0.5", ":4 has no qid in its second place"),
        ("0.5 qid:3 1:1", ":4 comes back to qid 3 of line 1"),
        ("0.5 qid:4 5:1", ":4 has the feature id 5; ids must lie in 0..4"),
        ("0.5 qid:4 5:1", "raise the number of features"),
        ("0.5 qid:4 -1:1", ":4 has the feature id -1"),
        ("0.5 qid:4 -1:1", "number the features from 0"),
        ("0.5 qid:4 1_0:1", ":4 has '1_0:1' where an id:value"),
        ("0.5 qid:4 1:1_0", ":4 has '1_0' where a number"),
        ("0_1 qid:4 1:1", ":4 has '0_1' where a number"),
        ("0.5 qid:4 1:1 2:1 1:3", ":4 has feature 1 twice in a candidate"),
        (f"0.5 qid:4 {'9' * 400}:1", "9999; ids must lie in 0..4"),
        (f"0.5 qid:4 {'9' * 5000}:1", "where an id:value should be"),
        ("0.5 qid:4 1:inf", ":4 gives feature 1 the value inf, which is not finite"),
        ("0.5 qid:4 1:-1e39", ":4 gives feature 1 the value -1e39, which is beyond"),
        ("0.5 qid:4 1", ":4 has '1' where an id:value"),
        ("0.5 qid:4 x:1", ":4 has 'x:1' where an id:value"),
        ("0.5 qid:4 1:x", ":4 has 'x' where a number"),
        ("inf qid:4 1:1", ":4 has the quality inf, and it must be finite"),
        ("nan qid:4 1:1", ":4 has a candidate without a quality"),
        ("? qid:4 1:1", ":4 has '?' where a number"),
    ],
)
def test_bad_svmlight_is_named_by_file_and_line(tmp_path, line, message):
    path = write(tmp_path, "0.1 qid:3 1:1\n# nothing\n0.5 qid:2 1:1\n" + line + "\n")
    with pytest.raises(InputError, match=re.escape(message)) as found:
        read_svmlight_lists(path, num_features=5)
    assert str(path) in str(found.value) and len(str(found.value)) < 400


def test_the_largest_feature_id_that_is_taken_fits_into_a_tensor_of_any_order(tmp_path):
    largest = 2**30 - 1
    lists = read_svmlight_lists(write(tmp_path, f"0 qid:1 {largest}:1e38\n"))
    assert lists.num_features == largest + 1 and np.isfinite(2 * lists.values).all()
    for order in range(1, 65):
        sizes = mode_sizes(lists.num_features, order)
        assert lists.num_features <= math.prod(sizes) < 2**31
    for index in (largest + 1, 2**31 - 2):
        path = write(tmp_path, f"0 qid:1 {index}:1\n")
        with pytest.raises(InputError, match=rf"0\.\.{largest}; number the features"):
            read_svmlight_lists(path)
        with pytest.raises(InputError, match="`num_features` must be at most"):
            read_svmlight_lists(path, num_features=index + 1)
        with pytest.raises(InputError, match="the file this model was made for"):
            read_svmlight_lists(path, num_features=5, training=False)


def test_lists_without_a_feature_are_named_where_something_is_trained(tmp_path):
    path = write(tmp_path, "0 qid:1\n1 qid:1\n")
    with pytest.raises(InputError, match="gives no candidate a feature") as found:
        read_svmlight_lists(path)
    assert str(path) in str(found.value)
    assert read_svmlight_lists(path, num_features=3, training=False).num_features == 3


@pytest.mark.parametrize("name", ["lists.jsonl", "lists.jsonl.gz", "lists.jsonl.xz"])
def test_written_lists_are_read_back_bit_for_bit(tmp_path, name):
    lists, _, _ = reranking_task(5, 1, seed=0)
    rng = np.random.default_rng(0)
    values = rng.normal(size=lists.num_entries).astype(np.float32)
    quality = lists.quality.copy()
    quality[1] = np.nan
    lists = dataclasses.replace(lists, values=values, quality=quality)
    names = {f"f{i}\u00e9": i for i in range(lists.num_features)}
    write_json_lists(tmp_path / name, lists, names)
    again, _ = read_json_lists(tmp_path / name, names=names, training=False)
    for part, value in vars(lists).items():
        np.testing.assert_array_equal(getattr(again, part), value, err_msg=part)


def test_lists_that_names_cannot_tell_are_not_written(tmp_path):
    lists, _, _ = reranking_task(2, 1, seed=0)
    path = tmp_path / "lists.jsonl"
    with pytest.raises(InputError, match="without a name"):
        write_json_lists(path, lists, {"a": 0})
    lists.feature_ids[:2] = 0
    with pytest.raises(InputError, match="feature 0 twice"):
        write_json_lists(path, lists, {f"f{i}": i for i in range(lists.num_features)})
    assert not path.exists()
