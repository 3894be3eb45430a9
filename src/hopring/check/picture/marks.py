"""A history as marks on lanes: of all daemons, or of the sessions of one group."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from hopring.check.trace import (
    AsksJoin,
    AsksLeave,
    ClientConnected,
    ClientDelivered,
    ClientSent,
    Crash,
    Event,
    Gone,
    GroupInstalled,
    GroupLeft,
    GroupSignal,
    GroupViewName,
    MessageDelivered,
    MessageId,
    MessageSent,
    ProcessName,
    Recover,
    Signalled,
    ViewInstalled,
    ViewName,
)
from hopring.errors import HopError
from hopring.services import Service

AnyView = ViewName | GroupViewName


class PictureError(HopError, ValueError):
    """A history of which there is nothing to draw."""


class MarkKind(StrEnum):
    """The kind of event a mark stands for."""

    RECOVER = "starts"
    CRASH = "ends"
    VIEW = "view"
    SIGNAL = "transitional signal"
    SEND = "sends"
    DELIVER = "delivers"
    JOIN = "asks to join"
    LEAVE = "asks to leave"
    LEFT = "has left"
    GONE = "is gone"
    LOST = "ends in silence"  # Known only because its daemon starts again.


@dataclass(frozen=True, slots=True)
class PictureMark:
    """Something that happened at a process."""

    kind: MarkKind
    process: ProcessName
    at_us: int
    view: AnyView | None = None  # Installed here, or closed by this signal.
    members: tuple[ProcessName, ...] = ()
    together: tuple[ProcessName, ...] = ()
    message: MessageId | None = None
    service: Service | None = None


def marks_of(history: Sequence[Event], group: str | None) -> list[PictureMark]:
    """All marks by their time; those of one process in their order."""
    found = _of_daemons(history) if group is None else _of_group(history, group)
    return sorted(_forward(found), key=lambda mark: mark.at_us)


def names_of(history: Iterable[Event]) -> dict[ProcessName, str]:
    """The names of the sessions of a history."""
    return {event.process: event.name for event in history if isinstance(event, ClientConnected)}


def told_apart(names: dict[ProcessName, str]) -> dict[ProcessName, str]:
    """The names, with that of the daemon where several sessions have the same."""
    often = Counter(names.values())
    return {one: name if often[name] == 1 else f"{name}#{one.daemon}" for one, name in names.items()}


def groups_of(history: Iterable[Event]) -> list[str]:
    """The groups that some session asked to join."""
    return sorted({event.group for event in history if isinstance(event, AsksJoin | GroupInstalled)})


def _of_daemons(history: Sequence[Event]) -> list[PictureMark]:
    found: list[PictureMark] = []
    latest: dict[str, PictureMark] = {}  # By daemon.
    for event in history:
        mark = _daemon_mark(event)
        if mark is None:
            continue
        before = latest.get(mark.process.daemon)
        if before is not None and before.process != mark.process and before.kind is not MarkKind.CRASH:
            found.append(PictureMark(MarkKind.LOST, before.process, before.at_us))
        latest[mark.process.daemon] = mark
        found.append(mark)
    if any(mark.kind not in (MarkKind.RECOVER, MarkKind.CRASH, MarkKind.LOST) for mark in found):
        return found
    groups = groups_of(history)
    if groups:
        raise PictureError(f"the trace has no events of daemons; choose a group: {', '.join(groups)}")
    raise PictureError("the trace has no views and no messages")


def _daemon_mark(event: Event) -> PictureMark | None:
    match event:
        case Recover(process, at_us):
            return PictureMark(MarkKind.RECOVER, process, at_us)
        case Crash(process, at_us):
            return PictureMark(MarkKind.CRASH, process, at_us)
        case ViewInstalled(process, at_us, view, members, together):
            return PictureMark(MarkKind.VIEW, process, at_us, view, members, together)
        case Signalled(process, at_us, view, together):
            return PictureMark(MarkKind.SIGNAL, process, at_us, view, (), together)
        case MessageSent(process, at_us, _, message, service):
            return PictureMark(MarkKind.SEND, process, at_us, message=message, service=service)
        case MessageDelivered(process, at_us, _, message, service):
            return PictureMark(MarkKind.DELIVER, process, at_us, message=message, service=service)
        case _:
            return None


def _of_group(history: Sequence[Event], group: str) -> list[PictureMark]:
    """The marks of one group. The end of a daemon is no event of its sessions, so it is added here."""
    found: list[PictureMark] = []
    there: dict[ProcessName, PictureMark] = {}  # The last mark of each session that is not gone.
    for event in history:
        if isinstance(event, Crash | Recover):
            ended = [one for one in there.values() if one.process.daemon == event.process.daemon]
            for one in ended:
                del there[one.process]
                same = one.process.incarnation == event.process.incarnation
                end = (MarkKind.CRASH, event.at_us) if same else (MarkKind.LOST, one.at_us)
                found.append(PictureMark(end[0], one.process, end[1]))
            continue
        mark = _session_mark(event, group)
        if mark is None or (mark.kind is MarkKind.GONE and event.process not in there):
            continue
        found.append(mark)
        there[event.process] = mark
        if mark.kind is MarkKind.GONE:
            del there[event.process]
    if found:
        return found
    groups = groups_of(history)
    known = f"there are {', '.join(groups)}" if groups else "nobody in this trace joins any group"
    raise PictureError(f"the trace has nothing of the group {group!r}; {known}")


def _session_mark(event: Event, group: str) -> PictureMark | None:
    match event:
        case AsksJoin(process, at_us, asked) if asked == group:
            return PictureMark(MarkKind.JOIN, process, at_us)
        case AsksLeave(process, at_us, asked) if asked == group:
            return PictureMark(MarkKind.LEAVE, process, at_us)
        case GroupLeft(process, at_us, left) if left == group:
            return PictureMark(MarkKind.LEFT, process, at_us)
        case Gone(process, at_us):
            return PictureMark(MarkKind.GONE, process, at_us)
        case GroupInstalled(process, at_us, of, view, members, together) if of == group:
            return PictureMark(MarkKind.VIEW, process, at_us, view, members, together)
        case GroupSignal(process, at_us, of, view, together) if of == group:
            return PictureMark(MarkKind.SIGNAL, process, at_us, view, (), together)
        case ClientSent(process, at_us, groups, message, service) if group in groups:
            return PictureMark(MarkKind.SEND, process, at_us, message=message, service=service)
        case ClientDelivered(process, at_us, groups, message, service) if group in groups:
            return PictureMark(MarkKind.DELIVER, process, at_us, message=message, service=service)
        case _:
            return None


def _forward(found: Iterable[PictureMark]) -> Iterable[PictureMark]:
    """The marks with times that never go back in a process, even if its clock did."""
    latest: dict[ProcessName, int] = {}
    for mark in found:
        at_us = max(mark.at_us, latest.get(mark.process, mark.at_us))
        latest[mark.process] = at_us
        yield mark if at_us == mark.at_us else replace(mark, at_us=at_us)


ENDS: Final = (MarkKind.CRASH, MarkKind.GONE, MarkKind.LOST)


@dataclass(frozen=True, slots=True)
class PlacedMark:
    """A mark at its place; at 0 if it was before the window."""

    mark: PictureMark
    lane: int
    x: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """A lane in a view."""

    lane: int
    view: AnyView
    begin: float
    signal: float | None  # From here on the view is closing.
    end: float


@dataclass(frozen=True, slots=True, order=True)
class DrawnLife:
    """A process on its lane."""

    lane: int
    begin: float
    end: float


def walk(marks: Iterable[PlacedMark], width_px: float) -> tuple[list[Stretch], list[DrawnLife]]:
    """The stretches and lives on the page. A process that has not ended goes on to the right end."""
    way = _Way()
    for shown in marks:
        way.go(shown)
    for walker in list(way.there.values()):
        way.end(walker, width_px)
    # Processes and stays that ended before the window are not on the page.
    return [one for one in way.stretches if one.end > 0.0], sorted(one for one in way.lives if one.end > 0.0)


@dataclass(slots=True)
class _Walker:
    lane: int
    begin: float
    view: AnyView | None = None
    since: float = 0.0
    signal: float | None = None


@dataclass(slots=True)
class _Way:
    there: dict[ProcessName, _Walker] = field(default_factory=dict)
    stretches: list[Stretch] = field(default_factory=list)
    lives: list[DrawnLife] = field(default_factory=list)

    def go(self, shown: PlacedMark) -> None:
        mark = shown.mark
        walker = self.there.setdefault(mark.process, _Walker(shown.lane, shown.x))
        if mark.kind is MarkKind.VIEW:
            self._close(walker, shown.x)
            walker.view, walker.since = mark.view, shown.x
        elif mark.kind is MarkKind.SIGNAL:
            walker.signal = shown.x
        elif mark.kind is MarkKind.LEFT:
            self._close(walker, shown.x)
        elif mark.kind in ENDS:
            self.end(self.there.pop(mark.process), shown.x)

    def end(self, walker: _Walker, x: float) -> None:
        self._close(walker, x)
        self.lives.append(DrawnLife(walker.lane, walker.begin, x))

    def _close(self, walker: _Walker, x: float) -> None:
        if walker.view is not None:
            self.stretches.append(Stretch(walker.lane, walker.view, walker.since, walker.signal, x))
        walker.view, walker.signal = None, None
