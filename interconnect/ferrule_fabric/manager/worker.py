"""Computes in a process of its own, so that the sessions with switches never wait for it (nor for what is compiled on first use)."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.predict import Question
from ferrule_fabric.model.plan import Route, RoutePlan
from ferrule_fabric.model.topology import FloatArray, Topology
from ferrule_fabric.model.traffic import Demands, TrafficMatrix

TIMEOUT_S, WARM_UP_S = 60.0, 900.0
# Above so many pairs of hosts, times its phases, estimating times would keep a job waiting: `ferrule` then stands for `ferrule-time`.
TIMED_MAX = 100_000
PR_SET_PDEATHSIG = 1
Routes = dict[tuple[str, str], Route]
Others = list[tuple[str, Demands, Routes]]
T = TypeVar("T")


def _begin(parent: int) -> None:
    """In the new process: it ends with its parent, however that ends, and leaves interrupts to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def arrival(topology: Topology, others: Others, job: str, demands: Demands, algorithm: str, phases: Sequence[Demands] = ()) -> Routes:
    """As `routing.jobs.arrival`, with the phases that ``demands`` are made of, and without the integer program: a job that starts waits for this."""
    from ferrule_fabric.manager.choice import robust_paths
    from ferrule_fabric.routing import jobs
    from ferrule_fabric.routing.allocate import Options, flow_paths
    from ferrule_fabric.routing.fabric import fabric_of
    from ferrule_fabric.routing.flow_paths import plan_of

    if algorithm == "ferrule-time" and demands.count * max(1, len(phases)) > TIMED_MAX:
        algorithm = "ferrule"
    running = {name: (held, RoutePlan(topology.digest, routes, name)) for name, held, routes in others}
    fabric, background = fabric_of(topology), jobs.background_s(topology, running)
    options = Options(integer=False)
    paths = robust_paths(fabric, demands, phases, background, options) if algorithm == "ferrule-time" else flow_paths(fabric, demands, algorithm, background, options)
    return dict(plan_of(fabric, demands, paths, job, algorithm).routes)


def background_s(topology: Topology, others: Others) -> FloatArray:
    """What these jobs put on each arc, seconds."""
    from ferrule_fabric.routing import jobs

    return jobs.background_s(topology, {name: (held, RoutePlan(topology.digest, routes, name)) for name, held, routes in others})


def answer(topology: Topology, others: Others, question: Question) -> list[dict[str, Any]]:
    """`predict.what_if` beside running jobs."""
    from ferrule_fabric.manager.predict import what_if

    return what_if(topology, background_s(topology, others) if others else None, question)


def advise(topology: Topology, phases: tuple[TrafficMatrix, ...], hosts: int) -> dict[str, Any]:
    """`predict.advice`."""
    from ferrule_fabric.manager.predict import advice

    return advice(topology, phases, hosts)


def judge(topology: Topology, demands: Demands, routes: Routes) -> dict[str, Any]:
    """`predict.judged`."""
    from ferrule_fabric.manager.predict import judged

    return judged(topology, demands, routes)


def listed(topology: Topology, jobs: Mapping[str, tuple[Demands, RoutePlan]]) -> Others:
    """Jobs as they travel to the process; traffic of pairs without a route of the job's own is left out."""
    return [(name, _routed(topology, held, plan), dict(plan.routes)) for name, (held, plan) in jobs.items()]


def _routed(topology: Topology, held: Demands, plan: RoutePlan) -> Demands:
    if len(plan) == held.count:
        return held
    names = topology.node_names
    own = [i for i, (src, dst) in enumerate(zip(held.src.tolist(), held.dst.tolist())) if (names[src], names[dst]) in plan.routes]
    return Demands(held.hosts, held.src[own], held.dst[own], held.bytes[own], held.messages[own])


class Worker:
    """The process; a new one is started when it has died or taken too long."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self.timeout_s = timeout_s
        self._pool = self._new()

    @staticmethod
    def _new() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (os.getpid(),))

    async def run(self, function: Callable[..., T], *arguments: Any, timeout_s: float | None = None) -> T:
        """The function's result. Raises its `FabricError`, and one when it takes too long."""
        pool = self._pool
        try:
            return await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(pool, function, *arguments), timeout_s or self.timeout_s)
        except (BrokenProcessPool, TimeoutError) as error:
            if pool is self._pool:
                self.close()
                self._pool = self._new()
            raise FabricError("computation", f"no result: {type(error).__name__}") from None

    def close(self) -> None:
        """Ends the process, whatever it does."""
        for process in list((self._pool._processes or {}).values()):
            process.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)
