"""A pattern: what one iteration of a program sends, in phases that follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.traffic import TrafficMatrix


@dataclass(frozen=True, slots=True)
class Phase:
    """Traffic of one phase; ``compute_s`` seconds of computation, of which the share ``overlap`` (0..1) may go on while the phase communicates."""

    traffic: TrafficMatrix
    compute_s: float = 0.0
    overlap: float = 0.0

    def __post_init__(self) -> None:
        if not (self.compute_s >= 0 and 0 <= self.overlap <= 1):
            raise FabricError("phase", f"compute_s must not be negative and overlap in 0..1, not {self.compute_s} and {self.overlap}")

    def time_s(self, communication_s: float) -> float:
        """Duration of the phase when its communication takes this long."""
        return (1 - self.overlap) * self.compute_s + max(communication_s, self.overlap * self.compute_s)


@dataclass(frozen=True)
class Pattern:
    """Phases, repeated ``iterations`` times; every phase has the same number of ranks."""

    name: str
    phases: tuple[Phase, ...]
    iterations: int = 1

    def __post_init__(self) -> None:
        if not self.phases:
            raise FabricError(f"pattern {self.name!r}", "has no phase")
        if len({phase.traffic.ranks for phase in self.phases}) != 1:
            raise FabricError(f"pattern {self.name!r}", "its phases have different numbers of ranks")
        if self.iterations < 1:
            raise FabricError(f"pattern {self.name!r}", f"iterations must be positive, not {self.iterations}")

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.phases[0].traffic.ranks

    @cached_property
    def total(self) -> TrafficMatrix:
        """Traffic of one iteration, all phases together."""
        return added([phase.traffic for phase in self.phases])


def added(matrices: Sequence[TrafficMatrix]) -> TrafficMatrix:
    """The sum of matrices of equally many ranks."""
    total = matrices[0]
    for matrix in matrices[1:]:
        total = total.plus(matrix)
    return total
