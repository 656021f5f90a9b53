"""Another user of the host, beside a running job: group `users` of security.py (root only, since the job and the attacker are users of their own)."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator

import patience
from startup_job import ROOT, Cases, Skip, check

import run as runner

#: Whose job it is, and who attacks it; neither needs to be in the password file.
OWNER, STRANGER = 64001, 64002

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* Sends to its neighbor until the file STOP is there. Says where its secret lies. */
int main(int argc, char **argv)
{
    int rank, size, over = 0, got;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *secret = getenv("SECRET_TOKEN");
    printf("{\"pid\": %d, \"address\": %lu}\n", (int)getpid(), (unsigned long)secret);
    fflush(stdout);
    for (int i = 0; !over; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (got != i)
            MPI_Abort(MPI_COMM_WORLD, 3);
        usleep(1000);
        over = access(argv[1], F_OK) == 0;
        MPI_Allreduce(MPI_IN_PLACE, &over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"""

# What the attacker tries; says as JSON what it got. Arguments: who it is, pids (with commas), pid and address of a secret, its length, the owner's uid.
# It becomes that user by itself: the interpreter may lie where others can't read.
ATTACK = r"""
import ctypes, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
"".encode("latin-1")
me, pids, (pid, address, length), owner = int(sys.argv[1]), [int(p) for p in sys.argv[2].split(",")], map(int, sys.argv[3:6]), sys.argv[6]
os.setgroups([])
os.setresgid(me, me, me)
os.setresuid(me, me, me)
got = {}
def tries(what, action):
    try:
        got[what] = action()
    except OSError as error:
        got[what] = f"refused: {error.strerror or error}"
def read(path, at=0, most=1 << 20):
    with open(path, "rb", buffering=0) as file:
        file.seek(at)
        return file.read(most).decode("latin-1")
for p in pids:
    tries(f"environ {p}", lambda: read(f"/proc/{p}/environ"))
    tries(f"maps {p}", lambda: read(f"/proc/{p}/maps"))
    tries(f"descriptors {p}", lambda: " ".join(os.listdir(f"/proc/{p}/fd")))
    for fd in range(64):
        if os.path.exists(f"/proc/{p}"):
            tries(f"descriptor {fd} of {p}", lambda: str(os.open(f"/proc/{p}/fd/{fd}", os.O_RDWR | os.O_NONBLOCK)))
tries("memory", lambda: read(f"/proc/{pid}/mem", address, length))
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
def vm_read():
    into = ctypes.create_string_buffer(length)
    ours, theirs = Piece(ctypes.cast(into, ctypes.c_void_p), length), Piece(address, length)
    if libc.process_vm_readv(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return into.raw.decode("latin-1")
tries("process_vm_readv", vm_read)
def talk(name, words):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        s.connect("\0" + name)
        heard = b""
        try:
            s.sendall(words)
            s.shutdown(socket.SHUT_WR)
            while more := s.recv(65536):
                heard += more
        except TimeoutError:
            raise OSError(0, "silence")
        if not heard:
            raise OSError(0, "closed")
        return heard.decode("latin-1")
names = sorted({line.split()[-1][1:] for line in open("/proc/net/unix") if f" @ferrule/{owner}/" in line})
for name in names:
    for words in (b"", b"\0" * 64, b"\xff" * 100000, b"\4\0\0\0\1\0\0\0"):
        tries(f"socket {name[:20]} {words[:4].hex()}", lambda: talk(name, words))
got["sockets"] = str(len(names))
print(json.dumps(got))
"""

CONTAINER = ["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--ipc", "--uts"]


@contextlib.contextmanager
def job() -> Iterator[tuple[pathlib.Path, subprocess.Popen[str], str]]:
    """Two ranks of `OWNER` that run until `stop` is in the directory, which is given with mpiexec and the secret of their environment."""
    if os.geteuid() != 0:
        raise Skip("two users need root")
    secret = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as name:
        here = pathlib.Path(name)
        here.chmod(0o755)
        shutil.copytree(ROOT / "dist", here / "dist", symlinks=True)
        (here / "program.c").write_text(PROGRAM)
        link = ["-L", str(here / "dist/lib"), f"-Wl,-rpath,{here / 'dist/lib'}"]
        subprocess.run([str(here / "dist/bin/mpicc"), "-o", str(here / "program"), str(here / "program.c"), *link], check=True)
        env = {"PATH": os.environ["PATH"], "SECRET_TOKEN": secret, runner.MARKER: secret}
        words = [str(here / "dist/bin/mpiexec"), "-n", "2", str(here / "program"), str(here / "stop")]
        with subprocess.Popen(words, env=env, user=OWNER, group=OWNER, extra_groups=[], cwd="/", text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as process:
            try:
                yield here, process, secret
            finally:
                process.kill()


def attack(uid: int, pids: list[int], rank: dict, length: int, container: bool = False) -> dict[str, str]:
    """What a user gets of a job."""
    words = [sys.executable, "-c", ATTACK, str(uid), ",".join(map(str, pids)), str(rank["pid"]), str(rank["address"]), str(length), str(OWNER)]
    done = subprocess.run([*(CONTAINER if container else []), *words], capture_output=True, text=True, cwd="/", timeout=patience.WATCHDOG_S, check=False)
    check(done.returncode == 0, done.stderr[-800:])
    got: dict[str, str] = json.loads(done.stdout)
    return got


def users() -> Cases:
    """Another user, in the same container and in another one."""
    def gets_nothing(container: bool) -> None:
        with job() as (here, process, secret):
            assert process.stdout
            ranks = [json.loads(process.stdout.readline()) for _ in range(2)]
            pids = runner.marked_processes(secret)
            check(len(pids) >= 3, f"mpiexec and two ranks are {pids}")
            own = attack(OWNER, pids, ranks[0], len(secret))
            check(any(secret in own[f"environ {pid}"] for pid in pids) and own["memory"] == secret and int(own["sockets"]) > 0
                  and any(not said.startswith("refused") for what, said in own.items() if what.startswith("socket ")),
                  f"the owner gets nothing either, so this tests nothing: { {what: said[:80] for what, said in own.items()} }")
            got = attack(STRANGER, pids, ranks[0], len(secret), container)
            check(int(got.pop("sockets")) > 0, "the attacker doesn't see the job's socket")
            leaked = {what: said[:80] for what, said in got.items() if not said.startswith("refused")}
            check(not leaked, f"the attacker got {leaked}")
            check(process.poll() is None, "the job is over")
            (here / "stop").touch()
            rest, begin = process.communicate(timeout=patience.WATCHDOG_S)[0], time.monotonic()
            check(process.returncode == 0, f"after {time.monotonic() - begin:.0f} s: {rest[-600:]}")
    yield "another user of the host", lambda: gets_nothing(False)
    yield "another user in a container with the host's network", lambda: gets_nothing(True)
