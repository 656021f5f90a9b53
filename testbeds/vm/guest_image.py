"""What guests boot: the kernel of Debian's package, and an archive of busybox, a few modules and the files that a test wants."""

from __future__ import annotations

import lzma
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterable

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STORE = ROOT / "build/vm"
#: Modules that guests load, with what they need.
MODULES = ["virtio_pci", "virtio_net"]


class Unavailable(Exception):
    """Why there can be no guests here."""


def kernel() -> pathlib.Path:
    """The uncompressed kernel: QEMU starts it at once, without a boot loader that would be emulated."""
    done = STORE / "vmlinux"
    if not done.exists():
        _unpack()
        packed = next((STORE / "kernel/boot").glob("vmlinuz-*")).read_bytes()
        start = packed.find(b"\xfd7zXZ\0")
        while start >= 0:
            try:
                plain = lzma.LZMADecompressor().decompress(packed[start:])
                if plain.startswith(b"\x7fELF"):
                    done.write_bytes(plain)
                    return done
            except lzma.LZMAError:
                pass
            start = packed.find(b"\xfd7zXZ\0", start + 1)
        raise Unavailable("the kernel's package has an image that is not packed with xz")
    return done


def _unpack() -> None:
    """Downloads the kernel's package, as apt names it, and keeps what is needed."""
    STORE.mkdir(parents=True, exist_ok=True)
    about = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=False).stdout
    name = re.search(r"Depends: (linux-image-\S+)", about)
    if not name:
        raise Unavailable("apt knows no linux-image-amd64")
    download = subprocess.run(["apt-get", "download", "-qq", name[1]], cwd=STORE, capture_output=True, text=True, check=False)
    package = next(STORE.glob("linux-image-*.deb"), None)
    if download.returncode or not package:
        raise Unavailable(f"cannot download {name[1]}: {download.stderr.strip()[-200:]}")
    wanted = ["./boot/vmlinuz*", "*/kernel/drivers/virtio/*", "*/kernel/drivers/net/virtio_net*", "*/kernel/drivers/net/net_failover*", "*/kernel/net/core/*"]
    (STORE / "kernel").mkdir(exist_ok=True)
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as tar:
        unpack = ["tar", "-x", "-C", str(STORE / "kernel"), "--wildcards", *wanted]
        subprocess.run(unpack, stdin=tar.stdout, check=True, stderr=subprocess.DEVNULL)
    package.unlink()


def modules() -> list[pathlib.Path]:
    """Their files, each after those that it needs."""
    files = {re.sub(r"\.ko.*", "", path.name).replace("-", "_"): path for path in (STORE / "kernel/lib/modules").rglob("*.ko*")}
    order: list[pathlib.Path] = []

    def add(name: str) -> None:
        path = files.get(name.replace("-", "_"))
        if path is None or path in order:
            return
        needs = subprocess.run(["modinfo", "-F", "depends", str(path)], capture_output=True, text=True, check=True).stdout
        for needed in needs.strip().split(","):
            add(needed)
        order.append(path)

    for name in MODULES:
        add(name)
    return order


class Archive:
    """A cpio archive of the kind that the kernel unpacks."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.made: set[str] = set()

    def _entry(self, name: str, mode: int, data: bytes) -> None:
        fields = [len(self.parts) + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        self.parts.append(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))

    def directory(self, name: str) -> None:
        """With all above it."""
        parent, _, _ = name.rpartition("/")
        if parent:
            self.directory(parent)
        if name and name not in self.made:
            self.made.add(name)
            self._entry(name, 0o040755, b"")

    def file(self, name: str, data: bytes, mode: int = 0o100755) -> None:
        """At a path without a slash in front."""
        self.directory(name.rpartition("/")[0])
        if name not in self.made:
            self.made.add(name)
            self._entry(name, mode, data)

    def write(self, path: pathlib.Path) -> None:
        """Ends it."""
        self._entry("TRAILER!!!", 0, b"")
        path.write_bytes(b"".join(self.parts))


def archive(path: pathlib.Path, programs: Iterable[pathlib.Path]) -> None:
    """Writes the archive with `programs` and the libraries that they need, at the paths which they have here."""
    made = Archive()
    for name in ("proc", "sys", "dev", "tmp", "modules"):
        made.directory(name)
    busybox = shutil.which("busybox")
    if not busybox:
        raise Unavailable("there is no busybox")
    made.file("bin/busybox", pathlib.Path(busybox).read_bytes())
    programs = [*programs, pathlib.Path(busybox)]
    made.file("init", (HERE / "init").read_bytes())
    door = STORE / "door"
    subprocess.run(["cc", "-static", "-O1", "-o", str(door), str(HERE / "door.c")], check=True)
    made.file("door", door.read_bytes())
    order = modules()
    for module in order:
        data = module.read_bytes()
        made.file(f"modules/{module.stem if module.suffix == '.xz' else module.name}", lzma.decompress(data) if module.suffix == ".xz" else data)
    made.file("modules/order", "".join(f"{m.stem if m.suffix == '.xz' else m.name}\n" for m in order).encode())
    for program in programs:
        made.file(str(program).lstrip("/"), program.read_bytes())
        needs = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(?:=> )?(/\S+) \(0x", needs):
            made.file(library.lstrip("/"), pathlib.Path(os.path.realpath(library)).read_bytes())
    made.write(path)
