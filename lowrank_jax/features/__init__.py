"""Tokens to indices: CRF++ templates, vectorised feature compilation."""

from typing import TYPE_CHECKING

from lowrank_jax import lazy

if TYPE_CHECKING:
    from lowrank_jax.features.attributes import AttributeEncoder, check_kind
    from lowrank_jax.features.encoder import Encoder
    from lowrank_jax.features.growing import grow
    from lowrank_jax.features.mapping import sequential_mapping, surrogate_mapping
    from lowrank_jax.features.templates import (
        Column,
        Template,
        parse_template,
        read_template,
        shipped_templates,
        with_orders,
    )

_MODULES = {
    "attributes": "AttributeEncoder check_kind",
    "encoder": "Encoder",
    "growing": "grow",
    "mapping": "sequential_mapping surrogate_mapping",
    "templates": (
        "Column Template parse_template read_template shipped_templates with_orders"
    ),
}

__all__, __getattr__, __dir__ = lazy.attach(__name__, lazy.table(_MODULES))
