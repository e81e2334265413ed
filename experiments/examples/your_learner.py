"""A learner of one's own through the testing kit: second-order perceptron, diagonal.

    python experiments/examples/your_learner.py

The module is this file: it has the four names of the contract, and `main` gives it to
`testing.check_learner`. `docs/adding-a-learner.md` shows a learner of sentences.
"""

import types
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lowrank_jax import checks, data, testing
from lowrank_jax.online.bol.dense import Choice, binary
from lowrank_jax.types import Learner

__all__ = ["Info", "State", "final_params", "learner"]


class State(NamedTuple):
    dual: jax.Array  # (m, n)  sum of dPhi
    spread: jax.Array  # (m, n)  1 + sum of dPhi^2
    num_rounds: jax.Array  # () int32


class Info(NamedTuple):
    loss: jax.Array  # ()  [1 - <W, dPhi>]_+ on a mistake, else 0
    is_mistake: jax.Array  # () bool


def learner(*, step_size: float | jax.Array = 1.0) -> Learner:
    checks.positive(step_size=step_size)

    def init(key: jax.Array, example: Choice) -> State:
        zeros = jnp.zeros_like(example.features[0])
        return State(zeros, zeros + 1, jnp.zeros((), jnp.int32))

    def update(state: State, example: Choice) -> tuple[State, Info]:
        features, label = example
        weights = final_params(state) * jnp.asarray(step_size, features.dtype)
        predicted = jnp.argmax(jnp.einsum("ymn,mn->y", features, weights))
        delta = features[label] - features[predicted]  # 0 where the prediction is right
        is_mistake = predicted != label
        loss = jnp.where(is_mistake, jax.nn.relu(1 - (weights * delta).sum()), 0)
        dual, spread = state.dual + delta, state.spread + delta * delta
        return State(dual, spread, state.num_rounds + 1), Info(loss, is_mistake)

    return Learner(init, update)


def final_params(state: State) -> jax.Array:
    return state.dual / state.spread


def main() -> None:
    train, _, _ = data.dense_task(200, 1, seed=0, shape=(5, 4))
    examples = jax.vmap(binary)(jnp.asarray(train.x), jnp.asarray(train.y))
    module = types.SimpleNamespace(**globals())  # or import it by its name
    few = jax.tree.map(lambda part: part[:20], examples)
    testing.check_learner(module, few, hyperparameter="step_size")
    made = learner()
    state = made.init(jax.random.key(0), jax.tree.map(lambda part: part[0], examples))
    _, trace = jax.lax.scan(made.update, state, examples)
    print(f"the contract holds; {int(trace.is_mistake.sum())} mistakes in 200 rounds")


if __name__ == "__main__":
    main()
