#!/usr/bin/env python3
"""Builds and runs the Fortran programs of MPICH 4.0.2's test suite (Debian's source package) with Ferrule's mpifort, unchanged.

Usage: mpich_fortran.py [--lib mpich-abi] [--only f77/attr] [--jobs N]

With `--lib mpich-abi` they are built against Debian's MPICH (its mpif.h, modules and libraries), and Ferrule runs what came out, on dist/lib/mpich.

Folders and numbers of processes are those of the suite's own lists; a program passes if it ends well and prints " No Errors".
Programs with a part in C, and folders that need other files (io: generated; spawn, ext, profile), are not taken. What is known
to fail is in EXPECTED with its reason; a program there that passes is an error too.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build/programs/mpich-fortran"
MPIFORT, MPIEXEC = str(ROOT / "dist/bin/mpifort"), str(ROOT / "dist/bin/mpiexec")
FOLDERS = (
    *(f"f77/{part}" for part in ("attr", "coll", "comm", "datatype", "info", "init", "pt2pt", "rma", "topo")),
    *(f"f90/{part}" for part in ("attr", "coll", "comm", "datatype", "f90types", "info", "init", "misc", "pt2pt", "rma", "timer", "topo")),
    *(f"f08/{part}" for part in ("attr", "comm", "info", "init", "misc", "timer", "topo")),
)
#: Files that several programs of a folder share.
HELPERS = {"pt2pt": ("utils", "dummy")}
_REMOVED = "uses names that MPI-3.0 removed"
_IN_PLACE = "passes scalars for arrays that MPI_IN_PLACE makes meaningless; the module mpi checks ranks"
_TYPES = "passes an array of datatypes to MPI_ALLTOALLV; the module mpi checks ranks"
_VERSION = "knows MPI up to version 4"
_EXTRA = "expects that a generalized request's callback changes the caller's variable of extra state (docs/user/differences.md)"
#: Against Debian's MPICH, also those that pass array sections, or rely on its module procedures.
ABI_FOLDERS = (*FOLDERS, "f08/coll", "f08/datatype", "f08/pt2pt", "f08/subarray")
_BOUNDS = "asks for the names of MPI_LB and MPI_UB, which are of use in MPI_TYPE_STRUCT only (docs/user/mpich.md)"
_HEADER = "compares the version in Debian's mpif.h with that of the library"
ABI_EXPECTED: dict[str, str] = {
    "f77/datatype/allctypesf.f": _BOUNDS, "f90/datatype/allctypesf90.f90": _BOUNDS, "f08/datatype/allctypesf08.f90": _BOUNDS,
    "f77/init/baseenvf.f": _HEADER, "f90/init/baseenvf90.f90": _HEADER, "f08/init/baseenvf90.f90": _HEADER,
}
#: Program: why it can't pass.
EXPECTED: dict[str, str] = {
    "f77/datatype/typecntsf.f": _REMOVED, "f77/datatype/allctypesf.f": _REMOVED, "f77/datatype/hindex1f.f": _REMOVED,
    "f77/init/baseenvf.f": _VERSION, "f77/pt2pt/greqf.f": _EXTRA,
    "f90/coll/alltoallvf90.f90": _TYPES, "f90/coll/split_typef90.f90": _TYPES,
    "f90/coll/vw_inplacef90.f90": _IN_PLACE, "f90/coll/nonblocking_inpf90.f90": _IN_PLACE,
    "f90/datatype/allctypesf90.f90": _REMOVED, "f90/datatype/hindex1f90.f90": _REMOVED, "f90/datatype/get_elem_u.f90": _REMOVED,
    "f90/init/baseenvf90.f90": _VERSION, "f90/pt2pt/greqf90.f90": _EXTRA, "f08/init/baseenvf90.f90": _VERSION,
}

def source() -> pathlib.Path:
    """The folder test/mpi of the source package, fetched once by apt-get with lists of its own."""
    tests = WORK / "mpich-4.0.2/test/mpi"
    if (WORK / "complete").exists():
        return tests
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "lists/partial").mkdir(parents=True)
    (WORK / "sources.list").write_text("deb-src http://deb.debian.org/debian bookworm main\n")
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={WORK}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
           "-o", f"Dir::State::lists={WORK}/lists"]
    subprocess.run([*apt, "update"], check=True, cwd=WORK, stdout=subprocess.DEVNULL)
    subprocess.run([*apt, "source", "--download-only", "mpich=4.0.2-3"], check=True, cwd=WORK, stdout=subprocess.DEVNULL)
    parts = [f"mpich-4.0.2/test/mpi/{part}" for part in ("f77", "f90", "f08", "util")]
    subprocess.run(["tar", "xf", "mpich_4.0.2.orig.tar.xz", *parts], check=True, cwd=WORK)
    kinds = {"@F77_MPI_ADDRESS@": "integer(kind=8)", "@F77_MPI_OFFSET@": "integer(kind=8)"}
    for template in tests.rglob("*.h.in"):
        text = template.read_text()
        for name, kind in kinds.items():
            text = text.replace(name, kind)
        template.with_suffix("").write_text(text)
    (WORK / "complete").touch()
    return tests


def mpich() -> pathlib.Path:
    """The folder usr of Debian's libmpich12 and libmpich-dev, fetched once."""
    place = WORK / "debian"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        subprocess.run(["apt-get", "-q", "download", "libmpich12", "libmpich-dev"], check=True, cwd=place, stdout=subprocess.DEVNULL)
        for package in place.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(place)], check=True)
        (place / "complete").touch()
    return place / "usr"


def compiler(lib: str) -> list[str]:
    """The command that compiles and links a program, up to its files, and what follows them."""
    if lib == "ferrule":
        return [MPIFORT]
    usr = mpich()
    headers = next(usr.glob("include/*/mpich"))
    libraries = next(usr.glob("lib/*/libmpichfort.so")).parent
    # The libraries that theirs need aren't there, and not needed: the program runs on ours.
    return ["gfortran", "-fallow-argument-mismatch", f"-I{headers}", f"-L{libraries}", "-Wl,--allow-shlib-undefined"]


def programs(folder: pathlib.Path) -> list[tuple[pathlib.Path, int]]:
    """Fortran programs of a folder's list with their number of processes."""
    found = []
    for line in (folder / "testlist").read_text().splitlines():
        words = line.split()
        if not words or words[0].startswith("#") or any("resultTest" in word for word in words):
            continue
        sources = [path for path in (folder / f"{words[0]}.f", folder / f"{words[0]}.f90") if path.exists()]
        if sources and not list(folder.glob(re.sub(r"f(08|90)?$", "", words[0]) + "*.c")):
            found.append((sources[0], int(words[1])))
    return found


def run_one(program: pathlib.Path, ranks: int, util: pathlib.Path, compile_with: list[str]) -> str:
    """What went wrong, or ""."""
    use, part = program.parent.parent.name, program.parent.name
    helpers = [path for stem in HELPERS.get(part, ()) for path in program.parent.glob(f"{stem}f*.f*")]
    library = util / f"mtest_{use}{'.f' if use == 'f77' else '.f90'}"
    with tempfile.TemporaryDirectory(prefix="mpich-fortran-") as place:
        libraries = [] if compile_with[0] == MPIFORT else ["-lmpichfort", "-lmpich"]
        built = subprocess.run([*compile_with, "-w", "-g", "-I", str(program.parent), "-o", "program", str(program), *map(str, helpers), str(library), *libraries],
                               cwd=place, capture_output=True, text=True)
        if built.returncode:
            return "doesn't compile: " + next((line for line in built.stderr.splitlines() if "Error" in line), built.stderr[-300:])
        try:
            done = subprocess.run([MPIEXEC, "-n", str(ranks), "./program"], cwd=place, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "no end after 120 s"
        if done.returncode or "No Errors" not in done.stdout:
            return f"exit code {done.returncode}: {(done.stdout + done.stderr)[-600:]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", choices=("ferrule", "mpich-abi"), default="ferrule")
    parser.add_argument("--only", help="one folder, such as f08/attr")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    tests, compile_with = source(), compiler(options.lib)
    folders, expected = (FOLDERS, EXPECTED) if options.lib == "ferrule" else (ABI_FOLDERS, ABI_EXPECTED)
    work = [(program, ranks) for folder in folders if options.only in (None, folder) and (tests / folder / "testlist").exists()
            for program, ranks in programs(tests / folder)]
    failed = 0

    def one(item: tuple[pathlib.Path, int]) -> tuple[str, str]:
        return str(item[0].relative_to(tests)), run_one(item[0], item[1], tests / "util", compile_with)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, wrong in pool.map(one, work):
            known = expected.get(name)
            good = bool(wrong) == bool(known)
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'} {name}{': ' + (known or wrong or 'passes, but is in EXPECTED') if known or not good else ''}", flush=True)
    print(f"mpich-fortran{'' if options.lib == 'ferrule' else '-abi'}: {len(work) - failed} passed, {failed} failed, 0 skipped")
    return int(failed > 0 or not work)


if __name__ == "__main__":
    sys.exit(main())
