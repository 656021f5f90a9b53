"""How clients find the manager."""

from __future__ import annotations

import httpx

from ferrule_fabric.errors import FabricError

SOCKET = "unix:/run/ferrule-fabric.sock"
TIMEOUT_S = 30.0


def client_of(api: str, token: str | None = None, timeout_s: float = TIMEOUT_S) -> httpx.Client:
    """An HTTP client for ``unix:PATH`` or ``http(s)://HOST:PORT``."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if api.startswith("unix:"):
        return httpx.Client(transport=httpx.HTTPTransport(uds=api[5:]), base_url="http://manager", headers=headers, timeout=timeout_s)
    if api.startswith(("http://", "https://")):
        return httpx.Client(base_url=api, headers=headers, timeout=timeout_s)
    raise FabricError("--api", f"must be unix:PATH or http(s)://HOST:PORT, not {api!r}")
