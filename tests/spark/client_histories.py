"""Histories of clients for both checkers: handwritten, from campaigns, with planted bugs, and altered.

Each is written as a run below one directory, with the plain checker's verdict beside it.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from random import Random

from msgspec.structs import replace
from tests.campaign.caught import CAUGHT
from tests.spark.histories import JudgedRuns, recorded_ends
from tests.unit.check.client_literals import BREAKS, HOLDS
from tests.unit.check.evs_c_notation import client_history

from hopring.check.judge import check_evs_c
from hopring.check.properties.property import Verdict
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
    ProcessName,
    Recover,
)
from hopring.services import Service
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.runner import run_seed
from hopring.sim.campaign.world import WITH_CLIENTS
from hopring.spark.audit import Ends

QUIET = Ends(True, (frozenset("ab"), frozenset("c")))

Alter = Callable[[list[Event], int, Random], list[Event]]
"""Returns, from a history, the events that replace the one at an index."""


class ClientHistories(JudgedRuns):
    """Runs of clients, judged by EVS-C."""

    def verdicts(self, events: list[Event], ends: Ends) -> list[Verdict]:
        return check_evs_c(events, ends.quiet, ends.components)

    def add_by_hand(self) -> None:
        """Adds all histories with which the plain checker is tested."""
        texts = [text for _number, text in HOLDS] + [text for _number, text, _witness in BREAKS]
        for number, text in enumerate(texts):
            self.add(f"hand-{number}", client_history(text), QUIET)

    def add_campaign(self, seeds: Iterable[int]) -> None:
        for seed in seeds:
            events, ends = world(seed)
            self.add(f"seed-{seed}", events, ends)

    def add_bugs(self, names: Iterable[str]) -> None:
        for name in names:
            with plant(all_bugs()[name]):
                events, ends = world(CAUGHT[name][0])
            self.add(f"bug-{name}", events, ends)

    def add_altered(self, seeds: Iterable[int], of_each: int) -> None:
        """Adds histories of the campaign with this many alterations of each kind."""
        for seed in seeds:
            events, ends = world(seed)
            dice = Random(seed)
            for kind, alter in ALTERATIONS:
                places = [place for place, event in enumerate(events) if isinstance(event, kind)]
                dice.shuffle(places)
                changed = (altered(events, place, alter, dice) for place in places)
                wrongs = (one for one in changed if one != events)
                for number, wrong in enumerate(islice(wrongs, of_each)):
                    self.add(f"{alter.__name__}-{kind.__name__}-{seed}-{number}", wrong, ends)


def altered(events: list[Event], place: int, alter: Alter, dice: Random) -> list[Event]:
    return [*events[:place], *alter(events, place, dice), *events[place + 1 :]]


def world(seed: int) -> tuple[list[Event], Ends]:
    """A world with clients, and the checker's arguments for its end."""
    with recorded_ends("check_evs_c") as recorded:
        outcome = run_seed(seed, WITH_CLIENTS)
    return outcome.history, recorded[0] if recorded else Ends()


# Alterations of an event.


def drops(_events: list[Event], _place: int, _dice: Random) -> list[Event]:
    return []


def doubles(events: list[Event], place: int, _dice: Random) -> list[Event]:
    return [events[place], events[place]]


def names_fewer(events: list[Event], place: int, dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, GroupInstalled | GroupSignal)
    return [replace(event, together=_without_one(event.together, dice))]


def has_fewer_members(events: list[Event], place: int, dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, GroupInstalled)
    return [replace(event, members=_without_one(event.members, dice))]


def names_more(events: list[Event], place: int, dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, GroupInstalled | GroupSignal)
    sessions = {one.process for one in events if isinstance(one, ClientEvent)}
    return [replace(event, together=tuple(sorted({*event.together, dice.choice(sorted(sessions))})))]


def names_a_stranger(events: list[Event], place: int, _dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, GroupInstalled)
    return [replace(event, members=(*event.members, ProcessName("nobody", 1, 1)))]


def takes_the_id_of_another(events: list[Event], place: int, dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, GroupInstalled | GroupSignal)
    views = {one.view for one in events if isinstance(one, GroupInstalled) and one.group == event.group}
    return [replace(event, view=dice.choice(sorted(views)))]


def comes_from_a_network(events: list[Event], place: int, _dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, GroupInstalled)
    return [replace(event, cause="network")]


def takes_the_stamp_of_another(events: list[Event], place: int, dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, ClientDelivered)
    return [replace(event, ord=dice.choice([one.ord for one in events if isinstance(one, ClientDelivered)]))]


def comes_as_another_service(events: list[Event], place: int, dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, ClientDelivered | ClientSent)
    return [replace(event, service=dice.choice(list(Service)))]


def goes_to_other_groups(events: list[Event], place: int, dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, ClientDelivered | ClientSent)
    groups = {one.group for one in events if isinstance(one, GroupInstalled)}
    return [replace(event, groups=tuple(dice.sample(sorted(groups), min(2, len(groups)))))]


def is_discarded(events: list[Event], place: int, _dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, ClientSent)
    return [replace(event, self_discard=not event.self_discard)]


def is_in_the_name_of_another(events: list[Event], place: int, dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, ClientSent | ClientDelivered)
    names = [one.message for one in events if isinstance(one, ClientSent)]
    return [replace(event, message=dice.choice(names))]


def is_of_another_group(events: list[Event], place: int, dice: Random) -> list[Event]:
    event = events[place]
    assert isinstance(event, GroupLeft | AsksJoin | AsksLeave | GroupSignal)
    groups = {one.group for one in events if isinstance(one, GroupInstalled)}
    return [replace(event, group=dice.choice(sorted(groups)))]


def _without_one(processes: tuple[ProcessName, ...], dice: Random) -> tuple[ProcessName, ...]:
    return tuple(sorted({*processes} - {dice.choice(processes)})) if processes else ()


ALTERATIONS: list[tuple[type, Alter]] = [
    *[
        (kind, drops)
        for kind in (ClientDelivered, ClientSent, GroupInstalled, GroupSignal, GroupLeft, ClientConnected)
    ],
    *[(kind, drops) for kind in (AsksJoin, AsksLeave, AsksEnd, Gone, Crash, Recover)],
    *[
        (kind, doubles)
        for kind in (ClientDelivered, ClientSent, GroupInstalled, GroupSignal, GroupLeft, ClientConnected)
    ],
    *[(kind, doubles) for kind in (AsksJoin, AsksLeave, AsksEnd, Gone)],
    *[(kind, names_fewer) for kind in (GroupInstalled, GroupSignal)],
    *[(kind, names_more) for kind in (GroupInstalled, GroupSignal)],
    *[(kind, takes_the_id_of_another) for kind in (GroupInstalled, GroupSignal)],
    (GroupInstalled, has_fewer_members),
    (GroupInstalled, names_a_stranger),
    (GroupInstalled, comes_from_a_network),
    (ClientDelivered, takes_the_stamp_of_another),
    *[(kind, comes_as_another_service) for kind in (ClientDelivered, ClientSent)],
    *[(kind, goes_to_other_groups) for kind in (ClientDelivered, ClientSent)],
    *[(kind, is_in_the_name_of_another) for kind in (ClientDelivered, ClientSent)],
    (ClientSent, is_discarded),
    *[(kind, is_of_another_group) for kind in (GroupLeft, AsksJoin, AsksLeave, GroupSignal)],
]
