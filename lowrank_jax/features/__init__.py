"""Tokens to indices: CRF++ templates, vectorised feature compilation, blocks."""

from lowrank_jax.features.blocks import Blocks, num_parameters, unique_blocks
from lowrank_jax.features.encoder import Encoder
from lowrank_jax.features.mapping import sequential_mapping, surrogate_mapping
from lowrank_jax.features.templates import (
    Column,
    Template,
    parse_template,
    read_template,
    shipped_templates,
    with_orders,
)

__all__ = [
    "Blocks",
    "Column",
    "Encoder",
    "Template",
    "num_parameters",
    "parse_template",
    "read_template",
    "sequential_mapping",
    "shipped_templates",
    "surrogate_mapping",
    "unique_blocks",
    "with_orders",
]
