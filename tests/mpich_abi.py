#!/usr/bin/env python3
"""The library with MPICH's ABI, dist/lib/mpich/libmpi.so.12, and what else is about programs that were built for another MPI library.

Symbols against MPICH's own library; `ferrule info --abi`; what mpiexec says of a program that needs two libraries; names that MPI-3.0 removed,
with and without `mpicc --compat=mpi1`. The C tests run on this library by `tests/run.py --lib mpich-abi`.

Usage: tests/mpich_abi.py [NAME ...]
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
LIBRARY = DIST / "lib/mpich/libmpi.so.12"
ORACLE = pathlib.Path(os.environ.get("ORACLE_MPICH", ROOT / "build/peers/mpich"))
HELLO = """#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("%d of %d\\n", rank, size);
    return MPI_Finalize();
}
"""
REMOVED = {
    "MPI_Address(0, 0)": "MPI_Get_address",
    "MPI_Errhandler_create(0, 0)": "MPI_Comm_create_errhandler",
    "MPI_Errhandler_get(MPI_COMM_SELF, 0)": "MPI_Comm_get_errhandler",
    "MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_RETURN)": "MPI_Comm_set_errhandler",
    "MPI_Type_extent(MPI_INT, 0)": "MPI_Type_get_extent",
    "MPI_Type_hindexed(0, 0, 0, MPI_INT, 0)": "MPI_Type_create_hindexed",
    "MPI_Type_hvector(0, 0, 0, MPI_INT, 0)": "MPI_Type_create_hvector",
    "MPI_Type_lb(MPI_INT, 0)": "MPI_Type_get_extent",
    "MPI_Type_struct(0, 0, 0, 0, 0)": "MPI_Type_create_struct",
    "MPI_Type_ub(MPI_INT, 0)": "MPI_Type_get_extent",
    "(void) (MPI_LB == MPI_INT)": "MPI_Type_create_resized",
    "(void) (MPI_UB == MPI_INT)": "MPI_Type_create_resized",
}


def run(*words: object, code: int | None = 0, **env: str) -> str:
    """The output of a command that ends with this exit code (None: another one than 0)."""
    command = [str(word) for word in words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, env={**os.environ, **env}, stdin=subprocess.DEVNULL)
    if done.returncode != code if code is not None else done.returncode == 0:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


def expect(text: str, *parts: str) -> None:
    for part in parts:
        assert part in text, f"{part!r} is not in:\n{text}"


def symbols(library: pathlib.Path) -> dict[str, str]:
    """Letter of nm by name."""
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    return {words[2].split("@")[0]: words[1] for words in (line.split() for line in lines) if len(words) == 3}


def is_ours_to_have(name: str) -> bool:
    """What programs use: functions and data of MPI, the copy function of attributes."""
    return name.startswith(("MPI_", "PMPI_", "MPIR_Dup_fn", "MPIR_F08_"))


def exported() -> None:
    ours, theirs = symbols(LIBRARY), symbols(ORACLE / "lib/libmpi.so.12")
    missing = sorted(name for name in theirs if is_ours_to_have(name) and name not in ours)
    assert not missing, f"not exported: {missing}"
    data = {"B": "data", "D": "data", "R": "data", "V": "data", "T": "function", "W": "function"}
    differ = sorted(name for name in ours if name in theirs and data[ours[name]] != data[theirs[name]])
    assert not differ, f"data here and functions there, or the other way round: {differ}"
    expect(run("readelf", "-d", LIBRARY), "[libmpi.so.12]")
    assert "MPI_" not in " ".join(name for name in os.listdir(DIST / "lib") if name.startswith("libmpi.so")), "libmpi.so shadows others"


def info(tmp: pathlib.Path) -> None:
    ferrule, source = DIST / "bin/ferrule", tmp / "hello.c"
    source.write_text(HELLO)
    compile_for(source, tmp / "theirs")
    run(DIST / "bin/mpicc", source, "-o", tmp / "ours")
    expect(run(ferrule, "info", "--abi", tmp / "theirs"), "the ABI of MPICH", "libmpi.so.12")
    expect(run(ferrule, "info", "--abi", tmp / "ours"), "the standard ABI", "libmpi_abi.so.1")
    expect(run(ferrule, "info", "--abi", "/bin/sh", tmp / "theirs"), "/bin/sh: needs no MPI library", "the ABI of MPICH")
    expect(run(ferrule, "info", "--abi", source), "no ELF file")
    expect(run(ferrule, "info", "--abi", tmp / "nothing", code=1), "cannot read")
    expect(run(ferrule, "info", "--abi", code=2), "needs a file")
    # The library itself has the name of what it would need.
    expect(run(ferrule, "info", "--abi", LIBRARY), "needs no MPI library")
    for ranks in (1, 2):
        for program in ("theirs", "ours"):
            expect(run(DIST / "bin/mpiexec", "-n", ranks, tmp / program), f"{ranks - 1} of {ranks}\n")
    # One job of both: the ABI is each process's own matter.
    both = run(DIST / "bin/mpiexec", "-n", 1, tmp / "theirs", ":", "-n", 2, tmp / "ours")
    expect(both, "0 of 3\n", "1 of 3\n", "2 of 3\n")


def compile_for(source: pathlib.Path, target: pathlib.Path, *words: object) -> None:
    """Compiles with MPICH's header, for its ABI."""
    run("cc", f"-I{ORACLE / 'include'}", source, "-o", target, *words, f"-L{LIBRARY.parent}", "-l:libmpi.so.12")


def mixture(tmp: pathlib.Path) -> None:
    part, source = tmp / "part.c", tmp / "hello.c"
    source.write_text(HELLO.replace("return MPI_Finalize();", "extern int part(void); return part() + MPI_Finalize();"))
    part.write_text("#include <mpi.h>\nint part(void) { int flag; return MPI_Initialized(&flag); }\n")
    compile_for(part, tmp / "libpart.so", "-shared", "-fPIC")
    run(DIST / "bin/mpicc", source, "-o", tmp / "mixed", f"-L{tmp}", "-lpart", f"-Wl,-rpath,{tmp}")
    expect(run(DIST / "bin/ferrule", "info", "--abi", tmp / "mixed", code=1), "by way of", "a mixture, which cannot run")
    said = run(DIST / "bin/mpiexec", "-n", 2, tmp / "mixed", code=2)
    expect(said, "mixes MPI libraries", "libpart.so needs libmpi.so.12", "mixed needs libmpi_abi.so")
    assert " of 2" not in said, said
    # Open MPI's library by its name alone: nothing is loaded.
    run("cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-Wl,-soname,libmpi.so.40", "-o", tmp / "libmpi.so.40")
    (tmp / "main.c").write_text("int main(void) { return 0; }\n")
    run("cc", tmp / "main.c", "-Wl,--no-as-needed", tmp / "libmpi.so.40", "-o", tmp / "open")
    expect(run(DIST / "bin/ferrule", "info", "--abi", tmp / "open", code=1), "Open MPI's own ABI", "libmpi.so.40")


def removed(tmp: pathlib.Path) -> None:
    source = tmp / "old.c"
    for use, replacement in REMOVED.items():
        source.write_text(f"#include <mpi.h>\nvoid f(void);\nvoid f(void) {{ {use}; }}\n")
        said = run(DIST / "bin/mpicc", "-c", source, "-o", tmp / "old.o", code=None)
        expect(said, "removed in MPI-3.0", replacement)
        run(DIST / "bin/mpicc", "--compat=mpi1", "-Wall", "-Werror", "-c", source, "-o", tmp / "old.o")
        run(DIST / "bin/mpicxx", "--compat=mpi1", "-x", "c++", "-c", source, "-o", tmp / "old.o")
    expect(run(DIST / "bin/mpicc", "--compat=mpi2", "-c", source, code=2), "only --compat=mpi1")
    # The program still needs no more than the standard ABI.
    run(DIST / "bin/mpicc", ROOT / "tests/c/abi/removed_names.c", f"-I{ROOT / 'tests/c'}", "-o", tmp / "old")
    expect(run(DIST / "bin/ferrule", "info", "--abi", tmp / "old"), "the standard ABI")


CASES: list[cases.Case] = [
    ("exported names", lambda _: exported()),
    ("ferrule info --abi, and programs of both ABIs in one job", info),
    ("a mixture is refused", mixture),
    ("names that MPI-3.0 removed", removed),
]

if __name__ == "__main__":
    sys.exit(cases.run("mpich-abi", [case for case in CASES if not sys.argv[1:] or case[0] in sys.argv[1:]]))
