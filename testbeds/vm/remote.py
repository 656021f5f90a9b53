#!/usr/bin/env python3
"""Stands in for ssh: remote.py ADDRESS COMMAND ... runs a command in a guest (`door.c`), with this process's input and output."""

from __future__ import annotations

import os
import select
import shlex
import socket
import sys


def main() -> int:
    """Until the guest's end closes."""
    door = socket.create_connection((sys.argv[1], 23), timeout=20)
    door.settimeout(None)
    door.sendall(shlex.join(sys.argv[2:]).encode() + b"\n")
    sources: list[int] = [door.fileno(), 0]
    while True:
        ready = select.select(sources, [], [])[0]
        if 0 in ready:
            data = os.read(0, 65536)
            if data:
                door.sendall(data)
            else:
                sources.remove(0)
                door.shutdown(socket.SHUT_WR)
        if door.fileno() in ready:
            try:
                data = door.recv(65536)
            except ConnectionError:
                return 1
            if not data:
                return 0
            os.write(1, data)


if __name__ == "__main__":
    sys.exit(main())
