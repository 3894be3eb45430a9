"""The bundles of a session that a ring was given, until they are delivered here."""

from dataclasses import dataclass, field
from typing import Final

from hopring.ids import GroupName

FLIGHT_BYTES_MAX: Final = 512 * 1024
"""The most bytes that a ring is given and that have no place in the order."""

FLIGHT_BUNDLES_MAX: Final = 128
"""The most bundles of that kind."""


@dataclass(slots=True)
class InFlight:
    """One bundle that the ring was given."""

    size_bytes: int
    group: GroupName
    tickets: tuple[int, ...]  # Of messages that wait for receipts.
    ordered: bool = False
    delivered: bool = False


@dataclass(slots=True)
class BundleFlight:
    """The bundles of one group, by their tickets at its ring."""

    bundles: dict[int, InFlight] = field(default_factory=dict)
    size_bytes: int = 0  # Of those without a place in the order.
    unordered: int = 0
    last: int = 0  # The last ticket.

    @property
    def has_room(self) -> bool:
        """Whether the ring may be given another bundle."""
        return self.size_bytes < FLIGHT_BYTES_MAX and self.unordered < FLIGHT_BUNDLES_MAX

    def add(self, size_bytes: int, group: GroupName, tickets: tuple[int, ...]) -> int:
        """Notes a bundle; returns its ticket."""
        self.last += 1
        self.bundles[self.last] = InFlight(size_bytes, group, tickets)
        self.size_bytes += size_bytes
        self.unordered += 1
        return self.last

    def ordered(self, ticket: int) -> None:
        """A bundle has its place in the order; one that is early was delivered before."""
        one = self.bundles.get(ticket)
        if one is not None and not one.ordered:
            one.ordered = True
            self.size_bytes -= one.size_bytes
            self.unordered -= 1
            self._forget(ticket, one)

    def delivered(self, ticket: int) -> None:
        """A bundle was delivered here."""
        one = self.bundles.get(ticket)
        if one is not None:
            one.delivered = True
            self._forget(ticket, one)

    def _forget(self, ticket: int, one: InFlight) -> None:
        if one.ordered and one.delivered:
            del self.bundles[ticket]

    def end(self) -> list[InFlight]:
        """The bundles that were not delivered here; nothing more is heard of them."""
        left = [one for one in self.bundles.values() if not one.delivered]
        self.bundles.clear()
        self.size_bytes = self.unordered = 0
        return left
