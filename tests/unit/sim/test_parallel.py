"""Campaigns on several processes: they end, whatever the command does with signals."""

import signal

import pytest

from hopring.sim.campaign.parallel import run_many


@pytest.mark.slow
def test_workers_end_although_the_command_handles_the_signal_that_ends_them() -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        reports = list(run_many([1, 2], 2))
    finally:
        signal.signal(signal.SIGTERM, before)

    assert [one.seed for one in reports] == [1, 2]
