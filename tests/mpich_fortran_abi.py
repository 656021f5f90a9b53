#!/usr/bin/env python3
"""dist/lib/mpich/libmpifort.so.12: Fortran programs that were built with MPICH's or Intel MPI's wrappers.

The programs of tests/fortran with integer handles are compiled with a header of MPICH's numbers and common blocks (tests/fortran/mpich/mpif.h), as
gfortran names procedures and with -fsecond-underscore. Programs built against Debian's MPICH itself are in tests/programs/mpich_fortran.py.

Usage: tests/mpich_fortran_abi.py [NAME ...]
"""

from __future__ import annotations

import pathlib
import sys

import cases
from mpich_abi import DIST, ROOT, expect, run, symbols

sys.path.insert(0, str(ROOT / "fortran"))
import table

LIBRARY = DIST / "lib/mpich/libmpifort.so.12"
SOURCES = ROOT / "tests/fortran"
#: Intel's compilers ask for these, MPICH's Fortran library has them, and the API table has not.
BESIDE_TABLE = (
    "MPI_Address", "MPI_Type_struct", "MPI_Type_extent", "MPI_Errhandler_set", "MPI_F_sync_reg", "MPI_Null_copy_fn", "MPI_Comm_dup_fn",
    "MPI_Win_null_delete_fn", "MPI_Alloc_mem_cptr", "MPIX_Comm_revoke", "MPIX_Comm_failure_get_acked",
)
OF_MODULES = ("__mpi_sizeofs_MOD_mpi_sizeof_dv", "mpi_sizeofs_mp_mpi_sizeof_ch_", "__mpi_constants_MOD_commeq", "mpi_constants_mp_wineq_")
#: What the module mpi_f08 of MPICH 4 calls: with array descriptors, large counts, for PMPI; and its sentinels.
OF_F08 = ("mpi_init_f08_", "mpi_send_f08ts_", "mpi_send_f08ts_large_", "mpi_get_count_f08_large_", "mpi_buffer_detach_f08_", "pmpir_allreduce_f08ts_", "mpi_f_sync_reg_f08ts_",
          "__mpi_f08_types_MOD_mpi_comm_eq", "__mpi_f08_callbacks_MOD_mpi_comm_dup_fn")
COMMON_BLOCKS = ("mpipriv1_", "mpipriv2_", "mpiprivc_", "mpifcmb5_", "mpifcmb9_", "mpifcmba_", "MPIR_F08_MPI_BOTTOM", "MPIR_F08_MPI_IN_PLACE", "__mpi_f08_link_constants_MOD_mpi_unweighted")


def exported() -> None:
    ours = symbols(LIBRARY)
    names = [function.name for function in table.functions()] + list(BESIDE_TABLE)
    wanted = {form for name in names for lower in (name.lower(), "p" + name.lower()) for form in (f"{lower}_", f"{lower}__", lower, lower.upper())}
    missing = sorted({*wanted, *OF_MODULES, *OF_F08} - {name for name, letter in ours.items() if letter == "T"})
    assert not missing, f"not exported: {missing}"
    missing = sorted(name for name in COMMON_BLOCKS if ours.get(name) not in ("B", "D"))
    assert not missing, f"no common blocks: {missing}"
    stray = sorted(name for name in ours if not name.lower().lstrip("_").startswith(("mpi", "pmpi")))
    assert not stray, f"exported, but no names of MPI: {stray}"
    dynamic = run("readelf", "-d", LIBRARY)
    expect(dynamic, "soname: [libmpifort.so.12]", "[libmpi.so.12]")
    assert "libgfortran" not in dynamic, dynamic


def build(tmp: pathlib.Path, sources: list[pathlib.Path], *flags: str, library: str = "libmpifort.so.12") -> pathlib.Path:
    """A program with MPICH's ABI."""
    folder = LIBRARY.parent
    headers = (f"-I{SOURCES / 'mpich'}", f"-I{SOURCES}", f"-J{tmp}")
    run("gfortran", "-w", "-fallow-argument-mismatch", *headers, *flags, *sources, "-o", tmp / "program", f"-L{folder}", f"-l:{library}", "-l:libmpi.so.12",
        f"-Wl,-rpath-link,{folder}")
    return tmp / "program"


def all_ranks(program: pathlib.Path, tmp: pathlib.Path) -> None:
    for ranks in (1, 2, 4):
        run(DIST / "bin/mpiexec", "-n", ranks, "-wdir", tmp, program)


def old_interface(tmp: pathlib.Path) -> None:
    all_ranks(build(tmp, [SOURCES / "mpif.F90"]), tmp)


def second_underscore(tmp: pathlib.Path) -> None:
    program = build(tmp, [SOURCES / "mpif.F90"], "-fsecond-underscore")
    expect(run("nm", "-D", program), "mpi_init__", "mpi_comm_create_errhandler__")
    all_ranks(program, tmp)


def fixed_form(tmp: pathlib.Path) -> None:
    """Linked with Debian's name of the library."""
    program = build(tmp, [SOURCES / "fixed.f"], library="libmpichfort.so.12")
    all_ranks(program, tmp)


def removed(tmp: pathlib.Path) -> None:
    all_ranks(build(tmp, [SOURCES / "mpich/removed.F90", SOURCES / "mpich/knows.c"], "-no-pie", "-fno-pie"), tmp)


def sections(tmp: pathlib.Path) -> None:
    program = build(tmp, [SOURCES / "mpich/sections.f90"])
    for ranks in (1, 2, 4):
        said = run(DIST / "bin/mpiexec", "-n", ranks, program)
        assert said.count("MPI_Allreduce: a buffer is an array section") == ranks and said.count("MPI_Send: a buffer is an array section") == 2 * ranks, said


def info(tmp: pathlib.Path) -> None:
    program = build(tmp, [SOURCES / "fixed.f"])
    expect(run(DIST / "bin/ferrule", "info", "--abi", program), "the ABI of MPICH", "libmpifort.so.12")
    # Both libraries by their soname in a program of the other ABI are a mixture.
    part = tmp / "part.c"
    part.write_text("extern int MPI_Initialized(int *);\nint part_(void) { int flag; return MPI_Initialized(&flag); }\n")
    run("cc", "-shared", "-fPIC", part, "-o", tmp / "libpart.so", f"-L{DIST / 'lib'}", "-l:libmpi_abi.so.1")
    run("gfortran", "-w", "-fallow-argument-mismatch", f"-I{SOURCES / 'mpich'}", SOURCES / "fixed.f", "-o", tmp / "mixed", "-Wl,--no-as-needed", f"-L{tmp}", "-lpart",
        f"-Wl,-rpath,{tmp}", f"-Wl,-rpath-link,{DIST / 'lib'}:{LIBRARY.parent}", f"-L{LIBRARY.parent}", "-l:libmpifort.so.12", "-l:libmpi.so.12")
    said = run(DIST / "bin/mpiexec", "-n", 1, tmp / "mixed", code=2)
    expect(said, "mixes MPI libraries", "libmpi_abi.so.1")


def no_compiler(tmp: pathlib.Path) -> None:
    """Without a C compiler the build says so in one line and goes on."""
    (tmp / "lib/mpich").mkdir(parents=True)
    said = run("env", "CC=no-such-compiler", ROOT / "fortran/mpich.sh", tmp / "work", tmp)
    assert said.count("\n") == 1 and "no-such-compiler" in said and "not built" in said, said


CASES: list[cases.Case] = [
    ("exported names", lambda _: exported()),
    ("the interface with integer handles", old_interface),
    ("the same with -fsecond-underscore", second_underscore),
    ("fixed form, on libmpichfort.so.12", fixed_form),
    ("names that MPI-3.0 removed, sentinels, user functions", removed),
    ("array sections of mpi_f08", sections),
    ("ferrule info --abi, and a mixture", info),
    ("a build without a compiler", no_compiler),
]

if __name__ == "__main__":
    sys.exit(cases.run("mpich-fortran-abi", [case for case in CASES if not sys.argv[1:] or case[0] in sys.argv[1:]]))
