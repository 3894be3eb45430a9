"""A small model of ideal daemons: from a seed it makes histories that keep every property.

The model knows the whole state at once (which daemon holds which message, all clocks), so it needs no protocol:
a message is settled when nothing lower can come any more, and stable when all members hold everything up to it.
Views change by splits, merges, crashes and restarts; some members of an attempt die half way through, and some
drop out although they are bound by it already and end in another view. Messages lost with their holders leave
holes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

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


@dataclass(eq=False)
class View:
    """A view, all messages sent in it, and the members that hold each."""

    name: ViewName
    members: tuple[ProcessName, ...]
    log: list[MessageSent] = field(default_factory=list)  # In the order of the stamps.
    held: dict[ProcessName, set[MessageId]] = field(default_factory=dict)  # By members that installed it.
    delivered: dict[ProcessName, set[MessageId]] = field(default_factory=dict)
    # Number of entries of the log that are delivered in order.
    line: dict[ProcessName, int] = field(default_factory=dict)


@dataclass
class Run:
    """The result of a seed."""

    events: list[Event]
    components: list[set[str]]


class Model:
    """The daemons, their views, and the history so far."""

    def __init__(self, seed: int, daemons: int = 5) -> None:
        self.dice = Random(seed)
        self.names = "abcdefghi"[:daemons]
        self.clock = dict.fromkeys(self.names, 0)
        self.counter = dict.fromkeys(self.names, 0)  # Counter of views; it survives restarts.
        self.sent = dict.fromkeys(self.names, 0)
        self.up: dict[str, ProcessName] = {}
        self.at: dict[ProcessName, View] = {}
        # Unreliable messages, and the daemons that have received them.
        self.loose: list[tuple[MessageSent, set[ProcessName]]] = []
        self.events: list[Event] = []
        self.components: list[list[ProcessName]] = []

    def run(self, views: int = 6, steps: int = 40) -> Run:
        """Some views with some traffic in each, then a quiet end."""
        for daemon in self.names:
            self._start(daemon)
        for _ in range(views):
            self._reform(trouble=True)
            for _ in range(self.dice.randrange(steps)):
                self._traffic()
        self._reform(trouble=False)
        for _ in range(steps):
            self._traffic()
        self._drain()
        return Run(self.events, [{process.daemon for process in component} for component in self.components])

    # Traffic within a view.

    def _traffic(self) -> None:
        process = self.dice.choice(list(self.at))
        match self.dice.randrange(4):
            case 0:
                self._send(process, self.dice.choice(list(Service)))
            case 1 | 2:
                self._receive(process)
            case _:
                self._promise(process)
        self._deliver(process)

    def _send(self, process: ProcessName, service: Service) -> None:
        daemon, view = process.daemon, self.at[process]
        self.clock[daemon] += 1
        self.sent[daemon] += 1
        message = MessageId(daemon, process.incarnation, self.sent[daemon])
        stamp = Ord(self.clock[daemon], self.names.index(daemon), view.name)
        sent = MessageSent(process, self._now(), view.name, message, service, stamp, self.dice.randrange(100))
        self.events.append(sent)
        if service is Service.UNRELIABLE:
            self.loose.append((sent, set()))
            return
        view.log.append(sent)
        view.log.sort(key=lambda sent: sent.ord)
        view.held[process].add(message)

    def _receive(self, process: ProcessName) -> None:
        view = self.at[process]
        coming = [sent for sent in view.log if sent.message not in view.held[process]]
        if coming:
            sent = self.dice.choice(coming)
            view.held[process].add(sent.message)
            self.clock[process.daemon] = max(self.clock[process.daemon], sent.ord.lts)

    def _promise(self, process: ProcessName) -> None:
        """The clock may rise at any time; here, to the highest of the view."""
        here = [other.daemon for other, view in self.at.items() if view is self.at[process]]
        self.clock[process.daemon] = max(self.clock[daemon] for daemon in here)

    def _deliver(self, process: ProcessName) -> None:
        self._deliver_loose(process)
        self._deliver_early(process)
        view = self.at[process]
        while view.line[process] < len(view.log):
            sent = view.log[view.line[process]]
            if sent.message not in view.held[process] or not self._settled(view, sent):
                break
            if sent.service is Service.SAFE and not self._stable(view, sent):
                break
            self._give(process, sent)
            view.line[process] += 1

    def _deliver_loose(self, process: ProcessName) -> None:
        for sent, had in self.loose:
            here = sent.view == self.at[process].name
            if here and process not in had and self.dice.random() < 0.05:
                had.add(process)
                self._give(process, sent)

    def _deliver_early(self, process: ProcessName) -> None:
        """Delivers Reliable messages at once, and FIFO ones after all earlier ones of their session."""
        view = self.at[process]
        waiting: set[ProcessName] = set()  # Sessions with an earlier message that is not delivered.
        for sent in view.log:
            if sent.message in view.delivered[process]:
                continue
            early = sent.service is Service.RELIABLE
            early |= sent.service is Service.FIFO and sent.process not in waiting
            if early and sent.message in view.held[process]:
                self._give(process, sent)
            else:
                waiting.add(sent.process)

    def _settled(self, view: View, sent: MessageSent) -> bool:
        """Whether nothing lower can come: all members are here, and their clocks have reached the stamp."""
        return all(member in view.held and self.clock[member.daemon] >= sent.ord.lts for member in view.members)

    def _stable(self, view: View, sent: MessageSent) -> bool:
        lower = {other.message for other in view.log if other.ord <= sent.ord}
        return all(lower <= view.held.get(member, set()) for member in view.members)

    def _give(self, process: ProcessName, sent: MessageSent) -> None:
        view = self.at[process]
        if sent.service is not Service.UNRELIABLE:
            if sent.message in view.delivered[process]:
                return
            view.delivered[process].add(sent.message)
        event = MessageDelivered(process, self._now(), view.name, sent.message, sent.service, sent.ord)
        self.events.append(event)

    # Changes of views.

    def _reform(self, trouble: bool) -> None:
        if trouble:
            self._crash_and_restart()
        processes = list(self.up.values())
        self.dice.shuffle(processes)
        cuts = sorted(self.dice.randrange(len(processes) + 1) for _ in range(self.dice.randrange(3)))
        bounds = list(zip([0, *cuts], [*cuts, len(processes)], strict=True))
        self.components = [processes[low:high] for low, high in bounds if low < high]
        for component in self.components:
            self._move(component, trouble)

    def _crash_and_restart(self) -> None:
        for daemon in self.names:
            if daemon not in self.up and self.dice.random() < 0.5:
                self._start(daemon)
            elif daemon in self.up and len(self.up) > 1 and self.dice.random() < 0.15:
                self._crash(self.up[daemon])

    def _start(self, daemon: str) -> None:
        self.up[daemon] = ProcessName(daemon, self.dice.getrandbits(64))
        self.events.append(Recover(self.up[daemon], self._now()))

    def _crash(self, process: ProcessName) -> None:
        self.events.append(Crash(process, self._now()))
        del self.up[process.daemon]
        self.at.pop(process, None)

    def _move(self, component: list[ProcessName], trouble: bool) -> None:
        """An attempt: all members are bound by it, most install its view, a few end elsewhere or die."""
        view = self._new_view(component)
        stragglers = [process for process in component[1:] if trouble and self.dice.random() < 0.1]
        elsewhere = self._new_view(stragglers) if stragglers else view
        old = {process: self.at.get(process) for process in component}
        bound = [(process, self._companions(process, component, old)) for process in component]
        recovered = [(process, *self._recovered(old[process], bound_to)) for process, bound_to in bound]
        for process, regular, transitional in recovered:
            target, party = (elsewhere, stragglers) if process in stragglers else (view, component)
            together = self._companions(process, party, old)
            dies = trouble and len(self.up) > 1 and self.dice.random() < 0.05
            if old[process] is not None:
                self._walk(process, (*regular, None, *transitional), together, dies)
            if dies:
                self._crash(process)
            else:
                self._install(process, target, together)

    def _companions(
        self, process: ProcessName, party: Iterable[ProcessName], old: dict[ProcessName, View | None]
    ) -> tuple[ProcessName, ...]:
        if old[process] is None:
            return (process,)
        return tuple(sorted(other for other in party if old[other] is old[process]))

    def _recovered(
        self, view: View | None, bound: tuple[ProcessName, ...]
    ) -> tuple[list[MessageSent], list[MessageSent]]:
        """The messages that members bound together deliver before and after the signal."""
        if view is None:
            return [], []
        held = set().union(*(view.held[process] for process in bound))
        done = max(view.line[process] for process in bound)
        hole = next((place for place, sent in enumerate(view.log) if sent.message not in held), len(view.log))
        transitional: list[MessageSent] = []
        skipped: set[ProcessName] = set()
        for place, sent in enumerate(view.log[done:], start=done):
            if sent.message not in held:
                continue
            early = sent.service is Service.RELIABLE
            early |= sent.service is Service.FIFO and sent.process not in skipped
            if place < hole or sent.process in bound or early:
                transitional.append(sent)
            else:
                skipped.add(sent.process)
        return view.log[:done], transitional

    def _walk(
        self,
        process: ProcessName,
        walk: tuple[MessageSent | None, ...],
        together: tuple[ProcessName, ...],
        dies: bool,
    ) -> None:
        """Delivers recovered messages, with the signal where the list has None.

        A daemon that dies stops early.
        """
        for sent in walk[: self.dice.randrange(len(walk)) if dies else None]:
            if sent is None:
                self.events.append(Signalled(process, self._now(), self.at[process].name, together))
            else:
                self._give(process, sent)

    def _new_view(self, members: list[ProcessName]) -> View:
        counter = max(self.counter[process.daemon] for process in members) + 1
        clock = max(self.clock[process.daemon] for process in members)
        for process in members:
            self.counter[process.daemon] = counter
            self.clock[process.daemon] = clock
        first = min(members)
        name = ViewName(counter, self.names.index(first.daemon), first.incarnation)
        return View(name, tuple(sorted(members)))

    def _install(self, process: ProcessName, view: View, together: tuple[ProcessName, ...]) -> None:
        self.at[process] = view
        view.held[process], view.delivered[process], view.line[process] = set(), set(), 0
        self.events.append(ViewInstalled(process, self._now(), view.name, view.members, together, "model"))

    def _drain(self) -> None:
        """Delivers everything that is in flight."""
        for process, view in self.at.items():
            view.held[process] = {sent.message for sent in view.log}
        top = max(self.clock.values())
        self.clock = dict.fromkeys(self.names, top)
        for process in self.at:
            self._deliver(process)

    def _now(self) -> int:
        return len(self.events)


def run(seed: int) -> Run:
    """The run of a seed, with its own number of daemons and views."""
    dice = Random(-seed - 1)
    return Model(seed, daemons=dice.randrange(2, 7)).run(
        views=dice.randrange(1, 9), steps=dice.randrange(10, 90)
    )
