"""Low-rank bilinear, Hankel and tensor models as pure JAX functions.

The layers, in the order in which data runs through them: `data` and `features` on the
host; `models`, `decode`, `online`, `batch` and `theory` as pure JAX functions; `loops`
runs a learner over a stream, `metrics` scores what comes out. On top of them, for use
from the host: `tagger`, `classifier` with `selection`, `reranker` with `nbest`.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_LAYERS = (
    "batch",
    "checkpoint",
    "classifier",
    "data",
    "decode",
    "features",
    "linalg",
    "loops",
    "metrics",
    "models",
    "nbest",
    "online",
    "parallel",
    "reranker",
    "selection",
    "tagger",
    "theory",
    "types",
)

__all__ = ["__version__", *_LAYERS]


def __getattr__(name: str) -> Any:
    """Import a layer when it is first asked for: the command line starts at once."""
    if name in _LAYERS:
        return importlib.import_module(f"lowrank_jax.{name}")
    raise AttributeError(f"module 'lowrank_jax' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the layers too, loaded or not."""
    return sorted([*globals(), *_LAYERS])
