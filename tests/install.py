#!/usr/bin/env python3
"""`make install` and `make uninstall`: owners and modes, DESTDIR, a program built and run from a moved tree by another user, nothing left.

As root the program runs as user 65534; else as this user.

Usage: tests/install.py
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable

import cases
import patience

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
ROOT_USER = os.geteuid() == 0
OTHER = 65534 if ROOT_USER else os.geteuid()


def make(*words: str, fails: bool = False, umask: int = 0o022) -> str:
    env = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-C", str(ROOT), "-s", "--no-print-directory", *words], capture_output=True, text=True, umask=umask, env=env,
                          timeout=patience.WATCHDOG_S)
    assert (done.returncode != 0) == fails, f"make {' '.join(words)}: exit code {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def entries(tree: pathlib.Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.rglob("*")}


def owners_and_modes(tmp: pathlib.Path) -> None:
    """A tree that somebody else has built, installed under a strict umask."""
    built = tmp / "built"
    shutil.copytree(DIST, built, symlinks=True)
    if ROOT_USER:
        for path in built.rglob("*"):
            os.lchown(path, 12345, 12345)
    make("install", f"DIST={built}", f"DESTDIR={tmp}/stage", "PREFIX=/opt/ferrule", umask=0o077)
    place = tmp / "stage/opt/ferrule"
    assert entries(built) | {"share/ferrule/installed"} == entries(place), entries(built) ^ entries(place)
    for path in [place, *place.rglob("*")]:
        info = path.lstat()
        assert (info.st_uid, info.st_gid) == (os.geteuid(), os.getegid()), f"{path} belongs to {info.st_uid}:{info.st_gid}"
        if path.is_symlink():
            assert os.readlink(path) == os.readlink(built / path.relative_to(place))
            continue
        wanted = 0o755 if path.is_dir() or os.access(built / path.relative_to(place), os.X_OK) else 0o644
        assert stat.S_IMODE(info.st_mode) == wanted, f"{path} has mode {stat.S_IMODE(info.st_mode):o}, not {wanted:o}"
    assert (place / "lib/libmpi_abi.so.1").read_bytes() == (DIST / "lib/libmpi_abi.so.1").read_bytes()


def moved_and_run(tmp: pathlib.Path) -> None:
    """The installed tree is moved; another user compiles and runs a program with it."""
    make("install", f"DESTDIR={tmp}", "PREFIX=/first")
    place = tmp / "elsewhere/deeper"
    place.parent.mkdir()
    (tmp / "first").rename(place)
    work = tmp / "work"
    work.mkdir()
    if ROOT_USER:
        os.chown(work, OTHER, OTHER)
    shutil.copy(ROOT / "examples/hello.c", work)

    def other(*words: str) -> str:
        user: dict[str, int] = {"user": OTHER, "group": OTHER} if ROOT_USER else {}
        done = subprocess.run(words, cwd=work, env={"PATH": "/usr/bin:/bin", "HOME": str(work)}, capture_output=True, text=True, timeout=patience.WATCHDOG_S,
                              extra_groups=[] if ROOT_USER else None, **user)  # type: ignore[call-overload]
        assert done.returncode == 0, f"{words}: exit code {done.returncode}: {done.stdout}{done.stderr}"
        return str(done.stdout)

    other(str(place / "bin/mpicc"), "hello.c", "-o", "hello")
    said = other(str(place / "bin/mpiexec"), "-n", "3", "./hello").splitlines()
    assert sorted(line.split(" on ")[0] for line in said) == [*(f"rank {n} of 3" for n in range(3)), "sum of the ranks: 3"], said
    assert str(place) in other("ldd", "./hello"), "the program uses another library"
    # A moved tree can still be removed.
    make("uninstall", f"PREFIX={place}")
    assert not place.exists(), entries(place)


def pages_beside_those_of_others(tmp: pathlib.Path) -> None:
    """Man pages and completion are where man and the shells look; uninstalling leaves other programs' pages."""
    other = tmp / "share/man/man1/other.1"
    other.parent.mkdir(parents=True)
    other.write_text("other")
    make("install", f"PREFIX={tmp}")
    share = tmp / "share"
    for name in ("man/man1/mpiexec.1", "man/man1/ferrule.1", "man/man1/mpicc.1", "man/man7/ferrule-settings.7", "bash-completion/completions/ferrule",
                 "zsh/site-functions/_mpiexec", "zsh/site-functions/_ferrule", "fish/vendor_completions.d/mpiexec.fish", "fish/vendor_completions.d/ferrule.fish"):
        assert (share / name).stat().st_size > 500, name
    for name, target in (("man/man1/mpirun.1", "mpiexec.1"), ("man/man1/mpifort.1", "mpicc.1"), ("bash-completion/completions/mpiexec", "ferrule"),
                         ("fish/vendor_completions.d/mpirun.fish", "mpiexec.fish")):
        assert (share / name).is_file() and os.readlink(share / name) == target, name
    if shutil.which("man"):
        found = subprocess.run(["man", "-w", "mpirun"], env={"PATH": f"{tmp}/bin:/usr/bin:/bin"}, capture_output=True, text=True, timeout=patience.WATCHDOG_S)
        assert str(share) in found.stdout, f"man finds {found.stdout}{found.stderr}"
    make("uninstall", f"PREFIX={tmp}")
    assert entries(tmp) == {"share", "share/man", "share/man/man1", "share/man/man1/other.1"}, entries(tmp)


def uninstall_leaves_nothing(tmp: pathlib.Path) -> None:
    make("install", f"PREFIX={tmp}/new/prefix")
    make("uninstall", f"PREFIX={tmp}/new/prefix")
    assert entries(tmp) == {"new"}, entries(tmp)
    assert "nothing is installed" in make("uninstall", f"PREFIX={tmp}/new/prefix", fails=True)


def foreign_files_stay(tmp: pathlib.Path) -> None:
    """Files and directories of others in the same prefix, also empty ones; installed twice."""
    for name in ("bin", "lib/pkgconfig", "etc"):
        (tmp / name).mkdir(parents=True)
    (tmp / "bin/other").write_text("other")
    before = entries(tmp)
    for _ in range(2):
        make("install", f"PREFIX={tmp}")
    (tmp / "include/other.h").write_text("other")
    make("uninstall", f"PREFIX={tmp}")
    assert entries(tmp) == before | {"include", "include/other.h"}, entries(tmp) ^ before


def newer_version(tmp: pathlib.Path) -> None:
    """A file that the next version has no more is removed; a running program keeps its library."""
    old = tmp / "old"
    shutil.copytree(DIST, old, symlinks=True)
    (old / "bin/gone").write_text("gone")
    make("install", f"DIST={old}", f"PREFIX={tmp}/place")
    library = tmp / "place/lib/libmpi_abi.so.1"
    inode = library.stat().st_ino
    with library.open("rb") as held:
        make("install", f"PREFIX={tmp}/place")
        assert os.fstat(held.fileno()).st_ino == inode != library.stat().st_ino, "the library was overwritten in place"
    assert not (tmp / "place/bin/gone").exists()
    make("uninstall", f"PREFIX={tmp}/place")
    assert entries(tmp) == {"old"} | {f"old/{name}" for name in entries(old)}


def nothing_built(tmp: pathlib.Path) -> None:
    assert "make build first" in make("install", f"DIST={tmp}/none", f"PREFIX={tmp}/place", fails=True)
    assert entries(tmp) == set()


def in_open_folder(case: Callable[[pathlib.Path], None], place: pathlib.Path) -> None:
    place.chmod(0o755)  # For the other user.
    case(place)


def main() -> int:
    each = (owners_and_modes, moved_and_run, pages_beside_those_of_others, uninstall_leaves_nothing, foreign_files_stay, newer_version, nothing_built)
    return cases.run("install", [(case.__name__, functools.partial(in_open_folder, case)) for case in each], below="/tmp")  # The other user may not be able to enter TMPDIR.


if __name__ == "__main__":
    sys.exit(main())
