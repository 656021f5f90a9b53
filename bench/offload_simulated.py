#!/usr/bin/env python3
"""The published figures of offloaded collectives beside those of `ferrule lab offload`, as a page and plots: docs/performance/offload-simulated.md and .svg, offload-simulated-tests.svg.

The simulation gives the same figures everywhere.

Usage: bench/offload_simulated.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
import drawing

Row = dict[str, Any]
SIZES = "16K,32K,64K,128K,256K,512K"
#: What is simulated, by name.
RUNS: dict[str, list[str]] = {
    "published": ["--ranks", "16,32", "--workers", "1,2,4", "--bytes", SIZES],
    "tests": ["--ranks", "16", "--workers", "1", "--bytes", "16K,64K,512K", "--tests", "0,1,4,16,64,256,1024"],
    "ratios": ["--ranks", "32", "--workers", "4", "--bytes", "64K", "--compute", "0.25,0.5,1,2,4"],
    "host": ["--ranks", "16", "--workers", "1,2,4", "--bytes", "16K,64K,512K", "--worker", "host"],
    "operations": ["--ranks", "16", "--workers", "4", "--bytes", "16K,64K,512K", "--worker", "host", "--share", "operations"],
    "registered": ["--ranks", "16", "--workers", "1,2,4", "--bytes", "16K,64K,512K", "--worker", "registered"],
    "iallgather": ["--collective", "iallgather", "--ranks", "16", "--workers", "1,4", "--bytes", "16K,64K,512K"],
    "ibcast": ["--collective", "ibcast", "--ranks", "16", "--workers", "1,4", "--bytes", "16K,64K,512K"],
    "sensitivity": ["--ranks", "16", "--workers", "1,4", "--bytes", "16K,64K", "--sensitivity"],
}


def simulate(words: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run([ROOT / "dist/bin/ferrule", "lab", "offload", *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ferrule lab offload {' '.join(words)}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def size(count: int) -> str:
    return f"{count // 1024} KiB"


def time(us: float) -> str:
    return f"{us / 1000:,.2f} ms" if us >= 100 else f"{us:.1f} µs"


def table(head: str, lines: Iterable[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|---" * columns + "|", *lines])


def cells(row: Row) -> str:
    """What ranks have alone, and what they have with workers."""
    alone, offloaded = row["alone"], row["offloaded"]
    return (f"{time(alone['pure_us'])} | {time(offloaded['pure_us'])} | {alone['overlap_percent']:.0f} | {offloaded['overlap_percent']:.0f} | "
            f"{time(alone['total_us'])} | {time(offloaded['total_us'])} | {row['less_percent']:.1f} | {offloaded['driver_percent']:.0f} | {offloaded['link_percent']:.0f}")


FIGURES = "pure, ranks | pure, workers | overlap %, ranks | overlap %, workers | total, ranks | total, workers | less total % | worker busy % | link busy %"


def full(rows: list[Row], *, by: str = "ranks") -> str:
    """All figures of some rows."""
    return table(f"| {by} | workers | block | {FIGURES} |", (f"| {row[by]} | {row['workers']} | {size(row['bytes'])} | {cells(row)} |" for row in rows))


def least_and_most(values: Iterable[float], form: str = ".0f") -> str:
    found = sorted(values)
    least, most = (f"{value + 0.0:{form}}" for value in (found[0], found[-1]))
    return least if least == most else f"{least} to {most}"


def summary(results: dict[str, list[Row]]) -> str:
    """Each published figure beside the model's."""
    published, one, four = results["published"], [row for row in results["published"] if row["workers"] == 1], [row for row in results["published"] if row["workers"] == 4]

    def overlap(rows: list[Row], who: str = "offloaded") -> str:
        return least_and_most(row[who]["overlap_percent"] for row in rows)

    def pure(rows: list[Row]) -> str:
        return least_and_most((row["offloaded"]["pure_us"] / row["alone"]["pure_us"] for row in rows), ".2f")

    def less(rows: list[Row]) -> str:
        return least_and_most(row["less_percent"] for row in rows)

    fft = max(results["ratios"], key=lambda row: row["less_percent"])
    return table("| figure | authors | model |", [
        f"| overlap of Ialltoall, 16 to 512 KiB | close to 100 % | {overlap(published)} % with workers; {overlap(published, 'alone')} % without |",
        f"| pure latency, of that without workers | on a par | {pure(one)} times with one worker a node, {pure(four)} times with four |",
        f"| total time of `osu_ialltoall` | up to 44 % less | {less(four)} % less with four workers a node, {less(one)} % with one |",
        f"| P3DFFT, 1,024 ranks | up to 30 % less | not simulated; 1,024 ranks that compute and exchange 64 KiB have up to {fft['less_percent']:.0f} % less, "
        f"if the computation takes {fft['compute']:g} times the pure latency (below) |",
    ])


def tests(rows: list[Row]) -> str:
    lines = (f"| {size(row['bytes'])} | {row['tests']} | {row['alone']['overlap_percent']:.0f} | {row['offloaded']['overlap_percent']:.0f} |" for row in rows)
    return table("| block | tests | overlap %, ranks | overlap %, workers |", lines)


def sensitivity(rows: list[Row]) -> str:
    """How far each assumption moves the figures of each shape."""
    parts = []
    for workers, count in sorted({(row["workers"], row["bytes"]) for row in rows}):
        of_shape = [row for row in rows if (row["workers"], row["bytes"]) == (workers, count)]
        lines = (f"| {row['assumption']} | {cells(row)} |" for row in of_shape)
        parts.append(f"16 ranks, {workers} worker{'s' * (workers > 1)} a node, blocks of {size(count)}:\n\n" + table(f"| | {FIGURES} |", lines))
    return "\n\n".join(parts)


def assumptions(settings: dict[str, float]) -> str:
    return table("| constant | value | from |", [
        "| nodes, ranks, workers, sizes | 32; 16, 32; 1, 2, 4; 16 to 512 KiB | the authors |",
        f"| link, each direction | {settings['link_gb_s']:g} GB/s | 100 Gb/s, the rate of BlueField adapters of that time; headers (1 %) left out |",
        f"| latency between nodes, inside a node | {settings['latency_us']:g} µs, {settings['local_us']:g} µs | assumption |",
        f"| an operation of an adapter, or a message, on a rank's core | {settings['op_us']:g} µs | assumption |",
        f"| copy by a rank's core | {settings['copy_gb_s']:g} GB/s | assumption |",
        f"| speed of a SmartNIC's core | {settings['speed']:g} of a rank's | assumption: Cortex-A72 (data sheet of BlueField-2) |",
        f"| from host to SmartNIC memory | {settings['staging_gb_s']:g} GB/s | 80 % (assumption) of 16 lanes of PCI Express 3.0 |",
        f"| hand-over to a SmartNIC's worker, to a host's | {settings['hand_over_us']:g} µs, 5 µs | assumption |",
        f"| chunks | {size(int(settings['chunk_bytes']))}, at most {settings['chunks_max']} under way for each worker | Ferrule's chunks and 8 MiB of memory |",
    ])


def page(results: dict[str, list[Row]], settings: dict[str, float]) -> str:
    return f"""# Workers of collectives, simulated: the published figures and the model's

Written by `make bench-offload-simulated` (`bench/offload_simulated.py`) from `ferrule lab offload`. The model: [docs/design/0061](../design/0061-offload-simulator.md).
The published figures are of Bayatpour, Sarkauskas, Subramoni and Panda, *BluesMPI: Efficient MPI Non-blocking Alltoall Offloading Designs on Modern BlueField Smart NICs* (ISC High
Performance 2021). Nothing is fitted to them, and none of this is a measurement.

![Overlap, pure latency and total time, by size, ranks and workers](offload-simulated.svg)

## What the model says of each

{summary(results)}

How to read it: time, overlap and total are those of `osu_ialltoall`: t is the latency of Ialltoall and Wait; then ranks start, compute for t, and wait, which takes the total T; the overlap is
100 (1 - (T - t) / t). Ranks alone move their collective only while they are in MPI; they call `MPI_Test` nowhere, as the benchmark does by default.
The schedules are those of this library (`mpi::coll`), by its own choice of an algorithm.

**Why there is so much to gain.** The link takes the time, with and without workers. Ranks alone leave it idle while they compute, so computation and exchange follow each other.
Half of the total is the most that can be gained. The authors have 44 %.

**What limits a worker.** A message of one chunk costs workers seven operations, whatever its size: three to agree, four for the chunk. Where "worker busy" is near 100 % the cores
of the SmartNIC are the limit, and more workers help; where "link busy" is, they don't.

**Ferrule's workers.** One worker that copies can't fill a link of 100 Gb/s: it copies what it sends and what it receives.
So it matters that the workers of a node share an operation (below, "Workers on the host").

**Why ranks alone overlap nothing.** With more ranks than `FERRULE_COLL_ALLTOALL_WINDOW` (32) the library's schedule sends to the next rank only when the message of the rank at the
same distance before has arrived. So a rank that leaves MPI has one send under way, most often one on its own node. While all ranks are in MPI that is enough to fill the link.

## Assumptions

{assumptions(settings)}

Left out: contention in the switch and in the hosts' memory, other jobs, ranks that begin at different times, and what the first call costs (connections, registered memory, encoded schedules).
Every rank and every worker has a core of its own. A worker takes part in nothing else.

## All sizes

{full(results['published'])}

## Ranks that call MPI_Test

16 ranks a node, no workers needed: what calls of `MPI_Test` during the computation bring.

![Overlap by number of calls of MPI_Test](offload-simulated-tests.svg)

{tests(results['tests'])}

## More or less computation

1,024 ranks, four workers a node, blocks of 64 KiB. The computation takes so many times the pure latency:

{full(results['ratios'], by='compute')}

## Workers on the host

Workers on cores of the host that no rank uses, which copy chunks out of the sender's memory and into the receiver's (`--worker host`). That is what Ferrule's workers do,
without the costs of the kernel's TCP:

{full(results['host'])}

The same if an operation has one worker a node, and the next operation another one (`--share operations`), as Ferrule has it (decision 0042):

{full(results['operations'])}

With memory of ranks that is registered for the host's adapter (`--worker registered`), which needs no copies and which Ferrule doesn't have yet:

{full(results['registered'])}

## Other collectives

Iallgather, a ring of 512 ranks: most of its messages stay on their node, where ranks copy at once, each with its core, and a SmartNIC has one way into the host's memory and one out of it.

{full(results['iallgather'])}

Ibcast, along a tree of nodes:

{full(results['ibcast'])}

## What moves the figures

Each assumption with 25 % less and 25 % more of it.

{sensitivity(results['sensitivity'])}
"""


def draw(results: dict[str, list[Row]], out: pathlib.Path) -> None:
    plt = drawing.library()
    if plt is None:
        return
    colours = {0: "#999999", 1: "#b5422b", 2: "#d9a441", 4: "#3b6ea5"}
    figure, all_axes = plt.subplots(2, 3, figsize=(13, 7), sharex=True)
    for line, ranks in zip(all_axes, (16, 32), strict=True):
        for axes, what, name in zip(line, ("overlap_percent", "pure_us", "total_us"), ("overlap, %", "pure latency, ms", "total time, ms"), strict=True):
            rows = [row for row in results["published"] if row["ranks"] == ranks]
            scale = 1 if what == "overlap_percent" else 1000
            for workers in (0, 1, 2, 4):
                of_line = [row for row in rows if row["workers"] == (workers or 1)]
                values = [row["offloaded" if workers else "alone"][what] / scale for row in of_line]
                label = f"{workers} worker{'s' * (workers > 1)} a node" if workers else "ranks alone"
                axes.plot([row["bytes"] // 1024 for row in of_line], values, marker="o", markersize=3, color=colours[workers], label=label)
            axes.set_xscale("log", base=2)
            axes.set_xticks([16, 32, 64, 128, 256, 512], labels=["16", "32", "64", "128", "256", "512"])
            if what == "overlap_percent":
                axes.set_ylim(-3, 103)
            else:
                axes.set_yscale("log")
            axes.set_title(f"{name}, 32 nodes with {ranks} ranks", fontsize=10)
    for axes in all_axes[-1]:
        axes.set_xlabel("block, KiB")
    drawing.legend(all_axes[0][0])
    drawing.finish(plt, figure, out / "offload-simulated.svg")
    figure, axes = plt.subplots(figsize=(7, 3.2))
    for count, colour in ((16384, colours[1]), (65536, colours[2]), (524288, colours[4])):
        rows = [row for row in results["tests"] if row["bytes"] == count]
        axes.plot([row["tests"] for row in rows], [row["alone"]["overlap_percent"] for row in rows], marker="o", markersize=3, color=colour, label=f"ranks alone, {size(count)}")
    rows = [row for row in results["tests"] if row["bytes"] == 65536]
    axes.plot([row["tests"] for row in rows], [row["offloaded"]["overlap_percent"] for row in rows], color=colours[0], linestyle="--", label="a worker a node, 64 KiB")
    axes.set_xscale("symlog", linthresh=1)
    axes.set_ylim(-3, 103)
    axes.set_xlabel("calls of MPI_Test during the computation")
    axes.set_ylabel("overlap, %")
    drawing.legend(axes)
    drawing.finish(plt, figure, out / "offload-simulated-tests.svg")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance")
    options = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        found = dict(zip(RUNS, threads.map(simulate, RUNS.values()), strict=True))
    results = {name: result["rows"] for name, result in found.items()}
    (options.out / "offload-simulated.md").write_text(page(results, found["published"]["settings"]))
    draw(results, options.out)
    print(summary(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
