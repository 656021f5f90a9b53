"""From topology and plans to the rules of every switch.

Rules of a job stand on every switch of a pair's path (*full*). Where that exceeds a table, rules that say what the default route says anyway are left
out (*compact*; in a fat tree only the first switch keeps one). Where that is still too much, pairs that share a way share its rules by path labels
(`labels`), and whole pairs stay on their default route: those with the least traffic first. Labels are used if fewer stay behind with them. A pair
whose route has several paths is split by groups (`splits`); where a switch has more of these than fit, its pairs take one path.

`Compiled.path_rank` is what `update` needs: how many links are left to the destination on the way that packets are to take. Whatever is done at switches in
ascending order of rank never leads a packet back (see `update`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.defaults import DefaultRoutes, default_routes
from ferrule_fabric.openflow.labels import LABELS_MAX, Labels, labelled, shared
from ferrule_fabric.openflow.rules import (
    BROADCAST,
    PRIORITY_BROADCAST,
    PRIORITY_DEFAULT,
    PRIORITY_DISCOVERY,
    PRIORITY_LABEL,
    VLAN_PRESENT,
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
Volume = Mapping[int, Mapping[Pair, float]]
Without = frozenset[tuple[int, Pair]]
FULL = "tables are full"


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
    numbers: dict[Key, int] = field(default_factory=dict)
    """The job of each of them."""
    path_rank: dict[Key, dict[int, int]] = field(default_factory=dict)
    """For each key of job rules the switches of its paths with the number of links left (the most, where paths part)."""
    compact: bool = False
    left_out: tuple[tuple[int, Pair, str], ...] = ()
    """Pairs that take default routes though a plan has them: job number, pair, why."""
    paths: dict[Key, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """Paths (arcs) of each key of job rules."""
    default_host: dict[Key, int] = field(default_factory=dict)
    """The host (number) of each key of default rules."""
    labels: Labels = field(default_factory=dict)
    """Path labels: what each says at which switch."""
    label_of: dict[Key, int] = field(default_factory=dict)
    """The label of the keys that have one. At switches where the label goes, their `path_rank` says nothing: packets there don't look at the key."""

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
        label_of = {key: number for key, number in self.label_of.items() if key not in gone}
        labels = {number: self.labels[number] for number in sorted(set(label_of.values()))}
        stay = label_rules(labels)
        tables = {
            node: {key: rule for key, rule in table.items() if key not in gone and (key[0] != PRIORITY_LABEL or (node, key) in stay)} for node, table in self.tables.items()
        }
        ends = {key: value for key, value in self.ends.items() if key not in gone}
        ranks, paths = {key: self.path_rank[key] for key in ends}, {key: self.paths[key] for key in ends}
        return replace(self, tables=tables, ends=ends, path_rank=ranks, paths=paths, labels=labels, label_of=label_of)

    def with_defaults_of(self, other: Compiled) -> Compiled:
        """These job rules and labels with the default routes of another."""
        own = self.ends.keys()
        tables = {node: {key: rule for key, rule in table.items() if key not in other.ends and key[0] != PRIORITY_LABEL} for node, table in other.tables.items()}
        for node, table in tables.items():
            table.update((key, rule) for key, rule in self.tables.get(node, {}).items() if key in own or key[0] == PRIORITY_LABEL)
        return replace(self, tables=tables, defaults=other.defaults, default_host=other.default_host)

    def overfull(self, entries_max: int, beside: Compiled | None = None) -> dict[int, int]:
        """Switches (nodes) with how many rules too many they have, together with those of ``beside``; the rule for discovery is not counted."""
        found = {}
        for node, table in self.tables.items():
            other = beside.tables.get(node, {}) if beside else {}
            if len(table) + len(other) > entries_max:
                count = sum(key[0] != PRIORITY_DISCOVERY for key in table.keys() | other.keys())
                if count > entries_max:
                    found[node] = count - entries_max
        return found

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
    labels_max: int = LABELS_MAX,
    held: Labels | None = None,
) -> Compiled:
    """Rules for default routes and jobs; ``held`` are the labels that stand. Raises `FabricError` where the topology lacks addresses or ports that rules
    need, or a plan isn't for it."""
    for job in jobs:
        job.plan.check(topology)
    routes = defaults or default_routes(topology)
    base = _default_tables(topology, routes, broadcast)
    hosts = {rule.key: host for host, arcs in routes.arc.items() for rule in [_default_rule(topology, host, next(iter(arcs.values())))]}

    def made(compact: bool, labels: int, without: Without) -> Compiled:
        compiled = replace(_with_jobs(topology, routes, base, jobs, compact, without, groups_max), default_host=hosts)
        return _with_labels(topology, compiled, labels, held or {}) if labels else compiled

    full = made(False, 0, frozenset())
    if not full.overfull(entries_max):
        return full
    volume = {job.number: job.volume for job in jobs}
    fitting = []
    for labels in (0, labels_max) if labels_max else (0,):
        fitting.append(_fitting(topology, partial(made, True, labels), entries_max, volume))
        if not fitting[-1][0]:
            break
    return min(fitting, key=lambda one: (sum(volume.get(number, {}).get(pair, 0.0) for number, pair in one[0]), len(one[0])))[1]


def _fitting(topology: Topology, made: Callable[[Without], Compiled], entries_max: int, volume: Volume) -> tuple[Without, Compiled]:
    """What ``made`` makes without as few pairs as needed (which are returned too) to fit. Raises `FabricError` if it doesn't without any."""
    without: Without = frozenset()
    while True:
        compiled = made(without)
        overfull = compiled.overfull(entries_max)
        if not overfull:
            return without, compiled
        before = len(without)
        for node, excess in overfull.items():
            # A pair that goes makes room at other switches too: not all at once.
            without |= _least(topology, compiled, node, (excess + 1) // 2, volume)
        if len(without) == before:
            node = next(iter(overfull))
            raise FabricError(f"switch {topology.node_names[node]}", f"{len(compiled.tables[node])} default rules don't fit into {entries_max} entries")


def _least(topology: Topology, compiled: Compiled, node: int, excess: int, volume: Volume) -> set[tuple[int, Pair]]:
    """The job pairs behind so many rules at a switch as are too many, those with the least traffic."""
    names = topology.node_names

    def pair_of(key: Key) -> tuple[int, Pair]:
        src, dst = compiled.ends[key]
        return compiled.numbers[key], (names[src], names[dst])

    behind = [[pair_of(key)] for key in compiled.tables[node] if key in compiled.ends]
    users: dict[int, list[tuple[int, Pair]]] = {}
    for key, label in compiled.label_of.items():
        if node in compiled.labels[label]:
            users.setdefault(label, []).append(pair_of(key))
    behind += users.values()
    weighed = sorted((sum(volume.get(number, {}).get(pair, 0.0) for number, pair in pairs), pairs) for pairs in behind)
    return {pair for _, pairs in weighed[:excess] for pair in pairs}


def label_rules(labels: Labels) -> set[tuple[int, Key]]:
    """Switches and keys of the rules of labels."""
    return {(node, (PRIORITY_LABEL, _label_match(number))) for number, steps in labels.items() for node in steps}


def _label_match(number: int) -> Match:
    return Match(vlan_vid=VLAN_PRESENT | number)


def _with_labels(topology: Topology, compact: Compiled, labels_max: int, held: Labels) -> Compiled:
    """Compact rules with labels in place of the rules that they spare."""
    tail = topology.arc_tail.tolist()
    keys, parts = [], []
    for key, paths in compact.paths.items():
        # Where several jobs have a pair, what stands below a rule is not the default route.
        if len(paths) == 1 and len(compact.keys_of[compact.ends[key]]) == 1:
            arcs = paths[0][1:]
            nodes = [tail[arc] for arc in arcs]
            part = labelled(nodes, arcs, [key in compact.tables[node] for node in nodes])
            if part is not None:
                keys.append(key)
                parts.append(part)
    labels, found = shared(parts, held, labels_max)
    tables, ranks = {node: dict(table) for node, table in compact.tables.items()}, dict(compact.path_rank)
    label_of = {key: number for key, number in zip(keys, found) if number is not None}
    for key, part in zip(keys, parts):
        if key in label_of:
            inside = {node for node, _ in part.part}
            for node in inside:
                tables[node].pop(key, None)
            tables[part.push][key] = replace(tables[part.push][key], push=label_of[key])
            ranks[key] = {node: rank for node, rank in ranks[key].items() if node not in inside}
    for number, steps in labels.items():
        for node, (arc, ends) in steps.items():
            rule = Rule(PRIORITY_LABEL, _label_match(number), (port_of(topology, arc),), pop=ends)
            tables[node][rule.key] = rule
    return replace(compact, tables=tables, path_rank=ranks, labels=labels, label_of=label_of)


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
    topology: Topology, routes: DefaultRoutes, base: Mapping[int, Table], jobs: Sequence[JobRoutes], compact: bool, without: Without, groups_max: int
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
                left_out.append((job.number, pair, FULL))
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
            compiled.numbers[key] = job.number
            compiled.paths[key] = ways.paths
            compiled.path_rank[key] = ways.rank
            for node, out in ways.out.items():
                # Where several jobs have a pair, what stands below a rule is not the default route: none is left out.
                if not compact or claims[pair] > 1 or len(out) > 1 or routes.arc.get(dst, {}).get(node) not in out:
                    ports, weights = _outputs(topology, out)
                    tables[node][key] = Rule(*key, ports, cookie, weights)
                    if weights:
                        groups.setdefault(node, {}).update(groups_of([tables[node][key]]))
    return replace(compiled, left_out=tuple(left_out))


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
