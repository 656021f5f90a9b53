"""The API against hostile clients, on real sockets in this process: certificates, tokens, sizes, slowness, malformed requests, other users' jobs."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from authority import Authority
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule_fabric.commands.network import Reach
from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager import api, guard, listening
from ferrule_fabric.manager.address import client_of
from ferrule_fabric.manager.allocation import WAITING_MAX, Allocation, Allocations
from ferrule_fabric.manager.callers import VIEWER, Caller, Role, Roles
from ferrule_fabric.manager.listening import Interfaces, servers_of
from ferrule_fabric.manager.refusals import Busy
from ferrule_fabric.manager.service import JOBS_OF_USER_MAX, Manager
from ferrule_fabric.manager.state import State
from ferrule_fabric.manager.worker import Worker
from ferrule_fabric.store.database import PatternStore
from ferrule_fabric.topologies.spec import topology_of

TOKEN = "a-token-for-this-test-only"
ADMINISTRATOR = Roles(tokens={TOKEN: Caller(0, Role.ADMINISTRATOR)})
JOB = {"job": "one", "hosts": ["h1", "h2", "h6", "h8"], "traffic": {"src": [0, 1], "dst": [2, 3], "bytes": [40_000_000, 40_000_000]}}
PATIENCE_S = 60.0


async def in_a_thread(_: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(function, *arguments)


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setattr(Worker, "run", in_a_thread)
    url = f"sqlite:///{tmp_path}/store"
    state = State(url)
    with PatternStore(url) as patterns:
        one = Manager(topology_of("two-level:leaves=4,spines=2,hosts=5"), state, patterns, frozenset({0}), 100_000, "greedy")
        yield one
        one.close()
    state.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(manager: Manager, **more: Any) -> Iterator[int]:
    """The API on a TCP port, in a thread."""
    port = free_port()
    more = {"roles": ADMINISTRATOR} | more
    ((server, sockets),) = servers_of(manager, Interfaces(f"127.0.0.1:{port}", **more))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=sockets)), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not server.started:
            assert time.monotonic() < deadline and thread.is_alive()
            time.sleep(0.01)
        yield port
    finally:
        server.should_exit = server.force_exit = True
        thread.join(PATIENCE_S)


# Certificates


def status(port: int, ca: Path, identity: Path | None = None, token: str | None = None, path: str = "/v1/jobs") -> int:
    with client_of(f"https://127.0.0.1:{port}", token, PATIENCE_S, ca, identity) as client:
        return client.get(path).status_code


def test_certificates(manager: Manager, tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours").make(), Authority(tmp_path, "theirs").make()
    mine, expired, stranger = ours.issue("mine"), ours.issue("expired", expired=True), theirs.issue("stranger")
    tls = {"certificate": str(ours.issue("server")), "key": str(tmp_path / "server.pem"), "clients": str(ours.certificate)}
    with serving(manager, roles=Roles(certificates={"mine": VIEWER}), **tls) as port:
        # One without a role is known to nobody.
        assert status(port, ours.certificate, ours.issue("other")) == 401
        assert status(port, ours.certificate, mine) == 200
        for identity in (None, stranger, expired):
            with pytest.raises(httpx.HTTPError):
                status(port, ours.certificate, identity)
        with pytest.raises(httpx.ConnectError, match="(?i)certificate"):
            status(port, theirs.certificate, mine)
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/v1/jobs", timeout=PATIENCE_S)
        reach = Reach(f"https://127.0.0.1:{port}", tls_ca=ours.certificate, tls_identity=mine)
        assert reach.call("GET", "/v1/status")["switches"] == 6
        with pytest.raises(FabricError, match="no manager"):
            Reach(reach.api, tls_ca=ours.certificate, tls_identity=stranger).call("GET", "/v1/status")
        with pytest.raises(FabricError, match="no job 'x'"):
            reach.call("GET", "/v1/jobs/x")
    with pytest.raises(FabricError, match="not a certificate"):
        client_of("https://127.0.0.1:1", ca=tmp_path / "store")
    # A token says who calls, too; the certificate is needed nevertheless.
    with serving(manager, **tls) as port:
        assert status(port, ours.certificate, mine) == 401 and status(port, ours.certificate, mine, TOKEN) == 200


def test_tokens(manager: Manager, tmp_path: Path) -> None:
    with serving(manager) as port:
        base = f"http://127.0.0.1:{port}"
        wrong: list[dict[str, str]] = [{}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": TOKEN}]
        # Nobody is believed who says that a request came from somewhere else.
        wrong += [{"X-Forwarded-For": "uid:0"}, {"X-Forwarded-For": "uid:0", "X-Forwarded-Proto": "https"}, {"Forwarded": "for=uid:0;proto=https"}]
        for headers in wrong:
            answer = httpx.get(f"{base}/v1/jobs", headers=headers, timeout=PATIENCE_S)
            assert answer.status_code == 401 and answer.json()["error"]["where"] == "user", headers
        assert httpx.get(f"{base}/v1/jobs", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S).json() == []
        # A body is read of nobody who isn't known.
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.settimeout(PATIENCE_S)
            stranger.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
            assert stranger.recv(1000).startswith(b"HTTP/1.1 401")


# Sizes, slowness, nonsense


def raw(port: int, data: bytes) -> bytes:
    """What comes back for some bytes until the connection is closed, or nothing comes for a while."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(PATIENCE_S)
        client.sendall(data)
        answer = b""
        while part := client.recv(1 << 16):
            answer += part
        return answer


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {TOKEN}", *lines, "", "")).encode()


def test_bodies_are_limited(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_BYTES_MAX", 1000)
    monkeypatch.setattr(guard, "PATTERN_BYTES_MAX", 5000)
    with serving(manager) as port:
        for path, length, expected in (("/v1/jobs", 1001, b"413"), ("/v1/what-if", 10**15, b"413"), ("/v1/patterns/x", 5001, b"413"), ("/v1/jobs", -5, b"400"), ("/v1/jobs", "1_0", b"400")):
            assert expected in raw(port, head("POST" if "patterns" not in path else "PUT", path, f"Content-Length: {length}"))[:20], (path, length)
        refused = raw(port, head("POST", "/v1/jobs", "Content-Length: 1001"))
        assert b'"where": "body"' in refused and b"at most 1000" in refused
        assert b"411" in raw(port, head("POST", "/v1/jobs", "Transfer-Encoding: chunked") + b"ffffffff\r\n")[:20]
        # Two lengths, or a length and chunks: no request is smuggled past anybody.
        assert b"400" in raw(port, head("POST", "/v1/jobs", "Content-Length: 5", "Content-Length: 6") + b"hello!")[:20]
        assert b" 20" not in raw(port, head("POST", "/v1/jobs", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n")[:20]
        assert b"400" in raw(port, b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 100_000)[:20]
        assert httpx.get(f"http://127.0.0.1:{port}/v1/jobs", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S).status_code == 200


def test_slow_clients_are_not_waited_for(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard.GuardedProtocol, "head_timeout_s", 2.0)
    create_app = api.create_app
    monkeypatch.setattr(listening, "create_app", lambda manager, roles: create_app(manager, roles, body_timeout_s=2.0))
    with serving(manager) as port:
        silent = socket.create_connection(("127.0.0.1", port))
        slow_head = socket.create_connection(("127.0.0.1", port))
        slow_head.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        # A head after an answer may be slow too.
        second_head = socket.create_connection(("127.0.0.1", port))
        second_head.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        second_head.settimeout(PATIENCE_S)
        assert second_head.recv(1 << 16).startswith(b"HTTP/1.1 200")
        second_head.sendall(b"GET /hea")
        slow_body = socket.create_connection(("127.0.0.1", port))
        slow_body.sendall(head("POST", "/v1/jobs", "Content-Length: 100") + b"{")
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE_S).status_code == 200
        for client in (silent, slow_head, second_head, slow_body):
            client.settimeout(PATIENCE_S)
            answer = b""
            try:
                while part := client.recv(1 << 16):
                    answer += part
            except ConnectionResetError:
                pass
            if client is slow_body:
                assert answer.startswith(b"HTTP/1.1 408") and b"too slowly" in answer
            client.close()


@pytest.mark.parametrize(
    "body",
    [b"{", b"", b"null", b"[]", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe{}", b'{"job": NaN}', b'{"job": "x", "hosts": ["h1"], "traffic": {"src": [1e999], "dst": [0], "bytes": [1]}}'],
    ids=["open", "empty", "null", "list", "deep lists", "deep objects", "no text", "nan", "infinite"],
)
def test_malformed_json_says_where(manager: Manager, body: bytes) -> None:
    with serving(manager) as port:
        answer = httpx.post(f"http://127.0.0.1:{port}/v1/jobs", content=body, headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}, timeout=PATIENCE_S)
        assert answer.status_code == 400 and answer.json()["error"]["where"].startswith("body"), answer.text


def test_any_bytes_are_refused_and_the_service_goes_on(manager: Manager) -> None:
    with serving(manager) as port:

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.binary(min_size=1, max_size=300), st.booleans())
        def throw(data: bytes, after_a_head: bool) -> None:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.settimeout(PATIENCE_S)
                client.sendall(head("POST", "/v1/jobs", "Content-Type: application/json", f"Content-Length: {len(data)}", "Connection: close") + data if after_a_head else data + b"\r\n\r\n")
                client.shutdown(socket.SHUT_WR)
                answer = client.recv(1 << 16)
                assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 307", b"HTTP/1.1 405")), answer[:200]

        throw()
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE_S).status_code == 200 and manager.jobs == {}


# Users


class Given:
    """A scheduler that has given all hosts of `JOB` and some more to these allocations, by number, and fewer hosts to others."""

    def __init__(self, **users: int) -> None:
        self.users = {int(number.removeprefix("job")): uid for number, uid in users.items()}
        self.hosts = frozenset({"h1", "h2", "h3", "h4", "h6", "h8", "h9", "h10"})

    async def allocation(self, number: int) -> Allocation | None:
        return Allocation(number, self.users[number], self.hosts) if number in self.users else None

    async def alive(self) -> frozenset[int]:
        return frozenset(self.users)


def ask(manager: Manager, uid: int, method: str, path: str, body: object = None) -> httpx.Response:
    """A request of a user, as the unix socket would bring it."""

    async def one() -> httpx.Response:
        transport = httpx.ASGITransport(api.create_app(manager, Roles()), client=(f"uid:{uid}", 0))
        async with httpx.AsyncClient(transport=transport, base_url="http://manager", timeout=PATIENCE_S) as client:
            return await client.request(method, path, json=body) if body is not None else await client.request(method, path, headers={"Content-Length": "0"})

    return asyncio.run(one())


def test_users_cant_touch_each_others_routes(manager: Manager) -> None:
    alice, bob = 1001, 1002
    # As where a host is shared by jobs of several users.
    manager.allocations = Allocations(Given(job42=alice, job43=bob, job44=bob))
    assert ask(manager, alice, "POST", "/v1/jobs", JOB | {"job": "42.0"}).status_code == 201
    rules = {node: dict(table) for node, table in manager.controller.compiled.tables.items()}
    for method, path, body in (
        ("DELETE", "/v1/jobs/42.0", None),
        ("DELETE", "/v1/jobs/42", None),
        ("POST", "/v1/jobs", JOB | {"job": "42.0"}),
        ("POST", "/v1/jobs/42.0/lease", None),
        ("PUT", "/v1/patterns/cg", {"ranks": []}),
    ):
        answer = ask(manager, bob, method, path, body)
        assert answer.status_code == 403 and answer.json()["error"]["where"] == "user", (method, path, answer.text)
    # Rules for some packets of a pair would go before those for all: bob gets none, whichever packets he asks for.
    for more in ({}, {"by": "ipv4"}, {"tcp_port": 5000}, {"dscp": 0}):
        answer = ask(manager, bob, "POST", "/v1/jobs", JOB | {"job": "43.0"} | more)
        assert answer.status_code == 201 and answer.json()["pairs"] == 0 and "another user" in answer.text, answer.text
        assert {node: dict(table) for node, table in manager.controller.compiled.tables.items()} == rules
    # Names and hosts that aren't bob's, and none at all.
    for name, why in (("42.1", "no running job 42 of this user"), ("42", "no running job"), ("45.0", "no running job"), ("bobs", "begins with the number"), ("0.0", "begins with")):
        answer = ask(manager, bob, "POST", "/v1/jobs", JOB | {"job": name})
        assert answer.status_code == 403 and why in answer.text, (name, answer.text)
    answer = ask(manager, bob, "POST", "/v1/jobs", JOB | {"job": "44.0", "hosts": ["h3", "h4", "h9", "h11"]})
    assert answer.status_code == 403 and "job 44 has not been given h11" in answer.text
    assert ask(manager, bob, "POST", "/v1/jobs", JOB | {"job": "44.0", "hosts": ["h3", "h4", "h9", "h10"]}).json()["pairs"] == 2
    assert ask(manager, alice, "POST", "/v1/jobs", JOB | {"job": "42.1", "tcp_port": 5000}).json()["pairs"] == 2
    # Whatever their names, an administrator's jobs are an administrator's.
    assert ask(manager, 0, "POST", "/v1/jobs", JOB | {"job": "44.1"}).status_code == 201
    for uid in (alice, bob):
        # Nothing goes if not all may.
        assert ask(manager, uid, "DELETE", "/v1/jobs/44").status_code == 403 and set(manager.jobs) == {"42.0", "42.1", "43.0", "44.0", "44.1"}
    assert ask(manager, 0, "DELETE", "/v1/jobs/44").json() == {"ended": 2}
    assert ask(manager, alice, "DELETE", "/v1/jobs/42").json() == {"ended": 2}
    assert ask(manager, bob, "DELETE", "/v1/jobs/43.0").json() == {"ended": 1}


def test_without_slurm_only_administrators_start_jobs(manager: Manager) -> None:
    answer = ask(manager, 1001, "POST", "/v1/jobs", JOB | {"job": "42.0"})
    assert answer.status_code == 403 and "only administrators start jobs" in answer.text and not manager.jobs
    assert ask(manager, 0, "POST", "/v1/jobs", JOB).status_code == 201


def test_roles_over_tcp(manager: Manager) -> None:
    manager.allocations = Allocations(Given(job42=1001))
    tokens = {"viewer-token-16-chars": VIEWER, "user-token-16-characters": Caller(1001, Role.USER), TOKEN: Caller(0, Role.ADMINISTRATOR)}
    with serving(manager, roles=Roles(tokens)) as port:

        def said(token: str, method: str, path: str, body: object = None) -> int:
            return httpx.request(method, f"http://127.0.0.1:{port}{path}", json=body, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S).status_code

        viewer, user, administrator = tokens
        steps: list[tuple[str, str, object, tuple[int, int, int]]] = [
            ("GET", "/v1/status", None, (200, 200, 200)),
            ("POST", "/v1/jobs", JOB | {"job": "42.0"}, (403, 201, 201)),
            ("POST", "/v1/jobs/42.0/lease", None, (403, 403, 200)),
            ("POST", "/v1/jobs", JOB | {"job": "43.0"}, (403, 403, 201)),
            ("PUT", "/v1/patterns/cg", {"ranks": []}, (403, 403, 400)),
            ("DELETE", "/v1/jobs/43.0", None, (403, 403, 200)),
        ]
        # The user's job comes to belong to the administrator, who starts it again.
        for method, path, body, expected in steps:
            assert tuple(said(token, method, path, body) for token in (viewer, user, administrator)) == expected, (method, path)
        assert manager.jobs["42.0"].row.uid == 0


def test_a_flood_of_starts_is_one_users_own_trouble(manager: Manager) -> None:
    """Slurm is slow: who starts many jobs at once is told to wait, and others aren't."""

    class Slow(Given):
        async def allocation(self, number: int) -> Allocation | None:
            await asyncio.sleep(0.3)
            return await super().allocation(number)

    allocations = Allocations(Slow(job42=1001, job43=1002))

    async def work() -> None:
        many = [allocations.check("42.0", Caller(1001, Role.USER), ["h1"]) for _ in range(WAITING_MAX + 5)]
        found = await asyncio.gather(*many, allocations.check("43.0", Caller(1002, Role.USER), ["h1"]), return_exceptions=True)
        assert sum(isinstance(one, Busy) for one in found) == 5 and found[-1] is None and not allocations._waiting

    asyncio.run(work())


def test_one_user_cant_have_all_jobs(manager: Manager) -> None:
    manager.allocations = Allocations(Given(job42=1001, job43=1002))
    assert ask(manager, 1001, "POST", "/v1/jobs", JOB | {"job": "42.0"}).status_code == 201
    for number in range(JOBS_OF_USER_MAX - 1):
        manager.jobs[f"held{number}"] = manager.jobs["42.0"]
    refused = ask(manager, 1001, "POST", "/v1/jobs", JOB | {"job": "42.1"})
    assert refused.status_code == 400 and "of this user" in refused.text
    assert ask(manager, 1002, "POST", "/v1/jobs", JOB | {"job": "43.0"}).status_code == 201


def test_unix_connections_are_their_users(manager: Manager, tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    ((server, sockets),) = servers_of(manager, Interfaces(f"unix:{path}"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=sockets)), daemon=True)
    thread.start()
    with client_of(f"unix:{path}", timeout_s=PATIENCE_S) as client:
        # Whatever the headers say.
        assert client.post("/v1/jobs", content=json.dumps(JOB), headers={"Content-Type": "application/json", "X-Forwarded-For": "uid:4242"}).status_code == 201
        assert client.get("/v1/jobs").json()[0]["uid"] == os.getuid()
    server.should_exit = server.force_exit = True
    thread.join(PATIENCE_S)
