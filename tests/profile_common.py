"""What the tests of profiles share: running commands, reading a profile and holding it against the schema and itself."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import jsonschema

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run as runner

ROOT = runner.ROOT
BUILD = ROOT / "build/profile"
LIMIT_S = 120.0  # the first start of ferrule-fabric compiles a lot
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/reference/profile.schema.json").read_text()))
PEERS = {"mpich": ROOT / "build/peers/mpich", "openmpi": ROOT / "build/peers/openmpi"}

Json = dict[str, Any]


class Failed(Exception):
    """What is wrong."""


class Skipped(Exception):
    """Why."""


def expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Failed(f"{what}: found {found}, wanted {wanted}")


def environment(**more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("FERRULE_")}
    return {**own, **more}


def run(command: list[str], code: int | None, env: dict[str, str] | None = None, cwd: pathlib.Path | None = None) -> str:
    """Output of a command, which has to end with `code`; what it has started ends with it."""
    with subprocess.Popen(command, env=env or environment(), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True) as child:
        try:
            output, _ = child.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            raise Failed(f"{' '.join(command)}: not over after {LIMIT_S:.0f} s") from None
    if code is not None and child.returncode != code:
        raise Failed(f"{' '.join(command)}: exit code {child.returncode} instead of {code}\n{output[-2000:]}")
    return output


def load(path: pathlib.Path) -> Json:
    """A profile, which has to be as the schema says and agree with itself."""
    profile: Json = json.loads(path.read_text())
    wrong = [f"{'/'.join(map(str, error.path))}: {error.message[:200]}" for error in SCHEMA.iter_errors(profile)]
    if wrong:
        raise Failed(f"{path.name} is not as the schema says: {wrong[:3]}")
    expect("ranks", [rank["rank"] for rank in profile["ranks"]], list(range(profile["n_procs"])))
    for rank in profile["ranks"]:
        for way in ("tx", "rx"):
            if f"{way}_bytes" not in rank:
                continue
            rows, n = rank[way], profile["n_procs"]
            expect(f"{way}_bytes and {way}", rank[f"{way}_bytes"], dense(rows, n, "bytes"))
            expect(f"{way}_messages and {way}", rank[f"{way}_messages"], dense(rows, n, "messages"))
            expect("classes and messages", [sum(row["sizes"].values()) for row in rows], [row["messages"] for row in rows])
            expect(f"{way}_message_sizes", sum(rank[f"{way}_message_sizes"]), sum(rank[f"{way}_messages"]))
        if "phases" in rank:
            expect("sum of the phases", total(rank["phases"]), total([rank]))
        if "slices" in rank:
            expect("sum of the slices", total(rank["slices"]), total([rank]))
        if "scopes" in rank:
            expect("sum of the scopes", total(rank["scopes"]), total([rank]))
    return profile


def dense(rows: list[Json], n: int, key: str) -> list[int]:
    found = [0] * n
    for row in rows:
        found[row["peer"]] += row[key]
    return found


def total(parts: list[Json]) -> dict[int, tuple[int, int]]:
    """Bytes and messages by peer."""
    found: dict[int, tuple[int, int]] = {}
    for row in (row for part in parts for row in part["tx"]):
        old = found.get(row["peer"], (0, 0))
        found[row["peer"]] = (old[0] + row["bytes"], old[1] + row["messages"])
    return found


def rows(rank: Json) -> dict[int, Json]:
    return {row["peer"]: row for row in rank["tx"]}


def is_ring(found: Json, messages: int, size: int) -> None:
    n = found["n_procs"]
    for i, rank in enumerate(found["ranks"]):
        expect(f"rank {i} to whom", rank["tx_messages"], [messages if peer == (i + 1) % n else 0 for peer in range(n)])
        expect(f"rank {i} from whom", rank["rx_bytes"], [messages * size if peer == (i - 1) % n else 0 for peer in range(n)])
        expect(f"rank {i} sizes", rank["tx"][0]["sizes"], {str(size.bit_length()): messages})
        expect(f"rank {i} end", (rank["complete"], rank["end"]), (True, "finalized"))
