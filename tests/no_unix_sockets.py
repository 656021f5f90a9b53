#!/usr/bin/env python3
"""Runs a command that can make no unix sockets but pairs, and can't read other processes' memory: what is left between two sandboxes of a
kind that passes no descriptors, as gVisor's. A seccomp filter refuses socket(AF_UNIX), process_vm_readv and pidfd_getfd to all below.

    tests/no_unix_sockets.py COMMAND [ARGUMENT ...]
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
AF_UNIX = 1
# socket, and the calls that are refused whatever their arguments: process_vm_readv, pidfd_getfd.
NUMBERS = {"x86_64": (41, (310, 438)), "aarch64": (198, (270, 438))}


def program() -> bytes:
    """The filter, as BPF instructions on `struct seccomp_data`: the call's number is at 0, its first argument at 16."""
    socket, refused = NUMBERS[platform.machine()]
    deny = REFUSE | errno.EPERM
    lines = [(LOAD, 0, 0, 0)]
    for number in refused:
        lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, deny)]
    lines += [(EQUAL, 0, 3, socket), (LOAD, 0, 0, 16), (EQUAL, 0, 1, AF_UNIX), (RETURN, 0, 0, REFUSE | errno.EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def main() -> None:
    """Sets the filter and becomes the command."""
    code = program()
    libc = ctypes.CDLL(None, use_errno=True)
    filters = Program(len(code) // 8, code)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filters), 0, 0):
        sys.exit(f"no seccomp: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
