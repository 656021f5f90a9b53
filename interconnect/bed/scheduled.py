"""Slurm on a standing fabric with its manager, plugin and epilog. Only inside of a private world (testbeds/slurm)."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from standing import ROOT, Service, ovs, spec_of

from ferrule_fabric.model.topology import Topology

sys.path.append(str(ROOT / "testbeds/slurm"))

import slurm

PLUGIN = ROOT / "dist/lib/ferrule/spank_ferrule.so"
# A busy machine shouldn't make a difference where nothing is wrong.
PLUGIN_TIMEOUT_MS, UP_S = 30_000, 150
CPUS = 8
JOB_PORTS = "20480-24575"


@contextlib.contextmanager
def scheduled(topology: Topology, plugin: Path = PLUGIN) -> Iterator[tuple[slurm.Cluster, Service, ovs.Fabric]]:
    """One slurmd per host of the topology; they are called as the topology's hosts, which must be h1, h2, .."""
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(ovs.Fabric.up(spec_of(topology)))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        service = Service(folder, fabric, topology, "--slurm")
        stack.callback(service.stop, 9)
        # Users can't look into the folder that the plugin is built in.
        plugin = Path(shutil.copy(plugin, folder))
        epilog = f"#!/bin/sh\nexec {ROOT}/interconnect/slurm/epilog.sh {service.api[5:]}\n"
        files = {"plugstack.conf": f"optional {plugin} api={service.api} timeout_ms={PLUGIN_TIMEOUT_MS}\n", "epilog": epilog}
        spaces = [fabric.host_netns(host.name) for host in topology.hosts]
        conf = "PlugStackConfig={dir}/plugstack.conf\nEpilogSlurmctld={dir}/epilog\n"
        cluster = slurm.Cluster(len(spaces), CPUS, prefix="h", namespaces=spaces, conf=conf, files=files).up(UP_S)
        stack.callback(cluster.down)
        service.environment = cluster.env
        service.start()
        for space in spaces:
            # Slurm's own network is not for jobs; ranks dial all addresses of a peer, and the first that answers wins.
            ovs.run(["ip", "-n", space, "rule", "add", "to", f"{cluster.network}.0/24", "ipproto", "tcp", "dport", JOB_PORTS, "unreachable"])
        yield cluster, service, fabric
