#!/usr/bin/env python3
"""What workers bring (mpiexec --offload): overlap and pure latency of non-blocking collectives by size, as bench/offload.c measures them, beside other libraries.

    bench/offload.py [--ranks 2] [--ways ranks,1] [--collectives ialltoall,…] [--bytes 16384,…] [--iterations 50] [--json FILE]
    bench/offload.py --hosts 4 [--mbit 100] …   with the ranks on hosts in network namespaces, each on a link of so many Mb/s (root)
    bench/offload.py --demo        two collectives with and without a worker, as bars in the terminal and as build/offload.svg
    bench/offload.py --page [--quick]   all scenes with all libraries, in turn, into docs/performance/offload.{json,md} and plots (root)

A way is who runs the collectives: `ranks` (Ferrule without workers), a number of workers per node, or a library of bench/peers.py, with `+thread` if its threads for progress
are on. Workers run what is large enough and where they can win something; with `--all` they run everything (FERRULE_COLL_OFFLOAD=all). The column "run by" says who did.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testbeds/lanes"))
import offload_report

import distance
import job
import lane_bed
import peers as registry
import results

ROOT = registry.ROOT
BINARIES = ROOT / "build/bench/offload"
COLLECTIVES = "ialltoall,iallgather,ibcast,iallreduce,ireduce_scatter"
SIZES = "16384,65536,262144,1048576"
Row = dict[str, float | str]

#: What a rank logs once for each schedule that a worker gets.
RUN_BY_WORKER = "is run by a worker"
#: What makes a library progress by a thread of its own.
THREADS = {"mpich": {"MPIR_CVAR_ASYNC_PROGRESS": "1"}, "openmpi": {"OMPI_MCA_btl_tcp_progress_thread": "1"}, "impi": {"I_MPI_ASYNC_PROGRESS": "1", "I_MPI_ASYNC_PROGRESS_THREADS": "1"}}
PAGE_WAYS = "ranks,1,mpich,mpich+thread,impi,impi+thread"
LIMIT_S, SILENCE_S = 300, 120
#: What the programs are linked with.
LIBRARIES = {"offload": [], "fft3d": ["-lfftw3"]}
FFT_FIELDS = 4


@dataclasses.dataclass(frozen=True)
class Scene:
    """Where collectives are measured."""

    name: str
    hosts: int
    ranks: int
    mbit: float = 0
    #: How many ranks compute; 0 for all.
    computing: int = 0
    #: Workers run everything that they can.
    everything: bool = False
    #: All ranks on this processor, so that the others are free; none for all.
    processors: str = ""
    sizes: str = SIZES
    iterations: int = 20
    #: Points of the 3-D FFT in each direction.
    ffts: tuple[int, ...] = ()


#: What `--page` measures.
SCENES = [
    Scene("2 hosts, 100 Mb/s", 2, 2, 100, sizes="65536,262144,1048576", iterations=6, ffts=(32, 64)),
    Scene("4 hosts, 100 Mb/s", 4, 4, 100, sizes="262144", iterations=6),
    Scene("2 hosts, 400 Mb/s", 2, 2, 400, sizes="262144,1048576", iterations=10, ffts=(64,)),
    Scene("1 node, one of two ranks computes", 1, 2, computing=1, everything=True, sizes="262144,1048576,4194304"),
    Scene("1 node, no free processor", 1, 2, sizes="65536,262144,1048576", ffts=(64, 128)),
]


def library_of(way: str) -> str:
    return "ferrule" if way == "ranks" or way.isdigit() else way.removesuffix("+thread")


def binary(peer: registry.Peer, name: str = "offload") -> pathlib.Path:
    """A program of bench/, compiled for a library."""
    target = BINARIES / ("abi" if peer.standard_abi else peer.name) / name
    source = ROOT / "bench" / f"{name}.c"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        peer.compile(source, target, LIBRARIES[name])
    return target


def measure(bed: lane_bed.Bed | None, scene: Scene, way: str, everything: bool, name: str, words: Sequence[str]) -> Row:
    """What one job of bench/NAME.c says, on the hosts of `bed` if there is one, and who has run the collectives."""
    peer = registry.peers([library_of(way)])[0]
    hosts = [(name, bed.address(name)) for name in bed.names] if bed else []
    env = peer.environment("netns" if bed else "shm")
    command = [*(bed.prefix(bed.names[0]) if bed else []), *peer.command(scene.ranks, hosts)]
    own: list[str] = []
    if peer.name == "ferrule":
        env["FERRULE_LOG"] = "info"
        if everything:
            env["FERRULE_COLL_OFFLOAD"] = "all"
        own += ["--offload", way] if way.isdigit() and way != "0" else []
        own += ["--cpu-set", scene.processors] if scene.processors else []
    if way.endswith("+thread"):
        env |= THREADS[peer.name]
    if bed:
        env["NETNS_MAP"] = ",".join(f"{name}={address}" for name, address in hosts)
    at = command.index("-n")
    program = [str(binary(peer, name)), *words]
    if scene.processors and peer.name != "ferrule":
        # Its launcher has no set of processors that ranks share; its threads may use all.
        program = [sys.executable, str(pathlib.Path(__file__).resolve()), "--on", scene.processors, *program]
    done = job.run([*command[:at], *own, *command[at:], *program], env, LIMIT_S, SILENCE_S)
    lines = [line[line.index("{"):] for line in done.text.splitlines() if '"ranks"' in line]
    if done.error or not lines:
        raise RuntimeError(f"{way}, {' '.join(words)}: {done.error or 'no figures'}")
    row: Row = json.loads(lines[-1])
    by = peer.name if peer.name != "ferrule" else "worker" if RUN_BY_WORKER in done.text else "rank"
    return row | {"way": way, "run_by": by, "hosts": scene.hosts, "mbit": scene.mbit}


def bar(percent: float) -> str:
    return "█" * round(percent / 2.5)


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, checked."""
    options = parser.parse_args()
    options.ways = options.ways or (PAGE_WAYS if options.page else "ranks,1")
    if options.demo:
        options.collectives, options.bytes, options.iterations, options.all = "ialltoall,iallreduce", "262144,1048576", 30, True
    if options.hosts != 1 and not 2 <= options.hosts <= 200:
        parser.error(f"--hosts {options.hosts} is not between 1 and 200")
    if not 1 <= options.mbit <= 10_000:
        parser.error(f"--mbit {options.mbit:g} is not between 1 and 10000")
    options.ranks = options.ranks or max(2, options.hosts)
    if options.ranks < 2 or options.ranks % options.hosts:
        parser.error(f"--ranks {options.ranks} are not as many on each of {options.hosts} hosts")
    for way in options.ways.split(","):
        if not way.isdigit() and library_of(way) not in registry.TITLES:
            parser.error(f"--ways {way}: neither `ranks`, a number of workers, nor one of {', '.join(registry.PACKAGES)}, with +thread or without")
    return options


def ffts(scene: Scene, options: argparse.Namespace, bed: lane_bed.Bed | None) -> list[Row]:
    """The 3-D FFTs of one scene, pipelined by each way and blocking without workers."""
    rows: list[Row] = []
    for n in scene.ffts:
        for way, is_blocking in [*((way, False) for way in options.ways.split(",")), ("ranks", True)]:
            words = [str(n), str(FFT_FIELDS), str(max(3, scene.iterations // 4)), *(["blocking"] if is_blocking else [])]
            try:
                row = measure(bed, scene, way, options.all or scene.everything, "fft3d", words)
            except RuntimeError as error:
                print(f"3-D FFT of {n}, {way}: {error}", flush=True)
                continue
            rows.append(row)
            print(f"3-D FFT of {n:>4} {way + (', blocking' if is_blocking else ''):<16} {row['run_by']:>8} {row['ms']:>9} ms", flush=True)
    return rows


def table(scene: Scene, options: argparse.Namespace, bed: lane_bed.Bed | None) -> list[Row]:
    """Measures everything of one scene once, and shows it line by line. A job that fails is shown and left out."""
    rows: list[Row] = []
    words = [str(scene.iterations), *([str(scene.computing)] if scene.computing else [])]
    print(f"{'collective':<15} {'bytes':>8} {'way':<13} {'run by':>8} {'blocking µs':>11} {'pure µs':>9} {'total µs':>9} {'post µs':>8} {'overlap %':>9}")
    for collective in options.collectives.split(","):
        for size in scene.sizes.split(","):
            for way in options.ways.split(","):
                try:
                    row = measure(bed, scene, way, options.all or scene.everything, "offload", [collective, size, *words])
                except RuntimeError as error:
                    if not options.page:
                        raise
                    print(f"{collective:<15} {size:>8} {way:<13} {error}", flush=True)
                    continue
                rows.append(row)
                overlap = float(row["overlap"])
                print(f"{collective:<15} {size:>8} {way:<13} {row['run_by']:>8} {row['blocking_us']:>11} {row['pure_us']:>9} {row['total_us']:>9} {row['post_us']:>8}"
                      f" {overlap:>9} {bar(overlap)}", flush=True)
    return rows


def in_scene(scene: Scene, options: argparse.Namespace) -> list[Row]:
    if scene.hosts == 1:
        return table(scene, options, None) + ffts(scene, options, None)
    with lane_bed.Bed(hosts=scene.hosts, mbit=scene.mbit, classes=False) as bed:
        return table(scene, options, bed) + ffts(scene, options, bed)


def machine() -> str:
    """The processors, and what they share at the moment."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")), "unknown processor")
    return f"{os.cpu_count()} processors ({model}) that share {distance.now()}"


def page(options: argparse.Namespace) -> int:
    """All scenes, again and again, so that each way takes its turn in each repeat."""
    scenes = [scene for scene in SCENES if options.only in scene.name]
    found: list[Row] = []
    for repeat in range(options.repeats):
        for scene in scenes:
            print(f"{scene.name}, repeat {repeat + 1} of {options.repeats}", flush=True)
            if options.quick:
                scene = dataclasses.replace(scene, sizes="262144", iterations=max(5, scene.iterations // 4), ffts=scene.ffts[:1])
            found += [row | {"scene": scene.name} for row in in_scene(scene, options)]
    offload_report.write(found, results.revision(), machine(), ROOT / "docs/performance")
    return 0


def main() -> int:
    if sys.argv[1:2] == ["--on"]:
        os.sched_setaffinity(0, {int(cpu) for cpu in sys.argv[2].split(",")})
        os.execv(sys.argv[3], sys.argv[3:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, help="of all hosts; by default one on each, at least two")
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--mbit", type=float, default=100, help="of each host's link")
    parser.add_argument("--ways", default="", help="ranks, a number of workers, a library, a library+thread; several with commas")
    parser.add_argument("--all", action="store_true", help="workers run everything that they can")
    parser.add_argument("--computing", type=int, default=0, help="how many ranks compute (all)")
    parser.add_argument("--processors", default="", help="of all ranks")
    parser.add_argument("--collectives", default=COLLECTIVES)
    parser.add_argument("--bytes", default=SIZES)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--quick", action="store_true", help="256 KiB only")
    parser.add_argument("--only", default="", help="scenes with this in their name")
    parser.add_argument("--repeats", type=int, default=results.ENOUGH)
    options = options_of(parser)
    registry.install(sorted({library_of(way) for way in options.ways.split(",")}))
    if options.hosts > 1 or options.page:
        if reason := lane_bed.unavailable():
            sys.exit(f"offload: {reason}")
        if not lane_bed.is_inside():
            return lane_bed.enter()
    for way in options.ways.split(","):
        for name in LIBRARIES if options.page else ["offload"]:
            binary(registry.peers([library_of(way)])[0], name)
    if options.page:
        return page(options)
    mbit = options.mbit if options.hosts > 1 else 0
    scene = Scene("", options.hosts, options.ranks, mbit, computing=options.computing, processors=options.processors, sizes=options.bytes, iterations=options.iterations)
    try:
        rows = in_scene(scene, options)
    except RuntimeError as error:
        sys.exit(f"offload: {error}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.demo:
        svg = ROOT / "build/offload.svg"
        offload_report.write_bars(rows, svg)
        print(f"written to {svg.relative_to(ROOT)}; {os.cpu_count()} processors, {options.ranks} ranks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
