"""The properties of the long-haul service, W1 to W17, each as one function from a history to a verdict.

W13, about files, is in files.py, and W17, about calls, in calls.py.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Final

from hopring.check.durable_log import DurableLogEvent, check_durable_log
from hopring.check.properties.property import Verdict, broken, holds
from hopring.check.wide.calls import judge_calls
from hopring.check.wide.files import judge_files
from hopring.check.wide.history import (
    WideAccepted,
    WideDropped,
    WideFinished,
    WideFrameSent,
    WideHistory,
    WideLimitSeen,
    WideLogEvent,
    WideLogged,
    WideRefused,
    WideRest,
    WideSeen,
    WideSwitched,
    WideWaiting,
)
from hopring.haul.ids import ClusterId, ParcelId, clusters_in, is_in
from hopring.haul.order.events import CastKind

INVENTED: Final = "W1 nothing is invented or altered"
ONCE: Final = "W2 a parcel is delivered at most once at each cluster, and to each session"
CAUSES: Final = "W3 causes come first within a talk"
ONE_LINE: Final = "W4 a set has one line of delivery numbers at each cluster"
ONE_ORDER: Final = "W5 abcasts of a talk have one order"
MIXED_CAUSES: Final = "W6 abcasts and cbcasts of a talk keep their causes among each other"
NONE_LOST: Final = "W7 at a quiet end every accepted parcel is delivered at all its destinations"
HONEST: Final = "W8 who is told that all have a parcel can rely on it, and is told"
ACCEPTED: Final = "W9 a client is told that a request is accepted when a majority has it on disk"
REQUESTS: Final = "W10 the requests of a client are carried out once and in order"
ONE_LOG: Final = "W11 the members of a cluster have one log, over all crashes"
EMPTY: Final = "W12 at a quiet end nothing is kept, and no body goes while somebody lacks it"
SILENT: Final = "W14 nothing is sent on a link that is off"
LIMITS: Final = "W15 no limit is passed"
NOT_IN_VAIN: Final = "W16 a parcel waits for a cause, or for its turn in the order"
NONE_REFUSED: Final = "clusters that keep the protocol are not refused"


def _verdict(name: str, witness: str | None) -> Verdict:
    return holds(name) if witness is None else broken(name, witness)


def judge_invented(history: WideHistory) -> Verdict:
    """W1: what a client gets was sent so, and to its cluster."""
    return _verdict(
        INVENTED, next((found for found in map(_alters(history), _messages(history)) if found), None)
    )


def _messages(history: WideHistory) -> list[WideSeen]:
    return [one for one in history.of_kind(WideSeen) if one.parcel is not None]


def _alters(history: WideHistory) -> Callable[[WideSeen], str | None]:
    def look(seen: WideSeen) -> str | None:
        sent, parcel = history.sent.get(seen.message), seen.parcel
        assert parcel is not None, "a message"
        if sent is None or not is_in(seen.cluster, sent.destinations) or sent.set != seen.set:
            return f"{seen.client} gets {seen.message!r}, which was not sent to cluster {seen.cluster}"
        said = parcel.talk, parcel.kind, parcel.destinations, parcel.entry
        if said != (sent.talk, sent.kind, sent.destinations, sent.entry) or parcel.id.sender != sent.cluster:
            return f"{seen.client} gets {seen.message} with another content"
        return None

    return look


def judge_once(history: WideHistory) -> Verdict:
    """W2: a message has one place at a cluster, and a session gets it once."""
    for (cluster, name), line in history.lines.items():
        places: dict[str, int] = {}
        for number, seen in sorted(line.items()):
            if seen.parcel is not None and places.setdefault(seen.message, number) != number:
                text = f"cluster {cluster} has {seen.message} of {name} at {places[seen.message]} and {number}"
                return broken(ONCE, text)
    for client, sightings in history.sightings.items():
        numbers = [(one.set, one.number) for one in sightings]
        twice = next((one for one in numbers if numbers.count(one) > 1), None)
        if twice is not None:
            return broken(ONCE, f"{client} gets item {twice[1]} of {twice[0]} twice")
    return holds(ONCE)


def judge_causes(history: WideHistory) -> Verdict:
    """W3: a cbcast is not delivered before a cbcast that is its cause."""
    return _verdict(CAUSES, _first_overtaken(history, mixed=False))


def judge_mixed_causes(history: WideHistory) -> Verdict:
    """W6: the same if one of the two is an abcast."""
    return _verdict(MIXED_CAUSES, _first_overtaken(history, mixed=True))


def _first_overtaken(history: WideHistory, *, mixed: bool) -> str | None:
    for where, places in history.places.items():
        for message in places:
            if message not in history.sent:
                continue
            lacks = history.open_causes(where, message)
            if not history.bits[message] & history.abcasts:
                lacks &= history.abcasts if mixed else ~history.abcasts
            elif not mixed:
                continue
            if lacks:
                return f"cluster {where[0]} delivers {message} before its cause {history.name(lacks)}"
    return None


def judge_one_line(history: WideHistory) -> Verdict:
    """W4: all sessions see the same at a number, and numbers rise in each."""
    for client, sightings in history.sightings.items():
        last: dict[str, int] = {}
        for seen in sightings:
            first = history.lines[seen.cluster, seen.set][seen.number]
            if (first.message, first.everywhere) != (seen.message, seen.everywhere):
                text = (
                    f"at {seen.number} of {seen.set} {client} gets {seen.message!r}, others {first.message!r}"
                )
                return broken(ONE_LINE, text)
            if seen.number < last.get(seen.set, 0):
                return broken(ONE_LINE, f"{client} gets item {seen.number} of {seen.set} behind a later one")
            last[seen.set] = seen.number
    for (cluster, name), line in history.lines.items():
        missing = next((one for one in range(1, max(line) + 1) if one not in line), None)
        if missing is not None:
            return broken(ONE_LINE, f"nobody gets item {missing} of {name} at cluster {cluster}")
    return holds(ONE_LINE)


def judge_one_order(history: WideHistory) -> Verdict:
    """W5: no two clusters have two abcasts of a talk in different orders."""
    orders = {
        where: [one for one, _ in sorted(places.items(), key=lambda item: item[1]) if _is_abcast(history, one)]
        for where, places in sorted(history.places.items())
    }
    for one, other in combinations(orders, 2):
        if one[1] != other[1]:
            continue
        for talk in {history.sent[message].talk for message in orders[one]}:
            mine, theirs = [
                [message for message in orders[where] if history.sent[message].talk == talk]
                for where in (one, other)
            ]
            first = next((pair for pair in zip(mine, theirs, strict=False) if pair[0] != pair[1]), None)
            if first is not None:
                where = f"clusters {one[0]} and {other[0]}"
                return broken(ONE_ORDER, f"{where} have {first[0]} and {first[1]} in one place")
    return holds(ONE_ORDER)


def _is_abcast(history: WideHistory, message: str) -> bool:
    sent = history.sent.get(message)
    return sent is not None and sent.kind is CastKind.ABCAST


def judge_none_lost(history: WideHistory) -> Verdict:
    """W7: accepted messages arrive at all destinations, and durable consumers have done with them."""
    for message in history.accepted:
        sent = history.sent[message]
        for cluster in clusters_in(sent.destinations):
            if message not in history.places.get((cluster, sent.set), {}):
                return broken(NONE_LOST, f"cluster {cluster} never delivers {message}")
    finished: dict[tuple[str, ClusterId, str], set[int]] = {}
    for event in history.of_kind(WideFinished):
        finished.setdefault((event.consumer, event.cluster, event.set), set()).add(event.number)
    for (consumer, cluster, name), numbers in finished.items():
        line = history.lines.get((cluster, name), {})
        lacks = [one for one in range(min(numbers), max(line, default=0) + 1) if one not in numbers]
        if lacks:
            return broken(NONE_LOST, f"{consumer} has never done with item {lacks[0]} of {name}")
    return holds(NONE_LOST)


def judge_honest(history: WideHistory) -> Verdict:
    """W8: that all destinations have a parcel is told when it is so, and in the end."""
    had: set[tuple[ClusterId, str, ParcelId]] = set()
    told: set[tuple[str, ParcelId]] = set()
    for event in history.events:
        if isinstance(event, WideLogged):
            had.add((event.cluster, event.set, event.id))
        elif isinstance(event, WideSeen) and event.everywhere is not None:
            key = event.set, event.everywhere
            told.add(key)
            message = history.parcels.get(key)
            destinations = history.sent[message].destinations if message else 0
            lacks = [one for one in range(1, destinations.bit_length() + 1) if destinations >> (one - 1) & 1]
            lacks = [one for one in lacks if (ClusterId(one), *key) not in had]
            if lacks:
                text = f"{event.client} is told that all have {message}; cluster {lacks[0]} has not"
                return broken(HONEST, text)
    for message, accepted in history.accepted.items():
        sent = history.sent[message]
        if sent.notify and (sent.set, accepted.parcel) not in told:
            return broken(HONEST, f"cluster {sent.cluster} is never told that all have {message}")
    return holds(HONEST)


def judge_accepted(history: WideHistory) -> Verdict:
    """W9: who is told of acceptance can rely on it."""
    for event in history.of_kind(WideAccepted):
        if event.members and len(event.on_disk) <= event.members // 2:
            text = f"{event.client} is told that {event.message} is accepted, on disk at {list(event.on_disk)}"
            return broken(ACCEPTED, text)
    return holds(ACCEPTED)


def judge_requests(history: WideHistory) -> Verdict:
    """W10: one parcel for each request of a client, and their numbers rise with those of its requests."""
    of_message: dict[str, tuple[str, ParcelId]] = {}
    for (name, parcel), message in history.parcels.items():
        if of_message.setdefault(message, (name, parcel)) != (name, parcel):
            return broken(REQUESTS, f"{message} is two parcels: {_id(of_message[message][1])}, {_id(parcel)}")
    last: dict[tuple[str, str], tuple[int, str]] = {}
    for message, sent in history.sent.items():
        if message in of_message:
            number = of_message[message][1].number
            before = last.get((sent.client, sent.set), (0, ""))
            if number <= before[0]:
                return broken(REQUESTS, f"{message} is carried out before {before[1]} of the same client")
            last[sent.client, sent.set] = number, message
    return holds(REQUESTS)


def judge_one_log(history: WideHistory) -> Verdict:
    """W11: the properties of the durable log, for the log of each cluster."""
    logs: dict[ClusterId, list[DurableLogEvent]] = {}
    members: dict[ClusterId, tuple[str, ...]] = {}
    for event in history.of_kind(WideLogEvent):
        logs.setdefault(event.cluster, []).append(event.event)
        members[event.cluster] = event.members
    for cluster, events in sorted(logs.items()):
        for verdict in check_durable_log(events, members[cluster], quiet_end=True):
            if not verdict.holds:
                return broken(ONE_LOG, f"cluster {cluster}: {verdict.property}: {verdict.witness}")
    return holds(ONE_LOG)


def judge_empty(history: WideHistory) -> Verdict:
    """W12: bodies go when all have them, and at rest nothing is left."""
    had: set[tuple[ClusterId, str, ParcelId]] = set()
    seen: set[tuple[ClusterId, str, ParcelId]] = set()
    for event in history.events:
        match event:
            case WideLogged(cluster, name, parcel):
                had.add((cluster, name, parcel))
            case WideSeen(_, cluster, name) if event.parcel is not None:
                seen.add((cluster, name, event.parcel.id))
            case WideDropped(cluster, name, parcel):
                message = history.parcels.get((name, parcel))
                if message is None or message not in history.sent:
                    continue
                for one in clusters_in(history.sent[message].destinations):
                    if (one, name, parcel) not in had:
                        text = f"cluster {cluster} drops {message}, which cluster {one} lacks"
                        return broken(EMPTY, text)
                    if one == cluster and (one, name, parcel) not in seen:
                        return broken(EMPTY, f"cluster {cluster} drops {message} before it delivers it")
            case WideRest(cluster, kept):
                left = [f"{count} {name}" for name, count in kept if count]
                if left:
                    return broken(EMPTY, f"cluster {cluster} keeps {', '.join(left)}")
    return holds(EMPTY)


def judge_silent(history: WideHistory) -> Verdict:
    """W14: a link is silent from when its operator knows that it is off, and outside of its windows."""
    off: set[tuple[ClusterId, ClusterId]] = set()
    for event in history.events:
        if isinstance(event, WideSwitched):
            (off.discard if event.on else off.add)((event.cluster, event.peer))
        elif isinstance(event, WideFrameSent):
            link = f"{event.member} of cluster {event.cluster} sends {event.frame} to cluster {event.peer}"
            if (event.cluster, event.peer) in off:
                return broken(SILENT, f"{link}, and the link is off")
            if not event.in_window:
                return broken(SILENT, f"{link} outside of the windows of the link")
    return holds(SILENT)


def judge_limits(history: WideHistory) -> Verdict:
    """W15: what has a limit keeps it."""
    for event in history.of_kind(WideLimitSeen):
        if event.highest > event.limit:
            text = f"cluster {event.cluster}: {event.what} of {event.highest}, the limit is {event.limit}"
            return broken(LIMITS, text)
    return holds(LIMITS)


def judge_not_in_vain(history: WideHistory) -> Verdict:
    """W16: where all that can move has moved, a cbcast that waits lacks a cause in its talk.

    Causes are those between clusters: what any client of the sender's cluster had sent or seen.
    """
    seen_before: dict[tuple[ClusterId, str], set[str]] = {}
    for event in history.events:
        if isinstance(event, WideSeen):
            seen_before.setdefault((event.cluster, event.set), set()).add(event.message)
        elif isinstance(event, WideWaiting):
            where = event.cluster, event.set
            seen_before.setdefault(where, set())
            for parcel in event.parcels:
                message = history.parcels.get((event.set, parcel))
                if message is None or _is_abcast(history, message):
                    continue
                theirs = history.for_talk.get((event.set, history.sent[message].talk, event.cluster), 0)
                causes = history.cluster_causes.get(message, 0) & theirs & ~history.not_done
                had = sum([history.bits[one] for one in seen_before.get(where, ()) if one in history.bits])
                if not causes & ~had and not _has_earlier(history, message, event.cluster, seen_before[where]):
                    text = f"{message} waits at cluster {event.cluster}, and has no cause there"
                    return broken(NOT_IN_VAIN, text)
    return holds(NOT_IN_VAIN)


def _has_earlier(history: WideHistory, message: str, cluster: ClusterId, seen: set[str]) -> bool:
    """Whether an earlier parcel of a sender among the causes, of the same talk, is still to come.

    Its client may have died before it was told that it is accepted, so that nothing else shows when it was.
    """
    talk, name = history.sent[message].talk, history.sent[message].set
    causes = history.cluster_causes.get(message, 0) | history.bits[message]
    last: dict[ClusterId, int] = {}
    for (of_set, parcel), one in history.parcels.items():
        if of_set == name and one in history.bits and history.bits[one] & causes:
            last[parcel.sender] = max(last.get(parcel.sender, 0), parcel.number)
    for (of_set, parcel), one in history.parcels.items():
        sent = history.sent.get(one)
        if sent is None or of_set != name or sent.talk != talk or one in seen or one == message:
            continue
        if is_in(cluster, sent.destinations) and parcel.number <= last.get(parcel.sender, 0):
            return True
    return False


def judge_none_refused(history: WideHistory) -> Verdict:
    """What correct clusters send is never refused."""
    event = next(iter(history.of_kind(WideRefused)), None)
    return _verdict(NONE_REFUSED, None if event is None else f"cluster {event.cluster}: {event.reason}")


def _id(parcel: ParcelId) -> str:
    return f"{parcel.sender}.{parcel.number}"


WIDE_JUDGES: Final = (
    *(judge_invented, judge_once, judge_causes, judge_one_line, judge_one_order, judge_mixed_causes),
    *(judge_none_lost, judge_honest, judge_accepted, judge_requests, judge_one_log, judge_empty),
    *(judge_files, judge_silent, judge_limits, judge_not_in_vain, judge_none_refused, judge_calls),
)
