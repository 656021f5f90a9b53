#!/usr/bin/env python3
"""Runs a few process tests in hostile surroundings: /dev/shm of 64 MB or none, 1024 files, a read-only TMPDIR, seccomp without single copy,
rubbish on the TCP ports of a running job, a library under a launcher that it doesn't know, variables of a foreign launcher.

Each surrounding is made for the job alone (private mount namespace, limits of the child). What this machine doesn't allow is skipped by name.
"""

from __future__ import annotations

import collections.abc
import functools
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run as runner

ROOT = runner.ROOT
LIB = runner.libraries()["ferrule"]
PROGRAMS = [("pt2pt/modes", 2), ("pt2pt/large", 2), ("coll/many", 4), ("types/big_noncontig", 2)]


def base_env() -> dict[str, str]:
    return dict(os.environ, LD_LIBRARY_PATH=str(LIB.lib))


def job(program: str, ranks: int, before: list[str], env: dict[str, str], timeout_s: float = 120, args: list[str] | None = None) -> tuple[int, str]:
    """Exit code and output of one job started behind `before`."""
    command = [*before, *LIB.launch, "-n", str(ranks), str(ROOT / "build/tests" / program), *(args or [])]
    try:
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, errors="replace")
    except subprocess.TimeoutExpired as late:
        return -1, f"no end after {timeout_s} s: {(late.stdout or b'')[-800:]!r}"
    return done.returncode, done.stdout


def surroundings(tmp: pathlib.Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Name → (command in front, extra environment)."""
    readonly = tmp / "readonly"
    readonly.mkdir()
    mount = ["unshare", "-m", "sh", "-c"]
    deny = str(ROOT / "build/tests/init/deny")
    return {
        "/dev/shm of 64 MB": ([*mount, 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"', "sh"], {}),
        "/dev/shm of 64 MB, full": ([*mount, 'mount -t tmpfs -o size=64m none /dev/shm && dd if=/dev/zero of=/dev/shm/full bs=1M 2>/dev/null; exec "$@"', "sh"], {}),
        "no /dev/shm": ([*mount, 'umount -l /dev/shm 2>/dev/null; mount -t tmpfs -o size=0,nr_inodes=1,mode=0 none /dev/shm; exec "$@"', "sh"], {}),
        "1024 open files": (["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"], {}),
        "read-only TMPDIR": ([*mount, f'mount -t tmpfs none {readonly} && mount -o remount,ro {readonly} && exec "$@"', "sh"], {"TMPDIR": str(readonly)}),
        "TMPDIR that doesn't exist": ([], {"TMPDIR": str(tmp / "nowhere")}),
        "seccomp without process_vm_readv": ([deny, "process_vm"], {}),
        "seccomp without process_vm_readv and pidfd": ([deny, "process_vm,pidfd"], {}),
        "single copy through /proc/self/mem": ([deny, "process_vm"], {"FERRULE_SINGLE_COPY": "mem"}),
        "no single copy by setting": ([], {"FERRULE_SINGLE_COPY": "off"}),
        "TCP only": ([], {"FERRULE_CHANNELS": "tcp"}),
    }


def works(name: str, before: list[str], extra: dict[str, str]) -> tuple[str, str]:
    """Runs the programs in one surrounding."""
    env = {**base_env(), **extra}
    if before:
        probe = subprocess.run([*before, "true"], capture_output=True, text=True, env=env)
        if probe.returncode:
            return "skip", f"can't be made here: {probe.stderr.strip()[:200]}"
    for program, ranks in PROGRAMS:
        code, text = job(program, ranks, before, env)
        if code:
            return "FAIL", f"{program} n={ranks}: exit code {code}\n{text[-1500:]}"
    return "pass", ""


def listeners(mark: str) -> list[int]:
    """TCP ports on which the processes of a job listen."""
    inodes = set()
    for pid in runner.marked_processes(mark):
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
        except OSError:
            continue
    ports = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.append(int(fields[1].rsplit(":", 1)[1], 16))
    return sorted(set(ports))


def rubbish() -> tuple[str, str]:
    """Throws random bytes, half headers and silence at every port of a running job, which must end well all the same."""
    rng, mark = random.Random(5), uuid.uuid4().hex
    env = {**base_env(), "FERRULE_CHANNELS": "tcp", runner.MARKER: mark}
    command = [*LIB.launch, "-n", "3", str(ROOT / "build/tests/init/victim"), "4"]
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    until, thrown = time.monotonic() + 3, 0
    seen: set[int] = set()
    silent: list[socket.socket] = []
    # At least as long as it takes until the job listens.
    while process.poll() is None and (time.monotonic() < until or not seen):
        for port in listeners(mark):
            seen.add(port)
            try:
                sock = socket.create_connection(("127.0.0.1", port), 0.2)
            except OSError:
                continue
            thrown += 1
            try:
                kind = rng.randrange(5)
                if kind < 3:
                    sock.sendall(rng.randbytes(rng.choice([1, 7, 24, 64, 300, 70000])))
                elif kind == 3:
                    sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                if kind == 4 and len(silent) < 50:
                    silent.append(sock)
                else:
                    sock.close()
            except OSError:
                continue
    try:
        text, _ = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        return "FAIL", "the job doesn't end"
    finally:
        for sock in silent:
            sock.close()
    if not seen:
        return "FAIL", "the job listened nowhere"
    if process.returncode:
        return "FAIL", f"exit code {process.returncode} after {thrown} connections\n{text[-1500:]}"
    if len(text.splitlines()) > 60:
        return "FAIL", f"{len(text.splitlines())} lines were logged\n{text[-800:]}"
    return "pass", f"{thrown} connections to {len(seen)} ports"


def foreign_launcher() -> tuple[str, str]:
    """Under a launcher that it can't talk to, the library must not pretend to be rank 0 of 1."""
    for name, extra in (("Slurm", {"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}),
                        ("PMIx", {"PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-x@1", "PMIX_SERVER_URI41": "x"}),
                        ("PMI", {"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_FD": "99"})):
        done = subprocess.run([str(ROOT / "build/tests/env/inquiry")], env={**base_env(), **extra}, capture_output=True, text=True, timeout=120)
        if done.returncode == 0:
            return "FAIL", f"{name}: it ran as a job of one rank"
        if not (done.stdout + done.stderr).strip():
            return "FAIL", f"{name}: it died without a word (exit code {done.returncode})"
    done = subprocess.run([str(ROOT / "build/tests/env/inquiry")], env=base_env(), capture_output=True, text=True, timeout=120)
    return ("pass", "") if done.returncode == 0 else ("FAIL", f"a plain start failed: {done.stderr[-400:]}")


def many_ranks() -> tuple[str, str]:
    """64 ranks with 1024 files each, on whatever cores there are."""
    code, text = job("topo/graph", 64, ["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"], base_env(), 240)
    return ("pass", "") if code == 0 else ("FAIL", f"exit code {code}\n{text[-1500:]}")


def nobody_reachable() -> tuple[str, str]:
    """No channel leads to any peer: the job ends with an error, none waits for messages that can't come."""
    for ranks in (2, 3, 4, 7):
        code, text = job("env/inquiry", ranks, [], {**base_env(), "FERRULE_LOCALITY": "off", "FERRULE_CHANNELS": "shm"}, 60)
        if code in (0, -1, 124) or "there is no channel to rank" not in text:
            return "FAIL", f"{ranks} ranks: exit code {code}\n{text[-1000:]}"
    return "pass", ""


def main() -> int:
    needed = {program for program, _ in PROGRAMS} | {"init/victim", "init/deny", "env/inquiry", "topo/graph"}
    broken = runner.compile_all(needed, LIB, os.cpu_count() or 1)
    for program, error in broken.items():
        print(f"FAIL  compile {program}\n{error}")
    if broken:
        return 1
    count = {"pass": 0, "FAIL": 0, "skip": 0}
    with tempfile.TemporaryDirectory(prefix="fe-") as tmp:
        cases: list[tuple[str, collections.abc.Callable[[], tuple[str, str]]]]
        cases = [(name, functools.partial(works, name, before, extra)) for name, (before, extra) in surroundings(pathlib.Path(tmp)).items()]
        cases += [("rubbish on TCP ports", rubbish), ("a launcher that it doesn't know", foreign_launcher), ("64 ranks, 1024 files each", many_ranks),
                  ("no channel to anybody", nobody_reachable)]
        for name, run in cases:
            start = time.monotonic()
            state, detail = run()
            count[state] += 1
            print(f"{state:4}  {time.monotonic() - start:6.1f} s  {name}{': ' + detail if detail else ''}", flush=True)
    print(f"environment: {count['pass']} passed, {count['FAIL']} failed, {count['skip']} skipped")
    return 1 if count["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
