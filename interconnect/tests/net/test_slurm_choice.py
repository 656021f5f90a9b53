"""The choice of nodes and the doctor with a real Slurm (slurm_choice_world.py, in a private world). No switches are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_slurm import PLUGIN, SLURM_BED

LIMIT_S = 240


def test_slurm_asks_where_jobs_run_best() -> None:
    if not SLURM_BED.exists():
        pytest.skip("no testbeds/slurm")
    sys.path.append(str(SLURM_BED.parent))
    import slurm

    lua = any(Path("/usr/lib").glob("*/slurm*/job_submit_lua.so"))
    for why in (slurm.unavailable(), None if PLUGIN.exists() else "the plugin isn't built: make spank", None if lua else "Slurm has no job_submit_lua.so"):
        if why:
            pytest.skip(why)
    enter = f"import sys; sys.path.append({str(SLURM_BED.parent)!r}); import slurm; sys.exit(slurm.enter(sys.argv[1:]))"
    command = [sys.executable, "-c", enter, sys.executable, str(Path(__file__).parent / "slurm_choice_world.py"), str(PLUGIN)]
    done = subprocess.run(["timeout", "--kill-after=5", str(LIMIT_S), *command], capture_output=True, text=True, timeout=LIMIT_S + 20, check=False)
    print(f"\n{done.stdout}")
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
