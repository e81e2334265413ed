"""Ours and the peers on the same work in one run, as ratios."""

__all__ = ["BENCHES"]

#: Name of each benchmark and the module that runs it.
BENCHES = {"sequence": "lowrank_jax.bench.sequence"}
