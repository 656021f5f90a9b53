"""Single jobs on an empty network: one row per combination of a scenario.

Time of a job: its phases one after the other; communication of a phase by max-min fair sharing of the links (all flows of the phase start together),
computation overlapped as the phase says; times iterations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import FloatArray, IntArray, Topology
from ferrule_fabric.model.traffic import Demands, TrafficMatrix
from ferrule_fabric.patterns.pattern import Pattern
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.placing.place import host_numbers, hosts_needed, slots_of
from ferrule_fabric.placing.select import selected
from ferrule_fabric.routing.allocate import Options, flow_paths, max_load_s
from ferrule_fabric.routing.bound import lower_bound_s
from ferrule_fabric.routing.fabric import Fabric, fabric_of
from ferrule_fabric.routing.fairness import estimated_time_s
from ferrule_fabric.routing.flow_paths import FlowPaths, arc_seconds
from ferrule_fabric.routing.timed import restricted
from ferrule_fabric.simulate.scenario import Scenario
from ferrule_fabric.topologies.spec import topology_of

# Above so many paths the rounds of the fluid model are coarser, so that a million flows take seconds.
FINE_PATHS_MAX = 200_000
COARSE_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Cell:
    """One result. Loads in seconds per iteration: of the most loaded arc, of the most loaded between switches, and the mean of those that carry anything.

    ``communication_s`` and ``time_s`` are for all iterations; ``bound_s`` is the LP bound of ``switch_load_s`` (None if not asked for).
    """

    topology: str
    pattern: str
    selection: str
    placement: str
    routing: str
    hosts: int
    ranks: int
    flows: int
    max_load_s: float
    switch_load_s: float
    mean_load_s: float
    communication_s: float
    time_s: float
    bound_s: float | None


def simulated(scenario: Scenario, folder: FilePath | None = None, progress: Callable[[], None] = lambda: None) -> Iterator[tuple[Cell, Topology, FloatArray]]:
    """Cells in the order of the scenario, each with its topology and the load of every arc (seconds per iteration). Raises `FabricError`."""
    options = Options(scenario.paths_max, scenario.slack, scenario.seed)
    for topology_spec in scenario.topologies:
        topology = topology_of(topology_spec, folder)
        for pattern_spec in scenario.patterns:
            pattern = pattern_of(pattern_spec, folder)
            for selection, placement in itertools.product(scenario.selections, scenario.placements):
                where = f"{topology_spec} / {pattern_spec} / {selection} / {placement}"
                numbers = _placed(topology, pattern, selection, placement, scenario, where)
                demands, bound_s = job_demands(topology, pattern, numbers), None
                if scenario.bound:
                    bound_s = lower_bound_s(fabric_of(topology), demands[0])
                for routing in scenario.routings:
                    paths = flow_paths(fabric_of(topology), demands[0], routing, None, options, demands[1:])
                    load = arc_seconds(fabric_of(topology), demands[0], paths)
                    communication_s, time_s = job_times_s(fabric_of(topology), pattern, demands, paths, scenario.time_tolerance)
                    used = load[load > 0]
                    loads = max_load_s(topology, load), max_load_s(topology, load, True), float(used.mean()) if used.size else 0.0
                    sizes = int(np.unique(numbers).size), pattern.ranks, demands[0].count
                    times = communication_s * pattern.iterations, time_s * pattern.iterations
                    yield Cell(topology_spec, pattern_spec, selection, placement, routing, *sizes, *loads, *times, bound_s), topology, load
                    progress()


def _placed(topology: Topology, pattern: Pattern, selection: str, placement: str, scenario: Scenario, where: str) -> IntArray:
    try:
        hosts = selected(topology, hosts_needed(pattern.ranks, scenario.ranks_per_host), selection, None, scenario.seed)
        return host_numbers(topology, pattern.total, hosts, slots_of(pattern.ranks, hosts.size, scenario.ranks_per_host), placement, scenario.seed)
    except FabricError as error:
        raise FabricError(f"{where}: {error.where}", error.problem) from None


def demands_of(topology: Topology, traffic: TrafficMatrix, numbers: IntArray) -> Demands:
    """Traffic between hosts when rank r is on host ``numbers[r]``."""
    return Demands.of_pairs(topology.host_count, numbers[traffic.src], numbers[traffic.dst], traffic.bytes, traffic.messages)


def job_demands(topology: Topology, pattern: Pattern, numbers: IntArray) -> list[Demands]:
    """The whole iteration first, then each phase (or nothing more if there is one phase only)."""
    total = demands_of(topology, pattern.total, numbers)
    return [total] if len(pattern.phases) == 1 else [total, *(demands_of(topology, phase.traffic, numbers) for phase in pattern.phases)]


def job_times_s(fabric: Fabric, pattern: Pattern, demands: list[Demands], paths: FlowPaths, tolerance: float) -> tuple[float, float]:
    """(communication, whole) time of one iteration in seconds, alone on the network. ``paths`` are those of ``demands[0]``."""
    tolerance = tolerance if paths.count <= FINE_PATHS_MAX else max(tolerance, COARSE_TOLERANCE)
    communication_s, time_s = 0.0, 0.0
    for i, phase in enumerate(pattern.phases):
        own, own_paths = (demands[0], paths) if len(demands) == 1 else (demands[i + 1], restricted(demands[0], paths, demands[i + 1]))
        phase_s = estimated_time_s(fabric, own, own_paths, tolerance)
        communication_s += phase_s
        time_s += phase.time_s(phase_s)
    return communication_s, time_s
