#!/usr/bin/env python3
"""Generates what `libmpifort.so.12`, for programs built with MPICH's or Intel MPI's wrappers, needs beside `runtime/` (decision 0057).

Usage: mpich.py OUT   writes prototypes.h and external.c into the folder OUT

The C layer is that of the standard ABI (`clayer.py`, `runtime/`), compiled with `mpich/mpi.h`. `prototypes.h` has the callback types and functions of
our `mpi.h`, whose handles are MPICH's there. `external.c` has all external procedures in one file, and each under the four names that Fortran
compilers may give it: `mpi_send_`, `mpi_send__`, `mpi_send`, `MPI_SEND`. Then those that the module mpi_f08 of MPICH calls.
"""

from __future__ import annotations

import pathlib
import re
import sys

import clayer
import table

#: Hand-written external procedures that aren't in the API table; those of `mpix` begin with it.
OTHERS = (
    "status_f2f08", "status_f082f", "f_sync_reg",
    "address", "type_extent", "type_lb", "type_ub", "type_hvector", "type_hindexed", "type_struct",
    "errhandler_create", "errhandler_set", "errhandler_get",
)
FAILURES = ("comm_revoke", "comm_shrink", "comm_agree", "comm_failure_ack", "comm_failure_get_acked")
#: Predefined callbacks (runtime/predefined.c).
PREDEFINED = (
    "dup_fn", "null_copy_fn", "null_delete_fn", "conversion_fn_null", "conversion_fn_null_c",
    *(f"{of}_{what}" for of in ("comm", "type", "win") for what in ("dup_fn", "null_copy_fn", "null_delete_fn")),
)
#: Functions that take the address of a buffer, or nothing of it.
ADDRESS_ONLY = re.compile(r"get_address|file_.*_end")
#: Functions where the count beside a buffer is for all of it.
ONE_BUFFER = re.compile(r"i?[bsr]?send(_init)?|i?m?recv(_init)?|i?sendrecv(_replace)?|i?bcast(_init)?|r?(put|get|accumulate|get_accumulate)|pack|unpack|file_i?(read|write).*")
#: Hand-written procedures that give an address in mpi_f08 only.
ADDRESS_OUT = ("buffer_detach", "comm_detach_buffer", "session_detach_buffer")
_MARKS = ("/* ---- Callback types ---- */", "/* Predefined callbacks:", "/* ---- Functions ---- */", "/* Conversion to and from Fortran")


def prototypes() -> str:
    """Callback types and prototypes of our `mpi.h`, without the tool interface."""
    text = (table.ABI / "include/mpi.h").read_text()
    places = [text.find(mark) for mark in _MARKS]
    if -1 in places or places != sorted(places):
        raise SystemExit(f"fortran/mpich.py: mpi.h has not the sections {_MARKS} in this order")
    code = re.sub(r"/\*.*?\*/", "", text[places[0]:places[1]] + text[places[2]:places[3]], flags=re.DOTALL)
    statements = [" ".join(statement.split()) + ";" for statement in code.split(";") if statement.strip()]
    kept = [statement for statement in statements if "MPI_T_" not in statement]
    if len(kept) < 1000:
        raise SystemExit(f"fortran/mpich.py: {len(kept)} prototypes in mpi.h")
    return "/* Made by fortran/mpich.py from mpi.h; not to be edited. */\n" + "\n".join(kept) + "\n"


def _names(prefix: str, base: str, target: str) -> list[str]:
    """The names of a procedure that `target` hasn't."""
    name = f"{prefix}_{base}"
    wanted = [f"{name}_", f"{name}__", name, name.upper()]
    return [f'extern __typeof__({target}) {other} __attribute__((alias("{target}")));\n' for other in wanted if other != target]


def _aliases(functions: list[table.Function], prefix: str) -> str:
    """All names of all procedures; `prefix` is "" or "p"."""
    lines: list[str] = []
    inner = "inner_p_" if prefix else "inner_"
    for function in functions:
        base = function.base
        lines += _names(f"{prefix}mpi", f"{base}_c", f"{inner}{base}_c") if function.large else _names(f"{prefix}mpi", base, f"{prefix}mpi_{base}_")
    for base in (*OTHERS, *(f"{name}_cptr" for name in clayer.WITH_C_PTR)):
        lines += _names(f"{prefix}mpi", base, f"{prefix}mpi_{base}_")
    for base in FAILURES:
        lines += _names(f"{prefix}mpix", base, f"{prefix}mpix_{base}_")
    if not prefix:
        for base in PREDEFINED:
            lines += _names("mpi", base, f"mpi_{base}_") + _names("pmpi", base, f"mpi_{base}_")
    return "".join(lines)


def _sections(function: table.Function) -> dict[str, tuple[str, str]]:
    """Count and datatype that follow a buffer and say what is in it, by buffer; none in collectives where each process has its part."""
    arguments = clayer.arguments(function)
    found = {}
    for buffer, count, datatype in zip(arguments, arguments[1:], arguments[2:], strict=False):
        if buffer.kind.way == "choice" and count.kind.way == "value" and datatype.kind.way == "in" and datatype.kind.handle == "MPI_Datatype":
            found[buffer.name] = (count.name, datatype.name)
    return found if ONE_BUFFER.fullmatch(function.base) else {}


def _with_descriptors(function: table.Function, name: str, target: str) -> str:
    """A procedure of mpi_f08 whose buffers are array descriptors (mpich/f08.h)."""
    declarations, hidden = clayer.signature(function)
    arguments = clayer.arguments(function)
    choices = [argument.name for argument in arguments if argument.kind.way == "choice"]
    declared = [f"Descriptor *{argument.name}" if argument.name in choices else text for argument, text in zip(arguments, declarations, strict=True)]
    passed = [f"{argument.name}->base" if argument.name in choices else argument.name for argument in arguments]
    lengths = [text.split()[-1] for text in hidden]
    if function.returns != "int":
        raise SystemExit(f"fortran/mpich.py: {function.name} has a buffer and returns a value")
    sections = _sections(function)
    if ADDRESS_ONLY.fullmatch(function.base):
        return f"void {name}({', '.join([*declared, 'int *ierror', *hidden])})\n{{\n    {target}({', '.join([*passed, 'ierror', *lengths])});\n}}\n"
    number = "MPI_Count" if function.large else "int"
    before = after = ""
    for buffer, (count, datatype) in sections.items():
        passed[passed.index(count)], passed[passed.index(datatype)] = f"&({number}){{(int)s_{buffer}.count}}", f"&s_{buffer}.type"
        before += f"    Section s_{buffer};\n"
        after += f"    free_section({buffer}, &s_{buffer});\n"
    if function.large:
        passed = [text.replace("(int)", "") for text in passed]
    contiguous = " && ".join(f"take_section({buffer}, *{sections[buffer][0]}, *{sections[buffer][1]}, &s_{buffer})" if buffer in sections else f"is_contiguous({buffer})"
                             for buffer in choices)
    if sections:
        return (f"void {name}({', '.join([*declared, 'int *ierror', *hidden])})\n{{\n{before}"
                f"    if (!({contiguous})) {{\n        give(ierror, refuse_section(\"{function.name}\"));\n        return;\n    }}\n"
                f"    {target}({', '.join([*passed, 'ierror', *lengths])});\n{after}}}\n")
    return (f"void {name}({', '.join([*declared, 'int *ierror', *hidden])})\n{{\n"
            f"    if ({contiguous})\n        {target}({', '.join([*passed, 'ierror', *lengths])});\n"
            f"    else\n        give(ierror, refuse_section(\"{function.name}\"));\n}}\n")


def f08(functions: list[table.Function], prefix: str) -> str:
    """The procedures of MPICH's module mpi_f08; those for PMPI begin with pmpir."""
    start, inner = (f"{prefix}mpir" if prefix else "mpi"), ("inner_p_" if prefix else "inner_")
    parts = []
    for function in functions:
        base, large = function.base, "large_" if function.large else ""
        target = f"{inner}{base}_c" if function.large else f"{inner}{base}" if base in ADDRESS_OUT else f"{prefix}mpi_{base}_"
        if any(argument.kind.way == "choice" for argument in clayer.arguments(function)):
            parts.append(_with_descriptors(function, f"{start}_{base}_f08ts_{large}", target))
        else:
            parts.append(f'extern __typeof__({target}) {start}_{base}_f08_{large} __attribute__((alias("{target}")));\n')
    parts.append(f"void {start}_f_sync_reg_f08ts_(Descriptor *buffer)\n{{\n    (void)buffer;\n}}\n")
    if not prefix:
        for base in PREDEFINED:
            parts.append(f'extern __typeof__(mpi_{base}_) __mpi_f08_callbacks_MOD_mpi_{base} __attribute__((alias("mpi_{base}_")));\n')
        for base in ("status_f2f08", "status_f082f"):
            parts.append(f'extern __typeof__(mpi_{base}_) __mpi_f08_types_MOD_mpi_{base} __attribute__((alias("mpi_{base}_")));\n')
    return "".join(parts)


def external(functions: list[table.Function]) -> str:
    """The file of all external procedures: generated and hand-written ones, then their other names."""
    parts = ["/* Made by fortran/mpich.py; not to be edited. Compiled twice, see runtime/binding.h. */\n"]
    for part in ("special", "keys", "functions", "spawn"):
        parts.append(f'#include "{part}.c"\n')
    parts += ['#include "removed.c"\n#include "f08.h"\n', clayer.source(functions), "#ifdef FORTRAN_PROFILING\n", _aliases(functions, "p"), f08(functions, "p"), "#else\n"]
    # These are macros until here.
    parts += ["#undef ATTRIBUTES\n#undef MPI_CONVERSION_FN_NULL\n#undef MPI_CONVERSION_FN_NULL_C\n", '#include "predefined.c"\n', _aliases(functions, ""), f08(functions, ""), "#endif\n"]
    return "\n".join(parts)


def main() -> int:
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    (out / "prototypes.h").write_text(prototypes())
    (out / "external.c").write_text(external(table.functions()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
