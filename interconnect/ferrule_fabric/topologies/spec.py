"""Short texts that name a topology, for the command line and scenarios.

    two-level:leaves=4,spines=2,hosts=5        xgft:m=5x4,w=1x2        fat-tree:k=8,oversubscription=2.5
    torus:size=4x4x4,hosts=2                    hyperx:size=4x4,hosts=4  random:switches=20,degree=4,hosts=2,seed=1
    dragonfly:groups=9,routers=4,globals=2,hosts=2
    dragonfly+:groups=4,leaves=4,spines=4,globals=1,hosts=4
    file:cluster.graphml | file:cluster.json | file:ibnetdiscover.txt

Every generator takes ``host_bps`` and the capacity of its other links: ``up_bps``, ``switch_bps``, or ``local_bps`` and ``global_bps``.
``failed=N`` takes down N random links between switches that leave the network connected (``failure_seed``).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path as FilePath

import networkx

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.documents import topology_from_json
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.topologies import direct, fat_tree
from ferrule_fabric.topologies.graphml import from_graphml
from ferrule_fabric.topologies.ibnetdiscover import from_ibnetdiscover


class SpecOptions:
    """``option=value`` pairs of a short text, separated by commas; what nobody has read is refused by `finish`."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self.values: dict[str, str] = {}
        for part in filter(None, text.split(",")):
            key, equals, value = part.partition("=")
            if not equals or key in self.values:
                raise FabricError(where, f"{part!r} is not an option=value that occurs once")
            self.values[key] = value

    def _take(self, key: str) -> str:
        if key not in self.values:
            raise FabricError(self.where, f"needs {key}=")
        return self.values.pop(key)

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number; the default makes it optional."""
        return default if default is not None and key not in self.values else int(self._number(key, int))

    def real(self, key: str, default: float) -> float:
        """A number, optional."""
        return float(self._number(key, float)) if key in self.values else default

    def maybe(self, key: str) -> float | None:
        """A number, or None if it isn't given."""
        return float(self._number(key, float)) if key in self.values else None

    def sizes(self, key: str) -> tuple[int, ...]:
        """Numbers joined by x."""
        text = self._take(key)
        try:
            return tuple(int(part) for part in text.split("x"))
        except ValueError:
            raise FabricError(self.where, f"{key} must be numbers joined by x, not {text!r}") from None

    def finish(self) -> None:
        """Raises `FabricError` if an option was given that nobody asked for."""
        if self.values:
            raise FabricError(self.where, f"has no option {next(iter(self.values))!r}")

    def _number(self, key: str, kind: Callable[[str], float]) -> float:
        text = self._take(key)
        try:
            value = kind(text)
            if math.isfinite(value) and (key != "seed" or value >= 0):
                return value
        except (ValueError, OverflowError):
            pass
        raise FabricError(self.where, f"{key} must be a number{' from 0 on' if key == 'seed' else ''}, not {text[:100]!r}")


def _two_level(o: SpecOptions) -> Topology:
    return fat_tree.two_level(o.whole("leaves"), o.whole("spines"), o.whole("hosts"), o.real("host_bps", 1e9), o.maybe("up_bps"))


def _xgft(o: SpecOptions) -> Topology:
    return fat_tree.xgft(o.sizes("m"), o.sizes("w"), o.real("host_bps", 1e9), o.maybe("up_bps"))


def _k_ary(o: SpecOptions) -> Topology:
    return fat_tree.k_ary(o.whole("k"), o.real("host_bps", 1e9), o.real("oversubscription", 1.0))


def _torus(o: SpecOptions) -> Topology:
    return direct.torus(o.sizes("size"), o.whole("hosts", 1), o.real("host_bps", 1e9), o.maybe("switch_bps"))


def _hyperx(o: SpecOptions) -> Topology:
    return direct.hyperx(o.sizes("size"), o.whole("hosts", 1), o.real("host_bps", 1e9), o.maybe("switch_bps"))


def _random(o: SpecOptions) -> Topology:
    return direct.random_regular(o.whole("switches"), o.whole("degree"), o.whole("hosts"), o.whole("seed", 0), o.real("host_bps", 1e9), o.maybe("switch_bps"))


def _dragonfly(o: SpecOptions) -> Topology:
    sizes = o.whole("groups"), o.whole("routers"), o.whole("globals"), o.whole("hosts")
    return direct.dragonfly(*sizes, o.real("host_bps", 1e9), o.maybe("local_bps"), o.maybe("global_bps"))


def _dragonfly_plus(o: SpecOptions) -> Topology:
    sizes = o.whole("groups"), o.whole("leaves"), o.whole("spines"), o.whole("globals"), o.whole("hosts")
    return direct.dragonfly_plus(*sizes, o.real("host_bps", 1e9), o.maybe("local_bps"), o.maybe("global_bps"))


GENERATORS: dict[str, Callable[[SpecOptions], Topology]] = {
    "two-level": _two_level,
    "xgft": _xgft,
    "fat-tree": _k_ary,
    "torus": _torus,
    "hyperx": _hyperx,
    "random": _random,
    "dragonfly": _dragonfly,
    "dragonfly+": _dragonfly_plus,
}


def topology_of(spec: str, folder: FilePath | None = None) -> Topology:
    """The topology that a text names; files are looked for in ``folder`` (default: the current one). Raises `FabricError`."""
    kind, _, rest = spec.partition(":")
    if kind == "file":
        return read_topology((folder or FilePath()) / rest)
    if kind not in GENERATORS:
        raise FabricError(f"topology {spec!r}", f"unknown kind {kind!r}; known are file, {', '.join(GENERATORS)}")
    options = SpecOptions(f"topology {spec!r}", rest)
    failed, seed = options.whole("failed", 0), options.whole("failure_seed", 0)
    topology = GENERATORS[kind](options)
    options.finish()
    return with_random_failures(topology, failed, seed) if failed else topology


def read_topology(path: FilePath) -> Topology:
    """From a file: .json is our document, .graphml or .xml GraphML, anything else ibnetdiscover's output."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FabricError(str(path), error.strerror or str(error)) from None
    if path.suffix == ".json":
        return topology_from_json(data)
    if path.suffix in (".graphml", ".xml"):
        return from_graphml(data, path.stem)
    return from_ibnetdiscover(data.decode("utf-8", "replace"), path.stem)


def with_random_failures(topology: Topology, count: int, seed: int) -> Topology:
    """The topology with ``count`` links between switches down, chosen so that it stays connected."""
    graph = networkx.MultiGraph()
    graph.add_nodes_from(topology.node_names)
    graph.add_edges_from((link.a, link.b, number) for number, link in enumerate(topology.links) if link.up)
    candidates = [number for number, link in enumerate(topology.links) if link.up and topology.arc_between_switches[2 * number]]
    random.Random(seed).shuffle(candidates)
    failed: list[int] = []
    for number in candidates:
        if len(failed) == count:
            break
        link = topology.links[number]
        graph.remove_edge(link.a, link.b, number)
        if networkx.has_path(graph, link.a, link.b):
            failed.append(number)
        else:
            graph.add_edge(link.a, link.b, number)
    if len(failed) < count:
        raise FabricError(topology.name, f"only {len(failed)} of {count} links can fail without cutting the network in two")
    return topology.with_failed(failed)
