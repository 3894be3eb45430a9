"""The stream of events: one order for the whole session, from which a group's part can be taken alone.

Each event is taken once, by whoever asks first: the session's reader takes the oldest of all, a group's reader
the oldest of its group. Only `Reconnected` is for every group's reader; the session's reader takes it for all.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from hopring.client.batch import Origin, Taken
from hopring.client.events import Event, Message, Reconnected, groups_of
from hopring.wire.bundle import Bundle

Waiting = tuple[Event, int, int, Origin | None]
"""An event, the credit for it, when it was read, and for a message the bundle that it came in."""


@dataclass(slots=True)
class Stream:
    """Events that nobody has taken."""

    events: dict[int, Waiting] = field(default_factory=dict)
    by_group: dict[str, deque[int]] = field(default_factory=dict)  # Groups joined; taken ones may be left in.
    last: int = 0
    now_us: int = 0  # When what is put in now was read.
    credit_bytes: int = 0  # For all that waits.

    def open(self, group: str) -> None:
        """From now on events of this group can be asked for."""
        self.by_group.setdefault(group, deque())

    def close(self, group: str) -> None:
        """No more comes of this group; what waits can still be asked for."""
        if not self.waits(group):
            self.by_group.pop(group, None)

    def put_messages(self, messages: list[Message], bundle: Bundle, credit_bytes: int, first: int = 0) -> None:
        """Messages of a bundle from this one on; taking the last gives that much credit back."""
        origin = Origin(bundle, self.last + 1 - first)
        for message in messages[:-1]:
            self.put(message, 0, origin)
        self.put(messages[-1], credit_bytes, origin)

    def put(self, event: Event, credit_bytes: int, origin: Origin | None = None) -> None:
        """The next event; taking it gives that much credit back."""
        self.last += 1
        self.events[self.last] = (event, credit_bytes, self.now_us, origin)
        self.credit_bytes += credit_bytes
        for group in groups_of(event):
            if group in self.by_group:
                self.by_group[group].append(self.last)

    def waits(self, group: str | None = None) -> bool:
        """Whether there is an event, of this group or at all."""
        return self._first(group) is not None

    def peek(self, group: str) -> Event | None:
        """The oldest event of this group, which stays."""
        number = self._first(group)
        return None if number is None else self.events[number][0]

    def has(self, messages: int, group: str | None = None) -> bool:
        """Whether so many messages wait."""
        numbers = self.events if group is None else self.by_group.get(group, ())
        waiting = (self.events[one][0] for one in numbers if one in self.events)
        found = islice((one for one in waiting if isinstance(one, Message)), messages)
        return sum(1 for _ in found) == messages

    def take(self, group: str | None = None) -> tuple[Event, int] | None:
        """The oldest event, of this group or at all, and the credit for it."""
        number = self._first(group)
        return None if number is None else self._take(number, group)

    def take_batch(self, messages: int, group: str | None = None) -> tuple[list[Taken], int]:
        """The oldest events up to so many messages, and the credit for them."""
        out: list[Taken] = []
        credits_bytes = 0
        while messages and (number := self._first(group)) is not None:
            _, _, received_at_us, origin = self.events[number]
            event, credit_bytes = self._take(number, group)
            out.append(Taken(event, number, received_at_us, origin))
            credits_bytes += credit_bytes
            messages -= isinstance(event, Message)
        return out, credits_bytes

    def _take(self, number: int, group: str | None) -> tuple[Event, int]:
        event, credit_bytes, *_ = self.events[number]
        if group is not None and isinstance(event, Reconnected):
            self.by_group[group].popleft()
            if any(number in self.by_group.get(other, ()) for other in event.groups):
                return event, 0
        del self.events[number]
        self.credit_bytes -= credit_bytes
        for name in groups_of(event):
            self._first(name)
        return event, credit_bytes

    def drop(self, group: str, app: str, number: int) -> tuple[int, int]:
        """Drops what waits of an application's batches up to this number; how much, and the credit for it."""
        waiting = [at for at in self.by_group.get(group, ()) if at in self.events]
        gone = [at for at in waiting if _is_upto(at, self.events[at][3], app, number)]
        return len(gone), sum([self._take(at, None)[1] for at in gone])

    def forget_credits(self) -> None:
        """Nobody wants credit any more for what waits: it came by a connection that is gone."""
        for number, (event, _, at_us, origin) in self.events.items():
            self.events[number] = (event, 0, at_us, origin)
        self.credit_bytes = 0

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


def _is_upto(at: int, origin: Origin | None, app: str, number: int) -> bool:
    mark = None if origin is None else origin.bundle.run.mark
    if origin is None or mark is None or mark.app != app:
        return False
    return mark.number + at - origin.first <= number
