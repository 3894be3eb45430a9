"""Alterations of the histories of worlds of peers: each breaks the property that it is listed with.

An alteration gives edits: by the place of an event in the history, what stands there instead.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace
from tests.unit.check.block_mutants import Edit, of

from hopring.check.rmp.peer_events import (
    BodySeen,
    DataSent,
    DataShown,
    EndSeen,
    FenceGiven,
    ListSeen,
    PeerSuspended,
    QueueSeen,
    SlotsOrdered,
    StrangerShown,
    ToldToAnswer,
    WindowSeen,
)
from hopring.check.rmp.peer_history import ListStay, PeerHistory, index_peers

Events = Sequence[Any]


def in_order(events: Events) -> Iterator[tuple[int, DataShown]]:
    return ((at, event) for at, event in of(events, DataShown) if event.timestamp and event.service.total)


def says_another_message(events: Events) -> Iterator[Edit]:
    places = Counter((one.epoch, one.timestamp) for _at, one in of(events, DataShown))
    for at, event in in_order(events):
        if places[event.epoch, event.timestamp] > 1:
            yield {at: [replace(event, message="zed:1")]}


def delivers_twice_in_order(events: Events) -> Iterator[Edit]:
    for at, event in in_order(events):
        yield {at: [event, event]}


def orders_without_a_body(events: Events) -> Iterator[Edit]:
    ordered = {(one.epoch, message): one for _at, one in of(events, SlotsOrdered) for message in one.messages}
    mine: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for at, one in of(events, SlotsOrdered):
        mine[one.process, one.epoch].append((at, one.timestamp))
    began = {(one.process, one.epoch): one.timestamp for _at, one in reversed([*of(events, ListSeen)])}
    sent = {(one.process, one.message) for _at, one in of(events, DataSent)}
    for at, body in of(events, BodySeen):
        for (epoch, message), ordering in ordered.items():
            later = [one for one in mine[body.process, epoch] if one[0] > at and one[1] > ordering.timestamp]
            made_before = any(events[place].timestamp == ordering.timestamp for place, _ in later)
            begin = began.get((body.process, epoch), 2**60)
            known = (body.process, message) in sent or ordering.timestamp < begin or made_before
            # The ordering has to be made before the later one is.
            if message == body.message and later and not known and ordering in events[: later[-1][0]]:
                yield {at: []}


def names_another(events: Events) -> Iterator[Edit]:
    last = {
        one.epoch: one.timestamp
        for _at, one in sorted(of(events, SlotsOrdered), key=lambda it: it[1].timestamp)
    }
    for at, event in of(events, SlotsOrdered):
        if event.timestamp < last[event.epoch]:
            yield {at: [replace(event, next="zed")]}


def stays_that_promise(events: Events, majority: bool) -> Iterator[tuple[PeerHistory, ListStay, DataShown]]:
    """Stays in lists in which somebody else delivers a resilient message, and who is in the stay does, too."""
    history = index_peers(events, quiet_end=True)
    for stay in history.all_stays:
        for other in history.all_stays:
            for shown in other.before_signal if other.place == stay.place else ():
                resilient = shown.resilience == 255 if majority else 0 < shown.resilience < 255
                if (
                    resilient
                    and not shown.withheld
                    and other.process != stay.process
                    and stay.after is not None
                ):
                    yield history, stay, shown


def forgets_what_survives(events: Events) -> Iterator[Edit]:
    for _history, stay, shown in stays_that_promise(events, majority=False):
        assert stay.after is not None
        if len(set(stay.installed.members) - set(stay.after.installed.together)) <= shown.resilience:
            yield deliveries_of(events, stay.process, shown.message)


def forgets_what_a_majority_has(events: Events) -> Iterator[Edit]:
    for _history, stay, shown in stays_that_promise(events, majority=True):
        assert stay.after is not None
        if stay.after.installed.primary:
            yield deliveries_of(events, stay.process, shown.message)


def deliveries_of(events: Events, process: str, message: str) -> Edit:
    return {at: [] for at, one in of(events, DataShown) if (one.process, one.message) == (process, message)}


def delivers_while_suspended(events: Events) -> Iterator[Edit]:
    for at, event in in_order(events):
        late = BodySeen(event.process, event.at_us, "zed:1")
        yield {at: [PeerSuspended(event.process, event.at_us), event, late]}


def brings_a_member_back(events: Events) -> Iterator[Edit]:
    for stay in index_peers(events, quiet_end=True).all_stays:
        if stay.before is not None and set(stay.before.installed.members) - set(stay.installed.members):
            members, later = stay.before.installed.members, stay.installed.timestamp + 1
            yield {stay.at: [stay.installed, replace(stay.installed, members=members, timestamp=later)]}


def joins_twice(events: Events) -> Iterator[Edit]:
    for at, event in of(events, ListSeen):
        if event.cause == "join" and event.who in event.members:
            yield {at: [event, event]}


def frees_all(events: Events) -> Iterator[Edit]:
    last = {one.epoch: at for at, one in of(events, SlotsOrdered)}
    history = index_peers(events, quiet_end=True)
    for at, event in of(events, QueueSeen):
        stays = [one for one in history.stays.get(event.process, ()) if one.at < at]
        if at < last.get(event.epoch, 0) and stays and stays[-1].place[0] == event.epoch:
            yield {at: [replace(event, kept_from=10**6, needed_from=10**6)]}


def keeps_what_nobody_needs(events: Events) -> Iterator[Edit]:
    for at, event in of(events, QueueSeen):
        yield {at: [replace(event, needed_from=event.kept_from + 1)]}


def gets_the_lock_of_another(events: Events) -> Iterator[Edit]:
    for at, event in of(events, FenceGiven):
        yield {at: [event, replace(event, process="zed")]}


def is_wrongly_told(events: Events) -> Iterator[Edit]:
    for at, event in of(events, ToldToAnswer):
        yield {at: [replace(event, holder=not event.holder)]}


def serves_twice(events: Events) -> Iterator[Edit]:
    for at, event in of(events, StrangerShown):
        if not event.repeat:
            yield {at: [event, event]}


def does_not_end_its_calls(events: Events) -> Iterator[Edit]:
    for at, event in of(events, EndSeen):
        yield {at: [replace(event, calls=1)]}


def passes_its_window(events: Events) -> Iterator[Edit]:
    for at, event in of(events, WindowSeen):
        yield {at: [replace(event, unacknowledged_bytes=event.window_bytes + 1)]}


def leaves_somebody_out(events: Events) -> Iterator[Edit]:
    by_epoch: defaultdict[int, list[tuple[int, SlotsOrdered]]] = defaultdict(list)
    for at, event in of(events, SlotsOrdered):
        by_epoch[event.epoch].append((at, event))
    for made in by_epoch.values():
        made.sort(key=lambda one: one[1].timestamp)
        ring = max([at for at, (_, one) in enumerate(made) if one.members], default=-1)
        members = made[ring][1].members if ring >= 0 else ()
        if len(members) > 1 and len(made) - ring > 2 * len(members) + 4:
            out = made[ring + 1][1].process
            other = next(one.process for _, one in made[ring + 1 :] if one.process != out)
            yield {at: [replace(one, process=other)] for at, one in made[ring:] if one.process == out}


RING_MUTANTS: dict[Callable[[Events], Iterator[Edit]], str] = {
    says_another_message: "R1",
    delivers_twice_in_order: "R2",
    orders_without_a_body: "R3",
    names_another: "R4",
    forgets_what_survives: "R5",
    forgets_what_a_majority_has: "R6",
    delivers_while_suspended: "R7",
    brings_a_member_back: "R8",
    joins_twice: "R9",
    frees_all: "R10",
    keeps_what_nobody_needs: "R11",
    gets_the_lock_of_another: "R12",
    is_wrongly_told: "R13",
    serves_twice: "R14",
    does_not_end_its_calls: "R15",
    passes_its_window: "R16",
    leaves_somebody_out: "R17",
}
"""By alteration: the property."""
