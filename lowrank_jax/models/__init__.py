"""Parameters to scores."""

from lowrank_jax.models import bilinear, linear, windows

__all__ = ["bilinear", "linear", "windows"]
