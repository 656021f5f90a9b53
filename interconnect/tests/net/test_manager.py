"""The manager service on real switches: jobs, users, crashes, second managers, bad requests."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from requesting import REQUEST
from standing import Service

import fabric as ovs
from ferrule_fabric.manager.address import client_of
from ferrule_fabric.model.topology import Topology

NOBODY = 65534
RANKS = [f"h{number}" for number in (1, 1, 6, 6, 11, 16)]
TRAFFIC = {"src": [0, 1, 2, 0, 5], "dst": [2, 3, 0, 4, 1], "bytes": [1000, 2000, 3000, 4000, 5000]}
JOB = {"job": "42.0", "hosts": RANKS, "traffic": TRAFFIC}

BODIES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["job", "hosts", "traffic", "src"]), inner),
).map(lambda value: json.dumps(value).encode())


@pytest.fixture(scope="module")
def service(fabric: ovs.Fabric, paper: Topology, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("manager")
    folder.chmod(0o755)
    for parent in list(folder.parents)[:2]:
        parent.chmod(0o755)
    one = Service(folder, fabric, paper)
    one.start()
    yield one
    one.stop(signal.SIGKILL)


@pytest.fixture(autouse=True)
def as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever came of a test, the next one finds a manager that runs and has no jobs."""
    yield
    if "service" in request.fixturenames:
        one: Service = request.getfixturevalue("service")
        if one.process is None or one.process.poll() is not None:
            one.process = None
            one.start()
        for job in one.get("/v1/jobs"):
            one.call("DELETE", f"/v1/jobs/{job['job']}")


def test_a_job_gets_routes_and_leaves_none(service: Service) -> None:
    started = service.call("POST", "/v1/jobs", json=JOB)
    assert started.status_code == 201, started.text
    assert started.json()["pairs"] == 4 and started.json()["left_out"] == []
    told = service.get("/v1/jobs/42.0")
    assert [flow["bytes"] for flow in told["flows"]] == [3000, 4000, 3000, 5000] and all(flow["path"] for flow in told["flows"])
    assert service.job_rules() == 12
    assert [job["job"] for job in service.get("/v1/jobs")] == ["42.0"]
    again = service.call("POST", "/v1/jobs", json=JOB | {"tcp_port": 5000})
    assert again.status_code == 201 and service.job_rules() == 12
    assert service.call("DELETE", "/v1/jobs/42").json() == {"ended": 1}
    assert service.job_rules() == 0 and service.get("/v1/jobs") == []
    times = []
    with client_of(service.api) as client:
        for _ in range(5):
            began = time.perf_counter()
            told = client.post("/v1/jobs", json=JOB).json()
            times.append(f"{(time.perf_counter() - began) * 1e3:.1f} (routes {told['route_s'] * 1e3:.1f}, install {told['install_s'] * 1e3:.1f})")
            client.delete("/v1/jobs/42.0")
    print(f"\n    job start, from the request to the answer in ms: {', '.join(times)}")


def test_patterns_by_name(service: Service) -> None:
    n = len(RANKS)
    dense = [[0] * n for _ in range(n)]
    for src, dst, size in zip(*TRAFFIC.values()):
        dense[src][dst] = size
    empty = {"processor_name": "x", "n_procs": n, "duration": 1.0, "rx_messages": [0] * n, "tx_message_sizes": [], "rx_message_sizes": []}
    own = [{"rank": r, "tx_bytes": dense[r], "rx_bytes": [row[r] for row in dense], "tx_messages": [int(b > 0) for b in dense[r]]} for r in range(n)]
    profile = {"ranks": [empty | keys for keys in own]}
    learned = service.call("PUT", "/v1/patterns/cg.C", json=profile)
    assert learned.status_code == 201, learned.text
    assert service.call("POST", "/v1/jobs", json={"job": "43", "hosts": RANKS, "pattern": "cg.C"}).status_code == 201
    missing = service.call("POST", "/v1/jobs", json={"job": "44", "hosts": RANKS, "pattern": "ft.C"})
    assert missing.status_code == 404 and "ft.C" in missing.text
    service.call("DELETE", "/v1/jobs/43")


def as_nobody(service: Service, method: str, path: str, body: object = None) -> tuple[int, str]:
    """A request by another user."""
    python = "/usr/bin/python3"
    command = [python, "-c", REQUEST, service.api[5:], method, path, json.dumps(body) if body else ""]
    done = subprocess.run(command, user=NOBODY, group=NOBODY, capture_output=True, text=True, timeout=90, check=True)
    status, _, text = done.stdout.partition("\n")
    return int(status), text


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="no Python that other users can run")
def test_users_cant_touch_each_others_routes(service: Service) -> None:
    assert service.call("POST", "/v1/jobs", json=JOB).status_code == 201
    assert as_nobody(service, "DELETE", "/v1/jobs/42.0")[0] == 403
    assert as_nobody(service, "POST", "/v1/jobs", JOB)[0] == 403
    assert as_nobody(service, "PUT", "/v1/patterns/cg.C", {"ranks": []})[0] == 403
    # There is no Slurm here that could have given hosts to anybody (for that see slurm_world.py).
    status, text = as_nobody(service, "POST", "/v1/jobs", JOB | {"job": "nobodys"})
    assert status == 403 and "only administrators start jobs" in text, text
    assert service.call("DELETE", "/v1/jobs/42.0").status_code == 200


def test_a_crash_loses_nothing(service: Service) -> None:
    assert service.call("POST", "/v1/jobs", json=JOB).status_code == 201
    rules, generation = service.job_rules(), service.get("/v1/status")["generation"]
    service.stop(signal.SIGKILL)
    assert service.job_rules() == rules
    service.start()
    assert [job["job"] for job in service.get("/v1/jobs")] == ["42.0"] and service.job_rules() == rules
    assert service.get("/v1/status")["generation"] == generation + 1
    assert service.call("DELETE", "/v1/jobs/42.0").status_code == 200 and service.job_rules() == 0


@pytest.mark.parametrize("delay_s", [0.02, 0.15])
def test_killed_in_the_middle_of_changes(service: Service, delay_s: float) -> None:
    """Whatever was under way: after a restart the switches hold the rules of the jobs that are known, and no others."""
    over = threading.Event()

    def turns() -> None:
        for turn in itertools.count():
            if over.is_set():
                return
            body = {"job": f"turn.{turn % 3}", "hosts": RANKS, "traffic": TRAFFIC | {"dst": [2 + turn % 2, 3, 0, 4, 1]}}
            with contextlib.suppress(httpx.HTTPError):
                service.call("POST", "/v1/jobs", json=body)
                if turn % 4 == 3:
                    service.call("DELETE", f"/v1/jobs/turn.{turn % 3}")

    assert service.call("POST", "/v1/jobs", json=JOB).status_code == 201
    thread = threading.Thread(target=turns)
    thread.start()
    try:
        while len(service.get("/v1/jobs")) < 2:
            time.sleep(0.01)
        time.sleep(delay_s)
        service.stop(signal.SIGKILL)
    finally:
        over.set()
        thread.join()
    service.start()
    names = [job["job"] for job in service.get("/v1/jobs")]
    assert "42.0" in names
    status = service.get("/v1/status")
    assert service.rules() == status["rules"], (names, status)
    for name in names:
        assert service.call("DELETE", f"/v1/jobs/{name}").status_code == 200
    assert service.job_rules() == 0


def test_a_second_manager_refuses(service: Service) -> None:
    second = subprocess.run(service.command("--api", f"unix:{service.folder}/second.sock"), capture_output=True, text=True, timeout=120, check=False)
    assert second.returncode != 0 and "another manager" in second.stderr
    assert service.get("/healthz") == {"ready": True}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"job": "x"}, "body.hosts"),
        (JOB | {"job": "../etc"}, "body.job"),
        (JOB | {"hosts": ["h1"] * 5 + ["nowhere"]}, "placement.hosts[5]"),
        (JOB | {"more": 1}, "body.more"),
        (JOB | {"pattern": "both"}, "job"),
        (JOB | {"traffic": {"src": [0], "dst": [99], "bytes": [1]}}, "traffic.dst[0]"),
        (JOB | {"traffic": {"src": [0], "dst": [1], "bytes": [-1]}}, "traffic.bytes[0]"),
        (JOB | {"tcp_port": 70000}, "selector.tcp_port"),
        (JOB | {"dscp": 64}, "selector.dscp"),
        (JOB | {"by": "name"}, "selector.by"),
    ],
)
def test_bad_requests_say_where(service: Service, body: dict[str, Any], where: str) -> None:
    answer = service.call("POST", "/v1/jobs", json=body)
    assert answer.status_code == 400 and answer.json()["error"]["where"] == where, answer.text


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200) | BODIES)
def test_random_bodies_are_refused(service: Service, body: bytes) -> None:
    answer = service.call("POST", "/v1/jobs", content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text


def test_what_it_tells(service: Service) -> None:
    assert "/v1/jobs" in service.get("/openapi.json")["paths"]
    status = service.get("/v1/status")
    assert status["switches"] == status["connected"] == 6 and status["missing"] == []
    assert len(service.get("/v1/links")) == 28
    text = service.call("GET", "/metrics").text
    assert "ferrule_fabric_switches_connected 6.0" in text and 'ferrule_fabric_events_total{event="reconciled"}' in text
    lines = [json.loads(line) for line in service.log.read_text().splitlines() if line.startswith("{")]
    assert any(line["message"] == "job started" for line in lines)
    assert service.call("POST", "/v1/jobs", content=iter([b"{}"])).status_code == 411
    doctor = subprocess.run([sys.executable, "-c", "from ferrule_fabric.cli import main; main()", "doctor", "--api", service.api], capture_output=True, text=True, timeout=120, check=False)
    assert "6 of 6 switches connected" in doctor.stdout


def test_without_the_manager_default_routes_stay(service: Service, fabric: ovs.Fabric) -> None:
    service.stop()
    done = subprocess.run(fabric.command_in("h1", "ping", "-c", "1", "-W", "20", fabric.spec.hosts["h20"].ip), capture_output=True, check=False, timeout=60)
    assert done.returncode == 0
    service.start()
