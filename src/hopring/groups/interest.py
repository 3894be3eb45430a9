"""Interest: the groups whose messages each daemon wants, so that bodies are sent only to sites that want them.

Implements  thesis 3.4.2, with a correction: announce, then join. Without an announcement a joiner would be owed
            messages that others had pruned before they knew of the join. So a daemon first announces its
            interest to all by a Safe message. When that is delivered, all daemons have received it, and every
            bundle pruned before has a lower place in the order than a join sent now.
Invariants  others apply an announcement when they receive it, before it is delivered, and of each daemon and
            group only the newest; the mask is computed when the bundle is stamped; nothing is pruned until the
            daemons of a new view have exchanged all their interests.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.groups.messages import ANNOUNCED_MAX, GroupInterest, decode_group_message
from hopring.groups.payloads import is_group_message, is_interest
from hopring.groups.private_groups import is_private, split_private
from hopring.ids import NEVER, DaemonId, GroupName, Process, SiteId, SiteMask, mask_of
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import OrderedMessage, payload_of
from hopring.wire.bundle import is_retained, peek_groups

MASKS_KEPT_MAX: Final = 4_096
VERSIONS_AHEAD_MAX: Final = 1 << 16
"""How far an INTEREST may be ahead of the daemon's last known one; its window admits far fewer in transit."""

IDLE_MAX: Final = 4_096
"""Groups without local members whose interest lingers; one more withdraws the oldest, so that clients that join
and leave other groups all the time do not fill the tables of all daemons."""


class InterestTable(Destinations):
    """The interests of all daemons; the engine asks it, as `Destinations`, for the sites of a bundle."""

    def __init__(self, me: DaemonId, site_of: Mapping[DaemonId, SiteId], names: Mapping[str, DaemonId]) -> None:
        self._me = me
        self._site_of = dict(site_of)
        self._names = dict(names)
        # By group and daemon, the version of the last announcement; negative if it was `off`.
        self._versions: dict[GroupName, dict[DaemonId, int]] = {}
        self._latest: dict[DaemonId, int] = {}  # The highest version of each daemon's interest.
        self._masks: dict[tuple[GroupName, ...], SiteMask] = {}
        self._agreed = False

    # Called by the engine, as `Destinations`: by its stamps, and when a message arrives.

    def mask(self, bundle: bytes, sites: SiteMask) -> SiteMask:
        """The sites of the daemons that want a bundle; group messages and retained ones go to all sites."""
        payload = payload_of(bundle)
        if not self._agreed or is_group_message(payload) or is_retained(payload):
            return sites
        groups = peek_groups(payload)
        mask = self._masks.get(groups)
        if mask is None:
            mask = self._mask_of(groups)
            if len(self._masks) >= MASKS_KEPT_MAX:
                self._masks.clear()
            self._masks[groups] = mask
        return SiteMask(mask & sites)

    def heard(self, message: OrderedMessage) -> None:
        """Applies another daemon's INTEREST as soon as it is received.

        A wrong one changes nothing here and takes its place in the order, since a missing bundle would stop all
        later ones. It is refused and counted when it is delivered.
        """
        if not is_interest(message.payload):
            return
        try:
            interest = decode_group_message(message.payload, message.service)
            if isinstance(interest, GroupInterest):
                self._apply(message.daemon, interest)
        except PeerError:
            return

    def _mask_of(self, groups: tuple[GroupName, ...]) -> SiteMask:
        sites = {self._site_of[self._me]}  # The sender's own site always keeps the body.
        for group in groups:
            if is_private(group):
                daemon = self._names.get(split_private(group)[1])
                sites.update([] if daemon is None else [self._site_of[daemon]])
            else:
                by_daemon = self._versions.get(group, {})
                sites.update([self._site_of[one] for one, version in by_daemon.items() if version >= 0])
        return mask_of(*sites)

    # Called by the groups.

    def delivered(self, daemon: DaemonId, message: GroupInterest) -> None:
        """An INTEREST is delivered: no older one can follow, so entries that are `off` are removed."""
        self._apply(daemon, message)
        for group in message.off:
            by_daemon = self._versions.get(GroupName(group), {})
            if by_daemon.get(daemon, 0) < 0:
                del by_daemon[daemon]
            if not by_daemon:
                self._versions.pop(GroupName(group), None)

    def _apply(self, daemon: DaemonId, message: GroupInterest) -> None:
        latest = self._latest.get(daemon, message.version)
        if message.version > latest + VERSIONS_AHEAD_MAX:
            raise PeerError(Drop.OUT_OF_WINDOW, f"INTEREST {message.version} of daemon {daemon} after {latest}")
        self._latest[daemon] = max(latest, message.version)
        self._masks.clear()
        for group in message.on:
            self._set_version(daemon, GroupName(group), message.version, message.version)
        for group in message.off:
            self._set_version(daemon, GroupName(group), message.version, -message.version)

    def _set_version(self, daemon: DaemonId, group: GroupName, version: int, signed: int) -> None:
        by_daemon = self._versions.setdefault(group, {})
        if abs(by_daemon.get(daemon, 0)) < version:
            by_daemon[daemon] = signed

    def stop_pruning(self) -> None:
        """A new view with newcomers: nothing is pruned until `agree`."""
        self._agreed = False

    def agree(self, interests: Collection[tuple[Process, int, set[GroupName]]]) -> None:
        """All daemons of the view have sent their interests; newer announcements stay."""
        self._agreed = True
        versions = {process.daemon: version for process, version, _ in interests}
        self._latest.update(versions)
        for by_daemon in self._versions.values():
            old = [one for one, version in by_daemon.items() if abs(version) <= versions.get(one, NEVER)]
            for daemon in old:
                del by_daemon[daemon]
        for process, version, groups in interests:
            for group in groups:
                self._versions.setdefault(group, {}).setdefault(process.daemon, version)
        self._tidy()

    def keep(self, daemons: Collection[DaemonId]) -> None:
        """Removes the interests of all other daemons."""
        self._latest = {one: version for one, version in self._latest.items() if one in daemons}
        for by_daemon in self._versions.values():
            for daemon in [one for one in by_daemon if one not in daemons]:
                del by_daemon[daemon]
        self._tidy()

    def _tidy(self) -> None:
        self._masks.clear()
        for group in [name for name, by_daemon in self._versions.items() if not by_daemon]:
            del self._versions[group]


@dataclass(slots=True)
class OwnInterest:
    """This daemon's interest, and the part of it that is announced."""

    linger_us: int
    version: int = 0
    known: set[GroupName] = field(default_factory=set)  # Known to all daemons: joins may be sent.
    announcing: dict[GroupName, int] = field(default_factory=dict)  # With the version of the INTEREST sent.
    to_announce: dict[GroupName, None] = field(default_factory=dict)  # The oldest first.
    to_withdraw: dict[GroupName, None] = field(default_factory=dict)
    # When unused interest is withdrawn; sorted, as all linger equally long.
    idle_at_us: dict[GroupName, int] = field(default_factory=dict)

    def want(self, group: GroupName) -> None:
        """A session is going to join this group."""
        self.idle_at_us.pop(group, None)
        self.to_withdraw.pop(group, None)
        if group not in self.known and group not in self.announcing:
            self.to_announce[group] = None

    def next_message(self) -> GroupInterest | None:
        """The next INTEREST to send, if anything changed."""
        on = list(self.to_announce)[:ANNOUNCED_MAX]
        off = list(self.to_withdraw)[:ANNOUNCED_MAX]
        if not on and not off:
            return None
        self.version += 1
        for group in on:
            del self.to_announce[group]
            self.announcing[group] = self.version
        for group in off:
            del self.to_withdraw[group]
            self.known.discard(group)
        return GroupInterest(self.version, tuple(on), tuple(off))

    def agree_alone(self) -> list[GroupName]:
        """Agrees in a view of one site, where nothing is pruned or announced; returns the new groups."""
        out = list(self.to_announce)
        self.known.update(out)
        self.known.difference_update(self.to_withdraw)
        self.to_announce.clear()
        self.to_withdraw.clear()
        return out

    def announced(self, message: GroupInterest) -> list[GroupName]:
        """The groups of this INTEREST of ours, received by all, whose announcement is still current."""
        return [
            GroupName(name) for name in message.on if self.announcing.get(GroupName(name)) == message.version
        ]

    def for_exchange(self) -> set[GroupName]:
        """The groups of interest to send in GROUPS: an exchange announces them too."""
        return self.known | set(self.announcing) | set(self.to_announce)

    def agree(self, groups: Collection[GroupName]) -> None:
        """All daemons know of the interest in these groups."""
        self.known.update(groups)
        for group in groups:
            self.announcing.pop(group, None)
            self.to_announce.pop(group, None)

    # Withdrawal.

    def idle(self, group: GroupName, now_us: int) -> None:
        """No session here needs the group: its interest is withdrawn after `linger_us`."""
        if group in self.known or group in self.announcing:
            self.idle_at_us.setdefault(group, now_us + self.linger_us)
            if len(self.idle_at_us) > IDLE_MAX:
                self._withdraw_oldest()

    def _withdraw_oldest(self) -> None:
        for group in self.idle_at_us:
            if group in self.known:
                del self.idle_at_us[group]
                self.to_withdraw[group] = None
                return

    def tick(self, now_us: int) -> None:
        """Withdraws the interests that were idle for `linger_us`."""
        for group, _ in list(takewhile(lambda one: one[1] <= now_us, self.idle_at_us.items())):
            del self.idle_at_us[group]
            if group in self.known:
                self.to_withdraw[group] = None
            elif group in self.announcing:
                self.idle(group, now_us)

    @property
    def wake_at_us(self) -> int:
        """When the next interest is withdrawn."""
        for at_us in self.idle_at_us.values():
            return at_us
        return NEVER
