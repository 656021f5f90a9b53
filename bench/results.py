"""What was measured, and what may be said of it.

A row is one figure (`fabric`, `row`, `ranks`, `bytes`, `unit`) with its runs. A run has the values of the libraries that took their turns in one repeat while the processors were
equally far apart: {"place", "date", "values": {library: value}}; places are those of distance.py. What the machine can do without MPI takes its turn as a library, too (`LIMIT`).
Everything is said of one place. Fewer than ENOUGH values are not measured.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import pathlib
import statistics
import subprocess
from collections.abc import Iterable

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: Files of another format are not added to.
FORMAT = 2
#: Values of one library at one place of which something is said.
ENOUGH = 3
OURS = "ferrule"
LIMIT = "limit"
NEAR, FAR = "a cache", "nothing"
PLACES = {"a core": "Near: the processors share a core", NEAR: "Near: the processors share a cache", FAR: "Far: the processors share no cache",
          "unknown": "One processor"}
NOT_MEASURED = "not measured"
#: What the figures depend on. Another text, test or report makes no other figures.
MEASURED = ("crates", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "bench/*.c", "bench/*.h", "bench/peers.py", ":!*.md", ":!crates/*/tests")


@dataclasses.dataclass(frozen=True)
class Figure:
    """Enough values of one library at one place."""

    median: float
    least: float
    most: float
    runs: int

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.least)}–{number(self.most)}; {self.runs})"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def verdict(met: bool | None) -> str:
    return NOT_MEASURED if met is None else "met" if met else "not met"


def now() -> str:
    """When a repeat begins, so exactly that no two have the same."""
    return datetime.datetime.now(datetime.UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")


def identity(row: dict) -> tuple:
    return row.get("fabric", ""), row["row"], row["ranks"], row["bytes"]


def add(table: dict[tuple, dict], row: dict, library: str, place: str, date: str) -> None:
    """Takes one value; `date` is when the repeat began, and so tells repeats apart."""
    record = table.setdefault(identity(row), {**{key: row[key] for key in ("fabric", "row", "ranks", "bytes", "unit") if key in row}, "runs": []})
    run = next((run for run in record["runs"] if (run["place"], run["date"]) == (place, date)), None)
    if run is None:
        record["runs"].append(run := {"place": place, "date": date, "values": {}})
    run["values"][library] = row["value"]


def values(row: dict, place: str, library: str) -> list[float]:
    return [run["values"][library] for run in row["runs"] if run["place"] == place and library in run["values"]]


def summarize(found: list[float]) -> Figure | None:
    return Figure(statistics.median(found), min(found), max(found), len(found)) if len(found) >= ENOUGH else None


def figure(row: dict | None, place: str, library: str) -> Figure | None:
    return summarize(values(row, place, library)) if row else None


def cell(row: dict, place: str, library: str) -> str:
    return str(figure(row, place, library) or NOT_MEASURED)


def more_is_better(row: dict) -> bool:
    return row["unit"] in ("GB/s", "million/s") or row["row"].endswith("overlap")


def speed(row: dict | None, place: str, library: str, other: str) -> float | None:
    """How fast `library` is against `other`, whatever the unit: above 1 is faster. None where one of them is not measured."""
    a, b = figure(row, place, library), figure(row, place, other)
    if row is None or a is None or b is None or not a.median or not b.median:
        return None
    return a.median / b.median if more_is_better(row) else b.median / a.median


def best_peer(row: dict, place: str, peers: Iterable[str]) -> str | None:
    """The peer with the best median. None as long as one of those that run this row elsewhere is not measured here: it might be the best."""
    there = {name for name in peers if any(name in run["values"] for run in row["runs"])}
    found = {name: fig.median for name in there if (fig := figure(row, place, name))}
    if not found or set(found) != there:
        return None
    return (max if more_is_better(row) else min)(sorted(found), key=found.__getitem__)


def ratio(row: dict | None, place: str, peers: Iterable[str]) -> float | None:
    """Our speed against the best peer's: above 1 means that Ferrule is better."""
    best = best_peer(row, place, peers) if row else None
    return speed(row, place, OURS, best) if best else None


def measured_places(rows: Iterable[dict]) -> list[str]:
    """Near and far in any case, other places if something is measured there."""
    rows = list(rows)
    there = {place for row in rows for place in {run["place"] for run in row["runs"]}
             if any(figure(row, place, name) for run in row["runs"] for name in run["values"])}
    return [place for place in PLACES if place in (NEAR, FAR) or place in there]


def caption(data: dict, rows: Iterable[dict], place: str) -> str:
    """What stands above each table: revision and days."""
    days = sorted({run["date"][:10] for row in rows for run in row["runs"] if run["place"] == place})
    when = "" if not days else f", {days[0]}" if days[0] == days[-1] else f", {days[0]} to {days[-1]}"
    return f"Revision {data['revision']}{when}."


def revision() -> str:
    """The last commit that changed what is measured; with a mark of their own for changes that are in no commit."""
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words, "--", *MEASURED], capture_output=True, text=True, check=True).stdout

    try:
        commit, changes = git("log", "-1", "--format=%h", "--abbrev=9").strip(), git("diff", "HEAD")
    except (subprocess.CalledProcessError, FileNotFoundError):
        return "unknown"
    return commit + (f" with changes {hashlib.sha256(changes.encode()).hexdigest()[:6]}" if changes else "")


def read(path: pathlib.Path) -> dict:
    """What the file has; ends the program if it can't be read."""
    data = json.loads(path.read_text())
    if data.get("format") != FORMAT:
        raise SystemExit(f"{path}: expected format {FORMAT}, found {data.get('format')}; measure again")
    return data


def load(path: pathlib.Path, conditions: dict) -> tuple[dict, str]:
    """What the file has, if it was measured under the same `conditions`; else nothing, and why."""
    if not path.exists():
        return {}, ""
    data = json.loads(path.read_text())
    if data.get("format") != FORMAT:
        return {}, "they are of another format"
    for key, value in conditions.items():
        if data.get(key) != value:
            return {}, f"{key}: they have {data.get(key)}, this run has {value}"
    return data, ""


def save(path: pathlib.Path, data: dict) -> None:
    """One line for each row. The file is whole at any time."""
    rest = json.dumps({key: value for key, value in data.items() if key != "rows"}, indent=1)
    rows = ",\n  ".join(json.dumps(row) for row in data["rows"])
    part = path.with_suffix(".part")
    part.write_text(f'{rest[:-2]},\n "rows": [\n  {rows}\n ]\n}}\n')
    part.replace(path)
