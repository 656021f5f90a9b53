"""The order in which rules change, so that on the way from one set of rules to another no packet is lost and none loops.

A change is a list of rounds; a round may be executed in any order over all switches, but ends (barriers) before the next begins. Rounds go by *rank*,
the number of links left to the destination on the new way. Invariant after round k: a packet that is at a switch of its new way with rank k or less
follows the new way to the end, because all later switches of that way have smaller ranks. Anywhere else it follows the old way, which has no loop,
until it is delivered or meets such a switch. What only the old way used goes in a last round, after `DRAIN_S`, when no packet is there any more. Where a way
parts, the rank is the largest number of links that may be left, so that it falls with every link. Groups are there before the first rule that needs them, and
go when no rule does any more. (One kind of packet is lost: that which waits in a queue meanwhile, and would have to go back over the link that it came by.)

With *compact* rules, default routes carry part of a job's way. When they change, the pairs concerned first go back to their default routes, then
default routes change, then the pairs get their new way: three changes (`steps`), each by the same rounds. The same where another job gets or loses
the pair, and where a table hasn't room for the rules of before and after together.

Rules that say what the default route says (in a two-level tree all but those at the first switch) may come and go at any time, so they wait for no round.

Packets with a label (`labels`) look at nothing else. Their rules are there before the first packet with the label and stay until it is gone, and what a label
says is never changed; so a pair's new way, as above, is that of its packets without a label: before the label is put on, and after. They must not come to the
switch that puts it on from where it leads. So a pair whose old way did first goes back to its default route, and the first labels are put on when no packet of
before is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.compiler import GROUPS_MAX, Compiled, JobRoutes, Key, compile_rules
from ferrule_fabric.openflow.labels import LABELS_MAX
from ferrule_fabric.openflow.rules import PRIORITY_BROADCAST, PRIORITY_LABEL, Add, AddGroup, Change, Groups, Remove, RemoveGroup, Rule, Table, groups_of

DRAIN_S = 0.05
LAST = 1 << 30


@dataclass(frozen=True)
class Round:
    """Changes by switch (node number); ``drain`` asks to wait `DRAIN_S` before."""

    changes: dict[int, list[Change]]
    drain: bool = False


def difference(old: Table, new: Table) -> tuple[list[Rule], list[Rule]]:
    """Rules to add (or replace), and rules to remove."""
    added = [rule for key, rule in new.items() if old.get(key) != rule]
    return added, [rule for key, rule in old.items() if key not in new]


def rounds(old: Compiled, new: Compiled) -> list[Round]:
    """The rounds that lead from one set of rules to another."""
    place, idle = _rank_of(new), _idle(old, new)
    by_rank: dict[tuple[int, int], dict[int, list[Change]]] = {}
    for node in new.tables.keys() | old.tables.keys():
        added, removed = difference(old.tables.get(node, {}), new.tables.get(node, {}))
        for rule in added:
            # What a label says never changes: its rules may come when no packet has it yet.
            rank = LAST if rule.priority == PRIORITY_BROADCAST else -2 if rule.priority == PRIORITY_LABEL else place(rule.key, node)
            rank = max(new.path_rank[rule.key].values()) if idle(rule, node) else rank
            by_rank.setdefault((rank, 0), {}).setdefault(node, []).append(Add(rule))
            replaced = old.tables.get(node, {}).get(rule.key)
            if rule.priority == PRIORITY_BROADCAST and replaced:
                # Half of one tree and half of another would circulate: the old one goes first.
                by_rank.setdefault((-1, 0), {}).setdefault(node, []).append(Remove(replaced.priority, replaced.match, replaced.cookie))
        for rule in removed:
            rank = -1 if rule.priority == PRIORITY_BROADCAST else _removal_rank(old, new, rule.key, node, place)
            rank = max(old.path_rank[rule.key].values()) if idle(rule, node) else rank
            # Of two rules for a pair the lower goes first, lest it take the packets of the higher.
            lower = any(other[0] < rule.priority for other in old.keys_of.get(old.ends.get(rule.key, (-1, -1)), ()))
            by_rank.setdefault((rank, rule.priority if lower else 0), {}).setdefault(node, []).append(Remove(rule.priority, rule.match, rule.cookie))
    labels_first = min((rank for rank, changes in by_rank.items() if _pushes(changes)), default=None)
    drains = {rank for rank, changes in by_rank.items() if rank == labels_first or rank[0] == LAST and _removes(changes)}
    ordered = [Round(by_rank[rank], drain=rank in drains) for rank in sorted(by_rank)]
    first, last = _group_changes({node: groups_of(table.values()) for node, table in old.tables.items()}, new)
    return [one for one in (first, *ordered, last) if one.changes]


def _group_changes(held: Mapping[int, Groups], new: Compiled) -> tuple[Round, Round]:
    """The rounds before and after all others: groups that come, and those that go."""
    first: dict[int, list[Change]] = {}
    last: dict[int, list[Change]] = {}
    for node in held.keys() | new.tables.keys():
        groups, wanted = held.get(node, {}), groups_of(new.tables.get(node, {}).values())
        coming: list[Change] = [AddGroup(group) for number, group in wanted.items() if number not in groups]
        going: list[Change] = [RemoveGroup(number) for number in groups.keys() - wanted.keys()]
        first |= {node: coming} if coming else {}
        last |= {node: going} if going else {}
    return Round(first), Round(last)


def _removes(changes: dict[int, list[Change]]) -> bool:
    return any(isinstance(change, Remove) for listed in changes.values() for change in listed)


def _pushes(changes: dict[int, list[Change]]) -> bool:
    return any(isinstance(change, Add) and change.rule.push for listed in changes.values() for change in listed)


def _rank_of(new: Compiled) -> Callable[[Key, int], int]:
    def rank(key: Key, node: int) -> int:
        if key in new.path_rank:
            return new.path_rank[key].get(node, LAST)
        host = new.default_host.get(key)
        return LAST if host is None else new.defaults.distance[host].get(node, LAST)

    return rank


def _idle(old: Compiled, new: Compiled) -> Callable[[Rule, int], bool]:
    """Whether a job rule that comes or goes says what the default route says before and after, so that packets don't notice; it needs no round of its own."""
    default_of = {host: key for key, host in new.default_host.items()}

    def idle(rule: Rule, node: int) -> bool:
        ends = new.ends.get(rule.key) or old.ends.get(rule.key)
        if ends is None or len({*old.keys_of.get(ends, ()), *new.keys_of.get(ends, ())}) > 1 or rule.weights or rule.push:
            return False
        # Both: a rule that is replaced by another is noticed.
        if all(rule.key in one.tables.get(node, {}) for one in (old, new)):
            return False
        defaults = [one.tables.get(node, {}).get(default_of.get(ends[1], rule.key)) for one in (old, new)]
        return all(default is not None and default.ports == rule.ports for default in defaults)

    return idle


def _removal_rank(old: Compiled, new: Compiled, key: Key, node: int, place: Callable[[Key, int], int]) -> int:
    """When a rule that is no longer wanted goes: with the rules of the way that its packets take instead, else last."""
    if key in new.path_rank:
        return place(key, node)
    ends = old.ends.get(key)
    if ends is None:
        return LAST
    instead = [other for other in new.keys_of.get(ends, ()) if other[0] < key[0] and key[1].within(other[1])]
    if instead:
        return new.path_rank[max(instead, key=lambda other: other[0])].get(node, LAST)
    return new.defaults.distance.get(ends[1], {}).get(node, LAST)


def in_one_round(actual: Mapping[int, Table], wanted: Compiled, groups: Mapping[int, Groups], entries_max: int) -> list[Round]:
    """To make switches that hold anything (after a restart) hold what is wanted: groups, rules of labels, jobs and default routes, then what is left over;
    that goes first where both together don't fit.

    ``groups`` are those with our mark that the switches hold.
    """
    put: dict[int, list[Change]] = {}
    take: dict[int, list[Change]] = {}
    soon: dict[int, list[Change]] = {}
    for node, table in actual.items():
        added, removed = difference(table, wanted.tables.get(node, {}))
        if added:
            put[node] = [Add(rule) for rule in sorted(added, key=lambda rule: -rule.priority)]
        if removed:
            full = len(table.keys() | wanted.tables.get(node, {}).keys()) > entries_max
            (soon if full else take)[node] = [Remove(rule.priority, rule.match, rule.cookie) for rule in removed]
    first, last = _group_changes({node: groups.get(node, {}) for node in actual}, replace(wanted, tables={node: wanted.tables.get(node, {}) for node in actual}))
    return [one for one in (Round(soon), first, Round(put), Round(take), last) if one.changes]


def steps(
    topology: Topology, old: Compiled, jobs: Sequence[JobRoutes], entries_max: int, broadcast: bool = True, groups_max: int = GROUPS_MAX, labels_max: int = LABELS_MAX
) -> list[Compiled]:
    """The sets of rules to pass through, the wanted one last (see the module's head)."""
    wanted = compile_rules(topology, jobs, entries_max, broadcast, None, groups_max, labels_max, old.labels)
    changed = {(host, node) for host in old.defaults.arc for node, arc in old.defaults.arc[host].items() if wanted.defaults.arc.get(host, {}).get(node) != arc}
    concerned: set[Key] = set()
    for rules in (old, wanted):
        for key, node in rules.omitted():
            ends = rules.ends[key]
            sharing = {*old.keys_of.get(ends, ()), *wanted.keys_of.get(ends, ())}
            if (ends[1], node) in changed or len(sharing) > 1:
                concerned |= sharing
    concerned |= _turned(old, wanted)
    found = _passing(old, wanted, concerned, bool(changed))
    for more in (_different, lambda old, _: set(old.ends)):
        if any(one.overfull(entries_max, before) for before, one in zip([old, *found], found)):
            found = _passing(old, wanted, concerned | more(old, wanted), bool(changed))
    return found


def _turned(old: Compiled, wanted: Compiled) -> set[Key]:
    """Keys of pairs that get a label and one of whose old ways has a link of the new way in the other direction: a packet of before could come back to the
    switch that pushes the label from where it leads, and would have to turn there. (Any link of the new way counts, not only those behind the push: a few
    pairs more than need it take their default routes for a moment.)"""
    found: set[Key] = set()
    for key in wanted.label_of:
        sharing = {*old.keys_of.get(wanted.ends[key], ()), *wanted.keys_of.get(wanted.ends[key], ())}
        back = {arc ^ 1 for arc in wanted.paths[key][0]}
        if any(back & set(path) for other in sharing if other in old.paths for path in old.paths[other]):
            found |= sharing
    return found


def _different(old: Compiled, wanted: Compiled) -> set[Key]:
    """Keys of the old job rules of which any rule changes or goes."""
    found: set[Key] = set()
    for node, table in old.tables.items():
        new = wanted.tables.get(node, {})
        found |= {key for key in table.keys() | new.keys() if key in old.ends and table.get(key) != new.get(key)}
    return found


def _passing(old: Compiled, wanted: Compiled, going: set[Key], changed: bool) -> list[Compiled]:
    """From old to wanted with some keys on default routes meanwhile; ``changed`` says that default routes change."""
    if not going:
        return [wanted]
    back = old.without(going)
    return [back, back.with_defaults_of(wanted), wanted] if changed else [back, wanted]
