from random import Random
from typing import Final

import pytest
from tests.unit.wire.bundles import KEY, encoded, reason_of, with_groups

from hopring.errors import Drop
from hopring.ids import DaemonId, GroupName
from hopring.services import Service
from hopring.wire.bundle import (
    BUNDLE_BYTES_MAX,
    BUNDLE_HEAD_BYTES,
    GROUPS_MAX,
    MESSAGE_BYTES_MAX,
    Bundle,
    BundleKey,
    as_of,
    decode_bundle,
    encode_bundle,
    messages_in,
    peek_groups,
    pick,
)

OFFSETS_AT: Final = BUNDLE_HEAD_BYTES


def test_a_bundle_is_decoded_to_the_same() -> None:
    bundle = decode_bundle(encode_bundle(KEY, [b"one", b"", b"three"], [1, 2, 65_535], [0, 255, 3]))

    assert (bundle.key, len(bundle)) == (KEY, 3)
    assert [bytes(body) for body in bundle.messages()] == [b"one", b"", b"three"]
    assert bytes(bundle.message(2)) == b"three"
    assert bundle.lengths() == [3, 0, 5]
    assert bundle.types.tolist() == [1, 2, 65_535]
    assert bundle.hints.tolist() == [0, 255, 3]


def test_messages_are_counted_by_the_head_alone_and_invalid_bytes_do_no_harm() -> None:
    assert messages_in(encoded(b"one")) == 1
    assert messages_in(encoded(*[b""] * 300) + b"anna\x04") == 300
    assert messages_in(b"short") == 0


def test_bundles_are_values() -> None:
    assert decode_bundle(encoded(b"one")) == decode_bundle(encoded(b"one"))
    assert decode_bundle(encoded(b"one")) != decode_bundle(encoded(b"two"))


def test_offsets_and_bodies_have_the_layout_of_arrow() -> None:
    buffer = encoded(b"one", b"", b"three")
    bundle = decode_bundle(buffer)

    assert OFFSETS_AT % 8 == 0
    assert bundle.offsets.tobytes() == buffer[OFFSETS_AT : OFFSETS_AT + 16]
    assert bundle.offsets.tolist() == [0, 3, 3, 8]
    assert (bundle.offsets.obj, bundle.bodies.obj) == (buffer, buffer)


def test_a_message_outside_the_bundle_is_our_mistake() -> None:
    bundle = decode_bundle(encoded(b"one"))

    for index in (-1, 1):
        with pytest.raises(AssertionError):
            bundle.message(index)


def test_a_message_may_be_empty_or_as_long_as_the_limit() -> None:
    for size in (0, MESSAGE_BYTES_MAX):
        buffer = encoded(bytes(size))
        assert decode_bundle(buffer).lengths() == [size]
        assert len(buffer) <= BUNDLE_BYTES_MAX <= 16 * 1024 * 1024


def test_one_byte_over_the_limit_is_refused_at_both_ends() -> None:
    buffer = bytearray(encoded(bytes(MESSAGE_BYTES_MAX)))
    more = (MESSAGE_BYTES_MAX + 1).to_bytes(4, "little")
    buffer[20:24] = more
    buffer[OFFSETS_AT + 4 : OFFSETS_AT + 8] = more

    assert reason_of(buffer + b"!") is Drop.LIMIT
    with pytest.raises(AssertionError):
        encoded(bytes(MESSAGE_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "offsets", [(1, 3, 8), (0, 9, 8), (0, 3, 7), (0, -1, 8), (0, 2**31 - 1, 8), (0, 3, -8), (8, 3, 0)]
)
def test_offsets_that_do_not_rise_from_nothing_to_all_bodies_are_refused(offsets: tuple[int, ...]) -> None:
    buffer = bytearray(encoded(b"one", b"three"))
    buffer[OFFSETS_AT : OFFSETS_AT + 12] = b"".join(
        offset.to_bytes(4, "little", signed=True) for offset in offsets
    )

    assert reason_of(buffer) is Drop.INCONSISTENT


def test_a_bundle_that_is_longer_or_shorter_than_it_says_is_refused() -> None:
    buffer = encoded(b"one", b"three")

    assert reason_of(buffer + b"x") is Drop.LENGTH
    assert reason_of(buffer[:-1]) is Drop.LENGTH
    assert reason_of(buffer[: BUNDLE_HEAD_BYTES - 1]) is Drop.TRUNCATED


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 0, Drop.UNKNOWN_TYPE),  # service
        (0, 7, Drop.UNKNOWN_TYPE),
        (1, 8, Drop.LIMIT),  # flags
        (1, 12, Drop.INCONSISTENT),
        (1, 64, Drop.LENGTH),
        (1, 128, Drop.INCONSISTENT),
        (2, 8, Drop.LIMIT),  # channel
        (3, 1, Drop.LENGTH),  # bytes of the mark
        (5, 0x10, Drop.LIMIT),  # daemon
        (6, 0, Drop.LIMIT),  # groups
        (7, 1, Drop.LIMIT),
        (13, 0x11, Drop.LIMIT),  # messages
        (12, 0, Drop.LIMIT),
        (19, 1, Drop.LIMIT),  # bytes of group names
        (23, 1, Drop.LIMIT),  # bytes of bodies
    ],
)
def test_a_head_out_of_its_limits_is_refused(at: int, value: int, reason: Drop) -> None:
    buffer = bytearray(encoded(b"one"))
    buffer[at] = value

    assert reason_of(buffer) is reason


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (b"\x01a\x00", Drop.LIMIT),
        (b"\x01a\x05b", Drop.LENGTH),
        (b"\x03abc", Drop.LENGTH),
        (b"\x01a\x01\x00", Drop.INCONSISTENT),
        (b"\x01a\x01\xff", Drop.INCONSISTENT),
        (b"\x01a\x01a", Drop.INCONSISTENT),
        (b"\x01a\x01b\x01c", Drop.LENGTH),
    ],
)
def test_names_that_no_group_can_have_are_refused(names: bytes, reason: Drop) -> None:
    buffer = encoded(b"", key=with_groups("a", "b"))
    broken = bytearray(buffer[:-4] + names)
    broken[16] = len(names)

    assert reason_of(broken) is reason


def test_names_of_up_to_128_bytes_are_kept_and_longer_ones_are_our_mistake() -> None:
    most = with_groups(*(f"{number:0128}" for number in range(GROUPS_MAX)))

    assert decode_bundle(encoded(b"", key=most)).key == most
    for names in (["x" * 129], ["ü" * 65], [""], ["a\0b"], ["a", "a"], []):
        with pytest.raises(AssertionError):
            encoded(b"", key=with_groups(*names))


def test_a_bundle_is_read_at_any_place_of_a_packet() -> None:
    buffer = encoded(*(Random(1).randbytes(size) for size in range(50)))

    assert decode_bundle(memoryview(b"odd" + buffer)[3:]) == decode_bundle(buffer)


MIXED: Final = BundleKey(
    DaemonId(3), 17, Service.AGREED, (GroupName("a"), GroupName("b"), GroupName("c")), mixed=True
)


def mixed_bundle() -> Bundle:
    bodies, places = [b"zero", b"one", b"", b"three"], [0, 2, 0, 1]
    return decode_bundle(encode_bundle(MIXED, bodies, [5, 6, 7, 8], [0, 9, 0, 1], places))


def test_a_mixed_bundle_is_decoded_to_the_same() -> None:
    bundle = mixed_bundle()

    assert bundle.key == MIXED
    assert [bundle.groups_of(at) for at in range(4)] == [("a",), ("c",), ("a",), ("b",)]
    assert peek_groups(bundle.whole) == ("a", "b", "c")
    assert as_of(bundle, 2).key == MIXED.replace(groups=(GroupName("c"),), mixed=False)
    assert bytes(as_of(bundle, 2).message(1)) == b"one"


def test_a_selection_of_messages_keeps_only_their_groups() -> None:
    several, one = decode_bundle(pick(mixed_bundle(), [1, 3])), decode_bundle(pick(mixed_bundle(), [0, 2]))

    assert several.key == MIXED.replace(groups=(GroupName("b"), GroupName("c")))
    assert [several.groups_of(at) for at in range(2)] == [("c",), ("b",)]
    assert [bytes(body) for body in several.messages()] == [b"one", b"three"]
    assert (several.types.tolist(), several.hints.tolist()) == ([6, 8], [9, 1])
    assert one.key == MIXED.replace(groups=(GroupName("a"),), mixed=False)
    assert one.messages() == [b"zero", b""]


def test_a_wrong_group_index_and_a_service_that_cannot_be_mixed_are_refused() -> None:
    good = encode_bundle(MIXED, [b"x", b"y"], [0, 0], [0, 0], [0, 1])
    places_at = good.index(b"\x00\x01\x01a\x01b\x01c")
    outside = good[:places_at] + b"\x00\x03" + good[places_at + 2 :]
    fifo = bytes([Service.FIFO]) + good[1:]

    assert reason_of(outside) is Drop.INCONSISTENT
    assert reason_of(fifo) is Drop.INCONSISTENT
    for places in ([], [0]):
        with pytest.raises(AssertionError):
            encode_bundle(MIXED, [b"x", b"y"], [0, 0], [0, 0], places)


LISTED: Final = b"orders".ljust(32, b"\0") * 2 + b"\xff" * 32
SPREAD: Final = KEY.replace(groups=(GroupName("orders"),), channel=0, spread_bits=0x80, spread_groups=LISTED)


@pytest.mark.parametrize(
    "key",
    [
        SPREAD,
        SPREAD.replace(spread_bits=0),
        SPREAD.replace(spread_groups=b""),
        SPREAD.replace(spread_bits=0xFF, spread_groups=bytes(3200), big_endian=True),
        SPREAD.replace(groups=tuple([GroupName(f"{at:031}") for at in range(100)])),
    ],
)
def test_values_of_spread_clients_are_decoded_to_the_same(key: BundleKey) -> None:
    bundle = decode_bundle(encode_bundle(key, [b"one", b"two"], [1, 2], [0, 0]))

    assert bundle.key == key
    assert bundle.messages() == [b"one", b"two"]
    assert peek_groups(bundle.whole) == key.groups


def test_invalid_values_of_spread_clients_are_refused() -> None:
    good = encoded(b"one", key=SPREAD)
    at = good.index(b"orders", good.index(b"\x06orders") + 7) - 2
    assert good[at : at + 2] == b"\x80\x03"

    def but(*changed: tuple[int, int]) -> bytearray:
        buffer = bytearray(good)
        for where, value in changed:
            buffer[where] = value
        return buffer

    assert reason_of(but((at + 1, 2))) is Drop.LENGTH
    assert reason_of(but((at + 1, 101))) is Drop.LIMIT
    assert reason_of(but((at, 0), (at + 1, 0))) is Drop.INCONSISTENT
    assert reason_of(but((3, 1))) is Drop.INCONSISTENT  # With a mark,
    assert reason_of(but((1, good[1] | 0x04))) is Drop.INCONSISTENT  # or mixed.
    assert reason_of(good[:at]) is Drop.LENGTH
    assert reason_of(good[: at + 1]) is Drop.LENGTH
    many = with_groups(*(f"{number:032}" for number in range(100)))
    long = bytearray(encoded(b"\x01\x00", key=many))
    long[1] |= 0x08
    assert reason_of(long) is Drop.LIMIT
    for wrong in (
        SPREAD.replace(spread_groups=bytes(31)),
        SPREAD.replace(spread_groups=bytes(3232)),
        many.replace(spread_bits=1),
        SPREAD.replace(mixed=True),
    ):
        with pytest.raises(AssertionError):
            encode_bundle(wrong, [b""], [0], [0], b"\0" if wrong.mixed else b"")
