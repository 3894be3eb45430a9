"""Many daemons in the simulator: the figures of a small world of the bench."""

from typing import Any

import pytest

from hopring.bench.suite.sim_daemons import measure


@pytest.mark.slow
def test_a_small_world_settles_without_violations() -> None:
    figures: dict[str, Any] = measure(2, 2)

    assert figures["violations"] == []
    assert figures["daemons"] == 4
    assert figures["view_ms"] > 0
    assert figures["split_ms"] > 0
    assert figures["merged_ms"] > 0
    for way in ("near_ms", "far_ms"):
        assert 0 < figures[way]["p50"] <= figures[way]["p99"]
    assert figures["each_message"]["on_links"] >= 1
    assert figures["idle_each_second"]["datagrams"] > 0
