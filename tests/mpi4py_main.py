#!/usr/bin/env python3
"""Runs mpi4py's test/main.py, unchanged, on a library that lacks some functions.

Some of the suite's modules try a function when they are imported and leave its tests out if that raises NotImplementedError, which is what
mpi4py makes of a function that the library did not have when mpi4py was built. A library that has the function and answers
MPI_ERR_UNSUPPORTED_OPERATION raises MPI.Exception instead, and the whole module would be lost. For these modules (the first argument,
separated by commas) the name NotImplementedError stands for the base class of both.

Usage: mpi4py_main.py MODULE,... path/to/test/main.py [its options]
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import pathlib
import runpy
import sys
import types
from collections.abc import Sequence


class Tolerant(importlib.abc.Loader):
    """Loads a module in whose namespace NotImplementedError has been widened."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)["NotImplementedError"] = RuntimeError  # the base of NotImplementedError and of MPI.Exception
        self.loader.exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of the list where Python would, and gives them the tolerant loader."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name in self.names else None
        if spec and spec.loader:
            spec.loader = Tolerant(spec.loader)
        return spec


if __name__ == "__main__":
    modules, main = sys.argv[1:3]
    sys.meta_path.insert(0, Finder(frozenset(modules.split(","))))
    sys.argv = sys.argv[2:]
    sys.path[0] = str(pathlib.Path(main).resolve().parent)  # this folder has a module named mpi4py
    runpy.run_path(main, run_name="__main__")
