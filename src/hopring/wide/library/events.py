"""Events of a set that was joined, and what a multicast returns."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hopring.wide.library.files import ReceivedFile, SentFile
    from hopring.wide.library.service import WideService
    from hopring.wide.library.sets import WideConversation


class WideId(NamedTuple):
    """The identity of a message: the cluster that sent it, and its number among those of this cluster."""

    cluster: str
    number: int

    def __str__(self) -> str:
        return f"{self.cluster}.{self.number}"


@dataclass(frozen=True, slots=True)
class WideMessage:
    """A message of a set."""

    set: str
    id: WideId
    sender: str  # The name of the session that sent it.
    data: bytes
    number: int  # The delivery number: of the line of this set in this cluster.
    entry: int  # The entry point.
    clusters: tuple[str, ...]  # The participants of its conversation.
    conversation: str  # The name of that; empty without one.
    to: tuple[str, ...]  # Its destinations.
    order: int | None  # The place of an abcast in the order of its conversation; None of a cbcast.
    file: "ReceivedFile | None" = None  # That came with it.
    call: str = ""  # The name of the call that it makes: somebody waits for an answer.


@dataclass(frozen=True, slots=True)
class Completed:
    """All destinations have a message of this cluster that was sent with `notify=True`."""

    set: str
    id: WideId
    number: int  # The delivery number of this event.
    file: "SentFile | None" = None  # That was sent with it; all have it now.


@dataclass(frozen=True, slots=True)
class WideGap:
    """Items that this session has not got: it was away, or on the other side of a split of its cluster."""

    set: str
    first: int  # Delivery numbers.
    last: int


@dataclass(frozen=True, slots=True)
class WideAnswer:
    """The answer to a call. It is kept until `done`, except of a call without a name of its own."""

    call: str
    cluster: str  # That has answered.
    sender: str  # The name of the session that did.
    data: bytes
    _conversation: "WideConversation" = field(repr=False, compare=False)

    async def done(self, *, timeout_seconds: float | None = None) -> None:
        """The caller has done with it: nothing is kept of the call, and its name makes another one."""
        await self._conversation.end_call(self.call, timeout_seconds=timeout_seconds)


WideEvent = WideMessage | Completed | WideGap


@dataclass(frozen=True, slots=True)
class WideReceipt:
    """A message is accepted: it is on the disks of a majority here, and is delivered whatever happens."""

    set: str
    id: WideId
    _service: "WideService" = field(repr=False, compare=False)
    file: "SentFile | None" = None

    async def everywhere(self, *, timeout_seconds: float | None = None) -> None:
        """Waits until all destinations have it on disk; NotEverywhere if that is not so in time.

        The source of a file that was sent with `delete_source` is deleted then, unless it has changed.
        """
        await self._service.until_everywhere(self.set, self.id, timeout_seconds)
        if self.file is not None and self.file.deletes:
            self.file.delete_source()
