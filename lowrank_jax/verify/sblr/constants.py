"""Lipschitz constants of SBLR's gradients (SBLR-L3.1, SBLR-L6.1, DR-S1, DR-S2)."""

import jax.numpy as jnp

from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.theory.sblr import lipschitz
from lowrank_jax.verify.sblr.points import Block, on_blocks
from lowrank_jax.verify.statement import Certify, proved, tried

__all__: list[str] = []
__dir__ = __all__.copy


@proved(
    "SBLR-L3.1: printed",
    "gradient in (U, b) has the constant sqrt(2) sum w_i (|X_i V| + 1)^2",
    lipschitz.gradient_certificate,
    is_tight=False,
)
@tried(on_blocks, is_binary=True)
def _binary_lemma(certify: Certify, block: Block) -> Certificate:
    return certify(*block, rule="lemma")


@proved(
    "SBLR-L3.1: excess",
    "the printed constant is at least 4 sqrt(2) times a valid one",
    lipschitz.lemma_excess_certificate,
)
@tried(on_blocks, is_binary=True)
def _excess(certify: Certify, block: Block) -> Certificate:
    return certify(block.features, block.weights)


def _printed_share(certify: Certify, block: Block) -> Certificate:
    root = jnp.sqrt(jnp.asarray(block.num_classes, block.features.dtype))
    return certify(block.scores, block.moves, root)


@proved(
    "SBLR-L3.1: sigmoid, printed",
    "|s(x) - s(y)| <= |x - y| for the logistic function",
    lipschitz.share_certificate,
    is_tight=False,
)
@tried(on_blocks, is_binary=True)
def _printed_sigmoid(certify: Certify, block: Block) -> Certificate:
    return _printed_share(certify, block)


@proved(
    "SBLR-L3.1: sigmoid, tight",
    "|s(x) - s(y)| <= |x - y| / 4 for the logistic function",
    lipschitz.share_certificate,
)
@tried(on_blocks, is_binary=True)
def _sigmoid(certify: Certify, block: Block) -> Certificate:
    return certify(block.scores, block.moves, 0.25)


@proved(
    "DR-S1",
    "the least constant is lambda_max(sum w_i a_i a_i^T) / 4, attained at 0",
    lipschitz.gradient_certificate,
)
@tried(on_blocks, is_binary=True)
def _binary_constant(certify: Certify, block: Block) -> Certificate:
    return certify(*block, rule="tight")


@proved(
    "DR-S1: trace",
    "a constant without eigenvalues is sum w_i (|X_i V|^2 + 1) / 4",
    lipschitz.gradient_certificate,
)
@tried(on_blocks, is_binary=True)
def _trace(certify: Certify, block: Block) -> Certificate:
    return certify(*block, rule="trace")


@proved(
    "SBLR-L6.1: printed",
    "gradient has the constant sqrt(2) m sum w_i (|X_i V_c| + 1) (max_j + 1)",
    lipschitz.gradient_certificate,
    is_tight=False,
)
@tried(on_blocks, is_binary=False)
def _lemma(certify: Certify, block: Block) -> Certificate:
    return certify(*block, rule="lemma")


@proved(
    "SBLR-L6.1: softmax, printed",
    "|softmax_c(x) - softmax_c(y)| <= sqrt(m) |x - y|",
    lipschitz.share_certificate,
    is_tight=False,
)
@tried(on_blocks, is_binary=False)
def _printed_softmax(certify: Certify, block: Block) -> Certificate:
    return _printed_share(certify, block)


@proved(
    "SBLR-L6.1: softmax, tight",
    "|softmax_c(x) - softmax_c(y)| <= sqrt(2) / 4 |x - y|",
    lipschitz.share_certificate,
)
@tried(on_blocks, is_binary=False)
def _softmax(certify: Certify, block: Block) -> Certificate:
    return certify(block.scores, block.moves, lipschitz.SOFTMAX_CONSTANT)


@proved(
    "DR-S2: Hessian",
    "diag(p) - p p^T <= (I - 1 1^T / (m + 1)) / 2",
    lipschitz.boehning_certificate,
)
@tried(on_blocks, is_binary=False)
def _hessian(certify: Certify, block: Block) -> Certificate:
    return certify(block.scores, block.moves)


@proved(
    "DR-S2: constant",
    "a constant is max_c lambda_max(sum w_i a_ic a_ic^T) / 2",
    lipschitz.gradient_certificate,
)
@tried(on_blocks, is_binary=False)
def _constant(certify: Certify, block: Block) -> Certificate:
    return certify(*block, rule="tight")
