"""The list of applied operations of a replicated log, and the program's machine behind it.

Invariants  it changes by accepted entries alone, in their order: it is the same at all members. An operation
            of a writer is applied once, after all earlier ones of that writer; a repeated one changes nothing.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import msgspec

from hopring.blocks.log.messages import Operation, decode_operation

WRITERS_MAX: Final = 10_000
"""Writers whose last number is remembered; the one that was silent for the longest time is forgotten."""


@runtime_checkable
class StateMachine(Protocol):
    """The program's state: `apply` must do the same at all members, and only by its argument."""

    def apply(self, data: bytes) -> object:
        """Applies an operation; the result goes to its writer."""
        ...

    def snapshot(self) -> bytes:
        """The state as the bytes of a snapshot."""
        ...

    def restore(self, state: bytes) -> None:
        """Replaces the state by that of a snapshot."""
        ...


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An applied operation of a replicated log, and what the machine made of it at this member."""

    index: int  # In the list, from 0.
    data: bytes
    result: object = None


@dataclass(frozen=True, slots=True)
class AppliedOperation:
    """What became of an operation at its place."""

    writer: str
    number: int
    entry: LogEntry | None  # None: its condition did not hold, or the machine failed.
    error: str = ""  # Of a machine that failed.


class BookState(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot of the list and the machine."""

    length: int
    kept: tuple[bytes, ...]
    writers: tuple[tuple[str, int], ...]
    machine: bytes


_states: Final = msgspec.msgpack.Decoder(BookState)


class OperationBook:
    """The applied operations, of which the last ones are kept to be read."""

    def __init__(self, machine: StateMachine | None, keep: int) -> None:
        self.length = 0
        self.kept: deque[bytes] = deque(maxlen=keep)
        self._machine = machine
        self._writers: dict[str, int] = {}  # The number of the last operation; the last writer is the last.
        self._initial = b"" if machine is None else machine.snapshot()

    @property
    def first(self) -> int:
        """The index of the oldest operation that is kept."""
        return self.length - len(self.kept)

    def last_number(self, writer: str) -> int:
        """The number of the writer's last operation, 0 if there is none."""
        return self._writers.get(writer, 0)

    def apply(self, data: bytes) -> AppliedOperation | None:
        """Applies an accepted entry; None if it changes nothing: repeated, or before its turn."""
        operation = decode_operation(data)
        if operation is None:
            return None
        last = self._writers.get(operation.writer, operation.settled)
        if operation.number != max(last, operation.settled) + 1:
            return None
        self._writers.pop(operation.writer, None)
        self._writers[operation.writer] = operation.number
        if len(self._writers) > WRITERS_MAX:
            del self._writers[next(iter(self._writers))]
        if operation.at not in (-1, self.length):
            return AppliedOperation(operation.writer, operation.number, None)
        return self._put(operation)

    def _put(self, operation: Operation) -> AppliedOperation:
        result: object = None
        error = ""
        if self._machine is not None:
            try:
                result = self._machine.apply(operation.data)
            except Exception as raised:  # Whatever the program raises: alike at all members.
                error = f"{type(raised).__name__}: {raised}" if str(raised) else type(raised).__name__
        entry = LogEntry(self.length, operation.data, result)
        self.length += 1
        self.kept.append(operation.data)
        return AppliedOperation(operation.writer, operation.number, None if error else entry, error)

    def snapshot(self) -> bytes:
        """The state after the operations so far."""
        machine = b"" if self._machine is None else self._machine.snapshot()
        state = BookState(self.length, tuple(self.kept), tuple(self._writers.items()), machine)
        return msgspec.msgpack.encode(state)

    def restore(self, state: bytes) -> None:
        """Replaces the state; no bytes are the state of before the first operation."""
        found = _states.decode(state) if state else BookState(0, (), (), self._initial)
        if self._machine is not None:
            self._machine.restore(found.machine)
        self.length = found.length
        self.kept.clear()
        self.kept.extend(found.kept)
        self._writers = dict(found.writers)
