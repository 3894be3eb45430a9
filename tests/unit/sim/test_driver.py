from dataclasses import dataclass, field

import pytest

from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.sim.driver import Driver
from hopring.sim.engine import SimEngine
from hopring.sim.network import SimNetwork


@dataclass
class Alarm:
    """A core that wakes at a given time, reports it, and then sleeps."""

    wake_at_us: int = NEVER
    ticks: list[int] = field(default_factory=list)
    restless: bool = False

    def step(self, event: int | Tick, now_us: int) -> list[str]:
        if isinstance(event, int):
            self.wake_at_us = event
            return [f"set to {event}"]
        self.ticks.append(now_us)
        if not self.restless:
            self.wake_at_us = NEVER
        return ["woken"]


def make(alarm: Alarm) -> tuple[SimNetwork, Driver[int, str], list[tuple[int, str]]]:
    network, said = SimNetwork(SimEngine(), 1), list[tuple[int, str]]()
    driver: Driver[int, str] = Driver(
        network, "a", alarm, lambda output: said.append((network.engine.now_us, output))
    )
    return network, driver, said


def test_a_core_is_ticked_when_it_asked_for_it_and_its_outputs_are_carried_out() -> None:
    network, driver, said = make(Alarm())

    driver.step(50)
    network.engine.run_until(1_000)

    assert said == [(0, "set to 50"), (50, "woken")]


def test_a_core_that_changes_its_wake_time_is_ticked_once_at_the_last_one() -> None:
    alarm = Alarm()
    network, driver, _said = make(alarm)
    for wake_at_us in (50, 20, 80, 30, 90):
        driver.step(wake_at_us)

    network.engine.run_until(1_000)

    assert alarm.ticks == [90]


def test_changed_wake_times_do_not_accumulate_timers() -> None:
    alarm = Alarm()
    network, driver, _said = make(alarm)
    for round_us in range(0, 1_000, 10):
        network.engine.run_until(round_us)
        driver.step(round_us + 5_000)
        driver.step(round_us + 4_000)

    network.engine.run_until(100_000)

    assert alarm.ticks == [4_990]
    assert network.engine.events < 250


def test_a_core_that_wants_to_be_woken_in_the_past_is_woken_now() -> None:
    alarm = Alarm()
    network, driver, _said = make(alarm)
    network.engine.run_until(100)

    driver.step(7)
    network.engine.run_until(200)

    assert alarm.ticks == [100]


def test_a_core_that_never_rests_is_an_error() -> None:
    network, driver, _said = make(Alarm(restless=True))
    driver.step(10)

    with pytest.raises(AssertionError, match="ticks without end"):
        network.engine.run_until(10)


def test_a_crash_or_a_stop_ends_the_ticks_and_a_pause_delays_them() -> None:
    crashed, stopped, paused = Alarm(), Alarm(), Alarm()
    network, driver, _said = make(crashed)
    driver.step(50)
    network.crash("a")
    network.engine.run_until(100)

    network, driver, _said = make(stopped)
    driver.step(50)
    driver.stop()
    network.engine.run_until(100)

    network, driver, _said = make(paused)
    driver.step(50)
    network.pause("a", duration_us=70)
    network.engine.run_until(100)

    assert (crashed.ticks, stopped.ticks, paused.ticks) == ([], [], [70])
