"""Bytes: ours against os-ken's, and refusal of everything malformed."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as wire
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from ferrule_fabric.errors import FabricError
from ferrule_fabric.openflow import codec, discovery
from ferrule_fabric.openflow.rules import METER, Add, AddGroup, Group, Match, Remove, RemoveGroup, Rule

DATAPATH = ProtocolDesc(version=4)
macs = st.integers(0, 2**48 - 1).map(lambda n: ":".join(f"{n:012x}"[i : i + 2] for i in range(0, 12, 2)))
ips = st.integers(0, 2**32 - 1).map(lambda n: ".".join(str(n >> shift & 255) for shift in (24, 16, 8, 0)))
matches = st.one_of(
    st.builds(Match, eth_src=st.none() | macs, eth_dst=st.none() | macs),
    st.builds(Match, eth_type=st.just(0x800), ipv4_src=ips, ipv4_dst=ips, ip_dscp=st.none() | st.integers(0, 63)),
    st.builds(Match, eth_type=st.just(0x800), ip_proto=st.just(6), ipv4_src=ips, ipv4_dst=ips, tcp_dst=st.integers(0, 65535)),
)
labels = st.builds(Match, vlan_vid=st.integers(0x1002, 0x1FFE))
ports = st.lists(st.integers(1, 0xFFFFFF00), min_size=1, max_size=4).map(tuple)
rules = st.builds(Rule, st.integers(0, 65535), matches, ports, st.integers(0, 2**64 - 1), push=st.just(0) | st.integers(2, 4094)) | st.builds(
    Rule, st.integers(0, 65535), labels, ports, st.integers(0, 2**64 - 1), pop=st.booleans()
)


def parsed(data: bytes):  # type: ignore[no-untyped-def]
    return ofproto_parser.msg(DATAPATH, 4, data[1], len(data), 7, data)


@settings(max_examples=200, deadline=None)
@given(rules)
def test_flow_mods_are_what_os_ken_reads(rule: Rule) -> None:
    message = parsed(codec.modification(Add(rule), 7))
    assert (message.command, message.priority, message.cookie, message.table_id) == (of.OFPFC_ADD, rule.priority, rule.cookie, 0)
    assert dict(message.match.items()) == {name: getattr(rule.match, name) for name in Match.__slots__ if getattr(rule.match, name) is not None}
    actions = message.instructions[0].actions
    if rule.push:
        assert (actions[0].ethertype, actions[1].key, actions[1].value) == (0x8100, "vlan_vid", 0x1000 | rule.push)
    assert not rule.pop or isinstance(actions[0], wire.OFPActionPopVlan)
    assert [action.port for action in actions[2 * (rule.push > 0) + rule.pop :]] == list(rule.ports)
    message = parsed(codec.modification(Remove(rule.priority, rule.match, rule.cookie), 7))
    assert (message.command, message.cookie, message.cookie_mask, message.out_port) == (of.OFPFC_DELETE_STRICT, rule.cookie, 2**64 - 1, of.OFPP_ANY)


def test_packets_for_the_controller_go_through_a_meter() -> None:
    theirs = wire.OFPMeterMod(DATAPATH, of.OFPMC_ADD, of.OFPMF_PKTPS | of.OFPMF_BURST, METER, [wire.OFPMeterBandDrop(200, 500)])
    assert codec.meter_mod(of.OFPMC_ADD, METER, 200, 500, 7) == codec.encode(theirs, 7)
    metered = codec.modification(Add(discovery.RULE), 7, METER)
    assert [instruction.type for instruction in parsed(metered).instructions] == [of.OFPIT_METER, of.OFPIT_APPLY_ACTIONS]
    # Read back it is the same rule; another meter, or one on another rule, isn't ours.
    other_meter = codec.modification(Add(discovery.RULE), 7, METER + 1)
    other_rule = codec.modification(Add(replace(discovery.RULE, ports=(1, 0xFFFFFFFD))), 7, METER)
    for message, rules, others in ((metered, (discovery.RULE,), 0), (other_meter, (), 1), (other_rule, (), 1)):
        rest = message[48:]
        entry = struct.pack("!HBxIIHHHH4xQQQ", 48 + len(rest), 0, 0, 0, discovery.RULE.priority, 0, 0, 0, discovery.RULE.cookie, 0, 0) + rest
        data = struct.pack("!BBHI", 4, of.OFPT_MULTIPART_REPLY, 16 + len(entry), 7) + struct.pack("!HH4x", of.OFPMP_FLOW, 0) + entry
        flows = codec.decode(data)[1]
        assert isinstance(flows, codec.Flows) and (flows.rules, flows.others) == (rules, others)
    # No other rule goes through it.
    plain = Rule(1000, Match(eth_dst="00:00:00:00:00:01"), (1,))
    assert codec.modification(Add(plain), 7, METER) == codec.modification(Add(plain), 7)


@settings(max_examples=100, deadline=None)
@given(st.lists(rules, max_size=5))
def test_flow_statistics_give_the_rules_back(listed: list[Rule]) -> None:
    body = b""
    for rule in listed:
        # An entry holds the match and instructions as a flow modification has them, at byte 48 there and here.
        rest = codec.modification(Add(rule), 1)[48:]
        body += struct.pack("!HBBIIHHHH4xQQQ", 48 + len(rest), 0, 0, 1, 2, rule.priority, 0, 0, 0, rule.cookie, 3, 4) + rest
    data = codec.HEADER.pack(4, of.OFPT_MULTIPART_REPLY, 16 + len(body), 7) + struct.pack("!HH4x", of.OFPMP_FLOW, 0) + body
    xid, flows = codec.decode(data)
    assert xid == 7 and isinstance(flows, codec.Flows) and not flows.grouped
    assert flows.rules == tuple(listed) and not flows.more and flows.others == 0


weighted = st.lists(st.tuples(st.integers(1, 0xFFFFFF00), st.integers(1, 65535)), min_size=2, max_size=5).map(lambda pairs: Group(*map(tuple, zip(*pairs))))


@settings(max_examples=100, deadline=None)
@given(weighted, rules)
def test_groups_are_what_os_ken_writes(group: Group, rule: Rule) -> None:
    buckets = [wire.OFPBucket(w, p, of.OFPG_ANY, [wire.OFPActionOutput(p, of.OFPCML_NO_BUFFER)]) for p, w in zip(group.ports, group.weights)]
    theirs = [wire.OFPGroupMod(DATAPATH, of.OFPGC_ADD, of.OFPGT_SELECT, group.number, buckets), wire.OFPGroupMod(DATAPATH, of.OFPGC_DELETE, of.OFPGT_SELECT, group.number, [])]
    assert [codec.modification(change, 7) for change in (AddGroup(group), RemoveGroup(group.number))] == [codec.encode(message, 7) for message in theirs]
    assert group.number < of.OFPG_MAX
    message = parsed(codec.modification(Add(replace(rule, ports=group.ports, weights=group.weights)), 7))
    assert [message.instructions[0].actions[-1].group_id] == [group.number]


@settings(max_examples=50, deadline=None)
@given(st.lists(weighted, max_size=4), st.booleans())
def test_group_descriptions_give_the_groups_back(listed: list[Group], spoilt: bool) -> None:
    body = b""
    for group in listed:
        buckets = codec.modification(AddGroup(group), 1)[16:]
        body += struct.pack("!HBxI", 8 + len(buckets), of.OFPGT_ALL if spoilt else of.OFPGT_SELECT, group.number) + buckets
    body += struct.pack("!HBxI", 8, of.OFPGT_SELECT, 5)  # somebody else's
    data = codec.HEADER.pack(4, of.OFPT_MULTIPART_REPLY, 16 + len(body), 7) + struct.pack("!HH4x", of.OFPMP_GROUP_DESC, 0) + body
    _, held = codec.decode(data)
    assert isinstance(held, codec.GroupsHeld) and held.groups == {group.number: None if spoilt else group for group in listed}


def test_rules_that_use_a_group_name_it() -> None:
    group = Group((1, 2), (60, 40))
    rest = codec.modification(Add(Rule(5, Match(eth_type=0x800), group.ports, 9, group.weights)), 1)[48:]
    body = struct.pack("!HBBIIHHHH4xQQQ", 48 + len(rest), 0, 0, 1, 2, 5, 0, 0, 0, 9, 3, 4) + rest
    _, flows = codec.decode(codec.HEADER.pack(4, of.OFPT_MULTIPART_REPLY, 16 + len(body), 7) + struct.pack("!HH4x", of.OFPMP_FLOW, 0) + body)
    assert isinstance(flows, codec.Flows) and flows.grouped == ((Rule(5, Match(eth_type=0x800), (), 9), group.number),) and not flows.rules


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 40), st.binary(max_size=200))
def test_anything_is_read_or_refused(kind: int, body: bytes) -> None:
    data = codec.HEADER.pack(4, kind, 8 + len(body), 1) + body
    try:
        codec.decode(data)
    except FabricError as error:
        assert "OpenFlow" in error.where


@pytest.mark.parametrize("kind", [of.OFPMP_FLOW, of.OFPMP_GROUP_DESC])
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_lengths_of_nothing_end_nothing(kind: int, data: st.DataObject) -> None:
    """Entries with small numbers where lengths should be: os-ken's parser alone would go round for ever."""
    body = bytearray(data.draw(st.lists(st.sampled_from([0, 1, 4, 8, 16, 56, 64]), min_size=8, max_size=200)))
    _refused_or_read(struct.pack("!HH4x", kind, 0) + bytes(body))


def test_what_nobody_asked_for_is_not_parsed() -> None:
    queues = struct.pack("!I4x", 1) + struct.pack("!IIH6x", 1, 1, 32) + struct.pack("!HH4x", 0xFFFF, 0) + bytes(8)
    for kind, body in ((of.OFPT_QUEUE_GET_CONFIG_REPLY, queues), (of.OFPT_MULTIPART_REPLY, struct.pack("!HH4x", of.OFPMP_TABLE_FEATURES, 0) + bytes(64))):
        with pytest.raises(FabricError, match="OpenFlow"):
            codec.decode(codec.HEADER.pack(4, kind, 8 + len(body), 1) + body)


def _refused_or_read(body: bytes) -> None:
    try:
        codec.decode(codec.HEADER.pack(4, of.OFPT_MULTIPART_REPLY, 8 + len(body), 1) + body)
    except FabricError as error:
        assert "OpenFlow" in error.where


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 50))
def test_streams_are_cut_or_refused(data: bytes, step: int) -> None:
    framer = codec.Framer()
    try:
        for place in range(0, len(data), step):
            for message in framer.feed(data[place : place + step]):
                codec.decode(message)
    except FabricError as error:
        assert "OpenFlow" in error.where


def test_headers_that_lie() -> None:
    with pytest.raises(FabricError, match="version 1"):
        list(codec.Framer().feed(b"\x01\x05\x00\x08\x00\x00\x00\x01"))
    with pytest.raises(FabricError, match="7 bytes"):
        list(codec.Framer().feed(b"\x04\x05\x00\x07\x00\x00\x00\x01"))


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1))
def test_probes_name_their_port(dpid: int, port: int) -> None:
    assert discovery.heard(discovery.probe(dpid, port)) == (dpid, port)


@settings(max_examples=300)
@given(st.binary(max_size=100))
def test_foreign_packets_say_nothing(data: bytes) -> None:
    assert discovery.heard(data) is None
    # Behind a head that looks like ours, anything may follow: it is read or says nothing, but never raises.
    said = discovery.heard(discovery.probe(3, 4)[:14] + data)
    assert said is None or len(said) == 2
