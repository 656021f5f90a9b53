"""Writes the section on allocation, placement and simulation of docs/performance/interconnect.md, and its plots, from interconnect-{allocation,simgrid,smpi,scale}.json.

Only what stands between the section's two marker comments is replaced; the rest of the page belongs to other reports.
Usage: report.py [folder with the JSON files]
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ferrule_fabric.figures import figure, save

FOLDER = Path(__file__).parents[2] / "docs/performance"
BEGIN, END = "<!-- begin: allocation (interconnect/bench/report.py) -->", "<!-- end: allocation -->"
NAMES = {"d-mod-k": "D-mod-K", "ecmp": "ECMP hash", "greedy": "greedy (the paper's)", "ferrule": "ours, one path per pair", "split": "ours, split (weighted paths)"}
WAYS = ("cyclic d-mod-k", "routing only", "placement only", "partition, then routing", "joint placement, d-mod-k", "both")


def ratios(cases: Sequence[Mapping[str, Any]], routing: str) -> list[float]:
    """Most loaded link between switches by the bound, case by case; 1 where nothing crosses switches."""
    return [case["loads"][routing]["switches"] / case["bound"] if case["bound"] > 0 else 1.0 for case in cases]


def one_path_ratios(cases: Sequence[Mapping[str, Any]], routing: str) -> list[float]:
    """The same by the bound for one path per pair."""
    return [case["loads"][routing]["switches"] / case["one_path_bound"] if case["one_path_bound"] > 0 else 1.0 for case in cases]


def geomean(values: Iterable[float]) -> float:
    """Geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def gain(row: Mapping[str, Any], way: str, which: str = "all") -> float:
    """Load of one way by the load with both."""
    both = row["loads"]["both"][which]
    return row["loads"][way][which] / both if both > 0 else 1.0


def bound_table(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Distance from the bound by algorithm."""
    lines = ["| allocation | within 2% of the bound | geometric mean | worst | longest computation |", "|---|---|---|---|---|"]
    for routing, name in NAMES.items():
        values = ratios(cases, routing)
        near = sum(value <= 1.02 for value in values) / len(values)
        lines.append(f"| {name} | {near:.1%} of {len(values)} | {geomean(values):.4f} | {max(values):.3f} | {max(case['seconds'][routing] for case in cases):.2f} s |")
    values = one_path_ratios(cases, "ferrule")
    near = sum(value <= 1.02 for value in values) / len(values)
    lines.append(f"| {NAMES['ferrule']}, against the bound for one path per pair | {near:.1%} | {geomean(values):.4f} | {max(values):.3f} | |")
    return lines


def topology_table(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Geometric means by topology."""
    lines = ["| topology | " + " | ".join(NAMES.values()) + " |", "|---" * (1 + len(NAMES)) + "|"]
    for topology in dict.fromkeys(case["topology"] for case in cases):
        own = [case for case in cases if case["topology"] == topology]
        lines.append(f"| `{topology}` | " + " | ".join(f"{geomean(ratios(own, routing)):.3f}" for routing in NAMES) + " |")
    return lines


def together_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Load by way relative to both, by pattern."""
    lines = ["| pattern | " + " | ".join(WAYS[:-1]) + " | best of one alone |", "|---" * (1 + len(WAYS)) + "|"]
    groups = [(pattern, [row for row in rows if row["pattern"] == pattern]) for pattern in dict.fromkeys(row["pattern"] for row in rows)]
    for name, own in [*groups, ("**all**", list(rows))]:
        best = geomean(min(gain(row, "routing only"), gain(row, "placement only")) for row in own)
        lines.append(f"| {name} | " + " | ".join(f"{geomean(gain(row, way) for row in own):.2f}" for way in WAYS[:-1]) + f" | {best:.2f} |")
    return lines


def smpi_text(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the comparison with SMPI says."""
    hosts, ranks = (max(abs(row["ours_s"] / row[kind] - 1) for row in rows) for kind in ("smpi_s", "smpi_ranks_s"))
    return [
        f"{len(rows)} cases of whole iterations played by an MPI program under SMPI, phases one after the other (interconnect/bench/smpi.py): matching, rendezvous, waiting and barriers",
        f"included, no latencies. With one message per pair of hosts, which is what the simulator takes for a flow, times differ by at most {hosts:.2%}; with one per pair of ranks,",
        f"where a pair of hosts with more ranks that talk gets more of a link, by at most {ranks:.2%}. With latencies SimGrid's flows share links in inverse proportion to these, as",
        "TCP's do; the simulator's share equally.",
        "",
    ]


def simulator_section(simgrid: Mapping[str, Any] | None, smpi: Mapping[str, Any] | None, scale: Mapping[str, Any] | None) -> list[str]:
    """The simulator against SimGrid, and how long things take; what wasn't measured is left out."""
    parts = []
    if simgrid is not None:
        rows = simgrid["rows"]
        worst = max(abs(row["ours_s"] / row["simgrid_s"] - 1) for row in rows)
        flows = max(row["mean_difference"] for row in rows)
        parts += [
            "## The simulator against SimGrid",
            "",
            f"{len(rows)} cases on 20, 16 and 16 hosts (interconnect/bench/simgrid.py), all flows of an iteration started together: the same paths and bytes in SimGrid 3.32 (S4U, model CM02",
            f"without latency, explicit routes). The finishing time of all differs by at most {worst:.2%}, that of single flows by {flows:.2%} on average in the worst case.",
            "",
        ]
    if smpi is not None:
        parts += smpi_text(smpi["rows"])
    if scale is not None:
        parts += ["## How long it takes", "", "Processor time of one core, kernels compiled; simulation per combination.", "", "| what | flows (host pairs) | seconds |", "|---|---|---|"]
        parts += [f"| {row['what']} | {row['flows']:,} | {row['seconds']:.3g} |" for row in scale["rows"]]
        parts.append("")
    return parts


def section(data: Mapping[str, Any], simgrid: Mapping[str, Any] | None, smpi: Mapping[str, Any] | None, scale: Mapping[str, Any] | None) -> str:
    """The section's text."""
    cases, rows = data["cases"], data["together"]
    best = geomean(min(gain(row, "routing only"), gain(row, "placement only")) for row in rows)
    impossible = sum(case["one_path_bound"] > 1.02 * case["bound"] for case in cases)
    possible = 1 - impossible / len(cases)
    worse = sum(min(gain(row, "routing only"), gain(row, "placement only")) < 1 - 1e-9 for row in rows)
    parts = [
        BEGIN,
        "## Path allocation against the bound",
        "",
        f"{len(cases)} cases: 10 topologies x 9 patterns x 3 placements (block, cyclic, random), 128 or 256 ranks (interconnect/bench/allocation.py). Compared is",
        "the most loaded link *between switches* (links to hosts leave no choice) with the least possible when traffic may split at will over shortest paths (linear program).",
        f"With one path per pair the bound can't always be reached: where few equal flows share few links, the best whole number of them is above it. In {impossible} cases",
        f"it is proven to be more than 2% above (by the flows' greatest common divisor, or by the integer program); so at most {possible:.1%} of the cases can be",
        "within 2% with one path per pair. The last row compares with that bound. Split routes are installed as weighted groups.",
        "",
        *bound_table(cases),
        "",
        "![distance from the bound](interconnect-bound.svg)",
        "",
        "Geometric means by topology:",
        "",
        *topology_table(cases),
        "",
        "## Placement and routing together",
        "",
        f"{len(rows)} cases, the same topologies and patterns, ranks first placed cyclically. Most loaded link of all, relative to what joint placement and our routing reach (1.00).",
        "*Routing only* is our routing of the cyclic placement; *placement only* is METIS partition and mapping under D-mod-K.",
        f"The better of the two needs {best:.2f} times the load of both together (geometric mean), that is both together save {1 - 1 / best:.0%}; "
        + (f"in {worse} cases one alone was better." if worse else "in no case was one alone better."),
        "",
        *together_table(rows),
        "",
        "![gain of placement and routing](interconnect-together.svg)",
        "",
        *simulator_section(simgrid, smpi, scale),
        END,
    ]
    return "\n".join(parts)


def plot_bound(cases: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Share of cases by distance from the bound."""
    made, axes = figure(7.0, 4.0)
    for routing, name in NAMES.items():
        values = sorted(ratios(cases, routing))
        axes.step(values, [(i + 1) / len(values) for i in range(len(values))], where="post", label=name)
    axes.axvline(1.02, color="gray", linewidth=0.8, linestyle=":")
    axes.set_xlim(0.99, 2.0)
    axes.set_xlabel("most loaded link / bound")
    axes.set_ylabel("share of cases")
    axes.legend(fontsize=8)
    save(made, path)


def plot_together(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Bars by pattern."""
    patterns = list(dict.fromkeys(row["pattern"] for row in rows))
    made, axes = figure(8.0, 4.0)
    for i, way in enumerate(WAYS[:-1]):
        axes.bar([p + (i - 2) * 0.16 for p in range(len(patterns))], [geomean(gain(row, way) for row in rows if row["pattern"] == pattern) for pattern in patterns], 0.15, label=way)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(patterns)), [pattern.partition(":")[0] for pattern in patterns], rotation=20)
    axes.set_ylabel("most loaded link / both together")
    axes.legend(fontsize=8)
    save(made, path)


def page(old: str, text: str) -> str:
    """The page with its section replaced, or added at the end."""
    if BEGIN in old and END in old:
        return old[: old.index(BEGIN)] + text + old[old.index(END) + len(END) :]
    return (old or "# Interconnect: performance\n") + "\n" + text + "\n"


def read(path: Path) -> Mapping[str, Any] | None:
    """A file of results, None where it hasn't been made."""
    return json.loads(path.read_text()) if path.exists() else None


def main() -> None:
    """Writes page and plots."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    data = json.loads((folder / "interconnect-allocation.json").read_text())
    target = folder / "interconnect.md"
    text = section(data, read(folder / "interconnect-simgrid.json"), read(folder / "interconnect-smpi.json"), read(folder / "interconnect-scale.json"))
    target.write_text(page(target.read_text() if target.exists() else "", text))
    plot_bound(data["cases"], folder / "interconnect-bound.svg")
    plot_together(data["together"], folder / "interconnect-together.svg")
    print("\n".join(bound_table(data["cases"])))
    print("\n".join(together_table(data["together"])[-1:]))


if __name__ == "__main__":
    main()
