"""R7 to R9: suspended members, members that are gone for good, and joiners."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from hopring.check.rmp.peer_events import (
    AskedToJoin,
    DataShown,
    ListClosed,
    ListSeen,
    SlotsOrdered,
    StrangerAcknowledged,
    StrangerShown,
    ToldToAnswer,
    process_of,
)
from hopring.check.rmp.peer_history import PeerHistory, PeerReceipts, RingFault, needed_of

FAILURE = "failure"

_WITH_DELIVERIES: Final = (ListClosed, StrangerShown, StrangerAcknowledged, ToldToAnswer)


def minimum_is_kept(history: PeerHistory) -> Iterator[RingFault]:
    """R7: nothing is delivered in order while suspended, and no recovery goes below the minimum.

    Lists that are ordered between the two count, though a recovery does not show them: leavers are not needed.
    """
    receipts = PeerReceipts()
    asked = {event.process: event.minimum for event in history.of_kind(AskedToJoin)}
    with_lists = _delivered_with_lists(history)
    for at, event in enumerate(history.events):
        receipts.see(event)
        if isinstance(event, DataShown) and event.process in receipts.suspended and event.service.total:
            if at in with_lists:
                continue  # The list that ends the suspension brings what others had delivered before it.
            delivers = f"{event.process} delivers {event.message} at {event.at_us} us"
            yield RingFault(event, f"{delivers}, and is suspended")
        elif isinstance(event, SlotsOrdered) and event.process in receipts.suspended and event.messages:
            orders = f"{event.process} orders at {event.timestamp} at {event.at_us} us"
            yield RingFault(event, f"{orders}, and is suspended")
    for stay in history.all_stays:
        if stay.before is None or stay.installed.cause != FAILURE:
            continue
        before = _last_ordered(history, stay.before.installed, stay.installed, asked)
        present, needed = len(stay.installed.members), needed_of(before)
        if present < needed:
            where = f"{stay.process} installs a list of {present} at {stay.installed.at_us} us"
            size = len(before.members)
            yield RingFault(stay.installed, f"{where}, and {needed} of the {size} before were needed")


def _last_ordered(
    history: PeerHistory, before: ListSeen, after: ListSeen, asked: Mapping[str, int]
) -> ListSeen:
    """The last list that was ordered in the epoch of the one before, below the timestamp of the one after."""
    ordered = [
        one
        for one in history.orderings.get(before.epoch, ())
        if one.members and before.timestamp < one.timestamp < after.timestamp
    ]
    if not ordered:
        return before
    last = max(ordered, key=lambda one: (one.timestamp, history.place_of(one)))
    minimum = max([asked.get(process_of(one), before.minimum) for one in last.members])
    return replace(before, members=last.members, minimum=minimum)


def _delivered_with_lists(history: PeerHistory) -> set[int]:
    """Deliveries after which the process does nothing until it installs a list: its commit makes them."""
    found: set[int] = set()
    commits: set[str] = set()
    for at, event in reversed(list(enumerate(history.events))):
        if isinstance(event, ListSeen):
            commits.add(event.process)
        elif isinstance(event, DataShown) and event.process in commits:
            found.add(at)
        elif not isinstance(event, _WITH_DELIVERIES):
            commits.discard(event.process)
    return found


def gone_is_gone(history: PeerHistory) -> Iterator[RingFault]:
    """R8: a member that left or was removed is in no later list of those who saw that."""
    for process in sorted(history.stays):
        gone: set[str] = set()
        for stay in history.stays[process]:
            if stay.before is None:
                gone = set()
                continue
            members = set(stay.installed.members)
            gone |= set(stay.before.installed.members) - members
            back = sorted(gone & members)
            if back:
                where = f"the list at {stay.installed.timestamp} of epoch {stay.installed.epoch}"
                yield RingFault(stay.installed, f"{back[0]} is in {where} again, as {process} sees it")
                gone -= members


def joiner_is_next(history: PeerHistory) -> Iterator[RingFault]:
    """R9: a joiner stands behind who ordered its list, orders next, and delivers nothing from before it.

    Others keep their places: a request that is carried out twice would move its member.
    """
    joins = {place: one for place, one in history.lists.items() if one.cause == "join" and one.who}
    for (epoch, timestamp), joined in sorted(joins.items()):
        maker = next((one for one in history.orderings.get(epoch, ()) if one.timestamp == timestamp), None)
        if maker is not None and maker.process != process_of(joined.who):
            yield from _place_of_joiner(joined, maker)
    yield from _ordered_twice(history)
    yield from _moved(history)
    begins: dict[tuple[str, int], int] = {}
    for event in history.events:
        if isinstance(event, ListSeen):
            begins.setdefault((event.process, event.epoch), event.timestamp)
        elif isinstance(event, DataShown) and event.timestamp:
            begin = begins.get((event.process, event.epoch), 0)
            if event.timestamp < begin:
                where = f"at {event.timestamp} of epoch {event.epoch}, below its first list at {begin}"
                yield RingFault(event, f"{event.process} delivers {event.message} {where}")


def _place_of_joiner(joined: ListSeen, maker: SlotsOrdered) -> Iterator[RingFault]:
    ring = [process_of(one) for one in joined.members]
    joiner, where = process_of(joined.who), f"the list at {joined.timestamp} of epoch {joined.epoch}"
    if maker.process in ring and ring[(ring.index(maker.process) + 1) % len(ring)] != joiner:
        yield RingFault(joined, f"{joiner} does not stand behind {maker.process} in {where}")
    if maker.next != joiner:
        names = f"{maker.process} names {maker.next} in {where}"
        yield RingFault(joined, f"{names}, and not {joiner}, which joins")


def _moved(history: PeerHistory) -> Iterator[RingFault]:
    """Members of a list that stand in another order than in the list before it in its epoch."""
    for (place, one), (after, other) in pairwise(sorted(history.lists.items())):
        if place[0] == after[0]:
            before = [member for member in one.members if member in other.members]
            now = [member for member in other.members if member in one.members]
            if before != now:
                where = f"the list at {after[1]} of epoch {after[0]}"
                yield RingFault(other, f"members move in {where}: {' '.join(other.members)}")


def _ordered_twice(history: PeerHistory) -> Iterator[RingFault]:
    """Lists that carry out a join of somebody who is a member already."""
    for stay in history.all_stays:
        if (
            stay.before is None
            or stay.installed.cause != "join"
            or stay.before.installed.epoch != stay.installed.epoch
        ):
            continue
        if stay.installed.who in stay.before.installed.members:
            where = f"at {stay.installed.timestamp} of epoch {stay.installed.epoch}"
            joins = f"{stay.installed.who} joins {where}, as {stay.process} sees it"
            yield RingFault(stay.installed, f"{joins}, and is a member already")
