#!/usr/bin/env python3
"""Licences, sources and requirements of the Rust crates that we build on, by `cargo metadata` and deny.toml; the page that lists them; our own files by REUSE.

A crate needs a licence that deny.toml allows, a version (no `*`), and crates.io or this repository as its source. docs/reference/licences.md must name what is in the installed
files. `cargo deny` reads the same deny.toml, but would have to be built on each fresh machine.

Usage: tests/licences.py [--write]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/licences.md"
MANIFESTS = ("Cargo.toml", "fuzz/Cargo.toml")
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
#: The packages whose products are installed.
PRODUCTS = ("launch", "abi")


@dataclasses.dataclass(frozen=True)
class Crate:
    """A package as cargo tells it."""

    name: str
    version: str
    licence: str
    source: str | None
    shipped: bool
    requirements: tuple[str, ...]


def choose(expression: str, allowed: set[str]) -> str | None:
    """The licences that we use a crate under, or None: the first side of each OR that is allowed, both sides of each AND.

    `/` is an old form of OR. AND binds closer than OR.
    """
    words = re.findall(r"[()]|[^\s()/]+|/", expression)
    words = ["OR" if word == "/" else word for word in words]

    def one() -> str | None:
        word = words.pop(0)
        if word == "(":
            inner = either()
            if words.pop(0) != ")":
                raise ValueError(expression)
            return inner
        if words and words[0] == "WITH":
            words.pop(0)
            word = f"{word} WITH {words.pop(0)}"
        return word if word in allowed else None

    def both() -> str | None:
        left = one()
        while words and words[0] == "AND":
            words.pop(0)
            right = one()
            left = f"{left} AND {right}" if left and right else None
        return left

    def either() -> str | None:
        left = both()
        while words and words[0] == "OR":
            words.pop(0)
            right = both()
            left = left or right
        return left

    try:
        found = either()
    except IndexError:
        raise ValueError(expression) from None
    if words:
        raise ValueError(expression)
    return found


#: Expressions, and what `choose` makes of them when A, B and "A WITH x" are allowed.
EXPECTED = {"A": "A", "C": None, "C OR A": "A", "A/C": "A", "C/B": "B", "(C OR A) AND B": "A AND B", "A AND C": None, "C AND A OR B": "B", "A WITH x OR C": "A WITH x",
            "C WITH x": None, "": "error", "A OR": "error", "(A": "error", "A B": "error"}


def explain(expression: str, allowed: set[str]) -> str | None:
    try:
        return choose(expression, allowed)
    except ValueError:
        return "error"


def read(manifest: str) -> list[Crate]:
    """The packages that a workspace is built from on this machine."""
    host = next(line.split()[1] for line in output("rustc", "-vV").splitlines() if line.startswith("host:"))
    data = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host, "--manifest-path", str(ROOT / manifest)))
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    names = {package["id"]: package["name"] for package in data["packages"]}
    macros = {package["id"] for package in data["packages"] if any("proc-macro" in target["kind"] for target in package["targets"])}
    shipped: set[str] = set()
    stack = [node for node in nodes if names[node] in PRODUCTS and manifest == "Cargo.toml"]
    while stack:
        here = stack.pop()
        if here not in shipped and here not in macros:
            shipped.add(here)
            stack += [dep["pkg"] for dep in nodes[here]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    return [Crate(p["name"], p["version"], p["license"] or "", p["source"], p["id"] in shipped,
                  tuple(f"{d['name']} {d['req']}" for d in p["dependencies"] if not d.get("path")))
            for p in data["packages"] if p["id"] in nodes]


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def wrong(crate: Crate, allowed: set[str]) -> str | None:
    """What is wrong with a crate."""
    try:
        if choose(crate.licence, allowed) is None:
            return f"the licence {crate.licence or '(none)'} is not in deny.toml"
    except ValueError:
        return f"the licence can't be read: {crate.licence}"
    if crate.source not in (None, CRATES_IO):
        return f"comes from {crate.source}"
    if crate.source is None:
        loose = [text for text in crate.requirements if text.endswith(" *")]
        return f"takes any version of {', '.join(loose)}" if loose else None
    return None


def page(crates: list[Crate], allowed: set[str]) -> str:
    """The crates in what we install, and their licences. Versions are in Cargo.lock."""
    rows = {f"| {crate.name} | {crate.licence.replace('/', ' OR ')} | {choose(crate.licence, allowed)} |" for crate in crates if crate.shipped and crate.source}
    return "\n".join([
        "# Licences of the crates in libmpi_abi.so.1, mpiexec and ferrule", "",
        "Made by `tests/licences.py --write` from `cargo metadata`; do not edit. Ferrule itself is under BSD-3-Clause (LICENSE). The texts of the licences are in the crates' sources,",
        "which `cargo vendor` fetches; versions are in Cargo.lock. Crates that only build or test Ferrule are not listed; `tests/licences.py` checks theirs too.", "",
        "| crate | its licence | we use it under |", "|---|---|---|", *sorted(rows), ""])


def reuse() -> str:
    """What `reuse lint` complains about: every file of ours has a licence by REUSE.toml."""
    program = shutil.which("reuse") or str(ROOT / "build/venv/bin/reuse")
    if not os.access(program, os.X_OK):
        return "the program `reuse` is missing"
    done = subprocess.run([program, "lint", "--lines"], capture_output=True, text=True, cwd=ROOT)
    return (done.stdout + done.stderr).strip() or "failed" if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the page")
    options = parser.parse_args()
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    crates = read(MANIFESTS[0])
    text = page(crates, allowed)
    if options.write:
        PAGE.write_text(text)
        return 0
    everything = {(crate.name, crate.version): crate for manifest in MANIFESTS for crate in read(manifest)}
    faults = [f"choose: {text!r} gives {found}, not {want}" for text, want in EXPECTED.items() if (found := explain(text, {"A", "B", "A WITH x"})) != want]
    faults += [f"{crate.name} {crate.version}: {why}" for crate in everything.values() if (why := wrong(crate, allowed))]
    if PAGE.read_text() != text:
        faults.append("docs/reference/licences.md is out of date: tests/licences.py --write")
    if complaint := reuse():
        faults.append(f"reuse lint: {complaint}")
    for fault in faults:
        print(f"FAIL {fault}")
    foreign = sum(crate.source is not None for crate in everything.values())
    print(f"licences: {foreign} crates, {sum(c.shipped and c.source is not None for c in crates)} of them in what is installed")
    print(f"licences: {len(everything) + len(EXPECTED) + 2 - len(faults)} passed, {len(faults)} failed, 0 skipped")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
