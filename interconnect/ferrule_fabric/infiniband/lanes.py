"""From the classes of lanes to InfiniBand's service levels, virtual lanes (VLs) and VL arbitration (InfiniBand Architecture Specification, vol. 1, 7.6).

Each class has a service level of its own, which every port maps to a VL of its own (SL2VL). What no lane carries (management of the subnet, IP over
InfiniBand, other programs) has service level 0; it has VL 0 alone if there are VLs enough, else it shares VL 0 with the class of the least priority.

A port serves the high-priority table first, until it has sent ``limit`` units of 4096 bytes while the low-priority table had packets; within a table, VLs
take turns by weight, in units of 64 bytes. All VLs are in the low-priority table, so none starves.

Where the routes need layers to be without deadlock (`deadlock.py`), each class has one VL per layer, with consecutive numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.lanes import SHARES, LanePlan

DATA_VLS = (1, 2, 4, 8, 15)
"""How many data VLs a port may have (VLCap)."""
SLS = 16
WEIGHT_MAX, LIMIT_MAX = 255, 255
OTHERS = "others"
# Class: weights in the high-priority and the low-priority table; the later in this list, the lower the priority.
WEIGHTS: Mapping[str, tuple[int, int]] = {
    "latency": (64, 32),
    "control": (64, 32),
    "collectives": (0, 96),
    "p2p": (0, 64),
    "onesided": (0, 64),
    **dict.fromkeys(SHARES, (0, 64)),
    "offload": (0, 32),
    "io": (0, 32),
    "bulk": (0, 64),
    OTHERS: (0, 32),
}
HIGH_LIMIT = 16
"""64 KiB of the high-priority table, then one packet of the low-priority one."""


@dataclass(frozen=True, slots=True)
class Level:
    """A class's first service level, which is also its first virtual lane, and its weights; layer *i* has service level and VL ``sl + i``."""

    sl: int
    high: int
    low: int


@dataclass(frozen=True)
class Levels:
    """The service levels of a plan's classes (``by_class``, with `OTHERS`) on ports with ``data_vls`` VLs, for routes in so many ``layers``."""

    plan: LanePlan
    data_vls: int
    layers: int
    by_class: Mapping[str, Level]
    high_limit: int = HIGH_LIMIT

    def layers_of(self, name: str) -> int:
        """How many layers a class has: those of the routes if lanes carry it, else one."""
        return self.layers if name in (self.plan.classes or (OTHERS,)) else 1

    @property
    def used(self) -> int:
        """Number of VLs that are used."""
        return max(level.sl + self.layers_of(name) for name, level in self.by_class.items())

    @property
    def sl2vl(self) -> tuple[int, ...]:
        """The VL of each of the 16 service levels; those without a class go where others do."""
        return tuple(sl if sl < self.used else 0 for sl in range(SLS))

    def arbitration(self, high: bool) -> tuple[tuple[int, int], ...]:
        """VL and weight of each entry of the high-priority or the low-priority table."""
        weights: dict[int, int] = {}
        for name, level in self.by_class.items():
            for layer in range(self.layers_of(name)):
                weights[level.sl + layer] = max(weights.get(level.sl + layer, 0), level.high if high else level.low)
        return tuple((vl, weight) for vl, weight in sorted(weights.items()) if weight)


def levels_of(plan: LanePlan, data_vls: int = 8, layers: int = 1, weights: Mapping[str, int] | None = None) -> Levels:
    """Service levels for a plan. ``weights`` replace those of classes, in the table that serves the class first (1 to 255).

    Raises `FabricError` if the ports have too few VLs.
    """
    if data_vls not in DATA_VLS:
        raise FabricError("--vls", f"ports have {', '.join(map(str, DATA_VLS[:-1]))} or {DATA_VLS[-1]} data VLs, not {data_vls}")
    classes = plan.classes
    needed = (len(classes) or 1) * layers
    if needed > data_vls:
        parts = f"{plan}: {len(classes) or 1} classes" + (f" in {layers} layers against deadlock" if layers > 1 else "")
        raise FabricError("lanes", f"{parts} need {needed} virtual lanes, and the ports have {data_vls}: take fewer lanes, or say --vls if the ports have more")
    shared = needed == data_vls
    order = sorted(classes, key=lambda name: -list(WEIGHTS).index(name)) if shared else list(classes)
    by_class = {name: Level((0 if shared else 1) + layers * order.index(name), *WEIGHTS[name]) for name in classes}
    by_class[OTHERS] = Level(0, *WEIGHTS[OTHERS])
    return Levels(plan, data_vls, layers, _weighed(by_class, weights or {}))


def _weighed(by_class: Mapping[str, Level], weights: Mapping[str, int]) -> dict[str, Level]:
    for name, weight in weights.items():
        if name not in by_class:
            raise FabricError("--weights", f"no lane has the class {name!r}; there are {', '.join(by_class)}")
        if not 1 <= weight <= WEIGHT_MAX:
            raise FabricError("--weights", f"{name}={weight} is not 1 to {WEIGHT_MAX}")
    weighed = dict(by_class)
    for name, weight in weights.items():
        weighed[name] = replace(by_class[name], high=weight) if by_class[name].high else replace(by_class[name], low=weight)
    return weighed


def vls_text(entries: Sequence[tuple[int, int]]) -> str:
    """``0:64,1:32``: the form of OpenSM's options. An empty table is one entry of weight 0, since OpenSM takes an empty text as its default."""
    return ",".join(f"{vl}:{weight}" for vl, weight in entries or ((0, 0),))
