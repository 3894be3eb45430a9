"""Frames of a daemon, as a client reads them in both byte orders, and frames of a client."""

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoding import Tally

from hopring.errors import Drop, PeerError
from hopring.spread.bits import Bits
from hopring.spread.deliveries import (
    REST_BYTES_MAX,
    ByteOrder,
    SpreadDelivery,
    cut,
    decode_head,
    decode_rest,
    encode_request,
    is_membership,
    is_view,
)
from hopring.spread.frames import HEAD_BYTES, SpreadReader

ORDERS: list[tuple[ByteOrder, str]] = [("little", "<"), ("big", ">")]
LITTLE_HINT = bytes.fromhex("80 34 12 80")
BIG_HINT = bytes.fromhex("00 12 34 00")


def head(order: str, word: int, count: int = 0, size: int = 0, hint: bytes = LITTLE_HINT) -> bytes:
    marker = 0x80000080 if order == "<" else 0
    return pack(f"{order}I32sI4sI", word | marker, b"#bob#d2", count, hint, size)


def read(data: bytes) -> SpreadDelivery:
    found = decode_head(data[:HEAD_BYTES])
    assert found.rest_bytes == len(data) - HEAD_BYTES
    return decode_rest(found, data[HEAD_BYTES:])


@pytest.mark.parametrize(("name", "order"), ORDERS)
@pytest.mark.parametrize(("hint", "foreign"), [(LITTLE_HINT, False), (BIG_HINT, True)])
def test_a_message_and_the_byte_order_of_its_hint(
    name: ByteOrder, order: str, hint: bytes, foreign: bool
) -> None:
    data = head(order, 0x50, 2, 4, hint) + pack("32s32s", b"a", b"#x#d") + b"body"

    assert read(data) == SpreadDelivery(0x50, b"#bob#d2", (b"a", b"#x#d"), 0x1234, foreign, b"body", name)


@pytest.mark.parametrize(("name", "order"), ORDERS)
def test_a_membership_message_has_no_tag_and_nobody_wrote_it(name: ByteOrder, order: str) -> None:
    assert read(head(order, 0x1100, 1, 1) + pack("32s", b"#a#d") + b"?") == SpreadDelivery(
        0x1100, b"#bob#d2", (b"#a#d",), 0, False, b"?", name
    )


@pytest.mark.parametrize(("_", "order"), ORDERS)
def test_a_refused_message_has_its_old_type_in_front_of_its_groups(_: str, order: str) -> None:
    old = pack(f"{order}I", 0x10 | (0x80000080 if order == "<" else 0))
    data = head(order, 0x400000, 1, 2) + old + pack("32s", b"grp") + b"xy"

    assert read(data)[:4] == (0x400010, b"#bob#d2", (b"grp",), 0x1234)
    assert read(data).body == b"xy"


@pytest.mark.parametrize(("_", "order"), ORDERS)
@pytest.mark.parametrize(
    ("word", "count", "size"),
    [
        (0x10, 2**32 - 1, 0),  # -1 to a program in C.
        (0x10, 0, 2**32 - 1),
        (0x10, 2**31, 2**31),
        (0x10, 1, REST_BYTES_MAX - 31),
        (0x10, 2**27, 0),  # 2**32 bytes, which is 0 in 32 bits.
        (0x400000, 2**27, 0),
        (0x1100, REST_BYTES_MAX // 32 + 1, 0),
        (0x1100, 2**32 - 1, 56),
        (0x1100, 1, 2**31),
        (0x2000, 0, 2**32 - 12),
        (0x0, 0, REST_BYTES_MAX + 1),
    ],
)
def test_impossible_lengths_are_refused_before_anything_is_read(
    _: str, order: str, word: int, count: int, size: int
) -> None:
    with pytest.raises(PeerError) as caught:
        decode_head(head(order, word, count, size))
    assert caught.value.reason is Drop.LIMIT


@pytest.mark.parametrize(("_", "order"), ORDERS)
def test_the_longest_that_can_be(_: str, order: str) -> None:
    assert decode_head(head(order, 0x10, 1, REST_BYTES_MAX - 32)).rest_bytes == REST_BYTES_MAX
    assert decode_head(head(order, 0x1100, REST_BYTES_MAX // 32)).rest_bytes == REST_BYTES_MAX


def test_half_a_marker_is_of_no_byte_order() -> None:
    for word in (0x80000010, 0x00000090):
        with pytest.raises(PeerError):
            decode_head(pack("<I", word) + bytes(44))


@pytest.mark.parametrize(
    ("bits", "membership", "view"),
    [
        (0x1100, True, True),
        (0x1800, True, True),
        (0x2000, True, False),
        (0x200, True, False),
        (0x10, False, False),
        (0x1110, False, False),
        (0x401100, False, False),
        (0, False, False),
    ],
)
def test_the_types_of_membership_messages(bits: int, membership: bool, view: bool) -> None:
    assert (is_membership(bits), is_view(bits)) == (membership, view)


def test_names_end_with_their_field() -> None:
    assert (cut(b"a\0b"), cut(b"x" * 32), cut(bytes(32))) == (b"a", b"x" * 32, b"")


def test_a_join_as_a_real_client_writes_it() -> None:
    little = bytes.fromhex("80 00 01 80") + pack("32s", b"#alice#d1") + bytes.fromhex("01 00 00 00 80 00 00 80")
    big = bytes.fromhex("00 01 00 00") + pack("32s", b"#alice#d1") + bytes.fromhex("00 00 00 01 00 00 00 00")
    rest = bytes(4) + pack("32s", b"grp")

    assert encode_request(Bits.JOIN, b"#alice#d1", (b"grp",), 0, b"", "little") == little + rest
    assert encode_request(Bits.JOIN, b"#alice#d1", (b"grp",), 0, b"", "big") == big + rest


@pytest.mark.parametrize("order", ["little", "big"])
def test_our_own_daemon_reads_what_a_client_writes(order: ByteOrder) -> None:
    reader = SpreadReader()
    reader.feed(encode_request(0x60, b"#alice#d1", (b"a", b"#b#d2"), 0x1234, b"body", order))
    found = reader.next()

    assert found is not None
    assert (found.kind, found.self_discard) == (Bits.SAFE, True)
    assert (found.sender, found.groups) == ("#alice#d1", ("a", "#b#d2"))
    assert reader.rest == b""


def test_any_head_is_read_or_refused() -> None:
    tally = Tally()
    good = encode_request(0x60, b"#alice#d1", (b"a", b"#b#d2"), 0x1234, b"body")[:HEAD_BYTES]

    @settings(deadline=None, derandomize=True, database=None)
    @given(
        st.binary(min_size=HEAD_BYTES, max_size=HEAD_BYTES),
        st.integers(0, HEAD_BYTES - 1),
        st.integers(0, 255),
    )
    def one(noise: bytes, at: int, byte: int) -> None:
        for data in (noise, good[:at] + bytes([byte]) + good[at + 1 :]):
            with tally.attempt():
                found = decode_head(data)
                assert 0 <= found.rest_bytes <= REST_BYTES_MAX + 4
                delivery = decode_rest(found, bytes(found.rest_bytes))
                assert (len(delivery.groups), len(delivery.body)) == (found.groups_count, found.body_bytes)

    one()
    tally.expect(1 / 3)  # Half of them are nearly valid.
