"""Sessions of this daemon as the groups know them: their names, and the queues of their requests.

A client has two halves at its daemon. `LocalSession` begins with an accepted name and ends when the KILL is
ordered, so it outlives the connection until its queued requests are sent. `ConnectedSession`
(session/session.py) is the connection: it begins before the client has a name, and has windows and backlog.

Invariants  whether a message's time to live has ended is decided once: when it is taken from the queue to be
            given to the order, or when it ends while the session waits for a group. A session's requests are
            sent in the order in which they came; a join that waits for its announcement delays its own session
            only, and so does a message for a blocked group; sessions are served round robin, those with
            priority first; a name is in use until its holder's KILL is ordered. Queued bundles of one session
            are merged: a client that writes each message by itself makes a bundle of each; bundles that wait in
            the queue together get one place in the order, and cost every daemon one bundle.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar, assert_never

from hopring.engine import SubmitMessage
from hopring.groups.events import ClaimLock, JoinGroup, LeaveGroup, ReleaseLock, Send
from hopring.groups.messages import (
    CHANGES_BY,
    GroupJoin,
    GroupKill,
    GroupLeave,
    GroupLock,
    GroupMessage,
    GroupUnlock,
    encode_group_message,
)
from hopring.groups.payloads import append_sender
from hopring.ids import NEVER, GroupName
from hopring.wire.builder import BundleBuilder
from hopring.wire.bundle import COLUMNS_BYTES, MESSAGE_BYTES_MAX, MESSAGES_MAX, Bundle, BundleKey, decode_bundle

REQUEST_COST_BYTES: Final = 256
"""Memory of a queued request beside its bundle; counted so that many tiny requests reach the limit too.

Clients, which need not load this module, have it from session/options.py."""

EXPEDITED_IN_A_ROW: Final = 16
"""After this many requests with priority, one without is sent."""

Queued = JoinGroup | LeaveGroup | ClaimLock | ReleaseLock | Send | GroupKill


MERGED_BYTES_MAX: Final = 16 * 1024
"""Limit of a merged bundle, above which merging saves little; a bundle of more than half is not merged."""


@dataclass(slots=True)
class BundleMerger:
    """Merges a bundle with compatible ones behind it."""

    first: Send
    _builder: BundleBuilder | None = None

    def add(self, send: Send) -> bool:
        """Adds the next bundle, if it is compatible; returns whether it was added."""
        builder = self._builder
        if builder is None:
            if not (_may_merge(self.first) and _may_merge(send)):
                return False
            builder = BundleBuilder(self.first.key, MESSAGE_BYTES_MAX, MERGED_BYTES_MAX)
            if not _fits(builder, send.key, len(send.bundle), 1):
                return False
            self._builder = builder
            _append(builder, decode_bundle(self.first.bundle))
        elif not _may_merge(send):
            return False
        bundle = decode_bundle(send.bundle)
        if not _fits(builder, bundle.key, len(bundle.bodies), len(bundle)):
            return False
        _append(builder, bundle)
        return True

    def send(self) -> Send:
        """The merged bundle, as one request."""
        first = self.first
        if self._builder is None:
            return first
        return Send(first.session, first.key, b"".join(self._builder.finish().parts))


def _may_merge(send: Send) -> bool:
    key = send.key
    if send.deadline_us != NEVER:
        return False  # It has a deadline of its own.
    special = (
        key.mixed or key.mark is not None or key.listed or key.retained or key.channel or key.service.loose
    )
    spread = key.spread_bits or key.spread_groups
    return not special and not spread and len(send.bundle) <= MERGED_BYTES_MAX // 2


def _fits(builder: BundleBuilder, key: BundleKey, size_bytes: int, messages: int) -> bool:
    if len(builder) + messages > MESSAGES_MAX or builder.key.big_endian is not key.big_endian:
        return False
    more_bytes = size_bytes + COLUMNS_BYTES * (messages - 1)
    accepts = builder.accepts(key.groups, key.service, key.self_discard, key.enveloped, key.resilience)
    return accepts and builder.fits(more_bytes)


def _append(builder: BundleBuilder, bundle: Bundle) -> None:
    groups = bundle.key.groups
    for body, kind, hints in zip(bundle.messages(), bundle.types.tolist(), bundle.hints.tolist(), strict=True):
        builder.append(body, kind, hints, groups)


@dataclass(slots=True)
class LocalSession:
    """The half of a client that the groups know: its name, and the requests that are not submitted."""

    number: int
    name: str
    requests: deque[Queued] = field(default_factory=deque)
    priority: bool = False
    queued_bytes: int = 0
    wants: set[GroupName] = field(default_factory=set)  # Its groups once all its requests are carried out.
    ends: bool = False  # Its KILL is queued or sent.
    lined_up: bool = False  # It has requests, and is in `ready`, `expedited`, `parked` or `held`.
    impatient: bool = False  # Its messages to suspended groups are refused; otherwise they wait.

    def waits_in_vain(self, group: GroupName) -> bool:
        """Whether its messages need not wait for this suspended group, because it ends, leaves, or chose so."""
        leaves = any(isinstance(one, LeaveGroup) and one.group == group for one in self.requests)
        return self.impatient or self.ends or leaves

    def bring_forward(self, group: GroupName) -> bool:
        """Lets a join of this suspended group pass what waits for it; returns whether there is one.

        Otherwise a group that waits for its member, and the join behind a message to it, would wait for ever.
        """
        for one in self.requests:
            if isinstance(one, JoinGroup) and one.group == group:
                self.requests.remove(one)
                self.requests.appendleft(one)
                return True
        return False


@dataclass(slots=True)
class LocalSessions:
    """All sessions of this daemon, and the order in which they are served."""

    by_number: dict[int, LocalSession] = field(default_factory=dict)
    by_name: dict[str, LocalSession] = field(default_factory=dict)
    joining: Counter[GroupName] = field(default_factory=Counter)  # Joins requested and not delivered.
    ready: deque[int] = field(default_factory=deque)  # Sessions with requests that can be sent.
    expedited: deque[int] = field(default_factory=deque)  # Such sessions with priority.
    in_a_row: int = 0  # Requests with priority since the last one without.
    parked: dict[GroupName, list[int]] = field(default_factory=dict)  # Sessions whose join waits.
    # Groups with receivers that are behind, and suspended ones.
    blocked: Counter[GroupName] = field(default_factory=Counter)
    suspended: Collection[GroupName] = ()  # Groups below their minimum (groups/minimum.py).
    held: dict[GroupName, list[int]] = field(default_factory=dict)  # Sessions that wait for these groups.
    now_us: int = 0  # When the next request is taken.
    expired: list[Send] = field(default_factory=list)  # Not given to the order: their senders are told.
    refused: list[Send] = field(default_factory=list)  # The same, since their groups are suspended.
    expires_at_us: int = NEVER  # When messages of sessions in `held` may have to be dropped.

    def begin(self, number: int, name: str, priority: bool = False, impatient: bool = False) -> None:
        """Adds a session under a free name."""
        session = LocalSession(number, name, priority=priority, impatient=impatient)
        self.by_number[number] = session
        self.by_name[name] = session

    def end(self, number: int) -> str:
        """The KILL of a session is ordered; returns its name, which is free again."""
        session = self.by_number.pop(number)
        del self.by_name[session.name]
        return session.name

    def put(self, session: LocalSession, request: Queued) -> None:
        """Queues a request of a session."""
        session.requests.append(request)
        session.queued_bytes += _cost(request)
        if isinstance(request, JoinGroup):
            self.joining[request.group] += 1
        if not session.lined_up:
            session.lined_up = True
            self._line_up(session.number)
        elif self.held and isinstance(request, Send):
            self.expires_at_us = min(self.expires_at_us, request.deadline_us)

    def time_passes(self, now_us: int) -> None:
        """Drops messages whose time to live has ended while their sessions wait for groups."""
        self.now_us = now_us
        if now_us < self.expires_at_us:
            return
        self.expires_at_us = NEVER
        for number in [one for numbers in self.held.values() for one in numbers]:
            session = self.by_number[number]
            late, session.requests = without_late(session.requests, now_us)
            self.expired.extend(late)
            session.queued_bytes -= sum(map(_cost, late))
            self.expires_at_us = min(self.expires_at_us, first_deadline_us(session.requests))
        for group, numbers in list(self.held.items()):
            # Those whose first message is gone: look again what they wait for.
            for number in [one for one in numbers if not self._waits_for(self.by_number[one], group)]:
                self._release(group, number)

    def _waits_for(self, session: LocalSession, group: GroupName) -> bool:
        return bool(session.requests) and self._awaited(session.requests[0]) == group

    def _release(self, group: GroupName, number: int) -> None:
        self.held[group].remove(number)
        if not self.held[group]:
            del self.held[group]
        session = self.by_number[number]
        session.lined_up = bool(session.requests)
        if session.requests:
            self._line_up(number)

    def _line_up(self, number: int) -> None:
        (self.expedited if self.by_number[number].priority else self.ready).append(number)

    def joined(self, group: GroupName) -> None:
        """A join to this group is delivered or given up."""
        self.joining[group] -= 1
        if not self.joining[group]:
            del self.joining[group]

    def unpark(self, groups: Collection[GroupName]) -> None:
        """Joins to these groups may be sent."""
        for group in groups:
            for number in self.parked.pop(group, []):
                self._line_up(number)

    def block(self, groups: Collection[GroupName]) -> None:
        """One more receiver in these groups is behind."""
        self.blocked.update(groups)

    def unblock(self, groups: Collection[GroupName]) -> None:
        """One receiver less in these groups is behind."""
        for group in groups:
            self.blocked[group] -= 1
            if not self.blocked[group]:
                del self.blocked[group]
                for number in self.held.pop(group, []):
                    self._line_up(number)

    def give_up(self, session: LocalSession, known: Collection[GroupName]) -> list[GroupName]:
        """Drops the joins of an ending session that wait for announcements; returns their groups."""
        for group in [name for name, numbers in self.parked.items() if session.number in numbers]:
            self.parked[group].remove(session.number)
            self._line_up(session.number)
            if not self.parked[group]:
                del self.parked[group]
        kept: deque[Queued] = deque()
        given_up: list[GroupName] = []
        for one in session.requests:
            if isinstance(one, JoinGroup) and one.group not in known:
                given_up.append(one.group)
                session.queued_bytes -= _cost(one)
                self.joined(one.group)
            else:
                kept.append(one)
        session.requests = kept
        return given_up

    def next_submission(self, known: Collection[GroupName], bulk_open: bool = True) -> SubmitMessage | None:
        """Takes the next request as a message; joins only to groups whose interest is known to all."""
        while self.expedited or (self.ready and bulk_open):
            session = self.by_number[self._next_session(bulk_open)]
            request = session.requests[0]
            if isinstance(request, JoinGroup) and request.group not in known:
                self.parked.setdefault(request.group, []).append(session.number)
                continue
            if self.blocked and (group := self._awaited(request)) is not None:
                if group in self.suspended and isinstance(request, Send) and session.waits_in_vain(group):
                    self._refuse(session, request)
                elif group in self.suspended and session.bring_forward(group):
                    self._line_up(session.number)
                else:
                    self.held.setdefault(group, []).append(session.number)
                    self.expires_at_us = min(self.expires_at_us, first_deadline_us(session.requests))
                continue
            session.requests.popleft()
            session.queued_bytes -= _cost(request)
            late = isinstance(request, Send) and request.deadline_us <= self.now_us
            if isinstance(request, Send) and session.requests and not late:
                request = self._merged(session, request)
            session.lined_up = bool(session.requests)
            if session.requests:
                self._line_up(session.number)
            if late and isinstance(request, Send):
                self.expired.append(request)
                continue
            return _submission(session, request)
        return None

    def _refuse(self, session: LocalSession, request: Send) -> None:
        """Drops the next request of a session, a message to a suspended group."""
        session.requests.popleft()
        session.queued_bytes -= _cost(request)
        self.refused.append(request)
        session.lined_up = bool(session.requests)
        if session.requests:
            self._line_up(session.number)

    def hurry(self, session: LocalSession) -> None:
        """The session ends, leaves or joins a group: look again whether it has to wait for suspended groups."""
        for group in [one for one in self.suspended if session.number in self.held.get(one, ())]:
            self._release(group, session.number)

    def _merged(self, session: LocalSession, first: Send) -> Send:
        """Merges a bundle with those queued behind it."""
        merger = BundleMerger(first)
        while session.requests:
            request = session.requests[0]
            if not isinstance(request, Send) or (self.blocked and self._awaited(request) is not None):
                break
            if not merger.add(request):
                break
            session.requests.popleft()
            session.queued_bytes -= _cost(request)
        return merger.send()

    def _next_session(self, bulk_open: bool) -> int:
        """The next session: those with priority first, and one of the others after `EXPEDITED_IN_A_ROW`."""
        if self.expedited and (self.in_a_row < EXPEDITED_IN_A_ROW or not (self.ready and bulk_open)):
            self.in_a_row += 1
            return self.expedited.popleft()
        self.in_a_row = 0
        return self.ready.popleft()

    def _awaited(self, request: Queued) -> GroupName | None:
        if not isinstance(request, Send):
            return None
        return next((group for group in request.key.groups if group in self.blocked), None)


Waiting = TypeVar("Waiting")


def without_late(requests: deque[Waiting], now_us: int) -> tuple[list[Send], deque[Waiting]]:
    """The messages whose time to live has ended, and the other requests."""
    late: list[Send] = []
    kept: deque[Waiting] = deque()
    for one in requests:
        if isinstance(one, Send) and one.deadline_us <= now_us:
            late.append(one)
        else:
            kept.append(one)
    return late, kept


def first_deadline_us(requests: Iterable[object]) -> int:
    """When the next time to live of these messages ends."""
    return min([one.deadline_us for one in requests if isinstance(one, Send)], default=NEVER)


def _cost(request: Queued) -> int:
    return REQUEST_COST_BYTES + (len(request.bundle) if isinstance(request, Send) else 0)


def _submission(session: LocalSession, request: Queued) -> SubmitMessage:
    message: GroupMessage
    if isinstance(request, Send):
        return SubmitMessage(
            request.key.service,
            append_sender(request.bundle, session.name),
            session.number,
            request.key.resilience,
        )
    if isinstance(request, JoinGroup):
        message = GroupJoin(session.name, request.group, request.minimum)
    elif isinstance(request, LeaveGroup):
        message = GroupLeave(request.group)
    elif isinstance(request, ClaimLock):
        message = GroupLock(request.group, request.lock, request.serial, request.partial)
    elif isinstance(request, ReleaseLock):
        message = GroupUnlock(request.serial)
    elif isinstance(request, GroupKill):
        message = request
    else:
        assert_never(request)
    return SubmitMessage(CHANGES_BY, encode_group_message(message), session.number)
