"""The words between the demonstration and its nodes: JSON lines, commands down and events up.

The four events of a history are spelled as in the thesis (2.2.6). They go into the trace file as they came.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from hopring.check.network import NetworkEvent, Ninit, Nlinkfailed, Nmcast, Nreceive


class Start(msgspec.Struct, frozen=True, tag_field="do", tag="start"):
    """Begin a network: all that membership would decide."""

    generation: int
    members: dict[str, int]  # Daemons and their incarnations.
    cut: list[tuple[str, str]]  # Pairs of sites.


class Shape(msgspec.Struct, frozen=True, tag_field="do", tag="shape"):
    """Treat what goes to this daemon so from now on."""

    towards: str
    delay_us: int
    loss: float = 0.0


class Send(msgspec.Struct, frozen=True, tag_field="do", tag="send"):
    """Multicast so many bundles to these sites, one after the other."""

    first: int  # The number of the first bundle.
    count: int
    every_us: int
    in_us: int  # Until the first.
    sites: list[str]


class Count(msgspec.Struct, frozen=True, tag_field="do", tag="count"):
    """Tell what the links have carried so far."""


class Ready(msgspec.Struct, frozen=True, tag_field="event", tag="ready"):
    """The sockets are open."""

    incarnation: int


class Unable(msgspec.Struct, frozen=True, tag_field="event", tag="unable"):
    """The sockets could not be opened."""

    problem: str


class Started(msgspec.Struct, frozen=True, tag_field="event", tag="ninit"):
    """A network began here."""

    at_us: int
    daemon: str
    network: int
    members: list[str]


class Sent(msgspec.Struct, frozen=True, tag_field="event", tag="nmcast"):
    """A bundle was multicast here."""

    at_us: int
    daemon: str
    bundle: str
    wanted_by: list[str]


class Received(msgspec.Struct, frozen=True, tag_field="event", tag="nreceive"):
    """A bundle came here."""

    at_us: int
    daemon: str
    bundle: str


class Ended(msgspec.Struct, frozen=True, tag_field="event", tag="nlinkfailed"):
    """The network ended here."""

    at_us: int
    daemon: str
    reason: str


class LinkCount(msgspec.Struct, frozen=True):
    """What one end of a link to another site has done since its network began."""

    datagrams: int  # Sent, lost ones included.
    lost: int  # Of them, those that the shaper threw away.
    bytes: int  # Of them all, with the heads of UDP and IP.
    nacks: int
    retransmissions: int


class Counted(msgspec.Struct, frozen=True, tag_field="event", tag="counted"):
    """The answer to Count."""

    links: dict[str, LinkCount]  # By the daemon at the other end.


Command = Start | Shape | Send | Count
Happening = Started | Sent | Received | Ended
Event = Ready | Unable | Counted | Happening

_ENCODER: Final = msgspec.json.Encoder()
_COMMANDS: Final[msgspec.json.Decoder[Command]] = msgspec.json.Decoder(Command)
_EVENTS: Final[msgspec.json.Decoder[Event]] = msgspec.json.Decoder(Event)


def encode_line(word: Command | Event) -> bytes:
    """The word as a line."""
    return _ENCODER.encode(word) + b"\n"


class Lines:
    """Collects bytes and gives whole lines back."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines


def decode_commands(lines: list[bytes]) -> Iterator[Command]:
    """What the node shall do."""
    return map(_COMMANDS.decode, lines)


def decode_events(lines: list[bytes]) -> Iterator[Event]:
    """What the node has seen."""
    return map(_EVENTS.decode, lines)


def as_history(happening: Happening) -> NetworkEvent:
    """The same in the words of the checker."""
    match happening:
        case Started(at_us, daemon, network, members):
            return Ninit(at_us, daemon, tuple(members), network)
        case Sent(at_us, daemon, bundle, wanted_by):
            return Nmcast(at_us, daemon, bundle.encode(), tuple(wanted_by))
        case Received(at_us, daemon, bundle):
            return Nreceive(at_us, daemon, bundle.encode())
        case Ended(at_us, daemon, reason):
            return Nlinkfailed(at_us, daemon, reason)
