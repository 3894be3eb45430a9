"""Planted bugs of the replicated log: when an entry counts as accepted, who votes, whose log is chosen."""

from collections.abc import Callable
from typing import Any, Final

from hopring.blocks.log.book import AppliedOperation, OperationBook
from hopring.blocks.log.events import SendToGroup
from hopring.blocks.log.messages import LogMessage, Operation, Synced, decode_operation
from hopring.blocks.log.records import LogImage
from hopring.blocks.log.replica import LogAttempt, Replica
from hopring.sim.campaign.bugs.planting import Bug, block_bug


def told_from_memory(operation: Callable[..., None]) -> Any:
    """A member tells that what it has in memory is synced."""

    def told_at_once(self: Replica, at: LogAttempt, message: Operation) -> None:
        operation(self, at, message)
        if at.adopted and self.name:
            self._out.append(SendToGroup(Synced(at.round, at.epoch, self.image.end)))

    return told_at_once


def of_the_view(majority: property) -> Any:
    """A majority of the members of the view is enough."""
    del majority

    def majorityof_the_view(self: Replica) -> int:
        at = self.at
        names = set() if at is None else {one.name for one in at.tells.values() if one.name}
        return max(1, len(names) // 2 + 1)

    return property(majorityof_the_view)


def _empty_votes(begin: Callable[..., None]) -> Any:
    def with_a_vote(self: LogImage) -> None:
        begin(self)
        self.votes = True

    return with_a_vote


def behind_the_signal(message: Callable[..., None]) -> Any:
    """Messages behind a signal count as those before it."""

    def taken_at_any_time(self: Replica, sender: str, shown: LogMessage) -> None:
        at = self.at
        closing = at is not None and at.closing
        if at is not None:
            at.closing = False
        message(self, sender, shown)
        if at is not None:
            at.closing = closing

    return taken_at_any_time


def applied_again(apply: Callable[..., AppliedOperation | None]) -> Any:
    """A repeated operation is applied again."""

    def whatever_its_number(self: OperationBook, data: bytes) -> AppliedOperation | None:
        operation = decode_operation(data)
        if operation is not None:
            self._writers[operation.writer] = operation.number - 1
        return apply(self, data)

    return whatever_its_number


BUGS: Final[tuple[Bug, ...]] = (
    block_bug(
        "log",
        "accepted-before-sync",
        "property D2: nothing is told before it is on the disk",
        "a member says that an entry is synced when it has it in memory",
        ("hopring.blocks.log.replica:Replica._operation", told_from_memory),
    ),
    block_bug(
        "log",
        "minority-accepts",
        "property D2: a majority of the configured members accepts",
        "a majority of the members of the view is enough",
        ("hopring.blocks.log.replica:Replica.majority", of_the_view),
    ),
    block_bug(
        "log",
        "empty-disk-votes",
        "property D3: an emptied member votes for what it has forgotten",
        "a member has a vote from the beginning",
        ("hopring.blocks.log.records:LogImage.__init__", _empty_votes),
    ),
    block_bug(
        "log",
        "appended-behind-the-signal",
        "property D1: entries behind a signal may be missing at others",
        "messages behind a signal count as those before it",
        ("hopring.blocks.log.replica:Replica._message", behind_the_signal),
    ),
    block_bug(
        "log",
        "repeated-is-applied",
        "property D4: a writer repeats what may be lost",
        "an operation is applied as often as it is sent",
        ("hopring.blocks.log.book:OperationBook.apply", applied_again),
    ),
)
