"""What docs/user/security.md promises about TCP between ranks, tried by an attacker; run by security.py.

`payload` records what two hosts send each other. `writer` stands between two ranks, whose calls a preloaded library leads to it, and harms
a record, or the introduction. `settings` gives two ranks different settings.
"""

from __future__ import annotations

import contextlib
import pathlib
import socket
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator

import patience
from startup_job import ROOT, Cases, Done, check, hosts, mpiexec

#: Bytes of the introduction, by the side that sends them: crates/channel/src/tcp/hello.rs.
HELLO, PROOF, CHALLENGE, ANSWER = 56, 32, 41, 40
#: Bytes in front of a packet's payload (crates/channel/src/tcp/frame.rs), which begin with its length.
FRAME = 32
#: Where the hello says how the connection is to be protected.
SECURITY_AT = 10

# Two ranks that send each other messages of all sizes, and look at every byte.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const int sizes[] = {8, 64, 3000, 70000, 1000000};
static void fill(char *at, int len, int from, int round, const char *word) {
    for (int i = 0; i < len; i++) at[i] = word[(i + from + round) % (int)strlen(word)];
}
int main(int argc, char **argv) {
    int rank, rounds = argc > 2 ? atoi(argv[2]) : 10;
    char *out = malloc(1000000), *in = malloc(1000000), *wanted = malloc(1000000);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < 5; k++) {
            fill(out, sizes[k], rank, round, argv[1]);
            fill(wanted, sizes[k], 1 - rank, round, argv[1]);
            MPI_Sendrecv(out, sizes[k], MPI_CHAR, 1 - rank, k, in, sizes[k], MPI_CHAR, 1 - rank, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (memcmp(in, wanted, sizes[k])) {
                puts("wrong data");
                fflush(stdout);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
        }
    MPI_Finalize();
    if (rank == 0) puts("all right");
    return 0;
}
"""

# Leads calls to port P over IPv4 to 127.77.P/256.P%256, port RELAY_PORT, so that the relay sees who was meant.
LEAD = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
int connect(int fd, const struct sockaddr *address, socklen_t len) {
    int (*real)(int, const struct sockaddr *, socklen_t) = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    if (address->sa_family == AF_INET6) {
        errno = ENETUNREACH;
        return -1;
    }
    if (address->sa_family != AF_INET) return real(fd, address, len);
    struct sockaddr_in led = *(const struct sockaddr_in *)address;
    led.sin_addr.s_addr = htonl(127u << 24 | 77u << 16 | ntohs(led.sin_port));
    led.sin_port = htons((unsigned short)atoi(getenv("RELAY_PORT")));
    return real(fd, (const struct sockaddr *)&led, sizeof led);
}
"""


def compiled(here: pathlib.Path) -> str:
    """The program, and the library beside it."""
    (here / "program.c").write_text(PROGRAM)
    (here / "lead.c").write_text(LEAD)
    subprocess.run([str(ROOT / "dist/bin/mpicc"), "-O1", str(here / "program.c"), "-o", str(here / "program")], check=True)
    subprocess.run(["cc", "-shared", "-fPIC", str(here / "lead.c"), "-o", str(here / "lead.so"), "-ldl"], check=True)
    return str(here / "program")


def payload(recorded: Callable[[str, pathlib.Path], contextlib.AbstractContextManager[None]]) -> Cases:
    """A listener on the network, who sees what `recorded` writes down."""
    def seen(security: str) -> bool:
        word = uuid.uuid4().hex
        with tempfile.TemporaryDirectory() as directory, hosts(2) as (prefix, names):
            here = pathlib.Path(directory)
            program = compiled(here)
            with recorded(names[0].rsplit("-", 1)[0] + "-m", here / "packets"):
                done = mpiexec("--launcher", "ip netns exec {host} {command}", "-host", ",".join(names), "-n", "2", program, word, "2",
                               prefix=prefix, FERRULE_LOCALITY="node", FERRULE_TCP_SECURITY=security)
                check(done.code == 0 and "all right" in done.text, done.text[-600:])
                patience.until(lambda: (here / "packets").stat().st_size > 4_000_000, 30)
            packets = (here / "packets").read_bytes()
        check(len(packets) > 4_000_000, f"{len(packets)} bytes are not all that was sent")
        # Any eight bytes of it, wherever they begin.
        endless = word * 2
        return any(endless[at:at + 8].encode() in packets for at in range(len(word)))

    def encrypted() -> None:
        check(not seen("encrypt"), "a part of a message went over the network in clear")
    yield "encrypt", encrypted

    def open_to_all() -> None:
        check(seen("none") and seen("mac"), "this test doesn't see messages that are not encrypted")
    yield "none and mac", open_to_all


def exactly(source: socket.socket, size: int) -> bytes:
    out = b""
    while len(out) < size and (piece := source.recv(size - len(out))):
        out += piece
    return out


def pieces(source: socket.socket) -> Iterator[bytes]:
    """Records."""
    while head := exactly(source, 4):
        yield head + exactly(source, int.from_bytes(head, "little"))


def frames(source: socket.socket) -> Iterator[bytes]:
    """Frames of a connection that is not protected."""
    while head := exactly(source, FRAME):
        yield head + exactly(source, int.from_bytes(head[:4], "little"))


class Relay:
    """Stands between ranks. `harm` gets direction and records, and gives what goes on; `opening` changes hellos."""

    def __init__(self, harm: Callable[[str, Iterator[bytes]], Iterator[bytes]], opening: Callable[[bytes], bytes] = lambda hello: hello,
                 split: Callable[[socket.socket], Iterator[bytes]] = pieces) -> None:
        self.harm, self.opening, self.split, self.count = harm, opening, split, 0
        self.server = socket.create_server(("0.0.0.0", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            high, low = near.getsockname()[0].split(".")[2:]
            try:
                far = socket.create_connection(("127.0.0.1", int(high) * 256 + int(low)))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.count += 1
            for way in ((near, far, "up"), (far, near, "down")):
                threading.Thread(target=self.carry, args=way, daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        """Carries bytes one way."""
        try:
            first, second = (HELLO, PROOF) if way == "up" else (CHALLENGE, ANSWER)
            opening = exactly(source, first)
            sink.sendall(self.opening(opening) if way == "up" else opening)
            sink.sendall(exactly(source, second))
            for record in self.harm(way, self.split(source)):
                sink.sendall(record)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def flip(record: bytes, at: int) -> bytes:
    return record[:at] + bytes([record[at] ^ 4]) + record[at + 1:]


class Harm:
    """Harms a record: the first one that is the `target`-th of its connection and goes that way, or, with `every`, that of every connection both ways."""

    def __init__(self, harm: str, way: str, target: int, every: bool = False) -> None:
        self.harm, self.way, self.target, self.every, self.is_done = harm, way, target, every, False
        self.lock = threading.Lock()

    def __call__(self, way: str, records: Iterator[bytes]) -> Iterator[bytes]:
        for at, record in enumerate(records):
            with self.lock:
                is_due = at == self.target and (self.every or way == self.way and not self.is_done)
                self.is_done = self.is_done or is_due
            if not is_due:
                yield record
            elif self.harm == "flip":
                yield flip(record, len(record) // 2)
            elif self.harm == "repeat":
                yield record + record
            elif self.harm == "swap":
                yield next(records, b"") + record
            elif self.harm != "drop":
                raise ValueError(self.harm)


def nothing(_way: str, records: Iterator[bytes]) -> Iterator[bytes]:
    """Lets all pass."""
    return records


def writer() -> Cases:
    """Somebody who can change what goes over the network."""
    def run(security: str, relay: Relay, timeout_ms: int = 30000) -> Done:
        with tempfile.TemporaryDirectory() as directory:
            here = pathlib.Path(directory)
            program = compiled(here)
            try:
                return mpiexec("-n", "2", "-env", "LD_PRELOAD", str(here / "lead.so"), program, "abcdefghijklmnopqrstuvwxyz",
                               FERRULE_CHANNELS="tcp", FERRULE_TCP_SECURITY=security, RELAY_PORT=str(relay.port), FERRULE_TCP_CONNECT_TIMEOUT_MS=str(timeout_ms))
            finally:
                relay.server.close()
                check(relay.count > 0, "no connection went through the relay")

    found = "a record was changed, left out or repeated on its way"
    for security in ("mac", "encrypt"):
        for harm in ("flip", "drop", "repeat", "swap"):
            def once(security: str = security, harm: str = harm) -> None:
                for way in ("up", "down"):
                    done = run(security, Relay(Harm(harm, way, 6)))
                    check(done.code == 0 and "all right" in done.text, f"{way}: exit code {done.code}: {done.text[-600:]}")
                    check(found in done.text and "the connection with rank" in done.text, f"{way}: not said: {done.text[-600:]}")
            yield f"{security}: a record {harm}", once

        def always(security: str = security) -> None:
            done = run(security, Relay(Harm("flip", "", 0, every=True)))
            check(done.code != 0 and "all right" not in done.text and "wrong data" not in done.text, f"exit code {done.code}: {done.text[-600:]}")
            check(found in done.text and "connections one after another" in done.text and "rank " in done.text, done.text[-600:])
        yield f"{security}: the first record of every connection", always

        def downgraded(security: str = security) -> None:
            done = run(security, Relay(nothing, lambda hello: hello[:SECURITY_AT] + b"\0" + hello[SECURITY_AT + 1:]),
                       timeout_ms=3000)
            check(done.code != 0 and "all right" not in done.text, f"exit code {done.code}: {done.text[-600:]}")
            check(f"its FERRULE_TCP_SECURITY is none, ours is {security}" in done.text, done.text[-600:])
        yield f"{security}: the introduction asks for none", downgraded

    def unprotected() -> None:
        def payload_changed(going: str, packets: Iterator[bytes]) -> Iterator[bytes]:
            for packet in packets:
                yield flip(packet, len(packet) - 1) if going == "up" and len(packet) > 1000 else packet
        done = run("none", Relay(payload_changed, split=frames))
        check(done.code != 0 and "wrong data" in done.text, f"the relay harms nothing: {done.text[-600:]}")
    yield "none: this relay does harm", unprotected


def settings() -> Cases:
    """Two ranks that don't agree."""
    def run(*words: str) -> Done:
        return mpiexec(*words, FERRULE_CHANNELS="tcp")

    def unequal() -> None:
        with tempfile.TemporaryDirectory() as directory:
            program = [compiled(pathlib.Path(directory)), "abc"]
            for ours, theirs in (("encrypt", "none"), ("mac", "encrypt")):
                done = run("-n", "1", "-env", "FERRULE_TCP_SECURITY", ours, *program, ":", "-n", "1", "-env", "FERRULE_TCP_SECURITY", theirs, *program)
                check(done.code != 0 and "all right" not in done.text, f"exit code {done.code}: {done.text[-600:]}")
                said = [f"its FERRULE_TCP_SECURITY is {a}, ours is {b}" for a, b in ((ours, theirs), (theirs, ours))]
                check(any(text in done.text for text in said), done.text[-600:])
    yield "unequal", unequal

    def unknown() -> None:
        with tempfile.TemporaryDirectory() as directory:
            done = run("-n", "2", "-env", "FERRULE_TCP_SECURITY", "encrypted", compiled(pathlib.Path(directory)), "abc")
            check(done.code != 0 and "all right" not in done.text, f"exit code {done.code}: {done.text[-600:]}")
            check("FERRULE_TCP_SECURITY=encrypted is not none, mac or encrypt" in done.text, done.text[-600:])
    yield "a value that there isn't", unknown
