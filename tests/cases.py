"""Runs the cases of a test that is written in Python: each in a folder of its own, a line each, and a summary."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
from collections.abc import Callable, Iterable

#: What a line says of it, and what is called with an empty folder that is removed afterwards. It fails by an assertion, an error of the system, or a command or testbed that fails.
Case = tuple[str, Callable[[pathlib.Path], None]]


def run(group: str, cases: Iterable[Case], below: str | None = None, skipped: int = 0) -> int:
    """The exit code: 1 if a case failed. The folders are in `below`, or where temporary files are; `skipped` is how many the caller has left out."""
    passed = failed = 0
    for name, case in cases:
        with tempfile.TemporaryDirectory(prefix=f"ferrule-{group}-", dir=below) as place:
            try:
                case(pathlib.Path(place))
                passed += 1
                print(f"ok   {name}", flush=True)
            except (AssertionError, OSError, RuntimeError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"FAIL {name}: {error}", flush=True)
    print(f"{group}: {passed} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)
