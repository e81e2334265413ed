"""A round of reranking at growing V and growing lists, and a NumPy peer.

Lists are made. Each has 50 candidates, whose features are drawn from a pool of the list
ten times as large, since candidates of one input are alike. Pools are drawn evenly from
V. Qualities are random: nothing can be learned, and nearly every round of a first pass
is a mistake at every V. A time is the median over first passes from a fresh state,
compilation apart. The peer is MIRA in NumPy on the raw arrays of the sparse lists:
slices, one gather and one `reduceat` to score, and a scratch table for the norm, as
ours has; no row objects, no sparse-matrix class.
"""

import functools
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.protocol import Experiment, Result, Setup
from experiments.tables import markdown
from lowrank_jax import loops, streams
from lowrank_jax.data.lists import Lists, oracle
from lowrank_jax.models.tensor import Shape, mode_sizes
from lowrank_jax.online import rerank, tensor_mira
from lowrank_jax.types import Learner

__all__ = ["EXPERIMENT", "made_lists", "numpy_mira"]

NUM_LISTS = 400
NUM_FEATURES = 1_333_000
SIZES = (10**4, 10**5, 10**6, NUM_FEATURES, 10**7)  # V of the first comparison
ACTIVES = (50, 100, 200, 400)  # features of a candidate of the second
NUM_ACTIVE = 200  # features of a candidate, as in the chunk lists
NUM_CANDIDATES = 50
NUM_REPEATS = 9  # of all learners on all lists, one after the other
NUM_TURNS = 15  # of ours and the peer's, one after the other
POOL = 10  # features of a list for each that a candidate has
ORDERS = {"T-MIRA": 2, "T-MIRA, D = 3": 3}  # of the tensor learners
_PEER = "MIRA in NumPy, raw arrays"


class Timed(NamedTuple):
    """A round, by the clock."""

    microseconds: float
    mistakes: float  # share of rounds
    compile_seconds: float


def made_lists(
    num_lists: int,
    *,
    num_features: int,
    num_active: int = NUM_ACTIVE,
    num_candidates: int = NUM_CANDIDATES,
    seed: int = 0,
) -> Lists:
    """Make lists whose qualities have nothing to do with their features.

    Args:
      num_lists: Number of lists to make.
      num_features: V.
      num_active: Number of distinct features of each candidate, all with value 1.
      num_candidates: Number of candidates in each list.
      seed: Seed of NumPy's default generator.
    """
    rng = np.random.default_rng(seed)
    many = num_lists * num_candidates
    stratum = num_features // num_active  # one feature of each: all are distinct
    pools = rng.integers(stratum, size=(num_lists, 1, num_active, POOL), dtype=np.int32)
    picks = rng.integers(POOL, size=(num_lists, num_candidates, num_active, 1))
    ids = np.take_along_axis(pools, picks, axis=3).reshape(many, num_active)
    ids += (np.arange(num_active) * stratum).astype(np.int32)
    return Lists(
        feature_ids=ids.reshape(-1),
        values=np.ones(ids.size, np.float32),
        candidate_offsets=np.arange(0, ids.size + 1, num_active, dtype=np.int32),
        list_offsets=np.arange(0, many + 1, num_candidates, dtype=np.int32),
        quality=rng.random(many, dtype=np.float32),
        num_features=num_features,
    )


def numpy_mira(
    lists: Lists, order: np.ndarray, limit: float
) -> tuple[np.ndarray, np.ndarray, int]:
    """Run MIRA (TM-B2), averaged, over lists in NumPy.

    Args:
      lists: Lists in which no candidate has a feature twice.
      order: List of each round.
      limit: C.

    Returns:
      The last weights, their average over rounds, and the number of mistakes.
    """
    size = lists.num_features + 1
    weights, sums, scratch = (np.zeros(size, np.float32) for _ in range(3))
    ids, values, quality = lists.feature_ids, lists.values, lists.quality
    of_candidates = np.asarray(lists.candidate_offsets, np.int64)
    of_lists = np.asarray(lists.list_offsets).tolist()
    best = oracle(lists).tolist()
    mistakes = 0
    for t, index in enumerate(order.tolist()):
        first, last = of_lists[index], of_lists[index + 1]
        begin, end = of_candidates[first], of_candidates[last]
        products = weights[ids[begin:end]] * values[begin:end]
        scores = np.add.reduceat(products, of_candidates[first:last] - begin)
        y, z = best[index], int(scores.argmax())
        if y == z:
            continue
        mistakes += 1
        y, z = first + y, first + z
        right = slice(of_candidates[y], of_candidates[y + 1])
        wrong = slice(of_candidates[z], of_candidates[z + 1])
        ids_y, ids_z, plus, minus = ids[right], ids[wrong], values[right], values[wrong]
        scratch[ids_y] += plus
        scratch[ids_z] -= minus
        square = plus @ scratch[ids_y] - minus @ scratch[ids_z]
        scratch[ids_y] = 0
        scratch[ids_z] = 0
        cost = quality[y] - quality[z]
        loss = max(0.0, cost - (scores[y - first] - scores[z - first]))
        step = np.float32(min(limit, loss / square) if square > 0 else 0.0)
        weights[ids_y] += step * plus
        weights[ids_z] -= step * minus
        sums[ids_y] += t * step * plus
        sums[ids_z] -= t * step * minus
    return weights, weights - sums / max(len(order), 1), mistakes


class _Pass:
    """A first pass of a learner over a corpus, compiled; each call gives its seconds.

    Attributes:
      num_lists: Number of lists in the corpus.
      compile_seconds: Time of the compilation.
      mistakes: Share of rounds with a mistake in the last pass.
    """

    def __init__(self, learner: Learner, corpus: streams.lists.Stream) -> None:
        self.num_lists, self.mistakes = corpus.starts.shape[0], 0.0
        self._corpus = corpus
        self._order = jnp.arange(self.num_lists, dtype=jnp.int32)
        self._start = jax.jit(lambda c: learner.init(jax.random.key(0), c.example(0)))

        @functools.partial(jax.jit, donate_argnums=0)
        def one_pass(state: Any, corpus: streams.lists.Stream, order: jax.Array) -> Any:
            state, info = loops.run(learner, state, corpus, order)
            return state, info.is_mistake.mean()

        state = self._start(corpus)
        began = time.perf_counter()
        self._compiled = one_pass.lower(state, corpus, self._order).compile()
        self.compile_seconds = time.perf_counter() - began

    def __call__(self) -> float:
        state = jax.block_until_ready(self._start(self._corpus))
        began = time.perf_counter()
        _, found = jax.block_until_ready(
            self._compiled(state, self._corpus, self._order)
        )
        seconds = time.perf_counter() - began
        self.mistakes = float(found)
        return seconds


def _learners(num_features: int) -> dict[str, Learner]:
    """Return those to time; a tensor learner takes ids as cells."""
    tensors = {
        name: tensor_mira.learner(
            shape=Shape(mode_sizes(num_features, order)),
            step="bcd",
            averaging="average",
        )
        for name, order in ORDERS.items()
    }
    return tensors | {"MIRA": rerank.learner(max_step_size=0.1)}


def _with_cells(lists: Lists, name: str) -> Lists:
    """Give the features as many ids as the tensor has cells."""
    if name not in ORDERS:
        return lists
    num_cells = Shape(mode_sizes(lists.num_features, ORDERS[name])).num_cells
    return Lists(**(vars(lists) | {"num_features": num_cells}))


def run(setup: Setup) -> Result:
    """Measure, and say each figure as it comes."""
    say = setup.say
    result: Result = {
        "device": jax.devices()[0].device_kind,
        "num_cores": os.cpu_count(),
        "num_lists": NUM_LISTS,
        "num_candidates": NUM_CANDIDATES,
        "num_active": NUM_ACTIVE,
    }
    say(
        f"microseconds per example, {NUM_CANDIDATES} candidates with {NUM_ACTIVE} "
        "features each, by V:"
    )
    result["by_num_features"] = rows = []
    cases = {size: made_lists(NUM_LISTS, num_features=size) for size in SIZES}
    for (name, size), found in _times(cases).items():
        rows.append({"learner": name, "num_features": size, **found._asdict()})
        say(f"  {name:13} V = {size:10,} {_figures(found)}")
    for name in (*ORDERS, "MIRA"):
        times = [row["microseconds"] for row in rows if row["learner"] == name]
        ratio = times[-1] / times[0]
        result[f"{name} largest over smallest V"] = ratio
        say(f"  {name:13} V = {SIZES[-1]:,} takes {ratio:.2f} times V = {SIZES[0]:,}")

    say(f"microseconds per example by active features, V = {NUM_FEATURES:,}:")
    result["by_num_active"] = rows = []
    cases = {
        active: made_lists(NUM_LISTS, num_features=NUM_FEATURES, num_active=active)
        for active in ACTIVES
    }
    for (name, active), found in _times(cases).items():
        each = 1e3 * found.microseconds / (active * NUM_CANDIDATES)
        rows.append(
            {"learner": name, "num_active": active, **found._asdict()}
            | {"nanoseconds_per_entry": each}
        )
        say(f"  {name:13} {active:4} {_figures(found)}, {each:.2f} ns per entry")

    lists = made_lists(NUM_LISTS, num_features=NUM_FEATURES)
    mistakes = numpy_mira(lists, np.arange(NUM_LISTS), 0.1)[2]
    ours = _beside_numpy(lists)
    peer = ours.pop(_PEER)
    say(f"against NumPy, V = {NUM_FEATURES:,}, microseconds per example:")
    say(f"  {_PEER:27} {peer:8.1f}, {mistakes / NUM_LISTS:.0%} wrong")
    for name, value in ours.items():
        say(f"  {name:27} {value:8.1f}, {peer / value:.2f} times as fast")
    result["against_numpy"] = {
        "numpy_microseconds": peer,
        "numpy_mistakes": mistakes / NUM_LISTS,
        "microseconds": ours,
        "speedup": {name: peer / value for name, value in ours.items()},
    }
    return result


def table(result: Result) -> str:
    """Write the time of a round by V as Markdown."""
    against, ending = result["against_numpy"], " largest over smallest V"
    growth = ", ".join(
        f"{key.removesuffix(ending)} {value:.2f}"
        for key, value in result.items()
        if key.endswith(ending)
    )
    rows = [
        [row["learner"], f"{row['num_features']:,}", f"{row['microseconds']:.0f}"]
        for row in result["by_num_features"]
    ]
    return (
        f"Lists of {result['num_candidates']} candidates with {result['num_active']} "
        f"active features, {result['num_cores']} cores, one run, compilation apart, "
        "each operation on one core. Time per example at the largest number of "
        f"features over the smallest: {growth}. Tensors of order 2 have vectors as "
        "long as the root of that number. MIRA in NumPy took "
        f"{against['numpy_microseconds']:.0f} microseconds, "
        f"{against['speedup']['T-MIRA']:.1f} times what T-MIRA took in the same "
        "minutes.\n\n"
        + markdown(["learner", "features", "microseconds per example"], rows)
    )


def _times(cases: dict[int, Lists]) -> dict[tuple[str, int], Timed]:
    """Time all learners on all lists, in turn; by learner and case."""
    passes = {
        (name, case): _Pass(learner, streams.lists.stream(_with_cells(lists, name)))
        for case, lists in cases.items()
        for name, learner in _learners(lists.num_features).items()
    }
    seconds = _in_turn(passes, NUM_REPEATS)
    return {
        key: Timed(
            1e6 * seconds[key] / one.num_lists, one.mistakes, one.compile_seconds
        )
        for key, one in passes.items()
    }


def _beside_numpy(lists: Lists) -> dict[str, float]:
    """Return microseconds per example, ours and the peer's."""
    order = np.arange(lists.num_lists)

    def numpy_pass() -> float:
        began = time.perf_counter()
        numpy_mira(lists, order, 0.1)
        return time.perf_counter() - began

    passes: dict[str, Callable[[], float]] = {_PEER: numpy_pass}
    for name, learner in _learners(lists.num_features).items():
        passes[name] = _Pass(learner, streams.lists.stream(_with_cells(lists, name)))
    seconds = _in_turn(passes, NUM_TURNS)
    return {name: 1e6 * taken / lists.num_lists for name, taken in seconds.items()}


def _in_turn(
    passes: Mapping[Any, Callable[[], float]], num_turns: int
) -> dict[Any, float]:
    """Return median seconds of passes that take turns, the first one to warm up.

    A machine's speed drifts: what is compared is measured in the same minute.
    """
    seconds: dict[Any, list[float]] = {key: [] for key in passes}
    for _ in range(num_turns + 1):
        for key, one_pass in passes.items():
            seconds[key].append(one_pass())
    return {key: float(np.median(taken[1:])) for key, taken in seconds.items()}


def _figures(found: Timed) -> str:
    return (
        f"{found.microseconds:8.1f} us, {found.mistakes:4.0%} wrong (compiled in "
        f"{found.compile_seconds:.1f} s)"
    )


EXPERIMENT = Experiment(
    "bench-tm",
    "Speed of Tensor-MIRA",
    "made data",
    "lists drawn at random; the peer is MIRA in NumPy",
    run,
    table,
)
