"""Interconnect manager: from a job's traffic to the routes in the switches.

``model`` holds the nouns (frozen dataclasses, documents); the other modules are functions on them. Nothing here does network I/O.
"""

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.placement import Placement
from ferrule_fabric.model.plan import Path, Route, RoutePlan
from ferrule_fabric.model.topology import Hop, Host, Link, Switch, Topology
from ferrule_fabric.model.traffic import Demands, Flow, TrafficMatrix

__version__ = "0.1.0"
__all__ = ["Demands", "FabricError", "Flow", "Hop", "Host", "Link", "Path", "Placement", "Route", "RoutePlan", "Switch", "Topology", "TrafficMatrix"]
