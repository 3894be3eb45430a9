"""R1 to R17 again, word for word and slowly: twins of the checks, which must agree with them on any history.

Everything is asked of pairs and triples of events, without an index and without a state that is carried along.
"""

from collections.abc import Callable, Iterator
from itertools import permutations

from hopring.check.rmp.peer_events import (
    AskedToJoin,
    BodySeen,
    DataSent,
    DataShown,
    EndSeen,
    FenceGiven,
    ListClosed,
    ListSeen,
    OrderingSeen,
    PacketSentAgain,
    PassConfirmed,
    PeerEvent,
    PeerSuspended,
    QueueSeen,
    RingStayEnded,
    SlotsOrdered,
    StrangerAcknowledged,
    StrangerShown,
    ToldToAnswer,
    WindowSeen,
    number_of,
    process_of,
    source_of,
)

Events = list[PeerEvent]


def the_list_of(events: Events, process: str, at: int) -> ListSeen | None:
    """The list that a process is in just before an event."""
    for event in reversed(events[:at]):
        if event.process == process and isinstance(event, RingStayEnded):
            return None
        if event.process == process and isinstance(event, ListSeen):
            return event
    return None


def next_list(events: Events, at: int) -> int | None:
    """The place in the history of the list that follows a list, in the same stay of its process."""
    for later in range(at + 1, len(events)):
        if events[later].process == events[at].process:
            if isinstance(events[later], RingStayEnded):
                return None
            if isinstance(events[later], ListSeen):
                return later
    return None


def lists_of(events: Events) -> Iterator[tuple[int, ListSeen]]:
    return ((at, event) for at, event in enumerate(events) if isinstance(event, ListSeen))


def said(event: PeerEvent) -> dict[tuple[int, int], object]:
    """What an event says about places in the order."""
    if isinstance(event, SlotsOrdered):
        own = ("list", event.members) if event.members else ("ack", event.process, event.next)
        return {
            (event.epoch, event.timestamp): own,
            **{(event.epoch, event.timestamp + 1 + at): one for at, one in enumerate(event.messages)},
        }
    if isinstance(event, DataShown) and event.timestamp:
        return {(event.epoch, event.timestamp): event.message}
    return {(event.epoch, event.timestamp): ("list", event.members)} if isinstance(event, ListSeen) else {}


def r1(events: Events) -> bool:
    return all(
        said(one).get(place, what) == what
        for one in events
        for other in events
        for place, what in said(other).items()
    )


def placed(event: PeerEvent) -> bool:
    in_order = isinstance(event, DataShown) and event.timestamp and event.service.total
    return isinstance(event, ListSeen) or bool(in_order)


def r2(events: Events) -> bool:
    for at, one in enumerate(events):
        for other in events[at + 1 :]:
            if one.process == other.process and placed(one) and placed(other) and one.epoch == other.epoch:  # type: ignore[union-attr]
                between = [
                    event
                    for event in events[at + 1 : events.index(other, at + 1)]
                    if event.process == one.process and placed(event) and event.epoch == one.epoch  # type: ignore[union-attr]
                ]
                if not between and other.timestamp <= one.timestamp:  # type: ignore[union-attr]
                    return False
    for epoch in {one.epoch for one in events if isinstance(one, SlotsOrdered)}:
        made = sorted(
            [one for one in events if isinstance(one, SlotsOrdered) and one.epoch == epoch],
            key=lambda one: one.timestamp,
        )
        ordered: list[tuple[int, str]] = [(at, one) for at, made_ in enumerate(made) for one in made_.messages]
        for place, (at, message) in enumerate(ordered):
            for was_at, before in reversed(ordered[:place]):
                if source_of(before) != source_of(message):
                    continue
                new = joined_between(made, was_at, at, source_of(message))
                if not new and number_of(message) != number_of(before) + 1:
                    return False
                break
    return True


def joined_between(made: list[SlotsOrdered], first: int, last: int, source: str) -> bool:
    """Whether a list between these two makes a member of the source that was none in the list before it."""
    for at in range(first + 1, last):
        if made[at].members:
            before = next((one.members for one in reversed(made[:at]) if one.members), ())
            if any(process_of(one) == source and one not in before for one in made[at].members):
                return True
    return False


def has(events: Events, until: int, process: str, ordering: SlotsOrdered) -> bool:
    """Whether the process has the ordering and its bodies before this event."""
    past = events[:until]
    knows = any(
        isinstance(one, OrderingSeen | SlotsOrdered)
        and (one.process, one.epoch, one.timestamp) == (process, ordering.epoch, ordering.timestamp)
        for one in past
    )
    bodies = [one.message for one in past if isinstance(one, BodySeen | DataSent) and one.process == process]
    return knows and set(ordering.messages) <= set(bodies)


def one_stay(events: Events, one: int, other: int) -> bool:
    """Whether the process of these two events has not left the ring between them."""
    between = events[min(one, other) : max(one, other)]
    return not any(isinstance(it, RingStayEnded) and it.process == events[one].process for it in between)


def r3(events: Events) -> bool:
    for at, one in enumerate(events):
        if not isinstance(one, SlotsOrdered | PassConfirmed):
            continue
        until = one.timestamp + isinstance(one, PassConfirmed)
        begins = [
            event.timestamp
            for place, event in lists_of(events)
            if (event.process, event.epoch) == (one.process, one.epoch) and one_stay(events, place, at)
        ]
        for other in events[:at]:
            if isinstance(other, SlotsOrdered) and other.epoch == one.epoch and begins:
                below = min(begins) <= other.timestamp < until
                if below and not has(events, at, one.process, other):
                    return False
    return True


def r4(events: Events) -> bool:
    made = [one for one in events if isinstance(one, SlotsOrdered)]
    for one, other in permutations(made, 2):
        if one.epoch != other.epoch:
            continue
        if one.timestamp == other.timestamp:
            return False
        between = [
            third
            for third in made
            if third.epoch == one.epoch and one.timestamp < third.timestamp < other.timestamp
        ]
        follows = one.timestamp < other.timestamp and not between
        if follows and (other.timestamp != one.timestamp + len(one.messages) + 1 or one.next != other.process):
            return False
    return True


def promises(events: Events) -> Iterator[tuple[ListSeen, DataShown]]:
    """Resilient messages that are delivered before a signal, with the list they are delivered in."""
    for at, one in enumerate(events):
        if isinstance(one, DataShown) and one.resilience and not one.withheld:
            here = the_list_of(events, one.process, at)
            since = 0 if here is None else max(place for place in range(at) if events[place] is here)
            signals = [e for e in events[since:at] if isinstance(e, ListClosed) and e.process == one.process]
            if here is not None and not signals:
                yield here, one


def delivered(events: Events, until: int, process: str, message: str) -> bool:
    """Whether a process has delivered a message as a member, before this event."""
    return any(
        isinstance(one, DataShown)
        and (one.process, one.message) == (process, message)
        and not one.withheld
        and the_list_of(events, process, at) is not None
        for at, one in enumerate(events[:until])
    )


def r5(events: Events) -> bool:
    for here, shown in promises(events):
        for at, stay in lists_of(events):
            after = next_list(events, at)
            if (stay.epoch, stay.timestamp) != (here.epoch, here.timestamp) or after is None:
                continue
            next_one = events[after]
            assert isinstance(next_one, ListSeen)
            lost = len(set(stay.members) - set(next_one.together))
            promised = shown.resilience != 255 and lost <= shown.resilience
            if promised and not delivered(events, after, stay.process, shown.message):
                return False
    return True


def r6(events: Events) -> bool:
    by_place: dict[tuple[int, int], ListSeen] = {}
    for _, one in lists_of(events):
        by_place.setdefault((one.epoch, one.timestamp), one)
    chain = [by_place[place] for place in sorted(by_place) if by_place[place].primary]
    for at in range(1, len(chain)):
        before, after = chain[at - 1], chain[at]
        common = [one for one in before.members if one in after.members]
        if after.cause == "failure" and len(common) * 2 <= len(before.members):
            return False
    for here, shown in promises(events):
        for at, stay in lists_of(events):
            if shown.resilience != 255 or (stay.epoch, stay.timestamp) != (here.epoch, here.timestamp):
                continue
            later = next_primary(events, at)
            if later is not None and not delivered(events, later, stay.process, shown.message):
                return False
    return not in_a_circle(events)


def next_primary(events: Events, at: int) -> int | None:
    """The place of the first primary list that follows a list, in the same stay."""
    later = next_list(events, at)
    while later is not None:
        event = events[later]
        assert isinstance(event, ListSeen)
        if event.primary:
            return later
        later = next_list(events, later)
    return None


def in_a_circle(events: Events) -> bool:
    """Whether some majority message comes before itself, along the deliveries of some processes."""
    shown = [
        one
        for at, one in enumerate(events)
        if isinstance(one, DataShown)
        and one.resilience == 255
        and not one.withheld
        and the_list_of(events, one.process, at) is not None
    ]
    before = {
        (one.message, other.message)
        for at, one in enumerate(shown)
        for other in shown[at + 1 :]
        if one.process == other.process and one.message != other.message
    }
    while True:
        more = {(a, d) for a, b in before for c, d in before if b == c} - before
        if not more:
            return any(a == b for a, b in before)
        before |= more


def is_suspended(events: Events, process: str, at: int) -> bool:
    for event in reversed(events[:at]):
        if event.process == process and isinstance(event, ListSeen | RingStayEnded):
            return False
        if event.process == process and isinstance(event, PeerSuspended):
            return True
    return False


def comes_with_list(events: Events, at: int) -> bool:
    """Whether this is a delivery, and only deliveries follow at its process until it installs a list."""
    if not isinstance(events[at], DataShown):
        return False
    later = [one for one in events[at:] if one.process == events[at].process]
    with_it = (DataShown, ListClosed, StrangerShown, StrangerAcknowledged, ToldToAnswer)
    others = [one for one in later if not isinstance(one, with_it)]
    return bool(others) and isinstance(others[0], ListSeen)


def r7(events: Events) -> bool:
    for at, one in enumerate(events):
        acts = (isinstance(one, DataShown) and one.service.total) or (
            isinstance(one, SlotsOrdered) and one.messages
        )
        if acts and is_suspended(events, one.process, at) and not comes_with_list(events, at):
            return False
    for at, before in lists_of(events):
        after = next_list(events, at)
        if after is None:
            continue
        made = events[after]
        assert isinstance(made, ListSeen)
        between = [
            one
            for one in events
            if isinstance(one, SlotsOrdered)
            and one.members
            and one.epoch == before.epoch
            and before.timestamp < one.timestamp < made.timestamp
        ]
        size, minimum = len(before.members), before.minimum
        if between:
            latest = [one for one in between if one.timestamp == max(it.timestamp for it in between)][-1]
            asks = {one.process: one.minimum for one in events if isinstance(one, AskedToJoin)}
            minimum = max(asks.get(process_of(one), minimum) for one in latest.members)
            size = len(latest.members)
        needed = {254: size // 2 + 1, 255: size}.get(minimum, minimum)
        if made.cause == "failure" and len(made.members) < needed:
            return False
    return True


def stay_from(events: Events, at: int) -> list[ListSeen]:
    """The lists of one stay, from this one on."""
    found: list[ListSeen] = []
    place: int | None = at
    while place is not None:
        event = events[place]
        assert isinstance(event, ListSeen)
        found.append(event)
        place = next_list(events, place)
    return found


def r8(events: Events) -> bool:
    for at, _ in lists_of(events):
        first, *rest = stay_from(events, at)
        for middle in range(len(rest)):
            for later in rest[middle + 1 :]:
                gone = [one for one in first.members if one not in rest[middle].members]
                if any(one in later.members for one in gone):
                    return False
    return True


def members_move(by_place: dict[tuple[int, int], ListSeen]) -> bool:
    for place, one in by_place.items():
        earlier = [other for other in by_place if other[0] == place[0] and other < place]
        old = by_place[max(earlier)].members if earlier else ()
        if [member for member in old if member in one.members] != [m for m in one.members if m in old]:
            return True
    return False


def r9(events: Events) -> bool:
    by_place: dict[tuple[int, int], ListSeen] = {}
    for _, one in lists_of(events):
        by_place.setdefault((one.epoch, one.timestamp), one)
    for (epoch, timestamp), joined in by_place.items():
        makers = [
            one
            for one in events
            if isinstance(one, SlotsOrdered) and (one.epoch, one.timestamp) == (epoch, timestamp)
        ]
        if (
            joined.cause != "join"
            or not joined.who
            or not makers
            or makers[0].process == process_of(joined.who)
        ):
            continue
        ring, joiner, maker = [process_of(one) for one in joined.members], process_of(joined.who), makers[0]
        if maker.process in ring and (ring + ring)[ring.index(maker.process) + 1] != joiner:
            return False
        if maker.next != joiner:
            return False
    if members_move(by_place):
        return False
    for at, one in lists_of(events):
        before = the_list_of(events, one.process, at)
        if (
            one.cause == "join"
            and before is not None
            and before.epoch == one.epoch
            and one.who in before.members
        ):
            return False
    for at, shown in enumerate(events):
        if isinstance(shown, DataShown) and shown.timestamp:
            mine = [
                one
                for one in events[:at]
                if isinstance(one, ListSeen) and (one.process, one.epoch) == (shown.process, shown.epoch)
            ]
            if mine and shown.timestamp < mine[0].timestamp:
                return False
    return True


def r10(events: Events) -> bool:
    for at, seen in enumerate(events):
        if not isinstance(seen, QueueSeen):
            continue
        present = [one for one in events[:at] if isinstance(one, ListSeen) and one.process == seen.process]
        if not present or present[-1].epoch != seen.epoch:
            continue
        mine = [
            one.timestamp
            for place, one in lists_of(events)
            if (one.process, one.epoch) == (seen.process, seen.epoch) and one_stay(events, place, at)
        ]
        if not mine:
            continue
        for one in events:
            if (
                isinstance(one, SlotsOrdered)
                and one.epoch == seen.epoch
                and one.timestamp >= min(mine, default=0)
            ):
                inside = one.timestamp + len(one.messages) < seen.kept_from
                then = [
                    each
                    for _, each in lists_of(events)
                    if each.epoch == one.epoch and each.timestamp <= one.timestamp
                ]
                if not inside or not then:
                    continue
                last = max(each.timestamp for each in then)
                members = next(each.members for each in then if each.timestamp == last)
                for member in members:
                    lacks = member in present[-1].members and not has(events, at, process_of(member), one)
                    if lacks and not judged_before(events, at, seen, one):
                        return False
    return True


def judged_before(events: Events, at: int, seen: QueueSeen, one: SlotsOrdered) -> bool:
    """Whether an earlier look at the same queue found the slot freed already; it was judged then."""
    return any(
        isinstance(event, QueueSeen)
        and (event.process, event.epoch) == (seen.process, seen.epoch)
        and event.kept_from > one.timestamp
        and in_its_epoch(events, place, event)
        for place, event in enumerate(events[:at])
    )


def in_its_epoch(events: Events, at: int, seen: QueueSeen) -> bool:
    present = [one for one in events[:at] if isinstance(one, ListSeen) and one.process == seen.process]
    return bool(present) and present[-1].epoch == seen.epoch


def r11(events: Events) -> bool:
    seen = [one for one in events if isinstance(one, QueueSeen)]
    return all(
        one.kept_from >= one.needed_from and not any(message in one.queued for message in one.waiting)
        for one in seen
    )


def r12(events: Events) -> bool:
    given = [one for one in events if isinstance(one, FenceGiven)]
    if any(not one.primary and not one.partial for one in given):
        return False
    # Of several at one place the first counts for the fences.
    firsts = [
        one
        for at, one in enumerate(given)
        if not any((o.lock, o.epoch, o.timestamp) == (one.lock, one.epoch, one.timestamp) for o in given[:at])
    ]
    for one, other in permutations(given, 2):
        same = (one.lock, one.epoch, one.timestamp) == (other.lock, other.epoch, other.timestamp)
        if same and one.process != other.process:
            return False
    return all(
        one.fence < other.fence
        for one, other in permutations(firsts, 2)
        if one.lock == other.lock
        and one.primary
        and other.primary
        and (one.epoch, one.timestamp) < (other.epoch, other.timestamp)
    )


def r13(events: Events) -> bool:
    told = [one for one in events if isinstance(one, ToldToAnswer)]
    if any(one.holder != (one.owner == one.process) for one in told):
        return False
    once = [(one.process, one.message) for one in told if one.holder and not one.again]
    return len(once) == len(set(once))


def r14(events: Events) -> bool:
    for at, one in enumerate(events):
        ends = [
            e for e in range(at) if isinstance(events[e], RingStayEnded) and events[e].process == one.process
        ]
        stay = events[max(ends, default=0) : at]
        mine = [e for e in stay if isinstance(e, StrangerShown) and e.process == one.process]
        if isinstance(one, StrangerAcknowledged | StrangerShown):
            before = any((e.client, e.message) == (one.client, one.message) for e in mine)
            if isinstance(one, StrangerAcknowledged) and not before:
                return False
            if isinstance(one, StrangerShown) and before and not one.repeat:
                return False
    return True


def r15(events: Events) -> bool:
    ends = [one for one in events if isinstance(one, EndSeen) and not one.apart]
    last = [the_list_of(events, one.process, len(events)) for one in ends]
    places = {None if one is None else (one.epoch, one.timestamp) for one in last}
    quiet = all(not one.unplaced and one.idle_passes <= one.idle_passes_max for one in ends)
    quiet = quiet and not any(isinstance(one, EndSeen) and one.calls for one in events)
    return quiet and len(places) <= 1 and None not in places


def r16(events: Events) -> bool:
    for at, one in enumerate(events):
        if isinstance(one, WindowSeen) and one.unacknowledged_bytes > one.window_bytes:
            return False
        if isinstance(one, PacketSentAgain) and one.times > one.allowed:
            return False
        if isinstance(one, ListSeen):
            stated = [1 if not one.members else 0]
            for member in one.members:
                asked = [
                    e.minimum
                    for e in events[:at]
                    if isinstance(e, AskedToJoin) and e.process == process_of(member)
                ]
                stated.append(asked[-1] if asked else 1)
            if max(stated) != one.minimum:
                return False
    return True


def r17(events: Events) -> bool:
    """Of two orderings more than the list has members, all under one list, each member makes one."""
    orderings = [one for one in events if isinstance(one, SlotsOrdered)]
    for epoch in {one.epoch for one in orderings}:
        made = sorted((one for one in orderings if one.epoch == epoch), key=lambda one: one.timestamp)
        for at in range(len(made)):
            lists = [one.members for one in made[: at + 1] if one.members]
            if not lists:
                continue
            rotation = made[at : at + len(lists[-1]) + 2]
            same = all(one.members in ((), lists[-1]) for one in rotation)
            everybody = {process_of(member) for member in lists[-1]} <= {one.process for one in rotation}
            if len(rotation) == len(lists[-1]) + 2 and same and not everybody:
                return False
    return True


LITERAL: dict[str, Callable[[Events], bool]] = {
    **{"R1": r1, "R2": r2, "R3": r3, "R4": r4, "R5": r5, "R6": r6, "R7": r7, "R8": r8},
    **{"R9": r9, "R10": r10, "R11": r11, "R12": r12, "R13": r13, "R14": r14, "R15": r15, "R16": r16},
    "R17": r17,
}
