"""Receipts: the place of a message in the order, for its sender, which need not be a member.

A client asks for a receipt with a ticket from 1 to 255 in the message's hints, which travel with the bundle. A
daemon delivers all bundles of its own sessions, so it reads the tickets when a bundle returns in the order. A
receipt also counts the sessions that were members of the message's groups at this place. The table of groups
has them, except for private groups of other daemons: each of those daemons reports which of them existed
(PRESENT), and the receipt waits for the reports.

The receipt of a bundle that asks for it also lists the members of its one group by name: a caller knows by it
which servers got its request (blocks/).

Invariants  a receipt waits only while the view is open: when it closes, counts that lack a report are None.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import Final

from hopring.engine import Delivered
from hopring.groups.events import PresenceReport
from hopring.groups.interface import GroupsInterface
from hopring.groups.names import GroupMember
from hopring.groups.payloads import split_sender
from hopring.groups.private_groups import is_private, split_private
from hopring.ids import GroupName, Place, Process
from hopring.ordering.entry import Position
from hopring.session.protocol import MemberEntry, ReceiptNotice
from hopring.session.render import member_entry
from hopring.wire.bundle import decode_bundle

LISTED_MAX: Final = 1024
"""Members that a receipt lists by name; those of a larger group are only counted."""


@dataclass(slots=True)
class PendingReceipt:
    """The receipt of a bundle that waits for reports about private groups."""

    place: Place
    closing: bool
    groups: tuple[GroupName, ...]  # Of the bundle.
    tickets: list[tuple[int, tuple[GroupName, ...]]]  # Each with the groups of its message.
    members: dict[GroupName, set[GroupMember]]  # Of the groups of messages with tickets.
    missing: dict[GroupName, Process]  # Private groups without a report, and the daemon that owes it.
    listed: tuple[MemberEntry, ...] | None = None
    holders: int = 0

    def receipt(self) -> ReceiptNotice:
        """The receipt with the counts that are known."""
        counts = [self._count(groups) for _, groups in self.tickets]
        tickets = tuple([ticket for ticket, _ in self.tickets])
        return ReceiptNotice(tickets, self.place, self.closing, tuple(counts), self.listed, self.holders)

    def _count(self, groups: tuple[GroupName, ...]) -> int | None:
        if any(group in self.missing for group in groups):
            return None
        if len(groups) == 1:
            return len(self.members[groups[0]])
        return len(set(chain.from_iterable([self.members[group] for group in groups])))


class Receipts:
    """The receipts of one daemon's sessions."""

    def __init__(self, groups: GroupsInterface) -> None:
        self._groups = groups
        self._waiting: dict[tuple[int, Position], PendingReceipt] = {}

    def delivered(self, event: Delivered) -> ReceiptNotice | None:
        """The receipt for a delivered bundle of a local session, if it has tickets and no report is missing."""
        _, payload = split_sender(event.message.payload)
        bundle = decode_bundle(payload)
        hints = bundle.hints.tolist()
        tickets = [(hint, bundle.groups_of(at)) for at, hint in enumerate(hints) if hint]
        withheld: AbstractSet[GroupName] = frozenset()
        if self._groups.suspended and bundle.key.service.total:
            withheld = self._groups.suspended
            tickets = [(hint, groups) for hint, groups in tickets if not withheld.issuperset(groups)]
        if not tickets:
            return None
        place = Place(event.view, *event.position)
        closing = self._groups.is_closing(bundle.key.groups[0])
        pending = PendingReceipt(place, closing, bundle.key.groups, tickets, {}, {}, holders=event.holders)
        for _, groups in tickets:
            for group in groups:
                if group in withheld:
                    pending.members[group] = set()
                else:
                    self._find_members(pending, group)
        if bundle.key.listed and not pending.missing:
            pending.listed = self._list(pending.members[bundle.key.groups[0]])
        # Other daemons may never get a loose message, and then would not report.
        if not pending.missing or bundle.key.service.loose or not self._groups.settled:
            return pending.receipt()
        # A copy: the table changes with later messages.
        pending.members = {group: set(members) for group, members in pending.members.items()}
        self._waiting[event.message.session, event.position] = pending
        return None

    def _list(self, members: set[GroupMember]) -> tuple[MemberEntry, ...] | None:
        """The members by name; None if they are too many."""
        if len(members) > LISTED_MAX:
            return None
        return tuple([member_entry(one, self._groups.names) for one in sorted(members)])

    def _find_members(self, pending: PendingReceipt, group: GroupName) -> None:
        if group in pending.members:
            return
        if not is_private(group):
            found = self._groups.table.groups.get(group)
            pending.members[group] = set() if found is None else found.members
            return
        pending.members[group] = set()
        holder = self._groups.private_holder(group)
        if isinstance(holder, GroupMember):
            pending.members[group].add(holder)
        elif holder is not None:
            pending.missing[group] = holder

    def reported(self, event: PresenceReport) -> ReceiptNotice | None:
        """Adds a daemon's report; returns the receipt if no other report is missing."""
        key = (event.session, event.position)
        pending = self._waiting.get(key)
        if pending is None:
            return None
        present = {pending.groups[at]: number for at, number in event.present if at < len(pending.groups)}
        for group in [one for one, process in pending.missing.items() if process == event.process]:
            del pending.missing[group]
            if group in present:
                pending.members[group].add(_member(group, event.process, present[group]))
        if pending.missing:
            return None
        del self._waiting[key]
        return pending.receipt()

    def close(self) -> list[tuple[int, ReceiptNotice]]:
        """All waiting receipts by session, because the view is closing; unknown counts are None."""
        waiting, self._waiting = self._waiting, {}
        return [(session, pending.receipt()) for (session, _), pending in waiting.items()]


def _member(group: GroupName, process: Process, session: int) -> GroupMember:
    """The member that a private group stands for, as the table of groups has it."""
    return GroupMember(process.daemon, split_private(group)[0], process.incarnation, session)
