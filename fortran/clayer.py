"""Writes the C layer: one external procedure `mpi_x_` per function, which converts its arguments and calls `MPI_X`.

The result is compiled twice, for `mpi_x_` (calls `MPI_X`, so that a profiler of C calls sees Fortran programs) and for
`pmpi_x_` (calls `PMPI_X`); see `runtime/binding.h`. Functions whose arguments need more than a conversion are
hand-written in `runtime/`; this file knows them by name only.
"""

from __future__ import annotations

import dataclasses

import kinds
from table import Function

#: Hand-written in runtime/special.c, spawn.c, attributes.c and callbacks.c (base names; twins included).
HAND_WRITTEN = {
    "init", "init_thread", "info_create_env", "info_get", "info_get_string", "session_get_nth_pset",
    "buffer_detach", "comm_detach_buffer", "session_detach_buffer", "comm_spawn", "comm_spawn_multiple",
    "attr_get", "attr_put", "keyval_create", "op_create", "grequest_start", "register_datarep",
    *(f"{of}_{what}" for of in ("comm", "type", "win") for what in ("create_keyval", "get_attr", "set_attr")),
    *(f"{of}_create_errhandler" for of in ("comm", "file", "win", "session")),
}

#: Room for strings that come out, with the terminating null.
TEXT_ROOM = {
    "comm_get_name": "MPI_MAX_OBJECT_NAME", "type_get_name": "MPI_MAX_OBJECT_NAME", "win_get_name": "MPI_MAX_OBJECT_NAME",
    "error_string": "MPI_MAX_ERROR_STRING", "file_get_view": "MPI_MAX_DATAREP_STRING",
    "get_library_version": "MPI_MAX_LIBRARY_VERSION_STRING", "get_processor_name": "MPI_MAX_PROCESSOR_NAME",
    "info_get_nthkey": "MPI_MAX_INFO_KEY", "lookup_name": "MPI_MAX_PORT_NAME", "open_port": "MPI_MAX_PORT_NAME",
}

#: Functions whose result is an address; the module mpi has them with TYPE(C_PTR) too, under a second name.
WITH_C_PTR = ("alloc_mem", "win_allocate", "win_allocate_shared", "win_shared_query")


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument as Fortran passes it."""

    name: str
    kind: kinds.Kind
    fortran: str

    @property
    def short(self) -> str:
        """How the conversion functions call its handle."""
        name = self.kind.handle.removeprefix("MPI_")
        return "Type" if name == "Datatype" else name


def arguments(function: Function) -> list[Argument]:
    """The arguments that Fortran has, without the error code."""
    found = []
    for parameter in function.parameters:
        if (function.base, parameter.name) in kinds.DROPPED:
            continue
        kind = kinds.kind_of(function.base, parameter.name, parameter.kind)
        if kind.way != "drop":
            name = kinds.RENAMED.get(parameter.name, parameter.name)
            found.append(Argument(name, kind, kind.large if function.large else kind.small))
    return found


def length_of(base: str, argument: Argument, names: set[str]) -> str:
    """How many handles an array has, as C."""
    if argument.name in ("sendtypes", "recvtypes"):
        which = ("neighbors" if "neighbor" in base else "peers") + "_" + argument.name[:4]
        return f"{which}(f_sendbuf, comm)"
    for name in ("incount", "count", "max_datatypes"):
        if name in names:
            return f"*{name}"
    raise SystemExit(f"fortran/clayer.py: how many handles are in {argument.name} of {base}?")


@dataclasses.dataclass
class _Body:
    declared: list[str]
    before: list[str]
    passed: list[str]
    after: list[str]
    hidden: list[str]


def _convert(function: Function, argument: Argument, names: set[str], body: _Body) -> str:
    """Adds what one argument needs, and returns its declaration."""
    name, way, short = argument.name, argument.kind.way, argument.short
    handle = argument.kind.handle
    if way in ("value", "pass"):
        body.passed.append(f"*{name}" if way == "value" else name)
        if argument.kind.dimension == "3,*":
            return f"int {name}[][3]"
        return f"{kinds.C_TYPES.get(argument.fortran, 'void')} *{name}"
    if way == "choice":
        body.declared.append(f"void *f_{name} = choice({name});")
        body.passed.append(f"f_{name}")
        return f"void *{name}"
    if way == "text":
        strip = "text_in_both_ends" if function.base.startswith("info_") else "text_in"
        body.declared.append(f"char *f_{name} = {strip}({name}, {name}_len);")
        body.passed.append(f"f_{name}")
        body.after.append(f"free(f_{name});")
        body.hidden.append(f"size_t {name}_len")
        return f"char *{name}"
    if way == "text_out":
        body.declared.append(f'char f_{name}[{TEXT_ROOM[function.base]}] = "";')
        body.passed.append(f"f_{name}")
        body.after.append(f"text_out({name}, {name}_len, f_{name}, f_error);")
        body.hidden.append(f"size_t {name}_len")
        return f"char *{name}"
    if way in ("status", "statuses", "weights"):
        body.passed.append(f"{way}_in({name})")
        return f"int *{name}"
    if way == "in":
        body.passed.append(f"PMPI_{short}_fromint(*{name})")
    elif way in ("out", "inout"):
        first = f"PMPI_{short}_fromint(*{name})" if way == "inout" else f"{handle[:4]}{handle[4:].upper()}_NULL"
        body.declared.append(f"{handle} f_{name} = {first};")
        body.passed.append(f"&f_{name}")
        body.after.append(f"*{name} = PMPI_{short}_toint(f_{name});")
    elif way.startswith("array"):
        body.declared += [f"MPI_Count n_{name} = {length_of(function.base, argument, names)};",
                          f"{handle} s_{name}[FEW];", f"{handle} *f_{name} = room(s_{name}, n_{name}, sizeof *s_{name});"]
        first = f"{handle[:4]}{handle[4:].upper()}_NULL" if way == "array_out" else f"PMPI_{short}_fromint({name}[i])"
        body.before.append(f"for (MPI_Count i = 0; i < n_{name}; i++)\n        f_{name}[i] = {first};")
        body.passed.append(f"f_{name}")
        if way != "array_in":
            body.after.append(f"for (MPI_Count i = 0; i < n_{name}; i++)\n        {name}[i] = PMPI_{short}_toint(f_{name}[i]);")
        body.after.append(f"leave(f_{name}, s_{name});")
    else:
        raise SystemExit(f"fortran/clayer.py: {function.name} needs a hand-written function for {name}")
    return f"int *{name}"


def signature(function: Function) -> tuple[list[str], list[str]]:
    """Declarations of the arguments that Fortran has, without the error code, and of the hidden lengths behind it."""
    names = {argument.name for argument in arguments(function)}
    body = _Body([], [], [], [], [])
    return [_convert(function, argument, names, body) for argument in arguments(function)], body.hidden


def _indices(names: set[str]) -> list[str]:
    """Fortran counts array elements from 1."""
    if "index" in names and "array_of_requests" in names:
        return ["from_one(index);"]
    if "array_of_indices" in names:
        return ["for (int i = 0; i < *outcount; i++)\n        from_one(&array_of_indices[i]);"]
    return []


def procedure(function: Function) -> str:
    """One external procedure with its name for `mpi_f08`."""
    names = {argument.name for argument in arguments(function)}
    body = _Body([], [], [], [], [])
    declarations = [_convert(function, argument, names, body) for argument in arguments(function)]
    symbol = f"F08({function.base}_c)" if function.large else f"NAME({function.base})"
    call = f"CALL({function.name.removeprefix('MPI_')})({', '.join(body.passed)})"
    if function.returns != "int":
        text = f"{function.returns} {symbol}({', '.join(declarations) or 'void'})\n{{\n    return {call};\n}}\n"
        return text + ("" if function.large else f"ALIAS({function.base})\n")
    parameters = ", ".join([*declarations, "int *ierror", *body.hidden])
    lines = [*body.declared, *body.before, f"int f_error = {call};", *_indices(names), *body.after, "give(ierror, f_error);"]
    text = f"void {symbol}({parameters})\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"
    if not function.large:
        text += f"ALIAS({function.base})\n"
    if function.base in WITH_C_PTR and not function.large:
        text += f"ALSO({function.base}, {function.base}_cptr)\n"
    return text


def source(functions: list[Function]) -> str:
    """The whole file."""
    head = "/* Made by fortran/generate.py from the API table; not to be edited. */\n#include \"binding.h\"\n\n"
    return head + "\n".join(procedure(function) for function in functions if function.base not in HAND_WRITTEN)
