"""Rerankers in a folder."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowrank_jax.checks import InputError
from lowrank_jax.data.made.lists import reranking_task
from lowrank_jax.estimators.reranker import Reranker
from lowrank_jax.models import tensor


def made(order, dtype):
    """Return a tensor model of modes that are all different, and some lists."""
    sizes = tuple(range(1, order + 1)) if order < 5 else (1,) * (order - 3) + (2, 3, 6)
    lists, _, _ = reranking_task(5, 1, seed=0, sizes=(6, 6))
    shape = tensor.Shape(sizes, 2)
    params = tensor.random(jax.random.key(0), shape, dtype)
    place = np.arange(lists.num_features, dtype=np.int32) % shape.num_cells
    model = Reranker.from_params(
        tuple(part * 10 for part in params), lists.num_features, place=place
    )
    return model, lists


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("order", [2, 12])
def test_a_model_comes_back_with_its_modes_in_order_and_its_precision(
    tmp_path, order, dtype
):
    model, lists = made(order, dtype)
    model.save(tmp_path / "m")
    with jax.enable_x64(False):  # as in a fresh process
        again = Reranker.load(tmp_path / "m")
        scores = again.decision_function(lists)
    assert [part.shape for part in again.params_] == [p.shape for p in model.params_]
    assert all(part.dtype == dtype for part in again.params_)
    assert scores.dtype == dtype
    np.testing.assert_array_equal(scores, model.decision_function(lists))


def test_a_folder_that_lacks_something_is_refused(tmp_path):
    model, _ = made(2, jnp.float32)
    model.save(tmp_path / "m")
    about = json.loads((tmp_path / "m" / "model.json").read_text())
    del about["num_features"]
    (tmp_path / "m" / "model.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="damaged or not of a reranker"):
        Reranker.load(tmp_path / "m")
