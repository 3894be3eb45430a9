"""R7 to R9: suspended members, members that are gone for good, and joiners."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from hopring.check.rmp.peer_events import (
    DataShown,
    ListClosed,
    ListSeen,
    SlotsOrdered,
    StrangerAcknowledged,
    StrangerShown,
    ToldToAnswer,
    process_of,
)
from hopring.check.rmp.peer_history import PeerHistory, PeerReceipts, needed_of

FAILURE = "failure"

_WITH_DELIVERIES: Final = (ListClosed, StrangerShown, StrangerAcknowledged, ToldToAnswer)


def minimum_is_kept(history: PeerHistory) -> Iterator[str]:
    """R7: nothing is delivered in order while suspended, and no recovery goes below the minimum."""
    receipts = PeerReceipts()
    with_lists = _delivered_with_lists(history)
    for at, event in enumerate(history.events):
        receipts.see(event)
        if isinstance(event, DataShown) and event.process in receipts.suspended and event.service.total:
            if at in with_lists:
                continue  # The list that ends the suspension brings what others had delivered before it.
            yield f"{event.process} delivers {event.message} at {event.at_us} us, and is suspended"
        elif isinstance(event, SlotsOrdered) and event.process in receipts.suspended and event.messages:
            yield f"{event.process} orders at {event.timestamp} at {event.at_us} us, and is suspended"
    for stay in history.all_stays:
        if stay.before is None or stay.installed.cause != FAILURE:
            continue
        present, needed = len(stay.installed.members), needed_of(stay.before.installed)
        if present < needed:
            where = f"{stay.process} installs a list of {present} at {stay.installed.at_us} us"
            yield f"{where}, and {needed} of the {len(stay.before.installed.members)} before were needed"


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


def gone_is_gone(history: PeerHistory) -> Iterator[str]:
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
                yield f"{back[0]} is in {where} again, as {process} sees it"
                gone -= members


def joiner_is_next(history: PeerHistory) -> Iterator[str]:
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
                yield f"{event.process} delivers {event.message} {where}"


def _place_of_joiner(joined: ListSeen, maker: SlotsOrdered) -> Iterator[str]:
    ring = [process_of(one) for one in joined.members]
    joiner, where = process_of(joined.who), f"the list at {joined.timestamp} of epoch {joined.epoch}"
    if maker.process in ring and ring[(ring.index(maker.process) + 1) % len(ring)] != joiner:
        yield f"{joiner} does not stand behind {maker.process} in {where}"
    if maker.next != joiner:
        yield f"{maker.process} names {maker.next} in {where}, and not {joiner}, which joins"


def _moved(history: PeerHistory) -> Iterator[str]:
    """Members of a list that stand in another order than in the list before it in its epoch."""
    for (place, one), (after, other) in pairwise(sorted(history.lists.items())):
        if place[0] == after[0]:
            before = [member for member in one.members if member in other.members]
            now = [member for member in other.members if member in one.members]
            if before != now:
                yield f"members move in the list at {after[1]} of epoch {after[0]}: {' '.join(other.members)}"


def _ordered_twice(history: PeerHistory) -> Iterator[str]:
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
            yield f"{stay.installed.who} joins {where}, as {stay.process} sees it, and is a member already"
