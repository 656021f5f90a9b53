"""Puts the modules' source files together: constants, handle types, callbacks, `MPI_SIZEOF`, `mpi`, `mpi_f08`."""

from __future__ import annotations

import platform

import header
import modules
import table
from table import Function

HEAD = "! Made by fortran/generate.py from the API table; not to be edited."

#: Abstract interfaces of mpi_f08 (MPI-5.0, 19.1.15): arguments as "name:type" with the short types below.
_TYPES = {
    "ptr": "TYPE(C_PTR), VALUE", "int": "INTEGER", "count": "INTEGER(KIND=MPI_COUNT_KIND)",
    "addr": "INTEGER(KIND=MPI_ADDRESS_KIND)", "offset": "INTEGER(KIND=MPI_OFFSET_KIND)", "logical": "LOGICAL",
    "status": "TYPE(MPI_Status)", "type": "TYPE(MPI_Datatype)", "comm": "TYPE(MPI_Comm)", "win": "TYPE(MPI_Win)",
    "file": "TYPE(MPI_File)", "session": "TYPE(MPI_Session)",
}
_CONVERSION = "userbuf:ptr datatype:type count:{} filebuf:ptr position:offset extra_state:addr ierror:int"
CALLBACKS = {
    "MPI_User_function": "invec:ptr inoutvec:ptr len:int datatype:type",
    "MPI_User_function_c": "invec:ptr inoutvec:ptr len:count datatype:type",
    "MPI_Comm_errhandler_function": "comm:comm error_code:int",
    "MPI_File_errhandler_function": "file:file error_code:int",
    "MPI_Win_errhandler_function": "win:win error_code:int",
    "MPI_Session_errhandler_function": "session:session error_code:int",
    "MPI_Grequest_query_function": "extra_state:addr status:status ierror:int",
    "MPI_Grequest_free_function": "extra_state:addr ierror:int",
    "MPI_Grequest_cancel_function": "extra_state:addr complete:logical ierror:int",
    "MPI_Datarep_extent_function": "datatype:type extent:addr extra_state:addr ierror:int",
    "MPI_Datarep_conversion_function": _CONVERSION.format("int"),
    "MPI_Datarep_conversion_function_c": _CONVERSION.format("count"),
}
for _of, _old, _handle in (("Comm", "oldcomm", "comm"), ("Type", "oldtype", "type"), ("Win", "oldwin", "win")):
    _key = f"{_of.lower()}_keyval"
    CALLBACKS[f"MPI_{_of}_copy_attr_function"] = (
        f"{_old}:{_handle} {_key}:int extra_state:addr attribute_val_in:addr attribute_val_out:addr flag:logical ierror:int")
    CALLBACKS[f"MPI_{_of}_delete_attr_function"] = (
        f"{'datatype' if _of == 'Type' else _handle}:{_handle} {_key}:int attribute_val:addr extra_state:addr ierror:int")


def constants_module(constants: table.Constants) -> str:
    """Integers that both modules have."""
    lines = [HEAD, "MODULE mpi_fortran_constants", "  IMPLICIT NONE"]
    lines += [f"  INTEGER, PARAMETER :: {name} = {value}" for name, value in header.integers(constants).items()]
    lines += [f"  LOGICAL, PARAMETER :: {name} = {value}" for name, value in header.SWITCHES.items()]
    lines.append("  INTEGER(KIND=MPI_OFFSET_KIND), PARAMETER :: MPI_DISPLACEMENT_CURRENT = -1")
    return "\n".join([*lines, "END MODULE mpi_fortran_constants", ""])


def types_module() -> str:
    """Handle types, the status, comparison of handles, conversion of statuses."""
    lines = [HEAD, "MODULE mpi_f08_types", "  USE mpi_fortran_constants, ONLY : MPI_STATUS_SIZE", "  IMPLICIT NONE",
             "  PRIVATE :: MPI_STATUS_SIZE"]
    for name in modules.HANDLES:
        lines += [f"  TYPE, BIND(C) :: {name}", "    INTEGER :: MPI_VAL", f"  END TYPE {name}"]
    lines += ["  TYPE, BIND(C) :: MPI_Status", "    INTEGER :: MPI_SOURCE, MPI_TAG, MPI_ERROR",
              "    INTEGER, PRIVATE :: MPI_internal(5)", "  END TYPE MPI_Status"]
    for operator, short in (("==", "eq"), ("/=", "ne")):
        lines.append(f"  INTERFACE OPERATOR ({operator})")
        lines += [f"    MODULE PROCEDURE {name}_{short}" for name in modules.HANDLES]
        lines.append("  END INTERFACE")
        lines += [f"  PRIVATE :: {name}_{short}" for name in modules.HANDLES]
    for prefix in ("", "P"):
        for name, first, second in (("f2f08", "INTEGER, INTENT(IN) :: f_status(MPI_STATUS_SIZE)",
                                     "TYPE(MPI_Status), INTENT(OUT) :: f08_status"),
                                    ("f082f", "TYPE(MPI_Status), INTENT(IN) :: f08_status",
                                     "INTEGER, INTENT(OUT) :: f_status(MPI_STATUS_SIZE)")):
            listed = "f_status, f08_status" if name == "f2f08" else "f08_status, f_status"
            lines += ["  INTERFACE", f"    SUBROUTINE {prefix}MPI_Status_{name}({listed}, ierror)", "      IMPORT",
                      "      IMPLICIT NONE", f"      {first}", f"      {second}",
                      "      INTEGER, OPTIONAL, INTENT(OUT) :: ierror", f"    END SUBROUTINE {prefix}MPI_Status_{name}",
                      "  END INTERFACE"]
    lines.append("CONTAINS")
    for operator, short in (("==", "eq"), ("/=", "ne")):
        for name in modules.HANDLES:
            lines += [f"  ELEMENTAL LOGICAL FUNCTION {name}_{short}(a, b)", f"    TYPE({name}), INTENT(IN) :: a, b",
                      f"    {name}_{short} = a%MPI_VAL {operator} b%MPI_VAL", f"  END FUNCTION {name}_{short}"]
    return "\n".join([*lines, "END MODULE mpi_f08_types", ""])


def callbacks_module() -> str:
    """Abstract interfaces of the program's functions."""
    lines = [HEAD, "MODULE mpi_f08_callbacks", "  USE, INTRINSIC :: ISO_C_BINDING, ONLY : C_PTR",
             "  USE mpi_fortran_constants, ONLY : MPI_ADDRESS_KIND, MPI_COUNT_KIND, MPI_OFFSET_KIND", "  USE mpi_f08_types",
             "  IMPLICIT NONE", "  PRIVATE :: C_PTR, MPI_ADDRESS_KIND, MPI_COUNT_KIND, MPI_OFFSET_KIND",
             "  ABSTRACT INTERFACE"]
    for name, text in CALLBACKS.items():
        listed = [word.split(":") for word in text.split()]
        lines += [modules.wrapped(f"SUBROUTINE {name}({', '.join(word[0] for word in listed)})", "    "), "      IMPORT",
                  "      IMPLICIT NONE", *(f"      {_TYPES[kind]} :: {argument}" for argument, kind in listed),
                  f"    END SUBROUTINE {name}"]
    return "\n".join([*lines, "  END INTERFACE", "END MODULE mpi_f08_callbacks", ""])


def sizeof_module() -> str:
    """MPI_SIZEOF (deprecated, MPI-5.0, 16.3) for scalars and arrays of the intrinsic types."""
    reals = (4, 8, 10, 16) if platform.machine() in ("x86_64", "i686") else (4, 8, 16)
    kinds = [(name, kind) for name in ("INTEGER", "LOGICAL") for kind in (1, 2, 4, 8, 16)]
    kinds += [(name, kind) for name in ("REAL", "COMPLEX") for kind in reals]
    specifics = {f"sizeof_{name.lower()}{kind}": f"{name}({kind})" for name, kind in kinds}
    specifics["sizeof_character"] = "CHARACTER(LEN=*)"
    lines = [HEAD, "MODULE mpi_fortran_sizeof", "  IMPLICIT NONE", "  PRIVATE", "  PUBLIC :: MPI_SIZEOF, PMPI_SIZEOF"]
    for prefix in ("", "P"):
        lines += [f"  INTERFACE {prefix}MPI_SIZEOF", *(f"    MODULE PROCEDURE {name}" for name in specifics), "  END INTERFACE"]
    lines.append("CONTAINS")
    for name, kind in specifics.items():
        lines += [f"  SUBROUTINE {name}(x, size, ierror)", f"    {kind}, INTENT(IN) :: x(..)", "    INTEGER, INTENT(OUT) :: size",
                  "    INTEGER, OPTIONAL, INTENT(OUT) :: ierror", "    size = STORAGE_SIZE(x) / 8",
                  "    IF (PRESENT(ierror)) ierror = 0", f"  END SUBROUTINE {name}"]
    return "\n".join([*lines, "END MODULE mpi_fortran_sizeof", ""])


def _sync_reg(prefix: str, f08: bool) -> list[str]:
    name = f"{prefix}MPI_F_sync_reg"
    specific = name + "_f08" if f08 else name
    return [f"  INTERFACE {name}" if f08 else "  INTERFACE", f"    SUBROUTINE {specific}(buf)",
            f"      TYPE(*), DIMENSION(*){', ASYNCHRONOUS' if f08 else ''} :: buf",
            "      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf", f"    END SUBROUTINE {specific}", "  END INTERFACE"]


def f08_module(constants: table.Constants, functions: list[Function]) -> str:
    """The module mpi_f08."""
    lines = [HEAD, "MODULE mpi_f08", "  USE, INTRINSIC :: ISO_C_BINDING, ONLY : C_PTR", "  USE mpi_fortran_constants",
             "  USE mpi_f08_types", "  USE mpi_f08_callbacks", "  USE mpi_fortran_sizeof", "  IMPLICIT NONE", "  PRIVATE :: C_PTR"]
    lines += [f"  TYPE({of}), PARAMETER :: {name} = {of}({value})"
              for name, (of, value) in header.handles(constants).items()]
    for name, block, _, _, kind, shape in header.SENTINELS:
        lines += [f"  {kind} :: {name}{shape}", f"  COMMON /MPI_FORTRAN_{block}/ {name}"]
    lines += [f"  PROCEDURE({of}) :: {name}" for name, of in header.PREDEFINED_CALLBACKS.items() if of]
    for prefix in ("", "P"):
        lines += modules.f08_interfaces(functions, prefix) + _sync_reg(prefix, True)
    return "\n".join([*lines, "END MODULE mpi_f08", ""])


def old_module(constants: table.Constants, functions: list[Function]) -> str:
    """The module mpi."""
    lines = [HEAD, "MODULE mpi", "  USE, INTRINSIC :: ISO_C_BINDING, ONLY : C_PTR", "  USE mpi_fortran_constants",
             "  USE mpi_f08_types", "  USE mpi_fortran_sizeof", "  IMPLICIT NONE", "  PRIVATE :: C_PTR"]
    lines += [f"  INTEGER, PARAMETER :: {name} = {value}" for name, (_, value) in header.handles(constants).items()]
    for name, block, kind, shape, _, _ in header.SENTINELS:
        lines += [f"  {kind.replace('*1', '(LEN=1)')} :: {name}{shape}", f"  COMMON /MPI_FORTRAN_{block}/ {name}"]
    lines += [f"  EXTERNAL :: {name}" for name in header.PREDEFINED_CALLBACKS if not name.endswith("_C")]
    for prefix in ("", "P"):
        lines += modules.old_interfaces(functions, prefix) + _sync_reg(prefix, False)
    return "\n".join([*lines, "END MODULE mpi", ""])
