"""Table and plots of bench/containers.py. Alone: bench/containers_report.py docs/performance"""

from __future__ import annotations

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import drawing
from report import number, size_text

TITLES = {"native": "native", "docker": "containers", "cma": "containers, CMA allowed", "mpich": "MPICH 5.0.2", "openmpi": "Open MPI 5.0.11"}
COLOURS = {"native": "#444444", "docker": "#b5422b", "cma": "#d98a5f", "mpich": "#3b6ea5", "openmpi": "#5a9e6f"}
MORE_IS_BETTER = ("GB/s", "million/s")


def speed(row: dict, arm: str, reference: str) -> float | None:
    """How fast `arm` is against `reference`: above 1 is faster, whatever the unit."""
    a, b = row["median"].get(arm), row["median"].get(reference)
    if not a or not b:
        return None
    return a / b if row["unit"] in MORE_IS_BETTER else b / a


def table(data: dict) -> str:
    """One line for each row: medians, then the ratios that matter."""
    lines = ["| row | ranks | size | unit | " + " | ".join(TITLES.values()) + " | containers / native | CMA / native | containers / best peer |",
             "|---|---|---|---|" + "---|" * (len(TITLES) + 3)]
    for row in data["rows"]:
        cells = [f"{number(row['median'][a])} ±{50 * row['spread'][a]:.0f}%" if a in row["median"] else "–" for a in TITLES]
        best = max((s for s in (speed(row, "docker", p) for p in ("mpich", "openmpi")) if s), default=None)
        worst = min((s for s in (speed(row, "docker", p) for p in ("mpich", "openmpi")) if s), default=best)
        ratios = [f"{s:.2f}" if (s := speed(row, arm, "native")) else "–" for arm in ("docker", "cma")]
        lines.append(f"| {row['row']} | {row['ranks']} | {size_text(row['bytes'])} | {row['unit']} | " + " | ".join(cells)
                     + f" | {' | '.join(ratios)} | {f'{worst:.1f}×' if worst else '–'} |")
    return "\n".join(lines)


def goals(data: dict) -> str:
    """The goals, each with what was measured: met, not met or not measured."""
    def ratios(arm: str, reference: str, chosen: list[dict]) -> list[float]:
        return [s for s in (speed(row, arm, reference) for row in chosen) if s]

    rows = data["rows"]
    small = [r for r in rows if r["row"] == "latency" and r["bytes"] <= 16384]
    wide = [r for r in rows if r["row"] == "bandwidth"]
    applications = [r for r in rows if r["row"].startswith("application")]
    collectives = [r for r in rows if r not in small and r not in wide and r not in applications and r["row"] != "latency"]
    lines = ["| goal | measured | |", "|---|---|---|"]

    def line(text: str, found: list[float], least: float, unit: str = "") -> None:
        if not found:
            lines.append(f"| {text} | | not measured |")
            return
        lines.append(f"| {text} | {min(found):.2f}–{max(found):.2f}{unit} | {'met' if min(found) >= least else 'not met'} |")

    line("latency up to 16 KiB: at least 0.95 of native", ratios("docker", "native", small), 0.95)
    line("collectives: at least 0.95 of native", ratios("docker", "native", collectives), 0.95)
    line("bandwidth from 64 KiB, CMA allowed: at least 0.95 of native", ratios("cma", "native", wide), 0.95)
    line("bandwidth from 64 KiB, default containers: at least 0.6 of native", ratios("docker", "native", wide), 0.6)
    line("applications: at least 0.95 of native", ratios("docker", "native", applications), 0.95)
    tiny = [r for r in small if r["bytes"] == 8]
    for peer in ("mpich", "openmpi"):
        line(f"latency of 8 bytes against {TITLES[peer]}: at least 20×", ratios("docker", peer, tiny), 20, "×")
        line(f"bandwidth against {TITLES[peer]}: at least 5×", ratios("docker", peer, wide), 5, "×")
    detection = start(data, "MPI_Init")
    cost = f"{detection:+.1f} ms" if detection is not None else ""
    lines.append(f"| detection costs `MPI_Init` under 5 ms | {cost} | {'not measured' if detection is None else 'met' if detection < 5 else 'not met'} |")
    against = [f"{min(found):.2f}–{max(found):.2f} times the speed of {TITLES[peer]}" for peer in ("mpich", "openmpi") if (found := ratios("docker", peer, applications))]
    return "\n".join(lines) + (f"\n\nWithout a goal: applications have {' and '.join(against)}." if against else "")


def start(data: dict, name: str) -> float | None:
    """What looking for neighbours adds to a part of the start, in ms."""
    found = {(d["locality"], d["row"]): d["ms"] for d in data["detection"]}
    return found["auto", name] - found["node", name] if {("auto", name), ("node", name)} <= set(found) else None


def start_table(data: dict) -> str:
    lines = ["| | looks for neighbours (`auto`), ms | doesn't (`node`), ms | difference |", "|---|---|---|---|"]
    found = {(d["locality"], d["row"]): d for d in data["detection"]}
    for name in ("MPI_Init", "first all-to-all", "whole job"):
        auto, node = found.get(("auto", name)), found.get(("node", name))
        if auto and node:
            cells = [f"{d['ms']:.1f} ({d['least']:.1f}–{d['most']:.1f})" for d in (auto, node)]
            lines.append(f"| {name} | {cells[0]} | {cells[1]} | {auto['ms'] - node['ms']:+.1f} |")
    return "\n".join(lines)


def markdown(data: dict) -> str:
    """The page docs/performance/containers.md."""
    mode = "quick run: few repeats, short measurements" if data["quick"] else "full run"
    parts = ["# Performance in containers",
             f"Written by `make bench-containers` (`bench/containers.py`, {mode}). All arms take turns in one run; a figure is the median of {data['repeats']} "
             "repeats, ± is half of the spread between the fastest and the slowest. Ratios are speeds: above 1 is faster. A run is made "
             f"again, up to three times, if the host has moved the two processors (docs/design/0003-cells.md); in {data['elsewhere']} runs they were elsewhere all the same.",
             "\n".join(f"- {key}: {value}" for key, value in data["machine"].items()),
             "**native**: plain processes under one agent. **containers**: a default Docker container for each rank, an agent in each, with a job directory that "
             "they share, as `mpiexec --container docker` sets up. **containers, CMA allowed**: the same with `--pid=host --cap-add=SYS_PTRACE`. "
             "**MPICH, Open MPI**: the same default containers, with their own launchers through `docker exec`.",
             "## Goals", goals(data), "## All rows", table(data)]
    if data["failures"]:
        parts += ["## What failed", "\n".join(f"- {TITLES[arm]}: {text[:400]}" for arm, text in data["failures"].items())]
    if data["detection"]:
        parts += [f"## Start-up: {data['ranks_started']} ranks in {data['ranks_started']} containers",
                  "The whole job includes `docker exec` for each container. Median (least–most).", start_table(data)]
    parts.append("## Plots\n![latency](containers-latency.svg)\n![bandwidth](containers-bandwidth.svg)\n![applications](containers-applications.svg)")
    return "\n\n".join(parts) + "\n"


def plots(data: dict, out: pathlib.Path) -> None:
    """SVG plots, where matplotlib is there."""
    plt = drawing.library()
    if plt is None:
        return

    for row, label in (("latency", "µs"), ("bandwidth", "GB/s")):
        figure, axes = plt.subplots(figsize=(7, 4.2))
        for arm, title in TITLES.items():
            points = sorted((r["bytes"], r["median"][arm]) for r in data["rows"] if r["row"] == row and r["ranks"] == 2 and arm in r["median"])
            if points:
                axes.plot(*zip(*points), marker="o", label=title, color=COLOURS[arm])
        axes.set(xscale="log", yscale="log", xlabel="message, bytes", ylabel=label, title=f"{row}, 2 ranks in 2 containers")
        axes.grid(alpha=0.3)
        axes.legend()
        drawing.finish(plt, figure, out / f"containers-{row}.svg")
    chosen = [r for r in data["rows"] if r["row"].startswith("application") and "native" in r["median"]]
    if chosen:
        figure, axes = plt.subplots(figsize=(8, 4.2))
        for i, (arm, title) in enumerate(TITLES.items()):
            heights = [r["median"].get(arm, 0) / r["median"]["native"] for r in chosen]
            axes.bar([x + 0.16 * i for x in range(len(chosen))], heights, 0.16, label=title, color=COLOURS[arm])
        axes.set_xticks([x + 0.32 for x in range(len(chosen))], [f"{r['row'].split()[1]}\nn={r['ranks']}" for r in chosen])
        axes.set(ylabel="time / native time", title="applications: lower is better")
        axes.axhline(1, color="black", linewidth=0.8)
        axes.legend()
        drawing.finish(plt, figure, out / "containers-applications.svg")


def write(data: dict, out: pathlib.Path) -> None:
    """Page and plots."""
    (out / "containers.md").write_text(markdown(data))
    plots(data, out)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    write(json.loads((folder / "containers.json").read_text()), folder)
