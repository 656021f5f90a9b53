"""Generators of patterns. ``size_bytes`` is what one rank sends in one iteration, unless said otherwise; shapes follow the programs named.

Sources: D. Bailey et al., "The NAS Parallel Benchmarks", 1991 (CG, FT, MG); P. Luszczek et al., "Introduction to the HPC Challenge
Benchmark Suite", 2005 (rings); MILC's lattice QCD with the Naik term (fourth dimension, third neighbors).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import IntArray
from ferrule_fabric.model.traffic import TrafficMatrix
from ferrule_fabric.patterns.pattern import Pattern, Phase


def cg(ranks: int, size_bytes: int) -> Pattern:
    """NAS CG: a grid of rows x columns (powers of two, columns = rows or twice that); sums over each row by exchange with the partners at distance
    1, 2, 4 .. columns/2 (one phase each), then exchange with the transposed rank. All exchanges are equally large."""
    log = ranks.bit_length() - 1
    if ranks != 1 << log:
        raise FabricError("pattern cg", f"ranks must be a power of two, not {ranks}")
    columns, rows = 1 << (log + 1) // 2, 1 << log // 2
    me = np.arange(ranks)
    steps = columns.bit_length() - 1
    each = size_bytes // (steps + 1)
    phases = [_exchange(ranks, me, (me // columns) * columns + (me % columns ^ 1 << step), each) for step in reversed(range(steps))]
    # Where there are twice as many columns as rows, two columns count as one.
    width = columns // rows
    partner = width * ((me // width % rows) * rows + me // width // rows) + me % width
    return Pattern(f"cg-{ranks}", (*phases, _exchange(ranks, me, partner, each)))


def ft(ranks: int, size_bytes: int) -> Pattern:
    """3-D FFT by pencils: all-to-all within the rows, then within the columns, of the most square grid of ranks."""
    rows, columns = balanced(ranks, 2)
    me = np.arange(ranks)
    by_row = me.reshape(rows, columns)
    phases = [_all_to_all(ranks, list(group), size_bytes // 2) for group in (by_row, by_row.T) if group.shape[1] > 1]
    return Pattern(f"ft-{ranks}", tuple(phases) or (Phase(_empty(ranks)),))


def mg(ranks: int, size_bytes: int) -> Pattern:
    """NAS MG: halo exchange in three periodic dimensions on each level of a multigrid; faces shrink by four per level, and on
    levels coarser than the grid of ranks the partners are 2, 4, .. apart. One phase per level, finest first."""
    shape = balanced(ranks, 3)
    levels = 1 + max(side.bit_length() - 1 for side in shape) + 2
    shares = np.array([0.25**level for level in range(levels)])
    phases = []
    for level, share in enumerate(shares / shares.sum()):
        distance = 1 << max(0, level - 2)
        offsets = _axis_offsets(shape, [distance])
        phases.append(_neighbors(ranks, shape, offsets, int(size_bytes * share / max(1, len(offsets))), periodic=True))
    return Pattern(f"mg-{ranks}", tuple(phases))


def stencil(ranks: int, size_bytes: int, dimensions: int, periodic: bool = False) -> Pattern:
    """Halo exchange with the nearest neighbors in each direction of the most balanced grid; ``size_bytes`` is one rank's with all its neighbors."""
    shape = balanced(ranks, dimensions)
    return Pattern(f"stencil{dimensions}d-{ranks}", (_neighbors(ranks, shape, _axis_offsets(shape, [1]), size_bytes // (2 * dimensions), periodic),))


def milc(ranks: int, size_bytes: int) -> Pattern:
    """MILC: four periodic dimensions, first and third neighbors; the third carry half as much."""
    shape = balanced(ranks, 4)
    near = _neighbors(ranks, shape, _axis_offsets(shape, [1]), size_bytes // 12, periodic=True)
    far = _neighbors(ranks, shape, _axis_offsets(shape, [3]), size_bytes // 24, periodic=True)
    return Pattern(f"milc-{ranks}", (Phase(near.traffic.plus(far.traffic)),))


def all_to_all(ranks: int, size_bytes: int) -> Pattern:
    """Everybody sends equally much to everybody else."""
    return Pattern(f"alltoall-{ranks}", (_all_to_all(ranks, [np.arange(ranks)], size_bytes),))


def permutation(ranks: int, size_bytes: int, seed: int = 0) -> Pattern:
    """Each rank sends all to one other; a random permutation without fixed points where that is possible."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(ranks)
    target = np.empty(ranks, dtype=np.int64)
    target[order] = np.roll(order, 1)
    return Pattern(f"permutation-{ranks}", (Phase(TrafficMatrix.of_pairs(ranks, np.arange(ranks), target, np.full(ranks, size_bytes))),))


def uniform(ranks: int, size_bytes: int, peers: int = 8, seed: int = 0) -> Pattern:
    """Each rank sends to ``peers`` random others, amounts exponentially distributed around size_bytes / peers."""
    generator = np.random.default_rng(seed)
    src = np.repeat(np.arange(ranks), peers)
    dst = generator.integers(0, ranks, src.size)
    volume = generator.exponential(size_bytes / max(1, peers), src.size).astype(np.int64) + 1
    return Pattern(f"uniform-{ranks}", (Phase(TrafficMatrix.of_pairs(ranks, src, dst, volume)),))


def shift(ranks: int, size_bytes: int, distance: int = 1) -> Pattern:
    """Rank i sends all to rank i + distance (mod ranks)."""
    me = np.arange(ranks)
    return Pattern(f"shift-{ranks}", (Phase(TrafficMatrix.of_pairs(ranks, me, (me + distance) % ranks, np.full(ranks, size_bytes))),))


def ring(ranks: int, size_bytes: int, seed: int | None = None) -> Pattern:
    """HPCC's ring: each rank sends half to either neighbor in a ring of all, in the order of ranks (natural) or, with a seed, in a random one."""
    order = np.arange(ranks) if seed is None else np.random.default_rng(seed).permutation(ranks)
    src, dst = np.concatenate((order, order)), np.concatenate((np.roll(order, -1), np.roll(order, 1)))
    away = src != dst
    return Pattern(f"{'ring' if seed is None else 'random-ring'}-{ranks}", (Phase(TrafficMatrix.of_pairs(ranks, src[away], dst[away], np.full(int(away.sum()), size_bytes // 2))),))


def balanced(ranks: int, dimensions: int) -> tuple[int, ...]:
    """Side lengths, descending, whose product is ``ranks`` and whose largest is least; among those the most even."""
    best: tuple[int, ...] = ()

    def extend(rest: int, left: int, least: int, sides: tuple[int, ...]) -> None:
        nonlocal best
        if left == 1:
            if rest >= least and (not best or (rest, *reversed(sides)) < best):
                best = (rest, *reversed(sides))
            return
        for side in range(least, math.floor(rest ** (1 / left) + 1e-9) + 1):
            if rest % side == 0:
                extend(rest // side, left - 1, side, (*sides, side))

    extend(ranks, dimensions, 1, ())
    return best


def _axis_offsets(shape: Sequence[int], distances: Sequence[int]) -> list[tuple[int, ...]]:
    return [tuple(sign * distance if axis == along else 0 for axis in range(len(shape))) for along in range(len(shape)) for distance in distances for sign in (1, -1)]


def _neighbors(ranks: int, shape: Sequence[int], offsets: Sequence[Sequence[int]], each_bytes: int, periodic: bool) -> Phase:
    points = np.stack(np.unravel_index(np.arange(ranks), shape))
    src, dst = [], []
    for offset in offsets:
        there = points + np.array(offset)[:, None]
        inside = np.ones(ranks, dtype=np.bool_) if periodic else np.all((there >= 0) & (there < np.array(shape)[:, None]), axis=0)
        partner = np.ravel_multi_index(tuple(there % np.array(shape)[:, None]), shape)
        moved = inside & (partner != np.arange(ranks))
        src.append(np.flatnonzero(moved))
        dst.append(partner[moved])
    s, d = np.concatenate(src), np.concatenate(dst)
    return Phase(TrafficMatrix.of_pairs(ranks, s, d, np.full(s.size, each_bytes)))


def _exchange(ranks: int, me: IntArray, partner: IntArray, each_bytes: int) -> Phase:
    away = me != partner
    return Phase(TrafficMatrix.of_pairs(ranks, me[away], partner[away], np.full(int(away.sum()), each_bytes)))


def _all_to_all(ranks: int, groups: Sequence[IntArray], size_bytes: int) -> Phase:
    src, dst = [], []
    for group in groups:
        s, d = np.repeat(group, group.size), np.tile(group, group.size)
        src.append(s[s != d])
        dst.append(d[s != d])
    s, d = np.concatenate(src), np.concatenate(dst)
    return Phase(TrafficMatrix.of_pairs(ranks, s, d, np.full(s.size, size_bytes // max(1, groups[0].size - 1))))


def _empty(ranks: int) -> TrafficMatrix:
    return TrafficMatrix.of_pairs(ranks, [], [], [])
