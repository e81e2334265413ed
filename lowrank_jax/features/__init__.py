"""Tokens to indices: CRF++ templates, vectorised feature compilation."""

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
    "Column",
    "Encoder",
    "Template",
    "parse_template",
    "read_template",
    "sequential_mapping",
    "shipped_templates",
    "surrogate_mapping",
    "with_orders",
]
