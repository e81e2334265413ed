"""Candidate lists with planted weights of low CP rank, made from an integer seed."""

from typing import NamedTuple

import numpy as np

from lowrank_jax import checks
from lowrank_jax.data.lists import Lists

__all__ = ["RerankingTruth", "reranking_task"]
__dir__ = __all__.copy


class RerankingTruth(NamedTuple):
    """The planted weights.

    Attributes:
      weights: (V,) float64, true weight of each feature.
      factors: One (R, n_d) float64 array per mode; the tensor is a sum of R products.
      place: (V,) int32, cell of each feature, first index fastest.
    """

    weights: np.ndarray
    factors: tuple[np.ndarray, ...]
    place: np.ndarray


def reranking_task(
    num_train: int,
    num_test: int,
    *,
    seed: int,
    sizes: tuple[int, ...] = (12, 12),
    rank: int = 1,
    num_candidates: tuple[int, int] = (5, 10),
    num_active: tuple[int, int] = (4, 12),
    num_shared: int = 5,
    noise: float = 0.0,
    shuffled: bool = True,
) -> tuple[Lists, Lists, RerankingTruth]:
    """Make lists whose quality follows planted weights of CP rank `rank`.

    A candidate has some distinct features of its own, drawn uniformly, with counts of 1
    or 2, and all features that its list shares. Its quality is its true score, scaled
    to 0..1 within the list. Noise is added to the true scores of `train` only, before
    scaling. A score on `test` therefore measures how well the planted weights were
    found.

    Args:
      num_train: Number of lists to train on.
      num_test: Number of lists to test on.
      seed: Seed of NumPy's default generator.
      sizes: Mode sizes of the planted tensor; V is their product.
      rank: Rank R of the planted tensor.
      num_candidates: Least and largest number of candidates per list.
      num_active: Least and largest number of a candidate's own features.
      num_shared: Number of features that all candidates of a list have.
      noise: Standard deviation of the noise, divided by the standard deviation of the
        true scores.
      shuffled: True to number the features at random, so that their order carries no
        information. If False, the id of a feature is its cell.

    Returns:
      ``(train, test, truth)``.
    """
    checks.whole(num_train=num_train, num_test=num_test, rank=rank)
    checks.whole(least=0, num_shared=num_shared)
    checks.non_negative(noise=noise)
    for name, (least, most) in {
        "num_candidates": num_candidates,
        "num_active": num_active,
    }.items():
        if not 1 <= least <= most:
            raise checks.InputError(
                f"`{name}` must be two ascending numbers of at least 1, got "
                f"{(least, most)}."
            )
    num_features = int(np.prod(sizes))
    if num_active[1] + num_shared > num_features:
        raise checks.InputError(
            f"`num_active` and `num_shared` must be at most {num_features} together, "
            f"the product of `sizes`, got {num_active[1] + num_shared}."
        )
    rng = np.random.default_rng(seed)
    factors = tuple(rng.normal(size=(rank, size)) for size in sizes)
    cells = np.arange(num_features)
    place = (rng.permutation(cells) if shuffled else cells).astype(np.int32)
    index = np.unravel_index(place, sizes, order="F")
    product = np.ones((rank, num_features))
    for factor, i in zip(factors, index, strict=True):
        product *= factor[:, i]
    weights = product.sum(axis=0)

    def draw(num_lists: int, level: float) -> Lists:
        ids, values, lengths, counts, quality = [], [], [], [], []
        for _ in range(num_lists):
            count = rng.integers(num_candidates[0], num_candidates[1] + 1)
            shared = rng.choice(num_features, num_shared, replace=False)
            shared_values = rng.integers(1, 3, num_shared)
            rest = np.setdiff1d(cells, shared)
            scores = np.zeros(count)
            for c in range(count):
                size = rng.integers(num_active[0], num_active[1] + 1)
                own = np.concatenate([shared, rng.choice(rest, size, replace=False)])
                amounts = np.concatenate([shared_values, rng.integers(1, 3, size)])
                order = np.argsort(own)
                ids.append(own[order])
                values.append(amounts[order])
                lengths.append(own.size)
                scores[c] = weights[own] @ amounts
            scores = scores + level * scores.std() * rng.normal(size=count)
            spread = np.ptp(scores)
            quality.append((scores - scores.min()) / (spread if spread > 0 else 1))
            counts.append(count)
        return Lists(
            feature_ids=np.concatenate(ids).astype(np.int32),
            values=np.concatenate(values).astype(np.float32),
            candidate_offsets=np.cumsum([0, *lengths]).astype(np.int32),
            list_offsets=np.cumsum([0, *counts]).astype(np.int32),
            quality=np.concatenate(quality).astype(np.float32),
            num_features=num_features,
        )

    train = draw(num_train, noise)
    return train, draw(num_test, 0.0), RerankingTruth(weights, factors, place)
