"""``ferrule-fabric infiniband``: a plan as OpenSM's files."""

from __future__ import annotations

import json
from pathlib import Path as FilePath

import click

from ferrule_fabric.infiniband.opensm import lft_file, options
from ferrule_fabric.infiniband.tables import base_lids, forwarding_tables, lids_from_ibnetdiscover
from ferrule_fabric.model.documents import plan_from_json
from ferrule_fabric.topologies.ibnetdiscover import from_ibnetdiscover


@click.command()
@click.argument("plan", type=click.Path(exists=True, dir_okay=False, path_type=FilePath))
@click.option("--ibnetdiscover", "listing", required=True, type=click.Path(exists=True, dir_okay=False, path_type=FilePath), help="its output, after the subnet manager has run")
@click.option("--folder", default=".", type=click.Path(file_okay=False, path_type=FilePath), help="where to write lfts, opensm.conf and lids.json")
@click.option("--lanes", default=1, show_default=True, help="virtual lanes with service levels of their own")
def infiniband(plan: FilePath, listing: FilePath, folder: FilePath, lanes: int) -> None:
    """Write OpenSM's forwarding tables and options for PLAN, and which LID each pair of hosts is to address."""
    text = listing.read_text(errors="replace")
    topology = from_ibnetdiscover(text)
    lids = lids_from_ibnetdiscover(text)
    tables = forwarding_tables(topology, plan_from_json(plan.read_bytes(), topology), base_lids(topology, lids), lids.lmc)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lfts").write_text(lft_file(topology, tables))
    (folder / "opensm.conf").write_text(options(lanes, lft_path=str((folder / "lfts").absolute()), lmc=lids.lmc))
    (folder / "lids.json").write_text(json.dumps({f"{src} {dst}": lid for (src, dst), lid in tables.lid_of.items()}, indent=0))
    click.echo(f"{len(tables.ports)} switches, {len(tables.lid_of)} pairs, of which {len(tables.left_out)} fit no tree with LMC {lids.lmc}")
