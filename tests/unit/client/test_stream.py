"""The stream: one order of all events, and a part of it for each group."""

from itertools import pairwise

from hopring.client.events import Event, Message, Reconnected, ReconnectGap
from hopring.client.receiving.runs import MessageRun
from hopring.client.receiving.stream import EventStream
from hopring.ids import DaemonId, GroupName, Incarnation, Place, ViewId
from hopring.services import Service
from hopring.session.frames import DeliveredBundle
from hopring.wire.bundle import BundleKey, decode_bundle, encode_bundle

PLACE = Place(ViewId(1, DaemonId(0), Incarnation(1)), 1, 0)


def message(name: bytes, *groups: str) -> Message:
    return Message("#a#eu1", groups, name, Service.AGREED, 0, PLACE)


def name(taken: tuple[Event, int] | None) -> bytes | None:
    return taken[0].data if taken is not None and isinstance(taken[0], Message) else None


def stream() -> EventStream:
    out = EventStream()
    out.open("g")
    out.open("h")
    for one in (message(b"1", "g"), message(b"2", "h"), message(b"3", "g", "h"), message(b"4", "#me#eu1")):
        out.put(one, 10)
    return out


def test_the_session_takes_everything_in_order() -> None:
    one = stream()

    assert [name(one.take()) for _ in range(5)] == [b"1", b"2", b"3", b"4", None]
    assert not any(one.by_group.values())


def test_a_group_takes_its_own_and_each_event_is_taken_once() -> None:
    one = stream()

    assert [name(one.take("h")), name(one.take("h")), name(one.take("h"))] == [b"2", b"3", None]
    assert [name(one.take("g")), name(one.take("g"))] == [b"1", None]
    assert name(one.take()) == b"4"
    assert not any(one.by_group.values())


def test_a_reconnection_is_an_event_of_every_group_or_one_of_the_session() -> None:
    gap = ReconnectGap(0, 1, "the daemon is gone", None, 0, 1)
    back = Reconnected(("g", "h", "closed"), "eu1", "#me#eu1", gap)
    one = stream()
    one.put(back, 0)
    one.put(message(b"5", "g"), 10)

    assert [name(one.take("g")) for _ in range(2)] == [b"1", b"3"]
    assert one.take("g") == (back, 0)
    assert name(one.take("g")) == b"5"
    assert [name(one.take("h")), one.take("h"), one.take("h")] == [b"2", (back, 0), None]
    assert [name(one.take()), one.take()] == [b"4", None]

    one = stream()
    one.put(back, 0)
    assert [one.take() for _ in range(6)][4:] == [(back, 0), None]
    assert one.take("g") is None


def test_credits_can_be_forgotten() -> None:
    one = stream()
    one.forget_credits()

    assert [credit_bytes for _, credit_bytes in iter(one.take, None)] == [0, 0, 0, 0]


def test_waiting_events_of_a_group_that_was_left_can_still_be_taken() -> None:
    one = stream()
    one.close("g")

    assert [name(one.take("g")) for _ in range(3)] == [b"1", b"3", None]
    one.close("g")
    assert "g" not in one.by_group


def came(*bodies: bytes, groups: tuple[str, ...] = ("g",)) -> DeliveredBundle:
    key = BundleKey(DaemonId(0), 1, Service.AGREED, tuple(map(GroupName, groups)))
    packed = encode_bundle(key, bodies, [0] * len(bodies), bytes(len(bodies)))
    return DeliveredBundle("#a#eu1", PLACE, decode_bundle(packed))


def test_messages_of_a_bundle_are_one_unit_from_which_any_reader_takes_the_next() -> None:
    one = EventStream()
    one.open("g")
    one.open("h")
    one.put_messages(came(b"1", b"2", b"3", b"4", groups=("g", "h")), 0, 4, 50)
    one.put_messages(came(b"5", groups=("h",)), 0, 1, 10)

    assert [name(one.take("g")), name(one.take("h")), name(one.take())] == [b"1", b"2", b"3"]
    assert (one.has(2), one.has(3), one.has(1, "g"), one.has(2, "g")) == (True, False, True, False)
    runs, credit_bytes = one.take_many(10)
    assert [(key.bodies(), key.order) for key in runs if isinstance(key, MessageRun)] == [
        ([b"4"], 4),
        ([b"5"], 5),
    ]
    assert credit_bytes == 60
    assert (one.credit_bytes, one.waits(), one.waits("g")) == (0, False, False)
    assert not any(one.by_group.values())


def test_the_credit_of_a_bundle_is_for_its_last_message() -> None:
    one = EventStream()
    one.put_messages(came(b"1", b"2"), 0, 2, 50)

    assert [credit_bytes for _, credit_bytes in iter(one.take, None)] == [0, 50]


def test_a_run_has_columns_of_the_taken_messages() -> None:
    one = EventStream(now_us=7)
    one.put_messages(came(b"one", b"", b"three", b"4"), 1, 4, 50)
    (first,), _ = one.take_many(2)
    (second,), _ = one.take_many(2)
    assert isinstance(first, MessageRun)
    assert isinstance(second, MessageRun)

    assert (first.bodies(), second.bodies()) == ([b"", b"three"], [b"4"])
    assert [bytes(first.whole[a:b]) for a, b in pairwise(first.offsets.tolist())] == first.bodies()
    assert [one.data for one in first.messages()] == first.bodies()
    assert (first.order, second.order, first.received_at_seconds) == (1, 3, 7e-6)
    assert (first.sender, first.groups, first.service, first.place) == ("#a#eu1", ("g",), Service.AGREED, PLACE)
