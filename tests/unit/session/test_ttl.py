"""Time to live: decided once, where the sender's daemon takes a message to give it to the order."""

import pytest
from tests.unit.client.wired_client import connected, sending
from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client import calls
from hopring.client.calls import Call, Wait
from hopring.client.core import ClientCore
from hopring.client.errors import Expired, TimedOut
from hopring.client.events import Message
from hopring.client.outgoing import OutgoingMessage
from hopring.errors import Drop
from hopring.groups.events import Send
from hopring.ids import DaemonId, GroupName
from hopring.services import Service
from hopring.session.frames import TTL_BYTES, FrameKind, FrameReader, encode_frame, split_frames
from hopring.wire.bundle import BundleKey, encode_bundle


def within(ttl_us: int, data: bytes = b"x") -> OutgoingMessage:
    return sending("g", data)._replace(ttl_us=ttl_us)


def told(core: ClientCore) -> list[bytes]:
    seen: list[bytes] = []
    while (event := core.take()) is not None:
        if isinstance(event, Message):
            seen.append(event.data)
    return seen


def test_a_message_is_sent_until_just_before_its_time_ends_and_not_from_then_on() -> None:
    for waited_us, arrives in ((999, True), (1_000, False)):
        fake = FakeDaemon()
        wire = connected(fake, "g")
        fake.stopped = True
        wire.core.send(within(1_000))
        wire.core.send(sending("g", b"behind"))
        wire.exchange(0)

        fake.now_us = waited_us
        fake.stopped = False
        fake.pump()
        wire.exchange(waited_us)

        assert told(wire.core) == ([b"x"] if arrives else []) + [b"behind"]
        assert wire.core.state.expired == (not arrives)
        assert wire.core.outgoing.charged_bytes == 0, "the window is free again"


def test_a_message_that_is_in_the_order_is_delivered_however_late() -> None:
    fake = FakeDaemon()
    wire = connected(fake, "g")
    fake.at_once = 0
    wire.core.send(within(1_000))
    wire.exchange(0)
    fake.at_once = 1
    submit = fake.server.next_submission(True, 999)

    fake.now_us = 10_000_000

    assert submit is not None
    assert not fake.server.groups.take_expired()


def test_the_receipt_of_an_expired_message_is_an_error_that_says_that_it_was_not_sent() -> None:
    fake = FakeDaemon()
    wire = connected(fake, "g")
    fake.stopped = True
    call = calls.multicast_wait(wire.core, within(2_000), 0)
    next(call)
    wire.exchange(0)
    fake.now_us, fake.stopped = 2_000, False
    fake.pump()
    wire.exchange(2_000)

    with pytest.raises(
        Expired, match=r"a message to g was not sent: its time to live, 0.002 s, ended"
    ) as caught:
        call.send(2_000)
    assert caught.value.groups == ("g",)
    assert isinstance(caught.value, TimeoutError)
    assert told(wire.core) == []


def waiting_call(ttl_us: int, seconds: float | None) -> tuple[Call[None], Wait, ClientCore]:
    fake = FakeDaemon()
    wire = connected(fake, "g")
    fake.stopped = True
    while wire.core.has_room(sending("g", bytes(60_000))):
        wire.core.send(sending("g", bytes(60_000)))
    call = calls.multicast(wire.core, within(ttl_us, bytes(60_000)), 0, seconds)
    return call, next(call), wire.core


def test_the_time_counts_while_the_call_waits_for_room() -> None:
    call, wait, core = waiting_call(5_000, None)
    before = core.outgoing.in_doubt

    assert wait.until_us == 5_000
    with pytest.raises(Expired):
        call.send(5_000)
    assert core.outgoing.in_doubt == before


def test_a_timeout_of_the_call_that_comes_first_is_one() -> None:
    call, wait, _ = waiting_call(5_000_000, 1.0)

    assert wait.until_us == 1_000_000
    with pytest.raises(TimedOut):
        call.send(1_000_000)


def test_messages_with_a_time_are_not_merged_and_others_are() -> None:
    fake = FakeDaemon()
    wire = connected(fake, "g")
    fake.at_once = 0
    for message in (sending("g", b"a"), within(500, b"b"), sending("g", b"c"), sending("g", b"d")):
        wire.core.send(message)
        wire.exchange(0)
    taken = [fake.server.next_submission(True, 500) for _ in range(4)]

    payloads = [one.payload for one in taken if one is not None]
    assert len(payloads) == 2
    assert (b"a" in payloads[0], b"b" in b"".join(payloads)) == (True, False)
    wire.exchange(500)
    assert wire.core.state.expired == 1


def test_frames_of_messages_without_a_time_are_as_they_were() -> None:
    wire = connected(FakeDaemon(), "g")
    wire.core.send(sending("g", b"x"))
    frames, rest = split_frames(wire.core.output())

    key = BundleKey(DaemonId(0), 1, Service.AGREED, (GroupName("g"),))
    assert (frames, rest) == ([encode_frame(FrameKind.SEND, encode_bundle(key, [b"x"], [0], [0]))], b"")


def test_a_message_with_a_time_has_its_bundle_behind_it() -> None:
    wire = connected(FakeDaemon(), "g")
    wire.core.send(within(7))
    (frame,), _ = split_frames(wire.core.output())
    reader = FrameReader(1 << 20)
    reader.greeted = True
    reader.feed(frame)

    got = reader.next()

    assert got is not None
    assert got.kind is FrameKind.SEND_WITHIN
    assert int.from_bytes(got.body[:TTL_BYTES], "little") == 7
    key = BundleKey(DaemonId(0), 1, Service.AGREED, (GroupName("g"),))
    assert bytes(got.body[TTL_BYTES:]) == encode_bundle(key, [b"x"], [0], [0])


@pytest.mark.parametrize("ttl", [bytes(8), (2**52 + 1).to_bytes(8, "little"), b"", b"1234567"])
def test_a_wrong_time_ends_the_session_that_sent_it(ttl: bytes) -> None:
    fake = FakeDaemon()
    wire = connected(fake, "g")
    key = BundleKey(DaemonId(0), 1, Service.AGREED, (GroupName("g"),))
    bundle = encode_bundle(key, [b"x"], [0], [0]) if len(ttl) == 8 else b""

    fake.say(1, encode_frame(FrameKind.SEND_WITHIN, ttl, bundle))

    assert fake.closed[1][1].startswith(Drop.LIMIT.value)
    assert wire.core.ended is None


def test_a_held_message_keeps_its_deadline_when_the_daemon_gets_another_number() -> None:
    send = Send(3, BundleKey(DaemonId(0), 3, Service.AGREED, (GroupName("g"),)), b"", 77)

    assert send.replace(session=4).deadline_us == 77
