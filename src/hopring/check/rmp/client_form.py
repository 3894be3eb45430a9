"""A history of peers as one of clients, so that EVS-C judges rings as it judges groups of daemons.

Below       the events of peers; the trace words of clients.
Invariants  a member is a session of its own; a list is a view, and its epoch and timestamp are the view's id.
Deviations  RMP does not promise one order to both sides of a split: a packet without a place that both sides
            know is sent again in the next epoch, and may have another place there. So there are two forms.
            In *the order* only messages with a place count, and each epoch that orders a packet makes it
            another message. In *the whole* a packet is one message, whatever its service; nothing is asked
            of its place.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from hopring.check.history import Components
from hopring.check.judge import check_evs_c
from hopring.check.properties.property import EVS_C, Verdict
from hopring.check.rmp.peer_events import (
    AskedToLeave,
    DataLeft,
    DataSent,
    DataShown,
    ListClosed,
    ListSeen,
    PeerEvent,
    RingStayEnded,
    SlotsOrdered,
    number_of,
    process_of,
    source_of,
)
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
    ViewName,
)

GROUP: Final = "ring"
LOOSE_FROM: Final = 10**8
COPY_FROM: Final = 10**9
"""Numbers of Unreliable messages, and of messages that a later epoch orders, begin behind these."""

LATE: Final = 10**6
"""The timestamp, for the whole, of a message that nobody has ordered."""

_WHOLE: Final = ("2.5 ", "2.6 ", "2.7 ", "2.11 ", "2.15 ", "2.17 ")
"""The properties that are judged of the whole; they do not ask for places."""

_NOT_IN_ORDER: Final = ("2.5 ", "2.7 ", "2.15 ", "2.17 ")
"""The properties that are judged of the whole only: a packet is one message for them."""


def check_rings(
    events: Iterable[PeerEvent], quiet_end: bool, components: Components | None = None
) -> list[Verdict]:
    """A verdict on each property of EVS-C, of the history of one group."""
    history = list(events)
    whole = check_evs_c(client_history(history, copies=False), quiet_end, components)
    order = check_evs_c(client_history(history, copies=True), quiet_end, components)
    verdicts = [one for one in order if not _named(one, _NOT_IN_ORDER)]
    return verdicts + [one for one in whole if _named(one, _WHOLE)]


def _named(verdict: Verdict, numbers: tuple[str, ...]) -> bool:
    return verdict.property.removeprefix(EVS_C).startswith(numbers)


def client_history(events: list[PeerEvent], *, copies: bool) -> list[Event]:
    """The history of clients: of the order with `copies`, otherwise of the whole."""
    return _Translator(events, copies=copies).translate()


class _Translator:
    """Goes through a history of peers and writes what each member does as a session."""

    def __init__(self, events: list[PeerEvent], *, copies: bool) -> None:
        self._events = _as_sent(events)
        self._copies = copies
        self._names = _sessions(events)
        self._places = _places(events, copies=copies)
        self._out: list[Event] = []
        self._present: dict[str, ProcessName] = {}  # By process, the member that it is.
        self._view: dict[str, GroupViewName] = {}
        self._senders: dict[str, ProcessName] = {}  # By message, the member that sent it.
        self._unsent: defaultdict[str, dict[str, DataSent]] = defaultdict(dict)  # By process and message.
        self._written: set[MessageId] = set()

    def translate(self) -> list[Event]:
        for event in self._events:
            match event:
                case ListSeen():
                    self._install(event)
                case ListClosed(process=process) if process in self._present:
                    together = self._sessions_of(event.together)
                    session = self._present[process]
                    self._out.append(GroupSignal(session, event.at_us, GROUP, self._view[process], together))
                case DataSent(service=service) if service.total or service.loose or not self._copies:
                    self._send(event)
                case DataShown(service=service) if service.total or service.loose or not self._copies:
                    self._deliver(event)
                case AskedToLeave(process=process) if process in self._present:
                    self._out.append(AsksLeave(self._present[process], event.at_us, GROUP))
                case RingStayEnded(process=process) if process in self._present:
                    self._end(event)
                case _:
                    pass
        for process in sorted(self._present):
            self._send_the_rest(process)
        return self._out

    def _sessions_of(self, members: Iterable[str]) -> tuple[ProcessName, ...]:
        return tuple([self._names[member] for member in members])

    def _install(self, event: ListSeen) -> None:
        process, at_us = event.process, event.at_us
        own = [self._names[one] for one in event.members if process_of(one) == process]
        me = own[0] if own else self._present.get(process)
        if me is None:
            return  # It is told of a list before it is a member: there is no session to show it to.
        if self._present.get(process) != me:
            self._present[process] = me
            self._out.append(Recover(me._replace(session=0), at_us))
            self._out.append(ClientConnected(me, at_us, process, f"#{process}#{me.incarnation}"))
            self._out.append(AsksJoin(me, at_us, GROUP))
        before = self._view.get(process)
        view = self._view[process] = GroupViewName(ViewName(event.epoch, 0, 0), (), event.timestamp)
        members, together = self._sessions_of(event.members), self._sessions_of(event.together)
        cause = "network" if event.cause == "failure" else "join" if event.cause == "lock" else event.cause
        enters = before is None or before.view != view.view
        if enters:
            # Epochs that it never comes to have ordered what they had from it before.
            self._send_waiting(process, range(1, event.epoch))
        self._out.append(GroupInstalled(me, at_us, GROUP, view, members, together, cause))
        if enters:
            self._send_waiting(process, [event.epoch])

    def _send(self, event: DataSent) -> None:
        if event.process not in self._present:
            return  # It was not a member: nothing is promised of it, and nobody delivers it.
        self._senders[event.message] = self._present[event.process]
        if not self._copies or event.service.loose:
            self._write_send(event, 0)
            return
        self._unsent[event.process][event.message] = event
        places = self._places.get(event.message, {})
        now = self._view[event.process].view.counter
        if not places or now in places:
            self._write_send(event, now)
        if not any(epoch > now for epoch in places):
            del self._unsent[event.process][event.message]

    def _send_waiting(self, process: str, epochs: Iterable[int]) -> None:
        """Messages of before that these epochs order: their source sends them in each."""
        for epoch in epochs:
            for message, event in list(self._unsent[process].items()):
                if epoch in self._places.get(message, {}):
                    self._write_send(event, epoch)

    def _send_the_rest(self, process: str) -> None:
        """Messages that were ordered in epochs that their source has never come to: others had them from it."""
        for message, event in self._unsent.pop(process, {}).items():
            for epoch in sorted(self._places.get(message, {})):
                self._write_send(event, epoch)

    def _write_send(self, event: DataSent, epoch: int) -> None:
        sender, groups = self._senders[event.message], (GROUP,)
        if sender != self._present.get(event.process):
            return
        message = self._message(event.message, epoch)
        if message in self._written:
            return
        self._written.add(message)
        resilience = event.resilience
        self._out.append(
            ClientSent(sender, event.at_us, groups, message, event.service, 1, resilience=resilience)
        )

    def _deliver(self, event: DataShown) -> None:
        if event.process not in self._present or event.call:
            return  # Nobody sent a call in a view.
        session, groups = self._present[event.process], (GROUP,)
        epoch = 0 if event.service.loose or not self._copies else event.epoch
        message, place = self._message(event.message, epoch), self._ord(event)
        self._out.append(ClientDelivered(session, event.at_us, groups, message, event.service, place))

    def _message(self, message: str, epoch: int) -> MessageId:
        """The id of a message; in the order, of its copy in this epoch."""
        sender = self._senders.get(message) or ProcessName(*_life(source_of(message)), 1)
        number = number_of(message) + (LOOSE_FROM if ":u" in message else 0)
        if epoch and self._copies:
            epochs = sorted(self._places.get(message, {}))
            number += COPY_FROM * (epochs.index(epoch) if epoch in epochs else 0)
        return MessageId(sender.daemon, sender.incarnation, number, sender.session)

    def _ord(self, event: DataShown) -> Ord:
        places = self._places.get(event.message, {})
        epoch = event.epoch if self._copies and event.epoch in places else max(places, default=event.epoch)
        timestamp = places.get(epoch, LATE + number_of(event.message))
        # A timestamp of a later epoch is above all of an earlier one, though both sides of a split count on.
        # Messages without a place share a timestamp with those of other sources.
        sender = self._senders.get(event.message) or ProcessName(*_life(source_of(event.message)), 1)
        site = 0 if epoch in places else sender.incarnation
        return Ord((epoch << 32) + timestamp, site, ViewName(epoch, 0, 0))

    def _end(self, event: RingStayEnded) -> None:
        self._send_the_rest(event.process)
        session = self._present.pop(event.process)
        self._view.pop(event.process)
        if event.cause == "leave":
            self._out.append(GroupLeft(session, event.at_us, GROUP))
            self._out.append(AsksEnd(session, event.at_us))
            self._out.append(Gone(session, event.at_us))
        else:
            self._out.append(Crash(session._replace(session=0), event.at_us))


def _as_sent(events: list[PeerEvent]) -> list[PeerEvent]:
    """Messages whose packets leave in a later stay than the one in which they were handed over are sent there.

    What has not left when a process is removed from its ring waits until it is a member again.
    """
    left = {event.message for event in events if isinstance(event, DataLeft)}
    open_: dict[str, int] = {}  # By message that has not left: its place.
    waiting: dict[str, list[int]] = {}  # By process: the places of those whose stay has ended.
    out: list[PeerEvent | None] = []
    for event in events:
        out.append(event)
        match event:
            case DataSent(message=message) if message in left:
                open_[message] = len(out) - 1
            case DataLeft(message=message):
                open_.pop(message, None)
            case RingStayEnded(process=process):
                ended = [message for message in open_ if source_of(message) == process]
                waiting.setdefault(process, []).extend([open_.pop(message) for message in ended])
            case ListSeen(process=process, at_us=at_us):
                for place in waiting.pop(process, ()):
                    sent, out[place] = out[place], None
                    assert isinstance(sent, DataSent), "this is its place"
                    open_[sent.message] = len(out)
                    out.append(msgspec.structs.replace(sent, at_us=at_us))
            case _:
                pass
    return [event for event in out if event is not None]


def _life(process: str) -> tuple[str, int]:
    name, _, life = process.partition(".")
    return name, int(life or 1)


def _sessions(events: Iterable[PeerEvent]) -> dict[str, ProcessName]:
    """The session of each member: the number of its membership among those of its peer, over all its lives."""
    members = {one for event in events if isinstance(event, ListSeen) for one in event.members}
    by_peer: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for member in members:
        name, life = _life(process_of(member))
        by_peer[name].append((life, member.count("'"), member))
    return {
        member: ProcessName(name, number, 1)
        for name, lives in by_peer.items()
        for number, (_, _, member) in enumerate(sorted(lives), start=1)
    }


def _places(events: Iterable[PeerEvent], *, copies: bool) -> dict[str, dict[int, int]]:
    """By message and epoch, its timestamp: as delivered, or for the whole as ordered."""
    places: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for event in events:
        if isinstance(event, DataShown) and event.timestamp:
            places[event.message].setdefault(event.epoch, event.timestamp)
        elif isinstance(event, SlotsOrdered) and not copies:
            for timestamp, message in enumerate(event.messages, start=event.timestamp + 1):
                places[message].setdefault(event.epoch, timestamp)
    return dict(places)
