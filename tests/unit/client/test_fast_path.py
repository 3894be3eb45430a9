"""The fast path for single messages: the same bytes and the same messages as by the general path."""

import pytest
from tests.unit.client.wired_client import connected, sending
from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.events import Message, messages_of
from hopring.client.fast_path import HeadCache, SendTemplate, credit_at
from hopring.errors import PeerError
from hopring.ids import DaemonId, GroupName, Incarnation, Place, ViewId
from hopring.services import AGREED, SAFE
from hopring.session.frames import (
    FRAME_HEAD_BYTES,
    Frame,
    FrameKind,
    decode_delivered,
    encode_delivered,
    encode_frame,
)
from hopring.session.protocol import Credit, decode_control, encode_control
from hopring.wire.batch_mark import BatchMark
from hopring.wire.bundle import BundleKey, decode_bundle, encode_bundle

KEY = BundleKey(DaemonId(3), 70_000, AGREED, (GroupName("gäste"),))
PLACE = Place(ViewId(7, DaemonId(2), Incarnation(2**63 + 5)), 2**40 + 3, 4)


def body_of(
    data: bytes = b"what is said",
    kind: int = 0x1234,
    key: BundleKey = KEY,
    place: Place = PLACE,
    sender: str = "#änne#d1",
) -> bytes:
    """The body of a frame with one message."""
    bundle = decode_bundle(encode_bundle(key, [data], [kind], [1]))
    return encode_delivered(sender, place, bundle)[FRAME_HEAD_BYTES:]


def general(body: bytes) -> Message:
    """The only message of a frame, decoded by the general path."""
    (message,) = messages_of(decode_delivered(body), 0, 1)
    return message


def learned(*bodies: bytes) -> HeadCache:
    familiar = HeadCache()
    for body in bodies:
        familiar.learn(body, decode_delivered(body))
    return familiar


@pytest.mark.parametrize("data", [b"", b"x", bytes(1000), bytes(100_000)])
@pytest.mark.parametrize(
    "key",
    [
        KEY,
        KEY.replace(service=SAFE, self_discard=True, groups=(GroupName("a"), GroupName("b"))),
        KEY.replace(enveloped=True, listed=True),
    ],
)
def test_the_fast_path_writes_the_bytes_of_the_general_path(key: BundleKey, data: bytes) -> None:
    way = SendTemplate(key)
    written = ((data, 0xFEDC, 0), (data, 0xFEDC, 0), (data, 1, 0), (data + b"more", 1, 7), (data, 1, 8))
    for body, kind, hints in written:
        frame = way.frame(body, kind, hints)
        assert frame == encode_frame(FrameKind.SEND, encode_bundle(key, [body], [kind], [hints]))
        assert way.size_bytes(body) == len(frame) - FRAME_HEAD_BYTES


def test_a_known_frame_is_read_as_the_same_message() -> None:
    familiar = learned(body_of())

    assert HeadCache().message(body_of()) is None
    for body in (body_of(), body_of(b""), body_of(bytes(70_000), 0), body_of(place=PLACE._replace(lts=0))):
        assert familiar.message(body) == general(body)
        assert isinstance(general(body).place, Place)


def test_an_unknown_frame_takes_the_general_path_once() -> None:
    view = PLACE.view
    news = (
        body_of(sender="#otto#d1"),
        body_of(sender="#änni#d1"),
        body_of(key=KEY.replace(groups=(GroupName("other"),))),
        body_of(key=KEY.replace(service=SAFE)),
        body_of(key=KEY.replace(session=2)),
        body_of(place=PLACE._replace(site=5)),
        body_of(place=PLACE._replace(view=view._replace(counter=8))),
        body_of(place=PLACE._replace(view=view._replace(nonce=Incarnation(1)))),
        body_of(place=PLACE._replace(view=view._replace(representative=DaemonId(1)))),
    )
    for body in news:
        assert learned(body_of()).message(body) is None
        assert learned(body_of(), body).message(body) == general(body)


def test_a_group_known_from_one_sender_is_known_for_others() -> None:
    there = KEY.replace(groups=(GroupName("gäste!"),), session=5)
    familiar = learned(body_of(key=there), body_of(key=there.replace(groups=(GroupName("gästen"),), session=6)))
    body = body_of(key=there.replace(groups=(GroupName("gästen"),)))

    assert familiar.message(body) == general(body)


def test_several_messages_marks_and_several_groups_take_the_general_path() -> None:
    two = decode_bundle(encode_bundle(KEY, [b"1", b"2"], [0, 0], [0, 0]))
    for body in (
        body_of(key=KEY.replace(mark=BatchMark("app", 1, 1))),
        body_of(key=KEY.replace(groups=(GroupName("a"), GroupName("b")))),
        body_of(key=KEY.replace(spread_bits=0x80)),
        body_of(key=KEY.replace(spread_groups=bytes(64))),
        encode_delivered("#a#d1", PLACE, two)[FRAME_HEAD_BYTES:],
    ):
        assert learned(body_of(), body).message(body) is None


def test_altered_frames_are_treated_as_on_the_general_path() -> None:
    familiar, good, known = learned(body_of()), body_of(), 0
    for at in range(len(good)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, good[at] ^ 1, good[at]):
            body = good[:at] + bytes([value]) + good[at + 1 :]
            message = familiar.message(body)
            assert message is None or message == general(body)
            known += message is not None
    assert len(good) <= known < 6 * len(good), "known where nothing is changed, and seldom where it is"
    for end in range(len(good)):
        assert familiar.message(good[:end]) is None
        assert familiar.message(good[end:] if end else b"") is None


def test_credits_are_read_like_other_control_frames() -> None:
    for size in (0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1):
        frame = encode_control(Credit(size))
        assert credit_at(frame, FRAME_HEAD_BYTES, len(frame)) == size
    large = encode_control(Credit(2**32))
    assert credit_at(large, FRAME_HEAD_BYTES, len(large)) == -1
    good = encode_control(Credit(300))[FRAME_HEAD_BYTES:]
    for body in [good[:end] for end in range(len(good))] + [good + b"\0"]:
        assert credit_at(body, 0, len(body)) == -1
    for at in range(len(good)):
        for value in range(256):
            body = good[:at] + bytes([value]) + good[at + 1 :]
            size = credit_at(body, 0, len(body))
            assert size == -1 or size == credit_of(body)


def credit_of(body: bytes) -> int | None:
    try:
        word = decode_control(Frame(FrameKind.CREDIT, body))
    except PeerError:
        return None
    return word.size_bytes if isinstance(word, Credit) else None


@pytest.mark.parametrize("cut", [1, 2, 7, 50, 150, 10_000])
def test_however_the_bytes_are_cut_the_messages_are_the_same(cut: int) -> None:
    wire = connected(FakeDaemon(), "g")
    core = wire.core
    assert core.try_send("g", b"0", AGREED, 5, False)
    wire.exchange(0)
    for data in (b"1", b"", b"three"):
        assert core.try_send("g", data, AGREED, 5, False)
        core.outgoing.close_bundle()
    wire.fake.say(wire.number, core.output())
    stream = b"".join(iter(lambda: wire.fake.fetch(wire.number), b""))
    for at in range(0, len(stream), cut):
        core.receive(stream[at : at + cut])

    assert core.outgoing.charged_bytes == 0
    (first, *runs) = core.take_many(2, None).runs
    assert [one.data for key in (first, *runs) for one in key.messages()] == [b"0", b"1"]
    assert [one.data for one in iter(core.take, None) if isinstance(one, Message)] == [b"", b"three"]
    assert core.stream.credit_bytes == 0


def test_an_open_single_message_counts_and_accepts_more_messages() -> None:
    wire = connected(FakeDaemon(), "g", "h")
    core = wire.core
    assert core.try_send("g", b"1", AGREED, 0, False)
    assert core.connection.has_output
    assert core.outgoing.in_doubt == 1
    assert core.has_room(sending("g", b"2"))
    core.send(sending("g", b"2"))
    assert core.try_send("h", b"3", AGREED, 0, False)
    assert core.outgoing.in_doubt == 3
    wire.exchange(0)

    (key,) = core.take_many(10, None).runs
    assert [(one.groups, one.data) for one in key.messages()] == [
        (("g",), b"1"),
        (("g",), b"2"),
        (("h",), b"3"),
    ]
    assert core.outgoing.charged_bytes == 0
