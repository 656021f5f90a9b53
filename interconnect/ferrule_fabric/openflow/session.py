"""The OpenFlow session with one switch: requests and their answers, under asyncio.

States: *new* (hello sent) → *known* (features read: `dpid`) → *closed*. Every request ends: by its answer, by a refusal (`SwitchError`), by
`ANSWER_TIMEOUT_S`, or by the session's end. A switch that is silent for `IDLE_S` and doesn't answer an echo is closed; so is one that doesn't read what it is sent.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from os_ken.ofproto import ofproto_v1_3 as of

from ferrule_fabric.errors import FabricError
from ferrule_fabric.openflow import codec
from ferrule_fabric.openflow.rules import COOKIE_MAGIC, COOKIE_MAGIC_MASK, METER, Change, Group, Groups, Place, Steer, Table

log = logging.getLogger("ferrule_fabric.openflow")

ANSWER_TIMEOUT_S = 10.0
IDLE_S = 15.0
ALIVE_S = 3.0
CHUNK = 256
# Packets for the controller, each a link's LLDP. One port sends one in some seconds; hosts may send as many as they like.
PACKETS_PER_S, PACKETS_BURST = 200, 500
REFUSALS_MAX = 100
# What may wait for a switch to read it.
UNREAD_BYTES_MAX = 16 << 20
# These answer nothing, whatever their transaction id is: a switch chooses it as it likes.
UNASKED = (codec.Hello, codec.PortChange, codec.PacketIn)


class SwitchError(RuntimeError):
    """A switch refused a request, didn't answer, or is gone."""


@dataclass
class Held:
    """What of ours a switch holds: rules; groups; numbers of groups with our mark and another content than theirs; how many rules with our mark that
    we can't have made; the entries before the routes; and those that are in a table where they don't belong."""

    table: Table
    groups: Groups
    spoilt: set[int]
    others: int
    steers: frozenset[Steer] = frozenset()
    misplaced: tuple[Place, ...] = ()


class Session:
    """One connected switch. ``on_event`` is called with this session and every message that answers nothing; ``routes`` is the table of the routes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_event: Callable[[Session, codec.Message], None], routes: int = 0) -> None:
        self._reader, self._writer, self._on_event, self._routes = reader, writer, on_event, routes
        self._framer = codec.Framer()
        self._xids = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[list[codec.Message]], list[codec.Message]]] = {}
        self._refused: list[codec.Failure] = []
        self.dpid: int | None = None
        self.ports: dict[int, codec.Port] = {}
        self.closed = False
        self.meter: int | None = None
        self._packets, self._packets_at = float(PACKETS_BURST), time.monotonic()

    def _xid(self) -> int:
        return next(self._xids) & 0xFFFFFFFF

    async def open(self) -> None:
        """Greets, and learns who the switch is and which ports it has. `run` must be running."""
        self._write(codec.hello(self._xid()))
        answer = await self._ask(lambda xid: codec.bare(of.OFPT_FEATURES_REQUEST, xid))
        features = answer[0]
        if not isinstance(features, codec.Features):
            raise SwitchError("the switch doesn't say who it is")
        self.dpid = features.dpid
        if self._routes and features.tables <= self._routes:
            raise SwitchError(f"the switch has {features.tables} table, and queues need {self._routes + 1}")
        for part in await self._ask(codec.ports_request):
            if isinstance(part, codec.Ports):
                self.ports |= {port.number: port for port in part.ports}

    async def run(self) -> None:
        """Reads until the session ends. Malformed messages end it."""
        try:
            while True:
                try:
                    data = await asyncio.wait_for(self._reader.read(1 << 18), IDLE_S)
                except TimeoutError:
                    await self._ask(lambda xid: codec.bare(of.OFPT_ECHO_REQUEST, xid), reading=True)
                    continue
                if not data:
                    break
                self._feed(data)
        except (FabricError, SwitchError, ConnectionError) as error:
            log.warning("session ended", extra={"dpid": self.dpid, "reason": str(error)})
        finally:
            self.close()

    def close(self) -> None:
        """Ends the session; callers that wait for an answer get `SwitchError`."""
        self.closed = True
        # Not `close`, which would wait for a switch that doesn't read.
        self._writer.transport.abort()
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(SwitchError("the switch is gone"))
        self._waiting.clear()

    def _feed(self, data: bytes) -> None:
        for message in self._framer.feed(data):
            self._take(*codec.decode(message, self._routes))

    def _take(self, xid: int, message: codec.Message) -> None:
        if isinstance(message, codec.Echo):
            self._write(codec.echo_reply(message.data, xid))
            return
        waiting = None if isinstance(message, UNASKED) else self._waiting.get(xid)
        if waiting is None:
            if isinstance(message, codec.Failure):
                # A flow modification was refused: the caller that waits at the next barrier is told.
                if len(self._refused) < REFUSALS_MAX:
                    self._refused.append(message)
                return
            if isinstance(message, codec.PortChange):
                self.ports[message.port.number] = message.port
            self._on_event(self, message)
            return
        future, parts = waiting
        parts.append(message)
        if getattr(message, "more", False):
            return
        del self._waiting[xid]
        if future.done():
            return
        if isinstance(message, codec.Failure):
            future.set_exception(SwitchError(str(message)))
        else:
            future.set_result(parts)

    async def _ask(self, request: Callable[[int], bytes], reading: bool = False) -> list[codec.Message]:
        """Sends a request and waits for its answer; ``reading`` when called by the reader itself, which then reads on meanwhile."""
        if self.closed:
            raise SwitchError("the switch is gone")
        xid = self._xid()
        future: asyncio.Future[list[codec.Message]] = asyncio.get_running_loop().create_future()
        self._write(request(xid))
        self._waiting[xid] = (future, [])
        if reading:
            return await self._read_until(future)
        try:
            return await asyncio.wait_for(future, ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise SwitchError(f"no answer within {ANSWER_TIMEOUT_S:.0f} s") from None
        finally:
            self._waiting.pop(xid, None)

    async def _read_until(self, future: asyncio.Future[list[codec.Message]]) -> list[codec.Message]:
        while not future.done():
            try:
                data = await asyncio.wait_for(self._reader.read(1 << 18), ANSWER_TIMEOUT_S)
            except TimeoutError:
                raise SwitchError("the switch is silent") from None
            if not data:
                raise SwitchError("the switch has closed the session")
            self._feed(data)
        return future.result()

    # Requests

    async def barrier(self) -> None:
        """Waits until all sent before has been executed. Raises `SwitchError` if anything of it was refused."""
        await self._ask(lambda xid: codec.bare(of.OFPT_BARRIER_REQUEST, xid))
        if self._refused:
            first, count = self._refused[0], len(self._refused)
            self._refused.clear()
            raise SwitchError(f"{count} requests refused, the first with {first}")

    async def change(self, changes: Iterable[Change]) -> None:
        """Sends changes of the table, and waits for them at barriers: a slow switch has its time for each `CHUNK` of them."""
        chunk: list[bytes] = []
        for change in changes:
            chunk.append(codec.modification(change, self._xid(), self.meter, self._routes))
            if len(chunk) == CHUNK:
                await self._send(b"".join(chunk))
                await self.barrier()
                chunk.clear()
        if chunk:
            await self._send(b"".join(chunk))
            await self.barrier()

    def _write(self, data: bytes) -> None:
        if self.closed:
            raise SwitchError("the switch is gone")
        if self._writer.transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self.close()
            raise SwitchError("the switch doesn't read what it is sent")
        self._writer.write(data)

    async def _send(self, data: bytes) -> None:
        # The loop gets its turn in between, or the switch would find us dead while a long table is sent.
        self._write(data)
        try:
            await asyncio.wait_for(self._writer.drain(), ANSWER_TIMEOUT_S)
        except TimeoutError:
            self.close()
            raise SwitchError(f"the switch has read nothing for {ANSWER_TIMEOUT_S:.0f} s") from None
        await asyncio.sleep(0)

    async def sweep(self, cookie: int) -> None:
        """Removes whatever has a cookie."""
        await self._send(codec.delete_by_cookie(cookie, 2**64 - 1, self._xid()))
        await self.barrier()

    async def steer(self, held: frozenset[Steer], wanted: frozenset[Steer]) -> None:
        """Has entries before the routes come and go. One that takes the place of another with the same match replaces it."""
        going = {one.match for one in held} - {one.match for one in wanted}
        adding = [codec.steering(one, self._xid()) for one in sorted(wanted - held, key=lambda one: one.priority)]
        removing = [codec.deletion(Place(0, one.priority, one.match, COOKIE_MAGIC), self._xid()) for one in held if one.match in going]
        if adding or removing:
            await self._send(b"".join([*adding, *removing]))
            await self.barrier()

    async def clear(self, places: Iterable[Place]) -> None:
        """Removes single entries, whichever table they are in."""
        messages = [codec.deletion(place, self._xid()) for place in places]
        for first in range(0, len(messages), CHUNK):
            await self._send(b"".join(messages[first : first + CHUNK]))
            await self.barrier()

    async def table(self) -> Held:
        """What of ours the switch holds."""
        groups: dict[int, Group | None] = {}
        for part in await self._ask(codec.groups_request):
            groups |= part.groups if isinstance(part, codec.GroupsHeld) else {}
        parts = await self._ask(lambda xid: codec.flows_request(xid, COOKIE_MAGIC, COOKIE_MAGIC_MASK))
        held = Held({}, {number: group for number, group in groups.items() if group is not None}, {number for number, group in groups.items() if group is None}, 0)
        for flows in parts:
            if not isinstance(flows, codec.Flows):
                continue
            held.table |= {rule.key: rule for rule in flows.rules}
            held.others += flows.others
            held.steers |= frozenset(flows.steers)
            held.misplaced += flows.misplaced
            for rule, number in flows.grouped:
                group = held.groups.get(number)
                if group is None:
                    held.others += 1
                else:
                    held.table[rule.key] = replace(rule, ports=group.ports, weights=group.weights)
        # Entries that lead to other tables go before what is in these.
        held.misplaced = tuple(sorted(held.misplaced, key=lambda place: place.table))
        return held

    async def counters(self) -> dict[int, tuple[int, int]]:
        """Bytes received and sent by port."""
        parts = await self._ask(codec.counters_request)
        return {port: counts for part in parts if isinstance(part, codec.PortCounters) for port, counts in part.bytes.items()}

    async def become_master(self, generation: int) -> None:
        """Asks for the role of master. Raises `SwitchError` when a manager of a later generation has it."""
        await self._ask(lambda xid: codec.role_request(xid, generation))

    async def answers(self) -> bool:
        """Whether the switch is still there, within `ALIVE_S`."""
        try:
            await asyncio.wait_for(self._ask(lambda xid: codec.bare(of.OFPT_ECHO_REQUEST, xid)), ALIVE_S)
        except (SwitchError, TimeoutError):
            return False
        return True

    async def limit_packets(self) -> None:
        """Makes the meter through which packets for the controller go. A switch without meters goes without; `may_say_more` limits it too."""
        for command in (of.OFPMC_MODIFY, of.OFPMC_ADD):
            self._write(codec.meter_mod(command, METER, PACKETS_PER_S, PACKETS_BURST, self._xid()))
            try:
                await self.barrier()
            except SwitchError as error:
                if self.closed:
                    raise
                refused = str(error)
            else:
                self.meter = METER
                return
        log.info("switch has no meters", extra={"dpid": self.dpid, "reason": refused})

    def may_say_more(self) -> bool:
        """Whether another packet for the controller is looked at, or there have been too many lately."""
        now = time.monotonic()
        self._packets = min(float(PACKETS_BURST), self._packets + PACKETS_PER_S * (now - self._packets_at))
        self._packets_at = now
        if self._packets < 1:
            return False
        self._packets -= 1
        return True

    def emit(self, port: int, packet: bytes) -> None:
        """Sends a packet out of a port, without waiting."""
        with suppress(SwitchError):
            self._write(codec.packet_out(port, packet, self._xid()))
