"""Tables and plots of simulations: CSV, Parquet, SVG or PNG. The same results give the same bytes of CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Any

import pyarrow
import pyarrow.parquet

from ferrule_fabric.errors import FabricError
from ferrule_fabric.figures import figure, save
from ferrule_fabric.model.topology import FloatArray, Topology
from ferrule_fabric.simulate.cells import Cell
from ferrule_fabric.simulate.stream import JobResult

Row = Mapping[str, Any]


def cell_rows(cells: Sequence[Cell]) -> list[Row]:
    """One row per cell."""
    return [asdict(cell) for cell in cells]


def job_rows(key: Row, results: Sequence[JobResult]) -> list[Row]:
    """One row per job, with the columns of ``key`` (the combination) first."""
    return [{**key, **asdict(result), "wait_s": result.start_s - result.submit_s, "slowdown": result.slowdown} for result in results]


def stream_row(key: Row, results: Sequence[JobResult], hosts: int) -> Row:
    """Summary of a stream: makespan, mean wait, mean slow-down, contention (run time by run time alone), share of hosts in use."""
    makespan_s = max(result.end_s for result in results) - min(result.submit_s for result in results)
    count = len(results)
    return {
        **key,
        "jobs": count,
        "makespan_s": makespan_s,
        "mean_wait_s": sum(r.start_s - r.submit_s for r in results) / count,
        "mean_slowdown": sum(r.slowdown for r in results) / count,
        "contention": sum((r.end_s - r.start_s) / max(r.alone_s, 1e-12) for r in results) / count,
        "utilization": sum((r.end_s - r.start_s) * r.hosts for r in results) / (makespan_s * hosts),
    }


def load_rows(number: int, topology: Topology, load_s: FloatArray) -> list[Row]:
    """One row per arc that carries anything: the loads of every link, as PFSim reports them."""
    names = topology.node_names
    return [
        {"cell": number, "from": names[topology.arc_tail[arc]], "to": names[topology.arc_head[arc]], "link": int(arc) // 2, "load_s": float(load_s[arc])}
        for arc in range(topology.arc_count)
        if load_s[arc] > 0
    ]


def write_rows(rows: Sequence[Row], path: FilePath) -> None:
    """As .csv or .parquet, by the suffix. Raises `FabricError` for another suffix or a file that can't be written."""
    try:
        if path.suffix == ".csv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        elif path.suffix == ".parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), path)
        else:
            raise FabricError(str(path), "is neither .csv nor .parquet")
    except OSError as error:
        raise FabricError(str(path), error.strerror or str(error)) from None


def plot_bars(rows: Sequence[Row], value: str, group: Sequence[str], series: str, path: FilePath, title: str = "") -> None:
    """Bars of one column: a group per combination of ``group``, a bar per value of ``series``. SVG or PNG by the suffix."""
    names = _in_order(str(row[series]) for row in rows)
    groups = _in_order(" ".join(str(row[key]) for key in group) for row in rows)
    table = {(" ".join(str(row[key]) for key in group), str(row[series])): float(row[value]) for row in rows}
    canvas, axes = figure(max(5.0, 0.5 + 0.35 * len(groups) * (len(names) + 1)), 4.2)
    width = 0.8 / max(1, len(names))
    for i, name in enumerate(names):
        axes.bar([g + (i - (len(names) - 1) / 2) * width for g in range(len(groups))], [table.get((group_name, name), 0.0) for group_name in groups], width, label=name)
    axes.set_xticks(range(len(groups)), groups, rotation=35, ha="right", fontsize=7)
    axes.set_ylabel(value)
    axes.set_title(title)
    axes.legend(fontsize=8)
    save(canvas, path)


def _in_order(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
