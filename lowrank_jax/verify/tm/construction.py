"""The statements of TM, online learning in tensor space, and their trials."""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from lowrank_jax.features import mapping
from lowrank_jax.models import tensor as models
from lowrank_jax.theory.certificate import Certificate, equal
from lowrank_jax.theory.tm import construction
from lowrank_jax.verify.statement import (
    Certify,
    Effort,
    Found,
    checked,
    fails,
    proved,
)

__all__: list[str] = []
__dir__ = __all__.copy

_equal = jax.jit(equal)


@fails(
    "TM-T1: printed",
    "numbers of a rank-1 tensor fit each tensor of one mode less",
    construction.arrangement_certificate,
)
def _no_merging(certify: Certify, effort: Effort) -> Iterator[Found]:
    primes = np.array([2, 3, 5, 7])
    yield Found(_arranged(certify, primes, (2, 2)), "2, 3, 5, 7: 4 x 1 x 1 in 2 x 2")
    found = _arranged(certify, _powers(2, 3, 5), (3, 3))
    yield Found(found, "2^a 3^b 5^c: 2 x 2 x 2 in 3 x 3, padded")


@proved(
    "TM-T1: corrected",
    "two modes of a CP tensor made one keep every weight and the rank",
    construction.merge_certificate,
)
def _merging(certify: Certify, effort: Effort) -> Iterator[Found]:
    rng = effort.generator(1)
    number = effort.trials(400, 6000)
    drawn = {
        sizes: _drawn(rng, number, sizes, components)
        for sizes, components in (((2, 3, 2), 1), ((4, 1, 5), 3))
    }

    @jax.jit
    def check(drawn: list) -> list[Certificate]:
        pairs = [(params, mode) for params in drawn for mode in range(len(params) - 1)]
        return [jax.vmap(lambda p, d=d: certify(p, d))(params) for params, d in pairs]

    names = [f"modes {d}, {d + 1} of {s}" for s in drawn for d in range(len(s) - 1)]
    for found, name in zip(check(list(drawn.values())), names, strict=True):
        yield Found(found, name)
    arranged = construction.arrangement_certificate
    table = _arranged(arranged, _powers(2, 3, 5), (2, 4))
    yield Found(table, "2^a 3^b 5^c in a table of 2 x 4")


def _drawn(
    rng: np.random.Generator, number: int, sizes: tuple[int, ...], components: int
) -> models.Params:
    """Draw many tensors, of scales from 1e-8 to 1e8."""
    params: Any = [rng.normal(size=(number, components, n)) for n in sizes]
    return (params[0] * 10.0 ** rng.integers(-8, 9, (number, 1, 1)), *params[1:])


def _powers(*primes: int) -> np.ndarray:
    pairs = [np.array([1, p]) for p in primes]
    return functools.reduce(lambda a, b: np.multiply.outer(a, b), pairs).ravel()


def _arranged(
    certify: Certify, numbers: np.ndarray, sizes: tuple[int, int]
) -> Certificate:
    orders = np.array(list(itertools.permutations(range(len(numbers)))), np.int32)
    check = jax.jit(certify, static_argnums=2)
    return check(numbers.astype(float), orders, sizes)


@proved(
    "TM-N1: real modes",
    "D V^(1/D) is least at the floor or the ceiling of ln V",
    construction.order_certificate,
)
def _real_order(certify: Certify, effort: Effort) -> Iterator[Found]:
    number = effort.trials(400, 200_000)
    many = np.geomspace(1, 1e12, number).round()
    many[:150] = np.arange(1, 151)
    check = jax.jit(lambda v: certify(v, construction.real_parameters(v, 64)))
    yield Found(check(many), "V from 1 to 1e12")


def _integer_counts(volumes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return V, and the parameters of D = 1..24 with the sizes of TM-N2."""
    counts = [[sum(models.mode_sizes(v, d)) for d in range(1, 25)] for v in volumes]
    return np.array(volumes, float), np.array(counts, float)


@fails(
    "TM-N1: printed",
    "integer modes too have fewest parameters at floor or ceiling of ln V",
    construction.order_certificate,
)
def _integer_order(certify: Certify, effort: Effort) -> Iterator[Found]:
    counts = _integer_counts([165_888, 3**11, 3**13])
    yield Found(jax.jit(certify)(*counts), "V = 3^11 and others")


@checked(
    "TM-N1: corrected",
    "with integer modes `best_order` has the fewest parameters of all orders",
    models.best_order,
)
def _best_order(certify: Certify, effort: Effort) -> Iterator[Found]:
    rng = effort.generator(2)
    number = effort.trials(120, 1200)
    drawn = (2 ** rng.uniform(0, 24, number)).astype(int).tolist()
    volumes = [*range(1, 40), 3**11, 3**13, 1_334_025, *drawn][:number]
    _, counts = _integer_counts(volumes)
    orders = [certify(volume, integer=True) for volume in volumes]
    chosen = [sum(sizes) for sizes in map(models.mode_sizes, volumes, orders)]
    yield Found(_equal(np.array(chosen, float), counts.min(1)), "integer modes")
    listed = counts[volumes.index(1_334_025), 9:15]
    expected = np.array([42.0, 41, 40, 39, 39, 40])
    yield Found(_equal(listed, expected), "V = 1334025: 39 at D = 13, 14")


@proved(
    "TM-N2",
    "of D + 1 near-equal sizes least padding and least sum are the same",
    construction.padding_certificate,
)
def _padding(certify: Certify, effort: Effort) -> Iterator[Found]:
    rng = effort.generator(3)
    number = effort.trials(400, 20_000)
    volumes = np.floor(2 ** rng.uniform(0, 30, number))
    volumes[:150] = np.arange(1, 151)
    orders = (1, 2, 3, 7) if effort.is_quick else (1, 2, 3, 4, 7, 14)

    @jax.jit
    def check(volumes: jax.Array) -> list[Certificate]:
        return [certify(volumes, order) for order in orders]

    for order, found in zip(orders, check(volumes), strict=True):
        yield Found(found, f"least sum, D = {order}")
    drawn = np.resize(volumes.astype(int), 400).tolist()
    pairs = [(volume, 2 + i % 6) for i, volume in enumerate(drawn)]
    sizes = [math.prod(models.mode_sizes(*pair)) for pair in pairs]
    least = [_least_padding(*pair) for pair in pairs]
    yield Found(_equal(np.array(sizes, float), np.array(least, float)), "all 2^D cases")


def _least_padding(volume: int, order: int) -> int:
    low = math.floor(volume ** (1 / order) + 1e-9)
    low -= low**order > volume
    products = map(math.prod, itertools.product((low, low + 1), repeat=order))
    return min(product for product in products if product >= volume)


@checked(
    "TM-N2: sizes of E1",
    "the sizes of TM-E1 belong to V from 1332871 to 1334025, and no other",
    models.mode_sizes,
)
def _printed_sizes(certify: Certify, effort: Effort) -> Iterator[Found]:
    wanted = {2: (1155, 1155), 3: (110, 110, 111), 4: (34,) * 4}
    volumes = range(1_331_000, 1_336_400)
    fitting = [
        v for v in volumes if all(certify(v, d) == sizes for d, sizes in wanted.items())
    ]
    fitting = fitting or [0]
    ends = np.array([fitting[0], fitting[-1], len(fitting)], float)
    expected = np.array([1_332_871.0, 1_334_025, 1155])
    yield Found(_equal(ends, expected), "all V from 1331000 to 1336400")
    sums = np.array([sum(sizes) for sizes in wanted.values()], float)
    yield Found(_equal(sums, np.array([2310.0, 331, 136])), "parameters")


@proved(
    "TM-N4",
    "||T||^2 is the product of ||w^d||^2; moving w^d moves T by B ||dw||^2",
    construction.norm_certificate,
)
def _norms(certify: Certify, effort: Effort) -> Iterator[Found]:
    rng = effort.generator(4)
    number = effort.trials(400, 6000)
    many = (((2, 3, 2), 3),) if effort.is_quick else (((1, 1), 1), ((2, 3, 2), 3))
    drawn = [_drawn(rng, number, *one) for one in many]
    vectors = [rng.normal(size=(number, sizes[0])) for sizes, _ in many]

    @jax.jit
    def check(drawn: list, vectors: list) -> list[tuple[Certificate, Certificate]]:
        change = jax.vmap(lambda p, v: construction.change_certificate(p, 0, v))
        norm = jax.vmap(certify)
        return [(norm(p), change(p, v)) for p, v in zip(drawn, vectors, strict=True)]

    for found, (sizes, h) in zip(check(drawn, vectors), many, strict=True):
        yield Found(found[0], f"norm of {sizes}, {h} components")
        yield Found(found[1], f"change of {sizes}, {h} components")


@proved(
    "TM-Alg1",
    "both mappings give every feature a cell of its own",
    construction.mapping_certificate,
)
def _mappings(certify: Certify, effort: Effort) -> Iterator[Found]:
    rng = effort.generator(5)
    many: dict[tuple[int, ...], np.ndarray] = {}
    shapes: tuple[tuple[int, ...], ...] = ((1,), (2, 2, 3), (10, 10), (5, 5, 6, 6))
    for volume, sizes in zip((1, 12, 100, 899), shapes, strict=True):
        places = [mapping.sequential_mapping(volume, sizes)]
        for trial in range(effort.trials(40, 400)):
            weights = rng.normal(size=volume)
            if trial % 4 == 0:
                weights = np.round(weights)  # ties and zeros
            if trial % 4 == 1:
                weights = np.abs(weights) * (1 if trial % 8 == 1 else -1)
            places.append(mapping.surrogate_mapping(weights, sizes))
        many[sizes] = np.stack(places)

    @jax.jit
    def check(many: list) -> list[Certificate]:
        pairs = zip(many, map(math.prod, sizes_of), strict=True)
        return [jax.vmap(lambda p, n=n: certify(p, n))(places) for places, n in pairs]

    sizes_of = list(many)
    for found, sizes in zip(check(list(many.values())), sizes_of, strict=True):
        yield Found(found, f"features in {sizes}")


@checked(
    "TM-Alg1: energy",
    "sorted by weight, rank 1 holds at least the energy it holds unsorted",
    construction.energy_certificate,
    is_tight=False,
)
def _energies(certify: Certify, effort: Effort) -> Iterator[Found]:
    rng = effort.generator(6)
    for sizes in ((30, 30), (10, 10, 9)):
        volume = math.prod(sizes)
        pairs = []
        for _ in range(effort.trials(5, 100)):
            drawn = [
                rng.normal(size=volume),
                rng.laplace(size=volume),
                rng.standard_cauchy(volume),
                rng.normal(size=volume) * (rng.random(volume) < 0.1),
            ]
            for weights in drawn:
                places = (
                    mapping.sequential_mapping(volume, sizes),
                    mapping.surrogate_mapping(weights, sizes),
                )
                laid = [mapping.mapped(weights, place, sizes) for place in places]
                pairs.append([mapping.rank_one_energy(t, 10) for t in laid])
        yield Found(
            jax.jit(certify)(*np.array(pairs).T), f"independent weights in {sizes}"
        )
