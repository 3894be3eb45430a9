"""Members of the long-haul service in the simulator: processes that end and begin again, and disks."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from hopring.blocks.log.events import (
    AcceptEntry,
    LogInput,
    LogOutput,
    LogRefused,
    LogSessionLost,
    RecordsSynced,
    SendToGroup,
    WriteRecords,
)
from hopring.blocks.log.messages import decode_operation
from hopring.blocks.log.records import (
    CutRecord,
    EntryRecord,
    FoundRecord,
    LogImage,
    LogRecord,
    OwnerRecord,
    SnapshotRecord,
    recovered,
)
from hopring.blocks.log.replica import Replica
from hopring.check.durable_log import (
    DurableLogEvent,
    EntriesSynced,
    EntryAccepted,
    LogAtEnd,
    MemberRefused,
    SnapshotSynced,
)
from hopring.client.events import Member
from hopring.haul.ids import ParcelId
from hopring.haul.link.frames import Bye, ChunkFrame, LinkFrame, Refuse
from hopring.haul.member import LOG_NAME, MemberPlace, WideMember
from hopring.haul.member_events import (
    AnswerClient,
    CheckFile,
    ConnectionId,
    Dialed,
    DialPeer,
    EndConnection,
    FileChecked,
    FrameArrived,
    GiveBody,
    GivePiece,
    HandOver,
    MemberInput,
    MemberOutput,
    PeerConnected,
    PeerConnectionLost,
    PlaceFile,
    SendFrame,
    SendPiece,
    SendStored,
)
from hopring.haul.stored.bodies import ForgetBodies, StoreBodies
from hopring.haul.stored.keeping import body_message, piece_message
from hopring.haul.stored.shelf import DropFile, FileKey, StoreFilePiece
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.sim.wide.disks import SimMemberDisk
from hopring.sim.wide.lan import LanEvent

if TYPE_CHECKING:
    from hopring.sim.wide.service import SimServiceCluster

SYNC_US: Final = (100, 3_000)
SLOW_SYNC_US: Final = 60_000
FULL_US: Final = 4_000_000
"""A disk that is full takes what it was given when there is room again, after this time."""

SLOW_SYNCS, FULL_DISKS = 0.02, 0.002


def shown(index: int, epoch: int, data: bytes) -> str:
    """An entry as the history names it."""
    operation = decode_operation(data)
    return (
        f"epoch {epoch} at {index}" if operation is None else f"{epoch}:{operation.writer}.{operation.number}"
    )


class WatchedReplica(Replica):
    """A member's log that says which entries it accepts, as the history needs them."""

    def __init__(self, place: MemberPlace, image: LogImage, watch: Callable[[int, int, bytes], None]) -> None:
        self._watch = watch
        super().__init__(LOG_NAME, place.name, place.members, image)

    def step(self, event: LogInput) -> list[LogOutput]:
        """Handles an event, and tells what is accepted."""
        outputs = super().step(event)
        for one in outputs:
            if isinstance(one, AcceptEntry):
                entry = self.image.entry(one.index)
                self._watch(one.index, entry.epoch, entry.data)
        return outputs


class SimMemberProcess:
    """One life of a member."""

    def __init__(self, home: "SimServiceCluster", name: str, life: int, disk: SimMemberDisk) -> None:
        self.home = home
        self.cluster = home.me
        self.host = name
        self.runs = True
        self.disk = disk
        self.session = Member(name, f"wide{life}", life, life)
        place = MemberPlace(home.me, home.peers, name, home.names)
        replica = WatchedReplica(place, recovered(disk.synced), self._accepted)
        options = home.options
        clock = replace(options.links, wall_offset_us=-home.skew_of(life))
        of = place, replica, f"{name}.{life}", replace(options, links=clock)
        self.core = WideMember(*of, disk.contents)
        self.skew_us = home.skew_of(life)
        self._bodies: dict[str, set[ParcelId]] = {}
        self._wake_at_us = NEVER

    # What happens to it.

    def show(self, event: LanEvent) -> None:
        """Something happens in the group of the members."""
        self.step(event)

    def connected(self, connection: ConnectionId) -> None:
        """Another cluster has connected to it."""
        self.step(PeerConnected(connection))

    def heard(self, connection: ConnectionId, frame: LinkFrame) -> None:
        """A frame of a connection arrives."""
        if isinstance(frame, Bye | Refuse):
            self.home.world.reasons[frame.reason] += 1
        self.step(FrameArrived(connection, frame))

    def ended(self, connection: ConnectionId) -> None:
        """One of its connections is lost."""
        self.step(PeerConnectionLost(connection))

    def lose_session(self) -> None:
        """The daemon is gone for a moment: another session follows."""
        self.step(LogSessionLost())

    def end(self) -> None:
        """The process ends, with what its disk has."""
        self.runs = False
        self._note_synced(self.disk.crash(self.home.dice))
        self.home.world.streams.crashed(self)

    def step(self, event: MemberInput) -> None:
        """Hands an event to the member, and carries out what it says."""
        if not self.runs:
            return
        world = self.home.world
        outputs = self.core.step(event, world.engine.now_us + self.skew_us)
        self._look_at_bodies()
        if outputs and self.home.world.watches_limits:
            self.home.note_limits(self)
        for output in outputs:
            self._carry_out(output)
        wake_at_us = self.core.wake_at_us - self.skew_us
        if wake_at_us < self._wake_at_us:
            self._wake_at_us = wake_at_us
            world.engine.at(max(world.engine.now_us + 1, wake_at_us), self._tick, wake_at_us)

    def _tick(self, planned_us: int) -> None:
        if planned_us == self._wake_at_us:
            self._wake_at_us = NEVER
            self.step(Tick())

    # What it does.

    def _carry_out(self, output: MemberOutput) -> None:
        home, streams = self.home, self.home.world.streams
        match output:
            case SendToGroup(message):
                home.lan.send(self.host, message)
            case WriteRecords(records):
                self._write(records)
            case DialPeer(peer):
                streams.dial(self, peer, lambda connection: self.step(Dialed(peer, connection)))
            case SendFrame(connection, frame):
                self._send(connection, frame)
            case SendPiece(connection, key, offset, size_bytes):
                self._send(connection, ChunkFrame(key.digest, offset, self.disk.piece(key, offset, size_bytes)))
            case EndConnection(connection, reason):
                home.note_end_of(reason)
                streams.send(self, connection, None)
            case HandOver(stored=key):
                whole = output if key is None else replace(output, body=self.disk.bodies[key], stored=None)
                home.hand_over(self, whole)
            case AnswerClient(client, number, answer):
                home.answer(self, client, number, answer)
            case LogRefused(reason):
                self._note(MemberRefused(self._now_us, self.host, reason))
            case StoreBodies() | ForgetBodies() | GiveBody() | SendStored():
                self._carry_out_body(output)
            case StoreFilePiece() | DropFile() | GivePiece() | CheckFile() | PlaceFile():
                self._carry_out_file(output)

    def _send(self, connection: ConnectionId, frame: LinkFrame) -> None:
        self.home.note_frame(self, connection, frame)
        self.home.world.streams.send(self, connection, frame)

    def _carry_out_file(self, output: StoreFilePiece | DropFile | GivePiece | CheckFile | PlaceFile) -> None:
        home, disk = self.home, self.disk
        match output:
            case StoreFilePiece():
                disk.store(output)
            case DropFile(key):
                disk.drop(key)
            case GivePiece(name, key, offset, size_bytes):
                home.lan.send(self.host, piece_message(name, key, offset, disk.piece(key, offset, size_bytes)))
            case CheckFile(key):
                home.world.engine.after(home.dice.randint(*SYNC_US), self._check, key)
            case PlaceFile(key, directory, place):
                disk.placed[f"{directory}/{place}"] = disk.content(key)

    def _carry_out_body(self, output: StoreBodies | ForgetBodies | GiveBody | SendStored) -> None:
        disk = self.disk
        match output:
            case StoreBodies(bodies):
                disk.store_bodies(bodies)
            case ForgetBodies(keys):
                disk.forget_bodies(keys)
            case GiveBody(name, key):
                self.home.lan.send(self.host, body_message(name, key, disk.bodies[key]))
            case SendStored(connection, frame, key):
                self._send(connection, replace(frame, body=disk.bodies[key]))

    def _check(self, key: FileKey) -> None:
        fits = sha256(self.disk.content(key)).digest() == key.digest
        self.step(FileChecked(key, fits))

    @property
    def _now_us(self) -> int:
        return self.home.world.engine.now_us

    def _note(self, event: DurableLogEvent) -> None:
        self.home.note_log(event)

    # Its disk.

    def _write(self, records: tuple[LogRecord, ...]) -> None:
        assert not self.disk.writing, "one write at a time"
        self.disk.write(records)
        dice = self.home.dice
        takes_us = dice.randint(*SYNC_US)
        if dice.random() < SLOW_SYNCS:
            takes_us = SLOW_SYNC_US
        elif dice.random() < FULL_DISKS:
            takes_us = FULL_US
        self.home.world.engine.after(takes_us, self._synced, records)

    def _synced(self, records: tuple[LogRecord, ...]) -> None:
        if not self.runs:
            return
        self.disk.sync(records)
        self.disk.writing = ()
        self._note_synced(records)
        self.step(RecordsSynced())

    def _note_synced(self, records: tuple[LogRecord, ...]) -> None:
        for one in records:
            if isinstance(one, EntryRecord):
                texts = [shown(index, *entry) for index, entry in enumerate(one.entries, one.start)]
                self._note(EntriesSynced(self._now_us, self.host, one.start, tuple(texts)))
            elif isinstance(one, CutRecord):
                self._note(EntriesSynced(self._now_us, self.host, one.end + 1, ()))
            elif isinstance(one, SnapshotRecord):
                texts = [shown(index, *entry) for index, entry in enumerate(one.entries, one.index + 1)]
                self._note(SnapshotSynced(self._now_us, self.host, one.index, tuple(texts)))

    def log_at_end(self) -> LogAtEnd:
        """What this member has in the end."""
        image = self.core.log.replica.image
        entries = [shown(at, one.epoch, one.data) for at, one in enumerate(image.entries, image.base + 1)]
        pending = len(self.core.log.pending)
        return LogAtEnd(self._now_us, self.host, self.host, "", image.base, tuple(entries), (), pending)

    # What the history needs.

    def _accepted(self, index: int, epoch: int, data: bytes) -> None:
        self._note(EntryAccepted(self._now_us, self.host, index, shown(index, epoch, data)))
        operation = decode_operation(data)
        if operation is not None:
            self.home.accepted_at.setdefault((operation.writer, operation.number), index)

    def _look_at_bodies(self) -> None:
        """Bodies come and go with accepted entries."""
        for name, managed in self.core.app.sets.items():
            # A parcel is here when its file is.
            had, have = self._bodies.get(name, set()), managed.kept.keys() - managed.parked.keys()
            if had == have:
                continue
            for parcel in sorted(have - had):
                self.home.note_logged(name, parcel)
            for parcel in sorted(had - have):
                self.home.note_dropped(name, parcel)
            self._bodies[name] = set(have)


def founded(name: str, names: tuple[str, ...]) -> list[LogRecord]:
    """The disk of a member whose log was begun before the world."""
    return [OwnerRecord(LOG_NAME, name, names), FoundRecord("earlier")]
