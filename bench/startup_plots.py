#!/usr/bin/env python3
"""Page and plots from the results of `ferrule startup`. Alone: bench/startup_plots.py docs/performance/startup.json"""

from __future__ import annotations

import json
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import drawing
import results
from results import NOT_MEASURED, PLACES, verdict

SCHEMES = ["original", "dr", "bc", "mpd-bc", "tree", "hypercube", "lazy"]
COLOURS = {"original": "#444444", "dr": "#8a6fb0", "bc": "#3b6ea5", "mpd-bc": "#5a9e6f", "tree": "#c9a227", "hypercube": "#d98a5f", "lazy": "#b5422b"}
ARM_COLOURS = ["#999999", "#b5422b", "#3b6ea5", "#5a9e6f", "#8a6fb0", "#c9a227"]
#: Yu, Wu, Panda: Fast and scalable startup of MPI programs in InfiniBand clusters, EuroPVM/MPI 2004; seconds on a cluster of 128 nodes.
PAPER_RANKS = [4, 8, 16, 32, 64, 128]
PAPER = {
    "original": [0.59, 0.92, 1.74, 3.41, 7.3, 13.7],
    "dr": [0.58, 0.94, 1.69, 3.37, 6.77, 13.45],
    "bc": [0.61, 0.95, 1.70, 3.38, 6.76, 13.3],
    "mpd-bc": [0.61, 0.63, 0.64, 0.84, 1.58, 3.10],
}
PAPER_NAMES = {"original": "Original", "dr": "SSH-DR", "bc": "SSH-BC", "mpd-bc": "MPD-BC"}


def seconds(value: float) -> str:
    """A time in a unit that suits it."""
    for limit, unit, factor in ((1e-3, "µs", 1e6), (1.0, "ms", 1e3)):
        if value < limit:
            return f"{value * factor:.3g} {unit}"
    if value < 100:
        return f"{value:.3g} s"
    if value < 36_000:
        return f"{value:.0f} s"
    if value < 48 * 3600:
        return f"{value / 3600:.0f} h"
    return f"{value / 86400:.0f} days" if value < 86400 * 1000 else f"{value / 31_557_600:,.0f} years"


def plus_minus(value: float, half: float | None) -> str:
    if half is None:
        return f"{seconds(value)} ± ?"
    if half >= value:
        return f"at most {seconds(value + half)}"
    return f"{seconds(value)} ± {100 * half / value:.0f}%" if value > 0 and half < 10 * value else f"{seconds(value)} ± {seconds(half)}"


def times(point: dict) -> list[float]:
    """Until MPI_Init has returned everywhere if mpiexec says so, else the whole job."""
    return point["init_s"] if point.get("init_s") and len(point["init_s"]) == len(point["wall_s"]) else point["wall_s"]


def middle(point: dict | None) -> float | None:
    """The median of enough times."""
    found = results.summarize(times(point)) if point else None
    return found.median if found else None


def settings(data: dict) -> list[tuple[int, str]]:
    return sorted({(p["session_ms"], p["connect"]) for p in data["schemes"]}, key=lambda s: (s[1] != "demand", s[0]))


def chosen(data: dict, setting: tuple[int, str]) -> dict[tuple[str, int], dict]:
    return {(p["scheme"], p["ranks"]): p for p in data["schemes"] if (p["session_ms"], p["connect"]) == setting}


def setting_title(setting: tuple[int, str]) -> str:
    session = f"sessions that take {setting[0]} ms to open" if setting[0] else "sessions that open at once"
    return session + (", all connections in `MPI_Init`" if setting[1] == "all" else ", connections on demand")


def table(rows: list[list[str]]) -> str:
    return "\n".join(["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0]), *("| " + " | ".join(r) + " |" for r in rows[1:])])


def scheme_table(data: dict, setting: tuple[int, str], value: Callable[[dict], str], last: bool) -> str:
    """One row for each N, one column for each scheme; `last` adds what original takes against lazy and tree."""
    points = chosen(data, setting)
    names = [s for s in SCHEMES if any(k[0] == s for k in points)]
    rows = [["ranks", "hosts", *(f"`{s}`" for s in names), *(["original / lazy", "original / tree"] if last else [])]]
    for ranks in sorted({k[1] for k in points}):
        row = [str(ranks), str(next(p["hosts"] for k, p in points.items() if k[1] == ranks))]
        row += [value(points[s, ranks]) if (s, ranks) in points else NOT_MEASURED for s in names]
        for other in ("lazy", "tree") if last else ():
            ours, theirs = (middle(points.get((s, ranks))) for s in (other, "original"))
            row.append(f"{theirs / ours:.2f}" if ours and theirs else NOT_MEASURED)
        rows.append(row)
    return table(rows)


def time_cell(point: dict) -> str:
    values = times(point)
    if len(values) < results.ENOUGH:
        return NOT_MEASURED
    return f"{seconds(statistics.median(values))} ({seconds(min(values))}–{seconds(max(values))}; {len(values)})"


def traffic_cell(point: dict) -> str:
    sent = (point.get("report") or {}).get("exchange")
    if not sent:
        return NOT_MEASURED
    return f"{sent['bytes']:,} B, {sent['messages']:,} ({sent['per_rank']['messages']['max']:,})"


def launcher_table(data: dict) -> str:
    names = list(dict.fromkeys(["floor", "Ferrule", *(p["name"] for p in data["launchers"])]))
    found = launcher_times(data)
    points = {(p["name"], p["ranks"]): {"wall_s": p["wall_s"]} for p in data["launchers"]}
    rows = [["ranks", *names, "Ferrule / floor", "best peer / Ferrule"]]
    for ranks in sorted({p["ranks"] for p in data["launchers"]}):
        ours, floor, best = found.get(("Ferrule", ranks)), found.get(("floor", ranks)), best_peer(data, ranks)
        rows.append([str(ranks), *(time_cell(points[n, ranks]) if (n, ranks) in points else NOT_MEASURED for n in names),
                     f"{ours / floor:.1f}" if ours and floor else NOT_MEASURED, f"{best / ours:.2f}" if ours and best else NOT_MEASURED])
    return table(rows)


def launcher_times(data: dict) -> dict[tuple[str, int], float]:
    return {(p["name"], p["ranks"]): found.median for p in data["launchers"] if (found := results.summarize(p["wall_s"]))}


def best_peer(data: dict, ranks: int) -> float | None:
    """The best peer's time. None as long as one of them has too few runs: it might be the best."""
    there = {p["name"] for p in data["launchers"] if p["ranks"] == ranks and p["name"] not in ("floor", "Ferrule")}
    found = [value for (name, at), value in launcher_times(data).items() if at == ranks and name in there]
    return min(found) if found and len(found) == len(there) else None


def paper_table() -> str:
    return table([["ranks", *map(str, PAPER_RANKS)], *([f"{PAPER_NAMES[s]} (`{s}`)", *map(str, values)] for s, values in PAPER.items())])


def model_table(models: list[dict]) -> str:
    rows = [["scheme", "setting", "model: constants in seconds, 95% intervals", "largest N", "error there", "if fitted without it"]]
    for m in models:
        where = "authors' figures" if m["source"] == "paper" else f"{m['session_ms']} ms, {m['connect']}"
        terms = [f"({t['constant']:.2e} ± {'?' if t['half_width'] is None else format(t['half_width'], '.0e')})·{t['growth'].replace('^', '**')}"
                 for t in m["terms"] if t["constant"] > 0 or t["half_width"]]
        held = m.get("held_out_error")
        rows.append([f"`{m['scheme']}`", where, " + ".join(f"`{t}`" for t in terms), str(m["ranks_max"]), f"{100 * m['error']:+.1f}%",
                     NOT_MEASURED if held is None else f"{100 * held:+.1f}%"])
    return table(rows)


def prediction_table(models: list[dict], kind: str) -> str:
    rows = [["ranks", *(f"`{m['scheme']}`" + (" (authors)" if m["source"] == "paper" else "") for m in models)]]
    for i, p in enumerate(models[0]["predictions"]):
        rows.append([f"{p['ranks']:,}", *(plus_minus(m["predictions"][i][f"{kind}_s"], m["predictions"][i][f"{kind}_half_s"]) for m in models)])
    return table(rows)


def meanings(models: list[dict]) -> str:
    """What the terms stand for."""
    found = {t["growth"]: t["meaning"] for m in models if m["source"] == "measured" for t in m["terms"]}
    return "Terms: " + "; ".join(f"`{g.replace('^', '**')}` {text}" for g, text in found.items()) + "."


def goals(data: dict) -> str:
    """What was to be reached, and what was."""
    lines: list[list[str]] = []
    for setting in settings(data):
        points = chosen(data, setting)
        for other in ("lazy", "tree"):
            at = max((n for s, n in points if s == "original" and (other, n) in points), default=None)
            ours, theirs = (middle(points.get((s, at))) for s in (other, "original")) if at else (None, None)
            ratio = theirs / ours if ours and theirs else None
            lines.append([f"`{other}` 4 times as fast as `original`" + (f" at {at} ranks" if at else "") + f", {setting_title(setting)}",
                          "" if ratio is None else f"{ratio:.1f} times", verdict(None if ratio is None else ratio >= 4)])
    sizes = sorted({p["ranks"] for p in data["launchers"] if p["name"] == "Ferrule"})
    found = launcher_times(data)
    ratios = {n: best / found["Ferrule", n] for n in sizes if ("Ferrule", n) in found and (best := best_peer(data, n))}
    faster = sum(r > 1 for r in ratios.values())
    lines.append(["faster than the best peer at all sizes", f"{faster} of {len(ratios)}" if ratios else "",
                  verdict(False if faster < len(ratios) else True if ratios and len(ratios) == len(sizes) else None)])
    last = max(sizes, default=0)
    lines.append(["twice as fast as the best peer at the largest size", f"{ratios[last]:.1f} times, {last} ranks" if last in ratios else "",
                  verdict(ratios[last] >= 2 if last in ratios else None)])
    for s in data["sleepers"]:
        each = s["launcher_bytes"] / s["ranks"] / 1024
        lines.append([f"memory of mpiexec and its agent at {s['ranks']:,} ranks: under 16 KiB a rank", f"{each:.1f} KiB", verdict(each < 16)])
    if not data["sleepers"]:
        lines.append(["memory of mpiexec and its agent: under 16 KiB a rank", "", verdict(None)])
    return table([["goal", "measured", ""], *lines])


def places(data: dict) -> str:
    """Where the processors were."""
    found = data.get("places")
    if not found:
        return "not recorded"
    looks = sum(found.values())
    return "; ".join(f"{PLACES[place].lower()} in {count} of {looks} looks" for place, count in found.items())


def markdown(data: dict) -> str:
    """The page docs/performance/startup.md."""
    machine = data["machine"]
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(machine["unix_time"]))
    parts = ["# Starting jobs",
             "Written by `make bench-startup` (`bench/startup.py`, `ferrule startup`). Arms take turns; a figure is the median of the repeats, "
             f"in brackets the fastest, the slowest, and how many repeats. Fewer than {results.ENOUGH} are \"{NOT_MEASURED}\". Points are not told apart by the distance of the processors, "
             "which the host of a virtual machine moves about (docs/design/0003-cells.md).",
             f"- revision: {data.get('revision', 'not recorded')}\n- processors: {places(data)}\n"
             f"- cpu: {machine['cpu']}, {machine['processors']} processors for all hosts and ranks\n- kernel: {machine['kernel']}\n"
             f"- load when started: {machine['load']}\n- date: {when}\n- command: `ferrule startup {' '.join(w for w in data['command'] if '=' not in w)}`",
             "## Goals", goals(data)]
    if data["schemes"]:
        parts.append(f"## Schemes\nHosts are network namespaces with {data['ranks_per_host']} ranks each and links of {data['rate']}; agents come to them by "
                     f"`nsenter`, with a tree of width {data['tree_width']}. Times are from the start of mpiexec until all ranks have returned from `MPI_Init` where "
                     "mpiexec reports that, else until its end. All hosts share this machine's processors, so what a cluster does on all hosts at once "
                     "takes N times as long here.")
    for setting in settings(data):
        parts += [f"### With {setting_title(setting)}", scheme_table(data, setting, time_cell, True)]
        if any((p.get("report") or {}).get("exchange") for p in chosen(data, setting).values()):
            parts += ["Exchanged, as `--report-startup` counts it: bytes and messages of the job; in brackets messages of the busiest rank.",
                      scheme_table(data, setting, traffic_cell, False)]
    parts += ["### The authors' figures", "W. Yu, J. Wu, D. K. Panda: Fast and scalable startup of MPI programs in InfiniBand clusters, EuroPVM/MPI 2004. Seconds on a cluster of "
              "128 nodes, one process on each.", paper_table()]
    if data["launchers"]:
        parts += ["## Launchers", "`mpiexec -n N` of an empty MPI program on this host, until mpiexec has ended. The floor is fork and exec of N static programs that do "
                  "nothing, one after the other, and waiting for all.", launcher_table(data)]
    for s in data["sleepers"]:
        parts.append(f"## {s['ranks']:,} sleeping ranks\nAll had met after {seconds(s['ready_s'])}; the job ended in {seconds(s['end_s'])}. mpiexec and its agent "
                     f"({s['launcher_processes']} processes): {s['launcher_bytes'] / s['ranks'] / 1024:.1f} KiB a rank. Ranks: {s['ranks_bytes'] / s['ranks'] / 1024:.0f} KiB "
                     f"each (proportional set size). The machine had {s['machine_bytes'] / 2**30:.2f} GiB less.")
    if data["models"]:
        own = [m for m in data["models"] if m["source"] == "measured"]
        published = [m for m in data["models"] if m["source"] == "paper"]
        parts += ["## Models", "Constants by least squares of the relative errors, none negative; H is the number of hosts. "
                  "A term at zero has an interval, too: the points show less of it than their noise. "
                  + (meanings(own) if own else ""), model_table(data["models"])]
        for setting in settings(data):
            these = [m for m in own if (m["session_ms"], m["connect"]) == setting]
            if not these:
                continue
            parts += [f"### Predicted, {setting_title(setting)}",
                      "For hosts with processors of their own: starting ranks and handing out tables happen on all hosts at once, as `crates/netsim` says term by term. "
                      "In the published schemes, what a rank costs more than with `lazy` counts as the launcher's serial work, which is an upper bound. "
                      f"{max(m['ranks_max'] for m in these)} ranks were measured; far beyond these are orders of magnitude, and \"at most\" is all that is known where the interval "
                      "reaches down to zero.", prediction_table(these, "cluster"),
                      "For hosts that share this machine's processors:", prediction_table(these, "emulated")]
        if published:
            parts += ["### Predicted from the authors' figures", "Their formulas with constants fitted here to their table, from which 2,048 ranks gain a factor of "
                      + gain(published) + "; their own constants gave more than 100.", prediction_table(published, "cluster")]
    if data["failures"]:
        parts.append("## What was left out\n" + "\n".join(f"- {f['what']}" + (f", {f['ranks']} ranks" if f["ranks"] else "") + f": {f['why']}" for f in data["failures"]))
    parts.append("## Plots\n![schemes](startup-schemes.svg)\n![predictions](startup-predictions.svg)\n![launchers](startup-launchers.svg)")
    return "\n\n".join(parts) + "\n"


def gain(published: list[dict]) -> str:
    at = {m["scheme"]: {p["ranks"]: p["cluster_s"] for p in m["predictions"]} for m in published}
    return f"{at['original'][2048] / at['mpd-bc'][2048]:.0f}"


def levels(hosts: int, width: int) -> int:
    """Levels of agents below mpiexec."""
    count, room, level = 0, 0, 1
    while room < hosts:
        level *= width
        room += level
        count += 1
    return count


def model_value(model: dict, ranks: int, hosts: int, width: int) -> float:
    """The model's value on emulated hosts; the terms are those that crates/netsim names."""
    n = float(ranks)
    values = {"1": 1.0, "N": n, "levels": levels(hosts, width), "N log2 H": n * math.log2(hosts), "N^2": n**2, "N^3": n**3, "N^2+N^3": n**2 + n**3, "2N^2": 2 * n**2}
    return sum(t["constant"] * values[t["growth"]] for t in model["terms"])


def plots(data: dict, out: pathlib.Path) -> None:
    """SVG plots, where matplotlib is there."""
    plt = drawing.library()
    if plt is None:
        return

    def finish(figure, file: str) -> None:
        drawing.finish(plt, figure, out / file)

    plot_schemes(data, plt, finish)
    plot_predictions(data, plt, finish)
    if data["launchers"]:
        figure, axes = plt.subplots(figsize=(7, 4.2))
        for i, name in enumerate(dict.fromkeys(["floor", "Ferrule", *(p["name"] for p in data["launchers"])])):
            points = sorted((p["ranks"], statistics.median(p["wall_s"])) for p in data["launchers"] if p["name"] == name)
            if points:
                axes.plot(*zip(*points), marker="o", label=name, color=ARM_COLOURS[i % len(ARM_COLOURS)], linestyle="--" if name == "floor" else "-")
        axes.set(xscale="log", yscale="log", xlabel="ranks", ylabel="s", title="an empty MPI program on one host")
        axes.grid(alpha=0.3)
        axes.legend()
        finish(figure, "startup-launchers.svg")


def plot_schemes(data: dict, plt, finish: Callable) -> None:
    """Measured points with models as lines, a panel for each setting; the authors' figures beside them."""
    panels = settings(data)
    figure, all_axes = plt.subplots(1, len(panels) + 1, figsize=(5.2 * (len(panels) + 1), 4.4), squeeze=False)
    for axes, setting in zip(all_axes[0], panels):
        points = chosen(data, setting)
        for scheme in SCHEMES:
            own = sorted((n, times(p), p["hosts"]) for (s, n), p in points.items() if s == scheme)
            if not own:
                continue
            middle = [statistics.median(t) for _, t, _ in own]
            spread = [[m - min(t) for m, (_, t, _) in zip(middle, own)], [max(t) - m for m, (_, t, _) in zip(middle, own)]]
            axes.errorbar([n for n, _, _ in own], middle, yerr=spread, fmt="o", color=COLOURS[scheme], label=scheme, markersize=4)
            for model in data["models"]:
                if model["source"] == "measured" and (model["scheme"], model["session_ms"], model["connect"]) == (scheme, *setting):
                    axes.plot([n for n, _, _ in own], [model_value(model, n, h, data["tree_width"]) for n, _, h in own], color=COLOURS[scheme], linewidth=1)
        axes.set(title=f"emulated hosts, sessions of {setting[0]} ms, connect: {setting[1]}")
    axes = all_axes[0][-1]
    for scheme, values in PAPER.items():
        axes.plot(PAPER_RANKS, values, "o", color=COLOURS[scheme], label=f"{PAPER_NAMES[scheme]}", markersize=4)
        for model in data["models"]:
            if model["source"] == "paper" and model["scheme"] == scheme:
                axes.plot(PAPER_RANKS, [model_value(model, n, n, data["tree_width"]) for n in PAPER_RANKS], color=COLOURS[scheme], linewidth=1)
    axes.set(title="Yu, Wu, Panda 2004: 128 nodes")
    for axes in all_axes[0]:
        axes.set(xscale="log", yscale="log", xlabel="ranks", ylabel="s (points: measured; lines: model)")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    finish(figure, "startup-schemes.svg")


def plot_predictions(data: dict, plt, finish: Callable) -> None:
    """To a million ranks, hosts with processors of their own."""
    if not data["models"]:
        return
    panels = sorted({(m["source"], m["session_ms"], m["connect"]) for m in data["models"]})
    figure, all_axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.4), squeeze=False)
    for axes, panel in zip(all_axes[0], panels):
        for model in data["models"]:
            if (model["source"], model["session_ms"], model["connect"]) != panel:
                continue
            colour = COLOURS[model["scheme"]]
            ranks = [p["ranks"] for p in model["predictions"]]
            values = [p["cluster_s"] for p in model["predictions"]]
            halves = [p["cluster_half_s"] or 0 for p in model["predictions"]]
            axes.plot(ranks, values, marker=".", color=colour, label=model["scheme"])
            axes.fill_between(ranks, [max(v - h, v / 100) for v, h in zip(values, halves)], [v + h for v, h in zip(values, halves)], color=colour, alpha=0.12)
        title = "authors' figures" if panel[0] == "paper" else f"measured, sessions of {panel[1]} ms, {panel[2]}"
        axes.set(xscale="log", yscale="log", xlabel="ranks", ylabel="s", title=f"predicted from {title}")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    finish(figure, "startup-predictions.svg")


def write(path: pathlib.Path) -> None:
    """Writes the page and the plots beside the results."""
    data = json.loads(path.read_text())
    path.with_suffix(".md").write_text(markdown(data))
    plots(data, path.parent)
    print(f"wrote {path.with_suffix('.md')}")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
