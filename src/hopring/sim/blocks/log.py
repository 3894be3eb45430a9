"""Agents with a replicated log: its core on simulated sessions and simulated disks.

Some agents are the configured members, each with a disk that outlives its process, the others are followers.
All append. Processes die one by one and all at once; a disk then loses all or a part of what was not synced.
Now and then a member's disk is emptied, if the disks of all other members have their whole log.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from hopring.blocks.log.book import AppliedOperation, StateMachine
from hopring.blocks.log.events import (
    AcceptEntry,
    LogInput,
    LogMessageShown,
    LogOutput,
    LogRefused,
    LogSessionLost,
    LogSignalShown,
    LogViewShown,
    RecordsSynced,
    SendToGroup,
    WriteRecords,
)
from hopring.blocks.log.member import AnswerLost, LogMember, LogSizes, StateReplaced
from hopring.blocks.log.messages import decode_message, decode_operation, encode_message
from hopring.blocks.log.records import (
    CutRecord,
    EntryRecord,
    FoundRecord,
    LogImage,
    LogRecord,
    OwnerRecord,
    SnapshotRecord,
    StoredEntry,
    recovered,
)
from hopring.blocks.log.replica import Replica
from hopring.check.durable_log import (
    AppendDone,
    DiskEmptied,
    DurableLogEvent,
    EntriesSynced,
    EntryAccepted,
    ListGrew,
    LogAtEnd,
    MemberRefused,
    OperationSubmitted,
    SnapshotSynced,
    check_durable_log,
)
from hopring.check.properties.property import Verdict
from hopring.client.events import Transition, View
from hopring.ids import GroupName, Place
from hopring.sim.block_cluster import AgentMessage, BlockAgent, BlockAgents, BlockKind, SimBlockCluster

SIZES: Final = LogSizes(compact_entries=15, compact_bytes=100_000, keep=10_000)
SYNC_US: Final = (100, 3_000)
SLOW_SYNC_US: Final = 60_000
SLOW_SYNCS: Final = 0.02
DEATHS, ALL_DIE, EMPTIED, CONDITIONAL = 0.01, 0.002, 0.003, 0.1
"""Shares of the actions; the others are operations without a condition."""

FOUNDED: Final = 0.85
"""In this share of the worlds the members have begun the log before; in the others all have to meet first."""

EAGER: Final = 0.2
"""In this share of the cases an agent appends although no majority has the log."""


def shown(index: int, epoch: int, data: bytes) -> str:
    """An entry as the history names it."""
    operation = decode_operation(data)
    return f"epoch {epoch} at {index}" if operation is None else f"{epoch}:{operation.data.decode()}"


class SimDisk:
    """The disk of one member: records that are synced, and one write at a time on its way."""

    def __init__(self) -> None:
        self.synced: list[LogRecord] = []
        self.writing: tuple[LogRecord, ...] = ()

    def crash(self, dice: Random) -> tuple[LogRecord, ...]:
        """Loses what is on its way, or keeps some of its beginning; returns that."""
        kept = self.writing[: dice.randint(0, len(self.writing))] if dice.random() < 0.5 else ()
        self.synced.extend(kept)
        self.writing = ()
        return kept


class ObservedReplica(Replica):
    """A member's core that says which entries it accepts, as the history needs them."""

    def __init__(self, agent: "LogAgent", members: tuple[str, ...], image: LogImage) -> None:
        self.agent = agent
        super().__init__("log", agent.member, members, image)

    def step(self, event: LogInput) -> list[LogOutput]:
        """Handles an event, and records what is accepted."""
        outputs = super().step(event)
        for one in outputs:
            if isinstance(one, AcceptEntry):
                entry = self.image.entry(one.index)
                self.agent.accepted(one.index, shown(one.index, entry.epoch, entry.data))
        return outputs


class LogAgent(BlockAgent):
    """One client process that appends to the log."""

    GROUP = GroupName("log")

    def __init__(self, agents: "LogAgents", number: int, dice: Random, member: str) -> None:
        super().__init__(agents.cluster, f"{self.GROUP}{number}", dice)
        self.member = member
        self.view = ""  # The last of the group.
        self.disk = SimDisk()
        if member and agents.founded:
            self.disk.synced = [OwnerRecord(str(self.GROUP), member, agents.names), FoundRecord("earlier")]
        self._agents = agents
        self._lives = 0
        self._operations = 0
        self._dying = False
        self._begin_life()

    def machine(self) -> StateMachine | None:
        """The program's machine; a new one for each life."""
        return None

    def _begin_life(self) -> None:
        self._lives += 1
        self._submitted: dict[int, str] = {}
        self.list: list[str] = []
        image = recovered(self.disk.synced)
        replica = ObservedReplica(self, self._agents.names, image)
        writer = f"{self.name}.{self._lives}"
        self.core = LogMember(replica, writer, self.machine(), SIZES)
        self._refresh_list()

    def _refresh_list(self) -> None:
        self.list = [decode_body(one) for one in self.core.book.kept]

    # The application.

    def act(self) -> None:
        """Appends an operation, dies, or lets all die."""
        chance = self.dice.random()
        if chance < DEATHS:
            self.die()
        elif chance < DEATHS + ALL_DIE:
            self._agents.all_die()
        elif chance < DEATHS + ALL_DIE + EMPTIED:
            self._lose_disk()
        elif self.core.replica.serving or self.dice.random() < EAGER:
            self.work(self.dice.random() < CONDITIONAL)

    def work(self, conditional: bool) -> None:
        """Appends an operation, sometimes one that is for a certain index."""
        at = max(0, self.core.book.length + self.dice.randint(-1, 1)) if conditional else -1
        self._operations += 1
        self.submit(f"{self.name}.{self._lives}.{self._operations}", at)

    def submit(self, text: str, at: int = -1) -> None:
        """Appends a text to the log."""
        self.note(OperationSubmitted(self.now_us, self.core.writer, text, at))
        number, outputs = self.core.submit(text.encode(), at)
        self._submitted[number] = text
        self._carry_out(outputs)

    def die(self) -> None:
        """Ends the process; another one begins with what the disk has."""
        self._dying = True
        if self.home is None:
            self._end_life()
        else:
            self.move()
        self._dying = False

    def _end_life(self) -> None:
        kept = self.disk.crash(self.dice)
        self._note_synced(kept)
        self._begin_life()

    def _lose_disk(self) -> None:
        others = [one for one in self._agents.agents if one.member and one is not self]
        if self.member and all(recovered(one.disk.synced).votes for one in others):
            self.die()
            self.disk.synced.clear()
            self.disk.writing = ()
            self.note(DiskEmptied(self.now_us, self.member))
            self._begin_life()

    # The session.

    def connected(self) -> None:
        """Joins the group of the log."""
        self.join(self.GROUP)

    def lost(self) -> None:
        """A process that lives goes on with its log."""
        if self._dying:
            self._end_life()
        else:
            self.step(LogSessionLost())

    def viewed(self, view: View) -> None:
        """A view of the group arrives."""
        self.view = str(view.id)
        self.step(LogViewShown(view, self.private_group))

    def signalled(self, signal: Transition) -> None:
        """A signal of the group arrives."""
        del signal
        self.step(LogSignalShown())

    def heard(self, sender: GroupName, _groups: tuple[GroupName, ...], payload: bytes, _place: Place) -> None:
        """A message of the log."""
        message = decode_message(payload)
        if message is not None:
            self.step(LogMessageShown(sender, message))

    # Outputs.

    def step(self, event: LogInput) -> None:
        """Steps the core, and carries out its outputs."""
        self._carry_out(self.core.step(event))

    def _carry_out(self, outputs: Sequence[object]) -> None:
        for output in outputs:
            if isinstance(output, SendToGroup):
                self.outbox.append(AgentMessage((self.GROUP,), encode_message(output.message)))
            elif isinstance(output, WriteRecords):
                self._write(output.records)
            elif isinstance(output, AppliedOperation):
                self.applied(output)
            elif isinstance(output, AnswerLost):
                self._submitted.pop(output.number, None)
            elif isinstance(output, LogRefused):
                self.note(MemberRefused(self.now_us, self.name, output.reason))
            elif isinstance(output, StateReplaced):
                # Operations behind the state, which are in the book already, follow as outputs.
                self._refresh_list()
                del self.list[output.length :]
        self.flush()

    def applied(self, output: AppliedOperation) -> None:
        """An operation is in the list, or is refused at its place."""
        own = output.writer == self.core.writer
        if output.entry is not None:
            text = output.entry.data.decode()
            self.note(ListGrew(self.now_us, self.name, output.entry.index, text))
            self.list.append(text)
        if own:
            text = self._submitted.pop(output.number, "")
            index = None if output.entry is None else output.entry.index
            read = "" if index is None else self.list[index]
            self.note(AppendDone(self.now_us, self.name, text, index, read))

    def _write(self, records: tuple[LogRecord, ...]) -> None:
        assert not self.disk.writing, "one write at a time"
        self.disk.writing = records
        slow = self.dice.random() < SLOW_SYNCS
        life = self._lives
        self.cluster.engine.after(
            SLOW_SYNC_US if slow else self.dice.randint(*SYNC_US), lambda: self._synced(life, records)
        )

    def _synced(self, life: int, records: tuple[LogRecord, ...]) -> None:
        if life != self._lives:
            return
        assert self.disk.writing is records, "one write at a time"
        self.disk.synced.extend(records)
        self.disk.writing = ()
        self._note_synced(records)
        self.step(RecordsSynced())

    def _note_synced(self, records: Sequence[LogRecord]) -> None:
        if not self.member:
            return
        for one in records:
            if isinstance(one, EntryRecord):
                texts = [shown(index, *entry) for index, entry in enumerate(one.entries, one.start)]
                self.note(EntriesSynced(self.now_us, self.member, one.start, tuple(texts)))
            elif isinstance(one, CutRecord):
                self.note(EntriesSynced(self.now_us, self.member, one.end + 1, ()))
            elif isinstance(one, SnapshotRecord):
                texts = [shown(index, *entry) for index, entry in enumerate(one.entries, one.index + 1)]
                self.note(SnapshotSynced(self.now_us, self.member, one.index, tuple(texts)))

    def accepted(self, index: int, entry: str) -> None:
        """The core accepts an entry."""
        self.note(EntryAccepted(self.now_us, self.name, index, entry))

    def note(self, event: DurableLogEvent) -> None:
        """Adds an event to the history of the log."""
        self._agents.history.append(event)

    def at_end(self) -> LogAtEnd:
        """What this agent has in the end."""
        image = self.core.replica.image
        entries = [shown(index, *StoredEntry(*one)) for index, one in enumerate(image.entries, image.base + 1)]
        of = self.now_us, self.name, self.member, self.view, image.base
        return LogAtEnd(*of, tuple(entries), tuple(self.list), len(self.core.pending))


def decode_body(data: bytes) -> str:
    """An operation of the list as text."""
    return data.decode()


class LogAgents(BlockAgents):
    """All agents with the log."""

    KIND: type[LogAgent] = LogAgent

    def __init__(self, cluster: SimBlockCluster) -> None:
        super().__init__(cluster)
        self.history: list[DurableLogEvent] = []
        self.names: tuple[str, ...] = ()
        self.founded = False
        self.agents: list[LogAgent] = []

    def make(self, count: int, dice: Random) -> list[LogAgent]:
        """Makes the agents: up to five members, the others followers."""
        members = min(count, dice.choice([3, 3, 5]))
        self.names = tuple([f"m{number}" for number in range(1, members + 1)])
        self.agents = []
        self.founded = dice.random() < FOUNDED
        for number in range(1, count + 1):
            member = f"m{number}" if number <= members else ""
            self.agents.append(self.KIND(self, number, dice, member))
        return self.agents

    def all_die(self) -> None:
        """Ends all processes at once."""
        for one in self.agents:
            one.die()

    def judge(self, quiet_end: bool) -> list[Verdict]:
        """The properties of the log."""
        ends = [one.at_end() for one in self.agents]
        return check_durable_log([*self.history, *ends], self.names, quiet_end)


LOG: Final = BlockKind("log", 120, LogAgents)
