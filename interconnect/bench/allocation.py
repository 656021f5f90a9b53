"""Measures path allocation and placement against bounds, on a set of cases; writes docs/performance/interconnect-allocation.json.

Two questions. How near to the LP bound is the most loaded link between switches: D-mod-K, greedy, ours with one path per pair, ours split? And what do placement
and routing gain alone and together, starting from cyclic placement? Nothing here depends on the speed of the machine but ``seconds`` (processor time).
Usage: allocation.py [output.json]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from ferrule_fabric.model.topology import Topology
from ferrule_fabric.model.traffic import Demands, TrafficMatrix
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.placing.place import hosts_needed, placed
from ferrule_fabric.placing.select import selected
from ferrule_fabric.routing.allocate import flow_paths, max_load_s
from ferrule_fabric.routing.bound import lower_bound_s, whole_bound_s
from ferrule_fabric.routing.candidates import candidates_of
from ferrule_fabric.routing.exact import Effort, solved
from ferrule_fabric.routing.fabric import Fabric, fabric_of
from ferrule_fabric.routing.flow_paths import arc_seconds
from ferrule_fabric.topologies.spec import topology_of

# Topology, ranks per host, ranks. The first is the paper's: 20 hosts of 8 cores, 2.5:1.
NETWORKS = (
    ("two-level:leaves=4,spines=2,hosts=5", 8, 128),
    ("two-level:leaves=8,spines=4,hosts=8", 4, 256),
    ("xgft:m=4x4x4,w=1x2x2", 4, 256),
    ("fat-tree:k=4,oversubscription=2.5", 8, 128),
    ("two-level:leaves=8,spines=3,hosts=4,failed=3", 4, 128),
    ("torus:size=4x4,hosts=2", 4, 128),
    ("hyperx:size=4x4,hosts=2", 4, 128),
    ("dragonfly:groups=9,routers=4,globals=2,hosts=2", 4, 256),
    ("dragonfly+:groups=4,leaves=4,spines=4,globals=2,hosts=4", 4, 256),
    ("random:switches=16,degree=4,hosts=2,seed=1", 4, 128),
)
PATTERNS = ("cg", "ft", "mg", "stencil2d", "stencil3d:periodic=1", "milc", "alltoall", "permutation", "uniform:peers=4")
PLACEMENTS = ("block", "cyclic", "random")
ROUTINGS = ("d-mod-k", "ecmp", "greedy", "ferrule", "split")
BYTES_PER_RANK = 1_000_000_000
NEAR = 1.02
PROOF = Effort(gap=1e-3, limit_s=60.0)


def pattern_spec(pattern: str, ranks: int) -> str:
    """The generator's text with ranks and bytes."""
    kind, _, options = pattern.partition(":")
    return f"{kind}:ranks={ranks},bytes={BYTES_PER_RANK}" + (f",{options}" if options else "")


def one_path_bound_s(fabric: Fabric, demands: Demands, bound_s: float, reached_s: float) -> float:
    """Bound for one path per pair: the bound in whole flows or, where what was reached is still further than 2% from the bound, what the integer program proves."""
    whole_s = whole_bound_s(fabric, demands, bound_s)
    candidates = candidates_of(fabric, demands)
    if reached_s <= NEAR * bound_s or reached_s <= whole_s * (1 + 1e-9) or not candidates.complete:
        return whole_s
    return max(whole_s, solved(fabric, candidates, demands.bytes, effort=PROOF, at_most_s=reached_s).bound_s)


def cell(topology: Topology, traffic: TrafficMatrix, per_host: int, placement: str, routings: tuple[str, ...]) -> dict[str, Any]:
    """Loads of the most loaded link (between switches, and of all), by routing, and the bound; seconds for 1 GB per rank."""
    fabric = fabric_of(topology)
    where = placed(topology, traffic, selected(topology, hosts_needed(traffic.ranks, per_host), "first"), per_host, placement, 1)
    demands = Demands.of_traffic(traffic, where, topology)
    loads, times = {}, {}
    for routing in routings:
        begin = time.process_time()
        load_s = arc_seconds(fabric, demands, flow_paths(fabric, demands, routing))
        times[routing] = round(time.process_time() - begin, 4)
        loads[routing] = {"switches": max_load_s(topology, load_s, True), "all": max_load_s(topology, load_s)}
    bound_s = lower_bound_s(fabric, demands)
    one_path_s = one_path_bound_s(fabric, demands, bound_s, loads["ferrule"]["switches"])
    return {"pairs": demands.count, "bound": bound_s, "one_path_bound": one_path_s, "loads": loads, "seconds": times}


def main() -> None:
    """Runs all cases and writes the file."""
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs/performance/interconnect-allocation.json"
    cases, together = [], []
    for spec, per_host, ranks in NETWORKS:
        topology = topology_of(spec)
        for pattern in PATTERNS:
            traffic = pattern_of(pattern_spec(pattern, ranks)).total
            for placement in PLACEMENTS:
                cases.append({"topology": spec, "pattern": pattern, "placement": placement, **cell(topology, traffic, per_host, placement, ROUTINGS)})
            alone = {how: cell(topology, traffic, per_host, how, ("d-mod-k", "ferrule"))["loads"] for how in ("partition", "joint")}
            cyclic = next(case["loads"] for case in cases if case["topology"] == spec and case["pattern"] == pattern and case["placement"] == "cyclic")
            row = {"cyclic d-mod-k": cyclic["d-mod-k"], "routing only": cyclic["ferrule"], "placement only": alone["partition"]["d-mod-k"], "both": alone["joint"]["ferrule"]}
            row |= {"partition, then routing": alone["partition"]["ferrule"], "joint placement, d-mod-k": alone["joint"]["d-mod-k"]}
            together.append({"topology": spec, "pattern": pattern, "loads": row})
            print(f"{len(cases)} cases: {spec} {pattern}", file=sys.stderr, flush=True)
    output.write_text(json.dumps({"version": 1, "cases": cases, "together": together}) + "\n")


if __name__ == "__main__":
    main()
