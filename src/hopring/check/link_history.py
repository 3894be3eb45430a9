"""What the users of links see and do, in the words of the thesis' reliable links (2.2.7).

A link is named by its ends, as in "a-b", and a new generation of it by its number behind that, as in "a-b/2".
"""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Submitted:
    """A host gave the link an object to carry (rmcast)."""

    at_us: int
    link: str
    host: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """The link gave a host an object from another (rreceive)."""

    at_us: int
    link: str
    host: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """The link has told a host that it is dead (linkfailed)."""

    at_us: int
    link: str
    host: str
    reason: str


class Change(StrEnum):
    """What can befall a host."""

    CRASH = "crash"
    RESTART = "restart"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class HostChanged:
    """A host crashed, restarted, was paused or went on."""

    at_us: int
    host: str
    change: Change
