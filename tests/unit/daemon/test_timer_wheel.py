import heapq

from hypothesis import given
from hypothesis import strategies as st

from hopring.daemon.loop.event_loop import SLOT_US, TimerWheel
from hopring.ids import NEVER


def test_an_item_comes_out_at_the_end_of_its_slot_and_only_once() -> None:
    wheel: TimerWheel[str] = TimerWheel(now_us=0)
    wheel.arm(100, "a")

    assert wheel.advance(127) == []
    assert wheel.advance(128) == ["a"]
    assert wheel.advance(10_000_000) == []


def test_a_deadline_on_a_slot_boundary_is_exact() -> None:
    wheel: TimerWheel[str] = TimerWheel(now_us=0)
    wheel.arm(128, "a")

    assert wheel.advance(127) == []
    assert wheel.advance(128) == ["a"]


def test_a_deadline_that_has_passed_is_due_at_once() -> None:
    wheel: TimerWheel[str] = TimerWheel(now_us=1_000_000)
    wheel.arm(999_000, "late")

    assert wheel.next_us <= 1_000_000
    assert wheel.advance(1_000_000) == ["late"]


def test_near_and_far_items_come_out_in_the_order_of_their_deadlines() -> None:
    wheel: TimerWheel[str] = TimerWheel(now_us=0)
    for deadline_us, name in ((3_600_000_000, "hour"), (1_000, "ms"), (1_000_000, "second"), (20_000, "20 ms")):
        wheel.arm(deadline_us, name)

    assert wheel.advance(4_000_000_000) == ["ms", "20 ms", "second", "hour"]


def test_an_item_set_to_never_does_not_come_out() -> None:
    wheel: TimerWheel[str] = TimerWheel(now_us=5)
    wheel.arm(NEVER, "never")

    assert wheel.advance(10**15) == []
    assert wheel.next_us > 10**15


def test_an_empty_wheel_asks_for_nothing() -> None:
    wheel: TimerWheel[str] = TimerWheel(now_us=123_456)

    assert wheel.next_us == NEVER
    wheel.arm(200_000, "a")
    wheel.advance(300_000)
    assert wheel.next_us == NEVER


def test_a_far_item_wakes_the_loop_when_it_is_due_and_not_before() -> None:
    wheel: TimerWheel[str] = TimerWheel(now_us=0)
    wheel.arm(86_400_000_000, "day")
    wheel.arm(1_000_000, "second")

    assert wheel.advance(wheel.next_us) == ["second"]
    assert wheel.advance(wheel.next_us) == ["day"]


def test_many_far_items_wake_the_loop_only_a_few_times_before_they_are_due() -> None:
    wheel: TimerWheel[int] = TimerWheel(now_us=0)
    for number in range(100):
        wheel.arm(86_400_000_000, number)

    looks = 0
    while not wheel.advance(wheel.next_us):
        looks += 1

    assert looks <= 6


def test_an_item_that_was_put_off_is_taken_out_before_its_time_and_others_are_not() -> None:
    wheel: TimerWheel[str] = TimerWheel(now_us=0)
    wheel.arm(50_000, "moved")
    wheel.arm(50_100, "stays")
    wanted_us = {"moved": 90_000, "stays": 50_100}

    assert wheel.take_put_off(wanted_us.__getitem__) == ["moved"]
    assert wheel.take_put_off(wanted_us.__getitem__) == []
    wheel.arm(90_000, "moved")
    assert wheel.advance(60_000) == ["stays"]
    assert wheel.advance(wheel.next_us) == ["moved"]


class Heap:
    """The behaviour of the wheel, as a plain heap."""

    def __init__(self) -> None:
        self.items: list[tuple[int, int]] = []

    def arm(self, deadline_us: int, item: int) -> None:
        heapq.heappush(self.items, (-(-deadline_us // SLOT_US), item))

    def advance(self, now_us: int) -> list[tuple[int, int]]:
        out = []
        while self.items and self.items[0][0] <= now_us // SLOT_US:
            out.append(heapq.heappop(self.items))
        return out


delays = st.one_of(st.integers(-200, 300), st.integers(0, 10**5), st.integers(0, 10**9), st.integers(0, 10**14))


@given(start_us=st.integers(0, 2**50), moves=st.lists(st.tuples(st.lists(delays), delays.map(abs))))
def test_the_wheel_does_what_a_heap_does(start_us: int, moves: list[tuple[list[int], int]]) -> None:
    wheel: TimerWheel[int] = TimerWheel(start_us)
    heap = Heap()
    now_us, count = start_us, 0
    for deadlines, step_us in moves:
        for delay_us in deadlines:
            count += 1
            wheel.arm(max(0, now_us + delay_us), count)
            heap.arm(max(0, now_us + delay_us), count)
        now_us += step_us
        due_at_us = wheel.next_us
        expected = heap.advance(now_us)
        came = wheel.advance(now_us)

        assert sorted(came) == sorted(item for _, item in expected)
        assert not expected or due_at_us <= now_us
        assert wheel.next_us > now_us // SLOT_US * SLOT_US
        ticks = {item: tick for tick, item in expected}
        late_ones_first = [max(ticks[item], start_us // SLOT_US) for item in came]
        assert late_ones_first == sorted(late_ones_first)
        start_us = now_us
