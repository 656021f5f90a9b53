"""Guests that move: two QEMU processes for each, as on two hosts, with a network of the ranks' own that is unplugged and plugged again.

    with moving.Bed(programs) as bed:          inside of `guests.enter()`
        bed.start_here("vm1"); bed.wait()
        bed.start_there("vm1")
        bed.config(path)                       for `ferrule migrate --config`

eth0 of a guest is for mpiexec and the agents, and moves with it. eth1 is the ranks', behind a port of its own; at the destination it has another MAC and
another address. The host's end of that network is called eth1, too, so that one FERRULE_LISTEN fits all.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time

import guests
from guests import _run, _tap

#: Set apart the QEMU processes of a guest.
HERE, THERE = "a", "b"
#: What is added to the last byte of addresses at the destination.
SHIFT = 20


def number(name: str, place: str) -> int:
    """The last byte of MAC and address in the ranks' network."""
    return 10 + int(name.removeprefix("vm")) + (SHIFT if place == THERE else 0)


def monitor(name: str, place: str) -> pathlib.Path:
    """The socket of a QEMU process."""
    return pathlib.Path(f"/dev/shm/{name}{place}.qmp")


class Bed(guests.Bed):
    """Guests by name and place: vm1a and vm1b are vm1, before and after."""

    KERNEL_WORDS = "ranks=1"

    def __init__(self, programs: list[pathlib.Path]) -> None:
        super().__init__(programs)
        _run("ip", "link", "add", "eth1", "type", "bridge")
        _run("ip", "addr", "add", "10.92.0.1/24", "dev", "eth1")
        _run("ip", "link", "set", "eth1", "up")

    def __enter__(self) -> Bed:
        return self

    def _words(self, name: str, place: str) -> list[str]:
        return ["-device", "pcie-root-port,id=ranks-port,chassis=1,slot=1,bus=pcie.0,addr=0x10", "-qmp", f"unix:{monitor(name, place)},server=on,wait=off"]

    def start_here(self, name: str) -> None:
        """Begins to boot at the source."""
        tap = f"{name}r{HERE}"
        _tap(tap, "eth1")
        mac = f"52:54:00:92:00:{number(name, HERE):02x}"
        ranks = ["-netdev", f"tap,id=ranks,ifname={tap},script=no,downscript=no", "-device", f"virtio-net-pci,id=nic,netdev=ranks,mac={mac},bus=ranks-port,romfile="]
        self.start(name, region=False, more=[*self._words(name, HERE), *ranks], host=HERE)

    def start_there(self, name: str) -> None:
        """A QEMU that waits for the guest."""
        _tap(f"{name}r{THERE}", "eth1")
        self.start(name, region=False, more=[*self._words(name, THERE), "-incoming", f"unix:/dev/shm/{name}.memory"], host=THERE)
        deadline = time.monotonic() + 30
        while not (monitor(name, THERE).exists() and pathlib.Path(f"/dev/shm/{name}.memory").exists()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name}{THERE} does not come up: {self.log(name + THERE)}")
            time.sleep(0.1)

    def wait(self) -> float:
        """Until all guests at the source are up, with both of their networks; seconds."""
        begin = time.monotonic()
        for name in [name.removesuffix(HERE) for name in self.guests if name.endswith(HERE)]:
            while f"guest {name} is up" not in self.log(name + HERE) or not answers(f"10.92.0.{number(name, HERE)}"):
                if self.guests[name + HERE].poll() is not None or time.monotonic() - begin > guests.BOOT_S:
                    raise RuntimeError(f"{name} does not come up: {self.log(name + HERE)[-1000:]}")
                time.sleep(0.1)
        return time.monotonic() - begin

    def config(self, path: pathlib.Path, names: list[str], **more: object) -> None:
        """Describes the guests; `more` are settings of all."""
        path.write_text(json.dumps({"vms": {name: self._vm(name) | more for name in names}}, indent=2))
        path.chmod(0o600)

    def _vm(self, name: str) -> dict[str, object]:
        def mac(place: str) -> str:
            return f"52:54:00:92:00:{number(name, place):02x}"

        return {
            "driver": "qmp",
            "source": f"unix:{monitor(name, HERE)}",
            "destinations": {"there": {
                "monitor": f"unix:{monitor(name, THERE)}",
                "uri": f"unix:/dev/shm/{name}.memory",
                "devices": {"nic": {"netdev": {"ifname": f"{name}r{THERE}"}, "device": {"mac": mac(THERE)}}},
            }},
            "devices": [{
                "netdev": {"id": "ranks", "type": "tap", "ifname": f"{name}r{HERE}", "script": "no", "downscript": "no"},
                "device": {"id": "nic", "driver": "virtio-net-pci", "netdev": "ranks", "mac": mac(HERE), "bus": "ranks-port", "romfile": ""},
            }],
            "parameters": {"max-bandwidth": 1 << 32},
            "ready": [sys.executable, str(pathlib.Path(__file__).resolve()), name],
        }


def answers(address: str) -> bool:
    """Whether a guest can be reached there."""
    return subprocess.run([sys.executable, "-c", f"import socket; socket.create_connection(({address!r}, 23), 1)"], stderr=subprocess.DEVNULL).returncode == 0


def main() -> int:
    """As the "ready" command: whether the guest can be reached over the ranks' network of its present place."""
    place = HERE if os.environ["FERRULE_AT"] == "source" else THERE
    return 0 if answers(f"10.92.0.{number(sys.argv[1], place)}") else 1


if __name__ == "__main__":
    sys.exit(main())
