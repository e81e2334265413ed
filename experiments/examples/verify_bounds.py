"""Regret, certificate (DR-B4) and bounds (DR-B3, BOL-P4) of a run on one's own data.

    python experiments/examples/verify_bounds.py

Each curve lies below the next after every round. Step size, variant and rank come from
the state, and state, trace, data and key must be of one run: see what a wrong key does.
"""

import jax

from lowrank_jax import certify, data, features, online
from lowrank_jax.checks import InputError


def main() -> None:
    train, _, _ = data.segmentation_task(60, 1, seed=0)
    template = features.with_orders(features.read_template("segmentation"), "both")
    _, sequences = features.Encoder.fit_transform(train, template)
    key = jax.random.key(0)
    learner = online.bol.learner(
        step_size=0.5,
        num_power_steps=32,  # the bounds are for a converged map
        record=("predicted", "curvature"),
    )
    done = certify.run(learner, sequences, key=key, num_passes=2)
    along = certify.along(done.state, done.trace, sequences, done.params, key=key)
    room = 1e-4 * along.scale  # single precision
    is_chain = (
        (along.regret <= along.certificate + room).all()
        and (along.certificate <= along.tight + room).all()
        and (along.tight <= along.paper + room).all()
    )
    for t in (9, 59, len(along.regret) - 1):
        values = [curve[t] for curve in along[:4]]
        print(f"round {t + 1}: " + " <= ".join(f"{value:.4g}" for value in values))
    print(f"each curve below the next in all {len(along.regret)} rounds: {is_chain}")
    print(f"exact at the end: {done.certificate.certificate:.4g}")
    try:
        certify.regret(
            done.state, done.trace, sequences, done.params, key=jax.random.key(1)
        )
    except InputError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
