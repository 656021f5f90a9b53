"""What the launchers that stand between an agent and the one above it have in common (`startup_relay.py`, `security_relay.py`)."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable

#: The threads that carry what agents send.
upward: list[threading.Thread] = []


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


def end(*connections: socket.socket) -> None:
    """Ends connections in both directions, also those that are over."""
    for connection in connections:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(server: socket.socket, above: list[tuple[str, int]], up: Callable[[socket.socket, socket.socket], None],
          down: Callable[[socket.socket, socket.socket], None]) -> None:
    """Joins each caller to the agent above. `up` and `down` carry bytes from their first to their second connection."""
    while True:
        below, _ = server.accept()
        for address in above:
            try:
                upper = socket.create_connection(address, 2)
            except OSError:
                continue
            upper.settimeout(None)
            threading.Thread(target=down, args=(upper, below), daemon=True).start()
            upward.append(threading.Thread(target=up, args=(below, upper), daemon=True))
            upward[-1].start()
            break


def finish(seconds: float) -> None:
    """Waits until the last words of an agent that has ended are carried up."""
    for thread in upward:
        thread.join(seconds)


def run_agent(command: list[str], invitation: str) -> int:
    """The exit code of an agent that is started with this invitation."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as agent:
        assert agent.stdin
        agent.stdin.write(invitation)
        agent.stdin.flush()
        return agent.wait()
