"""Host arrays to the device, one example at a time.

A stream has `num_examples`, `example(index)` and `check()` (`types.Stream`).
"""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.streams import lanes as lanes
    from lowrank_jax.streams import lists as lists
    from lowrank_jax.streams import matrices as matrices
    from lowrank_jax.streams import sentences as sentences
    from lowrank_jax.streams import words as words
    from lowrank_jax.streams.stacked import Stacked as Stacked
    from lowrank_jax.streams.stacked import Whole as Whole

__all__, __getattr__, __dir__ = lazy.attach(__name__)
