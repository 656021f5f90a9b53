"""``ferrule-fabric serve``: the manager."""

from __future__ import annotations

import grp
import pwd
from pathlib import Path as FilePath

import click

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.address import SOCKET
from ferrule_fabric.openflow.compiler import GROUPS_MAX, TABLE_ENTRIES_MAX
from ferrule_fabric.openflow.labels import LABEL_MIN, LABELS_MAX
from ferrule_fabric.routing.allocate import ALGORITHMS
from ferrule_fabric.topologies.spec import topology_of

_file = click.Path(exists=True)


@click.command()
@click.option("--topology", "spec", required=True, help="file:NAME.json, file:NAME.graphml or a generator (see `ferrule-fabric topology --help`)")
@click.option("--store", default="sqlite:///ferrule-fabric.db", show_default=True, envvar="FERRULE_FABRIC_STORE", help="database of patterns and of the manager's state")
@click.option("--api", default=SOCKET, show_default=True, help="where to serve the API: unix:PATH, or HOST:PORT with TLS")
@click.option("--web", help="also serve the page and the API at HOST:PORT, with TLS")
@click.option("--roles", type=click.Path(path_type=FilePath), help="file that says who may do what over TCP: lines `ROLE token TOKEN` or `ROLE certificate NAME`")
@click.option("--tls-certificate", type=_file, help="certificate for HTTPS")
@click.option("--tls-key", type=_file)
@click.option("--tls-clients", type=_file, help="certificates of authorities: clients must show one of theirs")
@click.option("--plain-http", is_flag=True, help="do without TLS on 127.0.0.1 and ::1")
@click.option("--openflow", default="0.0.0.0:6653", show_default=True, help="where switches connect to: HOST:PORT with TLS, or unix:PATH")
@click.option("--openflow-certificate", type=_file, help="our certificate for switches")
@click.option("--openflow-key", type=_file)
@click.option("--openflow-switches", type=_file, help="the authority of the switches' certificates, which name their datapath ids")
@click.option("--openflow-plain", multiple=True, help="instead of TLS: an address or network of switches that need no proof; may be repeated")
@click.option("--ovsdb", multiple=True, help="set up queues for the classes of jobs' lanes, by this OVSDB server: unix:PATH, ssl:HOST[:PORT] or tcp:HOST[:PORT]; one per switch's host")
@click.option("--slurm", is_flag=True, help="users may start jobs on the hosts that Slurm has given them (asks squeue and scontrol)")
@click.option("--group", help="only this group may use the unix socket")
@click.option("--admin", multiple=True, help="a user who may do everything besides root, such as Slurm's")
@click.option("--table-entries", default=TABLE_ENTRIES_MAX, show_default=True, help="rules that fit into a switch")
@click.option("--groups", default=GROUPS_MAX, show_default=True, help="groups that fit into a switch, for split routes; 0 for one path per pair always")
@click.option(
    "--labels",
    default=LABELS_MAX,
    show_default=True,
    type=click.IntRange(0, LABELS_MAX),
    help=f"path labels (VLANs from {LABEL_MIN} on) that may be used where tables are too small; 0 for none, where hosts use VLANs of their own",
)
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default="ferrule-time", show_default=True)
def serve(
    spec: str,
    store: str,
    api: str,
    web: str | None,
    roles: FilePath | None,
    tls_certificate: str | None,
    tls_key: str | None,
    tls_clients: str | None,
    plain_http: bool,
    openflow: str,
    openflow_certificate: str | None,
    openflow_key: str | None,
    openflow_switches: str | None,
    openflow_plain: tuple[str, ...],
    ovsdb: tuple[str, ...],
    slurm: bool,
    group: str | None,
    admin: tuple[str, ...],
    table_entries: int,
    groups: int,
    labels: int,
    algorithm: str,
) -> None:
    """Run the interconnect manager."""
    from ferrule_fabric.manager.callers import Roles, read_roles
    from ferrule_fabric.manager.listening import Interfaces
    from ferrule_fabric.manager.serve import Settings, Switches, run

    try:
        group_id = grp.getgrnam(group).gr_gid if group else None
        admins = tuple(pwd.getpwnam(name).pw_uid for name in admin)
    except KeyError as error:
        raise FabricError("--group, --admin", f"there is no such group or user: {error}") from None
    interfaces = Interfaces(api, web, group_id, read_roles(roles) if roles else Roles(), tls_certificate, tls_key, tls_clients, plain_http)
    switches = Switches(openflow, openflow_certificate, openflow_key, openflow_switches, openflow_plain)
    run(topology_of(spec), Settings(store, interfaces, switches, table_entries, algorithm, admins, groups, labels, slurm, ovsdb))
