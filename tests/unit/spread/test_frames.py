"""Frames in both byte orders, and frames that a client may not send."""

from struct import pack

import pytest

from hopring.errors import Drop, PeerError
from hopring.spread.bits import Bits
from hopring.spread.frames import (
    HEAD_BYTES,
    NAME_BYTES,
    REST_BYTES_MAX,
    SpreadBatch,
    SpreadReader,
    encode_frame,
    encode_messages,
    encode_names,
    head_of,
    hint_of,
    read_hint,
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


def read(data: bytes) -> SpreadBatch | None:
    reader = SpreadReader()
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

    batch = read(data)
    assert batch == SpreadBatch(Bits.JOIN, False, ALICE, b"grp".ljust(32, b"\0"), False, [0], [b""])
    assert batch.groups == ("grp",)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bit", [0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x10000, 0x20000, 0x40000])
def test_every_service_and_request_in_both_byte_orders(order: str, bit: int) -> None:
    frame = read(written(order, bit, ("a", "b"), 0x1234, b"body" if bit < 0x40 else b""))

    assert frame is not None
    assert (frame.kind, frame.self_discard, frame.sender, frame.groups) == (Bits(bit), False, ALICE, ("a", "b"))
    assert (frame.big_endian, frame.types) == (order == ">", [0x1234])


@pytest.mark.parametrize("order", ORDERS)
def test_self_discard_goes_with_a_service(order: str) -> None:
    frame = read(written(order, 0x10 | 0x40, body=b"x"))

    assert frame is not None
    assert (frame.kind, frame.self_discard, frame.bodies) == (Bits.AGREED, True, [b"x"])


@pytest.mark.parametrize(("order", "hint"), [(">", "00 12 34 00"), ("<", "80 34 12 80")])
def test_the_hint_is_sent_on_as_it_was_written(order: str, hint: str) -> None:
    frame = read(written(order, 0x10, tag=0x1234))

    assert frame is not None
    assert hint_of(frame.types[0], frame.big_endian) == bytes.fromhex(hint)


@pytest.mark.parametrize("hint", ["80 34 12 00", "00 34 12 80", "80 34 12 81", "01 00 00 00", "ff ff ff ff"])
def test_a_hint_of_no_byte_order_or_with_other_bits_is_refused(hint: str) -> None:
    data = bytearray(written("<", 0x10))
    data[40:44] = bytes.fromhex(hint)

    assert refused(bytes(data)) is Drop.INCONSISTENT


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


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bit", [1 << at for at in range(23, 31)])
def test_bits_without_a_meaning_to_daemons_pass_beside_a_service(order: str, bit: int) -> None:
    batch = read(written(order, 0x20 | 0x40 | bit, body=b"x"))

    assert batch is not None
    assert (batch.kind, batch.self_discard, batch.free_bits) == (Bits.SAFE, True, bit >> 23)
    request = read(written(order, 0x10000 | bit))
    assert request is not None
    assert request.kind is Bits.JOIN
    assert refused(written(order, bit)) is Drop.UNKNOWN_TYPE
    assert refused(written(order, 0x30 | bit)) is Drop.UNKNOWN_TYPE


def test_messages_with_different_free_bits_are_not_returned_together() -> None:
    reader = SpreadReader()
    reader.feed(written("<", 0x10, body=b"one") + written("<", 0x40000010, body=b"two") * 2)

    assert [(one.bodies, one.free_bits) for one in iter(reader.next, None)] == [
        ([b"one"], 0),
        ([b"two", b"two"], 0x80),
    ]


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (b"grp", "grp"),
        ("grüße".encode(), "grüße"),
        ("größe".encode("latin-1"), ""),
        (b"\xff" * 31, ""),
        (b"x" * 31, "x" * 31),
        (b"x" * 32, ""),
        (b"", ""),
        (b"grp\0behind the end", "grp"),
    ],
)
def test_no_group_name_ends_a_session(field: bytes, name: str) -> None:
    data = bytearray(written("<", 0x10, ("first", "?", "last")))
    data[80:112] = field.ljust(32, b"\0")
    batch = read(bytes(data))

    assert batch is not None
    assert batch.groups == ("first", name, "last")
    assert batch.names == bytes(data[48:144])


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
        assert len(frame.bodies[0]) == size


def test_a_hundred_groups_pass_and_none_does_too() -> None:
    for count in (0, 100):
        frame = read(written(">", 0x20, tuple(f"g{at}" for at in range(count))))
        assert frame is not None
        assert len(frame.groups) == count


def test_frames_come_out_one_by_one_however_the_bytes_come_in() -> None:
    data = written("<", 0x10, body=b"one") + written(">", 0x20, ("a", "b"), body=b"two")
    reader, found = SpreadReader(), []
    for at in range(len(data)):
        reader.feed(data[at : at + 1])
        if (frame := reader.next()) is not None:
            found += frame.bodies

    assert found == [b"one", b"two"]
    assert reader.rest == b""


def test_frames_to_clients_are_decoded_to_the_same() -> None:
    data = encode_frame(Bits.SAFE | Bits.SELF_DISCARD, ALICE, ("a", "b"), hint_of(7), b"body")

    word, name, count, hint, size = head_of(data)
    assert (word, name.rstrip(b"\0"), count, read_hint(hint), size) == (0x60, ALICE.encode(), 2, (False, 7), 4)
    assert data[48 + 64 :] == b"body"


@pytest.mark.parametrize("order", ORDERS)
def test_messages_with_the_same_head_are_returned_together(order: str) -> None:
    same = [written(order, 0x10, body=b"one"), written(order, 0x10, body=b"two")]
    other = [written(order, 0x10, tag=7, body=b"longer"), written(order, 0x10, body=b"")]
    reader = SpreadReader()
    reader.feed(b"".join(same + other))

    batch = reader.next()
    assert batch is not None
    assert (batch.bodies, batch.types) == ([b"one", b"two", b"longer", b""], [0, 0, 7, 0])
    assert reader.next() is None


@pytest.mark.parametrize(
    "different",
    [
        written("<", 0x20, body=b"two"),
        written(">", 0x10, body=b"two"),
        written("<", 0x50, body=b"two"),
        written("<", 0x10, ("grp", "more"), body=b"two"),
        written("<", 0x10, ("other",), body=b"two"),
        written("<", 0x10, name="#bob#d1", body=b"two"),
    ],
)
def test_messages_with_different_heads_are_not_returned_together(different: bytes) -> None:
    reader = SpreadReader()
    reader.feed(written("<", 0x10, body=b"one") + different)

    bodies = [batch.bodies for batch in iter(reader.next, None)]
    assert bodies == [[b"one"], [b"two"]]


def test_a_batch_has_its_limit_and_one_frame_is_always_let_through() -> None:
    reader = SpreadReader(batch_bytes_max=100)
    reader.feed(b"".join([written("<", 0x10, body=bytes(size)) for size in (60, 40, 1, 150, 99)]))

    assert [list(map(len, batch.bodies)) for batch in iter(reader.next, None)] == [[60, 40], [1], [150], [99]]


def test_a_bad_frame_behind_good_ones_is_refused_after_them() -> None:
    reader = SpreadReader()
    reader.feed(written("<", 0x10, body=b"good") + written("<", 0x10, size=2**32 - 1))

    batch = reader.next()
    assert batch is not None
    assert batch.bodies == [b"good"]
    with pytest.raises(PeerError):
        reader.next()


def test_requests_come_out_one_by_one() -> None:
    reader = SpreadReader()
    reader.feed(written("<", 0x10000) * 3)

    assert [batch.kind for batch in iter(reader.next, None)] == [Bits.JOIN] * 3


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize(
    ("types", "bodies"), [([3, 3], [b"one", b"two"]), ([1, 2], [b"one", b"two"]), ([0, 0], [b"", b"longer"])]
)
def test_messages_are_written_as_single_frames_would_be(
    big_endian: bool, types: list[int], bodies: list[bytes]
) -> None:
    frames = encode_messages(Bits.AGREED, ALICE, encode_names(("a", "b")), big_endian, types, bodies)

    single = [
        encode_frame(Bits.AGREED, ALICE, ("a", "b"), hint_of(kind, big_endian), body)
        for kind, body in zip(types, bodies, strict=True)
    ]
    assert frames == b"".join(single)
