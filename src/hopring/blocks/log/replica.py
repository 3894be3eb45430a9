"""A member of a replicated log: what a majority of the configured members has on disk is accepted, and stays.

Implements  the log of Raft (Ongaro, Ousterhout 2014), with the view of the group as election and its order as
            leader; promises as in Paxos.
Below       the events of one group in their order; a disk that takes records and says when they are synced.
Above       member.py, which applies accepted entries.
Invariants  an epoch belongs to one view. A member takes no entry of an epoch below the one that it promised.
            What is accepted is a beginning of every log that is chosen later. Nothing is told before it is
            synced.
Deviations  of Raft: nobody is elected; all members of a view append what its order brings, alike. Entries are
            void behind a signal, because others may not have them.

In a view each member tells what its disk has. Where a majority of the configured members has told, the number
of the epoch is known to all; each member promises it. Where a majority has promised, the best log of those
that have told is chosen, by its last epoch and its length. The others cut what differs, get what they lack,
add the entry that begins the epoch and then the operations of the view, and say how far these are synced.

A member whose disk is empty has no vote until its log is whole: it would vote for what it has forgotten. Only
if all configured members tell that they have no entry, they begin the log. Where all are together, fewer votes
are enough: so many that each majority that there was has one of them.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from hopring.blocks.log.events import (
    AcceptEntry,
    Compact,
    LogInput,
    LogMessageShown,
    LogOutput,
    LogRefused,
    LogSessionLost,
    LogSignalShown,
    LogViewShown,
    RecordsSynced,
    RestoreState,
    SendToGroup,
    WriteRecords,
)
from hopring.blocks.log.messages import (
    TABLE_MAX,
    EpochPromise,
    FillEntries,
    FillSnapshot,
    LogMessage,
    Operation,
    Synced,
    Tell,
    encode_message,
)
from hopring.blocks.log.records import (
    CutRecord,
    EntryRecord,
    FoundRecord,
    LogImage,
    LogRecord,
    OwnerRecord,
    PromiseRecord,
    SnapshotRecord,
    StoredEntry,
    VoteRecord,
    common_end,
)
from hopring.client.events import View

FILL_BYTES: Final = 32 * 1024
"""Entries for others go in messages of this size, one after the other."""

EARLY_MAX: Final = 100_000
"""Operations that wait until the log of their view is chosen; writers repeat those above the limit."""


@dataclass(slots=True)
class LogAttempt:
    """What a member knows of the present view."""

    round: str
    members: tuple[str, ...]  # Private groups of its sessions.
    closing: bool = False
    tells: dict[str, Tell] = field(default_factory=dict)  # By private group, in their order.
    unfit: set[str] = field(default_factory=set)  # Private groups whose reports do not count.
    epoch: int = 0  # Known where a majority has told.
    founds: str = ""  # The id of the log that is begun in this view, if one is.
    promises: set[str] = field(default_factory=set)  # Names of configured members.
    chosen: str = ""  # The private group of the member whose log was chosen.
    chosen_end: int = 0
    joint: bool = False  # Whether this member's log was cut to what it has in common with the chosen one.
    adopted: bool = False  # Whether this member has the whole chosen log.
    tail: list[StoredEntry] = field(
        default_factory=list
    )  # Entries of the view, while the log before them is not whole.
    synced: dict[str, int] = field(default_factory=dict)  # By name: entries of this epoch up to here.
    filling: tuple[int, int] | None = None  # What goes next: an index, or a part of the snapshot (-1, part).
    parts: list[bytes] = field(default_factory=list)  # Of a snapshot that arrives.


@dataclass(slots=True)
class DiskBatch:
    """Records on their way to the disk, and what is told when they are there."""

    records: list[LogRecord] = field(default_factory=list)
    then: list[EpochPromise] = field(default_factory=list)


class Replica:
    """One member, or a follower, whose name is empty: it has no vote, and its disk may be its memory."""

    def __init__(self, log: str, name: str, members: tuple[str, ...], image: LogImage) -> None:
        self.name = name
        self.members = members
        self.image = image
        self.accepted = image.base  # As far as this member knows.
        self.at: LogAttempt | None = None
        self.refused: LogRefused | None = None
        self._log = log
        self._me = ""
        self._told_end = 0  # The end of the log with the records that are being written.
        self._writing: DiskBatch | None = None
        self._next = DiskBatch()
        self._tell_due = False
        self._out: list[LogOutput] = []
        if image.owner is None:
            self._write(OwnerRecord(log, name, members))

    @property
    def majority(self) -> int:
        """The number of configured members that accept."""
        return len(self.members) // 2 + 1

    @property
    def serving(self) -> bool:
        """Whether a majority has the chosen log of this view: what is sent now is accepted soon."""
        at = self.at
        return at is not None and not at.closing and at.adopted and len(at.synced) >= self.majority

    @property
    def keeps_time(self) -> bool:
        """Whether this is the one member of the view whose clock counts."""
        return self.serving and self.at is not None and self.at.chosen == self._me

    def step(self, event: LogInput) -> list[LogOutput]:
        """Handles an event; the outputs are carried out in their order."""
        match event:
            case LogMessageShown(sender, message):
                self._message(sender, message)
            case RecordsSynced():
                self._records_synced()
            case LogViewShown(view, me):
                self._begin(view, me)
            case LogSignalShown():
                if self.at is not None:
                    self.at.closing = True
            case LogSessionLost():
                self.at, self._tell_due = None, False
            case Compact(index, state):
                self._compact(index, state)
        self._write_more()
        out, self._out = self._out, []
        return out

    # The disk.

    def _write(self, record: LogRecord, then: EpochPromise | None = None) -> None:
        self.image.take(record)
        self._next.records.append(record)
        if then is not None:
            self._next.then.append(then)

    def _write_more(self) -> None:
        if self._writing is not None:
            return
        if self._next.records:
            self._writing, self._next = self._next, DiskBatch()
            self._out.append(WriteRecords(tuple(self._writing.records)))
            # The log may be longer when they are synced; only these entries count then.
            self._told_end = self.image.end
        elif self._tell_due:
            self._tell()

    def _records_synced(self) -> None:
        assert self._writing is not None, "records were being written"
        batch, self._writing = self._writing, None
        at = self.at
        for promise in batch.then:
            if at is not None and promise.round == at.round:
                self._out.append(SendToGroup(promise))
        self._tell_synced(self._told_end)

    def _tell_synced(self, end: int) -> None:
        at = self.at
        if at is None or at.closing or not at.adopted or not self.name or self.refused is not None:
            return
        if end > at.chosen_end and self.image.promised == at.epoch:
            self._out.append(SendToGroup(Synced(at.round, at.epoch, end)))

    # The beginning of a view.

    def _begin(self, view: View, me: str) -> None:
        self._me = me
        self.at = LogAttempt(round_of(view), tuple([one.private_group for one in view.members]))
        self._tell_due = True

    def _tell(self) -> None:
        assert self.at is not None, "it is in a view"
        self._tell_due = False
        image = self.image
        of = self.name, self.members, image.log_id, image.votes, image.promised, image.base, image.end
        self._out.append(SendToGroup(Tell(self.at.round, *of, image.table()[-TABLE_MAX:])))

    def _message(self, sender: str, message: LogMessage) -> None:
        at = self.at
        if at is None or at.closing or self.refused is not None:
            return
        if isinstance(message, Operation):
            self._operation(at, message)
            return
        if message.round != at.round or sender not in at.members:
            return  # Of an earlier view: it has no meaning any more.
        match message:
            case Synced():
                self._member_synced(at, sender, message)
            case Tell():
                self._told(at, sender, message)
            case EpochPromise():
                self._promised(at, sender, message)
            case FillEntries():
                self._fill(at, sender, message)
            case FillSnapshot():
                self._fill_snapshot(at, sender, message)

    def _told(self, at: LogAttempt, sender: str, tell: Tell) -> None:
        if sender in at.tells or sender in at.unfit:
            return
        if not self._fits(at, sender, tell):
            at.unfit.add(sender)
            self._look_whether_alone(at)
            return
        at.tells[sender] = tell
        if at.epoch == 0:
            self._look_for_majority(at)
        if at.chosen:
            if sender == self._me:
                self._join_chosen(at)
            self._serve_fill(at, sender)

    def _fits(self, at: LogAttempt, sender: str, tell: Tell) -> bool:
        """Whether a member may take part; the others ignore one that may not."""
        if tell.members != self.members:
            return False
        if tell.name and tell.name in [one.name for one in at.tells.values()]:
            if sender == self._me:
                remedy = "give each program a name of its own"
                self._refuse(f"another program in this group is member {tell.name!r}", remedy)
            return False
        return True

    def _look_whether_alone(self, at: LogAttempt) -> None:
        if len(at.unfit) > len(at.tells) and len(at.unfit) + len(at.tells) == len(at.members):
            remedy = "give all programs of the log the same members, in the same order"
            self._refuse(
                f"most programs in this group name other members than {' '.join(self.members)}", remedy
            )

    def _refuse(self, reason: str, remedy: str) -> None:
        self.refused = LogRefused(reason, remedy)
        self._out.append(self.refused)

    def _look_for_majority(self, at: LogAttempt) -> None:
        told = list(at.tells.values())
        having = voters(told)
        all_here = {one.name for one in told if one.name} == set(self.members)
        founding = all_here and not any(one.end for one in told if one.name)
        # What a majority had is known to one of these, too; and nobody is left for another view.
        enough = all_here and len(having) > len(self.members) - self.majority
        if not founding and not enough and len(having) < self.majority:
            return
        at.epoch = 1 + max([max(one.promised, one.table[-1][0]) for one in told])
        if founding:
            # All may have begun it before, and have lost the first entry since: it stays the same log.
            at.founds = next((one.log_id for one in told if one.name and one.log_id), at.round)
        if self.name and founding:
            self._write(FoundRecord(at.founds))
        if self.name and (self.image.votes or enough) and self.image.promised < at.epoch:
            self._write(PromiseRecord(at.epoch), EpochPromise(at.round, at.epoch))

    def _promised(self, at: LogAttempt, sender: str, promise: EpochPromise) -> None:
        tell = at.tells.get(sender)
        if tell is None or not tell.name or promise.epoch != at.epoch or at.chosen:
            return
        at.promises.add(tell.name)
        if len(at.promises) < self.majority:
            return
        at.chosen = best_of(at.tells)
        at.chosen_end = at.tells[at.chosen].end
        # Operations of this view follow the entry that begins its epoch.
        at.tail.insert(0, StoredEntry(at.epoch, b""))
        at.tail = [StoredEntry(at.epoch, one.data) for one in at.tail]
        if self._me in at.tells:
            self._join_chosen(at)
        for one in list(at.tells):
            self._serve_fill(at, one)

    # The chosen log.

    def _join_chosen(self, at: LogAttempt) -> None:
        """Cuts what is not in the chosen log; goes on with it if nothing is missing."""
        chosen, image = at.tells[at.chosen], self.image
        if self.name and image.promised > at.epoch:
            return  # It came late, and has promised a later epoch: it waits for the next view.
        if image.log_id and image.end > 0 and chosen.log_id != image.log_id:
            self._refuse(
                f"{chosen.name} and the others have another log of this name",
                "move the directory away: the member then gets their log; a program without one starts again",
            )
            return
        if self.name and image.promised < at.epoch:
            self._write(PromiseRecord(at.epoch))
        end = common_end(image.table()[-TABLE_MAX:], image.end, chosen.table, chosen.end)
        at.joint = end >= 0
        if at.joint and end < image.end:
            assert end >= self.accepted, "what is accepted is in every log that is chosen"
            self._write(CutRecord(end))
            self._told_end = min(self._told_end, end)  # Of records that are being written.
        self._look_whether_whole(at)

    def _look_whether_whole(self, at: LogAttempt) -> None:
        image = self.image
        if at.adopted or not at.joint or image.end < at.chosen_end:
            return
        at.adopted = True
        log_id = at.founds or at.tells[at.chosen].log_id or image.log_id or at.round
        # A snapshot of later than the beginning of this epoch has some entries of the tail.
        rest = at.tail[image.end - at.chosen_end :]
        at.tail = []
        self._append(rest)
        if not self.name:
            image.log_id = log_id
        elif not image.votes:
            self._write(VoteRecord(log_id))
        self._look_whether_accepted(at)

    def _append(self, entries: list[StoredEntry]) -> None:
        if entries:
            self._write(EntryRecord(self.image.end + 1, tuple([(one.epoch, one.data) for one in entries])))

    def _operation(self, at: LogAttempt, operation: Operation) -> None:
        data = encode_message(operation)
        if at.adopted:
            self._append([StoredEntry(at.epoch, data)])
        elif at.chosen or len(at.tail) < EARLY_MAX:
            at.tail.append(StoredEntry(at.epoch, data))

    def _member_synced(self, at: LogAttempt, sender: str, message: Synced) -> None:
        tell = at.tells.get(sender)
        if tell is None or not tell.name or message.epoch != at.epoch or not at.chosen:
            return
        at.synced[tell.name] = max(at.synced.get(tell.name, 0), message.end)
        self._look_whether_accepted(at)

    def _look_whether_accepted(self, at: LogAttempt) -> None:
        if not at.adopted or len(at.synced) < self.majority:
            return
        end = min(sorted(at.synced.values(), reverse=True)[self.majority - 1], self.image.end)
        while self.accepted < end:
            self.accepted += 1
            self._out.append(AcceptEntry(self.accepted, self.image.entry(self.accepted).data))

    # Entries for members that lack them.

    def _serve_fill(self, at: LogAttempt, sender: str) -> None:
        """The chosen member sends what another one lacks; from an earlier index, if it was sending already."""
        if at.chosen != self._me:
            return
        tell, image = at.tells[sender], self.image
        end = common_end(tell.table, tell.end, image.table(), at.chosen_end)
        if end >= at.chosen_end:
            return
        start = (-1, 0) if end < image.base else (end + 1, 0)
        if at.filling is None:
            at.filling = start
            self._send_fill(at)
        else:
            at.filling = min(at.filling, start)

    def _send_fill(self, at: LogAttempt) -> None:
        assert at.filling is not None, "something is missing somewhere"
        image = self.image
        start, part = at.filling
        if start < 0 or start <= image.base:
            self._send_snapshot(at, part)
            return
        entries: list[tuple[int, bytes]] = []
        size_bytes, index = 0, start
        while index <= at.chosen_end and (not entries or size_bytes < FILL_BYTES):
            entries.append(image.entry(index))
            size_bytes += len(entries[-1][1])
            index += 1
        at.filling = (index, 0)
        self._out.append(SendToGroup(FillEntries(at.round, start, tuple(entries))))

    def _send_snapshot(self, at: LogAttempt, part: int) -> None:
        image = self.image
        data = image.snapshot[part * FILL_BYTES : (part + 1) * FILL_BYTES]
        last = (part + 1) * FILL_BYTES >= len(image.snapshot)
        at.filling = (image.base + 1, 0) if last else (-1, part + 1)
        of = image.base, image.base_epoch, part, last, data
        self._out.append(SendToGroup(FillSnapshot(at.round, *of)))

    def _go_on_filling(self, at: LogAttempt, sender: str) -> None:
        """The next part goes when the last one has come back, so that little is on its way."""
        if sender != self._me or at.filling is None:
            return
        if at.filling[0] > at.chosen_end:
            at.filling = None
        else:
            self._send_fill(at)

    def _fill(self, at: LogAttempt, sender: str, fill: FillEntries) -> None:
        if sender != at.chosen:
            return
        self._go_on_filling(at, sender)
        image = self.image
        missing = image.end + 1 - fill.start
        if at.adopted or not at.joint or not 0 <= missing < len(fill.entries):
            return
        self._append([StoredEntry(*one) for one in fill.entries[missing:]])
        self._look_whether_whole(at)

    def _fill_snapshot(self, at: LogAttempt, sender: str, fill: FillSnapshot) -> None:
        if sender != at.chosen:
            return
        self._go_on_filling(at, sender)
        image = self.image
        if at.adopted or self._me not in at.tells or (self.name and image.promised > at.epoch):
            return
        if (at.joint and image.end >= fill.index) or fill.part > len(at.parts):
            return
        at.parts = [*at.parts[: fill.part], fill.data]
        if fill.last:
            data, at.parts = b"".join(at.parts), []
            self._take_snapshot(at, fill, data)

    def _take_snapshot(self, at: LogAttempt, fill: FillSnapshot, data: bytes) -> None:
        owner = OwnerRecord(self._log, self.name, self.members)
        log_id = at.founds or at.tells[at.chosen].log_id
        # If entries behind the snapshot go with the others, it must not vote until it has them again.
        votes = self.image.votes and self.image.end <= fill.index
        of = votes, self.image.promised, fill.index, fill.epoch
        self._write(SnapshotRecord(owner, log_id, *of, data, ()))
        self._told_end = 0
        at.joint = True
        self.accepted = fill.index
        self._out.append(RestoreState(fill.index, data))
        self._look_whether_whole(at)

    # Compaction.

    def _compact(self, index: int, state: bytes) -> None:
        image = self.image
        if not image.base < index <= self.accepted:
            return
        at = self.at
        if at is not None and at.filling is not None:
            return  # Others still get entries: it is done the next time.
        owner = OwnerRecord(self._log, self.name, self.members)
        epoch = image.entry(index).epoch
        rest = tuple([(one.epoch, one.data) for one in image.entries[index - image.base :]])
        of = image.log_id, image.votes, image.promised, index, epoch
        self._write(SnapshotRecord(owner, *of, state, rest))


def voters(told: list[Tell]) -> set[str]:
    """The names of the members that have a vote."""
    return {one.name for one in told if one.votes and one.name}


def best_of(tells: dict[str, Tell]) -> str:
    """The member whose log is chosen: by its last epoch, then by its length, then by its name."""
    anybody = not voters(list(tells.values()))  # Where the log begins.
    able = [one for one, tell in tells.items() if tell.name and (tell.votes or anybody)]
    return min(able, key=lambda one: (-tells[one].table[-1][0], -tells[one].end, tells[one].name, one))


def round_of(view: View) -> str:
    """The name of a view, the same at all its members."""
    numbers = [*view.id.view, *[part for one in view.id.path for part in one], view.id.step]
    return sha256(" ".join(map(str, numbers)).encode()).hexdigest()[:16]
