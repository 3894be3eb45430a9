"""The membership on real sockets: the engine of `hopd`, and its options from the configuration.

Below       the sockets of a daemon: datagrams for membership messages and frames, connections for TCP links.
Above       as for every engine (`hopring.daemon.engines.host`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hopring.config import Config, cluster_hash
from hopring.config.settings import RING_SETTINGS
from hopring.credentials.daemon_tls import DaemonTls
from hopring.daemon.engines.host import (
    DaemonMark,
    EngineHost,
    HostSetup,
    OutputHandler,
    ReconfigurableHost,
    SocketReport,
    WindowRefused,
    ignore,
)
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.peer_sockets import PeerSockets
from hopring.daemon.net.shaper import Shape
from hopring.daemon.net.tcp import ConnectionEvent
from hopring.daemon.net.udp import Address
from hopring.engine import (
    TransitionalSignal,
)
from hopring.errors import PeerError
from hopring.ids import NOBODY, DaemonId, Generation, Process
from hopring.links.kinds import KINDS
from hopring.links.ring.options import RingOptions
from hopring.membership.current_network import LocalDaemon
from hopring.membership.events import (
    DaemonMessageReceived,
    MarkPrimary,
    NetworkOutput,
    NetworkStarted,
    Output,
    PrimaryMarked,
    SendDaemonMessage,
)
from hopring.membership.membership import Membership
from hopring.membership.messages import (
    DaemonLeave,
    EpochMark,
    decode_daemon_message,
    encode_membership_message,
)
from hopring.membership.options import LEAVE_COPIES, MembershipOptions
from hopring.membership.snapshot import MembershipPhase
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import MESSAGE_HEAD_BYTES_MAX
from hopring.reason import ReasonKind
from hopring.routing.trees import topology_of
from hopring.sealing.keys import KeyRing
from hopring.sealing.sealer import SealedCluster
from hopring.sealing.sealing import SECRET_BYTES, Sealing
from hopring.stack_events import PacketReceived, Sending, StackOptions, StreamChanged
from hopring.system.kernel import kernel
from hopring.wire.header import Family
from hopring.wire.train import MembershipFrame, Packet

_LIMITS: Final = {setting.key: (setting.low, setting.high) for setting in RING_SETTINGS}
BYTES_MIN: Final = 64 * 1024
BUNDLES_MIN: Final = 16


def membership_host(setup: HostSetup) -> EngineHost:
    """The membership on its sockets, for the table of engines."""
    return MembershipHost(
        setup.loop,
        setup.config,
        setup.me,
        setup.up,
        counter=setup.counter,
        note=setup.note,
        reached=setup.reached,
        destinations=setup.destinations,
        mark=setup.mark,
        keys=setup.keys,
        tls=setup.tls,
    )


class MembershipHost(ReconfigurableHost):
    """One life of one daemon of a configuration, among others of its cluster."""

    def __init__(
        self,
        loop: Loop,
        config: Config,
        me: Process,
        up: OutputHandler,
        *,
        counter: int = 0,  # No view of an earlier life had a higher one.
        note: OutputHandler = ignore,
        reached: Callable[[int], None] = ignore,  # Told of the view counter when an attempt begins.
        options: MembershipOptions | None = None,  # Those of the configuration, unless a test says else.
        destinations: Destinations | None = None,  # Of a layer above that prunes; it also has to say `Resume`.
        mark: DaemonMark | None = None,  # None: there is no disk for it.
        keys: KeyRing | None = None,  # Without it datagrams are in the clear.
        tls: DaemonTls | None = None,  # Without it TCP links are in the clear.
    ) -> None:
        super().__init__(loop, up, note)
        self._reached = reached
        self._options = options
        self._mark = mark
        self._keys = keys
        self._tls = tls
        self._sealed = 0  # How many packets this process has sealed.
        self._build(config, me, counter, 0, destinations)

    def _build(
        self, config: Config, me: Process, counter: int, clock: int, destinations: Destinations | None
    ) -> None:
        stack = stack_options(config, me.daemon)
        self.payload_bytes_max = stack.bundle_bytes_max - MESSAGE_HEAD_BYTES_MAX
        sealing = None
        if self._keys is not None:
            secret = kernel().random_bytes(SECRET_BYTES)
            cluster = SealedCluster(config.cluster, cluster_hash(config), len(config.daemons))
            sealing = Sealing(me, cluster, self._keys, secret, self._sealed)
        self.sockets = PeerSockets(
            self._loop, config, me, stack, self._packet_received, self._connection_changed, sealing, self._tls
        )
        tie_site = None if config.tie_site is None else config.site_id(config.tie_site)
        local = LocalDaemon(
            me,
            cluster_hash(config),
            topology_of(config),
            votes_of(config),
            tie_site,
            marked=self._mark is None or self._mark.marked,
            mark=self._mark_of(config),
            has_disk=self._mark is not None,
        )
        now_us = self._loop.now_us()
        options = self._options or membership_options(config)
        self.membership = Membership(local, counter, now_us, options, stack, destinations, clock)
        self._drive(self.membership, config, me)

    # Another configuration.

    def isolate(self, others: Collection[DaemonId], cause: str) -> None:
        """Leaves all others, who are told, and forms a view alone; it hears nobody until `renew`."""
        membership, me = self.membership, self.membership.local.me
        attempt = membership.attempt
        met = sorted({*membership.view.members, *(() if attempt is None else attempt.new.members)} - {me})
        for _ in range(LEAVE_COPIES):
            self.sockets.datagrams.send_message(
                [one.daemon for one in met], encode_membership_message(DaemonLeave(me))
            )
        self.sockets.cut_numbers(others)
        for one in met:
            # To the membership it makes no difference which of them leaves.
            self._driver.give(DaemonMessageReceived(one, DaemonLeave(one)))
        membership.reasons.note(ReasonKind.RELOAD, cause, self._loop.now_us())

    @property
    def alone(self) -> bool:
        """Whether it is in a whole view by itself, and all that was submitted and put out is dealt with."""
        membership = self.membership
        window = membership.flow.window
        whole = membership.phase is MembershipPhase.OP and membership.view.members == (membership.local.me,)
        return whole and membership.drained and not window.own_messages and not window.held and not self._upward

    def renew(
        self, config: Config, me: Process, destinations: Destinations | None, cause: str
    ) -> TransitionalSignal:
        """Begins anew with another configuration, while it is `alone`; counter and clock go on."""
        before, sockets, names = self.membership, self.sockets, self._names
        self._reached(before.counter + 1)
        self.close()
        if sockets.datagrams.sealing is not None:
            self._sealed = sockets.datagrams.sealing.counter  # No nonce is used twice.
        self._build(config, me, before.counter, before.view.order.clock, destinations)
        numbers = {old: config.daemon_id(name) for old, name in names.items() if name in config.order_names}
        self.membership.voter.follow(before.voter, numbers)
        self.membership.discovery.follow(before.discovery)
        self.membership.reasons.note(ReasonKind.RELOAD, cause, self._loop.now_us())
        self.sockets.datagrams.take_over(sockets.datagrams)
        return TransitionalSignal(before.view.id, (me,), self.membership.view.id)

    # Sockets.

    def socket_report(self) -> SocketReport:
        """The counters of all sockets that carry datagrams."""
        datagrams = self.sockets.datagrams
        group = None if datagrams.group is None else datagrams.group.traffic
        sealing = None if datagrams.sealing is None else datagrams.sealing.snapshot()
        traffic = datagrams.endpoint.traffic
        return SocketReport(traffic, group, datagrams.traffic, datagrams.shaper.lost, sealing)

    def report_foreign(self, report: Callable[[Address, str], None]) -> None:
        """Reports senders of another configuration from now on."""
        self.sockets.report_foreign(report)

    def change_keys(self, keys: KeyRing) -> None:
        """Seals and opens with these cluster keys from now on."""
        self._keys = keys
        self.sockets.datagrams.change_keys(keys)

    def change_tls(self, tls: DaemonTls) -> None:
        """Shows and accepts these certificates on further connections of TCP links."""
        self._tls = tls
        self.sockets.change_tls(tls)

    def _close_sockets(self) -> None:
        self.sockets.close()

    # By hand.

    def shape(self, daemon: str, shape: Shape) -> None:
        """Delays or loses packets to this daemon from now on."""
        self.sockets.shape(daemon, shape)

    def cut(self, daemons: Collection[str]) -> None:
        """Lets nothing pass to or from these daemons, and everything to and from all others."""
        self.sockets.cut(daemons)

    def set_windows(self, sizes: Mapping[str, int]) -> None:
        """Sets these windows; `docs/monitor.md` says what each is for."""
        membership = self.membership
        options, window, network = membership.options, membership.flow.window, membership.network
        limits = {
            "personal_segments": _LIMITS["personal_window"],
            "global_segments": _LIMITS["global_window"],
            "packet_segments": _LIMITS["packet"],
            # Others have made room for what a daemon may have under way by default, and not for more.
            "bytes": (BYTES_MIN, options.window_bytes),
            "bundles": (BUNDLES_MIN, options.window_bundles),
        }
        for name, value in sizes.items():
            low, high = limits[name]
            if not low <= value <= high:
                raise WindowRefused(f"{name} cannot be {value}", f"choose {low} to {high}")
        before = network.stack_options.ring
        ring = replace(
            before,
            personal_window_segments=sizes.get("personal_segments", before.personal_window_segments),
            global_window_segments=sizes.get("global_segments", before.global_window_segments),
            packet_segments_max=sizes.get("packet_segments", before.packet_segments_max),
        )
        network.stack_options = replace(network.stack_options, ring=ring)
        if network.stack is not None:
            network.stack.tune_ring(ring)
        window.window_bytes = sizes.get("bytes", window.window_bytes)
        window.window_bundles = sizes.get("bundles", window.window_bundles)

    # In.

    def _packet_received(self, packet: Packet) -> None:
        if packet.header.family is Family.MEMBERSHIP:
            self._membership_received(packet)
        else:
            self._driver.give(PacketReceived(packet))

    def _membership_received(self, packet: Packet) -> None:
        sender = Process(packet.header.sender, packet.header.incarnation)
        for frame in packet.frames:
            if not isinstance(frame, MembershipFrame):
                continue
            try:
                message = decode_daemon_message(frame.payload)
            except PeerError as error:
                self.membership.drops[error.reason] += 1
            else:
                self._driver.give(DaemonMessageReceived(sender, message))

    def _connection_changed(self, generation: Generation, neighbour: DaemonId, event: ConnectionEvent) -> None:
        self._driver.give(StreamChanged(generation, neighbour, event))

    # Out.

    def _send(self, outputs: Sequence[Output]) -> None:
        sendings: list[Sending] = []
        for output in outputs:
            if isinstance(output, NetworkOutput):
                sendings.append(output.output)
            elif isinstance(output, SendDaemonMessage):
                self.sockets.datagrams.send_message(output.to, encode_membership_message(output.message))
            elif isinstance(output, NetworkStarted):
                self.sockets.send(sendings)
                sendings = []
                self._reached(self.membership.counter)
                self.sockets.begin(output.own, output.ring, output.streams)
            elif isinstance(output, MarkPrimary):
                assert self._mark is not None, "a daemon without a disk has no mark to write"
                voters = [self._names.get(DaemonId(one), "") for one in output.mark.voters]
                self._mark.write(output.mark.epoch, tuple(voters), self._mark_written)
        self.sockets.send(sendings)

    def _mark_of(self, config: Config) -> EpochMark | None:
        """The mark of an earlier process, with the numbers that this configuration gives."""
        if self._mark is None or self._mark.vote is None:
            return None
        epoch, names = self._mark.vote
        numbers = {one.name: DaemonId(at) for at, one in enumerate(config.daemons)}
        return EpochMark(epoch, tuple([numbers.get(name, NOBODY) for name in names]))

    def _mark_written(self, durable: bool) -> None:
        self._driver.give(PrimaryMarked(durable))


HOLD_PART: Final = 3
"""The part of `token_loss` for which an idle token may be held, as a divisor."""


def stack_options(config: Config, me: DaemonId) -> StackOptions:
    """The options of its stacks; those of links are in the topology."""
    tuning = config.sites[config.site_of[me]].ring
    ring = replace(RingOptions(), **tuning.given())
    if tuning.hold_us is None:
        # An idle daemon sleeps more; a host that wakes up late needs the rest of the time.
        ring = replace(ring, hold_us_max=ring.token_loss_us // HOLD_PART)
    return StackOptions(ring=ring, object_bytes_max=_object_bytes_max(config))


def _object_bytes_max(config: Config) -> int:
    """What fits in one packet of every ring and link: an object crosses several, and is cut only once."""
    rings = [
        replace(RingOptions(), **site.ring.given()).among(len(site.daemons)).packet_bytes
        for site in config.sites
    ]
    return min([*rings, *[KINDS[link.protocol].object_bytes_max(link.tuning) for link in config.all_links]])


def votes_of(config: Config) -> dict[DaemonId, int]:
    """The votes of daemons that have more or less than one."""
    votes = {DaemonId(at): daemon.votes for at, daemon in enumerate(config.daemons)}
    return {one: count for one, count in votes.items() if count != 1}


def membership_options(config: Config) -> MembershipOptions:
    """The options of its membership."""
    return replace(MembershipOptions(), **config.membership.given())
