"""Refusals of requests that go beyond a limit, or that the daemons cannot fulfil now.

What a client has no right to is refused in access.py. A refusal is told to the client, and nothing is sent.
"""

from collections.abc import Collection, Iterator
from typing import Final

from hopring.engine import Delivered, Withheld
from hopring.errors import PeerError
from hopring.groups.events import JoinGroup, Send
from hopring.groups.interface import GroupsInterface
from hopring.groups.payloads import split_sender
from hopring.ordering.holders import MAJORITY
from hopring.session import render
from hopring.session.access import ClientAccess
from hopring.session.options import (
    BLOCK_RIGHT,
    NOT_PRIMARY,
    PRIORITY_RIGHT,
    SUSPENDED,
    TOO_RESILIENT,
    WITHHELD,
    SessionOptions,
    Slow,
)
from hopring.session.protocol import DeniedNotice, ExpiredNotice, HelloRequest, RefusedReply
from hopring.session.session import ConnectedSession
from hopring.session.slow import SlowReceivers
from hopring.wire.bundle import decode_bundle

CONNECT_ELSEWHERE: Final = "connect to a daemon on the primary side, or wait until the network has healed"
WAIT_FOR_MEMBERS: Final = "send it again when a view of the group is not suspended any more"
WAIT_FOR_PRIMARY: Final = "wait for a view whose View.primary is true, or send without resilience=MAJORITY"


def refuse_hello(
    session: ConnectedSession,
    hello: HelloRequest,
    access: ClientAccess,
    slow: SlowReceivers,
    options: SessionOptions,
    others: Collection[ConnectedSession],
    primary: bool,
) -> RefusedReply | None:
    """The refusal of a HELLO that asks for more than this daemon allows; Spread clients cannot ask."""
    policy = Slow(hello.slow)
    refused = access.refuse_hello(session, hello, others)
    if refused is not None or not session.dialect.native:
        return refused
    if hello.require_primary and not primary:
        return RefusedReply("hello", "primary", NOT_PRIMARY, CONNECT_ELSEWHERE)
    may_block = access.may_block(session, options.allow)
    if policy is Slow.BLOCK and policy in options.slow_allowed and not may_block:
        return render.no_such_right(BLOCK_RIGHT)
    if policy not in slow.allowed(may_block):
        return render.no_such_policy(policy, slow.allowed(may_block))
    if hello.priority and not access.may_have_priority(session, options.allow):
        return render.no_such_right(PRIORITY_RIGHT)
    return None


def too_many_groups(groups: GroupsInterface, options: SessionOptions, join: JoinGroup) -> RefusedReply | None:
    """The refusal of a join beyond a limit: of its session, of this daemon, or of all groups."""
    if len(groups.groups_wanted(join.session)) >= options.groups_max:
        return render.too_many_groups(join, options.groups_max)
    if groups.joins >= options.joins_max:
        return render.too_many_joins(join, options.joins_max)
    if len(groups.table.groups) >= options.known_groups_max and join.group not in groups.table.groups:
        return render.too_many_known_groups(join, options.known_groups_max)
    return None


def too_resilient(groups: GroupsInterface, send: Send) -> DeniedNotice | None:
    """The refusal of resilient messages that can never have their holders, or not in this view."""
    resilience = send.key.resilience
    group = send.key.groups[0]
    if resilience == MAJORITY:
        if groups.is_primary(group):
            return None
        return DeniedNotice(group, NOT_PRIMARY, WAIT_FOR_PRIMARY, _tickets(send.bundle))
    if resilience < groups.holders_max:
        return None
    holders = groups.holders_max
    remedy = f"{holders} daemons are configured: send with resilience={holders - 1} at most"
    return DeniedNotice(group, TOO_RESILIENT, remedy, _tickets(send.bundle))


def withheld(event: Withheld) -> DeniedNotice | None:
    """The notice about messages that were sent, and are withheld because their view ceased to be primary."""
    try:
        bundle = split_sender(event.message.payload)[1]
        group, tickets = decode_bundle(bundle).key.groups[0], _tickets(bundle)
    except PeerError:
        return None  # Another daemon forged it in this one's name.
    return DeniedNotice(group, WITHHELD, WAIT_FOR_PRIMARY, tickets)


def _tickets(bundle: bytes | memoryview) -> tuple[int, ...]:
    """The tickets of the messages that wait for receipts."""
    return tuple([hint for hint in decode_bundle(bundle).hints.tolist() if hint])


def dropped(groups: GroupsInterface) -> Iterator[tuple[int, ExpiredNotice | DeniedNotice]]:
    """For each message that was not given to the order, its session and the notice about it."""
    for send in groups.take_expired():
        yield send.session, expired(send)
    for send in groups.take_refused():
        group = next((one for one in send.key.groups if one in groups.suspended), send.key.groups[0])
        yield send.session, DeniedNotice(group, SUSPENDED, WAIT_FOR_MEMBERS, _tickets(send.bundle))


def undelivered(groups: GroupsInterface, event: Delivered) -> DeniedNotice | None:
    """The refusal of messages that had their turn in suspended groups only: no member here delivered them."""
    if not event.message.service.total:
        return None
    bundle = decode_bundle(split_sender(event.message.payload)[1])
    lost = [at for at in range(len(bundle)) if groups.suspended.issuperset(bundle.groups_of(at))]
    if not lost:
        return None
    hints = bundle.hints.tolist()
    tickets = tuple([hints[at] for at in lost if hints[at]])
    return DeniedNotice(bundle.groups_of(lost[0])[0], SUSPENDED, WAIT_FOR_MEMBERS, tickets)


def expired(send: Send) -> ExpiredNotice:
    """The notice about messages that were not given to the order, because their time to live had ended."""
    hints = decode_bundle(send.bundle).hints.tolist()
    return ExpiredNotice(len(hints), tuple([hint for hint in hints if hint]))
