"""--preload: what is sent arrives whole or not at all, and never stays.

Between two agents a relay may stand that damages what it carries (`startup_relay.py`).
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import uuid

import kill as killing
import patience
import startup_job
from startup_job import BUILD, MPIEXEC, ROOT, TEMPLATE, Cases, check, hosts, mpiexec, private_directories

import run as runner

LIBRARY = "int answer(void) { return 42; }\n"
USER = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
int answer(void);
/* Says where it runs from, whether that is private, and how long the file is that came along. */
int main(int argc, char **argv) {
  char path[4096] = "", data[4096];
  struct stat own, file;
  MPI_Init(&argc, &argv);
  if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) return 3;
  snprintf(data, sizeof data, "%s/big", getenv("FERRULE_PRELOAD_DIR") ? getenv("FERRULE_PRELOAD_DIR") : "");
  char *end = strstr(path, "/files/");
  if (!end) return 4;
  *end = 0;
  if (stat(path, &own) || (own.st_mode & 0777) != 0700) return 5;
  printf("from %s answer %d big %ld\n", path, answer(), stat(data, &file) ? -1L : (long)file.st_size);
  fflush(stdout);
  if (argc > 1) sleep(atoi(argv[1]));
  MPI_Finalize();
  return 0;
}
"""


def prepare() -> None:
    """Compiles a program that needs a library of its own."""
    for name, text in [("user", USER), ("ours", LIBRARY)]:
        (BUILD / f"{name}.c").write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(BUILD / "libours.so"), str(BUILD / "ours.c")], check=True)
    mpicc = str(ROOT / "dist/bin/mpicc")
    subprocess.run([mpicc, "-o", str(BUILD / "user"), str(BUILD / "user.c"), f"-L{BUILD}", "-lours", f"-Wl,-rpath,{BUILD}"], check=True)


def preload() -> Cases:
    """--preload."""
    big = 20 << 20

    def chain() -> None:
        (BUILD / "big").write_bytes(random.Random(1).randbytes(big))
        before = private_directories()
        with hosts(4) as (prefix, names):
            for width in ["1", "4"]:
                done = mpiexec(*TEMPLATE, "-host", ",".join(names), "--tree-width", width, "-n", "4", "--preload", "--preload-files", str(BUILD / "big"), str(BUILD / "user"), prefix=prefix)
                lines = re.findall(r"from (\S+) answer 42 big (\d+)", done.text)
                check(done.code == 0 and len(lines) == 4 and len({path for path, _ in lines}) == 4, f"exit code {done.code}: {done.text[-800:]}")
                check(all(int(size) == big for _, size in lines), f"sizes {lines}")
        check(private_directories() <= before, f"left: {private_directories() - before}")
    yield "through a chain and a flat tree", chain

    def killed() -> None:
        before = private_directories()
        for victim in ["agent", "mpiexec"]:
            mark = uuid.uuid4().hex
            process = subprocess.Popen([MPIEXEC, "-n", "2", "--preload", str(BUILD / "user"), "30"], env={**os.environ, runner.MARKER: mark}, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            check(process.stdout is not None and b"from" in process.stdout.readline(), "the program did not run")
            agents = [p for p in runner.marked_processes(mark) if p != process.pid and killing.role(p, process.pid) == "agent"]
            os.kill(agents[0] if victim == "agent" else process.pid, signal.SIGKILL)
            process.communicate(timeout=patience.WATCHDOG_S)
            patience.until(lambda: not private_directories() - before, 30)
            left = private_directories() - before
            check(not left and process.returncode != 0, f"after SIGKILL of {victim}: {left}, exit code {process.returncode}")
    yield "removed after SIGKILL", killed

    def refused() -> None:
        done = mpiexec("-n", "1", "--preload", "no-such-program")
        check(done.code != 0 and "no-such-program" in done.text, done.text)
        (BUILD / "libours.so").rename(BUILD / "libours.gone")
        try:
            done = mpiexec("-n", "1", "--preload", str(BUILD / "user"))
        finally:
            (BUILD / "libours.gone").rename(BUILD / "libours.so")
        check(done.code != 0 and "libours.so" in done.text, done.text)
        done = mpiexec("-n", "1", "--preload", "--startup=original", str(BUILD / "user"))
        check(done.code != 0 and "--preload" in done.text, done.text)
        done = mpiexec("-n", "1", "--preload", str(BUILD / "user"), FERRULE_PRELOAD_PARENT="/nonexistent")
        check(done.code != 0 and "/nonexistent" in done.text, done.text)
    yield "what can't be sent", refused

    def damaged() -> None:
        before = private_directories()
        # No four of its bytes are the length of a message that may be: what follows a gap is refused at once.
        (BUILD / "big").write_bytes(random.Random(1).randbytes(big).translate(bytes(i | 0x80 for i in range(256))))
        relay = f"{sys.executable} {startup_job.ROOT / 'tests/startup_relay.py'}"
        # What happens to the stream to host b, which also feeds host c, and what must be said.
        for harm, said in [("flip", "a message was changed"), ("drop", "lost|broke|underst|corrupt"), ("cut", "lost|closed|gone|ended"), ("none", "answer 42")]:
            shell = f"case {{host}} in b) exec {relay} {harm} {5 << 20} {{command}};; *) exec {{command}};; esac"
            done = mpiexec("--launcher", f'sh -c "{shell}"', "-host", "a,b,c", "--tree-width", "1", "-n", "3", "--preload", "--preload-files", str(BUILD / "big"),
                           str(BUILD / "user"), limit_s=90)
            check((done.code == 0) == (harm == "none"), f"{harm}: exit code {done.code}: {done.text[-800:]}")
            check(bool(re.search(said, done.text)), f"{harm}: {done.text[-800:]}")
            check(harm == "none" or (re.search(r"\bb\b", done.text) is not None and "answer" not in done.text), f"{harm}: {done.text[-800:]}")
            patience.until(lambda: not private_directories() - before, 30)
            left = private_directories() - before
            check(not left, f"{harm}: left {left}")
    yield "damaged on the way", damaged
