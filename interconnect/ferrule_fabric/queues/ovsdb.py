"""Transactions with an OVSDB server (RFC 7047): JSON-RPC 1.0 over a unix socket, TCP, or TLS; one connection per call."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferrule_fabric.errors import FabricError

PORT = 6640
TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class Server:
    """Where an OVSDB server is: ``path`` of its unix socket, or ``host`` and ``port``, with TLS if there is a ``tls`` context."""

    name: str
    path: Path | None = None
    host: str = ""
    port: int = PORT
    tls: ssl.SSLContext | None = None


def server_of(text: str, tls: ssl.SSLContext | None = None) -> Server:
    """The server that ``unix:PATH``, ``tcp:HOST[:PORT]`` or ``ssl:HOST[:PORT]`` names. Raises `FabricError`."""
    kind, _, rest = text.partition(":")
    if kind == "unix" and rest:
        return Server(text, Path(rest))
    host, colon, number = rest.rpartition(":")
    if not colon or rest.endswith("]"):
        host, number = rest, str(PORT)
    host = host.removeprefix("[").removesuffix("]")
    if kind not in ("tcp", "ssl") or not host or not (number.isascii() and number.isdigit() and len(number) < 6 and 0 < int(number) < 65536):
        raise FabricError("--ovsdb", f"{text!r} is not unix:PATH, tcp:HOST[:PORT] or ssl:HOST[:PORT]")
    if kind == "ssl" and tls is None:
        raise FabricError("--ovsdb", f"{text} needs our certificate and the switches' authority: --openflow-certificate and --openflow-switches")
    return Server(text, host=host, port=int(number), tls=tls if kind == "ssl" else None)


def client_context(certificate: Path, key: Path | None, authority: Path) -> ssl.SSLContext:
    """For a client that shows a certificate and takes servers of an authority, whatever they are called. Raises `FabricError`."""
    try:
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise FabricError("certificates for OVSDB", f"{certificate}, {key or certificate}, {authority}: {error}") from None
    context.check_hostname = False
    return context


class Connection:
    """An open connection, as an async context manager."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._number = 0
        self._buffer = b""

    async def __aenter__(self) -> Connection:
        try:
            opening = (
                asyncio.open_unix_connection(self.server.path)
                if self.server.path is not None
                else asyncio.open_connection(self.server.host, self.server.port, ssl=self.server.tls)
            )
            self._reader, self._writer = await asyncio.wait_for(opening, TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise FabricError(self.server.name, f"no OVSDB server: {str(error) or 'no answer'}") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()

    async def transact(self, database: str, operations: Sequence[dict[str, Any]]) -> list[Any]:
        """The results of operations that are done together or not at all. Raises `FabricError`."""
        self._number += 1
        try:
            self._send({"method": "transact", "params": [database, *operations], "id": self._number})
            answer = await asyncio.wait_for(self._answer(self._number), TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise FabricError(self.server.name, f"the OVSDB server doesn't answer: {str(error) or f'nothing within {TIMEOUT_S:.0f} s'}") from None
        if answer.get("error") is not None:
            raise FabricError(self.server.name, f"refused: {json.dumps(answer['error'])[:300]}")
        results = answer.get("result")
        if not isinstance(results, list):
            raise FabricError(self.server.name, "the answer has no result")
        wrong = [one for one in results if not isinstance(one, dict) or one.get("error")]
        if wrong or len(results) < len(operations):
            raise FabricError(self.server.name, f"refused: {json.dumps(wrong[0] if wrong else None)[:300]}")
        return results

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode())

    async def _answer(self, number: int) -> dict[str, Any]:
        while True:
            message = await self._message()
            if message.get("method") == "echo":
                self._send({"result": message.get("params"), "error": None, "id": message.get("id")})
            elif message.get("id") == number and "method" not in message:
                return message

    async def _message(self) -> dict[str, Any]:
        """The next JSON object of the stream; objects follow each other without a separator."""
        while True:
            # An object that is whole ends so; others aren't tried again and again.
            if self._buffer.rstrip().endswith(b"}"):
                try:
                    text = self._buffer.decode().lstrip()
                    message, end = json.JSONDecoder().raw_decode(text)
                except UnicodeDecodeError:
                    raise FabricError(self.server.name, "the answer isn't JSON") from None
                except ValueError:
                    pass
                else:
                    self._buffer = text[end:].encode()
                    if not isinstance(message, dict):
                        raise FabricError(self.server.name, "the answer is no JSON object")
                    return message
            data = await self._reader.read(1 << 16)
            if not data:
                raise FabricError(self.server.name, "the OVSDB server has closed the connection")
            self._buffer += data
            if len(self._buffer) > ANSWER_BYTES_MAX:
                raise FabricError(self.server.name, f"an answer of more than {ANSWER_BYTES_MAX} bytes")
