"""Regret and duality of BOL (BOL-N3, N5, P4, DR-B3, DR-B4)."""

import jax
import jax.numpy as jnp

from lowrank_jax.theory import certificate
from lowrank_jax.theory.bol import duality, regret
from lowrank_jax.theory.certificate import Certificate
from lowrank_jax.verify.bol.studies import Compared, Studied, on_chains, on_runs
from lowrank_jax.verify.statement import Certify, fails, proved, tried

__all__: list[str] = []
__dir__ = __all__.copy


@proved(
    "BOL-N3: mistake-free rounds",
    "rounds without a mistake cancel: regret over mistakes = over all rounds",
    regret.literal_regret,
)
@tried(on_runs)
def _literal(certify: Certify, run: Studied) -> Certificate:
    info = run.exact.info
    over_u = jax.vmap(certify, in_axes=(None, None, None, 0))
    return over_u(info.loss, info.is_mistake, info.margin, run.us.margins)


@proved(
    "BOL-N3: printed index",
    "L_t(W_t) <= L_t(W_{t-1}): the printed index makes the smaller regret",
    regret.later_losses,
)
@tried(on_runs)
def _later(certify: Certify, run: Studied) -> Certificate:
    info, moved = run.exact.info, run.exact.params * run.exact.deltas
    return certify(info.margin, moved.sum((1, 2)), info.is_mistake)


@proved(
    "BOL-N5: increment",
    "Delta_t = C - |Theta + C dPhi|_2^2/2 + |Theta|_2^2/2 is what a run reports",
    duality.increment_identity,
)
@tried(on_runs, over_floor=True)
def _increments(certify: Certify, run: Studied) -> Certificate:
    info, pushes = run.exact.info, run.step * run.exact.deltas
    given = info.dual_increment, run.exact.before, pushes, info.is_mistake
    return certify(*given, step_size=run.step)


@proved(
    "BOL-N5: weak duality",
    "sum Delta_t = CM - F*(Theta_N) <= |U|_F^2/2 + C sum L_t(U), U of rank 1",
    duality.weak_duality,
)
@tried(on_runs)
def _rank_1_duality(certify: Certify, run: Studied) -> Certificate:
    found = _weak_duality(certify, run, run.us.energy)
    is_rank_1 = run.us.is_rank_1
    return found._replace(assumptions_met=is_rank_1, holds=found.holds | ~is_rank_1)


def _weak_duality(certify: Certify, run: Studied, penalty: jax.Array) -> Certificate:
    return certify(
        run.num_mistakes,
        run.exact.info.conjugate[-1],
        step_size=run.step,
        comparator_penalty=penalty,
        comparator_loss=run.losses,
    )


@proved(
    "BOL-N5: weak duality, any U",
    "sum Delta_t <= |U|_s(1)^2/2 + C sum L_t(U) for every U",
    duality.weak_duality,
)
@tried(on_runs)
def _any_rank_duality(certify: Certify, run: Studied) -> Certificate:
    return _weak_duality(certify, run, run.us.trace)


@fails(
    "BOL-N5: printed",
    "every mistake raises the dual: Delta_t >= 0",
    duality.increments_rise,
    only=("one mistake",),
)
@tried(on_runs)
def _rise(certify: Certify, run: Studied) -> Certificate:
    return certify(run.exact.info.dual_increment, run.exact.info.is_mistake)


@proved(
    "BOL-N5: corrected",
    "C - Delta_t <= C^2 |dPhi|_F^2 / (2 (1 - s2/s1)): small C raises the dual",
    duality.growth_bound,
)
@tried(on_runs)
def _growth(certify: Certify, run: Studied) -> Certificate:
    info = run.exact.info
    return certify(
        info.dual_increment,
        info.is_mistake,
        step_size=run.step,
        conjugate=info.conjugate,
        squared_norm=info.squared_norm,
        ratio=run.exact.ratio,
    )


@proved(
    "BOL-N5: corrected, C*",
    "at C* = M/2f the dual is at least 0",
    duality.best_step_size,
    is_tight=False,
)
@tried(on_runs)
def _at_best(certify: Certify, run: Studied) -> Certificate:
    f = run.unit_conjugate
    best = certify(run.num_mistakes, f).dual_objective
    return certificate.at_most(jnp.zeros_like(f), best, assumptions_met=f > 0)


@proved(
    "BOL-P4: printed",
    "regret <= |U|_F^2/2C + 2lC sum |dPhi|_F^2/(1 - s2/s1), every U",
    regret.paper_bound,
    is_tight=False,
)
@tried(on_chains)
def _paper(certify: Certify, compared: Compared) -> Certificate:
    return certify(compared.along)


@fails(
    "BOL-P4: step of the proof",
    "its proof: weak duality with |U|_F^2/2 for U of any rank",
    duality.weak_duality,
    only=("unmoved",),
)
@tried(on_runs)
def _proof(certify: Certify, run: Studied) -> Certificate:
    return _weak_duality(certify, run, run.us.energy)


@proved(
    "BOL-P4: sharpened",
    "regret <= |U|_F^2/2C + (l/2)C sum |dPhi|_F^2/(1 - s2/s1), every U",
    regret.sharpened_paper_bound,
)
@tried(on_chains)
def _sharpened(certify: Certify, compared: Compared) -> Certificate:
    given = {"step_size": compared.step, "comparator_energy": compared.energy}
    return certify(compared.along, **given)


@proved(
    "BOL-P4: chain",
    "tight bound (DR-B3) <= paper's bound, U of rank 1",
    regret.tight_within_paper,
    is_tight=False,
)
@tried(on_chains)
def _loose(certify: Certify, compared: Compared) -> Certificate:
    return certify(compared.along, is_rank_1=compared.is_rank_1)


@proved(
    "DR-B3",
    "regret <= |U|_s(1)^2/2C + (C/2) sum |dPhi|_F^2/(1 - s2/s1), every U",
    regret.tight_bound,
)
@proved(
    "DR-B3: chain",
    "certificate (DR-B4) <= tight bound",
    regret.certificate_within_tight,
    maps=("exact", "sp"),
)
@proved(
    "DR-B4",
    "regret <= (F**(U) + F*(Theta_t) - C sum <W, dPhi>)/C after every round",
    regret.within_certificate,
    maps=("exact", "sp", "Eq. (9)-(12)"),
    has_blocks=True,
)
@tried(on_chains)
def _along(certify: Certify, compared: Compared) -> Certificate:
    return certify(compared.along)
