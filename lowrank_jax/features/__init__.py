"""Tokens to indices: CRF++ templates, vectorised feature compilation."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.features.attributes import AttributeEncoder as AttributeEncoder
    from lowrank_jax.features.encoder import Encoder as Encoder
    from lowrank_jax.features.growing import grow as grow
    from lowrank_jax.features.mapping import sequential_mapping as sequential_mapping
    from lowrank_jax.features.mapping import surrogate_mapping as surrogate_mapping
    from lowrank_jax.features.templates import Column as Column
    from lowrank_jax.features.templates import Template as Template
    from lowrank_jax.features.templates import parse_template as parse_template
    from lowrank_jax.features.templates import read_template as read_template
    from lowrank_jax.features.templates import shipped_templates as shipped_templates
    from lowrank_jax.features.templates import with_orders as with_orders

__all__, __getattr__, __dir__ = lazy.attach(__name__)
