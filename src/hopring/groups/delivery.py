"""Delivery of clients' bundles to the sessions of this daemon.

Invariants  a session gets a bundle once, even if it is in several of the groups; only the order decides when. A
            Reliable or FIFO message may arrive before a JOIN with an earlier place in the order. Other daemons
            deliver it in the joiner's view, so a joiner of this daemon gets it right after its own view. Only
            joins of this daemon count, and only from their stamp on: messages that came before that have a
            lower place. A FIFO message of the same sender that reaches the joiner through another group waits
            as well, since it must not overtake.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from hopring.engine import Delivered
from hopring.errors import Drop, PeerError
from hopring.groups.events import DeliverBundle
from hopring.groups.group_table import GroupTable
from hopring.groups.messages import PRESENCES_MAX, BundlePresence, GroupPresence
from hopring.groups.names import is_legal_session
from hopring.groups.payloads import split_sender
from hopring.groups.private_groups import is_private, private_group, split_private
from hopring.groups.retained import RetainedValue
from hopring.groups.sessions import LocalSessions
from hopring.ids import DaemonId, GroupName, Place, Process, ViewId
from hopring.ordering.entry import Position
from hopring.services import Service
from hopring.wire.bundle import Bundle, decode_bundle, peek_groups, rows_of

KINDS_MAX: Final = 8
"""Limit of the distinct parts of a mixed bundle: each is a copy, and a frame that few sessions share."""

Gets = Callable[[int, DeliverBundle], bool]
"""Whether a session is a member of one of a message's groups now."""


@dataclass(slots=True)
class EarlyMessages:
    """The joins of this daemon that are stamped and not delivered, and the messages that overtook them."""

    me: DaemonId
    joins: dict[Position, tuple[int, GroupName]] = field(default_factory=dict)  # Session and group.
    kept: list[DeliverBundle] = field(default_factory=list)  # With the sessions that already got them.
    withheld: list[tuple[int, DeliverBundle]] = field(default_factory=list)  # By session, in sender order.

    def stamped(self, session: int, group: GroupName, position: Position) -> None:
        """A join of this daemon has its place in the order."""
        self.joins[position] = (session, group)

    def overtakes(self, groups: tuple[GroupName, ...], service: Service, position: Position) -> bool:
        """Whether this message overtakes a join to one of its groups."""
        if not self.joins or not service.early:
            return False
        return any(group in groups and at < position for at, (_, group) in self.joins.items())

    def keep(self, deliver: DeliverBundle) -> None:
        """Keeps a message that a joiner may be owed; its sessions already got it."""
        self.kept.append(deliver)

    def withhold(self, deliver: DeliverBundle) -> DeliverBundle:
        """Removes the sessions for which the message must wait; they get it after a join."""
        if not self.joins:
            return deliver
        waiting = [one for one in deliver.sessions if self._behind(one, deliver)]
        if not waiting:
            return deliver
        self.withheld.extend([(one, deliver) for one in waiting])
        rest = tuple([one for one in deliver.sessions if one not in waiting])
        return deliver.replace(sessions=rest)

    def release(self, at: Position, gets: Gets) -> list[DeliverBundle]:
        """Returns the messages that a session is owed now that its join at this place is delivered, in order.

        A message that waited for a session that is in none of its groups now is dropped, unless a later join
        owes it.
        """
        if at not in self.joins:
            return []
        session, group = self.joins.pop(at)
        waiting = {one.position for number, one in self.withheld if number == session}
        owed = [one for one in self.kept if self._owes(one, session, group, at)]
        self.withheld.extend([(session, one) for one in owed if one.position not in waiting])
        out: dict[Position, DeliverBundle] = {}
        withheld, self.withheld = self.withheld, []
        for number, one in withheld:
            if number != session or self._behind(session, one):
                self.withheld.append((number, one))
            elif gets(session, one):
                out[one.position] = one
        # The session may also join another group of these messages and must not get one twice.
        self.kept = [_also(one, session) if one.position in out else one for one in self.kept]
        if not self.joins:
            self.kept.clear()
        return [out[position].replace(sessions=(session,)) for position in sorted(out)]

    def clear(self) -> None:
        """The daemons' view is over and all its messages are delivered."""
        self.joins.clear()
        self.kept.clear()
        assert not self.withheld, "all joins of the view are delivered"

    def _behind(self, session: int, deliver: DeliverBundle) -> bool:
        """Whether the session is still owed an earlier FIFO message of this sender."""
        return deliver.bundle.key.service.by_session and any(
            number == session and one.position < deliver.position and self._owes(one, session, group, at)
            for at, (number, group) in self.joins.items()
            for one in self.kept
            if _same_sender(one, deliver)
        )

    def _owes(self, deliver: DeliverBundle, session: int, group: GroupName, at: Position) -> bool:
        key = deliver.bundle.key
        discards = key.self_discard and (key.daemon, key.session) == (self.me, session)
        new = session not in deliver.sessions
        return group in key.groups and deliver.position > at and new and not discards


def _also(deliver: DeliverBundle, session: int) -> DeliverBundle:
    return deliver.replace(sessions=(*deliver.sessions, session))


def _same_sender(one: DeliverBundle, other: DeliverBundle) -> bool:
    mine, others = one.bundle.key, other.bundle.key
    return (mine.daemon, mine.session) == (others.daemon, others.session)


@dataclass(slots=True)
class GroupDelivery:
    """Selects the sessions of this daemon for each bundle."""

    me: Process
    names: tuple[str, ...]  # Of daemons, by number.
    table: GroupTable
    sessions: LocalSessions
    early: EarlyMessages
    suspended: Collection[GroupName] = ()  # Nothing ordered is delivered in these groups.
    presences: list[BundlePresence] = field(default_factory=list)  # Answers to send, of the current view.

    def deliver(self, event: Delivered) -> list[DeliverBundle]:
        """Returns the outputs for the sessions here that get this bundle of a client."""
        message = event.message
        name, payload = split_sender(message.payload)
        groups = peek_groups(payload)
        sessions = self._recipients(groups)
        if self.suspended and message.service.total:
            sessions = self._recipients(tuple([one for one in groups if one not in self.suspended]))
        if event.sender != self.me:
            self._note_presence(event, payload, groups)
        overtakes = self.early.overtakes(groups, message.service, event.position)
        if not sessions and not overtakes:
            return []
        self.check_name(event, name)
        bundle = decode_checked(event, payload)
        key = bundle.key
        if key.self_discard and event.sender == self.me:
            sessions = tuple([one for one in sessions if one != key.session])
        sender = private_group(name, self.names[message.daemon])
        deliver = DeliverBundle(sessions, sender, bundle, event.view, event.position)
        if key.mixed:
            return self._split_mixed(deliver)
        deliver = self.early.withhold(deliver)
        if overtakes:
            self.early.keep(deliver)
        return [deliver] if deliver.sessions else []

    def retained(self, event: Delivered) -> tuple[GroupName, RetainedValue, Bundle] | None:
        """The value to keep, at all daemons alike, also where its group has no members; None if suspended."""
        message = event.message
        name, payload = split_sender(message.payload)
        bundle = decode_checked(event, payload)
        group = bundle.key.groups[0]
        if group in self.suspended:
            return None  # It is not delivered.
        self.check_name(event, name)
        place = Place(event.view, event.position.lts, event.position.site)
        return (
            group,
            RetainedValue(place, private_group(name, self.names[message.daemon]), bytes(payload)),
            bundle,
        )

    def check_name(self, event: Delivered, name: str) -> None:
        """Checks the name that a bundle gives its sender: legal, and the one that the session is known by."""
        message = event.message
        known: str | None = None
        if event.sender == self.me:
            session = self.sessions.by_number.get(message.session)
            known = None if session is None else session.name
        else:
            known = self.table.name_of(event.sender, message.session)
        if (known or name) != name or not is_legal_session(name, self.names[message.daemon]):
            raise PeerError(Drop.FOREIGN_SENDER, f"bundle of {name!r}, session {message.session} is {known!r}")

    def _note_presence(self, event: Delivered, payload: memoryview, groups: tuple[GroupName, ...]) -> None:
        """Notes an answer for a receipt: the sender's daemon cannot know which sessions are connected here."""
        mine = [at for at, group in enumerate(groups) if self._is_mine(group)]
        if not mine or not any(decode_checked(event, payload).hints):
            return
        present = [(at, number) for at in mine for number in self._local(groups[at])]
        lts, site = event.position
        self.presences.append(
            BundlePresence(event.message.daemon, event.message.session, lts, site, tuple(present))
        )

    def next_presence(self, view: ViewId) -> GroupPresence | None:
        """The next PRESENT for messages delivered in this view, if there are answers."""
        if not self.presences:
            return None
        told, self.presences = self.presences[:PRESENCES_MAX], self.presences[PRESENCES_MAX:]
        return GroupPresence(view, tuple(told))

    def _split_mixed(self, deliver: DeliverBundle) -> list[DeliverBundle]:
        """Splits a mixed bundle by the messages that sessions get; mostly all sessions get the same ones.

        With more than `KINDS_MAX` selections it is split by group instead, as if it had not been mixed. It
        cannot overtake a join: messages in a mixed bundle are ordered like joins.
        """
        bundle = deliver.bundle
        # Mixed bundles are ordered.
        members = [() if one in self.suspended else self._local(one) for one in bundle.key.groups]
        if members.count(members[0]) == len(members):
            return [deliver] if deliver.sessions else []
        wanted: dict[int, list[int]] = {}  # By session, the indexes of its groups.
        for group_index, numbers in enumerate(members):
            for number in numbers:
                wanted.setdefault(number, []).append(group_index)
        alike: dict[tuple[int, ...], list[int]] = {}
        for number in deliver.sessions:
            alike.setdefault(tuple(wanted[number]), []).append(number)
        if len(alike) > KINDS_MAX:
            return _split_by_group(deliver, members)
        indexes: list[list[int]] = [[] for _ in members]
        for index, group_index in enumerate(bundle.group_indexes.tolist()):
            indexes[group_index].append(index)
        out: list[DeliverBundle] = []
        for some, alike_numbers in alike.items():
            only = sorted([index for group_index in some for index in indexes[group_index]])
            if only:
                every = len(only) == len(bundle)
                out.append(deliver.replace(sessions=tuple(alike_numbers), only=None if every else tuple(only)))
        return out

    def joined(self, at: Position) -> list[DeliverBundle]:
        """The early messages owed to the session whose join has this place."""
        return self.early.release(at, self._gets)

    def _gets(self, session: int, deliver: DeliverBundle) -> bool:
        return session in self._recipients(deliver.bundle.key.groups)

    def _recipients(self, groups: tuple[GroupName, ...]) -> tuple[int, ...]:
        if len(groups) == 1 and not is_private(groups[0]):
            return self.table.local(groups[0])
        found: set[int] = set()
        for group in groups:
            found.update(self._local(group))
        return tuple(sorted(found))

    def _local(self, group: GroupName) -> tuple[int, ...]:
        """The sessions of this daemon in a group, private ones included."""
        if not is_private(group):
            return self.table.local(group)
        name, _ = split_private(group)
        if self._is_mine(group) and name in self.sessions.by_name:
            return (self.sessions.by_name[name].number,)
        return ()

    def _is_mine(self, group: GroupName) -> bool:
        """Whether it is a private group of this daemon."""
        return is_private(group) and split_private(group)[1] == self.names[self.me.daemon]


def _split_by_group(deliver: DeliverBundle, members: list[tuple[int, ...]]) -> list[DeliverBundle]:
    """Splits a mixed bundle into runs of messages to the same group."""
    wanting = frozenset(deliver.sessions)
    out: list[DeliverBundle] = []
    for group_index, start, end in rows_of(deliver.bundle, 0, len(deliver.bundle)):
        sessions = tuple([one for one in members[group_index] if one in wanting])
        if sessions:
            out.append(deliver.replace(sessions=sessions, only=tuple(range(start, end))))
    return out


def decode_checked(event: Delivered, payload: bytes | memoryview) -> Bundle:
    """Decodes a client's bundle and checks that it names the sender and the service of its message."""
    message = event.message
    bundle = decode_bundle(payload)
    key = bundle.key
    if (key.daemon, key.session, key.service) != (message.daemon, message.session, message.service):
        raise PeerError(Drop.FOREIGN_SENDER, f"bundle of session {key.session} of daemon {key.daemon}")
    return bundle


def groups_of(event: Delivered) -> tuple[GroupName, ...]:
    """The groups of a client's bundle, which is checked."""
    return decode_checked(event, split_sender(event.message.payload)[1]).key.groups
