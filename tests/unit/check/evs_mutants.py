"""Small alterations of right histories, each with the property that must detect it.

A mutant yields every edit of its kind for a given history. An edit names the events that replace one event:
none, another one, or several.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, pairwise, permutations

from msgspec.structs import replace

from hopring.check.history import History, Life, Stay, index
from hopring.check.properties.agreed import AGREED_AFTER_SIGNAL, AGREED_BEFORE_SIGNAL
from hopring.check.properties.integrity import DELIVERY_INTEGRITY, NO_DUPLICATION
from hopring.check.properties.liveness import MEMBERSHIP_PRECISION, TERMINATION
from hopring.check.properties.order import AGREED_ORDER, CAUSAL_ORDER, FIFO_ORDER, ONE_ORDER
from hopring.check.properties.placement import SAME_VIEW, SANE_VIEW
from hopring.check.properties.primary import PRIMARY_AGREEMENT, PRIMARY_CHAIN
from hopring.check.properties.requests import SELF_DELIVERY
from hopring.check.properties.resilience import IN_PRIMARIES, SURVIVES, SURVIVES_IN_PRIMARIES
from hopring.check.properties.safe import SAFE_AFTER_SIGNAL, SAFE_BEFORE_SIGNAL
from hopring.check.properties.shape import ONE_LIFE, ONE_STAMP, SENT_ONCE
from hopring.check.properties.signals import TRANSITIONAL_SIGNALS
from hopring.check.properties.synchrony import VIRTUAL_SYNCHRONY
from hopring.check.properties.views import (
    INITIAL_VIEW,
    LOCAL_MONOTONICITY,
    MEMBERSHIP_AGREEMENT,
    SELF_INCLUSION,
    TRANSITIONAL_SET,
)
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
from hopring.ordering.holders import MAJORITY
from hopring.services import Service

Edit = dict[int, list[Event]]


@dataclass
class Sound:
    """A right history to alter, with the places of its events."""

    events: list[Event]
    history: History = field(init=False)
    deliveries: dict[tuple[ProcessName, MessageId], int] = field(default_factory=dict)
    sends: dict[MessageId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.history = index(self.events, quiet_end=True)
        for place, event in enumerate(self.events):
            if isinstance(event, MessageDelivered):
                self.deliveries[event.process, event.message] = place
            elif isinstance(event, MessageSent):
                self.sends[event.message] = place

    def of(self, kind: type[Event]) -> Iterator[int]:
        return (place for place, event in enumerate(self.events) if isinstance(event, kind))

    def views(self, first: bool = False) -> Iterator[tuple[int, Stay]]:
        for stay in self.history.stays:
            if first == (stay.before is None):
                yield self.events.index(stay.installed), stay

    def lives(self) -> Iterator[tuple[Life, list[int]]]:
        for life in self.history.lives.values():
            yield life, [place for place, event in enumerate(self.events) if event.process == life.process]

    def place(self, process: ProcessName, number: int) -> int:
        return self.deliveries[process, self.history.messages.ids[number]]

    def is_agreed(self, number: int) -> bool:
        return self.history.messages.service[number] >= Service.CAUSAL

    def drop(self, process: ProcessName, number: int) -> Edit:
        return {self.place(process, number): []}

    def move(self, old: int, new: int) -> Edit:
        """Moves the event at `old` to right before the one at `new`."""
        return {old: [], new: [self.events[old], self.events[new]]}

    def swap(self, one: int, other: int) -> Edit:
        return {one: [self.events[other]], other: [self.events[one]]}

    def stamp(self, message: MessageId, ord: Ord) -> Edit:
        """Gives the message another stamp wherever it occurs."""
        return {
            place: [replace(event, ord=ord)]
            for place, event in enumerate(self.events)
            if isinstance(event, MessageSent | MessageDelivered) and event.message == message
        }

    def companions(self) -> Iterator[tuple[Stay, Stay]]:
        """Pairs of processes that moved together, in both orders."""
        for stay in self.history.stays:
            for other in self.history.views[stay.view].values():
                if stay.after and other.after and other is not stay and stay.after.view == other.after.view:
                    yield stay, other


def takes_its_view_for_primary_alone(sound: Sound) -> Iterator[Edit]:
    for place, stay in sound.views():
        if len(sound.history.views[stay.view]) > 1:
            yield {place: [replace(stay.installed, primary="all")]}


def founds_a_second_primary(sound: Sound) -> Iterator[Edit]:
    views = sorted(sound.history.views.items())
    for (_, before), (_, after) in combinations(views, 2):
        members = [next(iter(stays.values())).members for stays in (before, after)]
        if 2 * len(members[0] & members[1]) <= len(members[0]):
            both = (("first", before), ("majority", after))
            yield {
                sound.events.index(stay.installed): [replace(stay.installed, primary=why)]
                for why, stays in both
                for stay in stays.values()
            }


def delivers_twice(sound: Sound) -> Iterator[Edit]:
    for place in sound.of(MessageDelivered):
        yield {place: [sound.events[place], sound.events[place]]}


def delivers_what_nobody_sent(sound: Sound) -> Iterator[Edit]:
    for _process, message in sound.deliveries:
        yield {sound.sends[message]: []}


def delivers_as_another_service(sound: Sound) -> Iterator[Edit]:
    for place in sound.of(MessageDelivered):
        event = sound.events[place]
        assert isinstance(event, MessageDelivered)
        other = Service.SAFE if event.service is not Service.SAFE else Service.AGREED
        yield {place: [replace(event, service=other)]}


def delivers_before_its_first_view(sound: Sound) -> Iterator[Edit]:
    for life, places in sound.lives():
        own = [place for place in places if isinstance(sound.events[place], MessageDelivered)]
        if own:
            yield sound.move(own[0], sound.events.index(life.stays[0].installed))


def is_not_in_its_own_view(sound: Sound) -> Iterator[Edit]:
    for place in sound.of(ViewInstalled):
        event = sound.events[place]
        assert isinstance(event, ViewInstalled)
        yield {place: [replace(event, members=tuple(m for m in event.members if m != event.process))]}


def reuses_a_view_id(sound: Sound) -> Iterator[Edit]:
    for place, stay in sound.views():
        assert stay.before is not None
        yield {place: [replace(stay.installed, view=stay.before.view)]}


def sees_other_members(sound: Sound) -> Iterator[Edit]:
    for first in (True, False):
        for place, stay in sound.views(first):
            strangers = stay.members - {stay.process}
            if strangers and len(sound.history.views[stay.view]) > 1:
                members = tuple(sorted(stay.members - {min(strangers)}))
                yield {place: [replace(stay.installed, members=members)]}


def starts_in_company(sound: Sound) -> Iterator[Edit]:
    for place, stay in sound.views(first=True):
        if len(stay.members) > 1:
            yield {place: [replace(stay.installed, together=stay.installed.members)]}


def forgets_a_companion(sound: Sound) -> Iterator[Edit]:
    for stay, other in sound.companions():
        assert stay.after is not None
        together = tuple(sorted(stay.after.together - {other.process}))
        yield {sound.events.index(stay.after.installed): [replace(stay.after.installed, together=together)]}


def lacks_what_its_companion_delivered(sound: Sound) -> Iterator[Edit]:
    for stay, _other in sound.companions():
        for number in stay.delivered:
            yield sound.drop(stay.process, number)


def signals_twice(sound: Sound) -> Iterator[Edit]:
    for place in sound.of(Signalled):
        yield {place: [sound.events[place], sound.events[place]]}


def has_no_signal(sound: Sound) -> Iterator[Edit]:
    for stay, _other in sound.companions():
        yield {sound.events.index(stay.signals[0]): []}


def delivers_on_the_other_side_of_the_signal(sound: Sound) -> Iterator[Edit]:
    for stay, _other in sound.companions():
        for number in filter(sound.is_agreed, stay.transitional):
            yield sound.move(sound.place(stay.process, number), sound.events.index(stay.signals[0]))


def delivers_in_a_later_view(sound: Sound) -> Iterator[Edit]:
    for place, stay in sound.views():
        assert stay.before is not None
        for number in stay.before.delivered:
            old = sound.place(stay.process, number)
            event = sound.events[old]
            assert isinstance(event, MessageDelivered)
            yield {old: [], place: [stay.installed, replace(event, view=stay.view)]}


def delivers_loosely_in_a_later_view(sound: Sound) -> Iterator[Edit]:
    for place, stay in sound.views():
        assert stay.before is not None
        for number in stay.before.loose:
            old = sound.place(stay.process, number)
            event = sound.events[old]
            assert isinstance(event, MessageDelivered)
            yield {old: [], place: [stay.installed, replace(event, view=stay.view)]}


def delivers_in_a_later_view_than_another(sound: Sound) -> Iterator[Edit]:
    messages = sound.history.messages
    for edit in delivers_in_a_later_view(sound):
        event = sound.events[next(place for place, new in edit.items() if not new)]
        assert isinstance(event, MessageDelivered)
        number = messages.number[event.message]
        if sum(number in life.got for life in sound.history.lives.values()) > 1:
            yield edit


def delivers_agreed_out_of_order(sound: Sound) -> Iterator[Edit]:
    for stay in sound.history.stays:
        for one, other in pairwise(filter(sound.is_agreed, stay.delivered)):
            yield sound.swap(sound.place(stay.process, one), sound.place(stay.process, other))


def delivers_agreed_in_another_order_than_others(sound: Sound) -> Iterator[Edit]:
    for stay in sound.history.stays:
        others = [life.got for life in sound.history.lives.values() if life.process != stay.process]
        for one, other in pairwise(filter(sound.is_agreed, stay.delivered)):
            if any(one in got and other in got for got in others):
                yield sound.swap(sound.place(stay.process, one), sound.place(stay.process, other))


def delivers_fifo_out_of_order(sound: Sound) -> Iterator[Edit]:
    messages = sound.history.messages
    for stay in sound.history.stays:
        for one, other in combinations(stay.delivered, 2):
            same = (
                messages.sender[one] == messages.sender[other] and messages.place[one] < messages.place[other]
            )
            if same and messages.service[other] >= Service.FIFO:
                yield sound.move(sound.place(stay.process, other), sound.place(stay.process, one))


def stamps_below_a_cause(sound: Sound) -> Iterator[Edit]:
    for life, places in sound.lives():
        caused = False
        for place in places:
            event = sound.events[place]
            if isinstance(event, MessageSent | MessageDelivered) and event.service is not Service.UNRELIABLE:
                if caused and isinstance(event, MessageSent) and event.process == life.process:
                    yield sound.stamp(event.message, event.ord._replace(lts=0))
                caused = True


def knows_another_stamp(sound: Sound) -> Iterator[Edit]:
    for place in sound.of(MessageDelivered):
        event = sound.events[place]
        assert isinstance(event, MessageDelivered)
        if event.service is not Service.UNRELIABLE:
            yield {place: [replace(event, ord=event.ord._replace(place=7))]}


def shares_a_stamp(sound: Sound) -> Iterator[Edit]:
    messages = sound.history.messages
    reliable = [number for number, service in enumerate(messages.service) if service is not Service.UNRELIABLE]
    for one, other in pairwise(reliable):
        yield sound.stamp(messages.ids[one], messages.ord[other])


def delivers_agreed_over_a_gap(sound: Sound) -> Iterator[Edit]:
    for stay in sound.history.stays:
        top = max(filter(sound.is_agreed, stay.regular), default=-1)
        for other in sound.history.views[stay.view].values():
            for number in {*stay.regular} & {*other.delivered}:
                if other is not stay and number < top:
                    yield sound.drop(stay.process, number)


def delivers_agreed_over_a_gap_after_the_signal(sound: Sound) -> Iterator[Edit]:
    sender = sound.history.messages.sender
    for stay in sound.history.stays:
        top = max(filter(sound.is_agreed, stay.transitional), default=-1)
        for other in sound.history.views[stay.view].values():
            for number in {*stay.delivered} & {*other.delivered}:
                if other is not stay and number < top and stay.after and sender[number] in stay.after.together:
                    yield sound.drop(stay.process, number)


def misses_what_was_safe(sound: Sound) -> Iterator[Edit]:
    for stay in sound.history.stays:
        yield from _missed_safe(sound, stay, stay.regular, stay.members)


def misses_what_was_safe_after_the_signal(sound: Sound) -> Iterator[Edit]:
    for stay in sound.history.stays:
        if stay.after is not None:
            yield from _missed_safe(sound, stay, stay.transitional, stay.after.together)


def misses_what_was_safe_and_fell_out(sound: Sound) -> Iterator[Edit]:
    """The member of the transitional set that lacks the message never came to the next view."""
    for stay in sound.history.stays:
        if stay.after is not None:
            fallen = stay.after.together - sound.history.views[stay.after.view].keys()
            yield from _missed_safe(sound, stay, stay.transitional, fallen)


def _missed_safe(sound: Sound, stay: Stay, side: list[int], owed_to: frozenset[ProcessName]) -> Iterator[Edit]:
    for number in side:
        if sound.history.messages.service[number] is Service.SAFE:
            for process in owed_to - {stay.process}:
                other = sound.history.views[stay.view][process]
                if number in other.delivered and not sound.history.crashed_in(other):
                    yield sound.drop(process, number)


def lacks_its_own_message(sound: Sound) -> Iterator[Edit]:
    messages = sound.history.messages
    for life in sound.history.lives.values():
        for number in life.delivered:
            if messages.sender[number] == life.process and not life.crashed:
                yield sound.drop(life.process, number)


def does_not_finish(sound: Sound) -> Iterator[Edit]:
    for life in sound.history.lives.values():
        if not life.crashed:
            for number in life.stays[-1].delivered:
                yield sound.drop(life.process, number)


def ends_in_another_view(sound: Sound) -> Iterator[Edit]:
    for life in sound.history.lives.values():
        if not life.crashed and len(life.stays[-1].members) > 1:
            yield {sound.events.index(life.stays[-1].installed): []}


def lives_on_after_its_crash(sound: Sound) -> Iterator[Edit]:
    for place in sound.of(Crash):
        yield {place: [sound.events[place], sound.events[place]]}


def sends_twice(sound: Sound) -> Iterator[Edit]:
    for place in sound.of(MessageSent):
        yield {place: [sound.events[place], sound.events[place]]}


def lost(sound: Sound) -> Iterator[tuple[Stay, int, Stay]]:
    """Messages delivered before a signal, and a member that goes on, or stays, without them."""
    found = sound.history
    for stays in found.views.values():
        for stay, other in permutations(stays.values(), 2):
            if not found.crashed_in(other):
                for number in set(stay.regular) - found.lives[other.process].got:
                    if found.messages.ids[number] in sound.sends:
                        yield stay, number, other


def loses_what_survives(sound: Sound) -> Iterator[Edit]:
    for stay, number, other in lost(sound):
        gone = 0 if other.after is None else len(stay.members - other.after.together)
        yield _resilient(sound, number, max(gone, 1))


def delivers_outside_of_primaries(sound: Sound) -> Iterator[Edit]:
    for stay in sound.history.stays:
        for number in stay.regular:
            if sound.history.messages.ids[number] in sound.sends:
                yield _resilient(sound, number, MAJORITY)


def loses_what_a_majority_had(sound: Sound) -> Iterator[Edit]:
    for stay, number, other in lost(sound):
        after = other.after
        if after is not None and 2 * len(after.together) > len(stay.members):
            later = sound.history.views[after.view].values()
            views = (replace(one.installed, primary="majority") for one in later)
            edit: Edit = {
                sound.events.index(one.installed): [view] for one, view in zip(later, views, strict=True)
            }
            yield edit | _resilient(sound, number, MAJORITY)


def _resilient(sound: Sound, number: int, level: int) -> Edit:
    place = sound.sends[sound.history.messages.ids[number]]
    return {place: [replace(sound.events[place], resilience=level)]}


MUTANTS: dict[Callable[[Sound], Iterator[Edit]], str] = {
    lives_on_after_its_crash: ONE_LIFE.name,
    sends_twice: SENT_ONCE.name,
    knows_another_stamp: ONE_STAMP.name,
    shares_a_stamp: ONE_STAMP.name,
    delivers_before_its_first_view: INITIAL_VIEW.name,
    is_not_in_its_own_view: SELF_INCLUSION.name,
    reuses_a_view_id: LOCAL_MONOTONICITY.name,
    sees_other_members: MEMBERSHIP_AGREEMENT.name,
    starts_in_company: TRANSITIONAL_SET.name,
    forgets_a_companion: TRANSITIONAL_SET.name,
    takes_its_view_for_primary_alone: PRIMARY_AGREEMENT.name,
    founds_a_second_primary: PRIMARY_CHAIN.name,
    delivers_twice: NO_DUPLICATION.name,
    delivers_what_nobody_sent: DELIVERY_INTEGRITY.name,
    delivers_as_another_service: DELIVERY_INTEGRITY.name,
    delivers_in_a_later_view: SANE_VIEW.name,
    delivers_loosely_in_a_later_view: SANE_VIEW.name,
    delivers_in_a_later_view_than_another: SAME_VIEW.name,
    lacks_what_its_companion_delivered: VIRTUAL_SYNCHRONY.name,
    signals_twice: TRANSITIONAL_SIGNALS.name,
    has_no_signal: TRANSITIONAL_SIGNALS.name,
    delivers_on_the_other_side_of_the_signal: TRANSITIONAL_SIGNALS.name,
    delivers_fifo_out_of_order: FIFO_ORDER.name,
    stamps_below_a_cause: CAUSAL_ORDER.name,
    delivers_agreed_out_of_order: AGREED_ORDER.name,
    delivers_agreed_in_another_order_than_others: ONE_ORDER.name,
    delivers_agreed_over_a_gap: AGREED_BEFORE_SIGNAL.name,
    delivers_agreed_over_a_gap_after_the_signal: AGREED_AFTER_SIGNAL.name,
    misses_what_was_safe: SAFE_BEFORE_SIGNAL.name,
    misses_what_was_safe_after_the_signal: SAFE_AFTER_SIGNAL.name,
    misses_what_was_safe_and_fell_out: SAFE_AFTER_SIGNAL.name,
    loses_what_survives: SURVIVES.name,
    delivers_outside_of_primaries: IN_PRIMARIES.name,
    loses_what_a_majority_had: SURVIVES_IN_PRIMARIES.name,
    lacks_its_own_message: SELF_DELIVERY.name,
    ends_in_another_view: MEMBERSHIP_PRECISION.name,
    does_not_finish: TERMINATION.name,
}


def edited(events: list[Event], edit: Edit) -> list[Event]:
    """The history after an edit, with its events in place."""
    return [new for place, event in enumerate(events) for new in edit.get(place, [event])]
