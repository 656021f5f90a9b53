"""Sources of other projects by the name of their Debian source package.

The lists of packages that this machine uses name binaries only, so their entries are copied with `deb-src` into a folder
of our own; nothing of the machine's is changed. apt checks the signatures and sums.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build/suites"


class Unavailable(Exception):
    """The package can't be had on this machine."""


def release() -> str:
    """The code name of this machine's system, such as bookworm."""
    found = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M)
    if not found:
        raise Unavailable("/etc/os-release has no VERSION_CODENAME: this is neither Debian nor Ubuntu")
    return found[1]


def source_entries() -> tuple[list[str], list[str]]:
    """This machine's entries of its own release, for sources instead of binaries: lines of .list, and stanzas of .sources."""
    lines, stanzas = [], []
    etc = pathlib.Path("/etc/apt")
    word = re.compile(rf"\b{re.escape(release())}\b")
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        text = path.read_text() if path.is_file() else ""
        if path.suffix == ".sources":
            for stanza in re.split(r"\n\s*\n", text):
                if word.search(stanza) and re.search(r"^Components:.*\b(main|universe)\b", stanza, re.M):
                    stanzas.append(re.sub(r"^Types:.*$", "Types: deb-src", stanza, flags=re.M))
        else:
            for line in text.splitlines():
                if re.match(r"deb(-src)?\s", line) and word.search(line) and re.search(r"\b(main|universe)\b", line):
                    lines.append(re.sub(r"^deb(-src)?\s", "deb-src ", line))
    if not lines and not stanzas:
        raise Unavailable(f"no entry of apt's sources names {release()}")
    return sorted(set(lines)), stanzas


def apt(*words: str, cwd: pathlib.Path) -> None:
    """apt-get with lists of our own."""
    home = WORK / "apt"
    options = {"Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": str(home / "parts"),
               "Dir::State::Lists": str(home / "lists"), "Dir::Cache": str(home / "cache"), "APT::Sandbox::User": "root"}
    command = ["apt-get", "-qq", *(word for key, value in options.items() for word in ("-o", f"{key}={value}")), *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"apt-get {' '.join(words)}: {done.stderr.strip()[-500:]}")


def unpacked(name: str, members: tuple[str, ...] = ()) -> pathlib.Path:
    """The folder with the upstream source of a package; fetched once. `members`: patterns of the files to unpack, else all."""
    folder = WORK / name / "source"
    if folder.exists():
        return folder
    if not shutil.which("apt-get"):
        raise Unavailable("no apt-get on this machine")
    home = WORK / "apt"
    if not (home / "ready").exists():
        shutil.rmtree(home, ignore_errors=True)
        for part in ("parts", "lists/partial", "cache/archives/partial"):
            (home / part).mkdir(parents=True)
        lines, stanzas = source_entries()
        (home / "parts/all.list").write_text("\n".join(lines) + "\n")
        (home / "parts/all.sources").write_text("\n\n".join(stanzas) + "\n")
        apt("update", cwd=home)
        (home / "ready").touch()
    fetched = WORK / name / "fetched"
    fetched.mkdir(parents=True, exist_ok=True)
    apt("source", "--download-only", "--tar-only", f"{name}/{release()}", cwd=fetched)
    archives = [path for path in sorted(fetched.glob("*.orig.tar.*")) if not path.name.endswith(".asc")]
    if len(archives) != 1:
        raise Unavailable(f"{name}: {len(archives)} upstream archives in {fetched}")
    half = folder.with_name("source.new")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    patterns = ["--wildcards", *members] if members else []
    subprocess.run(["tar", "-xf", str(archives[0]), "-C", str(half), "--strip-components=1", *patterns], check=True)
    half.rename(folder)
    return folder
