"""What each kind of parameter of the API table is in Fortran and how the C layer hands it on.

A kind that is missing here stops the build: the C layer never guesses.
"""

from __future__ import annotations

import dataclasses

INTEGER, LOGICAL, ADDRESS = "INTEGER", "LOGICAL", "INTEGER(KIND=MPI_ADDRESS_KIND)"
COUNT, OFFSET = "INTEGER(KIND=MPI_COUNT_KIND)", "INTEGER(KIND=MPI_OFFSET_KIND)"
CHARACTER, CHOICE, POINTER, CALLBACK, STATUS = "CHARACTER", "choice", "TYPE(C_PTR)", "callback", "status"

#: C types of the numbers.
C_TYPES = {INTEGER: "int", LOGICAL: "int", ADDRESS: "MPI_Aint", COUNT: "MPI_Count", OFFSET: "MPI_Offset"}


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind.

    `way` says what the C layer does: `value` (dereference), `pass` (hand the address on), `choice`, `text`, `text_out`,
    `status`, `statuses`, `weights`, `errcodes`, `in`, `out`, `inout` (one handle), `array_in`, `array_inout`, `array_out`
    (handles), `drop` (no such argument in Fortran), `special` (hand-written).
    """

    small: str
    large: str
    way: str
    intent: str
    dimension: str = ""
    handle: str = ""


def _number(fortran: str, large: str = "", dimension: str = "", intent: str = "IN") -> Kind:
    way = "pass" if dimension or intent != "IN" else "value"
    return Kind(fortran, large or fortran, way, intent, dimension)


def _handle(handle: str, way: str) -> Kind:
    array = way.startswith("array")
    intent = {"in": "IN", "out": "OUT", "inout": "INOUT"}[way.removeprefix("array_")]
    return Kind(f"TYPE({handle})", f"TYPE({handle})", way, intent, "*" if array else "", handle)


KINDS: dict[str, Kind] = {
    **{name: _number(INTEGER) for name in (
        "Int", "Level", "Length", "Room", "Dims", "SendTag", "RecvTag", "Rank", "Dest", "Source", "Root")},
    "Flag": _number(LOGICAL),
    "Aint": _number(ADDRESS),
    "Offset": _number(OFFSET),
    "BigCount": _number(COUNT),
    "ByteDispl": _number(ADDRESS, COUNT),
    **{name: _number(INTEGER, COUNT) for name in ("Count", "MaybeCount", "Stride")},
    "DispUnit": _number(INTEGER, ADDRESS),
    "CountArray": _number(INTEGER, COUNT, "*"),
    "DisplArray": _number(INTEGER, ADDRESS, "*"),
    "IntArray": _number(INTEGER, dimension="*"),
    "AintArray": _number(ADDRESS, dimension="*"),
    "ByteDisplArray": _number(ADDRESS, COUNT, "*"),
    "RangeArray": _number(INTEGER, dimension="3,*"),
    "OutInt": _number(INTEGER, intent="OUT"),
    "InOutInt": _number(INTEGER, intent="INOUT"),
    "OutFlag": _number(LOGICAL, intent="OUT"),
    "OutAint": _number(ADDRESS, intent="OUT"),
    "OutByteDispl": _number(ADDRESS, COUNT, intent="OUT"),
    "InOutByteDispl": _number(ADDRESS, COUNT, intent="INOUT"),
    "OutBigCount": _number(COUNT, intent="OUT"),
    "OutOffset": _number(OFFSET, intent="OUT"),
    "OutCount": _number(INTEGER, COUNT, intent="OUT"),
    "InOutCount": _number(INTEGER, COUNT, intent="INOUT"),
    "OutDispUnit": _number(INTEGER, ADDRESS, intent="OUT"),
    "OutIntArray": _number(INTEGER, dimension="*", intent="OUT"),
    "OutAintArray": _number(ADDRESS, dimension="*", intent="OUT"),
    "OutCountArray": _number(COUNT, dimension="*", intent="OUT"),
    "Weights": Kind(INTEGER, INTEGER, "weights", "IN", "*"),
    "OutWeights": Kind(INTEGER, INTEGER, "weights", "", "*"),
    "SendBuf": Kind(CHOICE, CHOICE, "choice", "IN"),
    "ConstAddr": Kind(CHOICE, CHOICE, "choice", "IN"),
    "RecvBuf": Kind(CHOICE, CHOICE, "choice", ""),
    "Addr": Kind(CHOICE, CHOICE, "choice", ""),
    "OutAddr": Kind(POINTER, POINTER, "pass", "OUT"),
    "Text": Kind(CHARACTER, CHARACTER, "text", "IN"),
    "RootText": Kind(CHARACTER, CHARACTER, "text", "IN"),
    "TextArray": Kind(CHARACTER, CHARACTER, "text", "IN"),
    "OutText": Kind(CHARACTER, CHARACTER, "text_out", "OUT"),
    "Strings": Kind(CHARACTER, CHARACTER, "special", "IN", "*"),
    "StringLists": Kind(CHARACTER, CHARACTER, "special", "IN", "count,*"),
    "InStatus": Kind(STATUS, STATUS, "status", "IN"),
    "InOutStatus": Kind(STATUS, STATUS, "status", "INOUT"),
    "OutStatus": Kind(STATUS, STATUS, "status", ""),
    "OutStatusArray": Kind(STATUS, STATUS, "statuses", "", "*"),
    "ArgcPtr": Kind("", "", "drop", ""),
    "ArgvPtr": Kind("", "", "drop", ""),
    **{f"{prefix}{name}": _handle(f"MPI_{full}", way)
       for name, full in (("Comm", "Comm"), ("Group", "Group"), ("Type", "Datatype"), ("Op", "Op"), ("Info", "Info"),
                          ("Errhandler", "Errhandler"), ("Session", "Session"), ("Win", "Win"), ("File", "File"),
                          ("Request", "Request"), ("Message", "Message"))
       for prefix, way in (("", "in"), ("Out", "out"), ("InOut", "inout"))},
    "AnyComm": _handle("MPI_Comm", "in"),
    "AnyFile": _handle("MPI_File", "in"),
    "AnyGroup": _handle("MPI_Group", "in"),
    "AnyWin": _handle("MPI_Win", "in"),
    **{name: _handle("MPI_Datatype", "in") for name in ("AnyType", "MaybeType", "NullableType")},
    "InfoObject": _handle("MPI_Info", "in"),
    "RootInfo": _handle("MPI_Info", "in"),
    "TypeArray": _handle("MPI_Datatype", "array_in"),
    "OutTypeArray": _handle("MPI_Datatype", "array_out"),
    "InfoArray": _handle("MPI_Info", "array_in"),
    "RequestArray": _handle("MPI_Request", "array_in"),
    "InOutRequestArray": _handle("MPI_Request", "array_inout"),
    **{name: Kind(CALLBACK, CALLBACK, "special", "") for name in (
        "FnUser", "FnCommCopyAttr", "FnCommDeleteAttr", "FnTypeCopyAttr", "FnTypeDeleteAttr", "FnWinCopyAttr",
        "FnWinDeleteAttr", "FnCopy", "FnDelete", "FnCommErrhandler", "FnFileErrhandler", "FnWinErrhandler",
        "FnSessionErrhandler", "FnGrequestQuery", "FnGrequestFree", "FnGrequestCancel", "FnDatarepExtent",
        "FnDatarepConversion")},
}

#: Parameters that Fortran sees otherwise than their kind says.
LOGICALS = {("cart_create", "periods"), ("cart_map", "periods"), ("cart_get", "periods"), ("cart_sub", "remain_dims"),
            ("dist_graph_neighbors_count", "weighted")}
ADDRESS_VALUES = {(f"{of}_{name}", parameter) for of in ("comm", "type", "win") for name, parameter in (
    ("create_keyval", "extra_state"), ("get_attr", "attribute_val"), ("set_attr", "attribute_val"))} | {
    ("grequest_start", "extra_state"), ("register_datarep", "extra_state")}
INTEGER_VALUES = {("attr_get", "attribute_val"), ("attr_put", "attribute_val"), ("keyval_create", "extra_state")}


def kind_of(function: str, name: str, kind: str) -> Kind:
    """The kind of a parameter of a function, by its name without `MPI_` in lower case."""
    if kind not in KINDS:
        raise SystemExit(f"fortran/kinds.py: no rule for kind {kind} (MPI_{function}, {name})")
    known = KINDS[kind]
    if (function, name) in LOGICALS:
        return dataclasses.replace(known, small=LOGICAL, large=LOGICAL)
    if (function, name) in ADDRESS_VALUES:
        return Kind(ADDRESS, ADDRESS, "special", "OUT" if "get_attr" in function else "IN")
    if (function, name) in INTEGER_VALUES:
        return Kind(INTEGER, INTEGER, "special", "OUT" if "attr_get" in function else "IN")
    return known


#: Functions whose arguments differ in Fortran: none of these parameters.
DROPPED = {("info_create_env", "argc"), ("info_create_env", "argv")}
#: Names that Fortran gives to parameters.
RENAMED = {"indx": "index"}
