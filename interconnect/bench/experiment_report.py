"""Writes the section on the real switches of docs/performance/interconnect.md, and its plot, from interconnect-experiment.json; prints the tables.

Usage: experiment_report.py [folder with the JSON file]
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiment import PLACEMENTS, PROGRAMS, ROUTINGS

from ferrule_fabric.figures import figure, save

FOLDER = Path(__file__).parents[2] / "docs/performance"
BEGIN, END = "<!-- begin: experiment (interconnect/bench/experiment_report.py) -->", "<!-- end: experiment -->"
Cells = dict[tuple[str, str, str], tuple[float, float]]


def cells_of(rows: Sequence[Mapping[str, Any]]) -> Cells:
    """(seconds, bytes on the hottest link) of each program, placement and routing: least of the repeats, since whatever else the machine does only adds."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["program"], row["placement"], row["routing"]), []).append(row)
    return {key: (min(row["seconds"] for row in own), min(row["hottest_bytes"] for row in own)) for key, own in groups.items()}


def change(cells: Cells, program: str, placement: str, routing: str, which: int) -> float:
    """Relative to D-mod-K: -0.25 is a quarter less."""
    return cells[program, placement, routing][which] / cells[program, placement, "d-mod-k"][which] - 1


def listed(cells: Cells, program: str) -> list[str]:
    """The placements that were measured, in order."""
    return [placement for placement in PLACEMENTS if (program, placement, "d-mod-k") in cells]


def unchanged(rows: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Programs and placements for which the manager chose D-mod-K's routes, as the rows' digests of all paths tell."""
    paths: dict[tuple[str, str, str], set[str]] = {}
    for row in rows:
        if "paths" in row:
            paths.setdefault((row["program"], row["placement"], row["routing"]), set()).add(row["paths"])
    return {key[:2] for key, found in paths.items() if key[2] == "ferrule-time" and found == paths.get((*key[:2], "d-mod-k"))}


def table(cells: Cells, program: str, same: set[tuple[str, str]]) -> list[str]:
    """One program: hottest link and time by placement and routing; ``same`` are cells in which ours are D-mod-K's routes."""
    names = list(ROUTINGS.values())
    lines = ["| placement | " + " | ".join(f"hottest link, {name}, MB" for name in names) + " | " + " | ".join(f"time, {name}, s" for name in names) + " | time, ours against D-mod-K |"]
    lines.append("|---" * (2 + 2 * len(names)) + "|")
    for placement in listed(cells, program):
        parts = [f"{cells[program, placement, routing][1] / 1e6:.2f}" for routing in ROUTINGS]
        parts += [f"{cells[program, placement, routing][0]:.2f}" for routing in ROUTINGS]
        lines.append(f"| {placement} | " + " | ".join(parts) + f" | {change(cells, program, placement, 'ferrule-time', 0):+.0%}{' (same routes)' if (program, placement) in same else ''} |")
    return lines


def mean_change(cells: Cells, program: str, placements: Sequence[str], routing: str) -> float:
    """Geometric mean over placements."""
    return math.exp(sum(math.log1p(change(cells, program, placement, routing, 0)) for placement in placements) / len(placements)) - 1


def summary(cells: Cells, same: set[tuple[str, str]]) -> list[str]:
    """What came of it, in sentences."""
    lines = []
    blocks = [placement for placement in listed(cells, "cg") if placement.startswith("block")] if ("cg", "block-a", "d-mod-k") in cells else []
    if blocks:
        best = min(change(cells, "cg", placement, "ferrule-time", 0) for placement in blocks)
        mean = mean_change(cells, "cg", blocks, "ferrule-time")
        first = change(cells, "cg", "block-a", "ferrule-time", 0)
        lines.append(
            f"CG in block placement spends {-first:.0%} less time in communication with our routes than with D-mod-K (block A; the paper: up to 26%, later 22.6%), {-best:.0%} at best, "
            f"{-mean:.0%} in the geometric mean over block A to E (greedy {-mean_change(cells, 'cg', blocks, 'greedy'):.0%})."
        )
    ours = [(change(cells, *key[:2], "ferrule-time", 0), key) for key in cells if key[2] == "ferrule-time"]
    other, equal = (max((one for one in ours if (one[1][:2] in same) == is_same), default=None) for is_same in (False, True))
    if other is not None:
        lines.append(f"Where routes differ from D-mod-K's, the worst cell is {PROGRAMS[other[1][0]].name} in {other[1][1]}: {other[0]:+.0%}.")
    if equal is not None:
        lines.append(
            f"Where no allocation is predicted to gain, the manager keeps D-mod-K's routes (`manager/choice.py`); in the cells marked so the digests of all paths are equal, and what "
            f"times differ there ({PROGRAMS[equal[1][0]].name} in {equal[1][1]}: {equal[0]:+.0%}) is the machine's."
        )
    return lines


def spread(rows: Sequence[Mapping[str, Any]]) -> str:
    """How far repeats of the same cell lie apart, in a sentence; empty without repeats."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        groups.setdefault((row["program"], row["placement"], row["routing"]), []).append(row["seconds"])
    apart = sorted(max(own) / min(own) - 1 for own in groups.values() if len(own) > 1)
    if not apart:
        return ""
    middle, most = apart[len(apart) // 2], apart[-1]
    return f"Repeats of one cell lie {middle:.0%} apart in the median and {most:.0%} at most, so a difference of that size where the hottest link stays the same says nothing."


def section(data: Mapping[str, Any], cells: Cells, slurm: Mapping[str, Any] | None) -> str:
    """The section's text."""
    parts = [BEGIN, "## On real switches", ""]
    parts += [
        f"Open vSwitch, 4 leaves, 2 spines, 20 hosts in network namespaces, every link {data['mbit']:g} Mb/s (token buckets), so 2.5:1; {data['ranks']} ranks, 8 a host, on 16 hosts",
        "(interconnect/bench/experiment.py). Each program ran once under `mpiexec --profile`, its profile went to the manager, and the manager routed it for each",
        "placement. Compared are the switches' byte counters of the hottest link between switches, and the program's own time in communication (least of the repeats).",
        "Block A to E are block placement on the first hosts, on equally many of each leaf, on the last, on one of each leaf in turn, on random ones. Where an even",
        "selection spreads a pattern evenly already (block B and D), routing has little left to do. All hosts and switches share one machine with whatever else it does.",
        spread(data["rows"]),
        "",
        *summary(cells, unchanged(data["rows"])),
        "",
    ]
    for key in dict.fromkeys(row["program"] for row in data["rows"]):
        told = data["profiles"].get(key, {})
        size = f": {told['bytes'] / 1e6:.0f} MB in {told['messages']:,} messages, {told['pairs']:,} pairs of ranks" if told else ""
        parts += [f"{PROGRAMS[key].name} (`{Path(PROGRAMS[key].source).name} {' '.join(PROGRAMS[key].arguments)}`{size}):", "", *table(cells, key, unchanged(data["rows"])), ""]
    parts += ["![time by placement and routing](interconnect-experiment.svg)", ""]
    if slurm is not None:
        wait, srun = slurm["wait_ms"], slurm["srun_ms"]
        parts += [
            f"What the manager adds to `srun` of {slurm['ranks']} tasks on {slurm['nodes']} nodes (interconnect/bench/slurm_overhead.py): for routes for {slurm['pairs']} pairs of hosts",
            f"the plugin waits {wait['median']:.0f} ms in the median ({wait['least']} to {wait['most']}); all of srun takes {srun['without']:.0f} ms without",
            f"and {srun['with']:.0f} ms with routes (median difference {srun['difference']:.0f} ms, aim: under 50).",
            "",
        ]
    return "\n".join([*parts, END])


def plot(cells: Cells, path: Path) -> None:
    """Bars of time relative to D-mod-K."""
    keys = [(program, placement) for program in PROGRAMS for placement in listed(cells, program)]
    made, axes = figure(9.0, 4.0)
    for i, (routing, name) in enumerate(ROUTINGS.items()):
        axes.bar([k + (i - 1) * 0.27 for k in range(len(keys))], [1 + change(cells, *key, routing, 0) for key in keys], 0.25, label=name)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(keys)), [f"{program} {placement}" for program, placement in keys], rotation=60, ha="right", fontsize=7)
    axes.set_ylabel("communication time / D-mod-K")
    axes.legend(fontsize=8)
    save(made, path)


def main() -> None:
    """Writes page and plot."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    data = json.loads((folder / "interconnect-experiment.json").read_text())
    cells = cells_of(data["rows"])
    target = folder / "interconnect.md"
    overhead = folder / "interconnect-slurm.json"
    old, text = target.read_text(), section(data, cells, json.loads(overhead.read_text()) if overhead.exists() else None)
    target.write_text(old[: old.index(BEGIN)] + text + old[old.index(END) + len(END) :] if BEGIN in old and END in old else f"{old.rstrip()}\n\n{text}\n")
    plot(cells, folder / "interconnect-experiment.svg")
    for key in dict.fromkeys(row["program"] for row in data["rows"]):
        print("\n".join([PROGRAMS[key].name, *table(cells, key, unchanged(data["rows"])), ""]))
    print("\n".join(summary(cells, unchanged(data["rows"]))))


if __name__ == "__main__":
    main()
