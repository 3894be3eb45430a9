"""What the sessions that a witness names did and saw, for the story of a world with clients."""

import re
from collections.abc import Iterator
from typing import Final

from hopring.check.client_history import ClientHistory, index_clients, short_view
from hopring.check.naming import Names
from hopring.check.trace import (
    AsksEnd,
    AsksJoin,
    AsksLeave,
    ClientDelivered,
    ClientEvent,
    ClientSent,
    Connected,
    Event,
    Gone,
    GroupInstalled,
    GroupSignal,
    Left,
    Process,
)
from hopring.check.verdict import Verdict

NEIGHBOURS: Final = 6
"""So many lines before and after what the witness names are told too."""


MARK: Final = " <--"


def around_clients(verdict: Verdict, events: list[Event]) -> list[tuple[int, str, str]]:
    """When, who and what, session by session."""
    history = index_clients(events, quiet_end=False)
    words = Names(history.whole)
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
        near = {one for at in centres for one in range(at - NEIGHBOURS, at + NEIGHBOURS + 1)}
        lines.extend([line for at, line in enumerate(told) if at in near])
    return lines


def _named(history: ClientHistory, words: Names, named: set[str]) -> list[Process]:
    return [process for process in history.sessions if words.process(process) in named]


def _what(event: ClientEvent, words: Names, messages: set[str]) -> Iterator[str]:
    match event:
        case Connected(_, _, name, _):
            yield f"connected as {name}"
        case AsksJoin(_, _, group):
            yield f"asks to join {group}"
        case AsksLeave(_, _, group):
            yield f"asks to leave {group}"
        case AsksEnd():
            yield "disconnects"
        case Left(_, _, group):
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
