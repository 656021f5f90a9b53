"""When jobs end that nobody ends: those with a lease that isn't renewed, and those whose Slurm job has ended, also while the manager was down."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.allocation import Scheduler, number_of
from ferrule_fabric.manager.callers import ITSELF
from ferrule_fabric.manager.refusals import Unknown

if TYPE_CHECKING:
    from ferrule_fabric.manager.service import Job, Manager

log = logging.getLogger("ferrule_fabric.manager")

EXPIRE_INTERVAL_S = 1.0
RECONCILE_INTERVAL_S = 30.0


class Leases:
    """When each job with a lease was renewed last."""

    def __init__(self) -> None:
        self._renewed_s: dict[str, float] = {}

    def renew(self, job: Job) -> None:
        """The process that started the job lives."""
        if job.row.lease_s is not None:
            self._renewed_s[job.row.job] = time.monotonic()

    def forget(self, name: str) -> None:
        """The job has ended."""
        self._renewed_s.pop(name, None)

    def has_run_out(self, job: Job) -> bool:
        """Whether nobody has renewed it in time."""
        lease_s, now = job.row.lease_s, time.monotonic()
        return lease_s is not None and now - self._renewed_s.get(job.row.job, now) > lease_s


async def expire_forever(manager: Manager) -> None:
    """Ends jobs whose lease has run out, and has those forgotten that the store has kept. When the manager is ready after a restart every lease is as new."""
    await _until_warm(manager)
    for job in manager.jobs.values():
        manager.leases.renew(job)
    while True:
        await asyncio.sleep(EXPIRE_INTERVAL_S)
        manager.forget_ended()
        for job in list(manager.jobs.values()):
            if manager.leases.has_run_out(job):
                log.warning("job ends: its lease has run out", extra={"job": job.row.job, "lease_s": job.row.lease_s})
                await _end(manager, job)


async def reconcile_forever(manager: Manager, scheduler: Scheduler) -> None:
    """Ends jobs whose Slurm job has ended, when the manager is ready and every now and then."""
    await _until_warm(manager)
    while True:
        try:
            await reconcile(manager, scheduler)
        except FabricError as error:
            log.warning("jobs can't be compared with Slurm's", extra={"reason": str(error)})
        await asyncio.sleep(RECONCILE_INTERVAL_S)


async def reconcile(manager: Manager, scheduler: Scheduler) -> None:
    """Once. Raises `FabricError` if Slurm doesn't answer; then no job ends."""
    # Those that start from here on may be missing in an answer that is made before.
    listed = [(job, number) for job in manager.jobs.values() if (number := number_of(job.row.job)) is not None]
    if not listed:
        return
    alive = await scheduler.alive()
    for job, number in listed:
        if number not in alive and manager.jobs.get(job.row.job) is job:
            log.warning("job ends: its Slurm job has", extra={"job": job.row.job, "slurm_job": number})
            await _end(manager, job)


async def _until_warm(manager: Manager) -> None:
    while not manager.warm:
        await asyncio.sleep(0.1)


async def _end(manager: Manager, job: Job) -> None:
    with contextlib.suppress(Unknown, FabricError):
        await manager.end(job.row.job, ITSELF)
