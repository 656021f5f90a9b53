"""``ferrule-fabric serve``, ``job``, ``doctor``: the manager and what speaks to it."""

from __future__ import annotations

import grp
import json
import os
import pwd
import shutil
from pathlib import Path as FilePath
from typing import Any

import click
import httpx

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.address import SOCKET, client_of
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.compiler import GROUPS_MAX, TABLE_ENTRIES_MAX
from ferrule_fabric.routing.allocate import ALGORITHMS
from ferrule_fabric.topologies.spec import topology_of

api_option = click.option("--api", default=SOCKET, show_default=True, envvar="FERRULE_FABRIC_API", help="the manager: unix:PATH or http(s)://HOST:PORT")
token_option = click.option("--token-file", type=click.Path(path_type=FilePath, exists=True), help="file with the token, for TCP")


def _token(path: FilePath | None) -> str | None:
    if path is None:
        return None
    if path.stat().st_mode & 0o077:
        raise FabricError(str(path), "must not be readable by others: chmod 600")
    token = path.read_text().strip()
    if len(token) < 16:
        raise FabricError(str(path), "the token must have at least 16 characters")
    return token


@click.command()
@click.option("--topology", "spec", required=True, help="file:NAME.json, file:NAME.graphml or a generator (see `ferrule-fabric topology --help`)")
@click.option("--store", default="sqlite:///ferrule-fabric.db", show_default=True, envvar="FERRULE_FABRIC_STORE", help="database of patterns and of the manager's state")
@click.option("--api", default=SOCKET, show_default=True, help="where to serve HTTP: unix:PATH or HOST:PORT")
@click.option("--web", help="serve the page and the API at HOST:PORT too, for who has the token")
@click.option("--openflow", default="0.0.0.0:6653", show_default=True, help="where switches connect to: HOST:PORT or unix:PATH")
@click.option("--group", help="only this group may use the unix socket")
@click.option("--admin", multiple=True, help="a user who may do everything besides root, such as Slurm's")
@token_option
@click.option("--tls-certificate", type=click.Path(exists=True), help="certificate for HTTPS")
@click.option("--tls-key", type=click.Path(exists=True))
@click.option("--tls-clients", type=click.Path(exists=True), help="certificates of authorities: clients must show one of theirs")
@click.option("--table-entries", default=TABLE_ENTRIES_MAX, show_default=True, help="rules that fit into a switch")
@click.option("--groups", default=GROUPS_MAX, show_default=True, help="groups that fit into a switch, for split routes; 0 for one path per pair always")
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default="ferrule-time", show_default=True)
def serve(
    spec: str, store: str, api: str, openflow: str, group: str | None, admin: tuple[str, ...], token_file: FilePath | None, table_entries: int, groups: int, algorithm: str, **tls: str | None
) -> None:
    """Run the interconnect manager."""
    from ferrule_fabric.manager.serve import Settings, run

    try:
        group_id = grp.getgrnam(group).gr_gid if group else None
        admins = tuple(pwd.getpwnam(name).pw_uid for name in admin)
    except KeyError as error:
        raise FabricError("--group, --admin", f"there is no such group or user: {error}") from None
    run(topology_of(spec), Settings(store, api, openflow, _token(token_file), group_id, table_entries, algorithm, admins, groups, **tls))


def _call(api: str, token_file: FilePath | None, method: str, path: str, **more: Any) -> Any:
    try:
        with client_of(api, _token(token_file)) as client:
            answer = client.request(method, path, **more)
    except httpx.HTTPError as error:
        raise FabricError(api, f"no manager: {error}") from None
    if answer.is_error:
        try:
            told = answer.json()["error"]
            raise FabricError(told["where"], told["problem"])
        except (ValueError, KeyError, TypeError):
            raise FabricError(api, f"status {answer.status_code}") from None
    return answer.json()


@click.group()
def job() -> None:
    """Start, end and list jobs at the manager, without a scheduler."""


@job.command("start")
@click.argument("name")
@click.option("--hosts", required=True, help="the host of each rank: a,a,b,b or a*2,b*2")
@click.option("--pattern", required=True, help="name of a stored pattern")
@click.option("--tcp-port", type=int, help="only packets to this TCP port")
@click.option("--dscp", type=int, help="only packets of this class")
@api_option
@token_option
def job_start(name: str, hosts: str, pattern: str, tcp_port: int | None, dscp: int | None, api: str, token_file: FilePath | None) -> None:
    """Give a job routes."""
    ranks: list[str] = []
    for part in hosts.split(","):
        host, _, count = part.partition("*")
        if not host or (count and not count.isdigit()):
            raise FabricError("--hosts", f"{part!r} is not HOST or HOST*COUNT")
        ranks += [host] * int(count or 1)
    body = {"job": name, "hosts": ranks, "pattern": pattern, "tcp_port": tcp_port, "dscp": dscp}
    click.echo(json.dumps(_call(api, token_file, "POST", "/v1/jobs", json=body)))


@job.command("end")
@click.argument("name")
@click.option("--missing-ok", is_flag=True, help="no error if there is no such job")
@api_option
@token_option
def job_end(name: str, missing_ok: bool, api: str, token_file: FilePath | None) -> None:
    """Remove the routes of a job and of its steps."""
    try:
        click.echo(json.dumps(_call(api, token_file, "DELETE", f"/v1/jobs/{name}")))
    except FabricError as error:
        if not (missing_ok and "no job" in error.problem):
            raise


@job.command("list")
@api_option
@token_option
def job_list(api: str, token_file: FilePath | None) -> None:
    """List jobs, one JSON object per line."""
    for entry in _call(api, token_file, "GET", "/v1/jobs"):
        click.echo(json.dumps(entry))


@click.command()
@api_option
@token_option
@click.option("--topology", "spec", help="check this topology too")
@click.option("--slurm-conf", type=click.Path(path_type=FilePath), default=os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf"), show_default=True)
def doctor(api: str, token_file: FilePath | None, spec: str | None, slurm_conf: FilePath) -> None:
    """Say what is wrong with the set-up, and how to mend it. Ends with status 1 if anything is."""
    problems = 0

    def tell(good: bool | None, what: str, mend: str = "") -> None:
        nonlocal problems
        problems += good is False
        click.echo(f"{'ok  ' if good else 'skip' if good is None else 'BAD '}  {what}{'; ' + mend if mend and good is False else ''}")

    try:
        status = _call(api, token_file, "GET", "/v1/status")
        tell(True, f"manager at {api}, {status['jobs']} jobs, {status['rules']} rules")
        tell(not status["missing"], f"{status['connected']} of {status['switches']} switches connected", f"missing {', '.join(status['missing'])}: set their controller")
        tell(not status["links_down"], f"{len(status['links_down'])} links down", ", ".join(status["links_down"][:10]))
        tell(not status["miswired"], "cables are as the topology says", "; ".join(status["miswired"][:10]))
    except FabricError as error:
        tell(False, str(error), "start it: ferrule-fabric serve")
    if spec:
        for good, what, mend in _topology_checks(spec):
            tell(good, what, mend)
    for fine, what, mend in _slurm_checks(slurm_conf):
        tell(fine, what, mend)
    if problems:
        raise SystemExit(1)


def _topology_checks(spec: str) -> list[tuple[bool, str, str]]:
    try:
        topology: Topology = topology_of(spec)
    except FabricError as error:
        return [(False, str(error), "mend the file")]
    nameless = [switch.name for switch in topology.switches if switch.dpid is None]
    unaddressed = [host.name for host in topology.hosts if host.mac is None]
    portless = sum(1 for link in topology.links for name, port in ((link.a, link.a_port), (link.b, link.b_port)) if port is None and topology.node_index[name] >= topology.host_count)
    return [
        (not nameless, "every switch has a datapath id", f"missing for {', '.join(nameless[:5])}"),
        (not unaddressed, "every host has a MAC address", f"missing for {', '.join(unaddressed[:5])}"),
        (not portless, "every link has its port numbers", f"{portless} missing"),
    ]


def _slurm_checks(conf: FilePath) -> list[tuple[bool | None, str, str]]:
    if not conf.exists():
        return [(None, f"Slurm: no {conf}", "")]
    settings = {line.split("=", 1)[0].strip().lower(): line.split("=", 1)[1].strip() for line in conf.read_text(errors="replace").splitlines() if "=" in line and not line.startswith("#")}
    stack = FilePath(settings.get("plugstackconfig", str(conf.parent / "plugstack.conf")))
    listed = [line for line in (stack.read_text(errors="replace").splitlines() if stack.exists() else []) if "spank_ferrule" in line and not line.startswith("#")]
    plugins = [word for line in listed for word in line.split() if word.endswith(".so")]
    epilog = FilePath(settings.get("epilogslurmctld", ""))
    return [
        (bool(listed), f"the plugin is in {stack}", "add: optional /…/spank_ferrule.so api=unix:/run/ferrule-fabric.sock"),
        (all(FilePath(word).is_file() for word in plugins) if plugins else None, "the plugin's file is there", "build it: make spank"),
        (epilog.is_file() and os.access(epilog, os.X_OK) and "ferrule" in epilog.read_text(errors="replace"), "EpilogSlurmctld ends jobs at the manager", "see docs/user/interconnect.md"),
        (shutil.which("scontrol") is not None, "Slurm's commands are in the path", "install slurm-client"),
    ]
