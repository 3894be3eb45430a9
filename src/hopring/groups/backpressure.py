"""Holding: groups whose senders wait, at all daemons, for receivers that are behind.

A daemon tells the others for which groups it has such receivers (HOLD, by FIFO), and each of them holds back
its own clients' messages for these groups until it hears otherwise.
Invariants  nobody waits for a daemon that is not in the view: what others said is forgotten with each view, and
            who still means it says it again.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from hopring.groups.messages import GroupHold
from hopring.groups.sessions import LocalSessions
from hopring.ids import DaemonId, GroupName

TOLD_MAX: Final = 256
"""Most groups in one word."""


@dataclass(slots=True)
class Backpressure:
    """What receivers here and elsewhere want senders here to wait for."""

    sessions: LocalSessions
    own: Counter[GroupName] = field(default_factory=Counter)  # By group, receivers here that are behind.
    told: set[GroupName] = field(default_factory=set)  # What others have heard of that.
    due: dict[GroupName, None] = field(default_factory=dict)  # What may have to be told.
    others: dict[DaemonId, set[GroupName]] = field(default_factory=dict)

    def hold(self, groups: Collection[GroupName]) -> None:
        """One receiver here is behind in these groups."""
        self.own.update(groups)
        self.due.update(dict.fromkeys(groups))
        self.sessions.block(groups)

    def release(self, groups: Collection[GroupName]) -> None:
        """It is not any more."""
        for group in groups:
            self.own[group] -= 1
            if not self.own[group]:
                del self.own[group]
        self.due.update(dict.fromkeys(groups))
        self.sessions.unblock(groups)

    def word(self) -> GroupHold | None:
        """What is to be told now, if anything."""
        if not self.due:
            return None
        on: list[GroupName] = []
        off: list[GroupName] = []
        while self.due and len(on) + len(off) < TOLD_MAX:
            group = next(iter(self.due))
            del self.due[group]
            if group in self.own and group not in self.told:
                on.append(group)
            elif group in self.told and group not in self.own:
                off.append(group)
        self.told.update(on)
        self.told.difference_update(off)
        return GroupHold(tuple(on), tuple(off)) if on or off else None

    def heard(self, daemon: DaemonId, word: GroupHold) -> None:
        """Receivers at another daemon are behind, or have caught up."""
        held = self.others.setdefault(daemon, set())
        on = {GroupName(group) for group in word.on} - held
        off = {GroupName(group) for group in word.off} & held
        held |= on
        held -= off
        self.sessions.block(on)
        self.sessions.unblock(off)

    def begin(self) -> None:
        """A new view."""
        for held in self.others.values():
            self.sessions.unblock(held)
        self.others.clear()
        self.told.clear()
        self.due = dict.fromkeys(self.own)
