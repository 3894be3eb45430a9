"""Once: of a batch that is sent again, a session delivers only what it has not had.

A message of a batch has a number, made of the batch and its index in it (wire/batch_mark.py). For each group
and application a session keeps the ranges of numbers that it has delivered; what lies in one is dropped.

Why that is right, whoever sends the batch again and however the two are mixed: a session sends a batch from 0
on, in order and without holes, and whoever repeats it sends the same messages under the same numbers. Up to any
moment a receiver has had, of each sender, the messages 0 to k for some k (for FIFO and above); of both of them,
0 to the greater k. The next one is either in that range, and was delivered, or right behind it. So what comes
out is the batch, each message once and in order. Ranges, and not only the last number, are kept for the weaker
services: a Reliable message may overtake others, and a FIFO one those of another session. In a total order all
members that were there throughout have the same ranges, so they drop the same.

Invariants  ranges are sorted and do not touch; there are RANGES_MAX of a stream at most, and STREAMS_MAX of
            those.
Limit       of a stream the oldest ranges are forgotten first, and all below them counts as had, which is right
            for numbers that rise; the stream that was silent for longest is forgotten as a whole.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hopring.wire.batch_mark import BatchMark

STREAMS_MAX: Final = 256
RANGES_MAX: Final = 256
"""A batch that came whole, and in order, is one range."""

LIVE: Final = "live:"
"""In the marks of a spool, before the name of an application whose batches came through the group."""

Range = tuple[int, int]
"""From one to before another."""


@dataclass(slots=True)
class DeliveredRanges:
    """The numbers of one stream that were delivered."""

    below: int = 0  # All that is less counts as had.
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def take(self, start: int, end: int) -> list[Range]:
        """What of this range is new; from now on all of it was had."""
        start = max(start, self.below)
        if start >= end:
            return []
        first, last = bisect_left(self.ends, start), bisect_right(self.starts, end)
        near = list(zip(self.starts[first:last], self.ends[first:last], strict=True))
        if near:
            self.starts[first:last] = [min(start, near[0][0])]
            self.ends[first:last] = [max(end, near[-1][1])]
        else:
            self.starts.insert(first, start)
            self.ends.insert(first, end)
        if len(self.starts) > RANGES_MAX:
            self.skip(self.ends[0])
        return _between(start, end, near)

    def skip(self, below: int) -> None:
        """All that is less counts as had."""
        self.below = max(self.below, below)
        gone = bisect_right(self.ends, self.below)
        del self.starts[:gone]
        del self.ends[:gone]


def _between(start: int, end: int, had: list[Range]) -> list[Range]:
    """The pieces of a range that lie outside of others."""
    out: list[Range] = []
    for low, high in had:
        if start < low:
            out.append((start, low))
        start = max(start, high)
    if start < end:
        out.append((start, end))
    return out


@dataclass(slots=True)
class BatchDedup:
    """What a session has had of marked batches."""

    streams: dict[tuple[str, str], DeliveredRanges] = field(default_factory=dict)
    """By group and application; the one that was silent for longest is the first."""
    dropped: int = 0

    def new(self, group: str, mark: BatchMark, messages: int) -> list[Range]:
        """Which messages of a bundle are to be delivered, as places in the bundle; the others are counted."""
        first = mark.number
        pieces = self._stream(group, mark.app).take(first, first + messages)
        self.dropped += messages - sum([end - start for start, end in pieces])
        return [(start - first, end - first) for start, end in pieces]

    def remember(self, group: str, marks: Mapping[str, int]) -> dict[str, int]:
        """All up to the marks of a spool was had, in another life; returns those of live batches, by app."""
        lives = {app.removeprefix(LIVE): number for app, number in marks.items() if app.startswith(LIVE)}
        for app, number in lives.items():
            self._stream(group, app).skip(number + 1)
        return lives

    def _stream(self, group: str, app: str) -> DeliveredRanges:
        had = self.streams.pop((group, app), None) or DeliveredRanges()
        self.streams[group, app] = had
        if len(self.streams) > STREAMS_MAX:
            del self.streams[next(iter(self.streams))]
        return had
