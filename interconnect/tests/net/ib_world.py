"""OpenSM on the simulator ibsim takes the files that ``ferrule-fabric infiniband`` writes: every switch then forwards as planned and has the tables of lanes,
as standard tools read them. Runs in namespaces of its own and raises where something is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from ibsim_net import net_file

from ferrule_fabric.infiniband.tables import Tables, base_lids, forwarding_tables, lids_from_ibnetdiscover
from ferrule_fabric.model.documents import plan_to_json
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.openflow.splits import heaviest
from ferrule_fabric.routing.allocate import allocate
from ferrule_fabric.topologies.fat_tree import two_level
from ferrule_fabric.topologies.ibnetdiscover import from_ibnetdiscover

LMC, START_S = 1, 60
CLASSES = 3


class Subnet:
    """ibsim with the topology, and the programs that see it as their network."""

    def __init__(self, folder: Path, topology: Topology) -> None:
        self.folder = folder
        (folder / "net").write_text(net_file(topology))
        self.simulator = subprocess.Popen(["ibsim", "-s", str(folder / "net")], stdin=subprocess.PIPE, stdout=open(folder / "log", "wb"), stderr=subprocess.STDOUT)
        self.environment = dict(os.environ, SIM_HOST=topology.hosts[0].name, OSM_TMP_DIR=str(folder), OSM_CACHE_DIR=str(folder), PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
        deadline = time.monotonic() + START_S
        while b"simulator ready" not in (folder / "log").read_bytes():
            assert self.simulator.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)

    def run(self, *command: str) -> str:
        done = subprocess.run(["ibsim-run", *command], env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def sweep(self, options: Path) -> None:
        """One run of OpenSM with the options of a file."""
        self.run("opensm", "-F", str(options), "-o", "-f", str(self.folder / "osm.log"))

    def serving(self, options: Path) -> subprocess.Popen[bytes]:
        """OpenSM that stays and answers questions for paths."""
        log, flushing = self.folder / "osm-stays.log", self.folder / "options"
        flushing.write_text(options.read_text() + "force_log_flush TRUE\n")
        process = subprocess.Popen(["ibsim-run", "opensm", "-F", str(flushing), "-f", str(log)], env=self.environment, cwd=self.folder, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while not log.exists() or b"SUBNET UP" not in log.read_bytes():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text() if log.exists() else "OpenSM writes no log"
            time.sleep(0.05)
        return process


def held(dump: str) -> dict[int, dict[int, int]]:
    """The tables that the switches have, by GUID."""
    tables: dict[int, dict[int, int]] = {}
    guid = 0
    for line in dump.splitlines():
        if found := re.search(r"guid 0x([0-9a-f]+) \(", line):
            guid = int(found[1], 16)
            tables[guid] = {}
        elif found := re.match(r"0x([0-9a-f]+) (\d+) :", line):
            tables[guid][int(found[1], 16)] = int(found[2])
    return tables


def check_paths(subnet: Subnet, topology: Topology, tables: Tables, base: dict[int, int], paths: dict[tuple[str, str], tuple[int, ...]]) -> int:
    """Routes that ibtracert walks, against the plan's."""
    count = 0
    for pair in list(paths)[:: max(1, len(paths) // 12)]:
        if pair in tables.left_out:
            continue
        told = subnet.run("ibtracert", str(base[topology.node_index[pair[0]]]), str(tables.lid_of[pair]))
        walked = re.findall(r'-> (?:switch|ca|\w+) port \{[^}]*\}\[\d+\] lid [\d-]+ "([^"]*)"', told)
        assert walked and walked == list(topology.path_nodes(paths[pair])[1:]), f"{pair}: {told}"
        count += 1
    return count


def command(*arguments: str) -> str:
    """What ferrule-fabric prints; raises what it refuses."""
    done = subprocess.run([sys.executable, "-c", "from ferrule_fabric.cli import main; main()", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


def check_lanes(subnet: Subnet, topology: Topology, base: dict[int, int], document: dict[str, Any]) -> int:
    """Tables of lanes as smpquery reads them from every port that is cabled, against the document; how many tables."""
    count = 0
    for node, name in enumerate(topology.node_names):
        ports = {link.a_port if link.a == name else link.b_port for link in topology.links if name in (link.a, link.b)}
        for port in sorted(int(port or 0) for port in ports)[:2]:
            told = subnet.run("smpquery", "sl2vl", str(base[node]), str(port))
            rows = [[int(word) for word in re.findall(r"\d+", line.rpartition(":")[2])] for line in told.splitlines() if line.startswith("ports")]
            assert rows and all(row[-16:] == document["sl2vl"] for row in rows), f"{name} port {port}: {told}"
            told = subnet.run("smpquery", "vlarb", str(base[node]), str(port)).lower()
            _, _, tables = told.partition("low priority")
            low, found, high = tables.partition("high priority")
            assert found, told
            for text, table in ((document["vlarb_high"], high), (document["vlarb_low"], low)):
                wanted = [tuple(map(int, entry.split(":"))) for entry in text.split(",")]
                numbers = [[int(word, 16) for word in re.findall(r"0x[0-9a-f]+", line)] for line in table.splitlines() if line.startswith(("vl ", "weight"))]
                assert numbers and len(numbers) % 2 == 0, told
                entries = [entry for vls, weights in zip(numbers[::2], numbers[1::2]) for entry in zip(vls, weights)]
                assert [entry for entry in entries if entry[1]] == [entry for entry in wanted if entry[1]], f"{name} port {port}: {told}"
            # ibsim's ports don't keep the limit of the high-priority table.
            count += len(rows) + 1
    return count


def check_paths_served(subnet: Subnet, base: dict[int, int], document: dict[str, Any]) -> None:
    """Whoever asks OpenSM for a path of a QoS class gets the class's service level; without one, that of others."""
    levels = {0: 0} | {entry["service_level"]: entry["service_level"] for name, entry in document["classes"].items() if name != "others"}
    assert len(levels) == CLASSES
    for qos_class, wanted in levels.items():
        told = subnet.run("saquery", "PathRecord", "--slid", str(base[0]), "--dlid", str(base[1]), *(["--qos_class", str(qos_class)] if qos_class else []))
        found = re.findall(r"^\s*sl\.+\s*(?:0x)?([0-9a-f]+)", told, re.MULTILINE)
        assert found and all(int(sl, 16) == wanted for sl in found), f"QoS class {qos_class}: {told}"


def vls_of(subnet: Subnet, lid: int) -> str:
    """How many data VLs a switch has."""
    found = re.search(r"VLCap:\.*(VL0(?:-(\d+))?)", subnet.run("smpquery", "portinfo", str(lid), "1"))
    assert found, "no VLCap"
    return str(int(found[2] or 0) + 1)


def main() -> None:
    generated = two_level(4, 2, 5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subnet = Subnet(folder, generated)
        (folder / "first").write_text(f"lmc {LMC}\n")
        subnet.sweep(folder / "first")
        listing = subnet.run("ibnetdiscover")
        (folder / "listing").write_text(listing)
        topology = from_ibnetdiscover(listing)
        lids = lids_from_ibnetdiscover(listing)
        base = base_lids(topology, lids)
        rng = np.random.default_rng(1)
        hosts = topology.host_count
        src = np.repeat(np.arange(hosts), 4)
        dst = (src + rng.integers(1, hosts, src.size)) % hosts
        plan = allocate(topology, Demands.of_pairs(hosts, src, dst, rng.integers(1, 100, src.size)))
        tables = forwarding_tables(topology, plan, base, lids.lmc)
        (folder / "plan.json").write_text(plan_to_json(plan))
        written = folder / "written"
        vls = vls_of(subnet, base[hosts])
        told = command("infiniband", str(folder / "plan.json"), "--ibnetdiscover", str(folder / "listing"), "--folder", str(written), "--lanes", "2:segregate", "--vls", vls)
        document = json.loads((written / "lanes.json").read_text())
        opensm = subnet.serving(written / "opensm.conf")
        found = held(subnet.run("dump_lfts"))
        for node, ports in tables.ports.items():
            switch = topology.switches[node - hosts]
            assert found[int(switch.guid or 0)] == ports, f"{switch.name}: {found[int(switch.guid or 0)]} instead of {ports}"
        walked = check_paths(subnet, topology, tables, base, {pair: heaviest(route) for pair, route in plan})
        lanes = check_lanes(subnet, topology, base, document)
        check_paths_served(subnet, base, document)
        (written / "lfts").write_text(subnet.run("dump_lfts"))
        checked = command("infiniband-check", str(written), "--ibnetdiscover", str(folder / "listing"))
        opensm.kill()
        opensm.wait()
        print(f"    {told.splitlines()[0]}\n    {len(tables.ports)} tables as planned, {walked} routes walked, {lanes} tables of lanes read back, ports with {vls} VLs", flush=True)
        print(f"    of what the switches hold: {checked.strip()}", flush=True)
        subnet.simulator.kill()


if __name__ == "__main__":
    main()
