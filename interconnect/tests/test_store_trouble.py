"""The manager's state on databases that are damaged, locked or can't be written; and numbers that no column of any table holds."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager import api
from ferrule_fabric.manager.callers import Roles
from ferrule_fabric.manager.service import Manager
from ferrule_fabric.manager.state import State
from ferrule_fabric.manager.worker import Worker
from ferrule_fabric.store.database import PatternStore
from ferrule_fabric.topologies.spec import topology_of

JOB: dict[str, Any] = {"job": "one", "hosts": ["h1", "h2", "h6", "h8"], "traffic": {"src": [0, 1], "dst": [2, 3], "bytes": [40_000_000, 40_000_000]}}
WHAT_IF: dict[str, Any] = {"pattern": "cg:ranks=16,bytes=1e6", "routings": ["d-mod-k"], "placements": ["block"]}
HUGE = (2**63, 2**64, 10**30, -(2**63) - 1, 10**400)


async def in_a_thread(_: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(function, *arguments)


@contextmanager
def managing(folder: Path) -> Iterator[Manager]:
    url = f"sqlite:///{folder}/store"
    state = State(url)
    try:
        with PatternStore(url) as patterns:
            one = Manager(topology_of("two-level:leaves=4,spines=2,hosts=5"), state, patterns, frozenset({0}), 100_000, "greedy")
            yield one
            one.close()
    finally:
        state.close()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setattr(Worker, "run", in_a_thread)
    with managing(tmp_path) as one:
        yield one


def ask(manager: Manager, method: str, path: str, body: object = None) -> httpx.Response:
    async def one() -> httpx.Response:
        transport = httpx.ASGITransport(api.create_app(manager, Roles()), client=("uid:0", 0), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://manager", timeout=60) as client:
            return await client.request(method, path, json=body) if body is not None else await client.request(method, path, headers={"Content-Length": "0"})

    return asyncio.run(one())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Somebody else writes to the database and doesn't come to an end."""
    other = sqlite3.connect(folder / "store", isolation_level=None)
    other.execute("begin immediate")
    try:
        yield
    finally:
        other.execute("rollback")
        other.close()


def test_a_locked_store_costs_a_job_its_routes_only(manager: Manager, tmp_path: Path) -> None:
    with locked(tmp_path):
        refused = ask(manager, "POST", "/v1/jobs", JOB)
        assert refused.status_code == 400 and "locked" in refused.json()["error"]["problem"], refused.text
        assert ask(manager, "GET", "/v1/jobs").json() == [] and not manager.controller.jobs
    assert ask(manager, "POST", "/v1/jobs", JOB).status_code == 201


def test_a_job_ends_though_the_store_is_locked(manager: Manager, tmp_path: Path) -> None:
    assert ask(manager, "POST", "/v1/jobs", JOB).status_code == 201
    with locked(tmp_path):
        assert ask(manager, "DELETE", "/v1/jobs/one").json() == {"ended": 1}
        assert not manager.controller.jobs and not manager.jobs and manager.state.count() == 1
    manager.forget_ended()
    assert manager.state.count() == 0
    assert ask(manager, "POST", "/v1/jobs", JOB).status_code == 201


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + bytes(4000)], ids=["text", "header only"])
def test_a_damaged_store_is_refused_and_let_go(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "store").write_bytes(content)
    # Twice: the first leaves no lock behind.
    for _ in range(2):
        with pytest.raises(FabricError, match="manager's state: .*(not a database|malformed|disk image)"):
            State(f"sqlite:///{tmp_path}/store")


def test_stores_that_cant_be_written(tmp_path: Path) -> None:
    State(f"sqlite:///{tmp_path}/store").close()
    with sqlite3.connect(tmp_path / "store") as other:
        other.execute("create trigger full before update on manager_counters begin select raise(abort, 'database or disk is full'); end")
        other.execute("create trigger full2 before insert on manager_counters begin select raise(abort, 'database or disk is full'); end")
    other.close()
    with pytest.raises(FabricError, match="full"), managing(tmp_path):
        pass
    for url in (f"sqlite:///{tmp_path}/none/store", f"sqlite:///{tmp_path}", "nonsense", "mysql://x/y"):
        with pytest.raises(FabricError, match="manager's state"):
            State(url)


def test_damaged_rows_are_dropped_and_the_others_stay(manager: Manager, tmp_path: Path) -> None:
    assert ask(manager, "POST", "/v1/jobs", JOB).status_code == 201
    (good,) = manager.state.jobs()
    spoilt = ({"plan": "{"}, {"plan": "[]"}, {"plan": "null"}, {"traffic": "7"}, {"traffic": '[["h1"]]'}, {"traffic": '[["h1", "nowhere", 5]]'}, {"selector": "[]"}, {"selector": '{"by": "name"}'})
    for number, part in enumerate(spoilt):
        manager.state.put(replace(good, **({"number": 100 + number, "job": f"bad{number}"} | part)))  # type: ignore[arg-type]
    manager.state.note("labels", '{"no": "list"}')
    manager.jobs.clear()
    manager._restore(manager.controller.topology)
    assert set(manager.jobs) == {"one"} and [row.job for row in manager.state.jobs()] == ["one"]


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("name", ["src", "dst", "bytes"])
def test_huge_numbers_are_refused(manager: Manager, name: str, value: int) -> None:
    answer = ask(manager, "POST", "/v1/jobs", JOB | {"traffic": JOB["traffic"] | {name: [value, 1]}})
    assert answer.status_code == 400 and answer.json()["error"]["where"].startswith(("traffic", "body")), answer.text
    for key in ("tcp_port", "dscp", "lease_s"):
        assert ask(manager, "POST", "/v1/jobs", JOB | {key: value}).status_code == 400
    assert ask(manager, "POST", "/v1/what-if", WHAT_IF | {"ranks_per_host": value}).status_code == 400


def test_bytes_that_add_up_to_too_much(manager: Manager) -> None:
    answer = ask(manager, "POST", "/v1/jobs", JOB | {"traffic": {"src": [0] * 4, "dst": [2] * 4, "bytes": [2**62 - 1] * 4}})
    assert answer.status_code == 400 and answer.json()["error"]["where"] == "traffic.bytes", answer.text


@pytest.mark.parametrize("spec", ["cg:ranks=16,bytes=nan", "cg:ranks=16,bytes=inf", "cg:ranks=16,bytes=-1", "cg:ranks=16,compute_s=1e400", "permutation:ranks=16,seed=-1", "cg:ranks=" + "9" * 5000])
def test_generators_refuse_numbers_that_are_none(manager: Manager, spec: str) -> None:
    answer = ask(manager, "POST", "/v1/what-if", WHAT_IF | {"pattern": spec})
    assert answer.status_code == 400, answer.text


def test_an_error_of_our_own_is_told_as_one(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule_fabric.manager.looking.status", lambda _: 1 // 0)
    answer = ask(manager, "GET", "/v1/status")
    assert answer.status_code == 500 and answer.json() == {"error": {"where": "manager", "problem": "an error of its own: ZeroDivisionError"}}
