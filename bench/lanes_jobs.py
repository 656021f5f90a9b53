"""Runs bench/lanes.c on the testbed for lanes, and shows distributions of times: as a table, in the terminal, as SVG."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testbeds/lanes"))
import job
import lane_bed
import peers as registry
import results

ROOT = registry.ROOT
BINARIES = ROOT / "build/bench/lanes"
SILENCE_S = 90
#: Next round trip this long after the last one, so that round trips are no load of their own.
GAP_US = 2000
BULK_BYTES = 262144
#: Quantiles that are kept of a distribution.
KEPT = [i / 200 for i in range(1, 200)]


@dataclasses.dataclass(frozen=True)
class Way:
    """How messages go: a library, its settings, whether the links have queues for classes, and whether there is a bulk stream."""

    title: str
    library: str = "ferrule"
    env: tuple[tuple[str, str], ...] = ()
    classes: bool = True
    bulk: bool = True


def lanes(policy: str, count: str = "") -> tuple[tuple[str, str], ...]:
    """The settings of a policy."""
    return (("FERRULE_LANE_POLICY", policy), ("FERRULE_LANES", count))


class JobError(RuntimeError):
    """A job of the benchmark failed."""


def binary(peer: registry.Peer, source: str = "bench/lanes.c") -> pathlib.Path:
    """The program, compiled for a library."""
    target = BINARIES / ("abi" if peer.standard_abi else peer.name) / pathlib.Path(source).stem
    if not target.exists() or target.stat().st_mtime < (ROOT / source).stat().st_mtime:
        peer.compile(ROOT / source, target)
    return target


def command(bed: lane_bed.Bed, way: Way, ranks: int, program: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """What starts a job on the hosts of `bed`, and its environment."""
    peer = registry.peers([way.library])[0]
    where = [(name, bed.address(name)) for name in bed.names]
    env = {**peer.environment("netns"), **dict(way.env), "NETNS_MAP": ",".join(f"{name}={address}" for name, address in where)}
    return [*bed.prefix(bed.names[0]), *peer.command(ranks, where), *program], env


def run(bed: lane_bed.Bed, way: Way, ranks: int, *arguments: str, limit_s: float = 240) -> dict[str, Any]:
    """One job of bench/lanes.c: what it says. Raises JobError if it fails."""
    words, env = command(bed, way, ranks, [str(binary(registry.peers([way.library])[0])), *arguments])
    done = job.run(words, env, limit_s, SILENCE_S)
    lines = [line[line.index("{"):] for line in done.text.splitlines() if '"row"' in line]
    if done.error or not lines:
        raise JobError(f"{way.title}, {' '.join(arguments)}: {done.error or 'no figures'}")
    return json.loads(lines[-1])


def round_trips(bed: lane_bed.Bed, way: Way, size: int, seconds: float) -> dict[str, Any]:
    """Round trips of `size` bytes; `samples` are µs."""
    return run(bed, way, 2, "latency", f"{seconds:g}", str(GAP_US), str(BULK_BYTES if way.bulk else 0), str(size))


def quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def distribution(samples: Sequence[float]) -> dict[str, Any]:
    """How many there are, quantiles (µs) that so many can tell, and the largest."""
    ordered = sorted(samples)
    found: dict[str, Any] = {"n": len(ordered), "p50": quantile(ordered, 0.5), "most": ordered[-1], "quantiles": [float(f"{quantile(ordered, part):.5g}") for part in KEPT]}
    for name, part, least in (("p99", 0.99, 100), ("p99.9", 0.999, 1000)):
        found[name] = quantile(ordered, part) if len(ordered) >= least else None
    return found


def ms(value_us: float | None) -> str:
    """Microseconds as ms."""
    return results.NOT_MEASURED if value_us is None else f"{value_us / 1000:.3g}" if value_us < 1e6 else f"{value_us / 1000:.0f}"


def bars(rows: Sequence[tuple[str, dict[str, Any]]], width: int = 56) -> str:
    """Distributions below each other on one logarithmic axis, for a terminal: a line from the fastest to the slowest hundredth, thick for the middle half, a mark for the median."""
    if not rows:
        return ""
    low = math.floor(math.log10(min(row["quantiles"][0] for _, row in rows)))
    high = max(low + 1, math.ceil(math.log10(max(row["quantiles"][-1] for _, row in rows))))
    names = max(len(name) for name, _ in rows)

    def place(value: float) -> int:
        return min(width - 1, max(0, round((math.log10(value) - low) / (high - low) * (width - 1))))

    lines = []
    for name, row in rows:
        cells = [" "] * width
        for part_low, part_high, mark in ((0.01, 0.99, "─"), (0.25, 0.75, "━"), (0.5, 0.5, "┃")):
            first, last = (place(row["quantiles"][round(part * 200) - 1]) for part in (part_low, part_high))
            cells[first:last + 1] = mark * (last + 1 - first)
        lines.append(f"{name:<{names}} │{''.join(cells)}│ p99 {ms(row['p99'])} ms")
    axis = [" "] * (width + 8)
    for power in range(low, high + 1):
        text = f"{10.0 ** (power - 3):g}"
        at = place(10.0 ** power)
        axis[at:at + len(text)] = text
    return "\n".join([*lines, f"{'':<{names}}  {''.join(axis).rstrip()} ms"])


def plot(plt: Any, path: pathlib.Path, panels: Sequence[tuple[str, Sequence[tuple[str, dict[str, Any]]]]], label: str, top: float = 1e-3) -> None:
    """SVG: for each panel its distributions below each other on one logarithmic axis; `top` is the unit of the axis in µs, as a factor."""
    import drawing

    tallest = max(len(rows) for _, rows in panels)
    figure, axes = plt.subplots(1, len(panels), figsize=(5.4 * len(panels), 0.9 + 0.55 * tallest), squeeze=False, sharex=True)
    for axis, (title, rows) in zip(axes[0], panels):
        for at, (name, row) in enumerate(reversed(rows)):
            values = [value * top for value in row["quantiles"]]
            colour = "#b5422b" if "one lane" in name else "#999999" if "no bulk" in name else "#3b6ea5"
            axis.plot([values[1], values[-2]], [at, at], color=colour, linewidth=2, solid_capstyle="round")
            axis.plot([values[49], values[149]], [at, at], color=colour, linewidth=8, solid_capstyle="butt")
            axis.plot([values[99]], [at], marker="|", markersize=14, color="black")
            axis.annotate(f"p99 {ms(row['p99'] or row['most'])} ms" if top == 1e-3 else f"{values[-2]:.3g}", (values[-2], at), xytext=(5, -3), textcoords="offset points", fontsize=8)
        axis.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)])
        axis.set_ylim(-0.7, len(rows) - 0.3)
        axis.set_xscale("log")
        axis.set_xlim(right=axis.get_xlim()[1] * 4)
        axis.set_xlabel(label)
        axis.set_title(title)
        axis.grid(True, axis="x", alpha=0.3)
        axis.tick_params(labelleft=True)
    drawing.finish(plt, figure, path)


def load() -> float:
    """The machine's load average over the last minute: what else ran."""
    return os.getloadavg()[0]
