#!/usr/bin/env python3
"""Puts mpi4py-fft and matplotlib (for its sample data) beside the mpi4py that tests/mpi4py.py has built."""

import pathlib
import subprocess
import sys

python = pathlib.Path(__file__).resolve().parent.parent / "build/mpi4py/venv/bin/python"
probe = "import importlib.util as u, sys; sys.exit(not (u.find_spec('mpi4py_fft') and u.find_spec('matplotlib')))"
if subprocess.run([str(python), "-c", probe]).returncode:
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*pip, "--prefer-binary", "matplotlib==3.11.2"], check=True)
    subprocess.run([*pip, "--no-build-isolation", "--no-deps", "mpi4py-fft==2.0.6"], check=True)
sys.exit(0)
