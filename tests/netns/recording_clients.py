"""Clients of daemons in namespaces that join, send and receive, and record everything as a trace."""

import asyncio
import contextlib
from collections.abc import Sequence
from random import Random

from tests.netns.session_recorder import Recorder

from hopring import Event, HopError, Member, Message, Service, Session, SessionClosed, Transition, View
from hopring.check import trace
from hopring.local.recorder import message_name, now_us, process_of

SIZES_BYTES = (0, 10, 100, 100, 500, 500, 3_000, 20_000)

Targets = Sequence[tuple[str, ...]]


class RecordingClient:
    """One session, which reads all the time until it is told to stop.

    Requests are written down when they are asked for: they go out in that order as long as the session's window
    is not full.
    """

    def __init__(self, session: Session, seed: int) -> None:
        """Needs a running event loop."""
        self.session = session
        self.recorder = Recorder(session)
        self.daemon = session.daemon
        self.seen: list[tuple[int, Event]] = []  # With the time of each.
        self.views: dict[str, View] = {}  # The last one of each group.
        self.ended: HopError | None = None
        self.died = False  # Without a word to its daemon.
        self._dice = Random(seed)
        self._reading = asyncio.ensure_future(self._read())
        self._talking: asyncio.Future[None] | None = None

    @property
    def process(self) -> trace.ProcessName:
        """Which session this is; known once it is in a group."""
        assert self.recorder.process is not None, "it is in a group"
        return self.recorder.process

    async def join(self, group: str) -> None:
        """Becomes a member."""
        self.recorder.joins(group)
        await self.session.join(group)

    async def leave(self, group: str) -> None:
        """Is a member no longer."""
        self.recorder.leaves(group)
        await self.session.leave(group)

    async def say(
        self,
        groups: str | tuple[str, ...],
        body: bytes = b"",
        service: Service = Service.AGREED,
        self_discard: bool = False,
    ) -> trace.MessageId:
        """Sends a message."""
        names = (groups,) if isinstance(groups, str) else groups
        data = self.recorder.sends(names, service, body, self_discard)
        await self.session.multicast(names, data, service=service, self_discard=self_discard)
        return message_name(data)

    def talk(
        self, targets: Targets, every_seconds: float, services: Sequence[Service] = tuple(Service)
    ) -> None:
        """Begins to send messages of all sizes, until `hush`."""
        assert self._talking is None, "it talks"
        self._talking = asyncio.ensure_future(self._talk(targets, every_seconds, services))

    async def hush(self) -> None:
        """Sends no more."""
        if self._talking is not None:
            self._talking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._talking
            self._talking = None

    async def close(self) -> None:
        """Ends in an orderly way."""
        await self.hush()
        self.recorder.ends()
        await self.session.close()
        await self._reading
        self.recorder.gone()

    async def die(self, half: bytes = b"") -> None:
        """Ends without a word, perhaps with half of one."""
        await self.hush()
        self.recorder.ends()
        self.died = True
        if half:
            wire = self.session._wire
            assert wire is not None, "it is connected"
            assert wire.transport is not None, "and has been for a while"
            self.session._flush()
            wire.transport.write(half)
            wire.transport.close()  # What was written is still sent.
        else:
            self.session.abort()
        await self._reading

    async def stop_reading(self) -> None:
        """Takes nothing more."""
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading

    def read_on(self) -> None:
        """Takes events again."""
        self._reading = asyncio.ensure_future(self._read())

    # What it has seen.

    def messages(self) -> list[trace.ClientDelivered]:
        """All messages, as they are written down."""
        return [one for one in self.recorder.events if isinstance(one, trace.ClientDelivered)]

    def changes(self, group: str, since_us: int = 0) -> list[View | Transition]:
        """The views and transitions of a group."""
        return [
            one
            for at_us, one in self.seen
            if at_us >= since_us and isinstance(one, View | Transition) and one.group == group
        ]

    def network_views(self, group: str, since_us: int = 0) -> list[View]:
        """The views of a group that came from a change of daemons."""
        views = [one for one in self.changes(group, since_us) if isinstance(one, View)]
        return [one for one in views if one.cause == "network"]

    def members(self, group: str) -> set[trace.ProcessName]:
        """Who is in the last view of a group."""
        return {process_of(one) for one in self.views[group].members} if group in self.views else set()

    def saw_end_of(self, process: trace.ProcessName) -> bool:
        """Whether it was shown that this session has disconnected."""
        views = [one for _, one in self.seen if isinstance(one, View) and one.cause == "disconnect"]
        return any(isinstance(one.who, Member) and process_of(one.who) == process for one in views)

    async def _read(self) -> None:
        try:
            while True:
                event = await self.session.receive()
                self.recorder.takes(event)
                self.seen.append((now_us(), event))
                if isinstance(event, View):
                    self.views[event.group] = event
        except SessionClosed as closed:
            self.ended = closed

    async def _talk(self, targets: Targets, every_seconds: float, services: Sequence[Service]) -> None:
        with contextlib.suppress(SessionClosed):
            while True:
                groups, service = self._dice.choice(targets), self._dice.choice(services)
                body = bytes(self._dice.choice(SIZES_BYTES))
                await self.say(groups, body, service, self._dice.random() < 0.1)
                await asyncio.sleep(every_seconds * (0.5 + self._dice.random()))


def bodies(player: RecordingClient, group: str) -> list[Message]:
    """The messages of a group as they came."""
    return [one for _, one in player.seen if isinstance(one, Message) and group in one.groups]
