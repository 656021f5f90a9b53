"""Lanes: the same policies, classes and DSCP values as the ranks'."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.lanes import DSCP, LANES_MAX, POLICIES, SHARES, TRAFFIC, LanePlan, pairs_of, pairs_text, plan_of

RUST = Path(__file__).resolve().parents[2] / "crates/protocol/src/lanes.rs"
TEXT = RUST.read_text()


def words(block: str) -> list[str]:
    """The names of an array of pairs (variant, "name") in the Rust file."""
    return re.findall(r'"([a-z0-9:]+)"', TEXT.partition(block)[2].partition("];")[0])


def test_classes_and_policies_are_those_of_the_ranks() -> None:
    assert sorted(words("const NAMED: [(Class")) == sorted(name for name in DSCP if name not in SHARES)
    assert words("const NAMED: [(Policy") == list(POLICIES)
    assert f"LANES_MAX: usize = {LANES_MAX};" in TEXT
    variants = dict(re.findall(r'\(Class::(\w+), "(\w+)"\)', TEXT))
    order = re.search(r"pub const TRAFFIC: \[Class; \d+\] =\s*\[([^\]]*)\]", TEXT)
    assert order and tuple(variants[name] for name in re.findall(r"Class::(\w+)", order[1])) == TRAFFIC


def test_dscp_values_are_those_of_the_ranks() -> None:
    variants = dict(re.findall(r'\(Class::(\w+), "(\w+)"\)', TEXT))
    body = TEXT.partition("fn dscp(self)")[2].partition("\n    }\n")[0]
    found = {variants[name]: int(value) for name, value in re.findall(r"Class::(\w+) => Some\((\d+)\)", body)}
    share = re.search(r"Class::Share\(number\) => .*\b(\d+) \* number \+ (\d+)", body)
    assert share and found | {name: int(share[1]) * number + int(share[2]) for number, name in enumerate(SHARES)} == DSCP


def test_bounds_are_those_of_the_ranks() -> None:
    body = TEXT.partition("fn lanes(self)")[2].partition("\n    }\n")[0]
    numbers = {"LANES_MAX": LANES_MAX, "Class::TRAFFIC.len()": len(TRAFFIC)}
    policy_of = dict(re.findall(r'\(Policy::(\w+), "([a-z:]+)"\)', TEXT))
    found: dict[str, tuple[int, ...]] = {}
    for variants, bounds in re.findall(r"((?:Policy::\w+(?: \| )?)+) => \((.*)\),", body):
        bound = tuple(numbers.get(word.strip()) or int(word) for word in bounds.split(","))
        found |= dict.fromkeys((policy_of[name] for name in re.findall(r"Policy::(\w+)", variants)), bound)
    assert found == POLICIES


@pytest.mark.parametrize(
    ("text", "plan", "classes"),
    [
        ("single", "single", ()),
        ("1", "single", ()),
        ("3", "3:distribute", SHARES[:3]),
        ("auto", "2:segregate", ("latency", "bulk")),
        ("auto:distribute:connection", "4:distribute:connection", SHARES[:4]),
        ("5!:segregate", "5:segregate", ("latency", "bulk")),
        ("auto:segregate:traffic", "3:segregate:traffic", TRAFFIC[:3]),
        ("6:segregate:traffic", "6:segregate:traffic", TRAFFIC),
        ("2:auto", "2:segregate", ("latency", "bulk")),
    ],
)
def test_plans_are_read(text: str, plan: str, classes: tuple[str, ...]) -> None:
    found = plan_of(text)
    assert (str(found), found.classes) == (plan, classes)
    assert plan_of(str(found)) == found


@pytest.mark.parametrize("text", ["", ":segregate", "4:", "x", "4:x", "segregate", "1:segregate", "0", "17", "-1", "7:segregate:traffic", "2:single", "³", "99999999999"])
def test_bad_plans_are_refused(text: str) -> None:
    with pytest.raises(FabricError, match="^lanes: "):
        plan_of(text)


def test_each_class_has_its_dscp_value() -> None:
    assert len(set(DSCP.values())) == len(DSCP) and all(0 < value < 64 for value in DSCP.values())
    text = pairs_text({name: DSCP[name] for name in LanePlan("segregate", 2).classes})
    assert text == "latency=46,bulk=8"
    assert pairs_of(text, 63, "--lane-dscp") == {"latency": 46, "bulk": 8}
    for wrong in ("latency", "latency=64", "latency=-1", "latency=1,latency=2", "slow=3", "share16=1", "bulk=²", "bulk=00000"):
        with pytest.raises(FabricError, match="--lane-dscp"):
            pairs_of(wrong, 63, "--lane-dscp")
