"""``ferrule-fabric simulate``: runs a scenario file and writes tables and plots."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ferrule_fabric.errors import FabricError
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.routing.allocate import Options
from ferrule_fabric.simulate.cells import simulated
from ferrule_fabric.simulate.output import cell_rows, job_rows, load_rows, plot_bars, stream_row, write_rows
from ferrule_fabric.simulate.scenario import Scenario, Stream, read_scenario
from ferrule_fabric.simulate.stream import Rules, jobs_of, simulated_stream
from ferrule_fabric.topologies.spec import topology_of


@click.command()
@click.argument("scenario_file", metavar="SCENARIO", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--output", "-o", type=click.Path(file_okay=False, path_type=Path), help="Folder for results.csv, results.parquet and plots; else a table is printed.")
@click.option("--loads", is_flag=True, help="With --output: also the load of every link (loads.csv).")
@click.option("--quiet", "-q", is_flag=True, help="No progress bar.")
def simulate(scenario_file: Path, output: Path | None, loads: bool, quiet: bool) -> None:
    """Simulate all combinations of a SCENARIO file (YAML)."""
    scenario = read_scenario(scenario_file)
    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FabricError(str(output), error.strerror or str(error)) from None
    if scenario.stream is None:
        _cells(scenario, scenario_file.parent, output, loads, quiet)
    else:
        _streams(scenario, scenario.stream, scenario_file.parent, output, quiet)


def _cells(scenario: Scenario, folder: Path, output: Path | None, loads: bool, quiet: bool) -> None:
    cells, link_rows = [], []
    with _bar(scenario.cell_count, quiet) as bar:
        for number, (cell, topology, load_s) in enumerate(simulated(scenario, folder, lambda: bar.update(1))):
            cells.append(cell)
            if loads and output is not None:
                link_rows += load_rows(number, topology, load_s)
    rows = cell_rows(cells)
    if output is None:
        _print(rows, ("pattern", "selection", "placement", "routing", "max_load_s", "switch_load_s", "bound_s", "time_s"))
        return
    _write(rows, output, "results")
    if loads:
        write_rows(link_rows, output / "loads.csv")
    for value in ("switch_load_s", "time_s"):
        plot_bars(rows, value, ("pattern", "selection", "placement"), "routing", output / f"{value}.svg", scenario.name)


def _streams(scenario: Scenario, stream: Stream, folder: Path, output: Path | None, quiet: bool) -> None:
    patterns = [pattern_of(spec, folder) for spec in scenario.patterns]
    jobs = jobs_of(stream, patterns, scenario.seed)
    options = Options(scenario.paths_max, scenario.slack, scenario.seed, integer=False)
    summaries: list[Mapping[str, Any]] = []
    details: list[Mapping[str, Any]] = []
    with _bar(scenario.cell_count * stream.jobs, quiet) as bar:
        for spec in scenario.topologies:
            topology = topology_of(spec, folder)
            for scheduler, selection, placement, routing in itertools.product(stream.schedulers, scenario.selections, scenario.placements, scenario.routings):
                rules = Rules(scheduler, selection, placement, routing, scenario.ranks_per_host, scenario.seed, scenario.time_tolerance, options)
                results = simulated_stream(topology, jobs, rules, lambda: bar.update(1))
                key = {"topology": spec, "scheduler": scheduler, "selection": selection, "placement": placement, "routing": routing}
                summaries.append(stream_row(key, results, topology.host_count))
                details += job_rows(key, results)
    if output is None:
        _print(summaries, ("scheduler", "selection", "placement", "routing", "makespan_s", "mean_wait_s", "mean_slowdown", "contention", "utilization"))
        return
    _write(summaries, output, "results")
    write_rows(details, output / "jobs.csv")
    for value in ("mean_slowdown", "makespan_s"):
        plot_bars(summaries, value, ("scheduler", "selection", "placement"), "routing", output / f"{value}.svg", scenario.name)


def _write(rows: list[Mapping[str, Any]], output: Path, name: str) -> None:
    write_rows(rows, output / f"{name}.csv")
    write_rows(rows, output / f"{name}.parquet")


def _bar(length: int, quiet: bool) -> Any:
    return click.progressbar(length=length, file=sys.stderr, label="simulating", hidden=quiet)


def _print(rows: list[Mapping[str, Any]], columns: tuple[str, ...]) -> None:
    shown = [columns, *(tuple(_text(row[column]) for column in columns) for row in rows)]
    widths = [max(len(line[i]) for line in shown) for i in range(len(columns))]
    for line in shown:
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)
