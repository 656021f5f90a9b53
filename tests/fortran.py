#!/usr/bin/env python3
"""Compiles and links a caller of every Fortran interface, and looks at the wrappers and the constants.

The callers are generated: one procedure per function and interface (`mpi_f08` with each of its specifics and absent as well as
present error codes, `mpi`, and mpif.h without interfaces), with variables of the types that the standard gives to the arguments.
They are linked, which fails if an external name is missing, and not run. What the functions do is tested by tests/fortran/*.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "fortran")]
import cases

import clayer
import header
import kinds
import modules
import table

MPIFORT = str(ROOT / "dist/bin/mpifort")


def command(*words: str, folder: pathlib.Path) -> str:
    """Output of a command that has to succeed."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{words[0]} failed:\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def variable(function: table.Function, argument: clayer.Argument, f08: bool) -> str:
    """Declares a variable that the argument takes; choice buffers get a different type and rank by function."""
    kind, name = argument.kind, f"x_{argument.name}"
    shape = "(2,2)" if "," in kind.dimension else "(2)" if kind.dimension else ""
    if argument.fortran == kinds.CHOICE:
        return (f"real(8) :: {name}(3,3)", f"character(len=4) :: {name}", f"integer, target :: {name}(5)")[len(function.name) % 3]
    if argument.fortran == kinds.CALLBACK:
        return f"procedure({modules.callback_of(function, argument.name)}) :: {name}" if f08 else f"external :: {name}"
    if argument.fortran == kinds.STATUS:
        old = f"integer :: {name}(MPI_STATUS_SIZE{',2' if shape else ''})"
        return f"type(MPI_Status) :: {name}{shape}" if f08 else old
    if argument.fortran == kinds.CHARACTER:
        return f"character(len=8) :: {name}{shape}"
    if argument.fortran == kinds.POINTER and not f08:
        return f"integer(kind=MPI_ADDRESS_KIND) :: {name}"
    return f"{'integer' if kind.handle and not f08 else argument.fortran} :: {name}{shape}"


def caller(function: table.Function, prefix: str, use: str, number: int) -> str:
    """One procedure that calls one function."""
    f08 = use == "mpi_f08"
    listed = clayer.arguments(function)
    callbacks = [f"x_{argument.name}" for argument in listed if argument.fortran == kinds.CALLBACK]
    lines = [f"subroutine caller{number}({', '.join(callbacks)})"]
    lines += [f"  {variable(function, argument, f08)}" for argument in listed]
    keyword = "{0}=x_{0}" if use != "mpif.h" else "x_{0}"
    passed = [keyword.format(argument.name) for argument in listed]
    same = function.large and modules.f08_name(function) + "_c" in NAMED_C
    name = prefix + (modules.f08_name(function) + ("_c" if same else "") if f08 else function.name)
    if function.returns != "int":
        lines.append(modules.wrapped(f"print *, {name}({', '.join(passed)})", "  "))
    else:
        lines.append("  integer :: error")
        if f08:
            lines.append(modules.wrapped(f"call {name}({', '.join(passed)})", "  "))
        error = "error" if use == "mpif.h" else "ierror=error"
        lines.append(modules.wrapped(f"call {name}({', '.join([*passed, error])})", "  "))
    return "\n".join([*lines, f"end subroutine caller{number}", ""])


def named_c() -> set[str]:
    """Functions with large counts that mpi_f08 has under a name of their own."""
    text = "\n".join(modules.f08_interfaces(table.functions(), ""))
    return set(re.findall(r"^  INTERFACE (MPI_\w+_c)$", text, re.MULTILINE))


NAMED_C = named_c()


def compile_callers(folder: pathlib.Path, use: str) -> None:
    """All callers of one interface, linked with every name resolved."""
    functions = [f for f in table.functions() if not (use == "mpi_f08" and f.base in modules.NOT_IN_F08)]
    if use != "mpi_f08":
        functions = [function for function in functions if not function.large]
    pairs = [(function, prefix) for prefix in ("", "P") for function in functions]
    assert len(pairs) > 700, f"only {len(pairs)} callers"
    source = folder / "callers.f90"
    head = "module callers\nuse, intrinsic :: iso_c_binding, only : c_ptr\n"
    head += "implicit none\ninclude 'mpif.h'\n" if use == "mpif.h" else f"use {use}\nimplicit none\n"
    procedures = "\n".join(caller(function, prefix, use, i) for i, (function, prefix) in enumerate(pairs))
    source.write_text(f"{head}contains\n{procedures}end module\n")
    command(MPIFORT, "-w", "-O0", "-shared", "-fPIC", "-o", "callers.so", source.name, "-Wl,-z,defs", folder=folder)


def wrong_arguments(folder: pathlib.Path) -> None:
    """The modules find mistakes: a missing argument, a wrong type, a handle of another kind."""
    mistakes = {
        "mpi_f08": ("call MPI_Barrier()", "call MPI_Barrier(MPI_INT)", "call MPI_Comm_rank(MPI_COMM_WORLD, 1.0)",
                    "call MPI_Send(i, 1, MPI_COMM_WORLD, 0, 0, MPI_COMM_WORLD)"),
        "mpi": ("call MPI_Barrier(MPI_COMM_WORLD)", "call MPI_Comm_rank(MPI_COMM_WORLD, 1.0, i)", "call MPI_Wait(i, i, i)"),
    }
    for use, lines in mistakes.items():
        for line in lines:
            text = f"program p\nuse {use}\nimplicit none\ninteger :: i\ni = 0\n{line}\nend\n"
            (folder / "wrong.f90").write_text(text)
            done = subprocess.run([MPIFORT, "-fsyntax-only", "wrong.f90"], cwd=folder, capture_output=True, text=True)
            assert done.returncode != 0 and "Error" in done.stderr, f"{use}: compiled: {line}"


def constants(folder: pathlib.Path) -> None:
    """The constants of the modules and of mpif.h are those of mpi.h."""
    known = table.constants()
    values = {**header.integers(known), **{name: value for name, (_, value) in header.handles(known).items()}}
    assert len(values) > 250 and values["MPI_COMM_WORLD"] == 257 and values["MPI_MAX_OBJECT_NAME"] == 127
    names = "".join(f'printf("{name} %d\\n", (int)(intptr_t){name});\n' for name in values
                    if name not in header.FORTRAN_ONLY)
    (folder / "values.c").write_text(f"#include <stdio.h>\n#include <mpi.h>\nint main(void)\n{{\n{names}return 0;\n}}\n")
    command(str(ROOT / "dist/bin/mpicc"), "-w", "values.c", "-o", "in_c", folder=folder)
    in_c = dict(line.split() for line in command("./in_c", folder=folder).splitlines())
    prints = {"mpi": ("use mpi", ""), "mpif.h": ("", "include 'mpif.h'"), "mpi_f08": ("use mpi_f08", "")}
    handle_names = set(header.handles(known))
    for interface, (use, include) in prints.items():
        dot = "%MPI_VAL" if interface == "mpi_f08" else ""
        lines = "".join(f"print '(a,1x,i0)', '{name}', {name}{dot if name in handle_names else ''}\n" for name in in_c)
        (folder / "values.f90").write_text(f"program p\n{use}\nimplicit none\n{include}\n{lines}end\n")
        command(MPIFORT, "values.f90", "-o", "in_fortran", folder=folder)
        found = dict(line.split() for line in command("./in_fortran", folder=folder).splitlines())
        wrong = {name: (value, found.get(name)) for name, value in in_c.items()
                 if int(found.get(name, "99999")) != int(value) - name.startswith("MPI_MAX_")}
        assert not wrong, f"{interface}: {wrong}"


def wrappers(folder: pathlib.Path) -> None:
    """mpifort, mpif77 and mpif90 answer build systems' questions, and build outside of the tree."""
    (folder / "p.f90").write_text("program p\nuse mpi_f08\ninteger :: v, s\ncall MPI_Get_version(v, s)\nprint '(i0)', v\nend\n")
    for name in ("mpifort", "mpif77", "mpif90"):
        wrapper = str(ROOT / "dist/bin" / name)
        shown = command(wrapper, "-show", "p.f90", folder=folder)
        assert "-lmpifort_abi" in shown and "gfortran" in shown, shown
        assert command(wrapper, "--showme:libs", folder=folder).split() == ["mpifort_abi", "mpi_abi"]
        assert "GNU Fortran" in command(wrapper, "--version", folder=folder)
        command(wrapper, "-c", "p.f90", folder=folder)
        command(wrapper, "p.o", "-o", "p", folder=folder)
        assert command("./p", folder=folder).strip() == "5"


def no_compiler(folder: pathlib.Path) -> None:
    """Without gfortran the build says so in one line and goes on."""
    said = command("env", "FC=no-such-fortran", str(ROOT / "fortran/build.sh"), "work", ".", folder=folder)
    assert said.count("\n") == 1 and "no-such-fortran" in said and "not built" in said, said


def main() -> int:
    return cases.run("fortran", [
        *((f"a caller of every function: {use}", lambda folder, use=use: compile_callers(folder, use))
          for use in ("mpi_f08", "mpi", "mpif.h")),
        ("constants have the values of mpi.h", constants),
        ("the modules refuse wrong arguments", wrong_arguments),
        ("wrappers", wrappers),
        ("a build without gfortran", no_compiler),
    ])


if __name__ == "__main__":
    sys.exit(main())
