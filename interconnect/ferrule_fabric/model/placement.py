"""Which host each rank runs on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import IntArray, Topology


@dataclass(frozen=True, slots=True)
class Placement:
    """``hosts[rank]`` is the name of the host of that rank."""

    hosts: tuple[str, ...]

    @property
    def ranks(self) -> int:
        """Number of ranks placed."""
        return len(self.hosts)

    def host_numbers(self, topology: Topology) -> IntArray:
        """Host number of each rank, shape (ranks,). Raises `FabricError` for a name that is not a host of the topology."""
        numbers = np.empty(len(self.hosts), dtype=np.int64)
        for rank, name in enumerate(self.hosts):
            number = topology.node_index.get(name, -1)
            if not 0 <= number < topology.host_count:
                raise FabricError(f"placement.hosts[{rank}]", f"{name!r} is not a host of topology {topology.name!r}")
            numbers[rank] = number
        return numbers

    def ranks_per_host(self) -> dict[str, int]:
        """How many ranks each used host runs, in order of first use."""
        return dict(Counter(self.hosts))

    @staticmethod
    def of_numbers(topology: Topology, host_of_rank: IntArray) -> Placement:
        """From host numbers, shape (ranks,)."""
        names = topology.node_names
        return Placement(tuple(names[int(number)] for number in host_of_rank))
