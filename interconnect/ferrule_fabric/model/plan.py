"""Routes: for each ordered pair of hosts one path, or several with weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Topology

PATHS_PER_ROUTE_MAX = 64
WEIGHT_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Path:
    """Arcs of the topology from the source host to the destination host, in order."""

    arcs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """Paths of one host pair; ``weights`` are the shares of its traffic, positive, and add up to 1."""

    paths: tuple[Path, ...]
    weights: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not 1 <= len(self.paths) <= PATHS_PER_ROUTE_MAX:
            raise FabricError("route.paths", f"must be 1 to {PATHS_PER_ROUTE_MAX} paths, not {len(self.paths)}")
        if len(self.weights) != len(self.paths):
            raise FabricError("route.weights", f"{len(self.weights)} weights for {len(self.paths)} paths")
        if not all(0 < weight <= 1 + WEIGHT_TOLERANCE for weight in self.weights) or abs(sum(self.weights) - 1) > WEIGHT_TOLERANCE:
            raise FabricError("route.weights", f"must be positive and add up to 1, not {self.weights}")


@dataclass(frozen=True)
class RoutePlan:
    """Routes by (source host name, destination host name), for one topology.

    ``topology_digest`` is `Topology.digest`: arc numbers mean something only there. ``job`` is whose routes these are ("" for default routes);
    ``algorithm`` says what made them. Pairs that are absent take the fabric's default routes.
    """

    topology_digest: str
    routes: Mapping[tuple[str, str], Route]
    job: str = ""
    algorithm: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "routes", MappingProxyType(dict(self.routes)))

    def __iter__(self) -> Iterator[tuple[tuple[str, str], Route]]:
        return iter(self.routes.items())

    def __len__(self) -> int:
        return len(self.routes)

    def check(self, topology: Topology) -> None:
        """Raises `FabricError` unless every path runs over this topology from its source host through switches to its destination host, without a loop."""
        if self.topology_digest != topology.digest:
            raise FabricError("plan.topology", f"the plan is for topology {self.topology_digest[:12]}, not for {topology.name!r} ({topology.digest[:12]})")
        for (src, dst), route in self.routes.items():
            for i, path in enumerate(route.paths):
                _check_path(topology, src, dst, path, f"plan.routes[{src} -> {dst}].paths[{i}]")

    def uses_failed_links(self, topology: Topology) -> tuple[tuple[str, str], ...]:
        """Pairs with a path over a link that is down in ``topology``."""
        up = topology.arc_up
        return tuple(pair for pair, route in self.routes.items() if not all(up[arc] for path in route.paths for arc in path.arcs))


def _check_path(topology: Topology, src: str, dst: str, path: Path, where: str) -> None:
    for end, name in (("source", src), ("destination", dst)):
        if not 0 <= topology.node_index.get(name, -1) < topology.host_count:
            raise FabricError(where, f"the {end} {name!r} is not a host")
    try:
        nodes = topology.path_nodes(path.arcs)
    except FabricError as error:
        raise FabricError(f"{where}.{error.where}", error.problem) from None
    if len(nodes) < 2 or nodes[0] != src or nodes[-1] != dst:
        raise FabricError(where, f"runs {' -> '.join(nodes) or 'nowhere'}, not from {src} to {dst}")
    if len(set(nodes)) != len(nodes):
        raise FabricError(where, f"visits a node twice: {' -> '.join(nodes)}")
    if any(topology.node_index[name] < topology.host_count for name in nodes[1:-1]):
        raise FabricError(where, f"runs through a host: {' -> '.join(nodes)}")
