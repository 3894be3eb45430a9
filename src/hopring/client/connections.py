"""The connections of a session without their sockets: one after another, and what is between them.

Below       a shell: it connects where `dial` says, gives bytes to `receive`, sends what `output` has, says
            `lost`, and ticks when `wake_at_us` has come.
Above       core.py: requests and events.
Invariants  requests to join or leave that had no answer are made again, in their order; no message is;
            `Reconnected` lies behind all that came by the old connection and before all that comes by the new
            one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hopring.client.connection import Connection
from hopring.client.errors import ConnectError, SessionClosed
from hopring.client.events import Reconnected, ReconnectGap
from hopring.client.kept import Kept, Request
from hopring.client.outgoing import Outgoing
from hopring.client.retrying import Reconnect, Tries
from hopring.client.stream import Stream
from hopring.errors import HopError
from hopring.ids import NEVER
from hopring.session.options import REQUEST_COST_BYTES, SlowPolicy
from hopring.session.words import Hello, Join, Leave, Welcome

WINDOW_BYTES_DEFAULT: Final = 1024 * 1024
CONNECT_SECONDS: Final = 5.0


@dataclass(slots=True)
class Loss:
    """A connection that was lost, until there is another one."""

    at_us: int
    reason: str
    in_doubt: int


@dataclass(slots=True)
class Connections:
    """The connections of a session, one after another."""

    url: str | Sequence[str]
    name: str
    window_bytes: int = WINDOW_BYTES_DEFAULT
    membership: bool = True
    slow: SlowPolicy = field(default="kick", kw_only=True)
    priority: bool = field(default=False, kw_only=True)
    reconnect: Reconnect | None = field(default=None, kw_only=True)
    answer_seconds: float = field(default=CONNECT_SECONDS, kw_only=True)  # For each try to connect.
    epoch_us: int = field(default=0, kw_only=True)  # The time of day when the shell's clock was at zero.
    chance: Callable[[], float] = field(default=lambda: 1.0, kw_only=True)
    welcome: Welcome | None = None  # Of the last connection that had one.
    ended: HopError | None = None
    """Why there is no more to come; after QUIT that is no failure, and `quit_done` is true."""
    quit_done: bool = False
    closed_here: bool = False  # The application ended it, at once.
    kept: Kept = field(default_factory=Kept)
    connection: Connection = field(init=False)  # Perhaps ended.
    dial_at_us: int = NEVER
    answer_by_us: int = NEVER
    tries: Tries = field(init=False)
    _loss: Loss | None = None
    _again: deque[Request] = field(default_factory=deque)  # To be asked once more.
    _quitting: bool = False

    def __post_init__(self) -> None:
        urls = (self.url,) if isinstance(self.url, str) else tuple(self.url)
        assert urls, "there is somewhere to connect"
        self.tries = Tries(urls, self.reconnect or Reconnect(), self.chance)
        self.connection = self._new_connection()

    @property
    def stream(self) -> Stream:
        """The events that nobody has taken."""
        return self.kept.stream

    @property
    def groups(self) -> set[str]:
        """The groups that the session is in, also while there is no connection."""
        return self.kept.groups

    @property
    def answers(self) -> dict[Request, HopError | None]:
        """What came of requests and nobody has taken."""
        return self.kept.answers

    @property
    def welcomed(self) -> Welcome:
        """What the daemon said at the beginning; a shell hands a session out only after it."""
        assert self.welcome is not None, "views and requests come after WELCOME"
        return self.welcome

    @property
    def connected(self) -> bool:
        """Whether there is a daemon at the other end now."""
        return self.ended is None and self.connection.is_open

    # Connections.

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        return min(self.dial_at_us, self.answer_by_us)

    def begin(self, now_us: int) -> None:
        """A first try is due."""
        self.dial_at_us = now_us

    def dial(self, now_us: int) -> str | None:
        """The URL of a daemon, if it is to be tried now; the shell says `lost` if nobody is there."""
        if self.ended is not None or now_us < self.dial_at_us:
            return None
        self.dial_at_us = NEVER
        self.answer_by_us = now_us + int(self.answer_seconds * 1_000_000)
        self.connection = self._new_connection()
        self.connection.begin()
        return self.tries.url

    def hello(self) -> None:
        """Begins on a connection that is there already."""
        self.connection.begin()

    def tick(self, now_us: int) -> None:
        """Gives up a connection that does not answer; look at `dial` afterwards."""
        if now_us >= self.answer_by_us:
            self.lost(f"no answer for {self.answer_seconds:g} s", now_us, NO_DAEMON)

    def output(self) -> bytes:
        """What is to be sent now."""
        return self.connection.output()

    def receive(self, chunk: bytes | memoryview, now_us: int = 0) -> None:
        """Takes bytes of the connection; the chunk may be used again when this returns."""
        connection = self.connection
        self.stream.now_us = self.epoch_us + now_us
        left = connection.feed(chunk)
        if self._again:
            self._look(connection, now_us)  # Credits may have come.
        while left and connection.take_frame():
            self._look(connection, now_us)

    def lost(self, reason: str, now_us: int = 0, remedy: str = "connect again") -> None:
        """The connection is gone, or there is none to be had."""
        if self.connection.ended is None:
            self.connection.lost(reason, remedy)
            self._look(self.connection, now_us)

    def close(self, cause: BaseException | None = None) -> None:
        """Nothing more comes or goes, by the application's own wish, or because of its error."""
        if self.ended is None:
            self.closed_here = True
            self.lost("it was closed here")
            self._closed(cause)

    def _closed(self, cause: BaseException | None) -> None:
        # Apart from `close`, which saw no end: `lost` may have set one, and compiled code would not look again.
        self._end(self.ended or SessionClosed("it was closed here"))
        if self.ended is not None:
            self.ended.__cause__ = cause

    def _new_connection(self) -> Connection:
        return Connection(self.tries.url, self._hello(), self.kept)

    def _hello(self) -> Hello:
        return Hello(self.name, self.window_bytes, self.membership, self.slow, self.priority)

    def _look(self, connection: Connection, now_us: int) -> None:
        if self.ended is not None:
            return
        if connection.ended is not None:
            self._over(connection, connection.ended, now_us)
        elif connection.welcome is not None and connection.welcome is not self.welcome:
            self._welcomed(connection.welcome, now_us)
        elif self._again:
            self._ask_again()

    def _welcomed(self, welcome: Welcome, now_us: int) -> None:
        self.welcome = welcome
        self.answer_by_us = NEVER
        self.tries.up(now_us)
        loss, self._loss = self._loss, None
        if loss is None:
            return
        since, now = (self.epoch_us + loss.at_us) / 1_000_000, (self.epoch_us + now_us) / 1_000_000
        gap = ReconnectGap(since, now, loss.reason, self.kept.last, loss.in_doubt, self.tries.count)
        groups = tuple(sorted(self.groups))
        self.stream.put(Reconnected(groups, welcome.daemon, welcome.private_group, gap), 0)
        self._again.extend([("join", group) for group in groups])
        self._again.extend(self.kept.pending)
        self._ask_again()

    def _ask_again(self) -> None:
        while self._again and self._outgoing.has_room_for_word():
            request, group = self._again.popleft()
            self._outgoing.ask(Join(group) if request == "join" else Leave(group), REQUEST_COST_BYTES)

    def _over(self, connection: Connection, error: HopError, now_us: int) -> None:
        self.answer_by_us = NEVER
        self.quit_done = connection.quit_done
        if connection.outgoing is not None:
            self._note_loss(connection.outgoing, error, now_us)
        if self.welcome is None:
            self._first_failed(connection, error, now_us)
            return
        wanted = self.reconnect is not None and not self._quitting and connection.passing
        at_us = self.tries.next(now_us) if wanted else None
        if at_us is None:
            self._end(error)
        else:
            self.dial_at_us = at_us

    def _note_loss(self, outgoing: Outgoing, error: HopError, now_us: int) -> None:
        reason = error.reason if isinstance(error, SessionClosed) else str(error)
        self._loss = Loss(now_us, reason, 0 if self.quit_done else outgoing.in_doubt)
        outgoing.lose_tickets()
        for serial in [one for one, told in self.kept.told.items() if told is None]:
            del self.kept.told[serial]
        self.tries.lost(now_us)
        self.stream.forget_credits()
        self._again.clear()
        for request, group in [one for one in self.kept.pending if one[0] == "leave"]:
            if group in self.groups:
                # It is no member any more, and will not be one again.
                self.groups.discard(group)
                self.stream.close(group)
                self.kept.answer((request, group), None)

    def _first_failed(self, connection: Connection, error: HopError, now_us: int) -> None:
        """Each daemon is tried once; a name that is in use is the application's affair."""
        self.tries.count += 1
        if connection.passing and type(error) is ConnectError and self.tries.count < len(self.tries.urls):
            self.tries.move_on()
            self.dial_at_us = now_us
        else:
            self._end(error)

    def _end(self, error: HopError) -> None:
        self.dial_at_us = self.answer_by_us = NEVER
        loss = self._loss
        if self.welcome is None or loss is None or self.quit_done:
            self.ended = error
        elif isinstance(error, SessionClosed):
            self.ended = type(error)(error.reason, error.remedy, loss.in_doubt)
        else:
            reason = f"{loss.reason}, and no way back: {error}"
            self.ended = SessionClosed(reason, "connect again", loss.in_doubt)

    @property
    def _outgoing(self) -> Outgoing:
        outgoing = self.connection.outgoing
        assert outgoing is not None, "there is a session"
        return outgoing


NO_DAEMON: Final = "start hopd there, or correct the address (its client_port or --socket)"
