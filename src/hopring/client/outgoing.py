"""Requests on their way to the daemon: messages that fit share a bundle, and credits say how much may go."""

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from hopring.client.errors import MessageTooLarge
from hopring.client.events import Receipt
from hopring.client.lone import Way
from hopring.client.sending import BUNDLE_BYTES_AIM, Many, Sending, checked_groups
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, GroupName
from hopring.services import Service
from hopring.session.frames import Kind, join_frame
from hopring.session.options import REQUEST_COST_BYTES, TICKETS_MAX
from hopring.session.words import Receipt as ReceiptWord
from hopring.session.words import Welcome, Word, encode_word
from hopring.value import Mutable
from hopring.wire.batch_mark import MARK_BYTES_MAX, BatchMark
from hopring.wire.builder import BundleBuilder
from hopring.wire.bundle import (
    BUNDLE_HEAD_BYTES,
    COLUMNS_BYTES,
    Run,
    Sealed,
    bundle_parts,
    encode_groups,
)

_FIRST_BYTES = BUNDLE_HEAD_BYTES + 4
_EACH_BYTES = COLUMNS_BYTES - 1  # Of a bundle that is not mixed.
WAYS_MAX = 1024
"""Groups whose names are kept as they are written; a server that answers many clients has one for each."""


@final
class Ticket(Mutable):
    """A message whose sender waits for the receipt."""

    def __init__(self, receipt: Receipt | None = None, lost: bool = False) -> None:
        self.receipt = receipt
        self.lost = lost  # None will come.


@dataclass(slots=True)
class Outgoing:
    """What goes to one daemon."""

    welcome: Welcome
    out: list[bytes] = field(default_factory=list)
    charged_bytes: int = 0  # Asked for and not credited, the open bundle included.
    builder: BundleBuilder | None = None
    requests: deque[tuple[int, int]] = field(default_factory=deque)
    """What each request took that is not credited, and how many messages it has."""
    tickets: dict[int, tuple[Ticket, Sending]] = field(default_factory=dict)
    _last_run: Run | None = None
    _ways: dict[str, Way] = field(default_factory=dict)  # By the group that a message goes to.
    _lone: Way | None = None  # Of the message that is open without a builder: it has no company so far.
    _lone_data: bytes = b""
    _lone_type: int = 0
    _open_bytes: int = 0  # What the open bundle was charged.

    def run(self, groups: Sequence[str], service: Service, self_discard: bool) -> Run:
        """The key of a message to these groups."""
        daemon = DaemonId(self.welcome.daemon_number)
        return Run(daemon, self.welcome.session, service, checked_groups(tuple(groups)), self_discard)

    def takes(self, sending: Sending) -> bool:
        """Whether the daemon takes this message now; one that it never takes is an error."""
        self._unfold()
        if len(sending.data) > self.welcome.message_bytes_max:
            raise MessageTooLarge(len(sending.data), self.welcome.message_bytes_max)
        return not self.charged_bytes or self.has_room(self._run_of(sending), sending.data)

    def put(self, sending: Sending) -> None:
        """Adds a message; look at `takes` first."""
        self.send(self._run_of(sending), sending.data, sending.message_type)

    def offer(self, group: str, data: bytes, service: Service, message_type: int, self_discard: bool) -> bool:
        """Adds a message to the bundle that is open, or opens one, if it belongs there and all have room.

        This is the way of most messages, so little is made for it; `takes` and `put` are for all others.
        """
        way = self._ways.get(group)
        if way is None or way.run.service is not service or way.run.self_discard is not self_discard:
            way = self._new_way(group, service, self_discard)
        if self.builder is None and self._lone is None:
            return self._open(way, data, message_type)
        self._unfold()
        builder, groups = self.builder, way.run.groups
        if builder is None or not builder.takes(groups, service, self_discard):
            return False
        cost = builder.cost_bytes(groups, len(data))
        if self.charged_bytes + cost > self.welcome.window_bytes or not builder.has_room(cost - COLUMNS_BYTES):
            return False
        self._charge_open(cost)
        builder.append(data, message_type, 0, groups)
        return True

    def _new_way(self, group: str, service: Service, self_discard: bool) -> Way:
        if len(self._ways) >= WAYS_MAX:
            self._ways.clear()
        way = self._ways[group] = Way(self.run((group,), service, self_discard))
        return way

    def _open(self, way: Way, data: bytes, message_type: int) -> bool:
        """Opens a bundle with a message that may stay alone, if there is room for it."""
        cost = REQUEST_COST_BYTES + _FIRST_BYTES + len(way.names) + COLUMNS_BYTES + len(data)
        if self.charged_bytes and self.charged_bytes + cost > self.welcome.window_bytes:
            return False
        if len(data) > self.welcome.message_bytes_max:
            return False
        self._charge_open(cost)
        self._lone, self._lone_data, self._lone_type = way, data, message_type
        return True

    def _unfold(self) -> None:
        """The message that is open alone gets company, or might: from now on there is a builder."""
        way = self._lone
        if way is not None:
            self.builder = BundleBuilder(way.run, self.welcome.message_bytes_max, BUNDLE_BYTES_AIM)
            self.builder.append(self._lone_data, self._lone_type)
            self._lone, self._lone_data = None, b""

    @property
    def is_open(self) -> bool:
        """Whether messages wait for the end of their bundle."""
        return self.builder is not None or self._lone is not None

    @property
    def has_ticket(self) -> bool:
        """Whether another receipt can be asked for."""
        return len(self.tickets) < TICKETS_MAX

    def put_with_ticket(self, sending: Sending) -> Ticket:
        """Adds a message and asks for its receipt; look at `takes` and `has_ticket` first."""
        number, ticket = self._ticket(sending)
        self.send(self._run_of(sending), sending.data, sending.message_type, number)
        return ticket

    def takes_bundle(self, group: GroupName, messages: int, bodies_bytes: int) -> bool:
        """Whether the daemon takes a bundle of a batch now, and another receipt can be asked for."""
        cost = REQUEST_COST_BYTES + _FIRST_BYTES + len(encode_groups((group,))) + MARK_BYTES_MAX
        cost += _EACH_BYTES * messages + bodies_bytes
        has_room = not self.charged_bytes or self.charged_bytes + cost <= self.welcome.window_bytes
        return has_room and self.has_ticket

    def put_bundle(
        self, sending: Sending, mark: BatchMark, bodies: Sequence[bytes], types: Sequence[int]
    ) -> Ticket:
        """Adds messages of a batch as a bundle of its own, with a ticket for the last; see `takes_bundle`."""
        self.seal()
        number, ticket = self._ticket(sending)
        run = self.run(sending.groups, sending.service, sending.self_discard).replace(mark=mark)
        hints = bytes([*bytes(len(bodies) - 1), number])
        bundle = bundle_parts(run, bodies, types, hints)
        self.charged_bytes += REQUEST_COST_BYTES + bundle.size_bytes
        self._out(bundle, len(bodies))
        return ticket

    def takes_some(self, many: Many) -> bool:
        """Whether the daemon takes the next of these messages now; one that it never takes is an error."""
        many.check(self.welcome.message_bytes_max)
        return self._has_room_for_next(many)

    def put_some(self, many: Many) -> None:
        """Adds as many of them as the daemon takes now, in bundles of their own; see `takes_some`."""
        self.seal()
        key = self._run_of(many.sending)
        while many.left and self._has_room_for_next(many):
            bodies = many.take(many.portion(self._room_bytes(many), _EACH_BYTES))
            types = array("H", [many.sending.message_type]) * len(bodies)
            bundle = bundle_parts(key, bodies, types, bytes(len(bodies)))
            self.charged_bytes += REQUEST_COST_BYTES + bundle.size_bytes
            self._out(bundle, len(bodies))

    def _has_room_for_next(self, many: Many) -> bool:
        return not self.charged_bytes or self._room_bytes(many) >= many.next_bytes() + _EACH_BYTES

    def _room_bytes(self, many: Many) -> int:
        """For the bodies of another bundle, and what each of them takes."""
        first_bytes = REQUEST_COST_BYTES + _FIRST_BYTES + len(encode_groups(many.sending.groups))
        return self.welcome.window_bytes - self.charged_bytes - first_bytes

    def settle(self, word: ReceiptWord) -> None:
        """Receipts came."""
        numbers = set(word.tickets)
        if len(numbers) < len(word.tickets) or not numbers <= self.tickets.keys():
            raise PeerError(Drop.INCONSISTENT, "a receipt that nobody asked for")
        if len(word.members) != len(word.tickets):
            raise PeerError(Drop.INCONSISTENT, f"{len(word.members)} counts for {len(word.tickets)} tickets")
        for number, members in zip(word.tickets, word.members, strict=True):
            ticket, sending = self.tickets.pop(number)
            ticket.receipt = Receipt(sending.groups, sending.service, word.place, word.closing, members)

    def lose_tickets(self) -> None:
        """No receipt will come."""
        for ticket, _ in self.tickets.values():
            ticket.lost = True
        self.tickets.clear()

    def _ticket(self, sending: Sending) -> tuple[int, Ticket]:
        number = next(one for one in range(1, TICKETS_MAX + 1) if one not in self.tickets)
        ticket = Ticket()
        self.tickets[number] = (ticket, sending)
        return number, ticket

    def _run_of(self, sending: Sending) -> Run:
        """The key of a message; that of the last one again, if it is the same."""
        last = self._last_run
        if (
            last is None
            or last.groups is not sending.groups
            or last.service is not sending.service
            or last.self_discard is not sending.self_discard
        ):
            last = self._last_run = self.run(sending.groups, sending.service, sending.self_discard)
        return last

    def has_room(self, run: Run, data: bytes) -> bool:
        """Whether the daemon takes another such message now; one is always taken."""
        self._unfold()
        cost = self._cost(run, data)
        return not self.charged_bytes or self.charged_bytes + cost <= self.welcome.window_bytes

    def has_room_for_word(self) -> bool:
        """Whether the daemon takes another join or leave now."""
        return not self.charged_bytes or self.charged_bytes + REQUEST_COST_BYTES <= self.welcome.window_bytes

    @property
    def in_doubt(self) -> int:
        """Messages that are not credited."""
        waiting = 1 if self._lone is not None else len(self.builder) if self.builder is not None else 0
        return sum([messages for _, messages in self.requests]) + waiting

    def credited(self, size_bytes: int) -> None:
        """The daemon has passed so much on; it gives credit for whole requests, in their order."""
        self.charged_bytes -= size_bytes
        requests = self.requests
        while requests:
            first_bytes = requests[0][0]
            if first_bytes > size_bytes:
                break
            size_bytes -= first_bytes
            requests.popleft()

    def send(self, run: Run, data: bytes, message_type: int, hints: int = 0) -> None:
        """Adds a message; look at `has_room` first."""
        self._unfold()
        cost = self._cost(run, data)
        if not self._fits(run, data):
            self.seal()
            self.builder = BundleBuilder(run, self.welcome.message_bytes_max, BUNDLE_BYTES_AIM)
        assert self.builder is not None, "it was just made"
        self._charge_open(cost)
        self.builder.append(data, message_type, hints, run.groups)

    def _charge_open(self, cost: int) -> None:
        """The open bundle has so much more, at most; what it has is known when it is sealed."""
        self.charged_bytes += cost
        self._open_bytes += cost

    def ask(self, word: Word, cost_bytes: int = 0) -> None:
        """Adds a word behind all messages."""
        self.seal()
        if cost_bytes:
            self.charged_bytes += cost_bytes
            self.requests.append((cost_bytes, 0))
        self.out.append(encode_word(word))

    def seal(self) -> None:
        """Ends the bundle that is open."""
        way = self._lone
        if way is not None:
            cost = REQUEST_COST_BYTES + way.size_bytes(self._lone_data)
            self.charged_bytes += cost - self._open_bytes
            self._open_bytes = 0
            self.requests.append((cost, 1))
            self.out.append(way.frame(self._lone_data, self._lone_type))
            self._lone, self._lone_data = None, b""
        elif self.builder is not None:
            bundle = self.builder.seal()
            self.charged_bytes += REQUEST_COST_BYTES + bundle.size_bytes - self._open_bytes
            self._open_bytes = 0
            self._out(bundle, len(self.builder))
            self.builder = None

    def _out(self, bundle: Sealed, messages: int) -> None:
        self.requests.append((REQUEST_COST_BYTES + bundle.size_bytes, messages))
        self.out.append(join_frame(Kind.SEND, bundle.size_bytes, bundle.parts))

    def _fits(self, run: Run, data: bytes) -> bool:
        builder = self.builder
        if builder is None or not builder.takes(run.groups, run.service, run.self_discard):
            return False
        return builder.has_room(builder.cost_bytes(run.groups, len(data)) - COLUMNS_BYTES)

    def _cost(self, run: Run, data: bytes) -> int:
        if self.builder is not None and self._fits(run, data):
            return self.builder.cost_bytes(run.groups, len(data))
        first_bytes = REQUEST_COST_BYTES + _FIRST_BYTES + len(encode_groups(run.groups))
        return first_bytes + COLUMNS_BYTES + len(data)
