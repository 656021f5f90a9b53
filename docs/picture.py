#!/usr/bin/env python3
"""Draws docs/picture.svg, the picture in README.md: who runs where, and what carries the messages.

Usage: docs/picture.py
"""

from __future__ import annotations

import pathlib
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 880, 400
RANK, AGENT, HOST, MANAGER = "#dce9f7", "#fdf0d5", "#ffffff", "#e3f1e1"


def box(x: int, y: int, width: int, height: int, lines: str, fill: str = HOST, dashed: bool = False, top: bool = False) -> str:
    """A box with its text, in the middle or at its upper edge."""
    dash = ' stroke-dasharray="5 3"' if dashed else ""
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="#555"{dash}/>']
    texts = lines.split("\n")
    first = y + 17 if top else y + height // 2 + 5 - 8 * (len(texts) - 1)
    parts += [text(x + width // 2, first + 16 * number, line, bold=number == 0) for number, line in enumerate(texts)]
    return "\n".join(parts)


def text(x: int, y: int, line: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" text-anchor="middle"{weight}>{escape(line)}</text>'


def arrow(x: int, y: int, to_x: int, to_y: int, both: bool = False, colour: str = "#555") -> str:
    start = ' marker-start="url(#head)"' if both else ""
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{colour}" stroke-width="1.6" marker-end="url(#head)"{start}/>'


def host(x: int, title: str, ranks: list[int], inner: str) -> list[str]:
    """A host with its agent, two ranks side by side, and one in a container or virtual machine."""
    parts = [box(x, 105, 330, 206, title, top=True), box(x + 15, 138, 300, 30, "node agent", AGENT)]
    parts += [box(x + 217, 188, 104, 114, "", "#f4f4f4", dashed=True), text(x + 269, 296, inner)]
    for place, (rank, left) in enumerate(zip(ranks, (12, 118, 224), strict=True)):
        width, top, height = 90, 196, 80
        parts.append(box(x + left, top, width, height, f"rank {rank}\nprogram\nlibmpi_abi", RANK))
        parts.append(arrow(x + left + width // 2, 168, x + left + width // 2, top, colour="#b58900"))
        if place:
            before = (12, 118)[place - 1] + 90
            parts.append(arrow(x + before, top + 62, x + left, top + 62, both=True))
    return parts


def picture() -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        '<defs><marker id="head" markerWidth="6" markerHeight="6" refX="5" refY="3" orient="auto-start-reverse"><path d="M0,0 L6,3 L0,6 z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        box(20, 15, 330, 50, "mpiexec\nor srun, Hydra, PRRTE", AGENT),
        box(530, 15, 330, 50, "ferrule-fabric\ninterconnect manager: routes for who talks to whom", MANAGER),
    ]
    parts += host(20, "host A", [0, 1, 2], "container")
    parts += host(530, "host B", [3, 4, 5], "virtual machine")
    parts += [
        arrow(100, 65, 100, 138, colour="#b58900"), arrow(350, 45, 530, 150, colour="#b58900"),
        arrow(350, 249, 530, 249, both=True), text(440, 240, "TCP"),
        text(440, 78, "encrypted"),
        box(290, 345, 300, 40, "switches (OpenFlow), or OpenSM's tables", MANAGER),
        '<polyline points="840,65 840,85 872,85 872,365 590,365" fill="none" stroke="#555" stroke-width="1.6" marker-end="url(#head)"/>',
        text(185, 330, "inside a host: shared memory, single copy"), text(695, 330, "to a virtual machine on the same host: ivshmem"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    pathlib.Path(__file__).with_name("picture.svg").write_text(picture())
