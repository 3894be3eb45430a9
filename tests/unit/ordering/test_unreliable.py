import pytest

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, DaemonId, SiteId, SiteMask
from hopring.ordering.unreliable import NUMBERS_KEPT, LooseReceiver, LooseSender, Numbers, SourceNumbers
from hopring.wire.fragments import FRAGMENT_COST_BYTES
from hopring.wire.unreliable import Unreliable

EU, US = SiteId(0), SiteId(1)
A, B, ME = DaemonId(1), DaemonId(2), DaemonId(3)
ALL = SiteMask(3)


def receiver(wait_us: int = 100, held_bytes_max: int = 10_000) -> LooseReceiver:
    return LooseReceiver({A: EU, B: US}, wait_us, held_bytes_max, bundle_bytes_max=1_000)


def part(number: int, index: int = 0, count: int = 1, chunk: bytes = b"ab", daemon: DaemonId = A) -> Unreliable:
    return Unreliable(EU if daemon == A else US, daemon, number, ALL, index, count, chunk)


def test_a_sender_numbers_its_bundles_from_one_on() -> None:
    sender = LooseSender(EU, A, object_bytes_max=127)

    assert [one.number for one in sender.cut(ALL, bytes(100))] == [1]
    assert [(one.number, one.index) for one in sender.cut(ALL, bytes(150))] == [(2, 0), (2, 1)]


def test_a_bundle_in_one_piece_goes_up_at_once_in_any_order_and_once() -> None:
    loose = receiver()

    assert loose.receive(part(2), 0) == b"ab"
    assert loose.receive(part(1), 0) == b"ab"
    assert loose.receive(part(2), 0) is None
    assert (loose.delivered, loose.duplicates, loose.wake_at_us) == (2, 1, NEVER)


def test_numbers_belong_to_their_daemon() -> None:
    loose = receiver()

    assert loose.receive(part(1), 0) == b"ab"
    assert loose.receive(part(1, daemon=B, chunk=b"b"), 0) == b"b"


def test_fragments_make_a_bundle_in_any_order() -> None:
    loose = receiver()

    assert loose.receive(part(1, 2, 3, b"c"), 0) is None
    assert loose.receive(part(1, 0, 3), 5) is None
    assert loose.receive(part(1, 0, 3), 5) is None
    assert loose.receive(part(1, 1, 3, b"cd"), 99) == b"abcdc"
    assert loose.receive(part(1, 1, 3, b"cd"), 99) is None
    assert (loose.held_bytes, loose.wake_at_us) == (0, NEVER)


def test_an_incomplete_bundle_is_dropped_after_its_time_and_stays_dropped() -> None:
    loose = receiver(wait_us=100)
    loose.receive(part(1, 0, 2), 50)
    loose.receive(part(2, 0, 2), 60)
    assert loose.wake_at_us == 150

    loose.expire(149)
    assert loose.incomplete == 0
    loose.expire(150)

    assert (loose.incomplete, loose.wake_at_us, loose.held_bytes) == (1, 160, 2 + FRAGMENT_COST_BYTES)
    assert loose.receive(part(1, 0, 2), 151) is None
    assert loose.receive(part(1, 1, 2), 151) is None
    assert loose.receive(part(2, 1, 2), 159) == b"abab"
    assert loose.delivered == 1


def test_a_late_last_fragment_does_not_complete_a_bundle_even_without_a_tick() -> None:
    loose = receiver(wait_us=100)
    loose.receive(part(1, 0, 2), 50)

    assert loose.receive(part(1, 1, 2), 150) is None
    assert (loose.delivered, loose.incomplete) == (0, 1)


def test_when_the_buffer_is_full_the_oldest_bundle_is_dropped() -> None:
    loose = receiver(held_bytes_max=2_000)  # The limit is at least twice the largest bundle.
    size = 1_000 - FRAGMENT_COST_BYTES - 400
    loose.receive(part(1, 0, 2, bytes(size)), 0)
    loose.receive(part(2, 0, 2, bytes(size)), 0)
    loose.receive(part(3, 0, 2, bytes(size)), 0)
    assert loose.incomplete == 0

    loose.receive(part(4, 0, 2, bytes(size)), 0)

    assert loose.incomplete == 1
    assert loose.held_bytes <= 2_000
    assert loose.receive(part(1, 1, 2, b"x"), 0) is None
    assert loose.receive(part(2, 1, 2, b"x"), 0) == bytes(size) + b"x"


def test_there_is_always_room_for_one_bundle() -> None:
    loose = receiver(held_bytes_max=1)

    loose.receive(part(1, 0, 2, bytes(600)), 0)

    assert loose.receive(part(1, 1, 2, bytes(400)), 0) == bytes(1_000)


def test_a_long_bundle_in_small_pieces_does_not_grow_beyond_the_bound() -> None:
    loose = receiver(held_bytes_max=2_000)
    for index in range(12):
        loose.receive(part(1, index, 500, b"x"), 0)

    with pytest.raises(PeerError) as caught:
        loose.receive(part(1, 12, 500, b"x"), 0)
    assert caught.value.reason is Drop.LIMIT
    assert loose.held_bytes <= 2_000


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (Unreliable(EU, ME, 9, ALL, 0, 1, b"x"), Drop.FOREIGN_SENDER),
        (Unreliable(US, A, 9, ALL, 0, 1, b"x"), Drop.FOREIGN_SENDER),
        (part(1, 1, 3), Drop.INCONSISTENT),  # Of three fragments, where another one said two.
        (part(9, 0, 1, bytes(1_001)), Drop.LIMIT),
    ],
)
def test_invalid_fragments_are_refused(item: Unreliable, reason: Drop) -> None:
    loose = receiver()
    loose.receive(part(1, 0, 2), 0)

    with pytest.raises(PeerError) as caught:
        loose.receive(item, 0)

    assert caught.value.reason is reason
    assert loose.receive(part(1, 1, 2), 0) == b"abab"


def test_a_number_far_below_the_highest_is_too_old_to_know() -> None:
    numbers = Numbers()
    numbers.deal(NUMBERS_KEPT + 1)

    assert not numbers.dealt_with(2)
    assert numbers.dealt_with(1)
    assert not numbers.dealt_with(NUMBERS_KEPT + 2)


def test_numbers_are_remembered_as_the_window_moves() -> None:
    numbers = Numbers()
    for number in (5, 3, 9):
        numbers.deal(number)

    assert [number for number in range(1, 12) if numbers.dealt_with(number)] == [3, 5, 9]


def test_a_number_far_ahead_does_not_make_the_next_real_ones_old() -> None:
    loose = receiver()
    assert loose.receive(part(1), 0) is not None

    assert loose.receive(part(10**6), 0) is not None
    assert loose.receive(part(2**63), 0) is not None

    assert [loose.receive(part(number), 0) is not None for number in (2, 3, 2, 4)] == [True, True, False, True]


def test_after_a_long_loss_the_numbers_that_arrive_count() -> None:
    numbers = SourceNumbers()
    for number in range(1, 4):
        numbers.deal(number)

    for number in range(10**6, 10**6 + 20):
        assert not numbers.dealt_with(number)
        numbers.deal(number)

    assert numbers.dealt_with(10**6 + 19)
    assert numbers.dealt_with(10**6 - NUMBERS_KEPT)
    assert not numbers.dealt_with(10**6 + 20)
    assert numbers.dealt_with(2)


def test_the_memory_does_not_grow_with_the_numbers() -> None:
    numbers = Numbers()
    numbers.deal(1)

    numbers.deal(2**64 - 1)

    assert numbers == Numbers(2**64 - 1, 2, 1)
    numbers.deal(1)  # Numbers that are too old count as handled.
    assert numbers == Numbers(2**64 - 1, 2, 1)
