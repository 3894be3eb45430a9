"""Interest: which daemons want the messages of which groups, so that bodies go only where they are wanted.

Implements  thesis 3.4.2, with a cure: announce, then join. A join at a daemon that has told nobody of its
            interest would be owed messages that others had pruned before they heard of it. So a daemon first
            announces its interest to all, with a Safe message; when that is delivered, everybody has received
            it, and whatever was pruned before has a lower place in the order than a join sent now.
Invariants  others take an announcement in when they receive it, before it is delivered, and of each daemon and
            group only the newest; a mask is asked for when the bundle is stamped; while the daemons of a new
            view have not told each other everything, nothing is pruned.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.groups.messages import GroupInterest, decode_group_message
from hopring.groups.payloads import is_group_message, is_interest
from hopring.groups.private_groups import is_private, split_private
from hopring.ids import NEVER, DaemonId, GroupName, Process, SiteId, SiteMask, mask_of
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import MESSAGE_HEAD_BYTES, Message
from hopring.wire.bundle import peek_groups

MASKS_KEPT_MAX: Final = 4_096
ANNOUNCED_MAX: Final = 256
"""Most groups in one word of interest."""


class InterestTable(Destinations):
    """What all daemons have said; the membership asks it where a bundle goes."""

    def __init__(self, me: DaemonId, site_of: Mapping[DaemonId, SiteId], names: Mapping[str, DaemonId]) -> None:
        self._me = me
        self._site_of = dict(site_of)
        self._names = dict(names)
        # By group and daemon the version of the last word; below zero, it was `off`.
        self._said: dict[GroupName, dict[DaemonId, int]] = {}
        self._masks: dict[tuple[GroupName, ...], SiteMask] = {}
        self._agreed = False

    # What the membership asks and tells.

    def mask(self, bundle: bytes, sites: SiteMask) -> SiteMask:
        """The sites of the daemons that want it; words go everywhere."""
        payload = memoryview(bundle)[MESSAGE_HEAD_BYTES:]
        if not self._agreed or is_group_message(payload):
            return sites
        groups = peek_groups(payload)
        mask = self._masks.get(groups)
        if mask is None:
            mask = self._mask_of(groups)
            if len(self._masks) >= MASKS_KEPT_MAX:
                self._masks.clear()
            self._masks[groups] = mask
        return SiteMask(mask & sites)

    def heard(self, message: Message) -> None:
        """Others' interest counts from its receipt."""
        if is_interest(message.payload):
            word = decode_group_message(message.payload, message.service)
            if not isinstance(word, GroupInterest):
                raise PeerError(Drop.INCONSISTENT, "a word that is not what it seems")
            self._apply(message.daemon, word)

    def _mask_of(self, groups: tuple[GroupName, ...]) -> SiteMask:
        sites = {self._site_of[self._me]}  # Where it comes from, it is kept in any case.
        for group in groups:
            if is_private(group):
                daemon = self._names.get(split_private(group)[1])
                sites.update([] if daemon is None else [self._site_of[daemon]])
            else:
                said = self._said.get(group, {})
                sites.update([self._site_of[one] for one, version in said.items() if version >= 0])
        return mask_of(*sites)

    # What the groups tell.

    def delivered(self, daemon: DaemonId, word: GroupInterest) -> None:
        """Nothing older can come from now on, so what is over can be forgotten."""
        self._apply(daemon, word)
        for group in word.off:
            said = self._said.get(GroupName(group), {})
            if said.get(daemon, 0) < 0:
                del said[daemon]
            if not said:
                self._said.pop(GroupName(group), None)

    def _apply(self, daemon: DaemonId, word: GroupInterest) -> None:
        self._masks.clear()
        for group in word.on:
            self._say(daemon, GroupName(group), word.version, word.version)
        for group in word.off:
            self._say(daemon, GroupName(group), word.version, -word.version)

    def _say(self, daemon: DaemonId, group: GroupName, version: int, said: int) -> None:
        by_daemon = self._said.setdefault(group, {})
        if abs(by_daemon.get(daemon, 0)) < version:
            by_daemon[daemon] = said

    def wait(self) -> None:
        """A new view with newcomers: until all have told everything, everybody gets everything."""
        self._agreed = False

    def agree(self, interests: Collection[tuple[Process, int, set[GroupName]]]) -> None:
        """All have told everything; what they said since then is newer and stays."""
        self._agreed = True
        versions = {process.daemon: version for process, version, _ in interests}
        for by_daemon in self._said.values():
            old = [one for one, said in by_daemon.items() if abs(said) <= versions.get(one, NEVER)]
            for daemon in old:
                del by_daemon[daemon]
        for process, version, groups in interests:
            for group in groups:
                self._said.setdefault(group, {}).setdefault(process.daemon, version)
        self._tidy()

    def keep(self, daemons: Collection[DaemonId]) -> None:
        """The others are gone."""
        for by_daemon in self._said.values():
            for daemon in [one for one in by_daemon if one not in daemons]:
                del by_daemon[daemon]
        self._tidy()

    def _tidy(self) -> None:
        self._masks.clear()
        for group in [name for name, by_daemon in self._said.items() if not by_daemon]:
            del self._said[group]


@dataclass(slots=True)
class OwnInterest:
    """What this daemon wants, and what it has told the others of it."""

    linger_us: int
    version: int = 0
    known: set[GroupName] = field(default_factory=set)  # Everybody knows; joins may go.
    announcing: dict[GroupName, int] = field(default_factory=dict)  # With the version of the word.
    wanted: dict[GroupName, None] = field(default_factory=dict)  # To be announced, the oldest first.
    over: dict[GroupName, None] = field(default_factory=dict)  # To be called off.
    # When it is called off, because nobody here needs it; the earliest first, as all linger equally long.
    idle_at_us: dict[GroupName, int] = field(default_factory=dict)

    def want(self, group: GroupName) -> None:
        """Somebody is going to join."""
        self.idle_at_us.pop(group, None)
        self.over.pop(group, None)
        if group not in self.known and group not in self.announcing:
            self.wanted[group] = None

    def word(self) -> GroupInterest | None:
        """What is to be said now, if anything."""
        on = list(self.wanted)[:ANNOUNCED_MAX]
        off = list(self.over)[:ANNOUNCED_MAX]
        if not on and not off:
            return None
        self.version += 1
        for group in on:
            del self.wanted[group]
            self.announcing[group] = self.version
        for group in off:
            del self.over[group]
            self.known.discard(group)
        return GroupInterest(self.version, tuple(on), tuple(off))

    def alone(self) -> list[GroupName]:
        """In a view of one site nothing is pruned and nothing announced; returns what is known by that."""
        out = list(self.wanted)
        self.known.update(out)
        self.known.difference_update(self.over)
        self.wanted.clear()
        self.over.clear()
        return out

    def announced(self, word: GroupInterest) -> list[GroupName]:
        """Everybody has received this word of ours; what it says that is still meant."""
        return [GroupName(name) for name in word.on if self.announcing.get(GroupName(name)) == word.version]

    def told(self) -> set[GroupName]:
        """What GROUPS says: all of it, so an exchange is an announcement too."""
        return self.known | set(self.announcing) | set(self.wanted)

    def agree(self, groups: Collection[GroupName]) -> None:
        """Everybody knows of these."""
        self.known.update(groups)
        for group in groups:
            self.announcing.pop(group, None)
            self.wanted.pop(group, None)

    # Losing interest.

    def idle(self, group: GroupName, now_us: int) -> None:
        """Nobody here needs it; that may not last."""
        if group in self.known or group in self.announcing:
            self.idle_at_us.setdefault(group, now_us + self.linger_us)

    def tick(self, now_us: int) -> None:
        """What was idle for long enough is called off."""
        for group, _ in list(takewhile(lambda one: one[1] <= now_us, self.idle_at_us.items())):
            del self.idle_at_us[group]
            if group in self.known:
                self.over[group] = None
            elif group in self.announcing:
                self.idle(group, now_us)

    @property
    def wake_at_us(self) -> int:
        """When the next group has been idle for long enough."""
        for at_us in self.idle_at_us.values():
            return at_us
        return NEVER
