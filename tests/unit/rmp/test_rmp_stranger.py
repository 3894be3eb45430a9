"""A process that calls a group without being a member: resends, flags, lives, limits."""

from dataclasses import replace

from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.rmp.calls.events import CallAcknowledged, CallAnswered, CallFailed, StrangerOutput, SubmitCall
from hopring.rmp.calls.stranger import CALLS_MAX, WAITING_MAX, Stranger, StrangerOptions
from hopring.rmp.events import MulticastPacket, PacketArrived, UnicastPacket
from hopring.rmp.flow.flow import SenderFlow
from hopring.rmp.flow.policies import FlowOptions, FlowPolicy
from hopring.services import Service
from hopring.wire.rmp.ids import Ballot, DataId, PeerProcess
from hopring.wire.rmp.lists import ListId
from hopring.wire.rmp.packets import NO_HANDLER, NonMemberAck, NonMemberData

ME, MEMBER, OTHER = [PeerProcess(number, 1, number) for number in (1, 2, 3)]
LIST = ListId(Ballot(1, MEMBER), 9)
MS = 1_000
SECOND = 1_000_000


def stranger(**options: object) -> Stranger:
    """A stranger with the paper's flow, whose window has room for 64 packets of 1,000 bytes."""
    flow = SenderFlow(FlowOptions(FlowPolicy.CUBIC, packet_bytes_min=6_400))
    return Stranger(ME, "red", StrangerOptions(**options), flow)  # type: ignore[arg-type]


def call(handler: int = NO_HANDLER, ticket: int = 0, timeout_us: int = 5 * SECOND, size: int = 4) -> SubmitCall:
    return SubmitCall(Service.AGREED, bytes(size), timeout_us, handler=handler, ticket=ticket)


def ack(at: Stranger, seq: int, reply: bytes | None = None) -> PacketArrived:
    packet = NonMemberAck(MEMBER, at.life, LIST, seq, 40 + seq, reply is not None, reply or b"")
    return PacketArrived(packet, 7, MEMBER)


def sent(outputs: list[StrangerOutput]) -> list[NonMemberData]:
    packets = [one.packet for one in outputs if isinstance(one, MulticastPacket | UnicastPacket)]
    return [one for one in packets if isinstance(one, NonMemberData)]


def run(at: Stranger, until_us: int) -> list[tuple[int, StrangerOutput]]:
    """Ticks when they are wanted; outputs with their times."""
    out: list[tuple[int, StrangerOutput]] = []
    while at.wake_at_us <= until_us:
        now_us = at.wake_at_us
        out += [(now_us, one) for one in at.step(Tick(), now_us)]
    return out


def test_the_first_packet_says_so_and_names_the_group() -> None:
    (packet,) = sent(stranger().step(call(), 0))

    assert packet == NonMemberData(
        DataId(ME, 1), Service.AGREED, 0, NO_HANDLER, "red", None, True, False, True, bytes(4)
    )


def test_a_call_without_a_handler_ends_with_its_acknowledgement() -> None:
    at = stranger()
    at.step(call(ticket=5), 0)

    assert at.step(ack(at, 1), 2 * MS) == [CallAcknowledged(5, LIST, 41)]
    assert at.step(ack(at, 1), 3 * MS) == []
    assert (at.wake_at_us, at.flow.flight_bytes) == (NEVER, 0)


def test_the_list_of_an_answer_is_used_for_later_packets_until_a_try_is_in_vain() -> None:
    at = stranger()
    at.step(call(), 0)
    at.step(ack(at, 1), 2 * MS)
    (second,) = sent(at.step(call(), 10 * MS))
    ((_, again),) = run(at, at.wake_at_us)

    assert (second.list, second.first) == (LIST, False)
    assert isinstance(again, MulticastPacket)
    assert again.packet == replace(second, list=None)


def test_calls_are_sent_again_with_doubled_timers_and_fail_after_their_tries() -> None:
    at = stranger()
    at.step(call(ticket=3), 0)
    out = run(at, 10 * SECOND)

    assert [now_us // MS for now_us, one in out if isinstance(one, MulticastPacket)] == [
        5, 15, 35, 75, 155, 255, 355, 455,
    ]  # fmt: skip
    assert out[-1] == (555 * MS, CallFailed(3, False))
    assert at.wake_at_us == NEVER


def test_who_gets_no_answer_says_again_that_its_packet_is_the_first() -> None:
    at = stranger()
    at.step(call(), 0)
    at.step(ack(at, 1), 2 * MS)
    at.step(call(), 10 * MS)
    at.step(call(), 10 * MS)
    out = run(at, 60 * MS)

    flags = [(one.id.seq, one.first) for one in sent([output for _, output in out])]
    assert flags == [(2, False), (3, False), (2, True), (3, False), (2, True), (3, False)]


def test_another_life_begins_when_nobody_answers() -> None:
    at = stranger()
    at.step(call(ticket=1), 0)
    at.step(call(ticket=2, handler=2), 0)
    out = run(at, SECOND)
    (packet,) = sent(at.step(call(ticket=3), 2 * SECOND))

    assert {one for _, one in out if isinstance(one, CallFailed)} == {
        CallFailed(1, False),
        CallFailed(2, False),
    }
    assert packet.id.source == at.life != ME
    assert packet.id.source[:2] == ME[:2]
    assert (packet.first, at.lives) == (True, 1)
    assert at.step(PacketArrived(NonMemberAck(MEMBER, ME, LIST, 3, 9, False, b""), 7, MEMBER), 2 * SECOND) == []
    assert at.step(ack(at, packet.id.seq), 2 * SECOND) == [CallAcknowledged(3, LIST, 40 + packet.id.seq)]


def test_a_call_with_a_handler_ends_with_its_reply() -> None:
    at = stranger()
    (packet,) = sent(at.step(call(handler=2, ticket=1), 0))
    assert (packet.handler, packet.repeat_reply) == (2, True)

    assert at.step(ack(at, 1), 2 * MS) == [CallAcknowledged(1, LIST, 41)]
    ((when_us, again),) = run(at, 202 * MS)
    assert (when_us, isinstance(again, MulticastPacket)) == (202 * MS, True)
    assert at.step(ack(at, 1, b"yes"), 203 * MS) == [CallAnswered(1, b"yes", MEMBER)]
    assert at.step(ack(at, 1, b"yes"), 204 * MS) == []
    assert at.wake_at_us == NEVER


def test_a_reply_may_come_before_its_acknowledgement() -> None:
    at = stranger()
    at.step(call(handler=2, ticket=1), 0)

    assert at.step(ack(at, 1, b"yes"), 2 * MS) == [CallAnswered(1, b"yes", MEMBER)]
    assert at.step(ack(at, 1), 3 * MS) == []


def test_a_delivered_call_fails_when_its_time_is_over() -> None:
    at = stranger()
    at.step(call(handler=2, ticket=1, timeout_us=SECOND), 0)
    at.step(ack(at, 1), 2 * MS)

    out = run(at, 5 * SECOND)
    assert out[-1] == (SECOND, CallFailed(1, True))
    assert at.wake_at_us == NEVER


def test_a_call_that_is_late_is_sent_in_silence_until_it_is_delivered() -> None:
    """Members order the packets of a source without gaps: the next call waits for this one."""
    at = stranger()
    at.step(call(ticket=1, timeout_us=20 * MS), 0)
    out = run(at, 40 * MS)
    assert [one for _, one in out if isinstance(one, CallFailed)] == [CallFailed(1, False)]

    assert len(run(at, 200 * MS)) >= 2
    assert at.step(ack(at, 1), 201 * MS) == []
    assert at.wake_at_us == NEVER


def test_calls_wait_for_the_window_and_are_sent_when_an_answer_comes() -> None:
    at = stranger()
    out: list[StrangerOutput] = []
    for ticket in range(100):
        out += at.step(call(ticket=ticket, size=1_000), 0)
    assert [one.id.seq for one in sent(out)] == list(range(1, 65))

    assert [one.id.seq for one in sent(at.step(ack(at, 1), MS))] == [65, 66]


def test_calls_under_way_and_waiting_have_limits() -> None:
    at = stranger()
    while at.open:
        at.step(call(size=1), 0)

    assert (len(at.calls), len(at.queue)) == (CALLS_MAX, WAITING_MAX)


def test_calls_that_wait_too_long_fail_too() -> None:
    at = stranger()
    at.step(call(ticket=1, size=60_000), 0)
    at.step(call(ticket=2, size=60_000, timeout_us=30 * MS), 0)
    at.step(call(ticket=3, size=60_000, timeout_us=60 * MS), 0)
    failed = [(when_us, one) for when_us, one in run(at, 100 * MS) if isinstance(one, CallFailed)]

    assert failed == [(30 * MS, CallFailed(2, False)), (60 * MS, CallFailed(3, False))]


def test_members_that_forward_are_asked_in_turn() -> None:
    at = stranger(via=(MEMBER, OTHER))
    out = at.step(call(), 0) + [one for _, one in run(at, 40 * MS)]

    assert [(one.to, one.forward) for one in out if isinstance(one, UnicastPacket)] == [
        (MEMBER, True),
        (OTHER, True),
        (MEMBER, True),
        (OTHER, True),
    ]


def test_an_unreliable_call_is_sent_once_and_asks_for_nothing() -> None:
    at = stranger()
    loose = SubmitCall(Service.UNRELIABLE, b"x", SECOND)
    (packet,) = sent(at.step(loose, 0))

    assert (packet.acknowledge, packet.first, packet.id.seq) == (False, False, 1)
    assert at.wake_at_us == NEVER
    (reliable,) = sent(at.step(call(), 0))
    assert (reliable.id.seq, reliable.first) == (1, True)


def test_answers_of_others_are_ignored() -> None:
    at = stranger()
    at.step(call(), 0)
    foreign = NonMemberAck(MEMBER, OTHER, LIST, 1, 9, False, b"")
    unknown = NonMemberAck(MEMBER, ME, LIST, 77, 9, False, b"")

    assert at.step(PacketArrived(foreign, 7, MEMBER), MS) == []
    assert at.step(PacketArrived(unknown, 7, MEMBER), MS) == []
    assert at.known is None
