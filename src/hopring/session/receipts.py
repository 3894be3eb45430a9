"""Receipts: a client that asks for one is told where its message stands in the order, member or not.

It asks with a ticket from 1 to 255 in the message's hints, which travel with the bundle. A daemon delivers
what its own sessions send, whoever is a member; so when a bundle comes back to where it was sent, its tickets
are read from it. A receipt also counts the sessions that were members of the message's groups at this place.
The table of groups knows them, but for the private groups of other daemons: each of those daemons tells which
of them were there (PRESENT), and the receipt waits for it.

Invariants  a receipt waits as long as the view is open and no longer: once it closes, who has not told is not
            known, and the count is None.
"""

from dataclasses import dataclass
from itertools import chain

from hopring.groups.events import PresenceReport
from hopring.groups.groups import Groups, GroupsState
from hopring.groups.names import GroupMember
from hopring.groups.payloads import unseal
from hopring.groups.private_groups import is_private, split_private
from hopring.ids import GroupName, Process
from hopring.membership.events import Delivered
from hopring.ordering.entry import Position
from hopring.session.place import Place
from hopring.session.words import Receipt
from hopring.wire.bundle import decode_bundle


@dataclass(slots=True)
class Counting:
    """The receipt of a bundle, until all daemons with private groups among its groups have told."""

    place: Place
    closing: bool
    groups: tuple[GroupName, ...]  # Of the bundle.
    tickets: list[tuple[int, tuple[GroupName, ...]]]  # With the groups of the message.
    members: dict[GroupName, set[GroupMember]]  # Of the groups of messages with tickets.
    missing: dict[GroupName, Process]  # Private groups of which nothing is told, and who has to tell it.

    def receipt(self) -> Receipt:
        """As far as all is known."""
        counts = [self._count(groups) for _, groups in self.tickets]
        return Receipt(tuple([ticket for ticket, _ in self.tickets]), self.place, self.closing, tuple(counts))

    def _count(self, groups: tuple[GroupName, ...]) -> int | None:
        if any(group in self.missing for group in groups):
            return None
        if len(groups) == 1:
            return len(self.members[groups[0]])
        return len(set(chain.from_iterable([self.members[group] for group in groups])))


class Receipts:
    """The receipts of one daemon's sessions."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._waiting: dict[tuple[int, Position], Counting] = {}

    def delivered(self, event: Delivered) -> Receipt | None:
        """The receipt for a session's own bundle, if it asked for one and all is known."""
        _, payload = unseal(event.message.payload)
        bundle = decode_bundle(payload)
        hints = bundle.hints.tolist()
        tickets = [(hint, bundle.groups_of(at)) for at, hint in enumerate(hints) if hint]
        if not tickets:
            return None
        place = Place(event.view, *event.position)
        closing = self._groups.state in (GroupsState.GTRANS, GroupsState.GGT)
        counting = Counting(place, closing, bundle.run.groups, tickets, {}, {})
        for _, groups in tickets:
            for group in groups:
                self._look(counting, group)
        # Others may never get a loose message, so that they would not tell.
        if not counting.missing or bundle.run.service.loose or self._groups.state is not GroupsState.GOP:
            return counting.receipt()
        # As they are now: the table goes on.
        counting.members = {group: set(members) for group, members in counting.members.items()}
        self._waiting[event.message.session, event.position] = counting
        return None

    def _look(self, counting: Counting, group: GroupName) -> None:
        if group in counting.members:
            return
        if not is_private(group):
            found = self._groups.table.groups.get(group)
            counting.members[group] = set() if found is None else found.members
            return
        counting.members[group] = set()
        for process in self._groups.members:
            if self._groups.names[process.daemon] == split_private(group)[1]:
                if process == self._groups.me:
                    session = self._groups.requests.sessions.by_name.get(split_private(group)[0])
                    if session is not None:
                        counting.members[group].add(_member(group, process, session.number))
                else:
                    counting.missing[group] = process

    def told(self, event: PresenceReport) -> Receipt | None:
        """A daemon has told; returns the receipt if that was all that was missing."""
        key = (event.session, event.position)
        counting = self._waiting.get(key)
        if counting is None:
            return None
        present = {counting.groups[at]: number for at, number in event.present if at < len(counting.groups)}
        for group in [one for one, process in counting.missing.items() if process == event.process]:
            del counting.missing[group]
            if group in present:
                counting.members[group].add(_member(group, event.process, present[group]))
        if counting.missing:
            return None
        del self._waiting[key]
        return counting.receipt()

    def close(self) -> list[tuple[int, Receipt]]:
        """The view is closing: all receipts that wait, by session, with what is known."""
        waiting, self._waiting = self._waiting, {}
        return [(session, counting.receipt()) for (session, _), counting in waiting.items()]


def _member(group: GroupName, process: Process, session: int) -> GroupMember:
    """The session of a private group, as the table has it if it is in other groups."""
    return GroupMember(process.daemon, split_private(group)[0], process.incarnation, session)
