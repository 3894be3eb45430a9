"""What happened in a run, as a list of typed events: what scenarios show and `check` judges."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from hopring.check.link_history import Failed, HostChanged, Received, Submitted
from hopring.check.network import NetworkEvent
from hopring.errors import Drop
from hopring.sim.network import Sending


@dataclass(frozen=True, slots=True)
class Refused:
    """A host tried to submit an object that the link does not take."""

    at_us: int
    link: str
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A host dropped a datagram that no correct peer sends, or one of a link that is gone."""

    at_us: int
    link: str
    host: str
    reason: Drop
    detail: str


Event = Sending | Submitted | Refused | Received | Failed | Dropped | HostChanged | NetworkEvent
Trace = list[Event]


def digest(trace: Iterable[object]) -> str:
    """A hash over everything in the trace; two runs of one seed have the same."""
    total = sha256()
    for event in trace:
        total.update(repr(event).encode())
    return total.hexdigest()
