"""Some programs at small shapes, compiled for both targets: for the tests.

Prints one line of JSON for each program and target. All take some 12 processor seconds;
a process that takes ten times as many is ended.

Exit status: 0 if all programs compile, 2 if a compiler is not installed.
"""

import functools
import json
import resource
import sys
from typing import Any

import jax
import jax.numpy as jnp

from experiments.accelerators import targets
from lowrank_jax.data.sequences import Space
from lowrank_jax.decode import Scores, best_path_batch
from lowrank_jax.linalg import spectra
from lowrank_jax.linalg.gather_sum import SumPlan, sum_rows
from lowrank_jax.models import bilinear
from lowrank_jax.online import padded

INSTALL = "make .venv-accelerators/installed"
SPACE = Space(8000, 5, ("01",) * 3, False)


def _array(*shape: int, dtype: Any = jnp.float32) -> Any:
    """Return a shape, which stands where an array is declared."""
    return jax.ShapeDtypeStruct(shape, dtype)


def _predicted(params: bilinear.Params, ids: jax.Array, lengths: jax.Array) -> Any:
    unary, pairs = bilinear.positions(params, ids.reshape(-1, ids.shape[2]), SPACE)
    unary = unary.reshape(*ids.shape[:2], -1)
    pairs = pairs.reshape(*ids.shape[:2], *pairs.shape[1:])
    return best_path_batch(Scores(unary, pairs), lengths).labels


def _programs() -> dict[str, tuple[Any, tuple, tuple[int, ...]]]:
    batch = padded.Batch(
        feature_ids=_array(4, 16, 3, dtype=jnp.int32),
        labels=_array(4, 16, dtype=jnp.int32),
        lengths=_array(4, dtype=jnp.int32),
        space=SPACE,
    )
    learner = padded.bol(num_positions=32)
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(learner.init, key, batch)
    zeros = functools.partial(bilinear.zeros, rank=1, dtype=jnp.float32)
    params = jax.eval_shape(lambda: zeros(SPACE))
    groups = tuple(_array(100, width, dtype=jnp.int32) for width in (1, 4, 16))
    plan = SumPlan((groups,), _array(300, dtype=jnp.int32))
    return {
        "padded.bol": (learner.update, (state, batch), (0,)),
        "predict_batch": (_predicted, (params, batch.feature_ids, batch.lengths), ()),
        "svd": (spectra.svd, (_array(64, 5, 6),), ()),
        "gather_sum": (sum_rows, (plan, _array(1000, 5)), ()),
    }


def main() -> int:
    """Compile all, print and return the exit status."""
    for target in targets.TARGETS:
        if not targets.is_installed(target):
            reason = f"the compiler for {target} is not installed: run `{INSTALL}`."
            print(reason, file=sys.stderr)
            return 2
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
    for target in targets.TARGETS:
        devices = targets.mesh(target)
        for name, (function, arguments, donate) in _programs().items():
            lowered = targets.lower(function, arguments, devices=devices, donate=donate)
            report = targets.compile_lowered(lowered, is_gpu=target == "h100")
            row = {
                "program": name,
                "target": target,
                "launches": report.counts.launches,
                "loops": len(report.counts.loops),
                "large_copies": len(report.counts.copies),
                "temp_bytes": report.temp_bytes,
            }
            print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
