"""The simulator: known results, determinism, schedulers, contention, and the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule_fabric import Demands, FabricError
from ferrule_fabric.cli import cli
from ferrule_fabric.heatmap import binned, terminal_map
from ferrule_fabric.model.documents import plan_from_json, topology_from_json
from ferrule_fabric.patterns.generate import cg, shift
from ferrule_fabric.patterns.pattern import Pattern, Phase
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.routing.allocate import flow_paths
from ferrule_fabric.routing.fabric import fabric_of
from ferrule_fabric.routing.timed import phases_time_s
from ferrule_fabric.simulate.cells import simulated
from ferrule_fabric.simulate.scenario import scenario_from_yaml
from ferrule_fabric.simulate.stream import Job, Rules, progress_rates, simulated_stream
from ferrule_fabric.topologies.spec import topology_of

PAPER = """
version: 1
name: paper
topologies: ["two-level:leaves=4,spines=2,hosts=5"]
patterns: ["cg:ranks=128,bytes=1e7"]
ranks_per_host: 8
placements: [block, cyclic]
routings: [d-mod-k, greedy, ferrule, ferrule-time, split]
bound: true
"""
STREAM = """
version: 1
topologies: ["two-level:leaves=4,spines=2,hosts=5"]
patterns: ["cg:ranks=32,bytes=1e7,compute_s=0.01", "ft:ranks=64,bytes=1e7"]
ranks_per_host: 8
routings: [d-mod-k, ferrule]
stream: {schedulers: [fcfs, easy], jobs: 25, mean_interarrival_s: 5, iterations: [50, 100], estimate_factor: [1, 3]}
"""
TWO_LEVEL = topology_of("two-level:leaves=4,spines=2,hosts=5")


def test_the_loads_of_the_paper_are_reproduced() -> None:
    cells = {(cell.placement, cell.routing): cell for cell, _, _ in simulated(scenario_from_yaml(PAPER))}
    unit = cells["block", "d-mod-k"].switch_load_s
    # Relative loads measured before on real switches and by an independent simulator (CG, 16 of 20 nodes, 2.5:1).
    assert cells["block", "greedy"].switch_load_s / unit == pytest.approx(0.50, abs=0.005)
    assert cells["cyclic", "d-mod-k"].switch_load_s / unit == pytest.approx(1.975, abs=0.005)
    assert cells["cyclic", "greedy"].switch_load_s / unit == pytest.approx(1.75, abs=0.005)
    assert cells["cyclic", "ferrule"].bound_s == pytest.approx(1.7375 * unit, rel=1e-3)
    for placement in ("block", "cyclic"):
        assert cells[placement, "ferrule-time"].time_s <= cells[placement, "d-mod-k"].time_s * 1.0001
        assert cells[placement, "split"].switch_load_s == pytest.approx(cells[placement, "split"].bound_s, rel=1e-3)
    assert cells["block", "ferrule-time"].time_s < 0.78 * cells["block", "d-mod-k"].time_s


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["cg:ranks=32", "mg:ranks=40", "ft:ranks=36", "stencil2d:ranks=40"]), st.integers(0, 1000))
def test_least_time_is_never_slower_than_d_mod_k(spec: str, seed: int) -> None:
    pattern, fabric = pattern_of(spec), fabric_of(TWO_LEVEL)
    numbers = np.random.default_rng(seed).permutation(np.repeat(np.arange(20), 2))[: pattern.ranks]
    total, *phases = (Demands.of_pairs(20, numbers[t.src], numbers[t.dst], t.bytes) for t in (pattern.total, *(phase.traffic for phase in pattern.phases)))
    times = [phases_time_s(fabric, total, phases, flow_paths(fabric, total, algorithm, phases=phases)) for algorithm in ("d-mod-k", "ferrule-time")]
    assert times[1] <= times[0] * 1.0001


def test_computation_overlaps() -> None:
    one = topology_of("two-level:leaves=1,spines=1,hosts=2")
    phase = shift(2, 125_000_000).phases[0].traffic
    for overlap, expected in ((0.0, 3.0), (1.0, 2.0), (0.5, 2.0)):
        job = Job(0, Pattern("p", (Phase(phase, 2.0, overlap),)), 1, 0.0)
        (result,) = simulated_stream(one, [job], Rules())
        assert result.end_s == pytest.approx(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("version: 2", r"scenario.version: "),
        ("color: red", r"scenario.color: "),
        ("routings: [magic]", "'magic' is unknown"),
        ("patterns: []", r"scenario.patterns: "),
        ("ranks_per_host: 0", r"scenario.ranks_per_host"),
        ("a: [", "not YAML"),
        ("stream: {jobs: 3, mean_interarrival_s: 1, iterations: [5, 1]}", "ranges"),
    ],
)
def test_wrong_scenarios_are_refused(change: str, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        scenario_from_yaml("\n".join(line for line in PAPER.splitlines() if line.split(":")[0] != change.split(":")[0]) + "\n" + change)
    for text in ("", "- 1", "a: &x 1\nb: *x"):
        with pytest.raises(FabricError):
            scenario_from_yaml(text)


@settings(max_examples=100)
@given(st.text(max_size=100))
def test_noise_is_no_scenario(noise: str) -> None:
    with pytest.raises(FabricError):
        scenario_from_yaml(noise)


def job(number: int, hosts: int, submit_s: float, iterations: int, factor: float = 1.0) -> Job:
    pattern = Pattern(f"p{hosts}", (Phase(shift(hosts, 125_000).total, 1.0),))
    return Job(number, pattern, iterations, submit_s, factor)


def test_backfilling_fills_holes_without_delaying_the_first() -> None:
    # 20 hosts: job 0 takes 12 for 100 s, job 1 wants 16, job 2 wants 8 for 10 s: it fits beside job 0 and is done before job 1 can start.
    jobs = [job(0, 12, 0.0, 100), job(1, 16, 1.0, 10), job(2, 8, 2.0, 10)]
    fcfs = simulated_stream(TWO_LEVEL, jobs, Rules("fcfs"))
    easy = simulated_stream(TWO_LEVEL, jobs, Rules("easy"))
    assert fcfs[2].start_s >= fcfs[1].start_s > 99
    assert easy[2].start_s == 2.0 and easy[1].start_s == pytest.approx(fcfs[1].start_s, rel=1e-3)
    # A job that would still run when job 1 can start, on hosts that it needs, must wait.
    late = simulated_stream(TWO_LEVEL, [jobs[0], jobs[1], job(2, 8, 2.0, 500)], Rules("easy"))
    assert late[1].start_s == pytest.approx(fcfs[1].start_s, rel=1e-3) and late[2].start_s > late[1].start_s
    with pytest.raises(FabricError, match="job 0: needs more than the 20 hosts"):
        simulated_stream(TWO_LEVEL, [job(0, 21, 0.0, 1)], Rules())


def test_contention_is_fair() -> None:
    arcs = np.zeros(4)
    one, two, three = arcs.copy(), arcs.copy(), arcs.copy()
    one[0], two[0], three[1] = 1.0, 1.0, 0.5
    assert progress_rates([(one, 1.0), (two, 1.0), (three, 1.0)]) == pytest.approx([0.5, 0.5, 1.0])
    two[0] = 0.25
    assert progress_rates([(one, 1.0), (two, 1.0)]) == pytest.approx([0.8, 0.8])
    assert progress_rates([(arcs, 1.0)]) == [1.0] and progress_rates([]) == []


def test_a_stream_keeps_its_books() -> None:
    runs = [job(i, 1 + i % 7, 0.5 * i, 1 + i % 5, 1 + i % 3) for i in range(40)]
    for scheduler in ("fcfs", "easy"):
        results = simulated_stream(TWO_LEVEL, runs, Rules(scheduler, "compact"))
        assert [r.number for r in results] == list(range(40))
        assert all(r.submit_s <= r.start_s < r.end_s and r.end_s - r.start_s >= r.alone_s * (1 - 1e-6) for r in results)
        moments = sorted({r.start_s for r in results})
        assert max(sum(r.hosts for r in results if r.start_s <= moment < r.end_s - 1e-9) for moment in moments) <= 20


def test_simulate_writes_the_same_files_twice(tmp_path: Path) -> None:
    for text in (PAPER, STREAM):
        (tmp_path / "scenario.yaml").write_text(text)
        for folder in ("one", "two"):
            done = CliRunner().invoke(cli, ["simulate", str(tmp_path / "scenario.yaml"), "-o", str(tmp_path / folder), "--loads", "-q"], catch_exceptions=False)
            assert done.exit_code == 0
        for file in (tmp_path / "one").glob("*.[cs][sv][vg]"):
            assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
        assert pyarrow.parquet.read_table(tmp_path / "one" / "results.parquet").num_rows == (10 if text == PAPER else 4)
    assert "from,to" in (tmp_path / "one" / "loads.csv").read_text()
    shown = CliRunner().invoke(cli, ["simulate", str(tmp_path / "scenario.yaml"), "-q"], catch_exceptions=False)
    assert "makespan_s" in shown.output


def test_documents_from_the_command_line(tmp_path: Path) -> None:
    run = CliRunner()
    spec = "two-level:leaves=4,spines=2,hosts=5"
    for name in ("t.json", "t.graphml"):
        assert run.invoke(cli, ["topology", spec, "-o", str(tmp_path / name)], catch_exceptions=False).exit_code == 0
    assert "20 hosts, 6 switches" in run.invoke(cli, ["topology", str(tmp_path / "t.graphml")], catch_exceptions=False).output
    placed = run.invoke(cli, ["place", str(tmp_path / "t.json"), "cg:ranks=16", "-n", "2", "-o", str(tmp_path / "p.json")], catch_exceptions=False)
    assert placed.exit_code == 0
    made = run.invoke(cli, ["route", str(tmp_path / "t.json"), "cg:ranks=16", "--placement", str(tmp_path / "p.json"), "-o", str(tmp_path / "plan.json"), "--bound"], catch_exceptions=False)
    assert "most loaded between switches" in made.output
    topology = topology_from_json((tmp_path / "t.json").read_bytes())
    assert plan_from_json((tmp_path / "plan.json").read_bytes(), topology).algorithm == "ferrule"
    assert run.invoke(cli, ["place", spec, "cg:ranks=16", "-n", "8", "--how", "block", "--hostfile"]).output.split() == ["h1"] * 8 + ["h2"] * 8


def test_show(tmp_path: Path) -> None:
    run = CliRunner()
    shown = run.invoke(cli, ["show", "cg:ranks=64", "--color"], catch_exceptions=False, color=True)
    assert "\x1b[48;5;" in shown.output and "64 ranks" in shown.output
    for name in ("map.svg", "map.png"):
        assert run.invoke(cli, ["show", "mg:ranks=27", "--messages", "-o", str(tmp_path / name)], catch_exceptions=False).exit_code == 0
        assert (tmp_path / name).stat().st_size > 1000
    profile = [{"rank": r, "n_procs": 2, "tx_bytes": [0, 5][:: 1 - 2 * r], "tx_message_sizes": [0, 0, 3]} for r in range(2)]
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    shown = run.invoke(cli, ["show", str(tmp_path / "profile.json")], catch_exceptions=False)
    assert "ranks 2, hosts 0" in shown.output and re.search(r"2 … 3 B +6 #", shown.output)
    with pytest.raises(FabricError, match="No such file"):
        run.invoke(cli, ["show", str(tmp_path / "none")], catch_exceptions=False)


@settings(max_examples=30)
@given(st.integers(1, 300), st.integers(1, 80))
def test_maps_lose_nothing(ranks: int, cells: int) -> None:
    matrix = pattern_of(f"uniform:ranks={ranks},peers=2").total
    table = binned(matrix, cells)
    assert table.sum() == matrix.total_bytes and table.shape[0] == min(ranks, cells)
    assert len(terminal_map(matrix, cells).splitlines()) == table.shape[0] + 2


def test_cg_phases_are_its_exchanges() -> None:
    assert len(cg(128, 1000).phases) == 5
