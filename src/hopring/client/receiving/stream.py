"""The stream of events: one order for the whole session, from which a group's events can be taken alone.

Each event is taken once, by the first reader that asks: the session's reader takes the oldest of all, a group's
reader the oldest of its group. Only `Reconnected` goes to every group's reader; the session's reader takes it
for all. Messages of one bundle are one entry, however many they are.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from hopring.client.events import Event, Message, Reconnected, Suspended, Transition, View, minimum_of
from hopring.client.receiving.dedup import sender_name
from hopring.client.receiving.runs import StreamEntry, entry_of
from hopring.client.receiving.sequence import Part, Taken
from hopring.session.frames import DeliveredBundle
from hopring.session.protocol import SignalNotice, ViewNotice


@dataclass(slots=True)
class EventStream:
    """The events that no reader has taken."""

    entries: dict[int, StreamEntry] = field(
        default_factory=dict
    )  # By the number of the first event; the oldest first.
    by_group: dict[str, deque[StreamEntry]] = field(
        default_factory=dict
    )  # Groups joined; taken ones may be left in.
    last: int = 0
    now_us: int = 0  # The time of arrival of the next entries.
    credit_bytes: int = 0  # For all entries.
    suspended: set[str] = field(default_factory=set)  # Groups whose suspension was told.
    by_group_read: bool = False  # A reader has read one group alone: mixed entries are split by groups.
    on_close: Callable[[str, int], None] | None = None  # Called with a group that is left, behind this event.

    def open(self, group: str) -> None:
        """Opens a queue for a group, so that its events can be read alone."""
        self.by_group.setdefault(group, deque())

    def close(self, group: str) -> None:
        """Closes a group's queue as soon as it is empty."""
        if self.on_close is not None:
            self.on_close(group, self.last)
        self.suspended.discard(group)
        if not any(entry.at < entry.end for entry in self.by_group.get(group, ())):
            self.by_group.pop(group, None)

    def put_messages(self, delivered: DeliveredBundle, start: int, end: int, credit_bytes: int) -> None:
        """Adds messages of a bundle; taking the last gives the credit back."""
        groups = delivered.bundle.key.groups
        order = self.last + 1
        self._put(StreamEntry(order, self.now_us, credit_bytes, groups, None, delivered, start, start, end))
        self.last += end - start

    def put_single(self, message: Message, body: bytes, credit_bytes: int) -> None:
        """Adds a single message, with the body of its frame in case its columns are needed."""
        order = self.last + 1
        groups = message.groups
        self._put(
            StreamEntry(order, self.now_us, credit_bytes, groups, None, None, 0, 0, 1, [message], 0, body)
        )
        self.last = order

    def put(self, event: Event, credit_bytes: int) -> None:
        """Adds an event; taking it gives the credit back."""
        self._put(entry_of(event, self.last + 1, self.now_us, credit_bytes))
        self.last += 1

    def put_membership(
        self, event: View | Transition, credit_bytes: int, notice: ViewNotice | SignalNotice
    ) -> None:
        """Adds a view or a transition, and `Suspended` behind it if a suspension begins with it."""
        self.put(event, credit_bytes)
        if notice.suspended and event.group not in self.suspended:
            self.put(Suspended(event.group, event.id, event.members, minimum_of(notice.minimum)), 0)
            self.suspended.add(event.group)
        elif not notice.suspended and isinstance(event, View):
            self.suspended.discard(event.group)

    def _put(self, entry: StreamEntry) -> None:
        if self.by_group_read and entry.mixed:
            for one in entry.apart():
                self._put(one)
            return
        self.entries[entry.order] = entry
        self.credit_bytes += entry.credit_bytes
        for group in entry.groups:
            if group in self.by_group:
                self.by_group[group].append(entry)

    def waits(self, group: str | None = None) -> bool:
        """Whether there is an event, of this group or at all."""
        return self.first(group) is not None

    def first(self, group: str | None) -> StreamEntry | None:
        """The next entry, of this group or at all; removes entries that other readers have taken."""
        if group is None:
            for entry in self.entries.values():
                return entry
            return None
        if not self.by_group_read:
            self._split_mixed()
        entries = self.by_group.get(group)
        while entries:
            entry = entries[0]
            if entry.at == entry.end:
                entries.popleft()
            else:
                return entry
        return None

    def _split_mixed(self) -> None:
        """Splits mixed entries by groups, because a reader reads one group alone."""
        self.by_group_read = True
        pieces = {entry.order: entry.apart() for entry in self.entries.values() if entry.mixed}
        if not pieces:
            return
        entries, self.entries = self.entries, {}
        for entry in entries.values():
            for one in pieces.get(entry.order, (entry,)):
                self.entries[one.order] = one
        for group, waiting in self.by_group.items():
            its: deque[StreamEntry] = deque()
            for entry in waiting:
                if entry.mixed:
                    its.extend([one for one in pieces[entry.order] if group in one.groups])
                else:
                    its.append(entry)
            self.by_group[group] = its
        for order in pieces:
            entries[order].forget()  # A reader that holds the entry finds nothing left.

    def has(self, messages: int, group: str | None = None) -> bool:
        """Whether this many messages wait."""
        if group is not None and not self.by_group_read:
            self._split_mixed()
        for entry in self.entries.values() if group is None else self.by_group.get(group, ()):
            messages -= entry.messages
            if messages <= 0:
                return True
        return messages <= 0

    def take(self, group: str | None = None) -> tuple[Event, int] | None:
        """Takes the oldest event, of this group or at all; returns it with its credit."""
        entry = self.first(group)
        if entry is None:
            return None
        if entry.event is not None:
            return entry.event, self._take_event(entry, entry.event, group)
        message = entry.message()
        return message, self._remove(entry) if entry.at == entry.end else 0

    def take_many(self, messages: int, group: str | None = None) -> tuple[list[Part], int]:
        """Takes the oldest events, up to this many messages; returns them with their credit."""
        out: list[Part] = []
        credit_bytes = 0
        while messages and (entry := self.first(group)) is not None:
            if entry.event is not None:
                out.append(Taken(entry.event, entry.order, entry.at_us / 1_000_000))
                credit_bytes += self._take_event(entry, entry.event, group)
                continue
            run = entry.run(messages)
            out.append(run)
            messages -= len(run)
            credit_bytes += self._remove(entry) if entry.at == entry.end else 0
        return out, credit_bytes

    def _take_event(self, entry: StreamEntry, event: Event, group: str | None) -> int:
        if group is not None and isinstance(event, Reconnected):
            self.by_group[group].popleft()
            if any(entry in self.by_group.get(other, ()) for other in event.groups):
                return 0
        return self._remove(entry)

    def _remove(self, entry: StreamEntry) -> int:
        """Removes an entry that is fully taken; returns its credit."""
        del self.entries[entry.order]
        entry.forget()
        self.credit_bytes -= entry.credit_bytes
        for name in entry.groups:
            entries = self.by_group.get(name)
            while entries:
                first = entries[0]
                if first.at < first.end:
                    break
                entries.popleft()
        return entry.credit_bytes

    def drop(self, group: str, sender: str, app: str, number: int) -> tuple[int, int]:
        """Drops messages of a sender's batches up to this number; returns their count and credit."""
        dropped = credit_bytes = 0
        for entry in list(self.by_group.get(group, ())):
            columns = entry.columns
            # A single message without columns has no mark.
            mark = None if columns is None else columns.bundle.key.mark
            if columns is None or mark is None or (sender_name(columns.sender), mark.app) != (sender, app):
                continue
            upto = min(entry.end, number + 1 - mark.number)
            if upto > entry.at:
                dropped += upto - entry.at
                entry.at = upto
                credit_bytes += self._remove(entry) if entry.at == entry.end else 0
        return dropped, credit_bytes

    def forget_credits(self) -> None:
        """Cancels the credit of all entries, because their connection is lost."""
        for entry in self.entries.values():
            entry.credit_bytes = 0
        self.credit_bytes = 0
