"""What Prometheus reads: made anew at each scrape from the manager's state, so nothing can get out of step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric

if TYPE_CHECKING:
    from ferrule_fabric.manager.service import Manager


class _Counters:
    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def collect(self) -> list[Metric]:
        """One counter, labelled by event."""
        family = CounterMetricFamily("ferrule_fabric_events", "What the controller has done", labels=["event"])
        for name, count in sorted(self.counts.items()):
            family.add_metric([name], count)
        return [family]


def exposition(manager: Manager) -> str:
    """The metrics as text."""
    registry = CollectorRegistry()
    controller = manager.controller

    def gauge(name: str, text: str, value: float) -> None:
        Gauge(f"ferrule_fabric_{name}", text, registry=registry).set(value)

    gauge("switches", "Switches in the topology", len(controller.node_of))
    gauge("switches_connected", "Switches with a session", len(controller.sessions))
    gauge("jobs", "Jobs with routes of their own", len(manager.jobs))
    gauge("rules", "Rules on all switches", controller.compiled.rule_count)
    gauge("pairs_left_out", "Host pairs of jobs that take default routes", len(controller.compiled.left_out))
    gauge("path_labels", "Path labels in use, because tables are small", len(controller.compiled.labels))
    gauge("pairs_labelled", "Host pairs of jobs whose packets carry a path label", len(controller.compiled.label_of))
    gauge("links_down", "Links that are down", sum(not link.up for link in controller.topology.links))
    last = Gauge("ferrule_fabric_last_seconds", "How long the last of each took", ["event"], registry=registry)
    for name, seconds in controller.events.last_s.items():
        last.labels(name).set(seconds)
    load = Gauge("ferrule_fabric_link_load_bits_per_second", "Load of each link by direction", ["src", "dst"], registry=registry)
    names, topology = controller.topology.node_names, controller.topology
    for arc, bps in manager.load_bps.items():
        load.labels(names[topology.arc_tail[arc]], names[topology.arc_head[arc]]).set(bps)
    registry.register(_Counters(controller.events.counts))
    return generate_latest(registry).decode()
