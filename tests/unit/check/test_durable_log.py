"""The checks of a replicated log, on right and wrong histories by hand."""

import pytest

from hopring.check.durable_log import (
    ALL_DONE,
    CONDITION,
    NOT_REFUSED,
    ONCE,
    ONE_ENTRY,
    OWN_WRITES,
    SENT,
    SURVIVES,
    SYNCED_BY_MAJORITY,
    AppendDone,
    DiskEmptied,
    DurableLogEvent,
    EntriesSynced,
    EntryAccepted,
    ListGrew,
    LogAtEnd,
    MemberRefused,
    OperationSubmitted,
    SnapshotSynced,
    check_durable_log,
)

MEMBERS = ("a", "b", "c")
SENT_TWO: list[DurableLogEvent] = [OperationSubmitted(0, "w", "x"), OperationSubmitted(0, "w", "y", 1)]
SYNCED: list[DurableLogEvent] = [
    EntriesSynced(1, "a", 1, ("epoch 1 at 1", "1:x", "1:y")),
    EntriesSynced(2, "b", 1, ("epoch 1 at 1", "1:x", "1:y")),
]
TOLD: list[DurableLogEvent] = [
    EntryAccepted(3, "anna", 2, "1:x"),
    ListGrew(3, "anna", 0, "x"),
    AppendDone(3, "anna", "x", 0, "x"),
    EntryAccepted(4, "bert", 2, "1:x"),
    ListGrew(4, "bert", 0, "x"),
    EntryAccepted(5, "bert", 3, "1:y"),
    ListGrew(5, "bert", 1, "y"),
]
END: list[DurableLogEvent] = [
    LogAtEnd(9, "anna", "a", "v", 0, ("epoch 1 at 1", "1:x", "1:y"), ("x", "y"), 0),
    LogAtEnd(9, "bert", "b", "v", 2, ("1:y",), ("x", "y"), 0),
    LogAtEnd(9, "carl", "", "v", 0, (), ("x", "y"), 0),
    LogAtEnd(9, "dora", "c", "other side", 0, (), (), 3),
]


def broken_by(history: list[DurableLogEvent]) -> list[str]:
    return [one.property for one in check_durable_log(history, MEMBERS, quiet_end=True) if not one]


def test_a_right_history_breaks_nothing() -> None:
    assert broken_by([*SENT_TWO, *SYNCED, *TOLD, *END]) == []


def test_nothing_is_accepted_before_a_majority_has_synced_it() -> None:
    assert broken_by([*SENT_TWO, SYNCED[0], *TOLD, *END]) == [SYNCED_BY_MAJORITY]


def test_a_disk_with_another_entry_does_not_count() -> None:
    other = EntriesSynced(2, "b", 2, ("2:z",))
    assert broken_by([*SENT_TWO, *SYNCED, other, *TOLD, *END]) == [SYNCED_BY_MAJORITY]


def test_a_disk_that_was_emptied_later_counts_with_what_it_had() -> None:
    assert broken_by([*SENT_TWO, *SYNCED, DiskEmptied(2, "b"), *TOLD, *END]) == []
    too_late = [SYNCED[0], DiskEmptied(2, "b"), EntriesSynced(2, "b", 1, ("epoch 1 at 1",))]
    assert broken_by([*SENT_TWO, *too_late, *TOLD, *END]) == [SYNCED_BY_MAJORITY]


def test_a_snapshot_has_all_up_to_its_index() -> None:
    snapshot = SnapshotSynced(2, "b", 2, ("1:y",))
    assert broken_by([*SENT_TWO, SYNCED[0], snapshot, *TOLD, *END]) == []
    shorter = SnapshotSynced(2, "b", 1, ())
    assert broken_by([*SENT_TWO, SYNCED[0], shorter, *TOLD, *END]) == [SYNCED_BY_MAJORITY]


def test_two_members_do_not_accept_different_entries_at_one_index() -> None:
    other = EntryAccepted(6, "carl", 3, "1:z")
    assert broken_by([*SENT_TWO, *SYNCED, *TOLD, other, *END]) == [ONE_ENTRY]


@pytest.mark.parametrize(
    ("wrong", "property_name"),
    [
        (ListGrew(6, "carl", 7, "x"), ONCE),
        (ListGrew(6, "carl", 2, "invented"), SENT),
        (AppendDone(6, "anna", "y", 1, "x"), OWN_WRITES),
        (MemberRefused(6, "carl", "another log"), NOT_REFUSED),
    ],
)
def test_one_wrong_event_breaks_its_property(wrong: DurableLogEvent, property_name: str) -> None:
    assert broken_by([*SENT_TWO, *SYNCED, *TOLD, wrong, *END]) == [property_name]


def test_a_condition_is_that_of_its_place() -> None:
    sent: list[DurableLogEvent] = [OperationSubmitted(0, "w", "x"), OperationSubmitted(0, "w", "y", 5)]
    assert broken_by([*sent, *SYNCED, *TOLD, *END]) == [CONDITION]


def test_the_operations_of_a_writer_are_in_the_order_of_its_calls() -> None:
    assert broken_by([*reversed(SENT_TWO), *SYNCED, *TOLD, *END]) == [ONCE]


def test_at_the_end_a_member_of_the_majority_side_has_all_that_was_accepted() -> None:
    lost = LogAtEnd(9, "anna", "a", "v", 0, ("epoch 1 at 1", "1:x"), ("x", "y"), 0)
    assert broken_by([*SENT_TWO, *SYNCED, *TOLD, lost, *END[1:]]) == [SURVIVES]


def test_at_the_end_nothing_waits_and_all_lists_are_equal() -> None:
    waits = LogAtEnd(9, "carl", "", "v", 0, (), ("x", "y"), 1)
    assert broken_by([*SENT_TWO, *SYNCED, *TOLD, *END[:2], waits]) == [ALL_DONE]
    # Of two members on this side one lost its disk and has nothing again: no majority votes here.
    assert broken_by([*SENT_TWO, *SYNCED, *TOLD, DiskEmptied(6, "b"), *END[:2], waits]) == []
    again = EntriesSynced(7, "b", 1, ("epoch 1 at 1",))
    assert broken_by([*SENT_TWO, *SYNCED, *TOLD, DiskEmptied(6, "b"), again, *END[:2], waits]) == [ALL_DONE]
    shorter = LogAtEnd(9, "carl", "", "v", 0, (), ("x",), 0)
    assert broken_by([*SENT_TWO, *SYNCED, *TOLD, *END[:2], shorter]) == [ALL_DONE]
