"""Slow receivers: a warning, and then the policy that the client chose."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.core import ClientCore
from hopring.client.errors import ConnectError, NotAllowed, SlowConsumer
from hopring.client.events import Event, Gap, Message, SlowWarning, View
from hopring.client.session_base import message_of
from hopring.daemon.clients.spill import SpillPlace
from hopring.links.events import Tick
from hopring.services import Service
from hopring.session.options import CREDIT_DELAY_US, SessionOptions, Slow, SlowPolicy

SMALL = SessionOptions(
    allow=("block",), backlog_bytes_max=20_000, spill_memory_bytes=20_000, spill_bytes_max=1_000_000
)
BODY_BYTES = 1000


def joined(fake: FakeDaemon, number: int, name: str, group: str, *, slow: SlowPolicy = "kick") -> ClientCore:
    """A client with a small window that has read its view."""
    core = fake.client(number, name, 4096, slow=slow)
    core.join(group)
    fake.exchange(number, core)
    while core.take() is not None:
        pass
    fake.exchange(number, core)
    return core


def send(fake: FakeDaemon, number: int, core: ClientCore, group: str, *bodies: int) -> None:
    """Sends messages that begin with these numbers, each in its own frame."""
    for body in bodies:
        data = b"%d" % body + bytes(BODY_BYTES)
        core.outgoing.append(message_of([group], data, Service.AGREED, 0, False))
        fake.exchange(number, core)


def numbers(events: Sequence[Event]) -> list[int]:
    return [int(one.data.partition(b"\0")[0]) for one in events if isinstance(one, Message)]


def drain(fake: FakeDaemon, number: int, core: ClientCore) -> list[Event]:
    """Reads everything, as a client that has become active again."""
    seen: list[Event] = []
    while True:
        fake.exchange(number, core)
        event = core.take()
        if event is None:
            return seen
        seen.append(event)


@pytest.mark.parametrize("slow", ["kick", "drop", "spill", "block"])
def test_a_slow_receiver_is_warned_at_half_of_the_limit_and_once(slow: SlowPolicy, tmp_path: Path) -> None:
    fake = FakeDaemon(SMALL, SpillPlace(tmp_path))
    anna = joined(fake, 1, "anna", "g", slow=slow)
    bert = joined(fake, 2, "bert", "h")
    send(fake, 2, bert, "g", *range(18))
    fake.exchange(1, anna)
    seen = drain(fake, 1, anna)

    (warning,) = [event for event in seen if isinstance(event, SlowWarning)]
    assert 10_000 < warning.waiting_bytes < 12_000
    assert (warning.limit_bytes, warning.policy, warning.groups) == (20_000, slow, ("g",))
    assert numbers(seen) == list(range(18))
    send(fake, 2, bert, "g", *range(18))
    assert len([event for event in drain(fake, 1, anna) if isinstance(event, SlowWarning)]) == 1


def test_a_policy_that_the_daemon_does_not_support_is_refused() -> None:
    fake = FakeDaemon(SessionOptions(slow_allowed=frozenset({Slow.KICK, Slow.SPILL})))
    policies: tuple[SlowPolicy, ...] = ("drop", "spill")
    for number, slow in enumerate(policies, 1):  # There is no directory to spill to.
        core = fake.client(number, "anna", slow=slow)
        assert isinstance(core.ended, ConnectError)
        assert "choose one of kick" in str(core.ended)
        assert slow in str(core.ended)
    assert fake.client(3, "anna").welcome is not None


def test_senders_wait_for_a_client_only_where_the_configuration_allows_it() -> None:
    fake = FakeDaemon()
    refused = fake.client(1, "anna", slow="block")

    assert isinstance(refused.ended, NotAllowed)
    assert 'set allow = ["block"] in [clients]' in refused.ended.remedy
    fake.server.tune(SessionOptions(allow=("block",)))
    assert fake.client(2, "anna", slow="block").welcome is not None


# drop


def test_messages_are_dropped_and_counted_where_they_are_missing_and_views_are_not() -> None:
    fake = FakeDaemon(SMALL)
    anna = joined(fake, 1, "anna", "g", slow="drop")
    bert = joined(fake, 2, "bert", "h")
    send(fake, 2, bert, "g", *range(30))
    carl = joined(fake, 3, "carl", "g")
    send(fake, 2, bert, "g", *range(30, 35))
    del carl
    seen = [event for event in drain(fake, 1, anna) if not isinstance(event, SlowWarning)]

    first, view, second = [event for event in seen if not isinstance(event, Message)]
    assert isinstance(first, Gap)
    assert isinstance(view, View)
    assert isinstance(second, Gap)
    kept = numbers(seen)
    assert kept == list(range(len(kept)))
    assert 18 < len(kept) < 26
    assert seen[len(kept) :] == [first, view, second]
    assert first.messages == 30 - len(kept)
    assert first.size_bytes == first.messages * (BODY_BYTES + 2)
    assert (first.groups, first.complete) == (("g",), True)
    assert second.messages == 5
    send(fake, 2, bert, "g", 99)
    assert numbers(drain(fake, 1, anna)) == [99]


def test_a_gap_grows_until_the_backlog_is_half_as_big() -> None:
    fake = FakeDaemon(SMALL)
    anna = joined(fake, 1, "anna", "g", slow="drop")
    bert = joined(fake, 2, "bert", "h")
    send(fake, 2, bert, "g", *range(30))
    anna.receive(fake.fetch(1))
    assert anna.take() is not None
    fake.say(1, anna.output())
    send(fake, 2, bert, "g", *range(30, 60))
    gaps = [event for event in drain(fake, 1, anna) if isinstance(event, Gap)]

    assert len(gaps) == 1
    assert gaps[0].messages > 30


def test_a_client_with_policy_drop_is_disconnected_when_views_alone_exceed_the_limit() -> None:
    fake = FakeDaemon(SMALL)
    anna = joined(fake, 1, "anna", "g", slow="drop")
    number = 2
    while 1 in fake.server.sessions:
        joined(fake, number, f"s{number}", "g")
        number += 1
    fake.exchange(1, anna)

    assert isinstance(anna.ended, SlowConsumer)
    assert "more than 40000 bytes wait for anna" in str(anna.ended)


# spill


def test_spilled_events_come_back_in_order_and_nothing_is_left_on_disk(tmp_path: Path) -> None:
    fake = FakeDaemon(SMALL, place := SpillPlace(tmp_path))
    anna = joined(fake, 1, "anna", "g", slow="spill")
    bert = joined(fake, 2, "bert", "h")
    send(fake, 2, bert, "g", *range(400))
    assert fake.server.sessions[1].backlog.size_bytes < 25_000
    assert place.size_bytes > 250_000
    some: list[Event] = []
    for _ in range(100):
        fake.exchange(1, anna)
        event = anna.take()
        assert event is not None
        some.append(event)
    send(fake, 2, bert, "g", *range(400, 500))
    seen = some + drain(fake, 1, anna)

    assert numbers(seen) == list(range(500))
    assert (place.size_bytes, list(tmp_path.iterdir())) == (0, [])
    send(fake, 2, bert, "g", *range(50))
    assert numbers(drain(fake, 1, anna)) == list(range(50))


def test_a_client_with_policy_spill_is_warned_at_half_of_the_disk_limit_and_disconnected_above_it(
    tmp_path: Path,
) -> None:
    fake = FakeDaemon(SMALL, SpillPlace(tmp_path))
    anna = joined(fake, 1, "anna", "g", slow="spill")
    bert = joined(fake, 2, "bert", "h")
    sent = 0
    while 1 in fake.server.sessions:
        send(fake, 2, bert, "g", sent)
        sent += 1
    fake.exchange(1, anna)

    assert 900 < sent < 1000
    assert isinstance(anna.ended, SlowConsumer)
    assert "more than 1000000 bytes wait on disk for anna" in str(anna.ended)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_to_disk_ends_only_that_session(tmp_path: Path) -> None:
    place = SpillPlace(tmp_path / "spill")
    fake = FakeDaemon(SMALL, place)
    anna = joined(fake, 1, "anna", "g", slow="spill")
    bert = joined(fake, 2, "bert", "h")
    place.directory.rmdir()
    send(fake, 2, bert, "g", *range(400))
    fake.exchange(1, anna)

    assert isinstance(anna.ended, SlowConsumer)
    assert "cannot be written to disk (No such file or directory) for anna" in str(anna.ended)
    assert 2 in fake.server.sessions


def test_a_failed_read_from_disk_ends_the_session(tmp_path: Path) -> None:
    fake = FakeDaemon(SMALL, SpillPlace(tmp_path))
    anna = joined(fake, 1, "anna", "g", slow="spill")
    bert = joined(fake, 2, "bert", "h")
    send(fake, 2, bert, "g", *range(400))
    for file in tmp_path.iterdir():
        file.write_bytes(b"")
    drain(fake, 1, anna)
    assert fake.server.slow.step_due
    fake.step(Tick())
    fake.exchange(1, anna)

    assert "was cut short for anna" in str(anna.ended)
    assert list(tmp_path.iterdir()) == []


def test_a_client_that_quits_gets_its_spilled_events(tmp_path: Path) -> None:
    fake = FakeDaemon(SMALL, SpillPlace(tmp_path))
    anna = joined(fake, 1, "anna", "g", slow="spill")
    bert = joined(fake, 2, "bert", "h")
    send(fake, 2, bert, "g", *range(400))
    anna.quit()
    fake.exchange(1, anna)
    seen = [event for event in drain(fake, 1, anna) if not isinstance(event, SlowWarning)]

    assert anna.quit_done
    gap = seen[-1]
    assert isinstance(gap, Gap)
    assert len(numbers(seen)) + gap.messages == 400
    assert list(tmp_path.iterdir()) == []


# block


def test_local_senders_wait_for_a_blocked_receiver_and_other_groups_continue() -> None:
    fake = FakeDaemon(SMALL)
    fake.at_once = 1  # While senders wait, their messages are merged: each may be sixteen of them.
    anna = joined(fake, 1, "anna", "g", slow="block")
    bert, carl = joined(fake, 2, "bert", "h"), joined(fake, 3, "carl", "h")
    send(fake, 2, bert, "g", *range(100))
    backlog = fake.server.sessions[1].backlog
    assert 20_000 < backlog.size_bytes < 22_000
    assert bert.outgoing.charged_bytes > 70 * BODY_BYTES
    send(fake, 3, carl, "h", 1, 2)
    assert numbers(drain(fake, 3, carl)) == [1, 2]
    send(fake, 3, carl, "#anna#eu1", 100)
    assert carl.outgoing.charged_bytes > BODY_BYTES

    seen: list[Event] = []
    for _ in range(101):
        seen += drain(fake, 1, anna)
        fake.step(Tick())
        assert backlog.size_bytes < 32_000
    assert sorted(numbers(seen)) == list(range(101))
    assert [one for one in numbers(seen) if one < 100] == list(range(100))
    fake.exchange(2, bert)
    assert bert.outgoing.charged_bytes == 0
    assert fake.server.groups.idle


def test_a_group_that_a_blocked_receiver_asks_for_waits_for_it_too() -> None:
    fake = FakeDaemon(SMALL)
    anna = joined(fake, 1, "anna", "g", slow="block")
    bert = joined(fake, 2, "bert", "h")
    send(fake, 2, bert, "g", *range(21))
    anna.join("i")
    fake.say(1, anna.output())
    carl = joined(fake, 3, "carl", "h")
    send(fake, 3, carl, "i", *range(10))
    assert carl.outgoing.charged_bytes > 9 * BODY_BYTES

    fake.lose(1)
    fake.exchange(3, carl)
    assert carl.outgoing.charged_bytes == 0


def test_a_blocked_receiver_that_reads_nothing_is_disconnected() -> None:
    fake = FakeDaemon(SMALL)
    anna = joined(fake, 1, "anna", "g", slow="block")
    bert = joined(fake, 2, "bert", "h")
    send(fake, 2, bert, "g", *range(100))
    fake.now_us = CREDIT_DELAY_US
    fake.step(Tick())
    assert fake.server.wake_at_us == SMALL.block_us
    anna.receive(fake.fetch(1))
    assert anna.take() is not None
    fake.say(1, anna.output())
    fake.fetch(1)
    fake.now_us = SMALL.block_us
    fake.step(Tick())
    assert fake.server.wake_at_us == 2 * SMALL.block_us
    fake.now_us = 2 * SMALL.block_us
    fake.step(Tick())
    fake.exchange(1, anna)

    assert isinstance(anna.ended, SlowConsumer)
    assert "anna took nothing for 30 s while others waited for it" in str(anna.ended)
    fake.exchange(2, bert)
    assert bert.outgoing.charged_bytes == 0


# All backlogs together.


def test_when_all_backlogs_exceed_the_limit_the_largest_client_is_disconnected() -> None:
    fake = FakeDaemon(SessionOptions(backlog_bytes_max=50_000, backlogs_bytes_max=60_000))
    anna, carl = joined(fake, 1, "anna", "g"), joined(fake, 3, "carl", "i")
    bert = joined(fake, 2, "bert", "h")
    send(fake, 2, bert, "i", *range(25))
    send(fake, 2, bert, "g", *range(40))
    fake.exchange(1, anna)

    assert isinstance(anna.ended, SlowConsumer)
    assert "anna has the longest" in str(anna.ended)
    assert numbers(drain(fake, 3, carl)) == list(range(25))
    assert fake.server.slow.pool.size_bytes == 0


def test_when_all_backlogs_exceed_the_limit_a_client_with_policy_drop_loses_messages() -> None:
    fake = FakeDaemon(SessionOptions(backlog_bytes_max=50_000, backlogs_bytes_max=60_000))
    anna = joined(fake, 1, "anna", "g", slow="drop")
    carl, bert = joined(fake, 3, "carl", "i"), joined(fake, 2, "bert", "h")
    send(fake, 2, bert, "i", *range(25))
    send(fake, 2, bert, "g", *range(40))
    seen = [event for event in drain(fake, 1, anna) if not isinstance(event, SlowWarning)]

    assert isinstance(seen[0], Gap)
    assert numbers(seen) == list(range(seen[0].messages, 40))
    assert numbers(drain(fake, 3, carl)) == list(range(25))


def test_a_frame_that_many_wait_for_counts_once() -> None:
    fake = FakeDaemon(SessionOptions(backlogs_bytes_max=60_000))
    many = {number: joined(fake, number, f"s{number}", "g") for number in range(10, 30)}
    bert = joined(fake, 2, "bert", "h")
    for number, core in many.items():
        drain(fake, number, core)
    send(fake, 2, bert, "g", *range(40))

    assert 35_000 < fake.server.slow.pool.size_bytes < 60_000
    assert all(numbers(drain(fake, number, core)) == list(range(40)) for number, core in many.items())
    assert fake.server.slow.pool.size_bytes == 0
