"""Settings as text, for every learner of every command."""

import inspect
import types
import typing

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.cli import options as reader
from lowrank_jax.estimators import Reranker, Speller, Tagger, learners
from lowrank_jax.models import bilinear, hankel, linear

EVERY = [
    (name, spec)
    for known in (learners.LEARNERS, learners.RERANKERS)
    for name, spec in known.items()
]
ESTIMATORS = {"sentences": Tagger, "words": Speller, "lists": Reranker}


def parse(name, texts):
    options = learners.options_of(learners.LEARNERS[name])
    return reader.parse_settings(texts, options, owner=name)


@pytest.mark.parametrize(("name", "spec"), EVERY)
def test_every_learner_is_as_the_registry_says(name, spec):
    module = learners.module_of(spec)
    assert {"State", "Info", "learner", "final_params"} <= set(module.__all__)
    has_features = spec.data == "sentences"
    assert not has_features or spec.orders in ("template", "both")
    text = reader.describe_learner(name, spec)
    for option in set(inspect.signature(module.learner).parameters) - set(spec.hidden):
        assert f"  {option} (default: " in text
    ESTIMATORS[spec.data](name).check()  # with the defaults


def test_values_are_read_by_the_types_of_the_signature():
    texts = [
        "variant=paper",
        "rank=1",
        "step_size=0.5",
        "record=ratio",
        "dtype=float64",
    ]
    assert parse("bol", texts) == {
        "variant": "paper",
        "rank": 1,
        "step_size": 0.5,
        "record": ("ratio",),
        "dtype": np.dtype("float64"),
    }
    assert parse("bol", ["averaging=none"]) == {"averaging": "none"}
    assert parse("bol", ["rank=1", "rank=2"]) == {"rank": 2}
    assert parse("bol", ["record="]) == {"record": ()}


def test_further_types_are_read():
    read = reader.parse_value
    assert read("none", int | None) is None
    assert read("3", int | None) == 3
    assert read("TRUE", bool) is True and read("0", bool) is False
    assert read("none", str | None) == "none"
    with pytest.raises(ValueError, match="true or false"):
        read("maybe", bool)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("colour=red", "'colour=red' is not a setting of bol; it has variant, "),
        ("step=1", "'step=1' is not a setting of bol; the nearest is `step_size`, "),
        ("rank", "'rank' must have the form name=value"),
        ("rank=two", "'rank=two': the value must be a whole number"),
        ("rank=1.5", "the value must be a whole number"),
        ("step_size=big", "the value must be a number"),
        ("dtype=int8", "the value must be float32 or float64"),
    ],
)
def test_a_wrong_setting_is_told_in_one_sentence(text, sentence):
    with pytest.raises(InputError, match=sentence):
        parse("bol", [text])


def test_settings_become_json_and_come_back():
    options = learners.options_of(learners.LEARNERS["bol"])
    given = {"dtype": np.dtype("float64"), "step_size": 2.0}
    every = learners.complete("bol", options, given)
    plain = learners.to_json(every)
    assert plain["dtype"] == "float64" and plain["record"] == []
    assert learners.without_json(plain) == every
    assert learners.to_json({"dtype": jnp.float32}) == {"dtype": "float32"}
    assert learners.to_json({"a": True, "b": None}) == {"a": True, "b": None}
    with pytest.raises(InputError, match="`colour` is not a setting of bol; it has"):
        learners.complete("bol", options, {"colour": "red"})


def test_the_models_of_the_registry_are_those_of_the_learners():
    modules = {
        "linear": linear.Params,
        "bilinear": bilinear.Params,
        "hankel": hankel.Params,
    }
    for name, spec in learners.LEARNERS.items():
        function = learners.module_of(spec).final_params
        returned = inspect.signature(function, eval_str=True).return_annotation
        if isinstance(returned, types.UnionType):  # a mean of W is linear
            returned = typing.get_args(returned)[0]
        assert returned is modules[spec.model], name
