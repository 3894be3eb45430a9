"""Durable calls of one set: requests to another cluster that are open until their caller is done with them.

Implements  Makpangou and Birman, 2.2: who asks, and who is asked, may end meanwhile; the answer comes.
Above       the managed set, whose replicated state this is a part of.
Invariants  a call has a name, which its caller chooses: one that is made again while it is open is the same.
            It has one answer, the first that the cluster sends which was asked; the body of that is kept
            until the call is done. Where too many are open, the oldest one goes that nobody would ask for
            again. Answers are no items of the line: they are for the caller alone.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from hopring.haul.ids import ClusterId, ParcelId
from hopring.haul.order.events import Parcel

CALLS_MAX: Final = 1_000
"""Calls of one set in a cluster that are open."""

CALL_NAME_BYTES_MAX: Final = 128
UNNAMED: Final = "~"
"""The beginning of the names of calls that nobody asks for again, if their caller is gone."""


@dataclass(slots=True)
class DurableCall:
    """One call that its caller has not done with."""

    number: int  # Of the request among the parcels of this cluster.
    to: ClusterId
    answer: ParcelId | None = None


class CallState(msgspec.Struct, array_like=True):
    """A call in a snapshot."""

    name: str
    number: int
    to: ClusterId
    answer: ParcelId | None


class DurableCalls:
    """The open calls of one set."""

    def __init__(self) -> None:
        self.by_name: dict[str, DurableCall] = {}
        self._names: dict[int, str] = {}  # By the number of the request.
        self._answers: set[ParcelId] = set()

    @property
    def is_full(self) -> bool:
        """Whether no more calls are taken."""
        return len(self.by_name) >= CALLS_MAX

    @property
    def oldest_unnamed(self) -> str | None:
        """The call that makes room for another one, if all are open."""
        return next((one for one in self.by_name if one.startswith(UNNAMED)), None)

    def made(self, name: str) -> int | None:
        """The number of the request of a call that is open; None if there is none of this name."""
        call = self.by_name.get(name)
        return None if call is None else call.number

    def open(self, name: str, number: int, to: ClusterId) -> None:
        """A call is made by this parcel of this cluster."""
        assert name not in self.by_name, "a call that is open is not made again"
        self.by_name[name] = DurableCall(number, to)
        self._names[number] = name

    def answered(self, parcel: Parcel) -> None:
        """An answer is delivered here; it counts if its call is open, and has none yet."""
        call = self.by_name.get(self._names.get(parcel.answers, ""))
        if call is not None and call.answer is None and call.to == parcel.id.sender:
            call.answer = parcel.id
            self._answers.add(parcel.id)

    def holds(self, parcel: ParcelId) -> bool:
        """Whether a body is kept for a caller."""
        return parcel in self._answers

    def done(self, name: str) -> ParcelId | None:
        """The caller has done with a call; returns the answer whose body is not needed any more."""
        call = self.by_name.pop(name, None)
        if call is None:
            return None
        del self._names[call.number]
        if call.answer is not None:
            self._answers.discard(call.answer)
        return call.answer

    def state(self) -> list[CallState]:
        """All of it, for a snapshot."""
        return [CallState(name, one.number, one.to, one.answer) for name, one in self.by_name.items()]


def calls_from(state: list[CallState]) -> DurableCalls:
    """The calls of a snapshot."""
    found = DurableCalls()
    for one in state:
        found.by_name[one.name] = DurableCall(one.number, one.to, one.answer)
        found._names[one.number] = one.name
        if one.answer is not None:
            found._answers.add(one.answer)
    return found
