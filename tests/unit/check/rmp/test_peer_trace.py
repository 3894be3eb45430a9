"""Traces of several peers become one history: names, members, epochs, the order of times, torn ends."""

from io import BytesIO

import msgspec
import pytest

from hopring.check.rmp.peer_events import DataSent, DataShown, ListSeen, PeerEvent, RingStayEnded
from hopring.check.rmp.peer_trace import (
    EpochNamed,
    PeerTraceError,
    PeerTraceRow,
    member_text,
    peer_histories,
    process_text,
    read_peer_rows,
)
from hopring.services import Service
from hopring.wire.rmp.ids import ListMembership, PeerProcess

ANNA, BERT, AGAIN = (
    PeerProcess(0x7F000001, 4000, 1),
    PeerProcess(0x7F000001, 4001, 2),
    PeerProcess(0x7F000001, 4001, 3),
)
FIRST, SECOND = ListMembership(BERT, 5), ListMembership(BERT, 9)


def row(event: PeerEvent | EpochNamed, group: str = "g") -> PeerTraceRow:
    return PeerTraceRow(group, type(event).__name__, msgspec.to_builtins(event))


def listed(at_us: int, process: PeerProcess, epoch: int, *members: ListMembership) -> PeerTraceRow:
    names = tuple([member_text(one) for one in members])
    return row(ListSeen(process_text(process), at_us, epoch, 1, names, names[:1], who=names[0]))


def test_members_get_marks_by_the_order_of_their_joins_and_processes_by_their_lives() -> None:
    rows = [
        listed(30, ANNA, 77, SECOND),
        listed(10, ANNA, 77, FIRST),
        row(RingStayEnded(process_text(AGAIN), 40, "crash")),
        row(EpochNamed(77, 3, process_text(ANNA))),
        row(EpochNamed(5, 9, process_text(ANNA))),
        listed(20, BERT, 5, FIRST),
    ]
    history = peer_histories(rows, {"127.0.0.1:4000": "anna", "127.0.0.1:4001": "bert"})["g"]
    lists = [one for one in history if isinstance(one, ListSeen)]
    assert [one.at_us for one in history] == [10, 20, 30, 40]
    assert [one.members for one in lists] == [("bert",), ("bert",), ("bert'",)]
    assert [one.epoch for one in lists] == [1, 2, 1]
    assert lists[2].who == "bert'"
    assert history[3].process == "bert.2"


def test_messages_are_named_by_their_processes_and_groups_are_kept_apart() -> None:
    sent = f"{process_text(ANNA)}:u4"
    rows = [
        row(DataSent(process_text(ANNA), 1, sent, Service.UNRELIABLE), "one"),
        row(DataShown(process_text(BERT), 2, sent, Service.UNRELIABLE, 0), "two"),
    ]
    histories = peer_histories(rows)
    assert list(histories) == ["one", "two"]
    assert histories["one"] == [DataSent("127-0-0-1-4000", 1, "127-0-0-1-4000:u4", Service.UNRELIABLE)]
    assert histories["two"][0].process == "127-0-0-1-4001"


def test_a_torn_end_is_left_out_and_other_damage_is_an_error() -> None:
    good = msgspec.json.encode(row(RingStayEnded(process_text(ANNA), 1, "leave"))) + b"\n"
    assert len(list(read_peer_rows(BytesIO(good + good[:20])))) == 1
    with pytest.raises(PeerTraceError, match="line 2"):
        list(read_peer_rows(BytesIO(good + b"{]\n")))
    with pytest.raises(PeerTraceError, match="NoSuchEvent"):
        peer_histories([PeerTraceRow("g", "NoSuchEvent", {"process": process_text(ANNA), "at_us": 1})])
