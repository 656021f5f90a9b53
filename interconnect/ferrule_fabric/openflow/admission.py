"""Which connections may speak for which switches.

Over TLS a switch shows a certificate of the switches' authority that names its datapath id: 16 hexadecimal digits, or the switch's name in the topology, as the
first word of the common name or as a DNS name. A certificate may name several, since one Open vSwitch has one certificate for all its bridges. A unix socket
belongs to the manager's user, so whoever can connect there may speak for any switch. Plain TCP proves nothing: it is open to listed addresses only, and a
connection never takes the place of one that still answers.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferrule_fabric.errors import FabricError

HANDSHAKE_TIMEOUT_S = 10.0
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_DPID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class Access:
    """Who may connect over TCP: holders of certificates (``tls``), or else, unauthenticated, the ``plain`` networks."""

    tls: ssl.SSLContext | None = None
    plain: tuple[Network, ...] = ()


@dataclass(frozen=True)
class Peer:
    """Who is at the other end: ``names`` of a certificate, None if it has none and may speak for every switch. ``proved`` unless it came over plain TCP."""

    proved: bool
    names: frozenset[str] | None = None

    def check(self, dpid: int, switch: str) -> None:
        """Raises `FabricError` if it may not speak for this switch."""
        if self.names is None or f"{dpid:016x}" in self.names:
            return
        # A name that looks like a datapath id is one.
        if switch not in self.names or _DPID.fullmatch(switch):
            raise FabricError(f"switch {dpid:016x} ({switch})", f"the certificate is for {', '.join(sorted(self.names)[:5]) or 'nobody'}")


def networks_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """Networks from addresses and ``ADDRESS/BITS``."""
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise FabricError("--openflow-plain", str(error)) from None


def tls_context(certificate: Path, key: Path | None, authority: Path) -> ssl.SSLContext:
    """For a server that shows a certificate and wants one of an authority from every client. Raises `FabricError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
    except OSError as error:
        raise FabricError("certificates of the OpenFlow port", f"{certificate}, {key or certificate}, {authority}: {error}") from None
    return context


async def admitted(writer: asyncio.StreamWriter, access: Access) -> Peer:
    """Who has connected; after the handshake where there is one. Raises `FabricError` for who may not."""
    if writer.get_extra_info("socket").family == socket.AF_UNIX:
        return Peer(proved=True)
    # None if it has gone already.
    address = writer.get_extra_info("peername") or ("0.0.0.0", 0)
    if access.tls is not None:
        try:
            await writer.start_tls(access.tls, ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S)
        except OSError as error:
            raise FabricError(f"connection from {address[0]}", f"no TLS: {error}") from None
        return Peer(proved=True, names=_names(writer.get_extra_info("peercert") or {}))
    source = ipaddress.ip_address(address[0].partition("%")[0])
    mapped = getattr(source, "ipv4_mapped", None) or source
    if not any(mapped in network for network in access.plain):
        raise FabricError(f"connection from {address[0]}", "isn't in --openflow-plain")
    return Peer(proved=False)


def _names(certificate: dict[str, Any]) -> frozenset[str]:
    """What a certificate that has been verified is for. ovs-pki puts a number after the name that it was given."""
    common = [value.split() for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    return frozenset({words[0] for words in common if words} | {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"})
