r"""Wide rounds: one update for a batch of examples, on cores, devices and processes.

Round :math:`t` takes a batch of :math:`B` sentences and predicts all of them with
:math:`W_{t-1}`. The differences of the mistaken sentences :math:`M_t` are added up, and
the dual moves once:

.. math:: G_t = \sum_{i \in M_t} \Delta\Phi_i, \qquad
   \Theta_t = \Theta_{t-1} + \eta_t G_t, \qquad
   \eta_t = C\, m_t^{-1/2}, \quad m_t = |M_t|.

:math:`m^{-1/2}` is rounded to a multiple of 1/256, so that sums of steps are exact in
any order. The rounds of the first pass begin with 1, 2, 4, ... sentences. Averages
weigh by sentence: `num_rounds` of a state counts sentences. DR-B10
(`theory.wide_certificate`) bounds the regret.

========  ========================================================================
`share`   scores, labels and differences of a batch
`linear`  `online.perceptron`
`mira`    `online.mira`, which solves the quadratic program of a batch
`bol`     `online.bol`, variant "block"
`lists`   `online.rerank` and `online.tensor_mira`
========  ========================================================================

On D devices each decodes its share of the batch, and one all-gather gives the labels to
all. The weights are on every device. The rows of the dual of BOL belong to one device
each (row modulo D), which maps them and gives the new factors to all, by the second
all-gather. The inner products of MIRA are made in shares, which one sum joins. All
sums are taken in the order of the batch, so the result does not depend on D.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lowrank_jax.types import documented

__all__ = ["Info", "Wide", "info_like", "step_of", "sweeps"]
__dir__ = __all__.copy

NUM_SWEEPS = 10
TOLERANCE = 1e-5  # change of a tau, as a share of C, that ends the sweeps


@documented
class Info(NamedTuple):
    """What the proof and the report need of each sentence, in the order of the pass.

    Attributes:
      loss: [1 - <W, dPhi>]_+ on a mistake, else 0; with the cost of MIRA for 1.
      is_mistake: True if the prediction was wrong.
      num_wrong: Wrong labels.
      margin: <W_{t-1}, dPhi_i>, 0 or less.
      step_size: eta_t of the round; of MIRA tau_i of the sentence.
      predicted: Predicted labels, if recorded, (window,) int32.
      fingerprint: Hash of the sentence, recorded with them, () uint32.
    """

    loss: jax.Array
    is_mistake: jax.Array
    num_wrong: jax.Array
    margin: jax.Array
    step_size: jax.Array
    predicted: jax.Array | None = None
    fingerprint: jax.Array | None = None


def _everywhere(state: Any, num_devices: int) -> tuple[Any, Any]:
    del num_devices
    return state, jax.tree.map(lambda _: False, state)


class Wide(NamedTuple):
    """Wide rounds of one learner, as `lowrank_jax.wide` runs them.

    Attributes:
      layout: ``(stream, batch_size, num_devices) -> Layout``, static shapes.
      plan: ``(stream, order, sizes, layout) -> Plan``, on the host.
      buffers: ``(stream, layout) -> buffers`` that each round writes over.
      update: ``(state, buffers, packs.Round) -> (state, buffers, info)``, one round.
      trace: ``(stream, plan, infos) -> Info`` by example, on the host.
      info_like: Function from the `Info` of a round of one example, or its shapes, to
        the `Info` of an example in wide rounds.
      spread: ``(state, num_devices) -> (state, is_owned)``: the state for so many
        devices, and for each leaf whether its first axis is the axis of devices. By
        default all of the state is on every device.
      gather: The inverse of `spread`.
    """

    layout: Callable[..., Any]
    plan: Callable[..., Any]
    buffers: Callable[..., Any]
    update: Callable[..., Any]
    trace: Callable[..., Any]
    info_like: Callable[..., Any]
    spread: Callable[..., Any] = _everywhere
    gather: Callable[..., Any] = lambda state: state


def step_of(num_mistakes: jax.Array, step_size: jax.Array) -> jax.Array:
    """Return eta of a round: C over the root of the number of mistaken examples."""
    number = jnp.maximum(num_mistakes, 1).astype(step_size.dtype)
    return step_size * jnp.maximum(jnp.round(256 / jnp.sqrt(number)), 1) / 256


def sweeps(
    sweep: Callable[[Any], tuple[Any, jax.Array]], carry: Any, largest: jax.Array
) -> Any:
    """Repeat a sweep of coordinate steps until no tau changes by much.

    Args:
      sweep: Function from a value to the next one and the largest change of a tau.
      carry: Value to start from.
      largest: Largest tau, C.
    """

    def goes_on(now: tuple) -> jax.Array:
        return (now[0] < NUM_SWEEPS) & (now[2] > TOLERANCE * largest)

    def once(now: tuple) -> tuple:
        return now[0] + 1, *sweep(now[1])

    start = jnp.zeros((), jnp.int32), carry, largest
    return lax.while_loop(goes_on, once, start)[1]


def info_like(info: Any) -> Info:
    """Return the fields of an `Info` of one example that wide rounds have too."""
    step = getattr(info, "step_size", info.margin)
    kept = (info.loss, info.is_mistake, info.num_wrong, info.margin, step)
    recorded = (getattr(info, name, None) for name in ("predicted", "fingerprint"))
    return Info(*kept, *recorded)
