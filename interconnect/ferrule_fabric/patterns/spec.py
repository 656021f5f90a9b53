"""Short texts that name a pattern: ``cg:ranks=128,bytes=1e8``, ``stencil3d:ranks=64,periodic=1``, ``file:profile.json``.

Kinds: cg ft mg stencil2d stencil3d milc alltoall permutation uniform ring random-ring shift. All take ``ranks`` and ``bytes`` (default 1e6), and ``iterations``, ``compute_s``
(computation per phase) and ``overlap``. A file is a profile (`profiles`) or a traffic document.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as FilePath

from ferrule_fabric.errors import FabricError
from ferrule_fabric.patterns import generate
from ferrule_fabric.patterns.pattern import Pattern
from ferrule_fabric.profiles import read_traffic
from ferrule_fabric.topologies.spec import SpecOptions

GENERATORS: dict[str, Callable[[int, int, SpecOptions], Pattern]] = {
    "cg": lambda ranks, size, o: generate.cg(ranks, size),
    "ft": lambda ranks, size, o: generate.ft(ranks, size),
    "mg": lambda ranks, size, o: generate.mg(ranks, size),
    "stencil2d": lambda ranks, size, o: generate.stencil(ranks, size, 2, bool(o.whole("periodic", 0))),
    "stencil3d": lambda ranks, size, o: generate.stencil(ranks, size, 3, bool(o.whole("periodic", 0))),
    "milc": lambda ranks, size, o: generate.milc(ranks, size),
    "alltoall": lambda ranks, size, o: generate.all_to_all(ranks, size),
    "permutation": lambda ranks, size, o: generate.permutation(ranks, size, o.whole("seed", 0)),
    "uniform": lambda ranks, size, o: generate.uniform(ranks, size, o.whole("peers", 8), o.whole("seed", 0)),
    "ring": lambda ranks, size, o: generate.ring(ranks, size),
    "random-ring": lambda ranks, size, o: generate.ring(ranks, size, o.whole("seed", 0)),
    "shift": lambda ranks, size, o: generate.shift(ranks, size, o.whole("distance", 1)),
}
RANKS_MAX = 200_000


def pattern_of(spec: str, folder: FilePath | None = None) -> Pattern:
    """The pattern that a text names; files are looked for in ``folder``. Raises `FabricError`."""
    kind, _, rest = spec.partition(":")
    if kind == "file":
        return read_traffic((folder or FilePath()) / rest)
    if kind not in GENERATORS:
        raise FabricError(f"pattern {spec!r}", f"unknown kind {kind!r}; known are file, {', '.join(GENERATORS)}")
    options = SpecOptions(f"pattern {spec!r}", rest)
    ranks, size = options.whole("ranks"), int(options.real("bytes", 1e6))
    if not 1 <= ranks <= RANKS_MAX or not 0 <= size < 2**50:
        raise FabricError(f"pattern {spec!r}", f"ranks must be 1..{RANKS_MAX} and bytes 0..2^50")
    iterations, compute_s, overlap = options.whole("iterations", 1), options.real("compute_s", 0.0), options.real("overlap", 0.0)
    pattern = GENERATORS[kind](ranks, size, options)
    options.finish()
    phases = tuple(replace(phase, compute_s=compute_s, overlap=overlap) for phase in pattern.phases)
    return replace(pattern, phases=phases, iterations=iterations)
