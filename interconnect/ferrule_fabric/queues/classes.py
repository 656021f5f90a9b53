"""The queue of each class of lanes at a port: its number, its priority, and the part of the link that it is sure of. Pure.

A queue first gets the rate it is sure of; what is left of the link goes to the queues by priority, 0 first (Linux HTB, tc-htb(8)). So small messages never wait
for bulk as long as they take less than their part, and bulk always moves. Packets without a class take queue 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ferrule_fabric.model.lanes import DSCP, SHARES

OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Queue:
    """``part`` is the share of the link in thousandths; of ``priority`` the smallest goes first."""

    number: int
    priority: int
    part: int


# The parts of all classes together are a whole link, so that they hold whichever classes there are.
QUEUES: Mapping[str, Queue] = {
    OTHERS: Queue(0, 4, 80),
    "latency": Queue(1, 0, 200),
    "control": Queue(2, 1, 60),
    "collectives": Queue(3, 2, 100),
    "p2p": Queue(4, 3, 100),
    "onesided": Queue(5, 4, 100),
    "offload": Queue(6, 5, 40),
    "io": Queue(7, 6, 40),
    "bulk": Queue(8, 7, 40),
} | {name: Queue(9 + place, 4, 15) for place, name in enumerate(SHARES)}


def queue_of_dscp(classes: Iterable[str]) -> dict[int, int]:
    """The queue of packets by their DSCP value, for the classes that are wanted."""
    return {DSCP[name]: QUEUES[name].number for name in classes}
