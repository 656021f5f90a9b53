"""``ferrule-fabric store``: the pattern store from the command line."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from ferrule_fabric.errors import FabricError
from ferrule_fabric.profiles import read_profile
from ferrule_fabric.store.database import Application, PatternStore, Run

DAY_S = 86400.0


@click.group()
@click.option("--url", envvar="FERRULE_FABRIC_STORE", default="sqlite:///ferrule-fabric.db", show_default=True, help="SQLite file or PostgreSQL database.")
@click.pass_context
def store(context: click.Context, url: str) -> None:
    """Patterns of past runs."""
    context.obj = context.with_resource(PatternStore(url))


@store.command()
@click.argument("profile_file", metavar="PROFILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--command", required=True, help="Command line of the application.")
@click.option("--input-hash", default="", help="Hash of what it read.")
@click.option("--job", default="")
@click.pass_obj
def add(patterns: PatternStore, profile_file: Path, command: str, input_hash: str, job: str) -> None:
    """Store the PROFILE of a run."""
    profile = read_profile(profile_file)
    run = Run(Application(command, input_hash, profile.traffic.ranks), job, time.time(), profile.duration_s, profile.hosts.hosts)
    click.echo(patterns.add(run, profile.traffic, profile.phases if len(profile.phases) > 1 else ()))


@store.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@click.pass_obj
def listed(patterns: PatternStore, limit: int) -> None:
    """List runs, latest first."""
    for run in patterns.runs(limit=limit):
        moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.recorded_s))
        click.echo(f"{run.id:>6}  {moment}  {run.application.ranks:>6} ranks  {run.duration_s:>10.3f} s  {run.job or '-':<12} {run.application.command}")


@store.command("export")
@click.argument("file", type=click.File("w"))
@click.pass_obj
def exported(patterns: PatternStore, file) -> None:  # type: ignore[no-untyped-def]
    """Write all runs to FILE (- for standard output), one JSON object per line."""
    for line in patterns.exported():
        file.write(line + "\n")


@store.command("import")
@click.argument("file", type=click.File())
@click.pass_obj
def imported(patterns: PatternStore, file) -> None:  # type: ignore[no-untyped-def]
    """Read what export wrote."""
    click.echo(f"{patterns.imported(file)} runs read", err=True)


@store.command()
@click.option("--keep", type=click.IntRange(0), default=100, show_default=True, help="Runs to keep of each application.")
@click.option("--days", type=float, help="Also delete what is older.")
@click.pass_obj
def prune(patterns: PatternStore, keep: int, days: float | None) -> None:
    """Delete old runs."""
    if days is not None and not days >= 0:
        raise FabricError("--days", f"must not be negative, is {days}")
    click.echo(f"{patterns.retain(keep, 0.0 if days is None else time.time() - days * DAY_S)} runs deleted", err=True)
    sys.stdout.flush()
