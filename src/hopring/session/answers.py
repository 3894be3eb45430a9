"""Answers: what a daemon tells of itself to any client that asks, a page at a time.

The values here are read by msgspec at run time, so this file is not compiled.
"""

from typing import Annotated, Final, Literal

import msgspec

from hopring.errors import Drop, PeerError
from hopring.groups.names import GroupViewId
from hopring.ids import ViewId
from hopring.session.words import Count, Member, Name, Text, Word

Number = Annotated[int, msgspec.Meta(ge=0)]


LinkProtocolName = Literal["hop", "tcp"]
DaemonPhase = Literal["op", "search", "statetrans", "evs", "gone"]
"""The membership's phases."""

WeightsName = Literal["fixed", "measured"]
LinkUse = Literal["tree", "spare", "unused", "cut", "absent"]
"""What the daemon's network does with a link: some tree uses it; it is measured only; neither; it is left out;
or one of its sites is not in the network."""


class GroupLine(Word, frozen=True):
    """A group that has members."""

    name: Name
    members: Count
    here: Count  # Of them at this daemon.


class GroupsPage(Word, frozen=True, tag="groups"):
    """Groups by name."""

    groups: tuple[GroupLine, ...]
    more: bool  # After the last one of these.


class MembersPage(Word, frozen=True, tag="members"):
    """Members of a group by daemon and name; none if nobody is in it."""

    group: Name
    id: GroupViewId | None
    members: tuple[Member, ...]
    more: bool


class DaemonLine(Word, frozen=True):
    """A daemon of a view."""

    name: Name
    incarnation: Number


class ViewFacts(Word, frozen=True, tag="view"):
    """A view of the daemons."""

    id: ViewId
    members: tuple[DaemonLine, ...]
    cause: Text
    age_us: Count  # Since it was installed.
    present: bool  # Whether it is the last one.


class LinkLine(Word, frozen=True):
    """A link to another site, as this end of it sees it; counts of packets since the view began."""

    daemon: Name
    protocol: LinkProtocolName
    sent: Count
    received: Count
    lost: Count
    nacks: Count
    retransmissions: Count
    round_trip_us: Count
    backlog_bytes: Count


class DaemonAnswer(Word, frozen=True, tag="daemon"):
    """The daemon itself."""

    daemon: Name
    cluster: Name
    hash: Name  # Of the configuration, what has to be alike.
    version: Name
    phase: DaemonPhase
    uptime_us: Count
    sessions: Count
    groups: Count
    ring: tuple[Name, ...]  # The daemons of its own site that it has a ring with, itself too.
    links: tuple[LinkLine, ...]
    dropped: dict[Name, Count]  # Packets refused, by reason.
    unsent: dict[Name, Count]
    cut: tuple[Name, ...] = ()  # Daemons that the admin channel has cut off here.
    shaped: tuple[Name, ...] = ()  # Daemons whose packets from here the admin channel delays or loses.


class WeightLine(Word, frozen=True):
    """A link between two sites: what it weighs, and what this daemon has measured of it."""

    sites: tuple[Name, Name]
    protocol: LinkProtocolName
    configured: Count
    agreed: Count | None  # In the daemon's present network; None if a site is not in it, or there is none.
    measured: Count | None = None  # The expected time to deliver, in microseconds; the next three only of
    round_trip_us: Count | None = None  # links of this daemon's site, by the daemon that represents it.
    loss_ppm: Count | None = None
    use: LinkUse = "absent"


class WeightsPage(Word, frozen=True, tag="weights"):
    """Links by their sites."""

    daemon: Name
    weights: WeightsName
    representative: Name  # Of the daemon's site: it has the links. Empty if there is no network.
    links: tuple[WeightLine, ...]
    more: bool


class NoAnswer(Word, frozen=True, tag="none"):
    """It cannot be told."""

    reason: Text
    remedy: Text


Told = GroupsPage | MembersPage | ViewFacts | DaemonAnswer | WeightsPage | NoAnswer
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Told]] = msgspec.msgpack.Decoder(Told)


def encode_told(told: Told) -> bytes:
    """The body of an ANSWER."""
    return _encoder.encode(told)


def decode_told(body: bytes) -> Told:
    """What an ANSWER says."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(Drop.INCONSISTENT, f"ANSWER: {error}") from None
