"""Bodies of membership messages: what a real daemon sends, in both byte orders, and what none sends."""

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding import Tally

from hopring.errors import PeerError
from hopring.groups.events import Cause
from hopring.spread.deliveries import ByteOrder, decode_head, decode_rest
from hopring.spread.frames import HEAD_BYTES
from hopring.spread.membership import GroupId, Sets, signal, view
from hopring.spread.view_bodies import SetAt, ViewBody, decode_id, decode_view, names_at, turned

ORDERS: list[tuple[ByteOrder, str]] = [("little", "<"), ("big", ">")]
ID = GroupId(0x0A000001, 1_700_000_000, 3)
C1, C2, C3 = (pack("32s", one) for one in (b"#c1#d1", b"#c2#d2", b"#c3#d3"))


def merged(order: str, count: int = 2, offset: int = 36, first: int = 1, second: int = 2) -> bytes:
    """Two that came together and one that came alone."""
    head = pack(f"{order}IIIII", *ID, count, offset)
    return head + pack(f"{order}I", first) + C3 + pack(f"{order}I", second) + C1 + C2


@pytest.mark.parametrize(("order", "struct"), ORDERS)
def test_a_merge(order: ByteOrder, struct: str) -> None:
    body = merged(struct)
    found = decode_view(body, order)

    assert found == ViewBody(ID, (SetAt(1, 24), SetAt(2, 60)), 1)
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
def test_what_does_not_fit_is_refused(order: ByteOrder, struct: str, wrong: dict[str, int]) -> None:
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


def test_words_are_turned_and_names_are_not() -> None:
    assert turned(merged(">"), "big", "little", view=True) == merged("<")
    assert turned(merged("<"), "little", "big", view=True) == merged(">")
    assert turned(merged("<"), "little", "little", view=True) == merged("<")
    assert turned(pack(">III", *ID), "big", "little", view=False) == pack("<III", *ID)


def test_what_cannot_be_read_is_not_turned() -> None:
    wrong = merged(">", offset=1)

    assert turned(wrong, "big", "little", view=True) == wrong
    assert turned(b"short", "big", "little", view=False) == b"short"


def test_what_our_own_daemon_sends() -> None:
    sets = Sets((("#c3#d3",), ("#c1#d1", "#c2#d2")), 1)
    data = view("grp", ID, ("#c1#d1", "#c2#d2", "#c3#d3"), Cause.NETWORK, sets)
    delivery = decode_rest(decode_head(data[:HEAD_BYTES]), data[HEAD_BYTES:])
    closing = signal("grp", ID)

    assert (delivery.bits, delivery.name) == (0x1800, b"grp")
    assert delivery.groups == (b"#c1#d1", b"#c2#d2", b"#c3#d3")
    assert delivery.body == merged("<")
    assert decode_id(closing[HEAD_BYTES:], "little") == ID


@pytest.mark.parametrize(("order", "struct"), ORDERS)
def test_any_body_is_read_or_refused(order: ByteOrder, struct: str) -> None:
    other: ByteOrder = "big" if order == "little" else "little"
    tally, good = Tally(), merged(struct)

    def judge(body: bytes) -> None:
        there = turned(body, order, other, view=True)
        try:
            found = decode_view(body, order)
        except PeerError:
            assert there == body
            raise
        assert decode_view(there, other) == found
        assert turned(there, other, order, view=True) == body

    @settings(deadline=None, derandomize=True, database=None)
    @given(st.binary(max_size=200), st.integers(0, len(good) - 1), st.integers(0, 255))
    def one(noise: bytes, at: int, byte: int) -> None:
        for body in (noise, good[:at] + bytes([byte]) + good[at + 1 :]):
            with tally.attempt():
                judge(body)

    one()
    tally.expect(1 / 3)  # Half of them are nearly right.
