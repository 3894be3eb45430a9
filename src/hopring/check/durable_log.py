"""Judges a replicated log: what its members and their disks did, as the simulator records it.

These are properties of ours. An entry is known by its data; the beginning of an epoch has none, but its number.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.check.properties.property import Verdict, broken, holds

ONE_ENTRY: Final = "D1 no two members accept different entries at one index"
SYNCED_BY_MAJORITY: Final = "D2 an accepted entry was synced by a majority of the configured members"
SURVIVES: Final = "D3 at the quiet end each configured member has all accepted entries, at their indexes"
ONCE: Final = "D4 an operation is in the list at most once, and those of a writer are in the order of its calls"
SENT: Final = "D5 an operation that is in the list was appended by its writer"
OWN_WRITES: Final = "D6 a writer whose operation is done reads it at the index that it was told"
CONDITION: Final = "D7 an operation with a condition is at the index that it names"
ALL_DONE: Final = "D8 at the quiet end all operations of programs that live are done, and all lists are equal"
NOT_REFUSED: Final = "D9 no member is refused: all name the same members, and have the same log"


@dataclass(frozen=True, slots=True)
class OperationSubmitted:
    """A program appended an operation; `at` is its condition, -1 if it has none."""

    at_us: int
    writer: str
    data: str
    at: int = -1


@dataclass(frozen=True, slots=True)
class EntriesSynced:
    """A disk has these entries from an index on, and nothing behind them."""

    at_us: int
    name: str
    start: int
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotSynced:
    """A disk has a snapshot that covers all entries up to an index, and these behind it."""

    at_us: int
    name: str
    index: int
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiskEmptied:
    """A member's disk was lost."""

    at_us: int
    name: str


@dataclass(frozen=True, slots=True)
class EntryAccepted:
    """A member learned that an entry is accepted."""

    at_us: int
    agent: str
    index: int
    entry: str


@dataclass(frozen=True, slots=True)
class ListGrew:
    """A member applied an operation at this index of its list."""

    at_us: int
    agent: str
    index: int
    data: str


@dataclass(frozen=True, slots=True)
class AppendDone:
    """A writer was told the index of its operation, None if refused by its condition, and reads there."""

    at_us: int
    writer: str
    data: str
    index: int | None
    read: str = ""


@dataclass(frozen=True, slots=True)
class MemberRefused:
    """A member learned that it cannot take part."""

    at_us: int
    agent: str
    reason: str


@dataclass(frozen=True, slots=True)
class LogAtEnd:
    """A member at the end of the world: its disk's entries behind its snapshot, its list, what is pending."""

    at_us: int
    agent: str
    name: str  # Empty for a follower.
    view: str  # Of the group; if a partition lasts, each side has one.
    base: int
    entries: tuple[str, ...]
    list: tuple[str, ...]
    pending: int


DurableLogEvent = (
    OperationSubmitted
    | EntriesSynced
    | SnapshotSynced
    | DiskEmptied
    | EntryAccepted
    | ListGrew
    | AppendDone
    | MemberRefused
    | LogAtEnd
)


@dataclass(slots=True)
class DiskCopy:
    """A disk as the history shows it."""

    covered: int = 0  # All accepted entries up to here.
    entries: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class DurableLogJudge:
    """The state of the checks while they go through a history."""

    members: tuple[str, ...]
    found: dict[str, str] = field(default_factory=dict)  # The first witness against each property.
    disks: dict[str, DiskCopy] = field(default_factory=dict)
    emptied: dict[str, list[DiskCopy]] = field(default_factory=dict)  # What disks had that were lost.
    accepted: dict[int, str] = field(default_factory=dict)
    submitted: dict[str, OperationSubmitted] = field(default_factory=dict)  # By data.
    places: dict[str, int] = field(default_factory=dict)  # The index of each operation.
    order: dict[str, list[str]] = field(default_factory=dict)  # By writer: its operations as it sent them.
    grown: dict[int, str] = field(default_factory=dict)
    ends: list[LogAtEnd] = field(default_factory=list)

    def see(self, event: DurableLogEvent) -> None:
        """Judges one event by those before it."""
        match event:
            case OperationSubmitted():
                self.submitted[event.data] = event
                self.order.setdefault(event.writer, []).append(event.data)
            case EntriesSynced():
                self._synced(event)
            case SnapshotSynced():
                entries = dict(enumerate(event.entries, event.index + 1))
                self.disks[event.name] = DiskCopy(event.index, entries)
            case DiskEmptied():
                # It told the truth when it said what it had synced.
                disk = self.disks.pop(event.name, DiskCopy())
                self.emptied.setdefault(event.name, []).append(disk)
            case EntryAccepted():
                self._accepted(event)
            case ListGrew():
                self._grew(event)
            case AppendDone():
                self._done(event)
            case MemberRefused():
                self._break(NOT_REFUSED, f"{event.agent} at {event.at_us} us: {event.reason}")
            case LogAtEnd():
                self.ends.append(event)

    def _synced(self, event: EntriesSynced) -> None:
        disk = self.disks.setdefault(event.name, DiskCopy())
        disk.entries = {index: one for index, one in disk.entries.items() if index < event.start}
        disk.entries.update(enumerate(event.entries, event.start))

    def _accepted(self, event: EntryAccepted) -> None:
        first = self.accepted.setdefault(event.index, event.entry)
        if first != event.entry:
            text = f"{event.agent} at {event.at_us} us accepts {event.entry} at {event.index}, others {first}"
            self._break(ONE_ENTRY, text)
        having = [name for name in self.members if self._had(name, event)]
        if first == event.entry and len(having) <= len(self.members) // 2:
            text = (
                f"{event.agent} at {event.at_us} us accepts {event.entry} at {event.index}, on disk at {having}"
            )
            self._break(SYNCED_BY_MAJORITY, text)

    def _had(self, name: str, event: EntryAccepted) -> bool:
        copies = [self.disks.get(name, DiskCopy()), *self.emptied.get(name, [])]
        return any(event.index <= one.covered or one.entries.get(event.index) == event.entry for one in copies)

    def _grew(self, event: ListGrew) -> None:
        text = f"{event.agent} at {event.at_us} us has {event.data} at {event.index}"
        sent = self.submitted.get(event.data)
        if sent is None:
            self._break(SENT, text)
            return
        if sent.at not in (-1, event.index):
            self._break(CONDITION, f"{text}, which was for {sent.at}")
        if self.places.setdefault(event.data, event.index) != event.index:
            self._break(ONCE, f"{text} and at {self.places[event.data]}")
        if self.grown.setdefault(event.index, event.data) != event.data:
            self._break(ONE_ENTRY, f"{text}, others have {self.grown[event.index]}")

    def _done(self, event: AppendDone) -> None:
        if event.index is not None and event.read != event.data:
            text = f"{event.writer}: {event.data} is done at {event.index}, where it reads {event.read}"
            self._break(OWN_WRITES, text)

    def judge_order(self) -> None:
        """The operations of each writer are in the order of its calls."""
        for writer, sent in self.order.items():
            places = [self.places[one] for one in sent if one in self.places]
            if places != sorted(places):
                self._break(ONCE, f"operations of {writer} are at {places}")

    def judge_end(self) -> None:
        """All members on the side of a majority have all that is accepted, and nothing waits.

        A member that lost its disk counts once it has a part of the log again: before that it has no vote.
        """
        for view in {one.view for one in self.ends}:
            side = [one for one in self.ends if one.view == view]
            voters = {
                one.name
                for one in side
                if one.name and (one.name in self.disks or one.name not in self.emptied)
            }
            if len(voters) > len(self.members) // 2:
                self._judge_side(side)

    def _judge_side(self, side: list[LogAtEnd]) -> None:
        first = side[0]
        for one in side:
            if one.name:
                self._survives(one)
            if one.pending:
                self._break(ALL_DONE, f"{one.agent} waits for {one.pending} operations")
            if one.list != first.list:
                text = f"{one.agent} has {len(one.list)} operations, {first.agent} {len(first.list)}"
                self._break(ALL_DONE, text)

    def _survives(self, one: LogAtEnd) -> None:
        for index, entry in sorted(self.accepted.items()):
            if index > one.base:
                at = index - one.base - 1
                has = one.entries[at] if at < len(one.entries) else "nothing"
                if has != entry:
                    self._break(SURVIVES, f"{one.agent} has {has} at {index}, where {entry} was accepted")

    def _break(self, name: str, witness: str) -> None:
        self.found.setdefault(name, witness)


def check_durable_log(
    events: Iterable[DurableLogEvent], members: tuple[str, ...], quiet_end: bool
) -> list[Verdict]:
    """A verdict for each property on one history, in the order of its events."""
    judge = DurableLogJudge(members)
    for event in events:
        judge.see(event)
    judge.judge_order()
    names = [ONE_ENTRY, SYNCED_BY_MAJORITY, ONCE, SENT, OWN_WRITES, CONDITION, NOT_REFUSED]
    if quiet_end:
        judge.judge_end()
        names += [SURVIVES, ALL_DONE]
    return [broken(name, judge.found[name]) if name in judge.found else holds(name) for name in names]
