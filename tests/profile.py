#!/usr/bin/env python3
"""What mpiexec --profile and libferrule-pmpi count, against what tests/c/profile/traffic.c sends; every file against the schema.

    tests/profile.py [-k WORD]        runs the cases whose name has WORD in it

Runs with the Python of the interconnect's environment, for jsonschema and ferrule-fabric.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import patience
import profile_pmpi
from profile_common import BUILD, LIMIT_S, PEERS, ROOT, Failed, Json, Skipped, environment, expect, is_ring, load, rows, run

MPIEXEC = str(ROOT / "dist/bin/mpiexec")
FABRIC = str(pathlib.Path(sys.executable).parent / "ferrule-fabric")
SOURCE = ROOT / "tests/c/profile/traffic.c"
TWO_HOSTS = ["--launcher", "fork", "--hosts", "left:2,right:2"]


def profile(what: list[str], ranks: int, *options: str, code: int = 0, env: dict[str, str] | None = None) -> Json:
    """The profile of traffic.c."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "profile.json"
        run([MPIEXEC, "--profile", str(path), *options, "-n", str(ranks), str(BUILD / "traffic"), *what], code, env)
        return load(path)


def ring() -> None:
    found = profile(["ring"], 4)
    is_ring(found, 10, 100)
    expect("command", found["command"][1:], ["ring"])
    expect("complete", found["complete"], True)


def ring_of_two_hosts() -> None:
    found = profile(["ring"], 4, *TWO_HOSTS)
    is_ring(found, 10, 100)
    expect("hosts", [rank["processor_name"] for rank in found["ranks"]], ["left", "left", "right", "right"])


def ring_of_two_programs() -> None:
    """The agents' ranks may come from several programs of a command line, and run several programs each."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "profile.json"
        program = str(BUILD / "traffic")
        run([MPIEXEC, "--profile", str(path), "-n", "3", "sh", "-c", f"{program} ring && {program} ring"], 0)
        is_ring(load(path), 20, 100)


def sizes(*options: str) -> None:
    """All protocols: short, in cells, announced, streamed, pulled."""
    found = profile(["sizes"], 2, *options)
    for rank in found["ranks"]:
        expect("sizes", rank["tx"][0]["sizes"], {"0": 2, **{str(k + 1): 1 for k in range(21)}})
        expect("bytes", sum(rank["tx_bytes"]), 2**21 - 1)


def modes() -> None:
    for i, rank in enumerate(profile(["modes"], 3)["ranks"]):
        expect("to the next", rows(rank)[(i + 1) % 3]["sizes"]["4"], 12)
        expect("messages with data", sum(n for row in rank["tx"] for size, n in row["sizes"].items() if size != "0"), 12)


def to_itself() -> None:
    for i, rank in enumerate(profile(["self"], 2)["ranks"]):
        expect("messages", rank["tx"], [{"peer": i, "bytes": 3000, "messages": 1, "sizes": {"12": 1}}])


def vector() -> None:
    expect("bytes", [sum(rank["tx_bytes"]) for rank in profile(["vector"], 2)["ranks"]], [800, 800])


def alltoall() -> None:
    for i, rank in enumerate(profile(["alltoall"], 5)["ranks"]):
        expect("bytes", rank["tx_bytes"], [0 if peer == i else 5000 for peer in range(5)])
        expect("messages", rank["tx_messages"], [0 if peer == i else 1 for peer in range(5)])


def bcast() -> None:
    """Everybody but the root gets it once, from whomever."""
    found = profile(["bcast"], 8)
    expect("messages", sum(sum(rank["tx_messages"]) for rank in found["ranks"]), 7)
    expect("got", [sum(rank["rx_bytes"]) for rank in found["ranks"]], [0] + 7 * [1000])


def accesses(*options: str) -> None:
    """Windows by target, files as sums; neither is a message."""
    for i, rank in enumerate(profile(["accesses"], 3, *options)["ranks"]):
        none = dict.fromkeys(("puts", "put_bytes", "gets", "get_bytes", "accumulates", "accumulate_bytes"), 0)
        to_next = none | {"peer": (i + 1) % 3, "puts": 3, "put_bytes": 300, "accumulates": 2, "accumulate_bytes": 36}
        to_previous = none | {"peer": (i + 2) % 3, "gets": 2, "get_bytes": 100}
        expect("windows", rank["windows"], sorted([to_next, to_previous], key=lambda row: row["peer"]))
        expect("files", rank["files"], {"reads": 1, "read_bytes": 100, "writes": 2, "write_bytes": 1500})
    for rank in profile(["ring"], 2)["ranks"]:
        expect("keys of a rank without accesses", {"windows", "files"} & set(rank), set())


def top_shows_accesses() -> None:
    """`ferrule top --traffic` of a running job."""
    with tempfile.TemporaryDirectory() as folder, open(pathlib.Path(folder) / "said", "w+") as said:
        command = [MPIEXEC, "-n", "2", str(BUILD / "traffic"), "accesses", "stay"]
        with subprocess.Popen(command, env=environment(), stdout=said, stderr=subprocess.DEVNULL) as job:
            try:
                if not patience.until(lambda: pathlib.Path(said.name).read_text().count("ready") == 2):
                    raise Failed("the ranks don't start")
                shown = run([str(ROOT / "dist/bin/ferrule"), "top", "--traffic", "--once", str(job.pid)], 0)
            finally:
                job.terminate()
    rows = [tuple(line.split()) for line in shown.splitlines() if line.split()[:1] in (["0"], ["1"])]
    calls = {(row[0], row[2]): row[3] for row in rows}
    expect("calls", calls, {(rank, way): n for rank in "01" for way, n in (("put", "3"), ("get", "2"), ("accumulate", "2"), ("read", "1"), ("write", "2"))})


def split() -> None:
    """World ranks also in communicators that are turned round; names and collectives with --profile-detail."""
    found = profile(["split"], 6, "--profile-detail")
    for i, rank in enumerate(found["ranks"]):
        previous = (i - 2) % 6
        expect("own messages", {row["peer"]: row["sizes"]["7"] for row in rank["phases"][1]["tx"] if "7" in row["sizes"]}, {previous: 4})
        scopes = {(scope["communicator"], scope.get("collective")): scope["tx"] for scope in rank["scopes"]}
        name = "odd" if i % 2 else "even"
        expect("ring", scopes[name, None], [{"peer": previous, "bytes": 4 * 77, "messages": 4, "sizes": {"7": 4}}])
        if ("MPI_COMM_WORLD", "MPI_Comm_split") not in scopes or (name, "MPI_Allreduce") not in scopes:
            raise Failed(f"scopes of rank {i}: {list(scopes)}")
        if any(row["peer"] % 2 != i % 2 for key, tx in scopes.items() if key[0] == name for row in tx):
            raise Failed("a message has left its communicator")
    ibcast = [scope for rank in found["ranks"] for scope in rank["scopes"] if scope.get("collective") == "MPI_Ibcast"]
    expect("messages of MPI_Ibcast", sum(row["messages"] for scope in ibcast for row in scope["tx"]), 4)


def phases() -> None:
    for rank in profile(["phases"], 3)["ranks"]:
        expect("levels", [phase["level"] for phase in rank["phases"]], [1, 5, 0, 1, 5])
        expect("messages", [sum(row["messages"] for row in phase["tx"]) for phase in rank["phases"]], [1, 3, 0, 4, 5])
        ends = [phase["began"] + phase["duration"] for phase in rank["phases"]]
        if any(abs(end - phase["began"]) > 1e-6 for end, phase in zip(ends, rank["phases"][1:], strict=False)):
            raise Failed("a phase doesn't begin where the last one ends")


def slices() -> None:
    found = profile(["naps"], 2, "--profile-slice", "0.2")
    expect("slice", found["slice"], 0.2)
    for rank in found["ranks"]:
        numbers = [part["slice"] for part in rank["slices"]]
        if len(numbers) < 3 or numbers != sorted(set(numbers)) or numbers[-1] < 5:
            raise Failed(f"slices {numbers}")


def dead(how: str, code: int, words: str) -> None:
    """What the rank has sent until then is known to the last message."""
    found = profile([how, "1"], 3, code=code)
    expect("complete", found["complete"], False)
    rank = found["ranks"][1]
    expect("rank 1", (rank["complete"], rank["end"]), (False, words))
    expect("messages", rank["tx_messages"], [0, 0, 11])
    expect("phases", [(phase["level"], sum(row["messages"] for row in phase["tx"])) for phase in rank["phases"]], [(1, 10), (3, 1)])


def survivors() -> None:
    """With --continue-on-failure the others finalize."""
    found = profile(["kill", "2"], 3, "--continue-on-failure", code=137)
    expect("complete", [rank["complete"] for rank in found["ranks"]][2], False)
    expect("messages", found["ranks"][2]["tx_messages"], [11, 0, 0])


def agents_below(pid: int) -> list[int]:
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            name, rest = (entry / "stat").read_text().rsplit(")", 1)
            if name.endswith("(ferrule-agent") and int(rest.split()[1]) == pid:
                found.append(int(entry.name))
    return sorted(found)


def lost_agent() -> None:
    """What its ranks have sent is gone with it; the file says so."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "profile.json"
        command = [MPIEXEC, "--profile", str(path), *TWO_HOSTS, "-n", "4", str(BUILD / "traffic"), "linger"]
        with open(pathlib.Path(folder) / "said", "w+") as said, subprocess.Popen(command, env=environment(), stdout=said, stderr=subprocess.DEVNULL) as job:
            all_are_ready = patience.until(lambda: pathlib.Path(said.name).read_text().count("ready") == 4)
            agents = agents_below(job.pid)
            if not all_are_ready or not agents:
                job.kill()
                raise Failed("there is no node agent to kill" if all_are_ready else "the ranks don't start")
            os.kill(agents[-1], signal.SIGKILL)
            try:
                job.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                job.kill()
                raise Failed("mpiexec does not end") from None
        ranks = load(path)["ranks"]
        missing = [rank["rank"] for rank in ranks if "tx_bytes" not in rank]
        if missing not in ([0, 1], [2, 3]):
            raise Failed(f"nothing is known of the ranks {missing}")
        expect("end", {ranks[rank]["end"] for rank in missing}, {"nothing is known of it"})


def file_is_refused() -> None:
    output = run([MPIEXEC, "--profile", "/nonexistent/p.json", "-n", "1", "true"], 2)
    if "cannot write the profile /nonexistent/p.json" not in output:
        raise Failed(output)


def by_setting() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run([MPIEXEC, "-n", "3", str(BUILD / "traffic"), "ring"], 0, environment(FERRULE_PROFILE="here.json"), pathlib.Path(folder))
        is_ring(load(pathlib.Path(folder) / "here.json"), 10, 100)


def is_json(path: pathlib.Path) -> bool:
    """Whether the file has been written to its end."""
    try:
        return bool(json.loads(path.read_text()))
    except (OSError, ValueError):
        return False


def under_hydra() -> None:
    """Another launcher: rank 0's head process writes the file."""
    hydra = PEERS["mpich"] / "bin/mpiexec"
    if not hydra.exists():
        raise Skipped(f"{hydra} is missing (make build/peers/mpich/bin/mpiexec)")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "p.json"
        run([str(hydra), "-n", "3", "-genv", "FERRULE_PROFILE", str(path), str(BUILD / "traffic"), "ring"], 0)
        patience.until(lambda: is_json(path))
        is_ring(load(path), 10, 100)


def viewer() -> None:
    """ferrule-fabric reads, draws and stores it."""
    with tempfile.TemporaryDirectory() as folder:
        path, picture = pathlib.Path(folder) / "p.json", pathlib.Path(folder) / "p.svg"
        run([MPIEXEC, "--profile", str(path), "-n", "4", str(BUILD / "traffic"), "phases"], 0)
        shown = run([FABRIC, "show", str(path)], 0)
        run([FABRIC, "show", str(path), "-o", str(picture)], 0)
        for words in ("ranks 4", "pairs with traffic 4", "64 … 127 B"):
            if words not in shown:
                raise Failed(f"'{words}' is not shown:\n{shown}")
        if "<svg" not in picture.read_text():
            raise Failed("no picture")


CASES: dict[str, Callable[[], None]] = {
    "ring": ring,
    "ring on two hosts": ring_of_two_hosts,
    "ring, two programs one after another": ring_of_two_programs,
    "sizes in shared memory": sizes,
    "sizes over TCP": lambda: sizes("--set", "CHANNELS=self,tcp"),
    "modes": modes,
    "messages to itself": to_itself,
    "vector": vector,
    "alltoall": alltoall,
    "bcast": bcast,
    "accesses to windows and files": accesses,
    "accesses over TCP": lambda: accesses("--set", "CHANNELS=self,tcp"),
    "ferrule top --traffic": top_shows_accesses,
    "split, detail": split,
    "phases": phases,
    "slices": slices,
    "killed rank": lambda: dead("kill", 137, "was killed by SIGKILL"),
    "MPI_Abort": lambda: dead("abort", 3, "called MPI_Abort with code 3"),
    "exit without MPI_Finalize": lambda: dead("exit", 4, "exited with code 4"),
    "survivors": survivors,
    "lost agent": lost_agent,
    "file is refused": file_is_refused,
    "FERRULE_PROFILE": by_setting,
    "under Hydra": under_hydra,
    "ferrule-fabric show": viewer,
    **profile_pmpi.CASES,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", metavar="WORD")
    only = parser.parse_args().k
    BUILD.mkdir(parents=True, exist_ok=True)
    run([str(ROOT / "dist/bin/mpicc"), "-O1", "-Wall", "-Werror", "-o", str(BUILD / "traffic"), str(SOURCE)], 0)
    count = {"pass": 0, "FAIL": 0, "skip": 0}
    for name, case in CASES.items():
        if only not in name:
            continue
        verdict, why = "pass", ""
        try:
            case()
        except Skipped as reason:
            verdict, why = "skip", str(reason)
        except (Failed, KeyError, IndexError, OSError, ValueError) as reason:
            verdict, why = "FAIL", f"{type(reason).__name__}: {reason}"
        count[verdict] += 1
        print(f"{verdict}  {name}{': ' if why else ''}{why}", flush=True)
    print(f"profile: {count['pass']} passed, {count['FAIL']} failed, {count['skip']} skipped")
    return 1 if count["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
