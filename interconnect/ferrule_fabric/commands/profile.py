"""``ferrule-fabric show``: a profile, traffic document or generated pattern as a heat map."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from ferrule_fabric.errors import FabricError
from ferrule_fabric.heatmap import save_map, summary, terminal_map
from ferrule_fabric.patterns.spec import GENERATORS, pattern_of
from ferrule_fabric.profiles import read_profile


@click.command()
@click.argument("what")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write a picture (.svg or .png) instead of printing.")
@click.option("--messages", is_flag=True, help="Messages instead of bytes.")
@click.option("--phase", type=int, help="Only this phase (from 0).")
@click.option("--color/--no-color", default=None, help="Colors in the terminal (default: if it is one).")
def show(what: str, output: Path | None, messages: bool, phase: int | None, color: bool | None) -> None:
    """Show who sends how much to whom.

    WHAT is a profile written by mpiexec --profile, a traffic document, or a pattern such as cg:ranks=128.
    """
    if what.partition(":")[0] in GENERATORS:
        pattern = pattern_of(what)
    else:
        pattern = pattern_of(f"file:{what}")
        if output is None and phase is None:
            _print_summary(Path(what))
    if phase is not None and not 0 <= phase < len(pattern.phases):
        raise FabricError("phase", f"{phase} of {len(pattern.phases)}")
    matrix = pattern.total if phase is None else pattern.phases[phase].traffic
    if output is not None:
        save_map(matrix, output, messages, pattern.name)
        return
    colored = sys.stdout.isatty() if color is None else color
    columns, lines = shutil.get_terminal_size((100, 40))
    click.echo(terminal_map(matrix, max(8, min(columns // (2 if colored else 1), max(lines - 8, 32), 128)), messages, colored), color=colored)


def _print_summary(path: Path) -> None:
    try:
        click.echo(summary(read_profile(path)))
    except FabricError:
        pass  # a traffic document has no more to say than its map
