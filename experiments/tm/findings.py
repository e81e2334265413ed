"""The findings (1) to (4) of TM-E1, answered yes or no with intervals.

"Yes" means that the 95 % interval of the difference, over sentences and seeds, lies
above 0. The best tensor model of a training size is the best on development data.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from experiments.intervals import Bootstrap, answer
from experiments.protocol import Result, Verdict
from experiments.tm.scores import Trained, f1_of

__all__ = ["answers", "verdicts"]


def answers(found: list[Trained], num_lists: int) -> dict[str, dict[str, Any]]:
    """Answer each finding; see the module.

    Args:
      found: All methods at all sizes.
      num_lists: Number of lists in the test set.
    """
    results: dict[str, dict[str, Any]] = {}
    test, train = Bootstrap(num_lists), Bootstrap(found[0].train.correct.shape[1])
    sampled = _Sampled(found, test, train)
    for family in ("recommended", "printed"):
        results |= _against_linear(sampled, family)
    results |= _linear_fit(sampled)
    results |= _mappings(sampled)
    results |= _orders(sampled)
    results |= _components(sampled)
    return results


def verdicts(result: Result) -> list[Verdict]:
    """Decide each finding: it fails only where one of its parts is surely reversed."""
    decided: list[Verdict] = []
    for claim, finding in result["findings"].items():
        about = finding
        if claim.startswith("1a"):  # of the smallest size alone; the others are shown
            about = next(iter(finding["by_size"].values()))
        parts = list(_parts(about))
        is_reversed = any(part.get("note") == "the opposite holds" for _, part in parts)
        one = parts[0][1] if len(parts) == 1 else {"value": None, "interval": None}
        decided.append(
            {
                "claim": claim,
                "value": one["value"],
                "interval": one["interval"],
                "verdict": (
                    "holds"
                    if finding["answer"] == "yes"
                    else "fails"
                    if is_reversed
                    else "not decided"
                ),
                "found": _found(finding, parts),
            }
        )
    return decided


def _found(finding: dict[str, Any], parts: list[tuple[str, dict[str, Any]]]) -> str:
    """Write the differences of a finding; of one in many cells the mean alone."""
    if "cells" in finding:
        parts = [("mean", finding["mean"])]
    shown = []
    for name, part in parts:
        low, high = part["interval"]
        number = f"{part['value']:+.2f} ({low:+.2f} to {high:+.2f})"
        shown.append(f"{name} {number}".strip())
    if "cells" in finding:
        count = f"{finding['num_above']} of {finding['num_cells']}"
        shown.append(f"above 0 in {count} cells")
    return "; ".join(shown)


#: Keys of a finding that say how it is laid out, not what a difference is of.
_LAYOUT = {
    "by_size",
    "difference_of_gaps",
    "difference",
    "differences",
    "gain_of_largest_over_1",
}


def _parts(item: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the differences of a finding, each with a name, a value and an interval."""
    if isinstance(item, dict) and "interval" in item:
        yield name, item
    elif isinstance(item, list):
        for one in item:
            yield from _parts(one, name)
    elif isinstance(item, dict):
        for key, one in item.items():
            own = "" if key in _LAYOUT else key.replace("_", " ")
            yield from _parts(one, f"{name} {own}".strip())


class _Sampled:
    """F1 and bootstrap samples of every method and size."""

    def __init__(self, found: list[Trained], test: Bootstrap, train: Bootstrap) -> None:
        self.found = found
        self.sizes = sorted({one.size for one in found})
        self._test = {id(one): test.sample(*one.test) for one in found}
        self._train = {id(one): train.sample(*one.train) for one in found}

    def tensors(self, family: str, **wanted: Any) -> list[Trained]:
        """Return tensor models whose settings, or size, are as wanted."""

        def fits(one: Trained) -> bool:
            have = {} if one.setting is None else one.setting._asdict()
            have["size"] = one.size
            return all(have.get(name) == value for name, value in wanted.items())

        return [
            one
            for one in self.found
            if one.setting is not None and one.family == family and fits(one)
        ]

    def best(self, family: str, size: int) -> Trained:
        """Return the tensor model of the highest development F1."""
        return max(self.tensors(family, size=size), key=lambda x: x.development.mean())

    def linear(self, name: str, family: str, size: int) -> Trained:
        (one,) = (
            one
            for one in self.found
            if one.setting is None
            and (one.name, one.size) == (name, size)
            and one.family in (family, "both")
        )
        return one

    def mean(
        self, these: Iterable[Trained], part: str = "test"
    ) -> tuple[np.ndarray, float]:
        """Return samples and value of the mean F1 of these methods."""
        these = list(these)
        samples = self._test if part == "test" else self._train
        values = [f1_of(getattr(one, part)).mean() for one in these]
        drawn = np.mean([samples[id(one)] for one in these], axis=0)
        return drawn, float(np.mean(values))

    def difference(
        self,
        one: Iterable[Trained],
        other: Iterable[Trained],
        part: str = "test",
    ) -> tuple[np.ndarray, float]:
        first, second = self.mean(one, part), self.mean(other, part)
        return first[0] - second[0], first[1] - second[1]


def _against_linear(sampled: _Sampled, family: str) -> dict[str, Any]:
    """(1) T-MIRA is far better with little data, and the gap fades."""
    by_size = {}
    gaps = {}
    for size in sampled.sizes:
        best = sampled.best(family, size)
        assert best.setting is not None
        entry: dict[str, Any] = {
            "model": f"D={best.setting.order} H={best.setting.num_components} "
            f"{best.setting.mapping}"
        }
        for name in ("MIRA", "perceptron"):
            found = sampled.difference([best], [sampled.linear(name, family, size)])
            entry[name] = answer(*found)
            gaps[name, size] = found
        by_size[str(size)] = entry
    first, last = sampled.sizes[0], sampled.sizes[-1]
    few = by_size[str(first)]
    is_better = all(few[name]["answer"] == "yes" for name in ("MIRA", "perceptron"))
    fades = {
        name: answer(
            gaps[name, first][0] - gaps[name, last][0],
            gaps[name, first][1] - gaps[name, last][1],
        )
        for name in ("MIRA", "perceptron")
    }
    does_fade = all(item["answer"] == "yes" for item in fades.values())
    return {
        f"1a {family}: T-MIRA better than MIRA and perceptron with {first} lists": {
            "answer": "yes" if is_better else "no",
            "by_size": by_size,
        },
        f"1b {family}: the gap fades from {first} to {last} lists": {
            "answer": "yes" if does_fade else "no",
            "difference_of_gaps": fades,
        },
    }


def _linear_fit(sampled: _Sampled) -> dict[str, Any]:
    """(2) The linear models fit better and generalise worse; MIRA beats perceptron."""
    fit, throughout = {}, {}
    for size in sampled.sizes:
        best = sampled.best("recommended", size)
        entry = {}
        for name in ("MIRA", "perceptron"):
            other = sampled.linear(name, "recommended", size)
            entry[name] = {
                "train": answer(*sampled.difference([other], [best], "train")),
                "test": answer(*sampled.difference([best], [other])),
            }
        fit[str(size)] = entry
        for family in ("recommended", "printed"):
            pair = [sampled.linear(name, family, size) for name in entry]
            throughout[f"{family}, {size}"] = answer(
                *sampled.difference(pair[:1], pair[1:])
            )
    overfits = all(
        item[part]["answer"] == "yes"
        for entry in fit.values()
        for item in entry.values()
        for part in ("train", "test")
    )
    always = all(item["answer"] == "yes" for item in throughout.values())
    return {
        "2a: MIRA and perceptron fit training data better and test data worse": {
            "answer": "yes" if overfits else "no",
            "by_size": fit,
        },
        "2b: MIRA better than perceptron throughout": {
            "answer": "yes" if always else "no",
            "by_size": throughout,
        },
    }


def _mappings(sampled: _Sampled) -> dict[str, Any]:
    """(3) The surrogate mapping is better than the sequential one, always."""
    surrogate = sampled.tensors("recommended", mapping="surrogate")
    cells = []
    for one in surrogate:
        assert one.setting is not None
        wanted = one.setting._asdict() | {"mapping": "sequential", "size": one.size}
        (other,) = sampled.tensors("recommended", **wanted)
        found = answer(*sampled.difference([one], [other]))
        model = f"D={one.setting.order} H={one.setting.num_components} {one.size}"
        cells.append({"cell": model} | found)
    sequential = sampled.tensors("recommended", mapping="sequential")
    mean = answer(*sampled.difference(surrogate, sequential))
    num_above = sum(cell["value"] > 0 for cell in cells)
    is_always = mean["answer"] == "yes" and num_above == len(cells)
    return {
        "3a: surrogate mapping better than sequential, always": {
            "answer": "yes" if is_always else "no",
            "mean": mean,
            "num_above": num_above,
            "num_surely_above": sum(cell["answer"] == "yes" for cell in cells),
            "num_cells": len(cells),
            "cells": cells,
        }
    }


def _orders(sampled: _Sampled) -> dict[str, Any]:
    """(3) Order 2 is best, and orders 3 and 4 do not differ."""
    models = {
        order: sampled.tensors("recommended", order=order, mapping="surrogate")
        for order in (2, 3, 4)
    }
    pairs = {
        f"{a} - {b}": answer(*sampled.difference(models[a], models[b]))
        for a, b in ((2, 3), (2, 4), (3, 4))
        if models[a] and models[b]
    }
    if not pairs:
        return {}
    is_best = all(pairs[name]["answer"] == "yes" for name in pairs if name[0] == "2")
    result = {
        "3b: D=2 best (mean over H and sizes)": {
            "answer": "yes" if is_best else "no",
            "differences": pairs,
        }
    }
    if "3 - 4" in pairs:
        low, high = pairs["3 - 4"]["interval"]
        result["3c: D=3 and D=4 not significantly different"] = {
            "answer": "yes" if low <= 0 <= high else "no",
            "difference": pairs["3 - 4"],
        }
    return result


def _components(sampled: _Sampled) -> dict[str, Any]:
    """(4) With more data larger H wins."""
    first, last = sampled.sizes[0], sampled.sizes[-1]
    numbers = sorted(
        {
            one.setting.num_components
            for one in sampled.tensors("recommended")
            if one.setting is not None
        }
    )

    def models(number: int, size: int) -> list[Trained]:
        return sampled.tensors(
            "recommended", num_components=number, size=size, mapping="surrogate"
        )

    gains = {
        size: sampled.difference(models(numbers[-1], size), models(1, size))
        for size in sampled.sizes
    }
    growth = answer(gains[last][0] - gains[first][0], gains[last][1] - gains[first][1])
    wins = answer(*gains[last])
    best = {
        str(size): max(numbers, key=lambda h: sampled.mean(models(h, size))[1])
        for size in sampled.sizes
    }
    is_true = growth["answer"] == wins["answer"] == "yes"
    return {
        "4: with more data larger H wins (mean over D)": {
            "answer": "yes" if is_true else "no",
            "gain_of_largest_over_1": {
                str(size): answer(*gain) for size, gain in gains.items()
            },
            "growth_of_gain": growth,
            "best_components_by_size": best,
        }
    }
