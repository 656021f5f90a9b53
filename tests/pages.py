#!/usr/bin/env python3
"""Man pages without warnings and with every option; shell completion by calling bash's function, and by typing in bash, zsh and fish.

Shells and formatters that are not there are skipped by name.

Usage: tests/pages.py [DIST]
"""

from __future__ import annotations

import functools
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

import cases
import patience

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIST = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "dist"
SHARE = DIST / "share"
BASH = SHARE / "bash-completion/completions/ferrule"
ZSH = SHARE / "zsh/site-functions"
FISH = SHARE / "fish/vendor_completions.d"
PAGES = ("man1/mpiexec.1", "man1/mpirun.1", "man1/ferrule.1", "man1/mpicc.1", "man1/mpicxx.1", "man1/mpic++.1", "man1/mpifort.1", "man1/mpif77.1", "man1/mpif90.1",
         "man7/ferrule-settings.7")
#: What is typed, up to the cursor, and all that completes it.
BASH_ANSWERS: tuple[tuple[str, list[str]], ...] = (
    ("mpiexec --bind-", ["--bind-to"]),
    ("mpirun -bind-", ["-bind-to"]),
    ("mpiexec -n 2 --bind-to n", ["none", "numa"]),
    ("mpiexec --bind-to=so", ["socket"]),
    ("mpiexec --map-by ppr", ["ppr:"]),
    ("mpiexec --lanes auto:seg", ["segregate", "segregate:traffic"]),
    ("mpiexec --startup ", ["bc", "dr", "hypercube", "lazy", "mpd-bc", "original", "tree"]),
    ("mpiexec --set TREE_", ["TREE_WIDTH="]),
    ("mpiexec -hosts a,beta", ["a,betahost"]),
    ("mpiexec -env A B --with-ft u", ["ulfm"]),
    ("mpiexec -env A", []),
    ("mpiexec -n 2 ./a.out --bind-", []),
    ("mpiexec -n 2 ./a.out : --bind-", ["--bind-to"]),
    ("mpiexec -n 2 ./a.out fil", ["file with blanks"]),
    ("mpiexec --hostfile fil", ["file with blanks"]),
    ("mpiexec -wdir ", ["folder"]),
    ("ferrule to", ["top"]),
    ("ferrule top --wa", ["--waits"]),
    ("ferrule migrate --dr", ["--dry-run"]),
    ("ferrule migrate --to beta", ["betahost"]),
    ("ferrule startup --connect ", ["all", "demand"]),
    ("ferrule lab la", ["lanes"]),
    ("ferrule doctor fil", ["file with blanks"]),
    ("ferrule why --report-bi", ["--report-bindings"]),
    ("ferrule info --pages f", ["folder"]),
)


def run(*words: str, **others: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=patience.WATCHDOG_S, **others)  # type: ignore[call-overload]


def shown(page: str) -> str:
    """The page as a terminal shows it, in lines that are not broken."""
    done = run("groff", "-man", "-ww", "-Tutf8", "-rLL=500n", "-P-c", str(SHARE / "man" / page))
    assert done.returncode == 0 and not done.stderr, f"{page}: {done.stderr}"
    return re.sub(r".\x08", "", done.stdout).replace("\u2010", "-").replace("\u2212", "-")


def page_is_sound(page: str, _: pathlib.Path) -> None:
    text = shown(page)
    assert "NAME" in text and "Ferrule" in text and len(text.splitlines()) > 20, text
    name = pathlib.Path(page).stem
    assert re.search(rf"(^|[ ,]){re.escape(name)}[, ]", text.split("NAME")[1].split("\n\n")[0], re.M), f"{name} is not among the names of {page}"


def every_option_is_there(_: pathlib.Path) -> None:
    text, said = shown("man1/mpiexec.1"), run(str(DIST / "bin/mpiexec"), "--help").stdout
    heads = [line.strip() for line in said.splitlines() if re.match(r"  -", line)]
    meanings = [line.strip() for line in said.splitlines() if re.match(r"      \S", line)]
    assert len(heads) == len(meanings) > 50, (len(heads), len(meanings))
    flat = " ".join(text.split())
    for line in heads + meanings:
        assert " ".join(line.split()) in flat, f"not in the page: {line}"


def every_setting_is_there(_: pathlib.Path) -> None:
    text, said = shown("man7/ferrule-settings.7"), run(str(DIST / "bin/ferrule"), "info", "--config").stdout
    names = re.findall(r"^(FERRULE_\w+) =", said, re.M)
    assert len(names) > 100
    lines = [line.split()[0] for line in text.splitlines() if line.split()]
    assert not set(names) - set(lines), set(names) - set(lines)


def every_command_is_there(_: pathlib.Path) -> None:
    text, said = shown("man1/ferrule.1"), run(str(DIST / "bin/ferrule"), "help").stdout
    names = set(re.findall(r"^.{6} ferrule (\w+)", said, re.M)) - {"help"}
    assert len(names) == 9, names
    for name in names:
        assert f"ferrule {name}" in text, name
        usage = run(str(DIST / "bin/ferrule"), name, "--help")
        assert usage.returncode == 0 and "sage: ferrule " + name in usage.stdout, f"{name}: {usage.stdout}{usage.stderr}"
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]+", usage.stdout) if name != "why" else []:
            assert option in text, f"{name} {option}"


def folder(place: pathlib.Path) -> pathlib.Path:
    (place / "folder").mkdir()
    (place / "file with blanks").touch()
    (place / "hosts").write_text("10.0.0.1 alphahost\n10.0.0.2 betahost\n")
    return place


def divided(line: str) -> list[str]:
    """The words as bash divides them for completion."""
    words = re.findall(r"[:=]+|[^\s:=]+", line)
    return [*words, ""] if line.endswith(" ") else words


def bash_answers(line: str, wanted: list[str], place: pathlib.Path) -> None:
    folder(place)
    words = divided(line)
    function = "_ferrule" if words[0] == "ferrule" else "_ferrule_mpiexec"
    script = ('file=$1 function=$2 COMP_LINE=$3; shift 3; COMP_POINT=${#COMP_LINE} COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); . "$file"; $function; '
              '((${#COMPREPLY[@]} == 0)) || printf "%s\\n" "${COMPREPLY[@]}"')
    done = run("bash", "--norc", "-u", "-c", script, "bash", str(BASH), function, line, *words, cwd=place,
               env={"PATH": os.environ["PATH"], "HOME": str(place), "HOSTFILE": str(place / "hosts")})
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert sorted(done.stdout.splitlines()) == wanted, f"{done.stdout.splitlines()} instead of {wanted}"


def typed(words: list[str], before: str, line: str, wanted: str, place: pathlib.Path) -> None:
    """Types the line and a tab in a shell on a terminal; what is wanted must appear."""
    folder(place)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(place)
        os.environ.update(HOME=str(place), TERM="dumb", PS1="ready> ", ZDOTDIR=str(place))
        os.environ.pop("PROMPT_COMMAND", None)
        os.execvp(words[0], words)
    try:
        seen = ""
        # The marker is divided, so that the echo of what is typed isn't taken for it.
        for text, sign in ((f"{before}; echo set''-up\n", "set-up"), (f"{line}\t", wanted)):
            seen = ""
            os.write(terminal, text.encode())
            end = time.monotonic() + patience.WATCHDOG_S
            while sign not in seen:
                ready = select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0]
                assert ready, f"'{sign}' doesn't appear after {text!r}: {seen!r}"
                seen += os.read(terminal, 4096).decode(errors="replace")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def fish_answers(line: str, wanted: list[str], place: pathlib.Path) -> None:
    folder(place)
    files = f"source {FISH}/mpiexec.fish; source {FISH}/ferrule.fish; complete -C {line!r}"
    done = run("fish", "--no-config", "-c", files, cwd=place, env={"PATH": f"{DIST}/bin:{os.environ['PATH']}", "HOME": str(place)})
    assert done.returncode == 0 and not done.stderr, done.stderr
    said = [answer.split("\t")[0] for answer in done.stdout.splitlines()]
    assert not set(wanted) - set(said), f"{said} lacks some of {wanted}"


def links_lead_somewhere(_: pathlib.Path) -> None:
    for name in ("man", "bash-completion", "zsh", "fish"):
        paths = [path for path in (SHARE / name).rglob("*") if not path.is_dir()]
        assert paths, name
        for path in paths:
            assert path.resolve().is_file() and SHARE in path.resolve().parents, path


def main() -> int:
    each: list[cases.Case] = [("links", links_lead_somewhere)]
    skipped = 0

    def add(program: str, *more: tuple[str, Callable[[pathlib.Path], None]]) -> None:
        nonlocal skipped
        if shutil.which(program):
            each.extend(more)
        else:
            skipped += 1
            print(f"skip {program}: not in PATH, so {len(more)} cases are left out")

    add("groff", *((f"man page {page}", functools.partial(page_is_sound, page)) for page in PAGES), ("man page: every option", every_option_is_there),
        ("man page: every setting", every_setting_is_there), ("man page: every command", every_command_is_there))
    add("bash", *((f"bash: {line}", functools.partial(bash_answers, line, wanted)) for line, wanted in BASH_ANSWERS))
    bash = ["bash", "--norc", "--noprofile", "-i"]
    zsh = ["zsh", "-f", "-i"]
    setup = f"fpath=({ZSH} $fpath); autoload -Uz compinit; compinit -u -D"
    lines = (("mpiexec --report-bi", "ndings"), ("mpiexec -n 2 --bind-to sock", "et"), ("mpiexec --bind-to=sock", "et"), ("mpiexec --set TREE_", "WIDTH="), ("ferrule mig", "rate"),
             ("ferrule top --wa", "its"), ("ferrule migrate --dr", "y-run"), ("ferrule why --report-bi", "ndings"))
    add("bash", *((f"typed in bash: {line}", functools.partial(typed, bash, f". {BASH}", line, line + rest)) for line, rest in lines))
    add("zsh", *((f"typed in zsh: {line}", functools.partial(typed, zsh, setup, line, line + rest)) for line, rest in lines))
    answers = (("mpiexec --bind-", ["--bind-to"]), ("mpirun --bind-to ", ["none", "numa"]), ("mpiexec --hostfile f", ["file with blanks"]), ("ferrule to", ["top"]),
               ("ferrule top --", ["--once", "--waits"]), ("ferrule why --bind-", ["--bind-to"]), ("ferrule lab ", ["lanes"]))
    add("fish", *((f"fish: {line}", functools.partial(fish_answers, line, wanted)) for line, wanted in answers))
    return cases.run("pages", each, skipped=skipped)


if __name__ == "__main__":
    sys.exit(main())
