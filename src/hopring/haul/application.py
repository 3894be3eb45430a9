"""The application manager: what all members of a cluster have in common, changed by the entries of their log.

Implements  Makpangou and Birman, 4 and 5.1: wide sets, conversations, channels, and who manages what.
Below       the replicated log, which hands in each accepted entry once, in one order, at every member.
Above       a member, which does outside what the state says: it sends, hands over, dials and answers.
Invariants  the state depends on the entries alone; its time is the highest time of a member's entry. A frame
            counts if it came by the connection that the state names, and is the next one of its channel. A
            connection counts if its generation is above all earlier ones of the cluster that dialled. An answer
            is kept until its client has it.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec

from hopring.errors import PeerError
from hopring.haul.calls import CALLS_MAX
from hopring.haul.entries import (
    Accepted,
    Answer,
    CallDoneRequest,
    CastRequest,
    ClientRequest,
    DoneRequest,
    EntryBody,
    FilePieceRequest,
    FileTaken,
    FileVerified,
    FramesReceived,
    HandedOver,
    LinkClosed,
    LinkOpened,
    MembersServing,
    SetJoinRequest,
    SwitchRequest,
    WideRequestRefused,
    decode_entry,
)
from hopring.haul.ids import (
    SETS_MAX,
    ClusterId,
    ClusterMask,
    ParcelId,
    Talk,
    clusters_in,
    clusters_mask,
    is_in,
    without,
)
from hopring.haul.link.frames import (
    FILE_BYTES_MAX,
    ChunkFrame,
    DescriptorsFrame,
    LinkFrame,
    LinkGeneration,
    ParcelFrame,
    ReceivedFrame,
    SetFrame,
    SetReceived,
    WantFrame,
    WideFile,
    decode_frame,
)
from hopring.haul.link.mastering import spread
from hopring.haul.managed_set import ManagedSet, SetOptions, managed_set_from
from hopring.haul.order.events import AskForParcel, Cast, CastKind, ChannelChanged, ParcelWanted
from hopring.haul.order.wide_set import ENTRY_MAX, WideSet
from hopring.haul.states import ClientState, LinkStateRecord, ManagerState
from hopring.haul.stored.bodies import BodyKey
from hopring.haul.stored.names import name_problem
from hopring.haul.stored.shelf import FileAct, FileKey, FileShelf, KeptFile
from hopring.links.events import Tick

CLIENTS_MAX: Final = 10_000
"""Clients whose answers are kept; the one that was silent for the longest time is forgotten."""

DURABLE_MAX: Final = 64
"""Durable consumers of a set in one cluster."""

NO_CLUSTER: Final = ClusterId(0)
NO_GENERATION: Final = LinkGeneration(0, 0)


@dataclass(slots=True)
class LinkState:
    """The connection to one peer, as the log has it."""

    is_on: bool = True
    is_open: bool = False
    dialer: ClusterId = NO_CLUSTER
    generation: LinkGeneration = NO_GENERATION
    member: str = ""  # Who has it here.
    incarnation: int = 0  # Of the peer's state; 0 until the first greeting.
    seen: dict[ClusterId, LinkGeneration] = field(default_factory=dict)  # The highest, by who dialled.
    drains: dict[str, int] | None = None  # Off when the peer has these numbers, by set.

    def is_of(self, dialer: ClusterId, generation: LinkGeneration) -> bool:
        """Whether this is the connection that counts."""
        return self.is_open and (self.dialer, self.generation) == (dialer, generation)


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """A client's request has its answer."""

    client: str
    number: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class AskPeer:
    """A peer is asked for a parcel, if there is a connection to it."""

    set: str
    ask: AskForParcel


@dataclass(frozen=True, slots=True)
class PeerRefused:
    """What a peer has sent cannot be: the connection ends."""

    peer: ClusterId
    reason: str


@dataclass(frozen=True, slots=True)
class BodyDropped:
    """Nobody needs the body of a parcel any more."""

    key: BodyKey


Act = RequestAnswered | AskPeer | PeerRefused | FileAct | BodyDropped


class ApplicationManager:
    """The state machine behind the log of a cluster's members."""

    def __init__(self, me: ClusterId, peers: ClusterMask, options: SetOptions | None = None) -> None:
        """`peers` are all other clusters of the clusters file."""
        assert not is_in(me, peers), "a cluster is not its own peer"
        self.me = me
        self.peers = peers
        self.options = options or SetOptions()
        self.bodies_beside = False  # Whether the member has files for bodies, which then are in no snapshot.
        self._clear()

    def _clear(self) -> None:
        self.now_us = 0
        self.epoch = 0
        self.members: tuple[str, ...] = ()
        self.managers: dict[ClusterId, str] = {}  # Who dials which peer.
        self.forwarders: dict[str, str] = {}  # Who hands the parcels of which set over.
        self.sets: dict[str, ManagedSet] = {}
        self.links = {one: LinkState() for one in clusters_in(self.peers)}
        self.answers: dict[str, dict[int, Answer]] = {}
        self.shelf = FileShelf(self.options.files_bytes_max, self.options.upload_us)
        self._acts: list[Act] = []

    @property
    def wake_at_us(self) -> int:
        """When time has to pass in the log."""
        return min([self.shelf.wake_at_us, *[one.core.wake_at_us for one in self.sets.values()]])

    def received_from(self, peer: ClusterId) -> tuple[SetReceived, ...]:
        """What this cluster has logged of a peer's frames."""
        with_peer = [one for one in self.sets.values() if peer in one.channels]
        return tuple([SetReceived(one.name, one.channels[peer].received) for one in with_peer])

    def apply(self, data: bytes) -> list[Act]:
        """Applies an accepted entry; returns what is to be done once, by those whom it concerns."""
        entry = decode_entry(data)
        if entry is None:
            return []
        if not isinstance(entry.body, ClientRequest):
            self.now_us = max(self.now_us, entry.at_us)
        self._dispatch(entry.body)
        for peer, link in self.links.items():
            self._look_whether_drained(peer, link)
        for one in self.sets.values():
            if one.core.wake_at_us <= self.now_us:
                one.step(Tick(), self.now_us)
            self._acts += [AskPeer(one.name, ask) for ask in one.asks]
            one.asks.clear()
            self._acts += [BodyDropped((one.name, parcel)) for parcel in one.dropped]
            one.dropped.clear()
        self.shelf.expire(self.now_us)
        self._acts += self.shelf.take()
        acts, self._acts = self._acts, []
        return acts

    def _dispatch(self, body: EntryBody) -> None:
        match body:
            case CastRequest() | SetJoinRequest() | DoneRequest() | SwitchRequest() | FilePieceRequest():
                self._request(body)
            case CallDoneRequest():
                self._request(body)
            case FileVerified(key, fits):
                self._verified(key, fits=fits)
            case FramesReceived():
                self._frames(body)
            case HandedOver(name, number, rewinds):
                managed = self.sets.get(name)
                if managed is not None and managed.rewinds == rewinds:
                    managed.hand_over(number)
            case LinkOpened():
                self._opened(body)
            case LinkClosed(peer, dialer, generation):
                link = self.links.get(peer)
                if link is not None and link.is_of(dialer, generation):
                    self._close(peer, link)
            case MembersServing(epoch, members):
                self._members(epoch, members)

    # Requests of clients.

    def _request(self, request: ClientRequest) -> None:
        match request:
            case CastRequest():
                answer = self._cast(request)
            case SetJoinRequest():
                answer = self._join(request)
            case DoneRequest():
                answer = self._done(request)
            case SwitchRequest():
                answer = self._switch(request)
            case FilePieceRequest():
                answer = self._take_piece(request)
            case CallDoneRequest():
                answer = self._call_done(request)
        kept = self.answers.pop(request.client, {})
        kept = {number: one for number, one in kept.items() if number > request.known}
        self.answers[request.client] = kept | {request.number: answer}
        if len(self.answers) > CLIENTS_MAX:
            del self.answers[next(iter(self.answers))]
        self._acts.append(RequestAnswered(request.client, request.number, answer))

    def _cast(self, request: CastRequest) -> Answer:
        managed = self.sets.get(request.set)
        if managed is None:
            return WideRequestRefused("NotInSet", f"{request.set} has not been joined in this cluster")
        participants = ClusterMask(request.participants or managed.clusters)
        if participants & ~managed.clusters or not is_in(self.me, participants):
            return WideRequestRefused(
                "NotInSet", f"the talk is not one of clusters of {request.set} with this one"
            )
        if not 0 <= request.entry <= ENTRY_MAX:
            return WideRequestRefused("WrongValue", f"entry points are 0 to {ENTRY_MAX}")
        to = request.to or None
        if to is not None and (request.kind is CastKind.ABCAST or not is_in(to, participants)):
            return WideRequestRefused("WrongValue", f"cluster {to} alone: of the talk, and by cbcast")
        if request.call and (number := managed.calls.made(request.call)) is not None:
            return Accepted(ParcelId(self.me, number))
        refused = _call_problem(request, managed)
        if refused is not None:
            return refused
        talk = Talk(participants, request.name)
        full = managed.full_towards(participants if to is None else clusters_mask([to]))
        if full is not None:
            limit = managed.options.spool_bytes_max
            return WideRequestRefused("WideFull", f"what waits for cluster {full} has reached {limit} bytes")
        file = request.file
        if file is not None and (problem := self._file_problem(file)) is not None:
            return WideRequestRefused("FileRefused", problem)
        cast = Cast(talk, request.kind, request.entry, to, request.answers)
        if request.call and to is not None:
            oldest = managed.calls.oldest_unnamed
            if managed.calls.is_full and oldest is not None:
                managed.end_call(oldest)
            managed.calls.open(request.call, managed.core.descriptors.known[self.me] + 1, to)
        of = cast, request.body, self.now_us
        return Accepted(managed.cast(*of, notify=request.notify, file=file, source=request.source))

    def _call_done(self, request: CallDoneRequest) -> Answer:
        managed = self.sets.get(request.set)
        if managed is None:
            return WideRequestRefused("NotInSet", f"{request.set} has not been joined in this cluster")
        managed.end_call(request.call)
        return Accepted()

    # Files.

    def _file_problem(self, file: WideFile) -> str | None:
        problem = name_problem(file.name)
        if problem is not None:
            return f"{file.name!r} is no name for a file: {problem}"
        kept = self.shelf.files.get(file.digest)
        if kept is None or not kept.whole or kept.size_bytes != file.size_bytes:
            return f"the file {file.digest.hex()[:12]} is not here: bring all of its pieces before"
        return None

    def _take_piece(self, request: FilePieceRequest) -> Answer:
        size_bytes, kept = request.size_bytes, self.shelf.files.get(request.digest)
        if not 0 <= size_bytes <= FILE_BYTES_MAX or not 0 <= request.offset <= size_bytes - len(request.data):
            return WideRequestRefused("FileRefused", f"a piece at {request.offset} of {size_bytes} bytes")
        if kept is None and not self.shelf.has_room(size_bytes):
            limit = self.options.files_bytes_max
            return WideRequestRefused("WideFull", f"files that are under way have reached {limit} bytes")
        if kept is not None and kept.size_bytes != size_bytes:
            reason = f"another file with this digest has {kept.size_bytes} bytes"
            return WideRequestRefused("FileRefused", reason)
        kept = self.shelf.begin(request.digest, size_bytes, self.now_us)
        self.shelf.put(request.digest, request.offset, request.data, self.now_us)
        return FileTaken(kept.offset, kept.whole)

    def _verified(self, key: FileKey, *, fits: bool) -> None:
        if self.shelf.verified(key, fits=fits):
            for managed in self.sets.values():
                managed.file_arrived(key.digest, self.now_us)

    def wanted_files(self, peer: ClusterId) -> list[tuple[bytes, int]]:
        """The files that a peer is to send, with what is here of each; none while the group here lags."""
        if sum([one.line_files_bytes for one in self.sets.values()]) >= self.options.files_bytes_max:
            return []
        found: dict[bytes, int] = {}
        for managed in self._sets_with(peer):
            for parcel, parked in managed.parked.items():
                kept = self.shelf.files[managed.files[parcel].digest]
                # Of those who have sent the parcel, the first one with a connection sends the file.
                first = next((one for one in parked.sources if self.links[one].is_open), None)
                if first == peer and not kept.whole:
                    found[managed.files[parcel].digest] = kept.offset
        return list(found.items())

    def file_for(self, peer: ClusterId, digest: bytes) -> KeptFile | None:
        """A file that is whole here, if a peer lacks a parcel with it."""
        kept = self.shelf.files.get(digest)
        if kept is None or not kept.whole:
            return None
        users = [(self.sets[name], parcel) for name, parcel in kept.users]
        return kept if any(one.lacks(peer, parcel) for one, parcel in users) else None

    def _join(self, request: SetJoinRequest) -> Answer:
        clusters = request.clusters
        if not is_in(self.me, clusters) or without(clusters, self.me) & ~self.peers:
            return WideRequestRefused("NotInSet", f"{request.set} is to have this cluster, and known ones only")
        managed = self.sets.get(request.set)
        if managed is None:
            if len(self.sets) >= SETS_MAX:
                return WideRequestRefused("WideFull", f"there are {SETS_MAX} sets")
            managed = self._make_set(request.set, clusters)
        elif managed.clusters != clusters:
            return WideRequestRefused("ClustersDiffer", _differ(request.set, managed.clusters, clusters))
        if request.durable and request.durable not in managed.durable and len(managed.durable) >= DURABLE_MAX:
            return WideRequestRefused("WideFull", f"there are {DURABLE_MAX} durable consumers")
        managed.group = request.group
        if not request.durable:
            return Accepted()
        managed.subscribe(request.durable)
        return Accepted(None, managed.durable[request.durable], managed.rewinds)

    def _done(self, request: DoneRequest) -> Answer:
        managed = self.sets.get(request.set)
        if managed is None or request.durable not in managed.durable:
            return WideRequestRefused("NotInSet", f"{request.durable} is no durable consumer of {request.set}")
        if request.leaves:
            managed.unsubscribe(request.durable)
        else:
            managed.done(request.durable, request.up_to)
        return Accepted()

    def _make_set(self, name: str, clusters: ClusterMask) -> ManagedSet:
        core = WideSet(self.me, clusters, self.options.wide, up=False)
        managed = self.sets[name] = ManagedSet(self.me, name, core, self.options, self.shelf)
        managed.introduce()
        for peer in managed.channels:
            if self.links[peer].is_open:
                managed.step(ChannelChanged(peer, up=True), self.now_us)
        self._share_out()
        return managed

    def _switch(self, request: SwitchRequest) -> Answer:
        link = self.links.get(request.peer)
        if link is None:
            return WideRequestRefused("NotInSet", f"there is no cluster {request.peer}")
        link.drains = None
        if request.drain and not request.on:
            link.drains = {one.name: one.channels[request.peer].sent for one in self._sets_with(request.peer)}
            self._look_whether_drained(request.peer, link)
            return Accepted()
        link.is_on = request.on
        if not request.on and link.is_open:
            self._close(request.peer, link)
        return Accepted()

    def _look_whether_drained(self, peer: ClusterId, link: LinkState) -> None:
        if link.drains is None:
            return
        if any(one.files_for(peer) for one in self._sets_with(peer)):
            return
        if all(self.sets[name].channels[peer].acked >= number for name, number in link.drains.items()):
            link.drains, link.is_on = None, False
            if link.is_open:
                self._close(peer, link)

    # Connections.

    def refusal(self, opened: LinkOpened) -> tuple[str, str] | None:
        """Why a greeting is refused, with a remedy; None if its connection may count."""
        link = self.links[opened.peer]
        if not link.is_on:
            return f"the link to cluster {opened.peer} is switched off", "switch it on at this end, too"
        if link.incarnation not in (0, opened.incarnation):
            return _lost(opened.peer)
        if opened.generation <= link.seen.get(opened.dialer, NO_GENERATION):
            return "there is a later connection", "use that one"
        told = dict(opened.received)
        for managed in self.sets.values():
            channel = managed.channels.get(opened.peer)
            known = told.get(managed.name, 0)
            if channel is not None and known > channel.sent:
                return _lost(opened.peer)
            if channel is not None and known < channel.acked:
                return _behind(opened.peer)
        return None

    def _opened(self, opened: LinkOpened) -> None:
        link = self.links.get(opened.peer)
        if link is None or self.refusal(opened) is not None:
            return
        told = dict(opened.received)
        was_open = link.is_open
        link.is_open, link.incarnation, link.member = True, opened.incarnation, opened.member
        link.dialer, link.generation = opened.dialer, opened.generation
        link.seen[opened.dialer] = opened.generation
        for managed in self._sets_with(opened.peer):
            managed.acknowledge(opened.peer, told.get(managed.name, 0))
            if not was_open:
                managed.step(ChannelChanged(opened.peer, up=True), self.now_us)

    def _close(self, peer: ClusterId, link: LinkState) -> None:
        link.is_open = False
        for managed in self._sets_with(peer):
            managed.step(ChannelChanged(peer, up=False), self.now_us)

    def _sets_with(self, peer: ClusterId) -> list[ManagedSet]:
        return [one for one in self.sets.values() if peer in one.channels]

    # Frames.

    def _frames(self, received: FramesReceived) -> None:
        link = self.links.get(received.peer)
        if link is None or not link.is_of(received.dialer, received.generation):
            return
        for data in received.frames:
            try:
                self._frame(received.peer, decode_frame(data))
            except PeerError as error:
                self._acts.append(PeerRefused(received.peer, str(error)))
                return

    def _frame(self, peer: ClusterId, frame: LinkFrame) -> None:
        match frame:
            case SetFrame():
                self._introduced(peer, frame)
            case ParcelFrame() | DescriptorsFrame():
                managed = self._set_of(peer, frame.set)
                if managed is not None:
                    managed.acknowledge(peer, frame.received)
                    if managed.takes(peer, frame):
                        managed.receive(peer, frame, self.now_us)
            case ReceivedFrame(received):
                for name, number in received:
                    managed = self._set_of(peer, name)
                    if managed is not None:
                        managed.acknowledge(peer, number)
            case ChunkFrame(digest, offset, piece):
                kept = self.shelf.files.get(digest)
                if kept is not None and offset + len(piece) <= kept.size_bytes:
                    self.shelf.put(digest, offset, piece, self.now_us)
            case WantFrame(name, parcel):
                managed = self._set_of(peer, name)
                if managed is not None:
                    managed.step(ParcelWanted(peer, parcel), self.now_us)

    def _set_of(self, peer: ClusterId, name: str) -> ManagedSet | None:
        managed = self.sets.get(name)
        return managed if managed is not None and peer in managed.channels else None

    def _introduced(self, peer: ClusterId, frame: SetFrame) -> None:
        managed = self.sets.get(frame.set)
        if managed is None:
            known = clusters_mask([self.me]) | self.peers
            fits = is_in(self.me, frame.clusters) and is_in(peer, frame.clusters)
            if not fits or frame.clusters & ~known or len(self.sets) >= SETS_MAX:
                return  # It waits there until a clusters file, or a limit, is another one.
            managed = self._make_set(frame.set, frame.clusters)
        if managed.clusters != frame.clusters:
            managed.disputed[peer] = frame.clusters
            return
        managed.disputed.pop(peer, None)
        managed.acknowledge(peer, frame.received)
        if managed.takes(peer, frame):
            managed.receive(peer, frame, self.now_us)

    # Members.

    def _members(self, epoch: int, members: tuple[str, ...]) -> None:
        if epoch < self.epoch or not members:
            return
        self.epoch, self.members = epoch, members
        self._share_out()
        for peer, link in self.links.items():
            if link.is_open and link.member not in members:
                self._close(peer, link)

    def _share_out(self) -> None:
        if self.members:
            self.managers = spread(self.managers, clusters_in(self.peers), self.members)
            self.forwarders = spread(self.forwarders, self.sets, self.members)

    # Snapshots.

    def snapshot(self) -> bytes:
        """The state as the bytes of a snapshot."""
        links = [
            LinkStateRecord(peer, *_of_link(one), sorted(one.seen.items()), one.drains)
            for peer, one in self.links.items()
        ]
        clients = [ClientState(name, list(answers.items())) for name, answers in self.answers.items()]
        shares = list(self.managers.items()), list(self.forwarders.items())
        sets = [one.state(with_bodies=not self.bodies_beside) for one in self.sets.values()]
        files = self.shelf.attempts, self.shelf.state()
        state = ManagerState(self.now_us, self.epoch, self.members, *shares, sets, links, clients, *files)
        return msgspec.msgpack.encode(state)

    def restore(self, state: bytes) -> None:
        """Replaces the state by that of a snapshot."""
        found = _states.decode(state)
        had = {(one.name, parcel): body for one in self.sets.values() for parcel, body in one.bodies.items()}
        self._clear()
        self.now_us, self.epoch, self.members = found.now_us, found.epoch, found.members
        self.managers, self.forwarders = dict(found.managers), dict(found.forwarders)
        self.shelf.restore(found.file_attempts, found.files)
        for one in found.sets:
            self.sets[one.name] = managed_set_from(self.me, one, self.options, self.shelf)
        for (name, parcel), body in had.items():
            if name in self.sets and parcel in self.sets[name].kept:
                self.sets[name].bodies[parcel] = body
        for link in found.links:
            of = link.dialer, link.generation, link.member, link.incarnation
            self.links[link.peer] = LinkState(link.is_on, link.is_open, *of, dict(link.seen), link.drains)
        self.answers = {one.name: dict(one.answers) for one in found.clients}


_states: Final = msgspec.msgpack.Decoder(ManagerState)


def _of_link(link: LinkState) -> tuple[int, bool, bool, ClusterId, LinkGeneration, str]:
    return link.incarnation, link.is_on, link.is_open, link.dialer, link.generation, link.member


def _call_problem(request: CastRequest, managed: ManagedSet) -> WideRequestRefused | None:
    """Why a cast can be no call, or no answer to one; None for other casts, too."""
    if (request.call or request.answers) and not request.to:
        return WideRequestRefused("WrongValue", "calls and their answers are for one cluster")
    if request.answers and (request.call or request.file is not None):
        return WideRequestRefused("WrongValue", "an answer is a message without a file")
    if request.answers > managed.core.descriptors.known.get(request.to, 0):
        reason = f"cluster {request.to} has not sent a message {request.answers} to {request.set}"
        return WideRequestRefused("NotInSet", reason)
    if request.call and managed.calls.is_full and managed.calls.oldest_unnamed is None:
        return WideRequestRefused("WideFull", f"there are {CALLS_MAX} open calls")
    return None


def _lost(peer: ClusterId) -> tuple[str, str]:
    reason = f"the state of cluster {peer} is not the one that this cluster knows: it was lost, or is a copy"
    return reason, f"bring the state of cluster {peer} back: what was under way is kept for it"


def _behind(peer: ClusterId) -> tuple[str, str]:
    """Either its greeting was overtaken by a connection that it had before, or its state is an older one."""
    reason = f"cluster {peer} knows less than it has acknowledged"
    return reason, f"greet again; if it stays so the state of cluster {peer} was lost: bring it back"


def _differ(name: str, had: ClusterMask, other: ClusterMask) -> str:
    both = [" ".join(map(str, clusters_in(one))) or "nobody" for one in (had, other)]
    return f"{name} is a set of the clusters {both[0]}, not {both[1]}"
