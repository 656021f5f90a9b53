#!/usr/bin/env python3
"""The site of all pages, by MkDocs: the Markdown files of the repository, and the files that they link to.

The pages lie at the paths that they have in the repository, so their links are the same on the site. Any link that leads nowhere, any heading that a link names and that is not
there, and any page that docs/mkdocs.yml doesn't list ends the build.

Usage: docs/site_of_pages.py [--root DIR] [--out DIR]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: What stands in brackets after a link's or a picture's text.
TARGET = re.compile(r"(?<=\]\()[^)#\s]+")
#: In docs/mkdocs.yml: all pages of a folder that the list doesn't name; without a folder, all other pages.
REST = "..."


def tracked(root: pathlib.Path) -> set[str]:
    """The files of the repository; of an unpacked archive of the source, all files."""
    if (root / ".git").exists():
        done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
        return {name for name in done.stdout.split("\0") if (root / name).is_file()}
    built = {"build", "dist", "target"}
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.relative_to(root).parts[0] not in built}


def collect(root: pathlib.Path, place: pathlib.Path) -> list[str]:
    """Copies pages and what they link to. A link to a folder becomes one to its README. Returns the pages' names."""
    files = tracked(root)
    pages = sorted(name for name in files if name.endswith(".md"))
    wanted: set[str] = set()
    for page in pages:
        def follow(found: re.Match[str], page: str = page) -> str:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), found[0]))
            readme = posixpath.normpath(posixpath.join(target, "README.md"))
            if (root / target).is_dir() and readme in files:
                return posixpath.join(found[0], "README.md")
            wanted.update({target} & files)
            return found[0]

        text = TARGET.sub(follow, (root / page).read_text())
        (place / page).parent.mkdir(parents=True, exist_ok=True)
        (place / page).write_text(text)
    for name in wanted - set(pages):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, place / name)
    return pages


def listed(entry: Any) -> set[str]:
    """The pages that a part of the navigation names."""
    if isinstance(entry, str):
        return {entry}
    return set().union(*map(listed, entry.values() if isinstance(entry, dict) else entry))


def filled(entry: Any, rest: list[str]) -> Any:
    """The same part with pages in the place of `...`. READMEs of folders are called by their folder."""
    if isinstance(entry, dict):
        return {name: filled(part, rest) for name, part in entry.items()}
    if not isinstance(entry, list):
        return entry
    made: list[Any] = []
    for part in entry:
        if isinstance(part, str) and part.endswith(REST):
            folder = part.removesuffix(REST)
            made += [page if folder else {posixpath.dirname(page): page} for page in rest if page.startswith(folder) and (folder or not page.startswith("docs/"))]
        else:
            made.append(filled(part, rest))
    return made


def build(root: pathlib.Path, out: pathlib.Path) -> int:
    """MkDocs' exit code."""
    import yaml

    with tempfile.TemporaryDirectory(prefix="ferrule-docs-") as name:
        place = pathlib.Path(name)
        (place / "pages").mkdir()
        pages = collect(root, place / "pages")
        text = (root / "docs/mkdocs.yml").read_text()
        navigation = yaml.safe_load(text[text.index("\nnav:"):])["nav"]
        rest = [page for page in pages if page not in listed(navigation)]
        settings = {"docs_dir": str(place / "pages"), "site_dir": str(out), "nav": filled(navigation, rest), "INHERIT": str(root / "docs/mkdocs.yml")}
        (place / "mkdocs.yml").write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(place / "mkdocs.yml")]
        # With --quiet MkDocs would not count its warnings.
        done = subprocess.run(command, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, stderr=subprocess.PIPE, text=True)
        for line in done.stderr.splitlines():
            if line and not line.startswith("INFO"):
                print(line, file=sys.stderr)
        return done.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the source tree")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/site", help="where the site goes")
    options = parser.parse_args()
    return build(options.root.resolve(), options.out.resolve())


if __name__ == "__main__":
    sys.exit(main())
