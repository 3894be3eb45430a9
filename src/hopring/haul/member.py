"""A member of the long-haul service of one cluster: the log, the state behind it, and what it does outside.

Implements  Makpangou and Birman, 5.1: a process group in each cluster, whose members update their state alike;
            outside acts only by the member that manages the connection, or the set, concerned.
Below       a group of the cluster in one order, a disk, connections (member_events.py); blocks/log, which
            says what is accepted.
Above       drivers: processes, and the simulator.
Invariants  nothing is sent, acknowledged, handed over or answered that is not accepted. What it does outside
            follows from the state, not from the entry that led to it: another member goes on where this
            one stopped, and what is done twice has a number by which it is known.
"""

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from hopring.blocks.log.book import AppliedOperation
from hopring.blocks.log.events import (
    LogMessageShown,
    LogRefused,
    LogSessionLost,
    LogSignalShown,
    LogViewShown,
    RecordsSynced,
    SendToGroup,
    WriteRecords,
)
from hopring.blocks.log.member import AnswerLost, LogMember, LogSizes
from hopring.blocks.log.member import MemberOutput as LogMemberOutput
from hopring.blocks.log.messages import Aside, LogMessage, Operation
from hopring.blocks.log.records import SnapshotRecord
from hopring.blocks.log.replica import Replica
from hopring.haul.application import Act, ApplicationManager, AskPeer, BodyDropped, PeerRefused, RequestAnswered
from hopring.haul.entries import (
    ClientRequest,
    EntryBody,
    FileVerified,
    MembersServing,
    TimePassed,
    WideEntry,
    decode_entry,
    encode_entry,
)
from hopring.haul.handing import Handing
from hopring.haul.ids import ClusterId, ClusterMask
from hopring.haul.link.links import LinkOptions, MemberLinks
from hopring.haul.managed_set import SetOptions
from hopring.haul.member_events import (
    AnswerClient,
    CheckFile,
    CopySeen,
    Dialed,
    FileChecked,
    FrameArrived,
    GiveBody,
    GivePiece,
    MemberInput,
    MemberOutput,
    PeerConnected,
    PeerConnectionLost,
    RepresentativesChanged,
)
from hopring.haul.status import WideStatus, status_of
from hopring.haul.stored.bodies import BodyKey
from hopring.haul.stored.keeping import (
    BodiesWanted,
    BodyGiven,
    MemberFiles,
    PieceGiven,
    PieceWanted,
    StoreContents,
    body_message,
    decode_store_message,
    wanted_message,
)
from hopring.haul.stored.shelf import DropFile, FileKey, StoreFilePiece
from hopring.ids import NEVER
from hopring.links.events import Tick

LOG_NAME: Final = "hopring.wide"
"""The group of a cluster's members, and the name of their log."""

MEMORY_SPOOL_BYTES_MAX: Final = 256 * 1024 * 1024
"""The limit of what waits where bodies are in the memory of the members."""

GRACE_US: Final = 3_000_000
"""A member that does not serve for so long ends its connections: others take over."""


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """Which member of which cluster this is."""

    cluster: ClusterId
    peers: ClusterMask
    name: str
    members: tuple[str, ...]  # The configured ones of this cluster.


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """Options of a member and its parts."""

    sets: SetOptions = field(default_factory=SetOptions)
    links: LinkOptions = field(default_factory=LinkOptions)
    sizes: LogSizes = field(default_factory=lambda: LogSizes(keep=0))


class WideMember:
    """One process of the long-haul service."""

    def __init__(
        self,
        place: MemberPlace,
        replica: Replica,
        writer: str,
        options: MemberOptions,
        contents: StoreContents | None = None,
    ) -> None:
        """`replica` and `contents` have what is on disk; `writer` names this life of the process alone.

        Without `contents` the members of this cluster have no files beside their logs: bodies stay in memory
        and in snapshots, with a lower limit, and no files are taken.
        """
        self.place = place
        sets = options.sets if contents is not None else in_memory(options.sets)
        self.app = ApplicationManager(place.cluster, place.peers, sets)
        self.log = LogMember(replica, writer, self.app, options.sizes)
        self.keeping = MemberFiles(self.app, contents)
        self.links = MemberLinks(place.name, self.app, options.links, self, self.keeping)
        self.handing = Handing(place.name, self.app, self.keeping)
        self._checking: set[FileKey] = set()
        self._swept = False
        self._pending: dict[int, tuple[str, int]] = {}  # Entries of this member that are not applied.
        self._unserved_us = NEVER  # When its connections end, if it does not serve until then.
        self._now_us = 0
        self._ahead_us = 0  # How far the time of the state is ahead of this process's clock.
        self._out: list[MemberOutput] = []

    @property
    def serving(self) -> bool:
        """Whether a majority has the log in this view."""
        return self.log.replica.serving

    def step(self, event: MemberInput, now_us: int) -> list[MemberOutput]:
        """Handles an event; the outputs are carried out in their order."""
        self._now_us = now_us
        self._ahead_us = max(self._ahead_us, self.app.now_us - now_us)
        match event:
            case LogMessageShown(sender, message):
                self._shown(event, sender, message)
            case LogViewShown() | LogSignalShown() | LogSessionLost() | RecordsSynced():
                self._log_step(event)
            case FileChecked(key, fits):
                self._checked(key, fits=fits)
            case Dialed():
                self.links.dialed(event, now_us)
            case PeerConnected(connection):
                self.links.accepted(connection, now_us)
            case FrameArrived(connection, frame):
                self.links.arrived(connection, frame, now_us)
            case PeerConnectionLost(connection):
                self.links.lost(connection, now_us)
            case RepresentativesChanged(group, present):
                self.handing.changed(group, present=present)
            case CopySeen(name, number, present):
                self.handing.seen(name, number, present=present)
            case Tick():
                pass
        self._act()
        self._out += self.keeping.bodies.take()
        out, self._out = self._out, []
        return out

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        if not self.serving:
            return self._unserved_us
        times = [self.links.wake_at_us(self._now_us)]
        times.append(self.keeping.wake_at_us())
        if self.log.replica.keeps_time and not self.is_pending(("time", 0)):
            times.append(self._now_us + self.app.wake_at_us - self._shared_us)
        return min(times)

    @property
    def _shared_us(self) -> int:
        """The time of the state as this process has it: clocks of hosts differ, and it never falls."""
        return self._now_us + self._ahead_us

    def snapshot(self) -> WideStatus:
        """What this member shows of itself."""
        return status_of(self.app, self.place.name, self.handing.present, serving=self.serving)

    # The log.

    def submit(self, key: tuple[str, int], body: EntryBody) -> None:
        """Puts an entry into the log; it is repeated in each view until it is applied."""
        data = encode_entry(WideEntry(self._shared_us, body))
        number, outputs = self.log.submit(data)
        self._pending[number] = key
        self._take(outputs)

    def is_pending(self, key: tuple[str, int]) -> bool:
        """Whether the entry of a key is not applied yet."""
        return key in self._pending.values()

    def _shown(self, event: LogMessageShown, sender: str, message: LogMessage) -> None:
        """A message of the group: of its log, or from one member to another."""
        if isinstance(message, Aside):
            self._aside(sender, message)
        elif not isinstance(message, Operation):
            self._log_step(event)
        elif self._may_write(sender, message):
            self._log_step(event)
            self._repeated(message)

    def _may_write(self, sender: str, operation: Operation) -> bool:
        """Whether the log takes an operation: clients write their own requests, and members everything else.

        All members of a view decide alike: by the view, and by the message.
        """
        entry, at = decode_entry(operation.data), self.log.replica.at
        if entry is None:
            return False
        if isinstance(entry.body, ClientRequest):
            return (entry.body.client, entry.body.number) == (operation.writer, operation.number)
        return at is not None and sender in at.members

    def _log_step(
        self, event: LogViewShown | LogSignalShown | LogMessageShown | LogSessionLost | RecordsSynced
    ) -> None:
        if isinstance(event, LogSessionLost):
            self.handing.restart()
        self._take(self.log.step(event))

    def _take(self, outputs: list[LogMemberOutput]) -> None:
        for output in outputs:
            match output:
                case WriteRecords(records):
                    if any(isinstance(one, SnapshotRecord) for one in records):
                        self._out += self.keeping.store_bodies()
                    self._out.append(output)
                case SendToGroup() | LogRefused():
                    self._out.append(output)
                case AppliedOperation():
                    self._applied(output)
                case AnswerLost(number):
                    self._pending.pop(number, None)
                case _:
                    self.handing.restart()  # The state was replaced.
                    self._out += self.keeping.sweep()

    def _applied(self, applied: AppliedOperation) -> None:
        assert not applied.error, applied.error
        if applied.writer == self.log.writer:
            self._pending.pop(applied.number, None)
        assert applied.entry is not None, "no entry of the service has a condition"
        acts = applied.entry.result
        assert isinstance(acts, list), "what the application manager returns"
        for act in acts:
            self._carry_out(act)

    def _carry_out(self, act: Act) -> None:
        match act:
            case RequestAnswered(client, number, answer):
                if self.log.replica.keeps_time:
                    self._out.append(AnswerClient(client, number, answer))
            case StoreFilePiece():
                self._out += self.keeping.store(act)
            case DropFile(key):
                self._out += self.keeping.drop(key)
            case BodyDropped(body):
                self.keeping.bodies.drop(body)
            case AskPeer(name, ask):
                if self.serving:
                    self.links.ask(name, ask)
            case PeerRefused(peer, reason):
                connection = self.links.connection_to(peer)
                if connection is not None:
                    self.links.end(connection, reason, self._now_us)

    def _repeated(self, operation: Operation) -> None:
        """A client asks again for what is accepted: its answer was lost."""
        if operation.writer == self.log.writer or not self.log.replica.keeps_time:
            return
        if operation.number <= self.log.book.last_number(operation.writer):
            answer = self.app.answers.get(operation.writer, {}).get(operation.number)
            if answer is not None:
                self._out.append(AnswerClient(operation.writer, operation.number, answer))

    # What the state asks for.

    def _act(self) -> None:
        now_us, replica = self._now_us, self.log.replica
        at = replica.at
        if not self.serving or at is None:
            self._look_whether_over()
            self._out += self.links.take()
            return
        self._unserved_us = NEVER
        if not self.links.epoch:
            self.links.incarnation = incarnation_of(replica.image.log_id)
        self.links.epoch = at.epoch
        if not self._swept:
            self._swept = True
            self._out += self.keeping.sweep()
        if replica.keeps_time:
            self._keep(tuple(sorted(at.synced)), at.epoch)
        self._look_after_files(at.round)
        self.links.act(now_us)
        self._out += self.links.take()
        self._out += self.handing.due()
        for handed in self.handing.to_note():
            key = f"handed {handed.set}", 0
            if not self.is_pending(key):
                self.submit(key, handed)

    def _keep(self, here: tuple[str, ...], epoch: int) -> None:
        """The duties of one member of a view: who serves, and that time passes."""
        if (self.app.epoch, self.app.members) != (epoch, here) and not self.is_pending(("members", epoch)):
            self.submit(("members", epoch), MembersServing(epoch, here))
        if self.app.wake_at_us <= self._shared_us and not self.is_pending(("time", 0)):
            self.submit(("time", 0), TimePassed())

    # Files.

    def _look_after_files(self, round_name: str) -> None:
        """Asks other members for what is missing here; one of them checks files that are complete."""
        wanted = self.keeping.ask(self.place.name, self.app.members, self._now_us)
        bodies = self.keeping.ask_for_bodies(self.place.name, self.app.members, self._now_us)
        for one in (wanted, bodies):
            if one is not None:
                self._out.append(SendToGroup(wanted_message(round_name, one)))
        for digest, kept in self.app.shelf.files.items():
            key = FileKey(digest, kept.attempt)
            mine = self.log.replica.keeps_time and self.keeping.size_of(key) == kept.size_bytes
            pending = key in self._checking or self.is_pending(("verified", key.attempt))
            if mine and kept.is_complete and not kept.whole and not pending:
                self._checking.add(key)
                self._out.append(CheckFile(key))

    def _checked(self, key: FileKey, *, fits: bool) -> None:
        """The content of a file on this disk was compared with its digest."""
        self._checking.discard(key)
        if self.serving:
            self.submit(("verified", key.attempt), FileVerified(key, fits))

    def _aside(self, sender: str, aside: Aside) -> None:
        """Members ask each other for files, and give them."""
        at = self.log.replica.at
        if at is None or aside.round != at.round or sender not in at.members:
            return
        match decode_store_message(aside.data):
            case PieceWanted(to) as wanted if to == self.place.name:
                found = self.keeping.wanted(wanted)
                if found is not None:
                    self._out.append(GivePiece(at.round, wanted.key, *found))
            case PieceGiven() as given:
                self._out += self.keeping.given(given)
            case BodiesWanted(to, keys) if to == self.place.name:
                for key in keys:
                    self._give_body(at.round, key)
            case BodyGiven() as body:
                self._out += self.keeping.body_given(body)

    def _give_body(self, round_name: str, key: BodyKey) -> None:
        managed = self.app.sets.get(key[0])
        body = None if managed is None else managed.bodies.get(key[1])
        if body is not None:
            self._out.append(SendToGroup(body_message(round_name, key, body)))
        elif key in self.keeping.bodies.there:
            self._out.append(GiveBody(round_name, key))

    def _look_whether_over(self) -> None:
        """Without a majority nothing is sent; after a while the connections end."""
        self.links.epoch = 0
        if not self.links.connections:
            self._unserved_us = NEVER
        elif self._unserved_us == NEVER:
            self._unserved_us = self._now_us + GRACE_US
        elif self._now_us >= self._unserved_us:
            self._unserved_us = NEVER
            self.links.end_all("this member does not serve any more", self._now_us)


def in_memory(sets: SetOptions) -> SetOptions:
    """The options of sets at members without files beside their logs."""
    spool_bytes_max = min(sets.spool_bytes_max, MEMORY_SPOOL_BYTES_MAX)
    return replace(sets, spool_bytes_max=spool_bytes_max, files_bytes_max=0)


def incarnation_of(log_id: str) -> int:
    """The number of a cluster's state for its peers: another one if the log was begun anew."""
    return int.from_bytes(sha256(log_id.encode()).digest()[:8], "little") or 1
