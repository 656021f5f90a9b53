"""``ferrule-fabric doctor``: what is wrong with the set-up, and how to mend it."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import click

from ferrule_fabric.commands.network import Reach, reaching
from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.topologies.spec import topology_of

COMMAND_TIMEOUT_S = 10
NAMED = 5
SCRIPT_BYTES_MAX = 1 << 20


class Finding(NamedTuple):
    """``good`` is None where something couldn't be looked at."""

    good: bool | None
    what: str
    mend: str = ""


@click.command()
@reaching
@click.option("--topology", "spec", help="check this topology too")
@click.option("--slurm-conf", type=click.Path(path_type=FilePath), default=os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf"), show_default=True)
def doctor(reach: Reach, spec: str | None, slurm_conf: FilePath) -> None:
    """Say what is wrong with the set-up, and how to mend it. Ends with status 1 if anything is."""
    problems = 0
    for finding in examined(reach, spec, slurm_conf):
        problems += finding.good is False
        state = "ok  " if finding.good else "skip" if finding.good is None else "BAD "
        click.echo(f"{state}  {finding.what}{'; ' + finding.mend if finding.mend and finding.good is False else ''}")
    if problems:
        raise SystemExit(1)


def examined(reach: Reach, spec: str | None, slurm_conf: FilePath) -> Iterator[Finding]:
    """All findings, as they are made."""
    status, hosts = None, None
    try:
        status = reach.call("GET", "/v1/status")
        hosts = {host["name"] for host in reach.call("GET", "/v1/topology")["hosts"]}
        yield from manager_findings(reach.api, status)
    except FabricError as error:
        yield Finding(False, str(error), "start it: ferrule-fabric serve")
    if spec:
        yield from topology_findings(spec)
    yield from slurm_findings(slurm_conf, status, hosts)


def manager_findings(api: str, status: dict[str, Any]) -> Iterator[Finding]:
    """The manager and its switches."""
    yield Finding(True, f"manager at {api}, {status['jobs']} jobs, {status['rules']} rules")
    yield Finding(not status["missing"], f"{status['connected']} of {status['switches']} switches connected", f"missing {', '.join(status['missing'])}: set their controller")
    yield Finding(not status["links_down"], f"{len(status['links_down'])} links down", ", ".join(status["links_down"][:10]))
    queues = status.get("queues")
    if queues is not None:
        yield Finding(not queues["trouble"], "queues stand at the switches as jobs want them", "; ".join(f"{name}: {why}" for name, why in queues["trouble"].items()))
        yield Finding(not queues["missing"], "every switch has an OVSDB server", f"missing for {', '.join(queues['missing'][:NAMED])}: ferrule-fabric serve --ovsdb")
    yield Finding(not status["miswired"], "cables are as the topology says", "; ".join(status["miswired"][:10]))


def topology_findings(spec: str) -> Iterator[Finding]:
    """What rules need of a topology."""
    try:
        topology: Topology = topology_of(spec)
    except FabricError as error:
        yield Finding(False, str(error), "mend the file")
        return
    nameless = [switch.name for switch in topology.switches if switch.dpid is None]
    unaddressed = [host.name for host in topology.hosts if host.mac is None]
    portless = sum(1 for link in topology.links for name, port in ((link.a, link.a_port), (link.b, link.b_port)) if port is None and topology.node_index[name] >= topology.host_count)
    yield Finding(not nameless, "every switch has a datapath id", f"missing for {', '.join(nameless[:NAMED])}")
    yield Finding(not unaddressed, "every host has a MAC address", f"missing for {', '.join(unaddressed[:NAMED])}")
    yield Finding(not portless, "every link has its port numbers", f"{portless} missing")


# Slurm


def slurm_findings(conf: FilePath, status: dict[str, Any] | None, hosts: set[str] | None) -> Iterator[Finding]:
    """Files first, then what Slurm's own commands say. ``hosts``: names of the fabric's, None where the manager doesn't answer."""
    if not conf.exists():
        yield Finding(None, f"Slurm: no {conf}")
        return
    settings = settings_of(conf)
    yield from _plugin_findings(conf, settings)
    yield from _file_findings(conf, settings, status)
    yield from _running_findings(conf, settings, hosts)


def settings_of(conf: FilePath, depth: int = 0) -> dict[str, str]:
    """The settings of slurm.conf by name in lower case, with what it includes; of a setting that occurs again the last one."""
    settings: dict[str, str] = {}
    for line in _lines(conf):
        included = re.match(r"include\s+(\S+)", line, re.IGNORECASE)
        if included and depth < 8:
            path = conf.parent / included[1]
            settings |= settings_of(path, depth + 1) if path.exists() else {}
        elif "=" in line:
            name, _, value = line.partition("=")
            settings[name.strip().lower()] = value.strip().strip('"')
    return settings


def _lines(path: FilePath) -> list[str]:
    """Lines of a file of Slurm's, without comments; none if it can't be read."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return []
    return [line for line in (re.sub(r"(^|\s)#.*", "", raw).strip() for raw in text.splitlines()) if line]


def _is_ours(script: FilePath, depth: int = 0) -> bool:
    """Whether a script, or one that it calls, has to do with the manager."""
    lines = _lines(script)
    if any("ferrule" in line.lower() for line in lines):
        return True
    called = [FilePath(word) for line in lines for word in line.split() if word.startswith("/")]
    return depth < 2 and any(path.is_file() and path.stat().st_size < SCRIPT_BYTES_MAX and _is_ours(path, depth + 1) for path in called)


def _plugin_findings(conf: FilePath, settings: dict[str, str]) -> Iterator[Finding]:
    stack = FilePath(settings.get("plugstackconfig", str(conf.parent / "plugstack.conf")))
    listed = [line.split() for line in _lines(stack) if "spank_ferrule" in line]
    yield Finding(bool(listed), f"the plugin is in {stack}", "add: optional /…/spank_ferrule.so api=/run/ferrule-fabric.sock")
    for words in listed:
        plugin = FilePath(next((word for word in words if word.endswith(".so")), ""))
        if plugin.is_absolute():
            yield Finding(plugin.is_file(), f"the plugin's file {plugin} is there", "build it: make spank")
        yield Finding(words[0] != "required", "the plugin is optional", "with `required`, jobs fail where it can't be loaded")
        options = dict(word.partition("=")[::2] for word in words[2:])
        path = options.get("api", "").removeprefix("unix:")
        if path.startswith("/"):
            yield Finding(FilePath(path).is_socket(), f"the plugin's api={path} is a socket on this node", "it must be the one that `ferrule-fabric serve --api` names")


def _file_findings(conf: FilePath, settings: dict[str, str], status: dict[str, Any] | None) -> Iterator[Finding]:
    epilog = FilePath(settings.get("epilogslurmctld", ""))
    ends = epilog.is_file() and os.access(epilog, os.X_OK) and _is_ours(epilog)
    yield Finding(ends, "EpilogSlurmctld ends jobs at the manager", "see docs/user/interconnect.md")
    user = settings.get("slurmuser", "root")
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        yield Finding(False, f"SlurmUser {user} is a user", "there is none of this name")
    else:
        admins = None if status is None else status.get("admins")
        yield Finding(None if admins is None else uid in admins, f"SlurmUser {user} may end all jobs at the manager", f"ferrule-fabric serve --admin {user}")
    yield Finding(None if status is None else bool(status.get("slurm")), "the manager asks Slurm whose hosts are whose", "ferrule-fabric serve --slurm; without, users' jobs take default routes")
    if "lua" in settings.get("jobsubmitplugins", "").split(","):
        script = conf.parent / "job_submit.lua"
        yield Finding(_is_ours(script), f"{script} asks the manager for the choice of nodes", "see interconnect/slurm/job_submit.lua")


def _running_findings(conf: FilePath, settings: dict[str, str], hosts: set[str] | None) -> Iterator[Finding]:
    missing = [name for name in ("scontrol", "sinfo", "srun") if shutil.which(name) is None]
    yield Finding(not missing, "Slurm's commands are in the path", f"install slurm-client: no {', '.join(missing)}")
    if missing:
        return
    running = _output(["scontrol", "show", "config"], conf)
    yield Finding(running is not None, "slurmctld answers", "start slurmctld; `scontrol ping` says more")
    if running is None:
        return
    config = {name.strip().lower(): value.strip() for name, equals, value in (line.partition("=") for line in running.splitlines()) if equals}
    stale = [name for name in ("epilogslurmctld", "jobsubmitplugins") if name in settings and config.get(name, "").removesuffix("[0]") != settings[name]]
    yield Finding(not stale, "slurmctld runs with these settings", f"{', '.join(stale)} differ: scontrol reconfigure, or restart slurmctld")
    nodes = set((_output(["sinfo", "-h", "-N", "-o", "%N"], conf) or "").split())
    unknown = sorted(nodes - hosts) if hosts is not None else []
    yield Finding(None if hosts is None else not unknown, "Slurm's nodes are hosts of the fabric", f"the topology doesn't know {', '.join(unknown[:NAMED])}")
    yield Finding("--comm-pattern" in (_output(["srun", "--help"], conf) or ""), "srun knows --comm-pattern", "the plugin isn't loaded: run srun with -v")


def _output(command: list[str], conf: FilePath) -> str | None:
    """What a command prints, None if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False, env=os.environ | {"SLURM_CONF": str(conf)}, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
