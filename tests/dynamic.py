#!/usr/bin/env python3
"""Jobs that connect: separate mpiexecs, a wrong port name, and deaths with spawned jobs.

One job serves several jobs of other mpiexecs one after another. A caller with a changed secret is refused, and the server goes on. Then each kind of process of a job with
spawned ranks is killed (mpiexec, the spawned job's head, an agent, a parent, a child): mpiexec ends with an exit code that isn't 0, and nothing is left.

Usage: tests/dynamic.py
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import patience

import run as runner

ROOT = runner.ROOT
PROGRAM = ROOT / "build/tests/dynamic/separate"
START_S = 60.0
END_S = 5.0


class Job:
    """An mpiexec in a session of its own, whose processes are found by a mark in their environment."""

    def __init__(self, lib: runner.Library, ranks: int, *words: str) -> None:
        self.mark = uuid.uuid4().hex
        env = dict(os.environ, LD_LIBRARY_PATH=str(lib.lib)) | {runner.MARKER: self.mark}
        command = [*lib.launch, "-n", str(ranks), str(PROGRAM), *words]
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True, text=True
        )

    def others(self) -> list[int]:
        return [pid for pid in runner.marked_processes(self.mark) if pid != self.process.pid]

    def end(self) -> tuple[int, str]:
        """Its exit code and output; killed if it doesn't end."""
        try:
            text, _ = self.process.communicate(timeout=START_S)
        except subprocess.TimeoutExpired:
            self.kill()
            text, _ = self.process.communicate()
            text += "\n(did not end)"
        return self.process.returncode, text

    def kill(self) -> None:
        for pid in [self.process.pid, *self.others()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def wait_for(path: pathlib.Path, job: Job) -> bool:
    return bool(patience.until(lambda: path.exists() or job.process.poll() is not None, START_S)) and path.exists()


def separate(lib: runner.Library, tmp: pathlib.Path) -> str:
    """A server and three clients of other mpiexecs; one that doesn't know the secret is refused."""
    file = tmp / "port"
    server = Job(lib, 2, "server", str(file), "3")
    if not wait_for(file, server):
        server.kill()
        return f"the server opened no port: {server.end()[1]}"
    port = file.read_text()
    at = len("ferrule-port:")
    wrong = tmp / "wrong"
    wrong.write_text(port[:at] + ("1" if port[at] == "0" else "0") + port[at + 1 :])
    code, text = Job(lib, 1, "client", str(wrong)).end()
    if code == 0:
        server.kill()
        return f"a caller with a wrong secret was taken: {text}"
    complaints = []
    for ranks in (1, 3, 2):
        code, text = Job(lib, ranks, "client", str(file)).end()
        if code != 0:
            complaints.append(f"client of {ranks} ranks: exit code {code}: {text}")
            server.kill()
            break
    code, text = server.end()
    if code != 0:
        complaints.append(f"server: exit code {code}: {text}")
    return "\n".join(complaints)


def stat(pid: int) -> tuple[str, int]:
    """Name and parent of a process."""
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    name, rest = text.split("(", 1)[1].rsplit(")", 1)
    return name, int(rest.split()[1])


def victims(job: Job) -> dict[str, int]:
    """One process of each kind: mpiexec and its agent and rank, the head of the spawned job and its agent and rank."""
    found = {"mpiexec": job.process.pid}
    kinds = {pid: stat(pid) for pid in job.others()}
    agents = [pid for pid, (name, _) in kinds.items() if name == "ferrule-agent"]
    for agent in agents:
        parent = kinds[agent][1]
        prefix = "" if parent == job.process.pid else "spawned "
        if prefix:
            found["spawned mpiexec"] = parent
        found[f"{prefix}agent"] = agent
        found[f"{prefix}rank"] = next(pid for pid, (_, above) in kinds.items() if above == agent)
    return found


def killed(lib: runner.Library, tmp: pathlib.Path, kind: str) -> str:
    """Kills one process of a job with spawned ranks."""
    file = tmp / f"spawned-{kind.replace(' ', '-')}"
    job = Job(lib, 2, "wait", str(file))
    if not wait_for(file, job):
        job.kill()
        return f"{kind}: nothing was spawned: {job.end()[1]}"
    target = victims(job).get(kind)
    if target is None:
        job.kill()
        return f"there is no {kind}"
    os.kill(target, signal.SIGKILL)
    patience.until(lambda: job.process.poll() is not None and not job.others(), END_S, promise=True)
    left = job.others()
    complaint = ""
    if job.process.poll() is None:
        complaint = f"{kind} was killed, and mpiexec is still there"
    elif left:
        complaint = f"{kind} was killed; left behind: {[(pid, stat(pid)[0]) for pid in left]}"
    elif job.process.returncode == 0:
        complaint = f"{kind} was killed, and mpiexec's exit code is 0"
    job.kill()
    text = job.end()[1]
    return complaint and f"{complaint}\n{text[-1500:]}"


def main() -> int:
    lib = runner.libraries()["ferrule"]
    broken = runner.compile_all({"dynamic/separate"}, lib, 1)
    if broken:
        print(broken)
        return 1
    kinds = ["mpiexec", "agent", "rank", "spawned mpiexec", "spawned agent", "spawned rank"]
    failures = 0
    with tempfile.TemporaryDirectory(prefix="fd-") as name:
        tmp = pathlib.Path(name)
        for kind in ["", *kinds]:
            complaint = killed(lib, tmp, kind) if kind else separate(lib, tmp)
            failures += bool(complaint)
            title = f"{kind} killed" if kind else "separate mpiexecs"
            print(f"{'FAIL' if complaint else 'pass'}  {title} {complaint}", flush=True)
    print(f"dynamic: {len(kinds) + 1 - failures} passed, {failures} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
