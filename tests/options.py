#!/usr/bin/env python3
"""Every option of mpiexec.hydra and of Open MPI's mpirun, one by one: honoured, refused with what to do instead, or without effect.

    tests/options.py [-k WORD]       tries the options whose names have WORD in them
    tests/options.py --write         writes docs/user/options.md from tests/options.toml

The list of options comes from the programs themselves (build/peers): an option that tests/options.toml lacks is a failure, and so is one there that
the program doesn't know.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import patience

ROOT = pathlib.Path(__file__).resolve().parent.parent
MPIEXEC = str(ROOT / "dist/bin/mpiexec")
HYDRA = str(ROOT / "build/peers/mpich/bin/mpiexec.hydra")
MPIRUN = str(ROOT / "build/peers/openmpi/bin/mpirun")
MANUAL = ROOT / "build/peers/openmpi/share/prte/help-prterun.txt"
TABLE, PAGE = ROOT / "tests/options.toml", ROOT / "docs/user/options.md"
EFFECTS = {"honoured": "honoured", "refused": "refused", "ignored": "ignored, with a warning", "none": "no effect"}
#: Sections of Open MPI's manual that are about no option.
TOPICS = {"version", "usage", "multiple-default-hostfiles"}

UNIVERSE = r"""
#include <mpi.h>
#include <stdio.h>
int main(void) {
  int *size, flag;
  MPI_Init(NULL, NULL);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &size, &flag);
  printf("%d\n", flag ? *size : -1);
  MPI_Finalize();
  return 0;
}
"""

HEAD = """# Options of other launchers

`mpiexec` reads the options of Hydra (MPICH's `mpiexec.hydra`) and of Open MPI's `mpirun`; one dash or two make no difference. Each is honoured, or refused with what to
do instead, and then nothing is started. Options that change only what is shown are ignored with a warning. Others are how things are anyway. `mpiexec --help` lists
all that `mpiexec` has, and so does [options.md](../reference/options.md).

## Where ranks run, and on which processors
A rank file says it for each rank, one line each: `rank N=HOST slot=CORES`. `#` begins a comment.

| written | means |
|---|---|
| `rank 0=a slot=0-2,5` | cores 0, 1, 2 and 5 of host a |
| `rank 1=a slot=1:0-2` | cores 0 to 2 of package (socket) 1 |
| `rank 2=+n1 slot=1:*` | the second host of `-hosts` or of the host file; all cores of package 1 (also `s1`) |
| `rank 3=b slot=0:1;1:0` | several, with semicolons; `*` alone is the whole host |

- Cores and packages are counted as hwloc counts them, of those that the job may use. With `--bind-to hwthread` the numbers are hardware threads; with `--bind-to none` the file only says
  where ranks run.
- Without `-n` the job has as many ranks as the file; with several programs each needs `-n`. Lines of ranks that the job doesn't have are left out. Two ranks may share a core.
- Hosts that are named by `-hosts`, `-host` or a host file must have those of the rank file among them. If none are named, the file's are the job's hosts.
- A wrong line is told with file and line. A line has at most 4096 bytes, the file 64 MiB.

Hydra has no rank files. Its `-rankmap 0,0,1` numbers the host of each rank from 0; `(0,2,4)` stands for two hosts from number 0 on, with four ranks each. A map that is
shorter than the job begins anew.

`--cpu-set 0,2-5` (`--cpu-list`, `--map-by pe-list=`) limits ranks to these processors of each host, by the system's numbers. `--bind-to` divides them; else each rank gets them all.

Ranks that get several cores or hardware threads (`PE=N`, `core:N`, a rank file) find `OMP_NUM_THREADS`, `OMP_PLACES` and `OMP_PROC_BIND=close` in their environment, so that OpenMP
runs one thread on each. If the user has set any of the three, all three stay as the user has them.

## All options of both
"""


@dataclasses.dataclass
class Option:
    """An entry of the table."""

    names: list[str]
    manual: str
    effect: str
    note: str
    words: str
    trials: list[dict[str, Any]]


def table() -> list[Option]:
    entries = tomllib.loads(TABLE.read_text())["option"]
    return [Option(e["names"], e["in"], e["effect"], e["note"], e.get("words", ""), e.get("try", [])) for e in entries]


def page(options: list[Option]) -> str:
    """The page for users."""
    manuals = {"hydra": "Hydra", "openmpi": "Open MPI", "both": "both"}
    lines = ["| option | of | what happens | |", "|---|---|---|---|"]
    for option in sorted(options, key=lambda o: o.names[0].lstrip("-").lower()):
        names = ", ".join(f"`{name}`" for name in option.names)
        note = option.note.replace("|", "\\|")
        lines.append(f"| {names} | {manuals[option.manual]} | {EFFECTS[option.effect]} | {note} |")
    return HEAD + "\n" + "\n".join(lines) + "\n"


def hydra_manual() -> set[str]:
    text = subprocess.run([HYDRA, "--help"], capture_output=True, text=True, timeout=patience.WATCHDOG_S).stdout
    lines = [line.split("  ", 1)[0] for line in re.findall(r"^    (-.*)", text, re.M)]
    names = {f"-{name.lstrip('-')}" for line in lines for name in line.split(" ")[0].split("/")}
    if len(names) < 40:
        raise AssertionError(f"mpiexec.hydra --help can't be read: {names}")
    return names


def openmpi_manual() -> set[str]:
    """The options of its tables and those with sections of their own."""
    text = MANUAL.read_text()
    usage = text[text.index("\n[usage]"):text.index("\n[dvm]")]
    deprecated = text[text.index("\n[placement-deprecated]"):text.index("\n[placement-diagnostics]")]
    names = set(re.findall(r'"(--?[A-Za-z][\w-]*)(?=[" ])', usage + deprecated))
    sections = {name for name in re.findall(r"^\[([\w-]+)\]", text, re.M) if name not in TOPICS and not name.startswith("placement")}
    # A name may go on in the next line of its table; its section has it whole.
    names = {name for name in names if not name.endswith("-")} | {f"--{name}" if len(name) > 1 else f"-{name}" for name in sections}
    if len(names) < 100:
        raise AssertionError(f"{MANUAL} can't be read: {names}")
    return names


def known(program: str, name: str) -> bool:
    """Whether the other launcher knows the option."""
    if program == "hydra":
        done = subprocess.run([HYDRA, name, "--help"], capture_output=True, text=True, timeout=patience.WATCHDOG_S)
        return "unrecognized argument" not in done.stdout + done.stderr
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([MPIRUN, name, "1"], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, timeout=patience.WATCHDOG_S)
    return "unrecognized option" not in done.stdout + done.stderr


def bare(names: set[str] | list[str]) -> set[str]:
    return {name.lstrip("-") for name in names}


def check_manuals(options: list[Option]) -> list[str]:
    """What the table lacks of the manuals, and what it has that the programs don't."""
    wrong = []
    for program, manual in (("hydra", hydra_manual()), ("openmpi", openmpi_manual())):
        listed = {name for option in options if option.manual in (program, "both") for name in option.names}
        wrong += [f"{program}: {name} is in the manual and not in {TABLE.name}" for name in sorted(manual) if name.lstrip("-") not in bare(listed)]
        for name in sorted(listed):
            is_of_both = any(name in option.names and option.manual == "both" for option in options)
            if name.lstrip("-") not in bare(manual) and not is_of_both and not known(program, name):
                wrong.append(f"{program}: {name} is in {TABLE.name}, and the program doesn't know it")
    return wrong


class Trial:
    """Runs mpiexec and compares."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        cpu = str(min(os.sched_getaffinity(0)))
        self.places = {"{tmp}": str(folder), "{cpu}": cpu, "{mask}": "nproc", "{universe}": str(folder / "universe"),
                       "{cpus}": "awk '/Cpus_allowed_list/{print $2}' /proc/self/status"}
        (folder / "hosts").write_text("one\ntwo\nthree\n")
        (folder / "config").write_text("-n 1 echo one\n-n 2 echo two\n")
        (folder / "ranks").write_text("rank 1=one slot=0\nrank 0=two slot=0\n")
        (folder / "universe.c").write_text(UNIVERSE)
        subprocess.run([str(ROOT / "dist/bin/mpicc"), "-o", str(folder / "universe"), str(folder / "universe.c")], check=True)

    def fill(self, text: str, name: str) -> str:
        for place, value in {**self.places, "{name}": name}.items():
            text = text.replace(place, value)
        return text

    def run(self, words: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("FERRULE_", "OMP_", "SLURM_"))}
        env.update(B="b", BB="bb", C="c")
        return subprocess.run([MPIEXEC, *words], env=env, input=text, capture_output=True, text=True, cwd=self.folder, timeout=patience.WATCHDOG_S)

    def honoured(self, name: str, trial: dict[str, Any]) -> str | None:
        """What is wrong with one use of an option, or nothing."""
        # A rank file without hosts names its own; here all hosts are this one.
        words = shlex.split(self.fill(trial["run"], name))
        if "--launcher" not in words and any("ranks" in word for word in words):
            words = ["--launcher", "fork", *words]
        done = self.run(words, trial.get("in", ""))
        shown = f"mpiexec {shlex.join(words)}: exit code {done.returncode}\n{done.stdout[-400:]}{done.stderr[-400:]}"
        if done.returncode != trial.get("code", 0):
            return f"expected exit code {trial.get('code', 0)}: {shown}"
        for stream, text in (("out", done.stdout), ("err", done.stderr)):
            pattern = self.fill(trial.get(stream, ""), name)
            if not re.search(pattern, text, re.M):
                return f"'{pattern}' is not in what it printed: {shown}"
        if trial.get("code", 0) == 2 and "ran" in done.stdout.split():
            return f"the program ran: {shown}"
        if "file" in trial:
            file = self.folder / trial["file"]
            if not file.exists() or not re.search(trial["has"], file.read_text(), re.M):
                return f"{file} hasn't '{trial['has']}': {shown}"
        return None

    def other(self, option: Option, name: str) -> str | None:
        words = shlex.split(self.fill(option.words, name))
        done = self.run([name, *words, "-n", "1", "echo", "ran"])
        shown = f"mpiexec {name} {option.words}: exit code {done.returncode}\n{done.stdout[-400:]}{done.stderr[-400:]}"
        ran = done.stdout == "ran\n" and done.returncode == 0
        if option.effect == "refused":
            plain = done.returncode == 2 and not done.stdout and "is not supported: " in done.stderr and name.lstrip("-") in done.stderr
            return None if plain and option.note in done.stderr else f"not refused with '{option.note}': {shown}"
        if option.effect == "ignored":
            warned = re.search(rf"warning: option -+{re.escape(name.lstrip('-'))}\b.* is ignored", done.stderr)
            return None if ran and warned else f"not ignored with a warning: {shown}"
        return None if ran and not done.stderr else f"it has an effect: {shown}"

    def option(self, option: Option) -> list[str]:
        if option.effect != "honoured":
            return [wrong for name in option.names if (wrong := self.other(option, name))]
        if not option.trials:
            return [f"{option.names[0]} is honoured, and nothing shows it"]
        return [wrong for name in option.names for trial in option.trials if (wrong := self.honoured(name, trial))]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-k", default="", metavar="WORD")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    options = table()
    if arguments.write:
        PAGE.write_text(page(options))
        return 0
    passed = 0
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(pathlib.Path(folder))
        for option in (option for option in options if any(arguments.k in name for name in option.names)):
            wrong = trial.option(option)
            faults += wrong
            passed += not wrong
    whole = [] if arguments.k else check_manuals(options)
    if not arguments.k and (not PAGE.exists() or PAGE.read_text() != page(options)):
        whole.append(f"{PAGE.relative_to(ROOT)} is not what tests/options.py --write makes")
    faults += whole
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"options: {passed} passed, {len(faults)} failed, 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
