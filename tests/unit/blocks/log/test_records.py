"""The records of a replicated log: what they amount to, and where two logs have the same beginning."""

import pytest

from hopring.blocks.log.messages import Operation, Tell, decode_message, decode_operation, encode_message
from hopring.blocks.log.records import (
    CutRecord,
    EntryRecord,
    FoundRecord,
    LogDamaged,
    LogRecord,
    OwnerRecord,
    PromiseRecord,
    SnapshotRecord,
    VoteRecord,
    common_end,
    decode_record,
    encode_record,
    recovered,
)

OWNER = OwnerRecord("orders", "a", ("a", "b", "c"))
BEGUN: list[LogRecord] = [OWNER, FoundRecord("log"), PromiseRecord(3), EntryRecord(1, ((3, b""), (3, b"x")))]


def test_an_empty_disk_has_no_vote() -> None:
    assert recovered([]).votes is False
    assert recovered([OWNER, PromiseRecord(7), EntryRecord(1, ((7, b""),))]).votes is False


def test_records_amount_to_a_log() -> None:
    image = recovered([*BEGUN, CutRecord(1), EntryRecord(2, ((4, b""), (4, b"y")))])

    assert (image.votes, image.log_id, image.promised, image.end, image.last_epoch) == (True, "log", 3, 3, 4)
    assert image.entry(3).data == b"y"
    assert image.table() == ((0, 0), (3, 1), (4, 2))
    assert image.entry_bytes == 1


def test_a_snapshot_replaces_what_precedes_it_and_keeps_the_highest_promise() -> None:
    snapshot = SnapshotRecord(OWNER, "log", True, 2, 2, 3, b"state", ((5, b"z"),))
    image = recovered([*BEGUN, snapshot])

    assert (image.base, image.base_epoch, image.snapshot, image.end) == (2, 3, b"state", 3)
    assert image.promised == 3
    assert image.table() == ((3, 2), (5, 3))


@pytest.mark.parametrize("wrong", [EntryRecord(4, ((3, b""),)), EntryRecord(2, ((3, b""),)), CutRecord(3)])
def test_records_that_do_not_follow_are_damage(wrong: LogRecord) -> None:
    with pytest.raises(LogDamaged, match="move the directory away"):
        recovered([*BEGUN, wrong])


def test_records_and_messages_come_back_as_they_were_written() -> None:
    for record in [*BEGUN, VoteRecord("log"), CutRecord(1)]:
        assert decode_record(encode_record(record)) == record
    tell = Tell("r", "a", ("a",), "log", True, 3, 0, 2, ((0, 0), (3, 1)))
    assert decode_message(encode_message(tell)) == tell
    with pytest.raises(LogDamaged):
        decode_record(b"\xc1")


@pytest.mark.parametrize("data", [b"", b"hello", b"\x91\xa1x", b"\x92\xa1p\x01"])
def test_other_bytes_are_no_message(data: bytes) -> None:
    assert decode_message(data) is None
    assert decode_operation(data) is None


def test_the_beginning_of_an_epoch_is_no_operation() -> None:
    assert decode_operation(b"") is None
    operation = Operation("w", 1, 0, b"x")
    assert decode_operation(encode_message(operation)) == operation


@pytest.mark.parametrize(
    ("mine", "my_end", "other", "other_end", "end"),
    [
        (((0, 0),), 0, ((0, 0), (3, 1)), 5, 0),  # An empty log is a beginning of any.
        (((0, 0), (3, 1)), 4, ((0, 0), (3, 1)), 6, 4),
        (((0, 0), (1, 1), (3, 4)), 6, ((0, 0), (1, 1), (4, 3)), 9, 2),
        (((0, 0), (1, 1), (2, 3), (5, 4)), 6, ((0, 0), (1, 1), (2, 3), (4, 6)), 8, 3),
        (((3, 10),), 14, ((0, 0), (1, 1), (3, 5)), 12, 12),  # One has a snapshot.
        (((0, 0), (1, 1)), 4, ((3, 10), (4, 12)), 14, -1),  # It lacks what the other's snapshot covers.
        (((0, 0), (1, 1), (2, 8)), 12, ((3, 10),), 10, -1),
    ],
)
def test_two_logs_are_equal_up_to_the_last_index_with_the_same_epoch(
    mine: tuple[tuple[int, int], ...],
    my_end: int,
    other: tuple[tuple[int, int], ...],
    other_end: int,
    end: int,
) -> None:
    assert common_end(mine, my_end, other, other_end) == end
    assert common_end(other, other_end, mine, my_end) == end
