"""The whole way with a real Slurm: option, plugin, manager, switches, epilog (slurm_world.py, in a private world)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fabric as ovs

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = ROOT / "dist/lib/ferrule/spank_ferrule.so"
SLURM_BED = ROOT / "testbeds/slurm/slurm.py"
LIMIT_S = 400


def test_jobs_of_slurm_get_their_routes() -> None:
    if not SLURM_BED.exists():
        pytest.skip("no testbeds/slurm")
    sys.path.append(str(SLURM_BED.parent))
    import slurm

    for why in (ovs.missing(), slurm.unavailable(), None if PLUGIN.exists() else "the plugin isn't built: make spank"):
        if why:
            pytest.skip(why)
    enter = f"import sys; sys.path.append({str(SLURM_BED.parent)!r}); import slurm; sys.exit(slurm.enter(sys.argv[1:]))"
    command = [sys.executable, "-c", enter, sys.executable, str(Path(__file__).parent / "slurm_world.py"), str(PLUGIN)]
    done = subprocess.run(["timeout", "--kill-after=5", str(LIMIT_S), *command], capture_output=True, text=True, timeout=LIMIT_S + 20, check=False)
    print(f"\n{done.stdout}")
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
