"""Binds view synchrony to a session: its views, messages and connections.

Below       the core of a session (client/core.py).
Above       the shells (aio_flush.py, blocking_flush.py): they join and leave, call `advance` whenever bytes
            have arrived and at `wake_at_us`, and send the session's output afterwards.
Invariants  views of a group with view synchrony come from here only, in the session's stream, in the one order
            with its messages; a group is muted while it has no view.

Members of a group that have view synchrony are in a group of their own, its name with VIEW_SUFFIX: its views
are the base views. So nobody waits for the agreement of a spooler, or of another member without view synchrony.
Their messages go to the group itself, so those members get them, too. Rings of peers have no order across
groups: there messages go to the group of the members with view synchrony, and a copy to the group for others.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import msgspec

from hopring.blocks.flush_header import (
    FLUSH_HEADER,
    AgreementMark,
    ExclusionMark,
    FlushMark,
    ViewMark,
    decode_flush,
    encode_flush,
    view_key,
)
from hopring.blocks.flushing import (
    AgreementArrived,
    AgreeToFlush,
    AskToFlush,
    BaseClosing,
    BaseView,
    DeliverContent,
    ExclusionArrived,
    FlushMember,
    FlushPhase,
    GiveUp,
    Input,
    InstallView,
    MemberDisconnected,
    Output,
    SendAgreement,
    SendExclusion,
    ShowClosing,
    ViewMessage,
    service_in_view,
)
from hopring.client import calls
from hopring.client.arguments import ViewSynchrony
from hopring.client.calls import Call, Wait, until_us
from hopring.client.core import ClientCore
from hopring.client.errors import (
    AlreadyMember,
    FlushPending,
    NotAsked,
    NotMember,
    RequestRefused,
    SessionClosed,
    TimedOut,
)
from hopring.client.events import (
    Excluded,
    FlushRequest,
    Member,
    Message,
    Receipt,
    Transition,
    View,
    split_envelope,
)
from hopring.client.outgoing import OutgoingMessage, OutgoingSeries, checked_plain_group
from hopring.client.peer_url import is_peer_url
from hopring.groups.names import VIEW_SUFFIX, GroupViewId
from hopring.ids import NEVER, DaemonId, GroupName
from hopring.links.events import Tick
from hopring.session.frames import FRAME_HEAD_BYTES, encode_delivered
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX, BundleKey, bundle_parts, decode_bundle
from hopring.wire.envelope import encode_envelope

VOID_REQUESTS_MAX: Final = 64
"""Requests to flush that are remembered though a loss or an exclusion has made them void."""

_LATE: Final = "it had not agreed to the flush in time"
_REFUSALS: Final = {
    FlushPhase.OUTSIDE: ("the session has no view of it now", "wait for the next View"),
    FlushPhase.JOINING: ("the session has no view of it yet", "take events until the first View"),
    FlushPhase.AGREED: ("the session has agreed to the flush", "send after the next View, or before flush_ok"),
}


def flush_group(group: str) -> GroupName:
    """The group of the members with view synchrony."""
    checked_plain_group(group)
    name = group + VIEW_SUFFIX
    if len(name.encode()) > GROUP_NAME_BYTES_MAX:
        most = GROUP_NAME_BYTES_MAX - len(VIEW_SUFFIX)
        raise RequestRefused(
            group, "its name is too long for view synchrony", f"choose one of {most} bytes at most"
        )
    return GroupName(name)


@dataclass(slots=True)
class SynchronousGroup:
    """A group that the session is in with view synchrony."""

    name: GroupName
    base: GroupName  # The group of its members with view synchrony.
    member: FlushMember
    views: dict[str, View] = field(
        default_factory=dict
    )  # By key: the base views of the view and of the attempt.
    queue: deque[OutgoingMessage] = field(default_factory=deque)  # Agreements and exclusions.
    envelope: bytes = b""  # Of a message in the present view.
    asked: GroupViewId | None = None  # The view of the request that has no answer.
    void: set[GroupViewId] = field(default_factory=set)
    returning: bool = False  # It has to leave and to join again.
    apart: bool = False  # Both groups have an order of their own: messages go where the agreements go.
    others: bool = False  # The group has members without view synchrony.
    present: frozenset[str] = frozenset()  # Its members, if it has an order of its own.

    def parts_of(self, sending: OutgoingMessage) -> list[OutgoingMessage]:
        """The messages that a message is sent as."""
        if not self.apart:
            return [sending]
        copies = (self.base, self.name) if self.others else (self.base,)
        return [sending._replace(groups=(group,)) for group in copies]

    def members(self, view: str, names: tuple[str, ...]) -> tuple[Member, ...]:
        """Members of a base view by their private groups."""
        found = {one.private_group: one for one in self.views[view].members}
        return tuple([found[name] for name in names])


class FlushExchange:
    """All groups with view synchrony of one session."""

    def __init__(self, core: ClientCore) -> None:
        self.core = core
        self.groups: dict[str, SynchronousGroup] = {}
        self._bases: dict[str, SynchronousGroup] = {}
        self._connection = core.connection if core.connected else None
        self._others = core.state.sink  # Of another block.
        self._answers_due: list[tuple[str, str]] = []  # Of requests that no call waits for.
        core.state.sink = self.take

    # Memberships.

    def open(self, group: str, options: ViewSynchrony) -> SynchronousGroup:
        """Begins to follow a group; the shell joins first the group, then its base."""
        base = flush_group(group)
        if group in self.groups or group in self.core.groups:
            raise AlreadyMember(group, "the session is in it, or soon will be", "leave it first")
        patience_us = NEVER if options.late == "wait" else int(options.flush_seconds * 1_000_000)
        its = SynchronousGroup(GroupName(group), base, FlushMember(patience_us))
        its.apart = is_peer_url(self.core.tries.url)
        self.groups[group] = self._bases[base] = its
        state = self.core.state
        state.hidden.add(base)
        state.view_sinks[base] = lambda event, joined: self._base_event(its, event, joined)
        state.view_sinks[group] = lambda event, _joined: _note_others(its, event)
        state.muted.add(group)
        if self.core.connection.outgoing is not None:
            self.core.connection.outgoing.guard(group)
        state.guarded.add(group)
        return its

    def close(self, group: str) -> None:
        """Follows a group no longer."""
        its = self.groups.pop(group)
        del self._bases[its.base]
        state = self.core.state
        state.hidden.discard(its.base)
        for name in (its.base, group):
            state.view_sinks.pop(name, None)
            state.muted.discard(name)
        state.guarded.discard(group)

    def agree(self, request: FlushRequest) -> None:
        """The application has sent all that belongs to the view."""
        its = self.groups.get(request.group)
        if its is None:
            raise NotMember(
                request.group, "the session has no view synchrony there", 'join with synchrony="view"'
            )
        self._follow_connection()
        if request.id in its.void:
            its.void.discard(request.id)  # A loss or an exclusion came first; the application could not know.
        elif request.id != its.asked:
            raise NotAsked(
                request.group, "this flush is not requested now", "call flush_ok once for each FlushRequest"
            )
        else:
            its.asked = None
            self._step(its, AgreeToFlush())

    # Messages of the application.

    def guards(self, groups: tuple[GroupName, ...]) -> bool:
        """Whether a message to these groups is sent from here."""
        return any(group in self.groups for group in groups)

    def multicast(self, sending: OutgoingMessage, now_us: int, seconds: float | None = None) -> Call[None]:
        """Waits for room in the window and sends a message in the present view."""
        its, core = self._to(sending.groups), self.core
        view, parts = its.member.sending_view, its.parts_of(self._tagged(its, sending))
        yield from self._room(its, view, lambda: all(map(core.has_room, parts)), now_us, seconds)
        for part in parts:
            core.send(part)

    def multicast_many(self, many: OutgoingSeries, now_us: int, seconds: float | None = None) -> Call[None]:
        """Sends a series of messages in the present view, waiting for room in the window."""
        its, core = self._to(many.sending.groups), self.core
        view = its.member.sending_view
        service = service_in_view(many.sending.service)
        bodies = [its.envelope + body for body in many.bodies]
        for part in its.parts_of(many.sending._replace(enveloped=True, service=service)):
            tagged = OutgoingSeries(part, bodies)
            while tagged.left:
                room = partial(core.has_room_for_some, tagged)
                yield from self._room(its, view, room, now_us, seconds)
                core.send_some(tagged)
        many.take(many.left)

    def multicast_wait(
        self, sending: OutgoingMessage, now_us: int, seconds: float | None = None
    ) -> Call[Receipt]:
        """Sends a message in the present view and waits for its receipt."""
        its, core = self._to(sending.groups), self.core
        view = its.member.sending_view
        tagged, *copies = its.parts_of(self._tagged(its, sending))
        room = lambda: core.has_room_and_ticket(tagged) and all(map(core.has_room, copies))  # noqa: E731
        yield from self._room(its, view, room, now_us, seconds)
        for copy in copies:
            core.send(copy)
        receipt = yield from calls.multicast_wait(core, tagged, now_us, seconds)
        return replace(receipt, groups=(its.name,))

    def _to(self, groups: tuple[GroupName, ...]) -> SynchronousGroup:
        """The group of a message that may be sent now; an error if it may not."""
        its = next(self.groups[group] for group in groups if group in self.groups)
        if len(groups) > 1:
            reason = "a message to it and to other groups at once has no view"
            raise RequestRefused(its.name, reason, "send a message to each group")
        self._check_may_send(its)
        return its

    def _check_may_send(self, its: SynchronousGroup) -> None:
        if self.core.ended is not None:
            raise self.core.ended
        if self.core.quitting:
            raise SessionClosed("it is being closed here")
        self._follow_connection()
        if not its.member.may_send:
            raise FlushPending(its.name, *_REFUSALS[its.member.phase])

    def _room(
        self, its: SynchronousGroup, view: str, has_room: Callable[[], bool], now_us: int, seconds: float | None
    ) -> Call[None]:
        """Waits for room; the view must be the same then, and the member must not have agreed to end it."""
        end_us = until_us(now_us, seconds)
        while not has_room():
            now_us = yield Wait(lambda: has_room() or its.member.view != view, end_us)
            self._check_may_send(its)
            if its.member.view != view:
                reason, remedy = (
                    "the view ended while the message waited for room",
                    "decide whether to send it now",
                )
                raise FlushPending(its.name, reason, remedy)
            if now_us >= end_us and not has_room():
                raise TimedOut("multicast", seconds or 0.0)

    def _tagged(self, its: SynchronousGroup, sending: OutgoingMessage) -> OutgoingMessage:
        sending = sending._replace(service=service_in_view(sending.service))
        if not sending.enveloped:
            return sending._replace(data=its.envelope + sending.data, enveloped=True)
        headers, data = split_envelope(sending.data)
        mark = encode_flush(ViewMark(its.member.sending_view))
        return sending._replace(data=encode_envelope({FLUSH_HEADER: mark, **headers}) + data)

    # Events of the session.

    def take(self, message: Message) -> bool:
        """Uses up a message of view synchrony; False if it is to be delivered as it is."""
        text = message.headers.get(FLUSH_HEADER)
        mark = None if text is None else decode_flush(text)
        if mark is None:
            return self._others is not None and self._others(message)
        if isinstance(mark, ViewMark):
            its = self._bases.get(message.groups[0])
            if its is not None and its.apart:
                return self._message(its, msgspec.structs.replace(message, groups=(its.name,)), mark)
            its = self.groups.get(message.groups[0])
            if its is not None and its.apart:
                return True  # A copy for others.
            return its is not None and self._message(its, message, mark)
        its = self._bases.get(message.groups[0])
        if its is None:
            return False
        if isinstance(mark, AgreementMark):
            self._step(its, AgreementArrived(message.sender, mark.attempt, mark.leader))
        else:
            self._step(its, ExclusionArrived(message.sender, mark.attempt))
        return True

    def _message(self, its: SynchronousGroup, message: Message, mark: ViewMark) -> bool:
        if its.base not in self.core.groups:
            return (
                True  # The session has left the members with view synchrony, and is about to leave the group.
            )
        self._follow_connection()
        outputs = its.member.step(ViewMessage(message.sender, mark.view, message), self._now_us)
        if len(outputs) == 1 and isinstance(outputs[0], DeliverContent) and not its.apart:
            return False
        self._carry_out(its, outputs)
        return True

    def _base_event(self, its: SynchronousGroup, event: View | Transition, joined: bool) -> None:
        if isinstance(event, Transition):
            self._step(its, BaseClosing(frozenset([one.private_group for one in event.members])))
            return
        key = view_key(event.id)
        kept = (its.member.view, key)
        its.views = {name: view for name, view in its.views.items() if name in kept}
        its.views[key] = event
        names = tuple([one.private_group for one in event.members])
        its.others = bool(its.present - set(names))
        together = frozenset([one.private_group for one in event.together])
        joined_as = self.core.welcomed.private_group if joined else ""
        self._step(its, BaseView(key, names, together, event.primary, joined_as))

    def _step(self, its: SynchronousGroup, event: Input) -> None:
        self._follow_connection()
        self._carry_out(its, its.member.step(event, self._now_us))

    @property
    def _now_us(self) -> int:
        """The time at which the bytes arrived that are being handled."""
        return self.core.stream.now_us - self.core.epoch_us

    # Outputs.

    def _carry_out(self, its: SynchronousGroup, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case DeliverContent(_, content):
                    assert isinstance(content, Message), "messages were given"
                    self.core.state.stream.put_single(content, _body_of(content), 0)
                case AskToFlush(view, members):
                    its.asked = its.views[view].id
                    self._show(FlushRequest(its.name, its.asked, its.members(view, members)))
                case InstallView():
                    self._install(its, output)
                case ShowClosing(view, members):
                    self._show(Transition(its.name, its.views[view].id, its.members(view, members)))
                case SendAgreement(attempt, leader):
                    self._queue(its, AgreementMark(attempt, leader))
                case SendExclusion(attempt):
                    self._queue(its, ExclusionMark(attempt))
                case GiveUp(view):
                    if view:
                        self._show(Excluded(its.name, its.views[view].id, _LATE))
                    self._void(its)
                    its.returning = True
        self._send()

    def _show(self, event: View | Transition | FlushRequest | Excluded) -> None:
        self.core.state.stream.put(event, 0)

    def _install(self, its: SynchronousGroup, output: InstallView) -> None:
        base = its.views[output.id]
        single = output.whole and base.cause != "network"
        sets = tuple([its.members(output.id, one) for one in output.sets])
        members = its.members(output.id, output.members)
        together = its.members(output.id, output.together)
        cause, who = (base.cause, base.who) if single else ("network", None)
        its.envelope = encode_envelope({FLUSH_HEADER: encode_flush(ViewMark(output.id))})
        self.core.state.muted.discard(its.name)
        self._show(View(its.name, base.id, members, together, cause, who, sets, base.primary))

    def _void(self, its: SynchronousGroup) -> None:
        """The member has no view any more, and need not agree to anything."""
        self.core.state.muted.add(its.name)
        its.queue.clear()
        if its.asked is not None and len(its.void) < VOID_REQUESTS_MAX:
            its.void.add(its.asked)
        its.asked = None

    def _queue(self, its: SynchronousGroup, mark: FlushMark) -> None:
        envelope = encode_envelope({FLUSH_HEADER: encode_flush(mark)})
        its.queue.append(OutgoingMessage((its.base,), envelope, enveloped=True))

    # Time, connections and output.

    @property
    def wake_at_us(self) -> int:
        """The next time at which `advance` is due, whatever arrives."""
        return min([its.member.wake_at_us for its in self.groups.values()], default=NEVER)

    def advance(self, now_us: int) -> None:
        """Handles losses of the connection and time; sends what waits."""
        core = self.core
        if core.ended is not None:
            return
        self._follow_connection()
        for its in list(self.groups.values()):
            if now_us >= its.member.wake_at_us:
                self._carry_out(its, its.member.step(Tick(), now_us))
        self._send()
        self._drop_answers()

    def _follow_connection(self) -> None:
        """Ends all memberships of a connection that is lost."""
        connection = self.core.connection
        if self._connection is not None and (connection is not self._connection or not self.core.connected):
            self._connection = None
            self._answers_due.clear()
            for its in self.groups.values():
                its.member.step(MemberDisconnected(), 0)
                its.returning = False
                self._void(its)
        if connection.is_open:
            self._connection = connection

    def _send(self) -> None:
        core = self.core
        if core.ended is not None or core.quitting or not core.may_ask():
            return
        for its in self.groups.values():
            if its.returning:
                its.returning = False
                core.leave(its.base)
                core.join(its.base)
                self._answers_due += [("leave", its.base), ("join", its.base)]
            while its.queue and core.outgoing.has_room(its.queue[0]):
                core.send(its.queue.popleft())

    def _drop_answers(self) -> None:
        """Takes the answers to requests that were made here."""
        for request in [one for one in self._answers_due if one in self.core.answers]:
            del self.core.answers[request]
            self._answers_due.remove(request)


def _note_others(its: SynchronousGroup, event: View | Transition) -> None:
    """Views of the group itself are not shown; they tell whether there are members without view synchrony."""
    if isinstance(event, View) and its.apart:
        its.present = frozenset([one.private_group for one in event.members])
        synchronous = [one.private_group for view in its.views.values() for one in view.members]
        its.others = bool(its.present - set(synchronous))


def _body_of(message: Message) -> bytes:
    """The body of the frame that a message came in, for readers that want its columns."""
    names = tuple([GroupName(one) for one in message.groups])
    body = encode_envelope(message.headers) + message.data
    key = BundleKey(DaemonId(0), 0, message.service, names, enveloped=True)
    bundle = decode_bundle(b"".join(bundle_parts(key, [body], [message.type], [0]).parts))
    return encode_delivered(message.sender, message.place, bundle)[FRAME_HEAD_BYTES:]
