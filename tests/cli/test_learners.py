import inspect

import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.cli import learners
from lowrank_jax.models import bilinear, hankel, linear


@pytest.mark.parametrize("name", learners.LEARNERS)
def test_every_learner_is_as_the_registry_says(name):
    spec, module = learners.LEARNERS[name], learners.module_of(name)
    assert {"State", "Info", "learner", "final_params"} <= set(module.__all__)
    assert spec.kind in ("online", "batch", "words")
    assert spec.model in ("linear", "bilinear", "hankel")
    has_features = spec.kind != "words"
    assert spec.orders in (("template", "both") if has_features else ("",))
    text = learners.describe(name)
    for option in inspect.signature(module.learner).parameters:
        assert f"  {option} (default: " in text
    settings, _ = learners.split_settings(name, learners.all_settings(name, {}))
    module.learner(**settings)


def test_values_are_read_by_the_types_of_the_signature():
    texts = [
        "variant=paper",
        "rank=1",
        "step_size=0.5",
        "record=ratio",
        "dtype=float64",
    ]
    assert learners.parse_settings("bol", texts) == {
        "variant": "paper",
        "rank": 1,
        "step_size": 0.5,
        "record": ("ratio",),
        "dtype": np.dtype("float64"),
    }
    assert learners.parse_settings("bol", ["averaging=none"]) == {"averaging": "none"}
    assert learners.parse_settings("bol", ["rank=1", "rank=2"]) == {"rank": 2}
    assert learners.parse_settings("bol", ["record="]) == {"record": ()}


def test_further_types_are_read():
    read = learners.parse_value
    assert read("none", int | None) is None
    assert read("3", int | None) == 3
    assert read("TRUE", bool) is True and read("0", bool) is False
    assert read("none", str | None) == "none"
    with pytest.raises(ValueError, match="true or false"):
        read("maybe", bool)


@pytest.mark.parametrize(
    "text, sentence",
    [
        (
            "colour=red",
            "'colour=red' is not a hyper-parameter of bol; it has variant, ",
        ),
        ("rank", "'rank' must have the form name=value"),
        ("rank=two", "'rank=two': the value must be a whole number"),
        ("rank=1.5", "the value must be a whole number"),
        ("step_size=big", "the value must be a number"),
        ("dtype=int8", "the value must be float32 or float64"),
    ],
)
def test_a_wrong_setting_is_told_in_one_sentence(text, sentence):
    with pytest.raises(InputError, match=sentence):
        learners.parse_settings("bol", [text])


def test_settings_become_json():
    settings = learners.all_settings("bol", {"dtype": np.dtype("float64")})
    plain = learners.to_json(settings | {"step_size": 2.0})
    assert plain["dtype"] == "float64" and plain["record"] == []
    assert learners.to_json({"dtype": jnp.float32}) == {"dtype": "float32"}
    assert learners.to_json({"a": True, "b": None}) == {"a": True, "b": None}


def test_the_models_of_the_registry_are_those_of_the_learners():
    modules = {
        "linear": linear.Params,
        "bilinear": bilinear.Params,
        "hankel": hankel.Params,
    }
    for name, spec in learners.LEARNERS.items():
        function = learners.module_of(name).final_params
        returned = inspect.signature(function, eval_str=True).return_annotation
        assert returned is modules[spec.model], name
