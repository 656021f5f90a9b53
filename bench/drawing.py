"""matplotlib, set up the same way for all plots."""

from __future__ import annotations

import pathlib
from typing import Any


def library() -> Any:
    """`matplotlib.pyplot` that writes SVG files which don't change without a reason; None (and a line that says so) where it is missing."""
    try:
        import matplotlib
    except ImportError:
        print("no matplotlib: plots are left out")
        return None
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ferrule"
    import matplotlib.pyplot as plt
    return plt


def legend(axes: Any) -> None:
    """Where there is something to name."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend()


def finish(plt: Any, figure: Any, path: pathlib.Path) -> None:
    """Writes the figure."""
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
