"""The sockets of the HTTP API, and the servers behind them: one for those without TLS, one for those with it, under one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.address import is_loopback
from ferrule_fabric.manager.api import create_app
from ferrule_fabric.manager.callers import Roles
from ferrule_fabric.manager.guard import CONNECTIONS_MAX, GuardedProtocol
from ferrule_fabric.manager.service import Manager


@dataclass(frozen=True)
class Interfaces:
    """Where HTTP is served. ``api`` is ``unix:PATH`` or ``HOST:PORT``, ``web`` a further ``HOST:PORT``. TCP has TLS unless ``plain_http`` allows loopback addresses without."""

    api: str
    web: str | None = None
    group: int | None = None
    roles: Roles = Roles()
    certificate: str | None = None
    key: str | None = None
    clients: str | None = None
    plain_http: bool = False

    def check(self) -> None:
        """Raises `FabricError` for what would let in somebody whom nobody knows, or show a token to the network."""
        addresses = [(option, address_of(text, option)) for option, text in (("--api", self.api), ("--web", self.web)) if text]
        if self.web and not (self.api.startswith("unix:") and isinstance(addresses[-1][1], tuple)):
            raise FabricError("--web", "is HOST:PORT, and goes with --api unix:PATH")
        if self.clients and not self.certificate:
            raise FabricError("--tls-clients", "needs --tls-certificate")
        for option, address in addresses:
            if isinstance(address, Path):
                continue
            if not (self.roles.tokens or (self.roles.certificates and self.clients)):
                raise FabricError(option, "over TCP needs --roles, with tokens or (and --tls-clients) certificates")
            if not self.certificate and not (self.plain_http and is_loopback(address[0])):
                raise FabricError(option, "over TCP needs --tls-certificate; --plain-http does without for 127.0.0.1 and ::1")


def address_of(text: str, what: str) -> Path | tuple[str, int]:
    """``unix:PATH`` or ``HOST:PORT``."""
    if text.startswith("unix:"):
        return Path(text[5:]).absolute()
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise FabricError(what, f"must be unix:PATH or HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


class Server(uvicorn.Server):
    """One of several servers: signals are for all of them (`serve_all`)."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield


def servers_of(manager: Manager, interfaces: Interfaces) -> list[tuple[Server, list[socket.socket]]]:
    """Servers with their sockets, which listen from now on."""
    app = create_app(manager, interfaces.roles)
    found = []
    for text, option, group in ((interfaces.api, "--api", interfaces.group), (interfaces.web, "--web", None)):
        if text:
            config = uvicorn.Config(app, http=GuardedProtocol, ws="none", lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=5, limit_concurrency=CONNECTIONS_MAX)
            # X-Forwarded-For isn't believed: any client could claim another caller's address.
            config.proxy_headers = False
            address = address_of(text, option)
            if interfaces.certificate and not isinstance(address, Path):
                config.ssl_certfile, config.ssl_keyfile, config.ssl_ca_certs = interfaces.certificate, interfaces.key, interfaces.clients
                config.ssl_cert_reqs = ssl.CERT_REQUIRED if interfaces.clients else ssl.CERT_NONE
            try:
                config.load()
            except OSError as error:
                raise FabricError("--tls-certificate, --tls-key, --tls-clients", str(error)) from None
            found.append((Server(config), [_listening(address, group)]))
    return found


async def serve_all(servers: list[tuple[Server, list[socket.socket]]]) -> None:
    """Runs until SIGTERM or SIGINT; a second SIGINT doesn't wait for requests."""
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        for server, _ in servers:
            server.force_exit = server.should_exit and number == signal.SIGINT
            server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    await asyncio.gather(*(server.serve(sockets=sockets) for server, sockets in servers))


def _listening(address: Path | tuple[str, int], group: int | None) -> socket.socket:
    if isinstance(address, Path):
        address.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        old = os.umask(0o177)
        try:
            listening.bind(str(address))
        finally:
            os.umask(old)
        # Anybody may ask; what one may do depends on the user id that the kernel tells us.
        if group is not None:
            os.chown(address, -1, group)
            os.chmod(address, 0o660)
        else:
            os.chmod(address, 0o666)
    else:
        listening = socket.create_server(address, family=socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    listening.listen(1024)
    return listening
