"""No bytes from outside harm a decoder: it yields a value that encodes to the same bytes, or a PeerError.

Each format meets four attacks: random bytes, flipped bits, wrong ends, and numbers at their edges wherever a
length or a count may be. A hypothesis example is a seed that drives a batch of cases. CASES counts cases, each
of which is carried out and checked; a test fails if it did fewer than it says. Every fifth case is left
unchanged: a test also fails if valid input is refused.
"""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoding import Tally
from tests.unit.wire.samples import (
    CLUSTER,
    EDGES,
    a_bundle,
    a_control,
    a_data,
    a_datagram,
    a_header,
    a_loose,
    a_meta,
    a_missing_list,
    a_routed,
    a_seq,
    a_stream,
    a_token,
    an_ack,
    an_unreliable,
    an_update,
)

from hopring.wire.bundle import decode_bundle, encode_bundle
from hopring.wire.control import (
    Ping,
    decode_control_object,
    decode_ping,
    decode_update,
    encode_control_object,
    encode_ping,
    encode_update,
)
from hopring.wire.data import (
    Data,
    Segment,
    decode_data,
    decode_missing,
    encode_data,
    encode_missing,
    encode_segment,
)
from hopring.wire.header import (
    FRAME_HEAD_BYTES,
    HEAD_BYTES,
    FrameType,
    _heads,
    decode_header,
    encode_frame,
    encode_header,
    split_frames,
)
from hopring.wire.hop import Nack, decode_ack, decode_nack, encode_ack, encode_nack
from hopring.wire.objects import OBJECT_HEAD_BYTES, ObjectType, encode_object, split_objects
from hopring.wire.ring import (
    Held,
    decode_held,
    decode_hurry,
    decode_token,
    encode_held,
    encode_hurry,
    encode_token,
)
from hopring.wire.routed import Meta, decode_routed, encode_meta, encode_routed
from hopring.wire.stream import StreamReader, encode_greeting, encode_packet
from hopring.wire.train import decode, decode_membership, encode, encode_membership
from hopring.wire.unreliable import decode_loose, decode_unreliable, encode_loose, encode_unreliable

CASES: Final = {
    "header": 20_000,
    "frames": 20_000,
    "datagram": 20_000,
    "data": 20_000,
    "missing": 20_000,
    "ack": 20_000,
    "nack": 20_000,
    "token": 20_000,
    "hurry": 10_000,
    "held": 10_000,
    "word": 10_000,
    "loose": 10_000,
    "objects": 20_000,
    "routed": 20_000,
    "meta": 20_000,
    "ping": 10_000,
    "update": 20_000,
    "control": 20_000,
    "unreliable": 20_000,
    "bundle": 40_000,
    "stream": 20_000,
}
"""Trains and fragments have separate tests, which add more cases."""
BATCH: Final = 100


def test_more_than_a_hundred_thousand_cases_are_tried() -> None:
    assert sum(CASES.values()) >= 100_000
    assert CASES.keys() == FORMATS.keys()


@dataclass(frozen=True)
class Format:
    """Makes valid bytes of a format; decodes any bytes and encodes them again."""

    make: Callable[[Random], bytes]
    again: Callable[[bytes], bytes]


def frames_again(data: bytes) -> bytes:
    # Unknown types are split as well, and judged later.
    frames = split_frames(data)
    bodies = [bytes([kind]) + encode_frame(FrameType.DATA, bytes(body))[1:] for kind, body in frames]
    return data[:HEAD_BYTES] + b"".join(bodies)


def objects_again(data: bytes) -> bytes:
    objects = split_objects(data)
    return b"".join([bytes([kind]) + encode_object(ObjectType.META, bytes(body))[1:] for kind, body in objects])


def encode_data_or_segment(value: Data | Segment) -> bytes:
    return (encode_data(value) if isinstance(value, Data) else encode_segment(value))[FRAME_HEAD_BYTES:]


def routed_again(data: bytes) -> bytes:
    value = decode_routed(ObjectType.ROUTED, memoryview(data))
    assert not isinstance(value, Meta)
    return encode_routed(value)[OBJECT_HEAD_BYTES:]


def meta_again(data: bytes) -> bytes:
    value = decode_routed(ObjectType.META, memoryview(data))
    assert isinstance(value, Meta)
    return encode_meta(value)[OBJECT_HEAD_BYTES:]


def bundle_again(data: bytes) -> bytes:
    bundle = decode_bundle(data)
    bodies = [bytes(body) for body in bundle.messages()]
    assert bodies == [bytes(bundle.message(index)) for index in range(len(bundle))]
    assert bundle.lengths() == [len(body) for body in bodies]
    return encode_bundle(bundle.key, bodies, bundle.types.tolist(), bundle.hints.tolist())


def stream_again(data: bytes) -> bytes:
    reader = StreamReader(CLUSTER)
    packets = reader.feed(data[: len(data) // 2]) + reader.feed(data[len(data) // 2 :])
    greeting = encode_greeting(reader.greeting) if reader.greeting else b""
    return greeting + b"".join(map(encode_packet, packets)) + reader.pending


def datagram_again(data: bytes) -> bytes:
    packet = decode(data, CLUSTER)
    return encode(encode_header(packet.header), packet.frames, 70_000)[0].buffer


FORMATS: Final[dict[str, Format]] = {
    "header": Format(
        lambda rng: encode_header(a_header(rng)),
        lambda data: encode_header(decode_header(data, CLUSTER)) + data[HEAD_BYTES:],
    ),
    "frames": Format(a_datagram, frames_again),
    "datagram": Format(a_datagram, datagram_again),
    "data": Format(
        lambda rng: encode_data_or_segment(a_data(rng)),
        lambda data: encode_data_or_segment(decode_data(data)),
    ),
    "missing": Format(
        lambda rng: encode_missing(a_missing_list(rng, 64)),
        lambda data: encode_missing(decode_missing(data)),
    ),
    "ack": Format(
        lambda rng: encode_ack(an_ack(rng))[FRAME_HEAD_BYTES:],
        lambda data: encode_ack(decode_ack(data))[FRAME_HEAD_BYTES:],
    ),
    "nack": Format(
        lambda rng: encode_nack(Nack(a_missing_list(rng, 8)))[FRAME_HEAD_BYTES:],
        lambda data: encode_nack(decode_nack(data))[FRAME_HEAD_BYTES:],
    ),
    "token": Format(
        lambda rng: encode_token(a_token(rng))[FRAME_HEAD_BYTES:],
        lambda data: encode_token(decode_token(data))[FRAME_HEAD_BYTES:],
    ),
    "hurry": Format(
        lambda _rng: b"",
        lambda data: encode_hurry(decode_hurry(data))[FRAME_HEAD_BYTES:],
    ),
    "held": Format(
        lambda rng: encode_held(Held(a_seq(rng)))[FRAME_HEAD_BYTES:],
        lambda data: encode_held(decode_held(data))[FRAME_HEAD_BYTES:],
    ),
    "word": Format(
        lambda rng: rng.randbytes(rng.randint(1, 40)),
        lambda data: encode_membership(decode_membership(data))[FRAME_HEAD_BYTES:],
    ),
    "loose": Format(
        lambda rng: encode_loose(a_loose(rng))[FRAME_HEAD_BYTES:],
        lambda data: encode_loose(decode_loose(data))[FRAME_HEAD_BYTES:],
    ),
    "objects": Format(lambda rng: encode_meta(a_meta(rng)) + encode_routed(a_routed(rng)), objects_again),
    "routed": Format(lambda rng: encode_routed(a_routed(rng))[OBJECT_HEAD_BYTES:], routed_again),
    "meta": Format(lambda rng: encode_meta(a_meta(rng))[OBJECT_HEAD_BYTES:], meta_again),
    "update": Format(
        lambda rng: encode_update(an_update(rng))[OBJECT_HEAD_BYTES:],
        lambda data: encode_update(decode_update(memoryview(data)))[OBJECT_HEAD_BYTES:],
    ),
    "control": Format(
        lambda rng: encode_control_object(a_control(rng))[OBJECT_HEAD_BYTES:],
        lambda data: encode_control_object(decode_control_object(memoryview(data)))[OBJECT_HEAD_BYTES:],
    ),
    "ping": Format(
        lambda rng: encode_ping(Ping(*[rng.getrandbits(32) for _ in range(3)]))[OBJECT_HEAD_BYTES:],
        lambda data: encode_ping(decode_ping(memoryview(data)))[OBJECT_HEAD_BYTES:],
    ),
    "unreliable": Format(
        lambda rng: encode_unreliable(an_unreliable(rng))[OBJECT_HEAD_BYTES:],
        lambda data: encode_unreliable(decode_unreliable(ObjectType.UNRELIABLE, memoryview(data)))[
            OBJECT_HEAD_BYTES:
        ],
    ),
    "bundle": Format(a_bundle, bundle_again),
    "stream": Format(a_stream, stream_again),
}


def noise(rng: Random, valid: bytes) -> bytes:
    """Random bytes, half of the time behind a valid start."""
    start = valid[: rng.randrange(len(valid) + 1)] if rng.random() < 0.5 else b""
    return start + rng.randbytes(rng.randrange(80))


def flip_bits(rng: Random, valid: bytes) -> bytes:
    broken = bytearray(valid)
    for _ in range(rng.randint(1, 4) if valid else 0):
        broken[rng.randrange(len(valid))] ^= 1 << rng.randrange(8)
    return bytes(broken)


def wrong_end(rng: Random, valid: bytes) -> bytes:
    """Truncated, or longer than it says."""
    if rng.random() < 0.5:
        return valid[: rng.randrange(len(valid) + 1)]
    return valid + rng.randbytes(rng.randint(1, 20))


def edge_number(rng: Random, valid: bytes) -> bytes:
    """An extreme number somewhere, as a length or a count that overflows or disagrees."""
    size = rng.choice([1, 2, 4, 8])
    number = rng.choice(EDGES) & ((1 << 8 * size) - 1)
    at = rng.randrange(max(1, len(valid) - size + 1))
    return valid[:at] + number.to_bytes(size, "little") + valid[at + size :]


def nothing(_rng: Random, valid: bytes) -> bytes:
    return valid


ATTACKS: Final = (noise, flip_bits, wrong_end, edge_number, nothing)
UNHARMED: Final = 1 / len(ATTACKS)


def judge(form: Format, data: bytes, tally: Tally) -> None:
    with tally.attempt():
        assert form.again(data) == data


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_any_bytes_are_decoded_to_what_encodes_the_same_or_refused(name: str) -> None:
    form = FORMATS[name]
    tally = Tally()

    @settings(max_examples=CASES[name] // BATCH, deadline=None, database=None, derandomize=True)
    @given(seed=st.integers(0, 2**64 - 1))
    def batch(seed: int) -> None:
        rng = Random(seed)
        for case in range(BATCH):
            judge(form, ATTACKS[case % len(ATTACKS)](rng, form.make(rng)), tally)

    batch()

    assert tally.taken + tally.refused >= CASES[name]
    tally.expect(UNHARMED)


@pytest.mark.parametrize("name", FORMATS)
def test_encoded_values_are_decoded_to_the_same(name: str) -> None:
    for seed in range(50):
        valid = FORMATS[name].make(Random(seed))

        assert FORMATS[name].again(valid) == valid


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_drawn_by_hypothesis_are_decoded_or_refused(name: str) -> None:
    tally = Tally()

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(data=st.binary(max_size=200), seed=st.integers(0, 2**32 - 1))
    def one(data: bytes, seed: int) -> None:
        for buffer in (data, FORMATS[name].make(Random(seed))):
            judge(FORMATS[name], buffer, tally)

    one()
    tally.expect(1 / 2)  # All that are as they were encoded.


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_no_number_in_a_packet_makes_a_decoder_allocate_more_than_the_packet_warrants(name: str) -> None:
    rng = Random(4711)
    tally = Tally()
    packets = [edge_number(rng, FORMATS[name].make(rng)) for _ in range(300)]
    packets += [FORMATS[name].make(rng) for _ in range(30)]
    tracemalloc.start()
    for data in packets:
        # Heads are cached; that this cache grows is not caused by this packet.
        _heads.clear()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        judge(FORMATS[name], data, tally)
        assert tracemalloc.get_traced_memory()[1] - before < 20_000 + 40 * len(data)
    tracemalloc.stop()
    assert tally.taken >= 30
