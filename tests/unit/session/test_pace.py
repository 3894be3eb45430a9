"""Priority: who goes first, and how bulk is kept from filling the queues below."""

from tests.unit.session.front import Front

from hopring.client.core import Core
from hopring.client.events import Message
from hopring.groups.sessions import EXPEDITED_IN_A_ROW
from hopring.services import Service
from hopring.session.pace import (
    LOST_US,
    ROOM_BYTES_FIRST,
    ROOM_BYTES_MAX,
    ROOM_BYTES_MIN,
    SAMPLES,
    STARVED_US,
    Pace,
)


def client(front: Front, number: int, name: str, *, priority: bool) -> Core:
    core = Core("hop://test", name, priority=priority)
    core.hello()
    front.open(number)
    front.exchange(number, core)
    core.join(f"g{number}")
    front.exchange(number, core)
    return core


def send(core: Core, group: str, *bodies: bytes) -> None:
    for body in bodies:
        core.outgoing.send(core.outgoing.run([group], Service.AGREED, False), body, 0)
        core.outgoing.seal()


def order(front: Front, reader: int, core: Core) -> list[bytes]:
    front.exchange(reader, core)
    seen = []
    while (event := core.take()) is not None:
        if isinstance(event, Message):
            seen.append(event.data)
        front.exchange(reader, core)
    return seen


def test_requests_with_priority_go_first_in_their_order_and_others_are_not_starved() -> None:
    front = Front()
    bulk, high = client(front, 1, "bulk", priority=False), client(front, 2, "high", priority=True)
    watch = client(front, 3, "watch", priority=False)
    front.stopped = True
    send(bulk, "g3", *[b"b%d" % at for at in range(5)])
    front.exchange(1, bulk)
    send(high, "g3", *[b"h%d" % at for at in range(40)])
    front.exchange(2, high)
    front.stopped = False
    front.pump()
    seen = order(front, 3, watch)

    assert [one for one in seen if one.startswith(b"h")] == [b"h%d" % at for at in range(40)]
    assert [one for one in seen if one.startswith(b"b")] == [b"b%d" % at for at in range(5)]
    places = [at for at, one in enumerate(seen) if one.startswith(b"b")]
    assert places[0] == EXPEDITED_IN_A_ROW
    assert places[1] == 2 * EXPEDITED_IN_A_ROW + 1


def test_bulk_waits_while_too_much_is_under_way_and_priority_does_not() -> None:
    front = Front()
    bulk, high = client(front, 1, "bulk", priority=False), client(front, 2, "high", priority=True)
    front.stopped = True
    send(bulk, "g1", *[bytes(100_000)] * 8)
    front.exchange(1, bulk)
    taken = [front.desk.take(True, 0) for _ in range(4)]
    assert [one.session for one in taken if one is not None] == [1, 1, 1]
    send(high, "g2", b"now")
    front.exchange(2, high)
    one = front.desk.take(True, 0)

    assert one is not None
    assert one.session == 2
    assert front.desk.take(True, 0) is None


def test_bulk_goes_now_and_then_however_much_has_priority() -> None:
    front = Front()
    bulk, high = client(front, 1, "bulk", priority=False), client(front, 2, "high", priority=True)
    front.stopped = True
    send(bulk, "g1", b"b")
    front.exchange(1, bulk)
    assert front.desk.take(True, 0) is not None
    for at in range(8):
        send(high, "g2", bytes(100_000))
        front.exchange(2, high)
        assert front.desk.take(True, at) is not None
    send(bulk, "g1", b"b")
    front.exchange(1, bulk)
    assert front.desk.take(True, STARVED_US - 1) is None
    assert front.desk.wake_at_us == STARVED_US
    one = front.desk.take(True, STARVED_US)

    assert one is not None
    assert one.session == 1


def run(pace: Pace, times_us: list[int], now_us: int = 0) -> int:
    """Messages one after the other, each as long as the pace allows; returns when the last is there."""
    for time_us in times_us:
        pace.submitted(1000, now_us)
        now_us += time_us
        pace.delivered(1000, now_us)
    return now_us


def test_the_room_grows_while_the_way_is_short_and_shrinks_when_a_queue_stands() -> None:
    pace = Pace()
    now_us = run(pace, [5_000] * SAMPLES * 20)
    grown = pace.room_bytes
    assert grown > 4 * ROOM_BYTES_MIN
    now_us = run(pace, [5_000, 100_000] * (SAMPLES // 2 - 1) + [5_000] * 2, now_us)
    assert pace.room_bytes > grown  # A few long times are no queue.
    run(pace, [50_000] * SAMPLES * 10, now_us)

    assert pace.room_bytes == ROOM_BYTES_MIN


def test_the_room_has_a_limit() -> None:
    pace = Pace()
    run(pace, [5_000] * SAMPLES * 200)

    assert pace.room_bytes == ROOM_BYTES_MAX


def test_what_is_never_delivered_does_not_hold_bulk_up_for_ever() -> None:
    pace = Pace()
    pace.submitted(ROOM_BYTES_FIRST, 0)
    assert not pace.open
    pace.look(LOST_US)
    assert pace.under_way_bytes == 0
    pace.submitted(ROOM_BYTES_FIRST, LOST_US + 2)
    assert not pace.open
    pace.begin()

    assert pace.open
