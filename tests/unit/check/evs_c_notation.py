"""Handwritten histories of clients: one line per session, its events in order, separated by bars.

a: view red 1.1 a | view red 1.2 ab | send 1 to red | got a:1
b: view red 1.2 ab | got a:1 | leave red | left red

A letter is the only session of the daemon with that letter. The connect at the start is implied, and so is the
join before a session's first view of a group; `bare` at the start of a line implies nothing.

view red 2.1 ab with a by network   a view of a group: `2.1` is step 1 in the daemons' view 2, `2.-1>3` was
                                    made while that view closed, on the way to 3; `with` names the members that
                                    come along, by default the session itself after a join, then those in both
                                    views; `by` names the cause, by default a join
signal red ab                       by default for the members that come along to the next view
send 1 safe to red,green discard    message 1 of this session; Agreed by default; `k 2` gives it a resilience
got a:1                             as it was sent, in its place: `lts` is its number by default
join red, leave red, disconnect     requests of the session
left red, gone, crash               events of the session; a crash is that of its daemon
daemons 2 bc                        its daemon installs this view of daemons; `primary` makes it one

The time of an event is its place in the line, from 1.
"""

import re

from msgspec.structs import replace

from hopring.check.judge import check_evs_c
from hopring.check.properties.property import Verdict
from hopring.check.trace import (
    AsksEnd,
    AsksJoin,
    AsksLeave,
    ClientConnected,
    ClientDelivered,
    ClientSent,
    Crash,
    Event,
    Gone,
    GroupInstalled,
    GroupLeft,
    GroupSignal,
    GroupViewName,
    MessageId,
    Ord,
    ProcessName,
    Recover,
    ViewInstalled,
    ViewName,
)
from hopring.services import Service


def sessions(text: str) -> tuple[ProcessName, ...]:
    return tuple(ProcessName(letter, 1, 1) for letter in text)


def group_view(text: str) -> GroupViewName:
    counter, _, rest = text.partition(".")
    step, *path = rest.split(">")
    return GroupViewName(_view(counter), tuple(_view(one) for one in path), abs(int(step)))


def _view(counter: str) -> ViewName:
    return ViewName(int(counter), 0, 0)


def client_history(text: str) -> list[Event]:
    """The events of all lines, merged into one history."""
    lines = [line.strip().partition(":")[::2] for line in text.strip().splitlines() if line.strip()]
    sent: dict[str, ClientSent] = {}
    for who, phrases in lines:
        for phrase in phrases.split("|"):
            words = phrase.split()
            if words[:1] == ["send"]:
                sent[f"{who}:{words[1]}"] = _send(sessions(who)[0], 0, words)
    return [event for who, phrases in lines for event in _Line(who, sent).read(phrases)]


def _send(process: ProcessName, at_us: int, words: list[str]) -> ClientSent:
    service = next(
        (Service[one.upper()] for one in words if one.upper() in Service.__members__), Service.AGREED
    )
    groups = tuple(words[words.index("to") + 1].split(",")) if "to" in words else ("red",)
    name = MessageId(process.daemon, 1, int(words[1]), 1)
    resilience = int(words[words.index("k") + 1]) if "k" in words else 0
    return ClientSent(process, at_us, groups, name, service, 0, "discard" in words, resilience)


class _Line:
    def __init__(self, who: str, sent: dict[str, ClientSent]) -> None:
        self.me = sessions(who)[0]
        self.daemon = self.me._replace(session=0)
        self.sent = sent
        self.below = ""  # The members of the daemon's view.
        self.present: dict[str, GroupInstalled] = {}
        self.events: list[Event] = []

    def read(self, text: str) -> list[Event]:
        phrases = [phrase.split() for phrase in text.split("|")]
        bare = phrases[0] == ["bare"]
        if not bare:
            self.events += [Recover(self.daemon, 0), ClientConnected(self.me, 0, "x", f"#x#{self.me.daemon}")]
        for at_us, words in enumerate(phrases, start=1):
            self._read(at_us, words, bare)
        return self._with_sets()

    def _read(self, at_us: int, words: list[str], bare: bool) -> None:  # noqa: PLR0912
        match words:
            case ["view", group, name, members, *rest]:
                if group not in self.present and not bare:
                    self.events.append(AsksJoin(self.me, at_us, group))
                self.events.append(self._install(at_us, group, name, members, rest))
            case ["signal", group, *rest]:
                view = self.present[group].view if group in self.present else group_view("9.9")
                together = sessions(rest[0]) if rest else ()
                self.events.append(GroupSignal(self.me, at_us, group, view, together))
            case ["send", *_]:
                self.events.append(_send(self.me, at_us, words))
            case ["got", name, *rest]:
                self.events.append(self._got(at_us, name, dict(zip(rest[::2], rest[1::2], strict=True))))
            case ["join", group]:
                self.events.append(AsksJoin(self.me, at_us, group))
            case ["leave", group]:
                self.events.append(AsksLeave(self.me, at_us, group))
            case ["left", group]:
                self.present.pop(group, None)
                self.events.append(GroupLeft(self.me, at_us, group))
            case ["daemons", counter, members, *primary]:
                installed = self._install_below(at_us, _view(counter), members)
                self.events.append(replace(installed, primary="majority") if primary else installed)
            case ["disconnect"]:
                self.events.append(AsksEnd(self.me, at_us))
            case ["gone"]:
                self.events.append(Gone(self.me, at_us))
            case ["connect"]:
                self.events.append(ClientConnected(self.me, at_us, "x", f"#x#{self.me.daemon}"))
            case ["crash"]:
                self.events.append(Crash(self.daemon, at_us))
            case ["bare"] | []:
                pass
            case _:
                raise ValueError(words)

    def _install(self, at_us: int, group: str, name: str, members: str, rest: list[str]) -> GroupInstalled:
        options = dict(zip(rest[::2], rest[1::2], strict=True))
        before = self.present.get(group)
        together = sessions(members) if before else (self.me,)
        if before:
            together = tuple(one for one in together if one in before.members)
        if "with" in options:
            together = sessions(options["with"])
        parts = group_view(name), sessions(members), together, options.get("by", "join")
        self.present[group] = GroupInstalled(self.me, at_us, group, *parts)
        return self.present[group]

    def _install_below(self, at_us: int, view: ViewName, members: str) -> ViewInstalled:
        together = [one for one in members if one in self.below] if self.below else [self.me.daemon]
        self.below = members
        sets = [
            tuple([one._replace(session=0) for one in sessions("".join(some))]) for some in (members, together)
        ]
        return ViewInstalled(self.daemon, at_us, view, sets[0], sets[1])

    def _got(self, at_us: int, name: str, options: dict[str, str]) -> ClientDelivered:
        letter, number = name.split(":")
        send = self.sent.get(name) or _send(sessions(letter)[0], 0, ["send", number])
        service = Service[options["as"].upper()] if "as" in options else send.service
        groups = tuple(options["to"].split(",")) if "to" in options else send.groups
        place = Ord(int(options.get("lts", number)), ord(letter) - ord("a"), _view("1"))
        return ClientDelivered(self.me, at_us, groups, send.message, service, place)

    def _with_sets(self) -> list[Event]:
        """Fills in the sets of signals: the members that come along to the next view of their group."""
        out: list[Event] = []
        for at, event in enumerate(self.events):
            if isinstance(event, GroupSignal) and not event.together:
                later = (
                    one
                    for one in self.events[at:]
                    if isinstance(one, GroupInstalled) and one.group == event.group
                )
                following = next(later, None)
                together = following.together if following else (self.me,)
                out.append(GroupSignal(event.process, event.at_us, event.group, event.view, together))
            else:
                out.append(event)
        return out


def verdict(text: str, number: str, components: list[set[str]] | None = None) -> Verdict:
    """The verdict on one property, by the beginning of its name, with a quiet end."""
    name = re.escape(number)
    verdicts = check_evs_c(client_history(text), True, components)
    (found,) = [one for one in verdicts if re.match(rf"EVS-C {name}(?![\d(])", one.property)]
    return found
