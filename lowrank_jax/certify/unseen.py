r"""Certificate of the held-out loss, from the first pass of a run (DR-B13).

In the first pass each sentence is met before the weights have seen it. For sentences
drawn independently, the mean :math:`\bar W` of the weights that these rounds predicted
with therefore has

.. math:: E\,\ell(\bar W) \le E\,\frac1N\sum_{t \le N}\ell_t(W_{t-1}), \qquad
   \ell(W) = \max_{y'}\langle W, \Phi(x, y') - \Phi(x, y)\rangle

because the loss is convex. Later passes meet sentences again and certify nothing. For a
run of one pass the regret (DR-B11) bounds the right side in turn.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from lowrank_jax import streams
from lowrank_jax.certify import audit, comparator
from lowrank_jax.certify.runs import Data, RunCertificate, stream_of
from lowrank_jax.checks import InputError
from lowrank_jax.decode import best_path
from lowrank_jax.models import bilinear, linear

__all__ = ["HeldOut", "held_out", "losses"]
__dir__ = __all__.copy


class HeldOut(NamedTuple):
    """What the first pass says of sentences that the run has not seen."""

    num_rounds: int  # N, of the first pass
    loss: float  # mean of l_t(W_{t-1}): in expectation at least the loss of mean W
    standard_error: float  # standard error of `loss`
    bound: float | None  # bound on `loss` by the regret against U, for one pass


def held_out(
    trace: Any,
    data: Data,
    certificate: RunCertificate | None = None,
) -> HeldOut:
    r"""Certify the held-out loss of the mean of W over the first pass (DR-B13).

    Args:
      trace: Trace of all rounds, or the traces of the passes, of a learner of
        `online.bol` or `online.perceptron` without `label_cost`, with `predicted`.
      data: Training sentences of the run. The first rounds of the trace must have met
        each of them once.
      certificate: Certificate of the regret of the same run. If the run has one pass,
        it gives the bound :math:`\frac1N(\sum_t\ell_t(U) + F^{**}(U)/C + \dots)` on the
        loss, where :math:`\ell_t(U)` is against the learner's predictions.
    """
    corpus, trace = stream_of(data), audit.joined(trace)
    audit.check_first_pass(trace, corpus)
    margin = np.asarray(trace.margin, np.float64)
    first = -margin[: corpus.num_examples]
    if certificate is not None:
        _check_certificate(certificate, margin, trace.is_mistake)
    bound = None
    if certificate is not None and certificate.num_rounds == len(first) == len(margin):
        unused = certificate.certificate - certificate.linear_regret
        bound = float(first.mean() + unused / len(first))
    spread = float(first.std(ddof=1)) if len(first) > 1 else float("nan")
    error = spread / len(first) ** 0.5
    return HeldOut(len(first), float(first.mean()), error, bound)


def _check_certificate(
    certificate: RunCertificate, margin: np.ndarray, is_mistake: np.ndarray
) -> None:
    """Raise `InputError` unless a certificate is of the rounds of a trace."""
    loss = float(np.where(is_mistake, np.maximum(1 - margin, 0), 0).sum())
    if certificate.num_rounds != len(margin) or certificate.loss != loss:
        raise InputError(
            f"The certificate is of {certificate.num_rounds} rounds with a loss of "
            f"{certificate.loss:g} where the trace has {len(margin)} with {loss:g}: "
            "give the trace and the certificate of one run."
        )
    own = certificate.comparator_penalty + certificate.conjugate
    own = own / certificate.step_size - margin[is_mistake].sum()  # DR-B4
    room = 1e-9 * (abs(own) + loss)
    is_own = abs(certificate.certificate - own) <= room
    least = certificate.loss - certificate.comparator_loss
    if not is_own or certificate.linear_regret < least - room:
        raise InputError(
            f"The certificate says {certificate.certificate:g} where its own numbers "
            f"make {own:g}: give the certificate as `certify.regret` returned it."
        )


def losses(params: Any, data: Data) -> np.ndarray:
    r"""Return :math:`\ell(W) = \max_{y'}\langle W, \Phi(x, y') - \Phi(x, y)\rangle`.

    Args:
      params: W, parameters of `models.linear` or `models.bilinear`.
      data: Sentences with labels.

    Returns:
      (num_sentences,) losses, 0 where the model is right.
    """
    corpus = stream_of(data)
    comparator.check(params, corpus.space)
    return np.asarray(_losses(params, corpus))


@jax.jit
def _losses(params: Any, corpus: streams.sentences.Stream) -> jax.Array:
    model = linear if isinstance(params, linear.Params) else bilinear

    def one(index: jax.Array) -> jax.Array:
        example = corpus.example(index)
        labels = best_path(model.scores(params, example), example.length).labels
        return -comparator.margin(params, example, labels)

    return lax.map(one, jax.numpy.arange(corpus.num_examples))
