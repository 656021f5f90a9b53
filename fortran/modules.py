"""Writes the modules `mpi` and `mpi_f08` with an interface for each function, and what they share.

In `mpi_f08` each name is generic: the specific `MPI_X_f08`, and `MPI_X_c_f08` with large counts where Fortran can tell the two
apart; where it can't, the second has the name `MPI_X_c`. Choice buffers are assumed-size arrays of any type without
a check of the argument (`NO_ARG_CHECK`); gfortran then passes an address and copies what isn't contiguous.
"""

from __future__ import annotations

import kinds
from clayer import WITH_C_PTR, Argument, arguments
from table import Function

HANDLES = ("MPI_Comm", "MPI_Datatype", "MPI_Errhandler", "MPI_File", "MPI_Group", "MPI_Info", "MPI_Message", "MPI_Op",
           "MPI_Request", "MPI_Session", "MPI_Win")
CALLBACKS = {
    "FnUser": "MPI_User_function", "FnCommErrhandler": "MPI_Comm_errhandler_function",
    "FnFileErrhandler": "MPI_File_errhandler_function", "FnWinErrhandler": "MPI_Win_errhandler_function",
    "FnSessionErrhandler": "MPI_Session_errhandler_function", "FnGrequestQuery": "MPI_Grequest_query_function",
    "FnGrequestFree": "MPI_Grequest_free_function", "FnGrequestCancel": "MPI_Grequest_cancel_function",
    "FnDatarepExtent": "MPI_Datarep_extent_function", "FnDatarepConversion": "MPI_Datarep_conversion_function",
    **{f"Fn{of}{what}Attr": f"MPI_{of}_{what.lower()}_attr_function" for of in ("Comm", "Type", "Win")
       for what in ("Copy", "Delete")},
}
#: Only in the old interfaces (MPI-5.0, chapter 16).
NOT_IN_F08 = {"attr_delete", "attr_get", "attr_put", "keyval_create", "keyval_free"}
RESULTS = {"double": "DOUBLE PRECISION", "MPI_Aint": kinds.ADDRESS}


def wrapped(text: str, indent: str) -> str:
    """A statement in lines of at most 120 columns."""
    lines, rest = [], indent + text
    while len(rest) > 118:
        cut = rest.rindex(",", 0, 116) + 1
        lines.append(rest[:cut] + " &")
        rest = indent + "  " + rest[cut:].lstrip()
    return "\n".join([*lines, rest])


def callback_of(function: Function, name: str) -> str:
    """The abstract interface of a parameter that is a function."""
    kind = next(parameter.kind for parameter in function.parameters if parameter.name == name)
    large = function.large and kind in ("FnUser", "FnDatarepConversion")
    return CALLBACKS[kind] + ("_c" if large else "")


def _asynchronous(function: Function) -> str:
    """Attributes of buffers that MPI uses after the call: without TARGET, gfortran may assume that nobody keeps their address."""
    base = function.base
    late = base.startswith(("i", "r")) and base not in ("init", "init_thread", "initialized", "recv", "rsend", "reduce",
                                                        "reduce_scatter", "reduce_scatter_block", "reduce_local")
    window = base in ("put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap", "win_create",
                      "win_attach")
    file = base.startswith("file_i") or base.endswith(("_begin", "_end", "_init", "buffer_attach", "attach_buffer"))
    return ", ASYNCHRONOUS, TARGET" if late or window or file else ""


def declare_f08(function: Function, argument: Argument) -> list[str]:
    """The declaration of one argument in mpi_f08."""
    kind, name = argument.kind, argument.name
    intent = f", INTENT({kind.intent})" if kind.intent else ""
    shape = f"({kind.dimension})" if kind.dimension else ""
    if argument.fortran == kinds.CHOICE:
        return [f"TYPE(*), DIMENSION(*){intent}{_asynchronous(function)} :: {name}",
                f"!GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}"]
    if argument.fortran == kinds.CALLBACK:
        return [f"PROCEDURE({callback_of(function, name)}) :: {name}"]
    if argument.fortran == kinds.STATUS:
        return [f"TYPE(MPI_Status){intent} :: {name}{shape}"]
    if argument.fortran == kinds.CHARACTER:
        return [f"CHARACTER(LEN=*){intent} :: {name}{shape}"]
    return [f"{argument.fortran}{intent} :: {name}{shape}"]


def declare_old(function: Function, argument: Argument, c_ptr: bool) -> list[str]:
    """The declaration of one argument in mpi."""
    kind, name = argument.kind, argument.name
    shape = f"({kind.dimension})" if kind.dimension else ""
    detached = function.base.endswith(("buffer_detach", "detach_buffer"))
    if argument.fortran == kinds.CHOICE or (argument.fortran == kinds.POINTER and detached):
        return [f"TYPE(*), DIMENSION(*){_asynchronous(function)} :: {name}", f"!GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}"]
    if argument.fortran == kinds.POINTER:
        return [f"{kinds.POINTER if c_ptr else kinds.ADDRESS} :: {name}"]
    if argument.fortran == kinds.CALLBACK:
        return [f"EXTERNAL :: {name}"]
    if argument.fortran == kinds.STATUS:
        return [f"INTEGER :: {name}(MPI_STATUS_SIZE{',*' if kind.dimension else ''})"]
    if argument.fortran == kinds.CHARACTER:
        return [f"CHARACTER(LEN=*) :: {name}{shape}"]
    return [f"{kinds.INTEGER if kind.handle else argument.fortran} :: {name}{shape}"]


def _body(name: str, function: Function, declarations: list[str], error: str) -> list[str]:
    listed = [argument.name for argument in arguments(function)]
    if function.returns != "int":
        head, end = f"FUNCTION {name}({', '.join(listed)})", "FUNCTION"
        declarations = [*declarations, f"{RESULTS[function.returns]} :: {name}"]
    else:
        head, end = f"SUBROUTINE {name}({', '.join([*listed, 'ierror'])})", "SUBROUTINE"
        declarations = [*declarations, error]
    return [wrapped(head, "    "), "      IMPORT", "      IMPLICIT NONE", *(f"      {line}" for line in declarations),
            f"    END {end} {name}"]


def f08_name(function: Function) -> str:
    """`MPI_X`, without the twin's `_c`."""
    return function.name.removesuffix("_c") if function.large else function.name


def _signature(function: Function) -> list[tuple[str, str]]:
    """What tells specific procedures apart; the three large integers are one type here."""
    wide = dict.fromkeys((kinds.ADDRESS, kinds.COUNT, kinds.OFFSET), "wide")
    return [(wide.get(a.fortran, a.fortran), a.kind.dimension) for a in arguments(function)]


def f08_interfaces(functions: list[Function], prefix: str) -> list[str]:
    """Generic interfaces of mpi_f08; a twin with the same types as the function has its own name."""
    lines = []
    small = {function.base: function for function in functions if not function.large}
    generics: dict[str, list[Function]] = {}
    for function in functions:
        if function.base in NOT_IN_F08:
            continue
        same = function.large and _signature(function) == _signature(small[function.base])
        generics.setdefault(f08_name(function) + ("_c" if same else ""), []).append(function)
    for generic, members in generics.items():
        lines.append(f"  INTERFACE {prefix}{generic}")
        for function in members:
            specific = f"{prefix}{f08_name(function)}{'_c' if function.large else ''}_f08"
            declarations = [line for argument in arguments(function) for line in declare_f08(function, argument)]
            lines += _body(specific, function, declarations, "INTEGER, OPTIONAL, INTENT(OUT) :: ierror")
        lines.append(f"  END INTERFACE {prefix}{generic}")
    return lines


def old_interfaces(functions: list[Function], prefix: str) -> list[str]:
    """Interfaces of the module mpi."""
    lines = []
    for function in functions:
        if function.large:
            continue
        name = prefix + function.name
        both = function.base in WITH_C_PTR
        lines.append(f"  INTERFACE {name}" if both else "  INTERFACE")
        for c_ptr in (False, True) if both else (False,):
            declarations = [line for argument in arguments(function) for line in declare_old(function, argument, c_ptr)]
            lines += _body(name + ("_CPTR" if c_ptr else ""), function, declarations, "INTEGER :: ierror")
        lines.append("  END INTERFACE")
    return lines
