"""The reliable link (thesis 2.2.7), judged on a history: a list of events in the order in which they happened.

The thesis names the actions of a link and leaves their properties to its use in 2.2.6; these are what the
network needs of it. Events of other kinds and of other links are passed over. A history is judged as if nothing
came after it, so it has to be long enough for everything to have arrived.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hopring.check.verdict import Verdict, broken, holds
from hopring.testing.trace import HostChange, HostChanged, LinkEndFailed, ObjectReceived, ObjectSubmitted

NO_INVENTION = "2.2.7 nothing is received that was not submitted before, and nothing more often"
ALL_ARRIVES = "2.2.7 what is submitted is received, unless the link fails"
LINK_END = "2.2.7 a failed link is silent"

_VERBS: Final = {ObjectSubmitted: "submitted", ObjectReceived: "received", LinkEndFailed: "failed"}


def check_link(history: Iterable[object], link: str, hosts: Sequence[str]) -> list[Verdict]:
    """All properties of one link between these hosts; a multicast link has more than two."""
    events = list(history)
    return [
        no_invention(events, link),
        all_arrives(events, link, hosts),
        link_end(events, link),
    ]


def no_invention(history: Iterable[object], link: str) -> Verdict:
    """Every receipt has a submission of its own, before it and at another host."""
    submitted: Counter[tuple[str, bytes]] = Counter()
    total: Counter[bytes] = Counter()
    received: Counter[tuple[str, bytes]] = Counter()
    for event in _of_link(history, link):
        match event:
            case ObjectSubmitted():
                submitted[event.host, event.payload] += 1
                total[event.payload] += 1
            case ObjectReceived():
                key = (event.host, event.payload)
                received[key] += 1
                by_others = total[event.payload] - submitted[key]
                if received[key] > by_others:
                    often = f"{_times(received[key])}, submitted by others {_times(by_others)} before"
                    where = f"at {event.at_us} us {event.host} received {_short(event.payload)}"
                    return broken(NO_INVENTION, f"{where} {often}")
            case _:
                pass
    return holds(NO_INVENTION)


def all_arrives(history: Iterable[object], link: str, hosts: Sequence[str]) -> Verdict:
    """Every submission is received at every other host, unless the link failed at one, or one crashed.

    A host that was down before the link was used, or that came back, does not excuse a link of its new life:
    that is a link of its own with a name of its own.
    """
    owed: dict[tuple[str, bytes], list[ObjectSubmitted]] = {}
    used = False
    for event in history:
        match event:
            case ObjectSubmitted() if event.link == link:
                used = True
                for host in hosts:
                    if host != event.host:
                        owed.setdefault((host, event.payload), []).append(event)
            case ObjectReceived() if event.link == link:
                waiting = owed.get((event.host, event.payload))
                if waiting:
                    waiting.pop(0)
            case LinkEndFailed() if event.link == link:
                return holds(ALL_ARRIVES)
            case HostChanged(_, host, HostChange.CRASH) if used and host in hosts:
                return holds(ALL_ARRIVES)
            case _:
                pass
    for (host, payload), waiting in owed.items():
        if waiting:
            first = waiting[0]
            story = f"{first.host} submitted {_short(payload)} at {first.at_us} us and {host} never received it"
            return broken(ALL_ARRIVES, story)
    return holds(ALL_ARRIVES)


def link_end(history: Iterable[object], link: str) -> Verdict:
    """A host whose end failed submits and receives nothing more on it, and fails only once."""
    failed: dict[str, LinkEndFailed] = {}
    for event in _of_link(history, link):
        last = failed.get(event.host)
        if last is not None:
            more = f"{_VERBS[type(event)]} at {event.at_us} us"
            return broken(LINK_END, f"failed at {event.host} at {last.at_us} us, yet {more}")
        if isinstance(event, LinkEndFailed):
            failed[event.host] = event
    return holds(LINK_END)


def _of_link(
    history: Iterable[object], link: str
) -> Iterator[ObjectSubmitted | ObjectReceived | LinkEndFailed]:
    for event in history:
        if isinstance(event, ObjectSubmitted | ObjectReceived | LinkEndFailed) and event.link == link:
            yield event


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _short(payload: bytes) -> str:
    return repr(payload[:16]) + (f" and {len(payload) - 16} bytes more" if len(payload) > 16 else "")
