#!/usr/bin/env python3
"""Jobs on machines that only hwloc files describe (FERRULE_TOPOLOGY): where ranks are bound, how MPI_Comm_split_type divides them, errors.

    tests/topology.py [-k WORD]        runs the cases whose name has WORD in it
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
MPIEXEC = str(ROOT / "dist/bin/mpiexec")
BUILD = ROOT / "build/topology"
DATA = ROOT / "crates/sys/src/topology/testdata"
TWO_SOCKETS, LAPTOP = DATA / "two-sockets.xml", DATA / "laptop.xml"
WATCHDOG_S = 120

#: For each resource type: which ranks are in this rank's part, or - if it isn't restricted to an instance.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <string.h>
static void part(const char *type, int kind, char *text) {
  MPI_Info info;
  MPI_Comm comm;
  int rank, size, members[64];
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_hw_resource_type", type);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split_type(MPI_COMM_WORLD, kind, rank, info, &comm);
  MPI_Info_free(&info);
  if (comm == MPI_COMM_NULL) { strcat(text, " -"); return; }
  MPI_Comm_size(comm, &size);
  MPI_Allgather(&rank, 1, MPI_INT, members, 1, MPI_INT, comm);
  strcat(text, " ");
  for (int i = 0; i < size; i++) sprintf(text + strlen(text), "%d", members[i]);
  MPI_Comm_free(&comm);
}
int main(int argc, char **argv) {
  char text[256] = "";
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  part("hwloc://Package", MPI_COMM_TYPE_HW_GUIDED, text);
  part("hwloc://NUMANode", MPI_COMM_TYPE_RESOURCE_GUIDED, text);
  part("hwloc://Core", MPI_COMM_TYPE_HW_GUIDED, text);
  part("hwloc://PU", MPI_COMM_TYPE_HW_GUIDED, text);
  printf("%d:%s\n", rank, text);
  MPI_Finalize();
  return 0;
}
"""


@dataclasses.dataclass
class Case:
    """Four ranks; `cpus` are those that each is reported to be bound to, `parts` what each prints."""

    name: str
    file: pathlib.Path
    options: str
    cpus: list[str]
    parts: list[str]


CASES = [
    Case("two sockets, by NUMA node", TWO_SOCKETS, "--bind-to numa", ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"],
         ["01 0 - -", "01 1 - -", "23 2 - -", "23 3 - -"]),
    Case("two sockets, NUMA nodes in turn", TWO_SOCKETS, "--bind-to numa --map-by socket", ["0-3,16-19", "8-11,24-27", "4-7,20-23", "12-15,28-31"],
         ["02 0 - -", "13 1 - -", "02 2 - -", "13 3 - -"]),
    Case("two sockets, by socket", TWO_SOCKETS, "--bind-to socket", ["0-7,16-23", "8-15,24-31", "0-7,16-23", "8-15,24-31"],
         ["02 - - -", "13 - - -", "02 - - -", "13 - - -"]),
    Case("two sockets, by core", TWO_SOCKETS, "--bind-to core", ["0,16", "1,17", "2,18", "3,19"],
         ["0123 0123 0 -", "0123 0123 1 -", "0123 0123 2 -", "0123 0123 3 -"]),
    Case("two sockets, threads", TWO_SOCKETS, "--bind-to hwthread", ["0", "16", "1", "17"],
         ["0123 0123 01 0", "0123 0123 01 1", "0123 0123 23 2", "0123 0123 23 3"]),
    Case("two sockets, two cores each", TWO_SOCKETS, "--bind-to core:2", ["0-1,16-17", "2-3,18-19", "4-5,20-21", "6-7,22-23"],
         ["0123 01 - -", "0123 01 - -", "0123 23 - -", "0123 23 - -"]),
    Case("two sockets, four cores each by PE", TWO_SOCKETS, "--map-by slot:PE=4", ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"],
         ["01 0 - -", "01 1 - -", "23 2 - -", "23 3 - -"]),
    Case("two sockets, the user's lists", TWO_SOCKETS, "--bind-to user:0+16,1,2+3", ["0,16", "1", "2-3", "0,16"],
         ["0123 0123 03 -", "0123 0123 1 1", "0123 0123 - -", "0123 0123 03 -"]),
    Case("two sockets, three cores each of sockets in turn", TWO_SOCKETS, "--map-by socket:PE=3", ["0-2,16-18", "8-10,24-26", "3-5,19-21", "11-13,27-29"],
         ["02 0 - -", "13 1 - -", "02 - - -", "13 - - -"]),
    Case("two sockets, a rank file", TWO_SOCKETS, "--rankfile {ranks}", ["8-10,24-26", "3,5,19,21", "8-15,24-31", "0,8,16,24"],
         ["02 0 - -", "1 - - -", "02 - - -", "- - - -"]),
    Case("two sockets, a rank file of threads", TWO_SOCKETS, "--bind-to hwthread --rankfile {threads}", ["16", "1,17", "8", "0"],
         ["013 013 03 0", "013 013 1 -", "2 2 2 2", "013 013 03 3"]),
    Case("two sockets, a set of cpus", TWO_SOCKETS, "--cpu-set 2-3,9,18 --bind-to core", ["2,18", "3", "9", "2,18"],
         ["013 013 03 -", "013 013 1 1", "2 2 2 2", "013 013 03 -"]),
    Case("two sockets, not bound", TWO_SOCKETS, "", [], ["- - - -"] * 4),
    Case("laptop, by NUMA node", LAPTOP, "--bind-to numa", ["0-5"] * 4, ["0123 0123 - -"] * 4),
    Case("laptop, by core", LAPTOP, "--bind-to core", ["0-1", "2-3", "4", "5"],
         ["0123 0123 0 -", "0123 0123 1 -", "0123 0123 2 2", "0123 0123 3 3"]),
    Case("laptop, not bound", LAPTOP, "", [], ["0123 0123 - -"] * 4),
]


#: Files that options name.
FILES = {
    "ranks": "rank 0=localhost slot=1:0-2\nrank 1=localhost slot=3,5\nrank 2=localhost slot=s1\nrank 3=localhost slot=0:0;1:0\n",
    "threads": "rank 0=localhost slot=1\nrank 1=localhost slot=2-3\nrank 2=localhost slot=1:0\nrank 3=localhost slot=0\n",
}


def call(command: list[str], file: pathlib.Path) -> subprocess.CompletedProcess[str]:
    env = dict(os.environ, FERRULE_TOPOLOGY=str(file))
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=WATCHDOG_S, stdin=subprocess.DEVNULL)


def check(case: Case) -> str | None:
    """What is wrong, or nothing."""
    options = case.options.format(**{name: BUILD / name for name in FILES})
    done = call([MPIEXEC, "--report-bindings", *options.split(), "-n", "4", str(BUILD / "parts")], case.file)
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr[-400:]}"
    cpus = [found[1] for found in sorted(re.findall(r"rank (\d+) on \S+ bound to cpus (\S+)", done.stderr))]
    if cpus != case.cpus:
        return f"bound to {cpus}, expected {case.cpus}"
    parts = [line.split(": ", 1)[1] for line in sorted(done.stdout.splitlines())]
    return None if parts == case.parts else f"parts {parts}, expected {case.parts}"


def check_information() -> str | None:
    for file, words in ((TWO_SOCKETS, "2 packages, 4 NUMA nodes, 16 cores, 32 processors"), (LAPTOP, "1 package, 1 NUMA node, 4 cores, 6 processors")):
        done = call([str(ROOT / "dist/bin/ferrule"), "info"], file)
        if done.returncode or words not in done.stdout or str(file) not in done.stdout:
            return f"{file.name}: {done.stdout}{done.stderr}"
    return None


def check_errors() -> str | None:
    """A file that can't be used is told by name and line before anything starts."""
    with tempfile.TemporaryDirectory() as folder:
        cut = pathlib.Path(folder) / "cut.xml"
        cut.write_text(TWO_SOCKETS.read_text()[:2000])
        for file, words in ((pathlib.Path("/nowhere.xml"), "can't be opened"), (cut, "line "), (pathlib.Path("/etc/passwd"), "describes no processor|line ")):
            for command in ([MPIEXEC, "-n", "1", "true"], [str(ROOT / "dist/bin/ferrule"), "info"]):
                done = call(command, file)
                if done.returncode == 0 or not re.search(f"FERRULE_TOPOLOGY={re.escape(str(file))}: .*({words})", done.stderr):
                    return f"{command[0]} with {file}: exit code {done.returncode}: {done.stderr[-300:]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-k", default="", help="a word in the name of the cases")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "parts.c").write_text(PROGRAM)
    for name, text in FILES.items():
        (BUILD / name).write_text(text)
    subprocess.run(["cc", "-O1", "-std=gnu11", "-I", str(ROOT / "dist/include"), "-o", str(BUILD / "parts"), str(BUILD / "parts.c"),
                    "-L", str(ROOT / "dist/lib"), "-l:libmpi_abi.so.1", f"-Wl,-rpath,{ROOT / 'dist/lib'}"], check=True)
    checks: list[tuple[str, Callable[[], str | None]]] = [(case.name, functools.partial(check, case)) for case in CASES]
    checks += [("ferrule info", check_information), ("errors", check_errors)]
    passed = failed = 0
    for name, run in checks:
        if options.k not in name:
            continue
        try:
            wrong = run()
        except subprocess.TimeoutExpired:
            wrong = f"no end within {WATCHDOG_S} s"
        passed, failed = passed + (wrong is None), failed + (wrong is not None)
        if wrong:
            print(f"FAILED {name}: {wrong}")
    print(f"topology: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
