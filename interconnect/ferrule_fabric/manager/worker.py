"""Computes routes in a process of its own, so that the sessions with switches never wait for it (nor for what is compiled on first use)."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import Route, RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.model.traffic import Demands

TIMEOUT_S = 60.0
PR_SET_PDEATHSIG = 1
Routes = dict[tuple[str, str], Route]
Others = list[tuple[str, Demands, Routes]]


def _begin(parent: int) -> None:
    """In the new process: it ends with its parent, however that ends, and leaves interrupts to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _arrival(topology: Topology, others: Others, job: str, demands: Demands, algorithm: str) -> Routes | tuple[str, str]:
    from ferrule_fabric.routing import jobs
    from ferrule_fabric.routing.allocate import Options

    running = {name: (held, RoutePlan(topology.digest, routes, name)) for name, held, routes in others}
    try:
        return dict(jobs.arrival(topology, running, job, demands, algorithm, Options(integer=False)).routes)
    except FabricError as error:
        return error.where, error.problem


class Worker:
    """The process; a new one is started when it has died."""

    def __init__(self) -> None:
        self._pool = self._new()

    @staticmethod
    def _new() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (os.getpid(),))

    async def arrival(self, topology: Topology, others: Mapping[str, tuple[Demands, RoutePlan]], job: str, demands: Demands, algorithm: str) -> RoutePlan:
        """`routing.jobs.arrival`. Raises `FabricError`, also when it takes longer than `TIMEOUT_S`."""
        listed: Others = [(name, held, dict(plan.routes)) for name, (held, plan) in others.items()]
        try:
            future = asyncio.get_running_loop().run_in_executor(self._pool, _arrival, topology, listed, job, demands, algorithm)
            found = await asyncio.wait_for(future, TIMEOUT_S)
        except (BrokenProcessPool, TimeoutError) as error:
            self.close()
            self._pool = self._new()
            raise FabricError("routing", f"no result: {type(error).__name__}") from None
        if isinstance(found, tuple):
            raise FabricError(*found)
        return RoutePlan(topology.digest, found, job, algorithm)

    def close(self) -> None:
        """Ends the process, whatever it does."""
        for process in list((self._pool._processes or {}).values()):
            process.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)
