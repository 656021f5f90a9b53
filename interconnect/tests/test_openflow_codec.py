"""Bytes: ours against os-ken's, and refusal of everything malformed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from ferrule_fabric.errors import FabricError
from ferrule_fabric.openflow import codec, discovery
from ferrule_fabric.openflow.rules import Add, Match, Remove, Rule

DATAPATH = ProtocolDesc(version=4)
macs = st.integers(0, 2**48 - 1).map(lambda n: ":".join(f"{n:012x}"[i : i + 2] for i in range(0, 12, 2)))
ips = st.integers(0, 2**32 - 1).map(lambda n: ".".join(str(n >> shift & 255) for shift in (24, 16, 8, 0)))
matches = st.one_of(
    st.builds(Match, eth_src=st.none() | macs, eth_dst=st.none() | macs),
    st.builds(Match, eth_type=st.just(0x800), ipv4_src=ips, ipv4_dst=ips, ip_dscp=st.none() | st.integers(0, 63)),
    st.builds(Match, eth_type=st.just(0x800), ip_proto=st.just(6), ipv4_src=ips, ipv4_dst=ips, tcp_dst=st.integers(0, 65535)),
)
ports = st.lists(st.integers(1, 0xFFFFFF00), min_size=1, max_size=4).map(tuple)
rules = st.builds(Rule, st.integers(0, 65535), matches, ports, st.integers(0, 2**64 - 1))


def parsed(data: bytes):  # type: ignore[no-untyped-def]
    return ofproto_parser.msg(DATAPATH, 4, data[1], len(data), 7, data)


@settings(max_examples=200, deadline=None)
@given(rules)
def test_flow_mods_are_what_os_ken_reads(rule: Rule) -> None:
    message = parsed(codec.flow_mod(Add(rule), 7))
    assert (message.command, message.priority, message.cookie, message.table_id) == (of.OFPFC_ADD, rule.priority, rule.cookie, 0)
    assert dict(message.match.items()) == {name: getattr(rule.match, name) for name in Match.__slots__ if getattr(rule.match, name) is not None}
    assert [action.port for action in message.instructions[0].actions] == list(rule.ports)
    message = parsed(codec.flow_mod(Remove(rule.priority, rule.match, rule.cookie), 7))
    assert (message.command, message.cookie, message.cookie_mask, message.out_port) == (of.OFPFC_DELETE_STRICT, rule.cookie, 2**64 - 1, of.OFPP_ANY)


@settings(max_examples=100, deadline=None)
@given(st.lists(rules, max_size=5))
def test_flow_statistics_give_the_rules_back(listed: list[Rule]) -> None:
    body = b""
    for rule in listed:
        # An entry holds the match and instructions as a flow modification has them, at byte 48 there and here.
        rest = codec.flow_mod(Add(rule), 1)[48:]
        body += struct.pack("!HBBIIHHHH4xQQQ", 48 + len(rest), 0, 0, 1, 2, rule.priority, 0, 0, 0, rule.cookie, 3, 4) + rest
    data = codec.HEADER.pack(4, of.OFPT_MULTIPART_REPLY, 16 + len(body), 7) + struct.pack("!HH4x", of.OFPMP_FLOW, 0) + body
    xid, flows = codec.decode(data)
    assert xid == 7 and isinstance(flows, codec.Flows)
    assert flows.rules == tuple(listed) and not flows.more and flows.others == 0


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 40), st.binary(max_size=200))
def test_anything_is_read_or_refused(kind: int, body: bytes) -> None:
    data = codec.HEADER.pack(4, kind, 8 + len(body), 1) + body
    try:
        codec.decode(data)
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
