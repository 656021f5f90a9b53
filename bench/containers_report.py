"""Table and plots of bench/containers.py. Alone: bench/containers_report.py docs/performance"""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import drawing
import results
from report import markdown_table, size_text
from results import NOT_MEASURED, PLACES, figure, verdict

TITLES = {"native": "native", "docker": "containers", "cma": "containers, CMA allowed", "mpich": "MPICH 5.0.2", "openmpi": "Open MPI 5.0.11"}
COLOURS = {"native": "#444444", "docker": "#b5422b", "cma": "#d98a5f", "mpich": "#3b6ea5", "openmpi": "#5a9e6f"}
PEERS = ("mpich", "openmpi")


def against_best(row: dict, place: str) -> float | None:
    """How fast containers are against the best peer in them."""
    best = results.best_peer(row, place, PEERS)
    return results.speed(row, place, "docker", best) if best else None


def times(value: float | None, unit: str = "") -> str:
    return NOT_MEASURED if value is None else f"{value:.2f}{unit}"


def table(data: dict, place: str) -> str:
    """One line for each row: figures, then the ratios that matter."""
    lines = []
    for row in data["rows"]:
        ratios = [times(results.speed(row, place, arm, "native")) for arm in ("docker", "cma")]
        lines.append([row["row"], str(row["ranks"]), size_text(row["bytes"]), row["unit"], *(results.cell(row, place, arm) for arm in TITLES), *ratios,
                      times(against_best(row, place), "×")])
    head = ["row", "ranks", "size", "unit", *TITLES.values(), "containers / native", "CMA / native", "containers / best peer"]
    return results.caption(data, data["rows"], place) + "\n\n" + markdown_table(head, lines)


def goal(text: str, rows: list[dict], place: str, arm: str, reference: str, least: float, unit: str = "") -> list[str]:
    """A line of the goals' table. One row below the goal decides; to be met, all of them have to be measured."""
    speeds = [results.speed(row, place, arm, reference) for row in rows]
    known = [speed for speed in speeds if speed is not None]
    met = False if known and min(known) < least else None if not known or len(known) < len(speeds) else True
    return [text, f"{min(known):.2f}–{max(known):.2f}{unit}" if known else "", verdict(met)]


def goals(data: dict, place: str) -> str:
    """The goals, each with what was measured at this place."""
    rows = data["rows"]
    small = [r for r in rows if r["row"] == "latency" and r["bytes"] <= 16384]
    wide = [r for r in rows if r["row"] == "bandwidth"]
    applications = [r for r in rows if r["row"].startswith("application")]
    collectives = [r for r in rows if r not in small and r not in wide and r not in applications and r["row"] != "latency"]
    lines = [goal("latency up to 16 KiB: at least 0.95 of native", small, place, "docker", "native", 0.95),
             goal("collectives: at least 0.95 of native", collectives, place, "docker", "native", 0.95),
             goal("bandwidth from 64 KiB, CMA allowed: at least 0.95 of native", wide, place, "cma", "native", 0.95),
             goal("bandwidth from 64 KiB, default containers: at least 0.6 of native", wide, place, "docker", "native", 0.6),
             goal("applications: at least 0.95 of native", applications, place, "docker", "native", 0.95)]
    tiny = [r for r in small if r["bytes"] == 8]
    for peer in PEERS:
        lines.append(goal(f"latency of 8 bytes against {TITLES[peer]}: at least 20×", tiny, place, "docker", peer, 20, "×"))
        lines.append(goal(f"bandwidth against {TITLES[peer]}: at least 5×", wide, place, "docker", peer, 5, "×"))
    cost = start(data, place, "MPI_Init")
    lines.append(["detection costs `MPI_Init` under 5 ms", "" if cost is None else f"{cost:+.1f} ms", verdict(None if cost is None else cost < 5)])
    against = [f"{min(found):.2f}–{max(found):.2f} times the speed of {TITLES[peer]}" for peer in PEERS
               if (found := [s for row in applications if (s := results.speed(row, place, "docker", peer))])]
    return (results.caption(data, rows, place) + "\n\n" + markdown_table(["goal", "measured", ""], lines)
            + (f"\n\nWithout a goal: applications have {' and '.join(against)}." if against else ""))


def start(data: dict, place: str, name: str) -> float | None:
    """What looking for neighbours adds to a part of the start, in ms."""
    row = next((row for row in data["detection"] if row["row"] == name), None)
    auto, node = figure(row, place, "auto"), figure(row, place, "node")
    return auto.median - node.median if auto and node else None


def start_table(data: dict, place: str) -> str:
    lines = []
    for row in data["detection"]:
        added = start(data, place, row["row"])
        lines.append([row["row"], *(results.cell(row, place, locality) for locality in ("auto", "node")), NOT_MEASURED if added is None else f"{added:+.1f}"])
    head = ["", "looks for neighbours (`auto`), ms", "doesn't (`node`), ms", "difference"]
    return results.caption(data, data["detection"], place) + "\n\n" + markdown_table(head, lines)


def section(data: dict, place: str) -> list[str]:
    parts = [f"## {PLACES[place]}"]
    if not any(figure(row, place, arm) for row in [*data["rows"], *data["detection"]] for arm in (*TITLES, "auto")):
        return [*parts, f"{NOT_MEASURED.capitalize()}: no row has {results.ENOUGH} runs."]
    parts += ["### Goals", goals(data, place), "### All rows", table(data, place)]
    if data["detection"]:
        parts += [f"### Start-up: {data['ranks_started']} ranks in {data['ranks_started']} containers", "The whole job includes `docker exec` for each container.",
                  start_table(data, place)]
    return parts


def markdown(data: dict) -> str:
    """The page docs/performance/containers.md."""
    mode = "quick run: few repeats, short measurements" if data["quick"] else "full run"
    rows = [*data["rows"], *data["detection"]]
    parts = ["# Performance in containers",
             f"Written by `make bench-containers` (`bench/containers.py`, {mode}), which adds runs to those of the same revision. All arms take turns. A figure is the median of its "
             f"runs; in brackets the least, the most, and how many runs. Fewer than {results.ENOUGH} are \"{NOT_MEASURED}\". Ratios are speeds: above 1 is faster. The host moves the two "
             f"processors about (docs/design/0003-cells.md), so each distance has tables of its own; {data['dropped']} runs during which they moved are left out.",
             "\n".join([f"- revision: {data['revision']}", *(f"- {key}: {value}" for key, value in data["machine"].items())]),
             "**native**: plain processes under one agent. **containers**: a default Docker container for each rank, an agent in each, with a job directory that "
             "they share, as `mpiexec --container docker` sets up. **containers, CMA allowed**: the same with `--pid=host --cap-add=SYS_PTRACE`. "
             "**MPICH, Open MPI**: the same default containers, with their own launchers through `docker exec`."]
    for place in results.measured_places(rows):
        parts += section(data, place)
    if data["failures"]:
        parts += ["## What failed", "\n".join(f"- {TITLES[arm]}: {text[:400]}" for arm, text in data["failures"].items())]
    parts.append("## Plots\n![latency](containers-latency.svg)\n![bandwidth](containers-bandwidth.svg)\n![applications](containers-applications.svg)")
    return "\n\n".join(parts) + "\n"


def plots(data: dict, out: pathlib.Path) -> None:
    """SVG plots, where matplotlib is there: a panel for each distance."""
    plt = drawing.library()
    places = [place for place in results.measured_places(data["rows"]) if any(figure(row, place, arm) for row in data["rows"] for arm in TITLES)]
    if plt is None or not places:
        return

    for row, label in (("latency", "µs"), ("bandwidth", "GB/s")):
        drawn, panels = plt.subplots(1, len(places), figsize=(7 * len(places), 4.2), squeeze=False)
        for place, axes in zip(places, panels[0]):
            for arm, title in TITLES.items():
                points = sorted((r["bytes"], found.median) for r in data["rows"] if (r["row"], r["ranks"]) == (row, 2) and (found := figure(r, place, arm)))
                if points:
                    axes.plot(*zip(*points), marker="o", label=title, color=COLOURS[arm])
            axes.set(xscale="log", yscale="log", xlabel="message, bytes", ylabel=label, title=f"{row}, 2 ranks in 2 containers\n{PLACES[place]}")
            axes.grid(alpha=0.3)
            drawing.legend(axes)
        drawing.finish(plt, drawn, out / f"containers-{row}.svg")
    drawn, panels = plt.subplots(1, len(places), figsize=(8 * len(places), 4.2), squeeze=False)
    for place, axes in zip(places, panels[0]):
        chosen = [r for r in data["rows"] if r["row"].startswith("application") and figure(r, place, "native")]
        for i, (arm, title) in enumerate(TITLES.items()):
            bars = [(x + 0.16 * i, 1 / speed) for x, r in enumerate(chosen) if (speed := results.speed(r, place, arm, "native"))]
            if bars:
                axes.bar(*zip(*bars), 0.16, label=title, color=COLOURS[arm])
        axes.set_xticks([x + 0.32 for x in range(len(chosen))], [f"{r['row'].split()[1]}\nn={r['ranks']}" for r in chosen])
        axes.set(ylabel="time / native time", title=f"applications: lower is better\n{PLACES[place]}")
        axes.axhline(1, color="black", linewidth=0.8)
        drawing.legend(axes)
    drawing.finish(plt, drawn, out / "containers-applications.svg")


def write(data: dict, out: pathlib.Path) -> None:
    """Page and plots."""
    (out / "containers.md").write_text(markdown(data))
    plots(data, out)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    write(results.read(folder / "containers.json"), folder)
