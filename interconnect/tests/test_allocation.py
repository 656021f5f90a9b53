"""What Slurm's commands say, and jobs whose Slurm job has ended. (Real Slurm: tests/net/slurm_world.py.)"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_api_guard import JOB, ask, manager  # noqa: F401

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager import allocation
from ferrule_fabric.manager.allocation import Allocation, Slurm, number_of
from ferrule_fabric.manager.lifetimes import reconcile
from ferrule_fabric.manager.service import Manager

Fake = Callable[[str, str], None]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Makes a command of Slurm's a shell script."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def make(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    make("scontrol", 'test "$1 $2 $3" = "show hostnames h[1-2]" && printf "h1\\nh2\\n"')
    return make


def of(number: int) -> Allocation | None:
    return asyncio.run(Slurm().allocation(number))


def test_what_slurm_says(fake: Fake) -> None:
    fake("squeue", 'echo "42|1001|RUNNING|h[1-2]"; echo "43|1002|COMPLETING|h3"; echo "44|1002|PENDING|"; echo "45|1002|COMPLETED|h3"; echo "47|1002|NEW_STATE|h3"')
    assert of(42) == Allocation(42, 1001, frozenset({"h1", "h2"}))
    # Of others no new job may start; one that isn't over keeps its routes.
    assert of(43) is None and of(44) is None and of(45) is None and of(46) is None and of(47) is None
    assert asyncio.run(Slurm().alive()) == {42, 43, 47}


def test_slurm_in_trouble(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never looks as if there were no job."""
    monkeypatch.setattr(allocation, "COMMAND_TIMEOUT_S", 0.5)
    fake("squeue", 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1')
    assert of(42) is None
    for script, why in (
        ('echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2; exit 1', "Unable to contact"),
        ("exit 3", "failed"),
        ("exec sleep 100", "not answered within"),
        ("echo what is this", "which is not NUMBER"),
        ('echo "x|1001|RUNNING|h1"', "which is not NUMBER"),
    ):
        fake("squeue", script)
        for question in (Slurm().allocation(42), Slurm().alive()):
            with pytest.raises(FabricError, match=why):
                asyncio.run(question)
    fake("squeue", 'echo "42|1001|RUNNING|h[1-3]"')
    with pytest.raises(FabricError, match="scontrol"):
        of(42)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FabricError, match="can't be run"):
        of(42)


@given(st.text(max_size=20) | st.integers(0, 10**12).map(str) | st.integers(0, 10**6).map(lambda n: f"{n}.0"))
def test_numbers_in_names(name: str) -> None:
    number, (head, _, _) = number_of(name), name.partition(".")
    assert number == (int(head) if head.isascii() and head.isdigit() and not head.startswith("0") and len(head) <= 10 else None)


def test_jobs_of_slurm_end_with_their_slurm_job(manager: Manager) -> None:  # noqa: F811
    for name in ("42.0", "42.mpiexec-1", "43.0", "own"):
        assert ask(manager, 0, "POST", "/v1/jobs", JOB | {"job": name}).status_code == 201

    class Slurmctld:
        def __init__(self, *numbers: int) -> None:
            self.numbers = frozenset(numbers)

        async def allocation(self, number: int) -> Allocation | None:
            return None

        async def alive(self) -> frozenset[int]:
            # A job that starts while Slurm is asked isn't in the answer, and stays.
            if "44.0" not in manager.jobs:
                await asyncio.to_thread(ask, manager, 0, "POST", "/v1/jobs", JOB | {"job": "44.0"})
            return self.numbers

    class Away(Slurmctld):
        async def alive(self) -> frozenset[int]:
            raise FabricError("Slurm", "squeue: no answer")

    asyncio.run(reconcile(manager, Slurmctld(43, 99)))
    assert set(manager.jobs) == {"43.0", "44.0", "own"}
    with pytest.raises(FabricError, match="no answer"):
        asyncio.run(reconcile(manager, Away()))
    assert set(manager.jobs) == {"43.0", "44.0", "own"}
    asyncio.run(reconcile(manager, Slurmctld()))
    assert set(manager.jobs) == {"own"} and set(manager.controller.jobs) == {manager.jobs["own"].row.number}
