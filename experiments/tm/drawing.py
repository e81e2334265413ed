"""Table and picture of `tm.table1`, made from its result."""

from typing import Any

from experiments.protocol import Result
from experiments.tables import bullets, markdown

__all__ = ["picture", "table"]


def table(result: Result) -> str:
    """Write scores by training size, findings, step rules and mode sizes."""
    sizes = sorted({row["size"] for row in result["rows"]})
    parts = [
        f"Test F1 (mean over {result['seeds']} seeds, +- one standard deviation; C and "
        f"passes chosen on development data). Base {result['base_f1']:.2f}, oracle "
        f"{result['oracle_f1']:.2f}, V = {result['num_features']:,}.\n\n"
    ]
    names: dict[tuple[str, ...], dict[int, str]] = {}
    for row in result["rows"]:
        cell = f"{row['f1']:.2f} +- {row['f1_std']:.2f} (C={row['C']:g})"
        names.setdefault(_key(row), {})[row["size"]] = cell
    head = ["method", "family", "D", "H", "mapping", *(f"{n:,} lists" for n in sizes)]
    rows = ([*key, *(cells[n] for n in sizes)] for key, cells in names.items())
    parts.append(markdown(head, rows))
    parts.append("\nThe paper's findings (yes: the 95 % interval lies above 0):\n\n")
    found = result["findings"]
    parts.append(
        markdown(
            ["finding", "answer", "differences of F1"],
            ([name, item["answer"], _intervals(item)] for name, item in found.items()),
        )
    )
    size = result["steps"][0]["size"]
    parts.append(
        f"\nStep rules, D = 2, surrogate mapping, {size:,} lists, development F1 after "
        "the last pass, in float64:\n\n"
    )
    parts.append(_steps(result["steps"]))
    parts.append("\nMode sizes (TM-N2), H = 1:\n\n")
    parts.append(
        markdown(
            ["D", "V = 1.33 M", "parameters", "as printed", "here", "parameters"],
            (
                [
                    str(row["order"]),
                    "x".join(map(str, row["paper_sizes"])),
                    str(row["paper_parameters"]),
                    str(row["paper_parameters_printed"]),
                    "x".join(map(str, row["sizes"])),
                    str(row["parameters"]),
                ]
                for row in result["mode_sizes"]
            ),
        )
    )
    parts.append("\n" + bullets(result["notes"]))
    return "".join(parts)


def _key(row: dict[str, Any]) -> tuple[str, ...]:
    model = [row[name] for name in ("order", "components", "mapping")]
    return (
        row["method"],
        row["family"],
        *("" if value is None else str(value) for value in model),
    )


def _intervals(item: dict[str, Any]) -> str:
    """Write the main differences of a finding."""
    texts = []

    def visit(name: str, part: Any) -> None:
        if not isinstance(part, dict):
            return
        if "interval" in part:
            low, high = part["interval"]
            texts.append(f"{name}: {part['value']:+.2f} ({low:+.2f}..{high:+.2f})")
            return
        for key, value in part.items():
            visit(f"{name} {key}".strip(), value)

    for key, value in item.items():
        visit("" if key in ("by_size", "differences") else key.replace("_", " "), value)
    return "; ".join(texts)


def _steps(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        low, high = row["difference"]["interval"]
        cells.append(
            [
                str(row["components"]),
                row["decoding"],
                f"{row['C']:g}",
                f"{row['bcd_f1']:.2f}",
                f"{row['paper_f1']:.2f}",
                f"{row['difference']['value']:+.2f} ({low:+.2f}..{high:+.2f})",
                f"{row['bcd_raises']:,} of {row['bcd_substeps']:,}",
                f"{row['paper_raises']:,} of {row['paper_substeps']:,}",
            ]
        )
    head = ["H", "decoding", "C", "bcd", "paper", "bcd - paper"]
    return markdown([*head, "bcd raised (3)", "paper raised (3)"], cells)


def picture(figure: Any, result: Result) -> None:
    """Draw F1 against training size, and the two step rules against C."""
    figure.set_size_inches(9.6, 4.0)
    (left, right) = figure.subplots(1, 2)
    sizes = sorted({row["size"] for row in result["rows"]})
    curves = [("T-MIRA, best on development", "recommended", "T-MIRA", "o-", "C0")]
    curves += [("T-MIRA, as printed", "printed", "T-MIRA", "o--", "C0")]
    curves += [("MIRA, cost-augmented", "recommended", "MIRA", "s-", "C1")]
    curves += [("MIRA, plain", "printed", "MIRA", "s--", "C1")]
    curves += [("perceptron", "both", "perceptron", "^-", "C2")]
    for i, (label, family, method, style, colour) in enumerate(curves):
        best = []
        for size in sizes:
            rows = [
                row
                for row in result["rows"]
                if (row["method"], row["family"], row["size"]) == (method, family, size)
            ]
            best.append(max(rows, key=lambda row: row["development_f1"]))
        left.errorbar(
            [size * 1.02 ** (i - 2) for size in sizes],  # side by side
            [row["f1"] for row in best],
            yerr=[row["f1_std"] for row in best],
            fmt=style,
            color=colour,
            capsize=2,
            label=label,
        )
    left.axhline(result["base_f1"], color="0.5", linestyle=":", label="base tagger")
    left.set_xscale("log")
    left.set_xticks(sizes, [f"{size:,}" for size in sizes])
    left.minorticks_off()
    left.set_xlabel("training lists")
    left.set_ylabel("F1 on the test set (%)")
    left.set_title(f"Reranking, {result['test'].partition(',')[0]}", loc="left")

    rows = [row for row in result["steps"] if row["components"] == 1]
    for decoding, style in (("cost", "-"), ("plain", "--")):
        part = [row for row in rows if row["decoding"] == decoding]
        for step, marker, colour in (("bcd", "o", "C0"), ("paper", "s", "C3")):
            right.plot(
                [row["C"] for row in part],
                [row[f"{step}_f1"] for row in part],
                f"{marker}{style}",
                color=colour,
                label=f"{step}, {decoding}",
            )
    low = min(row["paper_f1"] for row in rows)
    right.set_ylim(max(low - 0.3, result["base_f1"] - 4))
    right.set_xscale("log")
    right.set_xlabel("C")
    right.set_ylabel("F1 on the development set (%)")
    right.set_title(f"Step rules, D=2, H=1, {rows[0]['size']:,} lists", loc="left")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8, handlelength=3)
