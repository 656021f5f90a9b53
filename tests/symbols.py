#!/usr/bin/env python3
"""Compares what dist/ exports and declares with the oracle: 664 MPI_ names (weak) and 664 PMPI_ names (strong) at equal addresses, the same
prototypes in mpi.h, and the same value for every constant of the standard ABI (computed by one C program compiled with each header)."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run as runner

FUNCTIONS = 664


def exported(library: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Name → (type letter of nm, address) of the dynamic symbols."""
    text = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True).stdout
    return {m[3]: (m[2], m[1]) for m in re.finditer(r"^(\w+) (\w) (P?MPI_\w+)$", text, re.M)}


def prototypes(header: pathlib.Path) -> dict[str, str]:
    """Function → prototype with parameter names and spaces taken out."""
    text = subprocess.run(["cc", "-E", "-P", "-x", "c", str(header)], check=True, capture_output=True, text=True).stdout
    found = {}
    for match in re.finditer(r"\b(int|double|MPI_\w+)\s+(P?MPI_\w+)\s*\(([^;]*)\)\s*;", text.replace("\n", " ")):
        kinds = []
        for parameter in match[3].split(","):
            parameter = re.sub(r"\s+", " ", parameter).strip().replace("[]", "*")
            if not re.fullmatch(r"(const )?\w+\s*\**", parameter):
                parameter = re.sub(r"(\w[\w ]*\**(?: const)?[ *]*?)\b(?!int\b|void\b|char\b)\w+((?:\[\d+\])*\*?)$", r"\1\2", parameter)
            kinds.append(re.sub(r"\s*\*\s*", "*", parameter).replace(" ", ""))
        found[match[2]] = f"{match[1]}({','.join(kinds)})"
    return found


def constants(header: pathlib.Path) -> list[str]:
    """Names of the MPI constants in a header: object-like macros and enumerators."""
    text = header.read_text()
    macros = re.findall(r"^#\s*define\s+(MPI_[A-Z0-9_]+)\s+[^\s/]", text, re.M)
    enums = re.findall(r"^\s*(MPI_[A-Z0-9_]+)\s*=", text, re.M)
    return sorted({name for name in macros + enums if not name.startswith(("MPI_H_", "MPI_ABI_A", "MPI_ABI_O", "MPI_ABI_C", "MPI_Fint"))})


def values(header: pathlib.Path, names: list[str], tmp: pathlib.Path) -> dict[str, str]:
    """The value of each constant as this header has it, "absent" where it hasn't."""
    (tmp / "mpi.h").write_bytes(header.read_bytes())
    present = set(constants(header)) | set(re.findall(r"\b(MPI_[A-Z0-9_]+)\b", header.read_text()))
    lines = [f'printf("{name} %lld\\n", (long long)(intptr_t)({name}));' for name in names if name in present]
    (tmp / "values.c").write_text("#include <mpi.h>\n#include <stdint.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n")
    subprocess.run(["cc", "-w", f"-I{tmp}", f"-I{header.parent}", "-o", str(tmp / "values"), str(tmp / "values.c")], check=True)
    text = subprocess.run([str(tmp / "values")], check=True, capture_output=True, text=True).stdout
    found = dict(line.split() for line in text.splitlines())
    return {name: found.get(name, "absent") for name in names}


def main() -> int:
    libs = runner.libraries()
    ours, oracle = libs["ferrule"], libs["mpich"]
    faults = []
    symbols, reference = exported(ours.lib / "libmpi_abi.so.1"), exported(oracle.lib / "libmpi_abi.so.1")
    public = {n for n in symbols if n.startswith("MPI_")}
    profiled = {n for n in symbols if n.startswith("PMPI_")}
    for kind, names, letter in (("MPI_", public, "W"), ("PMPI_", profiled, "T")):
        if len(names) != FUNCTIONS:
            faults.append(f"{len(names)} {kind} functions are exported, expected {FUNCTIONS}")
        wrong = sorted(n for n in names if symbols[n][0] != letter)
        if wrong:
            faults.append(f"{kind} names that nm doesn't show as {letter}: {wrong[:10]}")
    apart = sorted(n for n in public if symbols.get("P" + n, ("", ""))[1] != symbols[n][1])
    if apart:
        faults.append(f"MPI_X and PMPI_X at different addresses: {apart[:10]}")
    a, b = prototypes(ours.include / "mpi.h"), prototypes(oracle.include / "mpi_abi.h")
    missing = sorted(n for n in reference if n in b and n.startswith("MPI_") and n not in symbols)
    if missing:
        faults.append(f"exported by the oracle only: {missing}")
    undeclared = sorted(n for n in symbols if n not in a)
    if undeclared:
        faults.append(f"exported but not declared in mpi.h: {undeclared[:10]}")
    different = [f"{n}: {a[n]} / oracle {b[n]}" for n in sorted(a.keys() & b.keys()) if a[n] != b[n]]
    if different:
        faults.append(f"{len(different)} prototypes differ:\n  " + "\n  ".join(different[:20]))
    both = constants(oracle.include / "mpi_abi.h")
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        mine = values(ours.include / "mpi.h", both, pathlib.Path(one))
        theirs = values(oracle.include / "mpi_abi.h", both, pathlib.Path(two))
    off = [f"{n}: {mine[n]} / oracle {theirs[n]}" for n in both if mine[n] != theirs[n]]
    if off:
        faults.append(f"{len(off)} constants differ:\n  " + "\n  ".join(off[:30]))
    for fault in faults:
        print(f"FAIL  {fault}")
    print(f"symbols: {len(public)} MPI_ and {len(profiled)} PMPI_ functions, {len(a.keys() & b.keys())} prototypes and {len(both)} constants compared, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
