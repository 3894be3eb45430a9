"""Frames and control messages are decoded strictly, whatever comes."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoding import Tally

from hopring.errors import Drop, PeerError
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, GroupName, Incarnation, Place, ViewId
from hopring.services import Service
from hopring.session import protocol
from hopring.session.frames import (
    PIECE_BYTES_MIN,
    PREAMBLE,
    Frame,
    FrameKind,
    FrameReader,
    decode_delivered,
    delivered_parts,
    encode_delivered,
    encode_frame,
)
from hopring.session.protocol import decode_control, encode_control
from hopring.wire.bundle import BundleKey, decode_bundle, encode_bundle
from hopring.wire.objects import VIEW_BYTES_MIN

VIEW = ViewId(3, DaemonId(1), Incarnation(2**64 - 1))
MEMBER = protocol.MemberEntry("anna", "eu1", 2**64 - 1, 9)
ALL = [
    protocol.HelloRequest("anna", 1 << 20, False),
    protocol.JoinRequest("trades"),
    protocol.LeaveRequest("trades"),
    protocol.Credit(77),
    protocol.QuitRequest(),
    protocol.WelcomeReply("eu1", 0, 9, "#anna#eu1", 131_000, 1 << 20),
    protocol.RefusedReply("join", "trades", "already a member", "leave it first"),
    protocol.ViewNotice("trades", GroupViewId(VIEW, (VIEW,), 2), (MEMBER,), (0,), "join", MEMBER, ((0,),)),
    protocol.SignalNotice("trades", GroupViewId(VIEW, (), 2), (MEMBER,)),
    protocol.LeftNotice("trades"),
    protocol.ErrorNotice("slow receiver", "", "take events"),
    protocol.GoodbyeReply(),
]


def frames_of(stream: bytes, cut: int = 1 << 30, limit: int = 1 << 16) -> list[Frame]:
    reader, out = FrameReader(limit, limit), []
    for at in range(0, len(stream), cut):
        reader.feed(stream[at : at + cut])
        while (frame := reader.next()) is not None:
            out.append(frame)
    return out


@pytest.mark.parametrize("cut", [1, 3, 8, 1000])
def test_every_control_message_is_decoded_however_the_bytes_are_cut(cut: int) -> None:
    stream = PREAMBLE + b"".join([encode_control(word) for word in ALL])

    assert [decode_control(frame) for frame in frames_of(stream, cut)] == ALL


def test_a_bundle_is_decoded_with_sender_and_position() -> None:
    key = BundleKey(DaemonId(1), 9, Service.SAFE, (GroupName("trades"), GroupName("#anna#eu1")), True)
    bundle = decode_bundle(encode_bundle(key, [b"one", b"", b"three"], [1, 0, 65_535], [0, 0, 0]))
    frame = encode_delivered("#anna#eu1", Place(VIEW, 17, 3), bundle)
    ((_, body),) = frames_of(PREAMBLE + frame)

    sender, place, again = decode_delivered(body)
    assert (sender, place, again.key) == ("#anna#eu1", Place(VIEW, 17, 3), key)
    assert again.messages() == [b"one", b"", b"three"]
    assert again.types.tolist() == [1, 0, 65_535]


def test_a_long_bundle_is_sent_without_a_copy_and_reads_the_same() -> None:
    key = BundleKey(DaemonId(1), 9, Service.AGREED, (GroupName("trades"),))
    for size in (10, PIECE_BYTES_MIN):
        bundle = decode_bundle(encode_bundle(key, [b"x" * size], [0], [0]))
        parts = delivered_parts("#anna#eu1", Place(VIEW, 17, 3), bundle)

        assert any(part is bundle.whole for part in parts) is (size >= PIECE_BYTES_MIN)
        ((_, body),) = frames_of(PREAMBLE + b"".join(parts))
        assert decode_delivered(body).bundle.messages() == [b"x" * size]


@pytest.mark.parametrize("cut", [VIEW_BYTES_MIN // 2, 2 * VIEW_BYTES_MIN])
def test_a_decoded_frame_stays_valid_when_the_buffer_is_used_again(cut: int) -> None:
    bodies = [bytes([at]) * size for at, size in enumerate((5, VIEW_BYTES_MIN, 7, VIEW_BYTES_MIN + 1))]
    stream = PREAMBLE + b"".join([encode_frame(FrameKind.MESSAGES, body) for body in bodies])
    reader, buffer, frames = FrameReader(1 << 16), bytearray(cut), []
    for at in range(0, len(stream), cut):
        chunk = stream[at : at + cut]
        buffer[: len(chunk)] = chunk
        reader.feed(memoryview(buffer)[: len(chunk)])
        while (frame := reader.next()) is not None:
            frames.append(frame)
        buffer[:] = bytes(cut)

    assert [frame.body for frame in frames] == bodies
    kept = [frame.body for frame in frames_of(stream, 2 * len(stream))]
    assert kept == bodies
    assert [isinstance(body, memoryview) for body in kept] == [False, True, False, True]


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", Drop.MAGIC),
        (b"X", Drop.MAGIC),
        (b"HOPC\x02\x00\x00\x00", Drop.VERSION),
        (b"HOPC\x01\x00\x01\x00", Drop.VERSION),
        (PREAMBLE + b"\0\0\0\0\x63\0\0\0", Drop.UNKNOWN_TYPE),
        (PREAMBLE + b"\0\0\0\0\x01\x01\0\0", Drop.UNKNOWN_TYPE),
        (PREAMBLE + b"\xff\xff\xff\xff\x04\0\0\0", Drop.LIMIT),
        (PREAMBLE + encode_frame(FrameKind.JOIN, bytes(70_000)), Drop.LIMIT),
    ],
)
def test_an_invalid_frame_head_is_refused_before_the_body_comes(stream: bytes, reason: Drop) -> None:
    with pytest.raises(PeerError) as caught:
        frames_of(stream)

    assert caught.value.reason is reason


@pytest.mark.parametrize(
    "frame",
    [
        Frame(FrameKind.SEND, b""),
        Frame(FrameKind.HELLO, b""),
        Frame(FrameKind.HELLO, b"\x93\xa1a\x01"),
        Frame(FrameKind.HELLO, b"\x93\xa1\xff\x01\xc3"),
        Frame(FrameKind.JOIN, b"\x92\xa1a\xa1b"),
        Frame(FrameKind.CREDIT, b"\x91\xff"),
        Frame(FrameKind.CREDIT, b"\x91\xcf" + b"\xff" * 8),
    ],
)
def test_an_invalid_control_message_is_refused(frame: Frame) -> None:
    with pytest.raises(PeerError):
        decode_control(frame)


def test_random_bodies_are_control_messages_or_refused() -> None:
    tally = Tally()

    @given(st.binary(max_size=200), st.sampled_from(list(FrameKind)), st.sampled_from(ALL))
    @settings(max_examples=300, deadline=None, derandomize=True, database=None)
    def one(body: bytes, kind: FrameKind, word: protocol.ControlMessage) -> None:
        (good,) = frames_of(PREAMBLE + encode_control(word))
        for frame in (Frame(kind, body), good, Frame(kind, good.body)):
            with tally.attempt():
                found = decode_control(frame)
                assert frames_of(PREAMBLE + encode_control(found))[0].kind is frame.kind
                assert frame is not good or found == word

    one()
    tally.expect(1 / 3)  # A third is as it was encoded.


def test_random_bodies_are_messages_or_refused() -> None:
    key = BundleKey(DaemonId(1), 9, Service.SAFE, (GroupName("trades"),))
    bundle = decode_bundle(encode_bundle(key, [b"one", b"", b"three"], [1, 0, 65_535], [0, 0, 0]))
    ((_, good),) = frames_of(PREAMBLE + encode_delivered("#anna#eu1", Place(VIEW, 17, 3), bundle))
    tally = Tally()

    @given(st.binary(max_size=200), st.integers(0, len(good) - 1), st.integers(0, 255))
    @settings(max_examples=300, deadline=None, derandomize=True, database=None)
    def one(noise: bytes, at: int, byte: int) -> None:
        for body in (noise, good, bytes(good[:at]) + bytes([byte]) + bytes(good[at + 1 :])):
            with tally.attempt():
                ((_, again),) = frames_of(PREAMBLE + encode_delivered(*decode_delivered(body)))
                assert again == body

    one()
    tally.expect(1 / 2)  # A third is as it was encoded, a third nearly so.


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_complete_however_chunks_are_cut_and_reused(seed: int) -> None:
    dice = Random(seed)
    for _ in range(20):
        kinds = dice.choices([FrameKind.SEND, FrameKind.MESSAGES, FrameKind.CREDIT], k=dice.randint(1, 12))
        frames = [Frame(kind, dice.randbytes(dice.choice([0, 1, 7, 8, 100, 3_000]))) for kind in kinds]
        stream = PREAMBLE + b"".join([encode_frame(one.kind, one.body) for one in frames])
        reader, got = FrameReader(100_000), list[Frame]()
        while stream:
            size = dice.choice([1, 2, 5, 8, 9, 50, 500, 5_000, 100_000])
            chunk, stream = bytearray(stream[:size]), stream[size:]
            reader.feed(memoryview(chunk))
            while (frame := reader.next()) is not None:
                got.append(frame)
            chunk[:] = b"\xee" * len(chunk)  # Its buffer is used again.

        assert got == frames
