"""A session server on a fake order: every submitted message is delivered at once, in a view of one daemon."""

from collections import deque
from collections.abc import Sequence

from hopring.client.core import ClientCore
from hopring.engine import Delivered, Installed, Stamped
from hopring.groups.groups import Groups
from hopring.ids import DaemonId, Incarnation, Process, SiteId, ViewId
from hopring.ordering.entry import MESSAGE_HEAD_BYTES, OrderedMessage, Position
from hopring.session.backlog import Spills
from hopring.session.events import (
    BytesReceived,
    Close,
    ConnectionLost,
    ConnectionOpened,
    Input,
    Listen,
    Output,
    OutputReady,
    Pause,
)
from hopring.session.options import SessionOptions, SlowPolicy
from hopring.session.server import SessionServer
from hopring.spread.dialect import SpreadDialect
from hopring.wire.bundle import BUNDLE_BYTES_DEFAULT

ME = Process(DaemonId(0), Incarnation(7))
VIEW = ViewId(1, ME.daemon, ME.incarnation)


class FakeDaemon:
    """One daemon whose connections are byte strings."""

    def __init__(self, options: SessionOptions | None = None, spills: Spills | None = None) -> None:
        groups = Groups(ME, {DaemonId(0): SiteId(0)}, ["eu1"])
        self.server = SessionServer(groups, BUNDLE_BYTES_DEFAULT - MESSAGE_HEAD_BYTES, options, spills)
        self.spread = SpreadDialect(groups, self.server.message_bytes_max, lambda: self.server.options)
        self.now_us = 0
        self.paused: set[int] = set()
        self.closed: dict[int, tuple[bytes, str]] = {}
        self.ready: set[int] = set()
        self.stopped = False  # While set, nothing is ordered.
        self.queue_open = True
        self.at_once = 1 << 30  # The number of messages that may be in flight.
        self._lts = 0
        self._under_way: deque[OrderedMessage] = deque()
        self._pumping = False
        self.step(Installed(VIEW, (ME,), (ME,), "start"))

    def step(self, event: Input) -> None:
        """Handles one event, and everything that follows from it."""
        self._note(self.server.step(event, self.now_us))
        self.pump()

    def pump(self) -> None:
        if self._pumping:
            return
        self._pumping = True
        self._submit()
        while self._under_way:
            message = self._under_way.popleft()
            self._lts += 1
            position = Position(self._lts, 0)
            self.step(Stamped(VIEW, message, position))
            self.step(Delivered(VIEW, message, ME, position))
            self._submit()
        self._pumping = False

    def _submit(self) -> None:
        while not self.stopped and len(self._under_way) < self.at_once:
            submit = self.server.next_submission(self.queue_open, self.now_us)
            if submit is None:
                break
            self._under_way.append(OrderedMessage(submit.service, ME.daemon, submit.session, submit.payload))
        self._note(self.server.credit(self.now_us))

    def _note(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            match output:
                case Close(number, last, reason):
                    assert number not in self.closed, "a connection was closed twice"
                    self.closed[number] = (last, reason)
                case OutputReady(session=number):
                    self.ready.add(number)
                case Pause(number):
                    assert number not in self.paused, "a connection was paused twice"
                    self.paused.add(number)
                case Listen(number):
                    self.paused.remove(number)
                case _:
                    pass

    def open(self, number: int, spread: bool = False, address: str = "") -> None:
        """Opens a connection of a native or of a Spread client."""
        self.step(ConnectionOpened(number, self.spread if spread else None, address))

    def say(self, number: int, chunk: bytes) -> None:
        """The client sends these bytes."""
        self.step(BytesReceived(number, chunk))

    def lose(self, number: int) -> None:
        self.step(ConnectionLost(number))

    def end(self, reason: str, remedy: str) -> None:
        self._note(self.server.end_all(reason, remedy))

    def fetch(self, number: int, bytes_max: int = 1 << 30) -> bytes:
        """The next bytes for a client."""
        if number in self.closed:
            last, _ = self.closed.pop(number)
            return last
        return b"".join(self.server.outgoing(number, bytes_max))

    def client(
        self,
        number: int,
        name: str,
        window_bytes: int = 1 << 20,
        membership: bool = True,
        slow: SlowPolicy = "kick",
    ) -> ClientCore:
        """A connected client of the library."""
        core = ClientCore("hop://test", name, window_bytes, membership, slow=slow)
        core.hello()
        self.open(number)
        self.exchange(number, core)
        return core

    def exchange(self, number: int, core: ClientCore) -> None:
        """Carries bytes both ways until there are none."""
        while True:
            up, down = core.output(), b""
            if up:
                self.say(number, up)
            down = self.fetch(number)
            core.receive(down)
            if not up and not down:
                return
