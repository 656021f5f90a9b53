"""On which hosts a caller may start a job: those of its allocation, which Slurm is asked for. Without Slurm only administrators start jobs.

A job whose name begins with a number is one of the Slurm job of that number, as ``1234.0`` or ``1234.mpiexec-…``, and ends with it at the latest
(`lifetimes.py`). So nobody takes pairs of hosts or names that belong to another's allocation.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.callers import Caller, Role
from ferrule_fabric.manager.refusals import Busy, Denied

COMMAND_TIMEOUT_S = 10.0
COMMANDS_MAX = 4
# Of one user: jobs that wait for Slurm's answer.
WAITING_MAX = 16
NAMED = 3
_NUMBER = re.compile(r"([1-9][0-9]{0,9})(\.|\Z)")
_STARTABLE = {"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"}
# A job in any other state, also one that a later Slurm may know, has its nodes, or its last processes are still there.
_OVER = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "DEADLINE"}
_OVER |= {"OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED"}


@dataclass(frozen=True)
class Allocation:
    """Hosts that a scheduler has given to a user."""

    number: int
    uid: int
    hosts: frozenset[str]


class Scheduler(Protocol):
    """Who gives hosts to jobs. Raises `FabricError` where it doesn't answer."""

    async def allocation(self, number: int) -> Allocation | None:
        """The allocation of that number, None if there is none."""

    async def alive(self) -> frozenset[int]:
        """Numbers of all allocations that have not ended."""


def number_of(name: str) -> int | None:
    """The number of the allocation that a job belongs to by its name."""
    found = _NUMBER.match(name)
    return int(found[1]) if found else None


class Allocations:
    """Asks a scheduler, if there is one, on behalf of callers."""

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        self.scheduler = scheduler
        self._waiting: dict[int, int] = {}

    async def check(self, name: str, caller: Caller, hosts: Sequence[str]) -> None:
        """Raises `Denied` if a caller may not start a job of this name on these hosts, `Busy` if it has too many under way."""
        if caller.is_administrator:
            return
        if caller.role is not Role.USER:
            raise Denied("a viewer may only look")
        if self.scheduler is None:
            raise Denied("without Slurm (serve --slurm) only administrators start jobs")
        number = number_of(name)
        if number is None:
            raise Denied(f"the name of a job begins with the number of its Slurm job, as 1234.0; {name!r} doesn't")
        if self._waiting.get(caller.uid, 0) >= WAITING_MAX:
            raise Busy("too many jobs of this user start at once; try again")
        self._waiting[caller.uid] = self._waiting.get(caller.uid, 0) + 1
        try:
            found = await self.scheduler.allocation(number)
        finally:
            self._waiting[caller.uid] -= 1
            if not self._waiting[caller.uid]:
                del self._waiting[caller.uid]
        if found is None or found.uid != caller.uid:
            raise Denied(f"Slurm has no running job {number} of this user")
        foreign = sorted(set(hosts) - found.hosts)
        if foreign:
            raise Denied(f"Slurm job {number} has not been given {', '.join(foreign[:NAMED])}{' …' if len(foreign) > NAMED else ''}")


class Slurm:
    """slurmctld, by squeue and scontrol. SLURM_CONF in the environment says which."""

    def __init__(self) -> None:
        self._commands = asyncio.Semaphore(COMMANDS_MAX)

    async def allocation(self, number: int) -> Allocation | None:
        """The allocation of that number, None if there is none."""
        jobs = await self._jobs("--jobs", str(number))
        for listed, uid, state, hosts in jobs:
            if listed == number and state in _STARTABLE:
                names = (await self._run("scontrol", "show", "hostnames", hosts)).split() if hosts else []
                return Allocation(number, uid, frozenset(names))
        return None

    async def alive(self) -> frozenset[int]:
        """Numbers of all allocations that have not ended."""
        return frozenset(number for number, _, state, _ in await self._jobs() if state not in _OVER)

    async def _jobs(self, *which: str) -> list[tuple[int, int, str, str]]:
        """Number, user, state and hosts (as Slurm abbreviates them) of jobs."""
        text = await self._run("squeue", "--noheader", "--all", "--states=all", "--format=%A|%U|%T|%N", *which, missing="Invalid job id")
        return [_job(line) for line in text.splitlines() if line.strip()]

    async def _run(self, *command: str, missing: str = "\0") -> str:
        """What a command prints; nothing if it fails and says ``missing``."""
        async with self._commands:
            try:
                process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
            except OSError as error:
                raise FabricError("Slurm", f"{command[0]} can't be run: {error}") from None
            try:
                out, errors = await asyncio.wait_for(process.communicate(), COMMAND_TIMEOUT_S)
            except TimeoutError:
                raise FabricError("Slurm", f"{command[0]} has not answered within {COMMAND_TIMEOUT_S:.0f} s") from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        said = errors.decode("utf-8", "replace")
        if process.returncode:
            if missing in said:
                return ""
            raise FabricError("Slurm", f"{command[0]}: {(said.strip().splitlines() or ['failed'])[-1][:200]}")
        return out.decode("utf-8", "replace")


def _job(line: str) -> tuple[int, int, str, str]:
    try:
        number, uid, state, hosts = line.strip().split("|")
        return int(number), int(uid), state, hosts
    except ValueError:
        raise FabricError("Slurm", f"squeue says {line[:100]!r}, which is not NUMBER|USER|STATE|NODES") from None
