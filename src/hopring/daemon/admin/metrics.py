"""Metrics in Prometheus' text format, and the health pages. Counters are plain integers, read on request."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Final

from hopring import __version__
from hopring.config import config_digest
from hopring.daemon.admin.description import DaemonDescription
from hopring.daemon.admin.exposition import CONTENT_TYPE, Sample, by_reason, family, single
from hopring.daemon.admin.http_server import HttpResponse
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.engine import Delivered, EngineOutput, Installed, LinkSnapshot, Snapshot, Stamped
from hopring.groups.payloads import is_group_message
from hopring.ids import SiteId
from hopring.ordering.entry import OrderedMessage
from hopring.services import Service
from hopring.wire.bundle import messages_in

LAG_US: Final = 1_000_000
"""How often the lag of the loop is measured."""

_ENDS: Final = "the daemon ends"
_MISSING_MAX: Final = 8  # Limit of the missing daemons that are named.
_LINK_COUNTERS: Final = ("sent", "received", "lost", "nacks", "retransmissions", "duplicates")


class Metrics:
    """The metrics of a daemon since its start."""

    def __init__(self, loop: Loop, log: DaemonLog, description: DaemonDescription) -> None:
        self.leaving = False
        self._loop = loop
        self._log = log
        self._description = description
        self._views = 0
        self._installed_us = loop.now_us()
        self._sent = _Carried()
        self._delivered = _Carried()
        self._lag_us = self._lag_us_max = 0
        self._alarm = loop.alarm(self._measure_lag)
        self._measure_at_us = loop.now_us() + LAG_US
        self._alarm.set(self._measure_at_us)

    def observe(self, events: Sequence[EngineOutput]) -> None:
        """Counts the outputs of the engine."""
        for event in events:
            if isinstance(event, Delivered):
                self._delivered.count(event.message)
            elif isinstance(event, Stamped):
                self._sent.count(event.message)
            elif isinstance(event, Installed):
                self._views += 1
                self._installed_us = self._loop.now_us()

    def _measure_lag(self) -> None:
        now_us = self._loop.now_us()
        self._lag_us = now_us - self._measure_at_us
        self._lag_us_max = max(self._lag_us_max, self._lag_us)
        self._measure_at_us = now_us + LAG_US
        self._alarm.set(self._measure_at_us)

    # Pages.

    def page(self) -> HttpResponse:
        """All metrics, in Prometheus' text format."""
        return HttpResponse(
            HTTPStatus.OK, "".join([*self._families(self._description.snapshot())]), CONTENT_TYPE
        )

    def alive(self) -> HttpResponse:
        """Whether the daemon runs: it does as long as it answers, in any view, until it ends."""
        if self.leaving:
            return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, f"{_ENDS}\n")
        snapshot = self._description.snapshot()
        return HttpResponse(
            HTTPStatus.OK, f"ok, {self._unready(snapshot) or self._view(snapshot)}\n{self._problems()}"
        )

    def ready(self) -> HttpResponse:
        """Whether clients of this daemon are served, on whichever side of a split it is."""
        snapshot = self._description.snapshot()
        why = self._unready(snapshot)
        if why:
            return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, f"{why}\n")
        return HttpResponse(HTTPStatus.OK, f"ready, {self._view(snapshot)}\n{self._problems()}")

    def _problems(self) -> str:
        """A line for each missing optional listener, and for a spooler that does not stay up."""
        return "".join([f"problem: {one}\n" for one in self._description.all_problems])

    def _view(self, snapshot: Snapshot) -> str:
        missing, size = self._description.missing(snapshot), len(self._description.names)
        names = ", ".join([*missing[:_MISSING_MAX], *(["..."] if len(missing) > _MISSING_MAX else [])])
        return f"view of {size - len(missing)} of {size} daemons" + (f", without {names}" if names else "")

    def _unready(self, snapshot: Snapshot) -> str:
        if self.leaving:
            return _ENDS
        if not snapshot.settled:
            return f"no view is whole: {snapshot.phase} ({snapshot.cause})"
        session_server = self._description.session_server
        if session_server is not None and not session_server.groups.settled:
            return f"groups are not settled: {session_server.groups.phase}"
        return ""

    def _families(self, snapshot: Snapshot) -> Iterator[str]:
        yield from self._daemon(snapshot)
        yield from self._clients()
        yield from self._keys(snapshot)
        yield from self._messages(snapshot)
        yield from self._network(snapshot)
        yield from self._links(snapshot)

    def _daemon(self, snapshot: Snapshot) -> Iterator[str]:
        now_us, description = self._loop.now_us(), self._description
        about = {
            "version": __version__,
            "cluster": description.config.cluster,
            "daemon": description.name,
            "config": config_digest(description.config),
        }
        yield family("info", "gauge", "The daemon; always 1.", [(about, 1)])
        yield single("uptime_seconds", "gauge", "Since its start.", (now_us - description.started_us) / 1e6)
        yield single("cpu_seconds_total", "counter", "Processor time.", time.process_time())
        yield single("loop_lag_seconds", "gauge", "How late the loop was when last asked.", self._lag_us / 1e6)
        worst, self._lag_us_max = self._lag_us_max, 0
        yield single("loop_lag_max_seconds", "gauge", "The worst since the last scrape.", worst / 1e6)
        yield single("log_lines_lost_total", "counter", "Lines that nobody took.", self._log.lost)
        states: list[Sample] = [({"state": one}, int(one == snapshot.phase)) for one in snapshot.phases]
        yield family("state", "gauge", "1 for the state that membership is in.", states)
        yield single("healthy", "gauge", "1 if /readyz says ready.", int(not self._unready(snapshot)))
        missing = len(description.problems)
        yield single("listeners_missing", "gauge", "Optional listeners whose place was taken.", missing)
        if description.spooler is not None:
            spooler = description.spooler()
            yield single("spooler_up", "gauge", "1 if the spooler runs.", int(spooler.pid is not None))
            yield single("spooler_starts_total", "counter", "Starts of the spooler.", spooler.starts)
        yield single("view_size", "gauge", "Daemons of the view.", len(snapshot.members))
        yield single("view_primary", "gauge", "1 if the view is primary.", int(bool(snapshot.primary)))
        yield from self._daemons_by_site(snapshot)
        yield single("views_total", "counter", "Views installed.", self._views)
        yield single(
            "view_age_seconds", "gauge", "Since it was installed.", (now_us - self._installed_us) / 1e6
        )

    def _daemons_by_site(self, snapshot: Snapshot) -> Iterator[str]:
        config = self._description.config
        present = Counter([config.site_of[one.daemon] for one in snapshot.members])
        sites = [({"site": site.name}, SiteId(at), site) for at, site in enumerate(config.sites)]
        configured: list[Sample] = [(labels, len(site.daemons)) for labels, _, site in sites]
        yield family("configured_daemons", "gauge", "Daemons of the configuration, by site.", configured)
        in_view: list[Sample] = [(labels, present[at]) for labels, at, _ in sites]
        yield family("view_daemons", "gauge", "Daemons of the view, by site.", in_view)

    def _keys(self, snapshot: Snapshot) -> Iterator[str]:
        keys = self._description.keys(snapshot)
        yield single("insecure", "gauge", "1 if the configuration says insecure = true.", int(keys.insecure))
        use = {keys.wanted: "wanted", keys.in_use: "use"}
        live: list[Sample] = [({"key": one, "state": use.get(one, "accept")}, 1) for one in keys.live]
        yield family("key_info", "gauge", "The live cluster keys by their ids; always 1.", live)
        without = [name for name, had in keys.announced.items() if keys.wanted not in had]
        yield single(
            "key_missing_daemons", "gauge", "Met daemons that lack the key that is to be used.", len(without)
        )

    def _clients(self) -> Iterator[str]:
        session_server = self._description.session_server
        if session_server is None:
            return
        sessions = session_server.sessions.values()
        yield single("sessions", "gauge", "Connections of clients.", len(session_server.sessions))
        yield single(
            "groups", "gauge", "Groups that have members, anywhere.", len(session_server.groups.table.groups)
        )
        backlog = [one.backlog.waiting_bytes + one.control_bytes for one in sessions]
        yield single("clients_backlog_bytes", "gauge", "What waits for clients, of all.", sum(backlog))
        yield single("clients_backlog_max_bytes", "gauge", "The same, of the worst.", max(backlog, default=0))
        waiting = sum(one.charged_bytes for one in sessions)
        yield single("requests_waiting_bytes", "gauge", "What clients asked for and is not credited.", waiting)
        refusals = session_server.access.refusals
        yield by_reason("client_refusals_total", "Requests without their right, by request.", refusals)
        yield by_reason("clients_ended_total", "Clients that had to go.", session_server.ended)
        refused = self._description.tls_refused
        yield by_reason("tls_clients_refused_total", "Clients refused before TLS was set up.", refused)

    def _messages(self, snapshot: Snapshot) -> Iterator[str]:
        for name, carried in (("sent", self._sent), ("delivered", self._delivered)):
            yield from carried.families(name)
        window = snapshot.window
        yield single("queue_bytes", "gauge", "What waits for the window.", window.queue_bytes)
        yield single("window_used_bytes", "gauge", "What is out and not stable.", window.used_bytes)
        yield single("window_bytes", "gauge", "The window.", window.sizes.get("bytes", 0))
        yield single(
            "window_used_bundles", "gauge", "Bundles that are out and not stable.", window.used_bundles
        )
        yield single("window_bundles", "gauge", "The window.", window.sizes.get("bundles", 0))

    def _network(self, snapshot: Snapshot) -> Iterator[str]:
        sockets = self._description.host.socket_report().all
        for unit in ("datagrams", "bytes"):
            for way in ("sent", "received"):
                total = sum(getattr(one, f"{unit}_{way}") for one in sockets)
                yield single(f"udp_{unit}_{way}_total", "counter", f"UDP {unit} {way}.", total)
        dropped = self._description.dropped(snapshot)
        yield by_reason("packets_dropped_total", "Packets that arrived and were refused.", dropped)
        yield by_reason("datagrams_unsent_total", "Datagrams that never left.", self._description.unsent())

    def _links(self, snapshot: Snapshot) -> Iterator[str]:
        ring = snapshot.ring
        yield single("ring_members", "gauge", "Daemons of the own site in the ring.", len(ring.members))
        yield single("ring_rounds_total", "counter", "Rotations of the token in this view.", ring.rounds)
        up: list[Sample] = [
            ({"peer": one.peer, "site": one.site, "protocol": one.protocol}, int(one.up))
            for one in self._description.configured_links(snapshot)
        ]
        yield family("link_up", "gauge", "1 if the link of the own site to that site works in the view.", up)
        links = [(self._labels(link), link) for link in snapshot.links]
        counters = [(labels, link.counters) for labels, link in links]
        for name in _LINK_COUNTERS:
            samples: list[Sample] = [(labels, getattr(one, name)) for labels, one in counters]
            yield family(f"link_{name}_total", "counter", f"Packets of the link in this view: {name}.", samples)
        trips: list[Sample] = [(labels, one.round_trip_us / 1e6) for labels, one in counters]
        yield family("link_round_trip_seconds", "gauge", "To the neighbour and back, smoothed.", trips)
        waiting: list[Sample] = [(labels, link.backlog_bytes) for labels, link in links]
        yield family("link_backlog_bytes", "gauge", "What waits for the link.", waiting)

    def _labels(self, link: LinkSnapshot) -> dict[str, str]:
        return {"peer": self._description.names[link.peer], "protocol": link.protocol}


class _Carried:
    """Bundles, messages and bytes by service; group messages are counted apart."""

    def __init__(self) -> None:
        self._bundles: Counter[Service] = Counter()
        self._messages: Counter[Service] = Counter()
        self._bytes: Counter[Service] = Counter()
        self._group_messages = 0

    def count(self, message: OrderedMessage) -> None:
        payload = message.payload
        if not payload or is_group_message(payload):
            self._group_messages += 1
            return
        self._bundles[message.service] += 1
        self._messages[message.service] += messages_in(payload)
        self._bytes[message.service] += len(payload)

    def families(self, way: str) -> Iterator[str]:
        for unit, counts in (
            ("bundles", self._bundles),
            ("messages", self._messages),
            ("bytes", self._bytes),
        ):
            samples: list[Sample] = [({"service": one.name.lower()}, counts[one]) for one in Service]
            yield family(f"{unit}_{way}_total", "counter", f"Clients' {unit} {way}, by service.", samples)
        yield single(
            f"group_messages_{way}_total",
            "counter",
            f"Group messages {way}: joins, leaves, ends, GROUPS.",
            self._group_messages,
        )
