"""What users, administrators and whoever sits at the manager's socket may say to the SPANK plugin: taken or refused, and nothing is read or written beyond its place."""

from __future__ import annotations

import shutil
import socket
import string
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pattern_names import BAD, GOOD

HARNESS = Path(__file__).with_name("spank_harness.c")
NAME = set(string.ascii_letters + string.digits + "_.+:@-/")
Say = Callable[[str, bytes], str]
no_zero = st.binary(max_size=400).map(lambda data: data.replace(b"\0", b"x"))
bounded = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def say(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Say]:
    """Gives the plugin one case, with the address and undefined behavior sanitizers watching."""
    if not Path("/usr/include/slurm/spank.h").exists() or shutil.which("cc") is None:
        pytest.skip("no slurm/spank.h (package libslurm-dev) or no C compiler")
    program = tmp_path_factory.mktemp("spank") / "harness"
    built = subprocess.run(["cc", "-std=gnu11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-o", program, HARNESS], capture_output=True, text=True, timeout=120)
    if built.returncode and "asan" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert built.returncode == 0, built.stderr
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="latin-1")
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    into, out, errors = process.stdin, process.stdout, process.stderr

    def one(kind: str, data: bytes) -> str:
        into.write(f"{kind} {data.hex()}\n")
        into.flush()
        answer = out.readline()
        assert answer, errors.read()
        return answer.rstrip("\n")

    yield one
    into.close()
    assert process.wait(20) == 0, errors.read()


@bounded
@given(no_zero | st.text(alphabet=sorted(NAME), min_size=250, max_size=260).map(str.encode))
@example(b"")
@example(b"a" * 255)
@example(b"a" * 256)
def test_names_of_patterns(say: Say, data: bytes) -> None:
    good = 0 < len(data) < 256 and all(chr(byte) in NAME for byte in data)
    assert say("o", data) == str(int(good))


def test_names_mean_the_same_everywhere(say: Say) -> None:
    """As in tests/test_pattern_names.py."""
    for name in GOOD + BAD:
        assert say("o", name.encode()) == str(int(name in GOOD)), name


@bounded
@given(no_zero | st.sampled_from((b"api=", b"timeout_ms=", b"api=unix:")).flatmap(lambda head: no_zero.map(lambda rest: head + rest)) | st.integers().map(lambda n: b"timeout_ms=%d" % n))
@example(b"timeout_ms=12x")
@example(b"api=" + b"x" * 107)
@example(b"api=" + b"x" * 108)
def test_arguments_of_the_plugin(say: Say, data: bytes) -> None:
    data = data.replace(b"\n", b" ").replace(b"\r", b" ")
    complaints, rest = say("a", data).split(" ", 1)
    api, timeout_ms = rest.rsplit(" ", 1)
    text = data.decode("latin-1")
    number = text.removeprefix("timeout_ms=")
    if text.startswith("api=") and len(text) - 4 < 108:
        assert (complaints, api, timeout_ms) == ("0", text[4:].removeprefix("unix:"), "2000")
    elif number != text and number.isascii() and number.isdigit() and 1 <= int(number) <= 60000:
        assert (complaints, api, timeout_ms) == ("0", "unset", str(int(number)))
    else:
        assert (complaints, api, timeout_ms) == ("1", "unset", "2000")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=9000) | st.binary(max_size=200).map(lambda rest: b"HTTP/1.1 201" + rest))
@example(b"HTTP/1.1 201 Created\r\n\r\n" + b"x" * 10000)
def test_answers_of_whoever_is_there(say: Say, tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("api") / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    connection.sendall(data)
                except OSError:
                    pass  # it has heard enough

        answering = threading.Thread(target=serve, daemon=True)
        answering.start()
        status = int(say("r", str(path).encode()))
        answering.join(10)
    assert status != -1 and (status == 0 or data.startswith(b"HTTP/1."))
