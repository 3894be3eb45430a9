"""Faults aimed at one datagram: the n-th that fits a description is lost, late, or doubled.

Random loss and delay are in `path.py`. These faults strike chosen datagrams, so that a scenario can say which.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

from hopring.sim.host import Address
from hopring.sim.path import LossReason
from hopring.value import Value


@final
class Flight(Value):
    """A datagram as it leaves for one host."""

    def __init__(self, source: Address, target: Address, datagram: bytes) -> None:
        self.source: Final = source
        self.target: Final = target
        self.datagram: Final = datagram


@dataclass(frozen=True, slots=True)
class Lose:
    """The datagram is lost on its path."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The datagram arrives later than it would have, by `delay_us`."""

    delay_us: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """`copies` more datagrams arrive, each `gap_us` after the one before."""

    copies: int = 1
    gap_us: int = 0


Effect = Lose | Delay | Duplicate


@dataclass(slots=True)
class TargetedFault:
    """Strikes the matching datagrams number `first` to `last`, counted from 1."""

    matches: Callable[[Flight], bool]
    effect: Effect
    first: int = 1
    last: int = 1
    seen: int = field(default=0, init=False)

    def strikes(self, flight: Flight) -> bool:
        """Whether the fault strikes this datagram; counts it if it matches."""
        if self.spent or not self.matches(flight):
            return False
        self.seen += 1
        return self.first <= self.seen

    @property
    def spent(self) -> bool:
        """Whether no further datagram will be struck."""
        return self.seen >= self.last


def apply(effect: Effect, fate: list[int] | LossReason) -> list[int] | LossReason:
    """The arrivals of a datagram after a fault has struck it; one that was lost by chance stays lost."""
    if isinstance(fate, LossReason):
        return fate
    match effect:
        case Lose():
            return LossReason.TARGETED
        case Delay(delay_us):
            return [arrival_us + delay_us for arrival_us in fate]
        case Duplicate(copies, gap_us):
            return fate + [fate[-1] + gap_us * copy for copy in range(1, copies + 1)]
