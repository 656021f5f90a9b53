#!/usr/bin/env python3
"""A launcher that stands between an agent and the one above it, and harms what that one sends.

    tests/startup_relay.py flip|drop|cut|stall|stall-up|none BYTES COMMAND ...

Starts the agent's command, but puts an address of its own into the invitation. After BYTES downward bytes of the agent's connection a byte is
changed (flip), 1000 bytes are left out (drop), the connection ends (cut), or nothing follows though it stands (stall; stall-up: after as many
upward bytes).
"""

from __future__ import annotations

import functools
import socket
import sys
import threading

import agent_relay

DROPPED = 1000


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
    agent_relay.end(source, sink)


def main() -> int:
    """Starts the agent."""
    harm, after, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    server = socket.create_server(("127.0.0.1", 0))
    line, above = agent_relay.redirect(sys.stdin.readline(), server.getsockname()[1])
    upward, downward = ("stall", "none") if harm == "stall-up" else ("none", harm)
    ways = [functools.partial(carry, harm=way, after=after) for way in (upward, downward)]
    threading.Thread(target=agent_relay.serve, args=(server, above, *ways), daemon=True).start()
    return agent_relay.run_agent(command, line)


if __name__ == "__main__":
    sys.exit(main())
