"""Slurm on the Open vSwitch fabric, with the manager and its plugin; runs in a private world (testbeds/slurm) and raises where something is wrong.

usage: slurm_world.py PLUGIN
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "interconnect/bed"), str(ROOT / "testbeds/slurm"), str(ROOT / "testbeds/ovs"), str(ROOT / "interconnect/tests")]

from jobs import DIST, built
from requesting import REQUEST
from scheduled import JOB_PORTS, scheduled
from standing import Service

import fabric as ovs
import slurm
from ferrule_fabric.manager.allocation import Allocation, Slurm
from ferrule_fabric.topologies.fat_tree import two_level

NODES, SHIFT = 20, 5
CHAIN_NODES, CHAIN_RANKS = 16, 32
SLACK_BYTES = 1_000_000
ALICE, BOB = (pwd.getpwnam(name).pw_uid for name in ("nobody", "daemon"))


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


def transfer(fabric: ovs.Fabric, src: str, dst: str, size: int) -> None:
    address = fabric.spec.hosts[dst].ip
    sink = "import socket;s=socket.create_server(('0.0.0.0',5000));print(flush=True);c,_=s.accept()\nwhile c.recv(1<<16):pass"
    source = f"import socket;c=socket.create_connection(('{address}',5000),30);c.sendall(bytes({size}))"
    receiver = subprocess.Popen(fabric.command_in(dst, "timeout", "90", "python3", "-c", sink), stdout=subprocess.PIPE)
    assert receiver.stdout is not None
    receiver.stdout.readline()
    subprocess.run(fabric.command_in(src, "timeout", "90", "python3", "-c", source), check=True, timeout=100)
    assert receiver.wait(90) == 0


def while_there(cluster: slurm.Cluster, name: str) -> list[str]:
    """A command that runs as long as a file, which this makes, is in the cluster's directory: tests look at running jobs at their leisure."""
    (Path(cluster.dir) / name).touch()
    return ["sh", "-c", f"while [ -e {cluster.dir}/{name} ]; do sleep 0.3; done"]


def check_srun(cluster: slurm.Cluster, service: Service, fabric: ovs.Fabric) -> None:
    """A job's routes stand while it runs, carry its bytes, and are gone afterwards."""
    running = subprocess.Popen(["srun", f"-N{NODES}", f"-n{NODES}", "--comm-pattern=shift", *while_there(cluster, "looking")], env=cluster.env)
    until("the job has routes", lambda: bool(service.get("/v1/jobs")))
    told = service.get("/v1/jobs")[0]
    assert told["pattern"] == "shift" and told["pairs"] == NODES, told
    flow = next(flow for flow in service.get(f"/v1/jobs/{told['job']}")["flows"] if flow["src"] == "h1")
    assert flow["dst"] == f"h{1 + SHIFT}" and service.job_rules() > 0
    before = fabric.counters()
    transfer(fabric, flow["src"], flow["dst"], 1_000_000)
    after = fabric.counters()
    for a, b in zip(flow["path"], flow["path"][1:]):
        assert after[a, b] - before[a, b] > 1_000_000, f"{a} -> {b} of {flow['path']}"
    (Path(cluster.dir) / "looking").unlink()
    assert running.wait(60) == 0
    until("the step's routes are gone", lambda: service.job_rules() == 0 and not service.get("/v1/jobs"))
    print(f"    srun: routes of {told['pairs']} pairs, bytes on the planned path {' '.join(flow['path'])}, no rule left", flush=True)


def check_sbatch(cluster: slurm.Cluster, service: Service) -> None:
    """The option of sbatch reaches the sruns in the script; when the job is cancelled, the epilog leaves no rule."""
    script = Path(cluster.dir) / "job.sh"
    waits = shlex.join(while_there(cluster, "wanted"))
    script.write_text(f"#!/bin/sh\nsrun -n{NODES} sleep 200 &\nsrun_pid=$!\n{waits}\nkill -9 $srun_pid\ntouch {cluster.dir}/killed\nsleep 200\n")
    code, text = cluster.run(["sbatch", "-o", f"{cluster.dir}/job.out", f"-N{NODES}", f"-n{NODES}", "--comm-pattern=shift", str(script)])
    assert code == 0, text
    number = text.split()[-1]
    until("the batch job has routes", lambda: any(job["job"].startswith(f"{number}.") for job in service.get("/v1/jobs")))
    (Path(cluster.dir) / "wanted").unlink()
    until("srun is killed", (Path(cluster.dir) / "killed").exists)
    cluster.run(["scancel", number])
    until("the epilog has removed the rules", lambda: service.job_rules() == 0 and not service.get("/v1/jobs"))
    print("    sbatch: the script's srun got routes, the epilog left no rule though srun was killed", flush=True)


def check_chain(cluster: slurm.Cluster, service: Service, fabric: ovs.Fabric) -> None:
    """sbatch with profiling, profile into the store, sbatch with routes: bytes go the planned ways, and the epilog leaves no rule."""
    program, profile_file = built(ROOT / "interconnect/bench/cg2d.c"), Path(cluster.dir) / "cg.json"
    environment = f"export FERRULE_LOCALITY=node FERRULE_PORT_RANGE={JOB_PORTS}"
    run = f"srun --mpi=pmi2 -N{CHAIN_NODES} -n{CHAIN_RANKS} --overcommit %s {program} --size 16384 --iterations 40"

    def batch(name: str, script: str, *options: str) -> str:
        path, output = Path(cluster.dir) / f"{name}.sh", Path(cluster.dir) / f"{name}.out"
        path.write_text(f"#!/bin/sh\n{environment}\n{script}\necho over $?\n")
        code, text = cluster.run(["sbatch", "-o", str(output), f"-N{CHAIN_NODES}", f"-n{CHAIN_RANKS}", "--overcommit", *options, str(path)])
        assert code == 0, text
        return str(output)

    def over(output: str) -> bool:
        return Path(output).exists() and "over" in Path(output).read_text()

    first = batch("profiled", f"export FERRULE_PROFILE={profile_file}\n{run % ''}")
    until("the profiled job is over", lambda: over(first), 120)
    assert "over 0" in Path(first).read_text() and "right" in Path(first).read_text(), Path(first).read_text()
    until("the profile is written", lambda: profile_file.exists() and profile_file.stat().st_size > 0)
    learned = service.call("PUT", "/v1/patterns/cg", content=profile_file.read_bytes())
    assert learned.status_code == 201 and learned.json()["ranks"] == CHAIN_RANKS, learned.text

    before = fabric.counters()
    # The first rank stays until its routes have been looked at.
    seen = shlex.join(while_there(cluster, "unseen"))
    inner_script = Path(cluster.dir) / "routed.inner"
    inner_script.write_text(f'#!/bin/sh\n"$@" || exit\n[ "$SLURM_PROCID" != 0 ] || {seen}\n')
    inner_script.chmod(0o755)
    second = batch("routed", run % inner_script, "--comm-pattern=cg")
    until("the second job has routes", lambda: over(second) or bool(service.get("/v1/jobs")))
    told = service.get("/v1/jobs")
    assert told, f"no routes: {Path(second).read_text()}"
    flows = service.get(f"/v1/jobs/{told[0]['job']}")["flows"]
    (Path(cluster.dir) / "unseen").unlink()
    until("the second job is over", lambda: over(second), 120)
    assert "over 0" in Path(second).read_text() and "default routes" not in Path(second).read_text(), Path(second).read_text()
    after = fabric.counters()
    planned: dict[tuple[str, str], int] = {}
    for flow in flows:
        for link in zip(flow["path"], flow["path"][1:]):
            planned[link] = planned.get(link, 0) + flow["bytes"]
    inner = {link: count for link, count in planned.items() if not {*link} & fabric.spec.hosts.keys()}
    carried = {link: after[link] - before[link] for link in fabric.counters() if not {*link} & fabric.spec.hosts.keys()}
    for link, count in carried.items():
        # Headers and acknowledgements come on top. The first packets may go the old way: Open vSwitch looks through its cache of flows after it has confirmed new rules.
        expected = inner.get(link, 0)
        assert expected * 0.75 <= count <= expected * 1.25 + SLACK_BYTES, f"{link}: planned {expected}, carried {count} of {sorted(carried.items())}, planned {sorted(inner.items())}"
    until("the epilog has left no rule", lambda: service.job_rules() == 0 and not service.get("/v1/jobs"))
    hottest = max(carried, key=lambda link: carried[link])
    print(
        f"    chain: {CHAIN_RANKS} ranks on {CHAIN_NODES} nodes: profiled, stored, routed for {told[0]['pairs']} pairs; all {len(carried)} links carried what was planned (within a quarter), "
        f"hottest {' to '.join(hottest)}: {carried[hottest]} bytes, planned {inner[hottest]}",
        flush=True,
    )


def check_refusals(cluster: slurm.Cluster) -> None:
    code, text = cluster.run(["srun", "-n1", "--comm-pattern=a b", "true"])
    assert code != 0 and "--comm-pattern" in text, text
    code, text = cluster.run(["srun", "-n2", "--comm-pattern=unheard", "echo", "it-ran"])
    lines = [line for line in text.splitlines() if "ferrule" in line]
    assert code == 0 and text.count("it-ran") == 2 and len(lines) == 1 and "default routes" in lines[0] and "unheard" in lines[0], text
    print("    a wrong name is refused, an unknown one runs on default routes", flush=True)


def as_user(uid: int, command: Sequence[str], env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(command, user=uid, group=uid, extra_groups=[], cwd="/", env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def asked(uid: int, service: Service, method: str, path: str, body: object = None) -> tuple[int, str]:
    """A request of a user's own process, around plugin and mpiexec."""
    process = as_user(uid, ["/usr/bin/python3", "-c", REQUEST, service.api[5:], method, path, json.dumps(body) if body else ""])
    text, _ = process.communicate(timeout=90)
    status, _, answer = text.partition("\n")
    return int(status), answer


def running_step(cluster: slurm.Cluster, service: Service, uid: int, hosts: list[str], flag: str) -> tuple[subprocess.Popen[str], str]:
    """A step of a user with routes, and its name at the manager."""
    words = ["srun", f"-N{len(hosts)}", f"-n{len(hosts)}", "-w", ",".join(hosts), "-D", "/", "--comm-pattern=small", *while_there(cluster, flag)]
    process = as_user(uid, words, cluster.env)
    until(f"the job of user {uid} has routes", lambda: process.poll() is not None or any(job["uid"] == uid for job in service.get("/v1/jobs")))
    assert process.poll() is None, process.communicate()
    return process, str(next(job["job"] for job in service.get("/v1/jobs") if job["uid"] == uid))


async def in_cluster(cluster: slurm.Cluster, number: int) -> Allocation | None:
    os.environ["SLURM_CONF"] = cluster.env["SLURM_CONF"]
    return await Slurm().allocation(number)


def check_users(cluster: slurm.Cluster, service: Service) -> None:
    """Two users without privileges, one of them hostile; and a job that ends while the manager is down."""
    learned = service.call("PUT", "/v1/patterns/small", json=profile(4))
    assert learned.status_code == 201, learned.text
    alices_hosts, bobs_hosts = ["h1", "h2", "h6", "h7"], ["h3", "h4", "h8", "h9"]
    alices, name = running_step(cluster, service, ALICE, alices_hosts, "alice")
    bobs, bobs_name = running_step(cluster, service, BOB, bobs_hosts, "bob")
    mine, theirs = bobs_name.partition(".")[0], name.partition(".")[0]
    start = {"pattern": "small", "hosts": alices_hosts}
    rules = service.job_rules()
    for method, path, body, why in (
        ("POST", "/v1/jobs", start | {"job": name}, "another user's"),
        ("POST", "/v1/jobs", start | {"job": f"{theirs}.77"}, f"no running job {theirs} of this user"),
        ("POST", "/v1/jobs", start | {"job": theirs}, "no running job"),
        ("POST", "/v1/jobs", start | {"job": "4711.0"}, "no running job"),
        ("POST", "/v1/jobs", start | {"job": "mpiexec-0123456789abcdef"}, "begins with the number"),
        ("POST", "/v1/jobs", start | {"job": f"{mine}.77"}, f"job {mine} has not been given h1, h2, h6"),
        ("POST", "/v1/jobs", start | {"job": f"{mine}.77", "hosts": [*bobs_hosts[:3], "h1"]}, "has not been given h1"),
        ("DELETE", f"/v1/jobs/{name}", None, "another user's"),
        ("DELETE", f"/v1/jobs/{theirs}", None, "another user's"),
        ("POST", f"/v1/jobs/{name}/lease", {}, "another user's"),
        ("PUT", "/v1/patterns/small", profile(4), "administrators"),
    ):
        status, text = asked(BOB, service, method, path, body)
        assert status == 403 and why in text, (method, path, status, text)
    assert service.job_rules() == rules
    status, text = asked(BOB, service, "POST", "/v1/jobs", start | {"job": f"{mine}.77", "hosts": bobs_hosts})
    assert status == 201, text
    assert asked(BOB, service, "DELETE", f"/v1/jobs/{mine}.77")[0] == 200
    times = []
    for _ in range(5):
        began = time.perf_counter()
        found = asyncio.run(in_cluster(cluster, int(mine)))
        times.append(time.perf_counter() - began)
        assert found == Allocation(int(mine), BOB, frozenset(bobs_hosts)), found
    print(f"    asking Slurm for an allocation takes {min(times) * 1e3:.0f} ms (best of 5)", flush=True)
    print(f"    two users: of {name} nothing was taken, ended or stored over by the other one, who has {bobs_name}", flush=True)

    service.stop(9)
    (Path(cluster.dir) / "alice").unlink()
    assert alices.wait(60) == 0, alices.communicate()
    until("Slurm has forgotten the step", lambda: theirs not in cluster.run(["squeue", "-h", "-o", "%A"])[1].split())
    service.start()
    until("the job that ended meanwhile is gone", lambda: [job["job"] for job in service.get("/v1/jobs")] == [bobs_name])
    (Path(cluster.dir) / "bob").unlink()
    assert bobs.wait(60) == 0, bobs.communicate()
    until("no rule is left", lambda: service.job_rules() == 0 and not service.get("/v1/jobs"))
    print("    outage: a job that ended while the manager was down has no routes, one that goes on has them", flush=True)


def seconds(cluster: slurm.Cluster, *more: str) -> float:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        code, text = cluster.run(["srun", f"-n{NODES}", *more, "true"])
        assert code == 0, text
        times.append(time.perf_counter() - began)
    return min(times)


def check_without_manager(cluster: slurm.Cluster, service: Service) -> None:
    with_routes, without = seconds(cluster, "--comm-pattern=shift"), seconds(cluster)
    print(f"    srun of {NODES} tasks: {without * 1e3:.0f} ms, with routes {with_routes * 1e3:.0f} ms (best of 5)", flush=True)
    service.stop()
    code, text = cluster.run(["srun", "-n2", "--comm-pattern=shift", "echo", "it-ran"])
    lines = [line for line in text.splitlines() if "ferrule" in line]
    assert code == 0 and text.count("it-ran") == 2 and len(lines) == 1 and "no manager" in lines[0], text
    print("    without the manager jobs run on default routes and say so in one line", flush=True)


def main() -> None:
    with scheduled(two_level(4, 2, 5), Path(sys.argv[1]).resolve()) as (cluster, service, fabric):
        learned = service.call("PUT", "/v1/patterns/shift", json=profile(NODES))
        assert learned.status_code == 201, learned.text
        check_srun(cluster, service, fabric)
        if (DIST / "bin/mpiexec").exists():
            check_chain(cluster, service, fabric)
        check_refusals(cluster)
        check_sbatch(cluster, service)
        check_users(cluster, service)
        check_without_manager(cluster, service)


if __name__ == "__main__":
    main()
