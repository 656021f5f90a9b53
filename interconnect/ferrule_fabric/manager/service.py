"""What the manager does when jobs start and end, over whatever interface.

A job starts with the hosts of its ranks and its traffic (given, or known under a pattern's name). Its routes are computed around those of the running
jobs, stored, and installed; then the answer goes out. Anything that fails leaves the job on default routes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager import worker
from ferrule_fabric.manager.allocation import Allocations
from ferrule_fabric.manager.callers import Caller, Role
from ferrule_fabric.manager.lifetimes import Leases
from ferrule_fabric.manager.predict import Question
from ferrule_fabric.manager.refusals import Busy, Denied, Unknown
from ferrule_fabric.manager.state import JobRow, PastRow, State
from ferrule_fabric.model.documents import plan_from_json, plan_to_json
from ferrule_fabric.model.lanes import DSCP, LanePlan, pairs_text, plan_of
from ferrule_fabric.model.placement import Placement
from ferrule_fabric.model.plan import RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.model.traffic import Demands, Flow, TrafficMatrix
from ferrule_fabric.openflow.compiler import GROUPS_MAX, JobRoutes
from ferrule_fabric.openflow.controller import Controller
from ferrule_fabric.openflow.labels import LABELS_MAX, Labels, from_lists, to_lists
from ferrule_fabric.openflow.rules import Selector
from ferrule_fabric.patterns.merge import merged
from ferrule_fabric.queues.classes import QUEUES, queue_of_dscp
from ferrule_fabric.queues.keeper import Keeper
from ferrule_fabric.queues.ovsdb import Server
from ferrule_fabric.store.database import Application, PatternStore

log = logging.getLogger("ferrule_fabric.manager")

JOBS_MAX = 10_000
JOBS_OF_USER_MAX = 1_000
QUESTIONS_MAX = 8
ADVICE_MAX = 1_000
# A job that starts or ends doesn't wait for queues any longer; the keeper goes on.
QUEUES_PATIENCE_S = 1.0
COUNT_INTERVAL_S = 1.0
WARM_UP_HOSTS = 64
# A pattern with more kinds of phases is taken as a whole.
PHASES_MAX = 32
T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """A job with routes."""

    row: JobRow
    demands: Demands
    plan: RoutePlan
    selector: Selector


@dataclass(frozen=True)
class Started:
    """What came of a start: how many pairs have routes of their own, which have none and why, and how long it took. For a job with classes of lanes also their
    DSCP values, if the manager sets up queues, and what is wrong with these."""

    job: str
    number: int
    pairs: int
    left_out: tuple[tuple[tuple[str, str], str], ...]
    route_s: float
    install_s: float
    lane_dscp: str = ""
    queues: str = ""


class Manager:
    """See the module's head. ``admins`` are user ids that may do everything; ``allocations`` says on which hosts others start jobs; ``ovsdb`` are the servers
    through which switches get queues for classes of lanes, none for no queues."""

    def __init__(
        self,
        topology: Topology,
        state: State,
        patterns: PatternStore,
        admins: frozenset[int],
        entries_max: int,
        algorithm: str = "ferrule-time",
        groups_max: int = GROUPS_MAX,
        labels_max: int = LABELS_MAX,
        allocations: Allocations | None = None,
        ovsdb: Sequence[Server] = (),
    ) -> None:
        self.state, self.patterns, self.admins, self.algorithm = state, patterns, admins, algorithm
        self.allocations, self.leases = allocations or Allocations(), Leases()
        self.queues = Keeper(topology, ovsdb) if ovsdb else None
        self.controller = Controller(
            topology, state.next_generation(), entries_max, groups_max=groups_max, labels_max=labels_max, keep_labels=self._keep_labels, queues=self.queues is not None
        )
        # Jobs that start needn't wait for predictions.
        self.worker, self.oracle = worker.Worker(), worker.Worker()
        self.warm = False
        self._may_start = asyncio.Event()
        self._may_start.set()
        self.jobs: dict[str, Job] = {}
        self.started_s = time.time()
        self.load_bps: dict[int, float] = {}
        self._counted: tuple[float, dict[int, int]] = (0.0, {})
        self._lock, self._queues_lock = asyncio.Lock(), asyncio.Lock()
        self._asking = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._advice: dict[tuple[int, int], dict[str, Any]] = {}
        self._ended: dict[int, float] = {}
        self._restore(topology)

    def _restore(self, topology: Topology) -> None:
        """Jobs of the manager before this one go on."""
        for row in self.state.jobs():
            try:
                plan = plan_from_json(row.plan, topology)
                flows = [Flow(src, dst, int(size)) for src, dst, size in json.loads(row.traffic)]
                self.jobs[row.job] = Job(row, Demands.of_flows(flows, topology), plan, Selector(**json.loads(row.selector)))
            except (ValueError, TypeError, KeyError) as error:  # FabricError is a ValueError
                log.error("a stored job is damaged or doesn't fit the topology, and is dropped", extra={"job": row.job, "reason": str(error)})
                self.state.drop(row.number)
        self.controller.restore([_routes(job, topology) for job in self.jobs.values()], self._kept_labels(topology))
        if self.queues is not None:
            self.queues.classes = self._classes()
            self.controller.restore_queues(queue_of_dscp(self.queues.classes))

    def _keep_labels(self, labels: Labels) -> None:
        self.state.note("labels", json.dumps(to_lists(labels)))

    def _kept_labels(self, topology: Topology) -> Labels:
        try:
            return from_lists(json.loads(self.state.noted("labels") or "[]"), range(topology.host_count, topology.node_count), topology.arc_count)
        except (FabricError, ValueError) as error:
            log.error("stored path labels don't fit the topology and are dropped", extra={"reason": str(error)})
            return {}

    async def warm_up(self) -> None:
        """Computes small routes, so that the first job needn't wait for what is compiled on first use; jobs that start wait for the end of this."""
        self._may_start.clear()
        try:
            await self._warm_up(self.controller.topology)
        finally:
            self._may_start.set()
        self.warm = True

    async def _warm_up(self, topology: Topology) -> None:
        if topology.host_count > 1:
            hosts = topology.hosts[:WARM_UP_HOSTS]
            parts = [Demands.of_flows([Flow(a.name, hosts[(i + far) % len(hosts)].name, 1 + i) for i, a in enumerate(hosts)], topology) for far in (1, len(hosts) // 2)]
            try:
                await self.worker.run(worker.arrival, topology, [], "", parts[0].plus(parts[1]), self.algorithm, parts, timeout_s=worker.WARM_UP_S)
            except FabricError as error:
                log.warning("no route in the whole network", extra={"reason": str(error)})

    # Jobs

    def pattern(self, name: str, ranks: int) -> tuple[TrafficMatrix, tuple[TrafficMatrix, ...]]:
        """The traffic known under a name for so many ranks, and its phases. Raises `Unknown`."""
        found = self.patterns.latest_run(Application(name, "", ranks))
        if found is None:
            raise Unknown(f"no pattern {name!r} of {ranks} ranks")
        return self.patterns.matrix(found), merged(self.patterns.phases(found))

    def _classes(self) -> tuple[str, ...]:
        """Classes that lanes of running jobs have."""
        wanted = {name for job in self.jobs.values() if job.row.lanes for name in plan_of(job.row.lanes).classes}
        return tuple(name for name in QUEUES if name in wanted)

    async def _set_up_queues(self) -> str:
        """Has the switches get the queues that running jobs want, and no others. Returns what is wrong."""
        if self.queues is None:
            return "the manager sets up no queues: ferrule-fabric serve --ovsdb"
        classes = self._classes()
        if classes == self.queues.classes and not self.queues.trouble and not self._queues_lock.locked():
            return ""
        task = asyncio.create_task(self._change_queues(self.queues))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        done, _ = await asyncio.wait({task}, timeout=QUEUES_PATIENCE_S)
        return task.result() if done else f"not there within {QUEUES_PATIENCE_S:.0f} s; the manager goes on"

    async def _change_queues(self, queues: Keeper) -> str:
        """Queues are there before packets are sent to them, and stay until none is."""
        async with self._queues_lock:
            classes = self._classes()
            going = set(queues.classes) - set(classes)
            try:
                if going:
                    await self.controller.classify(queue_of_dscp(classes))
                wrong = await queues.want(classes)
                await self.controller.classify(queue_of_dscp(classes))
            except FabricError as error:
                log.error("queues", extra={"reason": str(error)})
                return error.problem
            return wrong

    async def start(
        self,
        name: str,
        caller: Caller,
        hosts: Sequence[str],
        traffic: TrafficMatrix,
        selector: Selector,
        pattern: str = "",
        phases: Sequence[TrafficMatrix] = (),
        algorithm: str = "",
        lease_s: float | None = None,
        lanes: LanePlan | None = None,
    ) -> Started:
        """Gives a job routes, and the classes of its lanes queues; a job of the same name and user gets new ones. With ``lease_s`` it ends unless it is renewed
        that often. Raises `Denied`."""
        # Jobs that end don't wait for this.
        await self._may_start.wait()
        started = await self._start(name, caller, hosts, traffic, selector, pattern, phases, algorithm, lease_s, lanes)
        if lanes is None or not lanes.classes:
            return started
        wrong = await self._set_up_queues()
        if wrong:
            log.warning("job without queues", extra={"job": name, "reason": wrong})
        return replace(started, lane_dscp=pairs_text({one: DSCP[one] for one in lanes.classes}) if self.queues else "", queues=wrong)

    async def _start(
        self,
        name: str,
        caller: Caller,
        hosts: Sequence[str],
        traffic: TrafficMatrix,
        selector: Selector,
        pattern: str,
        phases: Sequence[TrafficMatrix],
        algorithm: str,
        lease_s: float | None,
        lanes: LanePlan | None,
    ) -> Started:
        self._may(caller, self.jobs.get(name))
        await self.allocations.check(name, caller, hosts)
        async with self._lock:
            known = self.jobs.get(name)
            self._may(caller, known)
            if known is None and len(self.jobs) >= JOBS_MAX:
                raise FabricError("job", f"there are {JOBS_MAX} already")
            if known is None and not caller.is_administrator and sum(job.row.uid == caller.uid for job in self.jobs.values()) >= JOBS_OF_USER_MAX:
                raise FabricError("job", f"there are {JOBS_OF_USER_MAX} of this user already")
            began = time.perf_counter()
            topology = self.controller.topology
            placement = Placement(tuple(hosts))
            demands = Demands.of_traffic(traffic, placement, topology)
            parts = [part for part in (Demands.of_traffic(phase, placement, topology) for phase in phases[:PHASES_MAX]) if part.count]
            algorithm = algorithm or self.algorithm
            others = {job: (held.demands, held.plan) for job, held in self.jobs.items() if job != name}
            measured = parts if len(phases) <= PHASES_MAX else []
            routes = await self.worker.run(worker.arrival, topology, worker.listed(topology, others), name, demands, algorithm, measured)
            plan, taken = self._free(RoutePlan(topology.digest, routes, name, algorithm), caller)
            route_s = time.perf_counter() - began
            sizes = json.dumps([[flow.src, flow.dst, flow.bytes] for flow in demands.flows(topology)])
            began_s, hosts_used = time.time(), int(np.union1d(demands.src, demands.dst).size)
            number = known.row.number if known else 0
            past = PastRow(number, name, caller.uid, pattern, hosts_used, len(plan), began_s)
            row = JobRow(number, name, caller.uid, pattern, began_s, json.dumps(asdict(selector)), plan_to_json(plan), sizes, lease_s, str(lanes) if lanes and lanes.classes else None)
            row = self.state.begin(row, past)
            job = Job(row, demands, plan, selector)
            try:
                left_out = await self.controller.install(_routes(job, topology))
            except FabricError:
                self._forget(known, row)
                raise
            self.jobs[name] = job
            self._predict(job, topology)
            self.leases.renew(job)
            started = Started(name, row.number, len(plan) - len(left_out), (*taken, *left_out), route_s, time.perf_counter() - began - route_s)
            log.info("job started", extra={"job": name, "uid": caller.uid, "pairs": started.pairs, "left_out": len(started.left_out), "route_s": route_s, "install_s": started.install_s})
            return started

    def _free(self, plan: RoutePlan, caller: Caller) -> tuple[RoutePlan, list[tuple[tuple[str, str], str]]]:
        """The plan without the pairs that jobs of other users have, whatever packets these take: rules for some packets of a pair would go before theirs."""
        if caller.is_administrator:
            return plan, []
        others = {pair for job in self.jobs.values() if job.row.uid != caller.uid for pair in job.plan.routes}
        taken = [(pair, "another job has this pair, of another user") for pair in plan.routes if pair in others]
        return (replace(plan, routes={pair: route for pair, route in plan if pair not in others}) if taken else plan), taken

    def _forget(self, known: Job | None, row: JobRow) -> None:
        try:
            if known is not None:
                self.state.put(known.row)
            else:
                self.state.drop(row.number, past=True)
        except FabricError as error:
            log.error("the store keeps a job that has no routes", extra={"job": row.job, "reason": str(error)})
            if known is None:
                self._ended[row.number] = time.time()

    def _may(self, caller: Caller, job: Job | None) -> None:
        if caller.role is Role.VIEWER:
            raise Denied("a viewer may only look")
        if job is not None and not caller.may_touch(job.row.uid):
            raise Denied(f"job {job.row.job!r} is another user's")

    def renew(self, name: str, caller: Caller) -> float | None:
        """The process that started a job still lives; returns the job's lease in seconds. Raises `Unknown` or `Denied`."""
        job = self.jobs.get(name)
        if job is None:
            raise Unknown(f"no job {name!r}")
        self._may(caller, job)
        self.leases.renew(job)
        return job.row.lease_s

    async def end(self, name: str, caller: Caller) -> int:
        """Removes a job's routes, or those of all its steps (``name.*``); returns how many there were. Raises `Unknown` if none, and `Denied`."""
        async with self._lock:
            found = [job for held, job in self.jobs.items() if held == name or held.startswith(f"{name}.")]
            if not found:
                raise Unknown(f"no job {name!r}")
            for job in found:
                self._may(caller, job)
            for job in found:
                await self.controller.remove(job.row.number)
                self._ended[job.row.number] = time.time()
                del self.jobs[job.row.job]
                self.leases.forget(job.row.job)
                log.info("job ended", extra={"job": job.row.job, "uid": caller.uid})
            self.forget_ended()
        if any(job.row.lanes for job in found):
            await self._set_up_queues()
        return len(found)

    def forget_ended(self) -> None:
        """Jobs whose rules are gone leave the store. Where that is refused they have ended nevertheless, and it is tried again."""
        try:
            for number, ended_s in list(self._ended.items()):
                self.state.end(number, ended_s)
                del self._ended[number]
        except FabricError as error:
            log.error("the store keeps jobs that have ended", extra={"jobs": len(self._ended), "reason": str(error)})

    # History and predictions

    def _predict(self, job: Job, topology: Topology) -> None:
        """Has a job's gain predicted for the history, after the answer to who started it."""

        async def work() -> None:
            try:
                found = await self.oracle.run(worker.judge, topology, job.demands, dict(job.plan.routes))
                told = {name: {key: value for key, value in one.items() if key != "arc_s"} for name, one in found.items()}
                self.state.predicted(job.row.number, json.dumps(told))
            except FabricError as error:
                log.warning("no prediction", extra={"job": job.row.job, "reason": str(error)})

        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def loads(self, name: str) -> dict[str, Any]:
        """A job's loads and time on default routes and on those it has now, by arc. Raises `Unknown`."""
        if name not in self.jobs:
            raise Unknown(f"no job {name!r}")
        job = self.jobs[name]
        now = self.controller.jobs.get(job.row.number)
        return await self._ask(worker.judge, self.controller.topology, job.demands, dict((now.plan if now else job.plan).routes))

    async def what_if(self, question: Question, beside: bool) -> list[dict[str, Any]]:
        """Predictions; ``beside`` the running jobs or on an empty network. Raises `Busy`."""
        others = worker.listed(self.controller.topology, {name: (job.demands, job.plan) for name, job in self.jobs.items()}) if beside else []
        return await self._ask(worker.answer, self.controller.topology, others, question)

    async def advice(self, pattern: str, ranks: int, hosts: int) -> dict[str, Any]:
        """On how many leaf switches a job should be at most (`predict.advice`); remembered for the run that it is from. Raises `Unknown`."""
        run = self.patterns.latest_run(Application(pattern, "", ranks))
        if run is None:
            raise Unknown(f"no pattern {pattern!r} of {ranks} ranks")
        if not 1 <= hosts <= ranks:
            raise FabricError("nodes", f"must be 1 to {ranks}, the number of ranks, not {hosts}")
        known = self._advice.get((run, hosts))
        if known is None:
            traffic, phases = self.pattern(pattern, ranks)
            known = await self._ask(worker.advise, self.controller.topology, phases or (traffic,), hosts)
            if len(self._advice) >= ADVICE_MAX:
                self._advice.pop(next(iter(self._advice)))
            self._advice[run, hosts] = known
        return known

    async def _ask(self, function: Callable[..., T], *arguments: Any) -> T:
        if self._asking >= QUESTIONS_MAX:
            raise Busy("too many questions at once; try again")
        self._asking += 1
        try:
            return await self.oracle.run(function, *arguments)
        finally:
            self._asking -= 1

    def history(self, limit: int) -> list[dict[str, Any]]:
        """The latest jobs, latest first."""
        return [asdict(row) | {"predicted": json.loads(row.predicted)} for row in self.state.history(limit)]

    def known_patterns(self) -> list[dict[str, Any]]:
        """The stored patterns."""
        return [{"pattern": one.command, "input_hash": one.input_hash, "ranks": one.ranks} for one in self.patterns.applications()]

    def close(self) -> None:
        """Ends the processes."""
        for task in self._tasks:
            task.cancel()
        self.worker.close()
        self.oracle.close()

    # Looking

    async def count_forever(self) -> None:
        """Keeps `load_bps` (bits per second by arc) up to date."""
        while True:
            await asyncio.sleep(COUNT_INTERVAL_S)
            try:
                now, counted = time.perf_counter(), await self.controller.counters()
            except (FabricError, ConnectionError) as error:
                log.warning("no counters", extra={"reason": str(error)})
                continue
            before_s, before = self._counted
            self.load_bps = {arc: max(0.0, 8 * (count - before[arc]) / (now - before_s)) for arc, count in counted.items() if arc in before}
            self._counted = now, counted


def _routes(job: Job, topology: Topology) -> JobRoutes:
    volume = {(flow.src, flow.dst): float(flow.bytes) for flow in job.demands.flows(topology)}
    return JobRoutes(job.row.number, job.plan, job.selector, volume)
