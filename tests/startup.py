#!/usr/bin/env python3
"""How jobs start: every scheme of --startup, the bytes that it moves, many ranks, files that are sent, hosts that misbehave, kills.

    tests/startup.py [-k WORD]         runs the groups whose name has WORD in it: schemes hosts bytes messages sleepers preload bad kills

Hosts are network namespaces joined by a bridge (root only; skipped otherwise). Every run has a time limit, and is looked after: no process, no
directory and no namespace is left, also when something fails.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import fcntl
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kill as killing
import patience
import startup_preload
from startup_job import BUILD, MPIEXEC, ROOT, TEMPLATE, Cases, Done, Skip, check, hosts, mpiexec, private_directories

import run as runner

SCHEMES = ["original", "dr", "bc", "mpd-bc", "tree", "hypercube", "lazy"]
SIZES = [1, 2, 3, 5, 8, 16]
IDS = 16  # bytes of an endpoint id

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* Everybody tells everybody its rank; with an argument: sleeps that long in between; with a second one: only neighbors talk. */
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int *out = malloc(size * sizeof *out), *in = malloc(size * sizeof *in);
  for (int i = 0; i < size; i++) out[i] = 1000 * rank + i;
  if (argc > 1) sleep(atoi(argv[1]));
  if (argc > 2) {
    MPI_Sendrecv(out, 1, MPI_INT, (rank + 1) % size, 0, in, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
      if (in[i] != 1000 * i + rank) MPI_Abort(MPI_COMM_WORLD, 9);
  }
  if (rank == 0) printf("all %d agree\n", size);
  MPI_Finalize();
  return 0;
}
"""

GATE = r"""
#include <fcntl.h>
#include <mpi.h>
#include <sys/file.h>
/* In between waits until nobody locks the file. */
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int file = open(argv[1], O_RDONLY);
  if (file < 0 || flock(file, LOCK_SH) != 0) MPI_Abort(MPI_COMM_WORLD, 9);
  MPI_Finalize();
  return 0;
}
"""

def agree(done: Done, ranks: int, what: str) -> None:
    check(done.code == 0 and f"all {ranks} agree" in done.text, f"{what}: exit code {done.code}\n{done.text[-800:]}")


def schemes() -> Cases:
    """Every scheme and number of ranks on one host; all connections at once too."""
    for scheme in SCHEMES:
        def one(scheme: str = scheme) -> None:
            for ranks in SIZES:
                for connect in ["demand", "all"]:
                    done = mpiexec("-n", str(ranks), f"--startup={scheme}", f"--connect={connect}", str(BUILD / "all"), report=True)
                    agree(done, ranks, f"{scheme}, {ranks} ranks, {connect}")
                    check(done.report["initialized"] == ranks and done.report["scheme"] == scheme, "the report is about something else")
                    lanes = done.report["connections"]["total"]
                    check(connect == "demand" or lanes == ranks * (ranks - 1), f"{scheme}: {lanes} open lanes of {ranks} ranks")
        yield scheme, one


def over_hosts() -> Cases:
    """Four hosts, ranks meet by TCP, and agents in a chain for the schemes that have a tree."""
    def every() -> None:
        with hosts(4) as (prefix, names):
            places = ["-host", ",".join(f"{name}:4" for name in names), "--map-by", "node"]
            for scheme in SCHEMES:
                for ranks in SIZES:
                    for connect in ["demand", "all"] if ranks in (3, 16) else ["demand"]:
                        done = mpiexec(*TEMPLATE, *places, "-n", str(ranks), f"--startup={scheme}", f"--connect={connect}", str(BUILD / "all"), prefix=prefix,
                                       FERRULE_LOCALITY="node")
                        agree(done, ranks, f"{scheme}, {ranks} ranks on 4 hosts, {connect}")
    yield "four hosts", every

    def two_jobs() -> None:
        def job(scheme: str) -> Done:
            return mpiexec("-n", "6", f"--startup={scheme}", "--connect=all", str(BUILD / "all"), FERRULE_CHANNELS="tcp", FERRULE_PORT_RANGE="21000-21063")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for scheme, done in zip(SCHEMES, pool.map(job, SCHEMES)):
                agree(done, 6, f"{scheme} beside other jobs in the same range of ports")
    yield "jobs beside each other", two_jobs


def size_of_address(ranks: int) -> float:
    """Bytes that a rank registers: what `lazy` sends, less the frame's and the message's own."""
    done = mpiexec("-n", str(ranks), "--launcher", "fork", "-host", f"a:{ranks // 2},b:{ranks // 2}", str(BUILD / "all"), report=True)
    return done.report["exchange"]["bytes"] / ranks - 6


def bytes_moved() -> Cases:
    """N³ for `original`, N² for `dr`."""
    def laws() -> None:
        for scheme in ["original", "dr"]:
            ids: dict[int, float] = {}
            for ranks in [16, 32, 64, 128]:
                done = mpiexec("-n", str(ranks), "--launcher", "fork", "-host", f"a:{ranks // 2},b:{ranks // 2}", f"--startup={scheme}", str(BUILD / "all"), "0", "ring", report=True)
                check(done.code == 0, f"{scheme}, {ranks} ranks: {done.text[-500:]}")
                n, address, moved = ranks, size_of_address(ranks), done.report["exchange"]["bytes"]
                check(done.report["exchange"]["messages"] == 5 * n, f"{scheme}: {done.report['exchange']['messages']} messages for {n} ranks, not 5 each")
                # Up: an endpoint address and ids, the ids twice (to the agent, to mpiexec). Down: to the agent, to the rank.
                up = n * (address + 2 * IDS * (n - 1) + address)
                down = 2 * n * (n * (address + 8) + IDS * n * (n - 1)) if scheme == "original" else 2 * n * (n - 1) * (address + 5 + IDS)
                check(abs(moved / (up + down) - 1) < 0.05, f"{scheme}, {n} ranks: {moved} bytes, {up + down:.0f} expected")
                ids[n] = moved - up - 2 * n * n * (address + 8) if scheme == "original" else moved - up
            power = 3 if scheme == "original" else 2
            law = [ids[n] / n**power for n in ids if n >= 32]
            check(max(law) / min(law) < 1.05, f"{scheme}: bytes down over N^{power} are {law}")
            print(f"      {scheme}: bytes down / N^{power} = {', '.join(f'{x:.2f}' for x in law)}", flush=True)
    yield "laws of original and dr", laws


def messages() -> Cases:
    """In the default, what a rank says to its agent in MPI_Init doesn't depend on the number of ranks; nor do its lanes."""
    def constant() -> None:
        seen = set()
        for ranks in [16, 64, 256]:
            done = mpiexec("-n", str(ranks), str(BUILD / "all"), "0", "ring", report=True)
            check(done.code == 0, done.text[-500:])
            told = done.report["agent_messages"]
            seen |= {told["min"], told["max"]}
            check(done.report["connections"]["total"] == 0, "lazy opened lanes in MPI_Init")
        check(len(seen) == 1, f"messages with the agent per rank at 16, 64 and 256 ranks: {seen}")
        print(f"      {seen.pop()} messages between a rank and its agent in MPI_Init at 16, 64 and 256 ranks", flush=True)
    yield "constant", constant


def proportional_kib(pid: int) -> int:
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+)", text, re.M)
    return int(found.group(1)) if found else 0


def waiting_at(gate: pathlib.Path) -> int:
    """Processes that wait for a lock of the file."""
    inode = gate.stat().st_ino
    return sum("-> FLOCK" in line and f":{inode} " in line for line in pathlib.Path("/proc/locks").read_text().splitlines())


def launcher_kib(ranks: int) -> int:
    """Memory of mpiexec and its agent while so many ranks are between MPI_Init and MPI_Finalize."""
    mark = uuid.uuid4().hex
    gate = BUILD / f"gate-{mark}"
    try:
        with gate.open("w") as held:
            # Ranks that end when they may, not when a busy machine has been too slow to look at all of them.
            fcntl.flock(held, fcntl.LOCK_EX)
            process = subprocess.Popen([MPIEXEC, "-n", str(ranks), str(BUILD / "gate"), str(gate)], env={**os.environ, runner.MARKER: mark}, start_new_session=True)
            try:
                check(patience.until(lambda: waiting_at(gate) >= ranks or process.poll() is not None, pause_s=0.1), f"{waiting_at(gate)} ranks are there")
                check(process.poll() is None, f"exit code {process.returncode}")
                ours = [p for p in runner.marked_processes(mark) if killing.command_line(p)[:1] == [MPIEXEC]]
                kib = sum(proportional_kib(pid) for pid in ours)
                fcntl.flock(held, fcntl.LOCK_UN)
                check(process.wait(120) == 0, f"exit code {process.returncode}")
            finally:
                for pid in runner.marked_processes(mark):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()
    finally:
        gate.unlink()
    return kib


def sleepers() -> Cases:
    """1,024 ranks at a time."""
    ranks = 1024

    def memory() -> None:
        few, many = launcher_kib(ranks // 4), launcher_kib(ranks)
        more = (many - few) / (ranks - ranks // 4)
        print(f"      mpiexec and agent: {many / ranks:.1f} KiB per rank at {ranks} ranks, {more:.1f} KiB for each above {ranks // 4}", flush=True)
        check(many / ranks < 16, f"mpiexec and agent take {many / ranks:.1f} KiB per rank")
        check(more < 4, f"mpiexec and agent take {more:.1f} KiB for each further rank")
    yield "memory", memory

    def through_init() -> None:
        done = mpiexec("-n", str(ranks), str(ROOT / "build/startup/all"), "0", "ring", report=True, limit_s=120)
        check(done.code == 0 and done.report["initialized"] == ranks, f"exit code {done.code}: {done.text[-500:]}")
    yield "through MPI_Init", through_init

    def few_files() -> None:
        done = mpiexec("-n", "400", "sleep", "0", prefix=["sh", "-c", 'ulimit -n 256; exec "$0" "$@"'])
        check(done.code != 0 and "ulimit -n" in done.text, f"too few files: exit code {done.code}: {done.text[-300:]}")
    yield "too few files", few_files


SHELL = """case {host} in
silent) exec sleep 300;;
refuses) echo 'connection refused' >&2; exit 255;;
foreign) exec %s %s;;
dies) { %s --agent & p=$!; sleep 0.2; kill -9 $p; exit 1; } <&0;;
*) exec {command};;
esac""".replace("\n", " ")

FOREIGN = r"""
import socket, sys
# An agent of another version: it answers the parent's challenge with its own version.
line = sys.stdin.readline().split()[1]
raw = bytes.fromhex(line)
count = int.from_bytes(raw[4:8], "little")
at = 8
for _ in range(count):
    size = {4: 4, 6: 20}[raw[at]]
    body = raw[at + 1:at + 1 + size]
    port = int.from_bytes(raw[at + 1 + size:at + 3 + size], "little")
    at += 3 + size
    if size == 4:
        try:
            s = socket.create_connection((socket.inet_ntoa(body), port), 2)
            s.recv(24)
            s.sendall(b"FERRUL" + (999).to_bytes(2, "little") + bytes(36))
            s.recv(16)
        except OSError:
            pass
sys.exit(7)
"""


def bad() -> Cases:
    """Hosts that misbehave are named in time, and the rest is cleaned up; strangers are turned away."""
    script = BUILD / "foreign.py"
    shell = SHELL % (sys.executable, script, MPIEXEC)
    for host in ["silent", "refuses", "foreign", "dies"]:
        def one(host: str = host) -> None:
            for width in ["3", "1"]:
                done = mpiexec("--launcher", f"sh -c \"{shell}\"", "-host", f"good,{host},fine", "--tree-width", width, "-n", "3", "sleep", "100", limit_s=60,
                               FERRULE_CONNECT_TIMEOUT="2")
                check(done.code not in (0, 124) and host in done.text, f"{host}: exit code {done.code}: {done.text[-600:]}")
                check("lost" in done.text or "agent" in done.text, f"{host}: {done.text[-600:]}")
        yield host, one

    def half_a_message() -> None:
        """A relay that keeps the connection and holds back the rest of a message, in either direction."""
        relay = f"{sys.executable} {ROOT / 'tests/startup_relay.py'}"
        talk = [sys.executable, "-c", "import sys, time; print(('x' * 70 + chr(10)) * 3000, flush=True); time.sleep(60)"]
        for harm, after in [("stall", 600), ("stall-up", 30000)]:
            shell = f"case {{host}} in b) exec {relay} {harm} {after} {{command}};; *) exec {{command}};; esac"
            for width in ["3", "1"]:
                done = mpiexec("--launcher", f'sh -c "{shell}"', "-host", "a,b,c", "--tree-width", width, "-n", "3", *talk, FERRULE_MESSAGE_TIMEOUT="2")
                check(done.code == 1 and "FERRULE_MESSAGE_TIMEOUT" in done.text, f"{harm}: exit code {done.code}: {done.text[-600:]}")
                check("node agent on b" in done.text, f"{harm}: {done.text[-600:]}")
    yield "half a message", half_a_message

    def wrong_key() -> None:
        with tempfile.TemporaryDirectory() as folder:
            # The agents come when the stranger is gone.
            gone = pathlib.Path(folder) / "gone"
            launcher = f'sh -c "while [ ! -e {gone} ]; do sleep 0.05; done; exec {{command}}"'
            process = subprocess.Popen([MPIEXEC, "--launcher", launcher, "-host", "a,b", "-n", "2", str(BUILD / "all")],
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
            check(patience.until(lambda: listening(process.pid)), "mpiexec listens nowhere")
            ports = listening(process.pid)
            with socket.create_connection(("127.0.0.1", ports[0]), patience.WATCHDOG_S) as stranger:
                challenge = stranger.recv(24)
                check(challenge[:6] == b"FERRUL", f"{challenge!r}")
                stranger.sendall(challenge[:8] + struct.pack("<I", 0) + bytes(32))
                check(stranger.recv(16) == b"", "a stranger without the key was welcomed")
            gone.touch()
            text, _ = process.communicate(timeout=patience.WATCHDOG_S)
            check(process.returncode == 0 and "job key is wrong" in text and "all 2 agree" in text, text[-600:])
    yield "wrong key", wrong_key

    def words() -> None:
        for word, said in [("--startup=fast", "hypercube"), ("--connect=some", "demand"), ("--report-startup=/nonexistent/x", "/nonexistent/x")]:
            done = mpiexec("-n", "1", word, str(BUILD / "all"))
            check(said in done.text, f"{word}: {done.text}")
        done = mpiexec("-n", "1025", "--startup=original", "true")
        check(done.code == 2 and "1024" in done.text, done.text)
    yield "words", words


def listening(pid: int) -> list[int]:
    """TCP ports on which a process listens."""
    inodes = {os.readlink(f"/proc/{pid}/fd/{fd}")[8:-1] for fd in os.listdir(f"/proc/{pid}/fd") if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:")}
    found = []
    for table in ["tcp", "tcp6"]:
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            part = line.split()
            if part[3] == "0A" and part[9] in inodes:
                found.append(int(part[1].rsplit(":", 1)[1], 16))
    return found


def kills() -> Cases:
    """Any process of a job, at any phase of its start, under each scheme."""
    lib = runner.libraries()["ferrule"]
    seed = random.SystemRandom().randrange(1 << 32)

    def moments() -> None:
        broken = runner.compile_all({"init/victim"}, lib, 1)
        check(not broken, str(broken))
        rng = random.Random(seed)
        print(f"      seed {seed}", flush=True)
        for scheme in SCHEMES:
            for launch in [["--launcher", "fork", "-host", "a:2,b:2"], ["--connect=all"]]:
                for _ in range(2):
                    victim, complaint = killing.one_moment(lib, rng, 4, [f"--startup={scheme}", *launch], [])
                    check(not complaint, f"{scheme} {launch}, {victim}: {complaint}")
    yield "moments", moments

    def in_a_chain() -> None:
        """Agents on hosts of their own, each below the one before; files are sent before."""
        rng = random.Random(seed)
        before = private_directories()
        with hosts(3) as (prefix, names):
            launch = [*TEMPLATE, "-host", ",".join(names), "--tree-width", "1", "--map-by", "node"]
            for words in [["--startup=tree"], ["--startup=lazy", "--preload"], ["--startup=mpd-bc", "--connect=all", "--preload"]]:
                for _ in range(3):
                    victim, complaint = killing.one_moment(lib, rng, 4, [*words, *launch], prefix)
                    check(not complaint, f"{words}, {victim}: {complaint}")
        patience.until(lambda: not private_directories() - before, 30)
        left = private_directories() - before
        check(not left, f"left: {left}")
    yield "in a chain of hosts", in_a_chain


GROUPS = {
    "schemes": schemes, "hosts": over_hosts, "bytes": bytes_moved, "messages": messages, "sleepers": sleepers, "preload": startup_preload.preload, "bad": bad, "kills": kills,
}


def prepare() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    mpicc = str(ROOT / "dist/bin/mpicc")
    (BUILD / "foreign.py").write_text(FOREIGN)
    for name, text in [("all", PROGRAM), ("gate", GATE)]:
        (BUILD / f"{name}.c").write_text(text)
        subprocess.run([mpicc, "-o", str(BUILD / name), str(BUILD / f"{name}.c")], check=True)
    startup_preload.prepare()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    prepare()
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for group, cases in GROUPS.items():
        if options.k not in group:
            continue
        for name, case in cases():
            begin = time.monotonic()
            try:
                case()
                state, detail = "passed", ""
            except Skip as reason:
                state, detail = "skipped", f": {reason}"
            except (AssertionError, KeyError, OSError, subprocess.SubprocessError) as error:
                state, detail = "failed", f": {error}"
            count[state] += 1
            print(f"{state:8}{group}: {name} ({time.monotonic() - begin:.1f} s){detail}", flush=True)
    print(f"startup: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
