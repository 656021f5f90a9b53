"""JSON documents of the model: versioned, limited, and refused with the place that is wrong.

Every document is an object with ``"format": "ferrule-fabric/<kind>"`` and ``"version": 1``. Unknown keys are errors. A reader of version 1 accepts no
other version. `schema` gives the JSON schema of each kind.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.placement import Placement
from ferrule_fabric.model.plan import PATHS_PER_ROUTE_MAX, Path, Route, RoutePlan
from ferrule_fabric.model.topology import LINKS_MAX, NODES_MAX, Host, Link, Switch, Topology
from ferrule_fabric.model.traffic import PAIRS_MAX, RANKS_MAX, TrafficMatrix

DOCUMENT_BYTES_MAX = 1 << 30
VERSION = 1


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, strict=True)


class _Host(_Entry):
    name: str
    mac: str | None = Field(default=None, pattern=r"^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$")
    ipv4: str | None = Field(default=None, pattern=r"^(\d{1,3}\.){3}\d{1,3}$")


class _Switch(_Entry):
    name: str
    dpid: int | None = Field(default=None, ge=0, lt=2**64)
    guid: int | None = Field(default=None, ge=0, lt=2**64)
    level: int | None = Field(default=None, ge=0, le=64)


class _Link(_Entry):
    a: str
    b: str
    capacity_bps: float = Field(gt=0)
    a_port: int | None = None
    b_port: int | None = None
    up: bool = True


class _Topology(_Entry):
    format: Literal["ferrule-fabric/topology"]
    version: Literal[1]
    name: str = ""
    hosts: list[_Host] = Field(max_length=NODES_MAX)
    switches: list[_Switch] = Field(max_length=NODES_MAX)
    links: list[_Link] = Field(max_length=LINKS_MAX)


class _Traffic(_Entry):
    format: Literal["ferrule-fabric/traffic"]
    version: Literal[1]
    ranks: int = Field(ge=1, le=RANKS_MAX)
    src: list[int] = Field(max_length=PAIRS_MAX)
    dst: list[int] = Field(max_length=PAIRS_MAX)
    bytes: list[int] = Field(max_length=PAIRS_MAX)
    messages: list[int] = Field(max_length=PAIRS_MAX)


class _Placement(_Entry):
    format: Literal["ferrule-fabric/placement"]
    version: Literal[1]
    hosts: list[str] = Field(min_length=1, max_length=RANKS_MAX)


class _Route(_Entry):
    src: str
    dst: str
    paths: list[list[int]] = Field(min_length=1, max_length=PATHS_PER_ROUTE_MAX)
    weights: list[float] | None = None


class _Plan(_Entry):
    format: Literal["ferrule-fabric/route-plan"]
    version: Literal[1]
    topology: str
    job: str = ""
    algorithm: str = ""
    routes: list[_Route] = Field(max_length=PAIRS_MAX)


_KINDS: dict[str, type[_Entry]] = {"topology": _Topology, "traffic": _Traffic, "placement": _Placement, "route-plan": _Plan}
_E = TypeVar("_E", bound=_Entry)


def schema(kind: str) -> dict[str, Any]:
    """JSON schema of ``topology``, ``traffic``, ``placement`` or ``route-plan``."""
    return _KINDS[kind].model_json_schema()


def topology_to_json(topology: Topology) -> str:
    """The topology as a document."""
    return json.dumps(
        {
            "format": "ferrule-fabric/topology",
            "version": VERSION,
            "name": topology.name,
            "hosts": [_given(name=h.name, mac=h.mac, ipv4=h.ipv4) for h in topology.hosts],
            "switches": [_given(name=s.name, dpid=s.dpid, guid=s.guid, level=s.level) for s in topology.switches],
            "links": [_given(a=k.a, b=k.b, capacity_bps=k.capacity_bps, a_port=k.a_port, b_port=k.b_port, up=None if k.up else False) for k in topology.links],
        }
    )


def topology_from_json(text: str | bytes) -> Topology:
    """The topology of a document. Raises `FabricError`."""
    document = _read(_Topology, text, "topology")
    return Topology(
        document.name,
        tuple(Host(h.name, h.mac, h.ipv4) for h in document.hosts),
        tuple(Switch(s.name, s.dpid, s.guid, s.level) for s in document.switches),
        tuple(Link(k.a, k.b, k.capacity_bps, k.a_port, k.b_port, k.up) for k in document.links),
    )


def traffic_to_json(traffic: TrafficMatrix) -> str:
    """The matrix as a document."""
    return json.dumps(
        {
            "format": "ferrule-fabric/traffic",
            "version": VERSION,
            "ranks": traffic.ranks,
            "src": traffic.src.tolist(),
            "dst": traffic.dst.tolist(),
            "bytes": traffic.bytes.tolist(),
            "messages": traffic.messages.tolist(),
        }
    )


def traffic_from_json(text: str | bytes) -> TrafficMatrix:
    """The matrix of a document. Raises `FabricError`."""
    document = _read(_Traffic, text, "traffic")
    for name in ("src", "dst", "bytes", "messages"):
        for i, value in enumerate(getattr(document, name)):
            if not 0 <= value < 2**62:
                raise FabricError(f"traffic.{name}[{i}]", f"{value} is not in 0 .. 2^62-1")
    return TrafficMatrix.of_pairs(document.ranks, document.src, document.dst, document.bytes, document.messages)


def placement_to_json(placement: Placement) -> str:
    """The placement as a document."""
    return json.dumps({"format": "ferrule-fabric/placement", "version": VERSION, "hosts": list(placement.hosts)})


def placement_from_json(text: str | bytes) -> Placement:
    """The placement of a document. Raises `FabricError`."""
    return Placement(tuple(_read(_Placement, text, "placement").hosts))


def plan_to_json(plan: RoutePlan) -> str:
    """The plan as a document."""
    routes = [
        _given(src=src, dst=dst, paths=[list(path.arcs) for path in route.paths], weights=list(route.weights) if len(route.paths) > 1 else None)
        for (src, dst), route in plan.routes.items()
    ]
    return json.dumps({"format": "ferrule-fabric/route-plan", "version": VERSION, "topology": plan.topology_digest, "job": plan.job, "algorithm": plan.algorithm, "routes": routes})


def plan_from_json(text: str | bytes, topology: Topology) -> RoutePlan:
    """The plan of a document, checked against the topology that it is for. Raises `FabricError`."""
    document = _read(_Plan, text, "plan")
    routes: dict[tuple[str, str], Route] = {}
    for i, entry in enumerate(document.routes):
        where = f"plan.routes[{i}]"
        if (entry.src, entry.dst) in routes:
            raise FabricError(where, f"{entry.src} -> {entry.dst} occurs twice")
        weights = tuple(entry.weights) if entry.weights is not None else (1.0 / len(entry.paths),) * len(entry.paths)
        try:
            routes[entry.src, entry.dst] = Route(tuple(Path(tuple(arcs)) for arcs in entry.paths), weights)
        except FabricError as error:
            raise FabricError(f"{where}.{error.where}", error.problem) from None
    plan = RoutePlan(document.topology, routes, document.job, document.algorithm)
    plan.check(topology)
    return plan


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _read(kind: type[_E], text: str | bytes, name: str) -> _E:
    if len(text) > DOCUMENT_BYTES_MAX:
        raise FabricError(name, f"the document has {len(text)} bytes; at most {DOCUMENT_BYTES_MAX} are allowed")
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        more = "" if error.error_count() == 1 else f" (and {error.error_count() - 1} more)"
        raise FabricError(f"{name}{place}", f"{first['msg']}{more}") from None
