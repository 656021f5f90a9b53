#!/usr/bin/env python3
"""The pages: the site that `make docs` makes, its links, the index, docs/questions.md.

Run by the Python of build/venv, which has MkDocs and markdown-it (mk/docs.mk). Addresses outside of the repository are not looked up.

Usage: tests/docs.py
"""

from __future__ import annotations

import collections
import functools
import html.parser
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

import cases
import markdown_it
import patience

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import site_of_pages

INDEX = ROOT / "docs/README.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)\s]*\)")
#: What a reader sees of a page, besides its words. The site must have as many of each as the page says.
SHAPES = {"ul", "ol", "li", "table", "tr", "pre", "h1", "h2", "h3", "h4", "img"}
#: Small pages, each with one mistake, and what is said of it.
MISTAKES = {
    "a file that is not there": ("[x](nowhere.md)", "nowhere.md"),
    "a heading that is not there": ("[x](docs/other.md#nothing)", "#nothing"),
    "a heading of the same page": ("[x](#nothing)", "#nothing"),
    "a picture": ("![x](nothing.svg)", "nothing.svg"),
    "a folder without a README": ("[x](crates/)", "crates/"),
    "an absolute path": ("[x](/docs/other.md)", "/docs/other.md"),
    "a page that the list doesn't name": ("", "docs/user/new.md"),
    "a page of the list that is not there": ("", "docs/user/gone.md"),
}


class Reader(html.parser.HTMLParser):
    """Of a page of the site: where it leads, its anchors, what it loads, and the shapes in its article."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.shapes: collections.Counter[str] = collections.Counter()
        self.inside = False
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.inside |= tag == "article"
        if self.inside:
            self.shapes[tag] += 1
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        if tag == "a" and (where := values.get("href")):
            self.leads.append(where)
        elif where := values.get("src") or (values.get("href") if tag == "link" and values.get("rel") != "canonical" else None):
            self.loads.append(where)

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self.inside = False


def made(out: pathlib.Path, root: pathlib.Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(ROOT / "docs/site_of_pages.py"), "--root", str(root), "--out", str(out)], capture_output=True, text=True, timeout=patience.WATCHDOG_S)


def links(page: pathlib.Path) -> set[pathlib.Path]:
    return {(page.parent / urllib.parse.unquote(target)).resolve() for target in LINK.findall(page.read_text()) if "://" not in target}


def all_links_lead_somewhere(site: pathlib.Path, _: pathlib.Path) -> None:
    """Those of the navigation and the theme, too."""
    pages = {path: Reader(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 100, len(pages)
    followed = 0
    for path, page in pages.items():
        for where in page.leads + page.loads:
            parts = urllib.parse.urlsplit(where)
            if parts.scheme or parts.netloc:
                assert where not in page.loads, f"{path.name} loads {where} from elsewhere"
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path.relative_to(site)}: {where}"
            assert not parts.fragment or target not in pages or urllib.parse.unquote(parts.fragment) in pages[target].anchors, f"{path.relative_to(site)}: {where}: no such heading"
            followed += 1
    assert followed > 5000, followed


def pages_look_as_they_are_written(site: pathlib.Path, _: pathlib.Path) -> None:
    """Compared with a reader of CommonMark, as the web view of a repository is one: MkDocs reads another dialect."""
    reader = markdown_it.MarkdownIt("commonmark").enable("table")
    wrong = []
    for page in sorted(name for name in site_of_pages.tracked(ROOT) if name.endswith(".md")):
        tokens = reader.parse((ROOT / page).read_text())
        said = collections.Counter(token.tag for token in tokens if token.nesting == 1)
        said["pre"] = sum(token.type in ("fence", "code_block") for token in tokens)
        said["img"] = sum(child.tag == "img" for token in tokens for child in token.children or ())
        path = site / page.replace("README.md", "index.html").replace(".md", ".html")
        shown = Reader(path).shapes
        wrong += [f"{page}: {said[shape]} <{shape}> are written, {shown[shape]} are shown" for shape in sorted(SHAPES) if said[shape] != shown[shape]]
    assert not wrong, "; ".join(wrong) + " (a list needs an empty line before it, and an indented code block one before and after it)"


def the_index_has_every_page_of_users(_: pathlib.Path) -> None:
    missing = {path.name for path in (ROOT / "docs/user").glob("*.md")} - {path.name for path in links(INDEX) if path.parent.name == "user"}
    assert not missing, f"docs/README.md doesn't lead to {', '.join(sorted(missing))}"


def every_question_has_its_answer(_: pathlib.Path) -> None:
    """One step from the index; and what the answer quotes is on the page."""
    page = ROOT / "docs/questions.md"
    rows = re.findall(r"^\| (.+\?) \| (.+) \|$", page.read_text(), re.M)
    assert len(rows) == 10, f"{len(rows)} questions"
    index = links(INDEX)
    for question, answer in rows:
        targets = [(page.parent / target).resolve() for target in LINK.findall(answer)]
        assert targets, question
        for target in targets:
            assert target in index, f"{question}: the index doesn't lead to {target.name}"
        text = " ".join("\n".join(target.read_text() for target in targets).split())
        for quoted in re.findall(r'`([^`]+)`|"([^"]+)"', answer):
            words = next(filter(None, quoted), "")
            assert words in text, f"{question}: {words} is not there"


def pages_that_files_name_are_there(_: pathlib.Path) -> None:
    """Also those that messages, comments and scripts name without a link."""
    done = subprocess.run(["git", "grep", "-noIE", r"\bdocs/[a-zA-Z0-9_/.-]+\.(md|svg|json|png)\b", "--", ".", ":!tests/docs.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = done.stdout.splitlines()
    assert len(found) > 100
    missing = [line for line in found if not (ROOT / line.split(":", 2)[2]).exists() and "http" not in line]
    assert not missing, "; ".join(missing)


def mistake(text: str, said: str, place: pathlib.Path) -> None:
    """A tree of two pages is built; with one mistake it isn't."""
    tree = place / "tree"
    (tree / "docs/user").mkdir(parents=True)
    (tree / "crates").mkdir()
    settings = (ROOT / "docs/mkdocs.yml").read_text()
    head = settings[:settings.index("\nnav:")]
    (tree / "docs/mkdocs.yml").write_text(f"{head}\nnav:\n  - README.md\n  - docs/other.md\n")
    (tree / "README.md").write_text("# One\n\nA [file](Makefile), a [heading](docs/other.md#a-heading).\n")
    (tree / "Makefile").touch()
    (tree / "docs/other.md").write_text("# Other\n\n## A heading\n")
    done = made(place / "out", tree)
    assert done.returncode == 0 and (place / "out/index.html").exists() and (place / "out/Makefile").exists(), done.stderr
    if said.endswith("new.md"):
        (tree / said).touch()
    elif said.endswith("gone.md"):
        (tree / "docs/mkdocs.yml").write_text(f"{head}\nnav:\n  - README.md\n  - docs/other.md\n  - {said}\n")
    else:
        (tree / "README.md").write_text(f"# One\n\n{text}\n")
    done = made(place / "again", tree)
    assert done.returncode != 0 and said in done.stderr, f"{done.returncode}: {done.stderr}"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ferrule-site-") as name:
        site = pathlib.Path(name) / "site"
        done = made(site)
        if done.returncode:
            print(f"FAIL the site: {done.stderr}\ndocs: 0 passed, 1 failed, 0 skipped")
            return 1
        each: list[cases.Case] = [(case.__name__.replace("_", " "), functools.partial(case, site)) for case in (all_links_lead_somewhere, pages_look_as_they_are_written)]
        each += [(case.__name__.replace("_", " "), case) for case in (the_index_has_every_page_of_users, every_question_has_its_answer, pages_that_files_name_are_there)]
        each += [(f"refused: {what}", functools.partial(mistake, *parts)) for what, parts in MISTAKES.items()]
        return cases.run("docs", each)


if __name__ == "__main__":
    sys.exit(main())
