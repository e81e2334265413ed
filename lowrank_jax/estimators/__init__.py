"""What a user holds: models that fit, predict, score, save and load.

All are used in scikit-learn's habit. The constructor takes settings and nothing else,
`fit` returns the object itself, and the names of what was learned end in ``_``.
"""

from typing import TYPE_CHECKING, Any

from lowrank_jax import lazy
from lowrank_jax.store.files import Path

if TYPE_CHECKING:
    from lowrank_jax.estimators.classifier import (
        BilinearClassifier as BilinearClassifier,
    )
    from lowrank_jax.estimators.classifier import (
        BilinearClassifierCV as BilinearClassifierCV,
    )
    from lowrank_jax.estimators.reranker import Reranker as Reranker
    from lowrank_jax.estimators.speller import Speller as Speller
    from lowrank_jax.estimators.tagger import Tagger as Tagger

_MODULES = "classifier labelling learners reranker speller tagger training".split()

__all__, __getattr__, __dir__ = lazy.attach(__name__, _MODULES)
__all__ += ["load"]

#: Class of each kind of model folder.
_KINDS = {
    "tagger": "Tagger",
    "word tagger": "Speller",
    "matrix classifier": "BilinearClassifier",
    "reranker": "Reranker",
}


def load(folder: Path) -> Any:
    """Read a model folder of any kind.

    Args:
      folder: Folder that `save` or a command wrote.

    Raises:
      InputError: If there is no model, or it is unfinished, of another version, cut
        short or damaged.
    """
    from lowrank_jax.store.folder import kind_of

    return __getattr__(_KINDS.get(kind_of(folder) or "", "Tagger")).load(folder)
