"""Events of the core of a replicated log, between a member's session, its disk, its program and the core."""

from dataclasses import dataclass

from hopring.blocks.log.messages import LogMessage
from hopring.blocks.log.records import LogRecord
from hopring.client.events import View

# Inputs.


@dataclass(frozen=True, slots=True)
class LogViewShown:
    """A view of the group, and the private group of this session."""

    view: View
    me: str


@dataclass(frozen=True, slots=True)
class LogSignalShown:
    """The view is closing: what is delivered from here on may be missing at others."""


@dataclass(frozen=True, slots=True)
class LogMessageShown:
    """A message in the order of the group."""

    sender: str  # The sender's private group.
    message: LogMessage


@dataclass(frozen=True, slots=True)
class RecordsSynced:
    """The records of the last `WriteRecords` are on disk."""


@dataclass(frozen=True, slots=True)
class LogSessionLost:
    """The session is gone; views of another one follow."""


@dataclass(frozen=True, slots=True)
class Compact:
    """The program's state after an accepted entry: it replaces this entry and all before."""

    index: int
    state: bytes


LogInput = LogViewShown | LogSignalShown | LogMessageShown | RecordsSynced | LogSessionLost | Compact

# Outputs, to be carried out in their order.


@dataclass(frozen=True, slots=True)
class SendToGroup:
    """A message to all members."""

    message: LogMessage


@dataclass(frozen=True, slots=True)
class WriteRecords:
    """Records to be written and synced; the next ones come after `RecordsSynced`."""

    records: tuple[LogRecord, ...]


@dataclass(frozen=True, slots=True)
class AcceptEntry:
    """A majority of the configured members has the entry on disk: it stays where it is, for ever."""

    index: int
    data: bytes  # Without data it is the beginning of an epoch.


@dataclass(frozen=True, slots=True)
class RestoreState:
    """The program's state at an accepted index, from another member: it replaces its own."""

    index: int
    state: bytes


@dataclass(frozen=True, slots=True)
class LogRefused:
    """This member cannot take part; the log of the others goes on."""

    reason: str
    remedy: str


LogOutput = SendToGroup | WriteRecords | AcceptEntry | RestoreState | LogRefused
