"""The figures of `make accelerators` as Markdown, with an estimate of times.

The estimate is a roofline with the price of launches. No program was run.
"""

from typing import Any

from experiments.tables import markdown

__all__ = ["ASSUMPTIONS", "estimate", "line", "table"]

LAUNCH, WAIT = 3e-6, 12e-6  # seconds, H100
BANDWIDTH = {"h100": 3.35e12, "v5e": 8.19e11}  # bytes per second
CLOCK = 1.5e9  # v5e, cycles per second
STEP = 1e-6  # seconds per launch on the v5e: the start of an instruction
TITLES = {"h100": "H100", "v5e": "v5e"}

ASSUMPTIONS = (
    "The estimate assumes for an H100: 3 us per launch, 12 us per wait of the host, "
    "and memory at 3.35 TB/s for twice the bytes that launches write. For a v5e: the "
    "larger of the compiler's own cycles at 1.5 GHz and twice the bytes at 0.82 TB/s, "
    "plus 1 us per launch. Collectives are not in it. A loop whose length the data "
    "decide counts with CoNLL-2000's mean length, or else once."
)


def estimate(row: dict[str, Any]) -> float:
    """Return the estimated seconds of one call."""
    memory = 2 * row["moved_bytes"] / BANDWIDTH[row["target"]]
    if row["target"] == "h100":
        return row["launches"] * LAUNCH + row["waits"] * WAIT + memory
    return max(row["cycles"] / CLOCK, memory) + row["launches"] * STEP


def line(row: dict[str, Any]) -> str:
    """Return one line for the screen."""
    head = f"{row['program']:48} {row['target']} x {row['devices']}"
    if not row["compiles"]:
        return f"{head}: {row['reason']}"
    copied = sum(size * times for size, times, _ in row["copies"])
    return (
        f"{head}: {row['seconds']:.1f} s ({row['processor_seconds']:.1f}), temp "
        f"{row['temp_bytes'] / 1e6:.0f} MB, {row['launches']:.0f} launches, "
        f"{row['waits']:.0f} waits, {row['cycles'] / 1e6:.2f} M cycles, "
        f"{len(row['loops'])} loops, {len(row['scatter_loops'])} scatter loops, "
        f"copied {copied / 1e6:.0f} MB"
    )


def table(result: dict[str, Any]) -> str:
    """Write the tables of docs/accelerators.md."""
    parts = [_summary(result["rows"])]
    for target, title in TITLES.items():
        rows = [row for row in result["rows"] if row["target"] == target]
        if rows:
            parts.append(
                f"### {title}\n\n" + markdown(_head(target), map(_cells, rows))
            )
    old = sum(row["compiles"] and not row["is_checked"] for row in result["rows"])
    if old:
        parts.append(f"{old} rows are of an earlier version and not looked at anew.\n")
    return "\n".join([*parts, ASSUMPTIONS + "\n"])


def _summary(rows: list[dict[str, Any]]) -> str:
    """Say how many programs compile, and how many copy something large."""
    done = [row for row in rows if row["compiles"]]
    text = f"{len(done)} of {len(rows)} programs compile."
    if done:
        slow = max(done, key=lambda row: row["processor_seconds"])
        text += (
            f" The slowest, `{slow['program']}` on the {TITLES[slow['target']]}, takes "
            f"{slow['processor_seconds']:.0f} processor seconds."
        )
    for target, title in TITLES.items():
        own = [row for row in done if row["target"] == target]
        copies = sum(bool(row["copies"]) for row in own)
        text += f" On the {title} {copies} of {len(own)} copy 1 MiB or more."
    return text + "\n"


def _head(target: str) -> list[str]:
    last = "waits" if target == "h100" else "million cycles"
    return [
        "program",
        "devices",
        "processor seconds",
        "temp, MB",
        "launches",
        "per 1,000 examples",
        last,
        "loops by data",
        "copies, MB",
        "sent, KB",
        "estimate, ms",
    ]


def _cells(row: dict[str, Any]) -> list[str]:
    if not row["compiles"]:
        head = [row["program"], str(row["devices"]), row["reason"]]
        return head + [""] * (len(_head(row["target"])) - 3)
    copied = sum(size * times for size, times, _ in row["copies"])
    sent = sum(size * times for _, size, times, _ in row["collectives"])
    each = row["launches_per_1000"]
    is_gpu = row["target"] == "h100"
    return [
        row["program"],
        str(row["devices"]),
        f"{row['processor_seconds']:.1f}",
        f"{row['temp_bytes'] / 1e6:,.0f}",
        f"{row['launches']:,.0f}",
        "" if each is None else f"{each:,.0f}",
        f"{row['waits']:,.0f}" if is_gpu else f"{row['cycles'] / 1e6:,.2f}",
        str(len(row["loops"])),
        f"{copied / 1e6:,.0f}" if copied else "0",
        f"{sent / 1e3:,.0f}" if sent else "",
        f"{1e3 * estimate(row):,.3g}",
    ]
