"""All data as one example: the stream of a batch learner."""

import dataclasses
from typing import Any

import jax

__all__ = ["Whole"]
__dir__ = __all__.copy


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Whole:
    """A stream of one example, which is all of the data.

    Attributes:
      data: Pytree that the `update` of a batch learner takes.
    """

    data: Any

    @property
    def num_examples(self) -> int:
        """Number of examples, which is 1."""
        return 1

    def example(self, index: jax.Array | int) -> Any:
        """Return all of the data."""
        del index
        return self.data

    def check(self) -> None:
        """Do nothing: whoever made the data has checked them."""
