"""The Ring's arithmetic: ARUs, requests, packing, windows, idle holds."""

from random import Random

import pytest

from hopring.ids import NOBODY, DaemonId
from hopring.links.ring.options import (
    RingOptions,
    allowance_segments,
    free_unstable_segments,
    free_urgent_segments,
)
from hopring.links.ring.packing import Fill, ObjectQueue, Packing, VisitSpace
from hopring.links.ring.store import collapse, expand
from hopring.links.ring.token import (
    QUIET_MAX,
    Aru,
    first_token,
    idle_hold_us,
    may_be_idle,
    may_idle,
    quiet_after,
    updated,
    usable,
)
from hopring.wire.data import MISSING_MAX, Missing
from hopring.wire.header import HEAD_BYTES
from hopring.wire.ring import encode_token

A, B = DaemonId(1), DaemonId(2)


def test_a_member_that_has_less_lowers_the_aru_and_enters_its_name() -> None:
    assert updated(Aru(10), local=7, me=A) == Aru(7, A)
    assert updated(Aru(10, B), local=7, me=A) == Aru(7, A)


def test_only_the_member_that_lowered_the_aru_raises_it_and_removes_its_name() -> None:
    assert updated(Aru(7, A), local=9, me=B) == Aru(7, A)
    assert updated(Aru(7, A), local=9, me=A) == Aru(9, NOBODY)


def test_an_aru_that_nobody_lowered_is_raised_by_anybody() -> None:
    assert updated(Aru(7), local=9, me=B) == Aru(9)


def test_the_lesser_of_two_visits_is_usable() -> None:
    assert usable(written_now=9, written_last=7) == 7
    assert usable(written_now=7, written_last=9) == 7


def test_requests_for_packets_in_a_row_share_an_entry() -> None:
    assert collapse({5: 0, 4: 0, 6: 0, 9: 0}, requests_max=9) == (Missing(4, 3), Missing(9, 1))


def test_requests_for_segments_stand_alone() -> None:
    wanted = {4: 0, 5: 0b101, 6: 0}

    assert collapse(wanted, requests_max=9) == (Missing(4, 1), Missing(5, 1, 0b101), Missing(6, 1))


def test_requests_for_one_packet_are_joined_and_the_whole_wins() -> None:
    segments = (Missing(4, 1, 0b01), Missing(4, 1, 0b10), Missing(5, 1, 0b01), Missing(5, 1))

    assert expand(segments, above=0, upto=9) == {4: 0b11, 5: 0}


def test_a_request_without_end_is_cut_to_what_exists() -> None:
    assert expand((Missing(0, 0xFFFF), Missing(2**64 - 1, 0xFFFF)), above=7, upto=9) == {8: 0, 9: 0}


def test_the_lowest_requests_find_room_on_the_token() -> None:
    assert collapse({1: 0, 3: 0, 4: 0, 6: 0}, requests_max=2) == (Missing(1, 1), Missing(3, 2))


@pytest.mark.parametrize("segment_bytes", [200, 1400, 9000])
def test_a_token_with_all_its_requests_fits_in_a_datagram(segment_bytes: int) -> None:
    options = RingOptions(segment_bytes=segment_bytes)
    requests = collapse(dict.fromkeys(range(1, 1000, 2), 0), options.requests_max)
    frame = encode_token(first_token(0).replace(missing=requests))

    assert 0 < len(requests) <= MISSING_MAX
    assert HEAD_BYTES + len(frame) <= segment_bytes


def test_objects_share_packets_in_their_order() -> None:
    packing = Packing(Fill(packet_bytes=10, chunk_bytes=4))
    for payload in (b"aaaa", b"bbbbb", b"cc", b"d"):
        packing.add(payload)
    packing.close()

    assert packing.packets == [b"aaaabbbbb", b"ccd"]
    assert packing.segments == 3 + 1


def test_a_queue_gives_what_fits_in_the_window_and_keeps_the_rest() -> None:
    queue = ObjectQueue()
    for payload in (b"aaaa", b"bbbb", b"cccc"):
        queue.put(payload)
    packing = Packing(Fill(packet_bytes=8, chunk_bytes=4))

    queue.move_to(packing, segments_max=2)

    assert packing.segments == 2
    assert list(queue.objects) == [b"cccc"]
    assert queue.total_bytes == 4


@pytest.mark.parametrize("segment_bytes", [200, 1400, 9000, 65_000])
@pytest.mark.parametrize("packet_segments_max", [1, 2, 46])
def test_objects_have_space_up_to_the_last_segment_of_the_window(
    segment_bytes: int, packet_segments_max: int
) -> None:
    options = RingOptions(segment_bytes=segment_bytes, packet_segments_max=packet_segments_max)
    random = Random(segment_bytes)
    for _ in range(50):
        segments = random.randint(1, 8 * options.packet_segments)
        space = VisitSpace(segments, options.packet_bytes, options.chunk_bytes)
        packing = Packing(Fill(options.packet_bytes, options.chunk_bytes))
        largest = random.choice([options.packet_bytes, options.packet_bytes // 2 + 1, options.chunk_bytes])
        while space.reserve(size := random.randint(1, largest), size):
            packing.add(bytes(size))
        assert packing.fill.segments_with(size) > segments
        packing.close()

        assert packing.segments <= segments
        assert 2 * packing.segments > (len(packing.packets) - 1) * options.packet_segments


def test_a_window_of_full_segments_is_used_to_the_last() -> None:
    options = RingOptions(packet_segments_max=1)
    space = VisitSpace(5, options.packet_bytes, options.chunk_bytes)

    taken = [space.reserve(1_000, 1_000) for _ in range(7)]

    assert taken == [True] * 5 + [False] * 2


def test_objects_that_are_not_sent_on_the_ring_count_by_their_bytes() -> None:
    space = VisitSpace(2, packet_bytes=100, chunk_bytes=100)

    assert [space.reserve(90, 0), space.reserve(90, 10), space.reserve(90, 0)] == [True, True, False]


def test_an_object_longer_than_a_packet_passes_alone() -> None:
    space, small = (
        VisitSpace(1, packet_bytes=100, chunk_bytes=100),
        VisitSpace(1, packet_bytes=200, chunk_bytes=100),
    )

    assert [space.reserve(300, 300), space.reserve(1, 1)] == [True, False]
    assert not small.reserve(300, 300)


def test_packets_are_as_large_as_the_windows_let_them_be() -> None:
    assert RingOptions().packet_segments == 46
    assert RingOptions(packet_segments_max=7).packet_segments == 7
    assert RingOptions(personal_window_segments=5).packet_segments == 5
    assert RingOptions(global_window_segments=3).packet_segments == 3
    assert RingOptions(segment_bytes=20_000).packet_segments == 3
    assert RingOptions(global_window_segments=100).among(members=4).packet_segments == 25
    assert RingOptions(global_window_segments=3).among(members=4).packet_segments == 1
    assert RingOptions(packet_segments_max=7).object_bytes_max == RingOptions().packet_bytes


def test_a_member_may_use_what_the_others_leave_up_to_its_own_window() -> None:
    options = RingOptions(personal_window_segments=300, global_window_segments=500)

    assert allowance_segments(options, members=2, others_segments=100) == 300
    assert allowance_segments(options, members=4, others_segments=350) == 150


def test_a_member_has_its_share_even_if_the_others_have_used_it() -> None:
    options = RingOptions(personal_window_segments=300, global_window_segments=500)

    assert allowance_segments(options, members=4, others_segments=500) == 125


def test_the_smallest_window_lets_each_member_send_one_segment() -> None:
    options = RingOptions(personal_window_segments=1, global_window_segments=1)

    assert allowance_segments(options, members=4, others_segments=10**6) == 1


def test_too_much_that_is_unstable_leaves_room_only_for_urgent_objects() -> None:
    options = RingOptions(unstable_packets_max=100, urgent_packets_reserve=10, unstable_segments_max=5000)

    assert free_unstable_segments(options, unstable_packets=0, unstable_segments=0) == 89 * 46 // 2
    assert free_unstable_segments(options, unstable_packets=85, unstable_segments=0) == 92
    assert free_unstable_segments(options, unstable_packets=86, unstable_segments=0) == 0
    assert free_unstable_segments(options, unstable_packets=0, unstable_segments=5000) == 0
    assert free_urgent_segments(options, unstable_packets=86) == 92
    assert free_urgent_segments(options, unstable_packets=97) == 46
    assert free_urgent_segments(options, unstable_packets=100) == 0


def test_the_hold_grows_with_silence_up_to_its_limit_if_it_has_one() -> None:
    held = [idle_hold_us(50, 120, 5 * rotations, members=5) for rotations in (2, 3, 4, 100)]
    assert held == [50, 100, 120, 120]
    assert idle_hold_us(50, 0, QUIET_MAX, members=5) == 50
    assert idle_hold_us(50, 120, QUIET_MAX, members=5) == 120
    assert idle_hold_us(0, 120, QUIET_MAX, members=5) == 0


def test_the_token_may_stop_after_two_silent_rotations() -> None:
    assert not may_idle(quiet=9, members=5)
    assert may_idle(quiet=10, members=5)


def test_a_member_knows_when_the_token_it_passed_cannot_have_stopped() -> None:
    # The two after the third of five may each add one before the token reaches the first.
    assert not may_be_idle(quiet=7, index=2, members=5)
    assert may_be_idle(quiet=8, index=2, members=5)


def test_any_work_ends_the_silence_and_the_count_of_it_has_an_end() -> None:
    assert quiet_after(7, active=False) == 8
    assert quiet_after(7, active=True) == 0
    assert quiet_after(QUIET_MAX, active=False) == QUIET_MAX
