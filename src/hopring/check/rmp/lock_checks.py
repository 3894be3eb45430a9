"""R12 to R14: locks of the list, and calls by handlers and by processes that are no members."""

from collections.abc import Iterator

from hopring.check.rmp.peer_events import (
    FenceGiven,
    RingStayEnded,
    StrangerAcknowledged,
    StrangerShown,
    ToldToAnswer,
)
from hopring.check.rmp.peer_history import PeerHistory, RingFault


def one_holder(history: PeerHistory) -> Iterator[RingFault]:
    """R12: a lock has one holder at each place of the order; fences rise, and are given in primary lists."""
    holders: dict[tuple[str, int, int], FenceGiven] = {}
    for event in history.of_kind(FenceGiven):
        first = holders.setdefault((event.lock, event.epoch, event.timestamp), event)
        if first.process != event.process:
            where = f"{event.lock} at {event.timestamp} of epoch {event.epoch}"
            yield RingFault(event, f"{first.process} and {event.process} both get {where}")
        if not event.primary and not event.partial:
            gets = f"{event.process} gets {event.lock} at {event.at_us} us"
            yield RingFault(event, f"{gets} outside of primary lists")
    highest: dict[str, FenceGiven] = {}
    for key in sorted(holders):
        event = holders[key]
        if not event.primary:
            continue
        before = highest.get(event.lock)
        if before is not None and event.fence <= before.fence:
            fences = f"fence {event.fence} of {event.lock} for {event.process}"
            earlier = f"{before.fence} of {before.process}, which comes earlier in the order"
            yield RingFault(event, f"{fences} is not above {earlier}")
        highest[event.lock] = event


def holder_answers(history: PeerHistory) -> Iterator[RingFault]:
    """R13: of those that deliver a request exactly the holder of its handler is told to answer, and once."""
    told: set[tuple[str, str]] = set()
    for event in history.of_kind(ToldToAnswer):
        if event.holder is not (event.process == event.owner):
            told_to = "is told to answer" if event.holder else "is not told to answer"
            owner = event.owner or "nobody"
            told_what = f"{event.process} {told_to} {event.message}"
            yield RingFault(event, f"{told_what}, and {owner} has handler {event.handler}")
        if event.holder and not event.again:
            if (event.process, event.message) in told:
                yield RingFault(event, f"{event.process} is told to answer {event.message} twice")
            told.add((event.process, event.message))


def strangers_are_served(history: PeerHistory) -> Iterator[RingFault]:
    """R14: who acknowledges a stranger's packet has delivered it, and once, unless it is repeated.

    That is in one stay: a member that comes to another ring delivers there what that ring delivers.
    """
    shown: dict[str, set[tuple[str, str]]] = {}
    for event in history.events:
        if isinstance(event, RingStayEnded):
            shown.pop(event.process, None)
        elif isinstance(event, StrangerShown):
            mine = shown.setdefault(event.process, set())
            if (event.client, event.message) in mine and not event.repeat:
                yield RingFault(event, f"{event.process} delivers {event.message} of {event.client} twice")
            mine.add((event.client, event.message))
        elif isinstance(event, StrangerAcknowledged):
            who = f"{event.process} acknowledges {event.message} of {event.client}"
            if (event.client, event.message) not in shown.get(event.process, ()):
                yield RingFault(event, f"{who} at {event.at_us} us, and has not delivered it")
