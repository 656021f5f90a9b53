#!/usr/bin/env python3
"""The published figures of virtual lanes beside those of `ferrule lab lanes`, as a page and a plot: docs/performance/lanes-simulated.md and .svg.

The simulation gives the same figures everywhere; only its speed depends on the machine.

Usage: bench/lanes_simulated.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
import drawing

#: Packets (over one link each) a second on one core that the simulator is to reach.
GOAL_HOPS = 10e6

HEAD = """# Virtual lanes, simulated: the published figures and the model's

Written by `make bench-lanes-simulated` (`bench/lanes_simulated.py`) from `ferrule lab lanes --all`. The model: [docs/design/0037](../design/0037-lane-simulator.md).
The published figures are of Subramoni, Lai, Sur and Panda, *Improving application performance and predictability using multiple virtual lanes in modern multi-core InfiniBand
clusters* (ICPP 2010), measured on QDR InfiniBand. Here nothing is fitted to them: each row after the first ones changes one assumption, so the column shows what a figure depends on.

![Times between arrivals, by number of streams and lanes](lanes-simulated.svg)

## What the model says of each

| figure | authors | model | |
|---|---|---|---|
"""

READING = """
**Why the model gains less.** Its switch serves all queues of a port at once and has the credits that a full link needs, so one lane already fills the link: there is no bandwidth left for lanes
to win. What lanes change in it is who waits for whom. Gains of bandwidth need a cost that one lane has and several don't: too few credits of one lane (cables of 100 m: see the all-to-all's row),
or limits of an adapter, which the model doesn't have. We don't know which of them the authors' hardware had, so we don't claim their gain.

**What moves the figures.** How many packets of one queue pair an adapter sends before it goes on to the next one decides how irregular one lane is. This constant (8) comes from no data sheet.
"""


def number(value: float) -> str:
    return f"{value + 0.0:,.0f}" if abs(value) >= 1000 else f"{value + 0.0:.3g}" if abs(value) >= 0.005 else "0"


def rounded(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}"


def table(figure: dict) -> str:
    lines = [f"| | {' | '.join(figure['columns'])} |", "|---" * (len(figure["columns"]) + 1) + "|"]
    lines += [f"| {row['name']} | {' | '.join(number(value) for value in row['values'])} |" for row in figure["rows"]]
    return "\n".join(lines)


def value(figures: dict[str, dict], name: str, row: str, column: str) -> float:
    """One value; a KeyError if there is no such row."""
    figure = figures[name]
    rows = {entry["name"]: entry["values"] for entry in figure["rows"]}
    return rows[row][figure["columns"].index(column)]


def summary(figures: dict[str, dict]) -> list[str]:
    """What the model gives where the authors gave a figure."""
    def variation(lanes: int) -> str:
        return number(value(figures, "interarrival", f"as assumed: streams 8, lanes {lanes}", "coefficient of variation"))

    def least_and_most(name: str, column: str) -> str:
        figure = figures[name]
        found = [row["values"][figure["columns"].index(column)] for row in figure["rows"]]
        return f"{rounded(min(found))} to {rounded(max(found))} %"

    bandwidth = least_and_most("pt2pt", "more bandwidth %")
    return [
        f"| variation of times between arrivals, 8 streams | far more predictable with 8 lanes | {variation(1)} with 1 lane, {variation(8)} with 8 | as published |",
        f"| point-to-point, 8 pairs | 13 % better | bandwidth {bandwidth}; mean latency {least_and_most('pt2pt', 'less mean latency %')} less | bandwidth not reproduced |",
        f"| all-to-all, distribution | 20 % less time | {least_and_most('alltoall', 'distribute gains %')} | not reproduced |",
        f"| all-to-all, segregation | 12 % less time | {least_and_most('alltoall', 'segregate gains %')} | not reproduced |",
        f"| CPMD's mix, all-to-all | 11 % less time | {least_and_most('cpmd', 'distribute: all-to-all %')} | not reproduced |",
        f"| CPMD's mix, whole | 6 % less time | {least_and_most('cpmd', 'distribute: total %')} | not reproduced |",
    ]


def speed(measured: dict) -> str:
    hops = 1e6 * measured["hops_per_us"]
    verdict = "met" if hops >= GOAL_HOPS else "not met"
    return (f"## Speed of the simulator\n\n{hops / 1e6:.2f} million packets over one link each a second, {measured['packets_per_us']:.2f} million from end to end, on one core "
            f"({platform.machine()}, load average {os.getloadavg()[0]:.1f}). The goal is {GOAL_HOPS / 1e6:.0f} million over one link: {verdict}.\n")


def page(result: dict) -> str:
    figures = {figure["name"]: figure for figure in result["figures"]}
    parts = [HEAD + "\n".join(summary(figures)), READING.strip()]
    for figure in result["figures"]:
        parts.append(f"## {figure['title']}\n\nAssumes: {figure['assumes']}. Authors: {figure['paper']}.\n\n{table(figure)}")
    return "\n\n".join([*parts, speed(result["speed"])])


def draw(result: dict, path: pathlib.Path) -> None:
    plt = drawing.library()
    if plt is None:
        return
    figures = {figure["name"]: figure for figure in result["figures"]}
    cases = [(streams, lanes) for streams in (1, 8) for lanes in (1, 8)]
    values = [value(figures, "interarrival", f"as assumed: streams {streams}, lanes {lanes}", "coefficient of variation") for streams, lanes in cases]
    figure, axes = plt.subplots(figsize=(7, 3))
    names = [f"{streams} stream{'s' * (streams > 1)}, {lanes} lane{'s' * (lanes > 1)}" for streams, lanes in cases]
    bars = axes.barh(names, values, color=["#b5422b" if lanes == 1 else "#3b6ea5" for _, lanes in cases])
    axes.bar_label(bars, [f"{found:.2f}" for found in values], padding=3)
    axes.invert_yaxis()
    axes.set_xlim(0, max(values) * 1.15)
    axes.set_xlabel("coefficient of variation of the times between two packets of a stream (0: like a clock)")
    axes.set_title("With a lane each, eight streams arrive like clocks")
    drawing.finish(plt, figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance")
    options = parser.parse_args()
    done = subprocess.run([ROOT / "dist/bin/ferrule", "lab", "lanes", "--all", "--speed", "--json"], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return 1
    result = json.loads(done.stdout)
    (options.out / "lanes-simulated.md").write_text(page(result))
    draw(result, options.out / "lanes-simulated.svg")
    print(page(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
