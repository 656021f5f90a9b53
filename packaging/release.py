#!/usr/bin/env python3
"""May this commit be released? Checks version, tag, changelog and work tree, and writes the release notes: CHANGELOG's part on this version.

Usage: packaging/release.py [--root DIR] [--notes FILE]
"""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import sys
import tomllib


def parts(changelog: str) -> dict[str, str]:
    """The text below each heading of a version; the newest comes first. A heading is `## VERSION (DATE)` or `## Unreleased`."""
    found = re.split(r"^## +(.+)$", changelog, flags=re.M)[1:]
    return {title.strip(): text.strip() for title, text in zip(found[::2], found[1::2])}


def faults(version: str, changelog: str, tags: list[str], changed: list[str]) -> list[str]:
    """What is in the way of a release of `version`."""
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found.append(f"Cargo.toml: the version must be three numbers, not {version}")
    if f"v{version}" in tags:
        found.append(f"the tag v{version} exists: raise the version in Cargo.toml")
    sections = parts(changelog)
    if sections.get("Unreleased"):
        found.append(f"CHANGELOG.md: there are entries under `## Unreleased`; put them under `## {version} (YYYY-MM-DD)`")
    newest = next((title for title in sections if title != "Unreleased"), "")
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", newest):
        found.append(f"CHANGELOG.md: the newest version must be `## {version} (YYYY-MM-DD)`, and is `## {newest}`" if newest else f"CHANGELOG.md: no `## {version} (YYYY-MM-DD)`")
    elif not sections[newest]:
        found.append(f"CHANGELOG.md: there is nothing below `## {newest}`")
    found += [f"not committed: {path}" for path in changed]
    return found


def lines(root: pathlib.Path, *command: str) -> list[str]:
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent, help="the work tree")
    parser.add_argument("--notes", type=pathlib.Path, help="where the release notes go")
    options = parser.parse_args()
    root: pathlib.Path = options.root
    version = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    changelog = (root / "CHANGELOG.md").read_text()
    found = faults(version, changelog, lines(root, "git", "tag"), [line[3:] for line in lines(root, "git", "status", "--porcelain")])
    for fault in found:
        print(fault)
    if found:
        return 1
    if options.notes:
        options.notes.write_text(next(text for title, text in parts(changelog).items() if title.startswith(version)) + "\n")
    print(f"{version} may be released: git tag -a v{version} -m 'Ferrule {version}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
