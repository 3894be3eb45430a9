"""Reach: who hears whom among the daemons of one site, as far as they said so lately.

Implements  what the thesis takes for granted in 6.1.6: that the daemons of a site all hear each other.
Above       the search, which takes into a view only daemons of a site that hear each other in pairs: a ring
            goes through every pair.
Invariants  a pair hears each other only if both say so, and not longer ago than `fresh_us`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hopring.ids import DaemonId, Process
from hopring.membership.words import Alive, Join


@dataclass(slots=True)
class Reach:
    """What one daemon knows of its site; it outlives searches and views."""

    me: Process
    others: tuple[DaemonId, ...]  # Of the site, sorted.
    fresh_us: int
    heard_at_us: dict[DaemonId, int] = field(default_factory=dict)
    said: dict[DaemonId, dict[DaemonId, int]] = field(default_factory=dict)  # Who says it hears whom, and when.

    def take(self, word: Alive | Join, now_us: int) -> None:
        """A daemon is heard; ALIVE says whom it hears, and a search that speaks for me hears me."""
        sender = word.sender.daemon
        if sender not in self.others:
            return
        if isinstance(word, Alive):
            hears = [DaemonId(one) for one in word.hears]
        else:
            hears = [self.me.daemon] if not word.active and self.me in word.records[0].members else []
        self.heard_at_us[sender] = now_us
        self.said.setdefault(sender, {}).update(dict.fromkeys(hears, now_us))

    def forget(self, daemon: DaemonId) -> None:
        """This one is gone."""
        self.heard_at_us.pop(daemon, None)
        self.said.pop(daemon, None)

    def hears(self, now_us: int) -> tuple[DaemonId, ...]:
        """Whom this daemon hears."""
        return tuple(one for one in self.others if self.says(self.me.daemon, one, now_us))

    def says(self, one: DaemonId, other: DaemonId, now_us: int) -> bool:
        """Whether the first says that it hears the other."""
        return now_us - self._at_us(one, other) <= self.fresh_us

    def mutual(self, one: DaemonId, other: DaemonId, now_us: int) -> bool:
        """Whether these two hear each other."""
        return self.says(one, other, now_us) and self.says(other, one, now_us)

    def unsure(self, now_us: int) -> tuple[DaemonId, ...]:
        """Those of whom this daemon does not know, or will soon not know, that they hear each other."""
        since_us = now_us - self.fresh_us // 2
        return tuple(
            one
            for one in self.others
            if min(self._at_us(self.me.daemon, one), self._at_us(one, self.me.daemon)) < since_us
        )

    def pairwise(self, daemons: Iterable[DaemonId], now_us: int) -> list[DaemonId]:
        """Of these daemons and this one, those that all hear each other; in a conflict the lower ones."""
        chosen = [self.me.daemon]
        for one in sorted(daemons):
            if one != self.me.daemon and all(self.mutual(one, other, now_us) for other in chosen):
                chosen.append(one)
        return chosen

    def _at_us(self, one: DaemonId, other: DaemonId) -> int:
        """When the first last heard the other, as far as is known."""
        never_us = -2 * self.fresh_us
        if one == self.me.daemon:
            return self.heard_at_us.get(other, never_us)
        return self.said.get(one, {}).get(other, never_us)
