"""Handwritten histories of daemons: one line per process, its events in order, separated by bars.

a: view 1 ab | send 1 | deliver a:1 | signal | view 2 a
b: view 1 ab | deliver a:1 | crash

Daemons are letters; `a.2` is the second start of a. The recovery at the start of a line is implied.

view 2 abc with ab    the view's counter, its members, and those that come along (by default the process
                      itself in its first view, then those in both views); `view 2b abc` is the id 2 with b
                      as representative
view 2 ab primary     it is primary, because it has a majority of the one before
send 1 safe lts 7     message 1 of this process; Agreed by default; its stamp is its number by default; it is
     in 2             stamped in the process's view by default; `k 2` gives it a resilience
deliver a:1           as it was sent, in the process's view; `as fifo`, `lts 7` and `in 2` override that;
                      with `withheld 1` it was passed over
signal ab             by default for those that come along to the next view
crash, recover

The time of an event is its place in the line, from 1. Lines may come in any order.
"""

import re
from dataclasses import dataclass, field

from hopring.check.trace import (
    Crash,
    Event,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ProcessName,
    Recover,
    Signalled,
    ViewInstalled,
    ViewName,
)
from hopring.services import Service

NOWHERE = ViewName(0, 0, 0)


def history(text: str) -> list[Event]:
    """The events of all lines, merged into one history."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    writers = [_Line(processes(line.partition(":")[0])[0], line.partition(":")[2]) for line in lines]
    sent: dict[MessageId, MessageSent] = {}
    for line in writers:
        line.read(sent)
    for line in writers:
        line.resolve(sent)
    return [event for line in writers for event in line.events]


def processes(text: str) -> tuple[ProcessName, ...]:
    """The processes in a text like `abc` or `aa.2`."""
    return tuple(ProcessName(name, int(start or 1)) for name, start in re.findall(r"([a-z])(?:\.(\d))?", text))


def site(daemon: str) -> int:
    return ord(daemon) - ord("a")


def view_name(text: str) -> ViewName:
    counter, letter = re.fullmatch(r"(\d+)([a-z]?)", text).groups()  # type: ignore[union-attr]
    return ViewName(int(counter), site(letter) if letter else 0, 0)


@dataclass
class _Line:
    process: ProcessName
    text: str
    view: ViewName = NOWHERE
    members: tuple[ProcessName, ...] = ()
    events: list[Event] = field(default_factory=list)
    # Deliveries and signals, until all lines are read.
    later: dict[int, list[str]] = field(default_factory=dict)

    def read(self, sent: dict[MessageId, MessageSent]) -> None:
        if not self.text.strip().startswith(("recover", "bare")):
            self.events.append(Recover(self.process, 0))
        for at_us, phrase in enumerate(self.text.split("|"), start=1):
            words = phrase.split()
            match words:
                case ["view", name, members, *rest]:
                    self.events.append(self._install(at_us, name, processes(members), rest))
                case ["send", number, *rest]:
                    event = self._send(at_us, int(number), rest)
                    sent.setdefault(event.message, event)
                    self.events.append(event)
                case ["deliver", _, *_] | ["signal", *_]:
                    self.later[len(self.events)] = words
                    self.events.append(Signalled(self.process, at_us, self.view, ()))
                case ["crash"]:
                    self.events.append(Crash(self.process, at_us))
                case ["recover"]:
                    self.events.append(Recover(self.process, at_us))
                case ["bare"] | []:
                    pass
                case _:
                    raise ValueError(phrase)

    def _install(
        self, at_us: int, name: str, members: tuple[ProcessName, ...], rest: list[str]
    ) -> ViewInstalled:
        primary = "majority" if rest[-1:] == ["primary"] else ""
        if rest[:1] == ["with"]:
            together = processes(rest[1])
        elif self.view == NOWHERE:
            together = (self.process,)
        else:
            together = tuple(member for member in members if member in self.members)
        self.view, self.members = view_name(name), members
        return ViewInstalled(self.process, at_us, self.view, members, together, primary=primary)

    def _send(self, at_us: int, number: int, rest: list[str]) -> MessageSent:
        service = (
            Service[rest.pop(0).upper()] if rest and rest[0].upper() in Service.__members__ else Service.AGREED
        )
        options = dict(zip(rest[::2], rest[1::2], strict=True))
        view = view_name(options["in"]) if "in" in options else self.view
        stamp = Ord(int(options.get("lts", number)), site(self.process.daemon), view)
        message = MessageId(self.process.daemon, self.process.incarnation, number)
        resilience = int(options.get("k", 0))
        return MessageSent(self.process, at_us, view, message, service, stamp, resilience=resilience)

    def resolve(self, sent: dict[MessageId, MessageSent]) -> None:
        for place, words in self.later.items():
            event = self.events[place]
            assert isinstance(event, Signalled)
            if words[0] == "deliver":
                self.events[place] = self._deliver(event, words, sent)
            else:
                said = processes(words[1]) if words[1:] else self._next_together(place)
                self.events[place] = Signalled(self.process, event.at_us, event.view, said)

    def _next_together(self, place: int) -> tuple[ProcessName, ...]:
        views = (event for event in self.events[place:] if isinstance(event, ViewInstalled))
        following = next(views, None)
        return (self.process,) if following is None else following.together

    def _deliver(
        self, event: Signalled, words: list[str], sent: dict[MessageId, MessageSent]
    ) -> MessageDelivered:
        who, _colon, number = words[1].partition(":")
        sender = processes(who)[0]
        message = MessageId(sender.daemon, sender.incarnation, int(number))
        options = dict(zip(words[2::2], words[3::2], strict=True))
        send = sent.get(message)
        view = view_name(options["in"]) if "in" in options else event.view
        stamp = send.ord if send else Ord(int(number), site(sender.daemon), view)
        if "lts" in options:
            stamp = stamp._replace(lts=int(options["lts"]))
        service = (
            Service[options["as"].upper()] if "as" in options else send.service if send else Service.AGREED
        )
        return MessageDelivered(self.process, event.at_us, view, message, service, stamp, "withheld" in options)
