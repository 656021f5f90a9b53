"""Phases that repeat, as one: an iterative program has few kinds of phases, however often it goes through them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ferrule_fabric.model.traffic import TrafficMatrix

# Shares of a phase's traffic are compared in steps of one in so many.
GRAIN = 1000


def merged(phases: Sequence[TrafficMatrix]) -> tuple[TrafficMatrix, ...]:
    """The phases with the same pairs of ranks and (nearly) the same shares added up, in order of their first; those without traffic are left out.

    The time of all of them, one after the other, is the same: times are proportional to volumes.
    """
    kinds: dict[tuple[bytes, bytes, bytes], TrafficMatrix] = {}
    for phase in phases:
        if phase.pairs:
            shares = np.rint(phase.bytes * (GRAIN / max(1, int(phase.bytes.sum())))).astype(np.int64)
            key = phase.src.tobytes(), phase.dst.tobytes(), shares.tobytes()
            kinds[key] = kinds[key].plus(phase) if key in kinds else phase
    return tuple(kinds.values())
