"""The exchange of GROUPS: every daemon of a new view sends the groups of its own sessions.

Implements  thesis 6.4.6, figures 6.23 and 6.24 (ComputeNotify).
Invariants  a daemon's GROUPS counts when all its parts have arrived; the result is a function of the parts
            alone, so it is the same at every daemon.
Deviations  GROUPS carries the id of the last view that was shown, not one overwritten for the exchange, and the
            closing path since a signal in it: two sides that both lost members differ, even if they meet again
            before either was shown anything. A group gets a new view if its members come from different views,
            or if some of them had a signal. That covers lost members: every loss is followed by a view or comes
            after a signal. Without newcomers GROUPS is empty; but a group must not continue before all its
            daemons are known to be in the view: one that drops out may still deliver, in the group's old view,
            messages that are missing here.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.groups.group_table import GroupEntry
from hopring.groups.locks import (
    NO_LOCKS,
    PARTIAL_STEPS_MAX,
    SIDE_MAX,
    STEPS_MAX,
    LockClaim,
    LockReport,
    ReportedLock,
)
from hopring.groups.messages import (
    PARTS_MAX,
    GroupsPart,
    LocalClaim,
    LocalGroup,
    LocalLock,
    LocalMinimum,
    LostMember,
    RetainedEntry,
)
from hopring.groups.minimum import GroupMinimum
from hopring.groups.names import Fence, GroupMember, GroupViewId
from hopring.groups.retained import check_retained
from hopring.ids import DAEMONS_MAX, NUMBER_MAX, DaemonId, GroupName, Incarnation, Process, ViewId

NONCES: Final = 1 << 64
"""The number of incarnations that a view id can name."""

ENTRY_COST_BYTES: Final = 64  # Of a group: its id and the encoding around names.
MEMBER_COST_BYTES: Final = 8
CLAIM_COST_BYTES: Final = 64


class Origin(NamedTuple):
    """The past of members: last view and closing path. Members with equal origins are together."""

    last: GroupViewId
    closing_path: tuple[ViewId, ...]


@dataclass(slots=True)
class MergedGroup:
    """A group merged from the GROUPS of all daemons of the view."""

    name: GroupName
    origins: dict[Origin, set[GroupMember]] = field(default_factory=dict)
    flags: set[bool] = field(default_factory=set)  # Whether its members were last shown a primary view.
    minimum: GroupMinimum | None = None
    suspended: bool = False
    was_suspended: set[bool] = field(default_factory=set)  # As its members were last shown.

    @property
    def changed(self) -> bool:
        """Whether the group's members, or what they know of them, have changed."""
        return len(self.origins) > 1 or any(origin.closing_path for origin in self.origins)

    def needs_view(self, primary: bool) -> bool:
        """Whether the group needs a new view, in a view of daemons that is primary or not."""
        turned = bool(self.was_suspended) and self.was_suspended != {self.suspended}
        return self.changed or self.flags != {primary} or turned

    def judge(self, processes: Collection[Process], primary: bool) -> None:
        """Judges whether the group is suspended in a view of these daemons."""
        if self.minimum is not None:
            self.minimum.meet(processes, self.members)
            self.suspended = not self.minimum.is_met(len(self.members), primary, True)

    def is_torn(self, last: GroupViewId) -> bool:
        """Whether members of this last view have different closing paths."""
        return len([origin for origin in self.origins if origin.last == last]) > 1

    def parting_step(self, origin: Origin) -> int:
        """A step for an origin's parting view: above all last steps, and different for each origin."""
        return max([one.last.step for one in self.origins]) + 1 + sorted(self.origins).index(origin)

    @property
    def members(self) -> set[GroupMember]:
        """All members, of any origin."""
        return {one for members in self.origins.values() for one in members}

    @property
    def sets(self) -> tuple[tuple[GroupMember, ...], ...]:
        """The members by origin, in the same order at all daemons."""
        return tuple([tuple(sorted(self.origins[one])) for one in sorted(self.origins)])

    def together(self, origin: Origin) -> tuple[GroupMember, ...]:
        """The members of one origin."""
        return tuple(sorted(self.origins.get(origin, ())))


@dataclass(slots=True)
class GroupsExchange:
    """The GROUPS messages of one view, as they arrive."""

    view: ViewId
    members: frozenset[Process]
    alike: bool = False  # All come from the same view and know the same: GROUPS are empty.
    parts: dict[Process, dict[int, GroupsPart]] = field(default_factory=dict)
    whole: int = 0  # The number of daemons whose parts have all arrived.

    @property
    def complete(self) -> bool:
        """Whether all parts of all daemons have arrived."""
        return self.whole == len(self.members)

    def add(self, sender: Process, part: GroupsPart) -> None:
        """Adds a part of a daemon's GROUPS; parts for another view are ignored."""
        if part.view != self.view:
            return
        parts = self.parts.get(sender, {})
        first = next(iter(parts.values()), part)
        if sender not in self.members or part.part >= part.parts or part.parts > PARTS_MAX:
            raise PeerError(Drop.INCONSISTENT, f"part {part.part} of {part.parts} of GROUPS")
        same = (first.parts, first.version, first.primary) == (part.parts, part.version, part.primary)
        if not same or first.epoch != part.epoch or part.part in parts:
            raise PeerError(Drop.INCONSISTENT, "parts of GROUPS that do not agree")
        if self.alike and (part.groups or part.interested or part.retained or part.locks or part.minimums):
            raise PeerError(Drop.INCONSISTENT, "GROUPS with groups, in a view whose daemons know the same")
        for entry in part.groups:
            _check_id(entry, self.view)
        for value in part.retained:
            check_retained(value, self.view)
        if len(parts) + 1 == part.parts:
            _check_whole([*parts.values(), part])
            _check_locks([*parts.values(), part])
            _check_minimums([*parts.values(), part])
        parts[part.part] = part
        self.parts[sender] = parts
        if len(parts) == part.parts:
            self.whole += 1

    def merge(self) -> list[MergedGroup]:
        """All groups, sorted by name: the input of ComputeNotify."""
        merged: dict[GroupName, MergedGroup] = {}
        for sender, parts in self.parts.items():
            for part in parts.values():
                for entry in part.groups:
                    group = merged.setdefault(GroupName(entry.group), MergedGroup(GroupName(entry.group)))
                    members = group.origins.setdefault(Origin(entry.id, entry.closing_path), set())
                    group.flags.add(part.primary)
                    for session, name in entry.members:
                        members.add(GroupMember(sender.daemon, name, sender.incarnation, session))
        for sender, parts in self.parts.items():
            names = {one: name for part in parts.values() for e in part.groups for one, name in e.members}
            for minimum in [one for part in parts.values() for one in part.minimums]:
                _merge_minimum(merged[GroupName(minimum.group)], minimum, sender, names)
        return [merged[name] for name in sorted(merged)]

    def retained(self) -> list[RetainedEntry]:
        """The retained values of all daemons, in the same order everywhere."""
        ordered = [parts[at] for _, parts in sorted(self.parts.items()) for at in sorted(parts)]
        return [value for part in ordered for value in part.retained]

    def locks(self) -> list[LockReport]:
        """The locks as each daemon reports them."""
        out: list[LockReport] = []
        for sender, parts in sorted(self.parts.items()):
            first = next(iter(parts.values()))
            names = {one: name for part in parts.values() for e in part.groups for one, name in e.members}
            reported: list[ReportedLock] = []
            for entry in [one for part in parts.values() for one in part.locks]:
                claims = [
                    LockClaim(
                        one.place,
                        GroupMember(sender.daemon, names[one.session], sender.incarnation, one.session),
                        one.serial,
                        one.partial,
                    )
                    for one in entry.claims
                ]
                key = GroupName(entry.group), entry.lock
                reported.append(ReportedLock(key, tuple(claims), entry.held, entry.lapsing, entry.free))
            out.append(LockReport(first.epoch, tuple(reported)))
        return out

    def interests(self) -> list[tuple[Process, int, set[GroupName]]]:
        """For each daemon, the version of its interest and the groups whose messages it wants."""
        out: list[tuple[Process, int, set[GroupName]]] = []
        for sender, parts in sorted(self.parts.items()):
            wanted: set[GroupName] = set()
            for part in parts.values():
                wanted.update([GroupName(entry.group) for entry in part.groups])
                wanted.update([GroupName(name) for name in part.interested])
            out.append((sender, next(iter(parts.values())).version, wanted))
        return out


def _check_id(entry: LocalGroup, view: ViewId) -> None:
    """Checks the id of a last view and its closing path: clients see them, and ids computed from them."""
    views = (entry.id.view, *entry.id.path, *entry.closing_path)
    if not all(_is_view_id(one) for one in views) or not 0 <= entry.id.step <= NUMBER_MAX:
        raise PeerError(Drop.LIMIT, f"GROUPS with the id {entry.id} of a group view")
    if entry.id.view == view:
        raise PeerError(Drop.INCONSISTENT, "GROUPS with a group view of the view that begins")


def _is_view_id(one: ViewId) -> bool:
    counts = 0 <= one.counter <= NUMBER_MAX and 0 <= one.representative < DAEMONS_MAX
    return counts and 0 <= one.nonce < NONCES


def _check_whole(parts: Iterable[GroupsPart]) -> None:
    """Checks that all parts of one daemon's GROUPS fit together: a group has one past, a session one name."""
    origins: dict[str, Origin] = {}
    names: dict[int, str] = {}
    numbers: dict[str, int] = {}
    members: set[tuple[str, int]] = set()
    for entry in [one for part in parts for one in part.groups]:
        origin = Origin(entry.id, entry.closing_path)
        if origins.setdefault(entry.group, origin) != origin:
            raise PeerError(Drop.INCONSISTENT, f"two last views of {entry.group!r} at one daemon")
        for session, name in entry.members:
            if names.setdefault(session, name) != name or numbers.setdefault(name, session) != session:
                raise PeerError(Drop.INCONSISTENT, f"session {session} and the name {name!r} do not match")
            if (entry.group, session) in members:
                raise PeerError(Drop.INCONSISTENT, f"session {session} is twice in {entry.group!r}")
            members.add((entry.group, session))


def _check_locks(parts: Iterable[GroupsPart]) -> None:
    """Checks the locks of one daemon's GROUPS: members claim them, and locks and claims are named once."""
    whole = list(parts)
    members = {
        (entry.group, session) for part in whole for entry in part.groups for session, _ in entry.members
    }
    named: set[tuple[str, str]] = set()
    claims: set[tuple[int, int]] = set()
    for entry in [one for part in whole for one in part.locks]:
        if (entry.group, entry.lock) in named or (entry.held is not None and not entry.claims):
            raise PeerError(Drop.INCONSISTENT, f"GROUPS with the lock {entry.lock!r} twice, or held by nobody")
        named.add((entry.group, entry.lock))
        if entry.held is not None and not _is_fence(entry.held, whole[0].epoch):
            raise PeerError(Drop.LIMIT, f"GROUPS with the fence {entry.held}")
        for one in entry.claims:
            if (entry.group, one.session) not in members or (one.session, one.serial) in claims:
                raise PeerError(Drop.INCONSISTENT, f"a claim of {entry.lock!r} by session {one.session}")
            if not _is_view_id(one.place.view) or not 0 <= one.place.lts <= NUMBER_MAX:
                raise PeerError(Drop.LIMIT, f"GROUPS with the place {one.place} of a claim")
            claims.add((one.session, one.serial))


def _check_minimums(parts: Iterable[GroupsPart]) -> None:
    """Checks the minimums of one daemon's GROUPS: they are of groups and sessions that it reports."""
    whole = list(parts)
    members = {
        (entry.group, session) for part in whole for entry in part.groups for session, _ in entry.members
    }
    groups = {group for group, _ in members}
    stated: set[tuple[str, int]] = set()
    suspended: dict[str, bool] = {}
    for entry in [one for part in whole for one in part.minimums]:
        if entry.group not in groups or suspended.setdefault(entry.group, entry.suspended) != entry.suspended:
            raise PeerError(Drop.INCONSISTENT, f"GROUPS with a minimum of {entry.group!r} that does not fit")
        for session, minimum in entry.stated:
            if (entry.group, session) not in members or (entry.group, session) in stated or minimum <= 1:
                raise PeerError(Drop.INCONSISTENT, f"a minimum of {minimum} by session {session}")
            stated.add((entry.group, session))
        for one in entry.lost:
            if one.daemon >= DAEMONS_MAX:
                raise PeerError(Drop.LIMIT, f"GROUPS with a lost member at daemon {one.daemon}")


def _merge_minimum(group: MergedGroup, entry: LocalMinimum, sender: Process, names: dict[int, str]) -> None:
    """Adds what one daemon says of the minimum of a group."""
    if group.minimum is None:
        group.minimum = GroupMinimum()
    group.was_suspended.add(entry.suspended)
    for session, minimum in entry.stated:
        member = GroupMember(sender.daemon, names[session], sender.incarnation, session)
        group.minimum.stated[member] = minimum
    for one in entry.lost:
        lost = GroupMember(DaemonId(one.daemon), one.name, Incarnation(one.incarnation), one.session)
        group.minimum.lost[lost] = one.minimum


def _is_fence(fence: Fence, epoch: int) -> bool:
    if fence.partial:
        return 0 < fence.epoch <= SIDE_MAX and 0 < fence.step <= PARTIAL_STEPS_MAX
    return 0 < fence.epoch <= epoch and 0 < fence.step <= STEPS_MAX


PackedPart = tuple[list[LocalGroup], list[str], list[LocalLock], list[LocalMinimum]]


def groups_parts(
    view: ViewId,
    me: Process,
    groups: Iterable[GroupEntry],
    interested: Collection[GroupName],
    version: int,
    bytes_max: int,
    primary: bool,
    locks: LockReport = NO_LOCKS,
) -> list[GroupsPart]:
    """This daemon's GROUPS, in parts of about `bytes_max`."""
    packed: list[PackedPart] = [([], [], [], [])]
    left_bytes = bytes_max

    def part_for(cost_bytes: int) -> PackedPart:
        nonlocal left_bytes
        if cost_bytes > left_bytes and any(packed[-1]):
            packed.append(([], [], [], []))
            left_bytes = bytes_max
        left_bytes -= cost_bytes
        return packed[-1]

    known: set[GroupName] = set()
    for group in groups:
        if not group.local:
            continue
        known.add(group.name)
        local = [(one.session, one.name) for one in sorted(group.members) if one.process == me]
        for some in _chunks(local, bytes_max):
            entry = LocalGroup(group.name, group.id, group.closing_path, tuple(some))
            part_for(_cost(group.name) + sum([MEMBER_COST_BYTES + _cost(name) for _, name in some]))[0].append(
                entry
            )
        for minimum in _local_minimums(group, me, bytes_max):
            size = len(minimum.stated) + len(minimum.lost)
            part_for(_cost(group.name) + CLAIM_COST_BYTES * size)[3].append(minimum)
    for name in sorted(set(interested) - known):
        part_for(_cost(name))[1].append(name)
    for lock in locks.locks:
        part_for(_cost(lock.key[0]) + _cost(lock.key[1]) + CLAIM_COST_BYTES * len(lock.claims))[2].append(
            _local_lock(lock)
        )
    return [
        GroupsPart(
            view,
            at,
            len(packed),
            version,
            tuple(entries),
            tuple(names),
            primary,
            epoch=locks.epoch,
            locks=tuple(held),
            minimums=tuple(minimums),
        )
        for at, (entries, names, held, minimums) in enumerate(packed)
    ]


def _local_lock(lock: ReportedLock) -> LocalLock:
    claims = [LocalClaim(one.member.session, one.serial, one.partial, one.place) for one in lock.claims]
    return LocalLock(*lock.key, tuple(claims), lock.fence, lock.lapsing, lock.free)


def _local_minimums(group: GroupEntry, me: Process, bytes_max: int) -> list[LocalMinimum]:
    """What this daemon says of a group's minimum; none if nobody stated one."""
    minimum = group.minimum
    if minimum is None:
        return []
    stated = [(one.session, number) for one, number in sorted(minimum.stated.items()) if one.process == me]
    lost = [
        LostMember(one.daemon, one.name, one.incarnation, one.session, number)
        for one, number in sorted(minimum.lost.items())
    ]
    most = max(1, bytes_max // (2 * CLAIM_COST_BYTES))
    starts = range(0, max(len(stated), len(lost), 1), most)
    return [
        LocalMinimum(group.name, group.suspended, tuple(stated[at : at + most]), tuple(lost[at : at + most]))
        for at in starts
    ]


def _cost(name: str) -> int:
    return ENTRY_COST_BYTES + len(name.encode())


def _chunks(local: list[tuple[int, str]], bytes_max: int) -> list[list[tuple[int, str]]]:
    """Splits the members of one group, which may not fit into one part."""
    most = max(1, bytes_max // (2 * (MEMBER_COST_BYTES + ENTRY_COST_BYTES * 2)))
    return [local[at : at + most] for at in range(0, len(local), most)]
