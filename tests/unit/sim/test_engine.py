from time import perf_counter

import pytest

from hopring.sim.engine import BudgetSpent, SimEngine


def test_actions_run_in_the_order_of_their_time() -> None:
    engine, seen = SimEngine(), list[tuple[str, int]]()
    for name, at_us in (("late", 30), ("early", 10), ("middle", 20)):
        engine.at(at_us, lambda name=name: seen.append((name, engine.now_us)))

    engine.run_until(100)

    assert seen == [("early", 10), ("middle", 20), ("late", 30)]
    assert engine.now_us == 100


def test_actions_of_one_time_run_in_the_order_they_were_scheduled() -> None:
    engine, seen = SimEngine(), list[int]()
    for number in range(100):
        engine.at(5, seen.append, number)

    engine.run_until(5)

    assert seen == list(range(100))


def test_an_action_may_schedule_another_for_the_same_moment() -> None:
    engine, seen = SimEngine(), list[str]()
    engine.at(5, lambda: engine.after(0, seen.append, "second"))
    engine.at(5, seen.append, "first")

    engine.run_until(5)

    assert seen == ["first", "second"]


def test_run_until_includes_its_end_and_stops_there() -> None:
    engine, seen = SimEngine(), list[int]()
    for at_us in (9, 10, 11):
        engine.at(at_us, seen.append, at_us)

    engine.run_until(10)

    assert (seen, engine.now_us, engine.next_us) == ([9, 10], 10, 11)


def test_the_past_cannot_be_scheduled() -> None:
    engine = SimEngine()
    engine.run_until(10)

    with pytest.raises(AssertionError):
        engine.at(9, print)


def test_an_endless_run_exceeds_its_budget() -> None:
    engine = SimEngine(events_max=1_000)

    def again() -> None:
        engine.after(0, again)

    engine.at(0, again)
    with pytest.raises(BudgetSpent) as caught:
        engine.run_until(1)

    assert (caught.value.events_max, caught.value.now_us) == (1_000, 0)
    assert engine.events == 1_000


def test_events_are_counted_over_several_runs() -> None:
    engine = SimEngine()
    for at_us in range(10):
        engine.at(at_us, lambda: None)

    engine.run_until(4)
    engine.run_until_idle()

    assert (engine.events, engine.now_us) == (10, 9)


def test_empty_events_are_cheap() -> None:
    engine = SimEngine()

    def again(left: int) -> None:
        if left:
            engine.after(1, again, left - 1)

    for _timer in range(10):
        engine.at(0, again, 5_000)
    started = perf_counter()
    engine.run_until_idle()

    # Ten times slower than it is, so that a busy machine does not fail the test.
    assert engine.events / (perf_counter() - started) > 50_000
