"""Lanes of a pair of ranks: how many there are, which class of traffic each carries, and the DSCP value of its packets.

The same words, classes and values as `crates/protocol/src/lanes.rs`, which explains the policies; `tests/test_lanes.py` compares both. DSCP values are
those of RFC 4594 where it knows the kind of traffic (EF, CS5, AF4x to AF1x, CS1), and shares take the pool for local use (RFC 2474, section 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ferrule_fabric.errors import FabricError

LANES_MAX = 16
TRAFFIC = ("p2p", "collectives", "onesided", "control", "io", "offload")
"""Classes by kind of traffic, in the order of their lanes."""
SHARES = tuple(f"share{number}" for number in range(LANES_MAX))
DSCP: Mapping[str, int] = {
    "latency": 46,
    "bulk": 8,
    "p2p": 26,
    "collectives": 34,
    "onesided": 18,
    "control": 40,
    "io": 10,
    "offload": 14,
} | {name: 4 * number + 3 for number, name in enumerate(SHARES)}
"""The DSCP value of each class."""
# By policy: fewest lanes (of distribute:connection: shares), as many as it takes by itself, and most.
POLICIES: Mapping[str, tuple[int, int, int]] = {
    "single": (1, 1, 1),
    "distribute": (1, 4, LANES_MAX),
    "distribute:connection": (1, 4, LANES_MAX),
    "segregate": (2, 2, LANES_MAX),
    "segregate:traffic": (2, 3, len(TRAFFIC)),
}
AUTO = "segregate"


@dataclass(frozen=True, slots=True)
class LanePlan:
    """``count`` lanes of a pair (of ``distribute:connection``: shares of all pairs) by a policy."""

    policy: str = "single"
    count: int = 1

    def __str__(self) -> str:
        return self.policy if self.policy == "single" else f"{self.count}:{self.policy}"

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that lanes of the job have; none with a single lane."""
        if self.policy.startswith("distribute"):
            return SHARES[: self.count]
        return {"single": (), "segregate": ("latency", "bulk")}.get(self.policy, TRAFFIC[: self.count])


def plan_of(text: str, where: str = "lanes") -> LanePlan:
    """The plan that ``K[:POLICY]`` names, as in ``mpiexec --lanes``; ``single`` is one lane. Raises `FabricError`."""
    if text == "single":
        return LanePlan()
    number, colon, policy = text.partition(":")
    if not number or (colon and not policy):
        raise FabricError(where, f"{text!r} is not of the form K[:POLICY]")
    number = number.strip().removesuffix("!")
    count = None if number == "auto" else int(number) if number.isascii() and number.isdigit() and len(number) < 3 else 0
    if count is not None and not 1 <= count <= LANES_MAX:
        raise FabricError(where, f"{number!r} is not auto or a number from 1 to {LANES_MAX}")
    policy = policy.strip() or ("auto" if count is None else "single" if count == 1 else "distribute")
    policy = AUTO if policy == "auto" else policy
    if policy not in POLICIES:
        raise FabricError(where, f"the policy {policy!r} is none of {', '.join(POLICIES)}, auto")
    fewest, own, most = POLICIES[policy]
    count = own if count is None else count
    if not fewest <= count <= most:
        raise FabricError(where, f"{count} lanes: the policy {policy} has {most if fewest == most else f'{fewest} to {most}'}")
    return LanePlan(policy, count)


def pairs_text(values: Mapping[str, int]) -> str:
    """``latency=46,bulk=8``: the form of FERRULE_LANE_DSCP."""
    return ",".join(f"{name}={value}" for name, value in values.items())


def pairs_of(text: str, most: int, where: str, also: tuple[str, ...] = ()) -> dict[str, int]:
    """A number of 0 to ``most`` for each class, or name in ``also``, that ``class=number,…`` names. Raises `FabricError`."""
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().partition("=")
        if name not in DSCP and name not in also:
            raise FabricError(where, f"{name!r} is no class; known are {', '.join([*also, *(name for name in DSCP if name not in SHARES)])}, share0 to share{LANES_MAX - 1}")
        if name in found or not (value.isascii() and value.isdigit() and len(value) < 5 and int(value) <= most):
            raise FabricError(where, f"{part.strip()!r} is not {name}=NUMBER with a number of 0 to {most}, once")
        found[name] = int(value)
    return found
