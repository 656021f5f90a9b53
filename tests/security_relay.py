#!/usr/bin/env python3
"""A launcher that stands between an agent and the one above it, reads the sealed frames of their link, and harms one of them.

    tests/security_relay.py flip|drop|repeat|swap|cut|none up|down N FILE COMMAND ...

Harms the N-th frame that the agent sends (up) or gets (down): a bit of it is changed, it is left out, comes twice, comes after the next one, or
the connection ends in the middle of it. FILE gets the invitation, which holds the job key.
"""

from __future__ import annotations

import functools
import pathlib
import socket
import sys
import threading
from collections.abc import Iterator

import agent_relay

CHALLENGE, ANSWER, PROOF = 24, 44, 16
OPENING = {"down": CHALLENGE + PROOF, "up": ANSWER}


def pieces(source: socket.socket, opening: int) -> Iterator[bytes]:
    """The bytes of the handshake as they come, then one frame after another."""
    while opening and (piece := source.recv(opening)):
        opening -= len(piece)
        yield piece
    while head := exactly(source, 4):
        yield head + exactly(source, int.from_bytes(head, "little"))


def exactly(source: socket.socket, size: int) -> bytes:
    out = b""
    while len(out) < size and (piece := source.recv(size - len(out))):
        out += piece
    return out


def harmed(frames: Iterator[bytes], harm: str, number: int) -> Iterator[bytes]:
    """The frames with harm done to one of them; ends where the connection is to end."""
    for at, frame in enumerate(frames):
        if at != number:
            yield frame
        elif harm == "flip":
            yield frame[:10] + bytes([frame[10] ^ 4]) + frame[11:]
        elif harm == "repeat":
            yield frame + frame
        elif harm == "swap":
            yield next(frames, b"") + frame
        elif harm == "cut":
            yield frame[: len(frame) // 2]
            return
        elif harm != "drop":
            yield frame


def carry(source: socket.socket, sink: socket.socket, way: str, harm: str, number: int) -> None:
    """Carries bytes one way; the handshake as it is."""
    try:
        left, stream = OPENING[way], pieces(source, OPENING[way])
        while left:
            piece = next(stream)
            left -= len(piece)
            sink.sendall(piece)
        for frame in harmed(stream, harm, number):
            sink.sendall(frame)
    except (OSError, StopIteration):
        pass
    agent_relay.end(source, sink)


def main() -> int:
    """Starts the agent."""
    harm, way, number, note, command = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:]
    line = sys.stdin.readline()
    pathlib.Path(note).write_text(line)
    if harm != "none":
        server = socket.create_server(("127.0.0.1", 0))
        line, above = agent_relay.redirect(line, server.getsockname()[1])
        ways = [functools.partial(carry, way=w, harm=harm if w == way else "none", number=number) for w in ("up", "down")]
        threading.Thread(target=agent_relay.serve, args=(server, above, *ways), daemon=True).start()
    code = agent_relay.run_agent(command, line)
    agent_relay.finish(20)
    return code


if __name__ == "__main__":
    sys.exit(main())
