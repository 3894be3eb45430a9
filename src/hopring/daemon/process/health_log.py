"""Log lines about views and about problems of the network, each problem with its remedy."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hopring.daemon.engines.host import EngineHost
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.udp import Address, Unsent
from hopring.daemon.process.view_facts import own_facts, reason_facts
from hopring.engine import EngineOutput, Installed, TransitionalSignal
from hopring.errors import Drop
from hopring.ids import NEVER, DaemonId, Process
from hopring.sealing.sealing import SealingSnapshot
from hopring.session.queries import view_text

CHECK_US: Final = 10_000_000
AGAIN_US: Final = 600_000_000
"""How long one kind of problem is not logged again."""

FOREIGN_US: Final = 1_000_000
"""How long a sender must keep another configuration before it is logged."""

FOREIGN_MAX: Final = 256

STALL_TOLD_US: Final = 150_000
"""Half the patience of a ring with default options: from there on a stall may cost the view."""

_STALLED: Final = (
    "this daemon did not run: it was stopped, starved of processor time, suspended with its host, "
    "or waited for a disk; the others may have gone on without it"
)

# Late packets are normal while views change.
_ROUTINE: Final = frozenset({Drop.STALE_GENERATION, Drop.STALE_INCARNATION, Drop.UNMET})
_REMEDIES: Final = {
    Drop.CLUSTER: "another cluster, or another configuration file: compare `hop config check` on all hosts",
    Drop.VERSION: "a daemon with keys where this one has none, or another version of the protocol",
    Drop.CLEAR_TEXT: "a daemon without keys: set keys in [security] on its host too",
    Drop.KEY: "a daemon with other keys: compare `hop keys show` on all hosts",
    Drop.SEAL: "damaged or forged packets, or another cluster with the same key",
    Drop.REPLAY: "packets that came twice or much too late; if their number grows, somebody repeats them",
    Drop.CERTIFICATE: "a daemon with a certificate of another cluster or name: `hop keys check` on its host",
    Drop.HANDSHAKE: "a TLS handshake that failed, or a peer that refuses this daemon's certificate",
    Drop.MAGIC: "something that is no daemon sends to this port",
    Unsent.UNREACHABLE: "there is no route: check addresses, routes and, for a group, multicast",
    Unsent.TOO_LONG: "the network carries smaller packets: lower `segment`",
    Unsent.QUEUE_FULL: "the network takes less than is sent: set `rate`, or raise net.core.wmem_max",
}

_WAITS: Final = "keys that are waited for"
_COPY_KEYS: Final = "copy cluster.keys to these daemons and reload them"

_FOREIGN: Final = (
    "another cluster, another configuration file or other keys: "
    "compare `hop config check` and `hop keys show` on all hosts"
)


class HealthLog:
    """Watches one host, and logs its views and problems."""

    def __init__(
        self,
        loop: Loop,
        log: DaemonLog,
        names: Mapping[DaemonId, str],
        addresses: Mapping[tuple[str, int], str] | None = None,
        sites: Mapping[DaemonId, str] | None = None,
    ) -> None:
        self._loop = loop
        self._sites = sites or {}
        self._log = log
        self._names = names
        self.also: Callable[[], None] = _nothing
        """Called with every check of the counters, for periodic work that is not worth a wake-up of its own."""
        self.note: Callable[[str, Mapping[str, object]], None] = _unheard
        """Gets signals, and links that come up or go down, which the log does not have."""
        self._linked: dict[str, str] = {}  # By the daemon at the other end of a link, its site.
        self._host: EngineHost | None = None
        self._members: tuple[Process, ...] = ()
        self._told_us: dict[str, int] = {}
        self._addresses = addresses or {}
        self._key_in_use: int | None = None
        self._foreign_us: dict[Address, int] = {}  # From when on a refused sender is logged.
        self._alarm = loop.alarm(self.check_counters)

    def watch(self, host: EngineHost) -> None:
        """Checks a host's counters from now on, and logs senders of another configuration."""
        self._host = host
        host.report_foreign(self._foreign)
        sealing = host.socket_report().sealing
        self._key_in_use = None if sealing is None else sealing.in_use
        self._foreign_us.clear()
        self._alarm.set(self._loop.now_us() + CHECK_US)

    def rename(
        self,
        names: Mapping[DaemonId, str],
        addresses: Mapping[tuple[str, int], str],
        sites: Mapping[DaemonId, str],
        me: Process,
    ) -> None:
        """Applies other numbers of daemons; `me` is this daemon, which is alone in its view."""
        self._names = names
        self._sites = sites
        self._addresses = addresses
        self._members = (me,)

    def _foreign(self, address: Address, detail: str) -> None:
        """Logs a sender only if it persists: while a cluster reloads, daemons change one after the other.

        A connection that was accepted and refused has no port of a daemon, and is logged at once.
        """
        now_us = self._loop.now_us()
        if address not in self._foreign_us and len(self._foreign_us) < FOREIGN_MAX:
            self._foreign_us[address] = now_us + (FOREIGN_US if address[1] else 0)
        if now_us >= self._foreign_us.get(address, NEVER):
            self._foreign_us[address] = now_us + AGAIN_US
            daemon = self._addresses.get((address[0], address[1]), "unknown")
            where = f"{address[0]} port {address[1]}" if address[1] else f"connection from {address[0]}"
            self._log.say("refused", daemon=daemon, address=where, problem=detail, remedy=_FOREIGN)

    def stalled(self, for_us: int) -> None:
        """Logs that the daemon did not run, before the consequences."""
        if for_us >= STALL_TOLD_US:
            self._log.say("stalled", seconds=f"{for_us / 1e6:.1f}", text=_STALLED)

    def observe(self, events: Sequence[EngineOutput]) -> None:
        """Logs every installed view, with its cause."""
        for event in events:
            if isinstance(event, Installed):
                self._signalled(events, event)
                self._installed(event)
                self._compare_links(event)

    def _signalled(self, events: Sequence[EngineOutput], installed: Installed) -> None:
        """Notes the signal that closed the view before this one; both come in one turn."""
        for event in events:
            if isinstance(event, TransitionalSignal) and event.next_view == installed.view:
                facts = {"view": view_text(event.view), "next": view_text(event.next_view)}
                self.note("signal", {**facts, "together": self._list(event.together)})

    def _compare_links(self, installed: Installed) -> None:
        """Notes links to other sites that this view has, or has no longer."""
        assert self._host is not None, "outputs come from a host"
        peers = [self._names[link.peer] for link in self._host.snapshot().links]
        site_of = {name: self._sites.get(number, "") for number, name in self._names.items()}
        linked = {peer: site_of[peer] for peer in peers}
        for peer in sorted(self._linked.keys() | linked.keys()):
            if peer in self._linked and peer in linked:
                continue
            state = "up" if peer in linked else "down"
            facts = {"peer": peer, "site": linked.get(peer) or self._linked.get(peer, ""), "state": state}
            self.note("link", facts if state == "up" else {**facts, "cause": installed.cause})
        self._linked = linked

    def _installed(self, event: Installed) -> None:
        before, self._members = set(self._members), event.members
        fields: dict[str, object] = {
            "id": view_text(event.view),
            "size": len(event.members),
            "members": self._list(event.members),
        }
        came = [one for one in event.members if one not in before]
        gone = sorted(before.difference(event.members))
        if before and came:
            fields["came"] = self._list(came)
        if gone:
            fields["gone"] = self._list(gone)
        fields |= {"primary": event.primary.value or "no", "cause": event.cause}
        fields |= reason_facts(event.reason, self._names, self._sites)
        self._log.say("view", **fields, **own_facts(event.reason, event.own, self._names))

    def _list(self, processes: Sequence[Process]) -> str:
        return ",".join(self._names[process.daemon] for process in processes)

    def check_counters(self) -> None:
        """Logs problems that were not logged lately; also called periodically by an alarm."""
        self._alarm.set(self._loop.now_us() + CHECK_US)
        self.also()
        assert self._host is not None, "the alarm is set for a host"
        since_us = self._loop.now_us() - AGAIN_US
        self._foreign_us = {one: at_us for one, at_us in self._foreign_us.items() if at_us > since_us}
        dropped: Counter[Drop] = Counter(self._host.snapshot().drops)
        unsent: Counter[Unsent] = Counter()
        report = self._host.socket_report()
        if report.sealing is not None:
            self._check_keys(report.sealing)
        for counters in report.all:
            dropped += counters.dropped
            unsent += counters.unsent
        for drop, count in dropped.items():
            if drop not in _ROUTINE:
                self._trouble("dropped", drop, count)
        for reason, count in unsent.items():
            # The host of a daemon that does not run refuses its datagrams.
            if reason is not Unsent.REFUSED:
                self._trouble("unsent", reason, count)

    def _check_keys(self, sealing: SealingSnapshot) -> None:
        """Logs a change of the key in use, and daemons that delay it because they lack the key."""
        if sealing.in_use != self._key_in_use:
            self._key_in_use = sealing.in_use
            self._log.say("keys", in_use=f"{sealing.in_use:08x}")
        met = {process.daemon: keys for process, keys in sealing.met.items()}
        without = [self._names[one] for one, keys in sorted(met.items()) if sealing.wanted not in keys]
        if sealing.in_use == sealing.wanted or not without:
            return
        now_us = self._loop.now_us()
        if now_us >= self._told_us.get(_WAITS, 0):
            self._told_us[_WAITS] = now_us + AGAIN_US
            ids = {"in_use": f"{sealing.in_use:08x}", "wanted": f"{sealing.wanted:08x}"}
            self._log.say("keys", **ids, without=",".join(without), remedy=_COPY_KEYS)

    def _trouble(self, event: str, reason: Drop | Unsent, count: int) -> None:
        now_us = self._loop.now_us()
        if now_us < self._told_us.get(reason, 0):
            return
        self._told_us[reason] = now_us + AGAIN_US
        remedy = _REMEDIES.get(reason)
        fields = {"remedy": remedy} if remedy else {}
        self._log.say(event, reason=reason, count=count, **fields)


def _unheard(_event: str, _facts: Mapping[str, object]) -> None:
    """The default: nobody wants to know."""


def _nothing() -> None:
    """The default: nothing else to do."""
