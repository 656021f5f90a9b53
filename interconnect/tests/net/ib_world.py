"""OpenSM on the simulator ibsim takes our tables: every switch then forwards as planned. Runs in namespaces of its own and raises where something is wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from ibsim_net import net_file

from ferrule_fabric.infiniband.opensm import lft_file, options, sl2vl
from ferrule_fabric.infiniband.tables import Tables, base_lids, forwarding_tables, lids_from_ibnetdiscover
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.openflow.splits import heaviest
from ferrule_fabric.routing.allocate import allocate
from ferrule_fabric.topologies.fat_tree import two_level
from ferrule_fabric.topologies.ibnetdiscover import from_ibnetdiscover

LMC, LANES, START_S = 1, 4, 60


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

    def sweep(self, text: str) -> None:
        """One run of OpenSM with these options."""
        (self.folder / "options").write_text(text)
        self.run("opensm", "-F", str(self.folder / "options"), "-o", "-f", str(self.folder / "osm.log"))


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


def main() -> None:
    generated = two_level(4, 2, 5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subnet = Subnet(folder, generated)
        subnet.sweep(f"lmc {LMC}\n")
        listing = subnet.run("ibnetdiscover")
        topology = from_ibnetdiscover(listing)
        lids = lids_from_ibnetdiscover(listing)
        base = base_lids(topology, lids)
        rng = np.random.default_rng(1)
        hosts = topology.host_count
        src = np.repeat(np.arange(hosts), 4)
        dst = (src + rng.integers(1, hosts, src.size)) % hosts
        plan = allocate(topology, Demands.of_pairs(hosts, src, dst, rng.integers(1, 100, src.size)))
        tables = forwarding_tables(topology, plan, base, lids.lmc)
        (folder / "lfts").write_text(lft_file(topology, tables))
        weights = [10, 20, 30, 40]
        subnet.sweep(options(LANES, weights, str(folder / "lfts"), LMC))
        found = held(subnet.run("dump_lfts"))
        for node, ports in tables.ports.items():
            switch = topology.switches[node - hosts]
            assert found[int(switch.guid or 0)] == ports, f"{switch.name}: {found[int(switch.guid or 0)]} instead of {ports}"
        paths = {pair: heaviest(route) for pair, route in plan}
        walked = check_paths(subnet, topology, tables, base, paths)
        lane = subnet.run("smpquery", "sl2vl", str(base[hosts]), "1")
        numbers = [int(word) for word in re.findall(r"\d+", lane.splitlines()[-1].partition(":")[2])]
        assert numbers[-16:] == list(sl2vl(LANES)), lane
        shares = subnet.run("smpquery", "vlarb", str(base[hosts]), "1")
        low = shares.lower().partition("low")[2]
        for lane_number, weight in enumerate(weights):
            assert re.search(rf"0x{lane_number:x}\s*\|", low) and re.search(rf"0x{weight:x}\s*\|", low), shares
        print(f"    {len(tables.ports)} tables as planned, {walked} routes walked, {len(plan)} pairs of which {len(tables.left_out)} fit no tree at LMC {LMC}", flush=True)
        subnet.simulator.kill()


if __name__ == "__main__":
    main()
