"""mpiexec and the manager without a scheduler: real jobs on real switches."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jobs
import pytest
from standing import Service

import fabric as ovs
from ferrule_fabric.model.topology import Topology

HOSTS = ["h1", "h1", "h6", "h6", "h11", "h16"]
SHIFT = 2
JOB_S, LEASE_S = 120, 10.0
# A busy machine shouldn't make a difference where nothing is wrong.
PATIENT = {**os.environ, "FERRULE_FABRIC_TIMEOUT": "30000"}
SLEEPER = """
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	printf("up\\n");
	fflush(stdout);
	alarm(100);
	while (access(argv[1], F_OK) == 0)
		usleep(50000);
	MPI_Finalize();
	return 0;
}
"""


def until(what: str, true: Callable[[], bool], patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, f"not within {patience_s} s: {what}"
        time.sleep(0.05)


def profile(ranks: int) -> dict[str, object]:
    """Rank i sends to rank i + SHIFT."""
    zero = [0] * ranks
    common = {"processor_name": "x", "n_procs": ranks, "duration": 1.0, "rx_bytes": zero, "rx_messages": zero, "tx_message_sizes": [], "rx_message_sizes": []}
    sent = [[1_000_000 * (peer == (rank + SHIFT) % ranks) for peer in range(ranks)] for rank in range(ranks)]
    return {"ranks": [common | {"rank": rank, "tx_bytes": sent[rank], "tx_messages": [int(size > 0) for size in sent[rank]]} for rank in range(ranks)]}


@pytest.fixture(scope="module")
def service(fabric: ovs.Fabric, paper: Topology, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    if not (jobs.DIST / "bin/mpiexec").exists():
        pytest.skip("no dist/bin/mpiexec: make build")
    one = Service(tmp_path_factory.mktemp("mpiexec"), fabric, paper)
    one.start()
    learned = one.call("PUT", "/v1/patterns/shift", json=profile(len(HOSTS)))
    assert learned.status_code == 201, learned.text
    yield one
    one.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def sleeper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("programs") / "fabric-sleeper.c"
    source.write_text(SLEEPER)
    return jobs.built(source)


class Running:
    """A job whose ranks are up. It runs until `end`, or not at all if it is to be ``short``."""

    def __init__(self, service: Service, program: Path, *options: str, short: bool = False) -> None:
        self.flag = service.folder / f"running-{secrets.token_hex(4)}"
        if not short:
            self.flag.touch()
        words = jobs.command(service.fabric, HOSTS, [program, self.flag], ["--fabric", service.api, *options])
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, env=PATIENT)
        assert self.process.stdout is not None
        self.said: list[str] = []
        while "up" not in self.said:
            line = self.process.stdout.readline()
            assert line, self.said
            self.said.append(line.strip())

    def end(self) -> tuple[int, list[str]]:
        assert self.process.stdout is not None
        self.flag.unlink(missing_ok=True)
        self.said += self.process.stdout.read().splitlines()
        return self.process.wait(JOB_S), self.said


def is_clean(service: Service) -> bool:
    return service.job_rules() == 0 and service.get("/v1/jobs") == []


def test_a_job_has_routes_from_before_its_start_to_its_end(service: Service, sleeper: Path) -> None:
    job = Running(service, sleeper, "--comm-pattern", "shift", "--verbose")
    told = service.get("/v1/jobs")
    assert len(told) == 1 and told[0]["pattern"] == "shift" and told[0]["job"].startswith("mpiexec-") and service.job_rules() > 0
    flows = service.get(f"/v1/jobs/{told[0]['job']}")["flows"]
    assert {(flow["src"], flow["dst"]) for flow in flows} == {("h1", "h6"), ("h6", "h11"), ("h6", "h16"), ("h11", "h1"), ("h16", "h1")}
    code, said = job.end()
    assert code == 0 and any("routes for 5 pairs" in line for line in said), said
    assert is_clean(service), "mpiexec ended before the routes were removed"


def test_the_program_names_the_pattern(service: Service, sleeper: Path) -> None:
    code, said = Running(service, sleeper, short=True).end()
    lines = [line for line in said if "default routes" in line]
    assert code == 0 and len(lines) == 1 and "fabric-sleeper" in lines[0] and "6 ranks" in lines[0], said


def test_a_killed_job_leaves_no_routes(service: Service, sleeper: Path) -> None:
    job = Running(service, sleeper, "--comm-pattern", "shift")
    assert service.job_rules() > 0
    job.process.kill()
    until("the routes of a killed mpiexec are gone", lambda: is_clean(service))
    job.end()


def test_a_job_killed_with_its_keeper_loses_its_lease(service: Service) -> None:
    body = {"job": "leased", "hosts": HOSTS, "pattern": "shift", "lease_s": LEASE_S}
    assert service.call("POST", "/v1/jobs", json=body).status_code == 201
    longer = time.monotonic() + 1.3 * LEASE_S
    while time.monotonic() < longer:
        time.sleep(0.5)
        assert service.call("POST", "/v1/jobs/leased/lease").json() == {"lease_s": LEASE_S}
    assert service.job_rules() > 0
    until("the lease has run out", lambda: is_clean(service))
    assert service.call("POST", "/v1/jobs/leased/lease").status_code == 404


def test_leases_survive_a_crash_of_the_manager(service: Service) -> None:
    body = {"job": "leased", "hosts": HOSTS, "pattern": "shift", "lease_s": LEASE_S}
    assert service.call("POST", "/v1/jobs", json=body).status_code == 201
    service.stop(signal.SIGKILL)
    service.start()
    assert [job["job"] for job in service.get("/v1/jobs")] == ["leased"]
    until("the lease has run out", lambda: is_clean(service))


def test_without_an_answer_the_job_runs_all_the_same(service: Service, sleeper: Path, tmp_path: Path) -> None:
    command = jobs.command(service.fabric, HOSTS, [sleeper, "/nowhere/flag"], ["--comm-pattern", "shift"])
    at = command.index("--comm-pattern")

    def outcome(api: str, **more: str) -> tuple[int, list[str]]:
        words = [*command[:at], "--fabric", api, *command[at:]]
        done = subprocess.run(words, capture_output=True, text=True, timeout=JOB_S, check=False, env={**os.environ, **more})
        assert done.stdout.count("up") == len(HOSTS), done
        return done.returncode, done.stderr.splitlines()

    code, lines = outcome("unix:/nowhere/api.sock")
    assert code == 0 and len(lines) == 1 and "default routes: no manager at /nowhere/api.sock" in lines[0], lines
    code, lines = outcome("ftp://x")
    assert code == 0 and len(lines) == 1 and "unix:PATH, https://HOST:PORT or http://HOST:PORT" in lines[0], lines
    assert service.process is not None
    service.process.send_signal(signal.SIGSTOP)
    try:
        code, lines = outcome(service.api, FERRULE_FABRIC_TIMEOUT="700")
    finally:
        service.process.send_signal(signal.SIGCONT)
    assert code == 0 and "within 700 ms" in lines[0], lines
    until("what was asked for is taken back", lambda: is_clean(service))


def test_over_tcp_with_a_token(fabric: ovs.Fabric, paper: Topology, tmp_path: Path, sleeper: Path, service: Service) -> None:
    """mpiexec reaches a manager over TCP; here only that a wrong token is told (the manager itself is tested in test_manager.py)."""
    token = tmp_path / "token"
    token.write_text("two words")
    words = jobs.command(service.fabric, HOSTS, [sleeper, "/nowhere/flag"], ["--fabric", "http://127.0.0.1:9", "--comm-pattern", "shift"])
    for file, why in ((str(token), "holds more than a token"), ("", "no manager at 127.0.0.1:9")):
        done = subprocess.run(words, capture_output=True, text=True, timeout=JOB_S, check=False, env={**os.environ, "FERRULE_FABRIC_TOKEN_FILE": file})
        assert done.returncode == 0 and why in done.stderr and done.stderr.count("\n") == 1, json.dumps(done.stderr)
