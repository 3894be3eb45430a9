"""Deduplication of batches: a session drops messages of a repeated batch that it has delivered already.

A message of a batch has a number, made of the batch and its index in it (wire/batch_mark.py). For each group,
sender's name and application a session keeps the ranges of numbers that it has delivered, and drops messages
inside them. The name is that of the sending session without its daemon: a batch may be repeated through another
daemon, and a session of another name cannot make receivers drop batches that it did not send. Names are not
authenticated: at another daemon, or while the sender is away, anybody can take its name.

Why this is correct, for sessions of one name at any daemons and any interleaving: a session sends a batch from
index 0 on, in order and without holes, and a repetition has the same messages under the same numbers. At any
moment a receiver has, of each sender, the messages 0 to k for some k (for FIFO and above); of both, 0 to the
greater k. The next message is either in that range, and was delivered, or right behind it. So the output is
the batch, each message once and in order. Ranges, not only the last number, are kept for the weaker services:
a Reliable message may overtake others, and a FIFO one those of another session. In a total order all members
that were present throughout have the same ranges, so they drop the same messages.

Invariants  ranges are sorted and do not touch; a stream has RANGES_MAX at most, and there are STREAMS_MAX
            streams at most.
Limit       the oldest ranges of a stream are forgotten first, and all numbers below them count as delivered,
            which is right for rising numbers; of the sender with the most streams, the one that was silent for
            longest is forgotten as a whole.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hopring.wire.batch_mark import BatchMark

STREAMS_MAX: Final = 256
RANGES_MAX: Final = 256
"""A batch that arrived completely and in order is one range."""

LIVE: Final = "live:"
"""The prefix, in the marks of a spool, of batches that came through the group: `live:sender#application`."""

Range = tuple[int, int]
"""A half-open range of numbers."""


@dataclass(slots=True)
class DeliveredRanges:
    """The delivered numbers of one stream."""

    below: int = 0  # All smaller numbers count as delivered.
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def mark_delivered(self, start: int, end: int) -> list[Range]:
        """Marks a range of numbers as delivered; returns the parts of it that are new."""
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
            self.mark_below(self.ends[0])
        return _between(start, end, near)

    def mark_below(self, below: int) -> None:
        """Marks all smaller numbers as delivered."""
        self.below = max(self.below, below)
        gone = bisect_right(self.ends, self.below)
        del self.starts[:gone]
        del self.ends[:gone]


def _between(start: int, end: int, had: list[Range]) -> list[Range]:
    """The parts of a range outside of others."""
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
    """The delivered messages of batches that count once, by stream."""

    streams: dict[tuple[str, str, str], DeliveredRanges] = field(default_factory=dict)
    """By group, sender's name and application; the one that was silent for longest is the first."""
    dropped: int = 0

    def new(self, group: str, sender: str, mark: BatchMark, messages: int) -> list[Range]:
        """The new messages of a bundle, as ranges of its indexes; counts the others as dropped."""
        first = mark.number
        stream = self._stream(group, sender_name(sender), mark.app)
        pieces = stream.mark_delivered(first, first + messages)
        self.dropped += messages - sum([end - start for start, end in pieces])
        return [(start - first, end - first) for start, end in pieces]

    def remember(self, group: str, marks: Mapping[str, int]) -> dict[tuple[str, str], int]:
        """Marks messages up to a spool's marks as delivered; returns the live ones, by sender and app."""
        lives: dict[tuple[str, str], int] = {}
        for name, number in marks.items():
            sender, hash_sign, app = name.removeprefix(LIVE).partition("#")
            if name.startswith(LIVE) and hash_sign:
                lives[sender, app] = number
        for (sender, app), number in lives.items():
            self._stream(group, sender, app).mark_below(number + 1)
        return lives

    def _stream(self, group: str, sender: str, app: str) -> DeliveredRanges:
        had = self.streams.pop((group, sender, app), None) or DeliveredRanges()
        self.streams[group, sender, app] = had
        if len(self.streams) > STREAMS_MAX:
            del self.streams[self._least_needed()]
        return had

    def _least_needed(self) -> tuple[str, str, str]:
        """Of the sender with the most streams, the one that was silent for longest."""
        counts = Counter([sender for _, sender, _ in self.streams])
        most = max(counts.values())
        return next(one for one in self.streams if counts[one[1]] == most)


def sender_name(private_group: str) -> str:
    """The session's name in its private group; it does not contain `#`."""
    return private_group[1:].partition("#")[0]


def live_app(private_group: str, app: str) -> str:
    """The application under which a spool keeps marks of batches that this sender sent to the group."""
    return f"{LIVE}{sender_name(private_group)}#{app}"
