"""Campaigns on several processes: they end, whatever happens."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hopring.sim.campaign import parallel
from hopring.sim.campaign.bugs.planting import MisplacedBug, Planted
from hopring.sim.campaign.parallel import SeedReport, WorkerEnded, run_many
from hopring.sim.campaign.world import PLAIN, WorldKind

SEEDS = range(1, 1_000)


def quick(seed: int, _planted: Planted, _kind: WorldKind = PLAIN) -> SeedReport:
    if seed == 500:
        raise ValueError("seed 500")
    return SeedReport(seed, os.getpid(), 0, 0, ())


@contextmanager
def no_worker_is_left() -> Iterator[None]:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = set(children.read_text().split())
    yield
    assert set(children.read_text().split()) <= before


@pytest.mark.slow
def test_workers_end_although_the_command_handles_the_signal_that_ends_them() -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with no_worker_is_left():
            reports = list(run_many([1, 2], 2))
    finally:
        signal.signal(signal.SIGTERM, before)

    assert [one.seed for one in reports] == [1, 2]


def test_a_generator_that_is_closed_early_ends_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "report", quick)

    with no_worker_is_left(), closing(run_many(SEEDS, 3)) as reports:
        assert [next(reports).seed for _ in range(10)] == list(range(1, 11))


def test_an_exception_in_the_consumer_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "report", quick)

    def consume() -> None:
        with closing(run_many(SEEDS, 3)) as reports:
            raise KeyError(next(reports).seed)

    with no_worker_is_left(), pytest.raises(KeyError):
        consume()


def test_what_a_seed_raises_comes_at_its_turn_and_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "report", quick)
    seen: list[SeedReport] = []

    with no_worker_is_left(), pytest.raises(ValueError, match="seed 500") as raised:
        seen.extend(run_many(SEEDS, 3))

    assert [one.seed for one in seen] == list(range(1, 500))
    assert "in quick" in raised.value.__notes__[0]


def test_a_worker_that_is_killed_is_an_error_and_no_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "report", quick)

    def consume() -> None:
        for one in run_many(SEEDS, 3):
            os.kill(one.events, signal.SIGKILL)

    with no_worker_is_left(), pytest.raises(WorkerEnded, match="ended with -9"):
        consume()


def test_a_bug_that_does_not_fit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def refuse(_bug: object) -> Iterator[Planted]:
        raise MisplacedBug("somewhere")
        yield

    monkeypatch.setattr(parallel, "plant", refuse)

    with no_worker_is_left(), pytest.raises(MisplacedBug, match="somewhere"):
        list(run_many(SEEDS, 3))
