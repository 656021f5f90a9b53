"""Profiles of real jobs: PFProf's keys per rank, ours beside them.

A file is an object with ``ranks`` (a list of rank objects), or just that list, or one rank object per line (JSON lines). Each rank object has PFProf's
keys ``processor_name``, ``rank``, ``n_procs``, ``duration``, ``tx_bytes``, ``rx_bytes``, ``tx_messages``, ``rx_messages`` (arrays by peer), ``tx_message_sizes``,
``rx_message_sizes`` (histograms); it may have ``phases``, a list of objects with ``tx_bytes`` and ``tx_messages``. Keys that we don't know are ignored, so
that writers may add some. What was received is used only for ranks whose own sending isn't in the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.documents import DOCUMENT_BYTES_MAX, traffic_from_json
from ferrule_fabric.model.placement import Placement
from ferrule_fabric.model.topology import IntArray
from ferrule_fabric.model.traffic import TrafficMatrix
from ferrule_fabric.patterns.pattern import Pattern, Phase

RANKS_MAX = 20_000
BYTES_VALUE_MAX = 2**62


@dataclass(frozen=True)
class Profile:
    """A job as it was seen: ``hosts`` by rank, ``duration_s`` of the longest rank, ``traffic`` of all phases, ``phases`` (at least one).

    ``size_histogram`` (bins,) counts sent messages by log2 of their size, all ranks together.
    """

    hosts: Placement
    duration_s: float
    traffic: TrafficMatrix
    phases: tuple[TrafficMatrix, ...]
    size_histogram: IntArray

    def pattern(self, name: str) -> Pattern:
        """For the simulator: the phases as one iteration."""
        return Pattern(name, tuple(Phase(phase) for phase in self.phases))


def profile_from_json(text: str | bytes, where: str = "profile") -> Profile:
    """Reads a profile. Raises `FabricError` with rank and key for what is missing or malformed."""
    ranks = _rank_objects(text, where)
    count = len(ranks)
    procs = _whole(ranks[0], "n_procs", f"{where}.ranks[0]", RANKS_MAX)
    if procs < 1:
        raise FabricError(f"{where}.ranks[0].n_procs", "must be at least 1")
    by_rank: dict[int, dict[str, Any]] = {}
    for i, entry in enumerate(ranks):
        place = f"{where}.ranks[{i}]"
        if _whole(entry, "n_procs", place, RANKS_MAX) != procs:
            raise FabricError(f"{place}.n_procs", f"is {entry['n_procs']}, but {procs} in the first")
        rank = _whole(entry, "rank", place, procs - 1)
        if rank in by_rank:
            raise FabricError(f"{place}.rank", f"rank {rank} occurs twice")
        by_rank[rank] = entry
    if count > procs:
        raise FabricError(f"{where}.ranks", f"{count} ranks of a job of {procs}")
    total = _matrix(by_rank, procs, where)
    phases = _phases(by_rank, procs, where)
    durations = [_duration(entry, f"{where}: rank {rank}") for rank, entry in by_rank.items()]
    hosts = Placement(tuple(str(by_rank[rank].get("processor_name", "")) if rank in by_rank else "" for rank in range(procs)))
    return Profile(hosts, max(durations), total, phases or (total,), _histogram(by_rank, where))


def read_profile(path: FilePath) -> Profile:
    """`profile_from_json` of a file."""
    return profile_from_json(_bytes_of(path), str(path))


def read_traffic(path: FilePath) -> Pattern:
    """A pattern from a file: a traffic document of ours, or a profile."""
    data = _bytes_of(path)
    if b'"ferrule-fabric/traffic"' in data[:4096]:
        return Pattern(path.stem, (Phase(traffic_from_json(data)),))
    return profile_from_json(data, str(path)).pattern(path.stem)


def _bytes_of(path: FilePath) -> bytes:
    try:
        if path.stat().st_size > DOCUMENT_BYTES_MAX:
            raise FabricError(str(path), f"more than {DOCUMENT_BYTES_MAX} bytes")
        return path.read_bytes()
    except OSError as error:
        raise FabricError(str(path), error.strerror or str(error)) from None


def _rank_objects(text: str | bytes, where: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        document = _json_lines(text, where, error)
    ranks = document.get("ranks") if isinstance(document, dict) and "ranks" in document else document
    if isinstance(ranks, dict) and "rank" in ranks:
        ranks = [ranks]
    if not isinstance(ranks, list) or not ranks or not all(isinstance(entry, dict) for entry in ranks):
        raise FabricError(f"{where}.ranks", "must be a list of one object per rank")
    if len(ranks) > RANKS_MAX:
        raise FabricError(f"{where}.ranks", f"{len(ranks)} ranks; at most {RANKS_MAX}")
    return ranks


def _json_lines(text: str | bytes, where: str, first_error: Exception) -> list[Any]:
    try:
        lines = (text if isinstance(text, str) else text.decode()).splitlines()
        return [json.loads(line) for line in lines if line.strip()] if len(lines) > 1 else _raise(where, first_error)
    except (ValueError, RecursionError) as error:
        raise FabricError(where, f"not JSON: {first_error if 'Extra data' not in str(first_error) else error}") from None


def _raise(where: str, error: Exception) -> list[Any]:
    raise FabricError(where, f"not JSON: {error}")


def _whole(entry: dict[str, Any], key: str, where: str, largest: int) -> int:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise FabricError(f"{where}.{key}", f"must be a whole number 0..{largest}, not {value!r}" if key in entry else "is missing")
    return value


def _duration(entry: dict[str, Any], where: str) -> float:
    value = entry.get("duration", 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise FabricError(f"{where}: duration", f"must be seconds, not {value!r}")
    return float(value)


def _counts(entry: dict[str, Any], key: str, length: int | None, where: str) -> IntArray | None:
    """An array of whole numbers; None if the key is absent."""
    if key not in entry:
        return None
    value = entry[key]
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise FabricError(f"{where}: {key}", f"must be an array of {length} numbers" + (f", not of {len(value)}" if isinstance(value, list) else ""))
    for i, item in enumerate(value):
        if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item < BYTES_VALUE_MAX:
            raise FabricError(f"{where}: {key}[{i}]", f"must be a whole number, not {item!r}")
    return np.array(value, dtype=np.int64)


def _matrix(by_rank: dict[int, dict[str, Any]], procs: int, where: str) -> TrafficMatrix:
    volume, messages = np.zeros((procs, procs), dtype=np.int64), np.zeros((procs, procs), dtype=np.int64)
    sent = np.zeros(procs, dtype=np.bool_)
    for rank, entry in by_rank.items():
        place = f"{where}: rank {rank}"
        row, number = _counts(entry, "tx_bytes", procs, place), _counts(entry, "tx_messages", procs, place)
        if row is None and "tx" in entry:
            row, number = _sparse(entry["tx"], procs, place)
        if row is not None:
            volume[rank], sent[rank] = row, True
            messages[rank] = number if number is not None else row > 0
    for rank, entry in by_rank.items():
        place = f"{where}: rank {rank}"
        column, number = _counts(entry, "rx_bytes", procs, place), _counts(entry, "rx_messages", procs, place)
        if column is not None:
            volume[~sent, rank] = column[~sent]
            messages[~sent, rank] = (number if number is not None else (column > 0).astype(np.int64))[~sent]
    if not sent.any() and not volume.any():
        raise FabricError(where, "no rank has tx_bytes or rx_bytes")
    return TrafficMatrix.of_dense(volume, messages)


def _sparse(listed: Any, procs: int, where: str) -> tuple[IntArray, IntArray]:
    """Bytes and messages by peer from a list of ``{peer, bytes, messages}``."""
    volume, messages = np.zeros(procs, dtype=np.int64), np.zeros(procs, dtype=np.int64)
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise FabricError(f"{where}: tx", "must be a list of objects")
    for i, row in enumerate(listed):
        place = f"{where}: tx[{i}]"
        peer = _whole(row, "peer", place, procs - 1)
        volume[peer] += _whole(row, "bytes", place, BYTES_VALUE_MAX)
        messages[peer] += _whole(row, "messages", place, BYTES_VALUE_MAX)
    return volume, messages


def _phases(by_rank: dict[int, dict[str, Any]], procs: int, where: str) -> tuple[TrafficMatrix, ...]:
    counts: set[int] = set()
    for rank, entry in by_rank.items():
        phases = entry.get("phases", [])
        if not isinstance(phases, list) or len(phases) > 10_000 or not all(isinstance(phase, dict) for phase in phases):
            raise FabricError(f"{where}: rank {rank}: phases", "must be a list of at most 10000 objects")
        counts.add(len(phases))
    number = max(counts)
    result = []
    for f in range(number):
        own = {rank: entry["phases"][f] for rank, entry in by_rank.items() if f < len(entry.get("phases", []))}
        if any(entry.get("tx_bytes") and any(entry["tx_bytes"]) or entry.get("tx") for entry in own.values()):
            result.append(_matrix(own, procs, f"{where}: phase {f}"))
    return tuple(result)


def _histogram(by_rank: dict[int, dict[str, Any]], where: str) -> IntArray:
    """Sum of ``tx_message_sizes``; a rank's may be one histogram or one per peer."""
    total = np.zeros(64, dtype=np.int64)
    for rank, entry in by_rank.items():
        listed = entry.get("tx_message_sizes", [])
        rows: Sequence[Any] = listed if isinstance(listed, list) and listed and all(isinstance(row, list) for row in listed) else [listed]
        for row in rows:
            bins = _counts({"tx_message_sizes": row}, "tx_message_sizes", None, f"{where}: rank {rank}")
            if bins is not None and bins.size:
                total[: min(64, bins.size)] += bins[:64]
    return total
