"""``topology``, ``place`` and ``route``: documents from short texts and files."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.documents import placement_from_json, placement_to_json, plan_to_json, topology_to_json
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.model.traffic import Demands, TrafficMatrix
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.placing.place import PLACEMENTS, hosts_needed, placed
from ferrule_fabric.placing.select import SELECTIONS, selected
from ferrule_fabric.routing.allocate import ALGORITHMS, Options, allocate, max_load_s, plan_loads_s
from ferrule_fabric.routing.bound import lower_bound_s
from ferrule_fabric.routing.fabric import fabric_of
from ferrule_fabric.topologies.graphml import to_graphml
from ferrule_fabric.topologies.spec import GENERATORS, topology_of


@click.command()
@click.argument("spec")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write it: .json, or .graphml.")
def topology(spec: str, output: Path | None) -> None:
    """Make or convert a topology.

    SPEC is a generator such as two-level:leaves=4,spines=2,hosts=5, or a file: JSON, GraphML, or the output of ibnetdiscover.
    """
    made = _topology(spec)
    if output is None:
        rates = sorted({link.capacity_bps for link in made.links})
        down = sum(not link.up for link in made.links)
        click.echo(f"{made.name}: {made.host_count} hosts, {len(made.switches)} switches, {len(made.links)} links ({down} down), {', '.join(f'{rate / 1e9:g}' for rate in rates)} Gb/s")
        return
    _write(output, to_graphml(made) if output.suffix in (".graphml", ".xml") else topology_to_json(made) + "\n")


@click.command()
@click.argument("topology_spec", metavar="TOPOLOGY")
@click.argument("pattern_spec", metavar="PATTERN")
@click.option("--ranks-per-host", "-n", type=click.IntRange(1, 4096), default=1, show_default=True)
@click.option("--selection", type=click.Choice(list(SELECTIONS)), default="first", show_default=True)
@click.option("--how", type=click.Choice(PLACEMENTS), default="joint", show_default=True)
@click.option("--seed", type=int, default=0)
@click.option("--hostfile", is_flag=True, help="Print one host per rank (for SLURM_HOSTFILE) instead of JSON.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path))
def place(topology_spec: str, pattern_spec: str, ranks_per_host: int, selection: str, how: str, seed: int, hostfile: bool, output: Path | None) -> None:
    """Place the ranks of PATTERN (a profile or a generator) on hosts of TOPOLOGY."""
    network, traffic = _topology(topology_spec), _traffic(pattern_spec)
    hosts = selected(network, hosts_needed(traffic.ranks, ranks_per_host), selection, None, seed)
    placement = placed(network, traffic, hosts, ranks_per_host, how, seed)
    _write(output, ("\n".join(placement.hosts) if hostfile else placement_to_json(placement)) + "\n")


@click.command()
@click.argument("topology_spec", metavar="TOPOLOGY")
@click.argument("pattern_spec", metavar="PATTERN")
@click.option("--placement", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Placement document; else block on the first hosts.")
@click.option("--ranks-per-host", "-n", type=click.IntRange(1, 4096), default=1, show_default=True)
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default="ferrule", show_default=True)
@click.option("--slack", type=click.IntRange(0, 4), default=0, help="Allow paths this many hops longer than shortest.")
@click.option("--job", default="", help="Name of the job, kept in the plan.")
@click.option("--bound", is_flag=True, help="Also compute the lower bound.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan.")
def route(topology_spec: str, pattern_spec: str, placement: Path | None, ranks_per_host: int, algorithm: str, slack: int, job: str, bound: bool, output: Path | None) -> None:
    """Allocate paths for PATTERN on TOPOLOGY and say how loaded the links get."""
    network, traffic = _topology(topology_spec), _traffic(pattern_spec)
    where = None if placement is None else placement_from_json(placement.read_bytes())
    if where is None:
        where = placed(network, traffic, selected(network, hosts_needed(traffic.ranks, ranks_per_host)), ranks_per_host, "block")
    demands = Demands.of_traffic(traffic, where, network)
    plan = allocate(network, demands, algorithm, None, Options(slack=slack), job)
    load_s = plan_loads_s(network, demands, plan)
    hot = int(np.argmax(load_s)) if load_s.size else 0
    names = network.node_names
    click.echo(f"{len(plan)} routes; most loaded: {names[network.arc_tail[hot]]} -> {names[network.arc_head[hot]]}, {load_s[hot]:.6g} s", err=output is None)
    click.echo(f"most loaded between switches: {max_load_s(network, load_s, True):.6g} s" + (f", bound {lower_bound_s(fabric_of(network), demands):.6g} s" if bound else ""), err=output is None)
    _write(output, plan_to_json(plan) + "\n")


def _topology(spec: str) -> Topology:
    return topology_of(spec if spec.partition(":")[0] in GENERATORS or spec.startswith("file:") else f"file:{spec}")


def _traffic(spec: str) -> TrafficMatrix:
    return pattern_of(spec if ":" in spec else f"file:{spec}").total


def _write(path: Path | None, text: str) -> None:
    if path is None:
        click.echo(text, nl=False)
        return
    try:
        path.write_text(text)
    except OSError as error:
        raise FabricError(str(path), error.strerror or str(error)) from None
