"""Bounded memory (thesis 5.3, flow control): minutes at full load, and nothing grows."""

import os
import subprocess
import sys
from collections.abc import Iterable

import msgspec
import pytest
from tests.paper.full_load import DAEMONS, WINDOW_BUNDLES, Sample, collections_of

from hopring.ordering.order import SiteLine

WINDOWS = DAEMONS * WINDOW_BUNDLES
MINUTE = 60


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [3, pytest.param(10, marks=pytest.mark.long)])
def test_in_minutes_at_full_load_the_window_is_the_limit_and_nothing_grows(minutes: int) -> None:
    """One test, because the minutes are simulated once."""
    samples = run_minutes(minutes)
    assert len(samples) == minutes * MINUTE
    the_window_governs_all_the_time(samples)
    no_daemon_holds_more_than_the_windows_and_what_recovery_needs(samples)
    no_collection_of_a_daemon_is_larger_than_what_is_under_way(samples)
    no_collection_of_a_daemon_keeps_something_for_good(samples)
    the_process_does_not_grow(samples)


def run_minutes(minutes: int) -> list[Sample]:
    command = [sys.executable, "-m", "tests.paper.full_load", str(minutes * MINUTE)]
    sources = {**os.environ, "HOPRING_PURE": "1"}  # It inspects objects, which compiled code does not allow.
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=sources)
    return [msgspec.json.decode(line, type=Sample) for line in done.stdout.splitlines()]


def emptiest(samples: Iterable[Sample]) -> dict[str, int]:
    """The least length of every collection: entries that were never removed."""
    least: dict[str, int] = {}
    for sample in samples:
        for way, length in sample.lengths.items():
            least[way] = min(length, least.get(way, length))
    return least


def the_window_governs_all_the_time(samples: list[Sample]) -> None:
    assert all(sample.out == [WINDOW_BUNDLES] * DAEMONS for sample in samples)
    assert all(min(sample.waiting) > 0 for sample in samples)
    assert samples[-1].delivered > len(samples) * 80 * DAEMONS
    assert samples[-1].views == 2 * DAEMONS, "a view broke at 5 % loss"


def no_daemon_holds_more_than_the_windows_and_what_recovery_needs(samples: list[Sample]) -> None:
    """Every bundle that is held is in its sender's window, or only its sender knows that it is stable.

    The sender learns from the promises of all sites that a bundle is stable. This daemon learns it when they
    have come here too, and until then recovery may need its copy. Meanwhile the sender uses its window again;
    if a promise is lost, twice.
    """
    assert max(sample.counted for sample in samples) <= WINDOWS
    assert max(sample.entries - sample.counted for sample in samples) <= 2 * WINDOWS


def no_collection_of_a_daemon_is_larger_than_what_is_under_way(samples: list[Sample]) -> None:
    looked_at = samples[-1].lengths
    for part in ("order.lines[].promises", "links[].state.sender.unacked", "ring.state.store.packets"):
        assert [way for way in looked_at if way.endswith(part)], part
    for sample in samples:
        assert max(sample.lengths.values()) <= 3 * WINDOWS, sample


def no_collection_of_a_daemon_keeps_something_for_good(samples: list[Sample]) -> None:
    second, last = emptiest(samples[MINUTE : 2 * MINUTE]), emptiest(samples[-MINUTE:])

    grown = {way: (second[way], last[way]) for way in second if last.get(way, 0) > second[way] + WINDOW_BUNDLES}
    assert grown == {}


def the_process_does_not_grow(samples: list[Sample]) -> None:
    after_two = samples[2 * MINUTE].rss_kb

    assert max(sample.rss_kb for sample in samples[2 * MINUTE :]) - after_two < 20 * 1024


@pytest.mark.interpreted
def test_the_list_of_collections_is_complete() -> None:
    line = SiteLine(cseq=0, next_lts=1, stable_lts=1, ahead={3: 4, 5: 6})

    assert dict(collections_of([line])) == {
        "list": 1,
        "list[].ahead": 2,
        "list[].ahead_seqs": 0,
        "list[].promises": 0,
    }
