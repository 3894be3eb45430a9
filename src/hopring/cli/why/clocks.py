"""Estimates how far the clocks of daemons are apart, from views that several of them installed.

The members of a view install it within about a round trip of each other. So the difference of their times for
common views estimates the difference of their clocks; the median of several is robust against a late one. Where
daemons were asked, the time in their answers is an estimate too, which needs no common view.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from hopring.cli.monitor.event_lines import LoggedEvent

VIEWS_COMPARED_MAX: Final = 64
ASKED_ERROR_S_MAX: Final = 0.25
"""An answer that took longer tells less about a clock than common views do."""


class ClockEstimate(NamedTuple):
    """How far a daemon's clock is ahead of the clock that the story is told by."""

    ahead_s: float
    error_s: float  # How far the estimate may be off.
    known: bool = True  # False: nothing could be compared, so the clocks count as equal.


Histories = Mapping[str, Sequence[LoggedEvent]]


def estimate_clocks(histories: Histories, asked: Mapping[str, ClockEstimate]) -> dict[str, ClockEstimate]:
    """The clocks of all daemons: as asked if all were, otherwise relative to the first that shares views."""
    names = sorted(histories)
    if names and all(name in asked and asked[name].error_s <= ASKED_ERROR_S_MAX for name in names):
        return {name: asked[name] for name in names}
    times = {name: _times_of_views(histories[name]) for name in names}
    known: dict[str, ClockEstimate] = {}
    if names:
        known[max(names, key=lambda name: len(times[name]))] = ClockEstimate(0.0, 0.0)
    while True:
        steps = [
            (len(times[one].keys() & times[other].keys()), one, other)
            for one in known
            for other in names
            if other not in known
        ]
        shared, one, other = max(steps, default=(0, "", ""))
        if not shared:
            break
        between = _difference(times[one], times[other])
        near = known[one]
        known[other] = ClockEstimate(near.ahead_s + between.ahead_s, near.error_s + between.error_s)
    return {name: known.get(name, ClockEstimate(0.0, 0.0, known=False)) for name in names}


def corrected(histories: Histories, clocks: Mapping[str, ClockEstimate]) -> dict[str, list[LoggedEvent]]:
    """The same events, all by one clock."""
    return {
        name: [
            LoggedEvent(one.daemon, one.at_s - clocks[name].ahead_s, one.name, one.facts, one.seq)
            for one in events
        ]
        for name, events in histories.items()
    }


def _times_of_views(events: Sequence[LoggedEvent]) -> dict[str, float]:
    views = [one for one in events if one.name == "view" and one.facts.get("id")]
    return {one.facts["id"]: one.at_s for one in views[-VIEWS_COMPARED_MAX:]}


def _difference(one: Mapping[str, float], other: Mapping[str, float]) -> ClockEstimate:
    ahead = [other[view] - one[view] for view in sorted(one.keys() & other.keys())]
    middle = median(ahead)
    return ClockEstimate(middle, median([abs(each - middle) for each in ahead]))
