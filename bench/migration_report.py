"""Page and plots from what bench/migration.py has measured. Alone: bench/migration_report.py docs/performance/migration.json"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
from collections.abc import Iterable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import drawing
import report
from results import NOT_MEASURED, verdict

Row = dict[str, Any]
LIBRARY = ("pre-migration", "ready", "post-migration")
PHASES = ("pre-migration", "ready", "detach", "migrate", "attach", "post-migration")
BUSY = " The machine was busy with something else, so these times are no measurement of the library; they show which way waits for what."
HEAD = """# Migration: what moving a host costs a job

Written by `make bench-migration` (`bench/migration.py`) from [migration.json](migration.json). How to use it: [docs/user/migration.md](../user/migration.md); the designs: decisions
[0044](../design/0044-migration-epochs.md) and [0060](../design/0060-migration-thread.md).

`pe`: calls of MPI notice that endpoints are to be suspended. `mt` (`FERRULE_MIGRATION=mt`): also a thread of the library does, while the program computes."""
TOTALS = """Two hosts in namespaces with a rank each; a round is computation without a call of MPI, then all-to-alls and reductions. `ferrule migrate` moves one host there and back by the script
driver; its step `migrate` sleeps for a second in the hypervisor's place. It is called half a second after a computation has begun. `mt-typical` and `pe` compute, `mt-worst` never does. "More" is
what the job takes longer than without a migration, in the median; "the hypervisor" is how long the steps detach, migrate and attach took."""
ENDPOINTS = """A host is drained and resumed at once (`ferrule drain --for 0.05`) while its ranks communicate all the time. The library's share is pre-migration, ready and post-migration
together: everything but the hypervisor's time. Both hosts have as many ranks; endpoints are counted at both ends."""
INSTRUCTIONS = """Instructions of a message of 8 bytes between two ranks of a host, counted by callgrind as `make test-instructions` does. Without the thread nothing is added; with it a call marks
that it is inside."""
GROWTH = """Counted, not measured: the engine and mpiexec's state machine on the simulated transport, all endpoints of one host suspended, moved and resumed. A pair is two ranks that have exchanged
messages, at least one of them on the host. In a round every rank handles one packet: a rank of the host needs two for each of
its peers. Nothing has to travel to resume: lanes are opened by the next messages."""


def share_ms(phases_us: dict[str, int]) -> float:
    """The library's share of a migration."""
    return sum(phases_us.get(phase, 0) for phase in LIBRARY) / 1000


def way(rows: Iterable[Row], name: str) -> Row | None:
    return next((row for row in rows if row["way"] == name), None)


def median_s(row: Row | None) -> float | None:
    return statistics.median(row["seconds"]) if row else None


def hypervisor_s(row: Row) -> float:
    """What the hypervisor took in one job, in all its moves."""
    taken = [sum(phases.get(phase, 0) for phase in ("detach", "migrate", "attach")) / 1e6 for phases in row["phases_us"]]
    return row["moves"] * statistics.median(taken) if taken else 0.0


def quiet_of(rows: list[Row], row: Row) -> Row | None:
    """The same job without a migration."""
    return way(rows, "no migration" if row["computes"] else "no migration, no computation")


def spread(values: list[float], digits: int = 2) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f}; {len(values)})"


def totals_table(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        quiet = median_s(quiet_of(rows, row))
        more = "" if quiet is None or not row["moves"] else f"{statistics.median(row['seconds']) - quiet:+.2f}"
        before = spread([phases["pre-migration"] / 1000 for phases in row["phases_us"]], 0) if row["phases_us"] else ""
        hypervisor = f"{hypervisor_s(row):.2f}" if row["moves"] else ""
        lines.append([row["way"], row["design"] if row["moves"] else "", str(row["moves"]), spread(row["seconds"]), more, hypervisor, before])
    return report.markdown_table(["job", "design", "moves", "total, s", "more, s", "the hypervisor, s", "pre-migration, ms"], lines)


def phases_table(rows: list[Row]) -> str:
    lines = [[row["way"], *(spread([phases.get(phase, 0) / 1000 for phases in row["phases_us"]], 1) for phase in PHASES)] for row in rows if row["phases_us"]]
    return report.markdown_table(["job", *(f"{phase}, ms" for phase in PHASES)], lines)


def endpoints_table(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        phases = [spread([run.get(phase, 0) / 1000 for run in row["phases_us"]], 1) for phase in LIBRARY]
        lines.append([str(row["endpoints"]), str(row["each"]), row["design"], *phases, spread([share_ms(run) for run in row["phases_us"]], 1)])
    return report.markdown_table(["endpoints", "ranks on each host", "design", *(f"{phase}, ms" for phase in LIBRARY), "share, ms"], lines)


def sums(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Instructions of each pair of calls, by design."""
    import instructions
    return {row["design"]: {" + ".join(names): sum(row["counts"][name] for name in names) for names in instructions.LIMITS} for row in rows}


def instructions_table(rows: list[Row]) -> str:
    found = sums(rows)
    lines = [[f"`{name}`", f"{count:.1f}", f"{found['mt'][name]:.1f}", f"{100 * (found['mt'][name] / count - 1):+.1f} %"] for name, count in found["pe"].items()]
    return report.markdown_table(["8 bytes", "pe", "mt", "more"], lines)


def growth_table(rows: list[Row]) -> str:
    keys = {"ranks": "ranks", "movers": "ranks on the host", "peers": "peers of each", "pairs": "pairs", "packets": "packets", "messages": "messages with mpiexec",
            "suspend_rounds": "rounds to suspend", "resume_rounds": "rounds to resume"}
    lines = [[*(f"{row[key]:,}" for key in keys), f"{row['packets'] / row['pairs']:.2f}"] for row in rows]
    return report.markdown_table([*keys.values(), "packets of a pair"], lines)


def goals(data: dict[str, Any]) -> str:
    """What the project promises, and what was measured."""
    def quiet_rows(part: str) -> list[Row]:
        """Figures of a busy machine prove nothing."""
        return [] if data.get(part, {}).get("busy", True) else list(data[part]["rows"])

    rows = quiet_rows("totals")
    lines = []

    def goal(text: str, is_met: bool | None, shown: str) -> None:
        lines.append([text, NOT_MEASURED if is_met is None else shown, verdict(is_met)])

    quiet, typical, pe, worst, talk, pe_talk = (median_s(way(rows, name)) for name in (
        "no migration", "mt-typical", "pe", "mt-worst", "no migration, no computation", "pe, no computation"))
    if quiet and typical:
        goal("`mt` hides a migration behind computation: at most 5 % more time than without", typical <= 1.05 * quiet, f"{typical:.2f} s against {quiet:.2f}")
    if quiet and pe and typical:
        goal("`pe` waits for the end of the computation", pe > typical, f"{pe:.2f} s against {typical:.2f} with `mt`")
    if talk and worst and pe_talk:
        goal("without computation both designs alike: within 5 %", abs(worst - pe_talk) <= 0.05 * pe_talk, f"mt {worst:.2f} s, pe {pe_talk:.2f}, no migration {talk:.2f}")
    many = [row for row in quiet_rows("endpoints") if row["endpoints"] >= 64]
    if many:
        least = min(row["endpoints"] for row in many)
        for row in (row for row in many if row["endpoints"] == least):
            share = statistics.median(share_ms(run) for run in row["phases_us"])
            goal(f"the library's share with at least 64 endpoints under 50 ms, `{row['design']}`", share < 50, f"{share:.1f} ms with {least} endpoints")
    if found := data.get("instructions", {}).get("rows"):
        counts = sums(found)
        import instructions
        send = next(iter(counts["pe"]))
        limit = next(iter(instructions.LIMITS.values()))
        goal(f"no instruction on the short path while the thread is off: at most {limit}", counts["pe"][send] <= limit, f"{counts['pe'][send]:.1f}")
    return report.markdown_table(["goal", "measured", ""], lines) if lines else "Nothing is measured."


def plot_totals(plt: Any, rows: list[Row], path: pathlib.Path) -> None:
    """Bars as in the paper: no migration, pe, mt-worst, mt-typical; each on the time of its job without a migration."""
    figure, axes = plt.subplots(figsize=(7, 3.2))
    names = [row["way"] for row in rows]
    medians = [statistics.median(row["seconds"]) for row in rows]
    errors = [[median - min(row["seconds"]) for median, row in zip(medians, rows, strict=True)], [max(row["seconds"]) - median for median, row in zip(medians, rows, strict=True)]]
    colours = {True: "tab:blue", False: "tab:orange"}
    axes.barh(names, medians, xerr=errors, color=[colours[row["computes"]] for row in rows], capsize=3)
    for at, row in enumerate(rows):
        quiet = median_s(quiet_of(rows, row))
        if quiet:
            axes.plot([quiet, quiet], [at - 0.4, at + 0.4], color="black", linestyle="--")
    axes.invert_yaxis()
    axes.set_xlabel("total time, s (dashed: the same job without a migration)")
    drawing.finish(plt, figure, path)


def plot_share(plt: Any, rows: list[Row], path: pathlib.Path) -> None:
    """The library's share by endpoints."""
    figure, axes = plt.subplots(figsize=(7, 3.2))
    for design, marker in (("pe", "o"), ("mt", "s")):
        its = [row for row in rows if row["design"] == design]
        axes.plot([row["endpoints"] for row in its], [statistics.median(share_ms(run) for run in row["phases_us"]) for row in its], marker=marker, label=design)
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("endpoints")
    axes.set_ylabel("suspend and reactivate, ms")
    drawing.legend(axes)
    drawing.finish(plt, figure, path)


def when(part: dict[str, Any]) -> str:
    """What stands above a part's figures."""
    return f"Revision {part['revision']}, {part['date']}, {part['processors']} processors.{BUSY if part['busy'] else ''}"


def write(data: dict[str, Any], out: pathlib.Path) -> None:
    """The page OUT.md and plots OUT-*.svg."""
    plt = drawing.library()
    parts = [HEAD, "## Goals", goals(data)]

    def section(name: str, title: str, text: str) -> list[Row]:
        part = data.get(name, {})
        parts.extend([f"## {title}", text, when(part) if part.get("rows") else "Not measured."])
        rows: list[Row] = part.get("rows", [])
        return rows

    def picture(name: str, what: str, draw: Any, rows: list[Row]) -> None:
        file = out.with_name(f"{out.name}-{name}.svg")
        if plt:
            draw(plt, rows, file)
        if file.exists():
            parts.append(f"![{what}]({file.name})")

    if rows := section("totals", "Total time of a job", TOTALS):
        picture("totals", "total time of a job with and without a migration", plot_totals, rows)
        parts += [totals_table(rows), "### Phases", phases_table(rows)]
    if rows := section("endpoints", "The library's share", ENDPOINTS):
        picture("share", "the library's share by endpoints", plot_share, rows)
        parts.append(endpoints_table(rows))
    if rows := section("instructions", "What the thread costs a message", INSTRUCTIONS):
        parts.append(instructions_table(rows))
    if rows := section("growth", "Up to 1,000 ranks", GROWTH):
        parts.append(growth_table(rows))
    out.with_suffix(".md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    source = pathlib.Path(sys.argv[1])
    write(json.loads(source.read_text()), source.with_suffix("").absolute())
