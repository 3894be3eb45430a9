"""A spooler: a session that joins groups and appends their events to spools.

Below       a blocking session (client/) and the writers of spools (spool/writer.py).
Above       `hop spool run`.
Invariants  events become records in the order of the session; while a disk refuses an append, nothing more is
            received, and the daemon keeps the backlog by the session's policy; each interval in which the
            spooler was not running, was reconnecting, or lost messages for being slow is a GAP record.

Consecutive messages of one bundle become one run that maps the bundle's columns: no object is made for a single
message. Records carry the group's view as far as it is known. Messages of batches that count once are appended
with a mark, from which a restarted spooler knows how much of each batch its spool has
(client/receiving/dedup.py).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import accumulate, chain
from pathlib import Path
from typing import Final, NamedTuple

from hopring.client.blocking import Session
from hopring.client.errors import NotAllowed, RequestRefused, TimedOut
from hopring.client.events import Gap, Member, Reconnected, Request, Transition, View
from hopring.client.receiving.dedup import live_app
from hopring.client.receiving.runs import MessageRun
from hopring.client.receiving.sequence import EventSequence, Taken, microseconds
from hopring.groups.names import GroupViewId, served_by, synchronous_of
from hopring.groups.private_groups import is_private
from hopring.ids import GroupName, Place
from hopring.spool.encode import AppendMark
from hopring.spool.errors import AppendFailed, SpoolError, SpoolFull
from hopring.spool.files import bases, spools
from hopring.spool.pages import REPLAY_SUFFIX, answer
from hopring.spool.reading import read, read_head
from hopring.spool.record import (
    NO_PLACE,
    NO_STEP,
    GroupStep,
    RecordedGap,
    RecordedMember,
    RecordedTransition,
    RecordedView,
    RecordHeader,
    RecordKind,
    RecordRun,
    encode_body,
    run_of,
)
from hopring.spool.writer import SpoolOptions, SpoolWriter, wall_us
from hopring.wire.envelope import ENVELOPE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class BatchRun(RecordRun):
    """Messages of a batch that counts once, with the mark of their append."""

    mark: AppendMark = field(kw_only=True)  # Numbered as the last message (wire/batch_mark.py).


class Portion(NamedTuple):
    """Runs for one append, which has one mark at most."""

    runs: list[RecordRun]
    mark: AppendMark | None = None


def portions(runs: Iterable[RecordRun]) -> list[Portion]:
    """Splits runs into appends: where batches of two applications meet, and before each view.

    A join that begins in the past (client/receiving/replay.py) relies on the latter: the marks before a view
    cover exactly the messages before it.
    """
    out = [Portion([])]
    for run in runs:
        if run.header.kind is RecordKind.VIEW and out[-1].runs:
            out.append(Portion([]))
        before = out[-1].mark
        mark = run.mark if isinstance(run, BatchRun) else before
        if before is not None and mark is not None and mark.app != before.app:
            out.append(Portion([], mark))
        elif mark is not None:
            out[-1] = out[-1]._replace(mark=mark if before is None else max(mark, before))
        out[-1].runs.append(run)
    return out


@dataclass(slots=True)
class RunBuilder:
    """Turns events of a session into runs of records, for the groups that are spooled."""

    views: dict[str, GroupStep] = field(default_factory=dict)  # The last view of each spooled group.

    def open(self, group: str) -> None:
        """Adds a group whose events become records from now on."""
        self.views.setdefault(group, NO_STEP)

    def runs(self, events: EventSequence) -> dict[str, list[RecordRun]]:
        """The runs of these events by group, in the order of the events."""
        out: dict[str, list[RecordRun]] = {}
        for part in events.parts:
            its = [self._runs(part)] if isinstance(part, Taken) else map(self._messages, part.apart())
            for group, run in chain.from_iterable(its):
                out.setdefault(group, []).append(run)
        return out

    def _runs(self, taken: Taken) -> Iterator[tuple[str, RecordRun]]:
        at_us = microseconds(taken.received_at_seconds)
        match taken.event:
            case View(group=group) as view:
                if group in self.views:
                    self.views[group] = step_of(view.id)
                return self._one((group,), RecordKind.VIEW, at_us, encode_body(_view_body(view)))
            case Transition(group=group) as signal:
                closing = RecordedTransition(signal.id, _members(signal.members))
                return self._one((group,), RecordKind.TRANSITION, at_us, encode_body(closing))
            case Reconnected(groups=groups, gap=gap):
                times = microseconds(gap.lost_at_seconds), microseconds(gap.back_at_seconds)
                body = RecordedGap(f"reconnected: {gap.reason}", *times, None, gap.last)
                return self._one(groups, RecordKind.GAP, at_us, encode_body(body))
            case Gap() as gap:
                body = RecordedGap("the spooler was too slow", at_us, at_us, gap.messages)
                # An incomplete list may lack any group.
                groups = gap.groups if gap.complete else tuple(self.views)
                return self._one(groups, RecordKind.GAP, at_us, encode_body(body))
            case _:
                return iter(())

    def _one(
        self, groups: Iterable[str], kind: RecordKind, at_us: int, body: bytes
    ) -> Iterator[tuple[str, RecordRun]]:
        for group in groups:
            if group in self.views:
                yield group, run_of(RecordHeader(kind, at_us, "", (group,), view=self.views[group]), [body])

    def _messages(self, came: MessageRun) -> Iterator[tuple[str, RecordRun]]:
        place = NO_PLACE if came.service.loose else came.place
        mark = came._bundle.key.mark
        ends: Sequence[int] = came.offsets
        whole: bytes | memoryview = came.whole
        envelopes: Sequence[bytes] = ()
        if came.enveloped:
            envelopes, bodies = came._split()
            ends, whole = list(accumulate(map(len, bodies), initial=0)), b"".join(bodies)
        for group in came.groups:
            if group in self.views:
                header = RecordHeader(
                    RecordKind.MESSAGE,
                    microseconds(came.received_at_seconds),
                    came.sender,
                    came.groups,
                    came.service,
                    place,
                    self.views[group],
                )
                if mark is None:
                    yield group, RecordRun(header, came.types, ends, whole, came.start, envelopes)
                else:
                    last = AppendMark(live_app(came.sender, mark.app), mark.number + came.end - 1)
                    yield group, BatchRun(header, came.types, ends, whole, came.start, envelopes, mark=last)


def step_of(view: GroupViewId) -> GroupStep:
    """The id of a view in the form that records carry."""
    return GroupStep(view.view, view.signed)


def away(group: str, reason: str, from_us: int, to_us: int, last: Place | None) -> RecordRun:
    """A GAP record for a time in which the spooler received nothing."""
    body = encode_body(RecordedGap(reason, from_us, to_us, None, last))
    return run_of(RecordHeader(RecordKind.GAP, to_us, "", (group,)), [body])


def _members(members: Iterable[Member]) -> tuple[RecordedMember, ...]:
    return tuple([RecordedMember(one.daemon, one.name, one.incarnation, one.session) for one in members])


def _view_body(view: View) -> RecordedView:
    members = {member: place for place, member in enumerate(view.members)}
    return RecordedView(
        view.id,
        _members(view.members),
        tuple([members[one] for one in view.together]),
        view.cause,
        None if view.who is None else _members([view.who])[0],
        tuple([tuple([members[one] for one in some]) for some in view.sets]),
        view.primary,
    )


MANY_MESSAGES: Final = 4_000
WAIT_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 1.0
"""The interval between looks for new groups, and between retries of a refused append."""

ASKED_SECONDS: Final = 1.0
ASKED_WAIT_SECONDS: Final = 0.002
"""While somebody replays, each step is this short, so that the next page is not waited for."""

_GLOB: Final = frozenset("*?[")


class Spooler:
    """Spools all groups that match one of its patterns."""

    def __init__(
        self,
        session: Session,
        root: Path,
        patterns: Sequence[str],
        options: SpoolOptions,
        say: Callable[[str], None] = lambda _: None,
        heard: Callable[[EventSequence], None] = lambda _: None,
    ) -> None:
        """Joins nothing yet; `say` gets progress texts, `heard` gets every sequence of events."""
        self.session = session
        self.writers: dict[str, SpoolWriter] = {}
        self._root = root
        self._patterns = tuple(patterns)
        self._options = options
        self._say = say
        self._heard = heard
        self._builder = RunBuilder()
        self._earlier = spooled_groups(root)  # Of an earlier run; it goes on with those that match a pattern.
        self._waiting: dict[str, list[Portion]] = {}  # Refused by a disk, to be retried.
        self._look_at = 0.0
        self._asked_at = -ASKED_SECONDS  # When a program that replays last asked for a page.
        self._stopped = False

    def run(self) -> None:
        """Spools until `stop` is called, for example by a signal handler; errors of session or spool end it."""
        try:
            while not self._stopped:
                self.step()
        finally:
            self.close()

    def stop(self) -> None:
        """Ends `run` after the current step."""
        self._stopped = True

    def step(self, wait_seconds: float = WAIT_SECONDS) -> None:
        """Joins new groups if it is time, receives events, appends them."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self._join_new()
        if self._waiting:
            self._retry(wait_seconds)
            return
        self.session.handle_requests(timeout_seconds=0.0)
        if time.monotonic() - self._asked_at < ASKED_SECONDS:
            wait_seconds = min(wait_seconds, ASKED_WAIT_SECONDS)
        events = self.session.receive_many(max_messages=MANY_MESSAGES, max_wait_seconds=wait_seconds)
        self._heard(events)
        self._waiting = {group: portions(runs) for group, runs in self._builder.runs(events).items()}
        self._write()
        self._tick()

    def close(self) -> None:
        """Syncs and closes all spools."""
        writers, self.writers = self.writers, {}
        for writer in writers.values():
            writer.close()

    def _join_new(self) -> None:
        for group in sorted(self._wanted() - set(self.writers)):
            self._open(group)
            self._builder.open(group)
            self._serve(group)
            self.session.join(group)
            self._say(f"spooling {group} to {self.writers[group].directory} from {self.writers[group].end}")

    def _serve(self, group: str) -> None:
        """Answers requests for pages of the spool, from programs that replay it."""
        directory = self.writers[group].directory

        def page(request: Request) -> bytes:
            self._asked_at = time.monotonic()
            return answer(directory, request.data, self.session.message_bytes_max - ENVELOPE_BYTES_MAX)

        try:
            self.session.serve(group + REPLAY_SUFFIX, page)
        except (RequestRefused, NotAllowed) as error:
            self._say(f"{group} cannot be replayed over the network: {error}")

    def _wanted(self) -> set[str]:
        plain = {pattern for pattern in self._patterns if not _GLOB & set(pattern)}
        globs = [pattern for pattern in self._patterns if pattern not in plain]
        if not globs:
            return plain
        try:
            known = [one.name for one in self.session.groups(timeout_seconds=LOOK_SECONDS)]
        except TimedOut:
            return plain
        # A group that had only the spooler has no members while that is away, and senders go on.
        names = [name for name in {*known, *self._earlier} if not is_private(GroupName(name))]
        # A member of a group of servers would count as a server, and others would wait for its agreement.
        names = [name for name in names if served_by(name) is None and synchronous_of(name) is None]
        return plain | {name for name in names if any(fnmatchcase(name, glob) for glob in globs)}

    def _open(self, group: str) -> None:
        writer = SpoolWriter(self._root, group, self._options)
        self.writers[group] = writer
        found = writer.recovery
        if found.cut_bytes or found.damage:
            lost = ", ".join(f"{one.first} to {one.end}" for one in found.damage) or "none"
            self._say(f"{writer.directory}: cut a torn tail of {found.cut_bytes} bytes; damaged: {lost}")
        self.session._skip_batches(group, writer.marks)
        if writer.end:
            since_us, last = _last(writer)
            writer.append([away(group, "the spooler was not running", since_us, wall_us(), last)])

    def _write(self) -> None:
        """Appends the waiting portions group by group; a refused one stays for the next try."""
        for group in sorted(self._waiting):
            try:
                self._append(self.writers[group], self._waiting[group])
            except (SpoolFull, AppendFailed) as error:
                self._say(f"{error} (retried every {LOOK_SECONDS:g} s; nothing is received meanwhile)")
                return
            del self._waiting[group]

    def _append(self, writer: SpoolWriter, waiting: list[Portion]) -> None:
        while waiting:
            runs, mark = waiting[0]
            # The session has dropped duplicates. A new message with a lower number was overtaken, as FIFO and
            # Reliable messages may be: it is appended without a mark, and the higher mark stays.
            writer.append(runs, mark if mark is not None and writer.takes_mark(mark) else None)
            del waiting[0]

    def _retry(self, wait_seconds: float) -> None:
        time.sleep(min(LOOK_SECONDS, max(wait_seconds, 0.01)))
        self._write()

    def _tick(self) -> None:
        for writer in self.writers.values():
            try:
                writer.tick()
            except (SpoolFull, AppendFailed) as error:
                self._say(str(error))


def spooled_groups(root: Path) -> frozenset[str]:
    """The groups that have a spool below this directory; one that cannot be read is left out."""
    found: set[str] = set()
    with suppress(SpoolError):
        for directory in spools(root):
            with suppress(SpoolError, OSError):
                found.add(read_head(directory, bases(directory)[-1]).group)
    return frozenset(found)


def _last(writer: SpoolWriter) -> tuple[int, Place | None]:
    """The time of the last record, and its place if it is a message."""
    try:
        (record,) = read(writer.directory, writer.synced_end - 1, writer.synced_end)
    except (SpoolError, ValueError):
        return 0, None
    place = record.header.place
    return record.header.time_us, None if place == NO_PLACE else place
