"""The root file system and image that all engines use: a small Debian, made once and kept in build/containers."""

from __future__ import annotations

import fcntl
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STORE = ROOT / "build/containers"
#: What containers see of the host, read only, at its own path: the product, test programs and the peers of benchmarks. Not the whole
#: repository: a socket in a directory that is mounted read only can be connected to, and containers that share nothing must share nothing.
VISIBLE = (ROOT / "dist", STORE / "bin", ROOT / "build/peers")
#: The directory that containers share when a test wants one, the same path on all sides.
SHARED = "/run/shared"
PACKAGES = "libc6,libgcc-s1,libstdc++6,bash,coreutils,grep,sed,util-linux,mount,procps,iproute2,base-passwd"
#: Changes whenever the contents change, so that an old image is made anew.
VERSION = "5"
TAG = f"ferrule-bed:{VERSION}"


def codename() -> str:
    """The release of this host, which is also the image's, so that programs compiled here find their libraries there."""
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip('"')
    return "bookworm"


def rootfs() -> pathlib.Path:
    """The root file system as a directory. Takes about ten seconds the first time and needs the network then."""
    tree = STORE / f"rootfs-{VERSION}"
    for place in VISIBLE:
        place.mkdir(parents=True, exist_ok=True)
    with open(STORE / "rootfs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (tree / "done").exists():
            return tree
        for old in STORE.glob("rootfs-*"):
            shutil.rmtree(old, ignore_errors=True)
        command = ["mmdebstrap", "--variant=extract", f"--include={PACKAGES}", "--quiet", codename(), str(tree)]
        made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
        if made.returncode:
            raise RuntimeError(f"mmdebstrap failed: {made.stdout[-500:]}")
        _complete(tree)
        (tree / "done").touch()
    return tree


def _complete(tree: pathlib.Path) -> None:
    """What the packages' scripts, which are not run, would have done; and places to mount things at."""
    for name in ("doc", "man", "locale", "info", "zoneinfo"):
        shutil.rmtree(tree / "usr/share" / name, ignore_errors=True)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\nbed:x:1000:1000::/tmp:/bin/bash\n")
    (tree / "etc/group").write_text("root:x:0:\nbed:x:1000:\n")
    for name in ("etc/hosts", "etc/resolv.conf", "etc/hostname"):
        (tree / name).touch()
    for place in (*map(str, VISIBLE), SHARED, "/root", "/mnt"):
        (tree / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
    if not (tree / "bin/sh").exists():
        (tree / "bin/sh").symlink_to("bash")
    (tree / "tmp").chmod(0o1777)
