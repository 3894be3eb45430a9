"""The story of a seed, for people: what went wrong with the network, which views came of it, and what broke.

Faults come from the schedule, everything else from the history; times are virtual.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hopring.check.history import History, index
from hopring.check.naming import Names
from hopring.check.properties.property import EVS_C
from hopring.check.trace import Crash, Delivered, Event, Installed, MessageId, Process, Recover, Sent, Signal
from hopring.check.verdict import Verdict
from hopring.sim.campaign.draw import World
from hopring.sim.campaign.run import Outcome
from hopring.sim.campaign.schedule import CHAOS_US, OF_A_HOST, Fault
from hopring.sim.campaign.story_clients import around_clients
from hopring.sim.campaign.trouble import sides

NETWORK: Final = "network"
MESSAGES_TOLD_MAX: Final = 4
NEIGHBOURS: Final = 3
"""So many deliveries before and after the one that matters are told too."""

_MOMENTS: Final = {
    "evs": "an attempt is decided",
    "bound": "a decision binds",
    "installed": "a new view is installed",
    "adrift": "a decision binds whose attempt failed",
}

_PLAIN: Final = {"forget": "its view counter is lost", "tear": "partition these | the rest"}

_MESSAGE: Final = re.compile(r"[\w.-]+(?:/\d+)?:\d+")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened."""

    at_us: int
    who: str
    what: str


def story(world: World, outcome: Outcome) -> list[str]:
    """All of it, as lines of text."""
    history = index(outcome.history, quiet_end=False)
    words = Names(history)
    told = [*_faults(world), *_views(outcome.history, words)]
    told.sort(key=lambda line: line.at_us)  # Stable: what one process did stays in its order.
    lines = [*_opening(world), "", *_align(told), ""]
    if not outcome.broken:
        return [*lines, f"nothing is broken: {outcome.events} events, {outcome.views} views installed"]
    for verdict in outcome.broken:
        lines += [f"broken: {verdict.property}", f"  {verdict.witness}"]
    around = _align(_around_first(outcome, history, words))
    return [*lines, "", "around the first witness", *around] if around else lines


def schedule_lines(schedule: Iterable[Fault]) -> list[str]:
    """A schedule, one fault a line."""
    return _align([_fault(fault) for fault in schedule])


def _opening(world: World) -> list[str]:
    sites = " | ".join(" ".join(daemon.name for daemon in site.daemons) for site in world.config.sites)
    quality = world.quality
    paths = [f"delay {quality.delay_us / 1000:g} ms", f"between sites {world.wide_delay_us / 1000:g} ms"]
    if quality.jitter_us:
        paths.append(f"jitter {quality.jitter_us / 1000:g} ms")
    for name in ("loss", "duplicate", "reorder"):
        if getattr(quality, name):
            paths.append(f"{name} {getattr(quality, name):.1%}")
    if quality.duplicate_delay_us:
        paths.append(f"copies up to {quality.duplicate_delay_us / 1000:g} ms late")
    return [
        f"seed {world.seed}",
        f"daemons  {sites}",
        f"paths    {', '.join(paths)}",
        f"load     {world.load.per_second} messages/s, and {world.load.burst} just before each break",
        *_clients(world),
    ]


def _clients(world: World) -> list[str]:
    clients = world.clients
    if clients is None:
        return []
    changes = f"{clients.changes:.0%} of what they do are joins, leaves and ends"
    return [f"clients  {clients.sessions} at each daemon; groups {' '.join(clients.groups)}; {changes}"]


def _faults(world: World) -> Iterator[Line]:
    """Crashes and starts are told by the history: a daemon that is down cannot crash."""
    for fault in world.schedule:
        if fault.moment or fault.kind not in ("crash", "restart"):
            yield _fault(fault)
    for name, at_us in world.starts_us:
        yield Line(at_us, name, "starts late")
    yield Line(CHAOS_US, NETWORK, "all is healed, for good")
    for fault in world.lasting:
        yield _fault(fault)


def _fault(fault: Fault) -> Line:
    who = fault.what[0] if fault.kind in OF_A_HOST else NETWORK
    what = _deed(fault)
    if fault.moment:
        what = f"from now on, when {_MOMENTS[fault.moment]} at {fault.count}: {what}"
    return Line(fault.at_us, who, what)


def _deed(fault: Fault) -> str:
    match fault.kind:
        case "pause":
            return f"pause for {fault.number:g} ms"
        case "speak":
            return f"sends a message, {fault.what[1]}"
        case "late":
            return f"timers run {fault.number:g} ms late"
        case "slow":
            return f"takes {fault.number:g} ms for each packet"
        case "partition":
            return f"partition {_sides(fault.what)}"
        case "loss":
            return f"loss of {fault.number:.0%} everywhere"
        case _:
            return _cut(fault)


def _cut(fault: Fault) -> str:
    """What is not heard any more."""
    names = " ".join(fault.what)
    match fault.kind:
        case "sever" | "cut_sites":
            return f"cut between {fault.what[0]} and {fault.what[1]}"
        case "one_way":
            return f"cut from {fault.what[0]} to {fault.what[1]}, one way"
        case "patchy":
            return f"cut one way: {names}"
        case "faint":
            return f"loss of {fault.number:.0%} one way: {names}"
        case "numb":
            return f"one of these, the first in the list {names}, hears nothing for {fault.number:g} ms"
        case "deaf":
            return f"{names or 'these'} hear nobody"
        case _:
            return _PLAIN.get(fault.kind, fault.kind)


def _sides(what: tuple[str, ...]) -> str:
    return " | ".join(" ".join(names) for _, names in sorted(sides(what).items()))


def _views(events: Iterable[Event], words: Names) -> Iterator[Line]:
    for event in events:
        match event:
            case Recover():
                what = "start"
            case Crash():
                what = "crash"
            case Installed():
                sets = f"{words.processes(event.members)} with {words.processes(event.together)}"
                what = f"{words.view(event.view)}  {sets}  {event.cause}"
            case Signal():
                what = f"signal in {words.view(event.view)} for {words.processes(event.together)}"
            case _:
                continue
        yield Line(event.at_us, words.process(event.process), what)


def _around_first(outcome: Outcome, history: History, words: Names) -> list[Line]:
    first = outcome.broken[0]
    if first.property.startswith(EVS_C):
        return [Line(*told) for told in around_clients(first, outcome.history)]
    return _around(first, outcome.history, history, words)


def _around(verdict: Verdict, events: list[Event], history: History, words: Names) -> list[Line]:
    """What became of the messages that the witness names, and what those who delivered them did next to it."""
    named = set(_MESSAGE.findall(verdict.witness))
    ids = [message for message in history.messages.ids if words.message(message) in named]
    picked: dict[int, Line] = {}
    for message in ids[:MESSAGES_TOLD_MAX]:
        for at, event in enumerate(events):
            if isinstance(event, Sent | Delivered) and event.message == message:
                picked[at] = _message_line(event, words, mark=" <--")
    for process in _processes_named(verdict, history, words):
        for at, event in _neighbours(events, process, set(ids)):
            picked.setdefault(at, _message_line(event, words))
    return [line for _, line in sorted(picked.items())]


def _processes_named(verdict: Verdict, history: History, words: Names) -> list[Process]:
    said = set(re.findall(r"[\w.-]+", verdict.witness))
    return [process for process in history.lives if words.process(process) in said]


def _neighbours(
    events: list[Event], process: Process, messages: set[MessageId]
) -> Iterator[tuple[int, Sent | Delivered]]:
    own = [
        (at, event)
        for at, event in enumerate(events)
        if isinstance(event, Sent | Delivered) and event.process == process
    ]
    for place, (_, event) in enumerate(own):
        if event.message in messages and isinstance(event, Delivered):
            yield from own[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]


def _message_line(event: Sent | Delivered, words: Names, mark: str = "") -> Line:
    verb = "sent" if isinstance(event, Sent) else "delivered"
    service, place = event.service.name.lower(), f"lts {event.ord.lts} of site {event.ord.site}"
    what = f"{verb} {words.message(event.message)}  {service}, {place}, {words.view(event.view)}{mark}"
    return Line(event.at_us, words.process(event.process), what)


def _align(lines: list[Line]) -> list[str]:
    width = max((len(line.who) for line in lines), default=0)
    return [f"{line.at_us / 1000:9.3f} ms  {line.who:<{width}}  {line.what}" for line in lines]
