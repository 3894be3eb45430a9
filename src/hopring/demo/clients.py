"""The clients of the demonstration: one at each daemon, in all groups, which send and record what they see."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from hopring.check.trace import ProcessName
from hopring.client.aio import Session, connect
from hopring.client.events import Event, Member, Message, View
from hopring.demo.scenario import BODY_BYTES, GROUPS, ORDERS, PERIOD_SECONDS, TRADES
from hopring.local.recorder import Recorder, message_name
from hopring.services import AGREED, SAFE, Service

NAME: Final = "player"
_BOTH_EVERY: Final = 10  # One message in this many goes to all groups.

Seen = Callable[["DemoClient", Event], None]


class DemoClient:
    """A session that sends, receives and records."""

    def __init__(self, session: Session, seen: Seen) -> None:
        self.daemon = session.daemon
        self.recorder = Recorder(session.daemon, session.name, session.private_group)
        self.views: dict[str, View] = {}  # By group.
        self.got: Counter[Service] = Counter()
        self.sent = 0
        self.last: dict[ProcessName, int] = {}  # The last message of each sender.
        self._session = session
        self._seen = seen

    @classmethod
    async def connect(cls, url: str, seen: Seen) -> "DemoClient":
        """Connects a new client to a daemon."""
        return cls(await connect(url, name=NAME, timeout_seconds=20.0, reconnect=False), seen)

    def members(self, group: str) -> list[str]:
        """The daemons of the members of its view."""
        return daemons_of(self.views[group].members) if group in self.views else []

    def primary(self, group: str) -> bool:
        """Whether its view of a group is primary."""
        return group in self.views and self.views[group].primary

    def is_with(self, daemons: set[str]) -> bool:
        """Whether its views of all groups have members at exactly these daemons."""
        return all(set(self.members(group)) == daemons for group in GROUPS)

    def has_all_of(self, other: "DemoClient") -> bool:
        """Whether the last message of another client has arrived, and so all before it."""
        return other.recorder.process is not None and self.last.get(other.recorder.process, 0) == other.sent

    async def join(self) -> None:
        """Joins all groups, one after the other."""
        for group in GROUPS:
            self.recorder.note_join(group)
            await self._session.join(group)

    async def listen(self) -> None:
        """Receives events until the session is closed."""
        async for event in self._session:
            self._handle(event)
            self._seen(self, event)

    def _handle(self, event: Event) -> None:
        self.recorder.note_event(event)
        if isinstance(event, View):
            self.views[event.group] = event
        elif isinstance(event, Message):
            self.got[event.service] += 1
            name = message_name(event.data)
            self.last[name.sender] = name.number

    async def play(self, until: asyncio.Event) -> None:
        """Sends at an even pace; a message that waits for the send window is late, not skipped."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not until.is_set():
            self.sent += 1
            group, service = (ORDERS, SAFE) if self.sent % 3 == 0 else (TRADES, AGREED)
            groups: tuple[str, ...] = (group,)
            if self.sent % _BOTH_EVERY == 0:
                groups = GROUPS
            data = self.recorder.note_send(groups, service, bytes(BODY_BYTES))
            await self._session.multicast(groups, data, service=service)
            due += PERIOD_SECONDS
            await asyncio.sleep(max(0.0, due - loop.time()))

    def leave(self) -> None:
        """Ends the session at once."""
        self._session.abort()


def daemons_of(members: Iterable[Member]) -> list[str]:
    """The daemons of some members, each once: a client and a spooler may share one."""
    return list(dict.fromkeys([one.daemon for one in members]))
