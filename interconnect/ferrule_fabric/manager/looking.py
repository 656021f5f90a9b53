"""What the manager tells of itself, its links and its jobs, as JSON."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ferrule_fabric.model.plan import Route
from ferrule_fabric.model.topology import Topology

if TYPE_CHECKING:
    from ferrule_fabric.manager.service import Job, Manager


def status(manager: Manager) -> dict[str, Any]:
    """In short how things are."""
    controller = manager.controller
    names = controller.topology.node_names
    return {
        "switches": len(controller.node_of),
        "connected": len(controller.sessions),
        "missing": sorted(names[node] for node in controller.node_of.values() if node not in controller.sessions),
        "links_down": [f"{link.a} - {link.b}" for link in controller.topology.links if not link.up],
        "jobs": len(manager.jobs),
        "rules": controller.compiled.rule_count,
        "compact": controller.compiled.compact,
        "labels": len(controller.compiled.labels),
        "labelled_pairs": len(controller.compiled.label_of),
        "generation": controller.generation,
        "queues": None if manager.queues is None else {"classes": manager.queues.classes, "ports": manager.queues.ports, "trouble": manager.queues.trouble, "missing": manager.queues.missing},
        "admins": sorted(manager.admins),
        "slurm": manager.allocations.scheduler is not None,
        "up_s": round(time.time() - manager.started_s, 3),
        "miswired": controller.discovery.differences(controller.topology) if controller.discovery.links else [],
    }


def links(manager: Manager) -> list[dict[str, Any]]:
    """Every link with its load in both directions."""
    topology = manager.controller.topology
    return [
        {"a": link.a, "b": link.b, "capacity_bps": link.capacity_bps, "up": link.up, "load_bps": [round(manager.load_bps.get(2 * i + side, 0.0)) for side in (0, 1)]}
        for i, link in enumerate(topology.links)
    ]


def describe(manager: Manager, job: Job, flows: bool = False) -> dict[str, Any]:
    """A job for people; with ``flows`` also who sends how much to whom over which way."""
    topology = manager.controller.topology
    row = job.row
    told: dict[str, Any] = {"job": row.job, "number": row.number, "uid": row.uid, "pattern": row.pattern, "started_s": row.started_s, "pairs": len(job.plan), "lanes": row.lanes}
    if flows:
        now = manager.controller.jobs.get(row.number)
        plan = now.plan if now else job.plan
        told["flows"] = [
            {"src": f.src, "dst": f.dst, "bytes": f.bytes, "path": ways[0]["nodes"] if ways else None, "paths": ways}
            for f in job.demands.flows(topology)
            for ways in [_ways(topology, plan.routes.get((f.src, f.dst)))]
        ]
    return told


def _ways(topology: Topology, route: Route | None) -> list[dict[str, Any]]:
    """The paths of a route as names of nodes, with their shares, the largest first; nothing for the default route."""
    if route is None:
        return []
    listed = sorted(zip(route.weights, route.paths), key=lambda one: -one[0])
    return [{"nodes": topology.path_nodes(path.arcs), "share": round(share, 6)} for share, path in listed]
