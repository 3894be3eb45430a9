"""A join that begins in the past: a group's events from a spool, up to the view that the join made.

That view is in the spool too, because the spooler is a member; there the replay ends and the live events begin.
So no event is missing or repeated between them, as far as messages are ordered: Causal, Agreed and Safe.
Reliable and FIFO messages may be on different sides of a view at different members. If a batch that counts once
(dedup.py) is sent again after the join, its messages in the spool are dropped too.
"""

from collections import deque
from pathlib import Path
from typing import Final

from hopring.client.events import NO_HEADERS, Event, Gap, Headers, Member, Message, Transition, View
from hopring.groups.names import GroupViewId
from hopring.ids import Place
from hopring.services import Service
from hopring.spool.errors import OffsetMissing, SpoolError
from hopring.spool.files import directory_of
from hopring.spool.pages import PlaceMissing
from hopring.spool.reading import after_place, bounds, marks_before, read
from hopring.spool.record import (
    RecordedGap,
    RecordedMember,
    RecordedTransition,
    RecordedView,
    RecordKind,
    SpoolRecord,
    decode_body,
)

PORTION_RECORDS: Final = 1_000
POLL_US: Final = 20_000
BEHIND_SECONDS: Final = 30.0


class SpoolBehind(SpoolError, TimeoutError):
    """The spool does not reach the place of the join in the order."""

    def __init__(self, path: Path | str, offset: int) -> None:
        reason = f"it ends before {offset}, and the view of the join is not in it for {BEHIND_SECONDS:g} s"
        super().__init__(path, reason, "is `hop spool run` alive, in this group, on this side of the network?")
        self.offset = offset


class Replay:
    """The part of a spool that precedes a group's live events."""

    def __init__(self, root: Path | str, group: str, since: int | Place) -> None:
        """Raises OffsetMissing or another SpoolError if the spool cannot be read from there."""
        self.group = group
        self.done = False
        self.upto: GroupViewId | None = None  # The first live view, once it is known.
        self._directory = directory_of(Path(root), group)
        self._at = self._offset(since)
        self.marks: dict[
            str, int
        ] = {}  # The last batches in the spool before the live part, by application; set when done.
        self._events: deque[tuple[Event, int]] = deque()
        known = bounds(self._directory)
        if not known.start <= self._at <= known.end:
            raise OffsetMissing(self._directory, self._at, *known)

    def _offset(self, since: int | Place) -> int:
        if isinstance(since, int):
            return since
        found = after_place(self._directory, since)
        if found is None:
            raise PlaceMissing(self._directory, since)
        return found

    @property
    def begun(self) -> bool:
        """Whether its spool is known; errors are raised."""
        return True

    def has_news(self) -> bool:
        """Whether `next` has something to do now; files tell nothing, so the calls look again."""
        return False

    def close(self) -> None:
        """Frees what it needs beside the calls of the session: nothing."""

    def next(self) -> Event | None:
        """The next event, or None if there is none now; `done` tells whether that is the end."""
        assert self.upto is not None, "the live part begins somewhere"
        if not self._events:
            self._read()
        if self.done or not self._events:
            return None
        event, offset = self._events.popleft()
        if isinstance(event, View) and event.id == self.upto:
            self.done = True
            self.marks = marks_before(self._directory, offset)
            return None
        return event

    def behind(self) -> SpoolBehind:
        """The error for a spool that does not grow for too long."""
        return SpoolBehind(self._directory, self._at)

    def _read(self) -> None:
        end = min(bounds(self._directory).end, self._at + PORTION_RECORDS)
        for record in read(self._directory, self._at, end):
            self._events.append((event_of(record, self.group), record.offset))
        self._at = end


def event_of(record: SpoolRecord, group: str) -> Event:
    """A record as the event that it was at the spooler; a gap of unknown size has 0 messages."""
    its = record.header
    match its.kind:
        case RecordKind.MESSAGE:
            service = its.service or Service.AGREED
            headers = Headers(record.headers) if record.headers else NO_HEADERS
            return Message(its.sender, its.groups, record.data, service, record.type, its.place, headers)
        case RecordKind.VIEW:
            return _view(decode_body(record.data, RecordedView), group)
        case RecordKind.TRANSITION:
            signal = decode_body(record.data, RecordedTransition)
            return Transition(group, signal.id, tuple([_member(one) for one in signal.members]))
        case RecordKind.GAP:
            return Gap((group,), decode_body(record.data, RecordedGap).messages or 0, 0, complete=False)


def _view(body: RecordedView, group: str) -> View:
    members = tuple([_member(one) for one in body.members])
    return View(
        group,
        body.id,
        members,
        tuple([members[place] for place in body.together]),
        body.cause,
        None if body.who is None else _member(body.who),
        tuple([tuple([members[place] for place in some]) for some in body.sets]),
        body.primary,
    )


def _member(one: RecordedMember) -> Member:
    return Member(one.daemon, one.name, one.incarnation, one.session)
