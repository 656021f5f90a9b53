#!/usr/bin/env python3
"""Two builds in turn: is every row of the benchmarks within 3 % of what it was?

A pair is a run of each build, one right after the other; every second pair begins with the other build. Only pairs during which the processors stayed where they were count, and
each distance has a table of its own (`distance.py`). The ratio is the speed of AFTER against BEFORE: above 1 means that AFTER is better. Beside the median of the pairs' ratios
stands the interval that holds the true one with 95 % (by the order of the ratios, whatever their distribution is). A row is "met" if the whole interval is within the limit, "not
met" if nothing of it is, and else "not measured": it takes more pairs. With --out a later run of the same two builds adds its pairs.

BEFORE and AFTER are dist/ folders. Exit code 0 only if every row is met at every distance that was seen.

Usage: bench/trees.py BEFORE AFTER [--pairs 9] [--budget MINUTES] [--all] [--only PATTERN] [--limit 3] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import distance
import peers as registry
import report
import results
import run as bench

BEFORE, AFTER = "before", "after"


def pair_ratios(row: dict, place: str) -> list[float]:
    """Speed of AFTER against BEFORE, pair by pair."""
    found = []
    for one in row["runs"]:
        before, after = one["values"].get(BEFORE), one["values"].get(AFTER)
        if one["place"] == place and before and after:
            found.append(after / before if results.more_is_better(row) else before / after)
    return found


def interval(ratios: list[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Where the median lies with that confidence; None if there are too few for that. How many of n values are below the true median follows a binomial distribution."""
    ordered, count = sorted(ratios), len(ratios)
    outside, tail = -1, 0.0
    while (tail := tail + math.comb(count, outside + 1) / 2**count) <= (1 - confidence) / 2:
        outside += 1
    return (ordered[outside], ordered[count - 1 - outside]) if outside >= 0 else None


def met(ratios: list[float], limit: float) -> bool | None:
    """Whether AFTER is at most `limit` slower; None: the pairs don't say."""
    bounds = interval(ratios)
    if bounds is None:
        return None
    return True if bounds[0] >= 1 - limit else False if bounds[1] < 1 - limit else None


def table(rows: list[dict], place: str, limit: float) -> str:
    lines = []
    for row in rows:
        ratios, bounds = pair_ratios(row, place), interval(pair_ratios(row, place))
        lines.append([report.row_name(row), str(row["ranks"]), report.size_text(row["bytes"]), row["unit"], results.cell(row, place, BEFORE), results.cell(row, place, AFTER),
                      str(results.summarize(ratios) or results.NOT_MEASURED), f"{bounds[0]:.3f}–{bounds[1]:.3f}" if bounds else results.NOT_MEASURED, results.verdict(met(ratios, limit))])
    return report.markdown_table(["row", "ranks", "size", "unit", BEFORE, AFTER, "after / before", "95 %", f"within {100 * limit:g} %"], lines)


def verdicts(rows: list[dict], limit: float) -> dict[str, collections.Counter[str]]:
    """How many rows are met, not met and not measured at each place that was seen."""
    places = [place for place in results.PLACES if any(pair_ratios(row, place) for row in rows)]
    return {place: collections.Counter(results.verdict(met(pair_ratios(row, place), limit)) for row in rows) for place in places}


def library(tree: pathlib.Path) -> str:
    """What tells one build from another."""
    return hashlib.sha256((tree / "lib/libmpi_abi.so.1").read_bytes()).hexdigest()[:12]


def pair(plan: bench.Plan, sides: list[tuple[str, registry.Peer]], hosts: bench.Hosts, table: dict[tuple, dict]) -> None:
    """Both builds once; nothing is kept if the processors have moved."""
    place, date, found = distance.now(), results.now(), list[tuple[str, list[dict]]]()
    for name, peer in sides:
        rows, error = bench.run_once(peer, plan, hosts)
        if error:
            raise SystemExit(f"{plan.label}, {name}: {error}")
        found.append((name, rows))
    if distance.now() != place:
        print(f"  {plan.label}: a pair is dropped: the processors moved", flush=True)
        return
    for name, rows in found:
        for row in rows:
            results.add(table, row, name, place, date)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", nargs=2, type=pathlib.Path, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--budget", type=float, default=bench.BUDGET_MIN, metavar="MINUTES", help="leave out pairs that don't fit")
    parser.add_argument("--all", action="store_true", help="all plans of bench/run.py, not just the quick ones")
    parser.add_argument("--only", default="*", help="plans whose label matches")
    parser.add_argument("--limit", type=float, default=3, metavar="PERCENT")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    budget = bench.Budget(options.budget)
    before, after = (registry.Peer("ferrule", tree.resolve(), True) for tree in options.trees)
    bench.build([after])
    conditions = {"machine": bench.machine(), BEFORE: library(before.tree), AFTER: library(after.tree)}
    data, other = results.load(options.out, conditions) if options.out else ({}, "")
    if other:
        print(f"The values in {options.out} are dropped: {other}.", flush=True)
    data = data or {"format": results.FORMAT, **conditions, "rows": []}
    rows = {results.identity(row): row for row in data["rows"]}
    hosts = bench.Hosts()
    try:
        bench.rounds(bench.chosen(not options.all, options.only), options.pairs, budget,
                     lambda plan, number: pair(plan, [(BEFORE, before), (AFTER, after)][::-1 if number % 2 else 1], hosts, rows))
    finally:
        hosts.remove()
        data["rows"] = list(rows.values())
        if options.out:
            results.save(options.out, data)
    limit = options.limit / 100
    found = verdicts(data["rows"], limit)
    for place in found:
        print(f"\n{results.PLACES[place]}\n{table(data['rows'], place, limit)}")
    for place, counts in found.items():
        print(f"{results.PLACES[place]}: within {options.limit:g} % " + ", ".join(f"{what} {counts[what]}" for what in ("met", "not met", results.NOT_MEASURED)))
    return int(not found or any(set(counts) != {"met"} for counts in found.values()))


if __name__ == "__main__":
    sys.exit(main())
