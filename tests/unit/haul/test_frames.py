"""Frames of links between clusters: both directions of the encoding, limits, and damaged bytes."""

from random import Random
from struct import pack

import pytest
from tests.support.decoding import Tally
from tests.unit.haul.wide_frames import KINDS, draw_frame

from hopring.errors import Drop, PeerError
from hopring.haul.link.frames import (
    FRAME_BYTES_MAX,
    FRAME_VERSION,
    GREETING_BYTES_MAX,
    LENGTH_BYTES,
    Beat,
    Greeting,
    LinkFrame,
    LinkFrameReader,
    decode_frame,
    encode_frame,
)


def frames_of(reader: LinkFrameReader) -> list[LinkFrame]:
    out: list[LinkFrame] = []
    while (frame := reader.next()) is not None:
        out.append(frame)
    return out


@pytest.mark.parametrize("kind", range(KINDS))
def test_every_frame_is_read_as_it_was_written(kind: int) -> None:
    dice = Random(kind)
    for _ in range(50):
        frame = draw_frame(dice, kind)
        assert decode_frame(encode_frame(frame)[LENGTH_BYTES:]) == frame


def test_frames_arrive_in_chunks_of_any_size() -> None:
    dice = Random(1)
    frames = [draw_frame(dice) for _ in range(60)]
    stream = b"".join([encode_frame(one) for one in frames])
    reader, seen = LinkFrameReader(FRAME_BYTES_MAX), []
    while stream:
        size = dice.randint(1, 400)
        reader.feed(stream[:size])
        stream = stream[size:]
        seen += frames_of(reader)

    assert seen == frames


@pytest.mark.parametrize("length", [0, GREETING_BYTES_MAX + 1, 2**32 - 1])
def test_a_length_is_refused_before_anything_else_arrives(length: int) -> None:
    reader = LinkFrameReader()
    reader.feed(pack("<I", length))

    with pytest.raises(PeerError) as refused:
        reader.next()
    assert refused.value.reason is Drop.LIMIT


def test_another_version_is_refused_as_such_however_it_goes_on() -> None:
    greeting = draw_frame(Random(2), 0)
    assert isinstance(greeting, Greeting)
    body = bytearray(encode_frame(greeting)[LENGTH_BYTES:])
    body[1:3] = pack("<H", FRAME_VERSION + 1)

    with pytest.raises(PeerError) as refused:
        decode_frame(bytes(body[:7]))
    assert refused.value.reason is Drop.VERSION


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_frame_that_ends_early_or_late_is_refused(cut: int) -> None:
    body = encode_frame(draw_frame(Random(3), 4))[LENGTH_BYTES:]

    with pytest.raises(PeerError):
        decode_frame(body[:-cut])
    with pytest.raises(PeerError):
        decode_frame(body + b"\0" * cut)


def test_damaged_frames_are_read_or_refused_and_nothing_else_happens() -> None:
    dice, tally = Random(4), Tally()
    for _ in range(4_000):
        body = bytearray(encode_frame(draw_frame(dice))[LENGTH_BYTES:])
        for _ in range(dice.choice([0, 1, 1, 3])):
            body[dice.randrange(len(body))] = dice.getrandbits(8)
        if dice.random() < 0.2:
            del body[dice.randrange(len(body)) :]
        with tally.attempt():
            frame = decode_frame(bytes(body))
            # Whatever is accepted can be sent on.
            assert decode_frame(encode_frame(frame)[LENGTH_BYTES:]) == frame
    tally.expect(0.4)


def test_noise_is_refused() -> None:
    dice, tally = Random(5), Tally()
    for _ in range(2_000):
        with tally.attempt():
            decode_frame(dice.randbytes(dice.randrange(80)))
    tally.expect(0)
    assert decode_frame(encode_frame(Beat())[LENGTH_BYTES:]) == Beat()
