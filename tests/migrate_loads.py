"""Jobs that `ferrule migrate` moves to and fro twenty times under one kind of traffic each (tests/c/migration/loads.c): a part of tests/migrate.py.

Both hosts are virtual machines of the script driver. A machine has one address of the ranks' network here, and another one there.
"""

from __future__ import annotations

import json
import pathlib
import re

from migration_job import Job, check

import lane_bed

LOADS = ("pingpong", "collectives", "nonblocking", "derived", "onesided", "fft")
MOVES = 20
#: Mappings that a rank may have more after all moves: the library's own buffers grow a little, what is lost with each move would be as many as there are moves.
MAPPINGS_MAX = 5


def write_config(place: pathlib.Path) -> pathlib.Path:
    """The driver's script and the file that describes both machines."""
    program = place / "mover"
    program.write_text("""#!/bin/sh
number=${2#guest}
case $3 in here) address=10.45.1.$number ;; there) address=10.45.1.7$number ;; *) exit 9 ;; esac
case $1 in
  detach) ip -n "n$number" addr flush dev eth1 ;;
  attach-destination) ip -n "n$number" addr replace "$address/24" dev eth1 ;;
  check|migrate) ;;
  *) echo "nothing has failed, so there is no $1" >&2; exit 8 ;;
esac
""")
    program.chmod(0o755)
    config = place / "movers.json"
    config.write_text(json.dumps({"vms": {f"guest{i}": {"driver": "script", "host": f"n{i}", "program": str(program)} for i in (1, 2)}}))
    config.chmod(0o600)
    return config


def addresses(bed: lane_bed.Bed, job: Job, moved: dict[str, bool]) -> None:
    """Every rank's connections are at the hosts' present addresses."""
    for number, name in enumerate(bed.names, 1):
        old = f"10.45.1.{number}" if moved[f"guest{number}"] else f"10.45.1.7{number}"
        check(not job.connections(name, old), f"{name} still has connections at {old}")


def to_and_fro(bed: lane_bed.Bed, folder: str, load: str) -> str:
    """Twenty migrations of one machine, the other, or both; what the job said. Nothing is lost, doubled or reordered, results are the same bit by bit, nothing leaks."""
    config = write_config(pathlib.Path(folder))
    moved = {"guest1": False, "guest2": False}
    job = Job(bed, folder, load, program="loads")
    try:
        for move in range(MOVES):
            # One machine there and back, the other one, and both at the same time.
            names = (["guest2"], ["guest1"], ["guest1", "guest2"])[move // 2 % 3]
            to = "here" if moved[names[0]] else "there"
            words = [word for name in names for word in ("--vm", name)]
            code, said = job.ferrule("migrate", "--config", str(config), *words, "--to", to)
            check(code == 0 and all(f"{name} runs on {to}" in said for name in names), f"move {move} of {names} to {to}: {said}")
            moved.update((name, to == "there") for name in names)
            addresses(bed, job, moved)
        said = job.end().strip().splitlines()[-1]
    finally:
        job.kill()
    found = re.search(r"rounds (\d+), .* mappings more at the end (-?\d+)", said)
    check(found is not None and int(found[1]) > MOVES // 2 and int(found[2]) <= MAPPINGS_MAX, f"mappings are left, or too few rounds were made: {said}")
    return said
