#!/usr/bin/env python3
"""`ferrule startup`: a small comparison on emulated hosts, what it writes, what it leaves out, what it refuses, and that nothing stays behind.

Measuring needs root and iproute2; without, only the rest runs.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FERRULE = str(ROOT / "dist/bin/ferrule")
SCHEMES = ["original", "dr", "bc", "mpd-bc", "tree", "hypercube", "lazy"]


def startup(words: list[str], timeout_s: float = 90) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FERRULE, "startup", *words], capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)


def leftovers(pid: int | None = None) -> list[str]:
    """Namespaces of `ferrule startup`, of one process or of any."""
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split()
    return [name for name in names if name.startswith(f"fs{pid}-" if pid else "fs")]


def test_small_comparison(folder: pathlib.Path) -> None:
    out = folder / "small.json"
    words = ["--ranks", "2,4", "--ranks-per-host", "1", "--repeats", "2", "--local-ranks", "1,3", "--sleepers", "4", "--timeout", "30", "--budget", "60"]
    words += ["--peer", "does nothing=env true {n}", "--peer", "is not there=/nowhere/mpiexec", "--peer", "fails=sh -c 'echo no luck; exit 3' {n}"]
    before = leftovers()
    done = startup([*words, "--out", str(out)])
    assert done.returncode == 0, done.stderr[-2000:]
    data = json.loads(out.read_text())
    points = {(p["scheme"], p["ranks"]): p for p in data["schemes"]}
    broken = {f["what"].split()[0]: f["why"] for f in data["failures"]}
    for scheme in SCHEMES:
        if "has no --startup" in broken.get(scheme, ""):
            continue
        for ranks in (2, 4):
            assert (scheme, ranks) in points, f"{scheme} with {ranks} ranks is missing: {broken.get(scheme)}"
            point = points[scheme, ranks]
            assert point["hosts"] == ranks and len(point["wall_s"]) == 2 and all(0 < t < 30 for t in point["wall_s"]), point
    assert points, "no scheme was measured"
    assert broken["is"].startswith("cannot run") and broken["fails"] == "exit code 3: no luck", broken
    names = {p["name"] for p in data["launchers"]}
    assert names == {"Ferrule", "floor", "does nothing"}, names
    assert data["sleepers"][0]["ranks"] == 4 and data["sleepers"][0]["launcher_bytes"] > 0, data["sleepers"]
    assert "original/lazy" in done.stdout and "Left out:" in done.stdout, done.stdout
    assert leftovers() == before, leftovers()


def test_prediction_from_a_file(folder: pathlib.Path) -> None:
    points = [{"scheme": s, "ranks": n, "hosts": n // 2, "session_ms": 0, "connect": "demand", "wall_s": [0.01 + n * (0.002 + (s == "original") * 0.1)] * 2}
              for s in ("original", "lazy") for n in (2, 4, 8, 16, 32)]
    source, out = folder / "points.json", folder / "models.json"
    source.write_text(json.dumps({"ranks_per_host": 2, "tree_width": 16, "schemes": points}))
    done = startup(["--from", str(source), "--predict", "--out", str(out)])
    assert done.returncode == 0, done.stderr
    models = {m["scheme"]: m for m in json.loads(out.read_text())["models"] if m["source"] == "measured"}
    last = {name: m["predictions"][-1] for name, m in models.items()}
    assert last["original"]["ranks"] == 1 << 20 and abs(last["original"]["cluster_s"] / (0.1 * (1 << 20)) - 1) < 0.01, last
    assert last["lazy"]["cluster_s"] < 0.1 and abs(models["original"]["error"]) < 1e-6, models
    assert "(published)" in done.stdout


def test_bad_arguments(folder: pathlib.Path) -> None:
    for words, part in ((["--ranks", "0"], "between 1 and 8192"), (["--schemes", "fast"], "there are original, dr, bc"), (["--rate", "quick"], "100mbit"),
                        (["--peer", "x"], "NAME=MPIEXEC"), (["--connect", "some"], "possible values: demand, all"), (["--repeat", "2"], "'--repeats'")):
        done = startup(words)
        assert done.returncode == 2 and part in done.stderr, f"{words}: {done.returncode} {done.stderr}"
    done = startup(["--from", str(folder / "missing.json")])
    assert done.returncode == 1 and "No such file" in done.stderr, done.stderr
    (folder / "broken.json").write_text("{")
    assert startup(["--from", str(folder / "broken.json")]).returncode == 1
    assert "--sleepers" in startup(["--help"]).stdout


def test_kill(folder: pathlib.Path) -> None:
    """Even SIGKILL leaves no namespace behind."""
    process = subprocess.Popen([FERRULE, "startup", "--ranks", "8", "--ranks-per-host", "1", "--repeats", "1000", "--schemes", "lazy", "--local-ranks", "0"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while len(leftovers(process.pid)) < 9 and time.monotonic() < end:
            time.sleep(0.02)
        assert leftovers(process.pid), "no namespace was made"
        time.sleep(0.5)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    end = time.monotonic() + 30
    while leftovers(process.pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert not leftovers(process.pid), leftovers(process.pid)


def can_emulate() -> str:
    """Why hosts can't be emulated here, or nothing."""
    if os.geteuid():
        return "not root"
    name = f"probe{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return "" if done.returncode == 0 else f"no network namespaces: {done.stderr.strip()}"


def main() -> int:
    why_not = can_emulate()
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as name:
        for test, emulates in ((test_bad_arguments, False), (test_prediction_from_a_file, False), (test_small_comparison, True), (test_kill, True)):
            if emulates and why_not:
                print(f"SKIP {test.__name__}: {why_not}")
                skipped += 1
                continue
            try:
                test(pathlib.Path(name))
                passed += 1
            except (AssertionError, subprocess.TimeoutExpired) as error:
                print(f"FAIL {test.__name__}: {error}", flush=True)
                failed += 1
    print(f"ferrule startup: {passed} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
