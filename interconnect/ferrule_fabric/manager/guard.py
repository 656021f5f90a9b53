"""Checks between clients and the API: who the caller is, and how much and how slowly it may send.

`Guard` reads a request's whole body before the application sees the request, so that nothing behind it waits for a client. `GuardedProtocol` closes
connections that don't come to the end of a request's head, and tells the application whose process a unix connection comes from, or whose certificate a
client has shown.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ferrule_fabric.manager.callers import Caller, Role, Roles

PATTERN_BYTES_MAX = 256 << 20
BODY_BYTES_MAX = 32 << 20
HEAD_TIMEOUT_S = 10.0
BODY_TIMEOUT_S = 30.0
# Beyond the time above a body may take a second for each of these bytes.
BODY_BYTES_PER_S = 1 << 20
CONNECTIONS_MAX = 1000
NOBODY = "a token is needed (Authorization: Bearer …), or a certificate that has a role"
HEADERS = (
    # The page shows and runs nothing from outside, and is shown in no other page.
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def caller_of(scope: Scope, admins: frozenset[int], roles: Roles) -> Caller | None:
    """Who calls, None if unknown. A token that is shown must be right, whatever certificate there is."""
    kind, _, name = (scope.get("client") or ("",))[0].partition(":")
    if kind == "uid":
        return Caller(int(name), Role.ADMINISTRATOR if int(name) in admins else Role.USER)
    offered = next((value for name, value in scope["headers"] if name == b"authorization"), None)
    if offered is not None:
        scheme, _, token = offered.decode("latin-1").partition(" ")
        return roles.by_token(token) if scheme == "Bearer" else None
    return roles.certificates.get(name) if kind == "certificate" else None


class Guard:
    """The application behind its limits."""

    def __init__(self, app: App, admins: frozenset[int], roles: Roles, body_timeout_s: float = BODY_TIMEOUT_S) -> None:
        self.app, self.admins, self.roles, self.body_timeout_s = app, admins, roles, body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        caller = caller_of(scope, self.admins, self.roles)
        if scope["path"].startswith("/v1/") and caller is None:
            await _refuse(send_with_headers, 401, "user", NOBODY)
            return
        if scope["method"] not in ("POST", "PUT", "PATCH"):
            await self.app(scope, receive, send_with_headers)
            return
        length = next((value for name, value in scope["headers"] if name == b"content-length"), None)
        if length is None or not length.isdigit():
            await _refuse(send_with_headers, 411, "body", "needs a Content-Length")
            return
        # Only administrators store patterns: of others no such body is read.
        limit = PATTERN_BYTES_MAX if scope["path"].startswith("/v1/patterns/") and caller and caller.is_administrator else BODY_BYTES_MAX
        if int(length) > limit:
            await _refuse(send_with_headers, 413, "body", f"has {int(length)} bytes; at most {limit} are allowed")
            return
        try:
            body = await asyncio.wait_for(_body(receive, limit), self.body_timeout_s + int(length) / BODY_BYTES_PER_S)
        except TimeoutError:
            await _refuse(send_with_headers, 408, "body", "came too slowly")
            return
        if body is not None:
            await self.app(scope, _replaying(body, receive), send_with_headers)


async def _body(receive: Receive, limit: int) -> bytes | None:
    """The whole body, None if the client has gone. uvicorn ends it where Content-Length says."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _replaying(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def replay() -> MutableMapping[str, Any]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


async def _refuse(send: Send, status: int, where: str, problem: str) -> None:
    body = json.dumps({"error": {"where": where, "problem": problem}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class GuardedProtocol(H11Protocol):
    """See the module's head. The client's address is ``uid:N`` for a unix connection, and ``certificate:NAME`` with TLS, if the client has shown one."""

    head_timeout_s = HEAD_TIMEOUT_S
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            self.client = (f"uid:{uid}", 0)
        # None unless TLS has verified it.
        certificate = transport.get_extra_info("peercert") or {}
        names = [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
        if names:
            self.client = (f"certificate:{names[0]}", 0)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """A head that isn't whole yet must be soon."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._timer is None:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._timer = self.loop.call_later(self.head_timeout_s, self._too_slow)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.abort()
