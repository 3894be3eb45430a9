"""Deduplication of batches that are sent again, in any mixture with the first attempt."""

from collections.abc import Iterator
from itertools import combinations, permutations
from random import Random

import pytest

from hopring.client.receiving.dedup import RANGES_MAX, STREAMS_MAX, BatchDedup, DeliveredRanges
from hopring.wire.batch_mark import INDEXES, BatchMark

SENDER = "#sink#eu1"
Bundle = tuple[int, int, int]
"""Batch, index of the first message, number of messages."""


def delivered(
    dedup: BatchDedup, bundles: list[Bundle], app: str = "a", sender: str = SENDER
) -> list[tuple[int, int]]:
    """Batch and index of each delivered message."""
    out: list[tuple[int, int]] = []
    for batch, index, count in bundles:
        for start, end in dedup.new("g", sender, BatchMark(app, batch, index), count):
            out += [(batch, index + at) for at in range(start, end)]
    return out


def mixtures(one: list[Bundle], two: list[Bundle]) -> Iterator[list[Bundle]]:
    """All interleavings of two senders' bundles, each sender in its own order."""
    length = len(one) + len(two)
    for places in combinations(range(length), len(one)):
        first, second = iter(one), iter(two)
        yield [next(first) if at in places else next(second) for at in range(length)]


def singles(batch: int, count: int) -> list[Bundle]:
    return [(batch, at, 1) for at in range(count)]


def test_a_batch_that_comes_again_is_dropped_and_counted() -> None:
    dedup = BatchDedup()

    assert dedup.new("g", SENDER, BatchMark("a", 0, 0), 3) == [(0, 3)]
    assert dedup.new("g", SENDER, BatchMark("a", 0, 0), 3) == []
    assert dedup.dropped == 3
    assert dedup.new("g", SENDER, BatchMark("a", 0, 1), 4) == [(2, 4)]
    assert dedup.dropped == 5
    assert dedup.new("g", SENDER, BatchMark("a", 1, 0), 1) == [(0, 1)]


def test_a_repetition_may_come_through_another_daemon() -> None:
    dedup = BatchDedup()

    assert delivered(dedup, [(0, 0, 3)], sender="#sink#eu1") == [(0, 0), (0, 1), (0, 2)]
    assert delivered(dedup, [(0, 0, 4)], sender="#sink#us1") == [(0, 3)]


def test_a_foreign_sender_cannot_make_receivers_drop_batches_of_an_application() -> None:
    dedup = BatchDedup()
    delivered(dedup, [(17, 0, 2)])
    for batch in range(18, 18 + RANGES_MAX + 1):  # It claims the next numbers, and far higher ones.
        delivered(dedup, [(batch, 0, 2), (batch + 1_000_000, 0, 1)], sender="#foreign#eu1")

    assert delivered(dedup, [(17, 0, 2), (18, 0, 2), (19, 0, 1)]) == [(18, 0), (18, 1), (19, 0)]


def test_a_sender_with_many_applications_forgets_its_own() -> None:
    dedup = BatchDedup()
    delivered(dedup, [(17, 0, 2)])
    for number in range(STREAMS_MAX + 1):
        delivered(dedup, [(0, 0, 1)], app=f"app{number}", sender="#foreign#eu1")

    assert delivered(dedup, [(17, 0, 2)]) == []
    assert len(dedup.streams) == STREAMS_MAX


def test_groups_and_applications_are_counted_separately() -> None:
    dedup = BatchDedup()
    for group in ("g", "h"):
        for app in ("a", "b"):
            assert dedup.new(group, SENDER, BatchMark(app, 0, 0), 2) == [(0, 2)]

    assert dedup.dropped == 0


@pytest.mark.parametrize("sent", range(7))
def test_whatever_a_killed_sender_left_in_flight_the_batch_is_delivered_once_and_in_order(sent: int) -> None:
    whole = [(3, at) for at in range(6)]
    for mixture in mixtures(singles(3, sent), singles(3, 6)):
        assert delivered(BatchDedup(), mixture) == whole


def test_bundles_of_the_second_attempt_may_have_other_boundaries() -> None:
    cuts = [[(0, 0, 4), (0, 4, 4)], [(0, 0, 1), (0, 1, 5), (0, 6, 2)], [(0, 0, 3), (0, 3, 1), (0, 4, 4)]]
    for one, two in permutations(cuts, 2):
        for sent in range(len(one) + 1):
            for mixture in mixtures(one[:sent], two):
                assert delivered(BatchDedup(), mixture) == [(0, at) for at in range(8)]


def test_a_killed_sender_that_was_at_the_next_batch_already() -> None:
    # The first sender had all of batch 0 acknowledged before it began batch 1; the second repeats batch 1.
    ended, begun, again = singles(0, 2), singles(1, 2), singles(1, 3)
    for mixture in mixtures(begun, again):
        assert delivered(BatchDedup(), ended + mixture) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


def test_where_only_sessions_keep_their_order_an_overtaken_batch_is_not_lost() -> None:
    # With FIFO, the second sender's batch may overtake messages that the first sent before it elsewhere.
    for mixture in mixtures(singles(0, 3), singles(1, 3)):
        out = delivered(BatchDedup(), mixture)
        assert sorted(out) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
        assert [one for one in out if one[0] == 0] == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("seed", range(40))
def test_messages_in_any_order_with_any_repetition_come_out_once(seed: int) -> None:
    chance = Random(seed)
    total = [(batch, at) for batch in range(4) for at in range(30)]
    bundles = [(batch, at, min(chance.randint(1, 9), 30 - at)) for batch, at in total]
    bundles += chance.sample(bundles, 60)
    chance.shuffle(bundles)
    dedup = BatchDedup()
    out = delivered(dedup, bundles)

    assert sorted(out) == total
    assert dedup.dropped == sum(count for *_, count in bundles) - len(total)


@pytest.mark.parametrize("seed", range(20))
def test_ranges_behave_like_a_set(seed: int) -> None:
    chance = Random(seed)
    had, model = DeliveredRanges(), set[int]()
    for _ in range(300):
        start = chance.randint(0, 200)
        end = start + chance.randint(1, 20)
        new = [at for low, high in had.mark_delivered(start, end) for at in range(low, high)]
        assert new == [at for at in range(start, end) if at not in model]
        model |= set(range(start, end))
        assert all(low < high for low, high in zip(had.starts, had.ends, strict=True))
        assert all(high < low for high, low in zip(had.ends, had.starts[1:], strict=False))


def test_members_that_see_one_order_drop_the_same() -> None:
    chance = Random(5)
    bundles = [(batch, at, 1) for batch in range(3) for at in range(10)] * 2
    chance.shuffle(bundles)

    assert delivered(BatchDedup(), bundles) == delivered(BatchDedup(), bundles)


def test_messages_received_before_a_restart_are_dropped() -> None:
    dedup = BatchDedup()
    marks = {
        "live:sink#a": BatchMark("a", 2, 4).number,
        "a": 99 << 32,
    }  # The other appends to the spool itself.
    assert dedup.remember("g", marks) == {("sink", "a"): (2 << 32) + 4}

    assert delivered(dedup, [(1, 0, 2), (2, 0, 8), (3, 0, 1)]) == [(2, 5), (2, 6), (2, 7), (3, 0)]
    assert dedup.dropped == 7


def test_memory_has_a_limit_and_the_oldest_goes_first() -> None:
    dedup = BatchDedup()
    for batch in range(RANGES_MAX + 10):
        assert delivered(dedup, [(batch, 0, 2)]) == [(batch, 0), (batch, 1)]
    had = dedup.streams["g", "sink", "a"]

    assert len(had.starts) == len(had.ends) == RANGES_MAX
    assert delivered(dedup, [(batch, 0, 2) for batch in range(RANGES_MAX + 10)]) == []
    # Messages after the end of a batch do not belong to the next, however far they reach.
    assert delivered(dedup, [(RANGES_MAX, 2, 1), (RANGES_MAX, INDEXES - 1, 1)]) == [
        (RANGES_MAX, 2),
        (RANGES_MAX, INDEXES - 1),
    ]


def test_memory_for_hostile_gaps_is_bounded() -> None:
    dedup = BatchDedup()
    for at in range(0, 10_000, 2):
        dedup.new("g", SENDER, BatchMark("a", 0, at), 1)
    assert len(dedup.streams["g", "sink", "a"].starts) == RANGES_MAX
    for number in range(10_000):
        dedup.new("g", SENDER, BatchMark(f"app {number}", 0), 1)

    assert len(dedup.streams) == STREAMS_MAX
    assert ("g", "sink", "app 9999") in dedup.streams
