"""How clients find the manager."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path

import httpx

from ferrule_fabric.errors import FabricError

SOCKET = "unix:/run/ferrule-fabric.sock"
TIMEOUT_S = 30.0


def is_loopback(host: str) -> bool:
    """Whether an address, which must not be a name, is of this host alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def client_of(api: str, token: str | None = None, timeout_s: float = TIMEOUT_S, ca: Path | None = None, identity: Path | None = None) -> httpx.Client:
    """An HTTP client for ``unix:PATH`` or ``http(s)://HOST:PORT``. ``ca``: the authority that the manager's certificate must be of (else the system's);
    ``identity``: a file with our own certificate and its key. A token goes over http:// to loopback addresses only. Raises `FabricError`."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if api.startswith("unix:"):
        return httpx.Client(transport=httpx.HTTPTransport(uds=api[5:]), base_url="http://manager", headers=headers, timeout=timeout_s)
    if api.startswith(("http://", "https://")):
        if token and api.startswith("http://") and not is_loopback(httpx.URL(api).host):
            raise FabricError("--api", f"a token goes over https:// only, not over {api}")
        try:
            context = ssl.create_default_context(cafile=ca)
            if identity is not None:
                context.load_cert_chain(identity)
        except OSError as error:
            raise FabricError(str(identity or ca), f"not a certificate, or its key isn't there: {error}") from None
        return httpx.Client(base_url=api, headers=headers, timeout=timeout_s, verify=context)
    raise FabricError("--api", f"must be unix:PATH or http(s)://HOST:PORT, not {api!r}")
