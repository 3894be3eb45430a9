"""The story of a seed as text: the faults, the views that followed, and the properties that broke.

Faults come from the schedule, everything else from the history; times are virtual. For a broken property of
clients the story shows what the sessions named by the witness did and saw.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hopring.check.client_history import ClientHistory, index_clients, short_view
from hopring.check.history import History, HistoryNames, index
from hopring.check.properties.property import EVS_C, Verdict
from hopring.check.trace import (
    AsksEnd,
    AsksJoin,
    AsksLeave,
    ClientConnected,
    ClientDelivered,
    ClientEvent,
    ClientSent,
    Crash,
    Event,
    Gone,
    GroupInstalled,
    GroupLeft,
    GroupSignal,
    MessageDelivered,
    MessageId,
    MessageSent,
    ProcessName,
    Recover,
    Signalled,
    ViewInstalled,
)
from hopring.sim.campaign.fault_injector import sides
from hopring.sim.campaign.fault_schedule import CHAOS_US, OF_A_HOST, Fault
from hopring.sim.campaign.runner import WorldOutcome
from hopring.sim.campaign.world import SimWorld

NETWORK: Final = "network"
MESSAGES_TOLD_MAX: Final = 4
NEIGHBOURS: Final = 3
"""How many deliveries before and after the one that matters are shown."""

_MOMENTS: Final = {
    "evs": "an attempt is decided",
    "bound": "a decision binds",
    "installed": "a new view is installed",
    "adrift": "a decision binds whose attempt failed",
}

_PLAIN: Final = {"forget": "its view counter is lost", "tear": "partition these | the rest"}

_MESSAGE: Final = re.compile(r"[\w.-]+(?:/\d+)?:\d+")


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One line of a story."""

    at_us: int
    who: str
    what: str


def story(world: SimWorld, outcome: WorldOutcome) -> list[str]:
    """The story of a run as lines of text."""
    history = index(outcome.history, quiet_end=False)
    words = HistoryNames(history)
    told = [*_faults(world), *_views(outcome.history, words)]
    told.sort(key=lambda line: line.at_us)  # Stable: the events of one process stay in their order.
    lines = [*_opening(world), "", *align(told), ""]
    if not outcome.broken:
        return [*lines, f"nothing is broken: {outcome.events} events, {outcome.views} views installed"]
    for verdict in outcome.broken:
        lines += [f"broken: {verdict.property}", f"  {verdict.witness}"]
    around = align(_around_first(outcome, history, words))
    return [*lines, "", "around the first witness", *around] if around else lines


def schedule_lines(schedule: Iterable[Fault]) -> list[str]:
    """A schedule, one fault a line."""
    return align([fault_line(fault) for fault in schedule])


def _opening(world: SimWorld) -> list[str]:
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


def _clients(world: SimWorld) -> list[str]:
    clients = world.clients
    if clients is None:
        return []
    changes = f"{clients.changes:.0%} of what they do are joins, leaves and ends"
    return [f"clients  {clients.sessions} at each daemon; groups {' '.join(clients.groups)}; {changes}"]


def _faults(world: SimWorld) -> Iterator[StoryLine]:
    """The faults of the schedule but crashes and starts: those that really happened are in the history."""
    for fault in world.schedule:
        if fault.moment or fault.kind not in ("crash", "restart"):
            yield fault_line(fault)
    for name, at_us in world.starts_us:
        yield StoryLine(at_us, name, "starts late")
    yield StoryLine(CHAOS_US, NETWORK, "all is healed, for good")
    for fault in world.lasting:
        yield fault_line(fault)


def fault_line(fault: Fault) -> StoryLine:
    """The line of one fault in a story."""
    who = fault.what[0] if fault.kind in OF_A_HOST else NETWORK
    what = _deed(fault)
    if fault.moment:
        what = f"from now on, when {_MOMENTS.get(fault.moment, fault.moment)} at {fault.count}: {what}"
    return StoryLine(fault.at_us, who, what)


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
    """The text of a fault that cuts or weakens paths."""
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


def _views(events: Iterable[Event], words: HistoryNames) -> Iterator[StoryLine]:
    for event in events:
        match event:
            case Recover():
                what = "start"
            case Crash():
                what = "crash"
            case ViewInstalled():
                sets = f"{words.processes(event.members)} with {words.processes(event.together)}"
                what = f"{words.view(event.view)}  {sets}  {event.cause}"
            case Signalled():
                what = f"signal in {words.view(event.view)} for {words.processes(event.together)}"
            case _:
                continue
        yield StoryLine(event.at_us, words.process(event.process), what)


def _around_first(outcome: WorldOutcome, history: History, words: HistoryNames) -> list[StoryLine]:
    first = outcome.broken[0]
    if first.property.startswith(EVS_C):
        return [StoryLine(*told) for told in around_clients(first, outcome.history)]
    return _around(first, outcome.history, history, words)


def _around(verdict: Verdict, events: list[Event], history: History, words: HistoryNames) -> list[StoryLine]:
    """The sending and deliveries of the messages that the witness names, with neighbouring deliveries."""
    named = set(_MESSAGE.findall(verdict.witness))
    ids = [message for message in history.messages.ids if words.message(message) in named]
    picked: dict[int, StoryLine] = {}
    for message in ids[:MESSAGES_TOLD_MAX]:
        for at, event in enumerate(events):
            if isinstance(event, MessageSent | MessageDelivered) and event.message == message:
                picked[at] = _message_line(event, words, mark=" <--")
    for process in _processes_named(verdict, history, words):
        for at, event in _neighbours(events, process, set(ids)):
            picked.setdefault(at, _message_line(event, words))
    return [line for _, line in sorted(picked.items())]


def _processes_named(verdict: Verdict, history: History, words: HistoryNames) -> list[ProcessName]:
    said = set(re.findall(r"[\w.-]+", verdict.witness))
    return [process for process in history.lives if words.process(process) in said]


def _neighbours(
    events: list[Event], process: ProcessName, messages: set[MessageId]
) -> Iterator[tuple[int, MessageSent | MessageDelivered]]:
    own = [
        (at, event)
        for at, event in enumerate(events)
        if isinstance(event, MessageSent | MessageDelivered) and event.process == process
    ]
    for place, (_, event) in enumerate(own):
        if event.message in messages and isinstance(event, MessageDelivered):
            yield from own[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]


def _message_line(event: MessageSent | MessageDelivered, words: HistoryNames, mark: str = "") -> StoryLine:
    verb = "sent" if isinstance(event, MessageSent) else "delivered"
    service, place = event.service.name.lower(), f"lts {event.ord.lts} of site {event.ord.site}"
    what = f"{verb} {words.message(event.message)}  {service}, {place}, {words.view(event.view)}{mark}"
    return StoryLine(event.at_us, words.process(event.process), what)


def align(lines: list[StoryLine]) -> list[str]:
    """Lines with times and names in columns."""
    width = max((len(line.who) for line in lines), default=0)
    return [f"{line.at_us / 1000:9.3f} ms  {line.who:<{width}}  {line.what}" for line in lines]


CLIENT_NEIGHBOURS: Final = 6
"""How many lines before and after those that the witness names are shown."""


MARK: Final = " <--"


def around_clients(verdict: Verdict, events: list[Event]) -> list[tuple[int, str, str]]:
    """Time, session and text of each line, session by session."""
    history = index_clients(events, quiet_end=False)
    words = HistoryNames(history.whole)
    named = set(re.findall(r"[\w.-]+/\d+", verdict.witness))
    messages = set(re.findall(r"[\w.-]+/\d+:\d+", verdict.witness))
    times = {int(at_us) for at_us in re.findall(r"at (\d+) us", verdict.witness)}
    views = set(re.findall(r"\w+ \d+\.-?\d+[>\d]*", verdict.witness))
    lines: list[tuple[int, str, str]] = []
    for process in _named(history, words, named):
        told = [
            (event.at_us, words.process(process), what)
            for event in history.sessions[process].events
            for what in _what(event, words, messages)
        ]
        centres = [
            at
            for at, (at_us, _, what) in enumerate(told)
            if at_us in times or what.endswith(MARK) or any(f"{view} " in what for view in views)
        ]
        near = {one for at in centres for one in range(at - CLIENT_NEIGHBOURS, at + CLIENT_NEIGHBOURS + 1)}
        lines.extend([line for at, line in enumerate(told) if at in near])
    return lines


def _named(history: ClientHistory, words: HistoryNames, named: set[str]) -> list[ProcessName]:
    return [process for process in history.sessions if words.process(process) in named]


def _what(event: ClientEvent, words: HistoryNames, messages: set[str]) -> Iterator[str]:
    match event:
        case ClientConnected(_, _, name, _):
            yield f"connected as {name}"
        case AsksJoin(_, _, group):
            yield f"asks to join {group}"
        case AsksLeave(_, _, group):
            yield f"asks to leave {group}"
        case AsksEnd():
            yield "disconnects"
        case GroupLeft(_, _, group):
            yield f"left {group}"
        case Gone():
            yield "gone"
        case GroupInstalled(_, _, group, view, members, together, cause):
            sets = f"{words.processes(members)} with {words.processes(together)}"
            yield f"{group} {short_view(view)}  {sets}  {cause}"
        case GroupSignal(_, _, group, view, together):
            yield f"signal in {group} {short_view(view)} for {words.processes(together)}"
        case ClientSent() | ClientDelivered():
            name = words.message(event.message)
            verb = "sent" if isinstance(event, ClientSent) else "delivered"
            mark = MARK if name in messages else ""
            yield f"{verb} {name}  {event.service.name.lower()} to {' '.join(event.groups)}{mark}"
