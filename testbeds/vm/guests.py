"""Virtual machines for a test: QEMU guests on a bridge of their own, some with a device that shows them memory in common.

    with guests.Bed(programs) as bed:          inside of `guests.enter()`, see below
        bed.start("vm1"), bed.start("vm2"), bed.start("vm3", region=False)
        bed.wait()
        bed.run("vm1", "uname -r")

All of it lives in namespaces that vanish with the process which has called `enter`: guests, bridge, the region's file in a private /dev/shm.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
import enclosure
import guest_image
from guest_image import Unavailable

MARK = "VM_BED"
HOST = "10.91.0.1"
#: The region's file as the host sees it.
REGION = pathlib.Path("/dev/shm/ivshmem")
REGION_MIB = 16
BOOT_S = 180.0
#: `-smp 1` alone makes QEMU drop the lock prefix, and atomics between machines fail.
MACHINE = ["-accel", "tcg", "-machine", "q35", "-cpu", "max", "-smp", "1,maxcpus=2", "-m", "384M", "-nodefaults", "-display", "none", "-no-reboot"]


def is_inside() -> bool:
    """Whether this process runs in the bed's namespaces."""
    return MARK in os.environ


def unavailable() -> str | None:
    """Why no bed can be had here, or nothing. Gets what is missing."""
    if os.geteuid() != 0:
        return "the testbed of VMs needs root"
    if subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True, check=False).returncode:
        return "this machine doesn't let root make namespaces"
    prepared = subprocess.run([str(guest_image.ROOT / "examples/prepare.sh"), "vm"], capture_output=True, text=True, check=False)
    if prepared.returncode or not shutil.which("qemu-system-x86_64"):
        return f"no QEMU can be had: {prepared.stderr.strip()[-200:]}"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun"
    try:
        guest_image.kernel()
    except Unavailable as why:
        return str(why)
    return None


def enter() -> int:
    """Runs this script again inside; returns its exit code."""
    words = [sys.executable, *sys.argv]
    return enclosure.run(words, dict(os.environ, **{MARK: "1"}))


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def _tap(name: str, bridge: str) -> None:
    _run("ip", "tuntap", "add", "dev", name, "mode", "tap")
    _run("ip", "link", "set", name, "master", bridge, "up")


class Bed:
    """Guests by name."""

    #: More words for the kernel, which `init` reads.
    KERNEL_WORDS = ""

    def __init__(self, programs: Iterable[pathlib.Path]) -> None:
        self.guests: dict[str, subprocess.Popen[bytes]] = {}
        _run("mount", "-t", "tmpfs", "none", "/dev/shm")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "bed", "type", "bridge")
        _run("ip", "addr", "add", f"{HOST}/24", "dev", "bed")
        _run("ip", "link", "set", "bed", "up")
        self.clear_region()
        guest_image.archive(pathlib.Path("/dev/shm/guest.cpio"), programs)

    def __enter__(self) -> Bed:
        return self

    def __exit__(self, *_: object) -> None:
        for guest in self.guests.values():
            guest.kill()
        for guest in self.guests.values():
            guest.wait()

    def clear_region(self) -> None:
        """All zeroes, in place: guests have it mapped."""
        with open(REGION, "r+b" if REGION.exists() else "wb") as file:
            file.write(bytes(REGION_MIB << 20))

    @staticmethod
    def address(name: str) -> str:
        """Of a guest called vmN."""
        return f"10.91.0.{10 + int(name.removeprefix('vm'))}"

    def start(self, name: str, region: bool = True, more: Iterable[str] = (), host: str = "") -> None:
        """Begins to boot, with more words for QEMU. `host` sets apart two that are to run the same guest, one after the other."""
        process = name + host
        _tap(process, "bed")
        device = ["-object", f"memory-backend-file,id=memory,mem-path={REGION},size={REGION_MIB}M,share=on", "-device", "ivshmem-plain,memdev=memory"]
        mac = f"52:54:00:91:00:{10 + int(name.removeprefix('vm')):02x}"
        network = ["-netdev", f"tap,id=net,ifname={process},script=no,downscript=no", "-device", f"virtio-net-pci,netdev=net,mac={mac}"]
        kernel = ["-kernel", str(guest_image.kernel()), "-initrd", "/dev/shm/guest.cpio", "-append",
                  f"console=ttyS0 quiet panic=-1 tsc=unstable random.trust_cpu=on guest={name} address={self.address(name)} {self.KERNEL_WORDS}"]
        log = open(f"/dev/shm/{process}.log", "wb")
        words = ["nice", "-n", "10", "qemu-system-x86_64", *MACHINE, *network, *(device if region else []), *kernel, "-serial", "stdio", *more]
        self.guests[process] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def log(self, name: str) -> str:
        """What a guest has said on its console."""
        return pathlib.Path(f"/dev/shm/{name}.log").read_text(errors="replace")

    def wait(self) -> float:
        """Until all guests are up; seconds."""
        begin = time.monotonic()
        for name, guest in self.guests.items():
            while f"guest {name} is up" not in self.log(name):
                if guest.poll() is not None or time.monotonic() - begin > BOOT_S:
                    raise RuntimeError(f"{name} does not come up: {self.log(name)[-1000:]}")
                time.sleep(0.1)
        return time.monotonic() - begin

    def run(self, name: str, command: str) -> str:
        """Runs a command in a guest; what it says."""
        words = [sys.executable, str(HERE / "remote.py"), self.address(name), "sh", "-c", command]
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False).stdout

    def kill(self, name: str) -> None:
        """Ends a guest as if its host had pulled the plug."""
        self.guests[name].kill()
        self.guests.pop(name).wait()
        _run("ip", "link", "del", name)
