#!/usr/bin/env python3
"""Runs mpi4py's test/main.py, unchanged, and notes which tests begin and which are skipped.

Each process writes a file of its own into FOLDER, a line for each: `ran NAME` when a test begins, `skipped NAME` when it, or what prepares its class, asks to be skipped.

Usage: mpi4py_main.py FOLDER path/to/test/main.py [its options]
"""

from __future__ import annotations

import os
import pathlib
import runpy
import sys
import unittest


def note_in(path: pathlib.Path) -> None:
    """Lets every test result write there."""
    file = path.open("w", buffering=1)
    begin, skip = unittest.TestResult.startTest, unittest.TestResult.addSkip

    def start_test(self: unittest.TestResult, test: unittest.TestCase) -> None:
        file.write(f"ran {test.id()}\n")
        begin(self, test)

    def add_skip(self: unittest.TestResult, test: unittest.TestCase, reason: str) -> None:
        file.write(f"skipped {test.id()}\n")
        skip(self, test, reason)

    unittest.TestResult.startTest = start_test  # type: ignore[method-assign]
    unittest.TestResult.addSkip = add_skip  # type: ignore[method-assign]


if __name__ == "__main__":
    folder, main = sys.argv[1:3]
    note_in(pathlib.Path(folder) / str(os.getpid()))
    sys.argv = sys.argv[2:]
    sys.path[0] = str(pathlib.Path(main).resolve().parent)  # this folder has a module named mpi4py
    runpy.run_path(main, run_name="__main__")
