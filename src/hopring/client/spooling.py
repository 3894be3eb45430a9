"""What a client receives, as records of spools: events to runs, without a look at single messages.

Messages of one bundle that come one after the other become one run, mapped where they lie in the bundle. All
records carry the view that their group is in, as far as it was shown. Messages of batches that count once are
appended with their mark, so that a spooler knows after a restart what its spool has of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from hopring.client.events import Gap, Member, Reconnected, Transition, View
from hopring.client.once import LIVE
from hopring.client.runs import MessageRun
from hopring.client.sequence import EventSequence, Taken, microseconds
from hopring.groups.names import GroupViewId
from hopring.services import Service
from hopring.session.place import Place
from hopring.spool.bodies import GapBody, MemberBody, TransitionBody, ViewBody, encode_body
from hopring.spool.encode import Mark
from hopring.spool.record import NO_PLACE, NO_STEP, Facts, GroupStep, Kind, Run, run_of


@dataclass(frozen=True, slots=True)
class BatchRun(Run):
    """Messages of a batch that counts once, and the mark that says so in the spool."""

    mark: Mark = field(kw_only=True)  # Its number is that of the last message (wire/batch_mark.py).


class Portion(NamedTuple):
    """What is appended at once; an append has one mark."""

    runs: list[Run]
    mark: Mark | None = None


def portions(runs: Iterable[Run]) -> list[Portion]:
    """Runs in their order, cut where batches of two applications meet, and before each view.

    The latter is for joins that begin in the past (since.py): marks before a view are of what was before it.
    """
    out = [Portion([])]
    for run in runs:
        if run.facts.kind is Kind.VIEW and out[-1].runs:
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
class Scribe:
    """Writes events down for the groups that are spooled."""

    views: dict[str, GroupStep] = field(default_factory=dict)  # Of the groups that are spooled.

    def open(self, group: str) -> None:
        """From now on this group's events are wanted."""
        self.views.setdefault(group, NO_STEP)

    def runs(self, events: EventSequence) -> dict[str, list[Run]]:
        """The records of these events, by group, in their order."""
        out: dict[str, list[Run]] = {}
        for part in events.parts:
            its = [self._runs(part)] if isinstance(part, Taken) else map(self._messages, part.apart())
            for group, run in chain.from_iterable(its):
                out.setdefault(group, []).append(run)
        return out

    def _runs(self, taken: Taken) -> Iterator[tuple[str, Run]]:
        at_us = microseconds(taken.received_at_seconds)
        match taken.event:
            case View(group=group) as view:
                if group in self.views:
                    self.views[group] = step_of(view.id)
                return self._one((group,), Kind.VIEW, at_us, encode_body(_view_body(view)))
            case Transition(group=group) as signal:
                closing = TransitionBody(signal.id, _members(signal.members))
                return self._one((group,), Kind.TRANSITION, at_us, encode_body(closing))
            case Reconnected(groups=groups, gap=gap):
                times = microseconds(gap.lost_at_seconds), microseconds(gap.back_at_seconds)
                body = GapBody(f"reconnected: {gap.reason}", *times, None, gap.last)
                return self._one(groups, Kind.GAP, at_us, encode_body(body))
            case Gap() as gap:
                body = GapBody("the spooler was too slow", at_us, at_us, gap.messages)
                # If not all groups are named, it may be any.
                groups = gap.groups if gap.complete else tuple(self.views)
                return self._one(groups, Kind.GAP, at_us, encode_body(body))
            case _:
                return iter(())

    def _one(self, groups: Iterable[str], kind: Kind, at_us: int, body: bytes) -> Iterator[tuple[str, Run]]:
        for group in groups:
            if group in self.views:
                yield group, run_of(Facts(kind, at_us, "", (group,), view=self.views[group]), [body])

    def _messages(self, came: MessageRun) -> Iterator[tuple[str, Run]]:
        place = NO_PLACE if came.service is Service.UNRELIABLE else came.place
        mark = came._bundle.run.mark
        for group in came.groups:
            if group in self.views:
                facts = Facts(
                    Kind.MESSAGE,
                    microseconds(came.received_at_seconds),
                    came.sender,
                    came.groups,
                    came.service,
                    place,
                    self.views[group],
                )
                if mark is None:
                    yield group, Run(facts, came.types, came.offsets, came.whole, came.start)
                else:
                    last = Mark(LIVE + mark.app, mark.number + came.end - 1)
                    yield group, BatchRun(facts, came.types, came.offsets, came.whole, came.start, mark=last)


def step_of(view: GroupViewId) -> GroupStep:
    """A view's id as records carry it."""
    return GroupStep(view.view, view.signed)


def away(group: str, reason: str, from_us: int, to_us: int, last: Place | None) -> Run:
    """A record that says that nobody listened for a while."""
    body = encode_body(GapBody(reason, from_us, to_us, None, last))
    return run_of(Facts(Kind.GAP, to_us, "", (group,)), [body])


def _members(members: Iterable[Member]) -> tuple[MemberBody, ...]:
    return tuple([MemberBody(one.daemon, one.name, one.incarnation, one.session) for one in members])


def _view_body(view: View) -> ViewBody:
    members = {member: place for place, member in enumerate(view.members)}
    return ViewBody(
        view.id,
        _members(view.members),
        tuple([members[one] for one in view.together]),
        view.cause,
        None if view.who is None else _members([view.who])[0],
        tuple([tuple([members[one] for one in some]) for some in view.sets]),
    )
