"""Small wrongs done to right histories, each with the property that must notice.

A mutant looks for the places in a history where its wrong can be done, and is given one of them by chance. It
returns nothing where there is none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from msgspec.structs import replace

from hopring.check.evs import agreed, integrity, liveness, order, safe, shape, synchrony, views
from hopring.check.evs.history import History, Stay, index
from hopring.check.trace import Crash, Delivered, Event, Installed, MessageId, Ord, Process, Sent, Signal
from hopring.services import Service


@dataclass
class Sound:
    """A right history to do wrong to."""

    dice: Random
    events: list[Event]
    history: History

    def positions(self, kind: type[Event]) -> list[int]:
        return [place for place, event in enumerate(self.events) if isinstance(event, kind)]

    def delivery(self, process: Process, number: int) -> int:
        message = self.history.messages.ids[number]
        return next(
            place
            for place, event in enumerate(self.events)
            if isinstance(event, Delivered) and event.process == process and event.message == message
        )

    def install(self, stay: Stay) -> int:
        return self.events.index(stay.installed)

    def any[T](self, choices: Iterator[T] | list[T]) -> T | None:
        found = list(choices)
        return self.dice.choice(found) if found else None

    def agreed(self, number: int) -> bool:
        return self.history.messages.service[number] >= Service.CAUSAL
