"""Held: a frame that waits for clients, kept once for however many; and the gap that stands for missing ones.

Invariant   the pool's size is the sum of the costs of all frames that somebody holds, each counted once.
"""

from dataclasses import dataclass, field
from typing import Final, final

from hopring.ids import GroupName
from hopring.session.words import Gap
from hopring.value import Value

GAP_GROUPS_MAX: Final = 32
GAP_COST_BYTES: Final = 4096
"""What a gap counts for while it waits; its groups are named up to a number."""


@final
class Loss(Value):
    """What a client is without if it does not get a frame."""

    def __init__(self, groups: tuple[GroupName, ...], messages: int, size_bytes: int) -> None:
        self.groups: Final = groups
        self.messages: Final = messages
        self.size_bytes: Final = size_bytes


Parts = tuple[bytes | memoryview, ...]
"""A frame in pieces that lie end to end on the wire: a long bundle is sent from where it is."""


@final
class Held:
    """A frame."""

    def __init__(self, parts: Parts, cost_bytes: int, loss: Loss | None = None, holders: int = 0) -> None:
        self.parts = parts
        self.cost_bytes = cost_bytes  # Its length; what it counts for.
        self.loss = loss  # None: it must not be dropped.
        self.holders = holders

    @property
    def frame(self) -> bytes:
        """In one piece."""
        return b"".join(self.parts)

    @property
    def count(self) -> int:
        """How many messages it is; anything else is one."""
        return 1 if self.loss is None else self.loss.messages


def held(frame: bytes, loss: Loss | None = None) -> Held:
    """A frame that is in one piece."""
    return Held((frame,), len(frame), loss)


@dataclass(slots=True, eq=False)
class Missing:
    """A gap, which grows until it leaves."""

    messages: int = 0
    size_bytes: int = 0
    groups: dict[GroupName, None] = field(default_factory=dict)
    complete: bool = True  # All groups are named.
    holders: int = 0

    @property
    def cost_bytes(self) -> int:
        """What it counts for."""
        return GAP_COST_BYTES

    @property
    def count(self) -> int:
        """As a message."""
        return 1

    @property
    def word(self) -> Gap:
        """As it stands now."""
        return Gap(self.messages, self.size_bytes, tuple(self.groups), self.complete)

    def add(self, loss: Loss) -> None:
        """One more bundle is missing here."""
        self.messages += loss.messages
        self.size_bytes += loss.size_bytes
        for group in loss.groups:
            if len(self.groups) < GAP_GROUPS_MAX:
                self.groups[group] = None
            elif group not in self.groups:
                self.complete = False


@dataclass(slots=True)
class Pool:
    """The memory of all backlogs of a daemon."""

    size_bytes: int = 0

    def hold(self, one: Held | Missing) -> None:
        """One more waits for it."""
        if not one.holders:
            self.size_bytes += one.cost_bytes
        one.holders += 1

    def release(self, one: Held | Missing) -> None:
        """One less does."""
        one.holders -= 1
        if not one.holders:
            self.size_bytes -= one.cost_bytes
