#!/usr/bin/env python3
"""`ferrule doctor` on this machine, and with things taken away: a small /dev/shm, single copy, open files, ssh, a program of another library.

What this machine doesn't allow is skipped by name.

Usage: tests/doctor.py
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
FERRULE = ROOT / "dist/bin/ferrule"
#: Installs a seccomp filter without process_vm_readv, then becomes the command behind it.
DENY = ROOT / "build/tests/init/deny"


def doctor(*words: str, before: tuple[str, ...] = (), env: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Exit code, and findings by name."""
    done = subprocess.run([*before, str(FERRULE), "doctor", "--json", *words], capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})})
    assert done.returncode in (0, 1), f"exit code {done.returncode}: {done.stderr}"
    report = json.loads(done.stdout)
    assert report["runs"] == (done.returncode == 0), done.stdout
    return done.returncode, {finding["name"]: finding for finding in report["findings"]}


def left() -> set[str]:
    """Directories that a doctor would leave behind."""
    return {entry.name for entry in pathlib.Path("/tmp").iterdir() if entry.name.startswith("ferrule-")}


def expect(finding: dict[str, Any], state: str, word: str = "") -> None:
    assert finding["state"] == state and word in finding["found"], f"expected {state} with '{word}', found {finding}"
    assert state in ("ok", "missing") or finding["mend"], f"nothing mends {finding}"


def here(place: pathlib.Path) -> None:
    code, found = doctor(env={"PATH": f"{FERRULE.parent}:{os.environ['PATH']}", "TMPDIR": str(place)})
    assert code == 0, found
    expect(found["two ranks"], "ok", "rank 1 has got the message")
    expect(found["mpiexec"], "ok", str(FERRULE.parent))
    expect(found["shared memory"], "ok")
    assert not list(place.iterdir()), f"left behind: {list(place.iterdir())}"


def without_ssh_and_compiler(place: pathlib.Path) -> None:
    for tool in ("sh", "readlink", "sed", "true", "env"):
        (place / tool).symlink_to(pathlib.Path("/usr/bin") / tool)
    code, found = doctor(env={"PATH": str(place)})
    assert code == 0, found
    expect(found["ssh"], "missing", "not in PATH")
    expect(found["mpicc"], "missing", "not in PATH")
    expect(found["two processes"], "ok")
    expect(found["mpiexec"], "missing", "not in PATH")


def foreign_mpiexec(place: pathlib.Path) -> None:
    other = place / "mpiexec"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    _, found = doctor(env={"PATH": f"{place}:{os.environ['PATH']}"})
    expect(found["mpiexec"], "missing", "not this Ferrule's")


def few_files(_: pathlib.Path) -> None:
    code, found = doctor(before=("prlimit", "--nofile=512:512"))
    assert code == 0, found
    expect(found["open files"], "slower", "512")


def small_shm(_: pathlib.Path) -> None:
    mount = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=1m none /dev/shm && exec "$@"', "sh")
    code, found = doctor(before=mount)
    assert code == 0, found
    expect(found["memory for it"], "ok", "/dev/shm has 1 MiB")


def no_single_copy(_: pathlib.Path) -> None:
    found = doctor(before=(str(DENY), "process_vm"))[1]
    single = found["single copy (CMA)"]
    assert "process_vm_readv: " in single["found"] and "filter is on" in single["found"], single


def readonly_tmpdir(place: pathlib.Path) -> None:
    mount = ("unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o ro none {place} && exec "$@"', "sh")
    code, found = doctor(before=mount, env={"TMPDIR": str(place)})
    assert code == 0, found
    expect(found["temporary files"], "slower", "Read-only")
    expect(found["two processes"], "ok")


def programs(place: pathlib.Path) -> None:
    source = place / "empty.c"
    source.write_text("int MPI_Init(int *c, char ***v) { (void)c; (void)v; return 0; }\n")
    library = place / "libmpi.so.40"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.40", "-o", library, source], check=True)
    main = place / "main.c"
    main.write_text("int MPI_Init(int *, char ***);\nint main(void) { return MPI_Init(0, 0); }\n")
    program = place / "a.out"
    subprocess.run(["cc", "-o", program, main, library], check=True)
    code, found = doctor(str(program), "/bin/true", "/nonexistent", env={"LD_LIBRARY_PATH": str(place)})
    assert code == 1, found
    expect(found[str(program)], "error", "Open MPI")
    expect(found["/bin/true"], "ok", "needs no MPI library")
    expect(found["/nonexistent"], "error")


def main() -> int:
    all_cases: list[cases.Case] = [
        ("a job of two ranks runs, nothing is left", here),
        ("PATH without ssh and compilers", without_ssh_and_compiler),
        ("another library's mpiexec first in PATH", foreign_mpiexec),
        ("512 open files", few_files),
        ("programs of another library, of none, and none at all", programs),
    ]
    may_mount = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/dev/shm"], capture_output=True).returncode == 0
    for allowed, name, case in [(may_mount, "/dev/shm of 1 MiB", small_shm), (may_mount, "a read-only TMPDIR", readonly_tmpdir), (DENY.is_file(), "seccomp without process_vm_readv", no_single_copy)]:
        if allowed:
            all_cases.append((name, case))
        else:
            print(f"skip {name}: {f'{DENY} is not built (tests/run.py builds it)' if case is no_single_copy else 'no mount namespace here'}")
    before = left()
    code = cases.run("doctor", all_cases)
    if more := left() - before:
        print(f"note: new in /tmp: {sorted(more)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
