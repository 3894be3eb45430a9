"""Messages inside of a cluster: those that are too long go in parts, and nonsense is nothing."""

from hopring.blocks.log.messages import Operation
from hopring.haul.entries import Accepted
from hopring.haul.ids import ClusterId, ParcelId
from hopring.wide.messages import (
    PART_BYTES,
    CastBody,
    ClientAnswer,
    HandedItem,
    MessageCutter,
    MessageJoiner,
    decode_answer,
    decode_body,
    decode_item,
    encode,
)

SHORT = Operation("writer", 1, 0, b"short")
LONG = Operation("writer", 2, 0, bytes(3 * PART_BYTES))


def test_a_short_message_goes_whole_and_a_long_one_in_parts() -> None:
    cutter, joiner = MessageCutter(), MessageJoiner()
    (whole,), parts = cutter.cut(SHORT), cutter.cut(LONG)

    assert joiner.take("#a#d", whole) == SHORT
    assert len(parts) == 4
    assert [joiner.take("#a#d", one) for one in parts] == [None, None, None, LONG]


def test_parts_of_two_senders_do_not_mix() -> None:
    one, other, joiner = MessageCutter().cut(LONG), MessageCutter().cut(LONG), MessageJoiner()
    found = [joiner.take(*of) for pair in zip(one, other, strict=True) for of in zip("ab", pair, strict=True)]

    assert [one for one in found if one is not None] == [LONG, LONG]


def test_parts_without_their_beginning_are_nothing() -> None:
    """A member that has come between could not join them, so nobody does."""
    parts, joiner = MessageCutter().cut(LONG), MessageJoiner()
    assert joiner.take("#a#d", parts[0]) is None
    joiner.clear()

    assert [joiner.take("#a#d", one) for one in parts[1:]] == [None, None, None]
    assert [joiner.take("#a#d", one) for one in parts][-1] == LONG


def test_a_part_that_does_not_follow_ends_what_was_before() -> None:
    cutter, joiner = MessageCutter(), MessageJoiner()
    first, second = cutter.cut(LONG), cutter.cut(LONG)

    assert joiner.take("#a#d", first[0]) is None
    assert [joiner.take("#a#d", one) for one in second[1:]] == [None, None, None]


def test_nonsense_is_no_message() -> None:
    for data in (b"", b"\xc1", b"hello", bytes(100), b"\x93\xa2wp\x01\x02"):
        assert MessageJoiner().take("#a#d", data) is None
        assert decode_answer(data) is None
        assert decode_item(data) is None
        assert decode_body(data) == CastBody("", data)


def test_answers_and_items_read_as_they_were_written() -> None:
    answer = ClientAnswer("anna.1", 7, Accepted(ParcelId(ClusterId(2), 5), 3, 4))
    item = HandedItem("tickets", 9, 0, ClusterId(2), 5, False, body=b"body")

    assert decode_answer(encode(answer)) == answer
    assert decode_item(encode(item)) == item
    assert decode_item(encode(answer)) is None
