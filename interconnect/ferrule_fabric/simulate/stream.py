"""Streams of jobs under a scheduler: arrival, queue, selection, placement, routing around the jobs that run, contention, departure.

Contention: alone, job j needs T_j per iteration and puts L_j[a] seconds on arc a. With others it progresses at x_j (1 = as alone) such that no arc is
more than full, sum_j x_j L_j[a] / T_j <= 1; the x_j are max-min fair, so that jobs that share a bottleneck slow down alike. Rates are made anew
whenever a job starts or ends.

Schedulers: ``fcfs``; ``easy``, first come first served with backfilling (D. Lifka, "The ANL/IBM SP scheduling system", 1995): a later job starts early if by the users'
estimates it doesn't delay the first in the queue. Hosts are not shared between jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import FloatArray, IntArray, Topology
from ferrule_fabric.patterns.pattern import Pattern
from ferrule_fabric.placing.place import host_numbers, hosts_needed, slots_of
from ferrule_fabric.placing.select import selected
from ferrule_fabric.routing.allocate import DEFAULTS, Options, flow_paths
from ferrule_fabric.routing.fabric import fabric_of
from ferrule_fabric.routing.flow_paths import arc_seconds
from ferrule_fabric.simulate.cells import job_demands, job_times_s
from ferrule_fabric.simulate.scenario import SCHEDULERS, Stream

DONE = 1e-9


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a stream: ``iterations`` of ``pattern``, submitted at ``submit_s``, asking for ``estimate_factor`` times what it needs alone."""

    number: int
    pattern: Pattern
    iterations: int
    submit_s: float
    estimate_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of a job; ``alone_s`` is its run time without others on the routes that it got."""

    number: int
    pattern: str
    hosts: int
    submit_s: float
    start_s: float
    end_s: float
    alone_s: float
    peak_load_s: float

    @property
    def slowdown(self) -> float:
        """(wait + run) / run alone."""
        return (self.end_s - self.submit_s) / max(self.alone_s, 1e-12)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a stream is run."""

    scheduler: str = "fcfs"
    selection: str = "first"
    placement: str = "block"
    routing: str = "ferrule"
    ranks_per_host: int = 1
    seed: int = 0
    tolerance: float = 0.01
    options: Options = DEFAULTS

    def __post_init__(self) -> None:
        if self.scheduler not in SCHEDULERS:
            raise FabricError("scheduler", f"unknown scheduler {self.scheduler!r}; known are {', '.join(SCHEDULERS)}")


@dataclass(slots=True)
class _Running:
    job: Job
    hosts: IntArray
    start_s: float
    iteration_s: float
    load_s: FloatArray
    left: float
    planned_end_s: float
    rate: float = 1.0


@dataclass(slots=True)
class _State:
    now_s: float = 0.0
    free: set[int] = field(default_factory=set)
    queue: list[Job] = field(default_factory=list)
    running: list[_Running] = field(default_factory=list)
    results: list[JobResult] = field(default_factory=list)


def jobs_of(stream: Stream, patterns: Sequence[Pattern], seed: int) -> tuple[Job, ...]:
    """The jobs of a stream, drawn from the seed; arrivals ascend."""
    generator = np.random.default_rng(seed)
    arrivals = np.cumsum(generator.exponential(stream.mean_interarrival_s, stream.jobs))
    kinds = generator.integers(0, len(patterns), stream.jobs)
    iterations = generator.integers(stream.iterations[0], stream.iterations[1] + 1, stream.jobs)
    factors = generator.uniform(stream.estimate_factor[0], stream.estimate_factor[1], stream.jobs)
    return tuple(Job(i, patterns[kinds[i]], int(iterations[i]), float(arrivals[i]), float(factors[i])) for i in range(stream.jobs))


def simulated_stream(topology: Topology, jobs: Sequence[Job], rules: Rules, progress: Callable[[], None] = lambda: None) -> list[JobResult]:
    """Runs the stream to its end; results by job number. Raises `FabricError` for a job that can never fit."""
    connected = np.flatnonzero(fabric_of(topology).host_switch >= 0).tolist()
    for job in jobs:
        if hosts_needed(job.pattern.ranks, rules.ranks_per_host) > len(connected):
            raise FabricError(f"job {job.number}", f"needs more than the {len(connected)} hosts there are")
    state = _State(free=set(connected))
    waiting = sorted(jobs, key=lambda job: (job.submit_s, job.number))
    next_arrival = 0
    while next_arrival < len(waiting) or state.queue or state.running:
        ending_s = min((r.left * r.iteration_s / r.rate + state.now_s for r in state.running), default=np.inf)
        arriving_s = waiting[next_arrival].submit_s if next_arrival < len(waiting) else np.inf
        _advance(state, min(ending_s, arriving_s))
        if arriving_s <= ending_s:
            state.queue.append(waiting[next_arrival])
            next_arrival += 1
        for finished in [r for r in state.running if r.left <= DONE * max(1, r.job.iterations)]:
            _end(state, finished)
            progress()
        while (chosen := _next_job(state, rules)) is not None:
            state.queue.remove(chosen)
            _start(topology, state, chosen, rules)
        for run, rate in zip(state.running, progress_rates([(run.load_s, run.iteration_s) for run in state.running])):
            run.rate = rate
    return sorted(state.results, key=lambda result: result.number)


def progress_rates(jobs: Sequence[tuple[FloatArray, float]]) -> list[float]:
    """Rate (0..1] of each job, given as (seconds on each arc, seconds) per iteration: max-min fair, no arc more than full."""
    if not jobs:
        return []
    use = np.stack([load / max(time_s, 1e-300) for load, time_s in jobs])
    rate = np.zeros(len(jobs))
    going = np.ones(len(jobs), dtype=np.bool_)
    while going.any():
        fixed = rate @ use
        rising = use[going].sum(axis=0)
        room = np.divide(1.0 - fixed, rising, out=np.full(rising.shape, np.inf), where=rising > 1e-15)
        level = min(1.0, float(room.min(initial=np.inf)))
        full = room <= level * (1 + 1e-12)
        stopped = going & (np.ones(len(jobs), dtype=np.bool_) if level >= 1.0 else (use[:, full] > 0).any(axis=1))
        rate[stopped] = max(level, 1e-9)
        going &= ~stopped
    return [float(x) for x in rate]


def _advance(state: _State, to_s: float) -> None:
    for run in state.running:
        run.left -= (to_s - state.now_s) * run.rate / run.iteration_s
    state.now_s = to_s


def _end(state: _State, run: _Running) -> None:
    state.running.remove(run)
    state.free.update(run.hosts.tolist())
    alone_s = run.iteration_s * run.job.iterations
    result = JobResult(run.job.number, run.job.pattern.name, int(run.hosts.size), run.job.submit_s, run.start_s, state.now_s, alone_s, float(run.load_s.max(initial=0.0)))
    state.results.append(result)


def _start(topology: Topology, state: _State, job: Job, rules: Rules) -> None:
    fabric = fabric_of(topology)
    count = hosts_needed(job.pattern.ranks, rules.ranks_per_host)
    hosts = selected(topology, count, rules.selection, np.array(sorted(state.free), dtype=np.int64), rules.seed + job.number)
    per_second = sum((run.load_s / run.iteration_s for run in state.running), np.zeros(topology.arc_count))
    numbers = host_numbers(topology, job.pattern.total, hosts, slots_of(job.pattern.ranks, count, rules.ranks_per_host), rules.placement, rules.seed, None)
    demands = job_demands(topology, job.pattern, numbers)
    # Others' traffic during as much time as this job's own communication takes on the busiest of its host links.
    own_s = float(arc_seconds(fabric, demands[0], flow_paths(fabric, demands[0], "d-mod-k")).max(initial=0.0))
    paths = flow_paths(fabric, demands[0], rules.routing, per_second * own_s, rules.options, demands[1:])
    _, iteration_s = job_times_s(fabric, job.pattern, demands, paths, rules.tolerance)
    iteration_s = max(iteration_s, 1e-9)
    planned_end_s = state.now_s + iteration_s * job.iterations * job.estimate_factor
    state.free.difference_update(hosts.tolist())
    state.running.append(_Running(job, hosts, state.now_s, iteration_s, arc_seconds(fabric, demands[0], paths), float(job.iterations), planned_end_s))


def _next_job(state: _State, rules: Rules) -> Job | None:
    """The job that may start now."""
    if not state.queue:
        return None
    need = [hosts_needed(job.pattern.ranks, rules.ranks_per_host) for job in state.queue]
    if need[0] <= len(state.free):
        return state.queue[0]
    if rules.scheduler != "easy":
        return None
    shadow_s, spare = _reservation(state, need[0])
    for job, hosts in zip(state.queue[1:], need[1:]):
        if hosts <= len(state.free) and (hosts <= spare or state.now_s + _estimate_s(job) <= shadow_s):
            return job
    return None


def _reservation(state: _State, need: int) -> tuple[float, int]:
    """When the first job in the queue can start by the estimates, and how many hosts are then left over."""
    free = len(state.free)
    for run in sorted(state.running, key=lambda run: run.planned_end_s):
        free += run.hosts.size
        if free >= need:
            return max(run.planned_end_s, state.now_s), free - need
    return np.inf, 0


def _estimate_s(job: Job) -> float:
    """What the user asks for: computation, and each rank's bytes at 1 Gb/s, times the factor; known before the job is placed."""
    per_rank = job.pattern.total.total_bytes * 8e-9 / job.pattern.ranks
    return job.estimate_factor * job.iterations * (sum(phase.compute_s for phase in job.pattern.phases) + per_rank)
