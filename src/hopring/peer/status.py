"""The status of a peer as plain values: for `hop rmp status`, for metrics, and for tests.

Below       snapshots of its rings, counters of its sockets.
Above       the admin socket, which shows it as JSON, and the page of metrics.
"""

import os
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hopring.peer.peer import Peer


class RingStatus(msgspec.Struct, frozen=True):
    """One group at a peer."""

    group: str
    phase: str  # Of the ring: out, joining, in or serving.
    members: tuple[str, ...]  # `name@host:port`, in the order of the token; without a name, only `host:port`.
    version: int  # Of the ballot that names the epoch.
    timestamp: int  # Of the last packet that was delivered.
    minimum: int
    primary: bool
    suspended: bool
    token: bool  # Whether this member has the token.
    recovering: str  # The role in a recovery; empty without one.
    hears_multicast: bool
    waiting: int  # Data packets of all members without a place in the order.
    kept: int  # Packets that others may still ask for.
    unordered: int  # Own packets without a place.
    window_bytes: int
    flight_bytes: int
    round_trip_us: int
    shrunk: int  # How often the window has shrunk.


class PeerStatus(msgspec.Struct, frozen=True):
    """A peer with its rings and its sockets."""

    process: str  # `host:port`.
    incarnation: int
    pid: int
    session: str  # The name of its session; empty if that has ended.
    domain: str
    groups: tuple[RingStatus, ...]
    buffers_bytes: tuple[int, int]  # For sending and receiving, as the kernel has granted them.
    sent_datagrams: int
    sent_bytes: int
    received_datagrams: int
    received_bytes: int
    dropped: dict[str, int]  # Packets that were refused, by reason.
    unsent: dict[str, int]  # Datagrams that the kernel did not take, by reason.
    cut: tuple[str, ...]  # Peers that are cut off here.


def status_of(peer: "Peer") -> PeerStatus:
    """The present status of a peer."""
    process, counters = peer.endpoint.process, peer.endpoint.counters
    dropped = counters.dropped + peer.groups.drops
    return PeerStatus(
        str(process),
        process.nonce,
        os.getpid(),
        peer.groups.session_name,
        peer.url.domain,
        tuple([_ring(peer, name) for name in sorted(peer.groups.by_name)]),
        peer.endpoint.buffers_bytes,
        counters.datagrams_sent,
        counters.bytes_sent,
        counters.datagrams_received,
        counters.bytes_received,
        {str(reason): count for reason, count in sorted(dropped.items())},
        {str(reason): count for reason, count in sorted(counters.unsent.items())},
        tuple(sorted([f"{address[0]}:{address[1]}" for address in peer.endpoint.cut])),
    )


def _ring(peer: "Peer", name: str) -> RingStatus:
    group = peer.groups.by_name[name]  # type: ignore[index]
    seen, members = group.snapshot(), group.list
    named = () if members is None else members.members
    return RingStatus(
        name,
        seen.phase.value,
        tuple([f"{one.name}@{one.process}" if one.name else str(one.process) for one in named]),
        0 if seen.epoch is None else seen.epoch.version,
        seen.delivered,
        1 if members is None else members.minimum,
        group.primary,
        group.suspended,
        seen.token_here,
        seen.recovering,
        peer.endpoint.hears(group.name),
        seen.waiting,
        seen.slots,
        seen.unordered,
        seen.flow.window_bytes,
        seen.flow.flight_bytes,
        seen.flow.round_trip_us,
        seen.flow.shrunk,
    )
