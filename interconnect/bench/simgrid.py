"""Compares the simulator's fluid model with SimGrid's on small cases, phase by phase; writes docs/performance/interconnect-simgrid.json.

Needs Debian's libsimgrid-dev and a C++ compiler; ends with status 0 and a line that says so where they are missing.
Usage: simgrid.py [output.json]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ferrule_fabric.model.topology import FloatArray
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.placing.place import hosts_needed, placed
from ferrule_fabric.placing.select import selected
from ferrule_fabric.routing.allocate import flow_paths
from ferrule_fabric.routing.fabric import Fabric, fabric_of
from ferrule_fabric.routing.fairness import finish_times_s, full_paths
from ferrule_fabric.routing.flow_paths import FlowPaths
from ferrule_fabric.topologies.spec import topology_of

NETWORKS = ("two-level:leaves=4,spines=2,hosts=5", "fat-tree:k=4,oversubscription=2.5", "torus:size=4x4,hosts=1")
PATTERNS = ("cg:ranks=128,bytes=1e8", "mg:ranks=128,bytes=1e8", "stencil2d:ranks=128,bytes=1e8", "uniform:ranks=128,bytes=1e8,peers=2")
PLACEMENTS = ("block", "cyclic")
ROUTINGS = ("d-mod-k", "ferrule")
TOLERANCE = 0.001


def finish_times_in_simgrid_s(program: Path, fabric: Fabric, demands: Demands, paths: FlowPaths) -> FloatArray:
    """When each path's flow finishes in SimGrid, seconds."""
    first, arcs = full_paths(fabric, demands, paths)
    lines = [f"link {capacity:.17g}" for capacity in 1.0 / fabric.seconds_per_byte]
    lines += [f"flow {demands.bytes[paths.demand[j]]:.0f} " + " ".join(map(str, arcs[first[j] : first[j + 1]].tolist())) for j in range(paths.count)]
    with tempfile.NamedTemporaryFile("w", suffix=".flows") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        done = subprocess.run([program, file.name, "--log=root.thres:critical"], check=True, capture_output=True, text=True, timeout=300)
    return np.array([float(line) for line in done.stdout.split()])


def compared(program: Path, topology_spec: str, pattern_spec: str, placement: str, routing: str) -> dict[str, Any]:
    """Largest finishing time by both, and the mean difference of the finishing times of single flows, of one iteration in one phase."""
    topology = topology_of(topology_spec)
    fabric, traffic = fabric_of(topology), pattern_of(pattern_spec).total
    where = placed(topology, traffic, selected(topology, hosts_needed(traffic.ranks, 8), "first"), 8, placement, 1)
    demands = Demands.of_traffic(traffic, where, topology)
    paths = flow_paths(fabric, demands, routing)
    first, arcs = full_paths(fabric, demands, paths)
    ours = finish_times_s(first, arcs, demands.bytes[paths.demand], np.ones(paths.count), 1.0 / fabric.seconds_per_byte, TOLERANCE)
    theirs = finish_times_in_simgrid_s(program, fabric, demands, paths)
    key = {"topology": topology_spec, "pattern": pattern_spec, "placement": placement, "routing": routing, "flows": paths.count}
    return {**key, "ours_s": float(ours.max()), "simgrid_s": float(theirs.max()), "mean_difference": float(np.mean(np.abs(ours - theirs) / theirs))}


def main() -> None:
    """Builds the program, runs all cases, prints the largest difference; status 1 when it is above 5%."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None or not Path("/usr/include/simgrid/s4u.hpp").exists():
        print("skipped: libsimgrid-dev or a C++ compiler is not installed")
        return
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs/performance/interconnect-simgrid.json"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "simgrid_flows"
        subprocess.run([compiler, "-std=c++17", "-O1", "-o", program, Path(__file__).with_name("simgrid_flows.cpp"), "-lsimgrid"], check=True, timeout=300)
        rows = [compared(program, t, p, place, r) for t in NETWORKS for p in PATTERNS for place in PLACEMENTS for r in ROUTINGS]
    output.write_text(json.dumps({"version": 1, "rows": rows}, indent=1) + "\n")
    worst = max(abs(row["ours_s"] / row["simgrid_s"] - 1) for row in rows)
    print(f"{len(rows)} cases: finishing times differ by at most {worst:.2%}")
    sys.exit(worst > 0.05)


if __name__ == "__main__":
    main()
