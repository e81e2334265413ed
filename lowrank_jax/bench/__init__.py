"""Ours and the peers on the same work in one run, as ratios."""

__all__ = ["BENCHES"]

#: Name of each benchmark and the module that runs it. Its `NEEDS` maps modules that it
#: cannot do without to what they are called; it must import without them.
BENCHES = {
    "certify": "lowrank_jax.bench.certify",
    "sblr": "lowrank_jax.bench.sblr",
    "sequence": "lowrank_jax.bench.sequence",
    "smm": "lowrank_jax.bench.smm",
    "tm": "lowrank_jax.bench.tm",
}
