"""Who sends how much to whom: between ranks (`TrafficMatrix`) and between hosts (`Demands`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.placement import Placement
from ferrule_fabric.model.topology import FloatArray, IntArray, Topology

RANKS_MAX = 1_000_000
PAIRS_MAX = 20_000_000


@dataclass(frozen=True, slots=True)
class Flow:
    """Traffic of one host pair, by host name: ``bytes`` in ``messages`` messages during ``phase`` of ``job``."""

    src: str
    dst: str
    bytes: int
    messages: int = 0
    phase: int = 0
    job: str = ""


def _whole(name: str, values: Iterable[int]) -> IntArray:
    try:
        return np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.int64)
    except OverflowError:
        raise FabricError(f"traffic.{name}", "has a number beyond 64 bits") from None


@dataclass(frozen=True)
class TrafficMatrix:
    """Bytes and messages of each ordered pair of ranks, as sorted coordinates.

    ``src``, ``dst``, ``bytes``, ``messages`` have the same shape (pairs,), int64; pairs are unique, sorted by (src, dst), and none is empty of both
    bytes and messages. Traffic of a rank to itself is kept (it costs no network). Make it by `of_pairs` or `of_dense`.
    """

    ranks: int
    src: IntArray
    dst: IntArray
    bytes: IntArray
    messages: IntArray

    @staticmethod
    def of_pairs(ranks: int, src: Iterable[int], dst: Iterable[int], size_bytes: Iterable[int], messages: Iterable[int] | None = None) -> TrafficMatrix:
        """From coordinates in any order; pairs that occur several times are added up. Raises `FabricError` for ranks out of range or negatives."""
        if not 1 <= ranks <= RANKS_MAX:
            raise FabricError("traffic.ranks", f"must be between 1 and {RANKS_MAX}, not {ranks}")
        s, d, volume = (_whole(name, values) for name, values in (("src", src), ("dst", dst), ("bytes", size_bytes)))
        count = (volume > 0).astype(np.int64) if messages is None else _whole("messages", messages)
        if not (s.shape == d.shape == volume.shape == count.shape and s.ndim == 1):
            raise FabricError("traffic", f"src, dst, bytes and messages have {s.size}, {d.size}, {volume.size} and {count.size} entries; they must be equally many")
        if s.size > PAIRS_MAX:
            raise FabricError("traffic", f"{s.size} pairs; at most {PAIRS_MAX} are allowed")
        for name, values, limit in (("src", s, ranks), ("dst", d, ranks), ("bytes", volume, 2**62), ("messages", count, 2**62)):
            wrong = np.flatnonzero((values < 0) | (values >= limit))
            if wrong.size:
                raise FabricError(f"traffic.{name}[{wrong[0]}]", f"{values[wrong[0]]} is not in 0 .. {limit - 1}")
        for name, values in (("bytes", volume), ("messages", count)):
            if values.sum(dtype=np.float64) >= 2**62:
                raise FabricError(f"traffic.{name}", "are more than 2^62 in all")
        keys, place = np.unique(s * ranks + d, return_inverse=True)
        total, number = np.zeros(keys.size, dtype=np.int64), np.zeros(keys.size, dtype=np.int64)
        np.add.at(total, place, volume)
        np.add.at(number, place, count)
        kept = (total > 0) | (number > 0)
        return TrafficMatrix(ranks, keys[kept] // ranks, keys[kept] % ranks, total[kept], number[kept])

    @staticmethod
    def of_dense(size_bytes: IntArray, messages: IntArray | None = None) -> TrafficMatrix:
        """From a square array of bytes, entry [i, j] sent from i to j (and one of messages)."""
        if size_bytes.ndim != 2 or size_bytes.shape[0] != size_bytes.shape[1]:
            raise FabricError("traffic", f"the array has shape {size_bytes.shape}; it must be square")
        if messages is not None and messages.shape != size_bytes.shape:
            raise FabricError("traffic", f"messages have shape {messages.shape}, bytes {size_bytes.shape}")
        used = (size_bytes != 0) if messages is None else (size_bytes != 0) | (messages != 0)
        src, dst = np.nonzero(used)
        return TrafficMatrix.of_pairs(size_bytes.shape[0], src, dst, size_bytes[src, dst], None if messages is None else messages[src, dst])

    @property
    def pairs(self) -> int:
        """Number of pairs with traffic."""
        return int(self.src.size)

    @property
    def total_bytes(self) -> int:
        """Bytes of all pairs together."""
        return int(self.bytes.sum())

    def dense_bytes(self) -> IntArray:
        """Bytes as an array of shape (ranks, ranks)."""
        dense = np.zeros((self.ranks, self.ranks), dtype=np.int64)
        dense[self.src, self.dst] = self.bytes
        return dense

    def dense_messages(self) -> IntArray:
        """Messages as an array of shape (ranks, ranks)."""
        dense = np.zeros((self.ranks, self.ranks), dtype=np.int64)
        dense[self.src, self.dst] = self.messages
        return dense

    def scaled(self, factor: float) -> TrafficMatrix:
        """All bytes multiplied and rounded; messages stay."""
        return TrafficMatrix(self.ranks, self.src, self.dst, np.rint(self.bytes * factor).astype(np.int64), self.messages)

    def plus(self, other: TrafficMatrix) -> TrafficMatrix:
        """The sum of two matrices of equally many ranks."""
        if self.ranks != other.ranks:
            raise FabricError("traffic", f"matrices of {self.ranks} and {other.ranks} ranks can't be added")
        joined = [np.concatenate(pair) for pair in ((self.src, other.src), (self.dst, other.dst), (self.bytes, other.bytes), (self.messages, other.messages))]
        return TrafficMatrix.of_pairs(self.ranks, *joined)


@dataclass(frozen=True)
class Demands:
    """Traffic between hosts, by host number: what routing works on.

    Arrays of shape (demands,): ``src``, ``dst`` host numbers (never equal), ``bytes`` float64, ``messages`` int64; pairs are unique and sorted.
    """

    hosts: int
    src: IntArray
    dst: IntArray
    bytes: FloatArray
    messages: IntArray

    @property
    def count(self) -> int:
        """Number of host pairs with traffic."""
        return int(self.src.size)

    @staticmethod
    def of_pairs(hosts: int, src: IntArray, dst: IntArray, size_bytes: FloatArray | IntArray, messages: IntArray | None = None) -> Demands:
        """Adds up equal pairs and leaves out traffic of a host to itself."""
        number = (size_bytes > 0).astype(np.int64) if messages is None else messages
        away = src != dst
        keys, place = np.unique(src[away] * hosts + dst[away], return_inverse=True)
        total = np.bincount(place, weights=np.asarray(size_bytes, dtype=np.float64)[away], minlength=keys.size)
        count = np.bincount(place, weights=number[away], minlength=keys.size)
        return Demands(hosts, keys // hosts, keys % hosts, total.astype(np.float64), count.astype(np.int64))

    @staticmethod
    def of_traffic(traffic: TrafficMatrix, placement: Placement, topology: Topology) -> Demands:
        """What the placed ranks send over the network. Raises `FabricError` when ranks and placement don't agree."""
        if placement.ranks != traffic.ranks:
            raise FabricError("placement", f"places {placement.ranks} ranks, but the traffic is of {traffic.ranks}")
        host_of_rank = placement.host_numbers(topology)
        return Demands.of_pairs(topology.host_count, host_of_rank[traffic.src], host_of_rank[traffic.dst], traffic.bytes, traffic.messages)

    @staticmethod
    def of_flows(flows: Iterable[Flow], topology: Topology) -> Demands:
        """From flows between named hosts. Raises `FabricError` for a name that is not a host."""
        listed = list(flows)
        ends = [_host_number(topology, flow.src, i, "src") for i, flow in enumerate(listed)], [_host_number(topology, flow.dst, i, "dst") for i, flow in enumerate(listed)]
        volume: FloatArray = np.array([flow.bytes for flow in listed], dtype=np.float64)
        number = np.array([flow.messages for flow in listed], dtype=np.int64)
        return Demands.of_pairs(topology.host_count, np.array(ends[0], dtype=np.int64), np.array(ends[1], dtype=np.int64), volume, number)

    def plus(self, other: Demands) -> Demands:
        """The sum of two (several jobs at once)."""
        ends = np.concatenate((self.src, other.src)), np.concatenate((self.dst, other.dst))
        return Demands.of_pairs(self.hosts, *ends, np.concatenate((self.bytes, other.bytes)), np.concatenate((self.messages, other.messages)))

    def flows(self, topology: Topology, job: str = "", phase: int = 0) -> tuple[Flow, ...]:
        """The same by host name."""
        names = topology.node_names
        return tuple(Flow(names[s], names[d], int(b), int(m), phase, job) for s, d, b, m in zip(self.src, self.dst, self.bytes, self.messages))


def _host_number(topology: Topology, name: str, i: int, end: str) -> int:
    number = topology.node_index.get(name, -1)
    if not 0 <= number < topology.host_count:
        raise FabricError(f"flows[{i}].{end}", f"{name!r} is not a host of topology {topology.name!r}")
    return number
