#!/usr/bin/env python3
"""ScaLAPACK's own tests, unchanged: Debian's library and test programs, built with gfortran for MPICH, on dist/lib/mpich/libmpich.so.12 and libmpichfort.so.12.

The programs of `scalapack-mpi-test` solve problems with LU, Cholesky, QR and others on grids of up to four processes and check the residuals by themselves; their own counts are what is judged. BLACS
has a tester of its own. Debian has no test of redistribution between grids (REDIST), so `redist.f90` is ours. Packages are unpacked below build/prebuilt; what can't be had is a skip.

Usage: tests/programs/scalapack.py [WORD]     only cases with WORD in their name
"""

from __future__ import annotations

import argparse
import collections
import functools
import pathlib
import re
import shutil
import subprocess
import sys

sys.path[:0] = map(str, pathlib.Path(__file__).resolve().parents[:2])
import cases
import jobs
import prebuilt

PACKAGES = ("libscalapack-mpich2.2", "scalapack-mpi-test", "scalapack-test-common", "libblas3", "liblapack3")
OVER_TCP = {"FERRULE_CHANNELS": "tcp"}
RANKS = 4
LIMIT_S = 300
#: The test programs without the letter of their precision.
GROUPS: dict[str, tuple[str, ...]] = {
    "LU": ("lu", "dblu", "dtlu", "gblu"),
    "Cholesky": ("llt", "pbllt", "ptllt"),
    "inverse and least squares": ("inv", "ls"),
    "QR and reductions": ("qr", "brd", "hrd", "trd"),
    "symmetric eigenvalues": ("sep", "gsep"),
    "symmetric eigenvalues by MRRR": ("syevr", "heevr"),
    "other eigenvalues": ("nep", "evc", "hseqr"),
    "singular values": ("svd",),
    "PBLAS": ("pb1tst", "pb2tst", "pb3tst"),
}
#: What BLACS's tester calls its parts (messages, broadcasts, sums, maxima, minima), and for how many types it makes each: combinations not for DOUBLE PRECISION.
BLACS_PARTS = {"SDRV": 5, "BSBR": 5, "SUM": 4, "AMX": 4, "AMN": 4}
#: Not run. ScaLAPACK's estimate of a condition number differs among its processes now and then, which then wait in different functions; with Open MPI, too (issue 121 of Reference-ScaLAPACK).
HANGS = ("xsllt",)
#: They test variables that are never set (valgrind: a jump depends on uninitialised stack memory), so rows with small residuals say FAILED now and then. Residuals are compared here instead.
UNSET = re.compile(r"x[sd]syevr")
#: The smallest threshold in their input file.
RESIDUAL = 20.0


def unpacked() -> pathlib.Path:
    """The folder of libraries into which all packages are unpacked, with the tests below scalapack/mpich-tests."""
    return prebuilt.together("scalapack", PACKAGES, "usr/lib/*/scalapack/mpich-tests").parents[1]


def expect(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)


def environment(env: dict[str, str]) -> dict[str, str]:
    """mpiexec alone makes the programs find our library; this names LAPACK's."""
    folder = unpacked()
    return {"LD_LIBRARY_PATH": f"{folder}:{folder / 'lapack'}:{folder / 'blas'}", **env}


def numbers(pattern: str, text: str) -> list[int]:
    return [int(word) for word in re.findall(pattern, text, re.MULTILINE)]


def checked(program: str, text: str) -> int:
    """How many tests a program has made, by its own words; none of them may have failed."""
    if program.endswith("tst"):
        rows = [list(map(int, row)) for row in re.findall(r"^ +\| +\w+ +(\d+) +(\d+) +(\d+) +(\d+) *$", text, re.MULTILINE)]
        expect(all(total == passed and failed == skipped == 0 for total, passed, failed, skipped in rows), f"{program}: {rows}")
        expect("End of Tests." in text and "ERROR" not in text, f"{program}: {text[-1500:]}")
        made = sum(row[1] for row in rows)
    elif program.endswith("svd"):
        words = re.findall(r"^(\S.*?) *-?0\.\d+E[-+]\d+-0\.100E\+01 ", text, re.MULTILINE)
        expect(set(words) == {"Passed"} and "End of tests" in text, f"{program}: {text[-1500:]}")
        made = len(words)
    elif program.endswith("hseqr"):
        words = re.findall(r"^(?: +\d+){4} +[\d.]+ (\w+)\s*$", text, re.MULTILINE)
        expect(set(words) == {"PASSED"}, f"{program}: {text[-1500:]}")
        made = len(words)
    elif UNSET.fullmatch(program):
        rows = re.findall(r"^ +\d+ +\d+ +\d+ +\d+ +\d+ +[NY] .{18} *(\S+) +(\S+) +(?:PASSED|FAILED)", text, re.MULTILINE)
        expect(all(0 <= float(one) < RESIDUAL for row in rows for one in row), f"{program}: residuals {rows}")
        expect(numbers(r"^Finished +(\d+) tests", text) == [len(rows)] and "END OF TESTS." in text, f"{program}: {len(rows)} rows: {text[-1500:]}")
        made = len(rows)
    else:
        [total] = numbers(r"^Finished +(\d+) tests", text) or [-1]
        passed, failed = numbers(r"^ +(\d+) tests completed and passed", text), numbers(r"^ +(\d+) tests completed and failed", text)
        illegal = numbers(r"^ +(\d+) tests skipped because of illegal input", text)
        expect(len(passed) == 1 and failed == [0] and sum(passed + illegal) == total and "END OF TESTS." in text, f"{program}: {text[-1500:]}")
        made = passed[0]
    expect(made > 0, f"{program}: it has tested nothing: {text[-1500:]}")
    return made


def group(names: tuple[str, ...], env: dict[str, str], _: pathlib.Path) -> None:
    """All precisions of some programs."""
    folder = unpacked() / "scalapack/mpich-tests"
    programs = [path for name in names for path in sorted([*folder.glob(f"x[sdcz]{name}"), *folder.glob(f"PBLAS/[sdcz]{name}")])]
    expect({path.name.removeprefix("x")[1:] for path in programs} == set(names), f"programs are missing: {[path.name for path in programs]}")
    left_out = [path.name for path in programs if path.name in HANGS]
    programs = [path for path in programs if path.name not in HANGS]
    made = 0
    for path in programs:
        # Its input file lies beside it; some write their output there.
        done = jobs.mpiexec(RANKS, [str(path)], LIMIT_S, environment(env), cwd=path.parent)
        expect(done.code == 0 and not done.left, f"{path.name}: {done.ending}: {done.left}{done.text[-1500:]}")
        made += checked(path.name, done.text)
    print(f"      {len(programs)} programs, {made} tests passed their residual checks" + ("; left out: " + ", ".join(left_out) if left_out else ""), flush=True)


def blacs(env: dict[str, str], _: pathlib.Path) -> None:
    """BLACS's tester in C and in Fortran. It ends with BLACS_ABORT, which must end all."""
    for name in ("xCbtest", "xFbtest"):
        folder = unpacked() / "scalapack/mpich-tests/BLACS"
        done = jobs.mpiexec(RANKS, [str(folder / name)], LIMIT_S, environment(env), cwd=folder)
        rows = re.findall(r"^[A-Z ]+ (\w+) TESTS: +(\d+) TESTS; +(\d+) PASSED, +(\d+) SKIPPED, +(\d+) FAILED\.", done.text, re.MULTILINE)
        expect(collections.Counter(row[0] for row in rows) == BLACS_PARTS, f"{name}: {rows}: {done.text[-1500:]}")
        expect(all(int(total) == int(passed) + int(skipped) and int(passed) > 0 and failed == "0" for _, total, passed, skipped, failed in rows), f"{name}: {rows}")
        auxiliary = re.findall(r"^ (PASSED|FAILED) +(.*TEST.*)$", done.text, re.MULTILINE)
        expect(len(auxiliary) == 6 and all(state == "PASSED" for state, _ in auxiliary), f"{name}: {auxiliary}")
        expect(done.code not in (0, None) and "for BLACS_ABORT" in done.text and "MPI_Abort was called" in done.text and not done.left, f"{name}: {done.ending}: {done.left}{done.text[-800:]}")
        print(f"      {name}: {sum(int(row[2]) for row in rows)} tests of messages and {len(auxiliary)} others passed", flush=True)


def redist(place: pathlib.Path) -> None:
    """Matrices redistributed between random grids and block sizes, and back."""
    folder = unpacked()
    command = ["gfortran", "-g", "-O1", str(pathlib.Path(__file__).with_name("redist.f90")), "-o", str(place / "redist"), f"-L{folder}", "-l:libscalapack-mpich.so.2.2",
               "-Wl,--allow-shlib-undefined"]
    subprocess.run(command, check=True, cwd=place)
    for ranks, env in ((1, {}), (4, {}), (6, {}), (4, OVER_TCP)):
        done = jobs.mpiexec(ranks, [str(place / "redist"), "60"], LIMIT_S, environment(env), cwd=place)
        found = re.search(r"^ *REDIST +(\d+) redistributions, +(\d+) wrong elements", done.text, re.MULTILINE)
        expect(done.code == 0 and not done.left and found is not None, f"{ranks} ranks: {done.ending}: {done.left}{done.text[-1500:]}")
        assert found
        expect(int(found[1]) == 60 * 4 * 2 and found[2] == "0", f"{ranks} ranks: {found[0]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("word", nargs="?", default="")
    options = parser.parse_args()
    all_cases: list[cases.Case] = []
    for where, env in (("shared memory", {}), ("tcp", OVER_TCP)):
        # The MRRR programs take a minute, most of it arithmetic.
        all_cases += [(f"{name}, {where}", functools.partial(group, names, env)) for name, names in GROUPS.items() if not env or "MRRR" not in name]
        all_cases.append((f"BLACS, {where}", functools.partial(blacs, env)))
    skipped = 0
    if shutil.which("gfortran"):
        all_cases.append(("redistribution between grids", redist))
    else:
        skipped += 1
        print("skip redistribution between grids: no gfortran", flush=True)
    prebuilt.WORK.mkdir(parents=True, exist_ok=True)
    try:
        unpacked()
    except prebuilt.Unavailable as error:
        print(f"skip scalapack: {error}", flush=True)
        return cases.run("scalapack", [], skipped=skipped + len(all_cases))
    return cases.run("scalapack", [case for case in all_cases if options.word in case[0]], skipped=skipped)


if __name__ == "__main__":
    sys.exit(main())
