"""A PostgreSQL server of the tests' own: on a unix socket in a temporary folder, gone with the session."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ACCOUNT = "postgres"


def _as_account(command: list[str]) -> list[str]:
    """The server refuses to run as root."""
    return ["runuser", "-u", ACCOUNT, "--", *command] if os.getuid() == 0 else command


def _run(*command: str) -> None:
    """Runs a program of the server's. If it fails, the test shows what the program has written."""
    done = subprocess.run(_as_account(list(command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180, cwd="/", text=True, errors="replace")
    if done.returncode:
        pytest.fail(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout}", pytrace=False)


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str | None]:
    """SQLAlchemy URL of an empty database, or None where no PostgreSQL server is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found or not (found[-1] / "initdb").exists():
        yield None
        return
    programs = found[-1]
    folder = Path(tempfile.mkdtemp(prefix="ferrule-pg-"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, ACCOUNT)
        base = folder / "base"
        # The environment may name a locale that the machine doesn't have.
        _run(str(programs / "initdb"), "-D", str(base), "-U", "ferrule", "-A", "trust", "--no-sync", "--locale=C", "--encoding=UTF8")
        options = f"-c listen_addresses= -c fsync=off -k {folder}"
        control, log = str(programs / "pg_ctl"), folder / "log"
        # The server keeps what it has inherited open: its own output goes to the log.
        _run(control, "-D", str(base), "-w", "-t", "150", "-l", str(log), "-o", options, "start")
        try:
            yield f"postgresql+psycopg://ferrule@/postgres?host={folder}"
        finally:
            _run(control, "-D", str(base), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
