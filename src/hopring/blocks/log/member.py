"""A member of a replicated log with its program: applies what is accepted, and sends what the program appends.

Below       replica.py, which says what is accepted.
Above       exchange.py, which binds it to a session; agents of the simulator.
Invariants  operations of this writer are sent in their order, and again at the beginning of each epoch until
            the writer knows what became of them: an operation is applied once, whatever is lost.
"""

from dataclasses import dataclass
from typing import Final

from hopring.blocks.log.book import AppliedOperation, OperationBook, StateMachine
from hopring.blocks.log.events import (
    AcceptEntry,
    Compact,
    LogInput,
    LogRefused,
    RestoreState,
    SendToGroup,
    WriteRecords,
)
from hopring.blocks.log.messages import Operation
from hopring.blocks.log.records import LogImage
from hopring.blocks.log.replica import Replica

COMPACT_ENTRIES: Final = 10_000
COMPACT_BYTES: Final = 16 * 1024 * 1024
"""With as many entries or bytes behind its last snapshot a member takes the next one."""

KEEP_DEFAULT: Final = 100_000
PENDING_MAX: Final = 10_000
"""Operations of one writer that are on their way."""


@dataclass(frozen=True, slots=True)
class LogSizes:
    """When a member takes a snapshot, and how many operations of the list it keeps."""

    compact_entries: int = COMPACT_ENTRIES
    compact_bytes: int = COMPACT_BYTES
    keep: int = KEEP_DEFAULT


@dataclass(frozen=True, slots=True)
class StateReplaced:
    """The state came from another member; operations before it were not applied one by one."""

    length: int


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """An operation was applied, but this member got the state without it: its result is not known."""

    number: int


MemberOutput = SendToGroup | WriteRecords | AppliedOperation | StateReplaced | AnswerLost | LogRefused


class LogMember:
    """One program's part in a replicated log."""

    def __init__(
        self,
        replica: Replica,
        writer: str,
        machine: StateMachine | None = None,
        sizes: LogSizes | None = None,
    ) -> None:
        self.replica = replica
        self.writer = writer
        self.sizes = sizes or LogSizes()
        self.book = OperationBook(machine, self.sizes.keep)
        self.pending: dict[int, Operation] = {}  # By number; what became of them is not known yet.
        self._number = 0
        self._snapshot_at = 0
        if replica.image.base:
            self.book.restore(replica.image.snapshot)

    @property
    def full(self) -> bool:
        """Whether too many operations are on their way."""
        return len(self.pending) >= PENDING_MAX

    def submit(self, data: bytes, at: int = -1) -> tuple[int, list[MemberOutput]]:
        """Sends an operation; returns its number, by which `AppliedOperation` names it."""
        assert not self.full, "look at `full` first"
        self._number += 1
        operation = Operation(self.writer, self._number, 0, data, at)
        self.pending[self._number] = operation
        return self._number, [self._send(operation)]

    def _send(self, operation: Operation) -> SendToGroup:
        return SendToGroup(replace_settled(operation, next(iter(self.pending)) - 1))

    def step(self, event: LogInput) -> list[MemberOutput]:
        """Handles an event; the outputs are carried out in their order."""
        out: list[MemberOutput] = []
        for output in self.replica.step(event):
            if isinstance(output, AcceptEntry):
                self._accepted(output, out)
            elif isinstance(output, RestoreState):
                self._restore(output, out)
            else:
                out.append(output)
        if self._due():
            self._snapshot_at = self.replica.accepted
            state = self.book.snapshot()
            more = self.replica.step(Compact(self.replica.accepted, state))
            out.extend([one for one in more if isinstance(one, SendToGroup | WriteRecords)])
        return out

    def _accepted(self, output: AcceptEntry, out: list[MemberOutput]) -> None:
        applied = self.book.apply(output.data)
        if applied is not None:
            if applied.writer == self.writer:
                self.pending.pop(applied.number, None)
            out.append(applied)
        at = self.replica.at
        if not output.data and at is not None and output.index == at.chosen_end + 1:
            self._send_again(out)

    def _restore(self, output: RestoreState, out: list[MemberOutput]) -> None:
        self.book.restore(output.state)
        out.append(StateReplaced(self.book.length))
        last = self.book.last_number(self.writer)
        for number in [one for one in self.pending if one <= last]:
            del self.pending[number]
            out.append(AnswerLost(number))
        self._send_again(out)

    def _send_again(self, out: list[MemberOutput]) -> None:
        """What was sent in an earlier view may be lost; what is not is recognized by its number."""
        out.extend([self._send(one) for one in self.pending.values()])

    def _due(self) -> bool:
        replica = self.replica
        behind = replica.accepted - max(replica.image.base, self._snapshot_at)
        if behind <= 0:
            return False
        return behind >= self.sizes.compact_entries or (
            replica.image.entry_bytes >= self.sizes.compact_bytes and behind * 4 >= len(replica.image.entries)
        )


def replace_settled(operation: Operation, settled: int) -> Operation:
    """The operation as it is sent now: its writer knows what became of all up to `settled`."""
    return Operation(operation.writer, operation.number, settled, operation.data, operation.at)


def log_member(
    log: str,
    name: str,
    members: tuple[str, ...],
    image: LogImage,
    writer: str,
    machine: StateMachine | None = None,
    sizes: LogSizes | None = None,
) -> LogMember:
    """A member with the state of its disk."""
    return LogMember(Replica(log, name, members, image), writer, machine, sizes)
