"""Queues: their plan, the transactions that set them up, the protocol to the server, and the table before the routes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3 as of

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.lanes import DSCP
from ferrule_fabric.openflow import codec
from ferrule_fabric.openflow.rules import COOKIE_MAGIC, Add, Match, Remove, Rule, Steer
from ferrule_fabric.queues import ovsdb
from ferrule_fabric.queues.classes import OTHERS, QUEUES, queue_of_dscp
from ferrule_fabric.queues.keeper import Keeper
from ferrule_fabric.queues.ovsdb import Connection, Server, server_of
from ferrule_fabric.queues.rows import DATABASE, MARK, Change, capacities, change, selection
from ferrule_fabric.topologies.spec import topology_of

TOPOLOGY = topology_of("two-level:leaves=2,spines=1,hosts=2,host_bps=1e9,up_bps=4e9")
WANTED = capacities(TOPOLOGY)
TABLES = ("Bridge", "Port", "Interface", "QoS", "Queue")


class Database:
    """As much of an OVSDB server's data as queues need: the bridges of a topology, and the operations of `change`."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in TABLES}
        self.next = 0
        for switch in TOPOLOGY.switches:
            ports = []
            for dpid, number in WANTED:
                if dpid == switch.dpid:
                    interface = self.insert("Interface", {"ofport": number})
                    ports.append(self.insert("Port", {"name": f"p{number}", "interfaces": interface, "qos": ["set", []]}))
            # The bridge's own port, which no link is at.
            ports.append(self.insert("Port", {"name": switch.name, "interfaces": self.insert("Interface", {"ofport": 65534}), "qos": ["set", []]}))
            self.insert("Bridge", {"name": switch.name, "datapath_id": f"{switch.dpid:016x}", "ports": ["set", ports]})

    def insert(self, table: str, row: dict[str, Any]) -> list[str]:
        self.next += 1
        ident = f"00000000-0000-0000-0000-{self.next:012d}"
        self.tables[table][ident] = {"_uuid": ["uuid", ident], **row}
        return ["uuid", ident]

    def selected(self) -> list[list[dict[str, Any]]]:
        return [list(self.tables[name].values()) for name in TABLES]

    def run(self, operations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Executes a transaction. Raises `AssertionError` for what a server would refuse."""
        names: dict[str, list[str]] = {}
        results: list[dict[str, Any]] = []

        def named(value: Any) -> Any:
            if isinstance(value, list):
                return names[value[1]] if value[:1] == ["named-uuid"] else [named(part) for part in value]
            return value

        for one in operations:
            table, result = self.tables[one["table"]], {}
            if one["op"] == "select":
                result = {"rows": [{column: row[column] for column in one["columns"]} for row in table.values()]}
            elif one["op"] == "insert":
                names[one["uuid-name"]] = self.insert(one["table"], named(one["row"]) if isinstance(one["row"], list) else {key: named(value) for key, value in one["row"].items()})
            else:
                ident = one["where"][0][2][1]
                if one["op"] == "wait":
                    assert table[ident]["qos"] == one["rows"][0]["qos"]
                elif one["op"] == "update":
                    table[ident] |= {key: named(value) for key, value in one["row"].items()}
                else:
                    assert one["op"] == "delete"
                    del table[ident]
            results.append(result)
        used = {row["qos"][1] for row in self.tables["Port"].values() if row["qos"] != ["set", []]}
        assert used <= self.tables["QoS"].keys(), "a port with a row that is gone"
        held = {queue[1] for row in self.tables["QoS"].values() for _, queue in row["queues"][1]}
        assert held <= self.tables["Queue"].keys(), "a row with a queue that is gone"
        return results

    def brought(self, classes: Sequence[str]) -> Change:
        """Brought in line with these classes; a second look finds nothing to do."""
        found = change(self.selected(), WANTED, classes)
        self.run(found.operations)
        assert change(self.selected(), WANTED, classes).operations == ()
        return found


# The plan


def test_parts_are_a_whole_link() -> None:
    assert sum(queue.part for queue in QUEUES.values()) <= 1000 and set(QUEUES) == {*DSCP, OTHERS}
    numbers = [queue.number for queue in QUEUES.values()]
    assert sorted(numbers) == list(range(len(numbers))) and QUEUES[OTHERS].number == 0
    assert min(QUEUES.values(), key=lambda queue: queue.priority) == QUEUES["latency"] and max(QUEUES.values(), key=lambda queue: queue.priority) == QUEUES["bulk"]
    assert queue_of_dscp(["latency", "bulk"]) == {46: 1, 8: 8}


# Rows


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.sampled_from([name for name in QUEUES if name != OTHERS]), unique=True, max_size=5), min_size=1, max_size=5))
def test_ports_have_the_queues_that_are_wanted(turns: list[list[str]]) -> None:
    database = Database()
    for classes in turns:
        found = database.brought(classes)
        assert found.bridges == {switch.dpid for switch in TOPOLOGY.switches} and found.foreign == ()
        assert found.ports == (len(WANTED) if classes else 0)
        rates = {"1000000000", "4000000000"} if classes else set()
        assert {dict(row["other_config"][1])["max-rate"] for row in database.tables["QoS"].values()} == rates
        assert len(database.tables["Queue"]) == len(rates) * (len(classes) + 1)
    database.brought([])
    assert not database.tables["QoS"] and not database.tables["Queue"]


def test_what_others_have_stays() -> None:
    database = Database()
    queue = database.insert("Queue", {"other_config": ["map", []], "external_ids": ["map", []]})
    theirs = database.insert("QoS", {"type": "linux-htb", "other_config": ["map", []], "queues": ["map", [[0, queue]]], "external_ids": ["map", [["x", "y"]]]})
    port = next(iter(database.tables["Port"].values()))
    port["qos"] = theirs
    found = database.brought(["latency"])
    assert found.foreign == ("s1-1 p1",) and found.ports == len(WANTED) - 1 and port["qos"] == theirs
    assert database.brought([]).foreign == ()
    assert list(database.tables["QoS"]) == [theirs[1]] and list(database.tables["Queue"]) == [queue[1]]


def test_rows_that_were_changed_are_made_anew() -> None:
    for table, row in (("QoS", {"other_config": ["map", [["max-rate", "5"]]]}), ("QoS", {"type": "linux-hfsc"}), ("Queue", {"other_config": ["map", []]})):
        database = Database()
        database.brought(["latency", "bulk"])
        before = set(database.tables["QoS"])
        next(iter(database.tables[table].values())).update(row)
        database.brought(["latency", "bulk"])
        assert len(database.tables["QoS"]) == 2 and before != set(database.tables["QoS"]) and len(database.tables["Queue"]) == 6
        assert all(MARK in dict(one["external_ids"][1]) for one in database.tables["QoS"].values())


@pytest.mark.parametrize("spoil", ["datapath_id", "ports", "_uuid"])
def test_rows_of_another_schema_are_refused(spoil: str) -> None:
    database = Database()
    next(iter(database.tables["Bridge"].values())).pop(spoil)
    if spoil == "_uuid":
        next(iter(database.tables["Port"].values()))["_uuid"] = ["text", "x"]
    with pytest.raises(FabricError, match="OVSDB: rows"):
        change(database.selected(), WANTED, ["latency"])


# The protocol


def served(answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], work: Callable[[Server], Awaitable[None]], folder: Path) -> None:
    """Runs some work beside a server at a unix socket."""

    async def both() -> None:
        async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await answer(reader, writer)
            except ConnectionError:
                pass
            finally:
                writer.transport.abort()

        server = await asyncio.start_unix_server(one, folder / "db.sock")
        try:
            await asyncio.wait_for(work(server_of(f"unix:{folder}/db.sock")), 60)
        finally:
            server.close()

    asyncio.run(both())


async def request(reader: asyncio.StreamReader) -> dict[str, Any]:
    text = b""
    while True:
        data = await reader.read(1 << 16)
        if not data:
            raise ConnectionError("gone")
        text += data
        try:
            return dict(json.loads(text))
        except ValueError:
            continue


def test_the_keeper_sets_up_and_removes(tmp_path: Path) -> None:
    database = Database()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked = await request(reader)
            assert asked["method"] == "transact" and asked["params"][0] == DATABASE
            # A server asks now and then whether we are there; and answers come in pieces.
            writer.write(b'{"method":"echo","params":[],"id":"echo"}')
            assert (await request(reader)) == {"result": [], "error": None, "id": "echo"}
            text = json.dumps({"id": asked["id"], "error": None, "result": database.run(asked["params"][1:])}).encode()
            writer.write(text[: len(text) // 2])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(text[len(text) // 2 :])

    async def work(server: Server) -> None:
        keeper = Keeper(TOPOLOGY, [server])
        assert await keeper.want(["latency", "bulk"]) == "" and keeper.ports == len(WANTED) and keeper.missing == ()
        assert len(database.tables["Queue"]) == 6
        assert await keeper.want([]) == "" and not database.tables["QoS"]
        absent = Keeper(TOPOLOGY, [server_of("unix:/nowhere/db.sock"), server])
        assert "unix:/nowhere/db.sock: no OVSDB server" in await absent.want(["io"])
        assert len(database.tables["Queue"]) == 4, "the other server has its queues"
        empty = database.tables["Bridge"].popitem()
        assert f"no OVSDB server has {empty[1]['name']}" in await Keeper(TOPOLOGY, [server]).want(["io"])

    served(answer, work, tmp_path)


@pytest.mark.parametrize(
    ("told", "match"),
    [
        (b"", "closed the connection"),
        (b"[]\n}", "no JSON object"),
        (b"[{}", "closed the connection"),
        (b"\xff}", "isn't JSON"),
        (b"1 {}", "no JSON object"),
        (b'{"id":1,"error":"syntax error","result":null}', "refused: .*syntax error"),
        (b'{"id":1,"error":null,"result":7}', "no result"),
        (b'{"id":1,"error":null,"result":[{}]}', "refused"),
        (b'{"id":1,"error":null,"result":[{"error":"timed out"},{},{},{},{}]}', "refused: .*timed out"),
        (b'{"id":1,"error":null,"result":[{},{},{},{},7]}', "refused"),
    ],
)
def test_bad_answers_are_told(told: bytes, match: str, tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(told)
        await writer.drain()
        await asyncio.sleep(0.05)

    async def work(server: Server) -> None:
        async with Connection(server) as connection:
            with pytest.raises(FabricError, match=match):
                await connection.transact(DATABASE, selection())

    served(answer, work, tmp_path)


def test_a_silent_server_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ovsdb, "TIMEOUT_S", 0.1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def work(server: Server) -> None:
        assert "nothing within" in await Keeper(TOPOLOGY, [server]).want(["io"])

    served(answer, work, tmp_path)


def test_an_answer_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ovsdb, "ANSWER_BYTES_MAX", 1000)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        while True:
            writer.write(bytes(100) * 100)
            await writer.drain()

    async def work(server: Server) -> None:
        async with Connection(server) as connection:
            with pytest.raises(FabricError, match="more than 1000 bytes"):
                await connection.transact(DATABASE, selection())

    served(answer, work, tmp_path)


def test_servers_are_named() -> None:
    assert server_of("unix:/run/db.sock").path == Path("/run/db.sock")
    assert (server_of("tcp:h").port, server_of("tcp:h:7").port, server_of("tcp:[::1]").host, server_of("tcp:[::1]:7").host) == (6640, 7, "::1", "::1")
    for wrong in ("", "unix:", "tcp:", "h:1", "tcp:h:0", "tcp:h:65536", "tcp:h:x", "ssl:h", "tcp::1"):
        with pytest.raises(FabricError, match="--ovsdb"):
            server_of(wrong)


# The table before the routes

RULE = Rule(2000, Match(eth_src="02:00:00:00:00:01", eth_dst="02:00:00:00:00:02"), (3,), COOKIE_MAGIC | 7)


def held(messages: Sequence[bytes], routes: int) -> codec.Flows:
    """What a switch that was sent these flow modifications says it holds."""
    entries = b""
    for one in messages:
        cookie, _, table, _, _, _, priority, _, _, _, _ = codec._FLOW_MOD.unpack_from(one, 8)
        rest = one[8 + codec._FLOW_MOD.size :]
        head = bytes([table, 0]) + bytes(8) + priority.to_bytes(2, "big") + bytes(10) + cookie.to_bytes(8, "big") + bytes(16)
        entries += (2 + len(head) + len(rest)).to_bytes(2, "big") + head + rest
    body = of.OFPMP_FLOW.to_bytes(2, "big") + bytes(6) + entries
    found = codec.decode(codec.HEADER.pack(codec.VERSION, of.OFPT_MULTIPART_REPLY, 8 + len(body), 5) + body, routes)[1]
    assert isinstance(found, codec.Flows)
    return found


def test_steering_is_read_back() -> None:
    steers = (Steer(), Steer(46, 1), Steer(8, 8))
    messages = [codec.steering(one, 1) for one in steers] + [codec.modification(Add(RULE), 1, None, 1)]
    found = held(messages, 1)
    assert found.steers == steers and found.rules == (RULE,) and found.misplaced == () and found.others == 0


def test_what_is_in_the_wrong_table_is_known() -> None:
    early, late = codec.modification(Add(RULE), 1), codec.modification(Add(RULE), 1, None, 1)
    found = held([early, codec.steering(Steer(), 1)], 1)
    assert found.rules == () and found.steers == (Steer(),)
    assert [codec.deletion(place, 9) for place in found.misplaced] == [codec.modification(Remove(RULE.priority, RULE.match, RULE.cookie), 9)]
    found = held([late, codec.steering(Steer(46, 1), 1)], 0)
    assert found.rules == () and found.steers == () and sorted(place.table for place in found.misplaced) == [0, 1]
