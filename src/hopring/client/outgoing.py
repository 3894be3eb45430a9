"""Requests to the daemon: messages share bundles where they fit, and credits limit the bytes in progress.

Messages are appended to the open bundle. The bundle is closed, and becomes a SEND frame in `out`, when the
output is fetched, when a request other than a message follows, or when the next message does not fit. A bundle
with one message needs no builder until a second one follows: a `SendTemplate` (fast_path.py) encodes it.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple, final

from hopring.client.errors import Expired, MessageTooLarge, RequestRefused
from hopring.client.events import Receipt
from hopring.client.fast_path import SendTemplate, credit_at
from hopring.errors import Drop, HopError, PeerError
from hopring.groups.private_groups import PRIVATE, is_private, split_private
from hopring.ids import DaemonId, GroupName
from hopring.services import Service
from hopring.session.frames import TTL_BYTES, Frame, FrameKind, join_frame
from hopring.session.options import REQUEST_COST_BYTES, TICKETS_MAX
from hopring.session.protocol import (
    ControlMessage,
    MemberEntry,
    ReceiptNotice,
    WelcomeReply,
    decode_control,
    encode_control,
)
from hopring.value import Mutable
from hopring.wire.batch_mark import MARK_BYTES_MAX, BatchMark
from hopring.wire.builder import BundleBuilder
from hopring.wire.bundle import (
    BUNDLE_HEAD_BYTES,
    COLUMNS_BYTES,
    GROUP_NAME_BYTES_MAX,
    GROUPS_MAX,
    MESSAGES_MAX,
    BundleKey,
    BundleParts,
    bundle_parts,
    encode_groups,
)

TYPE_MAX: Final = 0xFFFF
_NO_PRIVATE: Final = (
    "only private groups have a # in their name, as in #name#daemon; send to them without a join"
)
Buffer = bytes | bytearray | memoryview
Data = Buffer | Sequence[Buffer]
"""The body of a message: one buffer, or several that are sent end to end."""

BUNDLE_BYTES_AIM: Final = 62_000
"""The target size of a bundle's bodies and columns: it fills one train of datagrams.

A little more would need a second train for the rest; much more saves little, and delays the next messages."""


class OutgoingMessage(NamedTuple):
    """A message to send; its groups come from `checked_groups`."""

    groups: tuple[GroupName, ...]
    data: bytes
    service: Service = Service.AGREED
    message_type: int = 0
    self_discard: bool = False
    enveloped: bool = False  # The data begins with an envelope.
    resilience: int = 0  # How many lost daemons it survives, or MAJORITY (ordering/holders.py).
    ttl_us: int = 0  # Not given to the order after this time; 0 is no limit.
    retain: bool = False  # Daemons keep it for those who join the group later.


@lru_cache(maxsize=256)
def checked_groups(groups: tuple[str, ...]) -> tuple[GroupName, ...]:
    """Checks the groups of a message; cached, because sessions send to the same groups again and again."""
    if not 0 < len(groups) <= GROUPS_MAX or len(set(groups)) < len(groups):
        raise RequestRefused(" ".join(groups), "not 1 to 128 different groups", "name each group once")
    for name in groups:
        check_group(name)
    return tuple([GroupName(name) for name in groups])


def check_group(name: str) -> None:
    """Checks the name of a group, which may be a private one."""
    _check_name(name)
    if PRIVATE in name and not (is_private(GroupName(name)) and all(split_private(GroupName(name)))):
        raise RequestRefused(name, "illegal group", _NO_PRIVATE)


@lru_cache(maxsize=256)
def checked_plain_group(name: str) -> GroupName:
    """Checks the name of a group that is not private."""
    _check_name(name)
    if PRIVATE in name:
        raise RequestRefused(name, "illegal group", _NO_PRIVATE)
    return GroupName(name)


def _check_name(name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= GROUP_NAME_BYTES_MAX or "\0" in name:
        remedy = f"choose a name of 1 to {GROUP_NAME_BYTES_MAX} bytes of UTF-8 without NUL"
        raise RequestRefused(name, "illegal group", remedy)


class OutgoingSeries:
    """Messages that differ in their bodies only; `at` is the first that has not been sent."""

    def __init__(self, sending: OutgoingMessage, bodies: Sequence[bytes]) -> None:
        self.sending = sending  # Common to all, except for the body.
        self.bodies = bodies
        self.at = 0
        self._bytes = sum(map(len, bodies))
        self._longest = -1  # Not computed yet.
        self._ends: list[int] = []  # Cumulative sizes, from 0 on, if the bodies do not fit into one bundle.

    @property
    def left(self) -> int:
        """The number of messages that have not been sent."""
        return len(self.bodies) - self.at

    def check(self, message_bytes_max: int) -> None:
        """Raises MessageTooLarge, before any is sent, if one is above the daemon's limit."""
        if self._bytes <= message_bytes_max:
            return
        if self._longest < 0:
            self._longest = max(map(len, self.bodies))
        if self._longest > message_bytes_max:
            raise MessageTooLarge(self._longest, message_bytes_max)

    def portion(self, room_bytes: int, each_bytes: int) -> int:
        """The number of next messages for one bundle, at least 1; each takes `each_bytes` beside its body."""
        left = len(self.bodies)
        if not self.at and left <= MESSAGES_MAX and self._bytes + left * each_bytes <= room_bytes:
            return left
        self._ends = self._ends or list(accumulate(map(len, self.bodies), initial=0))
        begin, at = self._ends[self.at], self.at
        count = bisect_right(
            range(1, min(MESSAGES_MAX, self.left) + 1),
            room_bytes,
            key=lambda count: self._ends[at + count] - begin + count * each_bytes,
        )
        return max(1, count)

    def next_bytes(self) -> int:
        """The size of the next body."""
        return len(self.bodies[self.at])

    def take(self, count: int) -> Sequence[bytes]:
        """Takes the next bodies, which count as sent."""
        self.at += count
        return self.bodies[self.at - count : self.at]


_CREDIT: Final = int(FrameKind.CREDIT)
_RECEIPT: Final = int(FrameKind.RECEIPT)

_FIRST_BYTES = BUNDLE_HEAD_BYTES + 4
_EACH_BYTES = COLUMNS_BYTES - 1  # Of a bundle that is not mixed.
TEMPLATES_MAX = 1024
"""Cached send templates; a server that answers many clients has one for each."""


@final
class Ticket(Mutable):
    """A message whose sender waits for a receipt."""

    def __init__(self, receipt: Receipt | None = None, lost: bool = False) -> None:
        self.receipt = receipt
        self.lost = lost  # No receipt will arrive.
        self.denied: HopError | None = None  # The message was refused.
        self.listed: tuple[MemberEntry, ...] | None = None  # The members of the group, if they were asked for.


@dataclass(slots=True)
class OutgoingRequests:
    """The requests to one daemon that are not sent or not credited, and the window that limits them."""

    welcome: WelcomeReply
    guarded: set[str] = field(default_factory=set)  # Groups that the fast path leaves to others.
    out: list[bytes] = field(default_factory=list)  # Frames to send.
    charged_bytes: int = 0  # Not credited, the open bundle included.
    builder: BundleBuilder | None = None
    requests: deque[tuple[int, int]] = field(default_factory=deque)
    """The cost and the number of messages of each request that is not credited."""
    tickets: dict[int, tuple[Ticket, OutgoingMessage]] = field(default_factory=dict)
    _last_key: BundleKey | None = None
    _templates: dict[str, SendTemplate] = field(default_factory=dict)  # By the group that a message goes to.
    _listed: SendTemplate | None = None  # Of the last request that was alone in its bundle.
    _single: SendTemplate | None = None  # Of an open bundle with one message and no builder.
    _single_data: bytes = b""
    _single_type: int = 0
    _open_bytes: int = 0  # The charge for the open bundle.

    def _key(
        self,
        groups: Sequence[str],
        service: Service,
        self_discard: bool,
        enveloped: bool = False,
        resilience: int = 0,
    ) -> BundleKey:
        """The bundle key of a message to these groups."""
        daemon = DaemonId(self.welcome.daemon_number)
        names = checked_groups(tuple(groups))
        return BundleKey(
            daemon,
            self.welcome.session,
            service,
            names,
            self_discard,
            enveloped=enveloped,
            resilience=resilience,
        )

    def has_room(self, sending: OutgoingMessage) -> bool:
        """Whether the window has room for a message (an empty window has); an error if it is too large."""
        if len(sending.data) > self.welcome.message_bytes_max:
            raise MessageTooLarge(len(sending.data), self.welcome.message_bytes_max)
        if not self.charged_bytes:
            return True
        if sending.ttl_us or sending.retain:
            return self.charged_bytes + self._cost(None, self._key_of(sending), sending.data) <= (
                self.welcome.window_bytes
            )
        cost = self._cost(self._open_builder(), self._key_of(sending), sending.data)
        return self.charged_bytes + cost <= self.welcome.window_bytes

    def append(self, sending: OutgoingMessage, hints: int = 0) -> None:
        """Adds a message to the open bundle, or closes that and opens another; check `has_room` first."""
        if sending.ttl_us or sending.retain:
            self._append_alone(sending, hints)
            return
        self._make_builder()
        key, data = self._key_of(sending), sending.data
        cost = self._cost(self.builder, key, data)
        builder = self.builder
        if builder is None or not _fits(builder, key, data):
            self.close_bundle()
            builder = self.builder = BundleBuilder(key, self.welcome.message_bytes_max, self.bundle_bytes_aim)
        self._charge_open(cost)
        builder.append(data, sending.message_type, hints, key.groups)

    def _append_alone(self, sending: OutgoingMessage, hints: int) -> None:
        """Adds a message in a bundle of its own."""
        self.close_bundle()
        key = self._key_of(sending)
        if sending.retain:
            key = key.replace(retained=True)
        bundle = bundle_parts(key, [sending.data], [sending.message_type], [hints])
        cost = REQUEST_COST_BYTES + bundle.size_bytes
        self.charged_bytes += cost
        if not sending.ttl_us:
            self._send_frame(bundle, 1)
            return
        self.requests.append((cost, 1))
        ttl = sending.ttl_us.to_bytes(TTL_BYTES, "little")
        self.out.append(join_frame(FrameKind.SEND_WITHIN, TTL_BYTES + bundle.size_bytes, [ttl, *bundle.parts]))

    def expire(self, numbers: tuple[int, ...]) -> None:
        """Marks the tickets of messages whose time to live has ended."""
        if not self.tickets.keys() >= set(numbers):
            raise PeerError(Drop.INCONSISTENT, "an end of messages that were not sent")
        for number in numbers:
            ticket, sending = self.tickets.pop(number)
            ticket.denied, ticket.lost = Expired(sending.groups, sending.ttl_us / 1_000_000), True

    def try_append(
        self,
        group: str,
        data: bytes,
        service: Service,
        message_type: int,
        self_discard: bool,
        enveloped: bool = False,
    ) -> bool:
        """Adds a message if it fits into the window and the open bundle, or none is open; returns whether.

        This is the fast path of most messages, with few objects; `has_room` and `append` are for all others.
        """
        template = self._templates.get(group)
        if (
            template is None
            or template.key.service is not service
            or template.key.self_discard is not self_discard
            or template.key.enveloped is not enveloped
        ):
            if group in self.guarded:
                return False
            template = self._new_template(group, service, self_discard, enveloped)
        if self.builder is None and self._single is None:
            return self._open_single(template, data, message_type)
        self._make_builder()
        builder, groups = self.builder, template.key.groups
        if builder is None or not builder.accepts(groups, service, self_discard, enveloped):
            return False
        cost = builder.cost_bytes(groups, len(data))
        if self.charged_bytes + cost > self.welcome.window_bytes or not builder.fits(cost - COLUMNS_BYTES):
            return False
        self._charge_open(cost)
        builder.append(data, message_type, 0, groups)
        return True

    def guard(self, group: str) -> None:
        """Takes a group off the fast path, before it is put into `guarded`."""
        self._templates.pop(group, None)

    def _new_template(self, group: str, service: Service, self_discard: bool, enveloped: bool) -> SendTemplate:
        if len(self._templates) >= TEMPLATES_MAX:
            self._templates.clear()
        key = self._key((group,), service, self_discard, enveloped)
        template = self._templates[group] = SendTemplate(key)
        return template

    def _open_single(self, template: SendTemplate, data: bytes, message_type: int) -> bool:
        """Opens a bundle with a message that may stay single, if there is room for it."""
        cost = REQUEST_COST_BYTES + _FIRST_BYTES + len(template.names) + COLUMNS_BYTES + len(data)
        if self.charged_bytes and self.charged_bytes + cost > self.welcome.window_bytes:
            return False
        if len(data) > self.welcome.message_bytes_max:
            return False
        self._charge_open(cost)
        self._single, self._single_data, self._single_type = template, data, message_type
        return True

    def _make_builder(self) -> None:
        """Moves the open single message into a builder, so that others can follow it."""
        if self._single is not None:
            self.builder = self._open_builder()
            self._single, self._single_data = None, b""

    def _open_builder(self) -> BundleBuilder | None:
        """The builder of the open bundle; for an open single message a new one, which is not kept."""
        template = self._single
        if template is None:
            return self.builder
        builder = BundleBuilder(template.key, self.welcome.message_bytes_max, self.bundle_bytes_aim)
        builder.append(self._single_data, self._single_type)
        return builder

    @property
    def bundle_bytes_aim(self) -> int:
        """The bytes that messages share a bundle up to: a server may take less than others do."""
        return min(BUNDLE_BYTES_AIM, self.welcome.message_bytes_max)

    @property
    def is_open(self) -> bool:
        """Whether a bundle is open."""
        return self.builder is not None or self._single is not None

    @property
    def has_ticket(self) -> bool:
        """Whether a ticket for another receipt is free."""
        return len(self.tickets) < TICKETS_MAX

    def append_with_ticket(self, sending: OutgoingMessage) -> Ticket:
        """Adds a message and asks for its receipt; check `has_room` and `has_ticket` first."""
        number, ticket = self._ticket(sending)
        self.append(sending, number)
        return ticket

    def has_room_for_bundle(self, group: GroupName, messages: int, bodies_bytes: int) -> bool:
        """Whether the window has room for a bundle of a batch, and a ticket for its receipt is free."""
        cost = REQUEST_COST_BYTES + _FIRST_BYTES + len(encode_groups((group,))) + MARK_BYTES_MAX
        cost += _EACH_BYTES * messages + bodies_bytes
        has_room = not self.charged_bytes or self.charged_bytes + cost <= self.welcome.window_bytes
        return has_room and self.has_ticket

    def append_bundle(
        self, sending: OutgoingMessage, mark: BatchMark, bodies: Sequence[bytes], types: Sequence[int]
    ) -> Ticket:
        """Adds a bundle of a batch, with a ticket for its last message; check `has_room_for_bundle` first."""
        self.close_bundle()
        number, ticket = self._ticket(sending)
        key = self._key(sending.groups, sending.service, sending.self_discard).replace(mark=mark)
        hints = bytes([*bytes(len(bodies) - 1), number])
        bundle = bundle_parts(key, bodies, types, hints)
        self.charged_bytes += REQUEST_COST_BYTES + bundle.size_bytes
        self._send_frame(bundle, len(bodies))
        return ticket

    def append_requests(self, sending: OutgoingMessage, bodies: Sequence[bytes]) -> Ticket:
        """Adds a bundle whose receipt lists the members of its group; check `has_room_for_bundle` first.

        One ticket suffices: the messages of a bundle share their place in the order.
        """
        self.close_bundle()
        number, ticket = self._ticket(sending)
        if len(bodies) == 1:
            template = self._listed_template(sending)
            cost = REQUEST_COST_BYTES + template.size_bytes(bodies[0])
            self.charged_bytes += cost
            self.requests.append((cost, 1))
            self.out.append(template.frame(bodies[0], sending.message_type, number))
            return ticket
        key = self._key_of(sending)
        hints = bytes([*bytes(len(bodies) - 1), number])
        types = array("H", [sending.message_type]) * len(bodies)
        bundle = bundle_parts(key.replace(listed=True), bodies, types, hints)
        self.charged_bytes += REQUEST_COST_BYTES + bundle.size_bytes
        self._send_frame(bundle, len(bodies))
        return ticket

    def _listed_template(self, sending: OutgoingMessage) -> SendTemplate:
        """The template of a single request to a group; the last one is reused if it fits."""
        last = self._listed
        if last is None or last.key.groups != sending.groups or last.key.service is not sending.service:
            last = self._listed = SendTemplate(self._key_of(sending).replace(listed=True))
        return last

    def has_room_for_next(self, many: OutgoingSeries) -> bool:
        """Whether the window has room for the next message of a series; an error if any of it is too large."""
        many.check(self.welcome.message_bytes_max)
        return self._next_fits(many)

    def append_some(self, many: OutgoingSeries) -> None:
        """Adds as many messages of a series as fit, in separate bundles; check `has_room_for_next` first."""
        self.close_bundle()
        key = self._key_of(many.sending)
        while many.left and self._next_fits(many):
            bodies = many.take(many.portion(min(self._room_bytes(many), self.bundle_bytes_aim), _EACH_BYTES))
            types = array("H", [many.sending.message_type]) * len(bodies)
            bundle = bundle_parts(key, bodies, types, bytes(len(bodies)))
            self.charged_bytes += REQUEST_COST_BYTES + bundle.size_bytes
            self._send_frame(bundle, len(bodies))

    def _next_fits(self, many: OutgoingSeries) -> bool:
        return not self.charged_bytes or self._room_bytes(many) >= many.next_bytes() + _EACH_BYTES

    def _room_bytes(self, many: OutgoingSeries) -> int:
        """The room for another bundle's bodies and columns."""
        first_bytes = REQUEST_COST_BYTES + _FIRST_BYTES + len(encode_groups(many.sending.groups))
        return self.welcome.window_bytes - self.charged_bytes - first_bytes

    def fill_tickets(self, message: ReceiptNotice) -> None:
        """Puts the receipt into each ticket that a RECEIPT names."""
        numbers = set(message.tickets)
        if len(numbers) < len(message.tickets) or not numbers <= self.tickets.keys():
            raise PeerError(Drop.INCONSISTENT, "a receipt that nobody asked for")
        if len(message.members) != len(message.tickets):
            raise PeerError(
                Drop.INCONSISTENT, f"{len(message.members)} counts for {len(message.tickets)} tickets"
            )
        for number, members in zip(message.tickets, message.members, strict=True):
            ticket, sending = self.tickets.pop(number)
            parts = sending.groups, sending.service, message.place, message.closing, members
            ticket.receipt = Receipt(*parts, message.holders or None)
            ticket.listed = message.listed

    def try_frame(self, kind: int, chunk: bytes, start: int, end: int) -> bool:
        """Takes a CREDIT or a RECEIPT; False for another one, and if it is invalid: it is refused later."""
        if kind == _CREDIT:
            size_bytes = credit_at(chunk, start, end)
            if not 0 <= size_bytes <= self.charged_bytes:
                return False
            self.credited(size_bytes)
            return True
        if kind != _RECEIPT:
            return False
        try:
            message = decode_control(Frame(FrameKind.RECEIPT, chunk[start:end]))
            if isinstance(message, ReceiptNotice):
                self.fill_tickets(message)
        except PeerError:
            return False
        return True

    def deny(self, numbers: tuple[int, ...], error: HopError) -> None:
        """Marks the tickets of refused messages."""
        if not self.tickets.keys() >= set(numbers):
            raise PeerError(Drop.INCONSISTENT, "a refusal of messages that were not sent")
        for number in numbers:
            ticket, _ = self.tickets.pop(number)
            ticket.denied, ticket.lost = error, True

    def lose_tickets(self) -> None:
        """Marks all tickets as lost."""
        for ticket, _ in self.tickets.values():
            ticket.lost = True
        self.tickets.clear()

    def _ticket(self, sending: OutgoingMessage) -> tuple[int, Ticket]:
        number = next(one for one in range(1, TICKETS_MAX + 1) if one not in self.tickets)
        ticket = Ticket()
        self.tickets[number] = (ticket, sending)
        return number, ticket

    def _key_of(self, sending: OutgoingMessage) -> BundleKey:
        """The bundle key of a message; the last one is reused if it is equal."""
        last = self._last_key
        if (
            last is None
            or last.groups is not sending.groups
            or last.service is not sending.service
            or last.self_discard is not sending.self_discard
            or last.enveloped is not sending.enveloped
            or last.resilience != sending.resilience
        ):
            last = self._last_key = self._key(
                sending.groups, sending.service, sending.self_discard, sending.enveloped, sending.resilience
            )
        return last

    def has_room_for_request(self) -> bool:
        """Whether the window has room for another join, leave or query."""
        return not self.charged_bytes or self.charged_bytes + REQUEST_COST_BYTES <= self.welcome.window_bytes

    @property
    def in_doubt(self) -> int:
        """The number of messages that are not credited."""
        waiting = 1 if self._single is not None else len(self.builder) if self.builder is not None else 0
        return sum([messages for _, messages in self.requests]) + waiting

    def credited(self, size_bytes: int) -> None:
        """Applies a credit; the daemon credits whole requests, in their order."""
        self.charged_bytes -= size_bytes
        requests = self.requests
        while requests:
            first_bytes = requests[0][0]
            if first_bytes > size_bytes:
                break
            size_bytes -= first_bytes
            requests.popleft()

    def _charge_open(self, cost: int) -> None:
        """Charges the upper limit of a message's cost; `close_bundle` corrects it."""
        self.charged_bytes += cost
        self._open_bytes += cost

    def append_request(self, message: ControlMessage, cost_bytes: int = 0) -> None:
        """Adds a control message behind all messages so far."""
        self.close_bundle()
        if cost_bytes:
            self.charged_bytes += cost_bytes
            self.requests.append((cost_bytes, 0))
        self.out.append(encode_control(message))

    def close_bundle(self) -> None:
        """Closes the open bundle, if there is one, and adds its frame to the output."""
        template = self._single
        if template is not None:
            cost = REQUEST_COST_BYTES + template.size_bytes(self._single_data)
            self.charged_bytes += cost - self._open_bytes
            self._open_bytes = 0
            self.requests.append((cost, 1))
            self.out.append(template.frame(self._single_data, self._single_type))
            self._single, self._single_data = None, b""
        elif self.builder is not None:
            bundle = self.builder.finish()
            self.charged_bytes += REQUEST_COST_BYTES + bundle.size_bytes - self._open_bytes
            self._open_bytes = 0
            self._send_frame(bundle, len(self.builder))
            self.builder = None

    def _send_frame(self, bundle: BundleParts, messages: int) -> None:
        self.requests.append((REQUEST_COST_BYTES + bundle.size_bytes, messages))
        self.out.append(join_frame(FrameKind.SEND, bundle.size_bytes, bundle.parts))

    def _cost(self, builder: BundleBuilder | None, key: BundleKey, data: bytes) -> int:
        """The charge for a message: in the open bundle if it fits there, or as the first of another."""
        if builder is not None and _fits(builder, key, data):
            return builder.cost_bytes(key.groups, len(data))
        first_bytes = REQUEST_COST_BYTES + _FIRST_BYTES + len(encode_groups(key.groups))
        return first_bytes + COLUMNS_BYTES + len(data)


def _fits(builder: BundleBuilder, key: BundleKey, data: bytes) -> bool:
    if not builder.accepts(key.groups, key.service, key.self_discard, key.enveloped, key.resilience):
        return False
    return builder.fits(builder.cost_bytes(key.groups, len(data)) - COLUMNS_BYTES)
