"""Links on lines that are busy for seconds do not fail."""

import pytest

from hopring.links.hop.hop import HopOptions
from hopring.sim.path import Quality
from hopring.testing.link_world import LinkWorld
from hopring.testing.trace import LinkEndFailed, ObjectReceived


@pytest.mark.slow
@pytest.mark.parametrize("line", [2_000, 4_000, 8_000])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_burst_that_takes_seconds_on_a_slow_line_does_not_fail_a_hop_link(line: int, seed: int) -> None:
    """The fixed rate is right, and its burst of 64 KiB is far too large for the line."""
    quality = Quality(delay_us=50_000, rate_bytes_per_second=line, loss=0.02)
    world = LinkWorld(seed, quality, record_datagrams=False)
    one, _other = world.hop("a", "b", HopOptions(rate_bytes_per_second=line))
    world.run_for(1_000_000)
    for number in range(40):
        one.submit(bytes(1_000) + bytes([number]))
    world.run_for(120_000_000)

    assert [event for event in world.trace if isinstance(event, LinkEndFailed)] == []
    assert sum(isinstance(event, ObjectReceived) for event in world.trace) == 40
    assert all(world.verdicts())
