"""The metrics of a peer in Prometheus' text format; docs/peers.md lists them."""

from collections.abc import Callable
from http import HTTPStatus

from hopring.daemon.admin.exposition import CONTENT_TYPE, Sample, by_reason, family, single
from hopring.daemon.admin.http_server import HttpResponse, HttpServer
from hopring.daemon.loop.event_loop import Loop
from hopring.peer.status import PeerStatus, RingStatus

Reading = Callable[[RingStatus], float]

_GAUGES: tuple[tuple[str, str, Reading], ...] = (
    ("peer_members", "Members of the last list of the ring.", lambda one: len(one.members)),
    ("peer_list_version", "Version of the ballot that names the epoch.", lambda one: one.version),
    ("peer_token", "Whether this member has the token.", lambda one: one.token),
    ("peer_suspended", "Whether the ring has too few members to go on.", lambda one: one.suspended),
    ("peer_primary", "Whether the list is primary.", lambda one: one.primary),
    (
        "peer_hears_multicast",
        "Whether multicasts of the group are received here.",
        lambda one: one.hears_multicast,
    ),
    ("peer_waiting_packets", "Data packets without a place in the order.", lambda one: one.waiting),
    ("peer_kept_packets", "Packets that others may still ask for.", lambda one: one.kept),
    ("peer_unordered_packets", "Own packets without a place in the order.", lambda one: one.unordered),
    ("peer_window_bytes", "The window of the own packets.", lambda one: one.window_bytes),
    ("peer_flight_bytes", "Own bytes under way.", lambda one: one.flight_bytes),
    ("peer_round_trip_seconds", "Smoothed time from a packet to its ACK.", lambda one: one.round_trip_us / 1e6),
)
_COUNTERS: tuple[tuple[str, str, Reading], ...] = (
    ("peer_timestamp", "Timestamp of the last delivered packet of the epoch.", lambda one: one.timestamp),
    ("peer_window_shrunk_total", "How often the window has shrunk.", lambda one: one.shrunk),
)


def metrics_page(status: PeerStatus) -> str:
    """All metrics of a peer."""
    parts = [
        family("peer_info", "gauge", "The peer and its session.", [_info(status)]),
        single("peer_groups", "gauge", "Groups that the process takes part in.", len(status.groups)),
    ]
    for name, text, reading in _GAUGES:
        parts.append(family(name, "gauge", text, _samples(status, reading)))
    for name, text, reading in _COUNTERS:
        parts.append(family(name, "counter", text, _samples(status, reading)))
    sent, received = status.sent_datagrams, status.received_datagrams
    parts += [
        single("peer_sent_datagrams_total", "counter", "Datagrams sent.", sent),
        single("peer_sent_bytes_total", "counter", "Bytes sent.", status.sent_bytes),
        single("peer_received_datagrams_total", "counter", "Datagrams received.", received),
        single("peer_received_bytes_total", "counter", "Bytes received.", status.received_bytes),
        by_reason("peer_dropped_packets_total", "Packets that were refused.", status.dropped),
        by_reason("peer_unsent_datagrams_total", "Datagrams that could not be sent.", status.unsent),
    ]
    return "".join(parts)


def _info(status: PeerStatus) -> Sample:
    return {"process": status.process, "session": status.session, "domain": status.domain}, 1


def _samples(status: PeerStatus, reading: Reading) -> list[Sample]:
    return [({"group": one.group}, float(reading(one))) for one in status.groups]


def serve_metrics(loop: Loop, address: tuple[str, int], status: Callable[[], PeerStatus]) -> HttpServer:
    """Answers GET /metrics at this address; raises BindError."""
    page = lambda: HttpResponse(HTTPStatus.OK, metrics_page(status()), CONTENT_TYPE)  # noqa: E731
    return HttpServer(loop, address, {"/metrics": page})
