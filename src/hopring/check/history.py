"""A history of daemons, indexed once for all checks: lives, stays in views, messages, and their names.

Only the order of events within one process is used, and for the starts of one daemon the order in which they
appear. Numbers of messages rise with their places in the order. Loose messages have a list of their own in each
stay, because only 2.1, 2.5, 2.6, 2.18 and 2.19 apply to them.

Names in witnesses are as short as the history allows, and never ambiguous. A daemon is `a`, in its second start
`a.2`, a session of a client at it `a/7`. A message is its sender and a number, `a:12`. A view is its counter,
with its representative or its whole id where another has the same.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from hopring.check.trace import (
    ClientDelivered,
    Counters,
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
from hopring.check.trace_row import view_text
from hopring.services import Service

# The most frequent first.
KINDS = (MessageDelivered, MessageSent, ViewInstalled, Signalled, Recover, Crash, Counters)
NEVER_SENT = -1

Components = Iterable[Collection[str]]
"""The daemons that were up at the end, by which of them could reach each other."""


@dataclass(slots=True)
class MessageTable:
    """All messages of a history, in lists over their numbers.

    Two messages with one stamp get two numbers all the same; that stamps differ is a check of its own.
    """

    number: dict[MessageId, int]
    ids: list[MessageId]
    service: list[Service]  # As it was sent; as it was first delivered, if it never was.
    sent: list[MessageSent | None]
    ord: list[Ord]
    sender: list[ProcessName] = field(init=False)
    place: list[int] = field(init=False)  # Among the messages of its session, in the order of their sends.

    def __post_init__(self) -> None:
        self.sender = [message.sender for message in self.ids]
        self.place = [NEVER_SENT] * len(self.ids)

    def place_in_session(self, sends: Iterable[MessageSent]) -> None:
        """Learns the order of one process's sends."""
        sent_so_far: Counter[ProcessName] = Counter()
        for event in sends:
            number = self.number[event.message]
            if self.place[number] == NEVER_SENT:
                self.place[number] = sent_so_far[event.message.sender]
                sent_so_far[event.message.sender] += 1


def number_messages(sends: Iterable[MessageSent], deliveries: Iterable[MessageDelivered]) -> MessageTable:
    """Gives every message its number. The first send counts; whether there are more is a check of its own."""
    known: dict[MessageId, MessageSent | MessageDelivered] = {}
    for sent in sends:
        known.setdefault(sent.message, sent)
    for delivered in deliveries:
        if delivered.message not in known:
            known[delivered.message] = delivered
    stamps: dict[MessageId, Ord] = {message: event.ord for message, event in known.items()}
    ids = sorted(stamps, key=stamps.__getitem__)
    events = [known[message] for message in ids]
    return MessageTable(
        number={message: number for number, message in enumerate(ids)},
        ids=ids,
        service=[event.service for event in events],
        sent=[event if isinstance(event, MessageSent) else None for event in events],
        ord=[event.ord for event in events],
    )


@dataclass(slots=True, eq=False)
class Stay:
    """One process's time in one view."""

    installed: ViewInstalled
    before: "Stay | None"
    after: "Stay | None" = None
    process: ProcessName = field(init=False)
    view: ViewName = field(init=False)
    members: frozenset[ProcessName] = field(init=False)
    together: frozenset[ProcessName] = field(init=False)
    delivered: list[int] = field(default_factory=list)
    loose: list[int] = field(default_factory=list)  # The Unreliable ones.
    withheld: set[int] = field(default_factory=set)  # Passed over for want of a primary view.
    signals: list[Signalled] = field(default_factory=list)
    cut: int | None = None  # The number of messages before the first signal.

    def __post_init__(self) -> None:
        self.process = self.installed.process
        self.view = self.installed.view
        self.members = frozenset(self.installed.members)
        self.together = frozenset(self.installed.together)

    @property
    def regular(self) -> list[int]:
        """The messages delivered before the signal, or all if there was none."""
        return self.delivered[: self.cut]

    @property
    def everything(self) -> list[int]:
        """The messages of all services delivered in this view."""
        return [*self.delivered, *self.loose] if self.loose else self.delivered

    @property
    def transitional(self) -> list[int]:
        """The messages delivered after the signal."""
        return [] if self.cut is None else self.delivered[self.cut :]


@dataclass(slots=True, eq=False)
class ProcessSend:
    """A send, and where in its sender's life it lies."""

    event: MessageSent
    number: int
    stay: Stay | None
    heard: int  # The number of messages the sender had delivered.
    position: int  # Among the events of its sender.


@dataclass(slots=True, eq=False)
class Life:
    """Everything that one process did."""

    process: ProcessName
    events: list[Event] = field(default_factory=list)
    deliveries: list[MessageDelivered] = field(default_factory=list)  # Of all services.
    numbers: list[int] = field(default_factory=list)  # The messages of these.
    delivered: list[int] = field(default_factory=list)
    got: set[int] = field(default_factory=set)  # `delivered` as a set.
    sends: list[ProcessSend] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    # Events before the first view, and events that name another view than the one they are in.
    outside: list[tuple[int, MessageDelivered | Signalled]] = field(default_factory=list)  # With positions.
    misplaced: list[tuple[int, MessageDelivered | Signalled]] = field(default_factory=list)
    borders: list[tuple[int, Recover | Crash]] = field(default_factory=list)
    crashed: bool = False
    first_at: dict[int, int] = field(default_factory=dict)  # By message: its first delivery, once asked for.
    positions: list[int] = field(default_factory=list)  # Of the reliable deliveries, once asked for.


@dataclass(slots=True)
class History:
    """A history as all checks of daemons take it."""

    quiet_end: bool  # Whether all messages in flight could arrive.
    lives: dict[ProcessName, Life]
    messages: MessageTable
    views: dict[ViewName, dict[ProcessName, Stay]]  # The first stay, should a process install a view twice.
    starts: dict[str, list[ProcessName]]  # The lives of each daemon, the oldest first.
    view_names: dict[ViewName, str] = field(default_factory=dict)  # Where a view is not called by its counter.
    components: Components | None = None
    counters_survive: bool = True  # Whether a daemon's counter of views survives its restarts.
    view_ids: dict[ViewName, str] = field(default_factory=dict)  # Of groups' views, as the trace has them.

    def view_id(self, view: ViewName) -> str:
        """The id of a view as the trace has it."""
        return self.view_ids.get(view) or view_text(view)

    @property
    def stays(self) -> Iterator[Stay]:
        """The stays of all processes."""
        return (stay for life in self.lives.values() for stay in life.stays)

    def has(self, process: ProcessName, number: int) -> bool:
        """Whether the process delivered this message, in any view."""
        life = self.lives.get(process)
        return life is not None and number in life.got

    def alive_at_quiet_end(self, process: ProcessName) -> bool:
        """Whether the process was there when everything had settled. The end of any other trace is a crash."""
        life = self.lives.get(process)
        return self.quiet_end and life is not None and not life.crashed

    def crashed_in(self, stay: Stay) -> bool:
        """Whether the process ended in this view; one that is in it at a quiet end did not."""
        return stay.after is None and not self.alive_at_quiet_end(stay.process)


def index(
    events: Iterable[object],
    quiet_end: bool,
    components: Components | None = None,
    counters_survive: bool = True,
) -> History:
    """Indexes a history; values that are no events of daemons are ignored."""
    lives, sends = _by_process(events)
    messages = number_messages(sends, (event for life in lives.values() for event in life.deliveries))
    starts: dict[str, list[ProcessName]] = {}
    views: dict[ViewName, dict[ProcessName, Stay]] = {}
    for life in lives.values():
        _follow(life, messages)
        for stay in life.stays:
            views.setdefault(stay.view, {}).setdefault(life.process, stay)
        if not life.process.session:
            starts.setdefault(life.process.daemon, []).append(life.process)
    for processes in starts.values():
        for process in processes[:-1]:
            lives[process].crashed = True  # A daemon that starts again had ended, even if in silence.
    return History(quiet_end, lives, messages, views, starts, {}, components, counters_survive)


def _by_process(events: Iterable[object]) -> tuple[dict[ProcessName, Life], list[MessageSent]]:
    lives: dict[ProcessName, Life] = {}
    sends: list[MessageSent] = []
    for event in events:
        if not isinstance(event, KINDS):
            continue
        life = lives.get(event.process)
        if life is None:
            life = lives[event.process] = Life(event.process)
        life.events.append(event)
        if isinstance(event, MessageDelivered):
            life.deliveries.append(event)
        elif isinstance(event, MessageSent):
            sends.append(event)
        elif isinstance(event, Recover | Crash):
            life.borders.append((len(life.events) - 1, event))
    return lives, sends


def _follow(life: Life, messages: MessageTable) -> None:
    """Cuts a life into its stays."""
    stay: Stay | None = None
    life.numbers = [messages.number[event.message] for event in life.deliveries]
    heard = 0
    for position, event in enumerate(life.events):
        if isinstance(event, MessageDelivered):
            number = life.numbers[heard]
            heard += 1
            if messages.service[number].reliable:
                life.delivered.append(number)
                if stay is not None:
                    stay.delivered.append(number)
            elif stay is not None:
                stay.loose.append(number)
            if event.withheld and stay is not None:
                stay.withheld.add(number)
            if stay is None or event.view != stay.view:
                _out_of_place(life, position, event, stay)
        elif isinstance(event, MessageSent):
            number = messages.number[event.message]
            life.sends.append(ProcessSend(event, number, stay, heard, position))
        elif isinstance(event, ViewInstalled):
            stay = _enter(life, event, stay)
        elif isinstance(event, Signalled):
            _close(life, position, event, stay)
        elif isinstance(event, Crash):
            life.crashed = True
    life.got.update(life.delivered)
    messages.place_in_session(sending.event for sending in life.sends)


def _enter(life: Life, event: ViewInstalled, before: Stay | None) -> Stay:
    stay = Stay(event, before)
    if before is not None:
        before.after = stay
    life.stays.append(stay)
    return stay


def _close(life: Life, position: int, event: Signalled, stay: Stay | None) -> None:
    if stay is None or event.view != stay.view:
        _out_of_place(life, position, event, stay)
    if stay is not None:
        stay.signals.append(event)
        if stay.cut is None:
            stay.cut = len(stay.delivered)


def _out_of_place(life: Life, position: int, event: MessageDelivered | Signalled, stay: Stay | None) -> None:
    (life.outside if stay is None else life.misplaced).append((position, event))


class HistoryNames:
    """The names in one history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._same_counter: defaultdict[int, set[ViewName]] = defaultdict(set)
        for view in history.views:
            self._same_counter[view.counter].add(view)

    def process(self, process: ProcessName) -> str:
        """A process, such as `a`, `a.2` for its second start, or `a/7` for a session."""
        daemon = process._replace(session=0)
        starts = self._history.starts.get(process.daemon, [])
        if daemon in starts:
            start = starts.index(daemon) + 1
            name = process.daemon if start == 1 else f"{process.daemon}.{start}"
        else:
            name = f"{process.daemon}.{process.incarnation:x}?" if starts else process.daemon
        return f"{name}/{process.session}" if process.session else name

    def processes(self, processes: Iterable[ProcessName]) -> str:
        """A set of processes, by name."""
        return "{" + " ".join(sorted(map(self.process, processes))) + "}"

    def view(self, view: ViewName) -> str:
        """A view, by as much of its id as makes it unambiguous."""
        if view in self._history.view_names:
            return self._history.view_names[view]
        others = self._same_counter[view.counter] - {view}
        if not others:
            return f"view {view.counter}"
        if all(view.representative != other.representative for other in others):
            return f"view {view.counter} of {view.representative}"
        return f"view {view.counter} of {view.representative} ({view.nonce:x})"

    def message(self, message: MessageId) -> str:
        """A message, such as `a:12`."""
        return f"{self.process(message.sender)}:{message.number}"

    def number(self, number: int) -> str:
        """The message with this number."""
        return self.message(self._history.messages.ids[number])

    def ord(self, ord: Ord) -> str:
        """A place in the order, as in `lts 7 of site 0 in view 2`, if it is the first of its bundle."""
        place = f", {ord.place} in its bundle" if ord.place else ""
        return f"lts {ord.lts} of site {ord.site} in {self.view(ord.view)}{place}"

    def install(self, stay: Stay) -> str:
        """The installation of a view, as in `a installed view 2 at 5 us`."""
        return f"{self.process(stay.process)} installed {self.view(stay.view)} at {stay.installed.at_us} us"

    def delivery(self, event: MessageDelivered) -> str:
        """A delivery, as in `a delivered b:1 at 5 us`."""
        return f"{self.process(event.process)} delivered {self.message(event.message)} at {event.at_us} us"

    def send(self, event: MessageSent) -> str:
        """A send, as in `a sent a:1 at 5 us`."""
        return f"{self.process(event.process)} sent {self.message(event.message)} at {event.at_us} us"

    def delivered(self, process: ProcessName, number: int) -> str:
        """The same, from the message's number; the process did deliver it."""
        return self.delivery(first_delivery(self._history.lives[process], number))


def first_delivery(life: Life, number: int) -> MessageDelivered:
    """The event of the first delivery of a message, for a witness."""
    if not life.first_at:
        for at, delivered in enumerate(life.numbers):
            life.first_at.setdefault(delivered, at)
    return life.deliveries[life.first_at[number]]


def position_of(history: History, life: Life, delivered: int) -> int:
    """The position of a reliable delivery among the events of its process, for a witness."""
    if not life.positions:
        kinds, service = (MessageDelivered, ClientDelivered), history.messages.service
        places = [at for at, event in enumerate(life.events) if isinstance(event, kinds)]
        pairs = zip(places, life.numbers, strict=True)
        life.positions = [at for at, number in pairs if service[number].reliable]
    return life.positions[delivered]
