"""Clients of a fuzzed cluster: two at each daemon, which join, leave, send with all services, and record."""

import asyncio
import time
from contextlib import suppress
from random import Random
from typing import Final

from tests.fuzz.packet_cluster import FuzzedDaemons
from tests.netns.recording_clients import RecordingClient

from hopring import ConnectError, HopError, SessionClosed, View, connect
from hopring.check import trace
from hopring.local.recorder import now_us

GROUPS: Final = ("all", "red", "blue")
ANCHOR: Final = "anchor"
"""The client of each daemon that stays in all groups: so nothing is pruned that the daemons' traces have."""

ROVER: Final = "rover"
TARGETS: Final = (("all",), ("red",), ("blue",), ("red", "blue"), ("all", "red"))
PRIVATE: Final = (*TARGETS, ("#anchor#ap1",), ("#anchor#eu2", "blue"), ("#anchor#us1",))
"""Also private groups: others than their sites get only meta-data."""

SEND_SECONDS: Final = 0.12
CONNECT_SECONDS_MAX: Final = 30.0
LOOK_SECONDS: Final = 0.05


class FuzzedClient(RecordingClient):
    """A recording client that goes on after a message which it cannot record."""

    spoiled = ""
    """Why its record cannot be judged; only a forgery may be the reason."""

    async def _read(self) -> None:
        try:
            while True:
                event = await self.session.receive()
                if self.spoiled:
                    continue
                try:
                    self.recorder.note_event(event)
                except (ValueError, AssertionError) as error:
                    self.spoiled = f"{event}: {error}"[:300]
                    continue
                if isinstance(event, View):
                    self.views[event.group] = event
        except SessionClosed as closed:
            self.ended = closed


class FuzzedClients:
    """The clients of one round."""

    def __init__(self, daemons: FuzzedDaemons, seed: int, private: bool) -> None:
        self.all: list[FuzzedClient] = []
        self._daemons = daemons
        self._dice = Random(seed)
        self._targets = PRIVATE if private else TARGETS
        self._sending = True

    async def connect_all(self) -> None:
        """Connects all clients, and has them send."""
        await asyncio.gather(*[self.connect(name) for name in self._daemons.names])

    async def connect(self, daemon: str) -> None:
        """Connects the clients of one daemon that has started."""
        for name in (ANCHOR, ROVER):
            client = await self._connect(daemon, name)
            if client is None:
                return
            with suppress(HopError):
                for group in GROUPS if name == ANCHOR else GROUPS[:1]:
                    await asyncio.wait_for(client.join(group), CONNECT_SECONDS_MAX)
                if self._sending and client.recorder.process is not None:
                    client.start_sending(self._targets, SEND_SECONDS)

    async def _connect(self, daemon: str, name: str) -> FuzzedClient | None:
        end = time.monotonic() + CONNECT_SECONDS_MAX
        while daemon in self._daemons.processes:
            try:
                session = await connect(self._daemons.url(daemon), name=name, reconnect=False)
                break
            except ConnectError:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(LOOK_SECONDS)
        else:
            return None
        client = FuzzedClient(session, self._dice.getrandbits(32))
        self.all.append(client)
        return client

    @property
    def living(self) -> list[FuzzedClient]:
        """Those that have not ended."""
        return [one for one in self.all if one.ended is None and not one.died]

    async def churn(self) -> None:
        """A rover joins or leaves a group, or ends and comes back."""
        rovers = [
            one
            for one in self.living
            if one.recorder.name == ROVER and one.recorder.process and not one.spoiled
        ]
        if not rovers:
            return
        client = self._dice.choice(rovers)
        group = self._dice.choice(GROUPS[1:])
        with suppress(HopError, TimeoutError):
            asks = [
                one
                for one in client.recorder.events
                if isinstance(one, trace.AsksJoin | trace.AsksLeave) and one.group == group
            ]
            if asks and isinstance(asks[-1], trace.AsksJoin):
                await asyncio.wait_for(client.leave(group), CONNECT_SECONDS_MAX)
            else:
                await asyncio.wait_for(client.join(group), CONNECT_SECONDS_MAX)

    async def stop_sending(self) -> None:
        """All messages are sent."""
        self._sending = False
        for client in self.all:
            await client.stop_sending()

    def history(self, daemons: list[trace.Event]) -> list[trace.Event]:
        """The traces of all clients, with the ends of daemons."""
        last = {one.process.daemon: one.process for one in daemons if isinstance(one, trace.Recover)}
        began = {one.process for one in daemons if isinstance(one, trace.Recover)}
        ended = {one.process for one in daemons if isinstance(one, trace.Crash)} | (began - set(last.values()))
        out: list[trace.Event] = [trace.Crash(one, now_us()) for one in sorted(ended)]
        for client in self.all:
            if client.recorder.process is not None and not client.spoiled:
                client.recorder.note_due_leaves()
                out += client.recorder.events
        return out

    async def end(self) -> None:
        """Ends all sessions."""
        for client in self.all:
            await client.stop_sending()
            await client.stop_reading()
            client.session.abort()
