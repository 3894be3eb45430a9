"""The story of a world of peers as text: faults, lists, signals, suspensions, and the properties that broke."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hopring.check.properties.property import Verdict
from hopring.check.rmp.peer_events import (
    AskedToLeave,
    DataSent,
    DataShown,
    ListClosed,
    ListSeen,
    PeerEvent,
    PeerStarted,
    PeerSuspended,
    RingStayEnded,
    SlotsOrdered,
)
from hopring.sim.campaign.fault_schedule import CHAOS_US, Fault
from hopring.sim.campaign.rmp.ring_runner import RingOutcome
from hopring.sim.campaign.rmp.ring_world import RingWorld
from hopring.sim.campaign.story import StoryLine, align, fault_line
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY

NEAR_US: Final = 150_000
"""This long before and after the times that a witness names, everything but receipts is shown."""

NEAR_MAX: Final = 80
"""The most lines of that."""

_STRIKES: Final = {
    "fell": "crashes",
    "numb": "hears nothing for {0:g} ms",
    "turn": "changes to the other side of the partition",
    "mute": "is heard by nobody for {0:g} ms",
    "tear": "is alone on its side of a partition",
    "freeze": "is paused for {0:g} ms",
}
_MOMENTS: Final = {
    "named": "is named as the next token site",
    "joined": "is named by the list that it joins with",
    "passing": "has ordered and passes the token",
    "prepared": "has acknowledged the list of a recovery",
    "committed": "has installed the list of a recovery",
    "suspended": "is suspended",
}


def ring_story(world: RingWorld, outcome: RingOutcome) -> list[str]:
    """The story of a run as lines of text."""
    told = [*_faults(world), *_lists(outcome.peers)]
    told.sort(key=lambda line: line.at_us)  # Stable: the events of one process stay in their order.
    lines = [*_opening(world), "", *align(told), ""]
    if not outcome.broken:
        return [*lines, f"nothing is broken: {outcome.events} events, {outcome.views} lists installed"]
    for verdict in outcome.broken:
        lines += [f"broken: {verdict.property}", f"  {verdict.witness}"]
    around = align(list(_around(outcome.broken[0], outcome.peers)))
    return [*lines, "", "around the first witness", *around] if around else lines


def _opening(world: RingWorld) -> list[str]:
    quality = world.quality
    paths = [f"delay {quality.delay_us / 1000:g} ms"]
    if quality.jitter_us:
        paths.append(f"jitter {quality.jitter_us / 1000:g} ms")
    for name in ("loss", "duplicate", "reorder"):
        if getattr(quality, name):
            paths.append(f"{name} {getattr(quality, name):.1%}")
    rules = {1: "", MINIMUM_MAJORITY: " (majority)", MINIMUM_ALL: " (all)"}
    names = [
        one.name
        + rules.get(one.minimum, f" (at least {one.minimum})")
        + ("" if one.capable else " (no multicast)")
        for one in world.peers
    ]
    return [
        f"seed {world.seed}",
        f"peers    {', '.join(names)}",
        f"paths    {', '.join(paths)}",
        f"load     {world.load.per_second} actions/s: {world.changes:.0%} leaves, {world.locks:.0%} claims",
    ]


def _faults(world: RingWorld) -> Iterator[StoryLine]:
    for fault in world.schedule:
        yield _fault(fault)
    yield StoryLine(CHAOS_US, "network", "all is healed, for good")


def _fault(fault: Fault) -> StoryLine:
    if fault.moment:
        what = _STRIKES[fault.kind].format(fault.number)
        return StoryLine(fault.at_us, "network", f"the next one that {_MOMENTS[fault.moment]}, {what}")
    return fault_line(fault)


def _lists(events: Iterable[PeerEvent]) -> Iterator[StoryLine]:
    for event in events:
        match event:
            case PeerStarted():
                what = "starts"
            case RingStayEnded():
                what = {"leave": "has left", "removed": "is removed", "crash": "crashes"}[event.cause]
            case AskedToLeave():
                what = "asks to leave"
            case ListSeen():
                primary = ", primary" if event.primary else ""
                place = f"{event.epoch}.{event.timestamp}"
                sets = f"{' '.join(event.members)}, with {' '.join(event.together)}"
                what = f"list {place}  {sets}: {event.cause}{primary}"
            case ListClosed():
                what = f"signal for {' '.join(event.together)}"
            case PeerSuspended():
                what = "is suspended"
            case _:
                continue
        yield StoryLine(event.at_us, event.process, what)


def _around(verdict: Verdict, events: Iterable[PeerEvent]) -> Iterator[StoryLine]:
    """What happened to the messages that a witness names, and everything near the times that it names."""
    messages = set(re.findall(r"[\w.]+'*:u?\d+", verdict.witness))
    messages |= {re.sub(r"/\d+:", ":", one) for one in re.findall(r"[\w.]+/\d+:\d+", verdict.witness)}
    times = [int(at_us) for at_us in re.findall(r"at (\d+) us", verdict.witness)]
    shown = 0
    for event in events:
        near = any(abs(event.at_us - at_us) <= NEAR_US for at_us in times) and shown < NEAR_MAX
        line = _message_line(event, messages, near)
        if line is not None:
            shown += near
            yield line


def _message_line(event: PeerEvent, messages: set[str], near: bool) -> StoryLine | None:
    match event:
        case DataSent() if event.message in messages or near:
            k = f", resilience {event.resilience}" if event.resilience else ""
            what = f"sends {event.message}  {event.service.name.lower()}{k}"
        case DataShown() if event.message in messages or near:
            held = ", withheld" if event.withheld else ""
            what = f"delivers {event.message}  {event.epoch}.{event.timestamp}{held}"
        case SlotsOrdered() if near or messages & set(event.messages):
            content = " ".join(event.members or event.messages)
            what = f"orders {event.epoch}.{event.timestamp}  {content} and names {event.next}"
        case _:
            return None
    return StoryLine(event.at_us, event.process, what)
