#!/usr/bin/env python3
"""HPCC (Debian source package `hpcc`): HPL, PTRANS, RandomAccess, STREAM, FFT, DGEMM, latency and bandwidth in one program, with its own checks of the results.

Built with dist/bin/mpicc and the reference BLAS (libblas-dev), run with 4 ranks on small sizes.

Usage: tests/programs/hpcc.py
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import jobs
import packages

ARCH = "Ferrule"
# The order of HPL's matrix; the other parts follow from it.
ORDER = 240


def description(compiler: str) -> str:
    """The file that the makefiles of HPL include."""
    macros = {
        "SHELL": "/bin/sh", "CD": "cd", "CP": "cp", "LN_S": "ln -sf", "MKDIR": "mkdir -p", "RM": "rm -f", "TOUCH": "touch", "ARCH": "$(arch)",
        "TOPdir": "../../..", "INCdir": "$(TOPdir)/include", "BINdir": "$(TOPdir)/bin/$(ARCH)", "LIBdir": "$(TOPdir)/lib/$(ARCH)",
        "HPLlib": "$(LIBdir)/libhpl.a", "LAlib": "-lblas", "F2CDEFS": "-DAdd_ -DF77_INTEGER=int -DStringSunStyle",
        "HPL_INCLUDES": "-I$(INCdir) -I$(INCdir)/$(ARCH)", "HPL_LIBS": "$(HPLlib) $(LAlib) -lm",
        "HPL_DEFS": "$(F2CDEFS) $(HPL_INCLUDES)", "CC": compiler, "CCNOOPT": "$(HPL_DEFS) -w", "CCFLAGS": "$(HPL_DEFS) --compat=mpi1 -O1 -w -std=gnu99",
        "LINKER": compiler, "LINKFLAGS": "$(CCFLAGS)", "ARCHIVER": "ar", "ARFLAGS": "r", "RANLIB": "echo",
    }
    return "".join(f"{name} = {value}\n" for name, value in macros.items())


def build(source: pathlib.Path) -> pathlib.Path:
    dist = pathlib.Path(os.environ.get("SUITES_DIST", jobs.ROOT / "dist"))
    built = packages.WORK / "hpcc/built"
    shutil.rmtree(built, ignore_errors=True)
    shutil.copytree(source, built)
    (built / f"hpl/Make.{ARCH}").write_text(description(str(dist / "bin/mpicc")))
    done = subprocess.run(["make", "-j2", f"arch={ARCH}"], cwd=built, capture_output=True, text=True)
    if not (built / "hpcc").exists():
        raise SystemExit(f"hpcc does not build:\n{done.stdout[-1500:]}{done.stderr[-3000:]}")
    return built


def wrong(text: str) -> list[str]:
    """What the program's output says against its run."""
    found = [] if re.search(r"^Success=1$", text, re.M) else ["no Success=1"]
    found += [f"{word} tests failed" for word in re.findall(r"(\d+) tests completed and failed residual checks", text) if word != "0"]
    if not re.search(r"^\s*[1-9]\d* tests completed and passed residual checks", text, re.M):
        found.append("no test of HPL or PTRANS has passed its checks")
    for name, value in re.findall(r"^(\w*RandomAccess\w*_ErrorsFraction)=(\S+)$", text, re.M):
        found += [f"{name}={value}"] if float(value) > 0.01 else []
    for name, value in re.findall(r"^(\w*FFT_maxErr)=(\S+)$", text, re.M):
        found += [f"{name}={value}"] if not 0 <= float(value) < 16 else []
    return found


def main() -> int:
    try:
        source = packages.unpacked("hpcc")
    except packages.Unavailable as error:
        print(f"skip  hpcc: {error}\nhpcc: 0 passed, 0 failed, 1 skipped")
        return 0
    if not any(pathlib.Path(folder).glob("**/libblas.so") for folder in ("/usr/lib", "/usr/lib64")):
        print("skip  hpcc: no BLAS library (libblas-dev)\nhpcc: 0 passed, 0 failed, 1 skipped")
        return 0
    built, failed = build(source), 0
    for name, env in (("shared memory", {}), ("tcp", {"FERRULE_CHANNELS": "tcp"})):
        with tempfile.TemporaryDirectory(prefix="hpcc-") as place:
            folder = pathlib.Path(place)
            lines = (source / "_hpccinf.txt").read_text()
            (folder / "hpccinf.txt").write_text(re.sub(r"^1000 ", f"{ORDER}  ", lines, flags=re.M))
            result = jobs.mpiexec(4, [str(built / "hpcc")], 1500, env, cwd=folder)
            out = folder / "hpccoutf.txt"
            troubles = wrong(out.read_text() if out.exists() else "")
        ok = result.code == 0 and not troubles and not result.left
        failed += not ok
        print(f"{'pass' if ok else 'FAIL'}  hpcc {name}: {result.ending}, {result.seconds:.0f} s {'; '.join(troubles)} {result.left}", flush=True)
        if not ok:
            print("      " + result.text[-2000:].replace("\n", "\n      "), flush=True)
    print(f"hpcc: {2 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
