"""The simulator's times against SimGrid's SMPI, on a few of the cases of bench/smpi.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import smpi


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that plays messages."""
    why = smpi.missing()
    if why:
        pytest.skip(why)
    return smpi.built(tmp_path_factory.mktemp("smpi"))


@pytest.mark.parametrize(
    ("topology", "pattern", "placement", "routing"),
    [(smpi.NETWORKS[0], smpi.PATTERNS[0], "block", "ferrule"), (smpi.NETWORKS[0], smpi.PATTERNS[1], "cyclic", "d-mod-k"), (smpi.NETWORKS[2], smpi.PATTERNS[3], "block", "ferrule")],
)
def test_an_mpi_program_takes_as_long(program: Path, topology: str, pattern: str, placement: str, routing: str) -> None:
    row = smpi.compared(program, topology, pattern, placement, routing)
    differences = [row["ours_s"] / row[kind] - 1 for kind in ("smpi_s", "smpi_ranks_s")]
    print(f"\n    {pattern}, {placement}, {routing}: {row['ours_s']:.3f} s; SMPI differs by {differences[0]:+.2%} by pairs of hosts, {differences[1]:+.2%} by pairs of ranks")
    assert abs(differences[0]) < smpi.LIMIT
