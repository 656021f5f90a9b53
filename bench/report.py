"""Tables (Markdown) and plots (SVG) from the results of bench/run.py, a set for each distance of the processors. Alone: bench/report.py docs/performance"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable, Iterable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import drawing
import instructions
import results
from results import FAR, LIMIT, NEAR, NOT_MEASURED, OURS, PLACES, figure, number, verdict

TITLES = {"ferrule": "Ferrule", "mpich": "MPICH 5.0.2", "openmpi": "Open MPI 5.0.11", "impi": "Intel MPI 2021.18.1", LIMIT: "the machine's limit"}
ORDER = ["ferrule", "mpich", "openmpi", "impi"]
PEERS = ORDER[1:]
COLOURS = {"ferrule": "#b5422b", "mpich": "#3b6ea5", "openmpi": "#5a9e6f", "impi": "#8a6fb0", LIMIT: "#999999"}
FABRICS = {"shm": "One node, shared memory", "tcp": "One node, TCP forced", "netns": "Two network namespaces, TCP",
           "netns mac": "Two network namespaces, TCP, `FERRULE_TCP_SECURITY=mac`", "netns encrypt": "Two network namespaces, TCP, `FERRULE_TCP_SECURITY=encrypt`"}
KIB, MIB = 1 << 10, 1 << 20
# The rows of the peers table that the project measures itself against: (fabric, row, ranks, bytes)
GOALS = (
    [("shm", "latency", 2, n) for n in (8, 1024, 65536, 1 << 20, 4 << 20)]
    + [("shm", "bandwidth", 2, n) for n in (65536, 524288, 4 << 20)]
    + [("shm", "rate", 2, 8), ("tcp", "latency", 2, 8)]
    + [("tcp", "bandwidth", 2, n) for n in (65536, 524288, 1 << 20, 4 << 20)]
    + [("shm", "barrier", 2, 0)]
    + [("shm", "allreduce", 2, n) for n in (8, 65536, 1 << 20)]
    + [("shm", "bcast", 2, n) for n in (8, 1 << 20)]
    + [("shm", "alltoall", 2, n) for n in (8, 65536, 1 << 20)]
    + [("shm", "barrier", n, 0) for n in (4, 8)]
    + [("shm", "allreduce", n, 8) for n in (4, 8)]
    + [("shm", "alltoall", n, 65536) for n in (4, 8)]
    + [("shm", "startup", n, 0) for n in (2, 16, 128)]
)


def size_text(count: int) -> str:
    if not count:
        return ""
    for unit, factor in (("MiB", MIB), ("KiB", KIB)):
        if count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def row_name(row: dict) -> str:
    return row["row"] if row["fabric"] == "shm" else f"{row['fabric']} {row['row']}"


def ratio_text(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.2f}"


def markdown_table(head: list[str], rows: Iterable[list[str]]) -> str:
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)])


def table(data: dict, rows: list[dict], place: str) -> str:
    """The figures of all libraries at one place, the best peer in bold, the ratio last."""
    lines = []
    for row in rows:
        best = results.best_peer(row, place, PEERS)
        cells = [f"**{results.cell(row, place, name)}**" if name == best else results.cell(row, place, name) for name in ORDER]
        size = f"{row['bytes']} peers" if row["row"] == "memory active" else size_text(row["bytes"])
        lines.append([row_name(row), str(row["ranks"]), size, row["unit"], *cells, ratio_text(results.ratio(row, place, PEERS))])
    head = ["row", "ranks", "size", "unit", *(TITLES[name] for name in ORDER), "ratio to best peer"]
    return results.caption(data, rows, place) + "\n\n" + markdown_table(head, lines)


@dataclasses.dataclass(frozen=True)
class Goal:
    """What is to be reached at one place, what was found there, and whether it is met (None: not measured)."""

    text: str
    found: str
    met: bool | None


def peers_goal(rows: dict[tuple, dict], place: str) -> Goal:
    """Better than the best peer in every row of the peers table. One row that is worse decides; to be met, all have to be measured."""
    ratios = [results.ratio(rows.get(key), place, PEERS) for key in GOALS]
    known = [ratio for ratio in ratios if ratio is not None]
    better = sum(ratio > 1 for ratio in known)
    met = False if better < len(known) else None if len(known) < len(GOALS) else True
    return Goal(f"better than the best peer in all {len(GOALS)} rows of the peers table", f"{better} of {len(known)} that are measured" if known else "", met)


def compare(text: str, ours: results.Figure | None, wanted: float | None, unit: str, more: bool, of: str = "") -> Goal:
    if ours is None or wanted is None:
        return Goal(text, "", None)
    found = f"{number(ours.median)} {unit}" + (f" of {number(wanted)}{of}" if of else "")
    return Goal(text, found, ours.median >= wanted if more else ours.median <= wanted)


def raw_goals(rows: dict[tuple, dict], place: str) -> list[Goal]:
    """Against the machine's raw limits."""
    tiny = rows.get(("shm", "latency", 2, 8))
    limit = figure(tiny, place, LIMIT)
    goals = [compare("latency of 8 B: at most twice the raw spin ping-pong", figure(tiny, place, OURS), 2 * limit.median if limit else None, "µs", False, " µs, twice the raw one")]
    for kind in ("bandwidth", "bandwidth cold"):
        for size in (65536, 524288, MIB, 4 * MIB):
            row = rows.get(("shm", kind, 2, size))
            limit = figure(row, place, LIMIT)
            goals.append(compare(f"{kind} of {size_text(size)}: at least 90% of the better raw way", figure(row, place, OURS), 0.9 * limit.median if limit else None, "GB/s", True,
                                 " GB/s, 90% of the raw one"))
    return goals


def ping_pong_goals(rows: dict[tuple, dict], place: str) -> list[Goal]:
    """Large messages in a ping-pong: fixed rates far apart, at least Intel MPI's near."""
    goals = []
    for size in (64 * KIB, MIB, 4 * MIB):
        row = rows.get(("shm", "latency", 2, size))
        ours, impi = figure(row, place, OURS), figure(row, place, "impi")
        if place == FAR:
            wanted_us = 8.0 if size == 64 * KIB else size / 20e3
            text = "at most 8 µs" if size == 64 * KIB else f"at least 20 GB/s ({number(wanted_us)} µs)"
            goals.append(compare(f"ping-pong of {size_text(size)}: {text}", ours, wanted_us, "µs", False))
        elif place == NEAR:
            goals.append(compare(f"ping-pong of {size_text(size)}: not slower than Intel MPI", ours, impi.median if impi else None, "µs", False, " µs"))
    return goals


def goals(data: dict, place: str) -> list[Goal]:
    rows = {results.identity(row): row for row in data["rows"]}
    return [peers_goal(rows, place), *raw_goals(rows, place), *ping_pong_goals(rows, place)]


def goals_table(found: list[Goal]) -> str:
    return markdown_table(["goal", "measured", ""], ([goal.text, goal.found, verdict(goal.met)] for goal in found))


def instruction_goals(counts: dict[str, float] | None) -> list[Goal]:
    """Instructions don't depend on where the processors are."""
    found = []
    for names, limit in instructions.LIMITS.items():
        total = sum(counts[name] for name in names) if counts and all(name in counts for name in names) else None
        found.append(Goal(f"`{' + '.join(names)}` of 8 B: at most {limit} instructions", "" if total is None else f"{total:.0f}", None if total is None else total <= limit))
    return found


def raw_table(data: dict, place: str) -> str:
    """Ferrule beside what the machine can do without MPI."""
    rows = [row for row in data["rows"] if any(LIMIT in run["values"] for run in row["runs"])]
    lines = []
    for row in rows:
        speed = results.speed(row, place, OURS, LIMIT)
        lines.append([row["row"], str(row["ranks"]), size_text(row["bytes"]), row["unit"], results.cell(row, place, OURS), results.cell(row, place, LIMIT),
                      NOT_MEASURED if speed is None else f"{100 * speed:.0f}%"])
    return results.caption(data, rows, place) + "\n\n" + markdown_table(["row", "ranks", "size", "unit", "Ferrule", "limit", "Ferrule's speed"], lines)


def coverage(data: dict) -> str:
    """How much was measured at each distance."""
    lines = []
    for place in results.measured_places(data["rows"]):
        counts = [len(results.values(row, place, OURS)) for row in data["rows"]]
        enough = sum(count >= results.ENOUGH for count in counts)
        lines.append([PLACES[place], f"{enough} of {len(counts)}", f"{min(counts, default=0)}–{max(counts, default=0)}"])
    return markdown_table(["", "rows measured", "runs of a row"], lines)


def section(data: dict, place: str) -> list[str]:
    """All that was measured at one distance."""
    parts = [f"## {PLACES[place]}"]
    if not any(figure(row, place, name) for row in data["rows"] for name in TITLES):
        return [*parts, f"{NOT_MEASURED.capitalize()}: no row has {results.ENOUGH} runs."]
    rows = {results.identity(row): row for row in data["rows"]}
    parts += ["### Goals", results.caption(data, data["rows"], place) + "\n\n" + goals_table(goals(data, place))]
    parts += ["### The peers table", table(data, [rows[key] for key in GOALS if key in rows], place)]
    if any(LIMIT in run["values"] for row in data["rows"] for run in row["runs"]):
        parts += ["### Beside the machine's limits", "Latency: spin ping-pong of two processes. Bandwidth: the better of process_vm_readv and a ring in shared memory. Startup: fork and exec of as "
                  "many static programs that do nothing. They take turns with the libraries.", raw_table(data, place)]
    for fabric, title in FABRICS.items():
        chosen = [row for row in data["rows"] if row["fabric"] == fabric]
        if chosen:
            parts += [f"### {title}", table(data, sorted(chosen, key=lambda r: (r["row"], r["ranks"], r["bytes"])), place)]
    return parts


def markdown(data: dict) -> str:
    """The page docs/performance/README.md."""
    parts = ["# Performance", "Written by `make bench` (`bench/run.py`), which adds runs to those of the same revision. The libraries take turns. A figure is the median of its runs; in "
             f"brackets the least, the most, and how many runs. Fewer than {results.ENOUGH} are \"{NOT_MEASURED}\". The best peer is bold. The ratio compares medians and is above 1 when "
             "Ferrule is better.",
             "The host of a virtual machine moves its processors about (docs/design/0003-cells.md): they share a core, a cache or nothing, and a message takes up to eight times as long. "
             f"So each distance has tables of its own, and no figure mixes two. Runs during which the processors moved are dropped and made again ({data['dropped']} until now).",
             "## Machine", "\n".join([f"- revision: {data['revision']}", *(f"- {key}: {value}" for key, value in data["machine"].items())]), coverage(data),
             "## Instructions", f"Revision {data['revision']}, callgrind.\n\n" + goals_table(instruction_goals(data["instructions"]))]
    for place in results.measured_places(data["rows"]):
        parts += section(data, place)
    if data["failures"]:
        parts.append("## What was left out\nA library that fails in a plan, or says nothing for a minute, takes no further part in it.\n\n" + "\n".join(
            f"- {TITLES[f['peer']]}, `{f['plan']}`: {f['error'][:300]}" for f in data["failures"]))
    parts.append("## Plots\n![latency](latency.svg)\n![bandwidth](bandwidth.svg)\n![oversubscribed](oversubscribed.svg)\n![ratios](ratios.svg)")
    return "\n\n".join(parts) + "\n"


def plots(data: dict, out: pathlib.Path) -> None:
    """SVG plots, where matplotlib is there: a panel for each distance."""
    plt = drawing.library()
    if plt is None:
        return
    places = [place for place in results.measured_places(data["rows"]) if any(figure(row, place, OURS) for row in data["rows"])]
    if not places:
        return

    def panels(file: str, height: float, draw: Callable) -> None:
        figure_, all_axes = plt.subplots(1, len(places), figsize=(7 * len(places), height), squeeze=False)
        for place, axes in zip(places, all_axes[0]):
            draw(axes, place)
        drawing.finish(plt, figure_, out / file)

    panels("latency.svg", 4.2, lambda axes, place: curves(data, axes, place, "latency", "µs"))
    panels("bandwidth.svg", 4.2, lambda axes, place: curves(data, axes, place, "bandwidth", "GB/s"))
    rows = {results.identity(row): row for row in data["rows"]}
    crowd = [rows[k] for n in (4, 8, 16) for k in (("shm", "barrier", n, 0), ("shm", "allreduce", n, 8), ("shm", "alltoall", n, 65536)) if k in rows]
    panels("oversubscribed.svg", 4.2, lambda axes, place: oversubscribed(crowd, axes, place))
    compared = [rows[k] for k in GOALS if k in rows]
    panels("ratios.svg", 0.24 * len(compared) + 1, lambda axes, place: ratios(compared, axes, place))


def curves(data: dict, axes, place: str, row: str, label: str) -> None:
    """Medians, and bars from the least to the most."""
    for name in (*ORDER, LIMIT):
        points = sorted((r["bytes"], found) for r in data["rows"] if (r["row"], r["fabric"], r["ranks"]) == (row, "shm", 2) and (found := figure(r, place, name)))
        if points:
            medians = [found.median for _, found in points]
            spread = [[found.median - found.least for _, found in points], [found.most - found.median for _, found in points]]
            axes.errorbar([size for size, _ in points], medians, yerr=spread, marker="o", capsize=3, label=TITLES[name], color=COLOURS[name])
    axes.set(xscale="log", xlabel="message, bytes", ylabel=label, title=f"{row}, 2 ranks\n{PLACES[place]}")
    if row == "latency":
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    drawing.legend(axes)


def oversubscribed(rows: list[dict], axes, place: str) -> None:
    """Collectives of more ranks than there are processors."""
    for i, name in enumerate(ORDER):
        bars = [(x + 0.2 * i, found.median) for x, row in enumerate(rows) if (found := figure(row, place, name))]
        if bars:
            axes.bar(*zip(*bars), 0.2, label=TITLES[name], color=COLOURS[name])
    axes.set_xticks([x + 0.3 for x in range(len(rows))], [f"{r['row']}\n{size_text(r['bytes'])} n={r['ranks']}" for r in rows], fontsize=7)
    axes.set(yscale="log", ylabel="µs", title=f"more ranks than processors\n{PLACES[place]}")
    drawing.legend(axes)


def ratios(rows: list[dict], axes, place: str) -> None:
    """The ratios of the peers table; a row that is not measured has no bar."""
    found = [results.ratio(row, place, PEERS) for row in rows]
    axes.barh(range(len(rows)), [(ratio or 1) - 1 for ratio in found], left=1, color=[COLOURS["ferrule"] if (ratio or 0) > 1 else "#999999" for ratio in found])
    axes.set_yticks(range(len(rows)), [f"{row_name(r)} {size_text(r['bytes'])} n={r['ranks']}" + ("" if ratio else f" ({NOT_MEASURED})") for r, ratio in zip(rows, found)], fontsize=7)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="ratio to the best peer (right of 1: Ferrule is better)", title=PLACES[place])


def write(data: dict, out: pathlib.Path) -> None:
    """Page and plots."""
    (out / "README.md").write_text(markdown(data))
    plots(data, out)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    write(results.read(folder / "results.json"), folder)
