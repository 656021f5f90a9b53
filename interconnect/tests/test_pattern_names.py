"""A pattern's name means the same to the API, job_submit.lua and the SPANK plugin (for that see tests/net/test_spank_input.py), and means what was stored last."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from pattern_names import BAD, GOOD
from test_api_guard import ask, manager  # noqa: F401
from test_doctor import HARNESS, LUAS, SCRIPT

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.service import Manager
from ferrule_fabric.patterns.generate import cg
from ferrule_fabric.patterns.names import checked
from ferrule_fabric.store.database import Application, PatternStore, Run


@pytest.mark.parametrize("name", GOOD + BAD)
def test_the_manager(name: str) -> None:
    if name in GOOD:
        assert checked(name) == name
    else:
        with pytest.raises(FabricError, match="a name has 1 to 255"):
            checked(name)


@pytest.mark.skipif(not LUAS or shutil.which("curl") is None, reason="no lua or no curl")
@pytest.mark.parametrize("lua", LUAS)
def test_lua(lua: str, tmp_path: Path) -> None:
    (tmp_path / "harness.lua").write_text(HARNESS)
    for name in GOOD + BAD:
        job = f"{{environment = {{FERRULE_COMM_PATTERN = {json.dumps(name, ensure_ascii=False)}}}, num_tasks = 8, min_nodes = 4}}"
        # Nobody is there; only of a good name it is asked.
        environment = os.environ | {"FERRULE_FABRIC_SOCKET": str(tmp_path / "nobody")}
        done = subprocess.run([lua, str(tmp_path / "harness.lua"), str(SCRIPT), job], capture_output=True, text=True, timeout=60, check=False, env=environment)
        assert done.returncode == 0, (name, done.stderr)
        assert ("no choice of nodes" in done.stdout) == (name in GOOD), (name, done.stdout)


def test_what_was_stored_last_is_meant(tmp_path: Path) -> None:
    a, b = cg(16, 10_000), cg(16, 20_000)
    application = Application("cg", "", 16)

    def run(recorded_s: float) -> Run:
        return Run(application, "", recorded_s, 1.0, ())

    with PatternStore(f"sqlite:///{tmp_path}/store") as store:
        first, second = store.put(run(10.0), a.total), store.put(run(10.0), b.total)
        assert store.latest_run(application) == second != first
        third = store.put(run(10.0), a.total)
        latest = store.latest(application)
        assert store.latest_run(application) == third and latest is not None and latest.total_bytes == a.total.total_bytes
        # Once more the same is stored once; with a clock that goes backwards the last is the last nevertheless; other phases are another pattern.
        assert store.put(run(20.0), a.total) == third
        assert store.put(run(5.0), b.total) == store.latest_run(application) != third
        before = store.latest_run(application)
        assert store.put(run(30.0), b.total, tuple(phase.traffic for phase in b.phases)) == store.latest_run(application) != before


def test_what_was_put_last_is_meant(manager: Manager) -> None:  # noqa: F811
    """The same at the API, which refuses names that users couldn't say."""

    def profile(size: int) -> dict[str, object]:
        common = {"processor_name": "x", "n_procs": 2, "duration": 1.0, "rx_bytes": [0, 0], "rx_messages": [0, 0], "tx_message_sizes": [], "rx_message_sizes": []}
        return {"ranks": [common | {"rank": rank, "tx_bytes": [size * rank, size * (1 - rank)], "tx_messages": [rank, 1 - rank]} for rank in (0, 1)]}

    for size in (1000, 5000, 1000):
        answer = ask(manager, 0, "PUT", "/v1/patterns/a/b", profile(size))
        assert answer.status_code == 201 and manager.pattern("a/b", 2)[0].total_bytes == 2 * size, answer.text
    assert ask(manager, 0, "PUT", "/v1/patterns/a=b", profile(1)).status_code == 400
