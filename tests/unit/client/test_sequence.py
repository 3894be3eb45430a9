"""Batches of events: their order, tables of Arrow, and cancelled calls."""

import sys

import pytest
from tests.unit.client.wired_client import SECOND, WiredClient, connected, sending
from tests.unit.session.fake_daemon import VIEW, FakeDaemon

from hopring.client import calls
from hopring.client.errors import MissingExtra, SessionClosed
from hopring.client.events import Message, Reconnected, View
from hopring.client.receiving.sequence import COLUMNS, MAPPED_MIN, EventSequence


def batch(wire: WiredClient, messages: int = 1_000, group: str | None = None) -> EventSequence:
    """A batch that need not wait."""
    try:
        next(calls.receive_many(wire.core, group, messages, 0, 0.0))
    except StopIteration as stop:
        result: EventSequence = stop.value
        return result
    raise AssertionError("it waits")


def talkative(fake: FakeDaemon) -> WiredClient:
    """A view, many messages in one bundle, a view of another session's join, and one message."""
    wire = connected(fake, "g")
    for at in range(2 * MAPPED_MIN):
        wire.core.send(sending("g", b"%d" % at))
    wire.exchange(SECOND)
    other = fake.client(99, "bert")
    other.join("g")
    fake.exchange(99, other)
    other.outgoing.append(sending("g", b"from bert"))
    fake.exchange(99, other)
    wire.exchange(2 * SECOND)
    return wire


def test_a_batch_keeps_the_order_of_all_events() -> None:
    events = list(batch(talkative(FakeDaemon())))

    assert [type(one).__name__ for one in events] == ["View", *["Message"] * 32, "View", "Message"]
    assert [one.data for one in events if isinstance(one, Message)] == [
        *[b"%d" % at for at in range(32)],
        b"from bert",
    ]


def test_a_batch_ends_with_its_last_message_and_the_next_one_goes_on() -> None:
    wire = talkative(FakeDaemon())
    first, second, third = batch(wire, 3), batch(wire, 29), batch(wire, 5)

    assert [len(first), len(first.messages), len(second.messages)] == [4, 3, 29]
    assert [type(one) for one in third] == [View, Message]
    assert [one.order for some in (first, second, third) for one in some.taken] == list(range(1, 36))
    assert len(batch(wire)) == 0


def test_credit_is_given_for_all_that_a_batch_took() -> None:
    wire = talkative(FakeDaemon())
    batch(wire)
    wire.exchange(0)

    assert wire.core.stream.credit_bytes == 0
    assert wire.fake.server.sessions[1].untaken_bytes == wire.core.connection._credit_bytes > 0


def test_a_batch_of_a_group_has_its_events_only() -> None:
    wire = connected(FakeDaemon(), "g", "h")
    for group in ("g", "h", "g"):
        wire.core.send(sending(group, group.encode()))
    wire.exchange(0)

    assert [one.data for one in batch(wire, group="g").messages] == [b"g", b"g"]
    assert [type(one) for one in batch(wire)] == [View, Message]


def test_a_call_waits_for_enough_events_or_its_timeout_and_takes_nothing_before() -> None:
    wire = connected(FakeDaemon(), "g")
    verb = calls.receive_many(wire.core, None, 2, 0, 1.0)
    wait = next(verb)
    assert wait.until_us == SECOND
    wire.core.send(sending("g", b"1"))
    wire.exchange(0)
    assert not wait.condition()
    verb.close()  # As a cancelled call does.
    assert [type(one) for one in batch(wire, 1)] == [View, Message]

    verb = calls.receive_many(wire.core, None, 2, 0, 1.0)
    wait = next(verb)
    for data in (b"2", b"3"):
        wire.core.send(sending("g", data))
    wire.exchange(0)
    assert wait.condition()
    with pytest.raises(StopIteration) as stop:
        verb.send(500_000)
    assert [one.data for one in stop.value.value.messages] == [b"2", b"3"]

    verb = calls.receive_many(wire.core, None, 2, 0, 1.0)
    next(verb)
    with pytest.raises(StopIteration) as stop:
        verb.send(SECOND)
    assert len(stop.value.value) == 0


def test_without_a_timeout_a_call_waits_for_the_first_event_only() -> None:
    wire = connected(FakeDaemon())
    verb = calls.receive_many(wire.core, None, 100, 0, None)
    wait = next(verb)
    wire.core.send(sending(wire.core.welcomed.private_group, b"1"))
    wire.exchange(0)

    assert wait.condition()
    with pytest.raises(StopIteration) as stop:
        verb.send(0)
    assert len(stop.value.value) == 1


def test_a_call_does_not_wait_for_more_than_the_window_allows() -> None:
    wire = connected(FakeDaemon(), "g")
    verb = calls.receive_many(wire.core, None, 100_000, 0, 60.0)
    wait = next(verb)
    sent = 0
    while not wait.condition():
        wire.core.send(sending("g", bytes(100_000)))
        wire.exchange(0)
        sent += 1

    assert sent == 6  # More than half of 1 MiB.


def test_the_end_is_an_error_when_nothing_is_left() -> None:
    wire = connected(FakeDaemon(), "g", options=None)
    wire.lose(0)

    assert len(batch(wire)) == 1
    with pytest.raises(SessionClosed, match="the daemon is gone"):
        batch(wire)


def test_a_table_has_a_row_for_each_event() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    fake = FakeDaemon()
    wire = talkative(fake)
    wire.lose(3 * SECOND)
    wire.dial(wire.core.wake_at_us)
    some = batch(wire)
    table = some.to_arrow()
    table.validate(full=True)
    rows = table.to_pylist()

    assert tuple(table.column_names) == COLUMNS
    assert table.schema.field("received_at").type == pyarrow.timestamp("us", tz="UTC")
    assert [one["kind"] for one in rows] == [type(one).__name__.lower() for one in some]
    assert [one["data"] for one in rows if one["kind"] == "message"] == [one.data for one in some.messages]
    assert rows[0] == {
        **dict.fromkeys(COLUMNS),
        "order": 1,
        "kind": "view",
        "received_at": rows[0]["received_at"],
        "groups": ["g"],
        "members": ["#anna#eu1"],
        "cause": "join",
    }
    assert (rows[1]["sender"], rows[1]["service"], rows[1]["type"]) == ("#anna#eu1", "agreed", 0)
    place = some.messages[0].place
    assert rows[1]["place"] == {
        "view_counter": VIEW.counter,
        "view_representative": VIEW.representative,
        "view_nonce": VIEW.nonce,
        "lts": place.lts,
        "site": 0,
    }
    seconds = [one["received_at"].timestamp() for one in rows]
    assert [seconds[0], seconds[1], seconds[-4]] == [1_000, 1_001, 1_002]
    (back,) = [one for one in rows if one["kind"] == "reconnected"]
    assert (back["cause"], back["in_doubt"], back["groups"]) == ("the daemon is gone", 0, ["g"])
    assert isinstance(list(some)[-2], Reconnected)


def test_long_runs_of_bodies_are_mapped_and_not_copied() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    wire = talkative(FakeDaemon())
    batch(wire, 5)  # The run begins in the middle of its bundle.
    some = batch(wire)
    mapped, copied = some.to_arrow().column("data").chunks

    assert (len(mapped), len(copied)) == (27, 2)
    assert mapped.to_pylist() == [b"%d" % at for at in range(5, 32)]
    assert mapped.buffers()[2].address == pyarrow.py_buffer(some.runs[0].whole).address


def test_an_empty_batch_is_a_table_of_the_same_schema() -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    wire = talkative(FakeDaemon())

    assert EventSequence(()).to_arrow().schema == batch(wire).to_arrow().schema
    assert EventSequence(()).to_arrow().num_rows == 0


def test_without_arrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"to_arrow needs pyarrow: pip install 'hopring\[arrow\]'") as caught:
        EventSequence(()).to_arrow()

    assert isinstance(caught.value, ImportError)
