"""Page, plots and goals from the rows of bench/offload.py. Alone: bench/offload_report.py docs/performance/offload.json"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
from collections.abc import Iterable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import drawing
import peers as registry
import report
import results
from results import NOT_MEASURED, verdict

Row = dict[str, Any]
FORMAT = 1
OURS, WORKERS = "ranks", "1"
NETWORK = "2 hosts, 100 Mb/s"
FREE, CROWDED = "1 node, one of two ranks computes", "1 node, no free processor"
COLOURS = {OURS: "#9ec5e8", WORKERS: "#1f5fa8", "mpich": "#f0c08a", "mpich+thread": "#c97b1d", "openmpi": "#b7b7b7", "openmpi+thread": "#6f6f6f", "impi": "#a9d8b0", "impi+thread": "#3f8f52"}
HEAD = """# Offload: collectives that go on while ranks compute

Written by `make bench-offload` (`bench/offload.py --page`) from [offload.json](offload.json). How to use workers: [docs/user/offload.md](../user/offload.md). The published
experiment with its 32 nodes, simulated: [offload-simulated.md](offload-simulated.md).

The *pure latency* is that of a non-blocking collective and its wait. Then the ranks compute as long as that between the two, without MPI. *Overlap* is the part of the pure latency that the
computation hides: 100 % if both together take as long as the computation. Hosts are network namespaces with limited links ([testbeds/lanes](../../testbeds/lanes/)); hosts, ranks, workers and
links share the machine's processors, so compare the libraries rather than read the times. Libraries take turns; a cell has median, least and most of the repeats. "Thread" is a library with its
threads for progress: `MPIR_CVAR_ASYNC_PROGRESS`, `I_MPI_ASYNC_PROGRESS`."""
FFT = """Four fields of N³ complex numbers, in slabs. While the transpose of one field is under way, the next one's y and z are transformed by FFTW ([bench/fft3d.c](../../bench/fft3d.c)). Time of all
four in ms; "blocking" is `MPI_Alltoall` without workers."""


def title_of(way: str) -> str:
    if way == OURS:
        return "Ferrule"
    if way.isdigit():
        return f"Ferrule, {way} worker{'s' if int(way) > 1 else ''}"
    name = registry.TITLES[way.removesuffix("+thread")]
    return f"{name}, thread" if way.endswith("+thread") else name


def values(rows: Iterable[Row], key: str, **wanted: Any) -> list[float]:
    return [row[key] for row in rows if key in row and all(row.get(name) == value for name, value in wanted.items())]


def middle(rows: Iterable[Row], key: str, **wanted: Any) -> float | None:
    """The median of enough values."""
    found = results.summarize(values(rows, key, **wanted))
    return found.median if found else None


def kinds(rows: Iterable[Row], key: str) -> list[Any]:
    """The different values, in order of appearance."""
    return list(dict.fromkeys(row[key] for row in rows if key in row))


def cell(found: list[float], unit: float = 1) -> str:
    figure = results.summarize([value / unit for value in found])
    return str(figure).rsplit(";", 1)[0] + ")" if figure else NOT_MEASURED


def tables(rows: list[Row], scene: str) -> str:
    """The tables of one scene: overlap, then times."""
    mine = [row for row in rows if row["scene"] == scene and "overlap" in row]
    ways = kinds(mine, "way")
    head = ["", *(title_of(way) for way in ways)]
    cases = list(dict.fromkeys((row["collective"], row["bytes"]) for row in mine))

    def lines(key: str, unit: float) -> list[list[str]]:
        return [[f"{name} {report.size_text(size)}", *(cell(values(mine, key, collective=name, bytes=size, way=way), unit) for way in ways)] for name, size in cases]

    parts = [f"## {scene}", f"Revision {', '.join(kinds(mine, 'revision'))}.", "Overlap, %", report.markdown_table(head, lines("overlap", 1))]
    for key, text in (("pure_us", "Pure latency, ms"), ("total_us", "Collective and computation, ms"), ("blocking_us", "The blocking collective, ms")):
        parts += [text, report.markdown_table(head, lines(key, 1000))]
    return "\n\n".join([*parts, "Until the collective was posted, µs", report.markdown_table(head, lines("post_us", 1))])


def fft_table(rows: list[Row]) -> str:
    mine = [row for row in rows if "fft" in row]
    if not mine:
        return NOT_MEASURED
    ways = kinds(mine, "way")
    lines = []
    for scene, n in dict.fromkeys((row["scene"], row["fft"]) for row in mine):
        pipelined = [values(mine, "ms", scene=scene, fft=n, way=way, blocking=0) for way in ways]
        lines.append([f"{scene}, N = {n}", *map(cell, [*pipelined, values(mine, "ms", scene=scene, fft=n, way=OURS, blocking=1)])])
    return report.markdown_table(["", *(title_of(way) for way in ways), "blocking"], lines)


def goals(rows: list[Row]) -> str:
    """What is to be reached, each with what was measured."""
    lines: list[list[str]] = []

    def goal(text: str, figures: list[tuple[str, float | None]], is_met: Any) -> None:
        known = [(name, figure) for name, figure in figures if figure is not None]
        if not known:
            lines.append([text, NOT_MEASURED, verdict(None)])
            return
        misses = [f"{name} {figure:.3g}" for name, figure in known if not is_met(figure)]
        lines.append([text, "; ".join(misses or [f"{name} {figure:.3g}" for name, figure in known]), verdict(not misses)])

    def each(scene: str, sizes: Any, key: str, other: str = "", way: str = WORKERS, against: str = "") -> list[tuple[str, float | None]]:
        found = []
        for row in rows:
            if row["scene"] == scene and row.get("way") == way and "overlap" in row and sizes(row["bytes"]):
                where = {"scene": scene, "collective": row["collective"], "bytes": row["bytes"]}
                value: float | None = middle(rows, key, **where, way=way)
                if other:
                    base = middle(rows, other, **where, way=against or way)
                    value = value / base if value is not None and base else None
                found.append((f"{row['collective']} {report.size_text(row['bytes'])}", value))
        return list(dict.fromkeys(found))

    for scene in [name for name in kinds(rows, "scene") if "Mb/s" in name]:
        goal(f"{scene}: overlap ≥ 95 % from 64 KiB on", each(scene, lambda size: size >= 65536, "overlap"), lambda value: value >= 95)
        slowdown = each(scene, lambda size: size >= 65536, "pure_us", "blocking_us", against=OURS)
        goal(f"{scene}: pure latency ≤ 1.1 times the blocking collective without workers", slowdown, lambda value: value <= 1.1)
    goal(f"{FREE}: overlap ≥ 90 % from 256 KiB on", each(FREE, lambda size: size >= 262144, "overlap"), lambda value: value >= 90)
    goal(f"{CROWDED}: total time ≤ 1.05 times that without workers", each(CROWDED, lambda _: True, "total_us", "total_us", against=OURS), lambda value: value <= 1.05)
    goal(f"{CROWDED}: pure latency ≤ 1.05 times that without workers", each(CROWDED, lambda _: True, "pure_us", "pure_us", against=OURS), lambda value: value <= 1.05)
    ffts = []
    for scene, n in dict.fromkeys((row["scene"], row["fft"]) for row in rows if "fft" in row):
        with_worker, without = (middle(rows, "ms", scene=scene, fft=n, way=way, blocking=0) for way in (WORKERS, OURS))
        ffts.append((f"{scene}, N = {n}", with_worker / without if with_worker and without else None))
    goal("3-D FFT with workers: ≤ 0.7 of the time without where the link takes most of it", [pair for pair in ffts if "Mb/s" in pair[0]], lambda value: value <= 0.7)
    goal("3-D FFT with workers: never more than 3 % slower", ffts, lambda value: value <= 1.03)
    return report.markdown_table(["goal", "measured (if not met: what misses it)", ""], lines)


def plots(rows: list[Row], folder: pathlib.Path) -> list[str]:
    """Writes the plots; the lines of the page that show them."""
    plt = drawing.library()
    if plt is None:
        return []
    mine = [row for row in rows if row["scene"] == NETWORK and "overlap" in row]
    shown = []
    size = 1048576
    ways = [way for way in kinds(mine, "way") if values(mine, "overlap", bytes=size, way=way)]
    collectives = kinds([row for row in mine if row["bytes"] == size], "collective")
    if ways and collectives:
        figure, axes = plt.subplots(figsize=(7, 0.8 + 0.16 * len(ways) * len(collectives) + 0.3 * len(collectives)))
        height = 0.8 / len(ways)
        for at, way in enumerate(ways):
            found = [values(mine, "overlap", bytes=size, way=way, collective=name) for name in collectives]
            middles = [statistics.median(one) if one else 0 for one in found]
            spread = [[m - min(one) if one else 0 for m, one in zip(middles, found)], [max(one) - m if one else 0 for m, one in zip(middles, found)]]
            axes.barh([i + at * height for i in range(len(collectives))], middles, height, xerr=spread, color=COLOURS.get(way, "black"), error_kw={"linewidth": 0.8}, label=title_of(way))
        axes.set_yticks([i + 0.4 - height / 2 for i in range(len(collectives))], collectives)
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("hidden behind computation, %")
        axes.set_title(f"How much of collectives of {report.size_text(size)} is hidden ({NETWORK})")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize=8, frameon=False)
        drawing.finish(plt, figure, folder / "offload-overlap.svg")
        shown.append("![Overlap of five collectives by library](offload-overlap.svg)")
    for key, name, label, title in (("overlap", "sizes", "hidden behind computation, %", "Overlap of MPI_Ialltoall by size"),
                                    ("pure_us", "pure", "pure latency, ms", "Pure latency of MPI_Ialltoall by size"),
                                    ("total_us", "total", "collective and computation, ms", "MPI_Ialltoall and as much computation")):
        sizes = sorted(set(values(mine, "bytes", collective="ialltoall")))
        if len(sizes) < 2:
            continue
        figure, axes = plt.subplots(figsize=(6, 4))
        unit = 1 if key == "overlap" else 1000
        for way in ways:
            points = [(one, [value / unit for value in values(mine, key, collective="ialltoall", bytes=one, way=way)]) for one in sizes]
            points = [(one, found) for one, found in points if found]
            axes.plot([one for one, _ in points], [statistics.median(found) for _, found in points], marker="o", color=COLOURS.get(way, "black"), label=title_of(way))
            axes.fill_between([one for one, _ in points], [min(found) for _, found in points], [max(found) for _, found in points], color=COLOURS.get(way, "black"), alpha=0.15)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [report.size_text(int(one)) for one in sizes])
        if key != "overlap":
            axes.set_yscale("log")
        axes.set_xlabel("block")
        axes.set_ylabel(label)
        axes.set_title(f"{title} ({NETWORK})")
        axes.legend(fontsize=8)
        drawing.finish(plt, figure, folder / f"offload-{name}.svg")
        shown.append(f"![{title}](offload-{name}.svg)")
    return shown


def page(data: dict[str, Any], pictures: list[str]) -> str:
    rows = data["rows"]
    scenes = [scene for scene in kinds(rows, "scene") if any("overlap" in row for row in rows if row["scene"] == scene)]
    return "\n\n".join([HEAD, f"{data['machine']}.", *pictures[:1], "## Goals", goals(rows), "## 3-D FFT", FFT, fft_table(rows),
                        *(tables(rows, scene) for scene in scenes), *pictures[1:]]) + "\n"


def write(found: list[Row], revision: str, machine: str, folder: pathlib.Path) -> None:
    """Takes the place of what the file has of the scenes that were measured, and writes page and plots. Rows of another machine go."""
    path = folder / "offload.json"
    data = json.loads(path.read_text()) if path.exists() else {}
    same = {"format": FORMAT, "machine": machine}
    old = data["rows"] if all(data.get(key) == value for key, value in same.items()) else []
    new = {(row["scene"], "fft" in row) for row in found}
    kept = [row for row in old if (row["scene"], "fft" in row) not in new]
    data = same | {"rows": kept + [row | {"revision": revision} for row in found]}
    results.save(path, data)
    (folder / "offload.md").write_text(page(data, plots(data["rows"], folder)))


def write_bars(rows: list[Row], path: pathlib.Path) -> None:
    """Bars of overlap: one for each way and size."""
    height = 26
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{height * len(rows) + 40}" font-family="sans-serif" font-size="12">',
             '<text x="10" y="18">Overlap of computation and communication, in per cent</text>']
    for i, row in enumerate(rows):
        y, overlap = 30 + height * i, float(row["overlap"])
        colour = COLOURS[WORKERS if row["run_by"] == "worker" else OURS]
        name = f'{row["collective"]} {report.size_text(int(row["bytes"]))}, {title_of(row["way"])}'
        parts.append(f'<text x="10" y="{y + 15}">{name}</text><rect x="260" y="{y + 2}" width="{overlap * 3.6:.0f}" height="18" fill="{colour}"/>'
                     f'<text x="{265 + overlap * 3.6:.0f}" y="{y + 15}">{overlap:.0f}</text>')
    path.write_text("\n".join([*parts, "</svg>\n"]))


if __name__ == "__main__":
    source = pathlib.Path(sys.argv[1])
    known = json.loads(source.read_text())
    source.with_suffix(".md").write_text(page(known, plots(known["rows"], source.parent)))
