"""Settings that a tagger passes on to its learner, by name and type."""

from typing import Any, Literal, TypedDict

__all__ = ["Settings"]
__dir__ = __all__.copy


class Settings(TypedDict, total=False):
    """Arguments of the learners of sentences, for a type checker.

    A name that is not here is an error before the script runs. `Tagger.fit` tells
    whether a name belongs to the learner that was chosen.
    """

    averaging: Literal["dual", "weights", "factors", "none"] | None
    cost: Literal["hamming", "one"]
    decoding: Literal["plain", "cost"]
    divisor: Literal["block", "global"]
    divisor_factor: float
    dtype: Any
    dual: Literal["sparse", "dense"]
    label_cost: Any
    max_evaluations: int
    max_step_size: float
    memory_size: int
    num_inner_steps: int
    num_power_steps: int
    num_rounds_per_block: int
    penalty: Literal["product", "sum", "block", "l1", "l2"]
    rank: int
    record: tuple[Literal["ratio", "predicted", "squared_norm", "curvature"], ...]
    start: float | Literal["unit", "ones"]
    step_size: float
    strength: float
    tolerance: float
    variant: Literal["block", "paper", "exact"]
