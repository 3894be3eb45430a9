"""The kinds of links: one row for each protocol that the configuration may name.

A new kind is a subclass of `Link` and a row here. Its name is a `LinkProtocol` and a `LinkName`
(config/model.py), and config/settings.py names the settings that it understands. All other code uses this table
or the link.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hopring.config.model import LinkProtocol, LinkTuning
from hopring.ids import DaemonId
from hopring.links.hop.hop import Hop, HopOptions
from hopring.links.link import Link
from hopring.links.tcp import Tcp, TcpOptions
from hopring.wire.data import PACKET_BYTES_MAX, SEGMENT_BYTES_DEFAULT, packet_bytes_of
from hopring.wire.header import Header


@dataclass(frozen=True, slots=True)
class LinkSetup:
    """The parameters of one end of a new link."""

    neighbour: DaemonId
    tuning: LinkTuning
    greeting: Header  # The first bytes of this end on a stream.
    backlog_bytes_min: int  # The limit of the backlog must be at least this.
    initial_seq: int


@dataclass(frozen=True, slots=True)
class LinkKind:
    """A row of the table: the constructor of a kind of link, its limits, and its transport."""

    make: Callable[[LinkSetup], Link]
    object_bytes_max: Callable[[LinkTuning], int]  # The largest object that such a link carries.
    over_stream: bool = False  # A connection; otherwise datagrams.


def _make_hop(setup: LinkSetup) -> Link:
    options = replace(HopOptions(), **setup.tuning.given())
    backlog = max(options.backlog_bytes_max, setup.backlog_bytes_min)
    return Hop(replace(options, backlog_bytes_max=backlog), setup.initial_seq)


def _make_tcp(setup: LinkSetup) -> Link:
    known = {name: value for name, value in setup.tuning.given().items() if hasattr(TcpOptions(), name)}
    options = replace(TcpOptions(), **known)
    backlog = max(options.backlog_bytes_max, setup.backlog_bytes_min)
    return Tcp(setup.greeting, setup.neighbour, options=replace(options, backlog_bytes_max=backlog))


def _datagram_object_bytes(tuning: LinkTuning) -> int:
    return packet_bytes_of(tuning.segment_bytes or SEGMENT_BYTES_DEFAULT)


def _stream_object_bytes(_tuning: LinkTuning) -> int:
    return PACKET_BYTES_MAX


KINDS: dict[LinkProtocol, LinkKind] = {
    LinkProtocol.HOP: LinkKind(_make_hop, _datagram_object_bytes),
    LinkProtocol.TCP: LinkKind(_make_tcp, _stream_object_bytes, over_stream=True),
}
