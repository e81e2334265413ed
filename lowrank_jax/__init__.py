"""Low-rank bilinear, Hankel and tensor models as pure JAX functions.

The layers, in the order in which data runs through them: `data` and `features` on the
host; `streams` puts data on the device; `models`, `decode`, `online`, `batch` and
`theory` are pure JAX functions; `loops` runs a learner over a stream, `metrics` scores
what comes out. On top of them stand the `estimators`, which fit, predict, save, load.
"""

import importlib.metadata
from typing import TYPE_CHECKING, Any

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.estimators import load as load
    from lowrank_jax.estimators.classifier import (
        BilinearClassifier as BilinearClassifier,
    )
    from lowrank_jax.estimators.classifier import (
        BilinearClassifierCV as BilinearClassifierCV,
    )
    from lowrank_jax.estimators.reranker import Reranker as Reranker
    from lowrank_jax.estimators.speller import Speller as Speller
    from lowrank_jax.estimators.tagger import Tagger as Tagger

    __version__: str

_LAYERS = (
    "batch certify checks data decode estimators export features linalg loops metrics "
    "models online plots sharding store streams testing theory types verify"
).split()

__all__, _get, __dir__ = lazy.attach(__name__, _LAYERS)


def _load(name: str) -> Any:
    """Load a layer when it is first asked for, so that the command line starts fast."""
    if name == "__version__":
        return importlib.metadata.version("lowrank_jax")
    return _get(name)


if not TYPE_CHECKING:  # a type checker would take every name for one of any type
    __getattr__ = _load
