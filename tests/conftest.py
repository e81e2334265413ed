"""Settings of all tests: float64 on, strict promotion, corpora found by name."""

import os
import pathlib

# Tests compile hundreds of small programs and run each once: spare LLVM the effort.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def corpus_path():
    """Return a function from a corpus file's name to its path, or skip by that name."""

    def find(name: str) -> pathlib.Path:
        folder = os.environ.get("LOWRANK_JAX_DATA")
        if folder is None:
            pytest.skip(f"{name}: LOWRANK_JAX_DATA is not set")
        path = pathlib.Path(folder) / name
        if not path.exists():
            pytest.skip(f"{name} is not in {folder}")
        return path

    return find
