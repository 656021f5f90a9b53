"""The command ``ferrule-fabric``. Each subcommand reads files, calls one pure function, and prints or writes."""

from __future__ import annotations

import sys

import click

from ferrule_fabric import __version__
from ferrule_fabric.errors import FabricError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Interconnect manager: look at traffic, place ranks, allocate paths, simulate."""


def main() -> None:
    """Entry point: refused input ends with status 2 and one line that says where."""
    try:
        cli(standalone_mode=True)
    except FabricError as error:
        click.echo(f"ferrule-fabric: {error}", err=True)
        sys.exit(2)
