"""A join that begins in the past, without a daemon: events from a spool, and where they end."""

from pathlib import Path

import pytest
from tests.unit.spooled_batches import SHOWN, VIEW, batch_of, builder, bundle, of_batch

from hopring.client.calls import join_from, receive, receive_many
from hopring.client.core import ClientCore
from hopring.client.events import Event, Gap, Message, Transition, View
from hopring.client.receiving.replay import BEHIND_SECONDS, Replay, SpoolBehind
from hopring.groups.names import GroupViewId
from hopring.session.frames import DeliveredBundle
from hopring.spool.errors import NoSpool, OffsetMissing
from hopring.spool.writer import SpoolWriter
from hopring.spooler import away, portions

LIVE = View("trades", GroupViewId(VIEW, (), 4), SHOWN.members, (), "join", None, ())


def spooled(root: Path, *parts: Event | DeliveredBundle) -> None:
    with SpoolWriter(root, "trades") as writer:
        runs = builder("trades").runs(batch_of(*parts))
        writer.append(runs.get("trades", []))


def core_with(root: Path, since: int) -> ClientCore:
    """A session that has joined; its first live view and a message wait."""
    core = ClientCore("hop://nowhere", "me")
    core.replays["trades"] = Replay(root, "trades", since)
    core.stream.open("trades")
    core.groups.add("trades")
    core.stream.put(LIVE, 0)
    core.stream.put(Message("#a#b", ("trades",), b"live", SHOWN_SERVICE, 0, bundle(b"x").place), 0)
    return core


SHOWN_SERVICE = bundle(b"x").bundle.key.service


def now(verb: object, now_us: int = 0) -> object:
    """The result of a call that need not wait."""
    with pytest.raises(StopIteration) as end:
        next(verb)  # type: ignore[call-overload]
    return end.value.value


def test_events_of_the_spool_come_first_and_the_view_of_the_join_comes_once(tmp_path: Path) -> None:
    signal = Transition("trades", SHOWN.id, SHOWN.members)
    spooled(tmp_path, SHOWN, bundle(b"one", b"two", lts=4), signal, bundle(b"three"), LIVE, bundle(b"live"))
    core = core_with(tmp_path, 0)

    events = [now(receive(core, "trades", 0)) for _ in range(7)]

    assert events[0] == SHOWN
    assert events[3] == signal
    assert events[5] == LIVE
    assert [one.data for one in events if isinstance(one, Message)] == [b"one", b"two", b"three", b"live"]
    assert isinstance(events[1], Message)
    assert events[1].place == bundle(b"", lts=4).place
    assert core.replays == {}


@pytest.mark.parametrize("group", [None, "trades"])
def test_every_kind_of_reader_gets_the_past_first(tmp_path: Path, group: str | None) -> None:
    spooled(tmp_path, SHOWN, bundle(b"one"), LIVE)
    core = core_with(tmp_path, 1)
    assert core.take(group) is None

    batch = now(receive_many(core, group, 10, 0, None))

    assert [one.data for one in batch if isinstance(one, Message)] == [b"one"]  # type: ignore[attr-defined]
    assert next(iter(now(receive_many(core, group, 10, 0, None)))) == LIVE  # type: ignore[call-overload]


def test_a_gap_of_the_spooler_is_a_gap(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, "trades") as writer:
        writer.append([away("trades", "not running", 1, 2, None)])
    core = core_with(tmp_path, 0)

    assert now(receive(core, "trades", 0)) == Gap(("trades",), 0, 0, complete=False)


def test_it_waits_for_the_spool_and_fails_if_the_spool_stays_behind(tmp_path: Path) -> None:
    spooled(tmp_path, SHOWN)
    core = core_with(tmp_path, 1)
    verb = receive(core, "trades", 0)

    wait = next(verb)
    assert not wait.condition()
    spooled(tmp_path, bundle(b"late"))
    with pytest.raises(StopIteration) as end:
        verb.send(wait.until_us)
    assert isinstance(end.value.value, Message)

    verb = receive(core, "trades", 0)
    next(verb)
    with pytest.raises(SpoolBehind, match="is `hop spool run` alive"):
        verb.send(int(BEHIND_SECONDS * 1_000_000))
    assert core.take("trades") is None, "live events after a gap"


def test_a_missing_offset_or_spool_is_an_error_before_the_join_is_sent(tmp_path: Path) -> None:
    spooled(tmp_path, SHOWN)
    core = ClientCore("hop://nowhere", "me")

    for since, spool, error in (
        (7, tmp_path, OffsetMissing),
        (0, tmp_path / "no", NoSpool),
    ):
        with pytest.raises(error):
            next(join_from(core, "trades", since, spool, 0))
    assert core.replays == {}


def test_messages_of_a_repeated_batch_that_the_spool_has_are_dropped(tmp_path: Path) -> None:
    before = of_batch("a", 0, 0, b"0", b"1", b"2")
    after = of_batch("a", 0, 3, b"3")  # In the same read of the spooler as the view of the join.
    with SpoolWriter(tmp_path, "trades") as writer:
        for runs, mark in portions(builder("trades").runs(batch_of(SHOWN, before, LIVE, after))["trades"]):
            writer.append(runs, mark)
    core = ClientCore("hop://nowhere", "me")
    core.replays["trades"] = Replay(tmp_path, "trades", 2)
    core.stream.open("trades")
    core.groups.add("trades")
    core.stream.put(LIVE, 0)
    core.state.put_messages(after, 10)
    core.state.put_messages(of_batch("a", 0, 0, b"0", b"1"), 20)
    core.state.put_messages(of_batch("b", 0, 0, b"other"), 30)
    core.state.put_messages(of_batch("a", 0, 2, b"2", b"3", b"4"), 40)
    verb = receive_many(core, None, 100, 0, None)
    with pytest.raises(StopIteration) as past:
        next(verb)
    with pytest.raises(StopIteration) as present:
        next(receive_many(core, None, 100, 0, None))

    assert [one.data for one in past.value.value.messages] == [b"1", b"2"]
    assert [one.data for one in present.value.value.messages] == [b"3", b"other", b"4"]
    assert core.state.dedup.dropped == 4
    assert core.stream.credit_bytes == 0
