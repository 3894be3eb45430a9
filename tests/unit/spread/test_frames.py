"""Frames in both byte orders, and what a client may not send."""

from struct import pack

import pytest

from hopring.errors import Drop, PeerError
from hopring.spread.bits import Bits
from hopring.spread.frames import (
    HEAD_BYTES,
    NAME_BYTES,
    REST_BYTES_MAX,
    Frame,
    Reader,
    encode_frame,
    head_of,
    hint_of,
    message_type,
)

ALICE = "#alice#d1"
ORDERS = ["<", ">"]


def written(
    order: str,
    word: int,
    groups: tuple[str, ...] = ("grp",),
    tag: int = 0,
    body: bytes = b"",
    name: str = ALICE,
    hint: int | None = None,
    size: int | None = None,
    count: int | None = None,
) -> bytes:
    """A frame as a client of this byte order writes it."""
    marker = 0x80000080 if order == "<" else 0
    head = pack(
        f"{order}I32sIII",
        word | marker,
        name.encode(),
        len(groups) if count is None else count,
        (tag << 8 if hint is None else hint) | marker,
        len(body) if size is None else size,
    )
    return head + b"".join([one.encode().ljust(NAME_BYTES, b"\0") for one in groups]) + body


def read(data: bytes) -> Frame | None:
    reader = Reader()
    reader.feed(data)
    return reader.next()


def refused(data: bytes) -> Drop:
    with pytest.raises(PeerError) as caught:
        read(data)
    return caught.value.reason


def test_a_join_as_a_real_client_writes_it() -> None:
    data = (
        bytes.fromhex("80 00 01 80")
        + ALICE.encode().ljust(32, b"\0")
        + bytes.fromhex("01 00 00 00 80 00 00 80")
    )
    data += bytes(4) + b"grp".ljust(32, b"\0")

    assert read(data) == Frame(Bits.JOIN, False, ALICE, ("grp",), bytes.fromhex("80 00 00 80"), b"")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bit", [0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x10000, 0x20000, 0x40000])
def test_every_service_and_request_in_both_byte_orders(order: str, bit: int) -> None:
    frame = read(written(order, bit, ("a", "b"), 0x1234, b"body" if bit < 0x40 else b""))

    assert frame is not None
    assert (frame.kind, frame.self_discard, frame.sender, frame.groups) == (Bits(bit), False, ALICE, ("a", "b"))
    assert message_type(frame.hint) == 0x1234


@pytest.mark.parametrize("order", ORDERS)
def test_self_discard_goes_with_a_service(order: str) -> None:
    frame = read(written(order, 0x10 | 0x40, body=b"x"))

    assert frame is not None
    assert (frame.kind, frame.self_discard, frame.body) == (Bits.AGREED, True, b"x")


def test_the_hint_is_kept_as_it_was_written() -> None:
    frame = read(written(">", 0x10, tag=0x1234))

    assert frame is not None
    assert frame.hint == bytes.fromhex("00 12 34 00")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("word", "reason"),
    [
        (0x0, Drop.UNKNOWN_TYPE),
        (0x3, Drop.UNKNOWN_TYPE),
        (0x10 | 0x10000, Drop.UNKNOWN_TYPE),
        (0x10 | 0x1000, Drop.UNKNOWN_TYPE),  # A forged view.
        (0x10 | 0x2000, Drop.UNKNOWN_TYPE),
        (0x10 | 0x100, Drop.UNKNOWN_TYPE),
        (0x10 | 0x80000, Drop.UNKNOWN_TYPE),  # A real daemon exits.
        (0x10 | 0x8000, Drop.UNKNOWN_TYPE),
        (0x10 | 0x400000, Drop.UNKNOWN_TYPE),
        (0x10000 | 0x40, Drop.UNKNOWN_TYPE),
    ],
)
def test_a_client_may_not_set_bits_that_are_for_daemons(order: str, word: int, reason: Drop) -> None:
    assert refused(written(order, word)) is reason


def test_half_a_marker_is_of_no_byte_order() -> None:
    assert refused(pack("<I", 0x80000010) + bytes(44)) is Drop.INCONSISTENT
    assert refused(pack("<I", 0x00000090) + bytes(44)) is Drop.INCONSISTENT


@pytest.mark.parametrize("order", ORDERS)
def test_a_head_is_judged_before_the_rest_has_come(order: str) -> None:
    assert refused(written(order, 0x10, count=101)[:HEAD_BYTES]) is Drop.LIMIT
    assert refused(written(order, 0x10, count=2**32 - 1)[:HEAD_BYTES]) is Drop.LIMIT
    assert refused(written(order, 0x10, size=2**32 - 1)[:HEAD_BYTES]) is Drop.LIMIT
    assert refused(written(order, 0x10, size=REST_BYTES_MAX - 31)[:HEAD_BYTES]) is Drop.LIMIT
    assert refused(written(order, 0x10, hint=0x01000000)[:HEAD_BYTES]) is Drop.INCONSISTENT
    assert refused(written(order, 0x10, name="x" * 32)[:HEAD_BYTES]) is Drop.LENGTH
    assert refused(written(order, 0x10, name="ä")[:HEAD_BYTES]) is Drop.INCONSISTENT


def test_the_largest_frame_passes_and_bodies_that_kill_a_real_daemon_do_too() -> None:
    for size in (143_120, 143_121, 143_920):
        frame = read(written("<", 0x10, body=bytes(size)))
        assert frame is not None
        assert len(frame.body) == size


def test_a_hundred_groups_pass_and_none_does_too() -> None:
    for count in (0, 100):
        frame = read(written(">", 0x20, tuple(f"g{at}" for at in range(count))))
        assert frame is not None
        assert len(frame.groups) == count


def test_frames_come_out_one_by_one_however_the_bytes_come_in() -> None:
    data = written("<", 0x10, body=b"one") + written(">", 0x20, ("a", "b"), body=b"two")
    reader, found = Reader(), []
    for at in range(len(data)):
        reader.feed(data[at : at + 1])
        if (frame := reader.next()) is not None:
            found.append(frame.body)

    assert found == [b"one", b"two"]
    assert reader.rest == b""


def test_what_goes_to_clients_reads_back() -> None:
    data = encode_frame(Bits.SAFE | Bits.SELF_DISCARD, ALICE, ("a", "b"), hint_of(7), b"body")

    word, name, count, hint, size = head_of(data)
    assert (word, name.rstrip(b"\0"), count, message_type(hint), size) == (0x60, ALICE.encode(), 2, 7, 4)
    assert data[48 + 64 :] == b"body"
