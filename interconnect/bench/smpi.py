"""Compares the simulator's times with SimGrid's SMPI, which runs an MPI program: matching, rendezvous, waiting and barriers beside the fluid network.

A program's phases are played with one message per pair of hosts (what the simulator takes for a flow) and with one per pair of ranks, over the same
explicit routes. Needs Debian's libsimgrid-dev (`smpicc`, `smpirun`); ends with status 0 and a line that says so where it is missing.
Usage: smpi.py [output.json]    writes docs/performance/interconnect-smpi.json; status 1 when a difference of the first kind is above 5%
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ferrule_fabric.model.topology import Topology
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.placing.place import hosts_needed, placed
from ferrule_fabric.placing.select import selected
from ferrule_fabric.routing.allocate import flow_paths
from ferrule_fabric.routing.fabric import Fabric, fabric_of
from ferrule_fabric.routing.fairness import full_paths
from ferrule_fabric.routing.flow_paths import FlowPaths
from ferrule_fabric.routing.timed import phases_time_s
from ferrule_fabric.topologies.spec import topology_of

HERE = Path(__file__).resolve().parent
NETWORKS = ("two-level:leaves=4,spines=2,hosts=5", "fat-tree:k=4,oversubscription=2.5", "torus:size=4x4,hosts=1")
PATTERNS = ("cg:ranks=128,bytes=1e8", "mg:ranks=128,bytes=1e8", "stencil2d:ranks=128,bytes=1e8", "stencil3d:ranks=128,bytes=1e8", "uniform:ranks=128,bytes=1e8,peers=2")
PLACEMENTS = ("block", "cyclic")
ROUTINGS = ("d-mod-k", "ferrule")
LIMIT = 0.05
# With latencies SimGrid's flows share a link in inverse proportion to theirs, as TCP does; the simulator's share equally.
LATENCY_S = 0
# The plain fluid network: no factors for latency, bandwidth, window or acknowledgements; computation takes no time.
MODEL = ("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/bandwidth-factor:1", "network/latency-factor:1", "smpi/os:0:0:0", "smpi/or:0:0:0", "smpi/ois:0:0:0")
RUN = ("smpi/simulate-computation:no", "smpi/privatization:no", "smpi/shared-malloc:global", "smpi/shared-malloc-blocksize:268435456", "smpi/display-timing:no")
Message = tuple[int, int, int, int]


def missing() -> str | None:
    """Why there is no SMPI here, or None."""
    return None if shutil.which("smpicc") and shutil.which("smpirun") else "no smpicc and smpirun (package libsimgrid-dev)"


def built(folder: Path) -> Path:
    """The program, made in a folder."""
    program = folder / "smpi_phases"
    subprocess.run(["smpicc", "-O1", "-o", program, HERE / "smpi_phases.c"], check=True, timeout=120, capture_output=True)
    return program


def platform(topology: Topology, fabric: Fabric, demands: Demands, paths: FlowPaths) -> str:
    """SimGrid's description: every arc is a link, every pair of hosts has its route; pairs that send nothing (barriers do) go by one fast link."""
    lines = ["<?xml version='1.0'?>", '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">', '<platform version="4.1">', '<zone id="fabric" routing="Full">']
    names = [host.name for host in topology.hosts]
    lines += [f'<host id="{name}" speed="1Gf"/>' for name in names]
    lines += [f'<link id="a{arc}" bandwidth="{1.0 / seconds:.17g}Bps" latency="{LATENCY_S}s"/>' for arc, seconds in enumerate(fabric.seconds_per_byte)]
    lines.append(f'<link id="fast" bandwidth="1e15Bps" latency="{LATENCY_S}s" sharing_policy="FATPIPE"/>')
    first, arcs = full_paths(fabric, demands, paths)
    links = {(int(demands.src[paths.demand[j]]), int(demands.dst[paths.demand[j]])): [f"a{arc}" for arc in arcs[first[j] : first[j + 1]]] for j in range(paths.count)}
    for src, source in enumerate(names):
        for dst, target in enumerate(names):
            used = "".join(f'<link_ctn id="{link}"/>' for link in links.get((src, dst), ["fast"]))
            lines.append(f'<route src="{source}" dst="{target}" symmetrical="NO">{used}</route>')
    return "\n".join([*lines, "</zone>", "</platform>"]) + "\n"


def played_s(program: Path, described: str, hosts: Sequence[str], messages: Sequence[Message]) -> float:
    """How long the messages take, with the host of each rank."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "platform.xml").write_text(described)
        (folder / "hosts").write_text("\n".join(hosts) + "\n")
        (folder / "messages").write_text("".join(" ".join(map(str, message)) + "\n" for message in messages))
        command: list[str | Path] = ["smpirun", "-quiet", "-np", str(len(hosts)), "-platform", folder / "platform.xml", "-hostfile", folder / "hosts"]
        done = subprocess.run([*command, *(f"--cfg={one}" for one in (*MODEL, *RUN)), "--log=root.thres:critical", program, folder / "messages"], capture_output=True, text=True, timeout=300)
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(f"smpirun: status {done.returncode}, {done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def compared(program: Path, topology_spec: str, pattern_spec: str, placement: str, routing: str) -> dict[str, Any]:
    """Time of one iteration by the simulator and by SMPI, with a message per pair of hosts and with one per pair of ranks."""
    topology, pattern = topology_of(topology_spec), pattern_of(pattern_spec)
    fabric = fabric_of(topology)
    where = placed(topology, pattern.total, selected(topology, hosts_needed(pattern.ranks, 8), "first"), 8, placement, 1)
    total = Demands.of_traffic(pattern.total, where, topology)
    traffics = [phase.traffic for phase in pattern.phases]
    phases = [Demands.of_traffic(traffic, where, topology) for traffic in traffics]
    paths = flow_paths(fabric, total, routing)
    described = platform(topology, fabric, total, paths)
    by_host = [(f, int(s), int(d), round(b)) for f, phase in enumerate(phases) for s, d, b in zip(phase.src, phase.dst, phase.bytes)]
    by_rank = [(f, int(s), int(d), round(b)) for f, one in enumerate(traffics) for s, d, b in zip(one.src, one.dst, one.bytes) if where.hosts[s] != where.hosts[d]]
    ours = phases_time_s(fabric, total, phases, paths, 0.001)
    hosts = played_s(program, described, [host.name for host in topology.hosts], by_host)
    ranks = played_s(program, described, where.hosts, by_rank)
    key = {"topology": topology_spec, "pattern": pattern_spec, "placement": placement, "routing": routing, "phases": len(phases), "messages": len(by_rank)}
    return {**key, "ours_s": ours, "smpi_s": hosts, "smpi_ranks_s": ranks}


def main() -> None:
    """Plays all cases and prints the differences."""
    why = missing()
    if why:
        print(f"skipped: {why}")
        return
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[1] / "docs/performance/interconnect-smpi.json"
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder))
        rows = [compared(program, t, p, place, r) for t in NETWORKS for p in PATTERNS for place in PLACEMENTS for r in ROUTINGS]
    output.write_text(json.dumps({"version": 1, "rows": rows}, indent=1) + "\n")
    worst, ranks = (max(abs(row["ours_s"] / row[kind] - 1) for row in rows) for kind in ("smpi_s", "smpi_ranks_s"))
    print(f"{len(rows)} cases: times differ by at most {worst:.2%} with a message per pair of hosts, {ranks:.2%} with one per pair of ranks")
    sys.exit(worst > LIMIT)


if __name__ == "__main__":
    main()
