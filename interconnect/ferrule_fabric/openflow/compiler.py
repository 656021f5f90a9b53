"""From topology and plans to the rules of every switch.

Rules of a job stand on every switch of a pair's path (*full*). Where that exceeds a table, rules that say what the default route says anyway are left
out (*compact*; in a fat tree only the first switch keeps one). Where that is still too much, whole pairs stay on their default route: those with the
least traffic first. A pair whose route has several paths is split by groups (`splits`); where a switch has more of these than fit, its pairs take one path.

`Compiled.path_rank` is what `update` needs: how many links are left to the destination on the way that packets are to take. Whatever is done at switches in
ascending order of rank never leads a packet back (see `update`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.defaults import DefaultRoutes, default_routes
from ferrule_fabric.openflow.rules import (
    BROADCAST,
    COOKIE_MAGIC,
    PRIORITY_BROADCAST,
    PRIORITY_DEFAULT,
    Group,
    Groups,
    Match,
    Rule,
    Selector,
    Table,
    groups_of,
    job_cookie,
    mac_of,
)
from ferrule_fabric.openflow.splits import Splitter, Ways, whole_weights

TABLE_ENTRIES_MAX = 100_000
GROUPS_MAX = 1_000
Key = tuple[int, Match]
Pair = tuple[str, str]


@dataclass(frozen=True)
class JobRoutes:
    """What is to be installed for one job: its plan under a number (the cookie), for the packets that ``selector`` takes.

    ``volume`` is the traffic of pairs, used only to decide which pairs go without rules when tables are too small.
    """

    number: int
    plan: RoutePlan
    selector: Selector = Selector()
    volume: Mapping[Pair, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiled:
    """Rules of each switch (by node number) and how they came about."""

    tables: dict[int, Table]
    defaults: DefaultRoutes
    ends: dict[Key, tuple[int, int]] = field(default_factory=dict)
    """Source and destination (host numbers) of the keys of job rules."""
    path_rank: dict[Key, dict[int, int]] = field(default_factory=dict)
    """For each key of job rules the switches of its paths with the number of links left (the most, where paths part)."""
    compact: bool = False
    left_out: tuple[tuple[int, Pair, str], ...] = ()
    """Pairs that take default routes though a plan has them: job number, pair, why."""
    paths: dict[Key, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """Paths (arcs) of each key of job rules."""
    default_host: dict[Key, int] = field(default_factory=dict)
    """The host (number) of each key of default rules."""

    @cached_property
    def keys_of(self) -> dict[tuple[int, int], list[Key]]:
        """Keys of job rules by source and destination."""
        found: dict[tuple[int, int], list[Key]] = {}
        for key, ends in self.ends.items():
            found.setdefault(ends, []).append(key)
        return found

    def without(self, keys: Iterable[Key]) -> Compiled:
        """The same without the job rules of these keys: their pairs take default routes."""
        gone = set(keys)
        tables = {node: {key: rule for key, rule in table.items() if key not in gone} for node, table in self.tables.items()}
        ends = {key: value for key, value in self.ends.items() if key not in gone}
        return replace(self, tables=tables, ends=ends, path_rank={key: self.path_rank[key] for key in ends}, paths={key: self.paths[key] for key in ends})

    def with_defaults_of(self, other: Compiled) -> Compiled:
        """These job rules with the default routes of another."""
        tables = {node: {key: rule for key, rule in table.items() if key not in self.ends} for node, table in other.tables.items()}
        for node, table in tables.items():
            table.update((key, rule) for key, rule in self.tables.get(node, {}).items() if key in self.ends)
            for key in [key for key in table if key in other.ends and key not in self.ends]:
                del table[key]
        return replace(self, tables=tables, defaults=other.defaults, default_host=other.default_host)

    @property
    def rule_count(self) -> int:
        """Rules on all switches together."""
        return sum(len(table) for table in self.tables.values())

    def omitted(self) -> Iterable[tuple[Key, int]]:
        """Keys and switches where the default route stands in for a rule of the key."""
        for key, ranks in self.path_rank.items():
            for node in ranks:
                if key not in self.tables.get(node, {}):
                    yield key, node


def compile_rules(
    topology: Topology,
    jobs: Sequence[JobRoutes] = (),
    entries_max: int = TABLE_ENTRIES_MAX,
    broadcast: bool = True,
    defaults: DefaultRoutes | None = None,
    groups_max: int = GROUPS_MAX,
) -> Compiled:
    """Rules for default routes and jobs. Raises `FabricError` where the topology lacks addresses or ports that rules need, or a plan isn't for it."""
    for job in jobs:
        job.plan.check(topology)
    routes = defaults or default_routes(topology)
    base = _default_tables(topology, routes, broadcast)
    hosts = {rule.key: host for host, arcs in routes.arc.items() for rule in [_default_rule(topology, host, next(iter(arcs.values())))]}
    full = replace(_with_jobs(topology, routes, base, jobs, False, frozenset(), groups_max), default_host=hosts)
    if not _overfull(full, entries_max):
        return full
    without: set[tuple[int, Pair]] = set()
    volume = {job.number: job.volume for job in jobs}
    while True:
        compiled = replace(_with_jobs(topology, routes, base, jobs, True, frozenset(without), groups_max), default_host=hosts)
        overfull = _overfull(compiled, entries_max)
        if not overfull:
            return compiled
        before = len(without)
        for node, excess in overfull.items():
            without |= _least(topology, compiled, node, excess, volume)
        if len(without) == before:
            node = next(iter(overfull))
            raise FabricError(f"switch {topology.node_names[node]}", f"{len(base[node])} default rules don't fit into {entries_max} entries")


def _least(topology: Topology, compiled: Compiled, node: int, excess: int, volume: Mapping[int, Mapping[Pair, float]]) -> set[tuple[int, Pair]]:
    """The job pairs with a rule at a switch that have the least traffic, as many as are too many."""
    names = topology.node_names
    found = []
    for key, rule in compiled.tables[node].items():
        if key in compiled.ends:
            src, dst = compiled.ends[key]
            number, pair = rule.cookie ^ COOKIE_MAGIC, (names[src], names[dst])
            found.append((volume.get(number, {}).get(pair, 0.0), number, pair))
    found.sort()
    return {(number, pair) for _, number, pair in found[:excess]}


def _overfull(compiled: Compiled, entries_max: int) -> dict[int, int]:
    return {node: len(table) - entries_max for node, table in compiled.tables.items() if len(table) > entries_max}


def port_of(topology: Topology, arc: int) -> int:
    """The port by which an arc leaves its switch. Raises `FabricError` if the topology doesn't say."""
    port = topology.arc_ports(arc)[0]
    if port is None:
        raise FabricError(f"topology.links[{arc // 2}]", "has no port numbers, which rules need")
    return port


def _default_rule(topology: Topology, host: int, arc: int) -> Rule:
    where, mac = f"topology.hosts[{host}].mac", topology.hosts[host].mac
    if mac is None:
        raise FabricError(where, "isn't known, and default routes need it")
    return Rule(PRIORITY_DEFAULT, Match(eth_dst=mac_of(mac, where)), (port_of(topology, arc),))


def _default_tables(topology: Topology, routes: DefaultRoutes, broadcast: bool) -> dict[int, Table]:
    tables: dict[int, Table] = {node: {} for node in range(topology.host_count, topology.node_count)}
    for host, arcs in routes.arc.items():
        for node, arc in arcs.items():
            rule = _default_rule(topology, host, arc)
            tables[node][rule.key] = rule
    if broadcast:
        for node, steps in routes.broadcast.items():
            rule = Rule(PRIORITY_BROADCAST, Match(eth_dst=BROADCAST), tuple(sorted(port_of(topology, arc) for arc in steps)))
            tables[node][rule.key] = rule
    return tables


def _with_jobs(
    topology: Topology, routes: DefaultRoutes, base: Mapping[int, Table], jobs: Sequence[JobRoutes], compact: bool, without: frozenset[tuple[int, Pair]], groups_max: int
) -> Compiled:
    tables = {node: dict(table) for node, table in base.items()}
    compiled = Compiled(tables, routes, compact=compact)
    left_out: list[tuple[int, Pair, str]] = []
    addresses = {host.name: (host.mac, host.ipv4) for host in topology.hosts}
    claims = Counter(pair for job in jobs for pair in job.plan.routes)
    groups: dict[int, Groups] = {}
    splitter = Splitter(topology)
    for job in jobs:
        cookie = job_cookie(job.number)
        for pair, route in job.plan:
            if (job.number, pair) in without:
                left_out.append((job.number, pair, "tables are full"))
                continue
            ways = splitter.ways(route, lambda ways: _groups_fit(topology, ways, groups, groups_max))
            if ways is None:
                left_out.append((job.number, pair, "a link of its path is down"))
                continue
            match = job.selector.match(addresses[pair[0]], addresses[pair[1]], f"{pair[0]} -> {pair[1]}")
            key = (job.selector.priority, match)
            if key in compiled.ends:
                left_out.append((job.number, pair, "another job has this pair"))
                continue
            src, dst = topology.node_index[pair[0]], topology.node_index[pair[1]]
            compiled.ends[key] = (src, dst)
            compiled.paths[key] = ways.paths
            compiled.path_rank[key] = ways.rank
            for node, out in ways.out.items():
                # Where several jobs have a pair, what stands below a rule is not the default route: none is left out.
                if not compact or claims[pair] > 1 or len(out) > 1 or routes.arc.get(dst, {}).get(node) not in out:
                    ports, weights = _outputs(topology, out)
                    tables[node][key] = Rule(*key, ports, cookie, weights)
                    if weights:
                        groups.setdefault(node, {}).update(groups_of([tables[node][key]]))
    return Compiled(tables, routes, compiled.ends, compiled.path_rank, compact, tuple(left_out), compiled.paths)


def _outputs(topology: Topology, out: Mapping[int, float]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ports and weights of the rule for a switch's ways out."""
    by_port = sorted((port_of(topology, arc), share) for arc, share in out.items())
    return tuple(port for port, _ in by_port), whole_weights([share for _, share in by_port]) if len(by_port) > 1 else ()


def _groups_fit(topology: Topology, ways: Ways, groups: Mapping[int, Groups], groups_max: int) -> bool:
    """Whether the groups for these ways have room at their switches, and a number that no other group has."""
    for node, out in ways.out.items():
        ports, weights = _outputs(topology, out)
        if weights:
            group, held = Group(ports, weights), groups.get(node, {})
            known = held.get(group.number)
            if known != group and (known is not None or len(held) >= groups_max):
                return False
    return True
