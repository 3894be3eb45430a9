"""Descriptors: what a cluster knows of a parcel without its body, as runs of neighbours that are alike.

Implements  Makpangou and Birman, 5.2.1: messID, senderID, destID, DestClusters.
Invariants  the runs of a sender are sorted, do not overlap, and two neighbours that touch differ.
Deviations  the paper keeps a descriptor for each message. While one cluster is away for a day, that would be
            millions of equal ones at all others.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hopring.haul.ids import ClusterId, ClusterMask, Talk


class DescriptorRun(NamedTuple):
    """Descriptors of neighbouring parcels of one sender that are alike, as they are kept and as they travel."""

    sender: ClusterId
    first: int
    last: int
    talk: Talk
    destinations: ClusterMask
    missing: ClusterMask  # DestClusters: destinations that have not got the parcel yet, as far as is known.

    def part(self, first: int, last: int) -> "DescriptorRun":
        """The descriptors of these numbers, which the run has."""
        return self._replace(first=first, last=last)

    def continues(self, other: "DescriptorRun") -> bool:
        """Whether it stands right behind another run and is like it."""
        return other.last + 1 == self.first and other[3:] == self[3:]


@dataclass(slots=True)
class SenderRuns:
    """The descriptors of one sender."""

    runs: list[DescriptorRun] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.runs)

    def find(self, number: int) -> DescriptorRun | None:
        """The run with this number."""
        at = bisect_right(self.runs, number, key=_first) - 1
        return self.runs[at] if at >= 0 and self.runs[at].last >= number else None

    def within(self, first: int, last: int) -> Iterator[DescriptorRun]:
        """The parts of runs with numbers from `first` to `last`."""
        at = max(0, bisect_right(self.runs, first, key=_first) - 1)
        for run in self.runs[at:]:
            if run.first > last:
                return
            if run.last >= first:
                yield run.part(max(first, run.first), min(last, run.last))

    def append(self, run: DescriptorRun) -> None:
        """Adds descriptors behind all others."""
        assert not self.runs or self.runs[-1].last < run.first, "numbers of a sender rise"
        self._place(len(self.runs), len(self.runs), [run])

    def change(
        self, first: int, last: int, missing: Callable[[DescriptorRun], ClusterMask]
    ) -> list[DescriptorRun]:
        """Sets the missing destinations of some numbers; returns the parts that are different now."""
        out: list[DescriptorRun] = []
        for part in list(self.within(first, last)):
            changed = part._replace(missing=missing(part))
            if changed != part:
                self._replace(part.first, part.last, changed)
                out.append(changed)
        return out

    def remove(self, first: int, last: int) -> None:
        """Forgets the descriptors of these numbers."""
        for part in list(self.within(first, last)):
            self._replace(part.first, part.last, None)

    def _replace(self, first: int, last: int, by: DescriptorRun | None) -> None:
        """Puts something in the place of a part of one run."""
        at = bisect_right(self.runs, first, key=_first) - 1
        run = self.runs[at]
        pieces = [run.part(run.first, first - 1)] if run.first < first else []
        if by is not None:
            pieces.append(by)
        if last < run.last:
            pieces.append(run.part(last + 1, run.last))
        self._place(at, at + 1, pieces)

    def _place(self, low: int, high: int, pieces: list[DescriptorRun]) -> None:
        """Puts pieces in the place of some runs, and joins neighbours that are alike."""
        begin, end = max(0, low - 1), min(len(self.runs), high + 1)
        joined: list[DescriptorRun] = []
        for piece in [*self.runs[begin:low], *pieces, *self.runs[high:end]]:
            if joined and piece.continues(joined[-1]):
                joined[-1] = joined[-1].part(joined[-1].first, piece.last)
            else:
                joined.append(piece)
        self.runs[begin:end] = joined


def _first(run: DescriptorRun) -> int:
    return run.first
