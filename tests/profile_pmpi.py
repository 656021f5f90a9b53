"""libferrule-pmpi before Ferrule, MPICH and Open MPI: what it counts of calls, against what tests/c/profile/*.c do."""

from __future__ import annotations

import functools
import json
import pathlib
import tempfile
from collections.abc import Callable

from profile_common import BUILD, PEERS, ROOT, Json, Skipped, environment, expect, is_ring, load, run


class Library:
    """An MPI library with libferrule-pmpi before it."""

    def __init__(self, name: str) -> None:
        self.name, self.tree = name, PEERS.get(name, ROOT / "dist")
        if not (self.tree / "bin/mpiexec").exists():
            raise Skipped(f"{self.tree}/bin/mpiexec is missing")
        self.env = {"OPAL_PREFIX": str(self.tree), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if name == "openmpi" else {}
        self.pmpi = BUILD / f"libferrule-pmpi-{name}.so"
        compiler, env = str(self.tree / "bin/mpicc"), environment(**self.env)
        run(["make", "-s", "-C", str(ROOT / "interconnect/pmpi"), f"MPICC={compiler}", f"OUT={self.pmpi}", str(self.pmpi)], 0, env)
        for program in ("traffic", "calls"):
            run([compiler, "-O1", "-o", str(BUILD / f"{program}-{name}"), str(ROOT / f"tests/c/profile/{program}.c")], 0, env)

    def profile(self, what: list[str], ranks: int, code: int | None = 0, suffix: str = "", program: str = "traffic", **more: str) -> Json:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "p.json"
            variables = {"LD_PRELOAD": str(self.pmpi), "FERRULE_PROFILE": str(path), **more}
            given = [word for name, value in variables.items() for word in (["-genv", name, value] if self.name == "mpich" else ["-x", f"{name}={value}"])]
            room = ["--oversubscribe"] if self.name == "openmpi" else []
            run([str(self.tree / "bin/mpiexec"), *room, "-n", str(ranks), *given, str(BUILD / f"{program}-{self.name}"), *what], code, environment(**self.env))
            if suffix:
                return json.loads(pathlib.Path(f"{path}{suffix}").read_text())
            return load(path)


@functools.cache
def library_of(name: str) -> Library:
    return Library(name)


def messages(name: str) -> None:
    library = library_of(name)
    found = library.profile(["ring"], 3)
    is_ring(found, 10, 100)
    expect("level", found["level"], "calls")
    for i, rank in enumerate(library.profile(["modes"], 3)["ranks"]):
        expect("modes", rank["tx"], [{"peer": (i + 1) % 3, "bytes": 96, "messages": 12, "sizes": {"4": 12}}])
        expect("barrier", rank["collectives"], [{"name": "MPI_Barrier", "calls": 1, "bytes": 0}])
    for rank in library.profile(["phases"], 2)["ranks"]:
        expect("phases", [sum(row["messages"] for row in phase["tx"]) for phase in rank["phases"]], [1, 3, 0, 4, 5])
    for rank in library.profile(["alltoall"], 3)["ranks"]:
        expect("collectives", rank["collectives"], [{"name": "MPI_Alltoall", "calls": 1, "bytes": 15000}])
        expect("messages", rank["tx"], [])
    for i, rank in enumerate(library.profile(["alltoall"], 3, FERRULE_PMPI_COLLECTIVES="direct")["ranks"]):
        expect("direct", rank["tx_bytes"], [0 if peer == i else 5000 for peer in range(3)])
    for i, rank in enumerate(library.profile(["split"], 4)["ranks"]):
        expect("world ranks", {row["peer"] for row in rank["tx"]}, {(i + 2) % 4})
    rank = library.profile(["abort", "1"], 3, code=None, suffix=".rank1")
    expect("abort", (rank["end"], rank["complete"], sum(rank["tx_messages"])), ("called MPI_Abort with code 3", False, 11))


def calls(name: str, what: str, collectives: str = "") -> list[Json]:
    found: list[Json] = library_of(name).profile([what], 3, program="calls", FERRULE_PMPI_COLLECTIVES=collectives)["ranks"]
    return found


def sent(rank: Json) -> dict[int, tuple[int, int]]:
    """Bytes and messages by peer."""
    return {row["peer"]: (row["bytes"], row["messages"]) for row in rank["tx"]}


def collectives(rank: Json) -> dict[str, tuple[int, int]]:
    return {row["name"]: (row["calls"], row["bytes"]) for row in rank.get("collectives", [])}


def one_sided(name: str) -> None:
    for i, rank in enumerate(calls(name, "one-sided")):
        expect(f"rank {i}: put to the next, and got by the one before", sent(rank), {(i + 1) % 3: (476, 9), (i + 2) % 3: (498, 7)})
    for i, rank in enumerate(calls(name, "phases")):
        expect("levels", [phase["level"] for phase in rank["phases"]], [1, 5])
        expect(f"rank {i}: got in each phase", [sent(phase) for phase in rank["phases"]], [{(i + 2) % 3: (1000, 1)}, {(i + 2) % 3: (2000, 2)}])


def neighborhoods(name: str) -> None:
    for i, rank in enumerate(calls(name, "neighbors", "direct")):
        up, down = (7, 1) if i < 2 else (0, 0), (7, 1) if i > 0 else (0, 0)
        wanted = {(i + 1) % 3: (160 + up[0], 5 + up[1]), (i + 2) % 3: (90 + down[0], 4 + down[1])}
        expect(f"rank {i}: to its neighbors", sent(rank), wanted)
        expect(f"rank {i}: calls", collectives(rank)["MPI_Neighbor_alltoall"], (2, 80 + up[0] + down[0]))
        expect(f"rank {i}: calls", collectives(rank)["MPI_Ineighbor_allgather"], (1, 60))


def persistent(name: str) -> None:
    for i, rank in enumerate(calls(name, "persistent", "direct")):
        wanted = {"MPI_Bcast_init": (2, 0 if i else 200), "MPI_Alltoall_init": (1, 180)}
        expect(f"rank {i}: calls", collectives(rank), wanted)
        expect(f"rank {i}: to the others", sent(rank), {peer: (60, 1) if i else (260, 3) for peer in range(3) if peer != i})


def partitioned(name: str) -> None:
    for i, rank in enumerate(calls(name, "partitioned")):
        expect(f"rank {i}: to the next", sent(rank), {(i + 1) % 3: (128, 2)})


def large(name: str) -> None:
    for i, rank in enumerate(calls(name, "large")):
        expect(f"rank {i}: large counts", sent(rank), {(i + 1) % 3: (180, 2), (i + 2) % 3: (130, 1)})
        expect(f"rank {i}: calls", collectives(rank), {"MPI_Alltoall_c": (1, 270)})


#: Ferrule has neither one-sided nor partitioned communication yet, Open MPI 5 no large counts.
WHAT: list[tuple[str, Callable[[str], None], tuple[str, ...]]] = [
    ("messages", messages, ("ferrule", "mpich", "openmpi")),
    ("one-sided", one_sided, ("mpich", "openmpi")),
    ("neighborhoods", neighborhoods, ("ferrule", "mpich", "openmpi")),
    ("persistent collectives", persistent, ("ferrule", "mpich", "openmpi")),
    ("partitioned", partitioned, ("mpich", "openmpi")),
    ("large counts", large, ("mpich",)),
]
CASES: dict[str, Callable[[], None]] = {
    f"pmpi with {name}: {what}": functools.partial(case, name) for name in ("ferrule", "mpich", "openmpi") for what, case, names in WHAT if name in names
}
