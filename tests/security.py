#!/usr/bin/env python3
"""What docs/user/security.md promises, tried by an attacker.

    tests/security.py [-k WORD]         runs the groups whose name has WORD in it: capture listen relay setuid payload writer settings fabric users

`capture` records what two hosts (network namespaces; root only, skipped otherwise) send each other: no secret of the job may be in it.
`listen` looks at which addresses the processes of a job listen (root only). `setuid` starts a set-user-id program with an environment that
names code (root only). `relay` stands between two agents and harms one message: the job ends, says why, and nothing of that message is done.
Groups about TCP between ranks (`payload`, `writer`, `settings`) are in `security_ranks.py`; `fabric`, about the interconnect manager, is in
`security_fabric.py`; `users`, about other users of the host, is in `security_users.py` (root only).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import patience
import security_fabric
import security_ranks
import security_users
from startup_job import ROOT, Cases, Done, Skip, check, hosts, mpiexec

RELAY = f"{sys.executable} {ROOT / 'tests/security_relay.py'}"

# A rank that reads the job's description itself, and says the key of the ranks.
RANK = r"""
import os, socket, sys
control = socket.socket(fileno=int(os.environ["FERRULE_CONTROL_FD"].split(":")[0]))
head = control.recv(4, socket.MSG_WAITALL)
body = control.recv(int.from_bytes(head, "little"), socket.MSG_WAITALL)
assert body[0] == 1, body[:40]
print("key", body[19:35].hex(), flush=True)
"""

RECORD = r"""
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
s.bind(("p0", 0))
print("ready", flush=True)
with open(sys.argv[1], "wb", buffering=0) as file:
    while True:
        file.write(s.recv(70000))
"""


@contextlib.contextmanager
def recorded(namespace: str, file: pathlib.Path) -> Iterator[None]:
    """Everything that the first host sends and gets goes into `file`; `namespace` has the other end of its cable."""
    words = ["ip", "netns", "exec", namespace, sys.executable, "-c", RECORD, str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as recorder:
        try:
            assert recorder.stdout
            if recorder.stdout.readline() != "ready\n":
                raise Skip("no packet sockets here")
            yield
        finally:
            recorder.kill()


def capture() -> Cases:
    """A listener on the network."""
    def nothing_secret() -> None:
        secret, argument = uuid.uuid4().hex, f"--password={uuid.uuid4().hex}"
        with tempfile.TemporaryDirectory() as directory, hosts(2) as (prefix, names):
            here = pathlib.Path(directory)
            middle = names[0].rsplit("-", 1)[0] + "-m"
            launcher = ["--launcher", f"ip netns exec {{host}} {RELAY} none up 0 {here / 'invitation'} {{command}}"]
            with recorded(middle, here / "packets"):
                done = mpiexec(*launcher, "-host", ",".join(names), "-n", "2", "-l", sys.executable, "-c", RANK, argument,
                               prefix=prefix, SECRET_TOKEN=secret, FERRULE_LOCALITY="node")
                check(done.code == 0 and done.text.count("key ") == 2, done.text)
                patience.until(lambda: (here / "packets").stat().st_size > 2000, 30)
            packets = (here / "packets").read_bytes()
            rank_key = bytes.fromhex(done.text.split("key ")[1][:32])
            raw = bytes.fromhex((here / "invitation").read_text().split()[1])
            job_key = raw[-36:-20]  # The invitation ends with key, nonce and a time.
        check(b"FERRUL" in packets, "the capture doesn't show the handshake: it is of something else")
        hidden = {"the job key": job_key, "the ranks' key": rank_key, "an argument": argument.encode(), "the program": RANK.encode()[:60],
                  "the program's name": sys.executable.encode(), "a variable": secret.encode(), "a variable's name": b"SECRET_TOKEN"}
        hidden |= {f"the variable {name}": value.encode() for name, value in os.environ.items() if len(value) >= 8}
        for what, text in hidden.items():
            for form in (text, text.hex().encode()):
                check(form not in packets, f"{what} went over the network in clear")
    yield "two hosts", nothing_secret


# Ranks that stay for a moment with their sockets open, and say which TCP sockets listen in their network namespace.
LISTENERS = r"""
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    int rank, size;
    char line[512], local[64];
    unsigned state;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &state, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int six = 0; six < 2; six++) {
        FILE *table = fopen(six ? "/proc/net/tcp6" : "/proc/net/tcp", "r");
        while (table && fgets(line, sizeof line, table))
            if (sscanf(line, " %*d: %63s %*s %X", local, &state) == 2 && state == 0x0A)
                printf("listens %s\n", strtok(local, ":"));
        if (table) fclose(table);
    }
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


def listen() -> Cases:
    """Who looks for open ports."""
    def compiled(here: pathlib.Path) -> str:
        (here / "listeners.c").write_text(LISTENERS)
        subprocess.run([str(ROOT / "dist/bin/mpicc"), str(here / "listeners.c"), "-o", str(here / "listeners")], check=True)
        return str(here / "listeners")

    def one_network() -> None:
        with tempfile.TemporaryDirectory() as directory, hosts(2) as (prefix, names):
            addresses = [subprocess.run(["ip", "-n", name, "-4", "-o", "addr", "show", "scope", "global"], check=True, capture_output=True, text=True).stdout.split()[3]
                         for name in names]
            for at, name in enumerate(names):  # a second network, on which nobody listens
                subprocess.run(["ip", "-n", name, "addr", "add", f"192.0.2.{at + 1}/24", "dev", "lo"], check=True)
            network = addresses[0]
            wanted = {bytes(int(part) for part in address.split("/")[0].split("."))[::-1].hex().upper() for address in addresses}
            program = compiled(pathlib.Path(directory))
            common = ["--launcher", "ip netns exec {host} {command}", "-host", ",".join(f"{name}:2" for name in names), "-n", "4"]
            for option, setting in [(["-iface", network], ""), ([], network)]:
                done = mpiexec(*common, *option, program, prefix=prefix, FERRULE_LOCALITY="node", FERRULE_LISTEN=setting)
                found = {line.split()[1] for line in done.text.splitlines() if line.startswith("listens")}
                check(done.code == 0 and found == wanted, f"{option} {setting}: exit code {done.code}, listening at {found}, not {wanted}: {done.text[-600:]}")
            done = mpiexec(*common, program, prefix=prefix, FERRULE_LOCALITY="node")
            check(done.code == 0 and "listens 00000000" in done.text, f"the test sees no listener at every address: {done.text[-600:]}")
            done = mpiexec(*common, "-iface", "no-such0", program, prefix=prefix, FERRULE_LOCALITY="node")
            check(done.code != 0 and "FERRULE_LISTEN=no-such0 is no address, network or interface of this host" in done.text, done.text[-600:])
    yield "one network of several", one_network


def relay() -> Cases:
    """A writer on the network. Rank 1 is behind the relay."""
    def run(harm: str, way: str, number: int, program: str) -> tuple[Done, str]:
        with tempfile.TemporaryDirectory() as directory:
            here = pathlib.Path(directory)
            shell = f"case {{host}} in b) exec {RELAY} {harm} {way} {number} {here / 'invitation'} {{command}};; *) exec {{command}};; esac"
            done = mpiexec("--launcher", f'sh -c "{shell}"', "-host", "a,b", "-n", "2", "sh", "-c", program.replace("MARKS", f"{here}/marks"),
                           FERRULE_MESSAGE_TIMEOUT="2")
            marks = here / "marks-1"
            return done, marks.read_text() if marks.exists() else ""

    def named(done: Done, what: str) -> None:
        check(done.code == 1 and "node agent on b" in done.text, f"exit code {done.code}: {done.text[-600:]}")
        check(what in done.text, f"not said: {what}: {done.text[-600:]}")

    genuine = "a message was changed, left out or repeated on its way"
    start = "echo started >> MARKS-$FERRULE_RANK; exec sleep 60"
    talk = "echo started >> MARKS-$FERRULE_RANK; for i in 1 2 3 4 5 6 7 8 9; do echo line $FERRULE_RANK.$i; sleep 0.1; done; exec sleep 60"

    def job_changed() -> None:
        done, marks = run("flip", "down", 0, start)
        named(done, genuine)
        check(marks == "", "a changed description of the job has been obeyed")
    yield "the job's description changed", job_changed

    def job_dropped() -> None:
        done, marks = run("drop", "down", 0, start)
        named(done, "no message came after the handshake (FERRULE_MESSAGE_TIMEOUT)")
        check(marks == "", "a job without a description has started")
    yield "the job's description left out", job_dropped

    def job_repeated() -> None:
        done, marks = run("repeat", "down", 0, start)
        named(done, genuine)
        check(marks in ("", "started\n"), f"started again: {marks}")
    yield "the job's description repeated", job_repeated

    for harm in ["flip", "drop", "repeat", "swap"]:
        def upward(harm: str = harm) -> None:
            done, _ = run(harm, "up", 5, talk)
            named(done, genuine)
            lines = [int(line.split(".")[1]) for line in done.text.splitlines() if line.startswith("line 1.")]
            check(lines == list(range(1, len(lines) + 1)), f"output out of order or doubled: {lines}")
        yield f"a message of the agent: {harm}", upward

    def truncated() -> None:
        done, _ = run("cut", "up", 5, talk)
        named(done, "broke: the agent or its host is gone")
    yield "the connection ends in a message", truncated


PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
int main(void) { MPI_Init(NULL, NULL); puts("initialized"); MPI_Finalize(); return 0; }
"""

HOSTILE = r"""
#include <fcntl.h>
__attribute__((constructor)) static void run(void) { open("MARK", O_CREAT | O_WRONLY, 0600); }
"""


def set_user_id() -> Cases:
    """Another user of the host, who starts a set-user-id program."""
    def nobody(directory: pathlib.Path, program: str, **env: str) -> tuple[str, bool]:
        """What the program says, and whether the hostile library has run."""
        done = subprocess.run([str(directory / program)], env={"PATH": os.environ["PATH"], **env}, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, user=65534, group=65534, extra_groups=[], cwd="/", timeout=patience.WATCHDOG_S, check=False)
        mark = directory / "open" / "mark"
        ran = mark.exists()
        mark.unlink(missing_ok=True)
        return done.stdout, ran

    def ignores_variables() -> None:
        if os.geteuid() != 0:
            raise Skip("making set-user-id programs of another user needs root")
        with tempfile.TemporaryDirectory() as name:
            here = pathlib.Path(name)
            here.chmod(0o755)
            (here / "open").mkdir()
            (here / "open").chmod(0o777)
            shutil.copytree(ROOT / "dist", here / "dist", symlinks=True)
            (here / "hostile.c").write_text(HOSTILE.replace("MARK", str(here / "open" / "mark")))
            subprocess.run(["cc", "-shared", "-fPIC", "-o", str(here / "hostile.so"), str(here / "hostile.c")], check=True)
            (here / "program.c").write_text(PROGRAM)
            link = ["-L", str(here / "dist/lib"), f"-Wl,-rpath,{here / 'dist/lib'}"]
            subprocess.run([str(here / "dist/bin/mpicc"), "-o", str(here / "plain"), str(here / "program.c"), *link], check=True)
            shutil.copy(here / "plain", here / "raised")
            (here / "raised").chmod(0o4755)
            if os.statvfs(here).f_flag & os.ST_NOSUID:
                raise Skip("the temporary directory is mounted nosuid")
            pmix = {"PMIX_NAMESPACE": "x", "PMIX_RANK": "0", "FERRULE_PMIX_LIBRARY": str(here / "hostile.so")}
            said, ran = nobody(here, "plain", **pmix)
            check(ran, f"the library wasn't loaded by an ordinary program, so this tests nothing: {said}")
            said, ran = nobody(here, "raised", **pmix)
            check(not ran and "set-user-id" in said and "initialized" not in said, said)
            said, ran = nobody(here, "raised", PMI_PORT="127.0.0.1:1", PMI_ID="0", FERRULE_AGENT_PATH=str(here / "hostile.so"))
            check(not ran and "set-user-id" in said and "initialized" not in said, said)
            said, _ = nobody(here, "plain", FERRULE_LOG="nonsense")
            check("nonsense" in said, f"an ordinary program doesn't read its settings, so this tests nothing: {said}")
            said, _ = nobody(here, "raised", FERRULE_LOG="nonsense")
            check(said == "initialized\n", said)
    yield "variables that name code and files", ignores_variables


GROUPS: dict[str, Callable[[], Cases]] = {"capture": capture, "listen": listen, "relay": relay, "setuid": set_user_id, "payload": functools.partial(security_ranks.payload, recorded),
          "writer": security_ranks.writer, "settings": security_ranks.settings, "fabric": security_fabric.fabric,
          "users": security_users.users}


def main() -> int:
    """Runs all; fails if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="WORD")
    wanted = parser.parse_args().k
    passed = failed = skipped = 0
    for name, cases in ((n, c) for n, c in GROUPS.items() if wanted in n):
        for what, case in cases():
            try:
                case()
            except Skip as why:
                skipped += 1
                print(f"SKIP {name}: {what}: {why}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"FAIL {name}: {what}: {error}", flush=True)
            else:
                passed += 1
                print(f"ok   {name}: {what}", flush=True)
    print(f"security: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
