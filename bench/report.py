"""Tables (Markdown) and plots (SVG) from the results of bench/run.py. Alone: bench/report.py docs/performance"""

from __future__ import annotations

import collections
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import drawing

TITLES = {"ferrule": "Ferrule", "mpich": "MPICH 5.0.2", "openmpi": "Open MPI 5.0.11", "impi": "Intel MPI 2021.18.1"}
ORDER = ["ferrule", "mpich", "openmpi", "impi"]
COLOURS = {"ferrule": "#b5422b", "mpich": "#3b6ea5", "openmpi": "#5a9e6f", "impi": "#8a6fb0"}
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
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(rows: list[dict]) -> str:
    """One Markdown table; median and spread of each library, best peer in bold, ratio last."""
    lines = ["| row | ranks | size | unit | " + " | ".join(TITLES[n] for n in ORDER) + " | ratio to best peer |", "|---|---|---|---|" + "---|" * (len(ORDER) + 1)]
    for row in rows:
        cells = []
        for name in ORDER:
            if name not in row["median"]:
                cells.append("not measured" if name in row.get("not_measured", {}) else "–")
                continue
            text = f"{number(row['median'][name])} ±{100 * row['spread'][name] / 2:.0f}%"
            cells.append(f"**{text}**" if name == row.get("best_peer") else text)
        ratio = f"{row['ratio']:.2f}" if "ratio" in row else "–"
        size = str(row["bytes"]) + " peers" if row["row"] == "memory active" else size_text(row["bytes"])
        name = row["row"] if row["fabric"] == "shm" else f"{row['fabric']} {row['row']}"
        lines.append(f"| {name} | {row['ranks']} | {size} | {row['unit']} | " + " | ".join(cells) + f" | {ratio} |")
    return "\n".join(lines)


def verdict(met: bool) -> str:
    return "met" if met else "not met"


def raw_ratios(data: dict) -> list[str]:
    """Ferrule against the machine's raw limits."""
    raw = {(r["row"], r["bytes"]): r["value"] for r in data["raw"]}
    lines = []
    for row in data["rows"]:
        ours = row["median"].get("ferrule")
        if row["fabric"] != "shm" or not ours:
            continue
        if row.get("floor"):
            part = f"{ours / row['floor']:.1f}× fork and exec of as many static programs that do nothing"
            lines.append(f"| start of {row['ranks']} ranks, s | {number(ours)} | {number(row['floor'])} | {part} |")
        if row["row"] == "latency" and row["bytes"] == 8 and ("raw spin ping-pong", 8) in raw:
            limit = raw["raw spin ping-pong", 8]
            lines.append(f"| latency 8 B, µs | {number(ours)} | {number(limit)} | {ours / limit:.2f}× the raw spin ping-pong (goal: at most 2; {verdict(ours <= 2 * limit)}) |")
        for kind in ("", " cold"):
            if row["row"] == f"bandwidth{kind}":
                limits = [raw.get((f"raw {way} {'cold' if kind else 'warm'}", row["bytes"]), 0) for way in ("process_vm_readv", "two-copy ring")]
                if max(limits):
                    part = f"{100 * ours / max(limits):.0f}% of the better raw way (goal: 90%; {verdict(ours >= 0.9 * max(limits))})"
                    lines.append(f"| bandwidth{kind or ' warm'} {size_text(row['bytes'])}, GB/s | {number(ours)} | {number(max(limits))} | {part} |")
    return lines


def markdown(data: dict) -> str:
    """The page docs/performance/README.md."""
    rows = {(r["fabric"], r["row"], r["ranks"], r["bytes"]): r for r in data["rows"]}
    goals = [rows[key] for key in GOALS if key in rows]
    better = sum(r.get("ratio", 0) > 1 for r in goals)
    parts = ["# Performance", "Written by `make bench` (`bench/run.py`). All libraries take turns in one run; a figure is the median of "
             f"{data['repeats']} repeats, ± is half of the spread between the fastest and the slowest. The best peer is bold. "
             "The ratio is above 1 when Ferrule is better.", "## Machine"]
    parts.append("\n".join(f"- {key}: {value}" for key, value in data["machine"].items()))
    if data.get("again"):
        parts.append("Measured again, all libraries in turn: " + "; ".join(f"`{entry['plan']}` ({entry['date']})" for entry in data["again"]) + ".")
    places = collections.Counter(row["place"] for row in data["rows"] if "place" in row)
    if places:
        runs = sum(len(values) for row in data["rows"] for values in row["values"].values())
        parts.append("The host of a virtual machine moves its processors about (docs/design/0003-cells.md), so a run is made up to three times until they share what "
                     "they did when its plan began: " + ", ".join(f"{what} in {count} rows" for what, count in places.most_common())
                     + f". In {sum(row['elsewhere'] for row in data['rows'])} of {runs} values they did not.")
    parts += [f"## The peers table\nFerrule is better than the best peer in {better} of {sum('ratio' in r for r in goals)} rows "
              f"(goal: in all {len(GOALS)}; {verdict(better == len(GOALS)) if len(goals) == len(GOALS) else 'not measured'}).", table(goals)]
    limits = raw_ratios(data)
    if limits:
        parts += ["## Against the machine's raw limits", "| row | Ferrule | raw limit | |\n|---|---|---|---|\n" + "\n".join(limits)]
    if data.get("instructions"):
        total = sum(data["instructions"].values())
        each = ", ".join(f"`MPI_{k.capitalize()}` {v:.0f}" for k, v in data["instructions"].items())
        parts += ["## Instructions", f"8 bytes, callgrind, per call: {each}; together {total:.0f} (goal: at most 400; {verdict(total <= 400)})."]
    for fabric, title in (("shm", "One node, shared memory"), ("tcp", "One node, TCP forced"), ("netns", "Two network namespaces, TCP")):
        chosen = [r for r in data["rows"] if r["fabric"] == fabric]
        if chosen:
            parts += [f"## {title}", table(sorted(chosen, key=lambda r: (r["row"], r["ranks"], r["bytes"])))]
    reasons = {(name, why) for row in data["rows"] for name, why in row.get("not_measured", {}).items() if name not in row["median"]}
    if reasons:
        parts.append("## Not measured\n" + "\n".join(f"- {TITLES[name]}: {why}" for name, why in sorted(reasons)))
    if data.get("failures"):
        parts.append("## What was left out\nA library that fails in a plan, or says nothing for a minute, takes no further part in it.\n\n" + "\n".join(
            f"- {TITLES[f['peer']]}, `{f['plan']}`: {f['error'][:300]}" for f in data["failures"]))
    parts.append("## Plots\n![latency](latency.svg)\n![bandwidth](bandwidth.svg)\n![oversubscribed](oversubscribed.svg)\n![ratios](ratios.svg)")
    return "\n\n".join(parts) + "\n"


def plots(data: dict, out: pathlib.Path) -> None:
    """SVG plots, where matplotlib is there."""
    plt = drawing.library()
    if plt is None:
        return

    def curves(row: str, fabric: str, file: str, label: str) -> None:
        figure, axes = plt.subplots(figsize=(7, 4.2))
        for name in ORDER:
            points = sorted((r["bytes"], r["median"][name]) for r in data["rows"]
                            if r["row"] == row and r["fabric"] == fabric and r["ranks"] == 2 and name in r["median"])
            if points:
                axes.plot(*zip(*points), marker="o", label=TITLES[name], color=COLOURS[name])
        axes.set(xscale="log", xlabel="message, bytes", ylabel=label, title=f"{row}, 2 ranks, {fabric}")
        if row == "latency":
            axes.set_yscale("log")
        axes.grid(alpha=0.3)
        axes.legend()
        drawing.finish(plt, figure, out / file)

    curves("latency", "shm", "latency.svg", "µs")
    curves("bandwidth", "shm", "bandwidth.svg", "GB/s")
    bars(data, out, plt)


def bars(data: dict, out: pathlib.Path, plt) -> None:
    """Oversubscribed collectives, and all ratios of the peers table."""
    rows = {(r["fabric"], r["row"], r["ranks"], r["bytes"]): r for r in data["rows"]}
    chosen = [rows[k] for n in (4, 8, 16) for k in (("shm", "barrier", n, 0), ("shm", "allreduce", n, 8), ("shm", "alltoall", n, 65536)) if k in rows]
    if chosen:
        figure, axes = plt.subplots(figsize=(8, 4.2))
        for i, name in enumerate(ORDER):
            axes.bar([x + 0.2 * i for x in range(len(chosen))], [r["median"].get(name, 0) for r in chosen], 0.2, label=TITLES[name], color=COLOURS[name])
        axes.set_xticks([x + 0.3 for x in range(len(chosen))], [f"{r['row']}\n{size_text(r['bytes'])} n={r['ranks']}" for r in chosen], fontsize=7)
        axes.set(yscale="log", ylabel="µs", title="more ranks than cores")
        axes.legend()
        drawing.finish(plt, figure, out / "oversubscribed.svg")
    goals = [rows[k] for k in GOALS if k in rows and "ratio" in rows[k]]
    if goals:
        figure, axes = plt.subplots(figsize=(8, 0.24 * len(goals) + 1))
        axes.barh(range(len(goals)), [r["ratio"] for r in goals], color=[COLOURS["ferrule"] if r["ratio"] >= 1 else "#999999" for r in goals])
        axes.set_yticks(range(len(goals)), [f"{r['fabric']} {r['row']} {size_text(r['bytes'])} n={r['ranks']}" for r in goals], fontsize=7)
        axes.invert_yaxis()
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set(xscale="log", xlabel="ratio to the best peer (right of 1: Ferrule is better)")
        drawing.finish(plt, figure, out / "ratios.svg")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    results = json.loads((folder / "results.json").read_text())
    (folder / "README.md").write_text(markdown(results))
    plots(results, folder)
