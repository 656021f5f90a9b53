"""Queues for classes of lanes on real Open vSwitch switches, by OVSDB: set up with a job, removed with the last one, whatever becomes of the manager."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from standing import Service, spec_of

import fabric as ovs
from ferrule_fabric.model.lanes import DSCP
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.queues.classes import QUEUES
from ferrule_fabric.topologies.fat_tree import two_level

RANKS = [f"h{number}" for number in (1, 1, 6, 6, 11, 16)]
TRAFFIC = {"src": [0, 1, 2, 0, 5], "dst": [2, 3, 0, 4, 1], "bytes": [1000, 2000, 3000, 4000, 5000]}
JOB = {"job": "42.0", "hosts": RANKS, "traffic": TRAFFIC, "lanes": "2:segregate"}
SETTLE_S = 60


@pytest.fixture(scope="module")
def service(fabric: ovs.Fabric, paper: Topology, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    one = Service(tmp_path_factory.mktemp("queues"), fabric, paper, "--ovsdb", f"unix:{fabric.directory}/db.sock")
    one.start()
    yield one
    one.stop(signal.SIGKILL)


@pytest.fixture(autouse=True)
def as_before(service: Service) -> Iterator[None]:
    """Whatever came of a test, the next one finds a manager that runs and has no jobs, and switches without queues."""
    yield
    if service.process is None or service.process.poll() is not None:
        service.process = None
        service.start()
    for job in service.get("/v1/jobs"):
        service.call("DELETE", f"/v1/jobs/{job['job']}")
    until(lambda: rows(service.fabric, "QoS") == [])


def until(condition: Callable[[], bool]) -> None:
    """Waits, with a watchdog."""
    deadline = time.monotonic() + SETTLE_S
    while not condition():
        assert time.monotonic() < deadline, "it doesn't come to that"
        time.sleep(0.05)


def rows(fabric: ovs.Fabric, table: str) -> list[dict[str, Any]]:
    """Rows of a table of OVSDB."""
    told = json.loads(fabric.vsctl("--format=json", "list", table))
    return [dict(zip(told["headings"], row)) for row in told["data"]]


def steers(fabric: ovs.Fabric, switch: str) -> dict[int, int]:
    """The queue of each DSCP value at a switch."""
    flows = fabric.ofctl("dump-flows", switch)
    found = re.findall(r"priority=4000,ip,nw_tos=(\d+) actions=set_queue:(\d+),goto_table:1", flows)
    return {int(tos) >> 2: int(queue) for tos, queue in found}


def classes_of(fabric: ovs.Fabric, device: str) -> dict[int, int]:
    """The priority of each HTB class of a device by queue number, as the kernel has them."""
    told = ovs.run(["tc", "-n", fabric.switch_netns, "class", "show", "dev", device])
    return {int(minor, 16) - 1: int(priority) for minor, priority in re.findall(r"class htb 1:([0-9a-f]+) parent 1:fffe .*?prio (\d+)", told)}


def pings(fabric: ovs.Fabric, src: str, dst: str, tos: int = 0) -> bool:
    """Whether packets of a class get through."""
    address = fabric.spec.hosts[dst].ip
    return subprocess.run(fabric.command_in(src, "ping", "-c", "2", "-i", "0.2", "-W", "2", "-Q", str(tos), address), capture_output=True, check=False).returncode == 0


def test_a_job_gets_queues_and_leaves_none(service: Service) -> None:
    fabric = service.fabric
    assert rows(fabric, "QoS") == [] and steers(fabric, "s1-1") == {}
    started = service.call("POST", "/v1/jobs", json=JOB).json()
    assert started["lane_dscp"] == "latency=46,bulk=8" and "queues" not in started
    wanted = {DSCP[name]: QUEUES[name].number for name in ("latency", "bulk")}
    assert all(steers(fabric, switch) == wanted for switch in fabric.spec.switches)
    assert {len(row["queues"][1]) for row in rows(fabric, "QoS")} == {3}
    ports = sum(node in fabric.spec.switches for cable in fabric.spec.cables for node, _ in (cable.a, cable.b))
    status = service.get("/v1/status")["queues"]
    assert status == {"classes": ["latency", "bulk"], "ports": ports, "trouble": {}, "missing": []}
    # What Open vSwitch has made of it in the kernel.
    until(lambda: classes_of(fabric, "c0b") == {QUEUES[name].number: QUEUES[name].priority for name in ("others", "latency", "bulk")})
    for tos in (0, 46 << 2, 8 << 2):
        assert pings(fabric, "h1", "h6", tos)
    for dscp, queue in wanted.items():
        packet = f"in_port=1,dl_type=0x0800,dl_src={fabric.spec.hosts['h1'].mac},dl_dst={fabric.spec.hosts['h6'].mac},nw_src=10.64.0.1,nw_dst=10.64.0.6,nw_proto=6,nw_tos={dscp << 2}"
        told = ovs.run([*fabric._environment(), "ovs-appctl", "-t", f"{fabric.directory}/ovs-vswitchd.ctl", "ofproto/trace", "s1-1", packet])
        # The userspace datapath says the queue's number; that of the kernel would say the HTB class, and send by it.
        assert f"set(skb_priority({queue:#x}))" in told, told
    assert service.call("DELETE", "/v1/jobs/42").json() == {"ended": 1}
    assert rows(fabric, "QoS") == [] and rows(fabric, "Queue") == [] and steers(fabric, "s1-1") == {}
    until(lambda: classes_of(fabric, "c0b") == {})
    assert pings(fabric, "h1", "h6")


def test_the_last_job_that_wants_them_takes_them_away(service: Service) -> None:
    fabric = service.fabric
    service.call("POST", "/v1/jobs", json=JOB)
    second = service.call("POST", "/v1/jobs", json=JOB | {"job": "43.0", "lanes": "auto:segregate:traffic"}).json()
    assert second["lane_dscp"] == "p2p=26,collectives=34,onesided=18"
    assert service.get("/v1/status")["queues"]["classes"] == ["latency", "collectives", "p2p", "onesided", "bulk"]
    assert len(steers(fabric, "s2-1")) == 5 and len(rows(fabric, "Queue")) == 6
    service.call("DELETE", "/v1/jobs/42.0")
    assert len(steers(fabric, "s2-1")) == 3 and len(rows(fabric, "Queue")) == 4
    without = service.call("POST", "/v1/jobs", json=JOB | {"job": "44.0", "lanes": "single"}).json()
    assert "lane_dscp" not in without and "queues" not in without
    service.call("DELETE", "/v1/jobs/43.0")
    assert steers(fabric, "s2-1") == {} and rows(fabric, "Queue") == [] and rows(fabric, "QoS") == []


def test_a_crash_of_the_manager_leaves_no_queues_behind(service: Service) -> None:
    fabric = service.fabric
    assert service.call("POST", "/v1/jobs", json=JOB | {"lease_s": 1}).status_code == 201
    service.stop(signal.SIGKILL)
    held = [row["_uuid"] for row in rows(fabric, "QoS")]
    assert held and len(steers(fabric, "s1-2")) == 2, "jobs go on without a manager"
    service.start()
    until(lambda: rows(fabric, "QoS") == [] and rows(fabric, "Queue") == [])
    until(lambda: all(steers(fabric, switch) == {} for switch in fabric.spec.switches))
    # Queues of a manager whose jobs nobody knows any more.
    service.call("POST", "/v1/jobs", json=JOB)
    service.stop(signal.SIGKILL)
    with sqlite3.connect(service.folder / "store.sqlite") as store:
        store.execute("delete from manager_jobs")
    service.start()
    until(lambda: rows(fabric, "QoS") == [] and steers(fabric, "s1-2") == {})


def test_a_crash_keeps_the_queues_of_jobs_that_run(service: Service) -> None:
    fabric = service.fabric
    service.call("POST", "/v1/jobs", json=JOB)
    held = sorted(str(row["_uuid"]) for row in rows(fabric, "QoS"))
    service.stop(signal.SIGKILL)
    service.start()
    assert service.get("/v1/status")["queues"]["classes"] == ["latency", "bulk"]
    until(lambda: service.get("/v1/status")["queues"]["ports"] > 0)
    assert sorted(str(row["_uuid"]) for row in rows(fabric, "QoS")) == held, "queues that are right aren't made anew"


def test_what_others_have_is_not_touched(service: Service) -> None:
    fabric = service.fabric
    fabric.vsctl("--", "--id=@theirs", "create", "QoS", "type=linux-noop", "--", "set", "port", "c0b", "qos=@theirs")
    try:
        told = service.call("POST", "/v1/jobs", json=JOB).json()
        assert told["pairs"] == 4 and "QoS of somebody else: s1-1 c0b" in told["queues"] and told["lane_dscp"]
        assert "linux-noop" in {row["type"] for row in rows(fabric, "QoS")}
        service.call("DELETE", "/v1/jobs/42.0")
        assert [row["type"] for row in rows(fabric, "QoS")] == ["linux-noop"]
        assert fabric.vsctl("get", "port", "c0b", "qos").strip() != "[]"
    finally:
        fabric.vsctl("clear", "port", "c0b", "qos")
        fabric.vsctl("--all", "destroy", "QoS")


def test_queues_that_somebody_spoils_are_mended(service: Service) -> None:
    fabric = service.fabric
    service.call("POST", "/v1/jobs", json=JOB)
    for row in rows(fabric, "QoS"):
        fabric.vsctl("set", "QoS", row["_uuid"][1], "other_config:max-rate=1")
    again = service.call("POST", "/v1/jobs", json=JOB | {"job": "43.0", "lanes": "2"}).json()
    assert again["lane_dscp"] == "share0=3,share1=7"
    assert len(rows(fabric, "Queue")) == 5
    service.call("DELETE", "/v1/jobs/43.0")
    assert len(rows(fabric, "Queue")) == 3


def test_routes_move_to_another_table_and_back(service: Service, paper: Topology, tmp_path: Path) -> None:
    fabric = service.fabric
    job = JOB | {"lanes": "single"}
    service.call("POST", "/v1/jobs", json=job)
    rules = service.job_rules()
    more, service.more = service.more, ()
    try:
        for options, table, count in (((), 0, 0), (more, 1, 1)):
            service.stop(signal.SIGKILL)
            service.more = options
            service.start()
            assert pings(fabric, "h1", "h6") and service.job_rules() == rules
            flows = fabric.ofctl("dump-flows", "s1-1")
            until(lambda: len(re.findall(rf"table={1 - table}, ", fabric.ofctl("dump-flows", "s1-1"))) == (count if table else 0))  # noqa: B023
            assert f"table={table}, " in flows
    finally:
        service.more = more
    service.call("DELETE", "/v1/jobs/42.0")


def test_lanes_of_a_job_without_a_pattern_get_queues(service: Service) -> None:
    body = {"job": "45.0", "hosts": RANKS, "pattern": "nobody-knows", "lanes": "4:distribute"}
    told = service.call("POST", "/v1/jobs", json=body).json()
    assert told["pairs"] == 0 and "nobody-knows" in told["routes"] and told["lane_dscp"] == "share0=3,share1=7,share2=11,share3=15"
    assert len(steers(service.fabric, "s1-1")) == 4
    assert service.call("DELETE", "/v1/jobs/45.0").json() == {"ended": 1} and steers(service.fabric, "s1-1") == {}
    assert service.call("POST", "/v1/jobs", json=body | {"lanes": "single"}).status_code == 404


def test_bad_input_is_told(service: Service, paper: Topology, tmp_path: Path) -> None:
    told = service.call("POST", "/v1/jobs", json=JOB | {"lanes": "17"})
    assert told.status_code == 400 and "1 to 16" in told.text
    for wrong, text in (("here", "is not unix:PATH"), ("ssl:h", "needs our certificate"), ("tcp:h:99999", "is not unix:PATH")):
        other = Service(tmp_path, service.fabric, paper)
        done = subprocess.run(other.command("--ovsdb", wrong), capture_output=True, text=True, timeout=120, check=False, env=other.environment)
        assert done.returncode and text in done.stderr, done.stderr


# A stream of the class bulk through one port, and echoes beside it.
STREAM = "import socket;c=socket.socket();c.setsockopt(0,1,{tos});c.connect(('{address}',5001));b=bytes(1<<16)\nwhile True:c.sendall(b)"
SINK = "import socket;s=socket.create_server(('0.0.0.0',5001));print(flush=True);c,_=s.accept()\nwhile c.recv(1<<16):pass"
MBIT, ECHOES = 20, 60


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two leaves, one spine, two hosts a leaf, whose links the manager says are slow: its queues are what limits them."""
    why = ovs.missing()
    if why:
        pytest.skip(why)
    topology = two_level(2, 1, 2, MBIT * 1e6)
    with ovs.Fabric.up(spec_of(topology)) as standing:
        one = Service(tmp_path_factory.mktemp("slow"), standing, topology, "--ovsdb", f"unix:{standing.directory}/db.sock")
        one.start()
        yield one
        one.stop(signal.SIGKILL)


def echoes_ms(fabric: ovs.Fabric, src: str, dst: str, name: str) -> list[float]:
    """Round trips of packets of a class, sorted."""
    command = fabric.command_in(src, "ping", "-c", str(ECHOES), "-i", "0.05", "-W", "5", "-Q", str(DSCP[name] << 2), fabric.spec.hosts[dst].ip)
    return sorted(float(found) for found in re.findall(r"time=([0-9.]+)", subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout))


def test_small_messages_dont_wait_for_bulk(slow: Service) -> None:
    """The kernel's own datapath sends by the queue of a packet. That of these switches runs in a process and doesn't: filters by DSCP stand in for it."""
    fabric = slow.fabric
    job = {"job": "1.0", "hosts": ["h1", "h3"], "traffic": {"src": [0, 1], "dst": [1, 0], "bytes": [1000, 1000]}, "lanes": "2:segregate"}
    told = slow.call("POST", "/v1/jobs", json=job).json()
    assert "queues" not in told and told["lane_dscp"] == "latency=46,bulk=8"
    devices = [fabric.device(number, end) for number, cable in enumerate(fabric.spec.cables) for end, (node, _) in (("a", cable.a), ("b", cable.b)) if node in fabric.spec.switches]
    until(lambda: all(len(classes_of(fabric, device)) == 3 for device in devices))
    filters = [(device, DSCP[name] << 2, QUEUES[name].number + 1) for device in devices for name in ("latency", "bulk")]
    lines = [f"filter add dev {device} parent 1: protocol ip u32 match ip dsfield {tos:#x} 0xfc flowid 1:{minor:x}" for device, tos, minor in filters]
    ovs.run(["tc", "-n", fabric.switch_netns, "-batch", "-"], "\n".join(lines) + "\n")
    alone = echoes_ms(fabric, "h1", "h3", "latency")
    sink = subprocess.Popen(fabric.command_in("h3", "timeout", "100", "python3", "-c", SINK), stdout=subprocess.PIPE)
    assert sink.stdout is not None
    sink.stdout.readline()
    stream = subprocess.Popen(fabric.command_in("h1", "timeout", "100", "python3", "-c", STREAM.format(tos=DSCP["bulk"] << 2, address=fabric.spec.hosts["h3"].ip)), stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        before, began = fabric.counters()["s1-1", "s2-1"], time.monotonic()
        beside, same = echoes_ms(fabric, "h1", "h3", "latency"), echoes_ms(fabric, "h1", "h3", "bulk")
        rate = (fabric.counters()["s1-1", "s2-1"] - before) * 8e-6 / (time.monotonic() - began)
    finally:
        for process in (stream, sink):
            process.kill()
            process.wait()
    middle = [listed[len(listed) // 2] for listed in (alone, beside, same)]
    print(f"\n    round trip, median of {ECHOES}, in ms: alone {middle[0]:.2f}, latency beside bulk {middle[1]:.2f}, as bulk beside bulk {middle[2]:.2f}; the stream {rate:.1f} of {MBIT} Mb/s")
    assert len(beside) > ECHOES * 3 // 4 and rate > MBIT / 2
    assert middle[1] * 5 < middle[2]
    slow.call("DELETE", "/v1/jobs/1.0")
