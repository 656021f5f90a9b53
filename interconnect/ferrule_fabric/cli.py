"""The command ``ferrule-fabric``. Each subcommand reads files, calls pure functions, and prints or writes."""

from __future__ import annotations

import sys

import click

from ferrule_fabric import __version__
from ferrule_fabric.commands import doctor, infiniband, network, plan, profile, serve, simulation, stored
from ferrule_fabric.errors import FabricError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Interconnect manager: look at traffic, place ranks, allocate paths, simulate."""


for command in (profile.show, plan.topology, plan.place, plan.route, simulation.simulate, stored.store, serve.serve, network.job, doctor.doctor, infiniband.infiniband, infiniband.infiniband_check):
    cli.add_command(command)


def main() -> None:
    """Entry point: refused input ends with status 2 and one line that says where."""
    try:
        cli(standalone_mode=True)
    except FabricError as error:
        click.echo(f"ferrule-fabric: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(1)
