#!/usr/bin/env python3
"""What the pages may say: grouping by the distance of the processors, figures without enough runs, goals, budgets, two builds. Nothing is measured.

Usage: bench/results_test.py
"""

from __future__ import annotations

import contextlib
import functools
import io
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import cases

import containers_report
import distance
import policies
import report
import results
import run as bench
import startup_plots
import trees
from results import FAR, LIMIT, NEAR


def row(what: str = "latency", size: int = 8, unit: str = "us", fabric: str = "shm", ranks: int = 2, **places: dict[str, list[float]]) -> dict:
    """A row with the values of each library at each place: near={"ferrule": [...]}."""
    table: dict[tuple, dict] = {}
    for name, libraries in places.items():
        for library, found in libraries.items():
            for repeat, value in enumerate(found):
                one = {"fabric": fabric, "row": what, "ranks": ranks, "bytes": size, "unit": unit, "value": value}
                results.add(table, one, library, {"near": NEAR, "far": FAR}[name], f"2026-11-{20 + repeat} 10:00:00")
    return next(iter(table.values()))


def page(*rows: dict) -> dict:
    return {"format": results.FORMAT, "revision": "abc123", "machine": {"cpu": "x"}, "instructions": None, "rows": list(rows), "failures": [], "dropped": 0}


def part(text: str, title: str) -> str:
    """A section of a page."""
    return text.split(f"\n## {title}", 1)[1].split("\n## ", 1)[0]


def runs() -> None:
    """A repeat in which the processors move makes two runs; one in which they don't, makes one."""
    table: dict[tuple, dict] = {}
    one = {"fabric": "shm", "row": "latency", "ranks": 2, "bytes": 8, "unit": "us", "value": 1.0, "more": "is not kept"}
    results.add(table, one, "ferrule", NEAR, "a")
    results.add(table, one, "mpich", NEAR, "a")
    results.add(table, one, "impi", FAR, "a")
    results.add(table, {**one, "value": 2.0}, "ferrule", NEAR, "b")
    found = table["shm", "latency", 2, 8]
    assert [(r["place"], r["date"], r["values"]) for r in found["runs"]] == [
        (NEAR, "a", {"ferrule": 1.0, "mpich": 1.0}), (FAR, "a", {"impi": 1.0}), (NEAR, "b", {"ferrule": 2.0})]
    assert "more" not in found


def repeats() -> None:
    """Short repeats that follow at once are repeats of their own."""
    table: dict[tuple, dict] = {}
    for value in (1.0, 2.0, 3.0):
        results.add(table, {"fabric": "shm", "row": "rate", "ranks": 2, "bytes": 8, "unit": "us", "value": value}, "ferrule", NEAR, results.now())
        time.sleep(0.002)
    assert results.values(table["shm", "rate", 2, 8], NEAR, "ferrule") == [1.0, 2.0, 3.0]


def distances_apart() -> None:
    """No figure is taken over two places."""
    both = row(near={"ferrule": [1.0, 2.0, 1.5]}, far={"ferrule": [9.0, 8.0, 7.0, 7.5]})
    near, far = results.figure(both, NEAR, "ferrule"), results.figure(both, FAR, "ferrule")
    assert near == results.Figure(1.5, 1.0, 2.0, 3) and far == results.Figure(7.75, 7.0, 9.0, 4), (near, far)
    assert str(near) == "1.5 (1–2; 3)"


def too_few() -> None:
    few = row(near={"ferrule": [1.0, 2.0], "mpich": [2.0, 2.0, 2.0]})
    assert results.figure(few, NEAR, "ferrule") is None and results.cell(few, NEAR, "ferrule") == "not measured"
    assert results.ratio(few, NEAR, report.PEERS) is None and results.best_peer(few, NEAR, report.PEERS) == "mpich"
    assert results.figure(few, FAR, "mpich") is None and results.figure(None, NEAR, "mpich") is None


def best_peer() -> None:
    """A peer that is measured elsewhere only might be the best; one that never ran can't."""
    three = [1.0, 1.0, 1.0]
    one = row(near={"ferrule": three, "mpich": [2.0] * 3, "impi": [0.5] * 2}, far={"impi": three})
    assert results.best_peer(one, NEAR, report.PEERS) is None and results.ratio(one, NEAR, report.PEERS) is None
    two = row(near={"ferrule": three, "mpich": [2.0] * 3, "impi": [0.5] * 3})
    assert results.best_peer(two, NEAR, report.PEERS) == "impi" and results.ratio(two, NEAR, report.PEERS) == 0.5
    rates = row("bandwidth", 65536, "GB/s", near={"ferrule": [3.0] * 3, "mpich": [2.0] * 3, "openmpi": [1.0] * 3})
    assert results.best_peer(rates, NEAR, report.PEERS) == "mpich" and results.ratio(rates, NEAR, report.PEERS) == 1.5


def peers_goal() -> None:
    """One row that is worse decides; otherwise all have to be measured."""
    def goal(values: dict[tuple, float]) -> str:
        rows = {}
        for (fabric, what, ranks, size), ours in values.items():
            one = row(what, size, "us", fabric, ranks, near={"ferrule": [ours] * 3, "mpich": [1.0] * 3})
            rows[results.identity(one)] = one
        return results.verdict(report.peers_goal(rows, NEAR).met)

    better = dict.fromkeys(report.GOALS, 0.5)
    assert goal(better) == "met"
    assert goal({**better, report.GOALS[3]: 1.5}) == "not met"
    del better[report.GOALS[0]]
    assert goal(better) == "not measured"
    assert goal({**better, report.GOALS[3]: 1.5}) == "not met"
    assert goal({}) == "not measured"


def limits() -> None:
    """Raw limits count only at the distance at which they were measured."""
    def met(ours: float, limit: float, place: str) -> bool | None:
        tiny = row(near={"ferrule": [ours] * 3, LIMIT: [limit] * 3}, far={"ferrule": [ours] * 3})
        return report.raw_goals({results.identity(tiny): tiny}, place)[0].met

    assert met(0.1, 0.06, NEAR) is True and met(0.1, 0.04, NEAR) is False and met(0.1, 0.06, FAR) is None
    wide = row("bandwidth", 65536, "GB/s", near={"ferrule": [8.9] * 3, LIMIT: [10.0] * 3}, far={"ferrule": [9.1] * 3, LIMIT: [10.0] * 3})
    rows = {results.identity(wide): wide}
    assert [report.raw_goals(rows, place)[1].met for place in (NEAR, FAR)] == [False, True]


def ping_pong() -> None:
    large = row(size=1 << 20, near={"ferrule": [50.0] * 3, "impi": [40.0] * 3}, far={"ferrule": [50.0] * 3})
    rows = {results.identity(large): large}
    assert [goal.met for goal in report.ping_pong_goals(rows, NEAR)] == [None, False, None]
    assert [goal.met for goal in report.ping_pong_goals(rows, FAR)] == [None, True, None]  # 20 GB/s are 52.4 µs


def whole_page() -> None:
    text = report.markdown(page(row(near={"ferrule": [0.111, 0.112, 0.113], "mpich": [0.2] * 3, LIMIT: [0.06] * 3}, far={"ferrule": [0.777]}),
                                row("barrier", 0, "us", "tcp", far={"ferrule": [5.0, 6.0, 5.5]})))
    near, far = part(text, "Near: the processors share a cache"), part(text, "Far: the processors share no cache")
    assert "0.112 (0.111–0.113; 3)" in near and "**0.2 (0.2–0.2; 3)**" in near and "| 1.79 |" in near, near
    assert "54%" in near and "Revision abc123, 2026-11-20 to 2026-11-22." in near, near
    assert "0.777" not in text and "0.112" not in far and "5.5 (5–6; 3)" in far, far
    assert "| latency | 2 | 8 B | us | not measured | not measured | not measured | not measured | not measured |" in far, far
    assert "processors share a core" not in text and "at most 364 instructions |  | not measured |" in text
    alone = report.markdown(page(row(near={"ferrule": [0.1] * 3})))
    assert part(alone, "Far: the processors share no cache").strip() == "Not measured: no row has 3 runs."


def grows() -> None:
    """Values of the same revision and machine are kept, others are dropped with the reason."""
    with tempfile.TemporaryDirectory(prefix="ferrule-results-") as place:
        path, data = pathlib.Path(place) / "results.json", page(row(near={"ferrule": [1.0]}), row("barrier", 0, near={"ferrule": [2.0]}))
        same = {"revision": "abc123", "machine": {"cpu": "x"}}
        assert results.load(path, same) == ({}, "")
        results.save(path, data)
        assert results.load(path, same) == (data, "") and results.read(path) == data
        for other in ({"revision": "def456"}, {"machine": {"cpu": "y"}}):
            found, why = results.load(path, {**same, **other})
            assert not found and next(iter(other)) in why, why
        path.write_text('{"rows": []}')
        assert results.load(path, same) == ({}, "they are of another format")


def moves() -> None:
    """A run during which the processors move is made again; what was dropped is counted."""
    def still(places: list[str], error: str = "") -> tuple[list[dict], str, str, int]:
        seen, made = iter(places), iter(range(9))
        return distance.run_still(lambda: ([] if error else [{"run": next(made)}], error), lambda: next(seen))

    assert still([NEAR, NEAR]) == ([{"run": 0}], "", NEAR, 0)
    assert still([NEAR, FAR, FAR]) == ([{"run": 1}], "", FAR, 1)
    assert still([NEAR, FAR, NEAR, FAR]) == ([], "", FAR, 3)
    assert still([NEAR, FAR], "it failed") == ([], "it failed", FAR, 0)


def budgets() -> None:
    """Whole rounds are left out; within the first one, what comes after the end of the time. Either is said."""
    plans = [bench.Plan("pt2pt", ("rate", "8"), ranks) for ranks in (2, 4)]

    def made(minutes: float, each_s: float) -> tuple[list[tuple[int, int]], str]:
        clock, turns = [100.0], list[tuple[int, int]]()

        def turn(plan: bench.Plan, repeat: int) -> None:
            clock[0] += each_s
            turns.append((repeat, plan.ranks))

        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            bench.rounds(plans, 5, bench.Budget(minutes, lambda: clock[0]), turn)
        return turns, said.getvalue()

    all_of_them = [(repeat, ranks) for repeat in range(5) for ranks in (2, 4)]
    assert made(10, 60)[0] == all_of_them
    turns, said = made(7, 60)
    assert turns == all_of_them[:6] and "2 of 5 repeats" in said, said
    turns, said = made(1.5, 120)
    assert turns == [(0, 2)] and "all but one repeat, and these plans: shm pt2pt rate 8 n=4" in said, said


def plans() -> None:
    """Each row of the peers table is measured by a plan, also by those of the whole run alone, in which no plan is there twice."""
    for quick in (True, False):
        chosen = bench.chosen(quick, "*")
        assert len({plan.label for plan in chosen}) == len(chosen)
        for fabric, what, ranks, size in report.GOALS:
            if quick and (what, ranks) == ("startup", 128):
                continue
            assert any((plan.fabric, plan.ranks) == (fabric, ranks) and (plan.program == "empty" if what == "startup" else what in plan.args[0].split(","))
                       and (not size or str(size) in ",".join(plan.args).split(",")) for plan in chosen), (quick, fabric, what, ranks, size)


def two_builds() -> None:
    assert trees.interval([1.0] * 5) is None and trees.interval([3.0, 1.0, 2.0, 4.0, 5.0, 6.0]) == (1.0, 6.0)
    assert trees.interval([float(n) for n in range(9)]) == (1.0, 7.0)
    assert trees.met([1.0] * 5, 0.03) is None
    assert trees.met([0.98] * 9, 0.03) is True and trees.met([0.96] * 9, 0.03) is False
    assert trees.met([0.9, 0.92, 0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06], 0.03) is None
    both = row(near={trees.BEFORE: [1.0, 2.0, 3.0], trees.AFTER: [2.0, 2.0]}, far={trees.BEFORE: [1.0] * 9, trees.AFTER: [1.25] * 9})
    assert trees.pair_ratios(both, NEAR) == [0.5, 1.0]  # A repeat of one build alone is no pair.
    assert trees.verdicts([both], 0.03) == {NEAR: {"not measured": 1}, FAR: {"not met": 1}}
    assert "| 0.8 (0.8–0.8; 9) | 0.800–0.800 | not met |" in trees.table([both], FAR, 0.03)
    rates = row("bandwidth", 8, "GB/s", near={trees.BEFORE: [1.0] * 9, trees.AFTER: [1.25] * 9})
    assert trees.met(trees.pair_ratios(rates, NEAR), 0.03) is True


def containers() -> None:
    three = {"native": [1.0] * 3, "docker": [1.01] * 3, "mpich": [9.0] * 3}
    data = {**page(row(near=three, far={"native": [1.0] * 2})), "quick": False, "ranks_started": 16, "failures": {},
            "detection": [row("MPI_Init", 0, "ms", near={"auto": [10.0] * 3, "node": [7.0] * 3})]}
    text = containers_report.markdown(data)
    near = part(text, "Near: the processors share a cache")
    assert "| latency up to 16 KiB: at least 0.95 of native | 0.99–0.99 | met |" in near and "| +3.0 ms | met |" in near, near
    assert "| latency of 8 bytes against MPICH 5.0.2: at least 20× | 8.91–8.91× | not met |" in near and "at least 0.95 of native |  | not measured |" in near, near
    assert "Revision abc123" in near and "Not measured" in part(text, "Far: the processors share no cache")
    data["rows"].append(row(size=1024, near={"native": [1.0] * 3, "docker": [1.0] * 2}))
    assert "| latency up to 16 KiB: at least 0.95 of native | 0.99–0.99 | not measured |" in containers_report.markdown(data)


def controllers() -> None:
    one = {"controller": "burst", "row": "latency", "bytes": 8, "ranks": 2, "processors": "0,1", "unit": "us"}
    text = policies.page({"revision": "abc123", "date": "2026-11-20", "seconds": 0.1, "records": [
        {**one, "place": NEAR, "with": [1.0] * 3, "without": [2.0] * 3, "ratios": [2.0] * 3}, {**one, "place": FAR, "with": [7.0], "without": [7.0], "ratios": [1.0]}]})
    assert "| 1 (1–1; 3) | 2 (2–2; 3) | 2 (2–2; 3) |" in part(text, "Near: the processors share a cache"), text
    assert "| not measured | not measured | not measured |" in part(text, "Far: the processors share no cache"), text


def startup() -> None:
    def goals(repeats: int, peers: int) -> list[str]:
        point = {"session_ms": 0, "connect": "demand", "ranks": 8, "hosts": 4}
        data = {"sleepers": [], "schemes": [{**point, "scheme": "original", "wall_s": [5.0] * repeats}, {**point, "scheme": "lazy", "wall_s": [1.0] * repeats}],
                "launchers": [{"name": "Ferrule", "ranks": 8, "wall_s": [1.0] * 3}, {"name": "MPICH", "ranks": 8, "wall_s": [3.0] * 3},
                              {"name": "Intel MPI", "ranks": 8, "wall_s": [2.5] * peers}]}
        return [line.split("|")[3].strip() for line in startup_plots.goals(data).splitlines()[2:]]

    # lazy, tree (which has no point), faster than the peers, twice as fast, memory
    assert goals(3, 3) == ["met", "not measured", "met", "met", "not measured"]
    assert goals(2, 2) == ["not measured"] * 5
    assert startup_plots.places({"places": {NEAR: 3, FAR: 1}}) == "near: the processors share a cache in 3 of 4 looks; far: the processors share no cache in 1 of 4 looks"


def without_folder(case: Callable[[], None], _: pathlib.Path) -> None:
    case()


def main() -> int:
    each: list[Callable[[], None]] = [runs, repeats, distances_apart, too_few, best_peer, peers_goal, limits, ping_pong, whole_page, grows, moves, budgets, plans, two_builds, containers,
                                      controllers, startup]
    return cases.run("bench", [(case.__name__, functools.partial(without_folder, case)) for case in each])


if __name__ == "__main__":
    sys.exit(main())
