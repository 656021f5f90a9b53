"""Reads what the generator starts from: the API table (`crates/abi/src/ch*.rs`) and the constants of `mpi.h`.

The table's entries name each parameter and its kind; the kind says everything else (`kinds.py`). An entry of the macro
`collectives!` has three names: blocking, non-blocking, persistent.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

ABI = pathlib.Path(__file__).resolve().parent.parent / "crates/abi"

_ENTRY = re.compile(r"(MPI_\w+(?:\s*[,;]\s*MPI_\w+)*)\s*=>\s*\(([^)]*)\)\s*(\S+)")
_HANDLE = re.compile(r"#define (MPI_\w+)\s+\(\((MPI_\w+)\) (0x[0-9a-f]+)\)")
_NUMBER = re.compile(r"(?:#define\s+)?(MPI_\w+)\s*(?:=\s*|\s)(-?(?:0[xX][0-9a-fA-F]+|\d+)),?\s*(?:/\*.*)?")
_SECOND_NAME = re.compile(r"#define (MPI_\w+)\s+(MPI_\w+)$")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """Name and kind of one parameter."""

    name: str
    kind: str


@dataclasses.dataclass(frozen=True)
class Function:
    """One C function; `large` if it is the twin with large counts, whose name ends in `_c`."""

    name: str
    parameters: tuple[Parameter, ...]
    large: bool
    returns: str = "int"

    @property
    def base(self) -> str:
        """Lower-case name without `MPI_` and without the twin's `_c`."""
        name = self.name.removeprefix("MPI_").lower()
        return name.removesuffix("_c") if self.large else name


@dataclasses.dataclass(frozen=True)
class Constants:
    """Constants of `mpi.h`: handles by type, integers, second names of handles."""

    handles: dict[str, tuple[str, int]]
    integers: dict[str, int]
    second_names: dict[str, str]


def functions() -> list[Function]:
    """All functions that have a Fortran side, in the table's order."""
    found: list[Function] = []
    for path in sorted((ABI / "src").glob("ch*.rs")):
        text = re.sub(r"//[^\n]*", "", path.read_text())
        for match in _ENTRY.finditer(text):
            found += _entry(match[1], match[2], match[3])
    names = [function.name for function in found]
    if len(set(names)) != len(names) or len(names) < 500:
        raise SystemExit(f"fortran/table.py: {len(names)} functions in the API table, {len(set(names))} names")
    return [function for function in found if _has_fortran(function.name)]


def _has_fortran(name: str) -> bool:
    # The tool interface and conversions between C handles and integers exist in C only.
    return not name.startswith("MPI_T_") and not name.endswith(("_toint", "_fromint"))


def _entry(names: str, parameters: str, after: str) -> list[Function]:
    listed = tuple(Parameter(*(word.strip() for word in item.split(":")))
                   for item in parameters.split(",") if ":" in item)
    request = (Parameter("request", "OutRequest"),)
    tails: list[tuple[Parameter, ...]] = [(), request, (Parameter("info", "Info"), *request)]
    forms = [form for form in names.split(";") if form.strip()]
    plain = {"MPI_Wtime": "double", "MPI_Wtick": "double", "MPI_Aint_add": "MPI_Aint", "MPI_Aint_diff": "MPI_Aint"}
    found = []
    for form, tail in zip(forms, tails, strict=False):
        for word in re.findall(r"MPI_\w+", form):
            found.append(Function(word, listed + tail, word.endswith("_c"), plain.get(word, "int")))
    if after == "->" and not all(f.name in plain or not _has_fortran(f.name) for f in found):
        raise SystemExit(f"fortran/table.py: {names} returns something else than an error code")
    return found


def constants() -> Constants:
    """The constants of `mpi.h`, but those of the tool interface and of the C side alone."""
    handles: dict[str, tuple[str, int]] = {}
    integers: dict[str, int] = {}
    second: dict[str, str] = {}
    for line in (ABI / "include/mpi.h").read_text().splitlines():
        line = line.strip()
        if match := _HANDLE.match(line):
            if not match[2].startswith("MPI_T_") and match[2] != "MPI_Offset":
                handles[match[1]] = (match[2], int(match[3], 16))
        elif match := _NUMBER.fullmatch(line):
            integers[match[1]] = int(match[2], 0)
        elif (match := _SECOND_NAME.match(line)) and match[2] in handles:
            second[match[1]] = match[2]
    keep = {name: value for name, value in integers.items() if not name.startswith(("MPI_T_", "MPI_F_"))}
    return Constants(handles, keep, second)
