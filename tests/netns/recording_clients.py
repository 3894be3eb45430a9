"""Clients of daemons in namespaces that join, send and receive, and record everything as a trace."""

import asyncio
import contextlib
from collections.abc import Sequence
from random import Random

from hopring import Event, HopError, Member, Message, Service, Session, SessionClosed, Transition, View
from hopring.check import trace
from hopring.local.recorder import message_name, now_us, process_of
from hopring.local.session_recorder import SessionRecorder

SIZES_BYTES = (0, 10, 100, 100, 500, 500, 3_000, 20_000)

Targets = Sequence[tuple[str, ...]]


class RecordingClient:
    """One session, which reads until it is told to stop.

    Requests are recorded when they are made: they are sent in that order as long as the session's window is not
    full.
    """

    def __init__(self, session: Session, seed: int) -> None:
        """Needs a running event loop."""
        self.session = session
        self.recorder = SessionRecorder(session)
        self.daemon = session.daemon
        self.seen: list[tuple[int, Event]] = []  # Each with its time.
        self.views: dict[str, View] = {}  # The last view of each group.
        self.ended: HopError | None = None
        self.died = False  # Killed, without a QUIT to its daemon.
        self._dice = Random(seed)
        self._reading = asyncio.ensure_future(self._read())
        self._sending: asyncio.Future[None] | None = None

    @property
    def process(self) -> trace.ProcessName:
        """The name of the session; known once it is in a group."""
        assert self.recorder.process is not None, "the session is in no group yet"
        return self.recorder.process

    async def join(self, group: str) -> None:
        """Joins a group and records the request."""
        self.recorder.note_join(group)
        await self.session.join(group)

    async def leave(self, group: str) -> None:
        """Leaves a group and records the request."""
        self.recorder.note_leave(group)
        await self.session.leave(group)

    async def send(
        self,
        groups: str | tuple[str, ...],
        body: bytes = b"",
        service: Service = Service.AGREED,
        self_discard: bool = False,
    ) -> trace.MessageId:
        """Sends a message and records it; returns its name."""
        names = (groups,) if isinstance(groups, str) else groups
        data = self.recorder.note_send(names, service, body, self_discard)
        await self.session.multicast(names, data, service=service, self_discard=self_discard)
        return message_name(data)

    def start_sending(
        self, targets: Targets, every_seconds: float, services: Sequence[Service] = tuple(Service)
    ) -> None:
        """Starts to send messages of all sizes, until `stop_sending`."""
        assert self._sending is None, "it sends already"
        self._sending = asyncio.ensure_future(self._send_repeatedly(targets, every_seconds, services))

    async def stop_sending(self) -> None:
        """Ends the sending that `start_sending` began."""
        if self._sending is not None:
            self._sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sending
            self._sending = None

    async def close(self) -> None:
        """Disconnects in an orderly way."""
        await self.stop_sending()
        self.recorder.note_end()
        await self.session.close()
        await self._reading
        self.recorder.note_gone()

    async def cut_off(self, half: bytes = b"") -> None:
        """Cuts its connection without QUIT, optionally in the middle of a frame."""
        await self.stop_sending()
        self.recorder.note_end()
        self.died = True
        if half:
            wire = self.session._socket
            assert wire is not None, "the session is not connected"
            assert wire.transport is not None, "the session is not connected yet"
            self.session._flush()
            wire.transport.write(half)
            wire.transport.close()  # Bytes in the kernel's buffer are still sent.
        else:
            self.session.abort()
        await self._reading

    async def stop_reading(self) -> None:
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading

    def read_on(self) -> None:
        self._reading = asyncio.ensure_future(self._read())

    # Recorded events.

    def messages(self) -> list[trace.ClientDelivered]:
        """All received messages, as they were recorded."""
        return [one for one in self.recorder.events if isinstance(one, trace.ClientDelivered)]

    def changes(self, group: str, since_us: int = 0) -> list[View | Transition]:
        """The views and transitions of a group."""
        return [
            one
            for at_us, one in self.seen
            if at_us >= since_us and isinstance(one, View | Transition) and one.group == group
        ]

    def network_views(self, group: str, since_us: int = 0) -> list[View]:
        """The views of a group that were caused by a change of daemons."""
        views = [one for one in self.changes(group, since_us) if isinstance(one, View)]
        return [one for one in views if one.cause == "network"]

    def members(self, group: str) -> set[trace.ProcessName]:
        """The members of the last view of a group."""
        return {process_of(one) for one in self.views[group].members} if group in self.views else set()

    def saw_end_of(self, process: trace.ProcessName) -> bool:
        """Whether a view showed that this session has disconnected."""
        views = [one for _, one in self.seen if isinstance(one, View) and one.cause == "disconnect"]
        return any(isinstance(one.who, Member) and process_of(one.who) == process for one in views)

    async def _read(self) -> None:
        try:
            while True:
                event = await self.session.receive()
                self.recorder.note_event(event)
                self.seen.append((now_us(), event))
                if isinstance(event, View):
                    self.views[event.group] = event
        except SessionClosed as closed:
            self.ended = closed

    async def _send_repeatedly(
        self, targets: Targets, every_seconds: float, services: Sequence[Service]
    ) -> None:
        with contextlib.suppress(SessionClosed):
            while True:
                groups, service = self._dice.choice(targets), self._dice.choice(services)
                body = bytes(self._dice.choice(SIZES_BYTES))
                await self.send(groups, body, service, self._dice.random() < 0.1)
                await asyncio.sleep(every_seconds * (0.5 + self._dice.random()))


def bodies(player: RecordingClient, group: str) -> list[Message]:
    """The bodies of a group's messages in the order of receipt."""
    return [one for _, one in player.seen if isinstance(one, Message) and group in one.groups]
