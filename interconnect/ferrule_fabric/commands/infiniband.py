"""``ferrule-fabric infiniband`` and ``infiniband-check``: a plan as OpenSM's files, and whether such files are for this fabric."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import click

from ferrule_fabric.errors import FabricError
from ferrule_fabric.infiniband import deadlock
from ferrule_fabric.infiniband.lanes import DATA_VLS, HIGH_LIMIT, LIMIT_MAX, OTHERS, WEIGHT_MAX, Levels, levels_of, vls_text
from ferrule_fabric.infiniband.opensm import checked_ports, lft_file, options, policy, read_lfts
from ferrule_fabric.infiniband.tables import Lids, Tables, base_lids, forwarding_tables, lids_from_ibnetdiscover
from ferrule_fabric.model.documents import plan_from_json
from ferrule_fabric.model.lanes import pairs_of, pairs_text, plan_of
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.topologies.ibnetdiscover import from_ibnetdiscover

VERSION = 1
_file = click.Path(exists=True, dir_okay=False, path_type=FilePath)
_listing = click.option("--ibnetdiscover", "listing", required=True, type=_file, help="its output, after the subnet manager has run")


@click.command()
@click.argument("plan", type=_file)
@_listing
@click.option("--folder", default=".", type=click.Path(file_okay=False, path_type=FilePath), help="where to write the files")
@click.option("--lanes", default="1", show_default=True, metavar="K[:POLICY]", help="the lanes of jobs, as mpiexec --lanes says them; each class gets a service level and a virtual lane")
@click.option("--vls", default="8", show_default=True, type=click.Choice([str(vls) for vls in DATA_VLS]), help="data VLs of the ports (VLCap of `smpquery portinfo`), the fewest that any has")
@click.option("--weights", default="", metavar="CLASS=N,…", help=f"weights in VL arbitration, 1 to {WEIGHT_MAX}, in place of those of the policy; {OTHERS} is what no lane carries")
@click.option("--high-limit", default=HIGH_LIMIT, show_default=True, type=click.IntRange(0, LIMIT_MAX), help="units of 4096 bytes of high priority before one packet of low priority; 255: any number")
def infiniband(plan: FilePath, listing: FilePath, folder: FilePath, lanes: str, vls: str, weights: str, high_limit: int) -> None:
    """Write OpenSM's forwarding tables and options for PLAN, which LID each pair of hosts is to address, and the service level of each class of lanes.

    Routes that could deadlock are spread over several virtual lanes per class (layers); if the ports have too few, nothing is written.
    """
    topology, lids, base = _fabric_of(listing)
    tables = forwarding_tables(topology, plan_from_json(plan.read_bytes(), topology), base, lids.lmc)
    wanted = plan_of(lanes, "--lanes")
    found = deadlock.ways(topology, tables.ports, _host_lids(topology, base, lids))
    levels_of(wanted, int(vls))
    layers = deadlock.layers_of(found, int(vls) // max(1, len(wanted.classes)))
    levels = replace(levels_of(wanted, int(vls), layers.count, pairs_of(weights, WEIGHT_MAX, "--weights", (OTHERS,))), high_limit=high_limit)
    _write(folder, topology, lids, base, tables, levels, layers)
    deadlocks = f"no deadlock with {layers.count} virtual lane{'s' * (layers.count > 1)} per class"
    click.echo(f"{len(tables.ports)} switches, {len(tables.lid_of)} pairs, of which {len(tables.left_out)} fit no tree with LMC {lids.lmc}; {deadlocks}")
    for name, level in levels.by_class.items():
        click.echo(f"{name:<12} service level {_range(level.sl, levels.layers_of(name))}, weight {level.high or level.low} of {'high' if level.high else 'low'} priority")


@click.command("infiniband-check")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=FilePath))
@_listing
def infiniband_check(folder: FilePath, listing: FilePath) -> None:
    """Whether the tables in FOLDER are for the fabric as it is now, lead every LID to its host, and can't deadlock. Ends with status 2 if not."""
    topology, lids, base = _fabric_of(listing)
    ports = checked_ports(topology, lids.port_count, read_lfts(_text(folder / "lfts"), str(folder / "lfts")))
    found = deadlock.ways(topology, ports, _host_lids(topology, base, lids))
    document = _document(folder / "lanes.json")
    layers = _layers_of(document, topology, base, lids)
    trouble = deadlock.cycle_in(found, layers)
    if trouble is not None:
        raise FabricError("deadlock", f"in layer {trouble[0]}: {deadlock.told(topology, trouble[1])}")
    click.echo(f"{len(ports)} switches, {len(found)} ways; no deadlock in {layers.count} layer{'s' * (layers.count > 1)}; lanes {document['lanes']}")


def _fabric_of(listing: FilePath) -> tuple[Topology, Lids, dict[int, int]]:
    text = _text(listing)
    topology, lids = from_ibnetdiscover(text), lids_from_ibnetdiscover(text)
    return topology, lids, base_lids(topology, lids)


def _text(path: FilePath) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise FabricError(str(path), error.strerror or str(error)) from None


def _host_lids(topology: Topology, base: dict[int, int], lids: Lids) -> list[int]:
    return [base[host] + place for host in range(topology.host_count) for place in range(1 << lids.lmc)]


def _range(first: int, count: int) -> str:
    return f"{first}" if count == 1 else f"{first} to {first + count - 1}"


def _write(folder: FilePath, topology: Topology, lids: Lids, base: dict[int, int], tables: Tables, levels: Levels, layers: deadlock.Layers) -> None:
    """The files; those that OpenSM reads are named by their absolute paths."""
    path = folder.absolute()
    texts = {"lfts": lft_file(topology, tables)}
    if levels.layers == 1:
        texts["qos-policy.conf"] = policy(levels)
    texts["opensm.conf"] = options(levels, str(path / "lfts"), lids.lmc, str(path / "qos-policy.conf") if levels.layers == 1 else "")
    texts["lids.json"] = json.dumps({f"{src} {dst}": lid for (src, dst), lid in tables.lid_of.items()}, indent=0)
    texts["lanes.json"] = json.dumps(_lanes_document(topology, base, lids, levels, layers), indent=1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "qos-policy.conf").unlink(missing_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise FabricError(str(error.filename or folder), error.strerror or str(error)) from None


def _lanes_document(topology: Topology, base: dict[int, int], lids: Lids, levels: Levels, layers: deadlock.Layers) -> dict[str, Any]:
    host_of = {base[host] + place: host for host in range(topology.host_count) for place in range(1 << lids.lmc)}
    classes = {name: {"service_level": level.sl, "layers": levels.layers_of(name), "high": level.high, "low": level.low} for name, level in levels.by_class.items()}
    return {
        "version": VERSION,
        "lanes": str(levels.plan),
        "data_vls": levels.data_vls,
        "high_limit": levels.high_limit,
        "sl2vl": list(levels.sl2vl),
        "vlarb_high": vls_text(levels.arbitration(True)),
        "vlarb_low": vls_text(levels.arbitration(False)),
        "classes": classes,
        "service_levels": pairs_text({name: level.sl for name, level in levels.by_class.items() if name != OTHERS}),
        "layers": layers.count,
        # Layers other than 0: of packets that enter at a switch for a LID.
        "layer": [[topology.node_names[switch], topology.node_names[host_of[lid]], lid, layer] for (switch, lid), layer in sorted(layers.of.items())],
    }


def _document(path: FilePath) -> dict[str, Any]:
    try:
        document = json.loads(_text(path))
        if document["version"] != VERSION or not isinstance(document["lanes"], str) or not isinstance(document["layer"], list):
            raise FabricError(str(path), f"not a document of version {VERSION}")
        return dict(document)
    except (ValueError, KeyError, TypeError) as error:
        raise error if isinstance(error, FabricError) else FabricError(str(path), f"not what `ferrule-fabric infiniband` writes: {type(error).__name__} {error}") from None


def _layers_of(document: dict[str, Any], topology: Topology, base: dict[int, int], lids: Lids) -> deadlock.Layers:
    of: dict[deadlock.From, int] = {}
    known = set(_host_lids(topology, base, lids))
    try:
        count = int(document["layers"])
        for switch, _, lid, layer in document["layer"]:
            node = topology.node_index.get(switch, -1)
            if node < topology.host_count or lid not in known or not 0 < layer < count:
                raise FabricError("lanes.json", f"layer {layer} of LID {lid} at {switch!r}: not of this fabric")
            of[node, lid] = layer
    except (ValueError, KeyError, TypeError) as error:
        raise error if isinstance(error, FabricError) else FabricError("lanes.json", f"layers: {type(error).__name__} {error}") from None
    return deadlock.Layers(count, of)
