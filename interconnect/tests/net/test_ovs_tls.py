"""Real Open vSwitch over TLS: impostors, and hosts that flood the manager with LLDP."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from authority import Authority
from conftest import spec_of
from standing import Service
from test_ovs import Run, controlling

import fabric as ovs
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.session import PACKETS_BURST, PACKETS_PER_S
from ferrule_fabric.topologies.fat_tree import two_level

PORT = 6653
FLOOD = 20_000
JOB = {"job": "42.0", "hosts": ["h1", "h3"], "traffic": {"src": [0, 1], "dst": [1, 0], "bytes": [1000, 2000]}}

# Claims a datapath id, by TLS or not, and says what it is asked for until the connection ends. PORT DPID [AUTHORITY IDENTITY]
IMPOSTOR = """
import socket, ssl, struct, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20)
asked = []
try:
    if len(sys.argv) > 3:
        context = ssl.create_default_context(cafile=sys.argv[3])
        context.check_hostname = False
        context.load_cert_chain(sys.argv[4])
        connection = context.wrap_socket(connection)
    connection.sendall(struct.pack("!BBHI", 4, 0, 8, 1))
    stream = connection.makefile("rb")
    while head := stream.read(8):
        _, kind, length, xid = struct.unpack("!BBHI", head)
        stream.read(length - 8)
        asked.append(kind)
        if kind == 5:
            connection.sendall(struct.pack("!BBHIQIBB2xII", 4, 6, 32, xid, int(sys.argv[2]), 0, 1, 0, 0, 0))
        if kind == 18:
            connection.sendall(struct.pack("!BBHIHH4x", 4, 19, 16, xid, 13, 0))
except OSError:
    pass
print(24 in asked)
"""


@pytest.fixture(scope="module")
def square() -> Topology:
    return two_level(2, 2, 2, 1e9)


@pytest.fixture
def small(square: Topology) -> Iterator[ovs.Fabric]:
    why = ovs.missing()
    if why:
        pytest.skip(why)
    with ovs.Fabric.up(spec_of(square)) as standing:
        yield standing


class Inside(Service):
    """A manager in the switches' network namespace, at a TCP port there."""

    def command(self, *more: str) -> list[str]:
        words = super().command(*more)
        words[words.index("--openflow") + 1] = f"127.0.0.1:{PORT}"
        return ["nsenter", f"--net=/run/netns/{self.fabric.switch_netns}", *words]


def is_obeyed(fabric: ovs.Fabric, *words: str) -> bool:
    """Whether an impostor was asked to obey (OFPT_ROLE_REQUEST), which is what comes before the session is taken for the switch's."""
    command = ["nsenter", f"--net=/run/netns/{fabric.switch_netns}", sys.executable, "-c", IMPOSTOR, str(PORT), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == "True\n"


def test_impostors_and_switches_with_certificates(small: ovs.Fabric, square: Topology, tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours").make(), Authority(tmp_path, "theirs").make()
    switches = list(small.spec.switches.items())
    # One Open vSwitch has one certificate for all its bridges; here all but the last one.
    identity = ours.issue(f"{switches[0][1]:016x} id:1", dns=[name for name, _ in switches[1:-1]])
    manager = str(ours.issue("manager"))
    small.vsctl("set-ssl", str(identity), str(identity), str(ours.certificate))
    for name, _ in switches:
        small.vsctl("set-controller", name, f"ssl:127.0.0.1:{PORT}", "--", "set", "controller", name, "max_backoff=1000")
    service = Inside(tmp_path, small, square, "--openflow-certificate", manager, "--openflow-key", manager, "--openflow-switches", str(ours.certificate))
    try:
        with pytest.raises(AssertionError, match="certificate is for"):
            service.start(patience_s=20)
        assert service.get("/v1/status")["missing"] == [switches[-1][0]]
        small.vsctl("set-ssl", *[str(ours.issue("all", dns=[name for name, _ in switches]))] * 2, str(ours.certificate))
        service.stop(signal.SIGKILL)
        service.start()
        assert service.call("POST", "/v1/jobs", json=JOB).status_code == 201
        rules = service.job_rules()
        assert rules > 0
        claimed = str(switches[0][1])
        for more in ([], [str(ours.certificate), str(theirs.issue("all"))], [str(ours.certificate), str(ours.issue(switches[1][0]))]):
            assert not is_obeyed(small, claimed, *more), more
        status = service.get("/v1/status")
        assert status["connected"] == len(switches) and service.job_rules() == rules
        # The holder of the right certificate is believed, so what is above can fail.
        assert is_obeyed(small, claimed, str(ours.certificate), str(ours.issue(switches[0][0])))
    finally:
        service.stop(signal.SIGKILL)


def test_plain_tcp_is_for_listed_addresses_and_evicts_nobody(small: ovs.Fabric, square: Topology, tmp_path: Path) -> None:
    for name in small.spec.switches:
        small.vsctl("set-controller", name, f"tcp:127.0.0.1:{PORT}")
    service = Inside(tmp_path, small, square, "--openflow-plain", "127.0.0.1")
    try:
        service.start()
        assert not is_obeyed(small, str(next(iter(small.spec.switches.values()))))
        assert service.get("/v1/status")["connected"] == len(small.spec.switches)
        service.stop()
        service.more = ("--openflow-plain", "10.0.0.0/8")
        with pytest.raises(AssertionError, match="isn't in --openflow-plain"):
            service.start(patience_s=15)
    finally:
        service.stop(signal.SIGKILL)


def test_a_host_floods_the_manager_with_lldp(small: ovs.Fabric, square: Topology, run: Run) -> None:
    flood = f"""
import socket, time
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("eth0", 0))
packet = bytes.fromhex("0180c200000e 02fe44000000 88cc") + bytes(60)
for _ in range({FLOOD}):
    out.send(packet)
"""

    async def work() -> None:
        async with controlling(small, square) as controller:
            leaf = square.switches[0].name
            assert "meter:65092" in small.ofctl("dump-flows", leaf, "dl_type=0x88cc") and f"rate={PACKETS_PER_S}" in small.ofctl("dump-meters", leaf)
            before, began = controller.events.counts.get("packets_in", 0), asyncio.get_running_loop().time()
            sending = await asyncio.create_subprocess_exec(*small.command_in("h1", sys.executable, "-c", flood))
            assert await asyncio.wait_for(sending.wait(), 60) == 0
            await asyncio.sleep(1)
            came = controller.events.counts["packets_in"] - before
            seconds = asyncio.get_running_loop().time() - began
            # What links say to each other comes on top; of the flood without a meter nearly all would.
            assert came <= 2 * (PACKETS_BURST + PACKETS_PER_S * seconds) < FLOOD / 2, (came, seconds)
            dropped = re.search(r"0:\s*packet_count:(\d+)", small.ofctl("meter-stats", leaf))
            assert dropped and int(dropped[1]) > FLOOD / 2, small.ofctl("meter-stats", leaf)
            print(f"\n    of {FLOOD} LLDP packets {came} came to the manager in {seconds:.1f} s")
            # Links are still known, and switches obey.
            assert controller.discovery.differences(square) == [] and len(controller.sessions) == len(square.switches)

    run(work())
