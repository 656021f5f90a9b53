"""Traffic matrices to look at: in a terminal by shades, and as SVG or PNG."""

from __future__ import annotations

from pathlib import Path as FilePath

import numpy as np

from ferrule_fabric.figures import figure, save
from ferrule_fabric.model.topology import FloatArray
from ferrule_fabric.model.traffic import TrafficMatrix
from ferrule_fabric.profiles import Profile

SHADES = " ·:-=+*#%@"
# The 256-color palette's way from dark blue over green to yellow.
COLORS = (17, 18, 25, 31, 37, 36, 42, 76, 148, 190, 226)


def binned(matrix: TrafficMatrix, cells: int, messages: bool = False) -> FloatArray:
    """Bytes (or messages) in at most ``cells`` x ``cells`` blocks of ranks, [from, to]."""
    side = min(cells, matrix.ranks)
    place = np.arange(matrix.ranks) * side // matrix.ranks
    values = matrix.messages if messages else matrix.bytes
    return np.bincount(place[matrix.src] * side + place[matrix.dst], weights=values, minlength=side * side).reshape(side, side).astype(np.float64)


def terminal_map(matrix: TrafficMatrix, cells: int = 64, messages: bool = False, color: bool = False) -> str:
    """Lines of text, logarithmic in the amount: from top to bottom senders, from left to right receivers."""
    table = binned(matrix, cells, messages)
    top = table.max(initial=0.0)
    least = table[table > 0].min() if top > 0 else 1.0
    span = max(np.log(max(top, 1.0)) - np.log(least), 1e-9)
    level = np.where(table > 0, (np.log(np.maximum(table, least)) - np.log(least)) / span, -1.0)
    lines = [f"{'messages' if messages else 'bytes'} from rank (down) to rank (right), {matrix.ranks} ranks, {matrix.ranks / table.shape[0]:.3g} per cell"]
    lines += ["".join(_cell(value, color) for value in row) for row in level]
    unit = "messages" if messages else "B"
    lines.append(f"least {_human(least if top > 0 else 0)}{unit}  most {_human(top)}{unit}  total {_human(float(table.sum()))}{unit}")
    return "\n".join(lines)


def summary(profile: Profile) -> str:
    """Sums of a profile, its phases, and the histogram of message sizes."""
    traffic = profile.traffic
    lines = [
        f"ranks {traffic.ranks}, hosts {len(set(profile.hosts.hosts) - {''})}, duration {profile.duration_s:.3f} s, phases {len(profile.phases)}",
        f"pairs with traffic {traffic.pairs}, bytes {_human(traffic.total_bytes)}B, messages {_human(int(traffic.messages.sum()))}",
    ]
    used = np.flatnonzero(profile.size_histogram)
    top = int(profile.size_histogram.max(initial=1))
    for size in used:
        count = int(profile.size_histogram[size])
        lines.append(f"  {_size_class(int(size)):>17} {count:>12} {'#' * max(1, round(40 * count / top))}")
    return "\n".join(lines)


def save_map(matrix: TrafficMatrix, path: FilePath, messages: bool = False, title: str = "", cells: int = 512) -> None:
    """As a picture, .svg or .png by the suffix. Raises `FabricError`."""
    table = binned(matrix, cells, messages)
    made, axes = figure(6.0, 5.2)
    shown = np.ma.masked_equal(table, 0)
    image = axes.imshow(shown, norm="log" if table.max(initial=0) > 0 else None, extent=(-0.5, matrix.ranks - 0.5, matrix.ranks - 0.5, -0.5), interpolation="nearest")
    made.colorbar(image, ax=axes, label="messages" if messages else "bytes")
    axes.set_xlabel("to rank")
    axes.set_ylabel("from rank")
    axes.set_title(title)
    save(made, path)


def _cell(value: float, color: bool) -> str:
    if not color:
        return SHADES[0] if value < 0 else SHADES[1 + min(len(SHADES) - 2, int(value * (len(SHADES) - 1)))]
    return "  " if value < 0 else f"\x1b[48;5;{COLORS[min(len(COLORS) - 1, int(value * len(COLORS)))]}m  \x1b[0m"


def _size_class(size: int) -> str:
    """Class 0 are empty messages, class k those of 2^(k-1) to 2^k - 1 bytes."""
    if size < 2:
        return f"{size} B"
    unit, shift = next((unit, shift) for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)) if size > shift)
    return f"{2 ** (size - 1 - shift)} … {2 ** (size - shift) - (1 if shift == 0 else 0)} {unit}"


def _human(value: float) -> str:
    for unit in ("", "k", "M", "G", "T", "P"):
        if value < 1000:
            return f"{value:.3g} {unit}" if unit or value % 1 else f"{value:.0f} "
        value /= 1000
    return f"{value:.3g} E"
