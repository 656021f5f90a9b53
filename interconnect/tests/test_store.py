"""The store: what goes in comes out, once; migrations; retention; damaged and foreign input. PostgreSQL where a server is at hand."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, text

from ferrule_fabric import FabricError, TrafficMatrix
from ferrule_fabric.cli import cli
from ferrule_fabric.patterns.generate import cg
from ferrule_fabric.store.database import Application, PatternStore, Run, packed, unpacked
from ferrule_fabric.store.schema import MIGRATIONS

APPLICATION = Application("cg.x", "abc", 16)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PatternStore]:
    url = f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    if url is None:
        pytest.skip("no PostgreSQL server is installed")
    if request.param == "postgresql":
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS matrices, runs, applications, ferrule_schema CASCADE"))
        engine.dispose()
    with PatternStore(url) as opened:
        yield opened


def run(number: int, application: Application = APPLICATION) -> Run:
    return Run(application, f"job{number}", 1000.0 + number, 2.5, tuple(f"n{r // 4}" for r in range(application.ranks)))


def test_runs_come_back(store: PatternStore) -> None:
    pattern = cg(16, 10_000)
    phases = tuple(phase.traffic for phase in pattern.phases)
    first = store.add(run(1), pattern.total, phases)
    assert store.add(run(1), pattern.total, phases) == first
    second = store.add(run(2), pattern.total.scaled(2))
    assert [r.id for r in store.runs(APPLICATION)] == [second, first]
    assert store.runs()[1].hosts == run(1).hosts
    assert np.array_equal(store.matrix(first).dense_bytes(), pattern.total.dense_bytes())
    assert [p.total_bytes for p in store.phases(first)] == [p.total_bytes for p in phases]
    store.set_outcome(second, {"time_s": 1.5})
    assert json.loads(store.runs(limit=1)[0].outcome) == {"time_s": 1.5}
    with pytest.raises(FabricError, match="there is no run 99"):
        store.set_outcome(99, {})
    with pytest.raises(FabricError, match="no matrix of phase 7"):
        store.matrix(first, 7)
    with pytest.raises(FabricError, match="16 ranks, the application of 4"):
        store.add(run(1, Application("x", "", 4)), pattern.total)


def test_the_latest_matrix_or_that_of_another_input(store: PatternStore) -> None:
    small, large = cg(16, 1_000).total, cg(16, 1_000_000).total
    store.add(run(1), small)
    store.add(run(2), large)
    for application, expected in ((APPLICATION, large), (Application("cg.x", "other", 16), large)):
        found = store.latest(application)
        assert found is not None and found.total_bytes == expected.total_bytes
    assert store.latest(Application("cg.x", "abc", 32)) is None


def test_retention(store: PatternStore) -> None:
    other = Application("ft.x", "", 4)
    for number in range(6):
        store.add(run(number), cg(16, 1000 + number).total)
        store.add(run(number, other), cg(4, 1000 + number).total)
    assert store.retain(3) == 6
    assert [r.recorded_s for r in store.runs(other)] == [1005.0, 1004.0, 1003.0]
    assert store.retain(3, not_before_s=2000.0) == 6
    assert store.applications() == ()


def test_export_and_import(store: PatternStore, tmp_path: Path) -> None:
    pattern = cg(16, 10_000)
    store.add(run(1), pattern.total, tuple(phase.traffic for phase in pattern.phases))
    store.add(run(2), pattern.total)
    lines = list(store.exported())
    with PatternStore(f"sqlite:///{tmp_path / 'second.db'}") as second:
        assert second.imported(iter(lines)) == 2 and second.imported(iter(lines)) == 2
        assert list(second.exported()) == lines
        for wrong, message in (("{}", "line 1: not a run"), (lines[0].replace('"version": 1', '"version": 9', 1), "version 9"), ("nonsense", "line 1: not a run")):
            with pytest.raises(FabricError, match=message):
                second.imported(iter([wrong]))
        broken = json.loads(lines[0])
        broken["total"]["dst"][0] = 99
        with pytest.raises(FabricError, match=r"line 1: .*traffic.dst\[0\]: 99"):
            second.imported(iter([json.dumps(broken)]))


def test_an_old_store_is_brought_up_to_date_and_a_new_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE ferrule_schema (version INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO ferrule_schema VALUES (1)"))
        MIGRATIONS[0](connection)
        connection.execute(text("INSERT INTO applications VALUES (1, 'cg.x', 'abc', 16)"))
        connection.execute(text("INSERT INTO runs VALUES (1, 'u', 1, 'j', 5.0, 1.0, '[]', '{}')"))
        connection.execute(text("INSERT INTO matrices VALUES (1, -1, :data)"), {"data": packed(cg(16, 1000).total)})
    engine.dispose()
    with PatternStore(f"sqlite:///{path}") as store:
        assert store.runs()[0].routing == "" and store.matrix(1).ranks == 16
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE ferrule_schema SET version = 99")
    with pytest.raises(FabricError, match="has version 99, this program knows up to"):
        PatternStore(f"sqlite:///{path}")


def test_damage_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, but long enough to be looked at as one" * 10)
    with pytest.raises(FabricError, match="not a database"):
        PatternStore(f"sqlite:///{tmp_path / 'text.db'}")
    for url, message in (("nonsense", "Could not parse"), ("oracle9://x", "Can't load plugin"), (f"sqlite:///{tmp_path}/none/x.db", "unable to open")):
        with pytest.raises(FabricError, match=message):
            PatternStore(url)
    data = packed(cg(16, 1000).total)
    for wrong in (b"", data[:50], data[:-30], b"PK" + data[2:60]):
        with pytest.raises(FabricError, match="here: damaged matrix"):
            unpacked(wrong, "here")
    assert unpacked(data, "here").total_bytes == cg(16, 1000).total.total_bytes


def test_large_matrices_are_small(tmp_path: Path) -> None:
    side = np.arange(512)
    matrix = TrafficMatrix.of_pairs(512, np.repeat(side, 512), np.tile(side, 512), np.full(512 * 512, 65536))
    assert len(packed(matrix)) < 200_000


def test_the_store_from_the_command_line(tmp_path: Path) -> None:
    profile = [{"rank": r, "n_procs": 2, "duration": 2.0, "processor_name": "n0", "tx_bytes": [0, 5][:: 1 - 2 * r]} for r in range(2)]
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    url = ["store", "--url", f"sqlite:///{tmp_path / 's.db'}"]
    invoke = CliRunner().invoke
    assert invoke(cli, [*url, "add", str(tmp_path / "profile.json"), "--command", "a.out 3"], catch_exceptions=False).output == "1\n"
    assert "a.out 3" in invoke(cli, [*url, "list"], catch_exceptions=False).output
    assert invoke(cli, [*url, "export", str(tmp_path / "runs")], catch_exceptions=False).exit_code == 0
    assert "1 runs deleted" in invoke(cli, [*url, "prune", "--keep", "0"], catch_exceptions=False).output
    assert "1 runs read" in invoke(cli, [*url, "import", str(tmp_path / "runs")], catch_exceptions=False).output
