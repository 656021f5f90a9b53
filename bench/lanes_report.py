"""Page, plots and goals from the rows of bench/lanes.py. Alone: bench/lanes_report.py docs/performance/lanes.json"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import drawing
import lanes_jobs
import report
from lanes_jobs import ms
from results import NOT_MEASURED, verdict

Row = dict[str, Any]
HEAD = """# Lanes: small messages beside large ones

Written by `make bench-lanes` (`bench/lanes.py`) from [lanes.json](lanes.json). How to use lanes: [docs/user/lanes.md](../user/lanes.md).
Virtual lanes of InfiniBand, simulated: [lanes-simulated.md](lanes-simulated.md).

Hosts are network namespaces, joined by a Linux bridge. Each cable is limited by HTB at both ends, with one queue for each class of traffic or with one for all
([testbeds/lanes](../../testbeds/lanes/)). Hosts, switch and ranks share two processors, so read the ratios rather than the times: with every row stand the machine's load
average and the revision. A time is one round trip or one collective, in ms; p99 needs 100 of them, p99.9 1,000."""
ROUND_TRIPS = """Rank 0 sends rank 1 messages of 256 KiB as fast as they go, and every 2 ms one more of 8 bytes (or 1 KiB), which comes back. "One lane" is what MPI libraries do: the
small message stands behind what the connection has still to send."""
ARRIVALS = """Eight pairs of ranks stream messages of 2 KiB over one link of 100 Mb/s. The figure is the coefficient of variation of the times between two arrivals of a pair (standard
deviation divided by mean), the mean of the pairs; 0 is a clock's regularity. Messages that arrive in one packet count with a time of nearly 0."""
COLLECTIVES = """8 ranks, 4 on each of two hosts: as many as two processors carry, also of libraries that never sleep; 64 are not measured. `MPI_Ialltoall` of 1 KiB for each pair of
ranks, beside a stream of the same job between two of the ranks. The FFT is [examples/fft3d](../../examples/fft3d/) with 32 × 32 × 32 points; the stream beside it is
another job's, with the same settings. The peers have one class."""
RAILS = """A stream of messages of 256 KiB over links of 100 Mb/s. "After" is the last eighth of the time; a rail that was cut is back then. The receiver checks all messages: a
wrong or lost one ends the job."""
PAPER = [
    ("times between arrivals, 8 pairs", "far more predictable with 8 virtual lanes than with 1", "arrivals", "distribute:connection, 8 shares"),
    ("64-rank all-to-all, distribution", "20 % less time", "all-to-all", "distribute, 4 lanes"),
    ("64-rank all-to-all, segregation", "12 % less time", "all-to-all", "segregate"),
]


def find(rows: Iterable[Row], plan: str, way: str) -> Row | None:
    return next((row for row in rows if (row["plan"], row["way"]) == (plan, way)), None)


def of(rows: Iterable[Row], plan: str) -> list[Row]:
    return [row for row in rows if row["plan"] == plan]


def value(row: Row | None, key: str) -> float | None:
    return None if row is None else row.get(key)


def one_line(row: Row) -> str:
    """A row's figures, for the terminal."""
    parts = [f"{key} {ms(row[key])} ms" for key in ("p50", "p99", "p99.9") if row.get(key) is not None]
    others = (("variation", "variation {:.2f}"), ("bulk_mbit", "stream {:.1f} Mb/s"), ("mbit", "{:.1f} Mb/s"), ("after_mbit", "after {:.1f} Mb/s"))
    parts += [text.format(row[key]) for key, text in others if row.get(key)]
    return ", ".join(parts)


def goals(rows: list[Row]) -> list[str]:
    """What issue and design ask for, each with what was measured: a line of a Markdown table for each."""
    lines = ["| goal | measured | |", "|---|---|---|"]

    def goal(text: str, figures: list[float | None], is_met: Any, shown: str) -> None:
        known = [figure for figure in figures if figure is not None]
        complete = len(known) == len(figures)
        lines.append(f"| {text} | {shown.format(*known) if complete else NOT_MEASURED} | {verdict(bool(is_met(*known)) if complete else None)} |")

    for mbit in (100, 1000):
        for size in (8, 1024):
            plan = f"round trip {mbit} {size}"
            quiet, single, without, segregate = (value(find(rows, plan, way), "p99") for way in ("no bulk stream", "one lane", "segregate, link without classes", "segregate"))
            name = f"{mbit} Mb/s, {report.size_text(size)}: p99"
            goal(f"{name} with segregation at most 2x the unloaded one", [segregate, quiet], lambda a, b: a <= 2 * b, "{0:.0f} µs against {1:.0f}")
            goal(f"{name} with segregation at least 100x better than with one lane", [segregate, single], lambda a, b: b >= 100 * a, "{0:.0f} µs against {1:.0f}")
            goal(f"{name} at least 10x better also without classes on the link", [without, single], lambda a, b: b >= 10 * a, "{0:.0f} µs against {1:.0f}")
        alone, beside = value(find(rows, f"bulk alone {mbit}", "one lane"), "bulk_mbit"), value(find(rows, f"round trip {mbit} 8", "segregate"), "bulk_mbit")
        goal(f"{mbit} Mb/s: the stream loses at most 3 %", [beside, alone], lambda a, b: a >= 0.97 * b, "{0:.1f} Mb/s against {1:.1f}")
    spread, single = (value(find(rows, "arrivals", way), "variation") for way in ("distribute:connection, 8 shares", "one lane"))
    goal("8 pairs: variation of inter-arrival times with distribute at most half of single's", [spread, single], lambda a, b: a <= b / 2, "{0:.2f} against {1:.2f}")
    two, one = (value(find(rows, "rails", way), "mbit") for way in ("two rails", "one rail"))
    goal("two rails: at least 1.9x one's bandwidth", [two, one], lambda a, b: a >= 1.9 * b, "{0:.0f} Mb/s against {1:.0f}")
    before, after = (value(find(rows, "rails", "two rails, one is cut"), key) for key in ("mbit", "after_mbit"))
    goal("a rail that was cut under load: back to full speed", [after, before], lambda a, b: a >= 0.95 * b, "{0:.0f} Mb/s against {1:.0f} before")
    return lines


def table(rows: list[Row], columns: list[tuple[str, str]]) -> str:
    """`columns`: key and title; times are in µs in the rows."""
    def cell(row: Row, key: str) -> str:
        found = row.get(key)
        if found is None or found == 0 and key == "bulk_mbit":
            return "–"
        return ms(found) if key in ("p50", "p99", "p99.9", "most") else f"{found:.3g}" if isinstance(found, float) else f"{found:,}" if isinstance(found, int) else str(found)

    columns = [*columns, ("load", "load"), ("revision", "revision")]
    return report.markdown_table([""] + [title for _, title in columns], ([row["way"], *(cell(row, key) for key, _ in columns)] for row in rows))


TIMES = [("n", "n"), ("p50", "p50"), ("p99", "p99"), ("p99.9", "p99.9"), ("most", "most"), ("bulk_mbit", "stream Mb/s")]


def paper(rows: list[Row]) -> str:
    """The paper's figures and ours."""
    lines = []
    for what, theirs, plan, way in PAPER:
        key = "variation" if plan == "arrivals" else "p50"
        ours, single = value(find(rows, plan, way), key), value(find(rows, plan, "one lane"), key)
        if ours is None or single is None:
            text = NOT_MEASURED
        elif plan == "arrivals":
            text = f"variation {ours:.2f} instead of {single:.2f}"
        else:
            change = 100 * (ours / single - 1)
            text = f"8 ranks beside a stream: {abs(change):.0f} % {'less' if change <= 0 else 'more'} time (median)"
        lines.append([what, theirs, text])
    lines.append(["CPMD, 64 ranks", "all-to-all part 11 %, whole application 6 % less time", NOT_MEASURED])
    return report.markdown_table(["", "Subramoni, Lai, Sur, Panda, ICPP 2010 (QDR InfiniBand)", "here (TCP, 100 Mb/s)"], lines)


def write(rows: list[Row], out: pathlib.Path) -> None:
    """The page OUT.md and plots OUT-*.svg."""
    plt = drawing.library()
    days = sorted({row["date"] for row in rows})
    parts = [HEAD, f"Measured {' to '.join(dict.fromkeys((days[0], days[-1])))}." if days else "Not measured.", "## Goals", "\n".join(goals(rows)), "## Round trips beside a stream", ROUND_TRIPS]

    def draw(name: str, panels: list[tuple[str, list[Row]]], label: str, what: str, top: float = 1e-3) -> None:
        shown = [(title, [(row["way"], row) for row in its_rows]) for title, its_rows in panels if its_rows]
        if not shown:
            return
        file = out.with_name(f"{out.name}-{name}.svg")
        if plt:
            lanes_jobs.plot(plt, file, shown, label, top)
        if file.exists():
            parts.append(f"![{what}]({file.name})")

    draw("round-trips", [(f"8 bytes, {mbit} Mb/s", of(rows, f"round trip {mbit} 8")) for mbit in (100, 1000)], "round trip, ms",
         "distribution of round trips: thin line 1 % to 99 %, thick 25 % to 75 %, bar the median")
    for mbit in (100, 1000):
        for size in (8, 1024):
            if found := of(rows, f"round trip {mbit} {size}"):
                parts += [f"### {report.size_text(size)} on {mbit} Mb/s", table(found, TIMES)]
        if found := of(rows, f"bulk alone {mbit}"):
            parts.append(f"The stream alone reaches {found[0]['bulk_mbit']:.1f} Mb/s (load {found[0]['load']}).")
    parts += ["## Eight streams over one link", ARRIVALS]
    draw("arrivals", [("times between arrivals, 2 KiB, 8 pairs, 100 Mb/s", of(rows, "arrivals"))], "ms", "distribution of the times between arrivals")
    columns = [("variation", "variation"), ("p50", "p50"), ("p99", "p99"), ("most", "most"), ("bulk_mbit", "all streams Mb/s")]
    parts.append(table(of(rows, "arrivals"), columns) if of(rows, "arrivals") else "Not measured.")
    parts += ["## All-to-all and FFT beside a stream", COLLECTIVES]
    draw("all-to-all", [("all-to-all of 1 KiB, 8 ranks, 100 Mb/s", of(rows, "all-to-all"))], "time, ms", "distribution of the times of an all-to-all")
    parts += [f"### {title}\n\n" + (table(of(rows, plan), its_columns) if of(rows, plan) else "Not measured.")
              for plan, title, its_columns in (("all-to-all", "All-to-all", TIMES), ("fft", "3-D FFT, a transform", [("p50", "ms")]))]
    parts += ["## Two rails", RAILS, table(of(rows, "rails"), [("mbit", "Mb/s"), ("after_mbit", "after, Mb/s")]) if of(rows, "rails") else "Not measured."]
    parts += ["## The paper's figures", paper(rows)]
    out.with_suffix(".md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    source = pathlib.Path(sys.argv[1])
    write(json.loads(source.read_text())["rows"], source.with_suffix("").absolute())
