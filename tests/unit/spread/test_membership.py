"""Membership messages, compared with recorded ones of a real daemon."""

from struct import pack, unpack_from

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoding import Tally

from hopring.errors import PeerError
from hopring.groups.events import Cause
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, Incarnation, ViewId
from hopring.spread.deliveries import ByteOrder, decode_head, decode_rest
from hopring.spread.frames import HEAD_BYTES, NAME_BYTES, head_of
from hopring.spread.membership import (
    GroupId,
    SetAt,
    Sets,
    SpreadViewBody,
    decode_id,
    decode_view,
    encode_own_leave,
    encode_signal,
    encode_view,
    group_id,
    in_byte_order,
    names_at,
)

ID = GroupId(0x0A000001, 1_700_000_000, 3)


def field(name: str) -> bytes:
    return name.encode().ljust(NAME_BYTES, b"\0")


def test_a_join_names_the_joiner_in_its_only_set() -> None:
    data = encode_view("grp", ID, ("#alice#d1",), Cause.JOIN, Sets((("#alice#d1",),), 0))

    word, name, count, hint, size = head_of(data)
    assert (word, name, count, hint, size) == (0x1100, field("grp"), 1, bytes.fromhex("80 00 00 80"), 56)
    assert data[48:80] == field("#alice#d1")
    assert unpack_from("<IIIII", data, 80) == (*ID, 1, 0)
    assert data[100:] == (1).to_bytes(4, "little") + field("#alice#d1")


def test_after_a_merge_everybody_gets_the_same_sets_and_its_own_offset() -> None:
    mine = ("#c1#d1", "#c1b#d1", "#c2#d2")
    members = (*mine, "#c3#d3")
    sets = (("#c3#d3",), mine)

    ours = encode_view("grp", ID, members, Cause.NETWORK, Sets(sets, 1))
    theirs = encode_view("grp", ID, members, Cause.NETWORK, Sets(sets, 0))

    assert head_of(ours)[0] == 0x1800
    assert head_of(ours)[4] == 156
    body = 48 + 4 * NAME_BYTES
    assert unpack_from("<II", ours, body + 12) == (2, 36)
    assert unpack_from("<II", theirs, body + 12) == (2, 0)
    at = body + 20 + 36
    assert unpack_from("<I", ours, at) == (3,)
    assert ours[at + 4 : at + 4 + 32] == field("#c1#d1")
    assert ours[:body] == theirs[:body]
    assert ours[body + 20 :] == theirs[body + 20 :]


def test_causes() -> None:
    words = [head_of(encode_view("g", ID, ("#a#d",), cause, Sets((("#a#d",),), 0)))[0] for cause in Cause]

    assert sorted(words) == [0x1100, 0x1200, 0x1400, 0x1800]


def test_a_signal_has_the_id_of_the_view_that_closes() -> None:
    data = encode_signal("grp", ID)

    assert head_of(data) == (0x2000, field("grp"), 0, bytes.fromhex("80 00 00 80"), 12)
    assert unpack_from("<III", data, 48) == ID


def test_the_own_leave_has_nothing_in_it() -> None:
    assert head_of(encode_own_leave("grp")) == (0x200, field("grp"), 0, bytes.fromhex("80 00 00 80"), 0)


def test_every_view_has_an_id_of_its_own() -> None:
    one, other = (ViewId(7, DaemonId(daemon), Incarnation(99)) for daemon in (0, 1))
    ids = [
        GroupViewId(one, (), 1),
        GroupViewId(one, (), 2),
        GroupViewId(other, (), 1),
        GroupViewId(one, (other,), 1),
        GroupViewId(one, (other, one), 1),
        GroupViewId(ViewId(8, DaemonId(0), Incarnation(99)), (), 1),
    ]

    assert len({group_id(one) for one in ids}) == len(ids)
    assert group_id(ids[1]) == group_id(GroupViewId(one, (), 2))
    assert group_id(ids[1])[1:] == (7, 2)


ORDERS: list[tuple[ByteOrder, str]] = [("little", "<"), ("big", ">")]
C1, C2, C3 = (pack("32s", one) for one in (b"#c1#d1", b"#c2#d2", b"#c3#d3"))


def merged(order: str, count: int = 2, offset: int = 36, first: int = 1, second: int = 2) -> bytes:
    """Two members that came together and one that came alone."""
    head = pack(f"{order}IIIII", *ID, count, offset)
    return head + pack(f"{order}I", first) + C3 + pack(f"{order}I", second) + C1 + C2


@pytest.mark.parametrize(("order", "struct"), ORDERS)
def test_a_merge(order: ByteOrder, struct: str) -> None:
    body = merged(struct)
    found = decode_view(body, order)

    assert found == SpreadViewBody(ID, (SetAt(1, 24), SetAt(2, 60)), 1)
    assert [names_at(body, one) for one in found.sets] == [(b"#c3#d3",), (b"#c1#d1", b"#c2#d2")]
    assert decode_view(merged(struct, offset=0), order).own == 0
    assert decode_id(body, order) == ID


@pytest.mark.parametrize(("order", "struct"), ORDERS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"offset": 4},
        {"offset": 37},
        {"offset": 2**32 - 1},
        {"count": 0},
        {"count": 1},  # Then the own set is none of them.
        {"count": 3},
        {"count": 2**32 - 1},
        {"first": 0},
        {"first": 2**32 - 1},
        {"first": 2**27},
        {"second": 3},
    ],
)
def test_inconsistent_bodies_are_refused(order: ByteOrder, struct: str, wrong: dict[str, int]) -> None:
    with pytest.raises(PeerError):
        decode_view(merged(struct, **wrong), order)


def test_a_body_that_is_cut_is_refused_wherever() -> None:
    body = merged("<")
    for size in range(len(body)):
        with pytest.raises(PeerError):
            decode_view(body[:size], "little")
    for size in range(12):
        with pytest.raises(PeerError):
            decode_id(body[:size], "little")


@pytest.mark.parametrize("names", [SetAt(3, 60), SetAt(1, 10**6), SetAt(-1, 24), SetAt(1, -1), SetAt(2**40, 0)])
def test_a_set_outside_of_its_body_has_no_names(names: SetAt) -> None:
    with pytest.raises(PeerError):
        names_at(merged("<"), names)


def test_the_byte_order_of_numbers_is_converted_and_names_are_unchanged() -> None:
    assert in_byte_order(merged(">"), "big", "little", view=True) == merged("<")
    assert in_byte_order(merged("<"), "little", "big", view=True) == merged(">")
    assert in_byte_order(merged("<"), "little", "little", view=True) == merged("<")
    assert in_byte_order(pack(">III", *ID), "big", "little", view=False) == pack("<III", *ID)


def test_invalid_bodies_are_not_converted() -> None:
    wrong = merged(">", offset=1)

    assert in_byte_order(wrong, "big", "little", view=True) == wrong
    assert in_byte_order(b"short", "big", "little", view=False) == b"short"


def test_messages_of_our_own_daemon_are_read() -> None:
    sets = Sets((("#c3#d3",), ("#c1#d1", "#c2#d2")), 1)
    data = encode_view("grp", ID, ("#c1#d1", "#c2#d2", "#c3#d3"), Cause.NETWORK, sets)
    delivery = decode_rest(decode_head(data[:HEAD_BYTES]), data[HEAD_BYTES:])
    closing = encode_signal("grp", ID)

    assert (delivery.bits, delivery.name) == (0x1800, b"grp")
    assert delivery.groups == (b"#c1#d1", b"#c2#d2", b"#c3#d3")
    assert delivery.body == merged("<")
    assert decode_id(closing[HEAD_BYTES:], "little") == ID


@pytest.mark.parametrize(("order", "struct"), ORDERS)
def test_any_body_is_read_or_refused(order: ByteOrder, struct: str) -> None:
    other: ByteOrder = "big" if order == "little" else "little"
    tally, good = Tally(), merged(struct)

    def judge(body: bytes) -> None:
        there = in_byte_order(body, order, other, view=True)
        try:
            found = decode_view(body, order)
        except PeerError:
            assert there == body
            raise
        assert decode_view(there, other) == found
        assert in_byte_order(there, other, order, view=True) == body

    @settings(deadline=None, derandomize=True, database=None)
    @given(st.binary(max_size=200), st.integers(0, len(good) - 1), st.integers(0, 255))
    def one(noise: bytes, at: int, byte: int) -> None:
        for body in (noise, good[:at] + bytes([byte]) + good[at + 1 :]):
            with tally.attempt():
                judge(body)

    one()
    tally.expect(1 / 3)  # Half of them are nearly valid.
