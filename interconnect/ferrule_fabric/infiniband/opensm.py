"""OpenSM's files: forwarding tables for its routing engine ``file``, its options, lanes (SL to VL, VL arbitration).

Use: ``opensm -F options`` with ``routing_engine file`` and ``lfts_file`` as `options` writes them. Pairs choose among a host's trees by the LID that
they address (`tables.Tables.lid_of`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ferrule_fabric.errors import FabricError
from ferrule_fabric.infiniband.tables import Tables
from ferrule_fabric.model.topology import Topology

VLS_MAX = 15
SLS = 16
WEIGHT_MAX = 255


def lft_file(topology: Topology, tables: Tables) -> str:
    """All tables, as ``dump_lfts`` prints them and OpenSM reads them. Raises `FabricError` for a switch without a GUID."""
    lines = []
    for node, ports in tables.ports.items():
        switch = topology.switches[node - topology.host_count]
        if switch.guid is None:
            raise FabricError(f"topology.switches[{node - topology.host_count}].guid", "isn't known, and OpenSM needs it")
        lines.append(f"Unicast lids [0x1-0x{max(ports):x}] of switch guid 0x{switch.guid:016x} ({switch.name}):")
        lines += [f"0x{lid:04x} {port:03d}" for lid, port in sorted(ports.items())]
        lines.append(f"{len(ports)} valid lids dumped")
    return "\n".join(lines) + "\n"


def sl2vl(lanes: int) -> tuple[int, ...]:
    """The virtual lane of each of the 16 service levels: SL i takes VL i modulo ``lanes``."""
    if not 1 <= lanes <= VLS_MAX:
        raise FabricError("lanes", f"must be 1 to {VLS_MAX}, not {lanes}")
    return tuple(sl % lanes for sl in range(SLS))


def options(lanes: int, weights: Sequence[int] = (), lft_path: str = "lfts", lmc: int = 0) -> str:
    """OpenSM's options. ``weights`` are the shares of the lanes (1..255 each, equal by default)."""
    shares = tuple(weights) or (64,) * lanes
    if len(shares) != lanes or not all(1 <= share <= WEIGHT_MAX for share in shares):
        raise FabricError("weights", f"must be {lanes} numbers of 1 to {WEIGHT_MAX}, not {list(shares)}")
    if any(character.isspace() for character in lft_path):
        raise FabricError("lft_path", f"OpenSM can't read a path with spaces: {lft_path!r}")
    vls = 1 << (lanes - 1).bit_length() if lanes < 9 else VLS_MAX
    arbitration = ",".join(f"{lane}:{share}" for lane, share in enumerate(shares))
    lines = [
        "routing_engine file",
        f"lfts_file {lft_path}",
        f"lmc {lmc}",
        "qos TRUE",
        f"qos_max_vls {vls}",
        "qos_high_limit 0",
        f"qos_vlarb_high {','.join(f'{lane}:0' for lane in range(lanes))}",
        f"qos_vlarb_low {arbitration}",
        f"qos_sl2vl {','.join(map(str, sl2vl(lanes)))}",
    ]
    return "\n".join(lines) + "\n"
