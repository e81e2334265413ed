"""Ours and the peers on the same work in one run, as ratios."""

__all__ = ["BENCHES"]

#: Name of each benchmark and the module that runs it. Its `NEEDS` maps modules that it
#: cannot do without to what they are called; it must import without them.
BENCHES = {
    "certify": "experiments.bench.certify",
    "sblr": "experiments.bench.sblr",
    "sequence": "experiments.bench.sequence",
    "smm": "experiments.bench.smm",
    "tm": "experiments.bench.tm",
}
