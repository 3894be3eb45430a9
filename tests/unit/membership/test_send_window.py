import pytest

from hopring.ids import DaemonId, SiteId, SiteMask
from hopring.membership.message_flow import MESSAGE_COST_BYTES, SendWindow
from hopring.ordering.entry import DAEMON_SESSION, Entry, OrderedMessage
from hopring.services import Service

ME = DaemonId(0)


def outbox(window_bytes: int = 100, window_bundles: int = 3, queue_bytes_max: int = 100_000) -> SendWindow:
    return SendWindow(window_bytes, window_bundles, queue_bytes_max)


def message(size: int = 10, daemon: int = 0) -> OrderedMessage:
    return OrderedMessage(Service.AGREED, DaemonId(daemon), 1, bytes(size))


def entry(one: OrderedMessage) -> Entry:
    return Entry(SiteId(0), 1, 5, SiteMask(1), 0, one)


def taken(box: SendWindow) -> int:
    """The number of messages that the window lets through."""
    count = 0
    while box.ready:
        box.admit_next()
        count += 1
    return count


def test_the_window_counts_bundles() -> None:
    box = outbox()
    for _ in range(9):
        box.put(message(1))

    assert taken(box) == 3


def test_the_window_counts_bytes() -> None:
    box = outbox(window_bundles=99)
    for _ in range(9):
        box.put(message(40))

    assert taken(box) == 3


def test_one_message_passes_any_window() -> None:
    box = outbox(window_bytes=100)
    box.put(message(5_000))

    assert taken(box) == 1


def test_stable_messages_free_the_window() -> None:
    box = outbox()
    for _ in range(9):
        box.put(message(1))
    taken(box)

    box.release_stable([entry(message(1)), entry(message(1))], ME)

    assert taken(box) == 2


def test_messages_of_other_daemons_do_not_free_the_window() -> None:
    box = outbox()
    for _ in range(9):
        box.put(message(1))
    taken(box)

    box.release_stable([entry(message(1, daemon=1))], ME)

    assert taken(box) == 0


def test_messages_that_are_put_back_are_sent_first_and_in_order() -> None:
    box = outbox(window_bundles=99)
    one, two, three = message(1), message(2), message(3)
    for each in (one, two, three):
        box.put(each)
    box.admit_next()
    box.admit_next()

    box.put_back([one, two])

    assert [box.admit_next() for _ in range(3)] == [one, two, three]


def test_a_new_view_begins_with_an_open_window() -> None:
    box = outbox()
    for _ in range(9):
        box.put(message(1))
    taken(box)

    box.reset()

    assert taken(box) == 3


def test_a_full_queue_is_closed_and_refuses() -> None:
    box = outbox(queue_bytes_max=2 * MESSAGE_COST_BYTES + 30)
    for _ in range(3):
        assert box.open
        box.put(message(10))

    assert not box.open
    with pytest.raises(AssertionError):
        box.put(message(10))


def loose(size: int = 1) -> OrderedMessage:
    return OrderedMessage(Service.UNRELIABLE, ME, 1, bytes(size))


def test_an_unreliable_message_uses_the_window_until_the_line_has_passed_its_send() -> None:
    box = outbox(window_bundles=2)
    for _ in range(5):
        box.put(loose())
    for lts in (7, 8):
        box.note_loose(box.admit_next(), lts)
    assert not box.ready

    box.release_loose(7)
    assert not box.ready
    box.release_loose(8)

    assert (box.out_bundles, box.out_bytes, box.ready) == (1, 1, True)


def test_a_quarter_of_the_window_counts_as_crowded() -> None:
    bundles, in_bytes = outbox(window_bundles=8), outbox(window_bundles=8)
    bundles.note_loose(loose(1), 1)
    assert not bundles.loose_crowded
    bundles.note_loose(loose(1), 1)
    in_bytes.note_loose(loose(25), 1)

    assert bundles.loose_crowded
    assert in_bytes.loose_crowded


def test_a_new_view_forgets_what_left_in_the_old_one() -> None:
    box = outbox(window_bundles=2)
    box.put(loose())
    box.put(loose())
    box.note_loose(box.admit_next(), 7)

    box.reset()
    box.note_loose(box.admit_next(), 3)
    box.release_loose(8)

    assert (box.out_bundles, box.out_bytes) == (0, 0)


def control(size: int = 1) -> OrderedMessage:
    return OrderedMessage(Service.SAFE, ME, DAEMON_SESSION, bytes(size))


def test_the_daemons_own_messages_go_first_and_past_any_window_and_any_queue() -> None:
    box = outbox(window_bundles=1, queue_bytes_max=1)
    box.put(message(1))
    box.admit_next()
    box.put(message(2))

    box.put(control())

    assert box.ready
    assert box.admit_next() == control()
    assert not box.ready


def test_while_clients_are_held_back_only_the_daemons_own_messages_go() -> None:
    box = outbox()
    box.put(message(1))
    box.held = True
    assert not box.ready
    box.put(control())

    assert taken(box) == 1

    box.held = False
    assert taken(box) == 1


def test_messages_that_are_put_back_return_to_their_own_queue() -> None:
    box = outbox(window_bundles=99)
    box.put_back([message(1), control(1), message(2), control(2)])

    assert [box.admit_next() for _ in range(4)] == [control(1), control(2), message(1), message(2)]
