"""The backlog of one client: frames that wait for it, in memory or on disk, and the limits of its policy.

A frame that waits for many clients is kept once. A gap stands in the place of dropped messages and counts them.

Invariants  events leave in the order in which they came; views, signals and other control frames are never
            dropped; the memory of a backlog stays below twice its policy's limit and one event, or the client
            is ended; the pool's size is the sum of the costs of all frames that some backlog holds, each
            counted once.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, final

from hopring.ids import GroupName
from hopring.session.frames import FRAME_HEAD_BYTES, FrameKind, decode_delivered, kind_of
from hopring.session.options import SessionOptions, Slow
from hopring.session.protocol import ControlMessage, GapNotice, encode_control
from hopring.value import Value

GAP_GROUPS_MAX: Final = 32
GAP_COST_BYTES: Final = 4096
"""The memory cost of a waiting gap; it names up to GAP_GROUPS_MAX groups."""


@final
class FrameLoss(Value):
    """The messages that a client misses if a frame is dropped."""

    def __init__(self, groups: tuple[GroupName, ...], messages: int, size_bytes: int) -> None:
        self.groups: Final = groups
        self.messages: Final = messages
        self.size_bytes: Final = size_bytes


Parts = tuple[bytes | memoryview, ...]
"""The pieces of a frame, end to end on the wire: a long bundle is sent without a copy."""


@final
class SharedFrame:
    """A frame that waits for one or more clients."""

    def __init__(self, parts: Parts, cost_bytes: int, loss: FrameLoss | None = None, holders: int = 0) -> None:
        self.parts = parts
        self.cost_bytes = cost_bytes  # Its length, counted against the limits.
        self.loss = loss  # None if it must not be dropped.
        self.holders = holders

    @property
    def frame(self) -> bytes:
        """The frame in one piece."""
        return b"".join(self.parts)

    @property
    def count(self) -> int:
        """The number of its messages; 1 for any other frame."""
        return 1 if self.loss is None else self.loss.messages


def shared_frame(frame: bytes, loss: FrameLoss | None = None) -> SharedFrame:
    """Makes a shared frame of one piece."""
    return SharedFrame((frame,), len(frame), loss)


@dataclass(slots=True, eq=False)
class PendingGap:
    """A gap in a backlog, which grows until it leaves."""

    messages: int = 0
    size_bytes: int = 0
    groups: dict[GroupName, None] = field(default_factory=dict)
    complete: bool = True  # Whether all groups are named.
    holders: int = 0

    @property
    def cost_bytes(self) -> int:
        """The memory cost of the gap."""
        return GAP_COST_BYTES

    @property
    def count(self) -> int:
        """A gap counts as one message."""
        return 1

    @property
    def notice(self) -> GapNotice:
        """The GAP message for its present size."""
        return GapNotice(self.messages, self.size_bytes, tuple(self.groups), self.complete)

    def add(self, loss: FrameLoss) -> None:
        """Adds the loss of one more bundle."""
        self.messages += loss.messages
        self.size_bytes += loss.size_bytes
        for group in loss.groups:
            if len(self.groups) < GAP_GROUPS_MAX:
                self.groups[group] = None
            elif group not in self.groups:
                self.complete = False


@dataclass(slots=True)
class Pool:
    """The memory that all backlogs of a daemon use."""

    size_bytes: int = 0

    def hold(self, one: SharedFrame | PendingGap) -> None:
        """Counts one more backlog that holds a frame."""
        if not one.holders:
            self.size_bytes += one.cost_bytes
        one.holders += 1

    def release(self, one: SharedFrame | PendingGap) -> None:
        """Counts one backlog less that holds a frame."""
        one.holders -= 1
        if not one.holders:
            self.size_bytes -= one.cost_bytes


class SpillFailed(Exception):
    """A spill could not be written or read; the text has the reason."""


class Spill(Protocol):
    """A queue of one client's frames on disk, first in, first out."""

    @property
    def size_bytes(self) -> int:
        """The bytes in the queue."""

    def put(self, frame: bytes) -> None:
        """Appends a frame; raises SpillFailed."""

    def take(self) -> list[bytes]:
        """Removes some of the oldest frames, at least one if there are any; raises SpillFailed."""

    def close(self) -> None:
        """Drops the queue and its file."""


class Spills(Protocol):
    """Opens spills, one for each session."""

    def open(self, session: int) -> Spill:
        """Opens a new, empty spill; raises SpillFailed."""


@dataclass(slots=True)
class Backlog:
    """The frames that wait for one client."""

    number: int
    pool: Pool
    options: SessionOptions
    spills: Spills | None = None
    policy: Slow = Slow.KICK
    encode: Callable[[ControlMessage], bytes] = encode_control  # Encodes a gap for the client.
    size_bytes: int = 0  # In memory.
    messages: int = 0  # In memory.
    blocks: bool = False  # Senders wait for this client.
    moved: bool = False  # The client took something since the last check.
    problem: str = ""  # Why spilled frames are lost, if they are.
    _events: deque[SharedFrame | PendingGap] = field(default_factory=deque)
    _spill: Spill | None = None
    _spilled_loss: list[int] = field(default_factory=lambda: [0, 0])  # Messages on disk, and their bytes.
    _drops: bool = False
    _warned: set[int] = field(default_factory=set)  # Limits of which the client was warned.

    @property
    def limit_bytes(self) -> int:
        """The size in memory at which the policy acts."""
        return self.options.limit_bytes(self.policy)

    @property
    def waiting_bytes(self) -> int:
        """The size of the backlog in memory and on disk."""
        return self.size_bytes + self._spilled_bytes

    @property
    def _spilled_bytes(self) -> int:
        return 0 if self._spill is None else self._spill.size_bytes

    def put(self, one: SharedFrame) -> str:
        """Adds an event; returns the reason to end the client, if there is one."""
        if self.policy is Slow.SPILL and (self._spilled_bytes or self.size_bytes > self.limit_bytes):
            return self._to_disk(one)
        if self.policy is Slow.DROP and one.loss is not None and self._update_dropping():
            self._lose(one.loss)
        else:
            self._keep(one)
        return self._too_much()

    def pop_warning(self) -> int:
        """The limit of which to warn the client now, or 0; the warning then counts as given.

        It is due when half of the limit waits, and again only after the backlog has fallen below a quarter.
        Policy SPILL has two limits.
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
        """The size of the next event, if there is one; an event on disk is loaded first."""
        if not self._events and self._spilled_bytes:
            self._from_disk()
        if not self._events:
            return None
        one = self._events[0]
        return one.cost_bytes if isinstance(one, SharedFrame) else len(self.encode(one.notice))

    def pop(self) -> Parts:
        """Removes and returns the next event."""
        one = self._events.popleft()
        self._release(one)
        self.moved = True
        return self._parts(one)

    def rest(self) -> list[bytes]:
        """All frames in memory, and a gap for those on disk."""
        frames = [b"".join(self._parts(one)) for one in self._events]
        if self._spilled_bytes:
            messages, size_bytes = self._spilled_loss
            frames.append(self.encode(PendingGap(messages, size_bytes, complete=False).notice))
        return frames

    def shed(self) -> None:
        """Drops all messages in memory, to free the common pool."""
        events, self._events = self._events, deque()
        for one in events:
            self._release(one)
            if isinstance(one, PendingGap):
                self._lose(FrameLoss(tuple(one.groups), one.messages, one.size_bytes), one.complete)
            elif one.loss is not None:
                self._lose(one.loss)
            else:
                self._keep(one)

    def close(self) -> None:
        """Releases everything after the client's end."""
        while self._events:
            self._release(self._events.popleft())
        if self._spill is not None:
            self._spill.close()
            self._spill = None

    # In memory.

    def _parts(self, one: SharedFrame | PendingGap) -> Parts:
        return one.parts if isinstance(one, SharedFrame) else (self.encode(one.notice),)

    def _keep(self, one: SharedFrame | PendingGap) -> None:
        self._events.append(one)
        self.size_bytes += one.cost_bytes
        self.messages += one.count
        self.pool.hold(one)

    def _release(self, one: SharedFrame | PendingGap) -> None:
        self.size_bytes -= one.cost_bytes
        self.messages -= one.count
        self.pool.release(one)

    def _too_much(self) -> str:
        limit_bytes = self.limit_bytes * (1 if self.policy is Slow.KICK else 2)
        return f"more than {limit_bytes} bytes wait" if self.size_bytes > limit_bytes else ""

    def _update_dropping(self) -> bool:
        """Begins or ends dropping; few long gaps are better than many short ones."""
        self._drops = self.size_bytes > (self.limit_bytes // 2 if self._drops else self.limit_bytes)
        return self._drops

    def _lose(self, loss: FrameLoss, complete: bool = True) -> None:
        last = self._events[-1] if self._events else None
        if not isinstance(last, PendingGap):
            last = PendingGap()
            self._keep(last)
        last.add(loss)
        last.complete = last.complete and complete

    # On disk.

    def _to_disk(self, one: SharedFrame) -> str:
        try:
            if self._spill is None:
                assert self.spills is not None, "a client that cannot spill is refused"
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
            one = shared_frame(frame, _loss_of(frame))
            self._count(one, -1)
            self._keep(one)

    def _count(self, one: SharedFrame, sign: int) -> None:
        if one.loss is not None:
            self._spilled_loss[0] += sign * one.loss.messages
            self._spilled_loss[1] += sign * one.loss.size_bytes


def _loss_of(frame: bytes) -> FrameLoss | None:
    if kind_of(frame) is not FrameKind.MESSAGES:
        return None
    bundle = decode_delivered(frame[FRAME_HEAD_BYTES:]).bundle
    return FrameLoss(bundle.key.groups, len(bundle), len(bundle.bodies))
