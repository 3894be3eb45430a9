"""Sets of numbers as sorted ranges, because most of them are a few long runs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class NumberSet:
    """A set of numbers; both ends of its ranges belong to them, and ranges do not touch."""

    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.firsts)

    def __len__(self) -> int:
        return sum(self.lasts) - sum(self.firsts) + len(self.firsts)

    def __contains__(self, number: int) -> bool:
        at = bisect_left(self.lasts, number)
        return at < len(self.firsts) and self.firsts[at] <= number

    @property
    def lowest(self) -> int:
        """The lowest number of a set that is not empty."""
        return self.firsts[0]

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The first and the last number of each range, in their order."""
        return iter(list(zip(self.firsts, self.lasts, strict=True)))

    def within(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The ranges of the numbers from `first` to `last` that are in the set."""
        at = bisect_left(self.lasts, first)
        for low, high in list(zip(self.firsts[at:], self.lasts[at:], strict=True)):
            if low > last:
                return
            yield max(low, first), min(high, last)

    def add(self, first: int, last: int) -> None:
        """Adds the numbers from `first` to `last`."""
        # Ranges that touch the new one become part of it.
        low, high = bisect_left(self.lasts, first - 1), bisect_right(self.firsts, last + 1)
        if low < high:
            first, last = min(first, self.firsts[low]), max(last, self.lasts[high - 1])
        self.firsts[low:high] = [first]
        self.lasts[low:high] = [last]

    def discard(self, first: int, last: int) -> None:
        """Removes those of the numbers from `first` to `last` that are there."""
        low, high = bisect_left(self.lasts, first), bisect_right(self.firsts, last)
        if low >= high:
            return
        begins, ends = self.firsts[low], self.lasts[high - 1]
        firsts = [begins] if begins < first else []
        lasts = [first - 1] if begins < first else []
        if ends > last:
            firsts.append(last + 1)
            lasts.append(ends)
        self.firsts[low:high] = firsts
        self.lasts[low:high] = lasts

    def clear(self) -> None:
        """Removes all numbers from the set."""
        self.firsts.clear()
        self.lasts.clear()
