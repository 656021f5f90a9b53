"""Two users without privileges, by their own processes at the unix socket; one of them is hostile. (With a real Slurm: tests/net/slurm_world.py.)"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from requesting import REQUEST
from test_api_guard import JOB, PATIENCE_S, Given, manager  # noqa: F401

from ferrule_fabric.manager.allocation import Allocations
from ferrule_fabric.manager.listening import Interfaces, servers_of
from ferrule_fabric.manager.service import Manager

PYTHON = Path("/usr/bin/python3")
HOSTILE: list[tuple[str, str, object, str]] = [
    ("POST", "/v1/jobs", JOB | {"job": "42.0"}, "another user's"),
    ("POST", "/v1/jobs", JOB | {"job": "42.1"}, "no running job 42 of this user"),
    ("POST", "/v1/jobs", JOB | {"job": "mine"}, "begins with the number"),
    ("POST", "/v1/jobs", JOB | {"job": "43.0", "hosts": ["h5", "h2", "h6", "h8"]}, "has not been given h5"),
    ("POST", "/v1/jobs/42.0/lease", {}, "another user's"),
    ("DELETE", "/v1/jobs/42.0", None, "another user's"),
    ("DELETE", "/v1/jobs/42", None, "another user's"),
    ("PUT", "/v1/patterns/cg", {"ranks": []}, "administrators"),
]


@pytest.fixture
def path(manager: Manager, tmp_path: Path) -> Iterator[Path]:  # noqa: F811
    """A manager's socket that others can reach."""
    if os.getuid() != 0:
        pytest.skip("not root: can't start processes of two other users")
    if not PYTHON.exists():
        pytest.skip(f"no {PYTHON}, which other users can run")
    alice, bob = (pwd.getpwnam(name).pw_uid for name in ("nobody", "daemon"))
    manager.allocations = Allocations(Given(job42=alice, job43=bob))
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    path = tmp_path / "api.sock"
    ((server, sockets),) = servers_of(manager, Interfaces(f"unix:{path}"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=sockets)), daemon=True)
    thread.start()
    deadline = time.monotonic() + PATIENCE_S
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    yield path
    server.should_exit = server.force_exit = True
    thread.join(PATIENCE_S)


def asked(user: str, path: Path, method: str, url: str, body: object = None) -> tuple[int, str]:
    """What a process of a user is told."""
    account = pwd.getpwnam(user)
    command = [str(PYTHON), "-c", REQUEST, str(path), method, url, json.dumps(body) if body is not None else ""]
    done = subprocess.run(command, user=account.pw_uid, group=account.pw_gid, extra_groups=[], cwd="/", capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    status, _, text = done.stdout.partition("\n")
    return int(status), text


def test_a_hostile_user_gets_nothing_of_another_ones(manager: Manager, path: Path) -> None:  # noqa: F811
    status, text = asked("nobody", path, "POST", "/v1/jobs", JOB | {"job": "42.0"})
    assert status == 201 and json.loads(text)["pairs"] == 2, text
    rules = {node: dict(table) for node, table in manager.controller.compiled.tables.items()}
    for method, url, body, why in HOSTILE:
        status, text = asked("daemon", path, method, url, body)
        assert status == 403 and why in text, (method, url, status, text)
    assert manager.controller.compiled.tables == rules and set(manager.jobs) == {"42.0"}
    # What is its own, it gets.
    assert asked("daemon", path, "POST", "/v1/jobs", JOB | {"job": "43.0", "hosts": ["h3", "h4", "h9", "h10"]})[0] == 201
    assert asked("daemon", path, "DELETE", "/v1/jobs/43")[0] == 200
    assert asked("nobody", path, "DELETE", "/v1/jobs/42")[0] == 200 and not manager.jobs
