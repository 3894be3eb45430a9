"""The stream of events: one order for the whole session, from which a group's part can be taken alone.

Each event is taken once, by whoever asks first: the session's reader takes the oldest of all, a group's reader
the oldest of its group.
"""

from collections import deque
from dataclasses import dataclass, field

from hopring.client.events import Event, groups_of


@dataclass(slots=True)
class Stream:
    """Events that nobody has taken."""

    events: dict[int, tuple[Event, int]] = field(default_factory=dict)  # With the credit for each.
    by_group: dict[str, deque[int]] = field(default_factory=dict)  # Groups joined; taken ones may be left in.
    last: int = 0

    def open(self, group: str) -> None:
        """From now on events of this group can be asked for."""
        self.by_group.setdefault(group, deque())

    def close(self, group: str) -> None:
        """No more comes of this group; what waits can still be asked for."""
        if not self.waits(group):
            self.by_group.pop(group, None)

    def put(self, event: Event, credit_bytes: int) -> None:
        """The next event; taking it gives that much credit back."""
        self.last += 1
        self.events[self.last] = (event, credit_bytes)
        for group in groups_of(event):
            if group in self.by_group:
                self.by_group[group].append(self.last)

    def waits(self, group: str | None = None) -> bool:
        """Whether there is an event, of this group or at all."""
        return self._first(group) is not None

    def take(self, group: str | None = None) -> tuple[Event, int] | None:
        """The oldest event, of this group or at all, and the credit for it."""
        number = self._first(group)
        if number is None:
            return None
        event, credit_bytes = self.events.pop(number)
        for name in groups_of(event):
            self._first(name)
        return event, credit_bytes

    def _first(self, group: str | None) -> int | None:
        """Forgets on the way what others have taken."""
        if group is None:
            return next(iter(self.events), None)
        numbers = self.by_group.get(group)
        while numbers:
            if numbers[0] in self.events:
                return numbers[0]
            numbers.popleft()
        return None
