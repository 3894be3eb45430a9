"""Views of a group from the lists of its ring.

Invariants  views of the same list are equal at all members: their members have the order of the list, and their
            id is that of the list. Members without a name are not shown.
Deviations  the thesis compares daemons by their numbers; processes have none in common, so ids of views name
            the epoch by the version of its ballot and by a hash of it.
"""

from hopring.groups.events import Cause, GroupView
from hopring.groups.names import GroupMember, GroupViewId
from hopring.ids import DaemonId, GroupName, Incarnation, ViewId
from hopring.rmp.events import ListCause, ListInstalled
from hopring.rmp.process.numbers import ProcessNumbers
from hopring.wire.rmp.ids import Ballot, ListMembership
from hopring.wire.rmp.lists import MINIMUM_MAJORITY, ListMember, PeerList


def view_id_of(epoch: Ballot) -> ViewId:
    """The id of an epoch as a view of all processes in it."""
    return ViewId(epoch.version, DaemonId(0), Incarnation(int(epoch.generation)))


def too_few(members: PeerList) -> bool:
    """Whether a list has fewer members with names than one of them wants: ordered delivery waits."""
    wanted = members.minimum
    return 1 < wanted < MINIMUM_MAJORITY and sum([bool(one.name) for one in members.members]) < wanted


class ListViews:
    """Makes the views of one group at one process."""

    def __init__(self, group: GroupName, numbers: ProcessNumbers) -> None:
        self._group = group
        self._numbers = numbers
        self._known: dict[ListMembership, GroupMember] = {}  # Of the last list and the one before.
        self.shown: GroupView | None = None
        """The last view that the session was shown in this stay."""

    def members_of(self, members: PeerList) -> tuple[GroupMember, ...]:
        """The members that views show, in the order of the list."""
        return tuple([self._member(one) for one in members.members if one.name])

    def member(self, one: ListMember) -> GroupMember | None:
        """A member of a list; None for one that only sends."""
        return self._member(one) if one.name else None

    def _member(self, one: ListMember) -> GroupMember:
        member = self._numbers.member(one.process, one.name)
        self._known[one.membership] = member
        return member

    def signal(self, members: PeerList, together: frozenset[ListMembership]) -> tuple[GroupMember, ...]:
        """The members that stay together when a list closes."""
        return tuple([self._member(one) for one in members.members if one.name and one.membership in together])

    def view(self, event: ListInstalled, me: ListMembership, back: bool) -> GroupView | None:
        """The view of a new list; None if the session sees no difference.

        `back`: the member comes back to a ring that has gone on without it, so it is together with nobody.
        """
        before, members = dict(self._known), self.members_of(event.list)
        present = [one for one in event.list.members if one.name]
        together = tuple([self._member(one) for one in present if one.membership in event.together])
        self._known = {one.membership: self._member(one) for one in present}
        who = None if event.who is None else self._known.get(event.who, before.get(event.who))
        own = self._known.get(me)
        cause, same = Cause.NETWORK, False
        sets: tuple[tuple[GroupMember, ...], ...] = (together,)
        if back and own is not None:
            who, together = None, (own,)
            others = tuple([one for one in members if one != own])
            sets = ((own,), others) if others else ((own,),)
        elif event.cause is ListCause.FAILURE:
            who = None
        elif event.cause is not ListCause.LOCK and who is not None:
            cause, sets = Cause.JOIN if event.cause is ListCause.JOIN else Cause.LEAVE, ()
        elif self._shows(members, event.primary):
            return None  # A lock, or a process that only sends.
        else:
            who, same = None, True
        list_id = event.list.id
        view_id = GroupViewId(view_id_of(list_id.epoch), (), list_id.timestamp)
        parts = self._group, view_id, members, together, cause, who, sets
        minimum, few = event.list.minimum, too_few(event.list)
        self.shown = GroupView(*parts, event.primary, same, few, minimum if minimum > 1 else 0)
        return self.shown

    def _shows(self, members: tuple[GroupMember, ...], primary: bool) -> bool:
        """Whether the last view shows just this."""
        return self.shown is not None and (self.shown.members, self.shown.primary) == (members, primary)
