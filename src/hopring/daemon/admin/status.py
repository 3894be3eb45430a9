"""What a daemon says of itself on its admin channel: facts that JSON can hold."""

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

from msgspec.structs import asdict as fields_of

from hopring import __version__
from hopring.config import cluster_hash
from hopring.config.tuning import RING_SETTINGS
from hopring.daemon.admin.description import DaemonDescription
from hopring.daemon.admin.protocol import AdminRefusal, SetWindow
from hopring.daemon.engines.membership_host import Upward
from hopring.daemon.net.udp import SocketCounters
from hopring.engine.events import Delivered, Installed
from hopring.groups.payloads import is_group_message
from hopring.membership.membership import Membership
from hopring.session.queries import view_text
from hopring.wire.bundle import messages_in


class DeliveryCounters:
    """Counts since the start."""

    def __init__(self) -> None:
        self.views = 0
        self.cause = ""
        self.delivered_bundles = 0
        self.delivered_messages = 0

    def take(self, events: Sequence[Upward]) -> None:
        """What came out of the member in a turn."""
        for event in events:
            if isinstance(event, Delivered):
                payload = event.message.payload
                if payload and not is_group_message(payload):
                    self.delivered_bundles += 1
                    self.delivered_messages += messages_in(payload)
            elif isinstance(event, Installed):
                self.views += 1
                self.cause = event.cause


def status_of(facts: DaemonDescription, tally: DeliveryCounters, now_us: int) -> dict[str, object]:
    """State, view, what was carried and how, who is served."""
    membership, config, names = facts.member.membership, facts.config, facts.names
    view, me = membership.view, membership.local.me
    status: dict[str, object] = {
        "version": __version__,
        "cluster": config.cluster,
        "hash": f"{cluster_hash(config):08x}",
        "daemon": facts.name,
        "site": config.sites[config.site_of[me.daemon]].name,
        "incarnation": f"{me.incarnation:016x}",
        "pid": os.getpid(),
        "uptime_us": now_us - facts.started_us,
        "phase": membership.phase.name,
        "view": view_text(view.id),
        "members": [names[one.daemon] for one in view.members],
        "cause": tally.cause,
        "views": tally.views,
        "sites": {site.name: [daemon.name for daemon in site.daemons] for site in config.sites},
        **_carried(facts),
        "delivered": {"messages": tally.delivered_messages, "bundles": tally.delivered_bundles},
        "window": {
            **windows(membership),
            "used_bytes": membership.flow.window.out_bytes,
            "used_bundles": membership.flow.window.out_bundles,
            "queue_bytes": membership.flow.window.waiting_bytes,
        },
        "counters": _counters(facts),
    }
    if facts.desk is not None:
        groups = facts.desk.groups
        status["groups_state"] = groups.state.name
        status["sessions"] = len(facts.desk.sessions)
        status["groups"] = len(groups.table.groups)
    return status


def _carried(facts: DaemonDescription) -> dict[str, object]:
    """Datagrams since the start; links and the ring begin again with each view."""
    traffics, stack = facts.traffics(), facts.member.membership.stack
    links = [link.counters for link in facts.links.values()]
    resent = 0 if stack is None else stack.ring.state.resent_segments
    members = () if stack is None else stack.network.ring
    number = 0 if stack is None else stack.ring.state.token.number
    return {
        "packets": {
            "sent": sum([one.datagrams_sent for one in traffics]),
            "received": sum([one.datagrams_received for one in traffics]),
        },
        "retransmissions": resent + sum([one.retransmissions for one in links]),
        "ring": {
            "members": [facts.names[one] for one in members],
            "rounds": number // max(1, len(members)),
            "resent_segments": resent,
        },
        "links": [fields_of(facts.line(one, link)) for one, link in sorted(facts.links.items())],
    }


def _counters(facts: DaemonDescription) -> dict[str, object]:
    datagrams = facts.member.sockets.datagrams
    counters: dict[str, object] = {"unicast": _facts(datagrams.endpoint.traffic)}
    if datagrams.group is not None:
        counters["multicast"] = _facts(datagrams.group.traffic)
    dropped = datagrams.traffic.dropped + facts.member.membership.drops
    counters["dropped"] = {str(reason): count for reason, count in sorted(dropped.items())}
    counters["lost_by_shape"] = datagrams.shaper.lost
    return counters


def _facts(traffic: SocketCounters) -> dict[str, object]:
    facts = asdict(traffic)
    for name in ("dropped", "unsent"):
        facts[name] = {str(reason): count for reason, count in sorted(facts[name].items())}
    return facts


_LIMITS: Final = {setting.key: (setting.low, setting.high) for setting in RING_SETTINGS}
BYTES_MIN: Final = 64 * 1024
BUNDLES_MIN: Final = 16


def windows(membership: Membership) -> dict[str, object]:
    """All of them, by the names of the request that sets them."""
    ring, outbox = membership.network.stack_options.ring, membership.flow.window
    return {
        "personal_segments": ring.personal_window_segments,
        "global_segments": ring.global_window_segments,
        "packet_segments": ring.packet_segments_max,
        "bytes": outbox.window_bytes,
        "bundles": outbox.window_bundles,
    }


def set_windows(membership: Membership, request: SetWindow) -> None:
    """Sets what is given; Refusal, and nothing has changed, if something cannot be."""
    options, outbox, present = membership.options, membership.flow.window, membership.network
    ring = present.stack_options.ring
    personal = _fits("personal_segments", request.personal_segments, *_LIMITS["personal_window"])
    together = _fits("global_segments", request.global_segments, *_LIMITS["global_window"])
    packet = _fits("packet_segments", request.packet_segments, *_LIMITS["packet"])
    # Others have made room for what a daemon may have under way by default, and not for more.
    some_bytes = _fits("bytes", request.bytes, BYTES_MIN, options.window_bytes)
    bundles = _fits("bundles", request.bundles, BUNDLES_MIN, options.window_bundles)
    ring = replace(
        ring,
        personal_window_segments=personal or ring.personal_window_segments,
        global_window_segments=together or ring.global_window_segments,
        packet_segments_max=packet or ring.packet_segments_max,
    )
    present.stack_options = replace(present.stack_options, ring=ring)
    if present.stack is not None:
        present.stack.tune_ring(ring)
    outbox.window_bytes = some_bytes or outbox.window_bytes
    outbox.window_bundles = bundles or outbox.window_bundles


def _fits(name: str, value: int | None, low: int, high: int) -> int | None:
    if value is not None and not low <= value <= high:
        raise AdminRefusal(f"{name} cannot be {value}", f"choose {low} to {high}")
    return value
