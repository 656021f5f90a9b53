"""`make demo-interconnect`: the whole way once, with real switches and a real job.

Starts a fabric of Open vSwitch switches and the manager, runs a CG solver of 128 ranks with the profiler, stores its profile, runs it again with routes for it,
and shows both runs side by side. The manager's page can be looked at meanwhile; with --stay it and the fabric stand on until Enter is pressed.
Everything is taken away at the end, also after an interrupt or the time limit.

Usage: demo.py [--mbit 5] [--iterations 3] [--stay] [--limit 300]
"""

from __future__ import annotations

import argparse
import secrets
import select
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))

from jobs import DIST, Outcome, built, ran
from standing import ROOT, Service, free_port, ovs, spec_of

from ferrule_fabric.model.topology import Topology
from ferrule_fabric.topologies.fat_tree import two_level

HOSTS, PER_HOST = 16, 8
PATTERN = "demo-cg"


def step(number: int, text: str) -> None:
    """The heading of a step."""
    print(f"\n[{number}] {text}", flush=True)


def side_by_side(before: Outcome, after: Outcome, fabric: ovs.Fabric) -> str:
    """The table: links between switches that carried most, and the times."""
    switches = fabric.spec.switches
    links = [link for link in before.link_bytes if link[0] in switches and link[1] in switches]
    links.sort(key=lambda link: -max(before.link_bytes[link], after.link_bytes[link]))
    rows = [("", "default routes (D-mod-K)", "routes for the job", "")]

    def row(name: str, a: float, b: float, unit: str) -> None:
        rows.append((name, f"{a:.2f} {unit}", f"{b:.2f} {unit}", f"{100 * (b / a - 1):+.0f}%" if a else ""))

    for link in links[:6]:
        row(f"{link[0]} to {link[1]}", before.link_bytes[link] / 1e6, after.link_bytes[link] / 1e6, "MB")
    row("hottest link", before.hottest(switches)[1] / 1e6, after.hottest(switches)[1] / 1e6, "MB")
    row("time of the solver", before.numbers["seconds"], after.numbers["seconds"], "s")
    row("of it communication", before.numbers["communication"], after.numbers["communication"], "s")
    widths = [max(len(cells[i]) for cells in rows) for i in range(4)]
    return "\n".join("    " + "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(cells, widths))) for cells in rows)


def led_through(options: argparse.Namespace, topology: Topology, stack: ExitStack) -> None:
    """The steps."""
    step(1, f"a fabric: 4 leaf and 2 spine switches (Open vSwitch), 20 hosts (network namespaces), links of {options.mbit:g} Mb/s")
    fabric = stack.enter_context(ovs.Fabric.up(spec_of(topology, limited=True)))
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ferrule-demo-")))
    token, port = secrets.token_hex(16), free_port()
    (folder / "roles").write_text(f"viewer token {token}\n")
    (folder / "roles").chmod(0o600)

    step(2, "the manager: ferrule-fabric serve")
    service = Service(folder, fabric, topology, "--web", f"127.0.0.1:{port}", "--plain-http", "--roles", str(folder / "roles"))
    stack.callback(service.stop)
    service.start()
    status = service.get("/v1/status")
    print(f"    {status['connected']} of {status['switches']} switches connected, default routes installed ({status['rules']} rules)")
    print(f"    its page: http://127.0.0.1:{port}/   token (to look, not to change anything): {token}")

    program = built(ROOT / "interconnect/bench/cg2d.c")
    hosts = [host.name for host in topology.hosts[:HOSTS] for _ in range(PER_HOST)]
    command: list[str | Path] = [program, "--size", "65536", "--iterations", str(options.iterations)]
    profile = folder / "profile.json"
    step(3, f"a job on default routes, profiled: mpiexec -n {len(hosts)} --profile profile.json cg2d")
    before = ran(fabric, hosts, command, ["--profile", str(profile)])
    print("    " + before.text.strip().splitlines()[0])

    step(4, f"its profile ({profile.stat().st_size / 1e3:.0f} kB) goes to the manager as '{PATTERN}'")
    learned = service.call("PUT", f"/v1/patterns/{PATTERN}", content=profile.read_bytes())
    assert learned.status_code == 201, learned.text

    step(5, f"the job again with routes: mpiexec -n {len(hosts)} --fabric {service.api} --comm-pattern {PATTERN} cg2d")
    after = ran(fabric, hosts, command, ["--fabric", service.api, "--comm-pattern", PATTERN, "--verbose"])
    print("".join(f"    {line}\n" for line in after.text.splitlines() if "routes" in line or line.startswith("cg2d")), end="")

    step(6, "before and after, by the switches' own counters")
    print(side_by_side(before, after, fabric))
    print(f"\n    rules of jobs left on the switches: {service.job_rules()}")
    if options.stay:
        print(f"\n    The page stays at http://127.0.0.1:{port}/ until Enter is pressed.", flush=True)
        select.select([sys.stdin], [], [])


def main() -> int:
    """Runs the demonstration."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mbit", type=float, default=5.0, help="rate of every link")
    parser.add_argument("--iterations", type=int, default=3, help="of the solver")
    parser.add_argument("--stay", action="store_true", help="leave fabric and page standing until Enter is pressed")
    parser.add_argument("--limit", type=int, default=300, help="seconds after which it gives up")
    options = parser.parse_args()
    for why in (ovs.missing(), None if (DIST / "bin/mpiexec").exists() else "no dist/bin/mpiexec: make build"):
        if why:
            print(f"demo-interconnect: can't run here: {why}")
            return 1

    def stop(number: int, _frame: object) -> None:
        raise SystemExit(f"demo-interconnect: {'over the time limit' if number == signal.SIGALRM else 'interrupted'}")

    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    if not options.stay:
        signal.alarm(options.limit)
    began = time.monotonic()
    with ExitStack() as stack:
        led_through(options, two_level(4, 2, 5, options.mbit * 1e6), stack)
    print(f"\nAll taken away again; {time.monotonic() - began:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
