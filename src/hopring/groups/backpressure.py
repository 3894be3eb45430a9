"""Backpressure: senders at all daemons wait for receivers that have fallen behind.

A daemon announces the groups with such receivers to the others (HOLD, FIFO); each of them holds back its own
clients' messages for these groups until the daemon releases them.
Invariants  no sender waits for a daemon outside of the view: each view starts without holds of others, and
            daemons that still have receivers behind announce them again.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.groups.messages import HELD_MAX, GroupHold
from hopring.groups.sessions import LocalSessions
from hopring.ids import DaemonId, GroupName

HELD_BY_DAEMON_MAX: Final = 1 << 16
"""Limit of the groups that senders hold back for one other daemon."""


@dataclass(slots=True)
class Backpressure:
    """The groups that senders at this daemon wait for, because of receivers here or elsewhere."""

    sessions: LocalSessions
    own: Counter[GroupName] = field(default_factory=Counter)  # By group, the receivers here that are behind.
    announced: set[GroupName] = field(default_factory=set)  # The groups that other daemons hold for this one.
    due: dict[GroupName, None] = field(default_factory=dict)  # Groups whose state may have changed since.
    others: dict[DaemonId, set[GroupName]] = field(default_factory=dict)  # Groups held by other daemons.

    def block(self, groups: Collection[GroupName]) -> None:
        """A receiver here has fallen behind in these groups."""
        self.own.update(groups)
        self.due.update(dict.fromkeys(groups))
        self.sessions.block(groups)

    def unblock(self, groups: Collection[GroupName]) -> None:
        """A receiver here has caught up in these groups."""
        for group in groups:
            self.own[group] -= 1
            if not self.own[group]:
                del self.own[group]
        self.due.update(dict.fromkeys(groups))
        self.sessions.unblock(groups)

    def next_message(self) -> GroupHold | None:
        """The next HOLD to send, if anything changed."""
        if not self.due:
            return None
        on: list[GroupName] = []
        off: list[GroupName] = []
        while self.due and len(on) + len(off) < HELD_MAX:
            group = next(iter(self.due))
            del self.due[group]
            if group in self.own and group not in self.announced:
                on.append(group)
            elif group in self.announced and group not in self.own:
                off.append(group)
        self.announced.update(on)
        self.announced.difference_update(off)
        return GroupHold(tuple(on), tuple(off)) if on or off else None

    def apply(self, daemon: DaemonId, message: GroupHold) -> None:
        """Applies a HOLD of another daemon."""
        held = self.others.get(daemon, set())
        on = {GroupName(group) for group in message.on} - held
        off = {GroupName(group) for group in message.off} & held
        if len(held) + len(on) > HELD_BY_DAEMON_MAX:
            raise PeerError(Drop.LIMIT, f"daemon {daemon} holds {len(held) + len(on)} groups")
        self.others[daemon] = held
        held |= on
        held -= off
        self.sessions.block(on)
        self.sessions.unblock(off)

    def begin(self) -> None:
        """A new view begins: holds of others end, own ones are announced again."""
        for held in self.others.values():
            self.sessions.unblock(held)
        self.others.clear()
        self.announced.clear()
        self.due = dict.fromkeys(self.own)
