"""A standing fabric with its manager: real Open vSwitch switches (testbeds/ovs) built from a topology, and ``ferrule-fabric serve`` as a process.

For the tests with real switches, the experiments and the demonstration. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "testbeds/ovs"))

import fabric as ovs
from ferrule_fabric.manager.address import client_of
from ferrule_fabric.model.documents import topology_to_json
from ferrule_fabric.model.topology import Topology
from spec import Cable, Host, Spec

# Watchdogs, for busy machines.
START_S, STOP_S, ANSWER_S = 300, 60, 120
PORT_MIN, PORTS = 10_000, 10_000


def spec_of(topology: Topology, limited: bool = False) -> Spec:
    """What the testbed is to build for a topology; ``limited`` makes its links as slow as the topology says."""
    switches = {switch.name: int(switch.dpid or 0) for switch in topology.switches}
    hosts = {host.name: Host(str(host.mac), str(host.ipv4)) for host in topology.hosts}
    cables = []
    for link in topology.links:
        ends = [(name, 0 if name in hosts else int(port or 0)) for name, port in ((link.a, link.a_port), (link.b, link.b_port))]
        cables.append(Cable(ends[0], ends[1], link.capacity_bps / 1e6 if limited else None))
    return Spec(switches, hosts, tuple(cables))


def free_port() -> int:
    """A TCP port nobody listens at, and none that the system gives to whoever dials out meanwhile."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", PORT_MIN + secrets.randbelow(PORTS)))
            return int(probe.getsockname()[1])


class Service:
    """``ferrule-fabric serve`` as a process of its own. ``more`` are further options."""

    def __init__(self, folder: Path, fabric: ovs.Fabric, topology: Topology, *more: str) -> None:
        self.folder, self.fabric, self.more = folder, fabric, more
        (folder / "topology.json").write_text(topology_to_json(topology))
        self.api = f"unix:{folder}/api.sock"
        self.log = folder / "log"
        self.environment = dict(os.environ)
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *more: str) -> list[str]:
        """The command line of a manager of this fabric and store."""
        store = f"sqlite:///{self.folder}/store.sqlite"
        # The command itself, without the imports of all others that `ferrule-fabric` makes.
        main = [sys.executable, "-c", "from ferrule_fabric.commands.serve import serve; serve()"]
        openflow = f"unix:{self.fabric.controller_socket}"
        return [*main, "--topology", f"file:{self.folder}/topology.json", "--store", store, "--api", self.api, "--openflow", openflow, *self.more, *more]

    def start(self, patience_s: float = START_S) -> None:
        """Start it and wait until all switches have their default routes. Raises `AssertionError` with the log's end where that takes too long."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(), stderr=log, stdout=log, env=self.environment)
        deadline = time.monotonic() + patience_s
        nudged = False
        while True:
            try:
                if self.get("/healthz")["ready"]:
                    return
                if not nudged:
                    self.fabric.reconnect()
                    nudged = True
            except httpx.HTTPError:
                pass
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it by a signal; nothing if it doesn't run."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=STOP_S)
            self.process = None

    def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request."""
        with client_of(self.api, timeout_s=ANSWER_S) as client:
            return client.request(method, path, **more)

    def get(self, path: str) -> Any:
        """The JSON of a GET."""
        return self.call("GET", path).json()

    def rules(self) -> int:
        """Rules of ours on all switches."""
        return "".join(self.fabric.ofctl("dump-flows", name) for name in self.fabric.spec.switches).count("cookie=0xfe44")

    def job_rules(self) -> int:
        """Rules on all switches that aren't the fabric's own."""
        tables = "".join(self.fabric.ofctl("dump-flows", name) for name in self.fabric.spec.switches)
        return tables.count("cookie=0xfe44") - tables.count("cookie=0xfe44000000000000,")
