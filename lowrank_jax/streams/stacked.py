"""Examples of one shape, stacked along their first axis."""

import dataclasses
from typing import Any

import jax

from lowrank_jax.checks import InputError
from lowrank_jax.data.sequences import check_ids, check_values
from lowrank_jax.types import Sentence, Whole

__all__ = ["Stacked", "Whole"]
__dir__ = __all__.copy


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stacked:
    """A stream of examples that all have one shape.

    Attributes:
      examples: Pytree whose leaves have the number of examples as first axis.
    """

    examples: Any

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return jax.tree.leaves(self.examples)[0].shape[0]

    def example(self, index: jax.Array | int) -> Any:
        """Return one example. The index may be traced."""
        return jax.tree.map(lambda leaf: leaf[index], self.examples)

    def check(self) -> None:
        """Raise `InputError` unless all leaves have the same number of examples.

        Ids and labels of sentences must lie in the ranges of their space.
        """
        leaves = jax.tree.leaves(self.examples)
        odd = [leaf for leaf in leaves if not hasattr(leaf, "shape")]
        if odd:
            raise InputError(
                "Examples must be a stream, encoded sentences (`Sequences`) or a tree "
                f"of arrays, got a {type(odd[0]).__name__}."
            )
        sizes = {leaf.shape[:1] for leaf in leaves}
        if len(sizes) != 1 or () in sizes or (0,) in sizes:
            raise InputError(
                "`examples` must have leaves with one common first axis, of at least "
                f"one example; got sizes {sorted(sizes)}."
            )
        given = self.examples
        is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        if isinstance(given, Sentence) and not is_traced:
            check_ids(given.feature_ids, given.labels, given.space, least_label=0)
            if given.values is not None:
                check_values(given.values, given.feature_ids)
