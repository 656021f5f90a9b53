"""The experiment of the SDN-enhanced MPI papers on real switches: programs of 128 ranks on 16 of 20 hosts, placements x routings.

Open vSwitch switches (4 leaves, 2 spines, links of equal rate, so 2.5:1), hosts in network namespaces, links limited by token buckets to a rate at which
the network and not this machine's processors is the bottleneck. Each program is run once with profiling; its profile is stored at the manager; then it
runs once per placement and routing. Compared: its own communication time, and the bytes on the most used link between switches by the switches' counters.
Writes docs/performance/interconnect-experiment.json. Needs root.

Usage: experiment.py [--mbit 5] [--programs cg,ft] [--placements block-a,cyclic] [--repeats 1] [--output FILE]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "bed"))

from jobs import Outcome, built, ran
from standing import ROOT, Service, ovs, spec_of

from ferrule_fabric.model.topology import Topology
from ferrule_fabric.placing.place import block_of, hosts_needed, placed
from ferrule_fabric.placing.select import BLOCKS, selected
from ferrule_fabric.profiles import profile_from_json
from ferrule_fabric.topologies.fat_tree import two_level

RANKS, PER_HOST = 128, 8
ROUTINGS = {"d-mod-k": "D-mod-K", "greedy": "greedy", "ferrule-time": "ours"}
PLACEMENTS = (*BLOCKS, "cyclic")
OUTPUT = ROOT / "docs/performance/interconnect-experiment.json"


@dataclass(frozen=True)
class Program:
    """A program, its arguments (some seconds at 5 Mb/s), and which number of its RESULT line is the time in communication."""

    name: str
    source: str
    arguments: tuple[str, ...]
    time: str


PROGRAMS = {
    "cg": Program("CG", "interconnect/bench/cg2d.c", ("--size", "65536", "--iterations", "2"), "communication"),
    "ft": Program("3-D FFT", "examples/fft3d/fft3d.c", ("128", "64", "64", "1"), "seconds"),
    "stencil": Program("CG, 3-D stencil", "examples/cg/cg.c", ("--size", "96", "--iterations", "40", "--repeats", "1", "--tolerance", "1e-1"), "seconds"),
}


def hosts_of(topology: Topology, placement: str) -> list[str]:
    """The host of each rank."""
    from ferrule_fabric.model.traffic import TrafficMatrix

    nothing = TrafficMatrix.of_pairs(RANKS, [], [], [])
    if placement in BLOCKS:
        return list(block_of(topology, nothing, PER_HOST, placement[-1]).hosts)
    return list(placed(topology, nothing, selected(topology, hosts_needed(RANKS, PER_HOST)), PER_HOST, placement).hosts)


def profiled(fabric: ovs.Fabric, service: Service, topology: Topology, key: str, folder: Path) -> dict[str, Any]:
    """Runs a program once with the profiler and gives its profile to the manager; what it says about itself."""
    program, profile = PROGRAMS[key], folder / f"{key}.json"
    ran(fabric, hosts_of(topology, "block-a"), [built(ROOT / program.source), *program.arguments], ["--profile", str(profile)])
    learned = service.call("PUT", f"/v1/patterns/{key}", content=profile.read_bytes())
    assert learned.status_code == 201, learned.text
    told = profile_from_json(profile.read_bytes())
    return {"bytes": int(told.traffic.bytes.sum()), "messages": int(told.traffic.messages.sum()), "pairs": told.traffic.pairs, "phases": len(told.phases)}


def once(fabric: ovs.Fabric, service: Service, key: str, hosts: Sequence[str], routing: str) -> tuple[Outcome, dict[str, Any]]:
    """One run with routes by one algorithm; D-mod-K is what the switches do by default, and is asked for all the same, so that all jobs have rules."""
    program = PROGRAMS[key]
    started = service.call("POST", "/v1/jobs", json={"job": "experiment", "hosts": list(hosts), "pattern": key, "algorithm": routing})
    assert started.status_code == 201, started.text
    try:
        flows = service.get("/v1/jobs/experiment")["flows"]
        paths = hashlib.sha256(json.dumps([flow["path"] for flow in flows]).encode()).hexdigest()[:12]
        return ran(fabric, hosts, [built(ROOT / program.source), *program.arguments]), started.json() | {"paths": paths}
    finally:
        service.call("DELETE", "/v1/jobs/experiment")


def measured(mbit: float, programs: Sequence[str], placements: Sequence[str], repeats: int, keep: Callable[[dict[str, Any]], None], learn: Any = profiled) -> None:
    """All cells; ``keep`` gets all results so far after each of them. Routings take turns within a placement, so that what disturbs the machine disturbs all of them."""
    topology = two_level(4, 2, 5, mbit * 1e6)
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        fabric = stack.enter_context(ovs.Fabric.up(spec_of(topology, limited=True)))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service = Service(folder, fabric, topology)
        stack.callback(service.stop, 9)
        service.start()
        profiles = {key: learn(fabric, service, topology, key, folder) for key in programs}
        for key in programs:
            for placement in placements:
                hosts = hosts_of(topology, placement)
                for turn in range(repeats):
                    for routing in ROUTINGS:
                        began = time.monotonic()
                        outcome, told = once(fabric, service, key, hosts, routing)
                        link, count = outcome.hottest(fabric.spec.switches)
                        row = {"program": key, "placement": placement, "routing": routing, "turn": turn, "seconds": outcome.numbers[PROGRAMS[key].time]}
                        row |= {"hottest_bytes": count, "hottest": f"{link[0]} to {link[1]}", "route_s": told["route_s"], "install_s": told["install_s"], "paths": told["paths"]}
                        rows.append(row)
                        keep({"version": 1, "mbit": mbit, "ranks": RANKS, "hosts": 20, "profiles": profiles, "rows": rows})
                        print(f"{key:8} {placement:8} {ROUTINGS[routing]:8} {row['seconds']:8.3f} s  {count / 1e6:7.2f} MB on {row['hottest']}  ({time.monotonic() - began:.0f} s)", flush=True)


def main() -> int:
    """Measures and writes the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mbit", type=float, default=5.0, help="rate of every link")
    parser.add_argument("--programs", default="cg,ft,stencil")
    parser.add_argument("--placements", default=",".join(PLACEMENTS))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    why = ovs.missing()
    if why:
        print(f"experiment: skipped: {why}")
        return 0

    def keep(data: dict[str, Any]) -> None:
        options.output.write_text(json.dumps(data, indent=1) + "\n")

    measured(options.mbit, options.programs.split(","), options.placements.split(","), options.repeats, keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
