"""Our tables in OpenSM, on a simulated InfiniBand subnet (ib_world.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_S = 200


def test_opensm_routes_as_planned() -> None:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [program for program in ("ibsim", "ibsim-run", "opensm", "ibtracert", "dump_lfts", "smpquery", "saquery") if not shutil.which(program, path=path)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} (ibsim-utils, opensm, infiniband-diags)")
    world = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*world, "true"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces can't be made")
    script = str(Path(__file__).parent / "ib_world.py")
    done = subprocess.run(["timeout", "--kill-after=5", str(LIMIT_S), *world, sys.executable, script], capture_output=True, text=True, timeout=LIMIT_S + 20, check=False)
    print(f"\n{done.stdout}")
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
