#!/usr/bin/env python3
"""Jobs that mpiexec starts in containers: docker, podman, charliecloud, and exec into containers that run already.

    tests/launch_containers.py [-k WORD]        runs the cases whose name has WORD in it

Runs in a bed (testbeds/containers). An engine that can't run here is skipped with its reason. After each case nothing of the job may be
left: no container, no job directory, no process.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "testbeds/containers")]
import patience

import bed
import engines
import image

MPIEXEC = str(ROOT / "dist/bin/mpiexec")
PROGRAM = ROOT / "build/launch_containers/probe"
WATCHDOG_S = 120.0
SOURCE = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "sum";
    int rank, size, sum = 0;
    char host[256], line[256];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(host, sizeof host);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2) MPI_Abort(MPI_COMM_WORLD, 99);
    if (!strcmp(what, "sum")) printf("rank %d of %d on %s in %s\n", rank, size, host, getcwd(line, sizeof line));
    if (!strcmp(what, "echo") && rank == 0)
        while (fgets(line, sizeof line, stdin)) fputs(line, stdout);
    if (!strcmp(what, "sleep")) {
        if (rank == 0) { printf("ready %s\n", getenv("FERRULE_JOB_DIR")); fflush(stdout); }
        sleep(600);
    }
    if (!strcmp(what, "crash") && rank == 1) raise(11);
    if (!strcmp(what, "exit") && rank == 1) exit(7);
    MPI_Finalize();
    return 0;
}
"""
ROOTLESS = ["podman", "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs", "--events-backend", "file", "--runtime", "runc"]
ROOTLESS_USER = 4242
CASES: list[typing.Callable[[Engine], None]] = []


def case(function: typing.Callable[[Engine], None]) -> typing.Callable[[Engine], None]:
    """Registers a case that every engine has to pass."""
    CASES.append(function)
    return function


class Engine:
    """An engine as mpiexec's options know it, and what may be left of a job."""

    def __init__(self, name: str, options: list[str], own_hosts: bool) -> None:
        self.name, self.options, self.own_hosts = name, options, own_hosts
        self.before: list[str] = []
        self.program, self.mpiexec = PROGRAM, MPIEXEC
        self.job_dir: pathlib.Path | None = None

    def with_options(self, options: list[str]) -> Engine:
        return Engine(self.name, options, self.own_hosts)

    def start(self, *args: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        variables = [f"{name}={value}" for name, value in (env or {}).items()] if self.before else []
        command = [*self.before, *variables, self.mpiexec, *self.options, *args]
        pipe = subprocess.PIPE
        environment = dict(os.environ, **(env or {}))
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=self.program.parent)

    def run(self, *args: str, stdin: str = "", env: dict[str, str] | None = None) -> tuple[int, str, str]:
        job = self.start(*args, env=env)
        try:
            out, err = job.communicate(stdin, timeout=WATCHDOG_S)
        except subprocess.TimeoutExpired:
            job.kill()
            raise AssertionError(f"no end after {WATCHDOG_S} s: {args}") from None
        return job.returncode, out, err

    def containers(self) -> list[str]:
        """Containers of jobs."""
        words = {"docker": ["docker"], "podman": ["podman"], "rootless podman": [*self.before, *ROOTLESS]}.get(self.name)
        return engines.call(*words, "ps", "-aq", "--filter", "label=ferrule.job").split() if words else []

    def leftovers(self) -> list[str]:
        """Containers, job directories and processes of jobs."""
        left = [*self.containers(), *(str(p) for p in pathlib.Path(os.environ["TMPDIR"]).glob("ferrule-*"))]
        if self.job_dir and self.job_dir.exists():
            left.append(str(self.job_dir))
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().decode(errors="replace").replace("\0", " ")
            except OSError:
                continue
            if str(self.program) in words or "--keeper" in words:
                left.append(f"{entry.parent.name}: {words[:80]}")
        return left

    def expect_clean(self) -> None:
        assert patience.until(lambda: not self.leftovers(), 30, pause_s=0.1), f"left behind: {self.leftovers()}"


def expect(what: tuple[int, str, str], code: int, out: str | None = None, err: str = "") -> None:
    """Compares exit code, standard output (sorted lines), and words of standard error."""
    got_code, got_out, got_err = what
    text = f"\n-- stdout\n{got_out[-800:]}\n-- stderr\n{got_err[-1500:]}"
    assert got_code == code, f"exit code {got_code} instead of {code}{text}"
    if out is not None:
        assert sorted(got_out.splitlines()) == sorted(out.splitlines()), f"output is not {out!r}{text}"
    assert re.search(err, got_err), f"standard error lacks {err!r}{text}"


@case
def a_container_for_each_rank(engine: Engine) -> None:
    code, out, err = engine.run("-n", "3", "--ranks-per-container", "1", str(PROGRAM))
    expect((code, out, err), 0)
    hosts = re.findall(r"rank \d of 3 on (\S+) in " + re.escape(str(PROGRAM.parent)), out)
    assert len(hosts) == 3, out
    assert len(set(hosts)) == (3 if engine.own_hosts else 1), out


@case
def one_container_for_all(engine: Engine) -> None:
    code, out, err = engine.run("-n", "3", "./probe")
    expect((code, out, err), 0)
    assert len(set(re.findall(r" on (\S+) in ", out))) == 1, out


@case
def neighbours_use_memory(engine: Engine) -> None:
    """Ranks in different containers of one host don't talk through the network."""
    code, out, err = engine.run("-n", "3", "--ranks-per-container", "1", str(engine.program), env={"FERRULE_WHY": "1"})
    expect((code, out, err), 0)
    pairs = re.findall(r"why: +(\d) → (\d) +\S+ (\w+)", err)
    channels = {channel for a, b, channel in pairs if a != b}
    # A collective need not use every pair.
    assert "shm" in channels and channels <= {"shm", "unused"}, err


@case
def input_and_output(engine: Engine) -> None:
    lines = "".join(f"line {i}\n" for i in range(3000))
    expect(engine.run("-n", "2", "--ranks-per-container", "1", str(PROGRAM), "echo", stdin=lines), 0, lines)


@case
def variables(engine: Engine) -> None:
    script = 'echo "$WANTED/$OMP_NUM_THREADS/$FERRULE_KILL_GRACE/$UNWANTED/$HOME/$PATH"; test -d "$FERRULE_JOB_DIR" && touch "$FERRULE_JOB_DIR/x"'
    env = {"WANTED": "yes", "UNWANTED": "no", "OMP_NUM_THREADS": "3", "HOME": "/host/home", "FERRULE_KILL_GRACE": "900"}
    code, out, err = engine.run("-n", "1", "-x", "WANTED", "bash", "-c", script, env=env)
    expect((code, out, err), 0)
    fields = out.strip().split("/", 4)
    assert fields[:4] == ["yes", "3", "900", ""], out
    assert "host/home" not in out, out


@case
def working_directory_inside(engine: Engine) -> None:
    expect(engine.run("-n", "1", "--container-workdir", "/var", "bash", "-c", "pwd"), 0, "/var\n")


@case
def exit_codes(engine: Engine) -> None:
    two = ("-n", "2", "--ranks-per-container", "1")
    expect(engine.run(*two, str(PROGRAM), "exit"), 7, err="rank 1.* exited with code 7")
    expect(engine.run(*two, str(PROGRAM), "crash"), 139, err="rank 1.* was killed by SIGSEGV")
    expect(engine.run("-n", "1", "no-such-program"), 127, err="cannot start no-such-program")


@case
def time_limit(engine: Engine) -> None:
    expect(engine.run("-n", "2", "--timeout", "4", str(engine.program), "sleep"), 124, err="has not ended within 4 s")


def when_ready(engine: Engine, number: int) -> subprocess.Popen[str]:
    """A job whose ranks sleep, after it has got a signal."""
    job = engine.start("-n", "2", "--ranks-per-container", "1", str(engine.program), "sleep")
    assert job.stdout is not None
    line = job.stdout.readline()
    assert line.startswith("ready "), line + (job.stderr.read() if job.stderr else "")
    engine.job_dir = pathlib.Path(line.split()[1])
    assert engine.job_dir.is_dir(), engine.job_dir
    job.send_signal(number)
    return job


@case
def signals(engine: Engine) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        job = when_ready(engine, number)
        assert job.wait(WATCHDOG_S) == 128 + number, job.returncode
        engine.expect_clean()


@case
def nothing_outlives_a_killed_mpiexec(engine: Engine) -> None:
    job = when_ready(engine, signal.SIGKILL)
    job.wait(WATCHDOG_S)
    engine.expect_clean()


@case
def killed_helpers(engine: Engine) -> None:
    """A container supervisor, or an agent inside, gets SIGKILL: the job may end well or not, but it ends, and leaves nothing."""
    for victim in ("ferrule-keeper", "ferrule-agent"):
        job = engine.start("-n", "2", "--ranks-per-container", "1", "--timeout", str(WATCHDOG_S), str(engine.program), "sleep")
        assert job.stdout is not None and job.stdout.readline().startswith("ready ")
        names = {path.parent: path.read_text().strip() for path in pathlib.Path("/proc").glob("[0-9]*/comm")}
        pid = next(int(path.name) for path, name in names.items() if name == victim)
        os.kill(pid, signal.SIGKILL)
        try:
            job.wait(3)
        except subprocess.TimeoutExpired:
            job.terminate()
        assert job.wait(WATCHDOG_S) in (1, 143), job.returncode
        engine.expect_clean()


@case
def other_hosts(engine: Engine) -> None:
    """Where hosts are named, the launcher runs the container supervisors."""
    command = ["--launcher-exec", "env WHERE={host} {command}", "-hosts", "a:2,b:2", "-n", "4"]
    code, out, err = engine.run(*command, "--ranks-per-container", "1", str(PROGRAM))
    expect((code, out, err), 0)
    assert out.count("of 4 on") == 4, out
    code, out, err = engine.run("-v", *command, "true")
    expect((code, out, err), 0)
    assert len(set(re.findall(r"ferrule-\w+-\d", err))) == 2, err


def failures(engine: Engine) -> None:
    """Errors of the engine are shown in its own words, with the host's name."""
    host = os.uname().nodename
    wrong = [word if "rootfs" not in word and "ferrule-bed" not in word else "localhost/nosuch:1" for word in engine.options]
    expect(engine.with_options(wrong).run("-n", "1", "true"), 1, err=rf"(?s)nosuch.*{re.escape(host)}")


def networks(engine: Engine) -> None:
    """Without a network the engine's stdio carries the agent's link; ranks of one container need none."""
    out = engine.run("-n", "2", "--container-network", "none", str(PROGRAM))
    expect(out, 0)
    expect(engine.run("-n", "2", "--container-network", "host", "--ranks-per-container", "1", str(PROGRAM)), 0)


def quota(engine: Engine) -> None:
    """Options of the engine are passed on."""
    script = "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null"
    code, out, err = engine.run("-n", "1", "--container-args", "--cpus=0.5", "bash", "-c", script + "; true")
    expect((code, out, err), 0)
    assert "50000" in out, out
    expect(engine.run("-n", "4", "--container-args", "--cpus=0.5", str(PROGRAM)), 0)


def existing(name: str, start: typing.Callable[..., engines.Container], remove: typing.Callable[..., None]) -> None:
    """`--container exec`: with and without Ferrule's files inside, detection of the engine, a shared directory."""
    share = pathlib.Path(image.SHARED)
    for container in ("one", "two"):
        start(f"{name}-{container}", *engines.SHARE, "-v", f"{PROGRAM.parent}:{PROGRAM.parent}:ro")
    names = ["--container-name", f"{name}-one,{name}-two"]
    engine = Engine("exec", ["--container", "exec", *names], own_hosts=True)
    try:
        code, out, err = engine.run("-n", "4", str(PROGRAM))
        expect((code, out, err), 0)
        assert out.count(f"on {name}-one") == 2 and out.count(f"on {name}-two") == 2, out
        show = engine.run("-n", "2", "bash", "-c", 'echo "$FERRULE_JOB_DIR"')
        expect(show, 0)
        assert len(set(show[1].splitlines())) == 1 and show[1].startswith(f"{share}/ferrule-"), show
        assert not list(share.iterdir()), list(share.iterdir())
        expect(engine.run("-n", "2", "--agent-path", "/nosuch/mpiexec", "true"), 1, err="--container-copy")
        other = pathlib.Path(os.environ["TMPDIR"], "copied")
        other.write_bytes(PROGRAM.read_bytes())
        other.chmod(0o755)
        code, out, err = engine.run("-n", "2", "--container-copy", str(other))
        expect((code, out, err), 0)
        inside = engines.call(name, "exec", f"{name}-one", "sh", "-c", "ls -d /tmp/ferrule-* 2>/dev/null || true")
        assert not inside, inside
        unknown = Engine("exec", ["--container", "exec", "--container-name", f"{name}-nosuch"], own_hosts=True)
        expect(unknown.run("-n", "1", "true"), 1, err=f"{name}-nosuch")
        job = when_ready(engine, signal.SIGKILL)
        job.wait(WATCHDOG_S)
        engine.expect_clean()
    finally:
        remove(f"{name}-one", f"{name}-two")


def rootless(home: pathlib.Path) -> Engine:
    """Podman of a user who is not root, with an image, a copy of dist/ and the program in `home`."""
    user = str(ROOTLESS_USER)
    login = "ferrule-bed"
    lines = {"passwd": f"{login}:x:{user}:{user}::{home}:/bin/bash", "group": f"{login}:x:{user}:", "subuid": f"{login}:300000:65536", "subgid": f"{login}:300000:65536"}
    for name, line in lines.items():
        place, copy = pathlib.Path("/etc", name), home / name
        copy.write_text((place.read_text() if place.exists() else "") + line + "\n")
        place.touch()
        subprocess.run(["mount", "--bind", str(copy), str(place)], check=True)
    shutil.copytree(ROOT / "dist", home / "dist", symlinks=True)
    shutil.copy(PROGRAM, home / "probe")
    for name in ("run", "tmp"):
        (home / name).mkdir()
    subprocess.run(["chown", "-R", f"{user}:{user}", str(home)], check=True)
    variables = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"HOME={home}", f"USER={login}", f"XDG_RUNTIME_DIR={home}/run", f"TMPDIR={home}/tmp"]
    before = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--inh-caps=-all", "env", "-i", *variables]
    archive = home / "image.tar"
    subprocess.run(["tar", "-C", str(image.rootfs()), "-cf", str(archive), "."], check=True, timeout=60)
    done = subprocess.run([*before, *ROOTLESS, "import", "-q", str(archive), image.TAG], capture_output=True, text=True, check=False, cwd=home, timeout=120)
    archive.unlink()
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    if done.returncode == 0:
        # Its own kind of network needs a device that not every machine has.
        done = subprocess.run([*before, *ROOTLESS, "run", "--rm", "--network", "none", *limits, image.TAG, "true"], capture_output=True, text=True, check=False, cwd=home, timeout=60)
    if done.returncode:
        raise engines.Unavailable(done.stderr.strip()[-300:])
    options = ["--container", "podman", "--container-engine", " ".join(ROOTLESS), "--container-image", image.TAG, "--container-network", "none",
               "--container-args", " ".join(limits)]
    engine = Engine("rootless podman", options, own_hosts=True)
    engine.before, engine.program, engine.mpiexec = before, home / "probe", str(home / "dist/bin/mpiexec")
    return engine


def without_root(report: Report) -> None:
    """A few cases for a user who is not root."""
    with tempfile.TemporaryDirectory(prefix="fr-", dir="/tmp") as folder:
        home = pathlib.Path(folder)
        home.chmod(0o755)
        try:
            engine = rootless(home)
        except (engines.Unavailable, subprocess.SubprocessError) as error:
            return report.skip("rootless podman", str(error))
        os.environ["TMPDIR"] = f"{home}/tmp"
        for function in (neighbours_use_memory, signals, nothing_outlives_a_killed_mpiexec):
            report.attempt(f"{engine.name} {function.__name__}", functools.partial(clean_after, function, engine))


def clean_after(function: typing.Callable[[Engine], None], engine: Engine) -> None:
    function(engine)
    engine.expect_clean()


def build() -> None:
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    source = PROGRAM.with_suffix(".c")
    source.write_text("#include <signal.h>\n" + SOURCE)
    subprocess.run([str(ROOT / "dist/bin/mpicc"), "-O1", "-o", str(PROGRAM), str(source)], check=True)


class Report:
    """Counts and prints what came of the cases."""

    def __init__(self, word: str) -> None:
        self.word, self.passed, self.failed, self.skipped = word, 0, 0, 0

    def skip(self, name: str, reason: str) -> None:
        print(f"SKIP {name}: {reason}", flush=True)
        self.skipped += 1

    def attempt(self, name: str, body: typing.Callable[[], None]) -> None:
        if self.word not in name:
            return
        start = time.monotonic()
        try:
            body()
        except (AssertionError, subprocess.SubprocessError, RuntimeError, engines.Unavailable) as error:
            print(f"FAIL {name}: {error}", flush=True)
            self.failed += 1
            return
        print(f"ok   {name} ({time.monotonic() - start:.1f} s)", flush=True)
        self.passed += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-k", default="", help="only cases whose name has this in it")
    options = parser.parse_args()
    if not bed.is_inside():
        return bed.enter()
    # A suite that was started in the background ignores it, and so would its jobs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    build()
    report = Report(options.k)
    with tempfile.TemporaryDirectory(prefix="fl-", dir="/tmp") as temporary:
        os.environ["TMPDIR"] = temporary
        run_all(report)
        if report.word in "rootless podman":
            without_root(report)
    print(f"{report.passed} passed, {report.failed} failed, {report.skipped} skipped")
    return 1 if report.failed else 0


def run_all(report: Report) -> None:
    for kind in (engines.Docker, engines.Podman, engines.Charliecloud):
        real = kind()
        reason = real.start()
        if reason:
            report.skip(real.name, reason)
            continue
        place = str(image.rootfs()) if real.name == "charliecloud" else image.TAG
        options = ["--container", real.name, "--container-image", place]
        if real.name == "podman":
            options += ["--container-args", f"--cgroup-parent {bed.cgroup_parent()}"]
        engine = Engine(real.name, options, own_hosts=real.name != "charliecloud")
        own: list[typing.Callable[[Engine], None]] = [] if real.name == "charliecloud" else [networks, quota]
        for function in [*CASES, failures, *own]:
            report.attempt(f"{real.name} {function.__name__}", functools.partial(clean_after, function, engine))
        if isinstance(real, (engines.Docker, engines.Podman)):
            report.attempt(f"{real.name} exec", functools.partial(existing, real.name, real.run, real.remove))


if __name__ == "__main__":
    sys.exit(main())
