"""``ferrule-fabric job``, and how commands reach the manager."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import click
import httpx

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.address import SOCKET, client_of

_file = click.Path(path_type=FilePath, exists=True)


@dataclass(frozen=True)
class Reach:
    """How a command reaches the manager."""

    api: str
    token_file: FilePath | None = None
    tls_ca: FilePath | None = None
    tls_identity: FilePath | None = None

    def call(self, method: str, path: str, **more: Any) -> Any:
        """The answer's JSON. Raises `FabricError`: what the manager says, or why there is no answer."""
        try:
            with client_of(self.api, _token(self.token_file), ca=self.tls_ca, identity=self.tls_identity) as client:
                answer = client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise FabricError(self.api, f"no manager: {error}") from None
        if not answer.is_error:
            return answer.json()
        try:
            told = answer.json()["error"]
            where, problem = str(told["where"]), str(told["problem"])
        except (ValueError, KeyError, TypeError):
            where, problem = self.api, f"status {answer.status_code}"
        raise FabricError(where, problem)


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that say where the manager is, as its argument ``reach``."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, api: str, token_file: FilePath | None, tls_ca: FilePath | None, tls_identity: FilePath | None, **more: Any) -> None:
        command(*arguments, reach=Reach(api, token_file, tls_ca, tls_identity), **more)

    listed = (
        click.option("--api", default=SOCKET, show_default=True, envvar="FERRULE_FABRIC_API", help="the manager: unix:PATH or http(s)://HOST:PORT"),
        click.option("--token-file", type=_file, help="file with the token, for https"),
        click.option("--tls-ca", type=_file, envvar="FERRULE_FABRIC_TLS_CA", help="the authority of the manager's certificate, for https"),
        click.option("--tls-identity", type=_file, envvar="FERRULE_FABRIC_TLS_IDENTITY", help="our own certificate and key in one file, for https"),
    )
    for option in reversed(listed):
        wrapped = option(wrapped)
    return wrapped


def _token(path: FilePath | None) -> str | None:
    if path is None:
        return None
    if path.stat().st_mode & 0o077:
        raise FabricError(str(path), "must not be readable by others: chmod 600")
    token = path.read_text().strip()
    if len(token) < 16:
        raise FabricError(str(path), "the token must have at least 16 characters")
    return token


@click.group()
def job() -> None:
    """Start, end and list jobs at the manager, without a scheduler."""


@job.command("start")
@click.argument("name")
@click.option("--hosts", required=True, help="the host of each rank: a,a,b,b or a*2,b*2")
@click.option("--pattern", required=True, help="name of a stored pattern")
@click.option("--tcp-port", type=int, help="only packets to this TCP port")
@click.option("--dscp", type=int, help="only packets of this class")
@click.option("--lanes", default="single", metavar="K[:POLICY]", help="lanes of the job's pairs, as mpiexec --lanes: their classes get queues")
@reaching
def job_start(name: str, hosts: str, pattern: str, tcp_port: int | None, dscp: int | None, lanes: str, reach: Reach) -> None:
    """Give a job routes."""
    ranks: list[str] = []
    for part in hosts.split(","):
        host, _, count = part.partition("*")
        if not host or (count and not count.isdigit()):
            raise FabricError("--hosts", f"{part!r} is not HOST or HOST*COUNT")
        ranks += [host] * int(count or 1)
    body = {"job": name, "hosts": ranks, "pattern": pattern, "tcp_port": tcp_port, "dscp": dscp, "lanes": lanes}
    click.echo(json.dumps(reach.call("POST", "/v1/jobs", json=body)))


@job.command("end")
@click.argument("name")
@click.option("--missing-ok", is_flag=True, help="no error if there is no such job")
@reaching
def job_end(name: str, missing_ok: bool, reach: Reach) -> None:
    """Remove the routes of a job and of its steps."""
    try:
        click.echo(json.dumps(reach.call("DELETE", f"/v1/jobs/{name}")))
    except FabricError as error:
        if not (missing_ok and "no job" in error.problem):
            raise


@job.command("list")
@reaching
def job_list(reach: Reach) -> None:
    """List jobs, one JSON object per line."""
    for entry in reach.call("GET", "/v1/jobs"):
        click.echo(json.dumps(entry))
