#!/usr/bin/env python3
"""Generates the Fortran interfaces and their C layer from the API table.

Usage: generate.py OUT   writes procedures.c, mpif.h and the modules' sources into the folder OUT
"""

from __future__ import annotations

import pathlib
import sys

import clayer
import header
import sources
import table


def main() -> int:
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    functions = table.functions()
    constants = table.constants()
    (out / "procedures.c").write_text(clayer.source(functions))
    (out / "mpif.h").write_text(header.mpif(constants))
    (out / "constants.f90").write_text(sources.constants_module(constants))
    (out / "types.f90").write_text(sources.types_module())
    (out / "callbacks.f90").write_text(sources.callbacks_module())
    (out / "sizeof.f90").write_text(sources.sizeof_module())
    (out / "mpi.f90").write_text(sources.old_module(constants, functions))
    (out / "mpi_f08.f90").write_text(sources.f08_module(constants, functions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
