"""Client processes of the long-haul service in the simulator: they send, answer, repeat, and die.

Each process has a name of its own; one that follows it after a crash has another. A process is a member of the
local group of each set, from its start to its end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from hopring.blocks.log.messages import Operation
from hopring.check.wide.history import (
    WideAccepted,
    WideFileSeen,
    WideFileSent,
    WideFinished,
    WideNotDone,
    WideSeen,
    WideSent,
    WideSourceGone,
    WideSwitched,
)
from hopring.haul.entries import (
    Accepted,
    Answer,
    CastRequest,
    ClientRequest,
    DoneRequest,
    FilePieceRequest,
    FileTaken,
    SetJoinRequest,
    SwitchRequest,
    WideEntry,
    encode_entry,
)
from hopring.haul.ids import ClusterId, ClusterMask, Talk, clusters_mask
from hopring.haul.link.frames import WideFile
from hopring.haul.managed_set import LineItem
from hopring.haul.member_events import HandOver
from hopring.haul.order.events import CastKind, Parcel
from hopring.sim.wide.calling import SimCalls

if TYPE_CHECKING:
    from hopring.sim.wide.service import SimServiceCluster

REPEAT_US: Final = 2_000_000
REPEAT_US_MAX: Final = 30_000_000
WORK_US: Final = 300_000
"""How long a durable consumer has an item in hand."""

UPLOAD_BYTES: Final = 700
"""Pieces of files that clients bring."""

COMPARED_US: Final = 200_000
"""A client asks again after this time whether its file is whole."""


@dataclass(slots=True)
class PendingRequest:
    """A request without an answer."""

    body: ClientRequest
    message: str
    wait_us: int = REPEAT_US


@dataclass(slots=True)
class SimUpload:
    """A file that a client brings, and the message that it comes with."""

    file: WideFile
    content: bytes
    spoils: bool  # The file changes while it is taken in: what is brought is not what the digest says.
    send: tuple[str, Talk, CastKind, int, ClusterId]
    offset: int = 0

    def piece(self) -> bytes:
        """The next piece that is to be brought."""
        piece = self.content[self.offset : self.offset + UPLOAD_BYTES]
        return bytes(reversed(piece)) if self.spoils else piece


@dataclass(slots=True)
class SimWideClient:
    """One life of a client process."""

    home: "SimServiceCluster"
    name: str
    host: str
    runs: bool = True
    number: int = 0  # Of its last request.
    pending: dict[int, PendingRequest] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)  # By set: the last delivery number.
    durable: str = ""  # The name of this consumer, if it gets again what it has not done with.
    begins: dict[str, int] = field(default_factory=dict)  # By set: the rewinds from which on it takes items.
    early: list[tuple[HandOver, tuple[str, str] | None]] = field(default_factory=list)
    finished: dict[str, int] = field(default_factory=dict)  # By set: what a durable consumer has done with.
    told: dict[str, int] = field(default_factory=dict)  # And what the service knows of that.
    uploads: dict[bytes, SimUpload] = field(default_factory=dict)  # By digest.
    calls: SimCalls = field(init=False)

    def __post_init__(self) -> None:
        self.calls = SimCalls(self)

    @property
    def known(self) -> int:
        """It has the answers to all requests up to this number."""
        return min(self.pending, default=self.number + 1) - 1

    def names(self) -> Iterator[str]:
        """The sets of the world."""
        return iter(self.home.world.sets)

    # Requests.

    def join(self, name: str, clusters: ClusterMask) -> None:
        """Names the local group of a set."""
        self.number += 1
        self._ask(SetJoinRequest(self.name, self.number, 0, name, name, clusters, self.durable), "")

    def regrouped(self) -> None:
        """The network has changed: a durable consumer may have missed items, and joins again."""
        for name in list(self.begins) if self.durable else ():
            del self.begins[name]
            self.join(name, self.home.world.sets[name])

    def switch(self, peer: ClusterId, *, on: bool, drain: bool = False) -> None:
        """Switches a link on or off, or drains it."""
        self.number += 1
        self.home.switched[peer] = self.name, self.number
        if on:
            self.home.note(WideSwitched(self.home.me, peer, on=True))
        self._ask(SwitchRequest(self.name, self.number, 0, peer, on, drain), "")

    def upload(self, upload: SimUpload) -> None:
        """Brings a file, and then sends the message with it; one with the same content at a time."""
        if upload.file.digest not in self.uploads:
            self.uploads[upload.file.digest] = upload
            self._bring(upload.file.digest)

    def _bring(self, digest: bytes) -> None:
        upload = self.uploads.get(digest)
        if upload is not None and self.runs:
            self.number += 1
            size_bytes, piece = upload.file.size_bytes, upload.piece()
            request = self.name, self.number, 0, digest, size_bytes, upload.offset, piece
            self._ask(FilePieceRequest(*request), "")

    def _brought(self, digest: bytes, answer: FileTaken) -> None:
        """So much of a file is in the service."""
        upload = self.uploads.get(digest)
        if upload is None:
            return
        if answer.whole:
            del self.uploads[digest]
            self.send(*upload.send, notify=True, file=upload.file)
        elif upload.spoils and answer.offset < upload.offset:
            del self.uploads[digest]  # It was not what its digest says.
        else:
            upload.offset = answer.offset
            complete = answer.offset == upload.file.size_bytes
            self.home.world.engine.after(COMPARED_US if complete else 1, self._bring, digest)

    def send(
        self,
        name: str,
        talk: Talk,
        kind: CastKind,
        entry: int,
        to: ClusterId,
        *,
        notify: bool,
        file: WideFile | None = None,
    ) -> None:
        """Sends a message to a talk, or to one of its clusters, perhaps with a file that was brought."""
        self.number += 1
        message = f"{self.name}:{self.number}"
        destinations = clusters_mask([to]) if to else talk.participants
        of = name, talk, kind, destinations, entry, self.number, notify
        self.home.note(WideSent(self.name, self.home.me, message, *of))
        if file is not None:
            self.home.note(WideFileSent(message, name, file.name, file.digest.hex()))
            self.home.sources[message] = message
        request = self.name, self.number, 0, name, talk.participants, talk.name, kind, entry, to
        body = message.encode().ljust(self.home.world.body_bytes, b" ")
        self._ask(CastRequest(*request, body, notify, file, "" if file is None else message), message)

    def ask(self, body: ClientRequest, message: str) -> None:
        """Sends a request of the number that it was given."""
        self._ask(body, message)

    def _ask(self, body: ClientRequest, message: str) -> None:
        self.pending[self.number] = PendingRequest(body, message)
        self._send(self.number)

    def _send(self, number: int) -> None:
        """Sends a request, and again as long as it has no answer."""
        request = self.pending.get(number)
        if request is None or not self.runs:
            return
        self._multicast(number, request)
        self.home.world.engine.after(request.wait_us, self._send, number)
        request.wait_us = min(REPEAT_US_MAX, 2 * request.wait_us)

    def _multicast(self, number: int, request: PendingRequest) -> None:
        body = _with_known(request.body, self.known)
        data = encode_entry(WideEntry(self.home.world.engine.now_us, body))
        self.home.lan.send(self.host, Operation(self.name, number, self.known, data))

    def answered(self, number: int, answer: Answer) -> None:
        """A member of the service answers."""
        request = self.pending.pop(number, None)
        if request is None or not self.runs:
            return
        if isinstance(answer, FileTaken):
            if isinstance(request.body, FilePieceRequest):
                self._brought(request.body.digest, answer)
            first = min(self.pending, default=0)
            if first:  # Those behind a request that was lost were taken for early.
                self._multicast(first, self.pending[first])
            return
        self.calls.told(request.body, answer)
        if not isinstance(answer, Accepted):
            if isinstance(request.body, FilePieceRequest):
                self.uploads.pop(request.body.digest, None)
            self.home.world.refusals[answer.kind] += 1
            if request.message:
                self.home.note(WideNotDone(self.name, request.message))
            return
        if isinstance(request.body, SetJoinRequest) and self.durable:
            self._begin(request.body.set, answer)
        elif isinstance(request.body, DoneRequest):
            self._tell_finished(request.body.set)
        elif isinstance(request.body, CastRequest) and request.message:
            on_disk, members = self.home.having(self.name, number), len(self.home.names)
            assert answer.parcel is not None, "of a parcel"
            self.home.note(WideAccepted(self.name, request.message, answer.parcel, on_disk, members))
        elif isinstance(request.body, SwitchRequest):
            body = request.body
            # Unless somebody has asked for it to be on meanwhile.
            if not body.on and not body.drain and self.home.switched[body.peer] == (self.name, number):
                self.home.note(WideSwitched(self.home.me, body.peer, on=False))

    # Events of its groups.

    def take(self, hand: HandOver, read: tuple[str, str] | None) -> None:
        """An item of a set, in the stream of its session; `read` is path and digest of its file."""
        if not self.durable:
            if hand.item.number > self.last.get(hand.set, 0):
                self._take(hand.set, hand.item, hand.body, read)
        elif hand.set not in self.begins:
            self.early.append((hand, read))  # It does not know yet where it begins.
        elif hand.rewinds >= self.begins[hand.set] and hand.item.number == self.last[hand.set] + 1:
            self._take(hand.set, hand.item, hand.body, read)

    def _begin(self, name: str, answer: Accepted) -> None:
        """A durable consumer learns where it begins."""
        self.begins[name], self.last[name] = answer.rewinds, max(self.last.get(name, 0), answer.done)
        early, self.early = self.early, []
        for hand, read in early:
            self.take(hand, read)

    def _take(self, name: str, item: LineItem, body: bytes, read: tuple[str, str] | None) -> None:
        self.last[name] = item.number
        message = body.decode().rstrip()
        of = self.name, self.home.me, name, item.number, message, item.parcel, item.everywhere
        self.home.note(WideSeen(*of))
        if read is not None:
            self.home.note(WideFileSeen(self.name, self.home.me, name, message, *read))
        if item.parcel is None and item.file is not None and self.home.sources.pop(item.file.source, ""):
            self.home.note(WideSourceGone(self.home.me, item.file.source))
        if item.parcel is not None:
            self.home.world.when_seen(self, name, item.parcel)
            self.calls.serve(name, message, item.parcel)
        if self.durable:
            self.home.world.engine.after(WORK_US, self._finish, name, item.number)

    def _finish(self, name: str, number: int) -> None:
        """A durable consumer has done with an item; until then it dies with it in hand."""
        if self.runs:
            self.home.note(WideFinished(self.durable, self.home.me, name, number))
            self.finished[name] = number
            self._tell_finished(name)

    def _tell_finished(self, name: str) -> None:
        if any(isinstance(one.body, DoneRequest) and one.body.set == name for one in self.pending.values()):
            return
        number = self.finished.get(name, 0)
        if number > self.told.get(name, 0):
            self.told[name] = number
            self.number += 1
            self._ask(DoneRequest(self.name, self.number, 0, name, self.durable, number), "")


def nothing(_client: SimWideClient, _name: str, _parcel: Parcel) -> None:
    """The default for what a client does with a message."""


def _with_known(body: ClientRequest, known: int) -> ClientRequest:
    return msgspec.structs.replace(body, known=known)
