"""A backlog: the events that wait for one client, and what becomes of them when they are too many.

Invariants  events leave in the order in which they came; where messages were dropped stands a gap that counts
            them; views, signals and the like are never dropped; memory stays below twice the policy's limit and
            one event, or the client has to go.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from hopring.session.frames import FRAME_HEAD_BYTES, Kind, kind_of
from hopring.session.held import Held, Loss, Missing, Parts, Pool, held
from hopring.session.messages import decode_messages
from hopring.session.options import SessionOptions, Slow
from hopring.session.words import Word, encode_word


class SpillFailed(Exception):
    """The disk does not do what it should; the text says what."""


class Spill(Protocol):
    """Frames of one client outside of memory, first in, first out."""

    @property
    def size_bytes(self) -> int:
        """How much is there."""

    def put(self, frame: bytes) -> None:
        """Adds a frame; SpillFailed if that cannot be."""

    def take(self) -> list[bytes]:
        """Some of the oldest frames, one at least if there are any; SpillFailed if they are lost."""

    def close(self) -> None:
        """Forgets all."""


class Spills(Protocol):
    """Where spills come from."""

    def open(self, session: int) -> Spill:
        """A new one, empty; SpillFailed if that cannot be."""


@dataclass(slots=True)
class Backlog:
    """What waits for one client."""

    number: int
    pool: Pool
    options: SessionOptions
    spills: Spills | None = None
    policy: Slow = Slow.KICK
    tell: Callable[[Word], bytes] = encode_word  # How the client is told of a gap.
    size_bytes: int = 0  # In memory.
    messages: int = 0  # The same, counted.
    blocks: bool = False  # Senders wait for it.
    moved: bool = False  # Something was taken since the last look.
    problem: str = ""  # What was spilled is lost.
    _events: deque[Held | Missing] = field(default_factory=deque)
    _spill: Spill | None = None
    _spilled_loss: list[int] = field(default_factory=lambda: [0, 0])  # Messages on disk and their bytes.
    _drops: bool = False
    _warned: set[int] = field(default_factory=set)  # Limits that the client was warned of.

    @property
    def limit_bytes(self) -> int:
        """Where the policy begins to act."""
        return self.options.limit_bytes(self.policy)

    @property
    def waiting_bytes(self) -> int:
        """All that waits, wherever."""
        return self.size_bytes + self._spilled_bytes

    @property
    def _spilled_bytes(self) -> int:
        return 0 if self._spill is None else self._spill.size_bytes

    def put(self, one: Held) -> str:
        """The next event; returns why the client has to go, if it has to."""
        if self.policy is Slow.SPILL and (self._spilled_bytes or self.size_bytes > self.limit_bytes):
            return self._to_disk(one)
        if self.policy is Slow.DROP and one.loss is not None and self._dropping():
            self._lose(one.loss)
        else:
            self._keep(one)
        return self._too_much()

    def warns(self) -> int:
        """The limit that the client is to be warned of now, or 0; it is when half of that waits for it.

        A limit is warned of again after less than a quarter of it waited. Who spills is warned of both limits.
        """
        waiting_bytes, limit_bytes = self.size_bytes, self.limit_bytes
        if self._spilled_bytes:
            waiting_bytes, limit_bytes = self._spilled_bytes, self.options.spill_bytes_max
        if 4 * waiting_bytes <= limit_bytes:
            self._warned.discard(limit_bytes)
        if 2 * waiting_bytes <= limit_bytes or limit_bytes in self._warned:
            return 0
        self._warned.add(limit_bytes)
        return limit_bytes

    def head_bytes(self) -> int | None:
        """The bytes of the next event, if there is one."""
        if not self._events and self._spilled_bytes:
            self._from_disk()
        if not self._events:
            return None
        one = self._events[0]
        return one.cost_bytes if isinstance(one, Held) else len(self.tell(one.word))

    def pop(self) -> Parts:
        """The next event, which leaves."""
        one = self._events.popleft()
        self._release(one)
        self.moved = True
        return self._parts(one)

    def rest(self) -> list[bytes]:
        """All that is in memory, and a gap for what is on disk."""
        frames = [b"".join(self._parts(one)) for one in self._events]
        if self._spilled_bytes:
            messages, size_bytes = self._spilled_loss
            frames.append(self.tell(Missing(messages, size_bytes, complete=False).word))
        return frames

    def shed(self) -> None:
        """Drops all messages that wait in memory, for the sake of others."""
        events, self._events = self._events, deque()
        for one in events:
            self._release(one)
            if isinstance(one, Missing):
                self._lose(Loss(tuple(one.groups), one.messages, one.size_bytes), one.complete)
            elif one.loss is not None:
                self._lose(one.loss)
            else:
                self._keep(one)

    def close(self) -> None:
        """The client is gone."""
        while self._events:
            self._release(self._events.popleft())
        if self._spill is not None:
            self._spill.close()
            self._spill = None

    # In memory.

    def _parts(self, one: Held | Missing) -> Parts:
        return one.parts if isinstance(one, Held) else (self.tell(one.word),)

    def _keep(self, one: Held | Missing) -> None:
        self._events.append(one)
        self.size_bytes += one.cost_bytes
        self.messages += one.count
        self.pool.hold(one)

    def _release(self, one: Held | Missing) -> None:
        self.size_bytes -= one.cost_bytes
        self.messages -= one.count
        self.pool.release(one)

    def _too_much(self) -> str:
        limit_bytes = self.limit_bytes * (1 if self.policy is Slow.KICK else 2)
        return f"more than {limit_bytes} bytes wait" if self.size_bytes > limit_bytes else ""

    def _dropping(self) -> bool:
        # Few long gaps are better than many short ones.
        self._drops = self.size_bytes > (self.limit_bytes // 2 if self._drops else self.limit_bytes)
        return self._drops

    def _lose(self, loss: Loss, complete: bool = True) -> None:
        last = self._events[-1] if self._events else None
        if not isinstance(last, Missing):
            last = Missing()
            self._keep(last)
        last.add(loss)
        last.complete = last.complete and complete

    # On disk.

    def _to_disk(self, one: Held) -> str:
        try:
            if self._spill is None:
                assert self.spills is not None, "who cannot spill is refused"
                self._spill = self.spills.open(self.number)
            self._spill.put(one.frame)
        except SpillFailed as failure:
            return str(failure)
        self._count(one, 1)
        limit_bytes = self.options.spill_bytes_max
        return f"more than {limit_bytes} bytes wait on disk" if self._spilled_bytes > limit_bytes else ""

    def _from_disk(self) -> None:
        assert self._spill is not None, "there is something on disk"
        try:
            frames = self._spill.take()
        except SpillFailed as failure:
            self.problem = self.problem or str(failure)
            return
        for frame in frames:
            one = held(frame, _loss_of(frame))
            self._count(one, -1)
            self._keep(one)

    def _count(self, one: Held, sign: int) -> None:
        if one.loss is not None:
            self._spilled_loss[0] += sign * one.loss.messages
            self._spilled_loss[1] += sign * one.loss.size_bytes


def _loss_of(frame: bytes) -> Loss | None:
    if kind_of(frame) is not Kind.MESSAGES:
        return None
    bundle = decode_messages(frame[FRAME_HEAD_BYTES:]).bundle
    return Loss(bundle.run.groups, len(bundle), len(bundle.bodies))
