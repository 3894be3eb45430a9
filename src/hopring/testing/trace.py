"""The trace of a world of links: a list of typed events, which scenarios render and checkers judge.

Submitted, Received and Failed are the actions of the thesis' reliable links (2.2.7). A link is named by its
ends, as in "a-b"; a new generation has its number behind that, as in "a-b/2".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from hopring.errors import Drop
from hopring.sim.network import SentDatagram
from hopring.testing.network_check import NetworkEvent


@dataclass(frozen=True, slots=True)
class ObjectSubmitted:
    """A host gave the link an object to carry (rmcast)."""

    at_us: int
    link: str
    host: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class ObjectReceived:
    """The link gave a host an object from another (rreceive)."""

    at_us: int
    link: str
    host: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class LinkEndFailed:
    """The link reported its failure to a host (linkfailed)."""

    at_us: int
    link: str
    host: str
    reason: str


class HostChange(StrEnum):
    """State changes of a host."""

    CRASH = "crash"
    RESTART = "restart"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class HostChanged:
    """A host crashed, restarted, was paused or resumed."""

    at_us: int
    host: str
    change: HostChange


@dataclass(frozen=True, slots=True)
class ObjectRefused:
    """A host tried to submit an object that the link does not take."""

    at_us: int
    link: str
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class DatagramDropped:
    """A host dropped a datagram that no correct peer sends, or one of a link that is gone."""

    at_us: int
    link: str
    host: str
    reason: Drop
    detail: str


TraceEvent = (
    SentDatagram
    | ObjectSubmitted
    | ObjectRefused
    | ObjectReceived
    | LinkEndFailed
    | DatagramDropped
    | HostChanged
    | NetworkEvent
)
Trace = list[TraceEvent]


def digest(trace: Iterable[object]) -> str:
    """A hash over everything in the trace; two runs of one seed have the same."""
    total = sha256()
    for event in trace:
        total.update(repr(event).encode())
    return total.hexdigest()
