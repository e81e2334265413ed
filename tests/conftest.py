"""Settings of all tests: float64 on, strict promotion, corpora found by name."""

import gc
import os
import pathlib
import shutil
import tempfile

# Tests compile hundreds of small programs and run each once: spare LLVM the effort.
# Programs are too small to be cut into parts that are compiled side by side.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
# There is a test process for each core. Two singular value decompositions of batches
# side by side can wait for each other for ever where XLA has two threads.
os.environ.setdefault("PJRT_NPROC", "1")
# No test reads the lines of Python that a compiled program names.
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"

# What one process has compiled the others need not, processes of the command line
# included: all of a run share a folder, which goes when the run ends. A developer who
# sets JAX_COMPILATION_CACHE_DIR keeps what was compiled for the next run.
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
_COMPILED = pathlib.Path(tempfile.gettempdir()) / f"lowrank-jax-tests-{_RUN}"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_COMPILED))
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402

# A run repeats; `pytest --hypothesis-profile=fresh` draws other examples.
hypothesis.settings.register_profile("fixed", derandomize=True)
hypothesis.settings.register_profile("fresh", derandomize=False)
hypothesis.settings.load_profile("fixed")

# Tracing makes objects by the hundred thousand, nearly none of them in rings.
gc.freeze()
gc.set_threshold(200_000, 20, 20)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


#: Memory maps of a test process above which it forgets what it has compiled.
MOST_MAPS = 8000


def pytest_runtest_teardown(item, nextitem):
    """Forget compiled programs between two modules if there are very many.

    A compiled program keeps its memory and its memory maps until the caches of JAX are
    cleared. Linux allows a process 65,530 maps, and all tests make more.
    """
    maps = pathlib.Path("/proc/self/maps")  # Linux alone has it
    if nextitem is None or item.path == nextitem.path or not maps.exists():
        return
    if len(maps.read_bytes().splitlines()) > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


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


def pytest_sessionfinish(session):
    """Remove what was compiled: the last to leave is the process that came first."""
    if not hasattr(session.config, "workerinput"):
        run = getattr(session.config, "_lowrank_jax_run", _RUN)
        folder = _COMPILED.with_name(f"lowrank-jax-tests-{run}")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Remember the name of the run that the workers were given (pytest-xdist)."""
    node.config._lowrank_jax_run = node.workerinput["testrunuid"]
