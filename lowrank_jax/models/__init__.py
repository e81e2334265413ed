"""Parameters to scores."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.models import bilinear as bilinear
    from lowrank_jax.models import bilinear_logit as bilinear_logit
    from lowrank_jax.models import blocks as blocks
    from lowrank_jax.models import candidates as candidates
    from lowrank_jax.models import hankel as hankel
    from lowrank_jax.models import linear as linear
    from lowrank_jax.models import lipschitz as lipschitz
    from lowrank_jax.models import logistic as logistic
    from lowrank_jax.models import matrix_logit as matrix_logit
    from lowrank_jax.models import operators as operators
    from lowrank_jax.models import tensor as tensor

__all__, __getattr__, __dir__ = lazy.attach(__name__)
