"""R10, R11, R15 and R16: what members keep, what waits at the end, and the limits of sending."""

from collections.abc import Iterator

from hopring.check.rmp.peer_events import (
    AskedToJoin,
    EndSeen,
    ListSeen,
    PacketSentAgain,
    QueueSeen,
    WindowSeen,
    process_of,
)
from hopring.check.rmp.peer_history import PeerHistory, PeerReceipts, RingFault


def freed_is_held(history: PeerHistory) -> Iterator[RingFault]:
    """R10: a slot is freed only when every process in its list and in the present one has received it."""
    receipts = PeerReceipts()
    present: dict[str, ListSeen] = {}
    freed: dict[tuple[str, int, int], int] = {}  # The timestamps below which all has been judged.
    begins = history.begins()
    for event in history.events:
        receipts.see(event)
        if isinstance(event, ListSeen):
            present[event.process] = event
        elif isinstance(event, QueueSeen) and event.process in present:
            key = event.process, receipts.ended[event.process], event.epoch
            now = present[event.process]
            # Before the first list of its stay it keeps nothing that is its own.
            if now.epoch != event.epoch or key not in begins:
                continue
            begin = freed.get(key, begins[key])
            for ordering in history.in_order(event.epoch):
                if not begin <= ordering.timestamp or ordering.last >= event.kept_from:
                    continue
                for process in _in_both(history, event.epoch, ordering.timestamp, now):
                    lacking = receipts.lacks(process, ordering)
                    if lacking:
                        what = f"{event.process} has freed everything below {event.kept_from}"
                        lacks = f"{what} at {event.at_us} us, and {process} lacks {lacking}"
                        yield RingFault(event, lacks)
            freed[key] = max(begin, event.kept_from)


def _in_both(history: PeerHistory, epoch: int, timestamp: int, now: ListSeen) -> list[str]:
    """The processes of the list at this timestamp that are in the present one, as the same members."""
    then = [one for (of, at), one in history.lists.items() if of == epoch and at <= timestamp]
    if not then:
        return []
    members = set(max(then, key=lambda one: one.timestamp).members) & set(now.members)
    return sorted([process_of(one) for one in members])


def kept_is_needed(history: PeerHistory) -> Iterator[RingFault]:
    """R11: nothing is kept that nobody needs, and no message is in the DataList and in a slot."""
    for event in history.of_kind(QueueSeen):
        if event.kept_from < event.needed_from:
            what = f"{event.process} keeps the slots from {event.kept_from} at {event.at_us} us"
            yield RingFault(event, f"{what}, and needs those from {event.needed_from}")
        both = sorted(set(event.waiting) & set(event.queued))
        if both:
            has = f"{event.process} has {both[0]} in its DataList and in a slot"
            yield RingFault(event, f"{has} at {event.at_us} us")


def comes_to_rest(history: PeerHistory) -> Iterator[RingFault]:
    """R15: at the quiet end nothing waits, all who can reach each other share a list, and little is sent."""
    if not history.quiet_end:
        return
    for end in history.of_kind(EndSeen):
        if end.calls:
            calls = f"{end.calls} calls of {end.process}"
            yield RingFault(end, f"{calls} are neither answered nor failed at the end")
    ends = [one for one in history.of_kind(EndSeen) if not one.apart]
    for end in ends:
        if end.unplaced:
            messages = f"{end.unplaced} messages of {end.process}"
            yield RingFault(end, f"{messages} have no place in the order at the end")
        if end.idle_passes > end.idle_passes_max:
            passes = f"{end.process} saw the token pass {end.idle_passes} times in the last second"
            yield RingFault(end, f"{passes}, and {end.idle_passes_max} are enough for an idle ring")
    first = {one.process: one for one in reversed(ends)}
    last = {process: _last_place(history, process) for process in first}
    latest = max([one for one in last.values() if one is not None], default=None)
    for process, place in sorted(last.items()):
        if place is None or place != latest:
            where = f"{process} is in {_place(place)} at the end"
            yield RingFault(first[process], f"{where}, and others are in another list")


def _last_place(history: PeerHistory, process: str) -> tuple[int, int] | None:
    stays = history.stays.get(process)
    return None if not stays or stays[-1].ended else stays[-1].place


def _place(place: tuple[int, int] | None) -> str:
    return "no list" if place is None else f"the list at {place[1]} of epoch {place[0]}"


def limits_hold(history: PeerHistory) -> Iterator[RingFault]:
    """R16: windows hold, no packet is sent for ever, and a list has the greatest minimum of its members."""
    asked: dict[str, int] = {}
    for event in history.events:
        if isinstance(event, AskedToJoin):
            asked[event.process] = event.minimum
        elif isinstance(event, ListSeen):
            greatest = max([asked.get(process_of(one), 1) for one in event.members], default=1)
            if event.minimum != greatest:
                what = f"{event.process} has a list with a minimum of {event.minimum} at {event.at_us} us"
                yield RingFault(event, f"{what}, and a member asked for {greatest}")
        elif isinstance(event, WindowSeen) and event.unacknowledged_bytes > event.window_bytes:
            sizes = f"{event.unacknowledged_bytes} bytes under way, and its window is {event.window_bytes}"
            yield RingFault(event, f"{event.process} has {sizes} at {event.at_us} us")
        elif isinstance(event, PacketSentAgain) and event.times > event.allowed:
            sent = f"{event.process} sent {event.packet} {event.times} times by {event.at_us} us"
            yield RingFault(event, f"{sent}, and {event.allowed} are allowed")
