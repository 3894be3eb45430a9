"""The status of a daemon on its admin channel: plain values that JSON can hold."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from msgspec.structs import asdict as fields_of

from hopring import __version__
from hopring.config import cluster_hash
from hopring.daemon.admin.description import DaemonDescription
from hopring.daemon.net.udp import SocketCounters
from hopring.engine.events import Delivered, EngineOutput, Installed
from hopring.engine.snapshot import Snapshot
from hopring.groups.payloads import is_group_message
from hopring.session.queries import view_text
from hopring.wire.bundle import messages_in


class DeliveryCounters:
    """Views and deliveries of a daemon since its start."""

    def __init__(self) -> None:
        self.views = 0
        self.cause = ""
        self.delivered_bundles = 0
        self.delivered_messages = 0

    def take(self, events: Sequence[EngineOutput]) -> None:
        """Counts what came out of the engine in a turn."""
        for event in events:
            if isinstance(event, Delivered):
                payload = event.message.payload
                if payload and not is_group_message(payload):
                    self.delivered_bundles += 1
                    self.delivered_messages += messages_in(payload)
            elif isinstance(event, Installed):
                self.views += 1
                self.cause = event.cause


def status_of(description: DaemonDescription, deliveries: DeliveryCounters, now_us: int) -> dict[str, object]:
    """State, view, counters of network and links, windows, clients."""
    snapshot, config, names = description.snapshot(), description.config, description.names
    me, window = snapshot.me, snapshot.window
    status: dict[str, object] = {
        "version": __version__,
        "cluster": config.cluster,
        "hash": f"{cluster_hash(config):08x}",
        "daemon": description.name,
        "site": config.sites[config.site_of[me.daemon]].name,
        "incarnation": f"{me.incarnation:016x}",
        "pid": os.getpid(),
        "uptime_us": now_us - description.started_us,
        "phase": snapshot.phase.upper(),
        "view": view_text(snapshot.view),
        "members": [names[one.daemon] for one in snapshot.members],
        "cause": deliveries.cause,
        "views": deliveries.views,
        "sites": {site.name: [daemon.name for daemon in site.daemons] for site in config.sites},
        **_carried(description, snapshot),
        "delivered": {"messages": deliveries.delivered_messages, "bundles": deliveries.delivered_bundles},
        "window": {
            **window.sizes,
            "used_bytes": window.used_bytes,
            "used_bundles": window.used_bundles,
            "queue_bytes": window.queue_bytes,
        },
        "counters": _counters(description, snapshot),
    }
    if description.session_server is not None:
        groups = description.session_server.groups
        status["groups_state"] = groups.state.name
        status["sessions"] = len(description.session_server.sessions)
        status["groups"] = len(groups.table.groups)
    return status


def _carried(description: DaemonDescription, snapshot: Snapshot) -> dict[str, object]:
    """Datagrams since the start; links and the ring begin again with each view."""
    sockets, ring = description.host.socket_report().all, snapshot.ring
    return {
        "packets": {
            "sent": sum([one.datagrams_sent for one in sockets]),
            "received": sum([one.datagrams_received for one in sockets]),
        },
        "retransmissions": ring.resent_segments + sum([one.counters.retransmissions for one in snapshot.links]),
        "ring": {
            "members": [description.names[one] for one in ring.members],
            "rounds": ring.rounds,
            "resent_segments": ring.resent_segments,
        },
        "links": [fields_of(description.link_line(one)) for one in snapshot.links],
    }


def _counters(description: DaemonDescription, snapshot: Snapshot) -> dict[str, object]:
    report = description.host.socket_report()
    counters: dict[str, object] = {"unicast": _by_name(report.unicast)}
    if report.multicast is not None:
        counters["multicast"] = _by_name(report.multicast)
    dropped = report.decoding.dropped + Counter(snapshot.drops)
    counters["dropped"] = {str(reason): count for reason, count in sorted(dropped.items())}
    counters["lost_by_shape"] = report.lost_by_shape
    return counters


def _by_name(counters: SocketCounters) -> dict[str, object]:
    values = asdict(counters)
    for name in ("dropped", "unsent"):
        values[name] = {str(reason): count for reason, count in sorted(values[name].items())}
    return values
