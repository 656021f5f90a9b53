"""Path labels: where tables are small, pairs that go the same way between two switches share the rules on it.

The first switch whose rule would differ from the default route pushes a label (a VLAN tag) per pair; the switches after it match the label alone; the last
of them whose default route isn't the way takes the label off, from where the default route goes on. So a pair costs one rule, and each (switch, label) one.
What a label says at a switch is its *step*: the arc, and whether the label ends there. Pairs share a label when their steps agree at every switch that both
pass; a packet goes through the steps of its own path only, so that any set of paths that agree may share.

A step of a label that stands in switches (``held``) never changes: other steps take another number. Packets under way therefore keep their whole way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ferrule_fabric.errors import FabricError

LABEL_MIN, LABEL_MAX = 2, 4094
LABELS_MAX = LABEL_MAX - LABEL_MIN + 1
# So many labels a new part is compared with.
TRIED_MAX = 256

Step = tuple[int, bool]
Labels = Mapping[int, Mapping[int, Step]]
Part = tuple[tuple[int, Step], ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """How one pair would be labelled: ``push`` is the switch that puts the label on, ``part`` the steps after it, ``spared`` how many rules of its own it
    saves there."""

    push: int
    part: Part
    spared: int


def labelled(nodes: Sequence[int], arcs: Sequence[int], needs: Sequence[bool]) -> Labelled | None:
    """How to label a path over switches ``nodes`` that it leaves by ``arcs``, given which need a rule of its own; None if that spares nothing."""
    own = [place for place, needed in enumerate(needs) if needed]
    if len(own) < 2:
        return None
    first, last = own[0], own[-1]
    return Labelled(nodes[first], tuple((nodes[place], (arcs[place], place == last)) for place in range(first + 1, last + 1)), len(own) - 1)


def shared(parts: Sequence[Labelled], held: Labels, labels_max: int = LABELS_MAX) -> tuple[dict[int, dict[int, Step]], list[int | None]]:
    """Labels with their steps, and the label of each part: None where one wouldn't spare rules, or no number is left."""
    users: dict[Part, list[int]] = {}
    for i, one in enumerate(parts):
        users.setdefault(one.part, []).append(i)
    labels: dict[int, dict[int, Step]] = {}
    label_of: dict[Part, int] = {}
    starts: dict[tuple[int, Step], list[int]] = {}
    for number, steps in sorted(held.items()):
        for start in steps.items():
            starts.setdefault(start, []).append(number)
    # First those that stand, then the longest, into which shorter ones fit.
    for part in sorted(users, key=lambda part: (-len(part), part)):
        known = next((one for one in starts.get(part[0], ()) if all(held[one].get(node) == step for node, step in part)), None)
        if known is not None:
            label_of[part] = known
            labels.setdefault(known, {}).update(part)
    free = iter(number for number in range(LABEL_MIN, LABEL_MAX + 1) if number not in held)
    for part in sorted(users.keys() - label_of.keys(), key=lambda part: (-len(part), part)):
        fitting = (one for one in list(labels)[-TRIED_MAX:] if _agree(part, labels[one]) and _agree(part, held.get(one, {})))
        chosen = next(chain(fitting, free), None)
        if chosen is not None:
            label_of[part] = chosen
            labels.setdefault(chosen, {}).update(part)
    gain = {number: -len(steps) for number, steps in labels.items()}
    for part, number in label_of.items():
        gain[number] += sum(parts[i].spared for i in users[part])
    kept = {number for number in sorted(gain, key=lambda number: (-gain[number], number))[:labels_max] if gain[number] > 0}
    found: list[int | None] = [None] * len(parts)
    for part, number in label_of.items():
        for i in users[part] if number in kept else ():
            found[i] = number
    return {number: labels[number] for number in sorted(kept)}, found


def _agree(part: Part, steps: Mapping[int, Step]) -> bool:
    return all(steps.get(node, step) == step for node, step in part)


def to_lists(labels: Labels) -> list[list[int]]:
    """Labels as rows (label, switch, arc, ends), for JSON."""
    return [[number, node, arc, int(ends)] for number, steps in sorted(labels.items()) for node, (arc, ends) in sorted(steps.items())]


def from_lists(rows: object, switches: range, arcs: int) -> dict[int, dict[int, Step]]:
    """Labels from such rows. Raises `FabricError` where they aren't of a network with these switches and so many arcs."""
    labels: dict[int, dict[int, Step]] = {}
    for place, row in enumerate(rows if isinstance(rows, list) else [rows]):
        if not isinstance(row, list) or len(row) != 4 or not all(isinstance(value, int) for value in row):
            raise FabricError(f"labels[{place}]", "must be label, switch, arc and whether it ends there")
        number, node, arc, ends = row
        if not LABEL_MIN <= number <= LABEL_MAX or node not in switches or not 0 <= arc < arcs:
            raise FabricError(f"labels[{place}]", "isn't of this network")
        labels.setdefault(number, {})[node] = arc, bool(ends)
    return labels
