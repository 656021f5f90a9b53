"""How much processor time allocation and simulation take; writes docs/performance/interconnect-scale.json. Kernels are compiled before anything is timed.

Usage: scale.py [output.json]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing.allocate import flow_paths
from ferrule_fabric.routing.fabric import fabric_of
from ferrule_fabric.simulate.cells import simulated
from ferrule_fabric.simulate.scenario import Scenario, scenario_from_yaml
from ferrule_fabric.topologies.spec import topology_of

SMALL = """
version: 1
topologies: ["two-level:leaves=4,spines=2,hosts=5"]
patterns: ["cg:ranks=128,bytes=1e7"]
ranks_per_host: 8
"""
LARGE = """
version: 1
topologies: ["fat-tree:k=34"]
patterns: ["uniform:ranks=78000,peers=13"]
ranks_per_host: 8
paths_max: 8
"""


def scenario_s(scenario: Scenario, repeats: int) -> tuple[float, int, int]:
    """(seconds per cell at best, hosts, flows)."""
    best = np.inf
    for _ in range(repeats):
        begin = time.process_time()
        cells = [cell for cell, _, _ in simulated(scenario)]
        best = min(best, (time.process_time() - begin) / len(cells))
    return best, cells[0].hosts, cells[0].flows


def allocation_s(flows: int) -> list[dict[str, Any]]:
    """Times to allocate random flows on a fat tree of 1,024 hosts."""
    topology = topology_of("fat-tree:k=16")
    generator = np.random.default_rng(1)
    ends = generator.integers(0, topology.host_count, (2, flows))
    demands = Demands.of_pairs(topology.host_count, ends[0], ends[1], generator.exponential(1e6, flows) + 1)
    rows = []
    for routing in ("d-mod-k", "greedy", "ferrule"):
        begin = time.process_time()
        flow_paths(fabric_of(topology), demands, routing)
        rows.append({"what": f"allocate {routing}, 1,024 hosts", "hosts": topology.host_count, "flows": demands.count, "seconds": time.process_time() - begin})
    return rows


def main() -> None:
    """Measures and writes the file."""
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs/performance/interconnect-scale.json"
    small = scenario_from_yaml(SMALL)
    scenario_s(small, 1)
    rows: list[dict[str, Any]] = []
    for what, scenario, repeats in (("simulate, 20 hosts, 128 ranks", small, 5), ("simulate, 9,826 hosts, 78,000 ranks", scenario_from_yaml(LARGE), 1)):
        seconds, hosts, flows = scenario_s(scenario, repeats)
        rows.append({"what": what, "hosts": hosts, "flows": flows, "seconds": seconds})
    rows += allocation_s(100_000)
    output.write_text(json.dumps({"version": 1, "rows": rows}, indent=1) + "\n")
    for row in rows:
        print(f"{row['what']:<40} {row['flows']:>9} flows {row['seconds']:.4f} s")


if __name__ == "__main__":
    main()
