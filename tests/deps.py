#!/usr/bin/env python3
"""`make deps` (examples/prepare.sh, mk/packages.sh) with stand-ins for apt-get, dnf and zypper: what it says, and what an interruption leaves behind.

Nothing is installed and no root is needed: PATH holds the stand-ins and a few tools only, and the policy against services is a file of the test.

Usage: tests/deps.py
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import cases
import patience

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = {"build": [str(ROOT / "examples/prepare.sh"), "build"], "containers": [str(ROOT / "testbeds/containers/prepare.sh")]}
TOOLS = ("sh", "env", "cut", "grep", "rm", "tee", "chmod", "flock", "id", "dirname", "mktemp", "uname", "sha256sum", "cat", "sleep", "touch")
#: What `prepare.sh build test` installs on a machine that has Rust and nothing else, but for what has headers or lies in /sbin, which the test sees of this machine.
NAMES = {
    "dnf": "gcc make python3 python3-pip valgrind tcl ucx gcc-gfortran groff-base zsh fish mmdebstrap",
    "zypper": "gcc make python3 python3-pip valgrind tcl ucx-tools gcc-fortran groff zsh fish",
}
#: How each is called, before the packages.
WORDS = {"dnf": "install -y -q --setopt=install_weak_deps=False", "zypper": "--non-interactive --quiet install --no-recommends"}

#: Notes each call, says what the policy answers, and waits where the test wants that.
APT = """#!/bin/sh
echo "$@" >> "$BED/calls"
"$POLICY_RC_D"; echo $? > "$BED/answer"
touch "$BED/begun"
[ -z "${APT_SLEEP:-}" ] || sleep "$APT_SLEEP"
"""
#: Notes each call; refuses packages that the test names.
RPM = """#!/bin/sh
echo "$@" >> "$BED/calls"
for word; do [ "$word" != "${REFUSE:-}" ] || exit 1; done
"""
CURL = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" != -o ] || echo 'echo no rustup; exit 9' > "$2"; shift; done
"""


def signals_as_in_a_terminal() -> None:
    """A shell can't trap what is ignored when it starts, as under nohup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Bed:
    """A directory with stand-ins, and the policy file that the scripts make."""

    def __init__(self, place: pathlib.Path) -> None:
        self.place = place
        self.policy = place / "policy-rc.d"
        (place / "bin").mkdir()
        (place / "tmp").mkdir()
        (place / "home").mkdir()
        for tool in TOOLS:
            (place / "bin" / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
        self.stand_in("apt-get", APT)
        self.stand_in("sudo", '#!/bin/sh\nexec "$@"\n')
        self.stand_in("cargo", "#!/bin/sh\n")

    def stand_in(self, name: str, text: str) -> None:
        path = self.place / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def start(self, script: str, **more: str) -> subprocess.Popen[str]:
        # The script puts /usr/sbin and /sbin behind PATH: engines that are installed there are found, which is no matter.
        env = {"PATH": str(self.place / "bin"), "HOME": str(self.place / "home"), "TMPDIR": str(self.place / "tmp"), "BED": str(self.place),
               "POLICY_RC_D": str(self.policy), **more}
        return subprocess.Popen(SCRIPTS[script], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                preexec_fn=signals_as_in_a_terminal)

    def run(self, script: str, **more: str) -> tuple[int, str]:
        process = self.start(script, **more)
        out, errors = process.communicate(timeout=patience.WATCHDOG_S)
        return process.returncode, out + errors

    def calls(self) -> str:
        path = self.place / "calls"
        return path.read_text() if path.exists() else ""

    def check_clean(self) -> None:
        assert not self.policy.exists(), "the policy against services is left"
        assert not list((self.place / "tmp").iterdir()), "a temporary file is left"


def ends(bed: Bed, script: str) -> None:
    code, text = bed.run(script)
    assert code == 0, text
    assert "will be installed" in text.splitlines()[0], text
    assert (bed.place / "answer").read_text() == "101\n", "services could have been started"
    assert " install " in bed.calls(), bed.calls()
    bed.check_clean()


def interrupted(bed: Bed, script: str, number: signal.Signals, group: bool) -> None:
    process = bed.start(script, APT_SLEEP="1" if not group else "60")
    assert patience.until((bed.place / "begun").exists), "apt-get was not called"
    assert bed.policy.exists()
    (os.killpg if group else os.kill)(process.pid, number)
    _, errors = process.communicate(timeout=patience.WATCHDOG_S)
    assert process.returncode == 128 + number, (process.returncode, errors)
    bed.check_clean()


def killed(bed: Bed, script: str) -> None:
    process = bed.start(script, APT_SLEEP="60")
    assert patience.until((bed.place / "begun").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=patience.WATCHDOG_S)
    assert subprocess.run([str(bed.policy)]).returncode == 0, "services are still kept from starting"
    bed.check_clean()


def killed_then_again(bed: Bed, script: str) -> None:
    process = bed.start(script, APT_SLEEP="60")
    assert patience.until((bed.place / "begun").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=patience.WATCHDOG_S)
    ends(bed, script)


def foreign_policy(bed: Bed, script: str) -> None:
    text = "#!/bin/sh\nexit 101\n"
    bed.policy.write_text(text)
    bed.policy.chmod(0o755)
    assert bed.run(script)[0] == 0
    assert bed.policy.read_text() == text, "the machine's own policy was changed"


def together(bed: Bed, script: str) -> None:
    """Two at a time: neither may remove the policy of the other."""
    processes = [bed.start(script, APT_SLEEP="0.3") for _ in range(2)]
    answers = set()
    while any(process.poll() is None for process in processes):
        path = bed.place / "answer"
        answers.add(path.read_text() if path.exists() else "")
        time.sleep(0.01)
    assert [process.wait() for process in processes] == [0, 0], [process.communicate() for process in processes]
    assert answers <= {"", "101\n"}, answers
    bed.check_clean()


def no_deps(bed: Bed, script: str) -> None:
    code, text = bed.run(script, NO_DEPS="1")
    assert code == 0 and text.startswith("missing:"), text
    assert bed.calls() == ""


def by(manager: str, bed: Bed, script: str) -> None:
    """The packages have the names of that system, each once; one that can't be installed keeps no other away; and what has no name there is told."""
    (bed.place / "bin/apt-get").unlink()
    bed.stand_in(manager, RPM)
    command = [SCRIPTS[script][0], "build", "test"]
    env = {"PATH": str(bed.place / "bin"), "HOME": str(bed.place / "home"), "TMPDIR": str(bed.place / "tmp"), "BED": str(bed.place), "POLICY_RC_D": str(bed.policy)}
    done = subprocess.run(command, env=env | {"REFUSE": "valgrind"}, capture_output=True, text=True)
    assert done.returncode == 0, done
    first, *others = bed.calls().splitlines()
    wanted = NAMES[manager].split()
    assert first.startswith(WORDS[manager] + " "), first
    names = first.removeprefix(WORDS[manager]).split()
    assert not set(wanted) - set(names) and len(set(names)) == len(names), f"{set(wanted) - set(names)} missing in {names}"
    assert others == [f"{WORDS[manager]} {name}" for name in names], others
    assert "can't be installed: valgrind" in done.stdout.splitlines(), done.stdout
    assert ("mmdebstrap" in done.stdout.splitlines()[0]) == (manager == "zypper"), done.stdout
    bed.check_clean()
    (bed.place / "calls").unlink()
    done = subprocess.run(command, env=env | {"NO_DEPS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0 and "gcc" in done.stdout and "gfortran " not in done.stdout.replace("gcc-gfortran ", "") and bed.calls() == "", done


def no_manager(bed: Bed, script: str) -> None:
    (bed.place / "bin/apt-get").unlink()
    code, text = bed.run(script)
    assert code == 1 and "no apt-get, dnf or zypper" in text and "gcc" in text, text


def the_names_are_in_three_columns(bed: Bed, script: str) -> None:
    """And each line is of a package that a script asks for."""
    asked = "".join(path.read_text() for path in (ROOT / "examples/prepare.sh", ROOT / "testbeds/containers/prepare.sh", ROOT / "mk/packages.sh"))
    for line in (ROOT / "mk/packages.txt").read_text().splitlines():
        if not line.startswith("#"):
            assert len(line.split()) == 3, line
            assert f" {line.split()[0]}" in asked, f"no script asks for {line.split()[0]}"


def wrong_checksum(bed: Bed, script: str) -> None:
    (bed.place / "bin/cargo").unlink()
    bed.stand_in("curl", CURL)
    code, text = bed.run(script)
    assert code == 1 and "wrong checksum" in text and "no rustup" not in text, text
    assert "Rust, by rustup" in text.split("wrong checksum")[0]
    bed.check_clean()


def check_only(bed: Bed, script: str) -> None:
    done = subprocess.run([SCRIPTS[script][0], "--check", "build"], capture_output=True, text=True, env={"PATH": str(bed.place / "bin"), "HOME": str(bed.place)})
    assert done.returncode == 1 and "make deps" in done.stderr, done
    assert bed.calls() == ""


def in_bed(case: Callable[[Bed, str], None], script: str, place: pathlib.Path) -> None:
    case(Bed(place), script)


def main() -> int:
    each = [(f"{script}: {name}", case, script) for script in SCRIPTS for name, case in (
        ("ends", ends), ("SIGKILL", killed), ("SIGKILL, then again", killed_then_again), ("the machine has a policy", foreign_policy),
        ("two at a time", together), ("NO_DEPS=1", no_deps),
        *((f"{number.name} to {'all' if group else 'the shell'}", lambda bed, script, n=number, g=group: interrupted(bed, script, n, g))
          for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) for group in (True, False)))]
    each += [("rustup has the wrong checksum", wrong_checksum, "build"), ("--check", check_only, "build"), ("no manager of packages", no_manager, "build"),
             ("names of packages", the_names_are_in_three_columns, "build"), *((manager, functools.partial(by, manager), "build") for manager in NAMES)]
    return cases.run("deps", [(name, functools.partial(in_bed, case, script)) for name, case, script in each])


if __name__ == "__main__":
    sys.exit(main())
