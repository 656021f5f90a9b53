"""What the manager adds to srun: 128 tasks on 16 of 20 slurmd on Open vSwitch switches, with and without routes for a CG pattern, in turn.

Writes docs/performance/interconnect-slurm.json and prints it. The plugin tells how long it has waited for the manager; beside that the time of all of srun.
Usage: slurm_overhead.py [--repeats 9] [--output FILE]        needs root, Slurm and Open vSwitch; skipped with the reason otherwise
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "bed"))

from scheduled import PLUGIN, scheduled, slurm
from standing import ROOT, Service, ovs

from ferrule_fabric.patterns.generate import cg
from ferrule_fabric.topologies.fat_tree import two_level

RANKS, NODES = 128, 16


def learn(service: Service) -> None:
    """Gives the manager CG's traffic."""
    traffic = cg(RANKS, 1_000_000).total
    sent, messages, zero = traffic.dense_bytes(), traffic.dense_messages(), [0] * RANKS
    common = {"processor_name": "x", "n_procs": RANKS, "duration": 1.0, "rx_bytes": zero, "rx_messages": zero, "tx_message_sizes": [], "rx_message_sizes": []}
    ranks = [common | {"rank": rank, "tx_bytes": sent[rank].tolist(), "tx_messages": messages[rank].tolist()} for rank in range(RANKS)]
    answer = service.call("PUT", "/v1/patterns/cg", json={"ranks": ranks})
    assert answer.status_code == 201, answer.text


def measured(repeats: int) -> dict[str, Any]:
    """Times in milliseconds; the first of each is a rehearsal."""
    took: dict[bool, list[float]] = {False: [], True: []}
    waited: list[int] = []
    pairs = 0
    with scheduled(two_level(4, 2, 5)) as (cluster, service, _):
        learn(service)
        for _turn in range(repeats + 1):
            for routed in (False, True):
                began = time.perf_counter()
                code, text = cluster.run(["srun", "-v", f"-N{NODES}", f"-n{RANKS}", *(["--comm-pattern=cg"] if routed else []), "true"])
                took[routed].append(1e3 * (time.perf_counter() - began))
                assert code == 0 and "default routes" not in text, text
                if routed:
                    waited += [int(ms) for ms in re.findall(r"routes for job \S+ in (\d+) ms", text)]
        pairs = service.get("/v1/history")[0]["pairs"]
    plain, with_routes, waits = took[False][1:], took[True][1:], waited[1:]
    return {
        "version": 1,
        "ranks": RANKS,
        "nodes": NODES,
        "pairs": pairs,
        "wait_ms": {"median": median(waits), "least": min(waits), "most": max(waits)},
        "srun_ms": {"without": median(plain), "with": median(with_routes), "difference": median(b - a for a, b in zip(plain, with_routes))},
    }


def main() -> int:
    """Measures and writes the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/performance/interconnect-slurm.json")
    options = parser.parse_args()
    for why in (ovs.missing(), slurm.unavailable(), None if PLUGIN.exists() else "the plugin isn't built: make spank"):
        if why:
            print(f"srun overhead: skipped: {why}")
            return 0
    if not slurm.is_inside():
        return slurm.enter()
    data = measured(options.repeats)
    options.output.write_text(json.dumps(data, indent=1) + "\n")
    wait, srun = data["wait_ms"], data["srun_ms"]
    print(f"srun of {RANKS} tasks on {NODES} nodes, {data['pairs']} pairs: the plugin waits {wait['median']:.0f} ms ({wait['least']} to {wait['most']}) for its routes;", end=" ")
    print(f"srun takes {srun['without']:.0f} ms without and {srun['with']:.0f} ms with them (median difference {srun['difference']:.0f} ms; aim: under 50)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
