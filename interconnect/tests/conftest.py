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
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "timeout": 180, "cwd": "/"}
        subprocess.run(_as_account([str(programs / "initdb"), "-D", str(base), "-U", "ferrule", "-A", "trust", "--no-sync"]), **quiet)  # type: ignore[call-overload]
        options = f"-c listen_addresses= -c fsync=off -k {folder}"
        subprocess.run(_as_account([str(programs / "pg_ctl"), "-D", str(base), "-w", "-t", "150", "-l", str(folder / "log"), "-o", options, "start"]), **quiet)  # type: ignore[call-overload]
        try:
            yield f"postgresql+psycopg://ferrule@/postgres?host={folder}"
        finally:
            subprocess.run(_as_account([str(programs / "pg_ctl"), "-D", str(base), "-m", "immediate", "stop"]), **quiet)  # type: ignore[call-overload]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
