"""One run of somebody else's program under our mpiexec: watchdog, output, and what is left behind."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import run

ROOT = run.ROOT


@dataclasses.dataclass
class Result:
    """How a job ended. `code` is None if the watchdog ended it."""

    code: int | None
    text: str
    seconds: float
    left: str = ""

    @property
    def ending(self) -> str:
        return "no end in time" if self.code is None else f"exit code {self.code}"


def start(command: list[str], timeout_s: float, env: dict[str, str] | None = None, cwd: pathlib.Path | None = None,
          files: tuple[pathlib.Path, ...] = ()) -> Result:
    """Runs a command whose processes carry a mark, in a folder of its own (or `cwd`) into which `files` are copied."""
    mark = uuid.uuid4().hex
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="fp-"))
    place = tmp / "cwd"
    place.mkdir()
    (tmp / "tmp").mkdir()
    for file in files:
        shutil.copy(file, place)
    full = {**os.environ, **(env or {}), run.MARKER: mark, "TMPDIR": str(tmp / "tmp")}
    begin = time.monotonic()
    process = subprocess.Popen(command, env=full, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               start_new_session=True, cwd=cwd or place)
    code: int | None = None
    try:
        raw, _ = process.communicate(timeout=timeout_s)
        code = process.returncode
    except subprocess.TimeoutExpired:
        stacks = run.dump_stacks(mark) if os.environ.get("TEST_STACKS") else ""
        for pid in {process.pid, *run.marked_processes(mark)}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        raw, _ = process.communicate()
        raw += stacks.encode()
    seconds = time.monotonic() - begin
    left = run.leftovers(mark, tmp / "tmp")
    shutil.rmtree(tmp, ignore_errors=True)
    return Result(code, raw.decode(errors="replace"), seconds, left)


def mpiexec(ranks: int, program: list[str], timeout_s: float, env: dict[str, str] | None = None, options: tuple[str, ...] = (),
            cwd: pathlib.Path | None = None, files: tuple[pathlib.Path, ...] = ()) -> Result:
    """The program with so many ranks under the mpiexec of dist/."""
    dist = pathlib.Path(os.environ.get("SUITES_DIST", ROOT / "dist"))
    command = [str(dist / "bin/mpiexec"), *options, "-n", str(ranks), *program]
    return start(command, timeout_s, {"LD_LIBRARY_PATH": str(dist / "lib"), **(env or {})}, cwd, files)
