"""The properties a second time, literally and without regard to speed, for comparison with the fast checks.

Each is a plain statement over all pairs of events. `at` gives the installation to which an event belongs;
events of a process are compared by their places in its history. It shares only names with the code under test.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise, product

from hopring.check.properties.agreed import AGREED_AFTER_SIGNAL, AGREED_BEFORE_SIGNAL
from hopring.check.properties.liveness import TERMINATION
from hopring.check.properties.order import AGREED_ORDER, CAUSAL_ORDER, FIFO_ORDER
from hopring.check.properties.placement import SAME_VIEW, SANE_VIEW
from hopring.check.properties.requests import SELF_DELIVERY
from hopring.check.properties.safe import SAFE_AFTER_SIGNAL, SAFE_BEFORE_SIGNAL
from hopring.check.properties.signals import TRANSITIONAL_SIGNALS
from hopring.check.properties.synchrony import VIRTUAL_SYNCHRONY
from hopring.check.properties.views import MEMBERSHIP_AGREEMENT, TRANSITIONAL_SET
from hopring.check.trace import (
    Crash,
    Event,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ProcessName,
    Signalled,
    ViewInstalled,
)
from hopring.services import Service


class Literal:
    """A history as the thesis defines it: events, their order at each process, and the view of each."""

    def __init__(self, events: list[Event], quiet_end: bool) -> None:
        self.quiet_end = quiet_end
        self.by: dict[ProcessName, list[Event]] = {}
        for event in events:
            self.by.setdefault(event.process, []).append(event)
        self.sent: dict[MessageId, MessageSent] = {}
        for own in self.by.values():
            for event in own:
                if isinstance(event, MessageSent):
                    self.sent.setdefault(event.message, event)
        self.first: dict[MessageId, MessageDelivered] = {}
        for own in self.by.values():
            for event in own:
                if isinstance(event, MessageDelivered):
                    self.first.setdefault(event.message, event)

    def at(self, process: ProcessName, place: int) -> tuple[int, ViewInstalled] | None:
        """The installation, with its place, to which the event at this place belongs."""
        own = self.by[process]
        for before in range(place - 1, -1, -1):
            event = own[before]
            if isinstance(event, ViewInstalled):
                return before, event
        return None

    def service(self, message: MessageId) -> Service:
        return (self.sent.get(message) or self.first[message]).service

    def ord(self, message: MessageId) -> Ord:
        return (self.sent.get(message) or self.first[message]).ord

    def installs(self, process: ProcessName) -> list[tuple[int, ViewInstalled]]:
        return [(place, e) for place, e in enumerate(self.by.get(process, [])) if isinstance(e, ViewInstalled)]

    def deliveries(
        self, process: ProcessName, least: Service = Service.RELIABLE
    ) -> list[tuple[int, MessageDelivered]]:
        return [
            (place, event)
            for place, event in enumerate(self.by.get(process, []))
            if isinstance(event, MessageDelivered) and self.service(event.message) >= least
        ]

    def delivers(self, process: ProcessName, message: MessageId) -> bool:
        return any(event.message == message for _place, event in self.deliveries(process))

    def signalled(self, process: ProcessName, start: int, end: int) -> bool:
        return any(isinstance(event, Signalled) for event in self.by[process][start:end])

    def next_view(self, process: ProcessName, place: int) -> ViewInstalled | None:
        return next((event for at, event in self.installs(process) if at > place), None)

    def over(self, process: ProcessName) -> bool:
        """Whether the process crashed, or counts as crashed."""
        starts = [other for other in self.by if other.daemon == process.daemon]
        crashed = any(isinstance(event, Crash) for event in self.by[process])
        return crashed or starts[-1] != process or not self.quiet_end

    def crashes_in(self, process: ProcessName, view: ViewInstalled) -> bool:
        installs = self.installs(process)
        return bool(installs) and installs[-1][1].view == view.view and self.over(process)

    def moves(self) -> Iterator[tuple[ProcessName, int, int]]:
        """Every step of a process from one view to the next, as two places in its history."""
        for process in self.by:
            for (start, _old), (end, _new) in pairwise(self.installs(process)):
                yield process, start, end

    def together(self) -> Iterator[tuple[tuple[ProcessName, int, int], tuple[ProcessName, int, int]]]:
        """Pairs of moves in which one process counts the other as coming along."""
        for one, other in product(self.moves(), repeat=2):
            p, start, end = one
            q, other_start, other_end = other
            old, new, other_old, other_new = (
                self.by[p][start],
                self.by[p][end],
                self.by[q][other_start],
                self.by[q][other_end],
            )
            assert isinstance(old, ViewInstalled)
            assert isinstance(new, ViewInstalled)
            assert isinstance(other_old, ViewInstalled)
            assert isinstance(other_new, ViewInstalled)
            if p != q and old.view == other_old.view and new.view == other_new.view and q in new.together:
                yield one, other


def _set(h: Literal, move: tuple[ProcessName, int, int], least: Service = Service.RELIABLE) -> set[MessageId]:
    process, start, end = move
    return {event.message for place, event in h.deliveries(process, least) if start < place < end}


def virtual_synchrony(h: Literal) -> bool:
    return all(_set(h, one) == _set(h, other) for one, other in h.together())


def transitional_signals(h: Literal) -> bool:
    def sides(move: tuple[ProcessName, int, int]) -> tuple[set[MessageId], set[MessageId]] | None:
        process, start, end = move
        cut = next((p for p in range(start, end) if isinstance(h.by[process][p], Signalled)), None)
        if cut is None:
            return None
        return _set(h, (process, start, cut), Service.CAUSAL), _set(h, (process, cut, end), Service.CAUSAL)

    for process, own in h.by.items():
        for place, event in enumerate(own):
            if isinstance(event, Signalled) and h.at(process, place) is not None:
                following = h.next_view(process, place)
                end = len(own) if following is None else own.index(following, place)
                if h.signalled(process, place + 1, end):
                    return False
                if following is not None and {*following.together} != {*event.together}:
                    return False
    return all(sides(one) == sides(other) for one, other in h.together())


def transitional_set(h: Literal) -> bool:
    for p in h.by:
        installs = h.installs(p)
        if installs and set(installs[0][1].together) != {p}:
            return False
        for (_place, old), (_next, new) in pairwise(installs):
            if not set(new.together) <= set(old.members) & set(new.members) or p not in new.together:
                return False
    everything = [(p, place, event) for p in h.by for place, event in h.installs(p)]
    for (p, place, event), (q, other_place, other) in product(everything, repeat=2):
        if p == q or event.view != other.view:
            continue
        before, other_before = h.at(p, place), h.at(q, other_place)
        same = before is not None and other_before is not None and before[1].view == other_before[1].view
        if (q in event.together) != same or (same and set(event.together) != set(other.together)):
            return False
    return True


def same_view(h: Literal) -> bool:
    seen = [
        (e.message, v[1].view)
        for p in h.by
        for place, e in h.deliveries(p, Service.UNRELIABLE)
        if (v := h.at(p, place))
    ]
    return all(view == other_view for (m, view), (n, other_view) in product(seen, repeat=2) if m == n)


def fifo(h: Literal) -> bool:
    for p in h.by:
        got = h.deliveries(p)
        for (place, early), (later_place, late) in product(got, repeat=2):
            sender = early.message.sender
            if late.message.sender != sender or h.service(late.message) < Service.FIFO:
                continue
            sends = [e.message for e in h.by.get(sender, []) if isinstance(e, MessageSent)]
            if early.message in sends and late.message in sends:
                before = sends.index(early.message) < sends.index(late.message)
                if before and not place < later_place:
                    return False
    return True


def causal(h: Literal) -> bool:
    for own in h.by.values():
        for place, event in enumerate(own):
            if isinstance(event, MessageSent) and event.service is not Service.UNRELIABLE:
                before = [e.message for e in own[:place] if isinstance(e, MessageSent | MessageDelivered)]
                reliable = [m for m in before if h.service(m) is not Service.UNRELIABLE]
                if any(h.ord(m) >= h.ord(event.message) for m in reliable):
                    return False
    return True


def agreed_order(h: Literal) -> bool:
    return all(
        place < later_place
        for p in h.by
        for place, low in h.deliveries(p)
        for later_place, high in h.deliveries(p, Service.CAUSAL)
        if h.ord(low.message) < h.ord(high.message)
    )


def _agreed_sides(
    h: Literal, after: bool
) -> Iterator[tuple[ProcessName, int, MessageDelivered, ViewInstalled]]:
    for p in h.by:
        for place, event in h.deliveries(p, Service.CAUSAL):
            view = h.at(p, place)
            if view is not None and h.signalled(p, view[0], place) == after:
                yield p, place, event, view[1]


def _lower(h: Literal, event: MessageDelivered, view: ViewInstalled) -> set[MessageId]:
    return {
        e.message
        for q in h.by
        for place, e in h.deliveries(q)
        if (v := h.at(q, place)) and v[1].view == view.view and h.ord(e.message) < h.ord(event.message)
    }


def agreed_regular(h: Literal) -> bool:
    return all(
        h.delivers(p, message)
        for p, _place, event, view in _agreed_sides(h, after=False)
        for message in _lower(h, event, view)
    )


def agreed_transitional(h: Literal) -> bool:
    return all(
        h.delivers(p, message)
        for p, place, event, view in _agreed_sides(h, after=True)
        if (following := h.next_view(p, place))
        for message in _lower(h, event, view)
        if message.sender in following.together
    )


def _safe_for(h: Literal, q: ProcessName, message: MessageId, view: ViewInstalled) -> bool:
    came = any(other.view == view.view for _place, other in h.installs(q))
    return came and (h.delivers(q, message) or h.crashes_in(q, view))


def safe_regular(h: Literal) -> bool:
    return all(
        _safe_for(h, q, event.message, view)
        for _p, _place, event, view in _agreed_sides(h, after=False)
        if h.service(event.message) is Service.SAFE
        for q in view.members
    )


def safe_transitional(h: Literal) -> bool:
    return all(
        _safe_for(h, q, event.message, view)
        for p, place, event, view in _agreed_sides(h, after=True)
        if h.service(event.message) is Service.SAFE and (following := h.next_view(p, place))
        for q in following.together
    )


def sane_view(h: Literal) -> bool:
    everything = [(p, place, e) for p in h.by for place, e in h.deliveries(p, Service.UNRELIABLE)]
    delivered = [(e, v[1].view) for p, place, e in everything if (v := h.at(p, place))]
    if any(e.message in h.sent and h.sent[e.message].view != view for e, view in delivered):
        return False
    for p, own in h.by.items():
        for place, event in enumerate(own):
            here = h.at(p, place)
            if isinstance(event, MessageSent) and here and event.view < here[1].view:
                return False
    lives = list(h.by)
    return all(
        view < h.installs(later)[0][1].view
        for e, view in delivered
        for later in lives
        if later.daemon == e.message.daemon and e.message.sender in lives and h.installs(later)
        if lives.index(later) > lives.index(e.message.sender)
    )


def self_delivery(h: Literal) -> bool:
    return all(
        h.delivers(p, event.message)
        for p, own in h.by.items()
        for event in own
        if isinstance(event, MessageSent) and event.service is not Service.UNRELIABLE and not h.over(p)
    )


def termination(h: Literal) -> bool:
    return all(
        h.delivers(q, event.message)
        for p, own in h.by.items()
        for event in own
        if isinstance(event, MessageSent) and event.service is not Service.UNRELIABLE and not h.over(p)
        if h.installs(p) and h.installs(p)[-1][1].view == event.view
        for q in h.installs(p)[-1][1].members
    )


def membership_agreement(h: Literal) -> bool:
    everything = [event for p in h.by for _place, event in h.installs(p)]
    return all(
        {*event.members} == {*other.members}
        for event, other in product(everything, repeat=2)
        if event.view == other.view
    )


LITERAL: dict[str, Callable[[Literal], bool]] = {
    TRANSITIONAL_SET.name: transitional_set,
    MEMBERSHIP_AGREEMENT.name: membership_agreement,
    SAME_VIEW.name: same_view,
    SANE_VIEW.name: sane_view,
    VIRTUAL_SYNCHRONY.name: virtual_synchrony,
    TRANSITIONAL_SIGNALS.name: transitional_signals,
    FIFO_ORDER.name: fifo,
    CAUSAL_ORDER.name: causal,
    AGREED_ORDER.name: agreed_order,
    AGREED_BEFORE_SIGNAL.name: agreed_regular,
    AGREED_AFTER_SIGNAL.name: agreed_transitional,
    SAFE_BEFORE_SIGNAL.name: safe_regular,
    SAFE_AFTER_SIGNAL.name: safe_transitional,
    SELF_DELIVERY.name: self_delivery,
    TERMINATION.name: termination,
}
