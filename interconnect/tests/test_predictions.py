"""Before and after, history and what-if at the API, in this process and without switches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.api import create_app
from ferrule_fabric.manager.callers import Caller, Role, Roles
from ferrule_fabric.manager.predict import Question, what_if
from ferrule_fabric.manager.service import QUESTIONS_MAX, Manager
from ferrule_fabric.manager.state import HISTORY_MAX, PastRow, State
from ferrule_fabric.manager.worker import Worker
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.store.database import PatternStore
from ferrule_fabric.topologies.spec import topology_of

TOKEN = "a-token-for-this-test-only"
# Two flows that D-mod-K puts onto one spine.
JOB = {"job": "one", "hosts": ["h1", "h2", "h6", "h8"], "traffic": {"src": [0, 1], "dst": [2, 3], "bytes": [40_000_000, 40_000_000]}}
WHAT_IF = {"pattern": "cg:ranks=32,bytes=1e6", "ranks_per_host": 8, "placements": ["block", "cyclic"], "routings": ["d-mod-k", "ferrule", "split"]}
Call = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture(scope="module")
def paper() -> Topology:
    return topology_of("two-level:leaves=4,spines=2,hosts=5")


async def in_a_thread(_: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(function, *arguments)


@pytest.fixture
def manager(paper: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setattr(Worker, "run", in_a_thread)  # new processes would take seconds
    url = f"sqlite:///{tmp_path}/store"
    state = State(url)
    with PatternStore(url) as patterns:
        one = Manager(paper, state, patterns, frozenset({0}), 100_000)
        yield one
        one.close()
    state.close()


def running(manager: Manager, work: Callable[[Call], Awaitable[None]]) -> None:
    """Runs a client's work against the API."""

    async def whole() -> None:
        transport = httpx.ASGITransport(create_app(manager, Roles(tokens={TOKEN: Caller(0, Role.ADMINISTRATOR)})))
        async with httpx.AsyncClient(transport=transport, base_url="http://manager", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120) as client:
            await work(client.request)

    asyncio.run(asyncio.wait_for(whole(), 240))


async def until(ask: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(2000):
        if await ask():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("not in 100 s")


def test_before_after_and_history(manager: Manager) -> None:
    async def work(call: Call) -> None:
        assert (await call("GET", "/v1/history")).json() == []
        assert (await call("POST", "/v1/jobs", json=JOB)).status_code == 201
        told = (await call("GET", "/v1/jobs/one")).json()["flows"]
        assert [len(flow["paths"]) for flow in told] == [1, 1] and all(flow["paths"][0]["share"] == 1 for flow in told)
        loads = (await call("GET", "/v1/jobs/one/loads")).json()
        assert loads["default"]["switch_load_s"] == pytest.approx(0.64) and loads["planned"]["switch_load_s"] == pytest.approx(0.32)
        assert loads["planned"]["time_s"] < loads["default"]["time_s"] and len(loads["planned"]["arc_s"]) == manager.controller.topology.arc_count

        async def predicted() -> bool:
            return bool((await call("GET", "/v1/history")).json()[0]["predicted"])

        await until(predicted)
        assert (await call("DELETE", "/v1/jobs/one")).json() == {"ended": 1}
        (past,) = (await call("GET", "/v1/history")).json()
        assert (past["job"], past["hosts"], past["pairs"]) == ("one", 4, 2) and past["ended_s"] >= past["started_s"]
        assert past["predicted"]["default"]["switch_load_s"] == pytest.approx(0.64) and "arc_s" not in past["predicted"]["planned"]
        assert (await call("GET", "/v1/jobs/one/loads")).status_code == 404

    running(manager, work)


def test_what_if_touches_nothing(manager: Manager) -> None:
    async def work(call: Call) -> None:
        await call("POST", "/v1/jobs", json=JOB)
        before = {node: dict(table) for node, table in manager.controller.compiled.tables.items()}
        rows = (await call("POST", "/v1/what-if", json=WHAT_IF | {"beside": False})).json()
        assert [(row["placement"], row["routing"]) for row in rows] == [(p, r) for p in ("block", "cyclic") for r in ("d-mod-k", "ferrule", "split")]
        assert all(row["time_s"] > 0 and row["hosts"] == 4 for row in rows)
        assert all(one["switch_load_s"] >= two["switch_load_s"] for one, two in zip(rows[::3], rows[1::3]))
        beside = (await call("POST", "/v1/what-if", json=WHAT_IF)).json()
        assert max(row["max_load_s"] for row in beside) > 0.3 > max(row["max_load_s"] for row in rows)
        assert {node: dict(table) for node, table in manager.controller.compiled.tables.items()} == before and list(manager.jobs) == ["one"]

    running(manager, work)


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"pattern": ""}, "what-if"),
    ({"pattern": "cg:ranks=4000000"}, "what-if.pattern"),
    ({"pattern": "file:/etc/passwd"}, "what-if.ranks"),
    ({"pattern": "file:/etc/passwd", "ranks": 4}, "path"),
    ({"placements": ["best"]}, "what-if.placements"),
    ({"placements": []}, "what-if.placements"),
    ({"routings": ["exact"]}, "what-if.routings"),
    ({"selection": "any"}, "what-if.selection"),
    ({"hosts": ["h1", "nobody"]}, "what-if.hosts"),
    ({"ranks_per_host": 0}, "what-if.ranks_per_host"),
    ({"ranks_per_host": 1, "hosts": ["h1"]}, "selection"),
    ({"colour": "blue"}, "body.colour"),
)


def test_wrong_questions_are_refused_with_where(manager: Manager) -> None:
    async def work(call: Call) -> None:
        for change, where in WRONG:
            answer = await call("POST", "/v1/what-if", json=WHAT_IF | change)
            assert answer.status_code in (400, 404) and answer.json()["error"]["where"].startswith(where), (change, answer.text)
        manager._asking = QUESTIONS_MAX
        assert (await call("POST", "/v1/what-if", json=WHAT_IF)).status_code == 429

    running(manager, work)


def test_what_if_is_what_the_simulator_says(paper: Topology) -> None:
    pattern = pattern_of("stencil2d:ranks=64,bytes=1e6")
    (row,) = what_if(paper, None, Question((pattern.total,), 8, "first", ("block",), ("d-mod-k",)))
    assert row["max_load_s"] == pytest.approx(max(row["arc_s"])) and row["time_s"] >= row["max_load_s"] * 0.99


def test_the_history_is_bounded(tmp_path: Path) -> None:
    state = State(f"sqlite:///{tmp_path}/store")
    for number in (1, 2, HISTORY_MAX + 2):
        state.remember(PastRow(number, f"j{number}", 0, "", 1, 1, float(number)))
    assert [row.number for row in state.history(10)] == [HISTORY_MAX + 2]
    state.close()


def test_refusals_travel_between_processes() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(FabricError("here", "wrong")))
    assert (error.where, error.problem) == ("here", "wrong")
