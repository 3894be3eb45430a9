"""The connections of one member: it dials, greets, keeps what the log says, and ends what the log does not.

Implements  Makpangou and Birman, 5.1: one master connection for each pair of clusters, and a backup for it.
Below       `Connection`; a driver that connects and carries frames.
Above       the member, which hands in what the log says (`serving`, the epoch), and submits entries.
Invariants  a connection carries frames of channels only while the state names it, by who dialled and by its
            generation, and only while this member serves. So an older one is never heeded, nothing is sent on
            a link that is off, and nothing by a member without a majority.
Deviations  of two clusters the one with the smaller number dials, unless the clusters file says otherwise; if
            both do, the attempt of the smaller one goes on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from hopring.errors import PeerError
from hopring.haul.application import NO_GENERATION, ApplicationManager
from hopring.haul.entries import EntryBody, FramesReceived, LinkClosed, LinkOpened
from hopring.haul.ids import NOBODY, ClusterId, ClusterMask, clusters_in, is_in
from hopring.haul.link.channel import WINDOW_BYTES
from hopring.haul.link.chunks import CHUNK_WINDOW_BYTES, ChunkLine
from hopring.haul.link.connection import Connection, ConnectionPhase
from hopring.haul.link.frames import (
    CHUNK_BYTES_MAX,
    LENGTH_BYTES,
    Beat,
    Bye,
    Greeting,
    LinkFrame,
    LinkGeneration,
    ParcelFrame,
    Refuse,
    WantFrame,
    encode_frame,
)
from hopring.haul.link.mastering import Redial
from hopring.haul.link.schedule import Always, LinkSchedule, OnDemand
from hopring.haul.member_events import (
    ConnectionId,
    Dialed,
    DialPeer,
    EndConnection,
    MemberOutput,
    SendFrame,
    SendPiece,
    SendStored,
)
from hopring.haul.order.events import AskForParcel
from hopring.haul.stored.keeping import MemberFiles
from hopring.haul.stored.shelf import FileKey
from hopring.ids import NEVER

CONNECTIONS_MAX: Final = 256
"""Connections of one process, those without a greeting among them."""

WAKE_US: Final = 1_000_000
"""A link on demand is looked at so often."""

SKIPS_MAX: Final = 20
"""A generation is above the one before it by at most two to the power of this."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """What a member knows of the clusters file."""

    wide: str = "wide"
    digest: bytes = bytes(32)  # Of peers that `digests` does not name.
    dials: ClusterMask = NOBODY  # The peers that this cluster dials.
    schedules: dict[ClusterId, LinkSchedule] = field(default_factory=dict)
    window_bytes: int = WINDOW_BYTES
    file_window_bytes: int = CHUNK_WINDOW_BYTES
    file_piece_bytes: int = CHUNK_BYTES_MAX
    wall_offset_us: int = 0  # The wall clock is this far ahead of `now_us`.
    digests: dict[ClusterId, bytes] = field(default_factory=dict)  # Of what both ends have to have alike.

    def digest_for(self, peer: ClusterId) -> bytes:
        """The digest of what this cluster and a peer have to have alike."""
        return self.digests.get(peer, self.digest)


class EntrySubmitter(Protocol):
    """Puts entries into the log; a key names what must not be under way twice."""

    def submit(self, key: tuple[str, int], body: EntryBody) -> None:
        """Submits an entry under a key."""
        ...

    def is_pending(self, key: tuple[str, int]) -> bool:
        """Whether the entry of a key is not applied yet."""
        ...


class MemberLinks:
    """All connections of one member."""

    def __init__(
        self,
        name: str,
        app: ApplicationManager,
        options: LinkOptions,
        log: EntrySubmitter,
        keeping: MemberFiles | None = None,
    ) -> None:
        """`keeping` is what this member has on its disk beside the log."""
        self.keeping = keeping or MemberFiles(app)
        self.name = name
        self.app = app
        self.options = options
        self.incarnation = 0  # Of this cluster's state, once its log is known.
        self.epoch = 0  # Of the log, while it serves.
        self.connections: dict[ConnectionId, Connection] = {}
        self._log = log
        self._dialing: set[ClusterId] = set()
        self._redial = {one: Redial(app.me * 64 + one) for one in clusters_in(app.peers)}
        self._count = 0  # The highest number of a generation in this life.
        self._waiting_since_us: dict[ClusterId, int] = {}  # Of links on demand.
        self._out: list[MemberOutput] = []

    def take(self) -> list[MemberOutput]:
        """The outputs since the last call."""
        out, self._out = self._out, []
        return out

    def connection_to(self, peer: ClusterId) -> Connection | None:
        """The open connection to a peer."""
        return next((one for one in self._open() if one.peer == peer), None)

    def wake_at_us(self, now_us: int) -> int:
        """When a connection or an attempt is due."""
        times = [one.wake_at_us for one in self.connections.values()]
        for peer in self._own_peers():
            if peer in self._dialing or self._connection_of(peer) is not None:
                times += self._schedule_change(peer, now_us)
            elif self._is_wanted(peer, now_us):
                times.append(max(now_us, self._redial[peer].at_us))
            else:
                times += self._schedule_change(peer, now_us)
        return min(times, default=NEVER)

    def _schedule_change(self, peer: ClusterId, now_us: int) -> list[int]:
        schedule, offset_us = self._schedule(peer), self.options.wall_offset_us
        if isinstance(schedule, OnDemand):
            return [now_us + WAKE_US]
        change_us = schedule.next_change_us(now_us + offset_us)
        return [] if change_us is None else [change_us - offset_us]

    # Events of the driver.

    def dialed(self, event: Dialed, now_us: int) -> None:
        """An attempt to connect has ended."""
        self._dialing.discard(event.peer)
        if event.connection is None:
            self._redial[event.peer].failed(now_us)
            return
        if event.peer not in self._own_peers() or not self._is_wanted(event.peer, now_us):
            self._out.append(EndConnection(event.connection, "the link is off, or another member's by now"))
            return
        self._count = self._next_number(event.peer)
        connection = self._new(event.connection, now_us)
        connection.peer, connection.dialer = event.peer, self.app.me
        connection.generation = LinkGeneration(self.epoch, self._count)
        self.connections[connection.id] = connection
        self._greet(connection, welcome=False)

    def _next_number(self, peer: ClusterId) -> int:
        """The number of the next generation: above those of members that dialled before in this epoch.

        The peer may know later ones, by greetings whose answers were lost: each failure skips twice as many.
        """
        seen = self.app.links[peer].seen.get(self.app.me, NO_GENERATION)
        last = seen.number if seen.epoch == self.epoch else 0
        return max(self._count, last) + (1 << min(self._redial[peer].failures, SKIPS_MAX))

    def accepted(self, connection: ConnectionId, now_us: int) -> None:
        """Another cluster has connected to this process."""
        if len(self.connections) >= CONNECTIONS_MAX or not self.epoch:
            self._out.append(EndConnection(connection, "this member does not serve now"))
            return
        self.connections[connection] = self._new(connection, now_us)

    def _new(self, connection: ConnectionId, now_us: int) -> Connection:
        options = self.options
        files = ChunkLine(options.file_window_bytes, options.file_piece_bytes)
        return Connection(connection, now_us, now_us, window_bytes=options.window_bytes, files=files)

    def lost(self, connection: ConnectionId, now_us: int) -> None:
        """A connection has ended; that it is over goes into the log if the log has it."""
        self._forget(connection, now_us)

    def arrived(self, connection_id: ConnectionId, frame: LinkFrame, now_us: int) -> None:
        """A frame of a connection."""
        connection = self.connections.get(connection_id)
        if connection is None:
            return
        connection.heard_us = now_us
        try:
            self._arrived(connection, frame, now_us)
        except PeerError as error:
            self.end(connection, str(error), now_us)

    def _arrived(self, connection: Connection, frame: LinkFrame, now_us: int) -> None:
        match frame:
            case Greeting():
                self._greeted(connection, frame, now_us)
            case Refuse(reason):
                self._drop(connection, reason, now_us)
            case Bye(reason):
                self._drop(connection, reason, now_us)
            case Beat():
                pass
            case _ if connection.opened is not None:
                name = getattr(frame, "set", "")
                managed = self.app.sets.get(name)
                channel = None if managed is None else managed.channels.get(connection.peer)
                connection.arrive(frame, 0 if channel is None else channel.received)

    # Greetings.

    def _greet(self, connection: Connection, *, welcome: bool) -> None:
        received = self.app.received_from(connection.peer)
        digest = self.options.digest_for(connection.peer)
        of = self.options.wide, digest, self.app.me, self.incarnation, connection.generation
        connection.told = dict(received)
        self._out.append(SendFrame(connection.id, Greeting(*of, received, (), welcome)))

    def _greeted(self, connection: Connection, greeting: Greeting, now_us: int) -> None:
        if connection.opened is not None or greeting.welcome != bool(connection.peer):
            self._refuse(connection, "a greeting that does not fit", "give both ends the same version", now_us)
            return
        peer = greeting.cluster
        dialer = connection.dialer or peer
        of = peer, dialer, greeting.generation, self.name, greeting.incarnation, greeting.received
        opened = LinkOpened(*of)
        refusal = self._refusal(connection, greeting, opened)
        if refusal is not None:
            self._refuse(connection, *refusal, now_us)
            return
        connection.peer, connection.dialer, connection.generation = peer, dialer, greeting.generation
        connection.opened, connection.phase = opened, ConnectionPhase.ORDERED
        self._log.submit(("opened", connection.id), opened)

    def _refusal(
        self, connection: Connection, greeting: Greeting, opened: LinkOpened
    ) -> tuple[str, str] | None:
        options, app = self.options, self.app
        if greeting.wide != options.wide or greeting.digest != options.digest_for(greeting.cluster):
            return "the clusters files differ", "give both clusters the same file"
        if connection.peer and greeting.cluster != connection.peer:
            return f"cluster {greeting.cluster} answers for {connection.peer}", "look at the access points"
        if not is_in(opened.peer, app.peers):
            return f"cluster {opened.peer} is not in the clusters file", "give both clusters the same file"
        if connection.peer and greeting.generation != connection.generation:
            return "the answer to another greeting", "use one connection for one greeting"
        own = self._connection_of(opened.peer)
        own_greets = own is not None and own.dialer == app.me and own.phase is ConnectionPhase.GREETING
        if not connection.peer and own_greets and app.me < opened.peer:
            return "both ends have dialled", "use the other connection"
        return app.refusal(opened)

    def _refuse(self, connection: Connection, reason: str, remedy: str, now_us: int) -> None:
        self._out.append(SendFrame(connection.id, Refuse(reason, remedy)))
        self._drop(connection, reason, now_us)

    def end(self, connection: Connection, reason: str, now_us: int) -> None:
        """Ends a connection in an orderly way."""
        if self.epoch:
            self._out.append(SendFrame(connection.id, Bye(reason)))
        self._drop(connection, reason, now_us)

    def _drop(self, connection: Connection, reason: str, now_us: int) -> None:
        self._out.append(EndConnection(connection.id, reason))
        self._forget(connection.id, now_us)

    def _forget(self, connection_id: ConnectionId, now_us: int) -> None:
        connection = self.connections.pop(connection_id, None)
        if connection is not None and connection.dialer == self.app.me:
            self._redial[connection.peer].failed(now_us)

    # What the state wants.

    def act(self, now_us: int) -> None:
        """Does what the state and the clock ask for, while this member serves."""
        for connection in list(self.connections.values()):
            self._look_at(connection, now_us)
        self._close_lost()
        for peer in self._own_peers():
            if peer in self._dialing or self._connection_of(peer) is not None:
                continue
            if self._is_wanted(peer, now_us) and now_us >= self._redial[peer].at_us:
                self._dialing.add(peer)
                self._out.append(DialPeer(peer))

    def _own_peers(self) -> Iterator[ClusterId]:
        """The peers that this member dials."""
        if self.epoch:
            for peer in clusters_in(ClusterMask(self.options.dials & self.app.peers)):
                if self.app.managers.get(peer) == self.name:
                    yield peer

    def _is_wanted(self, peer: ClusterId, now_us: int) -> bool:
        link = self.app.links[peer]
        return link.is_on and not link.is_open and self._is_scheduled(peer, now_us)

    def _schedule(self, peer: ClusterId) -> LinkSchedule:
        return self.options.schedules.get(peer, Always())

    def _is_scheduled(self, peer: ClusterId, now_us: int) -> bool:
        schedule = self._schedule(peer)
        if not isinstance(schedule, OnDemand):
            return schedule.is_open(now_us + self.options.wall_offset_us)
        waiting = sum([one.waiting_for(peer) for one in self.app.sets.values() if peer in one.channels])
        if not waiting:
            self._waiting_since_us.pop(peer, None)
        since_us = self._waiting_since_us.setdefault(peer, now_us) if waiting else now_us
        connection = self.connection_to(peer)
        if connection is not None:
            return waiting > 0 or now_us < connection.busy_us + schedule.idle_us
        return self._connection_of(peer) is not None or schedule.is_due(waiting, since_us, now_us)

    def _close_lost(self) -> None:
        """What the state names, and this process has not, is over."""
        for peer, link in self.app.links.items():
            if not link.is_open or link.member != self.name or self._log.is_pending(("closed", peer)):
                continue
            if not any(link.is_of(one.dialer, one.generation) for one in self.connections.values()):
                self._log.submit(("closed", peer), LinkClosed(peer, link.dialer, link.generation))

    def _look_at(self, connection: Connection, now_us: int) -> None:
        if connection.is_silent(now_us):
            self.end(connection, "the other end is silent", now_us)
        elif connection.phase is ConnectionPhase.ORDERED:
            self._look_whether_open(connection, now_us)
        elif connection.phase is ConnectionPhase.OPEN:
            self._look_after(connection, now_us)

    def _look_whether_open(self, connection: Connection, now_us: int) -> None:
        if self._log.is_pending(("opened", connection.id)):
            return
        opened = connection.opened
        assert opened is not None, "it was submitted"
        if self.app.links[connection.peer].is_of(connection.dialer, connection.generation):
            connection.phase, connection.busy_us = ConnectionPhase.OPEN, now_us
            if connection.dialer == self.app.me:
                self._redial[connection.peer].succeeded()
            else:
                self._greet(connection, welcome=True)
            self._look_after(connection, now_us)
        else:
            reason = self.app.refusal(opened) or ("a later connection has come between", "use that one")
            self._refuse(connection, *reason, now_us)

    def _look_after(self, connection: Connection, now_us: int) -> None:
        peer = connection.peer
        if not self.app.links[peer].is_of(connection.dialer, connection.generation):
            self.end(connection, "the link is off, or another connection has taken over", now_us)
            return
        if connection.dialer == self.app.me and not self._is_scheduled(peer, now_us):
            self.end(connection, "the window is over", now_us)
            return
        key = "frames", connection.id
        if not self._log.is_pending(key):
            connection.logged(self.app.sets)
            frames = [encode_frame(one)[LENGTH_BYTES:] for one in connection.for_log(self.app.sets, now_us)]
            if frames:
                of = peer, connection.dialer, connection.generation
                self._log.submit(key, FramesReceived(*of, tuple(frames)))
        for frame in connection.due(self.app.sets, self.keeping.has_body, now_us):
            self._out.append(self._send(connection, frame))
        self._look_after_files(connection, now_us)

    def _send(self, connection: Connection, frame: LinkFrame) -> SendFrame | SendStored:
        if isinstance(frame, ParcelFrame) and frame.parcel.id not in self.app.sets[frame.set].bodies:
            return SendStored(connection.id, frame, (frame.set, frame.parcel.id))
        return SendFrame(connection.id, frame)

    def _look_after_files(self, connection: Connection, now_us: int) -> None:
        """Asks for files, and sends pieces of those that the other end has asked for."""
        peer, files = connection.peer, connection.files
        for ask in files.asks(self.app.wanted_files(peer), now_us):
            self._out.append(SendFrame(connection.id, ask))
            connection.sent_us = now_us
        for digest in list(files.pushes):
            kept = self.app.file_for(peer, digest)
            if kept is None:
                del files.pushes[digest]
                continue
            key = FileKey(digest, kept.attempt)
            for offset, size in files.next_pieces(digest, self.keeping.size_of(key)):
                self._out.append(SendPiece(connection.id, key, offset, size))
                connection.sent_us = connection.busy_us = now_us

    def ask(self, name: str, ask: AskForParcel) -> None:
        """Asks a peer for a parcel, if this process has the connection to it."""
        connection = self.connection_to(ask.to)
        if connection is not None:
            self._out.append(SendFrame(connection.id, WantFrame(name, ask.id)))

    def end_all(self, reason: str, now_us: int, only: Callable[[Connection], bool] = lambda _one: True) -> None:
        """Ends all connections, or some."""
        for connection in [one for one in self.connections.values() if only(one)]:
            self.end(connection, reason, now_us)

    def _open(self) -> Iterator[Connection]:
        return (one for one in self.connections.values() if one.phase is ConnectionPhase.OPEN)

    def _connection_of(self, peer: ClusterId) -> Connection | None:
        return next((one for one in self.connections.values() if one.peer == peer), None)
