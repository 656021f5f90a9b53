"""A real Slurm with job_submit.lua and the plugin, and what `ferrule-fabric doctor` says of it; runs in a private world (testbeds/slurm).

usage: slurm_choice_world.py PLUGIN
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "testbeds/slurm"))

import slurm
from ferrule_fabric.commands.doctor import examined
from ferrule_fabric.commands.network import Reach
from ferrule_fabric.manager.allocation import Allocations, Slurm
from ferrule_fabric.manager.listening import Interfaces, servers_of
from ferrule_fabric.manager.service import Manager
from ferrule_fabric.manager.state import State
from ferrule_fabric.manager.worker import Worker
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.store.database import Application, PatternStore, Run
from ferrule_fabric.topologies.spec import topology_of

NODES, CPUS, RANKS, UP_S = 4, 2, 4, 90
# Two leaves of two hosts: two ranks on two nodes are best on one leaf, four can't be.
TOPOLOGY = "two-level:leaves=2,spines=1,hosts=2"
SWITCHES = "SwitchName=s1 Nodes=h[1-2]\nSwitchName=s2 Nodes=h[3-4]\nSwitchName=s3 Switches=s[1-2]\n"
CONF = "PlugStackConfig={dir}/plugstack.conf\nEpilogSlurmctld={dir}/epilog\nJobSubmitPlugins=lua\nTopologyPlugin=topology/tree\n"


async def in_a_thread(_: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(function, *arguments)


def check_choice(cluster: slurm.Cluster) -> None:
    """Jobs with a pattern ask for few switches; others, and those of users who say otherwise, don't."""

    def switches(*options: str) -> str:
        code, text = cluster.run(["sbatch", "-o", "/dev/null", *options, "--wrap", "true"])
        assert code == 0, text
        code, text = cluster.run(["scontrol", "show", "job", text.split()[-1]])
        found = re.search(r"Switch(?:es)?=(\d+)@(\S+)", text)
        return f"{found[1]}@{found[2]}" if found else "none"

    near = ("-N2", "-n2", "--comm-pattern=near")
    deadline = time.monotonic() + 90
    # The first question may take the manager longer than slurmctld waits.
    while (asked := switches(*near)) == "none" and time.monotonic() < deadline:
        time.sleep(0.5)
    assert asked == "1@00:05:00", (asked, [line for line in cluster.log(200).splitlines() if "ferrule" in line][-3:])
    assert switches("-N2", "-n2") == "none" and switches("-N2", "-n2", "--comm-pattern=unknown") == "none"
    said = switches("--switches=2@10", *near)
    assert said.startswith("2@"), said
    print(f"    job_submit.lua: {' '.join(near)} asks for {asked}", flush=True)


def main() -> None:
    plugin = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        path, url = folder / "api.sock", f"sqlite:///{folder}/store"
        Worker.run = in_a_thread  # type: ignore[assignment]
        state = State(url)
        with PatternStore(url) as patterns:
            patterns.add(Run(Application("near", "", 2), "", 0.0, 1.0, ()), pattern_of("alltoall:ranks=2,bytes=1000000").total)
            manager = Manager(topology_of(TOPOLOGY), state, patterns, frozenset({0}), 100_000, allocations=Allocations(Slurm()))
            ((server, sockets),) = servers_of(manager, Interfaces(f"unix:{path}"))
            threading.Thread(target=lambda: asyncio.run(server.serve(sockets=sockets)), daemon=True).start()
            script = (ROOT / "interconnect/slurm/job_submit.lua").read_text().replace("/run/ferrule-fabric.sock", str(path))
            epilog = f"#!/bin/sh\nexec {ROOT}/interconnect/slurm/epilog.sh {path}\n"
            files = {"plugstack.conf": f"optional {plugin} api={path}\n", "epilog": epilog, "job_submit.lua": script, "topology.conf": SWITCHES}
            cluster = slurm.Cluster(NODES, CPUS, prefix="h", conf=CONF, files=files).up(UP_S)
            with contextlib.ExitStack() as stack:
                stack.callback(cluster.down)
                findings = list(examined(Reach(f"unix:{path}"), None, Path(cluster.dir) / "slurm.conf"))
                # No switch is connected here; all else must be right.
                wrong = [finding for finding in findings if finding.good is False and "switches connected" not in finding.what]
                assert not wrong, wrong
                for what in ("slurmctld answers", "slurmctld runs with these settings", "Slurm's nodes are hosts of the fabric", "srun knows --comm-pattern"):
                    assert any(finding.good and finding.what == what for finding in findings), (what, findings)
                print(f"    doctor: {sum(bool(finding.good) for finding in findings)} things are right", flush=True)
                check_choice(cluster)
            manager.close()
        state.close()


if __name__ == "__main__":
    main()
