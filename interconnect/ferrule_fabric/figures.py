"""Figures without a display and without what changes from run to run (dates, random ids)."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ferrule_fabric.errors import FabricError


def figure(width_in: float, height_in: float) -> tuple[Figure, Any]:
    """A figure with one pair of axes; sizes in inches."""
    made = Figure(figsize=(min(width_in, 60.0), height_in), layout="constrained")
    FigureCanvasAgg(made)
    return made, made.add_subplot()


def save(made: Figure, path: FilePath) -> None:
    """Writes .svg or .png by the suffix. Raises `FabricError`."""
    if path.suffix not in (".svg", ".png"):
        raise FabricError(str(path), "is neither .svg nor .png")
    try:
        with rc_context({"svg.hashsalt": "ferrule"}):
            made.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=120)
    except OSError as error:
        raise FabricError(str(path), error.strerror or str(error)) from None
