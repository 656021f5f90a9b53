#!/usr/bin/env python3
"""A launcher that stands between an agent and the one above it, and harms what that one sends.

    tests/startup_relay.py flip|drop|cut|stall|stall-up|none BYTES COMMAND ...

Starts the agent's command, but puts an address of its own into the invitation. After BYTES downward bytes of the agent's connection a byte is
changed (flip), 1000 bytes are left out (drop), the connection ends (cut), or nothing follows though it stands (stall; stall-up: after as many
upward bytes).
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

DROPPED = 1000


def redirect(line: str, port: int) -> tuple[str, list[tuple[str, int]]]:
    """The invitation with 127.0.0.1 and `port` for every IPv4 address, and those addresses."""
    words = line.split()
    raw = bytearray.fromhex(words[1])
    found, at = [], 8
    for _ in range(int.from_bytes(raw[4:8], "little")):
        size = {4: 4, 6: 20}[raw[at]]
        body, behind = slice(at + 1, at + 1 + size), slice(at + 1 + size, at + 3 + size)
        if size == 4:
            found.append((socket.inet_ntoa(bytes(raw[body])), int.from_bytes(raw[behind], "little")))
            raw[body] = socket.inet_aton("127.0.0.1")
        raw[behind] = port.to_bytes(2, "little")
        at += 3 + size
    return " ".join([words[0], raw.hex(), *words[2:]]) + "\n", found


def carry(source: socket.socket, sink: socket.socket, harm: str, after: int) -> None:
    """Carries bytes one way, and does the harm once."""
    seen = 0
    try:
        while piece := bytearray(source.recv(65536)):
            at = after - seen
            seen += len(piece)
            if harm == "stall" and 0 <= at < len(piece):
                sink.sendall(piece[:at])
                threading.Event().wait()
            if 0 <= at < len(piece) - DROPPED:
                if harm == "flip":
                    piece[at] ^= 1
                elif harm == "drop":
                    del piece[at:at + DROPPED]
                elif harm == "cut":
                    break
            elif 0 <= at < len(piece):
                after += len(piece)  # Too near to the end of this piece: in the next one.
            sink.sendall(piece)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(server: socket.socket, above: list[tuple[str, int]], harm: str, after: int) -> None:
    """Joins each caller to the agent above."""
    while True:
        below, _ = server.accept()
        for address in above:
            try:
                up = socket.create_connection(address, 2)
            except OSError:
                continue
            up.settimeout(None)
            upward, downward = ("stall", "none") if harm == "stall-up" else ("none", harm)
            threading.Thread(target=carry, args=(up, below, downward, after), daemon=True).start()
            threading.Thread(target=carry, args=(below, up, upward, after), daemon=True).start()
            break


def main() -> int:
    """Starts the agent."""
    harm, after, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    server = socket.create_server(("127.0.0.1", 0))
    line, above = redirect(sys.stdin.readline(), server.getsockname()[1])
    threading.Thread(target=serve, args=(server, above, harm, after), daemon=True).start()
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as agent:
        assert agent.stdin
        agent.stdin.write(line)
        agent.stdin.flush()
        return agent.wait()


if __name__ == "__main__":
    sys.exit(main())
