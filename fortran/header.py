"""Constants for Fortran: the text of `mpif.h`, and the declarations that the modules share.

Integers and handles have the values of `mpi.h`. Strings are one shorter than in C, which counts the null character.
"""

from __future__ import annotations

import table

#: Constants that only Fortran has (MPI-5.0, 2.5.4, 19.1).
FORTRAN_ONLY = {
    "MPI_STATUS_SIZE": 8, "MPI_SOURCE": 1, "MPI_TAG": 2, "MPI_ERROR": 3,
    "MPI_ADDRESS_KIND": 8, "MPI_COUNT_KIND": 8, "MPI_OFFSET_KIND": 8, "MPI_INTEGER_KIND": 4,
}
#: Arrays in Fortran are copied into contiguous buffers by the compiler; it can't know that MPI still uses one.
SWITCHES = {"MPI_SUBARRAYS_SUPPORTED": ".FALSE.", "MPI_ASYNC_PROTECTS_NONBLOCKING": ".FALSE."}

#: Sentinels, each in a common block of its own: name, block, old type, old shape, type in mpi_f08, its shape.
SENTINELS = (
    ("MPI_BOTTOM", "BOTTOM", "INTEGER", "", "INTEGER", ""),
    ("MPI_IN_PLACE", "IN_PLACE", "INTEGER", "", "INTEGER", ""),
    ("MPI_BUFFER_AUTOMATIC", "BUFFER_AUTOMATIC", "INTEGER", "", "INTEGER", ""),
    ("MPI_STATUS_IGNORE", "STATUS_IGNORE", "INTEGER", "(MPI_STATUS_SIZE)", "TYPE(MPI_Status)", ""),
    ("MPI_STATUSES_IGNORE", "STATUSES_IGNORE", "INTEGER", "(MPI_STATUS_SIZE,1)", "TYPE(MPI_Status)", "(1)"),
    ("MPI_ERRCODES_IGNORE", "ERRCODES_IGNORE", "INTEGER", "(1)", "INTEGER", "(1)"),
    ("MPI_UNWEIGHTED", "UNWEIGHTED", "INTEGER", "(1)", "INTEGER", "(1)"),
    ("MPI_WEIGHTS_EMPTY", "WEIGHTS_EMPTY", "INTEGER", "(1)", "INTEGER", "(1)"),
    ("MPI_ARGV_NULL", "ARGV_NULL", "CHARACTER*1", "(1)", "CHARACTER(LEN=1)", "(1)"),
    ("MPI_ARGVS_NULL", "ARGVS_NULL", "CHARACTER*1", "(1,1)", "CHARACTER(LEN=1)", "(1,1)"),
)

#: Predefined callbacks with their interface in mpi_f08, "" for those of the old interfaces alone.
PREDEFINED_CALLBACKS = {
    **{f"MPI_{of.upper()}_{what}": f"MPI_{of}_{kind}_attr_function" for of in ("Comm", "Type", "Win")
       for what, kind in (("DUP_FN", "copy"), ("NULL_COPY_FN", "copy"), ("NULL_DELETE_FN", "delete"))},
    "MPI_CONVERSION_FN_NULL": "MPI_Datarep_conversion_function",
    "MPI_CONVERSION_FN_NULL_C": "MPI_Datarep_conversion_function_c",
    "MPI_DUP_FN": "", "MPI_NULL_COPY_FN": "", "MPI_NULL_DELETE_FN": "",
}


def integers(constants: table.Constants) -> dict[str, int]:
    """All integer constants but handles."""
    return {**FORTRAN_ONLY, **{name: value - 1 if name.startswith("MPI_MAX_") else value
                               for name, value in constants.integers.items()}}


def handles(constants: table.Constants) -> dict[str, tuple[str, int]]:
    """All predefined handles, by type and value."""
    second = {name: constants.handles[of] for name, of in constants.second_names.items()}
    return {**constants.handles, **second}


def mpif(constants: table.Constants) -> str:
    """The include file, for fixed and free form: no line is longer than 72 columns, none is continued."""
    lines = ["! Made by fortran/generate.py from mpi.h; not to be edited."]
    values = {**integers(constants), **{name: value for name, (_, value) in handles(constants).items()}}
    for name, value in values.items():
        lines += [f"      INTEGER {name}", f"      PARAMETER ({name}={value})"]
    for name, switch in SWITCHES.items():
        lines += [f"      LOGICAL {name}", f"      PARAMETER ({name}={switch})"]
    lines += ["      INTEGER(KIND=8) MPI_DISPLACEMENT_CURRENT", "      PARAMETER (MPI_DISPLACEMENT_CURRENT=-1)"]
    for name, block, kind, shape, _, _ in SENTINELS:
        lines += [f"      {kind} {name}{shape}", f"      COMMON /MPI_FORTRAN_{block}/ {name}"]
    lines += [f"      EXTERNAL {name}" for name in PREDEFINED_CALLBACKS if not name.endswith("_C")]
    for prefix in ("", "P"):
        for name, kind in (("WTIME", "DOUBLE PRECISION"), ("WTICK", "DOUBLE PRECISION"),
                           ("AINT_ADD", "INTEGER(KIND=8)"), ("AINT_DIFF", "INTEGER(KIND=8)")):
            lines += [f"      {kind} {prefix}MPI_{name}", f"      EXTERNAL {prefix}MPI_{name}"]
    if long := [line for line in lines if len(line) > 72]:
        raise SystemExit(f"fortran/header.py: longer than 72 columns: {long}")
    return "\n".join(lines) + "\n"
