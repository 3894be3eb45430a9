"""The controls and the status of a daemon behind its admin channel, by the names of the configuration.

The status consists of plain values that JSON can hold.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from difflib import get_close_matches

from msgspec.structs import asdict as fields_of

from hopring import __version__
from hopring.config import cluster_hash
from hopring.daemon.admin.description import DaemonDescription
from hopring.daemon.admin.protocol import AdminRefusal, SetWindow
from hopring.daemon.engines.host import WindowRefused
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.shaper import CLEAR, Shape
from hopring.daemon.net.udp import SocketCounters
from hopring.daemon.process.event_store import EventStore
from hopring.engine import Delivered, EngineOutput, ForcePrimary, Installed, Snapshot
from hopring.errors import Drop
from hopring.groups.payloads import is_group_message
from hopring.ids import NEVER
from hopring.session.queries import view_text
from hopring.wire.bundle import messages_in


class DeliveryCounters:
    """Views and deliveries of a daemon since its start."""

    def __init__(self) -> None:
        self.views = 0
        self.cause = ""
        self.delivered_bundles = 0
        self.delivered_messages = 0

    def observe(self, events: Sequence[EngineOutput]) -> None:
        """Counts the outputs of the engine of one turn."""
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
    """State, view, counters of network and links, windows, keys, clients."""
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
        "primary": snapshot.primary.value,
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
        "keys": asdict(description.keys(snapshot)),
        "problems": list(description.all_problems),
        "spooler": None if description.spooler is None else asdict(description.spooler()),
    }
    if description.session_server is not None:
        groups = description.session_server.groups
        status["groups_state"] = groups.phase.upper()
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
    counters["dropped"] = _by_reason(report.decoding.dropped + Counter(snapshot.drops))
    network = Counter({} if snapshot.network is None else snapshot.network.drops)
    server = description.session_server
    counters["dropped_by_layer"] = {
        "sockets": _by_reason(sum([one.dropped for one in report.all], Counter())),
        "engine": _by_reason(network + Counter(snapshot.drops)),
        "groups": _by_reason(Counter() if server is None else server.groups.drops),
    }
    counters["lost_by_shape"] = report.lost_by_shape
    return counters


def _by_reason(dropped: Counter[Drop]) -> dict[str, int]:
    return {str(reason): count for reason, count in sorted(dropped.items())}


def _by_name(counters: SocketCounters) -> dict[str, object]:
    values = asdict(counters)
    for name in ("dropped", "unsent"):
        values[name] = {str(reason): count for reason, count in sorted(values[name].items())}
    return values


class DaemonControls:
    """The controls of a running daemon."""

    def __init__(
        self,
        loop: Loop,
        description: DaemonDescription,
        deliveries: DeliveryCounters,
        log: DaemonLog,
        *,
        reload: Callable[[], dict[str, object]],
        terminate: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._description = description
        self._deliveries = deliveries
        self._log = log
        self._reload = reload
        self._terminate = terminate
        self.store: EventStore | None = None
        """The events of the daemon, set by its process."""
        self._cut: list[str] = []
        self._shapes: dict[str, Shape] = {}
        self._suspended = False
        self._expiry = loop.alarm(self._expire)

    def shape(self, daemons: Collection[str], shape: Shape) -> None:
        """Delays or loses packets to these daemons from now on."""
        for name in self._others(daemons):
            self._description.host.shape(name, shape)
            self._shapes[name] = shape
        self._note()

    def cut(self, daemons: Collection[str], for_us: int | None = None) -> None:
        """Cuts off exactly these daemons, for `for_us` if that is given."""
        self._cut = self._others(daemons)
        self._expiry.set(NEVER if for_us is None or not self._cut else self._loop.now_us() + for_us)
        if not self._suspended:
            self._description.host.cut(self._cut)
        self._note()

    def _expire(self) -> None:
        self._log.say("admin", healed=",".join(self._cut), why="the time of the cut is over")
        self.cut(())

    def window(self, request: SetWindow) -> dict[str, object]:
        """Sets windows; returns all of them as they are now."""
        sizes = {name: value for name, value in fields_of(request).items() if value is not None}
        try:
            self._description.host.set_windows(sizes)
        except WindowRefused as refused:
            raise AdminRefusal(str(refused), refused.remedy) from None
        return dict(self._description.snapshot().window.sizes)

    def reload(self) -> dict[str, object]:
        """Reads the configuration file again; returns the changes."""
        return self._reload()

    def terminate(self) -> None:
        """Ends the daemon, after the answer to this request."""
        self._loop.call_soon(self._terminate)

    def make_primary(self) -> None:
        """Makes the daemon's view primary, which it forms anew; the log says that an operator wanted it."""
        if self._description.snapshot().primary:
            raise AdminRefusal("its view is primary", "nothing is to be done")
        self._log.say("admin", primary=self._description.name, why="an operator makes the view primary")
        self._description.host.give(ForcePrimary())

    def events(self) -> dict[str, object]:
        """The daemon, its clock, and the numbers of its first and last event."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        store = self.store
        numbers = {"first": 1, "last": 0} if store is None else {"first": store.first, "last": store.last}
        return {"daemon": self._description.name, "time": now, **numbers}

    def suspend(self) -> None:
        """Suspends cuts while the daemon changes its configuration and ignores all others."""
        self._suspended = True

    def resume(self) -> None:
        """Applies cuts and shapes to the new sockets, for daemons that are still configured."""
        self._suspended = False
        names = {daemon.name for daemon in self._description.config.daemons}
        self._shapes = {name: shape for name, shape in self._shapes.items() if name in names}
        for name, shape in self._shapes.items():
            self._description.host.shape(name, shape)
        self._cut = [name for name in self._cut if name in names]
        self._description.host.cut(self._cut)
        self._note()

    def _note(self) -> None:
        """Shows cuts and shapes in the description, which `hop doctor` and other clients ask for."""
        self._description.cut = tuple(self._cut)
        self._description.shaped = tuple(
            sorted([name for name, shape in self._shapes.items() if shape != CLEAR])
        )

    def _others(self, daemons: Collection[str]) -> list[str]:
        names = [daemon.name for daemon in self._description.config.daemons]
        for name in daemons:
            if name == self._description.name:
                raise AdminRefusal(f"{name} is this daemon", "name others")
            if name not in names:
                close = get_close_matches(name, names, n=1)
                remedy = f"did you mean {close[0]}?" if close else f"choose of {', '.join(names[:20])}"
                raise AdminRefusal(f"there is no daemon {name}", remedy)
        return sorted(set(daemons))

    def status(self) -> dict[str, object]:
        """The status of the daemon, with the cuts and shapes of the admin channel."""
        return {
            **status_of(self._description, self._deliveries, self._loop.now_us()),
            "reloading": self._description.host.paused,
            "cut": self._cut,
            "cut_left_us": None
            if self._expiry.at_us == NEVER
            else max(0, self._expiry.at_us - self._loop.now_us()),
            "shapes": {name: asdict(shape) for name, shape in self._shapes.items() if shape != CLEAR},
        }
